"""`with sdpa_kernel(...)` in a graph: the kernels that attention may choose, inside the block and after it.

Theme: which flags of the process a custom operator sees where it runs, however the block begins and ends; they are afterwards what
they were.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import attention
from torch.nn.attention import SDPBackend, sdpa_kernel

import dynexplore
from engine_checks import assert_same_as_eager

X = torch.ones(2)
SEEN: list[Any] = []


def chosen() -> list[str]:
    """The kernels that attention may choose now, by name."""
    names: list[Any] = attention._cur_sdpa_kernel_backends()
    return [backend.name for backend in names]


@torch.library.custom_op("tests_sdpa_kernel::sees", mutates_args=())
def sees(x: torch.Tensor) -> torch.Tensor:
    SEEN.append(chosen())
    if len(SEEN) > 20:
        raise ValueError("enough")
    return x.clone()


@sees.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def one(x: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        x = sees(x)
    return sees(x)


def several(x: Any) -> Any:
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        x = sees(x)
    return sees(x)


def nested(x: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        with sdpa_kernel(backends=[SDPBackend.EFFICIENT_ATTENTION]) as given:
            x = sees(x)
        x = sees(x) + len(given)
    return sees(x)


def in_a_loop(x: Any) -> Any:
    for _ in range(3):
        with sdpa_kernel(SDPBackend.MATH):
            x = sees(x)
    return x


def returns_inside(x: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        return sees(x)


def raises_inside(x: Any) -> Any:
    try:
        with sdpa_kernel(SDPBackend.MATH):
            x = sees(x)
            raise KeyError(1)
    except KeyError:
        return sees(x)


def with_two_managers(x: Any) -> Any:
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        x = sees(x)
    return sees(x)


def breaks_inside(x: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        x = sees(x)
        dynexplore.graph_break()
        x = sees(x)
    return sees(x)


def breaks_after(x: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        x = sees(x)
    dynexplore.graph_break()
    return sees(x)


def with_other_arguments(x: Any) -> Any:
    try:
        with sdpa_kernel((SDPBackend.MATH,)):
            x = sees(x)
    except AssertionError as error:
        return sees(x), str(error)
    return x


WHOLE = [one, several, nested, in_a_loop, returns_inside, raises_inside, with_two_managers]
BROKEN = [breaks_inside, breaks_after, with_other_arguments]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_a_block_is_part_of_the_graph(program: Any, backend: str) -> None:
    """One graph, the same kernels in it, and afterwards those of before."""
    before = chosen()
    report = assert_same_as_eager(program, X, calls=2, graphs=1, breaks=0, backend=backend, setup=SEEN.clear, observe=chosen)
    assert report.recompiles == 0
    assert chosen() == before
    if backend == "eager":
        seen_in_eager = seen(program)
        assert seen(dynexplore.optimize("eager")(program)) == seen_in_eager
        assert len({tuple(names) for names in seen_in_eager}) > 1 or program in (in_a_loop, returns_inside)


def seen(program: Any) -> list[Any]:
    """What the operator saw in a second call."""
    program(X)
    SEEN.clear()
    program(X)
    return list(SEEN)


@pytest.mark.parametrize("program", BROKEN, ids=lambda program: program.__name__)
def test_a_block_and_a_graph_break(program: Any) -> None:
    """What runs after the break runs under the same kernels as in eager."""
    before = chosen()
    SEEN.clear()
    assert_same_as_eager(program, X, calls=2, graphs=range(1, 9), setup=SEEN.clear)
    assert seen(dynexplore.optimize("eager")(program)) == seen(program)
    assert chosen() == before


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_operator_that_raises_inside_the_block(backend: str) -> None:
    """The kernels are those of before, also while the exception is held."""
    compiled = dynexplore.optimize(backend)(one)
    SEEN.clear()
    compiled(X)
    before = chosen()
    SEEN.extend([[]] * 20)
    with pytest.raises(ValueError, match="enough") as raised:
        compiled(X)
    assert chosen() == before
    del raised
    assert chosen() == before
    assert dynexplore.counters["stats"]["graphs"] == 1


def by_hand(x: Any) -> Any:
    manager = sdpa_kernel(SDPBackend.MATH)
    manager.__enter__()
    x = sees(x)
    manager.__exit__(None, None, None)
    return sees(x)


def test_entered_by_hand_it_is_compiled_once() -> None:
    """Torch's own code of it sets a switch for each kernel: it runs as plain Python, and no call of it is a recompile."""
    run = dynexplore.optimize("eager")(by_hand)
    for _ in range(5):
        SEEN.clear()
        assert run(X).tolist() == by_hand(X).tolist()
        assert SEEN[:2] == SEEN[2:]
    stats = dynexplore.counters["stats"]
    assert (stats["graphs"], stats["recompiles"], stats["cache_limit"]) == (2, 0, 0)
