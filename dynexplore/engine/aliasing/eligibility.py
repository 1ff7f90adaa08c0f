"""Backend eligibility: the table of reasons for which a graph does not go to its backend.

The idea: *why* is data. A backend on AOTAutograd returns a callable that computes the same values as the graph; but mutations,
views and autograd's graph differ in order or shape from eager, and some programs can observe that. For those the engine skips the
backend: the graph runs as captured, one operator after another, as under "eager". That is slower and correct. Each reason is one
row of `RULES` with a stable id, a title without run-time text, an explanation, how to avoid it, a predicate, and an example
program. The first row whose predicate is true is the reason. It is shown in the event `SubgraphCompiled`, in
`counters["backend_skipped"]`, in the headline and the explorer, and in the docs.

Rows are evaluated in order. Rows of a later `stage` are evaluated if no earlier row matched: when a guard is to be installed, when
the graph is cut into pieces, and when the backend has failed. To add a reason: one row here, and `python -m
dynexplore.engine.aliasing.eligibility > docs/backend-eligibility.md`.

In: a `Candidate`: the finished graph, the breaks that end it, what installs a guard. Out: `skip_backend(candidate)` records the
reason on the graph; `docs_page()`. PyTorch's counterpart: none; AOTAutograd raises, or its result differs from eager.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence

import torch

from dynexplore.engine.aliasing import aotautograd_limits as limits
from dynexplore.engine.aliasing.float_inputs import are_random, floats_of
from dynexplore.engine.aliasing.lowerings import (
    DATA,
    FUNCTION,
    INDEX,
    LEAF,
    LOOP,
    REDRAW,
    calls_in,
    cannot_be_cut_at,
    has_eager_nodes,
    passes_functorch_tensors,
)
from dynexplore.engine.aliasing.mutation import dead_raising_ops
from dynexplore.engine.aliasing.overlap_guard import (
    InstallGuard,
    Varies,
    guard_on_overlap,
    guard_on_storage_offsets,
    guard_on_whole_storages,
    no_guard,
)
from dynexplore.engine.aliasing.synthetic_bases import Base
from dynexplore.engine.counters import counters
from dynexplore.engine.events import SkipReason
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.graph.recurrent_meta_kernels import is_recurrent
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.records import record


class Candidate:
    """A graph that may go to its backend, with the facts for that decision and what was done to it."""

    def __init__(
        self, graph: FinishedGraph, breaks: Sequence[GraphBreak] = (), guard: InstallGuard = no_guard,
        varies: Varies = lambda where, layout: False,
    ) -> None:  # fmt: skip
        """`guard`: installs a guard; `varies`: whether inputs overlapped differently before (for the rows of stage "guarded")."""
        self.graph, self.breaks, self.guard, self.varies = graph, breaks, guard, varies
        self.error: BaseException | None = None  # the backend's exception
        self.runs_as_captured = True  # no backend compiles it
        self.inputs_to_clone: tuple[int, ...] = ()  # read from clones by the backend's graph, as they are mutated later
        self.bases: list[Base] = []  # overlapping inputs are passed to the backend as views of these
        self.passes: list[str] = []  # the names of those that ran
        self.wrappers: list[str] = []  # the names of those around the backend's callable

    def names(self, indices: Sequence[int]) -> list[str]:
        """The names of the placeholders of inputs."""
        return [self.graph.inputs[index].node.name for index in indices]


Predicate = Callable[[Candidate], bool]

CAPTURED, GUARDED, SPLIT, RECURRENT, FAILED, NO_COMPILER = STAGES = (
    "captured", "guarded", "split", "recurrent", "failed", "no compiler",
)  # fmt: skip
"""When a row is evaluated: the graph is captured; no other row matched, and this one installs a guard; the graph is cut into
pieces; it is cut around recurrent layers; its backend has raised; its backend has found no compiler.
"""


@record()
class Rule:
    """One reason to skip the backend. `title` contains no run-time text; `why` and `fix` are plain sentences.

    `example` is a program that triggers it: its function `f`, compiled with the backend "aot_eager" and called with a tensor of
    three ones, or with the `args` that the program defines.
    """

    id: str
    title: str
    why: str
    fix: str
    predicate: Predicate
    stage: str = CAPTURED
    example: str = ""

    @property
    def reason(self) -> SkipReason:
        """The row as stored in events."""
        return SkipReason(self.id, self.title, self.why, self.fix)


def _cannot_be_cut(candidate: Candidate) -> bool:
    """A piece is cut from the graph as captured, so it cannot have bases, clones or a dead operator that raises."""
    graph = candidate.graph
    is_rewritten = bool(candidate.inputs_to_clone or candidate.bases)
    return is_rewritten or (graph.meta.may_raise and bool(dead_raising_ops(graph.module.graph)))


def _is_inference_leaf(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_inference() and value.requires_grad


def _is_recurrent_alone(candidate: Candidate) -> bool:
    calls = calls_in(candidate.graph.module)
    only_layers = all(is_recurrent(node.target) or node.target is operator.getitem for node in calls)
    return only_layers and not has_eager_nodes(candidate.graph.module)


def _refuses_no_grad_view(candidate: Candidate) -> bool:
    is_about_a_view = isinstance(candidate.error, RuntimeError) and "view" in str(candidate.error).lower()
    return is_about_a_view and limits.mutates_with_no_grad_views(candidate.graph)


def _backward_fails_alike(candidate: Candidate) -> bool:
    return candidate.error is not None and limits.backward_raises(candidate.graph, type(candidate.error))


RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in (
        Rule(
            "BE01",
            "an operator writes to the same memory twice",
            "It receives the same tensor twice, writes to memory that it also reads as another element, or writes to a part of an "
            "expanded input, which a backend copies back as a whole. The result depends on the order of the writes inside the "
            "operator, and a functional operator has no such order.",
            "Pass each tensor once, and clone() a view before an operator reads and writes the same memory.",
            lambda candidate: candidate.graph.meta.has_overlapping_write,
            example="""
def f(x):
    torch._foreach_add_([x, x], 1)
    return x * 2
""",
        ),
        Rule(
            "BE02",
            "a mutation through `.data` of a tensor that autograd saved",
            "A mutation through `.data` does not bump the version counter. Eager's backward uses the new data; AOTAutograd "
            "decides by itself what backward saves, and may use the old data.",
            "Mutate under torch.no_grad() instead of through .data, or mutate a clone.",
            lambda candidate: candidate.graph.meta.mutates_saved_data,
            example="""
def f(x, w):
    y = x * w
    w.data.mul_(2)
    return y.sum()

args = (torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True))
""",
        ),
        Rule(
            "BE03",
            "an input of a checkpoint is mutated after the checkpoint",
            "checkpoint recomputes its block during backward, from its inputs as they are then. AOTAutograd recomputes it from "
            "the inputs as they were in forward.",
            "Pass the checkpoint a clone of the tensor that is mutated later.",
            lambda candidate: candidate.graph.meta.mutates_recompute_inputs,
            example="""
from torch.utils.checkpoint import checkpoint

def f(x, u):
    y = checkpoint(lambda z: (z * x).sin(), u, use_reentrant=False)
    u.add_(1)
    return y * x

args = (torch.ones(3, requires_grad=True), torch.ones(3))
""",
        ),
        Rule(
            "BE04",
            "an operation after the graph uses autograd's graph inside it",
            "torch.autograd.grad, backward(create_graph=True), a hook on a tensor and retain_grad() see the nodes that eager "
            "autograd records for each operator. A compiled graph is one node: unused gradients are zeros instead of None, and "
            "there is no second derivative.",
            "Compute the gradient outside the compiled function, or call loss.backward() without create_graph.",
            lambda candidate: limits.needs_eager_autograd(candidate.breaks),
            example="""
def f(x):
    y = x.sin()
    y.retain_grad()
    y.sum().backward()
    return y.grad

args = (torch.ones(3, requires_grad=True),)
""",
        ),
        Rule(
            "BE05",
            "`_version` is read after a graph that mutates a tensor",
            "The version counter counts mutations, and AOTAutograd's graph does not have the same mutations as the program.",
            "Read _version outside the compiled function.",
            lambda candidate: limits.reads_version_counter(candidate.graph, candidate.breaks),
            example="""
def f(x):
    x.add_(1)
    x.mul_(2)
    return x._version
""",
        ),
        Rule(
            "BE06",
            "gradients are computed while the graph's outputs depend on different leaves",
            "To autograd a compiled graph is one operation, so every output seems to depend on every input. A leaf that eager's "
            "backward does not reach would get a gradient of zeros instead of None.",
            "Call backward() outside the compiled function, or return only the loss from it.",
            lambda candidate: limits.shows_grad_leaves(candidate.graph, candidate.breaks),
            example="""
def f(x, w):
    loss, other = (x * 2).sum(), (w * 3).sum()
    loss.backward()
    return other, w.grad

args = (torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True))
""",
        ),
        Rule(
            "BE07",
            "backward(retain_graph=True) while one output of the graph is computed from another",
            "A later backward may start at the inner output, and reach the inputs through the outer one's operators. A compiled "
            "graph has a single backward for all outputs.",
            "Return only the outermost of the two, or call backward() once on their sum.",
            lambda candidate: limits.retains_chained_outputs(candidate.graph, candidate.breaks),
            example="""
def f(x):
    inner = x.sin()
    loss = inner.cos().sum()
    loss.backward(retain_graph=True)
    return inner, loss

args = (torch.ones(3, requires_grad=True),)
""",
        ),
        Rule(
            "BE08",
            "an operator fails after a graph that returns views with a gradient",
            "Autograd rejects mutations of some views, such as those that split() returns. It accepts them for the view that "
            "AOTAutograd regenerates, so the operator would not fail.",
            "Mutate the base, or a clone of the view.",
            lambda candidate: limits.operator_refuses_a_view(candidate.graph, candidate.breaks),
            example="""
def f(x):
    first, second = (x * 2).split(2)
    try:
        first.mul_(2)
    except RuntimeError:
        return first + 1
    return first

args = (torch.ones(4, requires_grad=True),)
""",
        ),
        Rule(
            "BE09",
            "an output is a mutated or repeated view of a view that was made in `no_grad`",
            "Eager's autograd graph ends at the inner view. AOTAutograd regenerates the output from the base, and gradients would "
            "flow through. Usually the views are replayed after the graph, but not if the memory is mutated, or if one such "
            "output is a view of another.",
            "detach() the inner view, which has the same effect.",
            lambda candidate: limits.returns_view_that_cannot_be_replayed(candidate.graph)
            or limits.mutates_no_grad_view_through_data(candidate.graph),
            example="""
def f(x):
    with torch.no_grad():
        v = x[:2]
    w = v.view(-1)
    return w, w[:1], x * 2

args = (torch.ones(3, requires_grad=True),)
""",
        ),
        Rule(
            "BE10",
            "the graph mutates a tensor that autograd saved for backward",
            "In eager, backward raises a version error if it is called. AOTAutograd raises immediately, or uses the old data.",
            "Mutate a clone, or use the out-of-place operator.",
            lambda candidate: limits.mutates_saved_tensor(candidate.graph),
            example="""
def f(x):
    y = x.exp()
    z = y * 2
    y.add_(1)
    return z

args = (torch.ones(3, requires_grad=True),)
""",
        ),
        Rule(
            "BE11",
            "a mutation of storage that `as_strided` viewed through another view",
            "Functionalization replays a mutation on the base by undoing each view on the way. It cannot undo as_strided of a "
            "view.",
            "Call as_strided on the base, or index it instead.",
            lambda candidate: limits.mutates_storage_of_as_strided_view(candidate.graph),
            example="""
def f(x):
    y = (x * 2).view(-1)
    y.as_strided((2,), (1,), 1).add_(1)
    return y
""",
        ),
        Rule(
            "BE12",
            "an input with a grad_fn is mutated",
            "The mutation becomes part of the autograd graph that the caller holds. AOTAutograd copies the new data into the "
            "input after the graph, so hooks and the grad_fn of the input differ from eager.",
            "Use the out-of-place operator, and return the result.",
            lambda candidate: limits.mutates_non_leaf(candidate.graph),
            example="""
def f(x):
    x.mul_(2)
    return x.sum()

args = (torch.ones(3, requires_grad=True) * 1,)
""",
        ),
        Rule(
            "BE13",
            "a mutation gives an input a grad_fn",
            "The input enters the autograd graph in the middle of the function. AOTAutograd saves the input for backward and "
            "then writes to it.",
            "Return the new tensor instead of writing it into the input, or detach() it first.",
            lambda candidate: limits.gives_input_a_grad_fn(candidate.graph),
            example="""
def f(buffer, w):
    buffer.copy_(w * 2)
    return buffer.sum()

args = (torch.ones(3), torch.ones(3, requires_grad=True))
""",
        ),
        Rule(
            "BE14",
            "a mutated output shares its storage with a tensor that is not its base",
            "A detached tensor shares memory with its origin but has a separate autograd history. AOTAutograd regenerates it as a "
            "view of the tensor that it was detached from.",
            "Call .clone() after detach() before you mutate.",
            lambda candidate: limits.returns_aliases_with_distinct_bases(candidate.graph),
            example="""
def f(x):
    y = x * 2
    z = y.detach()
    z.add_(1)
    return y, z

args = (torch.ones(3, requires_grad=True),)
""",
        ),
        Rule(
            "BE15",
            "backward needs an input as it was before the graph mutated it",
            "AOTAutograd's partitioner may recompute a value during backward from an input that the graph has overwritten by "
            "then. Usually the graph reads such an input from a clone; here a view of it is read after the mutation, or another "
            "input shares its storage.",
            "clone() the input before you mutate it.",
            lambda candidate: not limits.can_clone_recomputed_inputs(candidate.graph),
            example="""
def f(state, w):
    view = state[:2]
    y = (view * 2 + w).sin()
    state.add_(1)
    return y + view

args = (torch.ones(3), torch.ones(2, requires_grad=True))
""",
        ),
        Rule(
            "BE16",
            "inputs that overlap in memory have no common base, and one of them is mutated",
            "AOTAutograd's graph reads its inputs first and mutates them last; eager follows the program's order. Usually the "
            "backend gets the storage as one input, and the graph takes views of it. It does not if there is more than one "
            "mutation, or if the inputs differ in dtype, are not views of one tensor, require grad, have symbolic sizes, or "
            "overlap differently than in an earlier call.",
            "Pass a clone of one of the overlapping tensors, or views of one tensor with its dtype.",
            lambda candidate: guard_on_overlap(candidate.guard, candidate.graph, candidate.varies, candidate.bases),
            GUARDED,
            example="""
def f(a, b):
    a.add_(1)
    return a * b

a = torch.arange(6.)
args = (a, a.view(torch.int32))
""",
        ),
        Rule(
            "BE17",
            "an output is a view with a symbolic size of a mutated input that has a storage offset",
            "AOTAutograd regenerates the view from an offset that counts from the start of the storage.",
            "Pass a clone of the slice, or a tensor of fixed size.",
            lambda candidate: not guard_on_storage_offsets(candidate.guard, candidate.graph),
            GUARDED,
            example="""
def f(x):
    x.add_(1)
    return x[: x.shape[0] // 2]

x = torch.arange(9.)[1:]
torch._dynamo.mark_dynamic(x, 0)
args = (x,)
""",
        ),
        Rule(
            "BE18",
            "`as_strided` of an input that is only a part of its storage",
            "as_strided counts from the start of the storage. A backend sees only the input, not the rest of its storage.",
            "Pass the whole tensor, or use indexing instead of as_strided.",
            lambda candidate: not guard_on_whole_storages(candidate.guard, candidate.graph),
            GUARDED,
            example="""
def f(x):
    return x.as_strided((3,), (1,), 0) + 1

args = (torch.arange(6.)[3:],)
""",
        ),
        Rule(
            "BE19",
            "an output is a view with a gradient, and the graph starts without gradients",
            "AOTAutograd regenerates views after the graph, in the grad mode in which the frame started.",
            "Enter enable_grad outside the compiled function.",
            lambda candidate: limits.returns_view_with_grad_from_no_grad(candidate.graph),
            example="""
def inner(x):
    with torch.enable_grad():
        return x[:2], x * 2

def f(x):
    with torch.no_grad():
        torch._dynamo.graph_break()
        return inner(x)

args = (torch.ones(3, requires_grad=True),)
""",
        ),
        Rule(
            "BE20",
            "the graph exits inference mode",
            "AOTAutograd traces and runs the whole graph in the mode in which it starts.",
            "Call the compiled function outside inference mode.",
            lambda candidate: limits.leaves_inference_mode(candidate.graph),
            example="""
def inner(x):
    with torch.inference_mode(False):
        return torch.ones(3).add_(1) * 2

def f(x):
    with torch.inference_mode():
        torch._dynamo.graph_break()
        return inner(x)
""",
        ),
        Rule(
            "BE21",
            "an inference tensor is mutated inside an inference mode block",
            "AOTAutograd mutates inputs after the graph, outside the block, where torch does not allow an inference tensor to be "
            "mutated.",
            "Enter inference mode outside the compiled function.",
            lambda candidate: limits.mutates_inference_tensor(candidate.graph),
            example="""
def f(x):
    with torch.inference_mode():
        x.add_(1)
    return torch.ones(3) * 2

with torch.inference_mode():
    args = (torch.ones(3),)
""",
        ),
        Rule(
            "BE22",
            "a graph split into pieces needs clones or bases of inputs, or has operators that may raise",
            "A graph is split at the buckets of DistributedDataParallel and around recurrent layers. Each piece reads the inputs "
            "directly, and a backend removes an operator whose result is unused, even if it may raise.",
            "Use the result of the operator, and clone() the input before you mutate it.",
            _cannot_be_cut,
            SPLIT,
            example="""
lstm = torch.nn.LSTM(3, 3)

def f(x, i):
    out, _ = lstm(x)
    out[i]
    return out * 2

args = (torch.ones(2, 1, 3), torch.tensor([0]))
""",
        ),
        Rule(
            "BE23",
            "all operators of the graph are recurrent layers",
            "Devices run all steps of an LSTM, GRU or RNN in one kernel. A backend would unroll it into thousands of operators, "
            "which takes minutes and runs slower. So recurrent layers are not compiled, and this graph contains nothing else.",
            "No action needed.",
            _is_recurrent_alone,
            RECURRENT,
            example="""
lstm = torch.nn.LSTM(3, 3)

def f(x, h, c):
    return lstm(x, (h, c))[0]

args = (torch.ones(2, 1, 3), torch.ones(1, 1, 3), torch.ones(1, 1, 3))
""",
        ),
        Rule(
            "BE24",
            "AOTAutograd rejects a mutation of a view made in `no_grad`, or of its base",
            "AOTAutograd rejects such mutations in cases that eager allows.",
            "detach() the view, or create it with gradients enabled.",
            _refuses_no_grad_view,
            FAILED,
            example="""
def f(x):
    with torch.no_grad():
        view = x[:2]
        x.add_(1)
    return x, view

args = (torch.ones(3, requires_grad=True),)
""",
        ),
        Rule(
            "BE25",
            "the backward of the graph raises",
            "An operator in the graph has no derivative, or an autograd.Function has no backward. Eager raises only when "
            "backward is called. AOTAutograd traces backward together with forward.",
            "Wrap the part in torch.no_grad() if you do not need its gradient.",
            _backward_fails_alike,
            FAILED,
            example="""
class NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("no backward")

def f(x):
    return NoBackward.apply(x) + 1

args = (torch.ones(3, requires_grad=True),)
""",
        ),
        Rule(
            "BE26",
            "a view at an index held by a tensor, in a graph that cannot be split there",
            "Eager reads the integer in t and takes a view, as in x[t]. AOTAutograd cannot read it while tracing. If a copy is "
            "enough, the backend gets an index operator; otherwise the graph is split around the subscript. A graph that mutates "
            "tensors is not split, because its pieces could see each other's memory.",
            "Use x.index_select(0, t.view(1)), or clone() the view before you mutate it, or pass the index as an int.",
            lambda candidate: cannot_be_cut_at(candidate.graph, INDEX),
            example="""
def f(x, t):
    y = x * 2
    row = y[t]
    row.add_(1)
    return y

args = (torch.ones(3, 3), torch.tensor(1))
""",
        ),
        Rule(
            "BE27",
            "a tensor created with requires_grad=True, in a graph that cannot be split there",
            "The new tensor is a leaf with a .grad. In AOTAutograd only inputs are leaves, so the graph is split after the "
            "operator that creates the leaf. A graph that mutates tensors is not split.",
            "Create the tensor outside the compiled function.",
            lambda candidate: cannot_be_cut_at(candidate.graph, LEAF),
            example="""
def f(x):
    weight = torch.ones(3, requires_grad=True)
    x.add_(1)
    return weight * x, weight
""",
        ),
        Rule(
            "BE28",
            "a view of `x.data` is returned, in a graph that cannot be split there",
            "x.data shares the memory of x but has a separate version counter. AOTAutograd would regenerate the view from x, so "
            "the graph is split at x.data. A graph that mutates tensors is not split.",
            "Return a clone(), or take the view of x.detach().",
            lambda candidate: cannot_be_cut_at(candidate.graph, DATA),
            example="""
def f(x):
    x.data.add_(1)
    return x.data[1:], x * 2
""",
        ),
        Rule(
            "BE29",
            "no compiler for the backend",
            "The backend generates C++ or Triton, and this machine has no compiler for it. Tools such as explain continue without "
            "the backend; a program gets the error.",
            "Install a C++ compiler (or Triton, for a GPU), or use another backend.",
            lambda candidate: True,
            NO_COMPILER,
        ),
        Rule(
            "BE30",
            "a tensor inside a transform of torch.func enters or leaves the graph",
            "torch.func.vjp returns a function that holds tensors of its transform level. AOTAutograd's graphs have no levels.",
            "Call the function that vjp returns in the same graph.",
            lambda candidate: passes_functorch_tensors(candidate.graph),
            example="""
def f(x):
    y, pull = torch.func.vjp(torch.sin, x)
    torch._dynamo.graph_break()
    return pull(y)[0]
""",
        ),
        Rule(
            "BE31",
            "an autograd.Function reads values that may change, in a graph that cannot be split there",
            "A backend runs forward and backward once, while tracing, with the current values of globals, closures and "
            "attributes, so the graph is split around the function. A graph that mutates tensors is not split.",
            "Pass what forward reads as an argument, and save what backward reads on ctx.",
            lambda candidate: cannot_be_cut_at(candidate.graph, FUNCTION),
            example="""
scale = [2.0]

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * scale[0]

    @staticmethod
    def backward(ctx, grad):
        return grad * scale[0]

def f(x, y):
    y.add_(1)
    return Scaled.apply(x) + y

args = (torch.ones(3, requires_grad=True), torch.ones(3))
""",
        ),
        Rule(
            "BE32",
            "a checkpoint draws different random numbers during backward, in a graph that cannot be split there",
            "With preserve_rng_state=False, eager draws new random numbers when backward recomputes the block. AOTAutograd draws "
            "the same ones again, so the graph is split around the checkpoint. A graph that mutates tensors is not split.",
            "Keep preserve_rng_state=True.",
            lambda candidate: cannot_be_cut_at(candidate.graph, REDRAW),
            example="""
from torch.utils.checkpoint import checkpoint

def block(x):
    return x.sin() + torch.rand_like(x) * 0

def f(x, y):
    y.add_(1)
    return checkpoint(block, x, use_reentrant=False, preserve_rng_state=False) * y

args = (torch.ones(3, requires_grad=True), torch.ones(3))
""",
        ),
        Rule(
            "BE33",
            "a while_loop with gradients, in a graph that cannot be split there",
            "Only the data determines how many steps the loop takes, and so what backward saves. AOTAutograd does not trace it, "
            "so the graph is split around the loop. A graph that mutates tensors is not split.",
            "Use a scan of fixed length, or call the loop under torch.no_grad().",
            lambda candidate: cannot_be_cut_at(candidate.graph, LOOP),
            example="""
def f(x, y):
    y.add_(1)
    start = torch.tensor(0), x
    return torch.ops.higher_order.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z.sin()), start, ())[1] * y

args = (torch.ones(3, requires_grad=True), torch.ones(3))
""",
        ),
        Rule(
            "BE34",
            "an in-place operator changes the sizes or strides of an input",
            "AOTAutograd changes the input after the graph, so what it saved for backward is a view of the input, and backward "
            "raises a version error. Overlapping inputs reach the graph as views of one base, whose sizes are not theirs.",
            "Use the out-of-place operator, such as unsqueeze instead of unsqueeze_.",
            lambda candidate: any(info.mutates_metadata for info in candidate.graph.meta.inputs),
            example="""
def f(x, w):
    x.unsqueeze_(0)
    return x * w

args = (torch.ones(3), torch.ones(3, requires_grad=True))
""",
        ),
        Rule(
            "BE35",
            "an input is an inference tensor that requires grad",
            "AOTAutograd creates a separate leaf for each input that requires grad, and torch does not allow this for an "
            "inference tensor.",
            "Create the tensor outside inference mode.",
            lambda candidate: any(_is_inference_leaf(entry.example) for entry in candidate.graph.inputs),
            example="""
def f(x, w):
    with torch.no_grad():
        return x * w

with torch.inference_mode():
    w = torch.ones(3).requires_grad_()

args = (torch.ones(3), w)
""",
        ),
        Rule(
            "BE36",
            "a random number would become a constant of the graph",
            "torch's backends accept tensors and integers. A float becomes a 0-d tensor, or, if an operator accepts no tensor "
            "there (`alpha=`), a constant with a guard on its value. A random number is different in each call.",
            "Multiply by the number instead of passing it as `alpha=`, or draw it outside the compiled function.",
            lambda candidate: are_random(*floats_of(candidate.graph)),
            FAILED,
            example="""
import random

def f(x):
    return torch.add(x, x, alpha=random.random())
""",
        ),
        Rule(
            "BE37",
            "an output is one of several views, such as those of `split`, of a mutated leaf that requires grad",
            "Autograd does not allow mutations of a view that `split`, `chunk` or `unbind` returned, so AOTAutograd does not "
            "regenerate it from the input. After a mutation of the input it would have its own memory.",
            "Take the views outside the compiled function.",
            lambda candidate: any(info.is_split_of_mutated_leaf for info in candidate.graph.meta.outputs),
            example="""
def f(w):
    w.data.add_(1)
    return w.split(2)

args = (torch.ones(4, requires_grad=True),)
""",
        ),
    )
}
"""The reasons by id, in the order of evaluation."""


def skip_backend(candidate: Candidate, stage: str = CAPTURED) -> None:
    """Skip the backend if a row of this stage matches: record the first one on the graph and count it; a graph has one reason."""
    graph = candidate.graph
    if graph.backend_skipped is not None:
        return
    with torch._C.DisableTorchFunctionSubclass():  # do not run `__torch_function__` of user subclasses
        rule = next((rule for rule in RULES.values() if rule.stage == stage and rule.predicate(candidate)), None)
    if rule is not None:
        graph.backend_skipped = rule.reason
        counters["backend_skipped"][f"{rule.id}: {rule.title}"] += 1


def docs_page() -> str:
    """The text of docs/backend-eligibility.md, generated from the table."""
    return "\n".join([*_INTRODUCTION, *(line for rule in RULES.values() for line in _section(rule))]) + "\n"


_INTRODUCTION = (
    "# When the backend is skipped",
    "",
    "<!-- Generated: python -m dynexplore.engine.aliasing.eligibility > docs/backend-eligibility.md -->",
    "",
    "A graph without a graph break can still run uncompiled. If the compiled graph would behave differently from eager in a way",
    "that the program can observe, dynexplore skips the backend: the captured graph runs one operator after another, as with the",
    'backend `"eager"`. `explain` names each such graph with one of the reasons below, and',
    '`dynexplore.counters["backend_skipped"]` counts them.',
    "torch.compile compiles most of these graphs, and then raises or returns different results than eager.",
)


def _section(rule: Rule) -> Iterator[str]:
    yield from ("", f'<a id="{rule.id.lower()}"></a>', f"## {rule.id}: {rule.title}", "")
    yield from (f"**Why.** {rule.why}", "", f"**Fix.** {rule.fix}")
    if rule.example:
        yield from ("", "```python", rule.example.strip(), "```")


if __name__ == "__main__":
    print(docs_page(), end="")
