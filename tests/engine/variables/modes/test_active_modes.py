"""Modes of torch x what happens in their block: values, exceptions and the state of the thread are eager's after each call."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad, graph
from torch.nn.attention import SDPBackend, sdpa_kernel

import dynexplore


@contextlib.contextmanager
def _deterministic() -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def _default_dtype() -> Any:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


Make = Callable[[], Any]
MODES: dict[str, Make] = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "inference_mode": torch.inference_mode,
    "inference_mode off": lambda: torch.inference_mode(False),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "device": lambda: torch.device("meta"),
    "detect_anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "sdpa_kernel": lambda: sdpa_kernel(SDPBackend.MATH),
    "saved_tensors_hooks": lambda: graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    "set_multithreading_enabled": lambda: torch.autograd.set_multithreading_enabled(False),
    "dual_level": forward_ad.dual_level,
    "DisableTorchFunction": torch._C.DisableTorchFunction,
    "DisableTorchFunctionSubclass": torch._C.DisableTorchFunctionSubclass,
    "deterministic": _deterministic,
    "default_dtype": _default_dtype,
}


def state() -> list[Any]:
    """What the modes set in this thread."""
    return [
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), torch.is_anomaly_enabled(),
        torch.backends.cuda.flash_sdp_enabled(), torch._C._autograd._top_saved_tensors_default_hooks(True) is None,
        torch._C._is_multithreading_enabled(), torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack(),
        torch._C._is_torch_function_enabled(), torch._C._is_torch_function_all_disabled(), forward_ad._current_level,
        torch.are_deterministic_algorithms_enabled(), torch.get_default_dtype(), torch.empty(0).device.type,
        torch.is_autocast_cache_enabled(),
    ]  # fmt: skip

BODIES: dict[str, Callable[[Make, torch.Tensor, int], Any]] = {}


def body(function: Callable[[Make, torch.Tensor, int], Any]) -> Callable[[Make, torch.Tensor, int], Any]:
    """A row of the table: a program that gets the maker of a mode, a matrix, and what chooses between its two ways."""
    BODIES[function.__name__] = function
    return function


@body
def breaks(make: Make, a: torch.Tensor, n: int) -> Any:
    y = a * 2
    with make():
        y = y * 2
        dynexplore.graph_break()
        z = y + 1
    return y, z, a + 1


@body
def breaks_at_end(make: Make, a: torch.Tensor, n: int) -> Any:
    with make():
        y = a * 2
        dynexplore.graph_break()
    return y + 1


@body
def breaks_first(make: Make, a: torch.Tensor, n: int) -> Any:
    with make():
        dynexplore.graph_break()
        y = a * 2
    return y + 1


@body
def only_breaks(make: Make, a: torch.Tensor, n: int) -> Any:
    with make():
        dynexplore.graph_break()
    return a


@body
def raises_in_graph(make: Make, a: torch.Tensor, n: int) -> Any:
    with make():
        y = a * 2
        torch.linalg.cholesky(a - n * 5)
    return y + 1


@body
def raises_in_graph_caught(make: Make, a: torch.Tensor, n: int) -> Any:
    try:
        with make():
            y = a * 2
            torch.linalg.cholesky(a - n * 5)
    except RuntimeError:
        return a * 3, torch.is_grad_enabled()
    return y + 1


@body
def raises_in_python(make: Make, a: torch.Tensor, n: int) -> Any:
    with make():
        y = a * 2
        if n:
            raise ValueError(n)
    return y + 1


@body
def raises_in_python_caught(make: Make, a: torch.Tensor, n: int) -> Any:
    try:
        with make():
            y = a * 2
            [][n]
    except IndexError:
        return a * 3, torch.is_grad_enabled(), torch.ones(2)
    return y + 1


@body
def breaks_then_raises(make: Make, a: torch.Tensor, n: int) -> Any:
    try:
        with make():
            y = a * 2
            dynexplore.graph_break()
            y = y * 3
            [1][n]
    except IndexError:
        return a * 3, torch.is_grad_enabled(), torch.ones(2)
    return y + 1, torch.is_grad_enabled()


@body
def breaks_then_graph_raises(make: Make, a: torch.Tensor, n: int) -> Any:
    try:
        with make():
            y = a * 2
            dynexplore.graph_break()
            torch.linalg.cholesky(a - n * 5)
    except RuntimeError:
        return a * 3, torch.is_grad_enabled(), torch.ones(2)
    return y + 1, torch.is_grad_enabled()


@body
def returns_inside(make: Make, a: torch.Tensor, n: int) -> Any:
    with make():
        y = a * 2
        dynexplore.graph_break()
        if n:
            return y * 3
    return y + 1


@body
def loop(make: Make, a: torch.Tensor, n: int) -> Any:
    r = []
    for i in range(3):
        with make():
            y = a * i
            if i == n:
                continue
            dynexplore.graph_break()
            if i == n + 1:
                break
            r.append(y)
        r.append(y + 1)
    return r


@body
def nested(make: Make, a: torch.Tensor, n: int) -> Any:
    with make():
        y = a * 2
        with torch.enable_grad(), torch.device("cpu"):
            z = y + 1
            dynexplore.graph_break()
            z = z * 2 + torch.ones(2)
        z2 = y * 3
    return y, z, z2


@body
def nested_outer(make: Make, a: torch.Tensor, n: int) -> Any:
    with torch.no_grad():
        y = a * 2
        with make():
            z = y + 1
            dynexplore.graph_break()
            z = z * 2
        dynexplore.graph_break()
        z2 = y * 3
    return y, z, z2, torch.is_grad_enabled()


def inner(a: torch.Tensor) -> torch.Tensor:
    y = a * 2
    dynexplore.graph_break()
    return y + 1


@body
def break_in_callee(make: Make, a: torch.Tensor, n: int) -> Any:
    with make():
        y = inner(a)
        z = y * 2
    return y, z


def outer(make: Make, a: torch.Tensor) -> Iterator[torch.Tensor]:
    with make():
        y = a * 2
        yield y
        dynexplore.graph_break()
        yield y + 1


@body
def generator(make: Make, a: torch.Tensor, n: int) -> Any:
    r = []
    for y in outer(make, a):
        r.append(y * 2)
    return r


@body
def by_hand_over_a_break(make: Make, a: torch.Tensor, n: int) -> Any:
    m = make()
    m.__enter__()
    y = a * 2
    dynexplore.graph_break()
    m.__exit__(None, None, None)
    return y + 1


@body
def exit_stack(make: Make, a: torch.Tensor, n: int) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(make())
        y = a * 2
        dynexplore.graph_break()
        z = y + 1
    return y, z, a + 1


@body
def exit_stack_raises(make: Make, a: torch.Tensor, n: int) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(make())
        y = a * 2
        torch.linalg.cholesky(a - n * 5)
        z = y + 1
    return y, z, a + 1


@body
def by_hand(make: Make, a: torch.Tensor, n: int) -> Any:
    m = make()
    m.__enter__()
    y = a * 2
    m.__exit__(None, None, None)
    return y + 1


@body
def by_hand_raises(make: Make, a: torch.Tensor, n: int) -> Any:
    m = make()
    m.__enter__()
    try:
        y = a * 2
        torch.linalg.cholesky(a - n * 5)
    finally:
        m.__exit__(None, None, None)
    return y + 1


@body
def decorator(make: Make, a: torch.Tensor, n: int) -> Any:
    def function(a: torch.Tensor) -> torch.Tensor:
        y = a * 2
        dynexplore.graph_break()
        return y + 1
    d = make()
    if not callable(d):  # a device decorates nothing
        return a
    return d(function)(a)


def described(value: Any) -> Any:
    """What can be seen of a result."""
    if isinstance(value, torch.Tensor):
        elements = value.tolist() if value.device.type == "cpu" else None
        return elements, value.dtype, value.device.type, value.requires_grad, value.is_inference(), value.grad_fn is not None
    return [described(item) for item in value] if isinstance(value, tuple | list) else value


def outcome(run: Callable[..., Any], make: Make, n: int) -> Any:
    """What a call returns or raises, and the state that it leaves."""
    try:
        returned = described(run(make, torch.eye(2, requires_grad=True), n))
    except Exception as error:
        returned = type(error).__name__, str(error)[:60]
    return returned, state()


LEAVES_IT_IN_EAGER = {("detect_anomaly", "decorator"), ("set_multithreading_enabled", "decorator")}
"""Such a manager sets its mode when it is made, and as a decorator never restores it."""
CELLS = [cell for cell in itertools.product(MODES, BODIES) if cell not in LEAVES_IT_IN_EAGER]
WERE_WRONG = [
    ("no_grad", "by_hand_over_a_break"), ("enable_grad", "by_hand_over_a_break"), ("inference_mode", "by_hand_over_a_break"),
    ("autocast", "by_hand_over_a_break"), ("sdpa_kernel", "by_hand_over_a_break"), ("autocast", "exit_stack"),
    ("set_grad_enabled", "decorator"), ("device", "breaks"), ("device", "raises_in_graph"),
]  # fmt: skip


def assert_alike(mode: str, name: str, backend: str) -> None:
    """Each call is eager's: two on one way, two on the other, which raises in some programs, and the first way again."""
    make, function = MODES[mode], BODIES[name]
    dynexplore.reset()
    run = dynexplore.optimize(backend)(function)
    for number, n in enumerate([0, 0, 1, 1, 0]):
        assert outcome(run, make, n) == outcome(function, make, n), f"call {number}"
    assert dynexplore.counters["frames"]["total"] > 0


@pytest.mark.parametrize(("mode", "name"), [*WERE_WRONG, *random.Random(3).sample(sorted({*CELLS} - {*WERE_WRONG}), 40)])
def test_the_state_of_the_thread_is_eagers(mode: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """What was wrong once, and a slice of the rest."""
    assert_alike(mode, name, "eager")


@pytest.mark.parametrize("name", ["breaks_then_raises", "breaks_then_graph_raises", "by_hand_raises"])
def test_a_backend_compiles_under_no_default_device(name: str) -> None:
    """AOTAutograd traced under the device that the frame was called with: it failed, or kept the device that the frame exits."""
    assert_alike("device", name, "aot_eager")


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("mode", "name"), CELLS)
def test_the_state_of_the_thread_is_eagers_in_each(mode: str, name: str, backend: str, caplog: pytest.LogCaptureFixture) -> None:
    """The whole table."""
    assert_alike(mode, name, backend)
