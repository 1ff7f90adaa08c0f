"""compare: every capture method on the same function, what each captured, how it failed, and who is right."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import warnings
from typing import Any

import pytest
import torch

import dynexplore
from dynamo_ban import lifted
from dynexplore.lenses import examination, isolation
from dynexplore.lenses.compare import LENSES

pytestmark = pytest.mark.lenses

ALL = [lens.key for lens in LENSES]
TRACES = ["fx", "jit.trace", "export"]


def plain(a, b):
    return torch.relu(a @ b) + 1 - a / 2


def branching(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


log: list[int] = []


def with_side_effects(x):
    log.append(1)
    print("called")
    return x * 2


def loop(x):
    y = x
    for row in range(x.shape[0]):
        y = y + row * x[row]
    return y


def star(*args, scale=2.0, **named):
    return {"sum": args[0] + args[1] * scale, "rest": [named["w"] - 1, (args[0], 3)]}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.block(x))


def in_place(x, out):
    out.add_(x)
    return out.sum()


def outcomes_of(comparison: Any, call: str) -> dict[str, str]:
    return {outcome.key: outcome.verdict(call).outcome for outcome in comparison.outcomes if not outcome.failed}


@pytest.fixture(scope="module")
def branch_comparison() -> Any:
    with lifted():
        return dynexplore.compare(branching, torch.tensor([1.0, -3.0, 2.0]), torch.ones(3))


def test_all_methods_capture_a_plain_function_and_agree() -> None:
    """Operators without control flow: seven graphs with the same operators under shared names, all right on every call."""
    comparison = dynexplore.compare(plain, torch.randn(3, 3), torch.randn(3, 3))
    assert list(comparison) == ALL and len(comparison) == 7
    for outcome in comparison.outcomes:
        assert not outcome.failed and outcome.agrees and outcome.sound, str(comparison)
        if outcome.key != "lazy":
            assert outcome.operators == ("matmul", "relu", "add", "div", "sub"), outcome.key
    # a deferred tensor sees aten operators below autograd
    assert [str(found) for found in comparison["lazy"].differences] == ["mm where dynexplore has matmul"]
    assert set(comparison.differences) == {"lazy"}
    assert comparison["export"].verdict("other sizes").outcome == "refuses"
    assert comparison["jit.trace"].verdict("other sizes").outcome == "same"


def takes_a_number(x: torch.Tensor, n: int) -> torch.Tensor:
    return x.reshape(x.shape[0] * 2, -1) * n


def test_a_mere_constant_is_no_other_path() -> None:
    """Where only a number or a size differs that eager passes to its operators, the mark and its words say just that."""
    comparison = dynexplore.compare(takes_a_number, torch.ones(3, 4), 2, methods=["dynexplore"])
    assert [(probe.name, probe.mark) for probe in comparison.probes] == [
        ("as given", ""), ("negated", ""), ("other sizes", "**"), ("other numbers", "**"),
    ]  # fmt: skip
    for shown in (str(comparison), comparison._repr_html_()):
        assert "other sizes **" in shown and "takes a different path" not in shown
        assert "** eager runs the operators of the call as given, with different constants" in shown


def test_an_optimizer_takes_the_same_path_again() -> None:
    """Its steps are measured by a record of torch's, an object that is another one in each call: that is no other constant."""
    layer = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = layer(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    comparison = dynexplore.compare(step, torch.ones(2, 4), methods=["dynexplore"])
    assert [probe.mark for probe in comparison.probes if probe.name in ("as given", "negated")] == ["", ""]


def test_a_trace_bakes_a_branch_in(branch_comparison: Any) -> None:
    """jit.trace answers wrongly, without a word, where eager takes the other side; no other method does."""
    comparison = branch_comparison
    assert [probe.name for probe in comparison.probes if probe.takes_another_path] == ["negated"]
    trace = comparison["jit.trace"]
    assert trace.agrees and not trace.sound
    assert trace.verdict("negated").outcome == "wrong" and "differs from eager" in trace.verdict("negated").words
    assert any("Python boolean" in warning for warning in trace.warnings)
    others = {outcome.key for outcome in comparison.outcomes if not outcome.sound and not outcome.failed}
    assert others == {"jit.trace"}


def test_methods_without_data_refuse_a_branch(branch_comparison: Any) -> None:
    """fx and export fail with one sentence of ours and their own message, and have no graph to show."""
    for key, words in (("fx", "cannot be evaluated"), ("export", "control flow depends on tensor data")):
        outcome = branch_comparison[key]
        assert outcome.failed and words in outcome.failure and "\n" not in outcome.failure
        assert outcome.message and len(outcome.message) <= 400
        with pytest.raises(LookupError, match="captured no graph"):
            outcome.graph


def test_readers_of_bytecode_capture_both_sides(branch_comparison: Any) -> None:
    """torch.compile and this engine break the graph at the branch, and capture the other side when it is taken."""
    for key in ("dynamo", "dynexplore"):
        outcome = branch_comparison[key]
        assert len(outcome.graphs) == 2 and outcome.breaks, key
        assert outcome.operators == ("abs", "add", "div", "sum", "lt", "mul")
        assert outcome.verdict("negated").captured_anew and not outcome.verdict("as given").captured_anew
    assert branch_comparison["dynamo"].differences == ()


def test_a_script_keeps_the_branch(branch_comparison: Any) -> None:
    """The syntax tree has both sides: a prim::If with the operators of its block, in a group of their own."""
    nodes = branch_comparison["jit.script"].graph.nodes
    (branch,) = [node for node in nodes if node.target == "prim::If"]
    inside = [node for node in nodes if node.module == f"{branch.name}_then"]
    assert [node.target for node in inside] == ["aten::mul"]
    assert inside[0].name in branch.inputs


def test_deferred_tensors_are_right_and_capture_every_time(branch_comparison: Any) -> None:
    """The lazy backend runs Python each time: right on every call, a new graph for each, cut where data was asked for."""
    lazy = branch_comparison["lazy"]
    assert lazy.sound and all(verdict.captured_anew for verdict in lazy.verdicts)
    assert lazy.breaks == ("data was requested once, and the operators recorded until then ran immediately",)


def test_side_effects_are_lost_by_traces() -> None:
    """A print and an append happen once, at the trace, and never again; readers of bytecode replay them; the program sees none."""
    log.clear()
    comparison = dynexplore.compare(with_side_effects, torch.ones(3))
    for key in TRACES:
        verdict = comparison[key].verdict("as given")
        assert verdict.outcome == "loses side effects" and "prints" in verdict.words, key
    for key in ("dynamo", "dynexplore", "lazy"):
        assert comparison[key].agrees, key
    assert comparison["jit.script"].failed
    assert log == []


def test_an_append_that_is_lost_is_named() -> None:
    """Where nothing is printed, the list of the program that stays short is named."""
    kept: list[int] = []

    def appends(x):
        kept.append(1)
        return x + 1

    comparison = dynexplore.compare(appends, torch.ones(2), methods=["jit.trace", "dynexplore"])
    assert comparison["jit.trace"].verdict("as given").words == "kept is unchanged, but in eager it grows by 1"
    assert comparison["dynexplore"].agrees and kept == []


def test_a_loop_over_a_size_is_unrolled() -> None:
    """A trace is wrong for another size, fx cannot begin, a script keeps the loop, export refuses."""
    comparison = dynexplore.compare(loop, torch.randn(3, 2))
    found = outcomes_of(comparison, "other sizes")
    assert found["jit.trace"] == "wrong"
    assert found["export"] == "refuses"
    assert {found[key] for key in ("jit.script", "lazy", "dynamo", "dynexplore")} == {"same"}
    assert "number of items" in comparison["fx"].failure
    assert comparison["dynexplore"].operators.count("mul") == 3
    assert any(node.target == "prim::Loop" for node in comparison["jit.script"].graph.nodes)


def test_stars_and_nested_results() -> None:
    """*args, **kwargs and a dict of lists and tuples: those who can, agree; those who cannot, say so in one sentence."""
    comparison = dynexplore.compare(star, torch.ones(2), torch.ones(2), w=torch.zeros(2))
    for key in ("lazy", "export", "dynamo", "dynexplore"):
        assert comparison[key].agrees, str(comparison)
    assert "*args" in comparison["jit.script"].failure
    assert comparison["jit.trace"].failure == "a trace can return only tensors and nested containers of tensors"
    assert comparison["fx"].failed or comparison["fx"].verdict("as given").outcome == "refuses"


def test_a_module_with_a_submodule() -> None:
    """All methods capture a module in training mode, its statistics included, and the module itself stays as it is."""
    net = Net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    comparison = dynexplore.compare(net, torch.randn(5, 4))
    for outcome in comparison.outcomes:
        assert outcome.agrees, f"{outcome.key}: {outcome.failure} {outcome.verdicts}"
    assert [node.target for node in comparison["fx"].graph.nodes if node.op == "call_module"] == [
        "block.linear (Linear)",
        "block.norm (BatchNorm1d)",
        "head (Linear)",
    ]
    assert comparison["fx"].operators == ("linear", "batch_norm", "relu", "linear")
    assert comparison["jit.trace"].operators == comparison["dynexplore"].operators
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(parameter.device.type == "cpu" for parameter in net.parameters())


def test_a_function_without_source() -> None:
    """jit.script needs source text and says so; the others do not."""
    for name in ("nowhere", None):
        program: dict[str, Any] = {"torch": torch} if name is None else {"torch": torch, "__name__": name}
        exec("def made(x):\n    return x.abs() + 1", program)
        comparison = dynexplore.compare(program["made"], torch.ones(2), methods=["fx", "jit.script", "dynexplore"])
        assert comparison["jit.script"].failure == "it compiles source text, and the source of this function cannot be read"
        assert comparison["fx"].agrees and comparison["dynexplore"].agrees


def test_an_argument_that_is_changed_in_place() -> None:
    """Every captured program changes the argument as eager does; the argument of the caller stays as it was."""
    out = torch.zeros(3)
    comparison = dynexplore.compare(in_place, torch.ones(3), out)
    for outcome in comparison.outcomes:
        assert outcome.agrees, f"{outcome.key}: {outcome.failure} {outcome.verdicts}"
    assert torch.equal(out, torch.zeros(3))


def test_a_python_number_is_baked_in_by_a_trace() -> None:
    """Another Python number: a trace is wrong, export refuses, readers of bytecode capture again."""
    comparison = dynexplore.compare(lambda x, n: x * n, torch.ones(2), 3, methods=["jit.trace", "export", "dynamo", "dynexplore"])
    assert outcomes_of(comparison, "other numbers") == {
        "jit.trace": "wrong",
        "export": "refuses",
        "dynamo": "same",
        "dynexplore": "same",
    }
    assert comparison["jit.trace"].notes == ("arguments that are not tensors became constants",)


def test_a_second_call_of_the_users() -> None:
    """`second` is tried too; a call that eager cannot make is held against what eager raises."""

    def picky(x, key):
        return x * {"a": 1, "b": 2}[key]

    comparison = dynexplore.compare(picky, torch.ones(2), "a", second=(torch.ones(2), "b"), methods=["jit.trace", "dynexplore"])
    assert outcomes_of(comparison, "second") == {"jit.trace": "wrong", "dynexplore": "same"}
    comparison = dynexplore.compare(picky, torch.ones(2), "a", second=(torch.ones(2), "c"), methods=["jit.trace", "dynexplore"])
    assert outcomes_of(comparison, "second") == {"jit.trace": "wrong", "dynexplore": "same"}
    assert "raises KeyError" in comparison["jit.trace"].verdict("second").words


# -- nothing is disturbed ------------------------------------------------------------------------------------------------


def test_nothing_of_the_program_changes() -> None:
    """Random numbers, warnings, output, counters, caches of this engine and of torch.compile stay as they are."""
    from torch._dynamo.utils import counters as theirs

    ours, dynamo = dynexplore.optimize("eager")(plain), torch.compile(plain, backend="eager")
    a, b = torch.randn(3, 3), torch.randn(3, 3)
    ours(a, b), dynamo(a, b)
    counted, their_count = dynexplore.counters.snapshot(), {name: dict(group) for name, group in theirs.items()}
    states = torch.get_rng_state(), random.getstate(), torch.get_num_threads(), sys.stdout
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dynexplore.compare(plain, a, b)
    assert not caught
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (random.getstate(), torch.get_num_threads(), sys.stdout)
    assert dynexplore.counters.snapshot() == counted
    ours(a, b), dynamo(a, b)
    assert dynexplore.counters.snapshot() == counted  # still hits
    assert {name: dict(group) for name, group in theirs.items()} == their_count


def test_random_numbers_are_the_same_for_each_method() -> None:
    """Dropout and rand: every method starts from the same state, so their answers can be compared."""

    def noisy(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(x.shape)

    comparison = dynexplore.compare(noisy, torch.ones(64), methods=["jit.trace", "dynamo", "dynexplore"])
    assert all(outcome.agrees for outcome in comparison.outcomes), str(comparison)


def test_a_method_that_dies_is_a_failure_of_that_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash in C++ costs that method its answer, and nobody else anything."""

    def ended(self: Any, call: Any) -> Any:
        os.abort()

    monkeypatch.setattr("dynexplore.lenses.jit_trace.JitTrace.capture", ended)
    comparison = dynexplore.compare(plain, torch.ones(2, 2), torch.ones(2, 2), methods=["jit.trace", "dynexplore"])
    assert comparison["jit.trace"].failure == "torch.jit.trace could not be tried: its process was killed by SIGABRT"
    assert comparison["dynexplore"].agrees


def test_a_method_that_hangs_is_a_failure_of_that_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture without end is ended after the time that was given."""

    def endless(self: Any, call: Any) -> Any:
        time.sleep(60)

    monkeypatch.setattr("dynexplore.lenses.symbolic_trace.SymbolicTrace.capture", endless)
    comparison = dynexplore.compare(plain, torch.ones(2, 2), torch.ones(2, 2), methods=["fx"], seconds=4)
    assert comparison["fx"].failure == "torch.fx.symbolic_trace could not be tried: it did not finish within 4 seconds"


def test_without_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no child can be had, methods run here: arguments, modules and random numbers are put back, and it says so."""
    monkeypatch.setattr(isolation, "reason_against", lambda: "this is a test")
    net, x = Net(), torch.randn(5, 4)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    state = torch.get_rng_state()
    comparison = dynexplore.compare(net, x, methods=["fx", "jit.trace", "lazy", "dynexplore"])
    assert all(comparison[key].agrees for key in ("fx", "jit.trace", "dynexplore"))
    assert "separate process" in comparison["lazy"].failure
    assert "this is a test" in comparison.note and comparison.note in str(comparison)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())


# -- the object ----------------------------------------------------------------------------------------------------------


def test_it_goes_to_json(branch_comparison: Any) -> None:
    """Everything is in the JSON form: methods, graphs with their rows, verdicts, failures."""
    data = json.loads(branch_comparison.to_json())
    assert data["schema"] == 2 and [method["key"] for method in data["methods"]] == ALL
    ours = data["methods"][ALL.index("dynexplore")]
    assert [row["op"] for row in ours["graphs"][0]["nodes"]][:2] == ["placeholder", "placeholder"]
    assert data["methods"][0]["failure"] and data["probes"][0]["name"] == "as given"


def test_names_of_methods(branch_comparison: Any) -> None:
    """A method is found by its key and by the call that people write; another name is a KeyError that lists them."""
    assert branch_comparison["torch.jit.trace"] is branch_comparison["jit.trace"]
    assert "fx" in branch_comparison and "torch.fx" not in branch_comparison
    with pytest.raises(KeyError, match="no method 'onnx'.*jit.trace"):
        branch_comparison["onnx"]
    with pytest.raises(KeyError, match="tried on"):
        branch_comparison["jit.trace"].verdict("nothing")


def test_alone_it_gives_a_function() -> None:
    """compare(f) is for functions without arguments, and for those with a parameter named as one of its own."""
    made = dynexplore.compare(lambda: torch.ones(2) + 1, methods=["dynexplore"])()
    assert made["dynexplore"].agrees
    made = dynexplore.compare(lambda x, seconds: x * seconds, methods=["dynexplore"])(torch.ones(2), seconds=3)
    assert made["dynexplore"].agrees


def test_an_optimized_function_is_taken_as_it_was() -> None:
    """What is compared is the function itself, not what this engine made of it."""
    optimized = dynexplore.optimize("eager")(plain)
    comparison = dynexplore.compare(optimized, torch.ones(2, 2), torch.ones(2, 2), methods=["fx", "dynexplore"])
    assert comparison.title == "plain" and comparison["fx"].agrees and comparison["dynexplore"].agrees


def test_bad_input_gets_one_sentence() -> None:
    """No callable, an unknown method, a call that eager cannot make."""
    with pytest.raises(TypeError, match="takes a function, a bound method or an nn.Module, not int"):
        dynexplore.compare(3, torch.ones(2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no method 'onnx'; there are fx, jit.trace"):
        dynexplore.compare(plain, torch.ones(2), methods=["onnx"])
    with pytest.raises(ValueError, match=r"in eager, this call to plain raises TypeError: .*'b'"):
        dynexplore.compare(plain, torch.ones(2))


def test_a_method_of_an_object_is_compared() -> None:
    """A bound method is a function as any other."""

    class Scaler:
        def __init__(self) -> None:
            self.by = 3

        def scale(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    comparison = dynexplore.compare(
        Scaler().scale, torch.ones(2), methods=["fx", "jit.trace", "lazy", "export", "dynamo", "dynexplore"]
    )
    for outcome in comparison.outcomes:
        assert outcome.agrees, f"{outcome.key}: {outcome.failure} {outcome.message}"


def test_the_time_of_a_call_is_that_of_one_that_captures_nothing() -> None:
    """An optimizer's state is gone in each call that starts anew, so each of those is a capture; the call after one is none. A
    function that each call captures has no such time."""
    state: dict[str, int] = {}
    captures: list[str] = []

    class Start:
        def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
            state.clear()
            return (), {}

    def step() -> None:
        if not state:
            captures.append("with an empty state")
        state["step"] = state.get("step", 0) + 1

    trial = examination.Trial("as given", Start())
    assert examination._cached_seconds(step, trial, lambda: len(captures)) is not None
    assert len(captures) == 3
    assert examination._cached_seconds(lambda: captures.append("always"), trial, lambda: len(captures)) is None


def test_a_report_is_one_screen() -> None:
    """All ways to capture a function in 40 lines at most: the table, the first remarks, and where the graphs are."""
    comparison = dynexplore.compare(lambda x: [torch.relu(x + number) for number in range(12)], torch.ones(3))
    shown, whole = str(comparison).split("\n"), comparison.text().split("\n")
    assert len(shown) <= 40 < len(whole)
    assert shown[-1].startswith("All remarks and the graphs") and any(line.startswith("dynexplore ") for line in shown)


@pytest.mark.plain("a function is called, and nothing is captured")
def test_a_call_that_captures_is_followed_by_warm_ones() -> None:
    """Where each call from a fresh state is captured again, the time is that of three calls that captured nothing."""
    calls: list[int] = []

    class Start:
        def fresh(self) -> tuple[tuple[()], dict[str, object]]:
            return (), {}

    def run() -> None:
        calls.append(len(calls))

    class Trial:
        start = Start()

    trial: Any = Trial()
    assert examination._cached_seconds(run, trial, lambda: min(len(calls), 3)) is not None
    assert len(calls) == 6
    assert examination._cached_seconds(run, trial, lambda: len(calls)) is None
