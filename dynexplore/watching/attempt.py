"""One attempt of torch.compile at a frame: what is seen while it goes on, kept until it can be told in order.

Which idea lives here: torch steps through the instructions of a function; nodes, guards and inlined calls come up in between.
Their place is the instruction at hand. Some of it is known only later: how a guard is checked, when all guards are built; the name
of a graph, when it is handed to the backend. So the attempt keeps short rows while torch works, and tells them in order at its
end. What a row says of an object of torch is read at once, for these change; words are made of it when the recording is read, and
hold nothing of torch.

Our own steps show the stack after an instruction. A step of torch is watched from outside: the stack is read when it returns.

In:  `before_step`, `after_step`, `raised`, `node`, and the moments of `listener.py`.
Out: `tell(recording)`: the events of the attempt, in order.

PyTorch's counterpart: `InstructionTranslatorBase` in torch/_dynamo/symbolic_convert.py, which is what is watched.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.recorder import Noted
from dynexplore.recording.recording import Recording
from dynexplore.traces.torch_words import plain_source
from dynexplore.watching import private_torch
from dynexplore.watching.codes import Codes
from dynexplore.watching.guard_tree import GuardTree
from dynexplore.watching.looks import Looks
from dynexplore.watching.places import NOWHERE, Called, Place, resolved
from dynexplore.watching.private_torch import Written
from dynexplore.watching.values import Facts, Named, Stack, Values


@dataclass(slots=True)
class _Hand:
    """A function that torch is in: its translator, what is kept of it, and the place that called it."""

    translator: Any
    called: Called
    called_from: Place


Changed = tuple[str, Facts | None]
"""A local that an instruction changes, and what it is then; None: it is gone."""

Moment = tuple[_Hand, Any, Place]
"""An instruction at hand, and the place that was before it: that of the call, where it is the first of a callee."""


@dataclass(frozen=True, slots=True)
class _Row:
    """Something seen: a node or a guard of torch that is described later."""

    place: Place
    thing: Any


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A graph was compiled: nodes that nobody saw being made are told before it."""

    made: Callable[..., ev.SubgraphCompiled]


class Attempt:
    """See the head of this file."""

    def __init__(self, frame: int, number: int, code: types.CodeType, codes: Codes, looks: Looks) -> None:
        self.number = number
        self.tree: GuardTree | None = None
        self.values = Values()
        self.graph = ""
        self._failed_at: tuple[Place, Stack] = NOWHERE, ()
        self._has_failed = False
        self._frame = frame
        self._has_guards = False
        self._told_guards: list[str] = []
        self._codes = codes
        self._look = looks
        self._is_resume = codes.is_resume(code)
        self._rows: list[_Row | _Compiled | Noted | Callable[[int], ev.Event]] = []
        self._facts: dict[str, private_torch.NodeFacts] = {}
        self._hand: list[_Hand] = []
        self._running: list[_Hand] = []  # those with an instruction that has not returned yet
        self._callees = 0
        self._place: Place = NOWHERE
        self._broken: Any = None
        self._end: Callable[[int], ev.Event] | None = None
        self._guards: set[Any] = set()
        self._guard_count = -1

    # -- while torch works -----------------------------------------------------------------------------------------------

    def before_step(self, translator: Any) -> Moment | None:
        """torch is about to interpret an instruction; what `after_step` or `raised` wants. None: there is no instruction left."""
        hand = self._hand[-1] if self._hand else None
        if hand is None or hand.translator is not translator:
            hand = self._hand_of(translator)
        at = translator.instruction_pointer
        if at is None:
            return None
        instruction = translator.instructions[at]
        moment = hand, instruction, self._place
        self._running.append(hand)
        self._place = hand.called, instruction.offset
        return moment

    def after_step(self, moment: Moment) -> None:
        """It has been interpreted."""
        self._running.pop()
        hand, instruction, before = moment
        while self._hand and self._hand[-1] is not hand:
            self._leave(self._hand.pop())
        if len(hand.translator.output.guards) != self._guard_count:
            self._note_guards(hand.translator)
        self._stepped(hand, instruction)
        self._place = before

    def raised(self, moment: Moment) -> None:
        """It raised: the innermost instruction that did is where the attempt fails."""
        self._running.pop()
        hand, _, before = moment
        if not self._has_failed:
            self._has_failed = True
            self._failed_at = self._place, self.values.stack(hand.translator.stack)
        self._place = before

    def _hand_of(self, translator: Any) -> _Hand:
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
            self._hand.append(_Hand(translator, Called(self._codes, translator.f_code), NOWHERE))
            self._note_guards(translator)
            return
        self._callees += 1
        called = Called(self._codes, translator.f_code, self._callees, len(self._hand))
        self._hand.append(_Hand(translator, called, self._place))
        arguments = self.values.named(translator.symbolic_locals)
        self._rows.append((self._entered, called, self._place, arguments))

    def _entered(self, called: Called, place: Place, arguments: Named) -> ev.Event:
        inline, offset = resolved(place)
        return ev.InlineEntered(
            frame=self._frame, attempt=self.number, offset=offset, inline=inline, callee=called.number,
            code=self._codes.view_of(called.code), arguments=self.values.named_views(arguments), depth=called.depth,
        )  # fmt: skip

    def _leave(self, hand: _Hand, how: str = "returned") -> None:
        if not hand.called.number:
            return
        result = vars(hand.translator).get("symbolic_result")
        facts = None if result is None or how != "returned" else self.values.facts(result)
        self._rows.append((self._left, hand.called, hand.called_from, facts, how))

    def _left(self, called: Called, place: Place, facts: Facts | None, how: str) -> ev.Event:
        inline, offset = resolved(place)
        result = None if facts is None else self.values.view(facts)
        return ev.InlineLeft(
            frame=self._frame, attempt=self.number, offset=offset, inline=inline, callee=called.number, result=result, how=how
        )

    def _stepped(self, hand: _Hand, instruction: Any) -> None:
        translator, called = hand.translator, hand.called
        if self._is_resume and not called.number and not called.has_row(instruction.offset):
            return  # the prefix of a resume function, which puts stack and locals back: no instruction of the user's
        if self._broken is translator:
            return  # the graph ends before this instruction
        at = instruction.offset
        written = None if at is not None else private_torch.written(instruction)  # else found by its offset
        changed = self._changed(translator, instruction) if instruction.opname.startswith(_CHANGE_LOCALS) else None
        self._rows.append((_step_made, self, called, at, written, self.values.stack(translator.stack), changed))

    def _changed(self, translator: Any, instruction: Any) -> Changed | None:
        name = instruction.argval
        if not isinstance(name, str):
            return None
        value = translator.symbolic_locals.get(name)
        return name, None if value is None else self.values.facts(value)

    def step_event(
        self, called: Called, at: int | None, written: Written | None, stack: Stack, changed: Changed | None
    ) -> ev.Event:
        """The event of a step, when the recording is read."""
        row = called.row(at)  # None: torch put the instruction in
        op, arg = (row.op, row.arg) if row is not None else written or called.words(at)
        local = () if changed is None else ((changed[0], changed[1] and self.values.view(changed[1])),)
        return ev.InstructionStepped(
            frame=self._frame, attempt=self.number, offset=-1 if row is None else row.offset, inline=called.number,
            step=row.steps[-1].index if row is not None and row.steps else 0, op=op, arg=arg,
            stack=self.values.views(stack), changed=local, depth=called.depth,
        )  # fmt: skip

    def node(self, node: Any) -> None:
        """A node was put into a graph."""
        self._rows.append(_Row(self._place, node))

    def _note_guards(self, translator: Any) -> None:
        guards = translator.output.guards
        known, self._guard_count = self._guard_count, len(guards)
        for guard in itertools.islice(guards, known if 0 <= known < len(guards) else 0, None):  # torch keeps them in order
            if guard not in self._guards:
                self._guards.add(guard)
                self._rows.append(_Row(self._place, guard))

    # -- moments ---------------------------------------------------------------------------------------------------------

    def broke(self, translator: Any, made: Callable[..., ev.GraphBroke]) -> None:
        """The graph ends before the current instruction of a translator; `made` makes the event, but for its place and values."""
        hand = next((one for one in self._hand if one.translator is translator), None)
        called = Called(self._codes, translator.f_code) if hand is None else hand.called
        at = self._look.part(None, lambda: translator.current_instruction.offset)
        stack = self._look.part((), self.values.stack, translator.stack)
        live = self._look.part((), self.values.named, translator.symbolic_locals)
        self._broken = translator

        def end(frame: int) -> ev.Event:
            inline, offset = resolved((called, at))
            return made(
                frame=frame, attempt=self.number, offset=offset, inline=inline, stack=self.values.views(stack),
                live_locals=self.values.named_views(live),
            )  # fmt: skip

        self._end = end
        self._rows.append(end)

    def broke_whole(self, event: Callable[[int], ev.Event]) -> None:
        """The frame is given up: this is its break, instead of the one that was to end a graph of it."""
        self.unbroken()
        self._end = event
        self._rows.append(event)

    def unbroken(self) -> None:
        """The attempt is given up after its graph had ended: the next one breaks there, if any does."""
        if self._end is not None:
            self._rows.remove(self._end)
            self._end = None

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
                self._rows.append(_Row(NOWHERE, guard))

    # -- afterwards ------------------------------------------------------------------------------------------------------

    def tell(self, recording: Recording) -> None:
        """Record the events in order, and forget what was kept of torch."""
        while self._hand:
            self._leave(self._hand.pop(), "broke")
        self.values.close()
        told: set[str] = set()
        events: list[Noted] = []
        for row in self._rows:
            if isinstance(row, tuple):
                events.append(row)
            elif isinstance(row, _Compiled):
                events += [event for name in self._facts for event in self._node_told(NOWHERE, name, told)]
                events.append((functools.partial(row.made, frame=self._frame, attempt=self.number, graph=self.graph),))
            elif not isinstance(row, _Row):
                events.append((row, self._frame))
            elif hasattr(row.thing, "op"):
                events += self._node_told(row.place, row.thing.name, told)
            elif not self._has_guards or getattr(row.thing, "code_list", None):
                events += self._guard_told(row)
        recording.note_all(events)
        self._rows.clear()
        self._guards.clear()
        self._facts.clear()
        self._running.clear()
        self._broken = None

    def _node_told(self, place: Place, name: str, told: set[str]) -> list[Noted]:
        facts = self._facts.get(name)
        if facts is None or name in told:  # a node of an inner graph, or one that was taken out again
            return []
        told.add(name)
        return [(_node_added, self._frame, self.number, place, self.graph, name, facts)]

    def _guard_told(self, row: _Row) -> list[Noted]:
        """Not every guard that torch asks for becomes a check; of an attempt that was given up nobody knows."""
        facts = self._look(private_torch.guard_facts, row.thing)
        if facts is None:
            return []
        self._told_guards.append(facts.name)
        return [(_guard_installed, self._frame, self.number, row.place, len(self._told_guards) - 1, facts, self.tree)]

    # -- when the recording is read ----------------------------------------------------------------------------------------

    @property
    def failed_place(self) -> tuple[int, int]:
        """Where it failed, as events have it."""
        return resolved(self._failed_at[0])

    @property
    def failed_stack(self) -> tuple[ev.ValueView, ...]:
        """The stack there."""
        return self.values.views(self._failed_at[1])

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


def _step_made(attempt: Attempt, *seen: Any) -> ev.Event:
    return attempt.step_event(*seen)


def _node_added(frame: int, attempt: int, place: Place, graph: str, name: str, facts: private_torch.NodeFacts) -> ev.NodeAdded:
    (inline, offset), (dtype, shape, device), (file, line) = resolved(place), facts.tensor, facts.place
    return ev.NodeAdded(
        frame=frame, attempt=attempt, offset=offset, inline=inline, graph=graph, name=name, op=facts.op, target=facts.target,
        args=facts.args, kwargs=facts.kwargs, inputs=facts.inputs, dtype=dtype, shape=shape, device=device,
        module=facts.module, file=file, line=line,
    )  # fmt: skip


def _guard_installed(
    frame: int, attempt: int, place: Place, number: int, facts: private_torch.GuardFacts, tree: GuardTree | None
) -> ev.GuardInstalled:
    (inline, offset), source = resolved(place), facts.source
    checks = tree.tensor_checks if tree is not None and facts.kind == "TENSOR_MATCH" else {}
    expected, expression = checks.get(source, ("", ""))
    return ev.GuardInstalled(
        frame=frame, attempt=attempt, offset=offset, inline=inline, index=number, scope=facts.scope, source=source,
        kind=facts.kind, expected=expected, expression=expression or facts.expression,
        reason=f"line {facts.user_line} needs it" if facts.user_line else "",
    )  # fmt: skip
