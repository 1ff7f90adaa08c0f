"""The real value of each symbolic value: a pure query on the records of a recording.

The idea: a symbolic value on the stack or in a local is shown as a `ValueView`. Its real value is found through its node (an
input or output of the compiled graph has a value from the call itself, an inner node one from the replay), through the argument
that it is, or because it is a constant. A container, or an object created in the frame, is assembled from its items. A tensor
that is mutated in place has one value before the mutation and another one after it. If the value is unknown, `why` gives the
reason; nothing is guessed.

In: events (`Indexed` builds the tables once). Out: a `RealValue` for a ValueView at a step. PyTorch's counterpart: none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from dynexplore.engine import events as ev
from dynexplore.engine.display_hooks import Displayable

Provenance = Literal["real", "replayed", "not observed"]


@dataclass(frozen=True, slots=True)
class RealValue:
    """The real value of a symbolic one: `provenance` is "real" (from the call itself), "replayed" or "not observed" (`why` has the
    reason).

    `observed` is the record of the observation, None for a constant.
    """

    provenance: Provenance
    text: str = ""
    why: str = ""
    observed: ev.ValueObserved | None = None

    def __str__(self) -> str:
        if self.provenance == "not observed":
            return f"not observed, {self.why}"
        return f"{self.text}{elements(self.observed)} [{self.provenance}]"


@dataclass(frozen=True, slots=True)
class RealStep(Displayable):
    """A step with the real values of its symbolic ones: the stack after it, bottom first, and the locals by name."""

    step: ev.InstructionStepped
    stack: tuple[RealValue, ...]
    locals: dict[str, RealValue]


def elements(observed: ev.ValueObserved | None) -> str:
    """The numbers of a summary as text: " min -1 mean 0.5 max 2, first 0.1, 0.2"; "" if there are none."""
    if observed is None:
        return ""
    numbers = [("min", observed.minimum), ("mean", observed.mean), ("max", observed.maximum)]
    words = " ".join(f"{name} {short(value)}" for name, value in numbers if value is not None)
    first = ", ".join(short(value) for value in observed.first)
    if len(observed.first) == 1 and observed.minimum == observed.maximum:
        return f" = {first}"  # a single element is its own summary
    return (f" {words}" if words else "") + (f", first {first}" if first else "")


def short(value: float | str | int | bool) -> str:
    """A number with at most five significant digits."""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


_Key = tuple[int, str]
"""Id and kind of a ValueView: the arguments of a frame are numbered separately."""


@dataclass(slots=True)
class _Node:
    """The known values of a node of a frame's graph."""

    made_at: int  # the step that created it
    real: ev.ValueObserved | None = None
    seen: list[tuple[int, ev.ValueObserved]] | None = None  # (step from which the value is valid, replayed value)


class Indexed:
    """The tables behind `value`, for one run of each graph."""

    def __init__(self, events: Iterable[ev.Event], run: int = 1) -> None:
        self.run = run
        self.is_recorded = False  # whether the real run was recorded at all
        self._steps: dict[tuple[int, int], int] = {}
        self._nodes: dict[tuple[int, str], _Node] = {}
        self._signatures: dict[tuple[int, int, str], tuple[str, ...]] = {}
        self._made_at: dict[tuple[int, int, str], int] = {}
        self._final: dict[int, int] = {}
        self._ran: dict[int, int] = {}  # frame -> the attempt whose graph ran
        self._left_out: dict[int, str] = {}
        self._compared: set[int] = set()
        self._locals: dict[tuple[int, str], ev.ValueObserved] = {}
        self._contents: dict[tuple[int, int], dict[_Key, list[ev.ContentsSeen]]] = {}  # by (frame, attempt)
        self._ran_with: dict[int, list[ev.ValueObserved]] = {}  # frame -> its locals at breaks and at its end
        for event in events:
            self._take(event)

    def _take(self, event: ev.Event) -> None:
        key = event.frame, event.attempt
        if isinstance(event, ev.InstructionStepped):
            self._steps[key] = self._steps.get(key, 0) + 1
        elif isinstance(event, ev.AttemptStarted):
            self._final[event.frame] = event.attempt
        elif isinstance(event, ev.NodeAdded):
            self._signatures[(*key, event.name)] = (event.op, event.target, event.args, event.kwargs)
            self._made_at[(*key, event.name)] = self._steps.get(key, 0)
        elif isinstance(event, ev.ContentsSeen):
            self._contents.setdefault(key, {}).setdefault((event.value, event.tracker), []).append(event)
        elif isinstance(event, ev.RunLeftOut):
            self.is_recorded = True
            if event.run == self.run:
                self._left_out.setdefault(event.frame, event.reason)
        elif isinstance(event, ev.RunCompared):
            self.is_recorded = True
            if event.run == self.run:
                self._compared.add(event.frame)
        elif isinstance(event, ev.ValueObserved):
            self.is_recorded = True
            if event.run in (0, self.run):
                self._observe(event)

    def _observe(self, event: ev.ValueObserved) -> None:
        if event.role in ("local", "stack"):
            if event.moment == "entry":
                name = event.name if event.role == "local" else f"___stack{event.name}"
                self._locals.setdefault((event.frame, name), event)
        if event.role in ("local", "stack", "return"):
            self._ran_with.setdefault(event.frame, []).append(event)
            return
        if event.role not in ("node", "input", "output") or (event.why and event.role != "node"):
            return
        self._ran[event.frame] = event.attempt
        made_at = self._made_at.get((event.frame, event.attempt, event.name), -1)
        node = self._nodes.setdefault((event.frame, event.name), _Node(made_at))
        if event.role != "node":
            node.real = event
        else:
            since = self._made_at.get((event.frame, event.attempt, event.after), made_at) if event.after else made_at
            node.seen = [*(node.seen or ()), (since, event)]

    # -- queries

    def value(self, frame: int, attempt: int, step: int, view: ev.ValueView) -> RealValue:
        """The real value of `view` at step number `step` of an attempt."""
        if view.kind == "NULL":
            return RealValue("not observed", why="it is an empty slot")
        if not self.is_recorded:
            return RealValue("not observed", why=_NOT_RECORDED)
        return self._value(frame, attempt, step, view, ())

    def _value(self, frame: int, attempt: int, step: int, view: ev.ValueView, inside: tuple[int, ...]) -> RealValue:
        """The same; `inside` are the containers that `view` is an item of, outermost first."""
        if view.node:
            return self._of_node(frame, attempt, step, view)
        if view.kind in _PLAIN_KINDS:
            return RealValue("real", view.text)
        seen = self._contents_at(frame, attempt, step, (view.id, view.kind))
        if seen is not None:
            return self._of_contents(seen, step, inside)
        argument = self._locals.get((frame, view.source))
        if argument is not None:
            return _argument(argument)
        return RealValue("not observed", why=_NOT_FOLLOWED)

    # -- containers

    def _contents_at(self, frame: int, attempt: int, step: int, value: _Key) -> ev.ContentsSeen | None:
        records = self._contents.get((frame, attempt), {}).get(value, ())
        earlier = [record for record in records if record.step <= step]
        return earlier[-1] if earlier else None

    def _of_contents(self, seen: ev.ContentsSeen, step: int, inside: tuple[int, ...]) -> RealValue:
        """A container or an object, assembled from the real values of its items."""
        if len(inside) >= _DEEPEST:
            return RealValue("replayed", f"a {seen.kind}" if seen.is_object else f"{seen.kind} of {seen.length}")
        texts = []
        for label, item in seen.items:
            if item.id == seen.value or (item.id in inside and item.id):
                real = RealValue("replayed", "itself" if item.id == seen.value else "a container that it is in")
            else:
                real = self._value(seen.frame, seen.attempt, step, item, (*inside, seen.value))
            if real.provenance == "not observed" and real.why != _NOT_FOLLOWED:
                return real
            text = f"{real.text or item.text}{_few(real.observed)}"
            texts.append(f"{label}{' = ' if seen.is_object else ': '}{text}" if label else text)
        more = ", ..." if seen.length > len(seen.items) else ""
        joined = ", ".join(texts) + more
        begin = f"a {seen.kind}" if seen.is_object else f"{seen.kind} of {seen.length}"
        return RealValue("replayed", ev.clip(f"{begin}: {joined}" if joined else begin, _LONGEST))

    def contents_of(
        self, frame: int, steps_shown: Mapping[int, int] | None = None
    ) -> dict[int, dict[_Key, list[tuple[int, RealValue]]]]:
        """attempt -> id and kind of a container -> (step from which the content is valid, content), in order; `steps_shown`:
        attempt -> the number of its steps to cover.
        """
        contents: dict[int, dict[_Key, list[tuple[int, RealValue]]]] = {}
        for (number, attempt), records_of in self._contents.items():
            if number != frame:
                continue
            end = math.inf if steps_shown is None else steps_shown.get(attempt, 0)
            for value, records in records_of.items():
                if records[0].step > end:
                    continue
                steps = sorted(since for since in self._changes(frame, attempt, value, ()) if records[0].step <= since <= end)
                values = [
                    (since, self._value(frame, attempt, since, ev.ValueView(*value, ""), ())) for since in steps[:_MOST_CHANGES]
                ]
                changed = [pair for pair, last in zip(values, [None, *values], strict=False) if last is None or pair[1] != last[1]]
                contents.setdefault(attempt, {})[value] = changed
        return contents

    def _changes(self, frame: int, attempt: int, value: _Key, inside: tuple[int, ...]) -> set[int]:
        """The steps at which a container, or anything in it, changes."""
        steps: set[int] = set()
        for record in self._contents[frame, attempt].get(value, ()):
            steps.add(record.step)
            for _, item in record.items:
                if item.node:
                    steps.update(since for since, _ in self.history(frame, item.node))
                elif item.id and item.id not in inside and len(inside) < _DEEPEST:
                    steps |= self._changes(frame, attempt, (item.id, item.kind), (*inside, value[0]))
        return steps

    def history(self, frame: int, node: str) -> list[tuple[int, RealValue]]:
        """The values of a node of the graph that ran: (step from which the value is valid, value), in order."""
        node_values = self._nodes.get((frame, node))
        if node_values is None:
            return []
        history = [(since, _of(observed)) for since, observed in node_values.seen or ()]
        if node_values.real is None:
            return history
        real = _of(node_values.real, "real")
        if node_values.real.role == "input":  # an input has its initial value until a mutation
            return [(-1, real), *((since, value) for since, value in history if value.observed and value.observed.after)]
        if len(history) < 2:
            return [(node_values.made_at, real)]
        return [*history[:-1], (history[-1][0], real)]  # an output has its final value

    def arguments_of(self, frame: int) -> dict[str, RealValue]:
        """The arguments of a frame by name; for a resume function also its stack slots (`___stack0`)."""
        return {name: _argument(observed) for (number, name), observed in self._locals.items() if number == frame}

    def locals_of(self, frame: int) -> list[tuple[str, str, RealValue]]:
        """The locals of the modified code at run time: (moment, name, value)."""
        seen = self._ran_with.get(frame, [])
        return [
            (observed.moment, observed.name if observed.role != "stack" else f"stack {observed.name}", _of(observed, "real"))
            for observed in seen
        ]

    def nodes_of(self, frame: int) -> list[str]:
        """The nodes of a frame with known values."""
        return [name for number, name in self._nodes if number == frame]

    def is_same_node(self, frame: int, attempt: int, node: str) -> bool:
        """Whether a node of any attempt corresponds to the node of that name in the graph that ran."""
        ran = self._ran.get(frame, 0)
        if attempt in (0, ran):
            return True
        signature = self._signatures.get((frame, attempt, node))
        return signature is not None and signature == self._signatures.get((frame, ran, node))

    def why_not(self, frame: int, node: str) -> str:
        """Why the value of a node is unknown."""
        if not self.is_recorded:
            return _NOT_RECORDED
        if frame in self._left_out and (frame, node) not in self._nodes:
            return f"this run was not replayed: {self._left_out[frame]}"
        if frame in self._ran:
            return "the graph does not need it"
        is_compared = frame in self._compared
        return "this run was compared, but its values were not saved" if is_compared else "the graph of this frame did not run"

    def _of_node(self, frame: int, attempt: int, step: int, view: ev.ValueView) -> RealValue:
        if frame in self._compared and frame not in self._ran:
            return RealValue("not observed", why=_NOT_KEPT)
        if not self.is_same_node(frame, attempt, view.node):
            return RealValue("not observed", why="this attempt was discarded, and its graph never ran")
        latest: RealValue | None = None
        for since, value in self.history(frame, view.node):
            if latest is None or since <= step:
                latest = value
        argument = self._locals.get((frame, view.source))
        if latest is None and argument is not None:  # an input that the graph does not use
            return _argument(argument)
        return latest or RealValue("not observed", why=self.why_not(frame, view.node))


def _few(observed: ev.ValueObserved | None) -> str:
    """The first elements of a tensor inside a container."""
    return (
        f" ({', '.join(map(short, observed.first[:3]))}{', ...' if observed.first[3:] else ''})"
        if observed and observed.first
        else ""
    )


_MUTABLE = ("list of", "dict of", "a ")
"""Prefixes of the texts of values that the program may have mutated since the call."""

_PLAIN_KINDS = frozenset(
    {"ConstantVariable", "EnumVariable", "PythonModuleVariable", "BuiltinVariable", "FunctionVariable", "ClassVariable"}
)
"""Kinds of values that are known at trace time: the value shown is the live object."""

_NOT_FOLLOWED = "only tensors, numbers, containers, objects made here and arguments are followed"

_DEEPEST = 3
"""The nesting depth up to which containers are shown."""

_LONGEST = 240
_MOST_CHANGES = 50

_NOT_KEPT = "this run was compared, but its values were not saved"
_NOT_RECORDED = "the real run was not recorded"


def _argument(observed: ev.ValueObserved) -> RealValue:
    """The value of the argument; a list or an object may have been mutated since."""
    later = ", as passed in" if observed.text.startswith(_MUTABLE) else ""
    return _of(observed, "real", later)


def _of(observed: ev.ValueObserved, provenance: Provenance = "replayed", more: str = "") -> RealValue:
    if observed.why:
        return RealValue("not observed", why=observed.why, observed=observed)
    text = observed.text or f"{observed.dtype}{observed.shape} {observed.device}".strip()  # redacted
    return RealValue(provenance, text + more, observed=observed)
