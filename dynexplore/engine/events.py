"""Frozen records of everything that can be seen of the engine at work.

The engine emits these records while it works; everything a person sees (text, widget, HTML, explain) is a
pure function of them. A record is plain data: str, int, bool, finite float, None, tuples of such, and the
small nested records of this file. It never holds a tracker, tensor, frame or code object: a recording keeps
no memory alive, goes to JSON and back unchanged, and is readable in a process without torch.

In:  calls such as `if (r := ctx.recorder) is not None: r.record(NodeAdded(...))` anywhere in the engine.
Out: instances of the classes below, and `EVENTS`, the table name -> class that recording.py reads and writes JSON
by.

How a place is named, so that all views can link. A frame that the hook intercepted has a number, `frame`;
each run of the translator over it is an `attempt` (1, 2, ...; 0 before and after translation). Inlined
callees of an attempt are numbered too: `inline` is 0 for the frame itself and k for the callee that
`InlineEntered(callee=k)` announced. `offset` is the byte offset of the original instruction in the code
object of that (frame, attempt, inline). So (frame, attempt, inline, offset) names one original instruction,
and `CodeView.rows` leads from it to its source span. A resume function's frame is interpreted from the middle of the
code that it continues, and offsets count in that code (`Recording.original_code` knows which).

Order in the stream. What an instruction causes (nodes, guards, mutations, inlined calls) is emitted while it
runs; its own `InstructionStepped`, which shows the stack *after* it, comes last. A consumer therefore groups
the records between two steps with the later step. A `GraphBroke` shows the stack *before* the instruction
that broke.

What is the same each time a code object is run (its instructions, what each is lowered to, its source) is no event: it
stands in the rows of its `CodeView`, which all events about that code share.

PyTorch's counterpart: none; the nearest are the log lines of torch/_logging and torch/_dynamo/trace.py's
artifacts.
"""

from __future__ import annotations

import math
import re
import textwrap

from dynexplore.engine.display_hooks import Displayable
from dynexplore.engine.old_names import keep_old_names
from dynexplore.engine.records import record

WIDTH = 100
"""Sentences that are printed are wrapped to so many characters: a notebook's cell, a terminal and a page of the docs hold them."""

# -- pieces: records that stand inside events ---------------------------------------------------------------


@record()
class ValueView:
    """How one value is shown: who it is, what kind of tracker holds it, its text, where it came from.

    `id` is the same for the same tracker all through an attempt, so that a value can be followed from slot to
    slot. `kind` is the tracker's class name ("TensorVariable"), "NULL" for an empty stack slot. A tensor's
    text is dtype, shape and device. `source` is the Python expression of its source ("" when it was made in
    the frame), `node` the name of the FX node that holds it ("" when none does).

    >>> ValueView(3, "TensorVariable", "float32[10] cpu", "a", "a")
    ValueView(id=3, kind='TensorVariable', text='float32[10] cpu', source='a', node='a')
    """

    id: int
    kind: str
    text: str
    source: str = ""
    node: str = ""


@record()
class StepView:
    """One canonical instruction that an original one was lowered to: index in the code, name, operand."""

    index: int
    op: str
    arg: str = ""


@record()
class ListingRow:
    """One row of a bytecode listing, of original, modified or resume code.

    `line` to `end_column` are the source span (0 and -1 where unknown; columns count UTF-8 bytes, see `letters`);
    `target` is the offset a jump goes to, or -1; `is_target` says that a jump comes here. `steps` are the canonical
    instructions of an original row. In emitted code `role` says what the row is for ("call graph") and `origin` is the
    offset of the original instruction behind it, or -1.
    """

    offset: int
    op: str
    arg: str = ""
    line: int = 0
    end_line: int = 0
    column: int = -1
    end_column: int = -1
    target: int = -1
    is_target: bool = False
    steps: tuple[StepView, ...] = ()
    role: str = ""
    origin: int = -1


@record()
class CodeView:
    """A code object to look at: name, place, source lines and listing.

    Make one per code object and share it between events: a recording stores each once. `id` is stable within
    a recording. `source` holds the lines of the function as text ("" when there is no source), the first of
    them being line `first_line` of `file`. For a resume function `resumes` is the id of the code that it continues,
    else -1: there the `origin` offsets of its rows count, and the rows with the role "original" are its body.
    """

    id: int
    qualname: str
    file: str
    first_line: int
    source: str
    rows: tuple[ListingRow, ...]
    resumes: int = -1


@record()
class UserFrame:
    """One level of the user's stack: file, line, function, the source line, and its columns (-1: unknown).

    Columns count UTF-8 bytes from 0, as CPython's positions do; `letters` turns them into characters.
    """

    file: str
    line: int
    function: str
    code: str = ""
    column: int = -1
    end_column: int = -1

    @property
    def place(self) -> str:
        """Where this is, in words: "model.py:12 in forward"."""
        return f"{self.file}:{self.line} in {self.function}"


@record()
class NodeRow:
    """One row of a graph table: opcode, name, target, args and kwargs as text."""

    op: str
    name: str
    target: str
    args: str = ""
    kwargs: str = ""


@record()
class SkipReason:
    """Why a graph did not go to its backend: a row of aliasing/eligibility.py, `id` to `fix`.

    >>> SkipReason("BE16", "inputs overlap in memory").line
    'BE16: inputs overlap in memory'
    """

    id: str
    title: str
    why: str = ""
    fix: str = ""

    @property
    def line(self) -> str:
        """The reason in one line, as counters, tables and pictures name it."""
        return f"{self.id}: {self.title}"

    @property
    def page(self) -> str:
        """Where the docs explain it."""
        return f"docs/backend-eligibility.md#{self.id.lower()}"


@record()
class GraphPiece:
    """A part of a graph that was compiled by itself: one stretch of nodes, counted from 1 in the order of forward.

    `buckets` are the buckets of DistributedDataParallel, in the order in which they are sent, that take the gradients of
    its `parameters`, which have `parameter_bytes` bytes.
    """

    number: int
    nodes: tuple[str, ...]
    buckets: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    parameter_bytes: int = 0


@record()
class NodeMemory:
    """The memory at one node of a graph, as it ends: `live` bytes of storages that are in use, of which the node allocated
    `allocated` (a view allocates none), and `saved` are saved for backward, inputs and parameters not counted. `size` is the
    expression of `live` in the sizes that vary, "" where none does; `op` is what the node calls, `place` the file and line of the
    program behind it ("" where that is not known). `inside` are the bytes that it took besides while it ran, where
    that was measured.
    """

    name: str
    op: str
    live: int
    allocated: int = 0
    saved: int = 0
    size: str = ""
    place: str = ""
    inside: int = 0


@record()
class SavedStorage:
    """A storage that forward saves for backward: the node that made it or is a view of it, its bytes, their expression (as in
    NodeMemory). `is_input` says that it belongs to an input or a parameter, which is there anyway.
    """

    name: str
    bytes: int
    size: str = ""
    is_input: bool = False


# -- the base ----------------------------------------------------------------------------------------------


@record(kw_only=True)
class Event(Displayable):
    """What all events share: the frame (0: none) and the attempt (0: not while translating)."""

    frame: int
    attempt: int = 0


@record(kw_only=True)
class InstructionEvent(Event):
    """An event that an original instruction caused: its offset (-1: none), in the frame or in a callee."""

    offset: int = -1
    inline: int = 0


# -- frames and attempts -----------------------------------------------------------------------------------


@record(kw_only=True)
class FrameEntered(Event):
    """The hook intercepted a frame for which no cache entry hit, and translation begins.

    `parent` is the frame in whose modified code this one was called, None at the top. `caller` is the line of the program that
    made the call (None: nobody knows, as in recordings that are older than the field). Where a resume function goes on in a
    callee, `chain` has the lines at which its frames go on, outermost first.
    """

    parent: int | None
    code: CodeView
    arguments: tuple[tuple[str, ValueView], ...] = ()
    caller: UserFrame | None = None
    chain: tuple[UserFrame, ...] = ()


@record(kw_only=True)
class FrameSkipped(Event):
    """A frame runs as plain Python, and why."""

    function: str
    file: str
    line: int
    reason: str


NO_TENSORS = "it has neither a tensor input nor a tensor operation"  # the reason of a `FrameSkipped` that nobody need act on


@record(kw_only=True)
class FrameFinished(Event):
    """Translation of the frame is over. `outcome` is "compiled", "skipped" or "failed"."""

    outcome: str
    seconds: float = 0.0


@record(kw_only=True)
class AttemptStarted(Event):
    """The translator begins at the top of the frame. `stop_at` is the offset to break before, -1 for none."""

    stop_at: int = -1


@record(kw_only=True)
class AttemptRestarted(InstructionEvent):
    """The attempt is given up, because of what happened at `offset`, and another one will follow."""

    reason: str


# -- instructions ------------------------------------------------------------------------------------------


@record(kw_only=True)
class InstructionStepped(InstructionEvent):
    """One canonical instruction was interpreted; `stack` is the whole stack after it, bottom first.

    `step` is the index of the canonical instruction in its code. `changed` holds only the locals and cells
    that it changed: (name, new value), the value None for a deleted one. `depth` is the inline depth, 0 in
    the frame itself. `rule` names the row or handler that ran ("builtin_rules.py:40 len").
    """

    step: int
    op: str
    arg: str = ""
    stack: tuple[ValueView, ...] = ()
    changed: tuple[tuple[str, ValueView | None], ...] = ()
    depth: int = 0
    rule: str = ""


@record(kw_only=True)
class InlineEntered(InstructionEvent):
    """The call at `offset` is traced through: callee number `callee` of this attempt begins."""

    callee: int
    code: CodeView
    arguments: tuple[tuple[str, ValueView], ...] = ()
    depth: int = 1


@record(kw_only=True)
class InlineLeft(InstructionEvent):
    """Callee number `callee` is over: it returned `result`, or raised or broke (None).

    `offset` and `inline` are those of the call; `how` is "returned", "raised" or "broke".
    """

    callee: int
    result: ValueView | None = None
    how: str = "returned"


# -- what the translator finds out -------------------------------------------------------------------------


@record(kw_only=True)
class NodeAdded(InstructionEvent):
    """An FX node was put into the graph of this attempt.

    `inputs` are the names of the nodes it reads. `dtype`, `shape` and `device` describe a tensor result, else
    "". `module` is the path of the nn.Module it stands in ("layers.0.attn"), `file` and `line` the user's
    line.
    """

    graph: str
    name: str
    op: str
    target: str
    args: str = ""
    kwargs: str = ""
    inputs: tuple[str, ...] = ()
    dtype: str = ""
    shape: str = ""
    device: str = ""
    module: str = ""
    file: str = ""
    line: int = 0


@record(kw_only=True)
class GuardInstalled(InstructionEvent):
    """A guard was installed: an assumption about `source` that the instruction at `offset` relied on.

    `scope` says where the source begins ("local", "global", "closure", "" for the state of the process);
    `source` is the Python expression people read, `expression` the check itself as Python, `reason` why it
    was needed in words.
    """

    index: int
    scope: str
    source: str
    kind: str
    expected: str = ""
    expression: str = ""
    reason: str = ""


@record(kw_only=True)
class Specialized(InstructionEvent):
    """It was decided how a size, a number or an object is specialized, and `because` says why.

    `source` is the Python expression people read: `x.size()[0]` for one size, `x.size()` where the decision is the same for all of
    them, `x.stride()[0]`, `n`. `kind` is "static" (guarded to be this very one); "dynamic", "unbacked" or "size-oblivious" (a
    symbol of the graph); "unspecialized" (a number that is passed along without a guard on its value); or "unstable" (an object
    that is not guarded by identity). The latest decision of an attempt about a source counts.
    """

    source: str
    kind: str
    because: str


@record(kw_only=True)
class MutationRecorded(InstructionEvent):
    """A side effect went into the journal: `operation` ("list.append") on `target`, to be replayed in `order`."""

    order: int
    target: ValueView
    operation: str
    detail: str = ""


@record(kw_only=True)
class GraphBroke(InstructionEvent):
    """The graph ends before the instruction at `offset`.

    `kind`, `title`, `why`, `fix` and `fundamental` come from the row of graph_breaks.py, `facts` and `reason`
    (one line) from the run. `user_stack` is the user's stack, outermost first; `stack` the symbolic stack
    before the instruction. `operations` counts the operations in the graph so far. `nested`: one graph ends for all frames of
    `user_stack`, in the innermost one.
    """

    kind: str
    title: str
    reason: str
    why: str = ""
    fix: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    user_stack: tuple[UserFrame, ...] = ()
    stack: tuple[ValueView, ...] = ()
    live_locals: tuple[tuple[str, ValueView], ...] = ()
    operations: int = 0
    fundamental: bool = False
    nested: bool = False

    def report(self, then: str = "", width: int = WIDTH) -> str:
        """The message block people read; `then` says how the engine went on after the break. `width` as in `wrapped`."""
        lines = [f"Graph break {self.kind}: {self.title}"]
        if self.user_stack:
            lines += _place(self.user_stack[-1])
            lines += [f"  from  {caller.place}" for caller in reversed(self.user_stack[:-1])]
        if self.facts:
            lines.append(wrapped("  facts " + ", ".join(f"{name}: {text}" for name, text in self.facts), 8, width))
        sections = (("why", self.why), ("fix", self.fix), ("then", then))
        lines += [wrapped(f"  {label:<6}{text}", 8, width) for label, text in sections if text]
        if self.kind.startswith("DX"):  # of this engine; torch.compile's kinds have pages of their own
            status = "fundamental" if self.fundamental else "not done yet"
            lines.append(f"  more  docs/graph-breaks.md#{self.kind.lower()}        ({status})")
        elif torch_page(self.kind):
            lines.append(f"  more  {torch_page(self.kind)}")
        return "\n".join(lines)


def torch_page(kind: str) -> str:
    """The page that torch has of a kind of its breaks; "" for what has none."""
    return f"https://meta-pytorch.github.io/compile-graph-break-site/gb/{kind.lower()}.html" if kind.startswith("GB") else ""


# -- what is made ------------------------------------------------------------------------------------------


@record(kw_only=True)
class SubgraphCompiled(Event):
    """The backend turned the graph of this attempt into a callable.

    `node_count` counts all nodes, `op_count` its operators: the calls of functions, methods and modules.
    `inputs` are the source expressions of the placeholders, `outputs` the names of the
    output nodes, `nodes` the names of all nodes in the order of the graph, `code` its generated Python. `pieces`: where
    it was split for DistributedDataParallel, its parts.

    `ran_by` names what runs the graph: `backend`, or "eager" where the backend was skipped, and `because` says why it was. In
    recordings of torch.compile, and in old ones, neither is known ("" and None). `nodes` and `code` are what was captured;
    `lowerings` say what was rewritten for every backend but "eager", `passes` name the rewrites of what this backend got, and
    `wrappers` what is around the callable, the first one innermost (engine/aliasing).
    """

    graph: str
    backend: str
    node_count: int
    op_count: int
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    code: str = ""
    seconds: float = 0.0
    pieces: tuple[GraphPiece, ...] = ()
    ran_by: str = ""
    because: SkipReason | None = None
    lowerings: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()


@record(kw_only=True)
class MemoryPlanned(Event):
    """The memory that a graph needs, node by node. `stage` is "captured" (the graph as it was captured), "forward" or "backward"
    (what AOTAutograd made of it). `inputs` are the bytes of its inputs and parameters, which live all the while, `kept` what
    forward keeps for backward. A graph that ran on a GPU is told a second time, `measured`: with what its operators took inside.
    """

    graph: str
    stage: str
    inputs: int
    nodes: tuple[NodeMemory, ...] = ()
    saved: tuple[SavedStorage, ...] = ()
    measured: bool = False


ARTIFACT_PARTS = ("joint", "graph", "ir", "fused ir", "diagram", "kernels", "code", "times", "memory")
"""joint: forward and backward in one; graph: the forward or the backward graph; ir, fused ir: Inductor's, before and after
fusion; diagram: the kernels and what they read and write, as DOT; kernels: their C++ or Triton; code: the whole generated
module; times: seconds of each phase; memory: what lives at each node of forward and backward (MemoryPlanned, which is no text).
"""


TRACE_PARTS = (
    "captured", "joint", "graph", "code", "guards", "reasons", "failure", "metrics", "symbols", "bytecode", "passes", "settings",
    "cache", "runtime", "runnable", "other",
)  # fmt: skip
"""Parts of the artefacts that torch.compile's own logs hold, the most telling first: captured: the graph as Dynamo printed it;
guards: the tree; reasons: of breaks and recompiles; failure: tracebacks; metrics: counts and times; symbols: sizes that vary;
bytecode; passes: graphs before and after Inductor's passes; settings, cache, runtime: torch's own; runnable: a program that runs
the graph; other.
"""


@record(kw_only=True)
class ArtifactEmitted(Event):
    """A form that a compiler brought a graph into: one `part` ("ir", "code", ...) of a `stage` ("joint", "forward",
    "backward"), as text in a `language` ("python", "cpp", "dot", "text"). A log of torch.compile has more parts (TRACE_PARTS);
    with frame 0 they belong to the whole of it.
    """

    graph: str
    stage: str
    part: str
    text: str
    language: str = "text"


@record(kw_only=True)
class ResumeFunctionCreated(InstructionEvent):
    """A function was made that continues at `offset` with the stack and locals it gets as `parameters`."""

    name: str
    parameters: tuple[str, ...]
    code: CodeView


@record(kw_only=True)
class CodeEmitted(Event):
    """The modified code of the frame is ready; each row says its role and where it comes from. `objects` are the local variables
    in which it finds live objects, besides compiled graphs: (name, what it is).
    """

    code: CodeView
    graphs: tuple[str, ...] = ()
    resume_functions: tuple[str, ...] = ()
    objects: tuple[tuple[str, str], ...] = ()


# -- calls ---------------------------------------------------------------------------------------------------


@record(kw_only=True)
class CallBegan(Event):
    """The explained function is called, for the `call`-th time; `arguments` are named by place or keyword.

    `caller` is the line of the program that makes the call (None: nobody knows, as of recordings that are older than the field).
    `target` is what is called, where a program runs and several of its functions are captured ("": the one function).
    """

    call: int
    arguments: tuple[tuple[str, ValueView], ...] = ()
    caller: UserFrame | None = None
    target: str = ""


@record(kw_only=True)
class TargetChosen(Event):
    """A function or module of a program that runs is captured from now on: its name and place, and the row of the table of targets
    that chose it, with its reason in words."""

    name: str
    file: str
    line: int
    row: str
    why: str


@record(kw_only=True)
class TargetPassed(Event):
    """A function or module of a program that ran was called and not captured: the row of the table of targets that decided so, and
    how often it was called, as far as anybody asked."""

    name: str
    file: str
    line: int
    row: str
    why: str
    calls: int = 1


@record(kw_only=True)
class ProgramEnded(Event):
    """A program that was run is over: its exit status, and how it died ("" for an orderly end), at which line of its own code.

    stopped: when it was ended because enough was seen, `after 30 s (--for)`; "" where it ended by itself.
    """

    status: int
    error: str = ""
    file: str = ""
    line: int = 0
    stopped: str = ""


@record(kw_only=True)
class CallEnded(Event):
    """Call number `call` is over; `error` names the exception that came out of it ("" for none)."""

    call: int
    error: str = ""


# -- cache -------------------------------------------------------------------------------------------------


@record(kw_only=True)
class CacheEntryAdded(Event):
    """A cache entry was added for the frame's code: its number, and its place in the order of checks."""

    entry: int
    code: int
    position: int = 0
    guard_count: int = 0
    check: str = ""


EARLIER = -1
"""As the number of an entry: it was made before the recording began."""


@record(kw_only=True)
class CacheHit(Event):
    """A call found its cache entry. It has a frame number of its own; `compiled_by` is the entry's frame."""

    entry: int = EARLIER
    code: int
    function: str
    compiled_by: int = 0


@record(kw_only=True)
class GuardFailed(Event):
    """The guard of an existing cache entry that said no to this call: what it expected, what it found.

    It is the first of its entry that fails, which ends the check; those behind it follow as `GuardAlsoFailed`. `needed_at` is the
    line of the program that the guard rests on, where the engine says it itself; else the `GuardInstalled` of the entry does.
    """

    entry: int = EARLIER
    index: int
    scope: str
    source: str
    kind: str
    expected: str
    actual: str
    needed_at: UserFrame | None = None


@record(kw_only=True)
class GuardAlsoFailed(GuardFailed):
    """A further guard of the same entry that fails for this call. The check had ended before it; it was asked by itself, because
    a recorder listens. Who mends the first one alone meets it next.
    """


@record(kw_only=True)
class Recompiled(Event):
    """The frame is translated although its code has entries already; `reason` names the guard that failed."""

    reason: str
    entries: int = 0


@record(kw_only=True)
class CacheLimitReached(Event):
    """The code has as many entries as allowed: this call and later misses run as plain Python. `caller` as in `FrameEntered`."""

    function: str
    limit: int
    reason: str
    caller: UserFrame | None = None


@record(kw_only=True)
class PhaseTimed(Event):
    """How long a phase of the work took ("translate", "backend", "guards", ...), in seconds."""

    phase: str
    seconds: float


# -- real execution ----------------------------------------------------------------------------------------


@record(kw_only=True)
class GraphRan(Event):
    """A compiled graph ran in the real call, the `run`-th time; `error` says what it raised, if it did."""

    graph: str
    run: int
    inputs: tuple[ValueView, ...] = ()
    outputs: tuple[ValueView, ...] = ()
    seconds: float = 0.0
    error: str = ""


@record(kw_only=True)
class ValueObserved(InstructionEvent):
    """A value as it truly was in a real run.

    `role` says of what: "input" and "output" of the compiled graph, and "local", "stack" and "return" of the modified
    code are values of the call itself; "node" is a value inside the graph, `replayed` on snapshots of the inputs and of
    the random number generator. `name` is the node's or local's name, for "stack" the number of the slot. `moment` says
    when a local was seen: "entry", "graph call", "break" or "return". `after` names the node that wrote to the tensor in
    place, "" for the value as it was made; a replay records no gradients, so it does not know `requires_grad`. Numbers
    that are not finite are text ("nan", "inf"). `why` says why there is no value. `seconds` is how long the operator of a node took
    in the replay, run by itself (0: not measured).
    """

    role: str
    name: str
    graph: str = ""
    run: int = 0
    text: str = ""
    dtype: str = ""
    shape: str = ""
    device: str = ""
    minimum: float | str | None = None
    mean: float | str | None = None
    maximum: float | str | None = None
    first: tuple[float | str | int | bool, ...] = ()
    replayed: bool = False
    requires_grad: bool | None = None
    moment: str = ""
    after: str = ""
    why: str = ""
    seconds: float = 0.0


@record(kw_only=True)
class ContentsSeen(InstructionEvent):
    """What a container, or an object made in the frame, holds from step number `step` of the attempt on.

    `value` and `tracker` are id and kind of its ValueView, `kind` is its type, `length` the number of items; `items` are the
    first of them, each with a label: a key, the name of an attribute, "" in a sequence.
    """

    step: int
    value: int
    tracker: str
    kind: str
    length: int
    is_object: bool = False
    items: tuple[tuple[str, ValueView], ...] = ()


@record(kw_only=True)
class DivergenceDetected(InstructionEvent):
    """What was seen in a real run is not what the symbolic run predicted, or not what the instruction means.

    `where` is "step" (the instruction does something else than CPython's), "node" (a node's real dtype, shape or device is
    not the symbolic one), "output" or "input" (what the backend's callable returned, or left in an input, is not what the
    graph gives). `step` is the number of the InstructionStepped within the attempt, from 0; `name` the node, or the
    instruction.
    """

    name: str
    graph: str
    aspect: str
    expected: str
    actual: str
    where: str = ""
    step: int = -1
    run: int = 0

    @property
    def sentence(self) -> str:
        """What differs, and in what."""
        return f"{self.name}: {self.difference}"

    @property
    def difference(self) -> str:
        """What differs."""
        return f"{self.aspect} expected {self.expected}, found {self.actual}"


@record(kw_only=True)
class RunCompared(Event):
    """A run of a graph was replayed and compared: how many steps, nodes and outputs, and how long that took."""

    graph: str
    run: int
    steps: int = 0
    nodes: int = 0
    outputs: int = 0
    divergences: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


@record(kw_only=True)
class RunLeftOut(Event):
    """A run of a graph was not replayed, and why: the values inside the graph are not known for it and later ones."""

    graph: str
    run: int
    reason: str


# -- remedies -------------------------------------------------------------------------------------------------


@record(kw_only=True)
class RemedyTried(Event):
    """A remedy was applied to a copy of the program, and its calls were run again: what that changed.

    `row` is the id of the remedy in its table, `text` what was pasted, `place` where. `before` and `after` are the (graphs, graph
    breaks, recompiles) of both runs; `same_values` says whether they gave the same results (None: there were none to compare).
    `error` is what the changed program raised, "" for nothing. `helped` is the verdict.
    """

    row: str
    text: str
    place: str = ""
    before: tuple[int, int, int] = (0, 0, 0)
    after: tuple[int, int, int] = (0, 0, 0)
    same_values: bool | None = None
    error: str = ""
    helped: bool = False


# -- comparison ---------------------------------------------------------------------------------------------


@record(kw_only=True)
class CapturedOtherwise(Event):
    """What another way of capturing (`method`, "torch.fx.symbolic_trace") made of the frame, or why it failed."""

    method: str
    nodes: tuple[NodeRow, ...] = ()
    failure: str = ""


# -- failures ----------------------------------------------------------------------------------------------


@record(kw_only=True)
class BackendFailed(Event):
    """The backend raised while it compiled the graph.

    `raised_at` is the innermost line of the program that it raised from (where the backend is the program's own), `node` the
    operator of the graph that it had in hand; None and "" where that is not known.
    """

    graph: str
    backend: str
    error: str
    raised_at: UserFrame | None = None
    node: str = ""


@record(kw_only=True)
class EngineFailed(InstructionEvent):
    """A bug of the engine: the frame runs as plain Python. `where` is the engine's file, line, function.

    `user_stack` are the lines of the program that were being interpreted, outermost first (empty: before or after them).
    """

    error: str
    where: str = ""
    user_stack: tuple[UserFrame, ...] = ()


# -- tables and small makers -------------------------------------------------------------------------------

EVENTS: dict[str, type[Event]] = {
    name: cls
    for name, cls in list(globals().items())
    if isinstance(cls, type) and issubclass(cls, Event) and cls not in (Event, InstructionEvent)
}
"""Every event class by name: what JSON names an event by."""

PIECES: dict[str, type] = {
    cls.__name__: cls
    for cls in (ValueView, StepView, ListingRow, CodeView, UserFrame, NodeRow, SkipReason, GraphPiece, NodeMemory, SavedStorage)
}
"""The nested records by name."""

NULL_VIEW = ValueView(0, "NULL", "NULL")
"""An empty stack slot (what PUSH_NULL leaves)."""


def clip(text: str, limit: int = 240) -> str:
    """Return `text`, cut in the middle to at most `limit` characters, so that a huge repr stays a record.

    >>> clip("abcdefghij", 7)
    'abc...j'
    """
    if len(text) <= limit:
        return text
    tail = max((limit - 3) // 4, 0)
    return text[: limit - 3 - tail] + "..." + (text[-tail:] if tail else "")


def wrapped(text: str, hanging: int, width: int = WIDTH) -> str:
    """Return `text` in lines of at most `width` characters, those that go on moved in by `hanging`; with a width of 0 as it is.

    A line ends between two words only. A path, a name, a place such as `In [2]:3`, a call and what stands between two backquotes
    are one word, however long.

    >>> print(wrapped("fix  call read(a, b) after the function", 5, 18))
    fix  call
         read(a, b)
         after the
         function
    """
    return "\n".join(_wrapped_line(line, hanging, width) for line in text.split("\n")) if width else text


_ONE_WORD = re.compile(r"`[^`]*`|\bIn \[\d+\]|\b[\w.]+\([^()]*\)")
_GLUE = "\0"
"""Stands for a blank inside of such a word while lines are cut."""


def _wrapped_line(line: str, hanging: int, width: int) -> str:
    if len(line) <= width:
        return line
    glued = _ONE_WORD.sub(lambda word: word[0].replace(" ", _GLUE), line)
    lines = textwrap.wrap(
        glued, width, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )
    return "\n".join(lines).replace(_GLUE, " ")


def letters(line: str, column: int) -> int:
    """The number of characters of `line` in front of byte `column` of its UTF-8 form.

    >>> letters("é = x", 3)
    2
    """
    return len(line.encode("utf-8", "replace")[: max(column, 0)].decode("utf-8", "ignore"))


def _place(frame: UserFrame) -> list[str]:
    """The place of a break, its source line, and a line of ^ under the columns that matter."""
    lines = [f"  at    {frame.place}"]
    text = frame.code.strip()
    if text:
        lines.append(" " * 12 + text)
        indent = len(frame.code) - len(frame.code.lstrip())
        begin = letters(frame.code, frame.column) - indent
        end = min(letters(frame.code, frame.end_column) - indent, len(text))
        if 0 <= begin < end:
            lines.append(" " * (12 + begin) + "^" * (end - begin))
    return lines


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def without_addresses(text: str) -> str:
    """Return `text` without the memory addresses that default reprs hold: they differ from run to run.

    >>> without_addresses("<code object f at 0x7f8fc412a180, file 'a.py'>")
    "<code object f, file 'a.py'>"
    """
    return _ADDRESS.sub("", text) if " at 0x" in text else text


def safe_repr(value: object, limit: int = 240) -> str:
    """Return `repr(value)` without addresses, cut to `limit`; one that raises gives a text that says so instead."""
    try:
        return clip(without_addresses(repr(value)), limit)
    except Exception as error:
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"


def number(value: float) -> float | str:
    """Return `value` as a record may hold it: a finite float as it is, NaN and infinities as text.

    >>> number(1.5), number(float("inf"))
    (1.5, 'inf')
    """
    return value if math.isfinite(value) else repr(value)


keep_old_names(globals())
