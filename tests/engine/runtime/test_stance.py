"""engine/runtime/stance.py: what is cached is used, and nothing is compiled by surprise."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend


def twice(x: Any, k: int = 2) -> Any:
    return x * k


def test_eager_on_recompile_uses_what_is_there_and_notes_the_rest() -> None:
    """A hit hits; a miss runs as plain Python, and the guard that failed is written down."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(twice)
    x = torch.ones(2)
    compiled(x)
    with dynexplore.stance("eager_on_recompile") as refused:
        assert torch.equal(compiled(x), x * 2) and backend.runs == 2
        for _ in range(2):
            assert torch.equal(compiled(x.double()), x.double() * 2)
    assert len(backend.graphs) == 1 and len(refused) == 1
    assert "2 x twice" in str(refused) and "TENSOR_MATCH" in str(refused)
    compiled(x.double())
    assert len(backend.graphs) == 2


def test_nothing_compiled_yet() -> None:
    """The first call is refused as well, and says so."""
    with dynexplore.stance("eager_on_recompile") as refused:
        dynexplore.optimize("eager")(twice)(torch.ones(2))
    assert "nothing is compiled for it yet" in str(refused)


def test_fail_on_recompile() -> None:
    """The error names function and guard; what is cached still runs."""
    compiled = dynexplore.optimize("eager")(twice)
    compiled(torch.ones(2))
    with dynexplore.stance("fail_on_recompile"):
        compiled(torch.ones(2))
        with pytest.raises(dynexplore.exc.RecompileError, match=r"twice .* would be compiled.*'x' TENSOR_MATCH"):
            compiled(torch.ones(2).double())
    compiled(torch.ones(2).double())


def test_error_on_recompile() -> None:
    """The first compile is fine, a second one is not."""
    compiled = dynexplore.optimize("eager")(twice)
    with dynexplore.config.patch(error_on_recompile=True):
        compiled(torch.ones(2))
        with pytest.raises(dynexplore.exc.RecompileError, match="TENSOR_MATCH"):
            compiled(torch.ones(2).double())


def test_stances_nest_and_belong_to_their_thread() -> None:
    """The inner one counts; another thread is free."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(twice)
    with dynexplore.stance("fail_on_recompile"), dynexplore.stance("default"):
        compiled(torch.ones(2))
    with dynexplore.stance("fail_on_recompile"):
        thread = threading.Thread(target=compiled, args=(torch.ones(2).double(),))
        thread.start()
        thread.join()
    assert len(backend.graphs) == 2


def test_force_eager_runs_nothing_compiled() -> None:
    """As a block: neither what is cached nor what is new runs compiled, and afterwards the cache is as it was."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(twice)
    x = torch.ones(2)
    compiled(x)
    with dynexplore.stance("force_eager"):
        assert torch.equal(compiled(x), x * 2) and torch.equal(compiled(x.double()), x.double() * 2)
        with dynexplore.stance("default"):
            compiled(x)
        assert (len(backend.graphs), backend.runs) == (1, 2)
    compiled(x)
    assert (len(backend.graphs), backend.runs) == (1, 3)


def test_eager_then_compile_runs_a_function_once_before_it_is_compiled() -> None:
    """The first call is plain Python, the second compiles, the third hits."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(twice)
    x = torch.ones(2)
    with dynexplore.stance("eager_then_compile"):
        seen = []
        for _ in range(3):
            assert torch.equal(compiled(x), x * 2)
            seen.append((len(backend.graphs), backend.runs))
    assert seen == [(0, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("name", ["force_eager", "eager_on_recompile"])
def test_a_call_holds_from_now_on_and_default_ends_it(name: Any) -> None:
    """Without `with`, a stance holds until another one is called."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(twice)
    taken = dynexplore.stance(name)
    try:
        compiled(torch.ones(2))
        assert not backend.graphs
        with dynexplore.stance("default"):
            compiled(torch.ones(2).double())
        assert len(backend.graphs) == 1
    finally:
        dynexplore.stance("default")
    compiled(torch.ones(2))
    assert len(backend.graphs) == 2
    assert len(taken.refused) == (name == "eager_on_recompile")


def test_a_call_holds_in_other_threads() -> None:
    """A called stance is the process's: another thread compiles nothing either."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(twice)
    dynexplore.stance("force_eager")
    try:
        thread = threading.Thread(target=compiled, args=(torch.ones(2),))
        thread.start()
        thread.join()
        assert not backend.graphs
    finally:
        dynexplore.stance("default")
    compiled(torch.ones(2))
    assert len(backend.graphs) == 1


def test_a_stance_decorates_a_function() -> None:
    """It holds during the calls of the function, and only then; what it is called with and gives passes through."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(twice)

    @dynexplore.stance("force_eager")
    def serve(x: Any, k: int) -> Any:
        return compiled(x, k=k)

    assert torch.equal(serve(torch.ones(2), k=3), torch.full((2,), 3.0)) and not backend.graphs
    assert serve.__name__ == "serve"
    compiled(torch.ones(2))
    assert len(backend.graphs) == 1


@pytest.mark.plain("refused before anything is captured")
def test_a_wrong_name() -> None:
    """It lists the right ones."""
    with pytest.raises(ValueError, match="there is no stance 'fast'; there are: default, force_eager, eager_on_recompile"):
        dynexplore.stance("fast")  # type: ignore[arg-type]
