"""What the alias matrix cannot say of guards on overlap: the count of graphs over a series of layouts, tensors whose memory moves,
the text of a report, Inductor.

Values and gradients of a call whose inputs overlap are cells of test_alias_matrix.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager, graphs_compiled


def changes_and_adds(a, b):
    a.add_(1)
    return a + b


def only_reads(a, b):
    return a + b


def apart(size: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(size), torch.zeros(size)


def overlapping(size: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.zeros(size + 1)
    return base[:-1], base[1:]


def same(size: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.zeros(size)
    return base[:], base[:]


def disjoint(size: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.zeros(2 * size)
    return base[:size], base[size:]


def empty(size: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.zeros(size)
    return base[:0], base[:0]


def results(wrap: Any, pairs: list[Any]) -> list[str]:
    fn = wrap(changes_and_adds)
    return [repr((fn(*pair), pair)) for pair in (make() for make in pairs)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("pairs", [
    [apart, overlapping, same, disjoint],
    [overlapping, apart, same],
    [same, disjoint, overlapping],
    [disjoint, overlapping, apart],
], ids=lambda pairs: " ".join(pair.__name__ for pair in pairs))  # fmt: skip
def test_the_pattern_changes_between_calls(pairs: list[Any], backend: str) -> None:
    """In whichever order they come, tensors apart and views that overlap give what eager gives.

    There is one translation for tensors apart, one for the first layout that overlaps, and one for all other layouts.
    """
    expected = results(lambda fn: fn, pairs)
    dynexplore.reset()
    assert results(dynexplore.optimize(backend), pairs) == expected
    recompiles = dynexplore.counters["stats"]["recompiles"]
    layouts = len({overlapping, same} & set(pairs))
    assert recompiles == (0 if backend == "eager" else layouts)  # a graph that runs as it stands relies on nothing of this
    assert graphs_compiled() == recompiles + 1


def test_sizes_that_became_dynamic() -> None:
    """Overlapping views of other sizes, after separate tensors of other sizes."""
    pairs = [overlapping, lambda: overlapping(5), apart, lambda: apart(4), lambda: same(6), lambda: apart(7), empty]
    expected = results(lambda fn: fn, pairs)
    dynexplore.reset()
    assert results(dynexplore.optimize("aot_eager"), pairs) == expected
    assert graphs_compiled() == 4


def test_a_graph_that_only_reads_does_not_ask() -> None:
    """Where nothing is written, sharing memory is nobody's business: one translation serves all."""
    fn = dynexplore.optimize("aot_eager")(only_reads)
    for make in (apart, overlapping, same, disjoint):
        assert torch.equal(fn(*make()), torch.zeros(3))
    assert graphs_compiled() == 1


def test_inputs_that_overlap_in_varying_layouts() -> None:
    """The first layout is compiled, and that of tensors apart; one graph that runs as it stands serves all others."""
    counting = CountingBackend("eager")
    fn = dynexplore.optimize(counting)(changes_and_adds)
    fn(*overlapping())
    assert len(counting.graphs) == 1
    fn(*apart())
    assert len(counting.graphs) == 2
    for make in (overlapping, same, disjoint, same, lambda: tuple(torch.zeros(9)[2 * at : 2 * at + 3] for at in (0, 1))):
        fn(*make())
    assert len(counting.graphs) == 2
    assert dynexplore.counters["stats"]["recompiles"] == 2


def test_a_parameter_that_moves() -> None:
    """`.data` of a parameter is set: it is the same object, on another's memory."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = torch.nn.Parameter(torch.zeros(3), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.p.add_(1)
            return x + self.p

    outcomes = []
    for wrap in (lambda net: net, dynexplore.optimize("aot_eager")):
        net = Net()
        run, x = wrap(net), torch.arange(3.0)
        found = [run(x).clone()]
        net.p.data = x[:]
        found.append(run(x).clone())
        net.p.data = torch.ones(3)
        found.append(run(x).clone())
        outcomes.append([t.tolist() for t in found])
    assert outcomes[0] == outcomes[1]
    assert graphs_compiled() == 2


def test_many_inputs_of_which_some_are_held() -> None:
    """Statistics of many normalizations are written while training; an input that lies among them is noticed."""
    net = torch.nn.Sequential(*[torch.nn.BatchNorm1d(3) for _ in range(8)])
    fn = dynexplore.optimize("aot_eager")(net)
    for _ in range(3):
        fn(torch.randn(4, 3))
    assert dynexplore.counters["stats"]["recompiles"] == 0
    store = torch.randn(15)
    net[0].running_mean.data = store[1:4]
    fn(store[:12].view(4, 3))
    assert dynexplore.counters["stats"]["recompiles"] == 1


def test_the_guard_can_be_read() -> None:
    """It stands in the guard pane with names, and a miss says which tensors overlap."""
    explanation = dynexplore.explain(changes_and_adds, *apart(), backend="aot_eager")
    guard = next(guard for guard in explanation.guards if guard.kind == "STORAGE_OVERLAP")
    assert (guard.expression, guard.expected) == ("lie_apart(a, b)", "a and b do not overlap in memory")
    dynexplore.reset()
    fn = dynexplore.optimize("aot_eager")(changes_and_adds)
    fn(*apart())
    fn(*overlapping())
    report = str(dynexplore.explain(changes_and_adds, backend="aot_eager").calls(apart(), overlapping()).timeline)
    assert "a and b overlap in memory" in report


def writes_one_part_and_saves_another(a, b, w):
    a.add_(1)
    return (b * w).sum()


def test_parts_of_one_memory_where_gradients_are_wanted() -> None:
    """Autograd counts the changes of a whole storage: what is written late makes another part, which was saved, look changed."""
    w = torch.ones(3, requires_grad=True)
    assert_same_as_eager(
        writes_one_part_and_saves_another, *apart(), w, then=[(*disjoint(), w), (*apart(), w), (*disjoint(), w)],
        backend="aot_eager", recompiles=1,
    )  # fmt: skip


def gives_a_view_of_what_it_wrote(x, place):
    view = x.narrow(0, place, 2)
    x.mul_(2)
    return view


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_of_an_input_that_begins_later_in_its_storage(backend: str) -> None:
    """A view whose size varies is made again from an offset, which counts from where the storage begins."""
    first, *then = [
        (make(), place)
        for make in (lambda: torch.arange(4.0), lambda: torch.arange(6.0)[1:5], lambda: torch.arange(12.0)[2:10:2])
        for place in (1, 2)
    ]
    assert_same_as_eager(gives_a_view_of_what_it_wrote, *first, then=then, backend=backend)


def places_in_storage(x):
    return x.as_strided((2,), (1,)) * 2, x.as_strided((2,), (2,), 1).sum()


def writes_to_places_in_storage(x):
    x.as_strided((2,), (1,), 1).add_(1)
    return x * 1


def takes_the_place_of(x):
    return torch.as_strided_scatter(x, torch.zeros(2), (2,), (1,), 1) * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [places_in_storage, writes_to_places_in_storage, takes_the_place_of])
def test_places_are_those_of_the_storage(fn: Any, backend: str) -> None:
    """`as_strided` of an input that is a part of its storage counts from the storage's start, and writes there.

    No compiler is given such a graph: Inductor counts from the start of the input.
    """
    counting = CountingBackend(backend)
    compiled = dynexplore.optimize(counting)(fn)
    for start, size in [(0, 12), (0, 4), (1, 4), (2, 4), (0, 12), (2, 5)]:
        bases = torch.arange(12.0), torch.arange(12.0)
        expected, got = fn(bases[0][start : start + size]), compiled(bases[1][start : start + size])
        assert repr(got) == repr(expected)
        assert torch.equal(*bases)
    captured = dynexplore.counters["stats"]["graphs"]
    assert len(counting.graphs) == 1 < captured


def places_of_what_was_written_before(x):
    y = x * 2
    y /= 3
    chunks = y.view(2, -1).as_strided((3, 2), (2, 1))
    other = torch.zeros(3)
    other[0] = 1
    return chunks.sin(), other


@pytest.mark.parametrize("gradients", [False, True])
def test_places_of_a_view_that_are_only_read_behind_the_write(gradients: bool) -> None:
    """As a model with a sliding window has them: that graph is compiled."""
    for size in (8.0, 10.0):
        x = torch.arange(size, requires_grad=gradients)
        assert_same_as_eager(places_of_what_was_written_before, x, backend="aot_eager", graphs=1)


def test_a_buffer_that_is_only_kept_up_is_no_reason_to_leave_a_graph_uncompiled() -> None:
    """A running mean reads what it writes, but nothing with a gradient comes of it."""

    def kept_up(x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        with torch.no_grad():
            mean.copy_(mean * 0.9 + y.mean(0) * 0.1)
        return y

    def gradient(fn: Any) -> Any:
        x, mean = torch.ones(3, 2, requires_grad=True), torch.zeros(2)
        fn(x, mean).sum().backward()
        return x.grad, mean

    backend = CountingBackend("aot_eager")
    found = gradient(dynexplore.optimize(backend)(kept_up))
    for expected, actual in zip(gradient(kept_up), found, strict=True):
        torch.testing.assert_close(actual, expected)
    assert backend.runs == 1


def test_a_part_of_complex_numbers_that_got_a_history() -> None:
    """A view of another dtype than what it is a view of, whose base the same graph has written to, has no twin: Python goes on."""

    def program(x: Any, w: Any) -> Any:
        a = (x * 4).to(torch.complex64).real
        b = a[..., 1:]
        print("break")
        a += w.sum()
        return a, b, x * w

    calls = [(torch.ones(3, 4), torch.arange(4.0).requires_grad_()) for _ in range(2)]
    assert_same_as_eager(program, *calls[0], then=calls[1:], graphs=range(1, 4))


def test_integers_with_a_history() -> None:
    """A write gives integers a history, as torch allows; a graph does not take them."""

    def program(x: Any, w: Any) -> Any:
        y = (x * 4).long()
        y[0] = w.sum()
        print("break")
        return (y + 1).detach(), x * w

    calls = [(torch.ones(3, 4), torch.arange(4.0).requires_grad_()) for _ in range(2)]
    assert_same_as_eager(program, *calls[0], then=calls[1:], graphs=range(1, 4))


def mutates_one_half(a, b, w):
    a.add_(1)
    return (b * w).sum() + (a * w).sum()


def two_halves() -> list[torch.Tensor]:
    base = torch.arange(8.0)
    return [base[:4], base[4:], torch.ones(4)]


def test_a_backend_gets_halves_of_one_storage_in_training() -> None:
    """Parts that do not overlap are no reason to skip the backend."""
    backend = CountingBackend("aot_eager")
    a, b, w = two_halves()
    dynexplore.optimize(backend, nopython=True)(mutates_one_half)(a, b, w.requires_grad_()).backward()
    assert len(backend.graphs) == 1
    assert not dynexplore.counters["backend_skipped"]
