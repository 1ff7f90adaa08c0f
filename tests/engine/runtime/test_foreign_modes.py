"""engine/runtime/foreign_modes.py: who else is watching the operators."""

from __future__ import annotations

import builtins
import enum
import functools
import sys
import types
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import dynexplore
from dynexplore.engine.runtime import foreign_modes
from dynexplore.engine.runtime.foreign_modes import active, dynamo_off
from engine_checks import CountingBackend, graphs_compiled


@pytest.mark.plain("asks who else traces")
def test_nobody_is_there() -> None:
    """Usually nothing is active."""
    assert active() is None


@pytest.mark.plain("asks who else traces")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_each_tracer_is_named() -> None:
    """Modes and tracers say who they are."""
    seen: list[str | None] = []

    def look(x: Any) -> Any:
        seen.append(active())
        return x + 1

    torch.jit.trace(look, torch.ones(2), check_trace=False)
    torch.fx.symbolic_trace(look)
    torch.func.vmap(look)(torch.ones(2, 2))
    make_fx(look)(torch.ones(2))
    with FakeTensorMode():
        look(torch.ones(2))
    with torch.device("meta"):
        look(torch.ones(2))
    with FlopCounterMode(display=False):
        look(torch.ones(2))
    assert [reason and reason.split(" is ")[0] for reason in seen] == [
        "torch.jit.trace",
        "torch.fx",
        "a torch.func transform (vmap, grad, ...)",
        seen[3] and seen[3].split(" is ")[0],
        "FakeTensorMode",
        None,
        "the mode _FlopCounterMode",
    ]
    assert seen[3] is not None


@pytest.mark.lenses
def test_beside_torch_compile() -> None:
    """Inside a function that torch.compile runs, ours compiles for itself, and torch's callback is what it was."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(lambda x: x * 2)

    def outer(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        return optimized(x) - 1

    compiled = torch.compile(outer, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == [3, 3]
    assert backend.targets() == [["mul"]]


@pytest.mark.plain("puts away and back the callback of another")
def test_dynamo_is_off_while_we_translate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block clears the callback of torch.compile in this thread, and puts it back."""

    class Evaluator:
        callback: Any = "torch's"

        def get_eval_frame_callback(self) -> Any:
            return self.callback

        def set_eval_frame(self, callback: Any) -> Any:
            before, self.callback = self.callback, callback
            return before

    evaluator = Evaluator()
    monkeypatch.setitem(sys.modules, "torch._dynamo", types.ModuleType("torch._dynamo"))
    monkeypatch.setattr(foreign_modes._dynamo, "eval_frame", evaluator)
    with pytest.raises(ZeroDivisionError), dynamo_off():
        assert evaluator.callback is None
        1 / 0
    assert evaluator.callback == "torch's"


def test_enumerations_that_are_called_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch itself calls enumerations: while EnumType.__call__ has other code, nothing new is compiled."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(lambda x: x * 2)
    with monkeypatch.context() as patch:
        patch.setattr(enum.EnumMeta.__call__, "__code__", (lambda cls, *values: 9).__code__)
        assert optimized(torch.ones(2)).tolist() == [2, 2]
        assert not backend.graphs
    assert optimized(torch.ones(2)).tolist() == [2, 2]
    assert len(backend.graphs) == 1


def test_nothing_is_compiled_while_reduce_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch calls functools.reduce while it traces; a call under another one runs as plain Python, and the next one is captured."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * functools.reduce(lambda a, b: a + b, [1, 2])

    captured = dynexplore.optimize("eager")(fn)
    with monkeypatch.context() as replaced:
        replaced.setattr(functools, "reduce", lambda *parts: 9)
        assert captured(torch.ones(1)).item() == 9
        assert graphs_compiled() == 0
    assert captured(torch.ones(1)).item() == 3
    assert graphs_compiled() == 1


@pytest.mark.parametrize("name", ("len", "isinstance", "zip"))
def test_nothing_is_compiled_while_a_builtin_that_all_need_is_replaced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own lines call `len`: a call under another one runs as plain Python, and the next one is captured."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * (2 + len([1, 2])) if isinstance(x, torch.Tensor) and list(zip([1], [2], strict=True)) else x

    def replacement(*args: Any, **kwargs: Any) -> Any:
        own = sys._getframe(1).f_code is fn.__code__
        return [50] if own and name == "zip" else 50 if own else original(*args, **kwargs)

    captured = dynexplore.optimize("eager")(fn)
    original = getattr(builtins, name)
    with monkeypatch.context() as replaced:
        replaced.setattr(builtins, name, replacement)
        assert captured(torch.ones(1)).item() == (52 if name == "len" else 4)
        assert graphs_compiled() == 0
    assert captured(torch.ones(1)).item() == 4
    assert graphs_compiled() == 1


def test_a_builtin_that_tests_replace_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """`max` is called by few: the program's own is in the graph."""
    captured = dynexplore.optimize("eager")(lambda x: x * max(1, 2))
    with monkeypatch.context() as replaced:
        replaced.setattr(builtins, "max", lambda *parts: 9)
        assert captured(torch.ones(1)).item() == 9
        assert graphs_compiled() == 1
    assert captured(torch.ones(1)).item() == 2
