"""The link table: which items of all panes belong together.

The idea: every item that a pane shows (a node, a guard, a break, a modified instruction, a step, a value on the stack, ...)
originates from original instructions, and every instruction has a source span. So the table maps each item to its *places*; two
items are related if they share a place. Selecting an item highlights the items with a common place, its instructions and their
spans; selecting an instruction or a span highlights everything that originates from it, in every frame. Every item has a place:
one without an instruction of its own (the output node, a guard on global state, an instruction that loads an input) is assigned
that of its origin.

A place is (frame, offsets of the inlined calls on the path to the function, its code, offset). Attempts are not part of it, so
that the break of attempt 1 and the modified code of attempt 2 are related. A resume function's instructions count as the
original instructions that they continue.

In: a Recording. Out: `Links`: `related(item)`, and `as_plain()` for the widget. An item is named by a short string, created by
the functions of this file: `node_key(1, "add")` is "node:1:add". PyTorch's counterpart: none; tlparse shows the same artifacts
as separate pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording

Place = tuple[int, tuple[int, ...], int, int]
"""(frame, offsets of the inlined calls on the path, id of the code, offset). One call may inline several functions."""


def instruction_key(code: int, offset: int) -> str:
    """The key of the original instruction at an offset of a code object."""
    return f"instruction:{code}:{offset}"


def span_key(code: int, row: ev.ListingRow) -> str:
    """The key of the source span of an original instruction."""
    return f"span:{code}:{row.line}:{row.column}:{row.end_line}:{row.end_column}"


def node_key(frame: int, name: str) -> str:
    """The key of a node of the frame's graph."""
    return f"node:{frame}:{name}"


def guard_key(frame: int, index: int) -> str:
    """The key of a guard of the frame."""
    return f"guard:{frame}:{index}"


def break_key(position: int) -> str:
    """The key of the graph break that is event number `position`."""
    return f"break:{position}"


def step_key(position: int) -> str:
    """The key of the step that is event number `position`."""
    return f"step:{position}"


def mutation_key(position: int) -> str:
    """The key of the side effect that is event number `position`."""
    return f"mutation:{position}"


def value_key(frame: int, attempt: int, value: int) -> str:
    """The key of a value on the stack or in a local: `value` is its ValueView's id."""
    return f"value:{frame}:{attempt}:{value}"


def modified_key(frame: int, offset: int) -> str:
    """The key of an instruction of the frame's modified code."""
    return f"modified:{frame}:{offset}"


def resume_key(frame: int, name: str) -> str:
    """The key of a resume function that the frame created."""
    return f"resume:{frame}:{name}"


class Links:
    """The link table of a recording: items, their places, and the relation between items."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._rows = {code.id: {row.offset: row for row in code.rows} for code in recording.codes.values()}
        self._paths: dict[tuple[int, int, int], tuple[tuple[int, ...], int]] = {}
        self._code_of: dict[int, int] = {}
        # every item and its place of origin, except instructions and spans
        self.places: dict[str, tuple[Place, ...]] = {}
        self._find_functions()
        self._add_steps_and_values()
        self._add_graphs_and_guards()
        self._add_breaks()
        self._add_modified_code()

    # -- queries -----------------------------------------------------------------------------------------------------

    def related(self, item: str) -> frozenset[str]:
        """Every item, instruction and span that is related to `item`, excluding itself; empty for an unknown item."""
        if item.startswith(("instruction:", "span:")):
            items = {*self._index[1].get(item, ()), *self._near(item)}
        else:
            places = self.places.get(item, ())
            items = {other for place in places for other in self._index[0][place]}
            items |= {key for place in places for key in self.keys(place)}
        return frozenset(items - {item})

    def instructions(self, item: str) -> frozenset[str]:
        """The original instructions that `item` originates from."""
        return frozenset(key for key in self.related(item) if key.startswith("instruction:"))

    def spans(self, item: str) -> frozenset[str]:
        """The source spans that `item` originates from."""
        return frozenset(key for key in self.related(item) if key.startswith("span:"))

    def slot(self, step: ev.InstructionStepped, slot: int) -> str:
        """The value in a stack slot after a step, as an item."""
        return value_key(step.frame, step.attempt, step.stack[slot].id)

    def as_plain(self) -> dict[str, Any]:
        """The table as lists and strings: items -> [instruction and span keys], for JavaScript."""
        return {item: sorted({key for place in places for key in self.keys(place)}) for item, places in self.places.items()}

    def keys(self, place: Place) -> tuple[str, ...]:
        """The keys of the instruction at a place and of its span; none if there is no instruction."""
        _, _, code, offset = place
        rows = self._rows.get(code, {})
        row = rows.get(offset)
        if row is None:
            return ()
        if row.line <= 0:  # an instruction without a line number belongs to the one before it
            row = max((r for r in rows.values() if r.line > 0 and r.offset <= offset), key=lambda r: r.offset, default=row)
        return instruction_key(code, offset), span_key(code, row)

    # -- places ------------------------------------------------------------------------------------------------------

    def _find_functions(self) -> None:
        """Collect the code of each frame and each inlined callee, and the path of calls to the callee."""
        for entered in self._recording.frames:
            self._code_of[entered.frame] = self._recording.original_code(entered.frame).id
        for call in self._recording.of(ev.InlineEntered):
            path, _ = self._function(call)
            self._paths[call.frame, call.attempt, call.callee] = ((*path, call.offset), call.code.id)

    def _function(self, event: ev.InstructionEvent) -> tuple[tuple[int, ...], int]:
        """The path of calls to the function in which an event happened, and the id of its code."""
        if event.inline:
            return self._paths.get((event.frame, event.attempt, event.inline), ((), -1))
        return (), self._code_of.get(event.frame, -1)

    def _place(self, event: ev.InstructionEvent) -> Place:
        """The place where an event originates; the first instruction of the frame if it names none."""
        if event.offset < 0:
            return self._entry(event.frame)
        path, code = self._function(event)
        return event.frame, path, code, event.offset

    def _in_frame(self, frame: int, offset: int) -> Place:
        return frame, (), self._code_of.get(frame, -1), offset

    def _entry(self, frame: int) -> Place:
        rows = self._rows.get(self._code_of.get(frame, -1), {})
        return self._in_frame(frame, next((row.offset for row in rows.values() if row.line > 0), 0))

    def _last(self, frame: int) -> Place:
        """The end of a frame's graph: its break, or the last instruction that was interpreted."""
        for kind in (ev.GraphBroke, ev.InstructionStepped):
            events = [event for event in self._recording.of_frame(frame, kind) if not event.inline]
            if events:
                return self._place(events[-1])
        return self._entry(frame)

    # -- building the table ------------------------------------------------------------------------------------------

    def _add_steps_and_values(self) -> None:
        for position, event in enumerate(self._recording):
            if isinstance(event, ev.FrameEntered):
                self._add_values(event.frame, 0, (view for _, view in event.arguments), self._entry(event.frame))
            elif isinstance(event, ev.InstructionStepped):
                place = self._place(event)
                self.places[step_key(position)] = (place,)
                self._add_values(event.frame, event.attempt, event.stack, place)
                self._add_values(event.frame, event.attempt, (view for _, view in event.changed if view), place)
            elif isinstance(event, ev.MutationRecorded):
                self.places[mutation_key(position)] = (self._place(event),)

    def _add_values(self, frame: int, attempt: int, views: Iterable[ev.ValueView], place: Place) -> None:
        """Add values at the place where they first occurred."""
        for view in views:
            if view.kind != "NULL":
                self.places.setdefault(value_key(frame, attempt, view.id), (place,))

    def _add_graphs_and_guards(self) -> None:
        for guard in self._recording.guards:
            self.places[guard_key(guard.frame, guard.index)] = (self._place(guard),)
        for graph in self._recording.graphs:
            for node in graph.nodes:
                place = self._place(node) if node.offset >= 0 else self._last(node.frame)
                self.places[node_key(node.frame, node.name)] = (place,)

    def _add_breaks(self) -> None:
        for position, event in enumerate(self._recording):
            if isinstance(event, ev.GraphBroke):
                self.places[break_key(position)] = (self._place(event),)
            elif isinstance(event, ev.ResumeFunctionCreated):
                self.places[resume_key(event.frame, event.name)] = (self._place(event),)

    def _add_modified_code(self) -> None:
        graphs: dict[int, list[ev.NodeAdded]] = {}
        for graph in self._recording.graphs:
            graphs.setdefault(graph.frame, []).extend(graph.nodes)
        for entered in self._recording.frames:
            code = self._recording.modified_code(entered.frame)
            if code is not None:
                self._add_rows(entered.frame, code.rows, graphs.get(entered.frame, []))

    def _add_rows(self, frame: int, rows: Iterable[ev.ListingRow], nodes: list[ev.NodeAdded]) -> None:
        """Add modified instructions; one without an origin belongs to the one before it, else to the one after."""
        inputs = {name: self._place(n) for n in nodes if n.op == "placeholder" for name in (n.target, n.name)}
        whole_graph = tuple(dict.fromkeys(self.places[node_key(frame, node.name)][0] for node in nodes))
        before: tuple[Place, ...] = ()
        waiting: list[str] = []
        for row in rows:
            places = before
            if row.origin >= 0:
                places = (self._in_frame(frame, row.origin),)
            elif resumed := self.places.get(resume_key(frame, row.arg)):
                places = resumed
            elif row.arg in inputs and "load" in row.role:
                places = (inputs[row.arg],)
            elif whole_graph and "graph" in row.role:
                places = whole_graph
            item = modified_key(frame, row.offset)
            if places:
                self.places.update(dict.fromkeys([item, *waiting], places))
                before, waiting = places, []
            else:
                waiting.append(item)
        self.places.update(dict.fromkeys(waiting, (self._entry(frame),)))

    # -- index -------------------------------------------------------------------------------------------------------

    @cached_property
    def _index(self) -> tuple[dict[Place, list[str]], dict[str, list[str]]]:
        """Index the items by place, and the places by key, for queries in Python; a browser builds its own index."""
        at: dict[Place, list[str]] = {}
        of: dict[str, list[str]] = {}
        for item, places in self.places.items():
            for place in places:
                at.setdefault(place, []).append(item)
                for key in self.keys(place):
                    of.setdefault(key, []).append(item)
        return at, of

    def _near(self, key: str) -> set[str]:
        """The span of an instruction, or the instructions of a span."""
        kind, code, *rest = key.split(":")
        rows = self._rows.get(int(code), {}).values()
        if kind == "instruction":
            return {span_key(int(code), row) for row in rows if row.offset == int(rest[0])}
        return {instruction_key(int(code), row.offset) for row in rows if span_key(int(code), row) == key}
