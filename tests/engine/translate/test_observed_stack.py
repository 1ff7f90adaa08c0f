"""What stands on the stack at a graph break is released when eager releases it: before a handler begins, or the caller goes on.

Which idea lives here: while the instruction that broke runs, the stack of the modified code holds what the original's would hold.
If the instruction raises, CPython releases these values first: a suspended generator runs its `finally`, a `__del__` is called, a
weak reference dies. So it is if the instruction is traced and raises, and what only the traceback holds dies with the exception.
The table has every kind of value below an instruction, every kind of instruction, and every way to end. Each cell is a program that
notes what happened, in order.
"""

from __future__ import annotations

import gc
import linecache
import textwrap
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend

EVENTS: list[str] = []
X = torch.ones(3)


class Ends:
    """An object whose end is an event."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: Any = None

    def __del__(self) -> None:
        EVENTS.append(f"end of {self.name}")

    def method(self, *args: Any) -> None:
        """Keep nothing."""


@dynexplore.disable
def ends(name: str) -> Ends:
    """Such an object, made outside of the graph: a frame that makes one itself runs as plain Python."""
    return Ends(name)


class Block:
    """A `with` block."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Block:
        return self

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        EVENTS.append(f"exit of {self.name} by {kind.__name__ if kind is not None else None}")


def suspended(name: str, x: torch.Tensor):
    """A generator whose `finally` is an event."""
    try:
        dynexplore.graph_break()
        yield x
        yield x
    finally:
        EVENTS.append(f"end of {name}")


@dynexplore.disable
def made(name: str, x: torch.Tensor):
    """Such a generator, made outside of the graph, which only Python can advance."""
    return suspended(name, x)


class Watched:
    """An object without `__del__`, which only a weak reference observes."""


@dynexplore.disable
def watched(name: str) -> Watched:
    """An object whose weak reference has a callback."""
    new = Watched()
    REFERENCES.append(weakref.ref(new, lambda _: EVENTS.append(f"end of {name}")))
    return new


REFERENCES: list[Any] = []


@dynexplore.disable
def outside(x: torch.Tensor, fails: bool, *others: object) -> torch.Tensor:
    """A call that breaks the graph, and raises or not."""
    EVENTS.append("call")
    if fails:
        raise ValueError("outside")
    return x


def callee(x: torch.Tensor, fails: bool) -> torch.Tensor:
    """A callee in which it breaks, with something on its own stack."""
    y = x * 3
    keep(ends("the callee's argument"), ends("the callee's other argument"), outside(y, fails))
    return y + 1


def raising(x: torch.Tensor) -> None:
    """A callee that raises, and holds nothing."""
    x = x * 3
    raise ValueError("traced")


def raising_with_a_local(x: torch.Tensor) -> None:
    """A callee whose local variable only the traceback holds afterwards."""
    held = ends("local of the callee")
    raising(x)


def raising_with_an_argument(x: torch.Tensor) -> None:
    """A callee that has a value on its stack when another one raises."""
    keep(ends("the callee's argument"), raising(x))


@dynexplore.disable
def plain_with_a_local(x: torch.Tensor) -> None:
    """A callee that runs as plain Python, whose local variable only the traceback holds afterwards."""
    held = Ends("local of the plain callee")
    raise ValueError("plain")


def catching_callee(x: torch.Tensor, fails: bool) -> torch.Tensor:
    """A callee that handles the exception, with something on its own stack."""
    for _ in suspended("the callee's generator", x):
        try:
            keep(ends("the callee's argument"), outside(x * 3, fails))
        except ValueError:
            EVENTS.append("handler of the callee")
    return x + 1


def raising_callee(x: torch.Tensor, held: object) -> torch.Tensor:
    """A callee that handles an exception, and raises another one."""
    x = x + 1
    try:
        outside(x, True, held)
    except ValueError:
        EVENTS.append("handler of the callee")
    raise KeyError("the callee's own")


def middle(x: torch.Tensor) -> None:
    """Between the frame and that callee, with something on its stack."""
    keep(ends("argument of the middle"), raising_callee(x, ends("argument of the callee")))


@dynexplore.disable
def caught() -> Exception:
    """An exception, whose traceback leads to every frame of the stack."""
    try:
        raise ValueError("inside")
    except ValueError as error:
        return error


def receiving_callee(x: torch.Tensor) -> torch.Tensor:
    """A callee to which an exception is returned."""
    keep(ends("argument of the callee"), caught(), x + 1)
    return x * 3


def middle_of_receiving(x: torch.Tensor) -> torch.Tensor:
    """Between the frame and that callee, with something on its stack."""
    keep(ends("argument of the middle"), receiving_callee(x * 2))
    return x


@dynexplore.disable
def keep(*args: object) -> None:
    """Take arguments."""
    EVENTS.append("keep")


HOLDERS = {
    "nothing": "{operation}",
    "generator": "for _ in suspended('generator', x):\n    {operation}",
    "generator from outside": "for _ in made('generator', x):\n    {operation}",
    "with and generator from outside": "with Block('block'):\n    for _ in made('generator', x):\n        {operation}",
    "generator given up": "for _ in suspended('generator', x):\n    {operation}\n    break",
    "iterator over a list": "for _ in [ends('first'), ends('second')]:\n    {operation}",
    "iterator over a tuple from outside": "for _ in two():\n    {operation}",
    "watched objects": "for _ in [watched('first'), watched('second')]:\n    {operation}",
    "with": "with Block('block'):\n    {operation}",
    "with and generator": "with Block('block'):\n    for _ in suspended('generator', x):\n        {operation}",
    "generator and with": "for _ in suspended('generator', x):\n    with Block('block'):\n        {operation}",
    "two generators": "for _ in suspended('outer', x):\n    for _ in suspended('inner', x):\n        {operation}",
    "try in a generator": (
        "for _ in suspended('generator', x):\n    try:\n        {operation}\n"
        "    except KeyError:\n        EVENTS.append('not this')"
    ),
    "generator in a handler": (
        "try:\n    outside(x, True)\nexcept ValueError:\n    for _ in suspended('generator', x):\n        {operation}"
    ),
    "argument": "keep(ends('argument'), {operation})",
    "two arguments": "keep(ends('argument'), X, ends('other'), {operation})",
    "method": "ends('receiver').method({operation})",
    "item": "[ends('item'), {operation}]",
    "dict": "{{'key': ends('value'), 'other': {operation}}}",
    "target": "ends('target').value = {operation}",
    "local": "held = ends('local')\n{operation}",
    "comprehension": "[{operation} for _ in suspended('generator', x)]",
}
"""What stands below the instruction; where `operation` is part of an expression, only an expression takes its place."""

RELEASED_BY_THE_GRAPH = ("method", "item", "dict", "target")
"""Where the instruction that comes next, which is captured, releases the value: only what raises is in the table."""

OPERATIONS = {
    "call": ("outside(x, {fails})", (True, False)),
    "call with an object": ("outside(x, {fails}, ends('operand'))", (False,)),
    "call with a generator": ("outside(x, {fails}, *suspended('operand', x))", (True, False)),
    "call of a callee": ("callee(x, {fails})", (True, False)),
    "call of a callee that catches": ("catching_callee(x, {fails})", (True, False)),
    "operator": ("x + torch.ones(2)", (True,)),
    "attribute": ("Fails({fails}).attribute", (True, False)),
    "subscript": ("Fails({fails})[0]", (True, False)),
    "condition": ("(1 if x.sum() > 0 else 2)", (False,)),
    "store": ("x[0] = x", (True,)),
    "delete": ("del Fails({fails})[0]", (True, False)),
    "loop": ("for _ in Fails({fails}): pass", (True, False)),
    "unpack": ("a, b = Fails({fails})", (True, False)),
    "enter": ("with Fails({fails}): pass", (True, False)),
    "traced callee": ("raising(x)", (True,)),
    "traced callee with a local": ("raising_with_a_local(x)", (True,)),
    "traced callee with an argument": ("raising_with_an_argument(x)", (True,)),
    "plain callee with a local": ("plain_with_a_local(x)", (True,)),
    "traced method": ("''.index('a')", (True,)),
    "traced raise": ("raise ValueError('traced')", (True,)),
}
"""The instruction that breaks the graph, or raises while it is traced, and whether it can raise, or not."""

ENDS = {
    "leaves the frame": "{body}",
    "is caught": "try:\n{indented}\nexcept (ValueError, RuntimeError) as e:\n    EVENTS.append('handler')",
    "passes a finally": "try:\n{indented}\nfinally:\n    EVENTS.append('finally')",
    "passes a with": "with Block('outer'):\n{indented}",
}


class Fails:
    """An object all of whose operations break the graph, and raise or not."""

    def __init__(self, fails: bool) -> None:
        object.__setattr__(self, "fails", fails)

    @dynexplore.disable
    def _do(self, *args: object) -> Any:
        EVENTS.append("operation")
        if object.__getattribute__(self, "fails"):
            raise ValueError("operation")

    def __getattr__(self, name: str) -> Any:
        return self._do()

    __getitem__ = __setattr__ = __delitem__ = _do

    @dynexplore.disable
    def __iter__(self) -> Any:
        self._do()
        return iter((1, 2))

    @dynexplore.disable
    def __enter__(self) -> Any:
        self._do()

    def __exit__(self, *args: object) -> None:
        EVENTS.append("exit of what may fail")


@dynexplore.disable
def two() -> tuple[Ends, Ends]:
    """Two objects made outside of the graph."""
    return Ends("first"), Ends("second")


def is_expression(operation: str) -> bool:
    """Whether an operation can be part of an expression."""
    try:
        compile(operation.format(fails=True), "", "eval")
    except SyntaxError:
        return False
    return True


def program(holder: str, operation: str, fails: bool, end: str) -> Callable[[torch.Tensor], object]:
    """The program of one cell of the table."""
    body = HOLDERS[holder].format(operation=OPERATIONS[operation][0].format(fails=fails))
    text = ENDS[end].format(body=body, indented=textwrap.indent(body, "    "))
    source = f"def program(x):\n    x = x * 2\n{textwrap.indent(text, '    ')}\n    EVENTS.append('after')\n    return x + 1\n"
    file = f"<{holder}, {operation}, {fails}, {end}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    namespace = dict(globals())
    exec(compile(source, file, "exec"), namespace)
    return namespace["program"]  # type: ignore[no-any-return]


def events(function: Callable[[torch.Tensor], object]) -> list[str]:
    """What happens in one call, in order; the caller's handler is an event, too."""
    EVENTS.clear()
    REFERENCES.clear()
    try:
        function(torch.ones(3))
        EVENTS.append("returned")
    except (ValueError, RuntimeError, KeyError) as error:
        EVENTS.append(f"the caller sees {type(error).__name__}")
        del error
    EVENTS.append("the caller goes on")
    return list(EVENTS)


def fits(holder: str, operation: str) -> bool:
    """Whether the operation may stand there: a statement only where a statement may."""
    is_statement = any(line.strip() == "{operation}" for line in HOLDERS[holder].splitlines())
    return is_statement or is_expression(OPERATIONS[operation][0])


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("holder", HOLDERS)
def test_values_on_the_stack_are_released_when_eager_releases_them(holder: str, end: str) -> None:
    """Whatever stands on the stack, whatever instruction breaks the graph and however it ends: the events are those of eager."""
    wrong = []
    graphs = 0
    for operation, (_, outcomes) in OPERATIONS.items():
        if not fits(holder, operation):
            continue
        for fails in outcomes:
            if holder in RELEASED_BY_THE_GRAPH and (not fails or operation == "call of a callee that catches"):
                continue
            dynexplore.reset()
            backend = CountingBackend()
            function = program(holder, operation, fails, end)
            compiled = dynexplore.optimize(backend)(function)
            expected = events(function)
            for call in (1, 2):
                actual = events(compiled)
                if actual != expected:
                    wrong.append(f"{operation}, fails={fails}, call {call}:\n    eager  {expected}\n    engine {actual}")
            graphs += len(backend.graphs)
    assert not wrong, "\n".join(wrong)
    assert graphs


def test_a_tuple_that_is_held_many_times_is_looked_at_once() -> None:
    """A tuple that holds another one twice, and so on for 60 levels, stands on the stack: no walk takes each path to the tensor."""

    @dynexplore.disable
    def depth(pair: Any, other: object) -> int:
        levels = 0
        while isinstance(pair, tuple):
            levels, pair = levels + 1, pair[0]
        return levels

    def doubled(x):
        pair: Any = (x + 1,)
        for _ in range(60):
            pair = (pair, pair)
        return pair

    def program(x):
        return depth(doubled(x), outside(x, False))

    backend = CountingBackend()
    assert dynexplore.optimize(backend)(program)(X) == 61
    assert backend.graphs


def handles_what_a_callee_raises(x):
    """A frame that handles what a callee raises after handling another exception."""
    x = x + 1
    try:
        middle(x)
    except KeyError:
        outside(x, False)
    return x


def passes_on_what_a_callee_raises(x):
    """A frame that passes this on to its caller."""
    x = x + 1
    return middle(x)


def has_a_callee_that_receives(x):
    """A frame with a callee to which an exception is returned."""
    return middle_of_receiving(x + 1)


def receives(x):
    """A frame to which an exception is returned."""
    keep(ends("argument"), caught(), x + 1)
    return x


@pytest.mark.parametrize(
    "function",
    [handles_what_a_callee_raises, passes_on_what_a_callee_raises, has_a_callee_that_receives, receives],
)
def test_an_outcome_of_a_callee_is_in_no_reference_cycle(function: Callable[[torch.Tensor], object]) -> None:
    """An exception leads to the frames of the callees, which hold neither it nor their stacks any more: nothing is left to gc."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(function)
    gc.collect()
    gc.disable()
    try:
        expected = events(function)
        assert [events(compiled), events(compiled)] == [expected, expected]
    finally:
        gc.enable()
    assert backend.graphs


@dynexplore.disable
def view(data: bytearray) -> memoryview:
    """A view, during whose life the data cannot be resized."""
    return memoryview(data)


def resizes_after_a_view(data: bytearray) -> None:
    """A callee whose local variable ends in the middle of it."""
    held = view(data)
    if held[0] == 0:
        return
    del held
    data.append(1)


def resizes_after_a_rebound_view(data: bytearray) -> None:
    """The same where another object takes its place, between two breaks."""
    held: Any = view(data)
    view(data)
    held = None
    data.append(1)
    view(held or data)
    data.append(2)


@pytest.mark.parametrize("callee", [resizes_after_a_view, resizes_after_a_rebound_view])
def test_a_local_of_a_callee_ends_where_it_is_unbound(callee: Callable[[bytearray], None]) -> None:
    """No parameter of the resume function holds what a callee's variable held: the data has no view when it is resized."""

    def program(x, data):
        y = x + 1
        callee(data)
        return y * 2

    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(program)
    for _ in range(2):
        expected, actual = bytearray(b"abc"), bytearray(b"abc")
        assert torch.equal(compiled(X, actual), program(X, expected))
        assert actual == expected
    assert backend.graphs
