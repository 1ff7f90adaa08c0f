"""engine/old_names.py: each name that was renamed in this release still works, with a DeprecationWarning."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import warnings
from typing import Any

import pytest

from dynexplore.engine.old_names import RENAMED

pytestmark = pytest.mark.plain("names of classes and of modules: nothing is compiled")

OLD_NAMES = [(module, old, new) for module, names in RENAMED.items() for old, new in names.items()]


@pytest.mark.parametrize(("module", "old", "new"), OLD_NAMES, ids=[f"{module}:{old}" for module, old, _ in OLD_NAMES])
def test_an_old_name_warns_and_works(module: str, old: str, new: str) -> None:
    """The old name gives what the new one gives, and the warning says the new one and points here."""
    loaded = importlib.import_module(module)
    owner, _, attribute = old.rpartition(".")
    with pytest.warns(DeprecationWarning, match=f"{old} is now named {new}") as caught:
        if owner:
            assert getattr(instance_with(getattr(loaded, owner), new, "the value"), attribute) == "the value"
        else:
            assert getattr(loaded, attribute) is getattr(loaded, new)
    assert [warning.filename for warning in caught] == [__file__]


def instance_with(cls: type[Any], attribute: str, value: Any) -> Any:
    """An object of the class, made without its `__init__`, whose attribute has this value; the class must have that attribute."""
    fields = [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    assert hasattr(cls, attribute) or attribute in fields or f"self.{attribute}" in inspect.getsource(cls.__init__)
    stub = type("Stub", (cls,), {attribute: value})
    return object.__new__(stub)


def test_a_name_that_never_was_is_an_error() -> None:
    """A module with old names raises AttributeError for others, and no warning."""
    events = importlib.import_module("dynexplore.engine.events")
    with warnings.catch_warnings(), pytest.raises(AttributeError, match=r"dynexplore\.engine\.events.*'Nonsense'"):
        warnings.simplefilter("error")
        events.Nonsense


def test_an_event_is_still_frozen_plain_data() -> None:
    """The old name of a field is no field: it is not written to a file, and `replace` does not take it."""
    events = importlib.import_module("dynexplore.engine.events")
    event = events.ValueObserved(frame=1, role="node", name="add")
    assert "what" not in [field.name for field in dataclasses.fields(event)]
    with pytest.raises(TypeError):
        dataclasses.replace(event, what="input")
