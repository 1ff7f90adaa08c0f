"""One attempt of torch.compile at a frame: what is seen while it goes on, kept until it can be told in order.

Which idea lives here: torch steps through the instructions of a function; nodes, guards and inlined calls come up in between.
Their place is the instruction at hand. Some of it is known only later: how a guard is checked, when all guards are built; the name
of a graph, when it is handed to the backend. So the attempt keeps short rows while torch works, and tells them in order at its
end. What a row says of an object of torch is read at once, for these change; words are made of it when the recording is read, and
hold nothing of torch.

Our own steps show the stack after an instruction. A step of torch is watched from outside: the stack is read when it returns.

In:  `before_step`, `after_step`, `raised`, `node`, and the moments of `listener.py`.
Out: `tell(recording, frame)`: the events of the attempt, in order.

PyTorch's counterpart: `InstructionTranslatorBase` in torch/_dynamo/symbolic_convert.py, which is what is watched.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.traces.torch_words import plain_source
from dynexplore.watching import private_torch
from dynexplore.watching.codes import Codes, Rows
from dynexplore.watching.guard_tree import GuardTree
from dynexplore.watching.looks import Looks

Place = tuple[int, int]
"""Inlined callee (0: the frame itself), and offset in its code (-1: none)."""

Named = tuple[tuple[str, ev.ValueView], ...]

_NOWHERE: Place = (0, -1)

_MADE_UP = ("___", "__nested_", "__is_tracing_resume")


@dataclass(slots=True)
class _Callee:
    """A function that is traced: the frame's own, or one inlined in it. `rows`: the row of each instruction, by torch's offset."""

    translator: Any
    number: int
    depth: int
    called_from: Place
    rows: Rows


@dataclass(slots=True)
class Moment:
    """An instruction at hand, and the place that was before it: that of the call, where it is the first of a callee."""

    hand: _Callee
    instruction: Any
    before: Place


@dataclass(frozen=True, slots=True)
class _Row:
    """Something seen: a node or a guard of torch that is described later."""

    place: Place
    thing: Any


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A graph was compiled: nodes that nobody saw being made are told before it."""

    made: Callable[..., ev.SubgraphCompiled]


class Values:
    """The records of the trackers of one attempt: the same number for the same tracker, made again only where it may change.

    torch gives a node another name when its value is stored in a local. So records are read with the name of the moment, and told
    with the last one: `now`, `stack_now`, `named_now`.
    """

    def __init__(self) -> None:
        self._views: dict[int, tuple[Any, int, ev.ValueView, bool]] = {}  # holds the tracker, so that its id is not used again
        self._nodes: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._now: dict[int, tuple[ev.ValueView, ev.ValueView]] = {}

    def view(self, tracker: Any) -> ev.ValueView:
        """The record of a tracker as it is now."""
        key = id(tracker)
        known = self._views.get(key)
        if known is not None and known[3]:
            return known[2]
        number = known[1] if known is not None else len(self._views) + 1
        kind, text, source, node = private_torch.tracker_words(tracker)
        name = "" if node is None else node.name
        if name:
            self._nodes[name] = node
        view = ev.NULL_VIEW if kind == "NULL" else ev.ValueView(number, kind, text, source, name)
        if known is not None and known[2] == view:
            view = known[2]
        self._views[key] = tracker, number, view, private_torch.is_settled(tracker)
        return view

    def stack(self, trackers: list[Any]) -> tuple[ev.ValueView, ...]:
        """The records of a whole stack, bottom first."""
        return tuple([self.view(one) for one in trackers])

    def named(self, trackers: Mapping[str, Any]) -> Named:
        """The records of locals. Names that torch made up are left out."""
        return tuple([(name, self.view(one)) for name, one in trackers.items() if not name.startswith(_MADE_UP)])

    def close(self) -> None:
        """The attempt is over: forget the trackers, keep which nodes have another name in the end."""
        self._names = {name: node.name for name, node in self._nodes.items() if node.name != name}
        self._views.clear()
        self._nodes.clear()

    def now(self, view: ev.ValueView) -> ev.ValueView:
        """A record with the name that its node has in the end."""
        name = self._names.get(view.node)
        if name is None:
            return view
        known = self._now.get(id(view))
        if known is None:
            known = self._now[id(view)] = view, dataclasses.replace(view, node=name)
        return known[1]

    def stack_now(self, stack: tuple[ev.ValueView, ...]) -> tuple[ev.ValueView, ...]:
        """The same for a whole stack."""
        return tuple([self.now(view) for view in stack])

    def named_now(self, named: Named) -> Named:
        """The same for locals."""
        return tuple([(name, self.now(view)) for name, view in named])


class Attempt:
    """See the head of this file."""

    def __init__(self, number: int, code: types.CodeType, codes: Codes, looks: Looks) -> None:
        self.number = number
        self.tree: GuardTree | None = None
        self.values = Values()
        self.graph = ""
        self.failed_at: tuple[Place, tuple[ev.ValueView, ...]] | None = None
        self._has_guards = False
        self._told_guards: list[str] = []
        self._codes = codes
        self._look = looks
        self._code = code
        self._rows: list[_Row | _Compiled | Callable[[int], ev.Event]] = []
        self._facts: dict[str, private_torch.NodeFacts] = {}
        self._hand: list[_Callee] = []
        self._running: list[_Callee] = []  # those with an instruction that has not returned yet
        self._callees = 0
        self._place: Place = _NOWHERE
        self._broken: Any = None
        self._end: Callable[[int], ev.Event] | None = None
        self._guards: set[Any] = set()
        self._guard_count = -1

    # -- while torch works -----------------------------------------------------------------------------------------------

    def before_step(self, translator: Any) -> Moment | None:
        """torch is about to interpret an instruction; what `after_step` or `raised` wants. None: there is no instruction left."""
        hand = self._hand_of(translator)
        at = translator.instruction_pointer
        if at is None:
            return None
        instruction = translator.instructions[at]
        moment = Moment(hand, instruction, self._place)
        self._running.append(hand)
        self._place = hand.number, self._offset(hand, instruction.offset)
        return moment

    def after_step(self, moment: Moment) -> None:
        """It has been interpreted."""
        self._running.pop()
        self._stepped(moment.hand, moment.instruction)
        self._place = moment.before

    def raised(self, moment: Moment) -> None:
        """It raised: the innermost instruction that did is where the attempt fails."""
        self._running.pop()
        if self.failed_at is None:
            self.failed_at = self._place, self.values.stack(moment.hand.translator.stack)
        self._place = moment.before

    def _offset(self, hand: _Callee, offset: int | None) -> int:
        row = None if offset is None else hand.rows.get(offset)
        return -1 if row is None else row.offset

    def _hand_of(self, translator: Any) -> _Callee:
        """The function at hand: that of the step before, or one that the instruction which is still running has just called.

        What was called and is not at hand any more has been left. A generator that goes on is entered again.
        """
        caller = self._running[-1] if self._running else None
        while len(self._hand) > 1 and self._hand[-1] is not caller and self._hand[-1].translator is not translator:
            self._leave(self._hand.pop())
        if not self._hand or self._hand[-1].translator is not translator:
            self._enter(translator)
        return self._hand[-1]

    def _enter(self, translator: Any) -> None:
        if not self._hand:
            self._hand.append(_Callee(translator, 0, 0, _NOWHERE, self._codes.told_rows(translator.f_code)))
            self._note_guards(translator)
            return
        self._callees += 1
        depth = len(self._hand)
        code, arguments = self._codes.view_of(translator.f_code), self.values.named(translator.symbolic_locals)
        self._hand.append(_Callee(translator, self._callees, depth, self._place, self._codes.own_rows(translator.f_code)))
        inline, offset = self._place
        callee, attempt = self._callees, self.number
        self._rows.append(
            lambda frame: ev.InlineEntered(
                frame=frame, attempt=attempt, offset=offset, inline=inline, callee=callee, code=code,
                arguments=self.values.named_now(arguments), depth=depth,
            )
        )  # fmt: skip

    def _leave(self, callee: _Callee, how: str = "returned") -> None:
        if not callee.number:
            return
        inline, offset = callee.called_from
        result = vars(callee.translator).get("symbolic_result")
        view = None if result is None or how != "returned" else self.values.view(result)
        attempt, number = self.number, callee.number
        self._rows.append(
            lambda frame: ev.InlineLeft(
                frame=frame, attempt=attempt, offset=offset, inline=inline, callee=number, result=view and self.values.now(view),
                how=how,
            )
        )  # fmt: skip

    def _stepped(self, hand: _Callee, instruction: Any) -> None:
        while self._hand and self._hand[-1] is not hand:
            self._leave(self._hand.pop())
        self._note_guards(hand.translator)
        inline, offset = self._place
        if offset < 0 and not hand.number and self._codes.is_resume(self._code):
            return  # the prefix of a resume function, which puts stack and locals back: no instruction of the user's
        if self._broken is hand.translator:
            return  # the graph ends before this instruction
        stack = self.values.stack(hand.translator.stack)
        changed = self._changed(hand.translator, instruction)
        attempt, depth = self.number, hand.depth
        row = hand.rows.get(instruction.offset)  # else torch put the instruction in
        op, arg = (row.op, row.arg) if row is not None else (instruction.opname, private_torch.operand(instruction))
        step = row.steps[-1].index if row is not None and row.steps else 0
        self._rows.append(
            lambda frame: ev.InstructionStepped(
                frame=frame, attempt=attempt, offset=offset, inline=inline, step=step, op=op, arg=arg,
                stack=self.values.stack_now(stack),
                changed=tuple((name, view and self.values.now(view)) for name, view in changed), depth=depth,
            )
        )  # fmt: skip

    def _changed(self, translator: Any, instruction: Any) -> tuple[tuple[str, ev.ValueView | None], ...]:
        if not instruction.opname.startswith(_CHANGE_LOCALS) or not isinstance(instruction.argval, str):
            return ()
        name = instruction.argval
        value = translator.symbolic_locals.get(name)
        return ((name, None if value is None else self.values.view(value)),)

    def node(self, node: Any) -> None:
        """A node was put into a graph."""
        self._rows.append(_Row(self._place, node))

    def _note_guards(self, translator: Any) -> None:
        guards = translator.output.guards
        if len(guards) == self._guard_count:
            return
        known, self._guard_count = self._guard_count, len(guards)
        for guard in itertools.islice(guards, known if 0 <= known < len(guards) else 0, None):  # torch keeps them in order
            if guard not in self._guards:
                self._guards.add(guard)
                self._rows.append(_Row(self._place, guard))

    # -- moments ---------------------------------------------------------------------------------------------------------

    def broke(self, translator: Any, made: Callable[..., ev.GraphBroke]) -> None:
        """The graph ends before the current instruction of a translator; `made` makes the event, but for its place and values."""
        callee = next((one for one in self._hand if one.translator is translator), None)
        number = callee.number if callee is not None else 0
        known, code = callee.rows if callee is not None else None, translator.f_code
        at = self._look.part(-1, lambda: translator.current_instruction.offset)
        stack = self._look.part((), self.values.stack, translator.stack)
        live = self._look.part((), self.values.named, translator.symbolic_locals)
        self._broken = translator

        def end(frame: int) -> ev.Event:
            row = (self._codes.told_rows(code) if known is None else known).get(at)
            return made(
                frame=frame, attempt=self.number, offset=-1 if row is None else row.offset, inline=number,
                stack=self.values.stack_now(stack), live_locals=self.values.named_now(live),
            )  # fmt: skip

        self._codes.keep(code)
        self._end = end
        self._rows.append(end)

    def broke_whole(self, event: Callable[[int], ev.Event]) -> None:
        """The frame is given up: this is its break, instead of the one that was to end a graph of it."""
        if self._end is not None:
            self._rows.remove(self._end)
        self._end = event
        self._rows.append(event)

    def describe(self, graph: Any) -> None:
        """Read the nodes of a graph now: torch forgets their values when the graph is compiled."""
        for node in graph.nodes:
            facts = self._look(private_torch.node_facts, node)
            if facts is not None:
                self._facts[node.name] = facts

    def target_of(self, name: str) -> str:
        """The target of a described node: of an input, its source."""
        facts = self._facts.get(name)
        return name if facts is None else facts.target

    def compiled(self, made: Callable[..., ev.SubgraphCompiled]) -> None:
        """A graph came back from the backend."""
        self._rows.append(_Compiled(made))

    def keep(self, event: Callable[[int], ev.Event]) -> None:
        """Something else to be told in its place; it gets the number of the frame."""
        self._rows.append(event)

    def add_guards(self, guards: Any) -> None:
        """All guards that were built: those that no step needed stand at the end."""
        self._has_guards = True
        for guard in guards:
            if guard not in self._guards:
                self._guards.add(guard)
                self._rows.append(_Row(_NOWHERE, guard))

    # -- afterwards ------------------------------------------------------------------------------------------------------

    def tell(self, recording: Recording, frame: int) -> None:
        """Record the events in order, and forget what was kept of torch."""
        while self._hand:
            self._leave(self._hand.pop(), "broke")
        self.values.close()
        told: set[str] = set()
        for row in self._rows:
            if isinstance(row, _Compiled):
                for name in self._facts:
                    self._tell_node(recording, frame, _NOWHERE, name, told)
                recording.record(row.made(frame=frame, attempt=self.number, graph=self.graph))
            elif not isinstance(row, _Row):
                recording.note((row, frame))
            elif hasattr(row.thing, "op"):
                self._tell_node(recording, frame, row.place, row.thing.name, told)
            elif not self._has_guards or getattr(row.thing, "code_list", None):
                self._tell_guard(recording, frame, row)
        self._rows.clear()
        self._guards.clear()
        self._facts.clear()
        self._running.clear()
        self._broken = None

    def _tell_node(self, recording: Recording, frame: int, place: Place, name: str, told: set[str]) -> None:
        facts = self._facts.get(name)
        if facts is None or name in told:  # a node of an inner graph, or one that was taken out again
            return
        told.add(name)
        recording.note((_node_added, frame, self.number, place, self.graph, name, facts))

    def _tell_guard(self, recording: Recording, frame: int, row: _Row) -> None:
        """Not every guard that torch asks for becomes a check; of an attempt that was given up nobody knows."""
        facts = self._look(private_torch.guard_facts, row.thing)
        if facts is not None:
            recording.note((_guard_installed, frame, self.number, row.place, len(self._told_guards), facts, self.tree))
            self._told_guards.append(facts.name)

    # -- what is known of the entry that it made -------------------------------------------------------------------------

    @functools.cached_property
    def guard_numbers(self) -> Mapping[str, int]:
        """Source -> the number of its first guard."""
        return {plain_source(name): number for number, name in reversed(list(enumerate(self._told_guards)))}

    @property
    def tensors(self) -> Mapping[str, str]:
        """Source -> what is expected of this tensor."""
        return {source: words for source, (words, _) in self.tree.tensor_checks.items()} if self.tree is not None else {}


_CHANGE_LOCALS = ("STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF", "LOAD_FAST_AND_CLEAR")


def _node_added(frame: int, attempt: int, place: Place, graph: str, name: str, facts: private_torch.NodeFacts) -> ev.NodeAdded:
    (inline, offset), (dtype, shape, device), (file, line) = place, facts.tensor, facts.place
    return ev.NodeAdded(
        frame=frame, attempt=attempt, offset=offset, inline=inline, graph=graph, name=name, op=facts.op, target=facts.target,
        args=facts.args, kwargs=facts.kwargs, inputs=facts.inputs, dtype=dtype, shape=shape, device=device,
        module=facts.module, file=file, line=line,
    )  # fmt: skip


def _guard_installed(
    frame: int, attempt: int, place: Place, number: int, facts: private_torch.GuardFacts, tree: GuardTree | None
) -> ev.GuardInstalled:
    (inline, offset), source = place, facts.source
    checks = tree.tensor_checks if tree is not None and facts.kind == "TENSOR_MATCH" else {}
    expected, expression = checks.get(source, ("", ""))
    return ev.GuardInstalled(
        frame=frame, attempt=attempt, offset=offset, inline=inline, index=number, scope=facts.scope, source=source,
        kind=facts.kind, expected=expected, expression=expression or facts.expression,
        reason=f"line {facts.user_line} needs it" if facts.user_line else "",
    )  # fmt: skip
