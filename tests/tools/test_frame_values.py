"""tools/frame_values.py: live values become rows, and what cannot is named."""

from __future__ import annotations

import json
import threading
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from dynexplore.tools import frame_values
from dynexplore.tools.frame_rebuild import unpacked_code
from dynexplore.tools.frame_values import SavedValues, global_names, packed_code, tensor_text


def saved(**values: Any) -> SavedValues:
    table = SavedValues()
    for name, value in values.items():
        table.add(value, name)
    assert json.loads(json.dumps(table.rows)) == table.rows
    return table


@pytest.mark.plain("makes rows of values")
def test_one_object_is_one_row() -> None:
    """A tensor that stands in three places is one row and one tensor."""
    x = torch.ones(2)
    table = saved(a=x, b=[x, {"c": x}])
    assert len(table.tensors) == 1 and [row["kind"] for row in table.rows] == ["tensor", "list", "dict"]


@pytest.mark.plain("makes rows of values")
def test_what_cannot_be_saved_is_named() -> None:
    """By its path, with why; the rest is there."""
    table = saved(cfg={"k": 1, "lock": threading.Lock()}, gen=(one for one in ()), kept=[1.5, b"x", 2 + 1j, float("nan")])
    assert [path for path, _ in table.missing] == ["cfg['lock']", "gen"]
    assert all("cannot pickle" in why for _, why in table.missing)
    assert table.rows[0]["pairs"][0] == [{"plain": "k"}, {"plain": 1}]


@pytest.mark.plain("makes rows of values")
def test_an_object_that_raises_when_taken_apart() -> None:
    """Whatever its methods raise is why it is missing."""

    class Stubborn:
        def __reduce_ex__(self, protocol: Any) -> Any:
            raise KeyError("no")

    assert saved(one=Stubborn()).missing == [("one", "KeyError: 'no'")]


@pytest.mark.plain("makes rows of values")
def test_a_tensor_subclass_is_named() -> None:
    """It is no plain tensor, and not taken for one."""

    class Special(torch.Tensor):
        pass

    ((path, why),) = saved(x=torch.ones(2).as_subclass(Special)).missing
    assert path == "x" and why.endswith("Special is a tensor subclass")


@pytest.mark.plain("makes rows of values")
def test_paths_of_a_module_are_those_of_its_state_dict() -> None:
    """`model.0.weight`, not the dicts that it lies in."""
    table = saved(model=torch.nn.Sequential(torch.nn.Linear(2, 2)))
    assert [row["path"] for row in table.rows if row["kind"] == "tensor"] == ["model.0.weight", "model.0.bias"]


@pytest.mark.plain("makes rows of values")
def test_globals_of_imported_modules_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is saved by name reads globals that may have changed: their values are kept beside."""
    (tmp_path / "scaled_module.py").write_text(
        "SCALE = 2\n\ndef inner(x):\n    return x * SCALE\n\ndef f(x):\n    return inner(x)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import scaled_module  # type: ignore[import-not-found]

    scaled_module.SCALE = 7
    table = saved(f=scaled_module.f)
    assert table.rows[0] == {"kind": "import", "module": "scaled_module", "name": "f"}
    assert table.modules == {"scaled_module": {"SCALE": {"plain": 7}}}


@pytest.mark.plain("makes rows of values")
def test_names_and_texts() -> None:
    """What code reads; what a tensor is in one line."""
    assert set(global_names((lambda x: (len(x), [abs(y) for y in x])).__code__)) == {"len", "abs"}
    assert tensor_text(torch.nn.Parameter(torch.ones(2))) == "float32[2] cpu, requires grad"


@pytest.mark.plain("packs code objects")
def test_a_cell_of_a_notebook_keeps_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that runs a saved frame has no notebook: code of a cell, and what is nested in it, is saved as `In [2]`."""
    code = compile("def f(x):\n    return lambda y: x + y\n", "/tmp/ipykernel_12/3456.py", "exec")
    monkeypatch.setattr(frame_values, "shown_file", lambda file: "In [2]" if "ipykernel" in file else file)
    loaded, files = unpacked_code(packed_code(code)), []
    while True:
        files.append(loaded.co_filename)
        inner = [constant for constant in loaded.co_consts if isinstance(constant, types.CodeType)]
        if not inner:
            break
        loaded = inner[0]
    assert files == ["In [2]"] * 3
    own = packed_code.__code__
    assert unpacked_code(packed_code(own)).co_filename == own.co_filename
