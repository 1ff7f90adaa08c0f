"""The real run beside the symbolic one: what is observed, that a clean run is clean, and where a wrong one is flagged."""

from __future__ import annotations

import gc
import operator
import random
import shutil
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.operators import binary, compare
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.recording.recording import Recording
from dynexplore.second_opinion import graph_run_check
from dynexplore.views import real_run


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    dynexplore.reset()
    torch.manual_seed(0)
    yield
    dynexplore.reset()


def toy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def recorded(fn: Callable[..., Any], *args: Any, **options: Any) -> Recording:
    """The recording of one call."""
    return dynexplore.explain(fn, **options)(*args).recording  # type: ignore[no-any-return]


def flagged(recording: Recording) -> tuple[ev.DivergenceFound, ev.InstructionStepped]:
    """The first divergence, and the step that it is flagged at."""
    first = recording.divergences[0]
    step = recording.step_of(first)
    assert step is not None
    return first, step


def assert_clean(recording: Recording, *, compared: bool = True) -> None:
    """Nothing diverges, nothing went wrong in looking, and something was compared."""
    assert recording.divergences == ()
    assert recording.of(ev.RunLeftOut) == ()
    assert bool(sum(run.nodes for run in recording.of(ev.RunCompared))) is compared


# -- what is observed --------------------------------------------------------------------------------------------------


def test_values_of_the_call_and_of_the_replay() -> None:
    """Inputs, outputs, locals and the value returned are of the call itself; the rest of the graph is replayed."""
    a, b = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 4.0])
    recording = recorded(toy, a, b)
    seen = {(one.frame, one.what, one.name): one for one in recording.of(ev.ValueObserved) if not one.after}
    assert seen[1, "input", "a"].first == (1.0, -2.0)
    assert seen[1, "output", "truediv"].first == pytest.approx((0.5, -2 / 3))
    assert seen[1, "node", "abs_1"].first == (1.0, 2.0)
    assert (seen[1, "node", "abs_1"].replayed, seen[1, "output", "truediv"].replayed) == (True, False)
    assert (seen[1, "node", "add"].minimum, seen[1, "node", "add"].mean, seen[1, "node", "add"].maximum) == (2.0, 2.5, 3.0)
    assert seen[2, "local", "x"].moment == "entry"
    assert {name for frame, what, name in seen if (frame, what) == (1, "local")} == {"a", "b", "x"}
    assert seen[1, "return", "return"].first == seen[2, "return", "return"].first
    assert [ran.seconds > 0 for ran in recording.of(ev.GraphRan)] == [True, True]
    assert_clean(recording)


def test_every_step_has_its_real_values() -> None:
    """A stack slot has the value of its node at that step: of the call, replayed, or a constant."""
    recording = recorded(lambda x: torch.abs(x) * 2 + 1, torch.tensor([-1.0, 2.0]))
    found = {step.op + step.arg: recording.real(number).stack for number, step in enumerate(recording.steps)}
    assert str(found["BINARY_OP*"][-1]) == "float32[2] cpu min 2 mean 3 max 4, first 2, 4 [replayed]"
    assert str(found["BINARY_OP+"][-1]) == "float32[2] cpu min 3 mean 4 max 5, first 3, 5 [real]"
    assert str(found["LOAD_FASTx"][-1]).endswith("first -1, 2 [real]")
    assert str(found["LOAD_CONST2"][-1]) == "2 [real]"
    assert str(found["LOAD_GLOBALtorch"][-1]).endswith("[real]")


def test_a_tensor_that_is_written_to_has_one_value_before_and_another_after() -> None:
    """The replay tells of it again; the stepper shows each where it was."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        before = y
        y += 1
        return before.sum()

    recording = recorded(f, torch.ones(2))
    values = [str(recording.real(number).locals.get("y", "")) for number in range(len(recording.steps))]
    assert [text for text, last in zip(values, ["", *values], strict=False) if text != last] == [
        "float32[2] cpu min 2 mean 2 max 2, first 2, 2 [replayed]",
        "float32[2] cpu min 3 mean 3 max 3, first 3, 3 [replayed]",
    ]


def test_running_statistics_are_seen_before_and_after() -> None:
    """A batch norm writes to its buffers without saying so."""
    recording = recorded(torch.nn.BatchNorm1d(2), torch.randn(8, 2))
    seen = [one for one in recording.of(ev.ValueObserved) if one.name.endswith("running_mean")]
    assert [one.after != "" for one in seen if one.what == "node"][-1]
    assert_clean(recording)


def test_a_thrown_away_attempt_shows_what_it_shares_with_the_one_that_counts() -> None:
    """Attempt 1 saw the same nodes up to the break; nothing is known of what came after it."""
    recording = recorded(toy, torch.ones(2), torch.ones(2))
    first = [number for number, step in enumerate(recording.steps) if (step.frame, step.attempt, step.op) == (1, 1, "STORE_FAST")]
    assert recording.real(first[0]).locals["x"].provenance == "real"


def test_an_argument_is_known_though_no_graph_needs_it() -> None:
    """A tensor that is only passed through, a number, a list, an object."""

    class Thing:
        def __repr__(self) -> str:
            raise AssertionError("nobody may call this")

    def f(x: torch.Tensor, unused: torch.Tensor, n: int, items: list[int], thing: Thing) -> Any:
        y = x + n
        return y, unused, items, thing

    recording = recorded(f, torch.ones(1), torch.zeros(1), 3, [1, 2], Thing())
    values = {name: str(value) for name, value in recording.real(-2).locals.items()}
    assert values["unused"] == "float32[1] cpu = 0 [real]"
    assert values["items"] == "list of 2: 1, 2, as it came in [real]"
    assert values["thing"] == "a test_an_argument_is_known_though_no_graph_needs_it.<locals>.Thing, as it came in [real]"


def test_without_the_real_run() -> None:
    """`real=False`: nothing is observed, and every value says so."""
    recording = recorded(toy, torch.ones(2), torch.ones(2), real=False)
    assert not recording.of(ev.ValueObserved)
    assert not recording.of(ev.RunCompared)
    assert str(recording.real(0).locals["a"]) == "not observed, the real run was not recorded"


def test_later_runs_are_compared_and_not_kept() -> None:
    """Of the first few runs of a graph the values are recorded; later ones are compared."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    inputs = [torch.full((2,), float(number)) for number in range(graph_run_check.MOST_RUNS + 3)]
    recording = dynexplore.explain(f).calls(*inputs).recording
    assert [run.run for run in recording.of(ev.RunCompared)] == list(range(1, graph_run_check.MOST_RUNS + 4))
    assert max(one.run for one in recording.of(ev.ValueObserved)) == graph_run_check.MOST_RUNS
    assert "first 2, 2 [real]" in str(recording.real(-2, run=2).stack[-1])
    assert recording.real(-2, run=5).stack[-1].why == "this run was compared, its values were not kept"
    assert_clean(recording)


def test_a_backend_that_goes_wrong_late_is_flagged() -> None:
    """Wrong from the fifth run on: that run is named, and no later one is compared."""
    runs = 0

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            nonlocal runs
            runs += 1
            return tuple(value + (1.0 if runs >= 5 else 0.0) for value in graph(*args))

        return run

    recording = dynexplore.explain(lambda x: x * 2, backend=backend).calls(*(torch.ones(2) for _ in range(9))).recording
    assert [(found.where, found.run) for found in recording.divergences] == [("output", 5)]
    (note,) = recording.of(ev.RunLeftOut)
    assert (note.run, note.reason) == (6, "an earlier run of the graph diverges")


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing stops after a while, but for runs whose number is a power of two; how many were left out is said."""
    monkeypatch.setattr(graph_run_check, "MOST_SECONDS", 0.0)
    recording = dynexplore.explain(lambda x: x * 2).calls(*(torch.ones(2) for _ in range(20))).recording
    assert [run.run for run in recording.of(ev.RunCompared)] == [1, 2, 3, 4, 8, 16]
    assert [note.run for note in recording.of(ev.RunLeftOut)] == [5]
    assert real_run.verdict(recording).endswith("compared. 14 later runs were not compared.")


def test_symbolic_sizes_are_compared_under_the_sizes_of_the_call() -> None:
    """One graph, several sizes: the shapes of every run are what was foretold."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x]).view(2, -1)[:, 1:] * x.shape[0]

    recording = dynexplore.explain(f, dynamic=True).calls(torch.ones(4), torch.ones(6), torch.ones(8)).recording
    assert len(recording.graphs) == 1
    assert len(recording.of(ev.RunCompared)) == 3
    assert_clean(recording)


def test_it_goes_to_json_and_back() -> None:
    """The new records are plain data; a redacted recording holds no element."""
    recording = recorded(lambda x: x + 41.5, torch.full((3,), 0.25))
    assert Recording.from_json(recording.to_json()) == recording
    assert "41.75" in recording.to_json()
    assert "41.75" not in recording.to_json(redact=True)


# -- nothing is noticed ------------------------------------------------------------------------------------------------


class Model(torch.nn.Module):
    """In-place operators, dropout, batch norm, a parameter, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        y = self.dropout(self.norm(self.linear(x)))
        y += torch.rand(4)
        return y.sigmoid_()


def world(real: bool | None, backend: str = "eager") -> list[Any]:
    """All that can be noticed of a call and its backward; `real` None: without the engine."""
    torch.manual_seed(1)
    random.seed(1)
    model, x = Model(), torch.randn(3, 4)
    y = model(x) if real is None else dynexplore.explain(model, backend=backend, real=real)(x).value
    y.sum().backward()
    state = [*model.state_dict().values(), *(parameter.grad for parameter in model.parameters())]
    return [x, y.detach(), *state, torch.get_rng_state(), torch.rand(3), torch.tensor(random.random())]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_recording_changes_nothing(backend: str) -> None:
    """Values, mutation, gradients, random numbers: the same with the real run recorded, without, and without the engine."""
    plain, off, on = world(None), world(False, backend), world(True, backend)
    for one, other, third in zip(plain, off, on, strict=True):
        torch.testing.assert_close(other, one)
        assert torch.equal(other, third)


def test_no_tensor_of_the_call_is_kept() -> None:
    """Neither inputs nor snapshots outlive the call."""
    x = torch.ones(3)
    gone = weakref.ref(x)

    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    recording = recorded(f, x)
    del x
    gc.collect()
    assert recording.graphs
    assert gone() is None


def test_a_warning_is_shown_once() -> None:
    """The replay calls the same operators, and says nothing."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        recorded(lambda x: torch.nn.functional.mse_loss(x, torch.ones(1)), torch.ones(3))
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        recorded(lambda x: torch.nn.functional.mse_loss(x, torch.ones(1)), torch.ones(3), real=False)
    assert len(shown) == len(expected) > 0


CALLS: list[str] = []


@dynexplore.allow_in_graph
def noisy(x: torch.Tensor) -> torch.Tensor:
    """Code of the program in the graph: it must run once."""
    CALLS.append("noisy")
    return x + 1


def test_code_of_the_program_is_not_run_again() -> None:
    """A function that is allowed in the graph is not replayed; what depends on it says why there is no value."""
    CALLS.clear()
    recording = recorded(lambda x: noisy(x * 2) * 3, torch.ones(2))
    plain = len(CALLS)
    CALLS.clear()
    recorded(lambda x: noisy(x * 2) * 3, torch.ones(2), real=False)
    assert plain == len(CALLS)
    seen = {one.name: one for one in recording.of(ev.ValueObserved) if one.what == "node"}
    assert seen["noisy"].why == "noisy is code of the program"
    assert seen["mul_1"].why == "it needs noisy, which was not replayed (noisy is code of the program)"
    assert recording.real(-2).stack[-1].provenance == "real"  # an output: known from the call itself
    (run,) = recording.of(ev.RunCompared)
    assert run.notes == ("output mul_1 was not compared: it has no replayed value",)


def test_an_operator_that_fails_is_the_programs_own_matter() -> None:
    """The exception is the program's; nothing is flagged, and nothing is left behind."""
    state = torch.get_rng_state()
    recording = Recording()

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index] + 1

    explainer = dynexplore.explain(f)
    with pytest.raises(IndexError), explainer as watched:
        recording = watched.explanation.recording
        watched(torch.ones(2), torch.tensor([5]))
    assert recording.divergences == ()
    assert torch.equal(state, torch.get_rng_state())


# -- clean runs --------------------------------------------------------------------------------------------------------


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = 3.0
    y.add_(x).clamp_(min=0)
    return y.view(-1)[1:].mul_(2)


def random_numbers(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(3)


def low_precision(x: torch.Tensor) -> torch.Tensor:
    y = x.to(torch.bfloat16)
    return torch.softmax(y @ y.T, -1).float() + (y.half().exp().float().sum())


def flow(x: torch.Tensor) -> Any:
    pairs = [(x * 1, x * 2), (x * 3, x * 4)]
    total: Any = 0
    for first, second in pairs:
        total = total + first - second if first.dim() else total
    left, *rest = (part for pair in pairs for part in pair)
    return {"total": total, "rest": rest[::-1], "left": left @ left.T, "n": len(rest) * 2 ** x.shape[0] // 3}


def switches(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * 2
    with torch.autocast("cpu", torch.bfloat16):
        z = y @ y.T
    return z.float() + y.sum()


def lists(x: torch.Tensor) -> Any:
    numbers = [1, 2]
    numbers += [3]
    numbers *= 2
    return x + len(numbers), numbers


def questions(x: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x.T * 2
        asked = y.is_inference(), y.is_contiguous(), x.T.stride(), x[1:].storage_offset(), x.requires_grad, y.dim(), y.size(0)
    return x + 1, asked


def sizes(x: torch.Tensor) -> Any:
    return x.new(x.size()).shape, x.new(torch.Size([4, 1])).shape, x.new([1, 2]) + x.sum()


PROGRAMS = [lists, sizes, questions, in_place, random_numbers, low_precision, flow, switches, Model()]
CLEAN = [(program, backend) for backend in ("eager", "aot_eager") for program in PROGRAMS]
# AOTAutograd of torch 2.11 fails on a view in inference mode, under torch.compile too, and no operator works afterwards
CLEAN.remove((questions, "aot_eager"))
if shutil.which("g++") or shutil.which("clang++"):  # inductor needs a compiler, and takes its time
    CLEAN += [(random_numbers, "inductor"), (low_precision, "inductor")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("program", "backend"), CLEAN)
def test_a_clean_run_flags_nothing(program: Callable[..., Any], backend: str) -> None:
    """In-place operators, dropout, batch norm, low precision, containers, modes: under each backend."""
    assert_clean(recorded(program, torch.randn(3, 3 if not isinstance(program, Model) else 4), backend=backend))


def test_memory_that_nobody_wrote_to_is_not_compared() -> None:
    """torch.empty gives other numbers each time."""
    recording = recorded(lambda x: torch.empty(1000) + x.sum() * 0, torch.ones(2))
    assert recording.divergences == ()
    assert "not compared" in " ".join(recording.of(ev.RunCompared)[0].notes)


# -- wrong handlers ----------------------------------------------------------------------------------------------------


def subtracts(frame: Any, step: Any, ctx: Any) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(binary(ctx, {"+": "-"}.get(step.arg, step.arg), left, right))


def swaps_operands(frame: Any, step: Any, ctx: Any) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(compare(ctx, step.arg, right, left))


def loads_zero(frame: Any, step: Any, ctx: Any) -> None:
    frame.push(ConstantVariable(0))


def loads_another_local(frame: Any, step: Any, ctx: Any) -> None:
    name = "a" if step.arg == "b" else step.arg
    frame.locals[name] = value = frame.locals[name].read(ctx)
    frame.push(value)


def stores_nothing(frame: Any, step: Any, ctx: Any) -> None:
    value = frame.pop()
    if step.arg == "x":
        value = frame.locals["a"]
    frame.locals[step.arg] = value


def turns_around(frame: Any, step: Any, ctx: Any) -> None:
    frame.push(TupleVariable(frame.popn(step.arg)[::-1]))


def jumps_never(frame: Any, step: Any, ctx: Any) -> None:
    frame.pop()


def negates_nothing(frame: Any, step: Any, ctx: Any) -> None:
    """Leaves the operand as it is."""


def turns_the_arguments_around(frame: Any, step: Any, ctx: Any) -> None:
    args = frame.popn(step.arg[0])
    function = next(value for value in frame.popn(2) if value.kind != "null")
    frame.push(ctx.call_function(function, args[::-1], {}))


def takes_the_first(frame: Any, step: Any, ctx: Any) -> None:
    frame.pop()
    frame.push(frame.pop().get_item(ctx, ConstantVariable(0)))


def two_arguments(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cat((a, b)) * 2


def branches(a: torch.Tensor, n: int) -> torch.Tensor:
    if n > 5:
        a = a + 1
    return a * 2


PLANTED = [
    ("BINARY_OP", "+", subtracts, toy, ()),
    ("BINARY_OP", "+", subtracts, lambda a, b: a * (len(b.shape) + 2), ()),
    ("COMPARE_OP", "<", swaps_operands, lambda a, b: torch.where(a < b, a, b), ()),
    ("LOAD_CONST", "1", loads_zero, toy, ()),
    ("LOAD_FAST", "b", loads_another_local, lambda a, b: a * 2 + b, ()),
    ("STORE_FAST", "x", stores_nothing, toy, ()),
    ("BUILD_TUPLE", "2", turns_around, two_arguments, ()),
    ("POP_JUMP_IF_FALSE", "", jumps_never, branches, (3,)),
    ("UNARY_OP", "neg", negates_nothing, lambda a, b: -a * b, ()),
    ("CALL", "", turns_the_arguments_around, lambda a, b: torch.sub(a, b), ()),
    ("BINARY_SUBSCR", "", takes_the_first, lambda a, b: a[1] + b, ()),
]


@pytest.mark.parametrize(
    ("op", "arg", "handler", "program", "more"), PLANTED, ids=[f"{row[0]}-{row[2].__name__}" for row in PLANTED]
)
def test_a_wrong_handler_is_flagged_at_its_step(
    op: str, arg: str, handler: Any, program: Callable[..., Any], more: tuple[Any, ...]
) -> None:
    """Whatever instruction is interpreted wrongly: the first divergence stands at that very step, and its rule is the handler."""
    a, b = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 4.0])
    arguments = (a, *more) if more else (a, b)
    assert recorded(program, *arguments).divergences == ()
    dynexplore.reset()
    with dispatch.override(op, handler):
        recording = recorded(program, *arguments)
    found, step = flagged(recording)
    assert (found.where, step.op) == ("step", op)
    assert arg in step.arg
    assert step.rule.endswith(f" {handler.__name__}")
    assert found.offset == step.offset
    assert {one.step for one in recording.divergences if one.frame == found.frame and one.where == "step"} >= {found.step}


def test_a_wrong_in_place_operator_is_flagged() -> None:
    """`x += y` that subtracts: the operands are copied before they are written to."""

    def wrong(frame: Any, step: Any, ctx: Any) -> None:
        right, left = frame.pop(), frame.pop()
        frame.push(binary(ctx, {"+=": "-="}.get(step.arg, step.arg), left, right))

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y += x
        return y

    with dispatch.override("BINARY_OP", wrong):
        recording = recorded(f, torch.ones(2))
    found, step = flagged(recording)
    assert (step.op, step.arg, found.expected) == ("BINARY_OP", "+=", "3")


def test_a_wrong_operator_on_sizes_is_flagged() -> None:
    """Symbolic numbers are computed again, too."""
    with dispatch.override("BINARY_OP", subtracts):
        recording = recorded(lambda x: x.sum() * (x.shape[0] + 2), torch.ones(5), dynamic=True)
    found, step = flagged(recording)
    assert (step.arg, found.expected, found.actual) == ("+", "7", "3")


# -- wrong backends ----------------------------------------------------------------------------------------------------


def off_by(amount: float, *, only: int | None = None) -> Callable[..., Any]:
    """A backend whose outputs (or one of them) are off."""

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            outputs = graph(*args)
            return tuple(
                value + amount if value.is_floating_point() and only in (None, number) else value
                for number, value in enumerate(outputs)
            )

        return run

    return backend


def test_a_backend_that_is_off_is_flagged_where_the_output_is_made() -> None:
    """Off by 1e-2: the step that made the first output is flagged, and no instruction is blamed."""
    recording = recorded(toy, torch.randn(10), torch.randn(10), backend=off_by(1e-2))
    found, step = flagged(recording)
    assert (found.where, found.name, step.op, step.arg) == ("output", "truediv", "BINARY_OP", "/")
    assert abs(float(found.expected) - float(found.actual.split()[0]) + 1e-2) < 1e-5
    assert {one.where for one in recording.divergences} == {"output"}


def test_the_first_output_that_is_off_is_named() -> None:
    """Outputs are compared in the order of the graph."""
    recording = recorded(lambda x: (x + 1, x * 2, x - 3), torch.randn(4), backend=off_by(1e-2, only=1))
    assert [(one.name, flagged(recording)[1].arg) for one in recording.divergences] == [("mul", "*")]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_off_by_a_hundredth_in_other_precisions(dtype: torch.dtype) -> None:
    """Values around one that are off by 1e-2 are found."""
    x = torch.randn(20, dtype=dtype)
    assert recorded(lambda x: x * 2, x, backend=off_by(1e-2)).divergences
    assert not recorded(lambda x: x * 2, x, backend=off_by(0.0)).divergences


def test_a_backend_that_leaves_an_input_otherwise_is_flagged() -> None:
    """A graph that writes to its input, a backend that does not."""

    def forgets(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return lambda *args: graph(*(value.clone() for value in args))

    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    recording = recorded(f, torch.ones(2), backend=forgets)
    assert [(one.where, one.name, one.expected, one.actual.split()[0]) for one in recording.divergences] == [
        ("input", "x", "2", "1")
    ]


def test_a_backend_with_another_dtype_or_shape_is_flagged() -> None:
    """What a tensor is counts before what it holds."""

    def doubles(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return lambda *args: tuple(value.double() for value in graph(*args))

    (found,) = recorded(lambda x: x + 1, torch.ones(2), backend=doubles).divergences
    assert (found.aspect, found.expected, found.actual) == ("dtype", "float32", "float64")


def test_a_backend_with_random_numbers_of_its_own_is_not_blamed() -> None:
    """It may draw otherwise; what does not depend on them is compared all the same."""

    def draws(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            torch.rand(7)
            return graph(*args)

        return run

    recording = recorded(lambda x: (x + torch.rand(3), x * 2), torch.ones(3), backend=draws)
    (run,) = recording.of(ev.RunCompared)
    assert (run.outputs, recording.divergences) == (1, ())
    assert run.notes == ("output add was not compared: the backend draws random numbers of its own",)


def test_what_is_said_of_a_divergence() -> None:
    """The explanation names place, instruction, expectation and what was found."""
    with dispatch.override("BINARY_OP", subtracts):
        explanation = dynexplore.explain(toy)(torch.ones(2), torch.ones(2))
    text = str(explanation)
    assert "The first divergence: frame 1, step" in text
    assert f"{__file__}:{toy.__code__.co_firstlineno + 1} in toy" in text
    assert "BINARY_OP +: element [0] expected 2, found 0" in text
    assert operator.add(1, 1) == 2
