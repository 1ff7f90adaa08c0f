"""tools/first_call.py: the first call of a function of a program that runs."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dynexplore.engine import native
from dynexplore.session.targets import Pattern, Targets
from dynexplore.tools.first_call import FirstCall, NotCalled, at_first_call

PROGRAM = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
    def forward(self, x, *more, scale=1.0, **options):
        return self.layer(x) * scale
    @staticmethod
    def halved(x):
        return x / 2
    def shifted(self, x, *more, scale=1.0, **options):
        return x * scale

def settings(count):
    return [i for i in range(count)]

def scaled(x, by=2):
    seen.append("scaled")
    return x * by

def walk(xs):
    yield from xs

def closure():
    def inner(x):
        return x + by
    by = 3
    return inner

seen = []
net = Net()
settings(3)
list(walk([torch.ones(2)]))
try:
    with torch.no_grad():
        scaled(torch.ones(2), by=5)
        net(torch.ones(1, 2), 7, scale=2.0, other=1)
        net.shifted(torch.ones(1, 2), 7, scale=2.0, other=1)
    Net.halved(torch.ones(2))
    closure()(torch.ones(4))
except Exception:
    seen.append("caught")
finally:
    seen.append("end")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A function that runs PROGRAM up to a call, and gives what `look` says of it."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)

    def run() -> None:
        exec(compile(path.read_text(), str(path), "exec"), vars(module))

    def ask(wanted: str, look: Callable[[FirstCall], Any] = lambda call: call) -> Any:
        return at_first_call(run, Targets((Pattern(wanted),) if wanted else ()), look)

    ask.module = module  # type: ignore[attr-defined]
    yield ask


@pytest.mark.plain("finds a call in a program that runs plain")
def test_a_function_is_found_with_its_arguments(program: Any) -> None:
    """The call is the program's own, under its modes; the program ends there, with its `finally`."""
    call, grad = program("scaled", lambda call: (call, torch.is_grad_enabled()))
    assert call.name == "scaled" and call.kwargs == {} and not grad
    torch.testing.assert_close(call.args, (torch.ones(2), 5))
    assert program.module.seen == ["end"]


@pytest.mark.plain("finds a call in a program that runs plain")
def test_a_module_is_found_where_the_engine_ran_before(program: Any) -> None:
    """A region marks the calls of modules as not to be looked at."""
    native.skip_code(torch.nn.Module._wrapped_call_impl.__code__)
    native.skip_code(torch.nn.Module._call_impl.__code__)
    assert program("Net").target is program.module.net


@pytest.mark.plain("finds a call in a program that runs plain")
@pytest.mark.parametrize("wanted", ["Net", "net", "Net.forward"])
def test_a_module_is_found_by_class_and_by_global_name(program: Any, wanted: str) -> None:
    """It is the module itself that is called, hooks and all."""
    call = program(wanted)
    assert call.target is program.module.net
    assert call.args[1:] == (7,) and call.kwargs == {"scale": 2.0, "other": 1}


@pytest.mark.plain("finds a call in a program that runs plain")
def test_a_method_keeps_its_receiver(program: Any) -> None:
    """*args and **kwargs are taken apart again: called, it gives what the program would get."""
    call = program("Net.shifted")
    assert call.target.__self__ is program.module.net
    assert call.kwargs == {"scale": 2.0, "other": 1} and call.args[1:] == (7,)
    torch.testing.assert_close(call.target(*call.args, **call.kwargs), torch.full((1, 2), 2.0))


@pytest.mark.plain("finds a call in a program that runs plain")
def test_a_static_method_and_a_closure_are_called_as_they_are(program: Any) -> None:
    """No argument of theirs is taken for a receiver; a closure has its cells."""
    still = program("Net.halved")
    assert still.target.__name__ == "halved" and not hasattr(still.target, "__self__")
    torch.testing.assert_close(still.target(*still.args), torch.full((2,), 0.5))
    inner = program("inner")
    torch.testing.assert_close(inner.target(*inner.args), torch.full((4,), 4.0))


@pytest.mark.plain("finds a call in a program that runs plain")
def test_without_a_name_it_is_the_first_that_gets_a_tensor(program: Any) -> None:
    """Generators and functions of other things are passed by."""
    assert program("").name == "scaled"


@pytest.mark.plain("finds a call in a program that runs plain")
def test_what_is_not_called_is_said_in_a_sentence(program: Any) -> None:
    """The names of what was called stand in it; the program ran to its end."""
    with pytest.raises(
        NotCalled, match="nothing is not called when the script runs.*: run, Net.__init__, settings, scaled, Net.forward"
    ):
        program("nothing")
    assert program.module.seen == ["scaled", "end"]


@pytest.mark.plain("finds a call in a program that runs plain")
def test_what_the_tool_raises_is_not_the_programs(program: Any) -> None:
    """An `except Exception` around the call does not see it."""

    def look(call: FirstCall) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        program("scaled", look)
    assert program.module.seen == ["end"]


STEP = """
import functools
import torch

layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

def helper(count):
    return torch.ones(count, 2)

def step(x):
    optimizer.zero_grad()
    loss = layer(x).sum()
    loss.backward()
    optimizer.step()
    return loss

def bare(x):
    loss = (layer.weight * x).sum()
    loss.backward()
    return loss

class Stepping:
    def __call__(self, x):
        loss = layer(x).sum()
        loss.backward()
        optimizer.step()
        return loss

def fed():
    return layer(helper(2)).sum()

{call}
"""


@pytest.mark.lenses
@pytest.mark.plain("finds a call in a program that runs plain")
@pytest.mark.parametrize(
    ("call", "excluded", "found"),
    [
        ("torch.compile(step, backend='eager')(torch.ones(1, 2))", "", "step"),  # it drives an optimizer
        ("torch.compile(fed, backend='eager')()", "", "fed"),  # it gets no tensor
        ("bare(torch.ones(2)); torch.compile(bare, backend='eager')(torch.ones(2))", "", "bare"),  # plain at first
        ("torch.compile(functools.partial(step, torch.ones(1, 2)), backend='eager')()", "", "step"),
        ("torch.compile(Stepping(), backend='eager')(torch.ones(1, 2))", "", "Stepping.__call__"),
        ("step(torch.ones(1, 2))", "", "Linear"),
        ("torch.compile(step, backend='eager')(torch.ones(1, 2))", "step", "Linear"),
        ("torch.compile(layer, backend='eager')(torch.ones(1, 2))", "", "Linear"),
    ],
)
def test_what_the_program_compiles_is_the_call(tmp_path: Path, call: str, excluded: str, found: str) -> None:
    """The function that is passed to torch.compile, not the first module in it: also where the tables would pass it by."""
    path = tmp_path / "step.py"
    path.write_text(STEP.format(call=call))

    def run() -> None:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__"})

    targets = Targets(excluded=(Pattern(excluded),) if excluded else ())
    first = at_first_call(run, targets, lambda call: call)
    assert (first.name, first.is_compiled) == (found, "compile" in call)
