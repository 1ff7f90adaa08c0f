"""views/traffic.py: what operators and kernels read and write, from the texts of a graph and of a diagram."""

from __future__ import annotations

import pytest
import torch

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.tools.inductor_artifacts import inductor_artifacts
from dynexplore.views.traffic import Step, traffic

pytestmark = pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")  # torch's own, on import

GRAPH = """class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[8, 4]", arg1_1: "f32[s0, 4]"):
        # File: model.py:3 in forward, code: return x
        permute: "f32[4, 8]" = torch.ops.aten.permute.default(arg0_1, [1, 0]);  arg0_1 = None
        var_mean = torch.ops.aten.var_mean.correction(permute, [1], correction = 0, keepdim = True)
        getitem: "f32[4, 1]" = var_mean[0]
        getitem_1: "f32[4, 1]" = var_mean[1];  var_mean = None
        cos: "f32[4, 8]" = torch.ops.aten.cos.default(permute);  permute = None
        add: "f32[4, 8]" = torch.ops.aten.add.Tensor(cos, getitem);  cos = getitem = None
        mul: "f32[s0, 4]" = torch.ops.aten.mul.Tensor(arg1_1, 2);  arg1_1 = None
        return (add, getitem_1, mul)
"""

DIAGRAM = """digraph kernels {
\targ0_1 [label=arg0_1 fillcolor="#dbeafe"]
\top0 [label="op0: permute, var_mean" tooltip="op0: permute, var_mean"]
\top1_op2 [label="op1_op2: add, cos, permute" tooltip="op1_op2: add, cos, permute"]
\top0 -> op1_op2 [label=buf0]
\top3 [label="op3: mul" tooltip="op3: mul"]
}
"""


def of_texts(**texts: str) -> Recording:
    """A recording with nothing but these texts."""
    recording = Recording()
    for part, text in texts.items():
        recording.record(ev.ArtifactEmitted(frame=1, graph="g", stage="forward", part=part, text=text))
    return recording


@pytest.mark.plain("reads texts of a compiler that are given")
def test_an_operator_by_itself_reads_its_inputs_and_writes_its_results() -> None:
    """A view is what it looks at, an operator with two results writes both, and a size that is a symbol has no bytes."""
    (told,) = traffic(of_texts(graph=GRAPH, diagram=DIAGRAM))
    assert told.operators == (
        Step("var_mean", ("var_mean",), ("arg0_1",), ("getitem", "getitem_1")),
        Step("cos", ("cos",), ("arg0_1",), ("cos",)),
        Step("add", ("add",), ("cos", "getitem"), ("add",)),
        Step("mul", ("mul",), ("arg1_1",), ("mul",)),
    )
    assert told.moved(told.operators[:2]) == (128 + 2 * 16) + 2 * 128
    assert told.moved(told.operators) is None


@pytest.mark.plain("reads texts of a compiler that are given")
def test_a_kernel_reads_and_writes_what_crosses_its_edge() -> None:
    """What is made and used inside stays there; a result of the program, and what another kernel needs, is written."""
    (told,) = traffic(of_texts(graph=GRAPH, diagram=DIAGRAM))
    assert told.kernels == (
        Step("op0", ("var_mean",), ("arg0_1",), ("getitem", "getitem_1")),
        Step("op1_op2", ("cos", "add"), ("arg0_1", "getitem"), ("add",)),
        Step("op3", ("mul",), ("arg1_1",), ("mul",)),
    )


@pytest.mark.plain("reads texts of a compiler that are given")
def test_what_two_kernels_compute_is_not_carried_between_them() -> None:
    """`cos` in both kernels: neither reads it, and nobody writes it."""
    both = DIAGRAM.replace("op0: permute, var_mean", "op0: cos, permute, var_mean")
    (told,) = traffic(of_texts(graph=GRAPH, diagram=both))
    assert [step.writes for step in told.kernels[:2]] == [("getitem", "getitem_1"), ("add",)]


@pytest.mark.plain("reads a recording without a graph")
def test_without_a_diagram_there_is_nothing_to_tell() -> None:
    """AOTAutograd alone makes no kernels."""
    assert traffic(of_texts(graph=GRAPH)) == [] == traffic(Recording())


def test_what_is_told_is_what_the_generated_loop_does() -> None:
    """Reads and writes of the generated C++ are as many as the picture's, and inputs have the program's names."""
    made = inductor_artifacts(lambda x, y: (torch.cos(x) + y, torch.sin(x)), torch.ones(64), torch.ones(64))
    (told,) = traffic(made.explanation.recording)
    (kernel,) = told.kernels
    assert (kernel.reads, kernel.writes) == (("x", "y"), ("add", "sin"))
    for generated in made.kernels() if not made.notice else ():
        assert (len(generated.reads), len(generated.writes)) == (2, 2)


def test_backward_has_its_own() -> None:
    """The other half is told under its own names."""
    made = inductor_artifacts(lambda x: torch.cos(x) * 2, torch.ones(8, requires_grad=True), parts=("graph", "diagram"))
    (told,) = traffic(made.explanation.recording, "backward")
    assert set(told.kernels[0].reads) == {"primals_1", "tangents_1"}
