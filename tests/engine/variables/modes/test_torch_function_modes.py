"""TorchFunctionModes in traced code: each call of torch asks the innermost one, as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from programs.program_table import Programs
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3).requires_grad_()


class Logs(TorchFunctionMode):
    """Notes what it is asked about, and lets it be."""

    def __init__(self, log: list[Any], name: str = "") -> None:
        super().__init__()
        self.log, self.name = log, name

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append((self.name, getattr(func, "__name__", "?"), len(types), len(args), sorted(kwargs or {})))
        return func(*args, **(kwargs or {}))


class AddsForMultiplied(TorchFunctionMode):
    """Adds where the program multiplies."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.mul or func is torch.mul:
            func = torch.add
        return func(*args, **(kwargs or {}))


class Doubles(TorchFunctionMode):
    """Twice what an addition gives: what it calls itself is asked outside of it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made * 2 if func is torch.Tensor.add else made


class Counts(BaseTorchFunctionMode):
    def __init__(self):
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return super().__torch_function__(func, types, args, kwargs)


class Answers(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func.__name__


class Refuses(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise ValueError(func.__name__)


class Looks(TorchFunctionMode):
    def __init__(self, depths):
        self.depths = depths

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.depths.append(torch._C._len_torch_function_stack())
        with self:
            self.depths.append(torch._C._len_torch_function_stack())
        return func(*args, **(kwargs or {}))


@program(X, graphs=1, ops=1)
def a_call_is_replaced(x):
    with AddsForMultiplied():
        return x * 3


@program(X, graphs=1, ops=5)
def it_ends_with_its_block(x):
    y = x * 2
    with AddsForMultiplied():
        y = torch.mul(y, 3)
        y = y.mul(4)
    return y * 5 + 1


@program(X, graphs=1, ops=1)
def the_outer_one_is_asked_by_the_inner(x):
    log = []
    with Logs(log, "outer"), Doubles(), Logs(log, "inner"):
        y = x + 1
    return y - 1, log


@program(X, graphs=1, ops=2)
def the_inner_one_is_asked_first(x):
    with AddsForMultiplied(), Doubles():
        y = x + 1
    with Doubles(), AddsForMultiplied():
        z = x + 1
    return y, z


@program(X, graphs=1, ops=5)
def what_it_is_asked_about(x):
    log = []
    with Logs(log):
        y = x[0] + 1
        y = 2 - y
        y = -y
        y = y.sum(dim=0, keepdim=True)
        y = torch.nn.functional.relu(y)
        y = torch.cat([y, y], dim=0)
        y = y @ y
        z = torch.zeros(2, dtype=torch.float64)
    return y, z, log


@program(X, graphs=1, ops=4)
def questions_that_need_no_operator(x):
    log = []
    with Logs(log):
        facts = [x.shape, x.dtype, x.ndim, x.size(0), x.dim(), len(x), x.requires_grad, x.device.type, x.is_floating_point(),
                 torch.is_complex(x), x.numel()]
        first, second = x
        T = x.T
    return first + second, T, facts, log


@program(X, graphs=1, ops=2)
def an_item_is_set(x):
    log = []
    y = x * 1
    with Logs(log):
        y[0] = 5
        y += 1
    return y, log


@program(X, graphs=1, ops=0)
def a_mode_that_is_passed_in_and_counts(x):
    mode = Counts()
    with mode:
        y = x + 1
        y = y.relu()
    return y, mode.count


@program(X, graphs=1, ops=2)
def a_function_of_torch_in_python_asks_for_itself(x):
    log = []
    with Logs(log):
        y = torch.Tensor.__rsub__(x, 3)
        z = torch.nn.functional.softmax(x, dim=-1)
    return y, z, log


@program(X, graphs=1, ops=1)
def a_handler_that_looks_at_the_stack(x):
    depths = []
    with Looks(depths):
        y = x + 1
    return y * 2, depths


@program(X.detach(), graphs=1, ops=1)
def an_answer_that_is_no_tensor(x):
    with Answers():
        answers = x + 1, torch.ones(2), x.sum()
    return answers, x * 2


@torch.no_grad()
def without_gradients(x):
    return x.cos()


@program(X, graphs=1, ops=2)
def a_function_under_no_grad_in_two_blocks(x):
    log = []
    with Logs(log, "outer"), Logs(log, "inner"):
        y = without_gradients(x) + x
    return y, log, torch.is_grad_enabled()


class KeepsGradMode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return None if func is torch._C._set_grad_enabled else func(*args, **(kwargs or {}))


@program(X, graphs=1, ops=0)
def a_mode_that_keeps_the_grad_mode(x):
    with KeepsGradMode():
        with torch.no_grad():
            y = x.sin() + 1
    return y, y.requires_grad, torch.is_grad_enabled()


@program(X, graphs=1, ops=3)
def gradients_inside_of_none_in_its_block(x):
    with Logs([]):
        with torch.no_grad():
            with torch.enable_grad():
                y = x.sin()
            z = x.cos()
    return y + z, y.requires_grad, z.requires_grad, torch.is_grad_enabled()


@program(X, graphs=0, ops=0, breaks=["DX318"])
def a_break_without_gradients_in_its_block(x):
    log = []
    with Logs(log):
        with torch.no_grad():
            y = x.sin()
            print("here")
            z = x.cos()
    return y + z, log, torch.is_grad_enabled()


@program(X, graphs=1, ops=2, breaks=["DX419"])
def the_grad_mode_is_set_by_a_call_in_its_block(x):
    y = x * 2 * 3
    with Logs([]):
        with torch.set_grad_enabled(False):
            z = y + 1
    return z, y, torch.is_grad_enabled()


@program(X, graphs=1, ops=5)
def the_grad_mode_changes_in_its_block(x):
    log = []
    y = x * 2 * 3 * 4
    with Logs(log):
        with torch.no_grad():
            z = y + 1
    return z, y, log, torch.is_grad_enabled()


@program(X, graphs=1, ops=1, breaks=["DX206"])
def a_break_in_its_block(x):
    log = []
    y = x * 2
    with Logs(log):
        print("here")
        z = y + 1
    return z * 2, log


@program(X, graphs=0, breaks=["DX310"])
def a_handler_that_raises(x):
    with Refuses():
        return x + 1


@PROGRAMS.parameters()
def test_function_modes(run: Callable[[], Any]) -> None:
    """Each program does what it does in eager, in so many graphs."""
    run()


def test_a_mode_with_settings_of_its_own_is_guarded() -> None:
    """What a handler reads of a live mode is relied on: another value compiles again."""

    class Scales(TorchFunctionMode):
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {})) * self.factor

    mode = Scales(2.0)

    def scaled(x: torch.Tensor) -> torch.Tensor:
        with mode:
            return x + 1

    compiled = dynexplore.optimize("eager")(scaled)
    x = torch.ones(2)
    for factor in (2.0, 3.0):
        mode.factor = factor
        assert torch.equal(compiled(x), scaled(x))
    assert graphs_compiled() == 2


def test_a_mode_around_vmap_in_a_device() -> None:
    """The calls inside of vmap ask the mode, and the default device around it is asked after it."""

    def fn(x: torch.Tensor) -> Any:
        log: list[Any] = []
        with torch.device("meta"), Logs(log), AddsForMultiplied():
            made = torch.ones(2)
            kind = torch.device("cpu")
            rows = torch.vmap(lambda row: row * 2)(x)
        return rows, made.device.type, kind, log

    assert_same_as_eager(fn, X.detach(), graphs=1, breaks=0)


def test_what_an_operator_is_made_of_asks_no_mode() -> None:
    """Where sizes vary, fake tensors carry out an operator by others: these are no calls of the program, which a mode would hear.

    A vmap inside of a mode, as transformers make their masks by it: two compiles for any number of lengths.
    """
    log: list[Any] = []

    def fn(x: torch.Tensor) -> Any:
        places = torch.arange(x.shape[1])
        allows = torch.vmap(torch.vmap(lambda row, column: row >= column, (None, 0)), (0, None))
        with Logs(log):
            mask = allows(places, places)
        return x.masked_fill(mask[-1], 0.0), mask

    compiled = dynexplore.optimize("eager")(fn)
    for length in (2, 3, 5, 4):
        x = torch.arange(2.0 * length).reshape(2, length)
        expected, heard = fn(x), log.copy()
        log.clear()
        for found, value in zip(compiled(x), expected, strict=True):
            assert torch.equal(found, value)
        assert log == heard
        log.clear()
    assert graphs_compiled() == 2
    assert not dynexplore.graph_breaks()


def test_a_device_in_its_block_is_a_break() -> None:
    """A device is a mode that is asked before those around it: it is entered for real."""

    def fn(x: torch.Tensor) -> Any:
        y = x * 2
        log: list[Any] = []
        with Logs(log), torch.device("meta"):
            made = torch.ones(2)
        return y, made.device.type, log

    assert_same_as_eager(fn, X, graphs=1, breaks=["DX419"])


def test_no_step_under_a_mode_is_said_to_diverge() -> None:
    """What an instruction means under a mode, the mode says: the second opinion has none."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        with Doubles():
            return x + 1

    explanation = dynexplore.explain(fn)(torch.ones(2))
    assert explanation.graph_count == 1
    assert "divergence" not in str(explanation)
