"""engine/runtime/stance.py: what is cached is used, and nothing is compiled by surprise."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.runtime import backends
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
    assert "there is no cache entry yet" in str(refused)


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


def test_the_plain_first_call_shows_which_sizes_and_numbers_vary() -> None:
    """Two calls of two sizes are compiled once, for any size; with what stands in a tuple and in a dict, and with numbers."""
    backend = CountingBackend()

    def weighted(x: Any, more: Any, k: int) -> Any:
        return x * k + more[0] + more[1]["bias"]

    compiled = dynexplore.optimize(backend)(weighted)
    with dynexplore.stance("eager_then_compile"):
        for size in (3, 4, 5, 6):
            x = torch.ones(size)
            assert torch.equal(compiled(x, (x, {"bias": x}), size), torch.full((size,), size + 2.0))
    assert (len(backend.graphs), backend.runs) == (1, 3)


def test_aot_eager_then_compile_runs_a_function_under_aot_eager_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of a function, and of what goes on behind its break, is aot_eager's alone; the next ones are the backend's."""
    aot_graphs = []

    def aot_eager(graph: Any, inputs: Any) -> Any:
        aot_graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(backends, "lookup", {"aot_eager": aot_eager}.__getitem__)
    backend = CountingBackend()

    def broken(x: Any) -> Any:
        y = x + 1
        dynexplore.graph_break()
        return y * 2

    compiled = dynexplore.optimize(backend)(broken)
    seen = []
    with dynexplore.stance("aot_eager_then_compile"):
        for size in (3, 4, 5):
            assert torch.equal(compiled(torch.ones(size)), torch.full((size,), 4.0))
            seen.append((len(aot_graphs), len(backend.graphs), backend.runs))
    compiled(torch.ones(6))
    assert seen == [(2, 0, 0), (2, 2, 2), (2, 2, 4)]
    assert (len(aot_graphs), len(backend.graphs), backend.runs) == (2, 2, 6)


def test_a_forced_backend_compiles_for_all_and_then_each_has_its_own_again() -> None:
    """Functions optimized before and in the block; what their own backends have compiled waits, and hits again."""
    own, late, forced = CountingBackend(), CountingBackend(), CountingBackend()
    before = dynexplore.optimize(own)(twice)
    x = torch.ones(2)
    before(x)
    with dynexplore.stance(force_backend=forced):
        made_here = dynexplore.optimize(late)(lambda y: y + 1)
        for _ in range(2):
            assert torch.equal(before(x), x * 2) and torch.equal(made_here(x), x + 1)
        with dynexplore.stance("default"):
            before(x.double())
        before(x)
    assert (len(own.graphs), own.runs, len(late.graphs), len(forced.graphs), forced.runs) == (2, 2, 0, 2, 5)
    before(x), made_here(x)
    assert (len(own.graphs), own.runs, len(late.graphs), len(forced.graphs)) == (2, 3, 1, 2)


def test_a_backend_that_a_call_forces_holds_until_the_next_stance() -> None:
    """`stance(force_backend=...)` alone."""
    own, forced = CountingBackend(), CountingBackend()
    compiled = dynexplore.optimize(own)(twice)
    dynexplore.stance(force_backend=forced)
    try:
        compiled(torch.ones(2))
    finally:
        dynexplore.stance("default")
    compiled(torch.ones(2))
    assert (forced.runs, own.runs) == (1, 1)


def test_tools_look_into_their_own_backend_while_another_is_forced() -> None:
    """`explain` sees the graphs that it asks for."""
    forced = CountingBackend()
    with dynexplore.stance(force_backend=forced):
        assert dynexplore.explain(twice, torch.ones(2)).graph_count == 1
    assert not forced.graphs


def test_what_is_forced_keeps_the_options_of_each() -> None:
    """`nopython` of the function counts for the forced backend, too."""

    def broken(x: Any) -> Any:
        dynexplore.graph_break()
        return x + 1

    compiled = dynexplore.optimize(CountingBackend(), nopython=True)(broken)
    with dynexplore.stance(force_backend=CountingBackend()), pytest.raises(dynexplore.exc.Unsupported):
        compiled(torch.ones(2))


@pytest.mark.plain("refused before anything is captured")
def test_a_backend_is_forced_in_the_default_stance_only() -> None:
    """And it has to be one."""
    with pytest.raises(ValueError, match="force_backend works only with the stance 'default', not with 'force_eager'"):
        dynexplore.stance("force_eager", force_backend="eager")
    with pytest.raises(ValueError, match="there is no backend 'eagre'"):
        dynexplore.stance(force_backend="eagre")


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


def test_a_module_is_not_named_by_the_function_that_enters_it() -> None:
    """What would have been compiled for an optimized module names no function of the engine."""
    fast = dynexplore.optimize("eager")(torch.nn.Linear(2, 2))
    with dynexplore.stance("eager_on_recompile") as refused:
        fast(torch.ones(3, 2))
    assert "1 x an optimized module: there is no cache entry yet" in str(refused)
    assert "dynexplore entry" not in str(refused)
