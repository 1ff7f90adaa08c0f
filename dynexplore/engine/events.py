"""Events: frozen records of everything observable in the engine's work.

The idea: the engine emits these records while it works; everything that a user sees (text, widget, HTML, explain) is a pure
function of them. A record is plain data: str, int, bool, finite float, None, tuples of such, and the small nested records of this
file. It never holds a tracker, tensor, frame or code object: a recording keeps no memory alive, round-trips through JSON
unchanged, and is readable in a process without torch.

Locations, so that all views can link. A frame that the hook intercepted has a number, `frame`; each run of the translator over it
is an `attempt` (1, 2, ...; 0 before and after translation). The inlined callees of an attempt are numbered, too: `inline` is 0 for
the frame itself and k for the callee of `InlineEntered(callee=k)`. `offset` is the byte offset of the original instruction in the
code object of that (frame, attempt, inline). So (frame, attempt, inline, offset) identifies one original instruction, and
`CodeView.rows` maps it to its source span. A resume function's frame is interpreted from the middle of the code that it continues,
and offsets refer to that code (`Recording.original_code` returns it).

Order in the stream. The effects of an instruction (nodes, guards, mutations, inlined calls) are emitted while it runs; its own
`InstructionStepped`, which shows the stack *after* it, comes last. A consumer therefore groups the records between two steps with
the later step. A `GraphBroke` shows the stack *before* the instruction that broke.

What is the same each time a code object runs (its instructions, their lowering, its source) is not an event: it is in the rows of
its `CodeView`, which all events about that code share.

In: calls such as `if (r := ctx.recorder) is not None: r.record(NodeAdded(...))` anywhere in the engine. Out: instances of the
classes below, and `EVENTS`, the table name -> class with which recording.py reads and writes JSON. PyTorch's counterpart: none;
the nearest are the structured logs of torch/_logging.
"""

from __future__ import annotations

import math
import re
import textwrap

from dynexplore.engine.display_hooks import Displayable
from dynexplore.engine.old_names import keep_old_names
from dynexplore.engine.records import record

WIDTH = 100
"""The width to which printed sentences are wrapped: it fits a notebook's cell, a terminal and a page of the docs."""

# -- nested records ------------------------------------------------------------------------------------------


@record()
class ValueView:
    """How one value is displayed: its identity, the kind of its tracker, its text, its source.

    `id` is the same for the same tracker throughout an attempt, so that a value can be followed from slot to slot. `kind` is the
    tracker's class name ("TensorVariable"), "NULL" for an empty stack slot. A tensor's text is dtype, shape and device. `source`
    is the Python expression of its source ("" if it was created in the frame), `node` the name of its FX node ("" if there is
    none).

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
    """One canonical instruction to which an original one was lowered: index in the code, name, operand."""

    index: int
    op: str
    arg: str = ""


@record()
class ListingRow:
    """One row of a bytecode listing, of original, modified or resume code.

    `line` to `end_column` are the source span (0 and -1 if unknown; columns count UTF-8 bytes, see `letters`); `target` is the
    offset that a jump goes to, or -1; `is_target`: a jump goes to this row. `steps` are the canonical instructions of an original
    row. In emitted code `role` is the purpose of the row ("call graph") and `origin` is the offset of the corresponding original
    instruction, or -1.
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
    """A code object to display: name, location, source lines and listing.

    Create one per code object and share it between events: a recording stores each once. `id` is stable within a recording.
    `source` is the text of the function's lines ("" if there is no source), of which the first is line `first_line` of `file`. For
    a resume function `resumes` is the id of the code that it continues, else -1: the `origin` offsets of its rows refer to that
    code, and the rows with the role "original" are its body.
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

    Columns count UTF-8 bytes from 0, as CPython's positions do; `letters` converts them to characters.
    """

    file: str
    line: int
    function: str
    code: str = ""
    column: int = -1
    end_column: int = -1

    @property
    def place(self) -> str:
        """The location as text: "model.py:12 in forward"."""
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
    """Why a graph did not go to its backend: the fields `id` to `fix` of a row of aliasing/eligibility.py.

    >>> SkipReason("BE16", "inputs overlap in memory").line
    'BE16: inputs overlap in memory'
    """

    id: str
    title: str
    why: str = ""
    fix: str = ""

    @property
    def line(self) -> str:
        """The reason in one line, for counters, tables and pictures."""
        return f"{self.id}: {self.title}"

    @property
    def page(self) -> str:
        """The page of the docs that explains it."""
        return f"docs/backend-eligibility.md#{self.id.lower()}"


@record()
class GraphPiece:
    """A part of a graph that was compiled separately: one section of nodes, numbered from 1 in the order of forward.

    `buckets` are the buckets of DistributedDataParallel, in the order of their all-reduces, with the gradients of its
    `parameters`, which have `parameter_bytes` bytes.
    """

    number: int
    nodes: tuple[str, ...]
    buckets: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    parameter_bytes: int = 0


@record()
class NodeMemory:
    """The memory after one node of a graph: `live` bytes of storages in use, of which the node allocated `allocated` (a view
    allocates none), and `saved` bytes saved for backward, without inputs and parameters. `size` is the expression of `live` in the
    dynamic sizes, "" if there are none; `op` is the node's operator, `place` the file and line of user code ("" if unknown).
    `inside` is the additional memory in bytes while it ran, if that was measured.
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
    """A storage that forward saves for backward: the node that created it or a view of it, its bytes, their expression (as in
    NodeMemory). `is_input`: it belongs to an input or a parameter, which is alive anyway.
    """

    name: str
    bytes: int
    size: str = ""
    is_input: bool = False


# -- the base ----------------------------------------------------------------------------------------------


@record(kw_only=True)
class Event(Displayable):
    """The common fields of all events: the frame (0: none) and the attempt (0: not while translating)."""

    frame: int
    attempt: int = 0


@record(kw_only=True)
class InstructionEvent(Event):
    """An event of an original instruction: its offset (-1: none), in the frame or in a callee."""

    offset: int = -1
    inline: int = 0


# -- frames and attempts -----------------------------------------------------------------------------------


@record(kw_only=True)
class FrameEntered(Event):
    """The hook intercepted a frame for which no cache entry hit, and translation begins.

    `parent` is the frame in whose modified code this one was called, None at the top. `caller` is the line of user code that made
    the call (None: unknown, as in recordings older than the field). If a resume function continues in a callee, `chain` has the
    lines at which its frames continue, outermost first. `stack` has all callers, outermost first; only logs of torch.compile
    record them.
    """

    parent: int | None
    code: CodeView
    arguments: tuple[tuple[str, ValueView], ...] = ()
    caller: UserFrame | None = None
    chain: tuple[UserFrame, ...] = ()
    stack: tuple[UserFrame, ...] = ()


@record(kw_only=True)
class FrameSkipped(Event):
    """A frame runs as plain Python, with the reason."""

    function: str
    file: str
    line: int
    reason: str


NO_TENSORS = "it has neither a tensor input nor a tensor operation"  # the reason of a `FrameSkipped` that requires no action


@record(kw_only=True)
class FrameFinished(Event):
    """Translation of the frame has ended. `outcome` is "compiled", "skipped" or "failed"."""

    outcome: str
    seconds: float = 0.0


@record(kw_only=True)
class AttemptStarted(Event):
    """The translator begins at the start of the frame. `stop_at` is the offset to break before, -1 for none."""

    stop_at: int = -1


@record(kw_only=True)
class AttemptRestarted(InstructionEvent):
    """The attempt is discarded because of what happened at `offset`, and another one follows."""

    reason: str


# -- instructions ------------------------------------------------------------------------------------------


@record(kw_only=True)
class InstructionStepped(InstructionEvent):
    """One canonical instruction was interpreted; `stack` is the whole stack after it, bottom first.

    `step` is the index of the canonical instruction in its code. `changed` holds only the locals and cells that it changed: (name,
    new value), with the value None for a deleted one. `depth` is the inline depth, 0 in the frame itself. `rule` names the row or
    handler that ran ("builtin_rules.py:40 len").
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
    """The call at `offset` is inlined: callee number `callee` of this attempt begins."""

    callee: int
    code: CodeView
    arguments: tuple[tuple[str, ValueView], ...] = ()
    depth: int = 1


@record(kw_only=True)
class InlineLeft(InstructionEvent):
    """Callee number `callee` has ended: it returned `result`, or raised or broke (None).

    `offset` and `inline` are those of the call; `how` is "returned", "raised" or "broke".
    """

    callee: int
    result: ValueView | None = None
    how: str = "returned"


# -- results of translation ---------------------------------------------------------------------------------


@record(kw_only=True)
class NodeAdded(InstructionEvent):
    """An FX node was added to the graph of this attempt.

    `inputs` are the names of the nodes that it reads. `dtype`, `shape` and `device` describe a tensor result, else "". `module` is
    the path of the nn.Module whose code created it ("layers.0.attn"), `file` and `line` the user's line.
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

    `scope` is the kind of the source's root ("local", "global", "closure", "" for process-wide state); `source` is the displayed
    Python expression, `expression` the check itself as Python, `reason` why it was needed, as text.
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
    """A decision how to specialize a size, a number or an object, with the reason in `because`.

    `source` is the displayed Python expression: `x.size()[0]` for one size, `x.size()` if the decision is the same for all of
    them, `x.stride()[0]`, `n`. `kind` is "static" (guarded to be exactly this value); "dynamic", "unbacked" or "size-oblivious" (a
    symbol of the graph); "unspecialized" (a number that is passed along without a guard on its value); or "unstable" (an object
    that is not guarded by identity). The latest decision of an attempt about a source applies.
    """

    source: str
    kind: str
    because: str


@record(kw_only=True)
class MutationRecorded(InstructionEvent):
    """A side effect was recorded: `operation` ("list.append") on `target`, to be replayed in `order`."""

    order: int
    target: ValueView
    operation: str
    detail: str = ""


@record(kw_only=True)
class GraphBroke(InstructionEvent):
    """The graph ends before the instruction at `offset`.

    `kind`, `title`, `why`, `fix` and `fundamental` come from the row of graph_breaks.py, `facts` and `reason` (one line) from the
    run. `user_stack` is the user's stack, outermost first; `stack` the symbolic stack before the instruction. `operations` counts
    the operations in the graph so far. `nested`: one graph ends for all frames of `user_stack`, in the innermost one. `caller`: the
    program's line that led here, if `user_stack` has none because the compiled function is a library's.
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
    caller: UserFrame | None = None

    def report(self, then: str = "", width: int = WIDTH) -> str:
        """The displayed message block; `then` describes how the engine continued after the break. `width` as in `wrapped`."""
        lines = [f"Graph break {self.kind}: {self.title}"]
        if self.user_stack:
            lines += _place(self.user_stack[-1])
            calling = [*reversed(self.user_stack[:-1]), *([self.caller] if self.caller is not None else [])]
            lines += [f"  from  {caller.place}" for caller in calling]
        if self.facts:
            lines.append(wrapped("  facts " + ", ".join(f"{name}: {text}" for name, text in self.facts), 8, width))
        sections = (("why", self.why), ("fix", self.fix), ("then", then))
        lines += [wrapped(f"  {label:<6}{text}", 8, width) for label, text in sections if text]
        if self.kind.startswith("DX"):  # dynexplore's kinds; torch.compile's kinds have their own pages
            status = "fundamental" if self.fundamental else "not supported yet"
            lines.append(f"  more  {page_of_kind(self.kind)}        ({status})")
        elif torch_page(self.kind):
            lines.append(f"  more  {torch_page(self.kind)}")
        return "\n".join(lines)


_WITH_A_PAGE = frozenset(
    {
        6, 7, 8, 13, 14, 15, 25, 33, 36, 55, 56, 59, 66, 67, 69, 82, 88, 92, 98, 99, 104, 109, 119, 123, 124, 125, 142, 147,
        156, 170, 179, 206, 207, 208, 222, 225, 246, 264, 291, 808, 811, 4198, 4501, 4880, 5976, 7000, 7786, 8977, 8985, 9186,
    }
)
"""The numbers of torch.compile's kinds that have a page in docs/breaks."""


def page_of_kind(kind: str) -> str:
    """The page about a kind of graph break, in a checkout; torch's own for those of torch.compile that have none; "" if neither."""
    if kind.startswith("DX"):
        return f"docs/graph-breaks.md#{kind.lower()}"
    has_page = kind.startswith("GB") and kind[2:].isdigit() and int(kind[2:]) in _WITH_A_PAGE
    return f"docs/breaks/{kind.lower()}.md" if has_page else torch_page(kind)


def torch_page(kind: str) -> str:
    """Torch's page about one of its kinds of breaks; "" if there is none."""
    return f"https://meta-pytorch.github.io/compile-graph-break-site/gb/{kind.lower()}.html" if kind.startswith("GB") else ""


# -- compilation results ------------------------------------------------------------------------------------


@record(kw_only=True)
class SubgraphCompiled(Event):
    """The backend compiled the graph of this attempt into a callable.

    `node_count` counts all nodes, `op_count` its operators: the calls of functions, methods and modules. `inputs` are the source
    expressions of the placeholders, `outputs` the names of the output nodes, `nodes` the names of all nodes in the order of the
    graph, `code` its generated Python. `pieces`: its parts, if it was split for DistributedDataParallel.

    `ran_by` names what runs the graph: `backend`, or "eager" if the backend was skipped, and `because` is the reason. In
    recordings of torch.compile, and in old ones, both are unknown ("" and None). `nodes` and `code` are as captured; `lowerings`
    lists the rewrites for every backend but "eager", `passes` those of the graph that this backend got, and `wrappers` those
    around the callable, the first one innermost (engine/aliasing).
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
    """The memory that a graph needs, node by node. `stage` is "captured" (the graph as captured), "forward" or "backward" (of
    AOTAutograd). `inputs` are the bytes of its inputs and parameters, which are alive throughout, `kept` the storages that forward
    saves for backward. For a graph that ran on a GPU a second event is emitted, `measured`: with the memory that its operators
    used inside.
    """

    graph: str
    stage: str
    inputs: int
    nodes: tuple[NodeMemory, ...] = ()
    saved: tuple[SavedStorage, ...] = ()
    measured: bool = False


ARTIFACT_PARTS = ("joint", "graph", "ir", "fused ir", "diagram", "kernels", "code", "times", "memory")
"""joint: forward and backward in one graph; graph: the forward or the backward graph; ir, fused ir: Inductor's, before and after
fusion; diagram: the kernels and what they read and write, as DOT; kernels: their C++ or Triton; code: the whole generated module;
times: seconds of each phase; memory: what is alive at each node of forward and backward (MemoryPlanned, which is not text).
"""


TRACE_PARTS = (
    "captured", "joint", "graph", "code", "provenance", "kernel lines", "guards", "reasons", "failure", "metrics", "symbols",
    "bytecode", "passes", "settings", "cache", "runtime", "runnable", "other",
)  # fmt: skip
"""Parts of the artifacts in torch.compile's own logs, the most informative first: captured: the graph as printed by Dynamo;
provenance: the operators in each kernel; kernel lines: the lines of the program that each kernel computes; guards: the tree;
reasons: of breaks and recompiles; failure: tracebacks; metrics: counts and times; symbols: dynamic sizes; bytecode; passes: graphs
before and after Inductor's passes; settings, cache, runtime: torch's own; runnable: a program that runs the graph; other.
"""


@record(kw_only=True)
class ArtifactEmitted(Event):
    """A form into which a compiler lowered a graph: one `part` ("ir", "code", ...) of a `stage` ("joint", "forward", "backward"),
    as text in a `language` ("python", "cpp", "dot", "text"). A log of torch.compile has more parts (TRACE_PARTS); with frame 0
    they belong to the whole log.
    """

    graph: str
    stage: str
    part: str
    text: str
    language: str = "text"


@record(kw_only=True)
class ResumeFunctionCreated(InstructionEvent):
    """A resume function was created that continues at `offset` with the stack and locals passed as `parameters`."""

    name: str
    parameters: tuple[str, ...]
    code: CodeView


@record(kw_only=True)
class CodeEmitted(Event):
    """The modified code of the frame is ready; each row has its role and origin. `objects` are the local variables that hold live
    objects, besides compiled graphs: (name, description).
    """

    code: CodeView
    graphs: tuple[str, ...] = ()
    resume_functions: tuple[str, ...] = ()
    objects: tuple[tuple[str, str], ...] = ()


# -- calls ---------------------------------------------------------------------------------------------------


@record()
class GuardPrice:
    """The part of a value in one check of an entry's guards: its source, how many guards lie below it, and seconds per check."""

    source: str
    guards: int
    seconds: float


@record()
class CheckPrice:
    """One guard of torch.compile, checked by itself: its kind, the source that it checks ("": no single value), the check as torch
    prints it, and seconds per check. `relations` is how many relations between sizes and strides it checks at once (0: none);
    `check` is then the first of them.
    """

    kind: str
    source: str
    check: str
    seconds: float
    relations: int = 0


@record()
class FilterPrice:
    """One check of an entry's guards with a documented guard filter: its name in torch.compiler, how many of how many guards it
    keeps, and seconds per check.
    """

    name: str
    remaining: int
    guards: int
    seconds: float


@record(kw_only=True)
class CallBegan(Event):
    """The explained function is called, for the `call`-th time; `arguments` are named by position or keyword.

    `caller` is the line of user code that makes the call (None: unknown, as in recordings older than the field). `target` is the
    called function, if a program runs and several of its functions are captured ("": the only one).
    """

    call: int
    arguments: tuple[tuple[str, ValueView], ...] = ()
    caller: UserFrame | None = None
    target: str = ""


@record(kw_only=True)
class TargetChosen(Event):
    """A function or module of a running program is captured from now on: its name and location, and the row of the table of
    targets that selected it, with its reason as text.
    """

    name: str
    file: str
    line: int
    row: str
    why: str


@record(kw_only=True)
class TargetPassed(Event):
    """A function or module was called and not captured: the row of the table of targets that decided this, and the recorded calls.
    """

    name: str
    file: str
    line: int
    row: str
    why: str
    calls: int = 1


@record(kw_only=True)
class ProgramEnded(Event):
    """A program has ended: its exit status, and how it died ("" for a normal exit), at which line of its code.

    stopped: why it was stopped early, `after 30 s (--for)`; "" if it ended by itself.
    """

    status: int
    error: str = ""
    file: str = ""
    line: int = 0
    stopped: str = ""


@record(kw_only=True)
class CallEnded(Event):
    """Call number `call` has ended; `error` names the exception that it raised ("" for none)."""

    call: int
    error: str = ""


# -- cache -------------------------------------------------------------------------------------------------


@record(kw_only=True)
class CacheEntryAdded(Event):
    """A cache entry was added for the frame's code: its number, and its position in the order of checks."""

    entry: int
    code: int
    position: int = 0
    guard_count: int = 0
    check: str = ""


@record(kw_only=True)
class GuardsTimed(Event):
    """What one check of an entry's guards costs, measured on the check itself: all of it, the part of each value, and what it costs
    with each documented guard filter; for torch.compile also the guards that can be checked by themselves, and how many cannot.
    """

    entry: int
    seconds: float
    values: tuple[GuardPrice, ...] = ()
    filters: tuple[FilterPrice, ...] = ()
    checks: tuple[CheckPrice, ...] = ()
    unchecked: int = 0


@record(kw_only=True)
class CudaGraphLogged(Event):
    """What torch's log says of a CUDA graph: `outcome` is "recorded", "skipped", "warmed up", "re-recorded" or "warned".

    `function` is torch's name for the compiled part, `reason` why it was skipped, recorded again or warned about, `place` the line
    of the program if the log has it. The frame is that of the compilation, 0 if the log does not say which.
    """

    outcome: str
    function: str = ""
    reason: str = ""
    place: UserFrame | None = None


EARLIER = -1
"""As the number of an entry: it was created before the recording began."""


@record(kw_only=True)
class CacheHit(Event):
    """A call hit a cache entry. It has its own frame number; `compiled_by` is the entry's frame."""

    entry: int = EARLIER
    code: int
    function: str
    compiled_by: int = 0


@record(kw_only=True)
class GuardFailed(Event):
    """The guard of an existing cache entry that failed for this call: the expected and the actual value.

    It is the first of its entry that fails, which ends the check; further ones follow as `GuardAlsoFailed`. `needed_at` is the
    line of user code that required the guard, if the engine states it; else the `GuardInstalled` of the entry does.
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
    """A further guard of the same entry that fails for this call. The check had ended before it; it was evaluated separately for
    the recorder. Fixing only the first failure leads to this one.
    """


@record(kw_only=True)
class Recompiled(Event):
    """The frame is translated although its code already has entries; `reason` names the guard that failed."""

    reason: str
    entries: int = 0


@record(kw_only=True)
class CacheLimitReached(Event):
    """The code has the maximum number of entries: this call and later misses run as plain Python. `caller` as in `FrameEntered`."""

    function: str
    limit: int
    reason: str
    caller: UserFrame | None = None


@record(kw_only=True)
class PhaseTimed(Event):
    """The duration of a phase ("translate", "backend", "guards", ...), in seconds."""

    phase: str
    seconds: float


@record(kw_only=True)
class PhaseSpan(Event):
    """A phase of torch.compile as its log times it: it began `begin` seconds after the first phase of the compilation."""

    phase: str
    begin: float
    seconds: float


# -- real execution ----------------------------------------------------------------------------------------


@record(kw_only=True)
class GraphRan(Event):
    """A compiled graph ran in the real call, the `run`-th time; `error` is its exception, if any."""

    graph: str
    run: int
    inputs: tuple[ValueView, ...] = ()
    outputs: tuple[ValueView, ...] = ()
    seconds: float = 0.0
    error: str = ""


@record(kw_only=True)
class ValueObserved(InstructionEvent):
    """The actual value of something in a real run.

    `role`: "input" and "output" of the compiled graph, and "local", "stack" and "return" of the modified code are values of the
    call itself; "node" is a value inside the graph, `replayed` on snapshots of the inputs and of the RNG state. `name` is the
    node's or local's name, for "stack" the number of the slot. `moment` is when a local was observed: "entry", "graph call",
    "break" or "return". `after` names the node that mutated the tensor in place, "" for the value as it was created; a replay
    records no gradients, so its `requires_grad` is unknown. Non-finite numbers are text ("nan", "inf"). `why` is the reason if
    there is no value. `seconds` is the duration of a node's operator in the replay, run by itself (0: not measured).
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
    """The contents of a container, or of an object created in the frame, from step number `step` of the attempt on.

    `value` and `tracker` are id and kind of its ValueView, `kind` is its type, `length` the number of items; `items` are the first
    of them, each with a label: a key, the name of an attribute, "" in a sequence.
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
    """What was observed in a real run differs from the prediction of the symbolic run, or from the instruction's meaning.

    `where` is "step" (the instruction's effect differs from CPython's), "node" (a node's real dtype, shape or device is not the
    symbolic one), "output" or "input" (what the backend's callable returned, or left in an input, differs from the graph's
    result). `step` is the number of the InstructionStepped within the attempt, from 0; `name` the node, or the instruction.
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
        """What differs, and where."""
        return f"{self.name}: {self.difference}"

    @property
    def difference(self) -> str:
        """What differs."""
        return f"{self.aspect} expected {self.expected}, found {self.actual}"


@record(kw_only=True)
class RunCompared(Event):
    """A run of a graph was replayed and compared: the number of steps, nodes and outputs, and the duration."""

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
    """A run of a graph was not replayed, with the reason: the values inside the graph are unknown for it and later ones."""

    graph: str
    run: int
    reason: str


# -- remedies -------------------------------------------------------------------------------------------------


@record(kw_only=True)
class RemedyTried(Event):
    """A remedy was applied to a copy of the program, and its calls were run again: the effect.

    `row` is the id of the remedy in its table, `text` the inserted code, `place` its location. `before` and `after` are the
    (graphs, graph breaks, recompiles) of both runs; `same_values`: whether their results are equal (None: nothing to compare).
    `error` is the exception of the changed program, "" for none. `helped` is the verdict.
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
    """The result of another capture method (`method`, "torch.fx.symbolic_trace") on the frame, or why it failed."""

    method: str
    nodes: tuple[NodeRow, ...] = ()
    failure: str = ""


# -- failures ----------------------------------------------------------------------------------------------


@record(kw_only=True)
class BackendFailed(Event):
    """The backend raised while it compiled the graph.

    `raised_at` is the innermost line of user code that raised (if the backend is the program's own), `node` the operator of the
    graph that was being compiled; None and "" if unknown.
    """

    graph: str
    backend: str
    error: str
    raised_at: UserFrame | None = None
    node: str = ""


@record(kw_only=True)
class EngineFailed(InstructionEvent):
    """A bug in the engine: the frame runs as plain Python. `where` is the engine's file, line, function.

    `user_stack` are the lines of user code that were being interpreted, outermost first (empty: before or after them).
    """

    error: str
    where: str = ""
    user_stack: tuple[UserFrame, ...] = ()


# -- tables and helpers -------------------------------------------------------------------------------------

EVENTS: dict[str, type[Event]] = {
    name: cls
    for name, cls in list(globals().items())
    if isinstance(cls, type) and issubclass(cls, Event) and cls not in (Event, InstructionEvent)
}
"""Every event class by its name in JSON."""

PIECES: dict[str, type] = {
    cls.__name__: cls
    for cls in (ValueView, StepView, ListingRow, CodeView, UserFrame, NodeRow, SkipReason, GraphPiece, NodeMemory, SavedStorage,
                GuardPrice, CheckPrice, FilterPrice)
}
"""The nested records by name."""

NULL_VIEW = ValueView(0, "NULL", "NULL")
"""An empty stack slot (what PUSH_NULL leaves)."""


def clip(text: str, limit: int = 240) -> str:
    """Return `text`, shortened in the middle to at most `limit` characters, so that a huge repr does not bloat a record.

    >>> clip("abcdefghij", 7)
    'abc...j'
    """
    if len(text) <= limit:
        return text
    tail = max((limit - 3) // 4, 0)
    return text[: limit - 3 - tail] + "..." + (text[-tail:] if tail else "")


def wrapped(text: str, hanging: int, width: int = WIDTH) -> str:
    """Return `text` in lines of at most `width` characters, continuation lines indented by `hanging`; with a width of 0 unchanged.

    Lines are broken only between words. A path, a name, a location such as `In [2]:3`, a call and text between two backquotes
    count as one word, however long.

    >>> print(wrapped("fix  call read(a, b) after the function", 5, 18))
    fix  call
         read(a, b)
         after the
         function
    """
    return "\n".join(_wrapped_line(line, hanging, width) for line in text.split("\n")) if width else text


_ONE_WORD = re.compile(r"`[^`]*`|\bIn \[\d+\]|\b[\w.]+\([^()]*\)")
_GLUE = "\0"
"""A placeholder for a space inside such a word while lines are broken."""


def _wrapped_line(line: str, hanging: int, width: int) -> str:
    if len(line) <= width:
        return line
    glued = _ONE_WORD.sub(lambda word: word[0].replace(" ", _GLUE), line)
    lines = textwrap.wrap(
        glued, width, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )
    return "\n".join(lines).replace(_GLUE, " ")


def letters(line: str, column: int) -> int:
    """The number of characters of `line` before byte `column` of its UTF-8 form.

    >>> letters("é = x", 3)
    2
    """
    return len(line.encode("utf-8", "replace")[: max(column, 0)].decode("utf-8", "ignore"))


def _place(frame: UserFrame) -> list[str]:
    """The location of a break, its source line, and a line of ^ under the relevant columns."""
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
    """Return `text` without the memory addresses of default reprs, which differ from run to run.

    >>> without_addresses("<code object f at 0x7f8fc412a180, file 'a.py'>")
    "<code object f, file 'a.py'>"
    """
    return _ADDRESS.sub("", text) if " at 0x" in text else text


def safe_repr(value: object, limit: int = 240) -> str:
    """Return `repr(value)` without addresses, shortened to `limit`; if it raises, a text that says so."""
    try:
        return clip(without_addresses(repr(value)), limit)
    except Exception as error:
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"


def number(value: float) -> float | str:
    """Return `value` in the form for a record: a finite float unchanged, NaN and infinities as text.

    >>> number(1.5), number(float("inf"))
    (1.5, 'inf')
    """
    return value if math.isfinite(value) else repr(value)


keep_old_names(globals())
