"""The structured trace of a translation: converts trackers and nodes to immutable events, and passes them to the recorder.

The idea: the engine emits an event through `ctx.emitter`, which is None if nothing is recorded; only this file converts live
objects to plain text.

In: calls from the translator, code generation and the journal. Out: records of events.py, passed to a `Recorder`.
PyTorch's counterpart: `trace_structured` in torch/_logging.
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
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.graph.qualified_names import target_text
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.policy.calling_line import caller_of
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
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.engine.variables.contract.context import TraceContext

_BINDS = frozenset({"STORE_FAST", "DELETE_FAST", "STORE_DEREF", "LOAD_FAST", "LOAD_DEREF", "LOAD_FAST_AND_CLEAR"})

_MOVES = frozenset({
    "LOAD_FAST", "STORE_FAST", "LOAD_CONST", "JUMP", "RETURN_VALUE", *(row.name for row in OPCODES.values() if row.only_moves),
})  # fmt: skip
"""Steps that mutate no value: they move one, or do nothing."""

_quick_view = quick(ev.ValueView)
_quick_step = quick(ev.InstructionStepped)
_quick_node = quick(ev.NodeAdded)
_quick_guard = quick(ev.GuardInstalled)
_quick_mutation = quick(ev.MutationRecorded)
_quick_entry = quick(ev.InlineEntered)
_quick_exit = quick(ev.InlineLeft)


class _Shown:
    """The view of a tracker that may change, and the state it was made from."""

    __slots__ = ("length", "node", "number", "source", "text", "view")

    def __init__(self, number: int) -> None:
        self.number = number
        self.text = ""
        self.source: Source | None = None
        self.node: object = None
        self.length = 0
        self.view = ev.NULL_VIEW


class _Views(dict[VariableTracker, ev.ValueView]):
    """Tracker -> its view, as long as the tracker cannot have changed; the emitter makes a missing one."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[VariableTracker], ev.ValueView]) -> None:
        super().__init__({NULL: ev.NULL_VIEW})
        self._make = make

    def __missing__(self, value: VariableTracker) -> ev.ValueView:
        view = self[value] = self._make(value)
        return view


class EventEmitter:
    """One per recorded attempt."""

    def __init__(
        self, recorder: Recorder, frame_id: int, attempt: int, ctx: TraceContext, innermost: Callable[[], SymbolicFrame],
        observer: StepObserver | None = None,
    ) -> None:  # fmt: skip
        self.recorder = recorder
        self.observer = observer
        self.frame = frame_id
        self.attempt = attempt
        self.ctx = ctx
        self._innermost = innermost  # the frame that is being interpreted
        self._note = deferred_event_sink(recorder)
        # keyed on the trackers themselves, which compare by identity: an audit hook may observe calls of `id`
        self._views = _Views(self._view_of)
        self._view = self._views.__getitem__
        self._shown: dict[VariableTracker, _Shown] = {}
        self._shown_count = 0
        self._of_tensors: list[VariableTracker] = []  # in `_views` until the graph grows
        self._of_others: list[VariableTracker] = []  # in `_views` while steps of one frame only move values
        self._length = 0  # of the graph, at this step
        self._stepped: SymbolicFrame | None = None  # the frame of the last step
        self._lines: dict[Step, tuple[int, int, str, str]] = {}  # offset, index, operator and operand of a step
        self._rules: dict[Handler | None, str] = {}
        self._seen: dict[tuple[SymbolicFrame, str], VariableTracker | None] = {}
        self._shown_locals: dict[tuple[SymbolicFrame, str], ev.ValueView] = {}  # last view of mutable locals
        self._changes_seen: dict[SymbolicFrame, int] = {}  # how many changes there were at the last look
        self._callees: dict[SymbolicFrame, tuple[int, int, int]] = {}  # frame -> (callee number, offset and inline of the call)
        self._guards = 0
        self._changes = 0
        self._root_stack: tuple[ev.ValueView, ...] | None = None
        self._specialized: dict[str, tuple[str, str]] = {}  # the latest decision about each source
        self._nodes: dict[str, None] = {}  # names of the nodes emitted so far

    # -- values

    def view(self, value: VariableTracker) -> ev.ValueView:
        """The view of a value in the middle of a step, which may have mutated it."""
        return ev.NULL_VIEW if value is NULL else self._view_of(value)

    def _view_of(self, value: VariableTracker) -> ev.ValueView:
        """Make the view of a value. While the value cannot change, `_views` returns the view without this call."""
        if value.text_changes == "never":  # one record shows it for good
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
        """Whether a tracker has changed since its view was made; most do not change for many steps."""
        if value.source is not shown.source or getattr(value, "node", None) is not shown.node:
            return True
        if value.text_changes == "with the graph" and shown.length == self._length:
            return False  # only an operator of the graph changes a tensor
        return value.text() != shown.text

    def _forget_views(self, length: int) -> None:
        """Drop the views of what a step may have mutated. Only an operator of the graph mutates a tensor."""
        if length != self._length:
            self._length = length
            for value in self._of_tensors:
                self._views.pop(value, None)
            self._of_tensors.clear()
        for value in self._of_others:
            self._views.pop(value, None)
        self._of_others.clear()

    def _position(self) -> tuple[int, int, int, int]:
        """The current frame, attempt, and the innermost frame's position: offset and callee."""
        innermost = self._innermost()
        return self.frame, self.attempt, innermost.current.offset, self._inline_of(innermost)

    def _inline_of(self, frame: SymbolicFrame) -> int:
        return self._callees[frame][0] if frame in self._callees else 0

    # -- attempts and steps

    def attempt_started(self, stop_at: int = -1) -> None:
        """Emit that an attempt begins."""
        self.recorder.record(ev.AttemptStarted(frame=self.frame, attempt=self.attempt, stop_at=stop_at))
        if self.observer is not None:
            self.observer.attempt_started(self.frame, self.attempt, self.ctx, self._innermost)

    def restarted(self, graph_break: GraphBreak, at: Instruction) -> None:
        """Emit that the attempt is abandoned; the next one stops before this instruction."""
        self.recorder.record(ev.AttemptRestarted(
            frame=self.frame, attempt=self.attempt, offset=at.offset, reason=graph_break.reason))

    def attempt_abandoned(self, reason: str) -> None:
        """Emit that the attempt is discarded; the next one starts from the beginning."""
        self.recorder.record(ev.AttemptRestarted(frame=self.frame, attempt=self.attempt, reason=reason))

    def stepping(self, frame: SymbolicFrame, step: Step) -> None:
        """Note that one canonical step is about to be interpreted."""
        if self.observer is not None:
            self.observer.stepping(frame, step, len(self._callees))

    def stepped(self, frame: SymbolicFrame, step: Step, handler: Handler | None) -> None:
        """Emit that this handler has interpreted one canonical step."""
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
        """The new binding of a name that a step binds or reads; empty if it is unchanged."""
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
        """Locals that refer to the same list, dict or object as before, which has been mutated."""
        self._changes_seen[frame] = self._changes
        changed = []
        for name, value in frame.locals.items():
            shown_before = self._shown_locals.get((frame, name))
            if shown_before is not None and self._seen[frame, name] is value and (view := self.view(value)) is not shown_before:
                self._shown_locals[frame, name] = view
                changed.append((name, view))
        return tuple(changed)

    def inline_entered(self, frame: SymbolicFrame, caller: SymbolicFrame) -> None:
        """Emit that a callee is about to be interpreted."""
        number = len(self._callees) + 1
        offset, inline = caller.current.offset, self._inline_of(caller)
        self._callees[frame] = number, offset, inline
        arguments = tuple([(name, self.view(value)) for name, value in frame.locals.items()])
        code = code_view(frame.parsed.code)
        self._note((_quick_entry, self.frame, number, code, self.attempt, offset, inline, arguments, frame.depth))

    def inline_left(self, frame: SymbolicFrame, how: str = "returned") -> None:
        """Emit that a callee returned, raised or broke."""
        number, offset, inline = self._callees[frame]
        result = self.view(frame.returned) if frame.returned is not None else None
        self._note((_quick_exit, self.frame, number, self.attempt, offset, inline, result, how))

    # -- nodes, guards, side effects, breaks

    def node_added(self, node: torch.fx.Node) -> None:
        """Emit that a node was added to the graph."""
        dtype, shape, device = tensor_words(node.meta.get("example_value"))
        self._nodes[node.name] = None
        innermost = self._innermost()
        current = innermost.current
        path = self.ctx.calls.module_path
        self._note((
            _quick_node, self.frame, "", node.name, node.op, target_text(node), self.attempt, current.offset,
            self._inline_of(innermost), *_operands(node), dtype, shape, device, path[-1][0] if path else "",
            shown_file(innermost.parsed.code.co_filename), current.lineno or 0,
        ))

    def guard_installed(self, guard: Guard, offset: int = -1) -> None:
        """Emit a guard, attributed to the current instruction, or to the root frame's instruction at `offset`."""
        self._guards += 1
        kind = GUARD_KINDS[guard.kind]
        frame, attempt, here, inline = self._position()
        if offset >= 0:
            here, inline = offset, 0
        self._note((
            _quick_guard, frame, self._guards - 1, scope_of(guard.source), _source_text(guard), guard.kind, attempt, here, inline,
            kind.describe(guard.expected), expression_of(guard), kind.meaning,
        ))

    def specialized(self, where: str, decision: Specialization) -> None:
        """Emit how a size, number or object is specialized; each decision is recorded once."""
        kind, because = str(decision.kind), decision.because
        if self._specialized.get(where) == (kind, because):
            return
        self._specialized[where] = kind, because
        frame, attempt, offset, inline = self._position()
        self.recorder.record(ev.Specialized(
            frame=frame, attempt=attempt, offset=offset, inline=inline, source=where, kind=kind, because=because))

    def changed(self, tracker: VariableTracker, change: str) -> None:
        """Emit that a tracker is mutated, as noted in the journal."""
        self._changes += 1
        frame, attempt, offset, inline = self._position()
        self._note((_quick_mutation, frame, self._changes - 1, self.view(tracker), change, attempt, offset, inline))

    def broke(self, graph_break: GraphBreak, frame: SymbolicFrame, *, nested: bool) -> None:
        """Emit a graph break before the current instruction of the root frame; `nested`: in a callee."""
        live = tuple((name, self.view(value)) for name, value in frame.locals.items())
        # the failed handler has popped its operands already: the stack before it is the stack after the last step
        stack = tuple(map(self.view, frame.stack)) if self._root_stack is None else self._root_stack
        self.recorder.record(graph_break.event(
            frame=self.frame, attempt=self.attempt, offset=frame.current.offset, stack=stack,
            live_locals=live, operations=self.ctx.graph.call_count, nested=nested, caller=caller_of(graph_break.user_stack),
        ))

    # -- results

    def compiled(self, name: str, graph: FinishedGraph, lowered: Lowered, backend: str, seconds: float) -> None:
        """Emit that the backend has compiled a graph."""
        module = graph.captured or graph.module
        nodes = list(module.graph.nodes)
        for node in nodes:
            if node.name not in self._nodes:  # not made by the translator: the output, a change of a global mode
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
        """Emit the modified code, the resume functions that it calls, and its injected locals."""
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
    """A short description of a live object; runs no user code."""
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
    """dtype, shape and device of a node's value, as text; empty for a value that is not a tensor."""
    if not isinstance(value, torch.Tensor):
        return "", "", ""
    return str(value.dtype).removeprefix("torch."), f"[{', '.join(map(str, value.shape))}]", str(value.device)


def scope_of(source: Source) -> str:
    """The root of a source: "local", "global", "closure", or "" for the state of the process."""
    root = source.root()
    if isinstance(root, PinnedSource):
        root = root.origin.root()
    for kind, scope in ((LocalSource, "local"), (ClosureSource, "closure"), (GlobalSource, "global")):
        if isinstance(root, kind):
            return scope
    return "" if isinstance(root, GlobalsSource) else "global"


def _source_text(guard: Guard) -> str:
    """The source of a guard as text; "" for the state of the process."""
    return "" if guard.kind == "GLOBAL_STATE" else guard.source.text()


class _Readable(Namer):
    def name(self, value: object) -> str:
        return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__)


def expression_of(guard: Guard) -> str:
    """The check of a guard as readable Python."""
    if guard.kind in ("TENSOR_MATCH", "SHAPE_ENV", "GLOBAL_STATE", "MODULE_STATE"):
        return ""
    expected = guard.expected
    if isinstance(expected, Identity):
        return f"{guard.source.text()} is <{expected.text}>"  # like a repr: the object has no well-known name
    if isinstance(expected, Source):
        expected = expected.text()
    elif isinstance(expected, list) and all(isinstance(other, Source) for other in expected):
        expected = [other.text() for other in expected]
    return ev.clip(GUARD_KINDS[guard.kind].condition(guard.source.text(), expected, _Readable()))
