"""What `pip install dynexplore` brings is enough: torch and nothing else; what an extra brings says so in one sentence."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from source_tree import ROOT

WITHOUT = """
import sys

class Hides:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {packages!r} else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Hides(finder) for finder in sys.meta_path]
"""

EXPLAINED = """
import dynexplore
import torch

def f(x):
    y = x.sin()
    print("between")
    return y + 1

told = dynexplore.explain(f, torch.ones(3))
print(told)
told.recording.save("all.html")
told.recording.save("all.json")
dynexplore.compare(f, torch.ones(3))._repr_html_()
try:
    told.recording.save("all.dot")
except ImportError as error:
    print(error)
"""


def missing_packages() -> list[str]:
    """The packages that extras bring to people who look, as modules are called; numpy is torch's own companion."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [wish.partition(">")[0] for extra in ("colours", "notebook") for wish in extras[extra]]
    modules = [{"ipython": "IPython"}.get(name, name) for name in named if not name.startswith("dynexplore")]
    return [*modules, "traitlets", "ipywidgets"]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, where only torch is there."""
    environment = {"PYTHONPATH": f"{folder}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    (folder / "sitecustomize.py").write_text(WITHOUT.format(packages=missing_packages()))
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_torch_is_the_one_dependency() -> None:
    """Nothing but torch comes with the core."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [wish.partition(">")[0] for wish in dependencies] == ["torch"]


def test_the_core_explains_and_writes_files(tmp_path: Path) -> None:
    """With torch alone functions are explained, compared and written to files; DOT text says what it needs."""
    (tmp_path / "explained.py").write_text(EXPLAINED)
    done = run(tmp_path, "explained.py")
    assert done.returncode == 0, done.stderr
    assert "f: 2 graphs, 1 graph break, 0 recompiles." in done.stdout
    assert "Writing a graph as DOT text needs the package graphviz: pip install 'dynexplore[notebook]'" in done.stdout
    page = (tmp_path / "all.html").read_text()
    assert len(page) > 100_000
    assert "between" in page
    assert (tmp_path / "all.json").exists()


def test_a_missing_package_is_one_sentence_of_the_command_line(tmp_path: Path) -> None:
    """A form of file that needs an extra is refused with its name."""
    (tmp_path / "script.py").write_text("import torch\ndef f(x):\n    return x.sin()\nprint(f(torch.ones(2)))\n")
    done = run(tmp_path, "-m", "dynexplore", "explain", "script.py", "--save", "out.dot")
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("dynexplore: Writing a graph as DOT text needs the package graphviz")
