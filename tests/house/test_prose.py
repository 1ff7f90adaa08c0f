"""Prose is part of the program: every file says which idea lives in it, under a name that says so too."""

from __future__ import annotations

import ast

import pytest

from source_tree import PACKAGE, ROOT, modules, parse_tree

NAMES_THAT_SAY_NOTHING = {"utils", "util", "misc", "common", "helpers", "helper", "stuff"}


def test_every_module_has_a_docstring() -> None:
    """Each file of the package opens by saying which idea lives there."""
    silent = [file.name for file in modules().values() if not ast.get_docstring(file.tree)]
    assert not silent, f"these files say nothing about themselves: {silent}"


def test_every_c_file_opens_with_a_comment() -> None:
    """Each C file opens by saying which idea lives there."""
    silent = [
        str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.[ch]")) if not path.read_text().lstrip().startswith("/*")
    ]
    assert not silent, f"these files say nothing about themselves: {silent}"


@pytest.mark.parametrize("folder", ["dynexplore", "tests", "benchmarks", "examples"])
def test_no_file_is_a_drawer(folder: str) -> None:
    """No file or folder is named utils, misc, common or helpers: a file bears the noun it holds."""
    drawers = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / folder).rglob("*"))
        if path.stem.removeprefix("test_") in NAMES_THAT_SAY_NOTHING
    ]
    assert not drawers, f"name these after what they hold: {drawers}"


def test_every_test_says_what_it_shows() -> None:
    """A test's docstring says the behaviour in one sentence."""
    silent = [
        file.place(node)
        for file in parse_tree(ROOT / "tests", "tests").values()
        for node in ast.walk(file.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and file.path.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not silent, "tests without a docstring:\n" + "\n".join(silent)


def test_the_readme_shows_the_example_as_it_is() -> None:
    """The README's first Python block is examples/toy.py, which `make demo` runs."""
    block = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    example = (ROOT / "examples" / "toy.py").read_text()
    assert example.split('"""', 2)[2].strip() == block.strip()
