"""The real run beside the symbolic one: what is observed, that a clean run is clean, and where a wrong one is flagged."""

from __future__ import annotations

import gc
import operator
import random
import shutil
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from second_opinion.planted import assert_clean, recorded, toy

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.operators import binary
from dynexplore.recording.recording import Recording

# -- what is observed --------------------------------------------------------------------------------------------------


def test_values_of_the_call_and_of_the_replay() -> None:
    """Inputs, outputs, locals and the value returned are of the call itself; the rest of the graph is replayed."""
    a, b = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 4.0])
    recording = recorded(toy, a, b)
    seen = {(one.frame, one.role, one.name): one for one in recording.of(ev.ValueObserved) if not one.after}
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
    assert values["items"] == "list of 2: 1, 2, as passed in [real]"
    assert values["thing"] == "a test_an_argument_is_known_though_no_graph_needs_it.<locals>.Thing, as passed in [real]"


def test_without_the_real_run() -> None:
    """`real=False`: nothing is observed, and every value says so."""
    recording = recorded(toy, torch.ones(2), torch.ones(2), real=False)
    assert not recording.of(ev.ValueObserved)
    assert not recording.of(ev.RunCompared)
    assert str(recording.real(0).locals["a"]) == "not observed, the real run was not recorded"


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
    assert all(dynexplore.explain(Model(), torch.ones(3, 4), backend=backend, real=real).graph_count for real in (False, True))


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
        recording = recorded(lambda x: torch.nn.functional.mse_loss(x, torch.ones(1)), torch.ones(3))
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        recorded(lambda x: torch.nn.functional.mse_loss(x, torch.ones(1)), torch.ones(3), real=False)
    assert len(shown) == len(expected) > 0 and len(recording.graphs) == 1


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
    seen = {one.name: one for one in recording.of(ev.ValueObserved) if one.role == "node"}
    assert seen["noisy"].why == "noisy is user code"
    assert seen["mul_1"].why == "it needs noisy, which was not replayed (noisy is user code)"
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
    assert recording.divergences == () and len(recording.graphs) == 1
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


def subtracts(frame: Any, step: Any, ctx: Any) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(binary(ctx, {"+": "-"}.get(step.arg, step.arg), left, right))


def test_what_is_said_of_a_divergence() -> None:
    """The explanation names place, instruction, expectation and what was found."""
    with dispatch.override("BINARY_OP", subtracts):
        explanation = dynexplore.explain(toy)(torch.ones(2), torch.ones(2))
    text = " ".join(str(explanation).split())  # where a line is wrapped depends on the length of a path
    assert "The first divergence: frame 1, step" in text
    assert f"{toy.__code__.co_filename}:{toy.__code__.co_firstlineno + 2} in toy" in text
    assert "BINARY_OP +: element [0] expected 2, found 0" in text
    assert operator.add(1, 1) == 2
