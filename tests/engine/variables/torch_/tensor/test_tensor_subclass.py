"""Tensors of the program's own classes: what `__torch_function__` says is in the graph, and results have their class."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs.program_table import Programs

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3).requires_grad_()


class Plain(torch.Tensor):
    """Keeps the `__torch_function__` that Tensor has."""

    scale = 2.0

    def scaled(self) -> Any:
        return self * self.scale

    @property
    def rows(self) -> int:
        return self.shape[0]


class Deeper(Plain):
    """A subclass of a subclass."""


LOG: list[Any] = []


class Logs(torch.Tensor):
    """Notes what it is asked about, then does what Tensor does."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        LOG.append((getattr(func, "__name__", "?"), [one.__name__ for one in types], len(args)))
        return super().__torch_function__(func, types, args, kwargs)


class Adds(torch.Tensor):
    """Adds where the program multiplies, and gives plain tensors."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.mul:
            func = torch.add
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Refuses(torch.Tensor):
    """Leaves the answer to others."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented if func is torch.Tensor.add else super().__torch_function__(func, types, args, kwargs)


class Other(torch.Tensor):
    """Changes a method of its own, past `__torch_function__`."""

    def dim(self) -> int:
        return -1


def of(cls: type[Any]) -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3).as_subclass(cls)


@program(of(Plain), X, graphs=1)
def results_have_the_class(s, x):
    return s + 1, x * s, s.sum(), s.unbind(0), torch.cat([x, s]), s.shape, s.dtype, (s > 2).any(), x + 1


@program(of(Plain), graphs=1)
def its_own_methods_and_properties(s):
    return s.scaled(), s.rows, type(s) is Plain, isinstance(s + 1, Plain), s.scale


@program(of(Deeper), of(Plain), graphs=1)
def a_subclass_is_asked_before_its_base(a, b):
    return a + b, b + a, torch.stack([b, a])


@program(X, graphs=1)
def made_in_the_frame(x):
    s = x.as_subclass(Plain)
    y = s * 2
    return y, s, y.as_subclass(torch.Tensor) + 1, [y, y]


@program(X.detach(), graphs=1)
def changed_in_place(x):
    s = x.as_subclass(Plain)
    t = s * 1
    t.add_(1)
    t[0] = 5
    s.mul_(2)
    return t, s


@program(of(Adds), X, graphs=1)
def its_own_answers(s, x):
    return s * 3, x * s, s - 1, x * 2


@program(of(Plain), graphs=1)
def through_functions_of_torch_in_python(s):
    return torch.nn.functional.relu(s), torch.nn.functional.softmax(s, dim=-1), torch.Tensor.__rsub__(s, 1), 1 - s, len(s), list(s)


@program(of(Plain), graphs=1)
def classes_switched_off(s):
    with torch._C.DisableTorchFunctionSubclass():
        y = s + 1
    return y, s + 1


@program(of(Refuses), X, graphs=1, breaks=["DX419"])
def nobody_answers(s, x):
    y = x * 2
    try:
        return s + 1
    except TypeError:
        return y


@program(of(Other), X, graphs=1, breaks=["DX402"])
def one_that_changes_more(s, x):
    y = x * 2
    return y + 1, s + 1, s.dim()


@PROGRAMS.parameters()
def test_subclasses(run: Callable[[], Any]) -> None:
    """Each program gives what it gives in eager, classes included."""
    run()


def test_it_is_asked_what_it_is_asked_in_eager() -> None:
    """The class hears of each call once, under the name and with the types that torch gives it, and of nothing else."""

    def fn(s: Any, x: Any) -> Any:
        y = s + 1
        z = x @ s.T
        return torch.nn.functional.relu(y), z.shape, y[0], 2 - s

    assert_same_as_eager(fn, of(Logs), X, graphs=1, calls=2, setup=LOG.clear, observe=lambda: list(LOG))


def cut_from(columns: int) -> Any:
    return torch.arange(4.0 * columns).reshape(4, columns)[:, columns - 3 :].as_subclass(Logs)


@pytest.mark.parametrize(
    "tensors",
    [
        pytest.param(lambda: [torch.ones(n, 3).as_subclass(Logs) for n in (4, 5, 6, 5)], id="sizes"),
        pytest.param(lambda: [cut_from(n) for n in (4, 5, 6, 7)], id="strides"),
    ],
)
def test_it_does_not_hear_of_guards(tensors: Callable[[], list[Any]]) -> None:
    """A size or a stride that a guard asks for, and the words for one that failed, are no calls of the program."""
    first, *more = [(s,) for s in tensors()]
    assert_same_as_eager(lambda s: s * 2, *first, then=more, graphs=2, setup=LOG.clear, observe=lambda: list(LOG))


def test_it_does_not_hear_how_a_backend_asks_for_its_memory() -> None:
    """Whether inputs overlap, and the guard on that, are no calls of the program: not where a backend compiles, either."""

    def fn(s: Any, t: Any) -> Any:
        s.add_(1)
        return s * t

    compiled = dynexplore.optimize("aot_eager")(fn)
    heard = []
    for function in (fn, compiled, compiled):
        inputs = of(Logs), of(Logs)
        LOG.clear()
        function(*inputs)
        heard.append(list(LOG))
    assert heard[1:] == [heard[0]] * 2
    assert graphs_compiled() == 1


def test_a_class_that_is_changed_is_guarded() -> None:
    """What its `__torch_function__` is, is relied on."""

    class Counts(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs)

    compiled = dynexplore.optimize("eager")(lambda s: s * 2)
    tensor = of(Counts)
    assert type(compiled(tensor)) is Counts
    Counts.__torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    assert type(compiled(tensor)) is torch.Tensor
    assert graphs_compiled() == 2


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_through_a_compiler(backend: str) -> None:
    """A compiler gets a graph of plain tensors."""
    assert_same_as_eager(lambda s, x: (s * 2 + x).relu(), of(Plain), X, graphs=1, breaks=0, backend=backend)


@pytest.mark.parametrize("change", ["an attribute over a method", "no method", "an operator", "a conversion"])
def test_what_is_put_before_a_method_or_an_operator_of_torch(change: str) -> None:
    """The tensor's own attribute hides a method of its class; a class that gets an operator of its own is not traced."""

    class Own(torch.Tensor):
        def area(self) -> int:
            return 3

    def fn(x: torch.Tensor, s: Any) -> Any:
        y = x * s.area() if callable(s.area) else x * 11
        return y + (s + 1), len(s)

    tensor = torch.ones(2, 3).as_subclass(Own)
    compiled = dynexplore.optimize()(fn)
    for number in range(3):
        if number == 1 and change == "an attribute over a method":
            tensor.area = lambda: 9  # type: ignore[attr-defined]
        elif number == 1 and change == "no method":
            tensor.area = classmethod(lambda cls: 9)  # type: ignore[attr-defined]
        elif number == 1 and change == "an operator":
            Own.__add__ = lambda self, other: 5  # type: ignore[method-assign,assignment]
        elif number == 1:
            Own.__len__ = lambda self: 7  # type: ignore[method-assign]
        assert str(compiled(X, tensor)) == str(fn(X, tensor))
    assert graphs_compiled() >= 1


def test_a_class_whose_tensor_was_copied_is_traced_as_before() -> None:
    """`copy.copy` and pickle note `__slotnames__` in the class, which changes nothing of what its tensors do."""

    class Copied(torch.Tensor):
        pass

    copy.copy(torch.ones(2).as_subclass(Copied))
    assert "__slotnames__" in vars(Copied)
    assert_same_as_eager(lambda x: x.sin() + 1, torch.ones(2).as_subclass(Copied), graphs=1, breaks=0)
