"""Small programs that break or recompile under torch.compile, each in a way that people meet, for the tests of this folder.

In: nothing. Out: `PROGRAMS`: name -> a `Program`: a function that makes what is compiled, and the calls that are made;
`run(program)`; `forget()`.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

SCALE = 2.0
FLAG = True


@dataclass(frozen=True)
class Program:
    """`make()` gives what is compiled, `calls()` the arguments of each call, `between(k)` runs before call k. What a headline says:
    `cause` and the text of the `line` that it names ("" where it names none)."""

    make: Callable[[], Any]
    calls: Callable[[], list[tuple[Any, ...]]]
    cause: str = ""
    line: str = ""
    between: Callable[[Any, int], None] = lambda target, call: None


def one_graph(x: torch.Tensor, unused: torch.Tensor, n: int) -> torch.Tensor:
    """Has arguments that it does not use."""
    return torch.relu(x) * 2 + 1


def prints(x: torch.Tensor) -> torch.Tensor:
    """Breaks at a print."""
    y = x + 1
    print("inside")
    return y * 2


def takes_item(x: torch.Tensor) -> torch.Tensor:
    """Breaks at an item."""
    y = x * 2
    n = y.sum().item()
    return y + n


def branches(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Breaks at an `if` on a tensor."""
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def inner(x: torch.Tensor) -> torch.Tensor:
    """Breaks, and is called by a function that is compiled."""
    x = x + 1
    torch._dynamo.graph_break()
    return x + 2


def calls_inner(x: torch.Tensor) -> torch.Tensor:
    """Breaks in what it calls."""
    return inner(x) * 3


def breaks_in_loop(x: torch.Tensor) -> torch.Tensor:
    """Breaks in a loop: torch gives the whole frame up."""
    for _ in range(3):
        x = x + 1
        torch._dynamo.graph_break()
    return x


def items(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """A generator."""
    for k in range(3):
        yield x + k


def generates(x: torch.Tensor) -> torch.Tensor:
    """Goes through a generator."""
    return sum(items(x), torch.zeros(1))


def scales(x: torch.Tensor, n: Any) -> torch.Tensor:
    """Takes a number."""
    return x * n + 1


def reads_global(x: torch.Tensor) -> torch.Tensor:
    """Reads a global."""
    return x * SCALE


def reads_key(x: torch.Tensor, d: dict[str, Any]) -> torch.Tensor:
    """Reads keys of a dictionary."""
    return x * d["a"] if "b" not in d else x + d["b"]


def closes_over(scale: torch.Tensor) -> Any:
    """A function with a cell, for which torch has no name."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        y = x * scale
        print("scaled")
        return y + 1

    return scaled


def makes_closures(x: torch.Tensor) -> torch.Tensor:
    """Breaks while a function that it has made, with a cell, waits to be called."""
    y = x + 1

    def adds(z: torch.Tensor) -> torch.Tensor:
        return z + y

    print("made")
    return adds(x)


class Net(torch.nn.Module):
    """Two layers and a flag."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.head = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.drop = torch.nn.Dropout(0.5)
        self.factor = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Layers, one after the other."""
        return self.head(self.drop(torch.relu(self.fc(x)))) * self.factor


def _set_scale(target: Any, call: int) -> None:
    globals()["SCALE"] = 2.0 + call


def _set_factor(target: Any, call: int) -> None:
    target.factor = 3 + call


def _set_mode(target: Any, call: int) -> None:
    target.train(call % 2 == 0)


def _net() -> Net:
    torch.manual_seed(0)
    return Net()


def _tensor(*sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel())).reshape(sizes) + 1


PROGRAMS: dict[str, Program] = {
    "one graph": Program(lambda: one_graph, lambda: [(_tensor(4), _tensor(3), 5), (_tensor(4), _tensor(7), 5)]),
    "print": Program(lambda: prints, lambda: [(_tensor(4),)] * 2, "print", 'print("inside")'),
    "item": Program(lambda: takes_item, lambda: [(_tensor(4),)], "item", "n = y.sum().item()"),
    "branch": Program(
        lambda: branches, lambda: [(_tensor(4), _tensor(4)), (_tensor(4), -_tensor(4))], "branch", "if b.sum() < 0:"
    ),
    "inner": Program(lambda: calls_inner, lambda: [(_tensor(4),)], "graph_break()", "torch._dynamo.graph_break()"),
    "loop": Program(lambda: breaks_in_loop, lambda: [(_tensor(4),)], "(graph break in loop)", "torch._dynamo.graph_break()"),
    "closure": Program(lambda: closes_over(_tensor(1)), lambda: [(_tensor(4),)] * 2, "print", 'print("scaled")'),
    "generator": Program(lambda: generates, lambda: [(_tensor(4),)]),
    "size": Program(lambda: scales, lambda: [(_tensor(4), 2), (_tensor(5), 2), (_tensor(6), 2)], "`x` had size 4"),
    "int": Program(lambda: scales, lambda: [(_tensor(4), 2), (_tensor(4), 3), (_tensor(4), 4)], "`n`"),
    "float": Program(lambda: scales, lambda: [(_tensor(4), 2.5), (_tensor(4), 3.5)], "`n`"),
    "global": Program(lambda: reads_global, lambda: [(_tensor(4),)] * 3, "`SCALE`", between=_set_scale),
    "key": Program(lambda: reads_key, lambda: [(_tensor(4), {"a": 2}), (_tensor(4), {"a": 2, "b": 3})], "`d`"),
    "attribute": Program(_net, lambda: [(_tensor(2, 4),)] * 3, "factor", between=_set_factor),
    "mode": Program(_net, lambda: [(_tensor(2, 4),)] * 3, "training", between=_set_mode),
}


def forget() -> None:
    """torch.compile has no entries and no counts."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()


def run(program: Program, *, backend: Any = "eager", **options: Any) -> list[Any]:
    """Compile and call, with what it prints swallowed; the results."""
    target = program.make()
    compiled = torch.compile(target, backend=backend, **options)
    results = []
    with contextlib.redirect_stdout(io.StringIO()):
        for number, arguments in enumerate(program.calls()):
            program.between(target, number)
            torch.manual_seed(number)
            results.append(compiled(*arguments))
    return results
