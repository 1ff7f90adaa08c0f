"""Sizes that change from call to call: the answers are eager's, and what may stay one graph stays one."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

SIZES = (5, 7, 12, 30, 33, 600)


def min_of_size_and_limit(x: Any) -> Any:
    return x[: min(x.shape[0], 512)] + 1


def max_of_size_and_limit(x: Any) -> Any:
    return torch.zeros(max(x.shape[0], 4)) + x.sum()


def clamped(x: Any) -> Any:
    return x * max(1, min(x.shape[0], 7))


def max_of_floats(x: Any) -> Any:
    return x * max(x.shape[0] / 10, 1.0)


def rounded(x: Any) -> Any:
    return x * round(x.shape[0] / 3), round(x.shape[0] / 3, 2)


def rounded_up(x: Any) -> Any:
    return x * math.ceil(x.shape[0] / 3) - math.floor(x.shape[0] / 3)


def root(x: Any) -> Any:
    return x * math.sqrt(x.shape[0]) + x.shape[0] ** -0.5


def padded(x: Any) -> Any:
    return torch.nn.functional.pad(x, (0, (8 - x.shape[0] % 8) % 8))


def quotient_and_rest(x: Any) -> Any:
    q, r = divmod(x.shape[0], 4)
    return x * q + r


def size_in_a_container(x: Any) -> Any:
    sizes = list(x.shape)
    sizes[0] *= 2
    return torch.zeros(sizes), {"n": x.shape[0]}


def last_half(x: Any) -> Any:
    return x[-x.shape[0] // 2 :] + torch.arange(x.shape[0]).sum()


def branch_on_a_distance(x: Any) -> Any:
    return x + 1 if abs(x.shape[0] - 100) > 2.5 else x - 1


def branch_on_a_minimum(x: Any) -> Any:
    return x + 1 if min(x.shape[0], 512) * 2 > 3 else x - 1


PROGRAMS = [
    min_of_size_and_limit, max_of_size_and_limit, clamped, max_of_floats, rounded, rounded_up, root, padded, quotient_and_rest,
    size_in_a_container, last_half, branch_on_a_distance, branch_on_a_minimum,
]  # fmt: skip


def assert_equal(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_size_that_changes_makes_two_graphs(program: Any) -> None:
    """One graph for the first size, one for all the others."""
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    optimized = dynexplore.optimize(backend)(program)
    for size in SIZES:
        x = torch.linspace(0, 1, size)
        assert_equal(optimized(x), program(x))
    assert len(graphs) == 2


@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PROGRAMS), st.lists(st.integers(1, 700), min_size=2, max_size=6))
def test_any_sequence_of_sizes_gives_what_eager_gives(program: Any, sizes: list[int]) -> None:
    """Also 1, which is never symbolic, and sizes that come back."""
    dynexplore.reset()
    optimized = dynexplore.optimize("eager")(program)
    for size in sizes:
        x = torch.linspace(0, 1, size)
        assert_equal(optimized(x), program(x))
    assert graphs_compiled() in range(1, len(set(sizes)) + 1)


def cuts(x: Any, n: int) -> Any:
    y = x * 2
    return y[:n].sum() + y


@pytest.mark.parametrize("number", [-(2**62) - 1, -(2**63), -(10**30), 2**63, 10**30])
@pytest.mark.parametrize("before", [(), (2,), (2, 3, 1)])
def test_a_slice_that_torch_cuts_off_warns_in_the_program(number: int, before: tuple[int, ...]) -> None:
    """Numbers beyond what torch's C++ code holds as they are warn, at the program's line; those that varied before, too."""
    x = torch.ones(4)
    first, *more = [*before, number, 2]
    assert_same_as_eager(cuts, x, first, then=[(x, n) for n in more], graphs=range(1, 6))


def window(length: int) -> torch.Tensor:
    """The last three columns of a tensor of so many: always the same sizes, in each call other strides."""
    return torch.arange(4.0 * length).reshape(4, length)[:, length - 3 :]


def uses_strides(x: Any) -> Any:
    return x.reshape(-1) * x.stride()[0], torch.cat([x, x]).sum(), x[1:], x.is_contiguous()


def asks_for_a_stride(x: Any) -> Any:
    return x + 1 if x.stride(0) > 6 else x - 1


def writes_through_a_view(x: Any) -> Any:
    x[1:].mul_(2)
    return x.t().contiguous()


LENGTHS = (4, 5, 9, 6, 4, 7)


@pytest.mark.parametrize(
    ("program", "graphs"),
    [
        pytest.param(uses_strides, 2, id="uses"),
        pytest.param(asks_for_a_stride, 3, id="asks"),
        pytest.param(writes_through_a_view, 2, id="writes"),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_stride_that_changes_makes_two_graphs(program: Any, graphs: int, backend: str) -> None:
    """One graph for the first window, one for all the others, however long the tensor is that they are cut from."""
    first, *more = [(window(length),) for length in LENGTHS]
    assert_same_as_eager(program, *first, then=more, graphs=graphs, backend=backend)


@pytest.mark.parametrize("program", [uses_strides, asks_for_a_stride, writes_through_a_view])
def test_layouts_that_take_turns(program: Any) -> None:
    """Contiguous, transposed, cut from another tensor: an entry for strides that vary serves only what it may."""
    layouts = [window(5), window(3), torch.ones(3, 4).t(), torch.ones(3, 6).t()[:4], torch.ones(8, 6)[::2, ::2], window(8)]
    first, *more = [(x,) for x in layouts]
    assert_same_as_eager(program, *first, then=more, graphs=range(2, 6))


def counts(x: Any, n: Any) -> Any:
    y = x * n
    return y * range(n / 2).__len__()


def test_a_range_of_a_number_that_is_none() -> None:
    """The call of `range` raises, not what is asked of its result; a float that varies is one."""
    x = torch.ones(4)
    assert_same_as_eager(counts, x, 3.0, then=[(x, 5.0), (x, 7.0)], graphs=range(1, 4))


_BIG = 2**53 + 1


def sums(x: Any, n: Any, m: Any) -> Any:
    size = x.shape[0]
    return x * 2 if size + n > n else x - 1, size + n - n == size, size * n * m / m == size * n


def branches(x: Any, n: Any, m: Any) -> Any:
    return x * 2 if n * m % 2 else x - 1


def rounds(x: torch.Tensor, n: int, m: float) -> Any:
    y = x * 3
    return y, (y.size(0) + m) > m, bool((y.size(0) + m) - m)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("program", "calls"),
    [
        pytest.param(lambda x, n, m: (x * 2, n // (0.0 * x.shape[0] + n)), [(4, 6), (_BIG, 6), (_BIG + 2, 6)], id="beside a float"),
        pytest.param(lambda x, n, m: (x * 2, n // (n + m) // n), [(0.5, 2.5), (2**63, 0.5), (2**64, 1.5)], id="beside a symbol"),
        pytest.param(lambda x, n, m: (x * 2, float(m * m - 1) * m), [(0, 2**62), (0, 10**30), (0, 10**40)], id="made a float"),
        pytest.param(lambda x, n, m: (x * 2, m // len(x)), [(4, 2.5), (3, -0.0), (3, 3.5), (3, 0.0)], id="zero has a sign"),
        pytest.param(lambda x, n, m: (x * 2, n * m), [(4, 2.5), (6, -0.5), (8, -0.0), (9, 0.0)], id="product with a zero"),
        pytest.param(
            lambda x, n, m: (x * 2, math.atan2(0 ** min(1 // (1 << min(x.numel() + n, 5)), 4), 5), 0**n, (n - n) ** m),
            [(2, 0), (9, 1), (11, 0), (0, 2)], id="zero to the power of zero",
        ),
        pytest.param(
            lambda x, n, m: (x * 2, math.ceil(n), math.floor(n), math.trunc(n), round(n), round(n, -1)),
            [(4, 0), (_BIG, 0), (-_BIG, 0), (2**60 + 1, 0)], id="a whole number is as it is",
        ),
        pytest.param(lambda x, n, m: (x * 2, m * 1.5, 10**400 > m), [(4, 2.5), (6, 3.5), (8, 4.5)], id="no float at all"),
        pytest.param(lambda x, n, m: (x * 2, m**n), [(4, 2.5), (6, 3.5), (5000, 4.5), (2, 5.5)], id="a power that is too large"),
        pytest.param(sums, [(1e18, 49.0), (7.5, 49.0), (0.1, 3.0), (1e18, 0.1), (1 / 49, 49.0)], id="each step is rounded"),
        pytest.param(lambda x, n, m: (x * 2, (len(x) + 0.5 > m) + n), [(0.5, True), (1.5, False), (2.5, True)], id="a bool"),
        pytest.param(lambda x, n, m: (x * 2, n < math.inf, m * 0.5 > -math.inf), [(2, 0.5), (3, 7.5)], id="infinity"),
        pytest.param(branches, [(_BIG, 1e300), (8, -1e308), (2**63, 7.75)], id="infinite result"),
        pytest.param(rounds, [(1, 2.5), (2, 3.5), (3, 1e18), (1, 1e18), (2, 0.5)], id="a float that rounds"),
        pytest.param(lambda x, n, m: (x * 2, 1 << min(n & n, 5)), [(3, 0), (4, 0), (-(2**63), 0), (-1, 0)], id="and of negatives"),
    ],
)
def test_numbers_that_shape_env_computes_otherwise(program: Any, calls: list[tuple[Any, ...]], dynamic: bool) -> None:
    """ShapeEnv's numbers are exact, and know no sign of zero and no infinity: there the numbers are constants of a graph."""
    (first, *more) = [(torch.ones(3 + place % 2), *numbers) for place, numbers in enumerate(calls)]
    with dynexplore.config.patch(dynamic_shapes=dynamic):
        assert_same_as_eager(program, *first, then=more, graphs=range(1, 6))


INVERTED: dict[str, Any] = {
    "a size": lambda x, n: x * ~x.shape[0],
    "twice": lambda x, n: (x * ~~n, ~-n),
    "from the end": lambda x, n: (x[~(n % 2)], x[: ~(len(x) // 4)]),
    "bits": lambda x, n: (x + (~n & 7), ~(n | 1), ~n ^ 5, ~n % 3),
    "a decision": lambda x, n: x * 2 if ~len(x) < -6 else x - 1,
    "a tensor": lambda x, n: torch.arange(~n % 5) + ~n,
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", list(INVERTED.values()), ids=list(INVERTED))
def test_the_inverse_of_a_number_that_varies(program: Any, dynamic: bool) -> None:
    """`~n` is `-1 - n`: torch's numbers have no `~`, which is no reason for a graph break."""
    numbers = (3, 4, 0, -5, 1, 2**40, 2**63 - 1, -(2**63), 2**64)
    (first, *more) = [(torch.ones(4 + place), number) for place, number in enumerate(numbers)]
    with dynexplore.config.patch(dynamic_shapes=dynamic):
        assert_same_as_eager(program, *first, then=more, graphs=range(1, 9), breaks=0)


def test_the_inverse_of_a_size_serves_all_sizes() -> None:
    """Two graphs: one for the first size, one for all others."""
    program = INVERTED["a size"]
    assert_same_as_eager(program, torch.ones(5), 0, then=[(torch.ones(size), 0) for size in (7, 9, 33, 64)], graphs=2, breaks=0)


def test_a_float_has_no_inverse() -> None:
    """It raises as in eager, also if it varies."""
    x = torch.ones(2)
    assert_same_as_eager(lambda x, n: x * ~(n / 2), x, 3, then=[(x, 4), (x, 5)], graphs=0)


def test_what_is_computed_of_a_size_in_floats_serves_all_sizes() -> None:
    """Where no two parts of floats come together there is nothing to round otherwise: two graphs for all sizes."""

    def scaled(x: Any) -> Any:
        height = x.shape[0]
        return x * int(height * 0.3 + 0.5) + math.ceil(height / 7) if height * 0.25 > 0.8 else x[: int(height * 1.5)]

    assert_same_as_eager(scaled, torch.ones(5), then=[(torch.ones(size),) for size in (7, 9, 33, 64)], graphs=2)


TRUTHS = ["m == 0", "m != 1", "0 == m", "m in (0, 5)", "(m, 1) == (0, 1)", "m != (n > 4)",
          "m < 1", "-m", "m ^ True", "2**m", "n > m"]


@pytest.mark.parametrize("text", TRUTHS)
def test_a_truth_value_that_varies_is_a_number(text: str) -> None:
    """`2 % n == 0` is a truth value of the graph; to an operator it is 0 or 1, as it is to Python."""
    program = eval(f"lambda x, n: (lambda m: (x + 1, {text}, 'yes' if {text} else 'no'))(2 % n == 0)")  # Python's own answer
    assert_same_as_eager(program, torch.ones(2), 3, then=[(torch.ones(2), n) for n in (9, 1, 2, 7, 5)], breaks=0)


def test_a_truth_value_of_data_is_a_number() -> None:
    """What only the data of the graph can tell is a node: 0 or 1 to an operator, a truth value beside another one."""

    def f(x: torch.Tensor) -> Any:
        m = x.sum().item() > 3
        return x + (m == 0), x * (m + 2), -m, m & (x[0].item() > 1), m | False

    with dynexplore.config.patch(capture_scalar_outputs=True):
        assert_same_as_eager(f, torch.ones(2), then=[(torch.ones(2) * 2,), (torch.ones(2) * 5,)], graphs=1, breaks=0)


@pytest.mark.parametrize("count", [4, 5])
def test_sizes_of_what_an_argument_is_a_view_of(count: int) -> None:
    """An `out` that is given another size before its operator fails keeps its size, and the size of its base can be relied on."""

    def f(a: torch.Tensor) -> Any:
        v = a[1:] * 1
        torch.add(a[1:], 1, out=a)
        return v, a + 1

    assert_same_as_eager(f, torch.arange(24.0)[:3], then=[(torch.arange(24.0)[:count],), (torch.arange(24.0)[: count + 2],)])


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_input_that_out_resizes(backend: str) -> None:
    """`out=` of another size gives an input, or what it is a view of, other memory: guards and backends would see the new size."""

    def writes_its_own_rest(a: torch.Tensor) -> torch.Tensor:
        torch.add(a[1:] * 1, 1, out=a)
        return a * 2

    def writes_two(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, int]:
        torch.max(b.view(-1, 1), 1, out=(a, torch.empty(0, dtype=torch.long)))
        return a + 1, a.shape[0]

    def writes_what_it_made(a: torch.Tensor) -> torch.Tensor:
        out = torch.empty(0)
        torch.add(a, 1, out=out)
        return out * 2

    for size in (5, 4):  # one size a time: AOTAutograd leaves a note for torch.compile on what has a size that varies
        a, pair = torch.arange(float(size)), (torch.zeros(size - 1), torch.arange(float(size)))
        assert_same_as_eager(writes_its_own_rest, a.clone(), breaks=["DX408"], backend=backend)
        assert_same_as_eager(writes_two, *pair, breaks=["DX408"], backend=backend)
        assert_same_as_eager(writes_what_it_made, a, calls=2, graphs=1, breaks=0, backend=backend)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_input_that_out_resizes_and_whose_size_varies() -> None:
    """The graph before such an operator serves every size."""

    def function(a: torch.Tensor) -> torch.Tensor:
        torch.add(a[1:] * 1, 1, out=a)
        return a * 2

    more = [(torch.arange(float(n)),) for n in (6, 7, 4)]
    assert_same_as_eager(function, torch.arange(5.0), then=more, breaks=["DX408"] * 2)


def test_where_a_view_begins_is_no_size() -> None:
    """A window that begins at element 8 of its storage, while 8 is the size that varies, says nothing of the next: two graphs."""
    rows = torch.arange(400.0).view(50, 8)

    def window(begins: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return rows[begins : begins + size], torch.ones(size)

    def fn(part: torch.Tensor, x: torch.Tensor) -> Any:
        return part.sum(1) + x, part * 2

    calls = [window(1, 8), window(1, 9), window(2, 10), window(3, 24)]
    assert_same_as_eager(fn, *window(0, 3), then=calls, graphs=2, recompiles=1)


def turns_and_reads(x: Any) -> Any:
    n = x.shape[0]
    x.t_()
    return x * n, x * x.shape[0], x.shape, x.stride(), x.is_contiguous()


def adds_an_axis(x: Any) -> Any:
    x.unsqueeze_(0)
    return x * x.shape[1], x.shape[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [turns_and_reads, adds_an_axis])
def test_an_input_that_is_given_other_sizes_in_place(fn: Any, backend: str) -> None:
    """Sizes and strides that vary are those of an input when the call began, also where it is turned round before they are read."""
    compiled = dynexplore.optimize(backend)(fn)
    for size in [(2, 2), (2, 3), (4, 3), (3, 4), (2, 2)]:
        for turned in (False, True):
            made = [torch.arange(float(size[0] * size[1])).view(size) for _ in range(2)]
            plain, ours = (one.t() if turned else one for one in made)
            assert repr(compiled(ours)) == repr(fn(plain))
            assert ours.stride() == plain.stride() and torch.equal(ours, plain)
    assert graphs_compiled()


POWERS = ("n << {k}", "n >> {k}", "{k} << n", "{k} ** n", "n ** {k}", "2 ** n * {k}", "-(n << {k})", "~(n >> {k})")
USES = ("r > 5", "r == 0", "r % 7", "r // 3", "r >> 3", "r - 1 if n == 70 else 7", "r % 1000 if n == 70 else 7", "r // (1 << 62)")


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("constant", [62, 63, 80, 2000])
def test_powers_beyond_64_bits(power: str, constant: int) -> None:
    """Shifts and powers whose result has more than 64 bits are Python's numbers, however the program uses them."""
    for use in USES:
        names: dict[str, Any] = {}
        exec(f"def program(x, n):\n    r = {power.format(k=constant)}\n    return x + 1, {use}\n", names)
        x = torch.ones(2)
        assert_same_as_eager(names["program"], x, 5, then=[(x, 70), (x, 3), (x, 63)])
        dynexplore.reset()


HUGE = """
N = 10 ** 5000
class C:
    n = N
    def __init__(self): self.m = N
def h(a=N): return a + 1
L, D, T, S, E, c = [N], {N: 1}, (N,), {N}, {"k": N}, C()
"""
USES_OF_HUGE = (
    "N + 1", "n + 1", "n > 5", "n == N", "L[0] + 1", "D[N]", "D[n]", "T[0] + 1", "n in S", "c.m + 1", "C.n + 1", "h()",
    "E['k'] + 1", "[n][0] + n", "hash(n)", "{}.get(n)", "{}[n]", "[1][n]", "x[n]", "x * n", "range(n)[5]", "n.bit_length()",
    "n % 7 * x", "n << 5", "n ** 2", "{n: n}", "sorted([n, 1])", "divmod(n, 7)", "-n", "x[:n]", "f'{n}'", "str(n)", "len(range(n))",
)  # fmt: skip


@pytest.mark.parametrize("use", USES_OF_HUGE)
def test_numbers_with_more_digits_than_python_converts(use: str) -> None:
    """`repr` of such an integer raises ValueError: nothing that the engine writes about it may."""
    outcomes: list[Any] = []
    for engine in (lambda fn: fn, dynexplore.optimize("eager")):
        names: dict[str, Any] = {}
        exec(HUGE, names)
        exec(f"def program(x, n):\n    x = x + 1\n    return x, {use}\n", names)
        program = engine(names["program"])
        for number in (names["N"], names["N"], names["N"] * 3, 7):
            try:
                result = program(torch.ones(2), number)[1]
            except (ValueError, KeyError, IndexError, OverflowError) as error:
                result = type(error)
            outcomes.append([result.tolist()] if isinstance(result, torch.Tensor) else [result])
    assert outcomes[:4] == outcomes[4:]
    assert graphs_compiled() > 0
