"""The state of torch's trackers at a moment: short facts while torch works, records when the recording is read.

The idea: a step has a stack of trackers, most of which were there at the previous step. So each tracker is read once, into a tuple
of a few strings, and read again only if it may have changed since; a stack is a tuple of such tuples. This keeps the number of new
objects per step small: a dozen objects per step would cost more in Python's garbage collector than the reads themselves. Records
are created from the facts later, one for each.

torch renames a node when its value is stored in a local. Facts have the node's name at that moment, records the final one. torch
names a closure variable `wrapper.__closure__[0].cell_contents`; records use its name in the function.

In: trackers of torch. Out: `Values`: `facts`, `stack`, `named` while torch works; `view`, `views`, `named_views` afterwards.

PyTorch's counterpart: `VariableTracker.debug_repr` in torch/_dynamo/variables/base.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.records import quick
from dynexplore.traces.torch_words import plain_source
from dynexplore.watching import private_torch

Facts = tuple[int, str, str, str, str]
"""The facts of a tracker: its number in the attempt, its class, its value in words, torch's name of its source, the name of its
node.
"""

Stack = tuple[Facts, ...]
Named = tuple[tuple[str, Facts], ...]

_NULL: Facts = (ev.NULL_VIEW.id, "NULL", "NULL", "", "")
_MADE_UP = ("___", "__nested_", "__is_tracing_resume")
_CELL = re.compile(r"\.__closure__\[\d+\]$")
_new_view = quick(ev.ValueView)


class Values:
    """The trackers of one attempt. It holds them until `close`, so that no id is reused: torch releases some of them."""

    def __init__(self) -> None:
        self._keepalive: list[Any] = []
        self._count = 0
        # both by id: immutable trackers, and mutable ones with their fields and the last result of `changing`
        self._lasting: dict[int, Facts] = {}
        self._passing: dict[int, tuple[private_torch.Fields, int, Facts]] = {}
        self._nodes: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._cells: dict[str, str] = {}  # torch's name of a cell's content -> the name of the local
        self._views: dict[int, tuple[Facts, ev.ValueView]] = {}

    # -- while torch works -----------------------------------------------------------------------------------------------

    def facts(self, tracker: Any) -> Facts:
        """The current facts of a tracker."""
        return self._lasting.get(id(tracker)) or self._read(tracker)

    def stack(self, trackers: Sequence[Any]) -> Stack:
        """The facts of a whole stack, bottom first."""
        lasting, read = self._lasting.get, self._read
        seen = []
        for tracker in trackers:  # no comprehension: on 3.11 that is a function call, and most stacks are short
            seen.append(lasting(id(tracker)) or read(tracker))
        return tuple(seen)

    def named(self, trackers: Mapping[str, Any]) -> Named:
        """The facts of locals. Names that torch generated are left out."""
        seen = tuple([(name, self.facts(tracker)) for name, tracker in trackers.items() if not name.startswith(_MADE_UP)])
        for name, facts in seen:
            if "__closure__" in facts[3] and _CELL.search(facts[3]):
                self._cells[f"{facts[3]}.cell_contents"] = name
        return seen

    def _read(self, tracker: Any) -> Facts:
        passing = self._passing.get(id(tracker))
        if passing is None:
            return self._first_read(tracker)
        fields, before, facts = passing
        now = private_torch.changing(fields)
        return facts if now == before else self._read_again(tracker, fields, now, facts)

    def _first_read(self, tracker: Any) -> Facts:
        self._keepalive.append(tracker)
        if private_torch.is_null(tracker):
            self._lasting[id(tracker)] = _NULL
            return _NULL
        self._count += 1
        fields = private_torch.fields_of(tracker)
        return self._know(tracker, fields, private_torch.changing(fields), self._count)

    def _read_again(self, tracker: Any, fields: private_torch.Fields, changing: int | None, before: Facts) -> Facts:
        self._passing.pop(id(tracker))
        return self._know(tracker, fields, changing, before[0])

    def _know(self, tracker: Any, fields: private_torch.Fields, changing: int | None, number: int) -> Facts:
        kind, text, source, node = private_torch.tracker_words(tracker, fields)
        if node is None:
            facts = number, kind, text, source, ""
        else:
            self._nodes[node.name] = node
            facts = number, kind, text, source, node.name
        if changing is None:
            self._lasting[id(tracker)] = facts
        else:
            self._passing[id(tracker)] = fields, changing, facts
        return facts

    def close(self) -> None:
        """Called when the attempt is over: drop the trackers, keep the final names of renamed nodes."""
        self._names = {name: node.name for name, node in self._nodes.items() if node.name != name}
        self._lasting.clear()
        self._passing.clear()
        self._keepalive.clear()
        self._nodes.clear()

    # -- when the recording is read --------------------------------------------------------------------------------------

    def view(self, facts: Facts) -> ev.ValueView:
        """The record of a tracker's facts: equal facts share one record."""
        if facts is _NULL:
            return ev.NULL_VIEW
        cached = self._views.get(id(facts))
        if cached is None:
            number, kind, text, source, node = facts
            view = _new_view(number, kind, text, self._plain(source), self._names.get(node, node))
            cached = self._views[id(facts)] = facts, view
        return cached[1]

    def _plain(self, source: str) -> str:
        for cell in sorted(self._cells, key=len, reverse=True) if ".__closure__" in source else ():
            source = source.replace(cell, self._cells[cell])
        return plain_source(source)

    def views(self, stack: Stack) -> tuple[ev.ValueView, ...]:
        """The records of a whole stack."""
        return tuple([self.view(facts) for facts in stack])

    def named_views(self, named: Named) -> tuple[tuple[str, ev.ValueView], ...]:
        """The records of locals."""
        return tuple([(name, self.view(facts)) for name, facts in named])
