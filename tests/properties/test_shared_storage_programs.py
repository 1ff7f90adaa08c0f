"""Random programs on views of one memory: the same, disjoint, overlapping, and another pattern in the next call.

The idea: three tensors come to the program by different ways (argument, closure, global, attribute, list, parameter); before each
call each of them is made a view of one of two memories, at another place. The program writes to some and reads others. Whatever
the pattern, and whatever it was in the calls before, the engine does the same: values, memory that is shared, gradients.

Whoever compiles a graph that writes to its inputs relies on which of them lie in one memory; nobody but guards on that can tell
him that it changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from properties.fuzz_rounds import Passed, finds, run_drawn_for_long, run_slice
from properties.fuzzing import runs_on_a_gpu
from properties.two_worlds import World, function_of, graphs_of_same_worlds

from dynexplore.engine.aliasing import eligibility

NAMES = ("a", "b", "c")
WAYS = ("argument", "closure", "global", "attribute", "list", "parameter")
HOW_READ = {"closure": "{n}_cell", "global": "{n}_global", "attribute": "box.{n}", "list": "box.items[{i}]", "parameter": "net.{n}"}
SIZE = 24

#: how a view is cut out of a memory of 24 elements, from an offset on; all are of `size` elements in a row
CUTS: dict[str, Callable[[torch.Tensor, int, int], torch.Tensor]] = {
    "row": lambda base, at, size: base[at : at + size],
    "every other": lambda base, at, size: base[at : at + 2 * size : 2],
    "backwards in blocks": lambda base, at, size: base[at : at + 2 * size].view(size, 2)[:, 0],
    "through a matrix": lambda base, at, size: base.view(4, 6)[1, : min(size, 6)] if size <= 6 else base[:size],
}
#: what kind of tensors they are: plain ones, or such as autograd watches
KINDS = ("plain", "plain", "plain", "integers", "c is a leaf", "views of what has a gradient")


@dataclass(frozen=True)
class Place:
    """Where one tensor lies in one call; `same_as`: it is the very object that another name has."""

    memory: int
    cut: str
    offset: int
    same_as: str = ""


@dataclass(frozen=True)
class Case:
    """A program, the ways by which its tensors come, and where they lie in each call."""

    body: tuple[str, ...]
    ways: tuple[str, ...]
    kind: str
    calls: tuple[tuple[int, tuple[Place, ...]], ...]
    backend: str

    @property
    def text(self) -> str:
        """The source of the program."""
        read = [f"    {n} = {HOW_READ[way].format(n=n, i=i)}" for i, (n, way) in enumerate(zip(NAMES, self.ways, strict=True))
                if way != "argument"]
        arguments = ", ".join([n for n, way in zip(NAMES, self.ways, strict=True) if way == "argument"] + ["box", "net"])
        cells = [n for n, way in zip(NAMES, self.ways, strict=True) if way == "closure"]
        lines = [f"def program({arguments}):", *read, "    v, w = a * 1, b + 1", *(f"    {line}" for line in self.body)]
        lines.append("    return a + b, b * c, v, w")
        if cells:
            made = [f"    {n}_cell = None" for n in cells]
            setters = [f"    def set_{n}(value):\n        nonlocal {n}_cell\n        {n}_cell = value" for n in cells]
            inner = [f"    {line}" for line in lines]
            lines = ["def outer():", *made, *setters, *inner, f"    return program, {', '.join(f'set_{n}' for n in cells)}",
                     f"program, {', '.join(f'set_{n}' for n in cells)} = outer()"]
        return "\n".join(lines) + "\n"


class Box:
    """Where the program finds tensors as attributes and items."""

    def __init__(self) -> None:
        self.items: list[Any] = [None, None, None]


def _fill(template: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.fixed_dictionaries(parts).map(lambda drawn: template.format(**drawn))


_T = st.sampled_from(NAMES)
_V = st.sampled_from(["a", "b", "c", "v", "w"])
STATEMENTS = st.one_of(
    _fill("{t}.add_(1)", t=_T),
    _fill("{t}.mul_({v})", t=_T, v=_V),
    _fill("{t}[0] = 7", t=_T),
    _fill("{t}[1:] += 1", t=_T),
    _fill("{t}.copy_({v})", t=_T, v=_V),
    _fill("{t}[0].add_({v}[1])", t=_T, v=_V),
    _fill("v = {t}[1:]; v.mul_(2)", t=_T),
    _fill("v = {t}.view(-1)", t=_T),
    _fill("v.add_(1)"),
    _fill("w = {t} * 2 + {v}[0]", t=_T, v=_V),
    _fill("v = {t} - {u}", t=_T, u=_T),
    _fill("torch.add({t}, 1, out={u})", t=_V, u=_T),
    _fill("{t}.detach().add_(1)", t=_T),
    _fill("with torch.no_grad(): {t}.add_(1)", t=_T),
    _fill("{t}, {u} = {u}, {t}", t=_T, u=_T),
    _fill("{t} = {t}.clone()", t=_T),
    _fill("w = {t}.sum() + {v}.max()", t=_T, v=_V),
    _fill("torch._foreach_add_([{t}, {u}], 1)", t=_T, u=_T),
    _fill("print('here')"),
)
_CUTS, _SAME = st.sampled_from(["row", "row", "row", *CUTS]), st.sampled_from(["", "", "", *NAMES])
_PLACES = st.builds(Place, st.integers(0, 1), _CUTS, st.integers(0, 6), _SAME)
_CALLS = st.lists(
    st.tuples(st.sampled_from([4, 4, 4, 5, 3]), st.tuples(_PLACES, _PLACES, _PLACES)), min_size=2, max_size=4
).map(tuple)


def cases(*backends: str) -> st.SearchStrategy[Case]:
    """Drawn cases for these backends."""
    return st.builds(
        Case,
        st.lists(STATEMENTS, min_size=1, max_size=5).map(tuple),
        st.tuples(*[st.sampled_from(["argument", "argument", *WAYS])] * 3),
        st.sampled_from(KINDS),
        _CALLS,
        st.sampled_from(backends),
    )


def world_of(case: Case) -> World:
    """One side: a namespace of its own, tensors of its own."""
    box, net = Box(), torch.nn.Module()
    names: dict[str, Any] = {"torch": torch, **{f"{n}_global": None for n in NAMES}}
    function = function_of(case.text, names)
    now: list[Any] = []

    def prepare(size: int, places: tuple[Place, ...]) -> tuple[Any, ...]:
        now[:] = [*_tensors(case.kind, size, places)]
        arguments = []
        for index, (name, way) in enumerate(zip(NAMES, case.ways, strict=True)):
            _put(way, index, name, now[0][index], names, box, net)
            if way == "argument":
                arguments.append(now[0][index])
        return (*arguments, box, net)

    calls = [lambda size=size, places=places: prepare(size, places) for size, places in case.calls]
    return World(function, calls, lambda: now[:], lambda: now[2])


def _tensors(kind: str, size: int, places: tuple[Place, ...]) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    """The three tensors, the memories they lie in, the leaves that autograd knows."""
    memories = [torch.arange(float(SIZE)) + number for number in range(2)]
    if kind == "integers":
        memories = [memory.to(torch.int64) for memory in memories]
    leaves = []
    if kind == "views of what has a gradient":
        leaves = [memory.requires_grad_() for memory in memories]
        memories = [memory * 1 for memory in memories]
    made: dict[str, torch.Tensor] = {}
    for name, place in zip(NAMES, places, strict=True):
        same = made.get(place.same_as)
        made[name] = CUTS[place.cut](memories[place.memory], place.offset, size) if same is None else same
    if kind == "c is a leaf":
        made["c"] = (torch.arange(float(size)) + 3).requires_grad_()
        leaves = [made["c"]]
    return [made[name] for name in NAMES], memories, leaves


def _put(way: str, index: int, name: str, tensor: torch.Tensor, names: dict[str, Any], box: Box, net: torch.nn.Module) -> None:
    if way == "closure":
        names[f"set_{name}"](tensor)
    elif way == "global":
        names[f"{name}_global"] = tensor
    elif way == "attribute":
        setattr(box, name, tensor)
    elif way == "list":
        box.items[index] = tensor
    elif way == "parameter" and not isinstance(getattr(net, name, None), torch.nn.Parameter):
        parameter = torch.nn.Parameter(tensor.detach(), requires_grad=False)
        setattr(net, name, parameter)
    elif way == "parameter":
        getattr(net, name).data = tensor.detach()


def check(case: Case) -> Passed:
    """The case does under the engine what it does without.

    Not counted are lists of tensors on a GPU: one kernel writes all of them at a time, and which write to one place is the last
    differs from call to call. Nor is a maximum before a graph break: AOTAutograd saves a mask of it, and does not notice that the
    next graph writes to the tensor (DIFF24).
    """
    if runs_on_a_gpu() and any("_foreach_" in statement for statement in case.body):
        return Passed(0)
    if case.backend == "aot_eager" and "print('here')" in case.body and any(".max()" in statement for statement in case.body):
        return Passed(0)
    graphs = graphs_of_same_worlds(lambda: world_of(case), case.backend, f"{case.text}\n{case.kind}, calls: {case.calls}")
    return Passed(graphs, (case.backend, case.kind, *set(case.ways)))


@pytest.mark.parametrize(("backend", "count"), [("eager", 60), ("aot_eager", 15)])
def test_views_of_one_memory_do_the_same(backend: str, count: int) -> None:
    """Random programs on tensors that share memory, otherwise in each call, equal eager in everything."""
    print(run_slice(cases(backend), check, count))


@pytest.mark.soak
def test_the_fuzzer_finds_storage_that_is_not_guarded(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """With the mend taken out, some program differs from eager."""
    monkeypatch.setattr(eligibility, "guard_on_overlap", lambda *args: False)
    difference = finds(cases("aot_eager"), check)
    with capfd.disabled():
        print(f"\n{difference}")
    assert difference


@pytest.mark.soak
def test_views_of_one_memory_for_long(capfd: pytest.CaptureFixture[str]) -> None:
    """Thousands of such programs, from a seed that is printed."""
    with capfd.disabled():
        tally = run_drawn_for_long(cases("eager", "aot_eager", "aot_eager"), check)
    assert not tally.failures, "\n\n".join(tally.failures)
