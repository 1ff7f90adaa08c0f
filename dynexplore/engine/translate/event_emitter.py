"""The structured trace of a translation: turns trackers and nodes into frozen events, and passes them to the recorder.

The idea: the engine emits an event through `ctx.emitter`, which is None when nobody records; only this file turns live
objects into plain text. PyTorch's counterpart is torch/_logging (`trace_structured`).

In: calls from the translator, code generation and the journal. Out: records of events.py, given to a `Recorder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine import events as ev
from dynexplore.engine.aliasing.lower import Lowered
from dynexplore.engine.bytecode import OPCODES, Instruction, Step, name_of_code
from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.graph.builder import FinishedGraph
from dynexplore.engine.graph.qualified_names import target_text
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.provenance.guards import GUARD_KINDS, Guard, Identity
from dynexplore.engine.provenance.sources import (
    ClosureSource,
    GlobalSource,
    GlobalsSource,
    LocalSource,
    Namer,
    PinnedSource,
    Source,
)
from dynexplore.engine.recorder import Recorder, deferred_event_sink
from dynexplore.engine.records import quick
from dynexplore.engine.specialization.tables import Specialization
from dynexplore.engine.translate.code_views import code_view, step_text
from dynexplore.engine.translate.contract.request import StepObserver
from dynexplore.engine.translate.dispatch import Handler, rule_text
from dynexplore.engine.translate.resume import resume_point
from dynexplore.engine.translate.symbolic_frame import NULL, NullVariable
from dynexplore.engine.variables.contract.base import VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

_BINDS = frozenset({"STORE_FAST", "DELETE_FAST", "STORE_DEREF", "LOAD_FAST", "LOAD_DEREF", "LOAD_FAST_AND_CLEAR"})

_MOVES = frozenset({
    "LOAD_FAST", "STORE_FAST", "LOAD_CONST", "JUMP", "RETURN_VALUE", *(row.name for row in OPCODES.values() if row.only_moves),
})  # fmt: skip
"""Steps that change no value: they move one, or none."""

_quick_view = quick(ev.ValueView)
_quick_step = quick(ev.InstructionStepped)
_quick_node = quick(ev.NodeAdded)
_quick_guard = quick(ev.GuardInstalled)
_quick_mutation = quick(ev.MutationRecorded)
_quick_entry = quick(ev.InlineEntered)
_quick_exit = quick(ev.InlineLeft)


class _Shown:
    """The view of a tracker that may change, and what it was made of."""

    __slots__ = ("length", "node", "number", "source", "text", "view")

    def __init__(self, number: int) -> None:
        self.number = number
        self.text = ""
        self.source: Source | None = None
        self.node: object = None
        self.length = 0
        self.view = ev.NULL_VIEW


class _Views(dict[VariableTracker, ev.ValueView]):
    """Tracker -> its view, as long as the tracker cannot have changed; a missing one is made by the emitter."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[VariableTracker], ev.ValueView]) -> None:
        super().__init__({NULL: ev.NULL_VIEW})
        self._make = make

    def __missing__(self, value: VariableTracker) -> ev.ValueView:
        view = self[value] = self._make(value)
        return view


class EventEmitter:
    """One per attempt that is watched."""

    def __init__(
        self, recorder: Recorder, frame_id: int, attempt: int, ctx: Interpreter, observer: StepObserver | None = None
    ) -> None:
        self.recorder = recorder
        self.observer = observer
        self.frame = frame_id
        self.attempt = attempt
        self.ctx = ctx
        self._note = deferred_event_sink(recorder)
        # trackers are the same when they are one object (and are asked by themselves: an audit hook may listen to `id`)
        self._views = _Views(self._view_of)
        self._view = self._views.__getitem__
        self._shown: dict[VariableTracker, _Shown] = {}
        self._shown_count = 0
        self._of_tensors: list[VariableTracker] = []  # in `_views` until the graph grows
        self._of_others: list[VariableTracker] = []  # in `_views` as long as steps of one frame move values
        self._length = 0  # of the graph, at this step
        self._stepped: SymbolicFrame | None = None  # the frame of the last step
        self._lines: dict[Step, tuple[int, int, str, str]] = {}  # offset, index, operator and operand of a step
        self._rules: dict[Handler | None, str] = {}
        self._seen: dict[tuple[SymbolicFrame, str], VariableTracker | None] = {}
        self._shown_locals: dict[tuple[SymbolicFrame, str], ev.ValueView] = {}  # last view of mutable locals
        self._changes_seen: dict[SymbolicFrame, int] = {}  # how many changes there were when they were looked at
        self._callees: dict[SymbolicFrame, tuple[int, int, int]] = {}  # frame -> (callee number, offset and inline of the call)
        self._guards = 0
        self._changes = 0
        self._root_stack: tuple[ev.ValueView, ...] | None = None
        self._specialized: dict[str, tuple[str, str]] = {}  # the latest decision about each source
        self._nodes: dict[str, None] = {}  # names of the nodes told so far

    # -- values

    def view(self, value: VariableTracker) -> ev.ValueView:
        """A value as records show it, in the middle of a step, which may have changed it."""
        return ev.NULL_VIEW if value is NULL else self._view_of(value)

    def _view_of(self, value: VariableTracker) -> ev.ValueView:
        """See `view`. While it cannot change, its view is found in `_views`, without coming here."""
        if value.text_changes == "never":  # it is shown by one record
            cached = self._views.get(value)
            if cached is not None:
                return cached
            self._shown_count += 1
            return self._views.setdefault(value, self._new_view(value, self._shown_count, value.text()))
        (self._of_tensors if value.text_changes == "with the graph" else self._of_others).append(value)
        shown = self._shown.get(value)
        if shown is None:
            self._shown_count += 1
            shown = self._shown[value] = _Shown(self._shown_count)
        elif not self._has_changed(value, shown):
            return shown.view
        shown.node, shown.text, shown.source = getattr(value, "node", None), value.text(), value.source
        shown.length = self._length
        shown.view = self._new_view(value, shown.number, shown.text)
        return shown.view

    @staticmethod
    def _new_view(value: VariableTracker, number: int, text: str) -> ev.ValueView:
        node = getattr(value, "node", None)
        source = value.source
        return _quick_view(
            number,
            type(value).__name__,
            ev.clip(ev.without_addresses(text)),
            source.text() if source is not None else "",
            node.name if isinstance(node, torch.fx.Node) else "",
        )

    def _has_changed(self, value: VariableTracker, shown: _Shown) -> bool:
        """Whether a tracker is no longer what its view was made of; most stay what they are for many steps."""
        if value.source is not shown.source or getattr(value, "node", None) is not shown.node:
            return True
        if value.text_changes == "with the graph" and shown.length == self._length:
            return False  # only an operator of the graph changes a tensor
        return value.text() != shown.text

    def _forget_views(self, length: int) -> None:
        """After a step: drop the views of what it may have changed. Only an operator of the graph changes a tensor."""
        if length != self._length:
            self._length = length
            for value in self._of_tensors:
                self._views.pop(value, None)
            self._of_tensors.clear()
        for value in self._of_others:
            self._views.pop(value, None)
        self._of_others.clear()

    def _place(self) -> tuple[int, int, int, int]:
        """Frame, attempt, and the innermost frame's position: offset and callee."""
        innermost = self.ctx.frames.innermost
        return self.frame, self.attempt, innermost.current.offset, self._inline_of(innermost)

    def _inline_of(self, frame: SymbolicFrame) -> int:
        return self._callees[frame][0] if frame in self._callees else 0

    # -- attempts and steps

    def attempt_started(self, stop_at: int = -1) -> None:
        """An attempt begins."""
        self.recorder.record(ev.AttemptStarted(frame=self.frame, attempt=self.attempt, stop_at=stop_at))
        if self.observer is not None:
            self.observer.attempt_started(self.frame, self.attempt, self.ctx)

    def restarted(self, graph_break: GraphBreak, at: Instruction) -> None:
        """The attempt is given up; the next one stops before this instruction."""
        self.recorder.record(ev.AttemptRestarted(
            frame=self.frame, attempt=self.attempt, offset=at.offset, reason=graph_break.reason))

    def attempt_abandoned(self, reason: str) -> None:
        """The attempt is discarded, and the next one starts from the beginning."""
        self.recorder.record(ev.AttemptRestarted(frame=self.frame, attempt=self.attempt, reason=reason))

    def stepping(self, frame: SymbolicFrame, step: Step) -> None:
        """One canonical step is about to be interpreted."""
        if self.observer is not None:
            self.observer.stepping(frame, step, len(self._callees))

    def stepped(self, frame: SymbolicFrame, step: Step, handler: Handler | None) -> None:
        """One canonical step was interpreted, by this handler."""
        inline = self._callees[frame][0] if frame in self._callees else 0
        if self.observer is not None:
            self.observer.stepped(frame, step, inline, len(self._callees))
        op = step.op
        length = self.ctx.graph.graph._len
        if length != self._length or (self._of_others and (op not in _MOVES or frame is not self._stepped)):
            self._forget_views(length)
        self._stepped = frame
        stack = tuple(map(self._view, frame.stack))
        if frame.parent is None:
            self._root_stack = stack
        rule = self._rules.get(handler)
        if rule is None:
            rule = self._rules[handler] = rule_text(handler)
        line = self._lines.get(step)
        if line is None:
            line = self._lines[step] = step.origin.offset, step.index, op, step_text(step)
        changed = self._changed_names(frame, step.arg) if op in _BINDS else ()
        if self._changes_seen.get(frame, 0) != self._changes:
            changed += self._changed_in_place(frame)
        offset, index, op, arg = line
        self._note((_quick_step, self.frame, index, op, self.attempt, offset, inline, arg, stack, changed, frame.depth, rule))
        if self.observer is not None:
            self.observer.record_contents(self.view)

    def _changed_names(self, frame: SymbolicFrame, name: str) -> tuple[tuple[str, ev.ValueView | None], ...]:
        """What a step that binds or reads a name has bound it to; nothing when it is bound to the same."""
        value = frame.locals.get(name)
        if value is None and name in frame.cells:
            value = frame.cells[name].content
        key = frame, name
        if key in self._seen and self._seen[key] is value:
            return ()
        self._seen[key] = value
        if value is None or isinstance(value, NullVariable):
            self._shown_locals.pop(key, None)
            return ((name, None),)
        view = self._view(value)
        if value.mutable:
            self._shown_locals[key] = view
        return ((name, view),)

    def _changed_in_place(self, frame: SymbolicFrame) -> tuple[tuple[str, ev.ValueView], ...]:
        """Locals that hold the same list, dict or object as before, which is another one now."""
        self._changes_seen[frame] = self._changes
        changed = []
        for name, value in frame.locals.items():
            shown_before = self._shown_locals.get((frame, name))
            if shown_before is not None and self._seen[frame, name] is value and (view := self.view(value)) is not shown_before:
                self._shown_locals[frame, name] = view
                changed.append((name, view))
        return tuple(changed)

    def inline_entered(self, frame: SymbolicFrame, caller: SymbolicFrame) -> None:
        """A callee is interpreted."""
        number = len(self._callees) + 1
        offset, inline = caller.current.offset, self._inline_of(caller)
        self._callees[frame] = number, offset, inline
        arguments = tuple([(name, self.view(value)) for name, value in frame.locals.items()])
        code = code_view(frame.parsed.code)
        self._note((_quick_entry, self.frame, number, code, self.attempt, offset, inline, arguments, frame.depth))

    def inline_left(self, frame: SymbolicFrame, how: str = "returned") -> None:
        """A callee returned, raised or broke."""
        number, offset, inline = self._callees[frame]
        result = self.view(frame.returned) if frame.returned is not None else None
        self._note((_quick_exit, self.frame, number, self.attempt, offset, inline, result, how))

    # -- what is found out

    def node_added(self, node: torch.fx.Node, ctx: Interpreter) -> None:
        """A node was added to the graph."""
        dtype, shape, device = tensor_words(node.meta.get("example_value"))
        self._nodes[node.name] = None
        innermost = ctx.frames.innermost
        current = innermost.current
        path = ctx.calls.module_path
        self._note((
            _quick_node, self.frame, "", node.name, node.op, target_text(node), self.attempt, current.offset,
            self._inline_of(innermost), *_operands(node), dtype, shape, device, path[-1][0] if path else "",
            shown_file(innermost.parsed.code.co_filename), current.lineno or 0,
        ))

    def guard_installed(self, guard: Guard, offset: int = -1) -> None:
        """A fact is relied on: by the instruction at hand, or by that of the root frame at `offset`."""
        self._guards += 1
        kind = GUARD_KINDS[guard.kind]
        frame, attempt, here, inline = self._place()
        if offset >= 0:
            here, inline = offset, 0
        self._note((
            _quick_guard, frame, self._guards - 1, scope_of(guard.source), _source_text(guard), guard.kind, attempt, here, inline,
            kind.describe(guard.expected), expression_of(guard), kind.meaning,
        ))

    def specialized(self, where: str, decision: Specialization) -> None:
        """It was decided how a size, number or object is specialized; each decision is recorded once."""
        kind, because = str(decision.kind), decision.because
        if self._specialized.get(where) == (kind, because):
            return
        self._specialized[where] = kind, because
        frame, attempt, offset, inline = self._place()
        self.recorder.record(ev.Specialized(
            frame=frame, attempt=attempt, offset=offset, inline=inline, source=where, kind=kind, because=because))

    def changed(self, tracker: VariableTracker, change: str) -> None:
        """A tracker changes; noted in the journal."""
        self._changes += 1
        frame, attempt, offset, inline = self._place()
        self._note((_quick_mutation, frame, self._changes - 1, self.view(tracker), change, attempt, offset, inline))

    def broke(self, graph_break: GraphBreak, frame: SymbolicFrame, *, nested: bool) -> None:
        """The graph ends before the current instruction of the root frame; `nested`: in a callee."""
        live = tuple((name, self.view(value)) for name, value in frame.locals.items())
        # the handler that gave up has taken its operands off already: the stack before it is that after the last step
        stack = tuple(map(self.view, frame.stack)) if self._root_stack is None else self._root_stack
        self.recorder.record(graph_break.event(
            frame=self.frame, attempt=self.attempt, offset=frame.current.offset, stack=stack,
            live_locals=live, operations=self.ctx.graph.call_count, nested=nested,
        ))

    # -- what is made

    def compiled(self, name: str, graph: FinishedGraph, lowered: Lowered, backend: str, seconds: float) -> None:
        """A graph came back from the backend."""
        module = graph.captured or graph.module
        nodes = list(module.graph.nodes)
        for node in nodes:
            if node.name not in self._nodes:  # made beside the translator: the output, a change of a global mode
                self._emit_late_node(node, name)
        self.recorder.record(ev.SubgraphCompiled(
            frame=self.frame, attempt=self.attempt, graph=name, backend=backend, node_count=len(nodes),
            op_count=graph.meta.op_count,
            inputs=tuple(entry.source.text() for entry in graph.inputs), outputs=tuple(node.name for node in graph.outputs),
            nodes=tuple(node.name for node in nodes), code=module.code.strip(), seconds=seconds,
            pieces=tuple(graph.pieces), ran_by=lowered.ran_by, because=lowered.because,
            lowerings=graph.lowerings, passes=lowered.passes, wrappers=lowered.wrappers,
        ))

    def _emit_late_node(self, node: torch.fx.Node, graph: str) -> None:
        file, line = node.meta.get("line", ("", 0))
        args, kwargs, inputs = _operands(node)
        self.recorder.record(ev.NodeAdded(
            frame=self.frame, attempt=self.attempt, offset=node.meta.get("offset", -1), graph=graph, name=node.name, op=node.op,
            target=target_text(node), args=args, kwargs=kwargs, inputs=inputs, file=file, line=line or 0,
        ))

    def code_emitted(
        self, code: CodeType, graphs: Sequence[str], resume_codes: Sequence[CodeType], objects: Iterable[tuple[str, object]] = ()
    ) -> None:
        """The modified code, the resume functions that it calls, and the live objects that it finds in local variables."""
        for resume in resume_codes:
            point = resume_point(resume)
            self.recorder.record(ev.ResumeFunctionCreated(
                frame=self.frame, attempt=self.attempt, offset=point.target.offset if point is not None else -1,
                name=name_of_code(resume), parameters=point.parameters if point is not None else (), code=code_view(resume),
            ))
        self.recorder.record(ev.CodeEmitted(
            frame=self.frame, attempt=self.attempt, code=code_view(code), graphs=tuple(graphs),
            resume_functions=tuple(map(name_of_code, resume_codes)),
            objects=tuple((name, _named(value)) for name, value in objects if name not in graphs),
        ))


def _named(value: Any) -> str:
    """What a live object is, in a few words; none of the program's code runs for it."""
    kind = type(value)
    if kind in (FunctionType, BuiltinFunctionType):
        return ev.clip(value.__qualname__)
    if issubclass(kind, type):
        return ev.clip(_qualname(value))
    return f"a {_qualname(kind)}"


_qualname: Callable[[Any], str] = vars(type)["__qualname__"].__get__


def _operands(node: torch.fx.Node) -> tuple[str, str, tuple[str, ...]]:
    """A node's arguments and keyword arguments as text, and the names of the nodes among them."""
    kwargs = ev.clip(str(node.kwargs)) if node.kwargs else "{}"
    return ev.clip(str(node.args)), kwargs, tuple([entry.name for entry in node._input_nodes])


def tensor_words(value: Any) -> tuple[str, str, str]:
    """dtype, shape and device of a node's value, as text; empty for what is no tensor."""
    if not isinstance(value, torch.Tensor):
        return "", "", ""
    return str(value.dtype).removeprefix("torch."), f"[{', '.join(map(str, value.shape))}]", str(value.device)


def scope_of(source: Source) -> str:
    """Where a path begins: "local", "global", "closure", or "" for the state of the process."""
    root = source.root()
    if isinstance(root, PinnedSource):
        root = root.origin.root()
    for kind, scope in ((LocalSource, "local"), (ClosureSource, "closure"), (GlobalSource, "global")):
        if isinstance(root, kind):
            return scope
    return "" if isinstance(root, GlobalsSource) else "global"


def _source_text(guard: Guard) -> str:
    """What a guard is about; nothing for the state of the process."""
    return "" if guard.kind == "GLOBAL_STATE" else guard.source.text()


class _Readable(Namer):
    def name(self, value: object) -> str:
        return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__)


def expression_of(guard: Guard) -> str:
    """The check of a guard as Python, for reading."""
    if guard.kind in ("TENSOR_MATCH", "SHAPE_ENV", "GLOBAL_STATE", "MODULE_STATE"):
        return ""
    expected = guard.expected
    if isinstance(expected, Identity):
        return f"{guard.source.text()} is <{expected.text}>"  # like a repr: the object itself has no name that all know
    if isinstance(expected, Source):
        expected = expected.text()
    elif isinstance(expected, list) and all(isinstance(other, Source) for other in expected):
        expected = [other.text() for other in expected]
    return ev.clip(GUARD_KINDS[guard.kind].condition(guard.source.text(), expected, _Readable()))
