"""One attempt of torch.compile to trace a frame: observations are buffered until they can be recorded in order.

The idea: torch steps through a function's instructions; nodes, guards and inlined calls are created in between, and belong to the
current instruction. Some facts are known only later: how a guard is checked, when all guards are built; the name of a graph, when
it is passed to the backend. So the attempt keeps short rows while torch works, and records them in order at its end. A row reads
torch's objects at once, because they are mutated; it is converted to text when the recording is read, and holds no references to
torch.

Steps are most of what is kept. All of them are consecutive items of one list, `_steps`: a tuple per step would be one more object
for Python's garbage collector to traverse while torch allocates its own, which costs more than the observation itself.

The engine's own steps show the stack after an instruction. A step of torch is observed from outside, once, when it has returned:
torch itself knows which translators are active, and the current instruction of each. This also determines the place of what is
created during a step.

In: `stepped`, `raised`, `node`, and the callbacks of `listener.py`.
Out: `tell(recording)`: the events of the attempt, in order.

PyTorch's counterpart: `InstructionTranslatorBase` in torch/_dynamo/symbolic_convert.py, which is what is observed.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.gc_control import gc_disabled
from dynexplore.engine.recorder import DeferredEvent
from dynexplore.recording.recording import Recording
from dynexplore.traces.torch_words import plain_source
from dynexplore.watching import private_torch
from dynexplore.watching.codes import Codes
from dynexplore.watching.copied_graph import NodeCopy, code_of, copied_arguments, copy_of, has_plain_code
from dynexplore.watching.guard_tree import GuardTree
from dynexplore.watching.places import NOWHERE, Called, Place, resolved
from dynexplore.watching.safe_reads import SafeReads
from dynexplore.watching.values import Facts, Named, Stack, Values


@dataclass(slots=True)
class _Hand:
    """A function that torch is tracing: its translator, what is kept of it, and the place that called it."""

    translator: Any
    called: Called
    called_from: Place


_STEP = 6
"""The number of list items at the start of each step: the function, torch's offset, the instruction if the offset does not identify
it, the local that it changes and its new value (None: deleted), the size of the stack. The values on the stack follow.
"""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node was created; it is described later."""

    place: Place
    node: Any


@dataclass(frozen=True, slots=True)
class _Guard:
    """A guard was requested; it is described later."""

    place: Place
    guard: Any


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A graph was compiled: nodes whose creation was not observed are recorded before it."""

    make_event: Callable[..., ev.SubgraphCompiled]


_Row = DeferredEvent | _Node | _Guard | _Compiled | Callable[[int], ev.Event]
"""What is recorded between the steps: an event, or what is converted to one at the end."""


class Attempt:
    """One attempt to trace a frame; see the module docstring."""

    def __init__(self, frame: int, number: int, code: types.CodeType, codes: Codes, looks: SafeReads) -> None:
        self.number = number
        self.tree: GuardTree | None = None
        self.values = Values()
        self.graph = ""
        self._failed_at: tuple[Place, Stack] = NOWHERE, ()
        self._has_failed = False
        self._frame = frame
        self._has_guards = False
        self._described_guards: list[str] = []
        self._codes = codes
        self._look = looks
        self._is_resume = codes.is_resume(code)
        self._steps: list[Any] = []  # consecutive steps, see _STEP
        self._rows: list[tuple[int, _Row]] = []  # everything else, with the length of _steps at the time
        self._facts: dict[str, private_torch.NodeFacts] = {}
        self._hand: list[_Hand] = []
        self._callees = 0
        self._broken: Any = None
        self._end: Callable[[int], ev.Event] | None = None
        self._guards: set[Any] = set()
        self._guard_count = -1
        self._torchs_guards: Any = None

    # -- while torch works -----------------------------------------------------------------------------------------------

    def stepped(self, translator: Any) -> None:
        """Called after torch has interpreted an instruction of this translator: it is still the current one, wherever the next one
        is.
        """
        hand = self._hand[-1] if self._hand else None
        if hand is None or hand.translator is not translator:
            hand = self._hand_of(translator)
        self._has_failed = False  # an earlier exception was caught here, or in a function that this instruction called
        if private_torch.guard_count(self._torchs_guards) != self._guard_count:
            self._note_guards()
        if self._broken is translator:
            return  # the graph ends before this instruction
        instruction = translator.current_instruction
        at = instruction.offset
        if self._is_resume and not hand.called.number and not hand.called.has_row(at):
            return  # the prefix of a resume function, which restores stack and locals: not an instruction of the user's
        written = None if at is not None else private_torch.written(instruction)  # otherwise its offset identifies it
        name, value = self._changed(translator, instruction) if instruction.opname in _CHANGE_LOCALS else _UNCHANGED
        stack = self.values.stack(translator.stack)
        self._steps += (hand.called, at, written, name, value, len(stack))
        self._steps += stack

    def raised(self, translator: Any) -> None:
        """Called when a step raises: the innermost instruction that does so is where the attempt fails."""
        if not self._has_failed:
            self._has_failed = True
            self._failed_at = _place_in(self._hand_of(translator)), self.values.stack(translator.stack)

    def _hand_of(self, translator: Any) -> _Hand:
        """The current function, with its callers: functions that torch has left are popped, new ones are pushed.

        A generator that is resumed is pushed again.
        """
        inside = private_torch.translators_at_work(translator)
        common = 0
        for hand, translator_inside in zip(self._hand, inside, strict=False):
            if hand.translator is not translator_inside:
                break
            common += 1
        while len(self._hand) > common:
            self._leave(self._hand.pop())
        for translator_inside in inside[common:]:
            self._enter(translator_inside)
        return self._hand[-1]

    def _enter(self, translator: Any) -> None:
        if not self._hand:
            self._hand.append(_Hand(translator, Called(self._codes, translator.f_code), NOWHERE))
            self._torchs_guards = private_torch.guards_context(translator.output)
            self._note_guards()
            return
        self._callees += 1
        called, place = Called(self._codes, translator.f_code, self._callees, len(self._hand)), _place_in(self._hand[-1])
        self._hand.append(_Hand(translator, called, place))
        arguments = self.values.named(translator.symbolic_locals)
        self.keep((self._entered, called, place, arguments))

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
        self.keep((self._leave_event, hand.called, hand.called_from, facts, how))

    def _leave_event(self, called: Called, place: Place, facts: Facts | None, how: str) -> ev.Event:
        inline, offset = resolved(place)
        result = None if facts is None else self.values.view(facts)
        return ev.InlineLeft(
            frame=self._frame, attempt=self.number, offset=offset, inline=inline, callee=called.number, result=result, how=how
        )

    def _changed(self, translator: Any, instruction: Any) -> tuple[str | None, Facts | None]:
        name = instruction.argval
        if not isinstance(name, str):
            return _UNCHANGED
        value = translator.symbolic_locals.get(name)
        return name, None if value is None else self.values.facts(value)

    def step_event(self, position: int) -> ev.Event:
        """The event of the step at a position of the list, created when the recording is read."""
        called, at, written, name, value, size = self._steps[position : position + _STEP]
        stack = tuple(self._steps[position + _STEP : position + _STEP + size])
        row = called.row(at)  # None: torch inserted the instruction
        op, arg = (row.op, row.arg) if row is not None else written or called.words(at)
        local = () if name is None else ((name, value and self.values.view(value)),)
        return ev.InstructionStepped(
            frame=self._frame, attempt=self.number, offset=-1 if row is None else row.offset, inline=called.number,
            step=row.steps[-1].index if row is not None and row.steps else 0, op=op, arg=arg,
            stack=self.values.views(stack), changed=local, depth=called.depth,
        )  # fmt: skip

    def node(self, output: Any, node: Any) -> None:
        """Called when the current instruction adds a node to a graph."""
        translator = private_torch.translator_at_work(output)
        self.keep(_Node(NOWHERE if translator is None else _place_in(self._hand_of(translator)), node))

    def _note_guards(self) -> None:
        first, self._guard_count = self._guard_count, private_torch.guard_count(self._torchs_guards)
        place = _place_in(self._hand[-1])
        for guard in private_torch.guards_from(self._torchs_guards, first if 0 <= first < self._guard_count else 0):
            self._note_guard(place, guard)

    def _note_guard(self, place: Place, guard: Any) -> None:
        count = len(self._guards)
        self._guards.add(guard)  # torch recomputes the hash of a guard each time
        if len(self._guards) > count:
            self.keep(_Guard(place, guard))

    # -- callbacks of the listener -------------------------------------------------------------------------------------------

    def broke(self, translator: Any, make_event: Callable[..., ev.GraphBroke]) -> None:
        """Called when the graph ends before the current instruction of a translator; `make_event` lacks its place and values."""
        hand = next((entered for entered in self._hand if entered.translator is translator), None)
        called = Called(self._codes, translator.f_code) if hand is None else hand.called
        at = self._look.part(None, lambda: translator.current_instruction.offset)
        stack = self._look.part((), self.values.stack, translator.stack)
        live = self._look.part((), self.values.named, translator.symbolic_locals)
        self._broken = translator

        def end(frame: int) -> ev.Event:
            inline, offset = resolved((called, at))
            return make_event(
                frame=frame, attempt=self.number, offset=offset, inline=inline, stack=self.values.views(stack),
                live_locals=self.values.named_views(live),
            )  # fmt: skip

        self._end = end
        self.keep(end)

    def broke_whole(self, event: Callable[[int], ev.Event]) -> None:
        """Called when the frame is skipped: this is its break, instead of the one that was to end a graph of it."""
        self.unbroken()
        self._end = event
        self.keep(event)

    def unbroken(self) -> None:
        """Called when the attempt restarts after its graph had ended: the break, if any, belongs to the next attempt."""
        if self._end is not None:
            self._rows = [(steps, row) for steps, row in self._rows if row is not self._end]
            self._end = None

    def describe(self, graph: Any) -> Callable[[], str] | None:
        """Read the nodes of a graph now: torch drops their values when the graph is compiled. Returns a function that generates its
        code later, if all of it could be copied.
        """
        copies: list[NodeCopy] | None = []
        for node in graph.nodes:
            arguments = self._look(copied_arguments, node)
            facts = self._look(private_torch.node_facts, node, arguments)
            if facts is not None:
                self._facts[node.name] = facts
            copy = None if copies is None or arguments is None else self._look(copy_of, node, arguments)
            if copies is not None and copy is not None:
                copies.append(copy)
            else:
                copies = None
        return functools.partial(code_of, copies) if copies and has_plain_code(graph) else None

    def target_of(self, name: str) -> str:
        """The target of a described node; for a graph input, its source."""
        facts = self._facts.get(name)
        return name if facts is None else facts.target

    def compiled(self, make_event: Callable[..., ev.SubgraphCompiled]) -> None:
        """Called when a graph comes back from the backend."""
        self.keep(_Compiled(make_event))

    def keep(self, row: _Row) -> None:
        """Buffer something else, to be recorded after the steps so far; a function is called with the frame number."""
        self._rows.append((len(self._steps), row))

    def add_guards(self, guards: Any) -> None:
        """Add all guards that were built: those that no step required come last. Not every guard becomes a check."""
        self._has_guards = True
        for guard in guards:
            if getattr(guard, "code_list", None):
                self._note_guard(NOWHERE, guard)

    # -- after the attempt ---------------------------------------------------------------------------------------------------

    def tell(self, recording: Recording) -> None:
        """Record the events in order, and drop all references to torch."""
        while self._hand:
            self._leave(self._hand.pop(), "broke")
        self.values.close()
        with gc_disabled():
            recording.note_all(self._ordered_events())
        self._rows.clear()
        self._guards.clear()
        self._facts.clear()
        self._broken = None

    def _ordered_events(self) -> list[DeferredEvent]:
        """All events, in order."""
        described: set[str] = set()
        events: list[DeferredEvent] = []
        position = 0
        for steps, row in [*self._rows, (len(self._steps), None)]:
            while position < steps:
                events.append((self.step_event, position))
                position += _STEP + self._steps[position + _STEP - 1]
            events += [] if row is None else self._worded(row, described)
        return events

    def _worded(self, row: _Row, described: set[str]) -> list[DeferredEvent]:
        """The events of a row."""
        if isinstance(row, tuple):
            return [row]
        if isinstance(row, _Node):
            return self._node_events(row.place, row.node.name, described)
        if isinstance(row, _Guard):
            return self._guard_events(row)
        if isinstance(row, _Compiled):
            nodes = [event for name in self._facts for event in self._node_events(NOWHERE, name, described)]
            return [*nodes, (functools.partial(row.make_event, frame=self._frame, attempt=self.number, graph=self.graph),)]
        return [(row, self._frame)]

    def _node_events(self, place: Place, name: str, described: set[str]) -> list[DeferredEvent]:
        facts = self._facts.get(name)
        if facts is None or name in described:  # a node of a subgraph, or one that was removed again
            return []
        described.add(name)
        return [(_node_added, self._frame, self.number, place, self.graph, name, facts)]

    def _guard_events(self, row: _Guard) -> list[DeferredEvent]:
        """The events of a guard: not every guard that torch requests becomes a check; for an abandoned attempt it is unknown."""
        if self._has_guards and not getattr(row.guard, "code_list", None):
            return []
        facts = self._look(private_torch.guard_facts, row.guard)
        if facts is None:
            return []
        self._described_guards.append(facts.name)
        return [(_guard_installed, self._frame, self.number, row.place, len(self._described_guards) - 1, facts, self.tree)]

    # -- when the recording is read ----------------------------------------------------------------------------------------

    @property
    def failed_place(self) -> tuple[int, int]:
        """The place where it failed, as in events."""
        return resolved(self._failed_at[0])

    @property
    def failed_stack(self) -> tuple[ev.ValueView, ...]:
        """The stack at the failure."""
        return self.values.views(self._failed_at[1])

    # -- facts about the resulting cache entry -------------------------------------------------------------------------------

    @functools.cached_property
    def guard_numbers(self) -> Mapping[str, int]:
        """Source -> the number of its first guard."""
        return {plain_source(name): number for number, name in reversed(list(enumerate(self._described_guards)))}

    @property
    def tensors(self) -> Mapping[str, str]:
        """Source -> the expected metadata of this tensor."""
        return {source: words for source, (words, _) in self.tree.tensor_checks.items()} if self.tree is not None else {}


_UNCHANGED = (None, None)
_CHANGE_LOCALS = frozenset(["STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF", "LOAD_FAST_AND_CLEAR"])


def _place_in(hand: _Hand) -> Place:
    """torch's current instruction in a function."""
    return hand.called, hand.translator.current_instruction.offset


def _node_added(frame: int, attempt: int, place: Place, graph: str, name: str, facts: private_torch.NodeFacts) -> ev.NodeAdded:
    (inline, offset), (dtype, shape, device), (file, line) = resolved(place), facts.tensor, facts.place
    return ev.NodeAdded(
        frame=frame, attempt=attempt, offset=offset, inline=inline, graph=graph, name=name, op=facts.op, target=facts.target,
        args=ev.clip(str(facts.args)), kwargs=ev.clip(str(facts.kwargs)), inputs=facts.inputs, dtype=dtype, shape=shape,
        device=device, module=facts.module, file=file, line=line,
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
