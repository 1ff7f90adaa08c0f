"""Imports inside a function: which module stands in `sys.modules` is relied on, since programs put others in its place."""

from __future__ import annotations

import builtins
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled

X = torch.ones(2)
NAME = "imported_by_a_program"


def module(name: str = NAME, **values: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(values)
    return made


@pytest.fixture(autouse=True)
def loaded() -> Iterator[None]:
    """A package of the program's, with a submodule that is no attribute of it."""
    sys.modules[NAME] = module(factor=2)
    sys.modules[f"{NAME}.inner"] = module(f"{NAME}.inner", factor=3)
    yield
    for name in (NAME, f"{NAME}.inner"):
        sys.modules.pop(name, None)


def imports_the_module(x):
    import imported_by_a_program

    return x * imported_by_a_program.factor


def imports_a_name(x):
    from imported_by_a_program import factor

    return x * factor


def imports_a_submodule(x):
    from imported_by_a_program import inner

    return x * inner.factor


def tries_to_import(x):
    try:
        from imported_by_a_program import factor
    except ImportError as error:
        return x - 1, type(error).__name__
    return x * factor, ""


def forget() -> None:
    del sys.modules[NAME], sys.modules[f"{NAME}.inner"]


CHANGES = {
    "another one": lambda: sys.modules.update({NAME: module(factor=50), f"{NAME}.inner": module(f"{NAME}.inner", factor=70)}),
    "a stand-in that is no module": lambda: sys.modules.update({NAME: types.SimpleNamespace(__name__=NAME, factor=9, inner=X)}),
    "none": lambda: sys.modules.update({NAME: None, f"{NAME}.inner": None}),
    "nothing": forget,
}


def outcome(fn: Any) -> Any:
    try:
        return fn(X)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("fn", (imports_the_module, imports_a_name, imports_a_submodule, tries_to_import))
def test_a_module_that_is_replaced_is_seen(fn: Any, change: Any) -> None:
    """A call after the change has the answer of eager, and so has one after it was taken back."""
    compiled = dynexplore.optimize("eager")(fn)
    before = dict(sys.modules)
    assert str(outcome(compiled)) == str(outcome(fn)) and graphs_compiled() == 1
    change()
    assert str(outcome(compiled)) == str(outcome(fn))
    sys.modules.update({name: before[name] for name in (NAME, f"{NAME}.inner")})
    many = graphs_compiled()
    assert str(outcome(compiled)) == str(outcome(fn)) and graphs_compiled() == many


def test_another_import_function_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """`builtins.__import__` is what an import statement calls; a test replaces it to hide a package."""
    compiled = dynexplore.optimize("eager")(tries_to_import)
    assert str(outcome(compiled)) == str(outcome(tries_to_import))

    def refuses(name: str, *args: Any) -> Any:
        if name == NAME:
            raise ModuleNotFoundError(name)
        return original(name, *args)

    original = builtins.__import__
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", refuses)
        hidden = outcome(compiled)
    assert str(hidden) == str((X - 1, "ModuleNotFoundError"))
    assert str(outcome(compiled)) == str((X * 2, "")) and graphs_compiled() > 1


def test_an_import_that_stands_costs_no_compilation() -> None:
    """Other modules come and go."""
    compiled = dynexplore.optimize("eager")(imports_a_submodule)
    for number in range(3):
        sys.modules[f"{NAME}.other"] = module(f"{NAME}.other{number}")
        assert str(outcome(compiled)) == str(X * 3)
    del sys.modules[f"{NAME}.other"]
    assert str(outcome(compiled)) == str(X * 3)
    assert graphs_compiled() == 1


def test_a_module_that_the_first_call_loads_breaks_once() -> None:
    """The call that loads it breaks the graph; the next one is captured anew, whole, and stands."""
    sys.modules.pop("tabnanny", None)

    def imports_late(x):
        y = x + 1
        import tabnanny

        return y * len(tabnanny.__name__)

    compiled = dynexplore.optimize("eager")(imports_late)
    for graphs in (2, 3, 3):
        assert str(outcome(compiled)) == str((X + 1) * 8) and graphs_compiled() == graphs


# -- packages: submodules that are loaded by the import -------------------------------------------------------------------------


PACKAGE = """
lookups = []
here = 5
def __getattr__(name):
    lookups.append(name)
    if name == "computed":
        return 7
    raise AttributeError(name)
"""
IMPORTS = (
    "from {package} import inner as got", "from {package} import here as got", "from {package} import here, inner as got",
    "from {package} import computed as got", "from {package} import absent as got", "from {package} import raises as got",
    "from {package}.inner import number as got", "from {package}.plain import number as got", "import {package}.inner as got",
)  # fmt: skip


@pytest.mark.parametrize("statement", IMPORTS)
@pytest.mark.parametrize("answers", [True, False], ids=["with __getattr__", "without"])
@pytest.mark.parametrize("loaded_before", [True, False])
def test_a_package_loads_its_submodules(
    statement: str, answers: bool, loaded_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`from package import name` imports the submodule `name` if the package has no such attribute: that raised ImportError."""
    monkeypatch.syspath_prepend(str(tmp_path))
    outcomes = []
    for package, engine in (("package_in_python", lambda fn: fn), ("package_in_engine", dynexplore.optimize("eager"))):
        folder = tmp_path / package
        folder.mkdir()
        (folder / "__init__.py").write_text(PACKAGE if answers else PACKAGE.replace("__getattr__", "unused"))
        (folder / "inner.py").write_text("number = 11\n")
        (folder / "plain.py").write_text(PACKAGE + "number = 12\n")
        (folder / "raises.py").write_text("raise ValueError('while it is loaded')\n")
        if loaded_before:
            __import__(package)
        names: dict[str, Any] = {"torch": torch}
        exec(
            "def program(x):\n    y = x + 1\n    try:\n        "
            f"{statement.format(package=package)}\n        got = getattr(got, 'number', got)\n"
            "    except (ImportError, ValueError) as error:\n        got = type(error), str(error)\n    return y * 2, got\n", names,
        )  # fmt: skip
        answered = [engine(names["program"])(X) for _ in range(3)]
        modules = {name: sys.modules[name] for name in sorted(sys.modules) if name.partition(".")[0] == package}
        lookups = [getattr(loaded, "lookups", None) for loaded in modules.values()]
        outcomes.append(re.sub(package, "package", repr((answered, list(modules), lookups))).replace(str(tmp_path), ""))
        for name in modules:
            del sys.modules[name]
    assert outcomes[1] == outcomes[0]
    assert graphs_compiled() > 0
