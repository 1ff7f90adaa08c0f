"""The states of a recording: a pure fold over its events, with one state per moment at which the explorer can stop.

The idea: events record *changes*; a person wants to see *states*. `states(events)` replays the events of all frames in order
and creates, for each moment (an instruction stepped, a callee entered or left, an attempt started, a break, code emitted, a
cache hit, ...), a state with the whole symbolic stack and all locals of the current function, the items created since the
previous moment, and the difference in stack and locals. Stepping back is then a lookup of a smaller number. Other events of a
frame (nodes, guards, mutations) belong to its next moment. If steps were not recorded (torch.compile does not report them),
each node is a moment, so that the graph still grows.

In: a Recording, or any iterable of events. Out: `Timeline`: the states, and the step that created a node, guard or break.
PyTorch's counterpart: none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from dynexplore.engine import events as ev
from dynexplore.engine.records import quick
from dynexplore.recording.recording import Recording, continued

Stack = tuple[ev.ValueView, ...]
Locals = tuple[tuple[str, ev.ValueView], ...]

MOMENTS = (
    ev.FrameEntered,
    ev.FrameSkipped,
    ev.FrameFinished,
    ev.AttemptStarted,
    ev.AttemptRestarted,
    ev.InstructionStepped,
    ev.InlineEntered,
    ev.InlineLeft,
    ev.GraphBroke,
    ev.SubgraphCompiled,
    ev.CodeEmitted,
    ev.CacheHit,
    ev.Recompiled,
    ev.CacheLimitReached,
    ev.GraphRan,
    ev.BackendFailed,
    ev.EngineFailed,
)
"""The events that create a state."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of a state from the previous one in the same function: stack slots and locals.

    `changed` contains (name, value before or None, value after or None).
    """

    popped: Stack = ()
    pushed: Stack = ()
    changed: tuple[tuple[str, ev.ValueView | None, ev.ValueView | None], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.popped or self.pushed or self.changed)


@dataclass(frozen=True, slots=True)
class State:
    """The state at one moment.

    `number` counts the states, `position` the events. `calls` is the path from the frame to the current callee: the numbers of the
    inlined callees, outermost first, () in the frame itself. `before` is the stack and the locals before an instruction (None: not
    an instruction, or its function is unknown). `caused` are the events since the previous moment. `node_count` and `guard_count`
    are those of the attempt so far.
    """

    number: int
    position: int
    event: ev.Event
    code: ev.CodeView | None = None
    offset: int = -1
    calls: tuple[int, ...] = ()
    stack: Stack = ()
    locals: Locals = ()
    before: tuple[Stack, Locals] | None = None
    caused: tuple[ev.Event, ...] = ()
    node_count: int = 0
    guard_count: int = 0

    @property
    def difference(self) -> Difference:
        """The effect of the instruction, computed on demand because most are never read."""
        if self.before is None or not isinstance(self.event, ev.InstructionStepped):
            return Difference()
        stack, named = self.before
        same = common(stack, self.stack)
        names = dict(named)
        changed = []
        for name, value in self.event.changed:
            changed.append((name, names.get(name), value))
            names.pop(name, None) if value is None else names.update({name: value})
        return Difference(stack[same:], self.stack[same:], tuple(changed))

    @property
    def frame(self) -> int:
        """The frame this moment belongs to."""
        return self.event.frame

    @property
    def attempt(self) -> int:
        """The attempt this moment belongs to, 0 outside of translation."""
        return self.event.attempt

    @property
    def nodes(self) -> tuple[ev.NodeAdded, ...]:
        """The nodes that were created since the previous moment."""
        return tuple(event for event in self.caused if isinstance(event, ev.NodeAdded))

    @property
    def guards(self) -> tuple[ev.GuardInstalled, ...]:
        """The guards that were installed since the previous moment."""
        return tuple(event for event in self.caused if isinstance(event, ev.GuardInstalled))

    @property
    def line(self) -> int:
        """The line of the current function that this moment belongs to; 0 if unknown."""
        return line_of(self.event, self.code)

    @property
    def source_span(self) -> tuple[int, int, int, int] | None:
        """(line, column, end line, end column) of the current instruction in the source; None if unknown."""
        if self.code is None:
            return None
        for row in self.code.rows:
            if row.offset == self.offset and row.line > 0:
                return row.line, row.column, row.end_line, row.end_column
        return None


def line_of(event: ev.Event, code: ev.CodeView | None) -> int:
    """The line of `code` that an event belongs to: that of its instruction, or its own; 0 if there is none.

    torch.compile reports the user's line of a node or a break, and no instruction.
    """
    if code is None:
        return 0
    if isinstance(event, ev.InlineEntered):
        return code.first_line
    offset = getattr(event, "offset", -1)
    if offset >= 0 and not _is_nested_break(event):  # whose instruction is the call in the frame
        return next((row.line for row in code.rows if row.offset == offset), 0)
    named = [(event.file, event.line)] if isinstance(event, ev.NodeAdded) else []
    if isinstance(event, ev.GraphBroke):
        named = [(frame.file, frame.line) for frame in reversed(event.user_stack)]
    lines = range(code.first_line, code.first_line + max(1, len(code.source.splitlines())))
    return next((line for file, line in named if file == code.file and line in lines), 0)


def _is_nested_break(event: ev.Event) -> bool:
    """Whether a graph breaks in a callee of the frame that reports it."""
    return isinstance(event, ev.GraphBroke) and event.nested and len(event.user_stack) > 1


@dataclass(slots=True)
class _Function:
    """The current function during the fold: a frame, or an inlined callee, with its stack and locals so far. `offset` is that of
    its last instruction.
    """

    code: ev.CodeView
    calls: tuple[int, ...] = ()
    stack: Stack = ()
    locals: dict[str, ev.ValueView] = field(default_factory=dict)
    named: Locals | None = None  # the locals in the form of a state: most steps do not change them
    offset: int = -1

    def all_locals(self) -> Locals:
        if self.named is None:
            self.named = tuple(self.locals.items())
        return self.named


@dataclass(slots=True)
class _Frame:
    """The state of one frame during the fold."""

    code: ev.CodeView | None = None
    arguments: Locals = ()
    functions: dict[int, _Function] = field(default_factory=dict)
    pending: list[ev.Event] = field(default_factory=list)
    node_count: int = 0
    guard_count: int = 0

    def begin(self) -> None:
        """Begin a new attempt: only code and arguments are kept from the previous one."""
        self.node_count = self.guard_count = 0
        self.functions = {}
        if self.code is not None:
            self.functions[0] = _Function(self.code, locals=dict(self.arguments))


class Timeline:
    """The states of a recording, and the state at which an item was created.

    A Timeline is a sequence: `timeline[12]`, `len(timeline)`, iteration.
    """

    def __init__(self, events: Iterable[ev.Event]) -> None:
        self.events = tuple(events)
        nodes_too = isinstance(events, Recording) and not events.steps
        self.states: tuple[State, ...] = tuple(states(self.events, nodes_too=nodes_too))

    @functools.cached_property
    def _number_at(self) -> dict[int, int]:
        return _numbers(self.events, {state.position: state.number for state in self.states})

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, number: int) -> State:
        return self.states[number]

    def __iter__(self) -> Iterator[State]:
        return iter(self.states)

    def of_frame(self, frame: int) -> tuple[State, ...]:
        """The states of one frame, in order."""
        return tuple(state for state in self.states if state.frame == frame)

    def by_frame(self) -> dict[int, list[State]]:
        """The states of each frame that has any, in order."""
        frames: dict[int, list[State]] = {}
        for state in self.states:
            frames.setdefault(state.frame, []).append(state)
        return frames

    def of_event(self, position: int) -> State | None:
        """The state that the event at `position` of the recording belongs to: its own, or the next of its frame."""
        number = self._number_at.get(position)
        return None if number is None else self.states[number]

    def step_of_node(self, frame: int, name: str) -> State | None:
        """The state in which a node of a frame's final attempt was created."""
        return self._last(lambda state: state.frame == frame and any(node.name == name for node in state.nodes))

    def step_of_guard(self, frame: int, index: int) -> State | None:
        """The state in which a guard of a frame's final attempt was installed."""
        return self._last(lambda state: state.frame == frame and any(guard.index == index for guard in state.guards))

    def steps_of_break(self) -> tuple[State, ...]:
        """The states at which a graph broke."""
        return tuple(state for state in self.states if isinstance(state.event, ev.GraphBroke))

    def _last(self, condition: Callable[[State], bool]) -> State | None:
        return next((state for state in reversed(self.states) if condition(state)), None)


def _numbers(events: tuple[ev.Event, ...], moments: dict[int, int]) -> dict[int, int]:
    """Event position -> number of the state it belongs to; events after the last moment of a frame have none."""
    numbers: dict[int, int] = {}
    pending: dict[int, list[int]] = {}
    for position, event in enumerate(events):
        waiting = pending.setdefault(event.frame, [])
        waiting.append(position)
        if position in moments:
            numbers.update(dict.fromkeys(waiting, moments[position]))
            waiting.clear()
    return numbers


def states(events: Iterable[ev.Event], *, nodes_too: bool = False) -> Iterator[State]:
    """Yield the state at each moment of `events`, in order; with `nodes_too` each node is also a moment."""
    moments = {*MOMENTS, ev.NodeAdded} if nodes_too else {*MOMENTS}
    frames: dict[int, _Frame] = {}
    codes: dict[int, ev.CodeView] = {}
    number = 0
    for position, event in enumerate(events):
        frame = frames.get(event.frame) or frames.setdefault(event.frame, _Frame())
        kind = type(event)
        if isinstance(event, (ev.FrameEntered, ev.InlineEntered)):
            codes.setdefault(event.code.id, event.code)
        elif kind is ev.NodeAdded:
            frame.node_count += 1
            frame.pending.append(event)
        elif kind not in moments:
            frame.guard_count += kind is ev.GuardInstalled
            frame.pending.append(event)
        if kind in moments:
            yield _state(number, position, event, frame, codes)
            number += 1


def _state(number: int, position: int, event: ev.Event, frame: _Frame, codes: dict[int, ev.CodeView]) -> State:
    before = _apply(event, frame, codes)
    function = _function_of(event, frame)
    caused, frame.pending = tuple(frame.pending), []
    return _new_state(
        number,
        position,
        event,
        code=function.code if function else frame.code,
        offset=_offset_of(event, function),
        calls=function.calls if function else (),
        stack=function.stack if function else (),
        locals=_locals_of(function, frame) if function else (),
        before=before,
        caused=caused,
        node_count=frame.node_count,
        guard_count=frame.guard_count,
    )


def _locals_of(function: _Function, frame: _Frame) -> Locals:
    """The locals of the current function; if it ran no instruction since a break in it, those that the frame resumed with."""
    resumed = frame.functions.get(0)
    if function.offset >= 0 or not function.calls or resumed is None:
        return function.all_locals()
    name = function.code.qualname.rpartition(".")[2]
    return tuple((local, resumed.locals.get(f"{name}:{local}", view)) for local, view in function.all_locals())


def _offset_of(event: ev.Event, function: _Function | None) -> int:
    """The instruction of an event; for a break in a callee the callee's last one, -1 if it has run none."""
    is_in_callee = function is not None and function.calls and _is_nested_break(event)
    return function.offset if function is not None and is_in_callee else getattr(event, "offset", -1)


_new_state = quick(State)  # there are as many as instructions


def _function_of(event: ev.Event, frame: _Frame) -> _Function | None:
    """The current function after the event: for an entered callee, the callee; for a left one, the caller; for a break in a callee,
    that callee.
    """
    if isinstance(event, ev.InlineEntered):
        return frame.functions.get(event.callee)
    if isinstance(event, ev.GraphBroke) and _is_nested_break(event):
        inner = event.user_stack[-1]
        callees = reversed(frame.functions.values())  # those that were left are gone
        at = (inner.file, inner.line)
        broken = next((callee for callee in callees if (callee.code.file, line_of(event, callee.code)) == at), None)
        return broken or frame.functions.get(event.inline)
    return frame.functions.get(getattr(event, "inline", 0))


def _apply(event: ev.Event, frame: _Frame, codes: dict[int, ev.CodeView]) -> tuple[Stack, Locals] | None:
    """Update `frame` with one event, and return the stack and the locals before an instruction."""
    if isinstance(event, ev.InstructionStepped):  # first, because most events are steps
        function = frame.functions.get(event.inline)
        return _step(event, function) if function is not None else None
    if isinstance(event, ev.FrameEntered):
        frame.code, frame.arguments = continued(event.code, codes), event.arguments
        frame.begin()
    elif isinstance(event, ev.AttemptStarted):
        frame.begin()
    elif isinstance(event, ev.InlineEntered):
        caller = frame.functions.get(event.inline)
        calls = (*(caller.calls if caller else ()), event.callee)
        frame.functions[event.callee] = _Function(event.code, calls, locals=dict(event.arguments))
    elif isinstance(event, ev.InlineLeft):
        frame.functions.pop(event.callee, None)
    elif isinstance(event, ev.GraphBroke) and event.stack and (function := frame.functions.get(event.inline)):
        function.stack = event.stack
    return None


def _step(event: ev.InstructionStepped, function: _Function) -> tuple[Stack, Locals]:
    before = function.stack, function.all_locals()
    function.offset = event.offset
    if event.changed:
        function.named = None
        for name, value in event.changed:
            function.locals.pop(name, None) if value is None else function.locals.update({name: value})
    function.stack = event.stack
    return before


def common(before: Stack, after: Stack) -> int:
    """The number of slots, from the bottom up, that are equal in two stacks."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((slot for slot, (old, new) in pairs if old is not new and old != new), min(len(before), len(after)))
