"""tools/importable.py: what another process has by importing it."""

from __future__ import annotations

import collections
import dataclasses
import math
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from dynexplore.tools.importable import can_import, import_name, is_installed, singleton_name


@pytest.mark.plain("asks what can be imported")
@pytest.mark.parametrize(
    ("value", "name"),
    [
        (torch, ("torch", "")),
        (math.sqrt, ("math", "sqrt")),
        (torch.add, ("torch", "add")),
        (torch.nn.Linear, ("torch.nn.modules.linear", "Linear")),
        (torch.nn.functional.linear, ("torch._C._nn", "linear")),
        (collections.OrderedDict.fromkeys, None),
        (torch.ops.aten.add.Tensor, ("torch", "ops.aten.add.Tensor")),
        (lambda: 0, None),
        (types.ModuleType("made_up"), None),
    ],
)
def test_names(value: Any, name: tuple[str, str] | None) -> None:
    """Installed modules and what stands in them have names; what was made on the spot has none."""
    found = import_name(value)
    if name is None or name[0] != "torch._C._nn":
        assert found == name
    else:
        assert found is not None and found[1] == "linear"


@pytest.mark.plain("asks what can be imported")
def test_modules_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that lies on the path can be imported and is not installed; another of its name elsewhere cannot."""
    (tmp_path / "my_plain_module.py").write_text("def f(x):\n    return x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_plain_module  # type: ignore[import-not-found]

    assert import_name(my_plain_module.f) == ("my_plain_module", "f") and not is_installed("my_plain_module")
    monkeypatch.setattr(my_plain_module, "__file__", "/elsewhere/my_plain_module.py")
    assert not can_import("my_plain_module") and import_name(my_plain_module.f) is None
    del sys.modules["my_plain_module"]


@pytest.mark.plain("asks what can be imported")
def test_sentinels() -> None:
    """An object that is known by its place in an installed module."""
    assert singleton_name(dataclasses.MISSING) == ("dataclasses", "MISSING")
    assert singleton_name(object()) is None
