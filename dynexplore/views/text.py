"""Every view of a recording as plain text: for terminals, debug output, tests and screen readers.

The idea: one small pure function per view, from records to a string without a trailing newline. Tables are aligned with spaces,
there are no colors, and callers pass the width of the terminal. Everything that the widget shows is available here, too, so
that no view needs a browser.

In: a Recording, or single records of it. Out: text. `debug_printout(recording, frame)` is printed by `config.debug`,
`explanation(recording)` by `explain`, and `report(recording)` contains everything. PyTorch's counterpart: the logs that
TORCH_LOGS="bytecode,graph,guards" prints, and `ExplainOutput` in torch/_dynamo/backends/debugging.py.
"""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from dynexplore.engine import events as ev
from dynexplore.recording.recording import GraphView, Recording, resumed_at
from dynexplore.views import real_run
from dynexplore.views.break_places import own_line
from dynexplore.views.compile_seconds import seconds_of_breaks
from dynexplore.views.counts import plural
from dynexplore.views.cuda_graphs import cuda_graph_lines
from dynexplore.views.guard_prices import price_lines
from dynexplore.views.headline import headline
from dynexplore.views.names import ENTRY_FILE, chain_words, frame_code, frame_name, goes_on, is_library, skipped_name
from dynexplore.views.ranked_costs import block, costs_of
from dynexplore.views.specializations import decisions, recompiled_because, specialized_by
from dynexplore.views.stack_trie import trie_lines
from dynexplore.views.timeline import State, Timeline


def table(header: Sequence[str], rows: Iterable[Sequence[str]], width: int = 0) -> str:
    """A table with a line of dashes below the header; columns are as wide as their widest cell. If the table exceeds a given
    `width`, the widest columns are wrapped.

    >>> print(table(("opcode", "name"), [("placeholder", "x"), ("output", "output")]))
    opcode       name
    -----------  ------
    placeholder  x
    output       output
    >>> print(table(("kind", "because"), [("EQUALS", "the value equals this constant")], width=25))
    kind    because
    ------  -----------------
    EQUALS  the value equals
            this constant
    """
    cells = [tuple(header), *(tuple(cell.replace("\n", " ") for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    if width:
        widths = _narrowed(widths, [max(NARROWEST, len(name)) for name in header], width)
    folded = [[_folded(cell, most) for cell, most in zip(row, widths, strict=True)] for row in cells]
    lines = [line for row in folded for line in itertools.zip_longest(*row, fillvalue="")]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


NARROWEST = 12
"""The minimum width of a wrapped column: below that words are broken."""


def _narrowed(widths: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """The column widths, the widest reduced until the table fits; in a too narrow terminal lines overflow."""
    narrowed = list(widths)
    while sum(narrowed) + 2 * (len(narrowed) - 1) > width:
        widest = max(range(len(narrowed)), key=lambda column: narrowed[column] - least[column])
        if narrowed[widest] <= least[widest]:
            break
        narrowed[widest] -= 1
    return narrowed


def _folded(cell: str, width: int) -> list[str]:
    """The lines of a cell: unchanged if it fits, else wrapped between words, with long words broken."""
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)


# -- bytecode ----------------------------------------------------------------------------------------------------------


def bytecode(code: ev.CodeView) -> str:
    """The listing as `dis` prints it: line where it changes, `>>` before jump targets, offset, opcode, operand."""
    lines = []
    line_before = 0
    for row in code.rows:
        number = str(row.line) if row.line > 0 and row.line != line_before else ""
        line_before = row.line or line_before
        mark = ">>" if row.is_target else "  "
        text = f"{number:>4} {mark} {row.offset:>6} {row.op:<28} {row.arg}".rstrip()
        if row.role:
            origin = f" (from {row.origin})" if row.origin >= 0 else ""
            text = f"{text:<64}  # {row.role}{origin}"
        lines.append(text)
    return "\n".join(lines)


def canonical(code: ev.CodeView) -> str:
    """Original instructions beside the canonical ones that they are lowered to."""
    rows = []
    for row in code.rows:
        steps = row.steps or (ev.StepView(-1, "-"),)
        for number, step in enumerate(steps):
            original = (str(row.offset), row.op, row.arg) if number == 0 else ("", "", "")
            rows.append((*original, str(step.index) if step.index >= 0 else "", step.op, step.arg))
    return table(("offset", "original", "operand", "step", "canonical", "operand"), rows)


def _place(code: ev.CodeView) -> str:
    return f"{code.qualname} {code.file} line {code.first_line}"


# -- graphs ------------------------------------------------------------------------------------------------------------


def graph_table(nodes: Iterable[ev.NodeAdded | ev.NodeRow]) -> str:
    """The nodes of a graph: opcode, name, target, args, kwargs."""
    return table(
        ("opcode", "name", "target", "args", "kwargs"),
        [(node.op, node.name, node.target, node.args or "()", node.kwargs or "{}") for node in nodes],
    )


def node_table(nodes: Iterable[ev.NodeAdded]) -> str:
    """The nodes of a graph with the metadata of their results and their source locations."""
    rows = []
    for node in nodes:
        place = f"{node.file}:{node.line}" if node.line else ""
        rows.append((node.op, node.name, node.target, node.dtype, node.shape, node.device, node.module, place))
    return table(("opcode", "name", "target", "dtype", "shape", "device", "module", "line"), rows)


def graph(view: GraphView) -> str:
    """One graph: its name, how it was compiled, its table, and the pieces that it was split into."""
    return "\n".join([_graph_title(view), graph_table(view.nodes), *piece_lines(view)])


def _graph_title(view: GraphView) -> str:
    backend = f", backend {view.compiled.backend}" if view.compiled else ""
    if view.skipped is not None:
        backend += f" skipped ({view.skipped.id})"
    split = f", {plural(len(view.pieces), 'piece')}" if view.pieces else ""
    return f"{view.name} ({plural(view.op_count, 'operator')}{backend}{split})"


def piece_lines(view: GraphView) -> list[str]:
    """One line per piece that DistributedDataParallel's buckets split a graph into: nodes, buckets, parameters."""
    lines = []
    for piece in view.pieces:
        nodes = piece.nodes[0] if len(piece.nodes) == 1 else f"{piece.nodes[0]} .. {piece.nodes[-1]}"
        buckets = " and ".join(map(str, piece.buckets))
        gradients = f"{', '.join(piece.parameters)} ({piece.parameter_bytes:,} bytes) -> bucket {buckets}"
        lines.append(f"piece {piece.number} of {len(view.pieces)}: {nodes}; gradients {gradients if buckets else 'none'}")
    return lines


def artifacts(recording: Recording) -> str:
    """The compiler artifacts of the graphs: each text under its heading `== forward ir of __compiled_fn_0`."""
    artifact_events = recording.of(ev.ArtifactEmitted)
    return (
        "\n\n".join(f"== {artifact_title(artifact)} of {artifact.graph}\n{artifact.text}" for artifact in artifact_events)
        or "no artifacts"
    )


_NAMED_BY_STAGE = ("passes", "settings", "cache", "runtime", "runnable", "other")
"""Stages of torch.compile's own logs that are used as titles."""


TITLES = {"provenance": "operators in kernels", "kernel lines": "lines in kernels"}
"""Parts whose button in the explorer has other words than the part."""


def artifact_title(artifact: ev.ArtifactEmitted) -> str:
    """The title of an artifact: `joint graph`, `forward ir`, `backward code`."""
    if artifact.part == "joint":
        return "joint graph"
    if artifact.part in _NAMED_BY_STAGE:
        return artifact.stage
    if artifact.part in TITLES:
        return f"{TITLES[artifact.part]} ({artifact.stage})"
    return f"{artifact.stage} {'graph' if artifact.part == 'captured' else artifact.part}".strip()


# -- guards ------------------------------------------------------------------------------------------------------------


def guard_line(guard: ev.GuardInstalled) -> str:
    """One guard in the form ` - local 'a' TENSOR_MATCH`."""
    words = [guard.scope] if guard.scope else []
    words += [repr(guard.source)] if guard.source else []
    return " - " + " ".join([*words, guard.kind])


def guards(installed: Iterable[ev.GuardInstalled]) -> str:
    """The list of guards under its heading `GUARDS:`."""
    return "\n".join(["GUARDS:", *(guard_line(guard) for guard in installed)])


def guard_anatomy(recording: Recording, frame: int) -> str:
    """The guards of a frame with their expected values, the check itself, and the instruction that installed each."""
    rows, decided = [], decisions(recording, frame)
    for guard in recording.final_guards(frame):
        where = instruction_text(recording, guard)
        name = " ".join(word for word in (guard.scope, guard.source) if word)
        because = "; ".join([guard.reason, *specialized_by(guard, decided)])
        rows.append((str(guard.index), name, guard.kind, guard.expected, guard.expression, where, because))
    return table(("", "source", "kind", "expected", "check", "used by", "because"), rows)


def instruction_text(recording: Recording, event: ev.InstructionEvent) -> str:
    """The instruction that an event belongs to, with its offset and line; "entry" if it belongs to none."""
    code = recording.code_of(event)
    row = row_at(code, event.offset) if code else None
    if code is None or row is None:
        return "entry"
    return f"{row.op} {row.arg}".rstrip() + f" (offset {row.offset}" + (f", line {row.line})" if row.line > 0 else ")")


def row_at(code: ev.CodeView, offset: int) -> ev.ListingRow | None:
    """The row of a listing at an offset."""
    return next((row for row in code.rows if row.offset == offset), None)


# -- breaks ------------------------------------------------------------------------------------------------------------


def what_then(recording: Recording, broke: ev.GraphBroke) -> str:
    """The outcome of a frame after its break: how much was compiled, and where the rest resumes."""
    compiled = [graph for graph in recording.graphs if graph.frame == broke.frame]
    resumes = recording.of_frame(broke.frame, ev.ResumeFunctionCreated)
    skipped = recording.of_frame(broke.frame, ev.FrameSkipped)
    if skipped:
        return f"the frame runs as plain Python: {skipped[-1].reason}."
    count = compiled[-1].op_count if compiled else 0
    before = f"{plural(count, 'operation')} compiled before it" if count else "nothing to compile before it"
    if not resumes:
        return f"{before}."
    numbers = {1: "a resume function", 2: "two resume functions", 3: "three resume functions"}
    return f"{before}; the rest continues in {numbers.get(len(resumes), f'{len(resumes)} resume functions')}."


def break_report(recording: Recording, broke: ev.GraphBroke, width: int = ev.WIDTH) -> str:
    """The whole message of one break; `width` as in `events.wrapped`."""
    return broke.report(what_then(recording, broke), width)


def break_details(recording: Recording, broke: ev.GraphBroke, width: int = ev.WIDTH) -> str:
    """The message of a break, the stack and the live locals there, and the arguments of each resume function."""
    parts = [break_report(recording, broke, width)]
    parts += [f"  stack {slot}  {_value(view)}" for slot, view in enumerate(broke.stack)]
    parts += [f"  local {name} = {_value(view)}" for name, view in broke.live_locals]
    for resume in recording.of_frame(broke.frame, ev.ResumeFunctionCreated):
        parts.append(f"  resumes in {resume.name}({', '.join(resume.parameters)}) {goes_on(resume.code, resume.offset)}")
    return "\n".join(parts)


# -- steps -------------------------------------------------------------------------------------------------------------


def _value(view: ev.ValueView) -> str:
    origin = view.node or view.source
    return f"{origin}: {view.text}" if origin and origin != view.text else view.text


def steps(recording: Recording, frame: int) -> str:
    """Every state of a frame: number, location, instruction, the stack after it, and changes."""
    rows = [step_row(state) for state in Timeline(recording).of_frame(frame)]
    return table(("", "offset", "instruction", "stack", "changes"), rows)


def step_row(state: State) -> tuple[str, str, str, str, str]:
    """One row of the steps: number, offset, instruction, stack, changes."""
    indent = "  " * len(state.calls)
    offset = str(state.offset) if state.offset >= 0 else ""
    stack = " | ".join(view.node or view.text for view in state.stack) if state.offset >= 0 else ""
    return str(state.number), offset, indent + _moment(state.event), stack, "; ".join(changes(state))


def _moment(event: ev.Event) -> str:
    match event:
        case ev.InstructionStepped():
            return f"{event.op} {event.arg}".rstrip()
        case ev.FrameEntered():
            return f"frame {event.frame}: {event.code.qualname}"
        case ev.AttemptStarted():
            return f"attempt {event.attempt}" + (f", to break before {event.stop_at}" if event.stop_at >= 0 else "")
        case ev.AttemptRestarted():
            return f"restart: {event.reason}"
        case ev.InlineEntered():
            return f"into {event.code.qualname}"
        case ev.InlineLeft():
            return f"{event.how} from callee {event.callee}"
        case ev.GraphBroke():
            return f"graph break {event.kind}: {event.title}"
        case ev.SubgraphCompiled():
            skipped = f"skipped {event.backend} for {event.graph} ({event.because.id})" if event.because is not None else ""
            return skipped or f"compiled {event.graph} with {event.backend}"
        case ev.NodeAdded():
            return _node_added(event)
        case ev.CodeEmitted():
            return f"modified code of {event.code.qualname}"
        case _:
            return _event_name(event)


def _event_name(event: ev.Event) -> str:
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(event).__name__).strip()
    detail = next((getattr(event, name) for name in ("reason", "outcome", "error", "graph") if hasattr(event, name)), "")
    return f"{words}: {detail}" if detail else words


def changes(state: State) -> list[str]:
    """The changes of a state as text: locals, nodes, guards, mutations, resume functions."""
    lines = []
    for name, _, after in state.difference.changed:
        if after is None:
            lines.append(f"del {name}")
        elif name not in (after.node, after.source):  # an argument that is read for the first time is not a change
            lines.append(f"{name} = {after.node or after.text}")
    for event in state.caused:
        match event:
            case ev.NodeAdded():
                lines.append(_node_added(event))
            case ev.GuardInstalled():
                lines.append(f"guard {guard_line(event)[3:]}")
            case ev.MutationRecorded():
                lines.append(f"side effect {event.operation} on {event.target.source or event.target.text}")
            case ev.ResumeFunctionCreated():
                lines.append(f"{event.name} made")
            case _:
                pass
    return lines


def _node_added(node: ev.NodeAdded) -> str:
    if node.op == "placeholder":
        return f"graph input {node.name}"
    if node.op == "output":
        return f"graph output {node.args}"
    return f"node {node.name} = {node.target}{node.args if node.op != 'get_attr' else ''}"


# -- the whole capture -------------------------------------------------------------------------------------------------


def summary(recording: Recording) -> str:
    """The recording in one line, without addresses, paths and times.

    >>> summary(Recording(title="f"))
    'Explorer(f: 0 steps, 0 graphs, 0 guards)'
    """
    counts = ((recording.steps, "step"), (recording.graphs, "graph"), (recording.guards, "guard"))
    listed = ", ".join(plural(len(events), noun) for events, noun in counts)
    return f"Explorer({recording.title or 'recording'}: {listed})"


MOST_LINES = 40
"""The most lines of output that is printed automatically."""

_MOST_SKIPPED = 3
_MOST_GRAPHS = 5


def explanation(recording: Recording, width: int = ev.WIDTH, most_lines: int = 0) -> str:
    """The text that `explain` prints: the headline, the numbers of graphs, breaks and ops, reasons of breaks and advice.

    Sentences are wrapped to `width`, as in `events.wrapped`; locations and source lines are not. If it has more than `most_lines`
    (0: unlimited), the most expensive breaks are shown and the rest counted.
    """
    graphs, breaks = recording.graphs, recording.breaks
    ops = sum(graph.op_count for graph in graphs)
    head = [line for sentence in headline(recording).lines for line in _lines(sentence, 2, width)] + [""]
    head += [f"{plural(len(graphs), 'graph')}, {plural(len(breaks), 'graph break')}, {plural(ops, 'operator')}"]
    places, tail = _by_place(recording), _tail(recording, width)
    plain = [*_recompile_lines(recording, width), *_skipped_backends(recording, width), *_skipped_lines(recording, width)]
    lines = [*head, *_break_lines(recording, places, width), *plain, *_prices(recording, 0), *tail]
    if most_lines and len(lines) > most_lines:
        plain = [
            *_recompile_lines(recording, width, 1), *_skipped_backends(recording, width, 1),
            *_skipped_lines(recording, width, _MOST_SKIPPED),
        ]  # fmt: skip
        tail = [*_prices(recording, 1), *tail]
        room = max(most_lines - len(head) - len(plain) - len(tail), 1)
        lines = [*head, *_costliest_lines(recording, places, width, room), *plain, *tail]
    return "\n".join(lines)


def besides_costs(recording: Recording, width: int = ev.WIDTH) -> list[str]:
    """What a whole report says after its list of costs: decisions after recompiles, graphs and functions that run uncompiled,
    prices of guards, and problems of the capture itself.
    """
    decided = [line for sentence in recompiled_because(recording) for line in _lines(f"- {sentence}", 2, width)]
    after = ["", "After the recompiles:", *decided] if decided else []
    plain = [*_skipped_backends(recording, width), *_skipped_lines(recording, width)]
    return [*after, *plain, *_prices(recording, 0), *_tail(recording, width)]


def _lines(sentence: str, indent: int, width: int) -> list[str]:
    return ev.wrapped(sentence, indent, width).split("\n")


def _recompile_lines(recording: Recording, width: int, most: int = 0) -> list[str]:
    """The recompiles that had several reasons, ranked, and their decisions about the changed sizes and numbers; at most `most` (0:
    all).
    """
    several = [cost for cost in costs_of(recording) if cost.kind == "recompile" and cost.further]
    ranked = [line for number, cost in enumerate(several[: most or None], 1) for line in block(number, cost, width, set())]
    ranked = ["", "Recompiles with several reasons, costliest first:", *ranked] if ranked else []
    if len(several) > most > 0:
        ranked.append(f"... and {plural(len(several) - most, 'more recompile')}")
    sentences = recompiled_because(recording)
    shown = sentences[: most or None]
    more = [f"... and {len(sentences) - len(shown)} more"] if len(sentences) > len(shown) else []
    lines = [line for text in shown for line in _lines(f"- {text}", 2, width)]
    return ranked + (["", "After the recompiles:", *lines, *more] if sentences else [])


def _skipped_backends(recording: Recording, width: int, most: int = 0) -> list[str]:
    """The graphs that their backend did not compile, by reason, with advice; at most `most` reasons (0: all)."""
    names: dict[ev.SkipReason, list[str]] = {}
    for view in recording.graphs:
        if view.skipped is not None:
            names.setdefault(view.skipped, []).append(view.name)
    lines = ["", "Graphs that skip the backend and run uncompiled:"] if names else []
    shown = list(names.items())[: most or None]
    for number, (reason, graphs) in enumerate(shown, 1):
        listed = ", ".join(graphs[:_MOST_GRAPHS] if most else graphs) + (", ..." if most and len(graphs) > _MOST_GRAPHS else "")
        lines += ["", *_lines(f"{number}. {reason.line} ({listed})", 3, width)]
        for label, label_text in (("why:", reason.why), ("fix:", reason.fix), ("more:", reason.page)):
            lines += _lines(f"   {label} {label_text}", 8, width) if label_text else []
    return [*lines, "", f"... and {plural(len(names) - len(shown), 'more reason')}"] if len(names) > len(shown) else lines


def _tail(recording: Recording, width: int) -> list[str]:
    """Problems of the capture itself."""
    lines = ["", *_lines(real_run.verdict(recording), 2, width)] if recording.divergences else []
    for failed in recording.of(ev.EngineFailed):
        calls = f" at {chain_words(failed.user_stack)}" if failed.user_stack else ""
        lines += ["", *_lines(f"Bug in the engine{calls}, in {failed.where}: {failed.error}", 2, width)]
    if recording.cut:
        lines += ["", f"The recording was {recording.cut}."]
    return lines


def _prices(recording: Recording, most: int) -> list[str]:
    """Prices of guards and outcomes of CUDA graphs, for at most `most` entries and reasons (0: all)."""
    paragraphs = price_lines(recording, most), cuda_graph_lines(recording, most)
    return [line for lines in paragraphs if lines for line in ("", *lines)]


Place = tuple[ev.GraphBroke, int]
"""A break, and how often it occurred at its location."""


def _by_place(recording: Recording) -> list[Place]:
    """The breaks without duplicates of one kind at one location, with their counts: a loop breaks in each iteration, a callee in
    each caller.
    """
    first: dict[tuple[str, ...], ev.GraphBroke] = {}
    times: Counter[tuple[str, ...]] = Counter()
    for broke in recording.breaks:
        place = (broke.kind, *_where(recording, broke))
        first.setdefault(place, broke)
        times[place] += 1
    return [(broke, times[place]) for place, broke in first.items()]


def _break_lines(recording: Recording, places: Sequence[Place], width: int) -> list[str]:
    blocks = [_break_block(recording, number, place, width) for number, place in enumerate(places, 1)]
    return [*(["Break reasons:"] if recording.breaks else []), *itertools.chain(*blocks)]


def _break_block(recording: Recording, number: int, place: Place, width: int) -> list[str]:
    broke, times = place
    often = f" ({times} times)" if times > 1 else ""
    lines = ["", *_lines(f"{number}. {broke.reason}{often}", 3, width), *_where(recording, broke)]
    for label, label_text in (("why:", broke.why), ("fix:", broke.fix)):
        lines += _lines(f"   {label} {label_text}", 8, width) if label_text else []
    return lines


def _costliest_lines(recording: Recording, places: Sequence[Place], width: int, room: int) -> list[str]:
    """As many breaks as fit, at least one, ranked by the compile time of their resume functions."""
    seconds: Counter[tuple[str, ...]] = Counter()
    spent = seconds_of_breaks(recording)
    for broke in recording.breaks:
        seconds[(broke.kind, *_where(recording, broke))] += int(1e6 * spent[broke.frame].all)
    ranked = sorted(places, key=lambda place: (-seconds[(place[0].kind, *_where(recording, place[0]))], -place[1]))
    lines = ["Break reasons, costliest first:"] if ranked else []
    for number, place in enumerate(ranked, 1):
        block = _break_block(recording, number, place, width)
        rest = len(ranked) - number
        if number > 1 and len(lines) + len(block) + (2 if rest else 0) > room:
            return [*lines, "", f"... and {plural(rest + 1, 'more place')}: print(dynexplore.all_breaks(f, x)) lists them"]
        lines += block
    return lines


def _where(recording: Recording, broke: ev.GraphBroke) -> Iterable[str]:
    """The program's line, then that of a library if it breaks there."""
    own, last = own_line(broke, recording), broke.user_stack[-1:]
    for frame in (*((own,) if own is not None and (own,) != last else ()), *last):
        yield f'   File "{frame.file}", line {frame.line}, in {frame.function}'
        if frame.code.strip():
            yield f"     {frame.code.strip()}"
    if broke.nested:
        yield f"   called at {chain_words(broke.user_stack[:-1])}"


def _skipped_lines(recording: Recording, width: int, most: int = 0) -> list[str]:
    """The functions that ran as plain Python, and why: the program's before those of libraries; at most `most` (0: all)."""
    skipped = sorted(recording.of(ev.FrameSkipped), key=lambda event: is_library(event.file))
    shown = skipped[:most] if most else skipped
    lines = ["", "Frames that run as plain Python:"] if skipped else []
    for event in shown:
        name = skipped_name(recording, event)
        line = "" if name.endswith(" on") or event.line <= 0 else f":{event.line}"
        place = f" ({event.file}{line})" if event.file and event.file != ENTRY_FILE else ""
        lines += _lines(f" - {name}{place}: {event.reason}", 3, width)
    return [*lines, f" - and {len(skipped) - len(shown)} more"] if len(skipped) > len(shown) else lines


def frames(recording: Recording) -> str:
    """The tree of frames: callers and callees, the outcome of each, its graphs and breaks."""
    children: dict[int | None, list[ev.FrameEntered]] = {}
    frame_ids = {entered.frame for entered in recording.frames}
    for entered in recording.frames:
        children.setdefault(entered.parent if entered.parent in frame_ids else None, []).append(entered)
    lines: list[str] = []

    def draw(entered: ev.FrameEntered, depth: int) -> None:
        lines.append("  " * depth + _frame_line(recording, entered))
        for child in children.get(entered.frame, ()):
            draw(child, depth + 1)

    for top in children.get(None, ()):
        draw(top, 0)
    return "\n".join(lines) or "no frame was translated"


def frame_place(recording: Recording, entered: ev.FrameEntered) -> str:
    """A frame by its display name, for a resume function with the name that the modified code calls, and the location of its
    code.
    """
    code = frame_code(recording, entered)
    name = entered.code.qualname
    called = f" ({name})" if entered.code.resumes >= 0 and name.isidentifier() else ""  # torch.compile's are already readable
    return f"{frame_name(recording, entered)}{called} {code.file} line {code.first_line}"


def _frame_line(recording: Recording, entered: ev.FrameEntered) -> str:
    frame = entered.frame
    parts = [f"frame {frame}: {frame_place(recording, entered)}"]
    parts += [f"resumes at {chain_words(entered.chain)}"] if entered.chain else []
    parts += [event.outcome for event in recording.of_frame(frame, ev.FrameFinished)]
    graphs = recording.of_frame(frame, ev.SubgraphCompiled)
    parts += [f"{graph.graph} ({plural(graph.op_count, 'operator')}{_skip_mark(graph)})" for graph in graphs]
    parts += [f"broke: {event.kind}" for event in recording.of_frame(frame, ev.GraphBroke)]
    parts += [f"skipped: {event.reason}" for event in recording.of_frame(frame, ev.FrameSkipped)]
    inlined = {
        event.code.qualname: None
        for event in recording.of_frame(frame, ev.InlineEntered)
        if event.attempt == recording.final_attempt(frame)
    }
    if inlined:
        parts.append("inlined " + ", ".join(inlined))
    return " - ".join(parts)


def _skip_mark(graph: ev.SubgraphCompiled) -> str:
    return f", backend skipped: {graph.because.id}" if graph.because is not None else ""


CALLS_HEADER = ("call", "function", "what", "entry", "details")


def calls(recording: Recording) -> str:
    """Calls against cache entries: each call in order, hits, failed guards, compilations."""
    return table(CALLS_HEADER, call_rows(recording))


def call_rows(recording: Recording) -> list[tuple[str, str, str, str, str]]:
    """The rows of `calls`."""
    numbered_events = recording.besides_steps
    names = {event.frame: event.function for _, event in numbered_events if isinstance(event, (ev.FrameSkipped, ev.CacheHit))}
    names |= {entered.frame: entered.code.qualname for entered in recording.frames}
    rows = []
    for _, event in numbered_events:
        row = _call_event(event)
        if row is not None:
            rows.append((str(event.frame), names.get(event.frame, ""), *row))
    return rows


def _call_event(event: ev.Event) -> tuple[str, str, str] | None:
    """What happened in a call, the cache entry concerned, and details; None for events that are not about calls."""
    match event:
        case ev.CacheHit():
            origin = (
                f"compiled as frame {event.compiled_by}" if event.entry != ev.EARLIER else "compiled before this recording began"
            )
            return "hit", entry_name(event.entry), origin
        case ev.GuardAlsoFailed():
            return "guard also failed", entry_name(event.entry), guard_failure(event)
        case ev.GuardFailed():
            return "guard failed", entry_name(event.entry), guard_failure(event)
        case ev.Recompiled():
            return "recompile", "", event.reason
        case ev.CacheEntryAdded():
            return "entry added", str(event.entry), plural(event.guard_count, "guard")
        case ev.CacheLimitReached():
            return "limit reached", "", f"{event.limit} entries: {event.reason}"
        case ev.FrameSkipped():
            return "plain Python", "", event.reason
        case _:
            return None


def entry_name(number: int) -> str:
    """The text of a cache entry in a table.

    >>> entry_name(2), entry_name(ev.EARLIER)
    ('2', 'earlier')
    """
    return str(number) if number != ev.EARLIER else "earlier"


def guard_failure(failed: ev.GuardFailed) -> str:
    """One line: the guard, its expected and actual value."""
    name = " ".join(word for word in (failed.scope, repr(failed.source) if failed.source else "", failed.kind) if word)
    return f"{name}: expected {failed.expected}, found {failed.actual}"


def recompile_report(recording: Recording, failed: ev.GuardFailed) -> str:
    """A guard failure in the form of a break report: the guard, expected and actual value, its origin, the check."""
    lines = [f"Guard failed: {guard_failure(failed).split(':')[0]}"]
    lines += [f"  expected  {failed.expected}", f"  found     {failed.actual}"]
    of_entries = recording.once("guards of each entry", lambda: _guards_of_entries(recording))
    for guard in of_entries.get(failed.entry, {}).get((failed.source, failed.kind), ()):
        lines.append(f"  used by   {instruction_text(recording, guard)}")
        lines += [f"  check     {guard.expression}"] if guard.expression else []
        lines += [f"  because   {guard.reason}"] if guard.reason else []
    return "\n".join(lines)


def _guards_of_entries(recording: Recording) -> dict[int, dict[tuple[str, str], list[ev.GuardInstalled]]]:
    """The guards of each cache entry, by source and kind: a program whose calls miss often asks for them again and again."""
    by_entry: dict[int, dict[tuple[str, str], list[ev.GuardInstalled]]] = {}
    for added in recording.of(ev.CacheEntryAdded):
        if added.entry not in by_entry:
            guards = by_entry[added.entry] = {}
            for guard in recording.final_guards(added.frame):
                guards.setdefault((guard.source, guard.kind), []).append(guard)
    return by_entry


# -- printouts ---------------------------------------------------------------------------------------------------------


PARTS = ("graph", "bytecode", "guards", "breaks")
"""The parts of a frame that `config.debug` prints."""


def debug_printout(recording: Recording, frame: int, parts: Sequence[str] = PARTS, width: int = ev.WIDTH) -> str:
    """The output of `config.debug` for one frame: other capture, graph, original and modified bytecode, guards, breaks.

    `parts` selects from "graph", "bytecode", "guards", "breaks" and "steps"; `width` as in `events.wrapped`.
    """
    entered, original = recording.frame(frame).code, recording.original_code(frame)
    blocks: list[str] = []
    if "graph" in parts:
        blocks += [captured_otherwise(event) for event in recording.of_frame(frame, ev.CapturedOtherwise)]
        blocks += [graph(view) for view in recording.graphs if view.frame == frame]
    if "bytecode" in parts:
        continues = f", continues {original.qualname} {goes_on(entered, resumed_at(entered))}" if entered.resumes >= 0 else ""
        blocks.append(f"ORIGINAL BYTECODE {_place(entered)}{continues}\n{bytecode(original)}")
        modified = recording.modified_code(frame)
        if modified is not None:
            blocks.append(f"MODIFIED BYTECODE {_place(modified)}\n{bytecode(modified)}")
    if "guards" in parts and (installed := recording.final_guards(frame)):
        blocks.append(guards(installed))
    if "breaks" in parts:
        blocks += [break_report(recording, broke, width) for broke in recording.of_frame(frame, ev.GraphBroke)]
    if "steps" in parts:
        blocks.append(steps(recording, frame))
    blocks += [f"plain Python: {event.reason}" for event in recording.of_frame(frame, ev.FrameSkipped)]
    return "\n\n".join(blocks)


def captured_otherwise(event: ev.CapturedOtherwise) -> str:
    """The result of another capture method on the frame: its table, or why it failed."""
    return f"{event.method}\n{graph_table(event.nodes) if not event.failure else 'failed: ' + event.failure}"


def report(recording: Recording, width: int = ev.WIDTH) -> str:
    """Everything: explanation, frames, calls, and the debug printout of each frame; `width` as in `events.wrapped`."""
    blocks = [explanation(recording, width), "FRAMES\n" + frames(recording), "CALLS\n" + calls(recording)]
    if stacks := trie_lines(recording):
        blocks.append("STACKS\n" + "\n".join(stacks))
    if real_run_text := real_run.report(recording):
        blocks.append("REAL RUN\n" + real_run_text)
    blocks += [f"FRAME {entered.frame}\n\n{debug_printout(recording, entered.frame, width=width)}" for entered in recording.frames]
    return "\n\n".join(blocks)
