"""What is loaded when somebody starts: the first optimized call brings in the engine alone, a test no model and no browser."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from source_tree import ROOT

ABOVE = ("recording", "views", "second_opinion", "session", "tools", "watch", "lenses", "widgets")
FIRST_CALL = """
import json, sys, torch
importers = set()
class Importers:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("torch._dynamo"):
            frame = sys._getframe(1)
            while "importlib" in frame.f_code.co_filename:
                frame = frame.f_back
            importers.add(frame.f_globals["__name__"])
sys.meta_path.insert(0, Importers())
import dynexplore
def f(x):
    return (x + 1).sin() * 2
graphs = []
def backend(graph, inputs):
    graphs.append(graph)
    return graph
dynexplore.optimize("eager")(f)(torch.ones(3))
dynexplore.optimize(backend)(f)(torch.ones(3))
loaded, importers = sorted(sys.modules), sorted(importers)
import dynexplore.widgets.display
print(json.dumps([len(graphs), [loaded, sorted(sys.modules), importers]]))
"""
COLLECT = """
import json, sys, pytest
class Seen:
    def pytest_collection_finish(self, session):
        self.items = len(session.items)
    def pytest_terminal_summary(self):
        self.names = sorted(sys.modules)
seen = Seen()
pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[seen])
print("\\n" + json.dumps([seen.items, seen.names]))
"""
HEAVY = (
    "transformers",
    "timm",
    "torchvision",
    "playwright",
    "matplotlib",
    "pandas",
    "scipy",
    "IPython",
    "ipywidgets",
    "nbformat",
    "jsonschema",
    "anyio",
    "hypothesis",
)


def loaded(code: str, *words: str) -> tuple[int, Any]:
    """What the code counted, and the modules that were in its process."""
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, cwd=ROOT)
    count, names = json.loads(done.stdout.splitlines()[-1])
    return count, names


def test_who_starts_loads_what_is_needed_and_no_more() -> None:
    """A first optimized call loads no room that looks at the engine, and of torch no minifier; what it loads of torch._dynamo is
    asked for by torch's own modules (FakeTensorMode reads its configuration). A first explorer loads neither what shows several
    ranks nor what shows two engines."""
    graphs, (names, shown, importers) = loaded(FIRST_CALL)
    others = ("dynexplore.ranks", "dynexplore.two_engines", "dynexplore.watching", "dynexplore.lenses")
    assert [name for name in shown if name.startswith(others)] == [] and "dynexplore.widgets.explorer" in shown
    assert graphs == 1
    above = tuple(f"dynexplore.{room}" for room in ABOVE)
    assert [name for name in names if name.startswith(above)] == []
    assert [name for name in names if name.startswith("dynexplore.cli")] == []
    assert "torch._functorch.fx_minifier" not in names
    assert "torch._subclasses.fake_tensor" in importers
    assert [name for name in importers if not name.startswith("torch.")] == []


@pytest.mark.parametrize("file", ["tests/views/test_text.py", "tests/engine/variables/modes/test_protocol.py"])
def test_collecting_a_test_imports_no_model_and_no_browser(file: str) -> None:
    """Who runs one test by name does not wait for packages that it does not use, nor for those of pytest's plugins."""
    items, names = loaded(COLLECT, file)
    assert items > 0
    assert sorted({name.split(".")[0] for name in names} & set(HEAVY)) == []
