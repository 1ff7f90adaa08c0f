"""`with` in traced code: torch's modes as blocks, decorators and calls, the program's own context managers, breaks inside."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from programs.program_table import Programs

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3).requires_grad_()


class Logged:
    """A context manager of the program."""

    def __init__(self, log: list[Any], swallow: bool = False) -> None:
        self.log, self.swallow = log, swallow

    def __enter__(self) -> Logged:
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> bool:
        self.log.append(kind.__name__ if kind is not None else "exit")
        return self.swallow


@contextlib.contextmanager
def noted(log: list[Any], name: str) -> Any:
    log.append(f"in {name}")
    try:
        yield name
    finally:
        log.append(f"out {name}")


@contextlib.contextmanager
def without_gradients() -> Any:
    with torch.no_grad():
        yield


@torch.no_grad()
def decorated(x: Any) -> Any:
    return x * 2, torch.is_grad_enabled()


@torch.no_grad
def decorated_plainly(x: Any) -> Any:
    return x * 3


@torch.enable_grad()
def enabled(x: Any) -> Any:
    return x * 2


@torch.inference_mode()
def inferred(x: Any) -> Any:
    return x * 2


@contextlib.contextmanager
def nothing() -> Any:
    yield


@nothing()
def decorated_by_the_program(x: Any) -> Any:
    return x + 1


# -- modes of torch ---------------------------------------------------------------------------------------------------


@program(X, graphs=1, ops=9)
def gradient_modes(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        inside = torch.is_grad_enabled()
    with torch.set_grad_enabled(False):
        c = x * 4
    with torch.set_grad_enabled(mode=True) as nothing_given:
        d = x * 5
    with torch.no_grad(), torch.enable_grad():
        e = x * 6
    return a, b, c, d, e, inside, torch.is_grad_enabled(), a.requires_grad, b.requires_grad, nothing_given


@program(X, graphs=1, ops=9)
def gradient_modes_as_decorators(x):
    @torch.no_grad()
    def inner(y):
        return y * 5

    return decorated(x), decorated_plainly(x), enabled(x), inner(x), x * 2


@program(X, graphs=1, ops=4)
def gradient_modes_as_calls(x):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    a = x * 2
    torch.set_grad_enabled(before)
    b = x * 2
    previous = torch._C._set_grad_enabled(False)
    torch._C._set_grad_enabled(True)
    return a, b


@pytest.mark.parametrize("enabled", [True, False])
def test_a_call_outlives_the_function(enabled: bool) -> None:
    """A mode that traced code sets by a call stays set after it."""

    @dynexplore.optimize("eager")
    def fn(x):
        y = x * 2
        torch.set_grad_enabled(enabled)
        return y, x * 3

    with torch.set_grad_enabled(not enabled):
        first, second = fn(X)
        assert torch.is_grad_enabled() == enabled
    assert first.requires_grad != enabled
    assert second.requires_grad == enabled
    assert graphs_compiled() == 1


@program(X, graphs=1, ops=4)
def an_exception_leaves_the_block(x):
    try:
        with torch.no_grad():
            y = x * 2
            raise ValueError("inside")
    except ValueError:
        z = x * 3
    return y, z, torch.is_grad_enabled()


@program(X, graphs=1, ops=1)
def returns_from_the_block(x):
    def inner(y):
        with torch.no_grad():
            for n in range(3):
                with torch.enable_grad():
                    if n == 1:
                        return y * n
        return y

    return inner(x), torch.is_grad_enabled()


@program(X, graphs=1, ops=10)
def managers_as_values(x):
    manager = torch.no_grad()
    with manager:
        a = x * 2
    with manager:
        b = x * 3
    choose = torch.enable_grad if a.requires_grad else torch.no_grad
    with choose():
        c = x * 4
    with contextlib.nullcontext(), contextlib.nullcontext(x + 1) as given:
        d = given * 2
    with contextlib.nullcontext() if x.dim() == 5 else torch.no_grad():
        e = x + 5
    return a, b, c, d, e


@program(torch.randn(3, 3), graphs=1, ops=9)
def inference(x):
    with torch.inference_mode():
        y = x * 2
        inside = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    with torch.inference_mode(False):
        z = x * 3
    return y.sum(), z, inside, y.is_inference(), inferred(x).is_inference()


@program(torch.randn(3, 3), graphs=1, ops=9)
def automatic_casts(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        with torch.autocast(device_type="cpu", enabled=False):
            z = x @ x
        inside = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    with torch.amp.autocast("cpu"):
        w = x @ x
    return y, z, w, inside, y.dtype, torch.is_autocast_enabled("cpu")


@program(X, graphs=1, ops=1)
def profilers(x):
    with torch.autograd.profiler.record_function("name"), torch.profiler.record_function("other"):
        x = x * 2
    return x


@program(X, graphs=1, ops=3)
def a_profiler_that_nobody_asks(x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as watching:
        y = x * 2
        with torch.autograd.profiler.profile(enabled=False):
            y = y + 1
    return y * 3, watching is None


@program(X, graphs=2, ops=[1, 1], breaks=1)
def a_break_below_a_profiler(x):
    with torch.profiler.profile():
        y = x * 2
        print("below")
        y = y + 1
    return y


@program(X, graphs=2, ops=[1, 1], breaks=4)
def a_profiler_that_is_asked(x):
    with torch.profiler.profile() as watching:
        y = x * 2
    return y + 1, len(watching.key_averages()) > 0


@program(X, graphs=2, ops=[1, 1], breaks=3)
def a_profiler_that_calls_back(x):
    seen = []
    with torch.profiler.profile(on_trace_ready=lambda watching: seen.append("ready")):
        y = x * 2
    return y + 1, seen


@program(torch.randn(3), graphs=1, ops=2)
def a_device_as_a_manager(x):
    with torch.device("cpu"):
        y = torch.ones(3)
    return x + y


# -- managers of the program ------------------------------------------------------------------------------------------


@program(X, [], graphs=1, ops=2)
def own_managers(x, log):
    with Logged(log) as entered, Logged(log):
        x = x * 2
        log.append(entered is not None)
    with Logged(log, swallow=True):
        x = x + 1
        raise KeyError("swallowed")
    try:
        with Logged(log):
            raise ValueError("passed on")
    except ValueError as error:
        log.append(str(error))
    return x


@program(X, [], graphs=1, ops=5)
def managers_made_of_generators(x, log):
    with noted(log, "a") as a, noted(log, "b"):
        x = x * 2
        log.append(a)
    with without_gradients():
        y = x * 3
    try:
        with noted(log, "c"):
            raise ValueError("inside")
    except ValueError:
        log.append("caught")
    return x, y, decorated_by_the_program(x), torch.is_grad_enabled()


@program(X, [], graphs=1, ops=3)
def stacks_and_suppressions(x, log):
    with contextlib.suppress(KeyError, ValueError):
        x = x + 1
        raise KeyError("gone")
    with contextlib.closing(Closing(log)) as closing:
        x = x * closing.factor
    with contextlib.ExitStack() as stack:
        stack.enter_context(Logged(log))
        stack.callback(log.append, "called back")
        x = x * 2
    return x


class Closing:
    """Something with `close`."""

    factor = 2

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def close(self) -> None:
        self.log.append("closed")


# -- breaks inside ----------------------------------------------------------------------------------------------------


@program(X, graphs=2, ops=[3, 5], breaks=["DX206"])
def a_break_inside_no_grad(x):
    with torch.no_grad():
        y = x * 2
        print("inside", torch.is_grad_enabled())
        z = y * 3 + x
    return y, z, x * 4, torch.is_grad_enabled()


@program(X, graphs=3, ops=[4, 1, 4], breaks=["DX206", "DX206"])
def breaks_inside_two_blocks(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
            print("inner", torch.is_grad_enabled())
            c = x * 4
        print("outer", torch.is_grad_enabled())
        d = x * 5
    return a, b, c, d, x * 6


@program(X, graphs=2, ops=[3, 4], breaks=["DX206"])
def a_break_inside_a_set_mode(x):
    with torch.set_grad_enabled(False):
        y = x * 2
        print(torch.is_grad_enabled())
        z = x * 3
    return y, z, x * 4


@program(torch.randn(3, 3), graphs=2, ops=[3, 4], breaks=["DX206"])
def a_break_inside_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        print(torch.is_autocast_enabled("cpu"))
        z = x @ x
    return y, z, x @ x


@program(torch.randn(3, 3), graphs=3, ops=[3, 1, 1], breaks=["DX206", "DX303"])
def a_break_inside_inference_mode(x):
    with torch.inference_mode():
        y = x * 2
        print(torch.is_inference_mode_enabled())
        z = x * 3
    return y.sum(), z, x * 4


@program(X, [], graphs=2, ops=[1, 1], breaks=["DX206"])
def a_break_inside_an_own_manager(x, log):
    with Logged(log):
        y = x * 2
        print("inside", log)
        z = x * 3
    return y, z, log


@program(X, [], graphs=None, ops=[1, 1], breaks=None)
def a_break_inside_a_generator_manager(x, log):
    with noted(log, "a"):
        y = x * 2
        print("inside", log)
        z = x * 3
    return y, z, log


@program(X, graphs=None, ops=[3, 2, 1], breaks=None)
def a_loop_with_breaks_inside(x):
    for n in range(4):
        with torch.no_grad():
            x = x + n
            print(n, torch.is_grad_enabled())
            x = x * 2
    return x, torch.is_grad_enabled()


@program(X, graphs=None, ops=[3, 2, 1], breaks=None)
def two_blocks_with_a_break_in_each(x):
    with torch.no_grad():
        x = x + 1
        print(1, torch.is_grad_enabled())
        x = x * 2
    with torch.no_grad():
        x = x + 2
        print(2, torch.is_grad_enabled())
        x = x * 3
    return x, torch.is_grad_enabled()


@program(X, graphs=None, ops=[3, 1], breaks=None)
def a_break_and_an_exception_inside(x):
    try:
        with torch.no_grad():
            y = x * 2
            print("inside", torch.is_grad_enabled())
            raise ValueError("inside")
    except ValueError:
        print("caught", torch.is_grad_enabled())
        z = x * 3
    return y, z


@program(X, graphs=None, ops=[1, 1, 1], breaks=None)
def a_break_in_a_decorated_callee(x):
    @torch.no_grad()
    def callee(y):
        y = y * 2
        print(torch.is_grad_enabled())
        return y * 3

    return callee(x), x * 2


@program(X, graphs=2, ops=[3, 4], breaks=["DX206"])
def a_break_after_a_set_mode(x):
    torch.set_grad_enabled(False)
    y = x * 2
    print(torch.is_grad_enabled())
    z = x * 3
    torch.set_grad_enabled(True)
    return y, z, x * 4


@program(X, graphs=None, ops=None, breaks=["DX206", "DX303"])
def a_break_in_a_block_before_which_a_mode_was_set_in_another_block(x):
    with torch.no_grad():
        torch.set_grad_enabled(False)
        with torch.inference_mode(False):
            print("inside")
            y = x * 2
        z = x * 3
    return y, z, y.requires_grad, z.requires_grad, x * 4


@program(X, graphs=2, ops=None, breaks=["DX206"])
def a_break_behind_two_set_modes_with_a_block_between(x):
    with torch.no_grad():
        torch.set_grad_enabled(True)
        y = x * 2
        with torch.enable_grad():
            torch.set_grad_enabled(False)
            print("inside")
            z = x * 3
        w = x * 4
    return y, z, w, x * 5, torch.is_grad_enabled()


@program(torch.tensor(1.0), graphs=None, ops=[4, 4], breaks=None)
def a_branch_on_data_inside(x):
    with torch.no_grad():
        y = x * 2
        if y > 1:
            y = y + 1
        else:
            y = y - 1
    return y, x * 2


@program(X, graphs=2, ops=[4, 4], breaks=1, calls=3, recompiles=0)
def a_break_inside_a_mode_is_no_reason_to_recompile(x):
    """The guard on modes is of the begin of the frame, not of where its graph ended."""
    x = x + 1
    with torch.no_grad():
        y = x * 2
        y.sum().tolist()
        y = y + 1
    return x * y


@program(X, graphs=1, ops=1, calls=2, recompiles=0, setup=lambda: torch.set_grad_enabled(True))
def a_call_that_leaves_a_mode_behind(x):
    y = x + 1
    torch.set_grad_enabled(not torch.is_grad_enabled())
    torch.set_grad_enabled(not torch.is_grad_enabled())
    return y


@program(X, graphs=1, ops=8)
def of_two_changes_of_the_grad_mode_the_last_counts(x):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    torch.set_grad_enabled(True)
    torch.set_grad_enabled(False)
    y = x + 1
    with torch.no_grad():
        y = y * 2
    with torch.enable_grad(), torch.set_grad_enabled(False):
        y = y - 1
    torch.set_grad_enabled(before)
    with torch.no_grad():
        pass
    with torch.enable_grad():
        return y + x, y @ y.T


@PROGRAMS.parameters()
def test_program(run):
    """The program does under the engine what it does without, in as many graphs as expected."""
    run()


def test_an_operator_that_fails_inside_leaves_the_modes(capsys: pytest.CaptureFixture[str]) -> None:
    """When an operator inside a mode raises as the graph runs, the program sees it once, and the mode is as it was."""

    @dynexplore.optimize("eager")
    def fn(x, index):
        y = x * 2
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            z = torch.nn.functional.embedding(index, x)
        return y, z

    fn(X, torch.tensor([0, 1]))
    with pytest.raises(IndexError, match="index out of range"):
        fn(X, torch.tensor([0, 7]))
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert torch.autocast_increment_nesting() == 1 and torch.autocast_decrement_nesting() == 0  # else casts stay cached
    assert fn(X, torch.tensor([0, 1]))[0].requires_grad
    assert graphs_compiled() == 1


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_modes_through_a_compiler(backend: str) -> None:
    """Modes inside a graph mean the same to a backend that compiles forward and backward."""

    def fn(x):
        with torch.no_grad():
            y = x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ x
        return y + x, z.float() * 2

    x = torch.randn(3, 3, requires_grad=True)
    expected, actual = fn(x), dynexplore.optimize(backend)(fn)(x)
    assert graphs_compiled() == 1
    for one, other in zip(expected, actual):
        assert torch.equal(one, other)
        first, second = (torch.autograd.grad(out.sum(), x, retain_graph=True)[0] for out in (one, other))
        torch.testing.assert_close(first, second, rtol=1e-2, atol=1e-2)  # bfloat16, summed in another order


MODES: dict[str, Any] = {
    "no_grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast off": lambda: torch.autocast("cpu", enabled=False),
    "inference mode": torch.inference_mode,
    "enable_grad": torch.enable_grad,
}


def set_for_good(x: Any) -> Any:
    y = x @ x
    torch.set_grad_enabled(False)
    z = x @ x
    print("break")
    torch.set_grad_enabled(True)
    return y, z, x @ x


@pytest.mark.parametrize("around", ["no mode", *MODES])
@pytest.mark.parametrize("inside", MODES)
def test_a_compiler_starts_from_the_modes_with_which_the_frame_began(inside: str, around: str) -> None:
    """A break in the block of a mode: a graph that ends, begins and goes on there is compiled as if by itself, so that what stands
    outside of the block has its dtype and its gradients.
    """
    def fn(x):
        y = x @ x
        with MODES[inside]():
            z = x @ x
            print("break")
            z = (x + 0) @ z.clone().to(x.dtype)
        return y, z.clone(), x @ x

    def called(function: Any) -> list[Any]:
        x = torch.eye(3).requires_grad_()
        with MODES[around]() if around in MODES else contextlib.nullcontext():
            results = function(x)
        sums = [one.float().sum() for one in results if one.requires_grad]
        gradient = torch.autograd.grad(sums, [x])[0].tolist() if sums else None
        return [[(one.dtype, one.requires_grad, one.tolist()) for one in results], gradient]

    captured = dynexplore.optimize("aot_eager")(fn)
    expected = called(fn)
    for _ in range(2):
        assert called(captured) == expected
    assert graphs_compiled() == (3 if inside == "inference mode" else 2)  # whose block's end is a break, too


def test_a_compiler_does_not_start_from_a_mode_that_the_frame_sets() -> None:
    """What is computed before `torch.set_grad_enabled(False)` has gradients, though the graph ends after it."""
    assert_same_as_eager(set_for_good, torch.eye(3).requires_grad_(), graphs=2, breaks=["DX206"], calls=2, backend="aot_eager")


@pytest.mark.parametrize("program", [lambda x: x.transpose(0, 1) + 1, lambda x: x.transpose(0, 1) * 2, lambda x: x[0].view(-1)])
def test_views_met_before_are_views_in_inference_mode_too(program: Any) -> None:
    """FakeTensorMode cannot make them from what it remembers."""
    with torch.inference_mode():
        assert_same_as_eager(program, torch.ones(3, 4), graphs=2, then=[(torch.ones(3, 5),), (torch.ones(3, 6),)])


class Managed:
    """A context manager whose instances answer for every attribute, and may have attributes of their own."""

    def __getattribute__(self, name: str) -> Any:
        return None

    def __enter__(self) -> int:
        return 3

    def __exit__(self, *error: Any) -> bool:
        return True


class Hiding:
    """The same, whose objects have an `__enter__` and an `__exit__`."""

    __enter__ = Managed.__enter__
    __exit__ = Managed.__exit__

    def __init__(self) -> None:
        self.__dict__.update(__enter__=lambda: 100, __exit__=lambda *error: False)


@pytest.mark.parametrize("cls", [Managed, Hiding])
def test_with_asks_the_class_alone(cls: Any) -> None:
    """What an object has or answers under `__enter__` and `__exit__` does not count."""

    def call(x: torch.Tensor) -> torch.Tensor:
        with cls() as number:
            x = x * number
            raise ValueError
        return x + 1

    assert_same_as_eager(call, X)


def breaks_before_inference_mode(x):
    y = x * 1
    with torch.autocast("cpu", enabled=False):
        print("here")
    with torch.inference_mode():
        print(torch.is_autocast_enabled("cpu"))
    return y, torch.is_autocast_enabled("cpu")


def breaks_before_it_and_computes(x):
    with torch.autocast("cpu", enabled=False):
        print("here")
        y = x @ x
    with torch.inference_mode():
        z = x @ x
        print("there")
    return y, z, x @ x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [breaks_before_inference_mode, breaks_before_it_and_computes])
def test_inference_mode_remembers_all_modes_as_they_are_when_it_is_entered(program: Any, backend: str) -> None:
    """Leaving it puts back autocast, too: a block that was left before must have been left for real by then."""

    def called(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return program(x), torch.is_autocast_enabled("cpu")

    assert_same_as_eager(called, torch.ones(2, 2), calls=2, backend=backend)


def raises_in_both(x, w):
    y = x * 1
    with torch.enable_grad():
        with torch.inference_mode():
            y = y @ w
    return y


def raises_in_three(x, w):
    y = x * 1
    with torch.inference_mode(), torch.enable_grad(), torch.inference_mode(False), torch.no_grad():
        y = y @ w
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("around", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("program", [raises_in_both, raises_in_three])
def test_a_block_of_inference_mode_that_a_graph_leaves_by_an_error_puts_back_what_it_found_at_once(
    program: Any, around: Any, backend: str
) -> None:
    """Else it would when the error is forgotten, behind the modes that were put back by then."""

    def called(x: torch.Tensor, w: torch.Tensor) -> Any:
        with around():
            try:
                program(x, w)
            except RuntimeError:
                print("refused")
            inside = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        return inside, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), x * 2

    assert_same_as_eager(called, torch.eye(2), torch.eye(2), then=[(torch.eye(2), torch.ones(3, 3))] * 2, backend=backend)
    program = dynexplore.optimize(backend)(program)  # the graph's frame alone, as a module in such a block is called
    assert_same_states(program, around)


def assert_same_states(program: Any, around: Any) -> None:
    refused = False
    with around():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        for other in (torch.eye(2), torch.eye(2, dtype=torch.float64)):
            try:
                program(torch.eye(2), other)
            except RuntimeError:  # forgotten here, and with it the frames of the graph
                refused = True
        assert refused
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
