"""The difference between two captures: what is equal in their graphs, guards and breaks, and what is not.

The idea: a recompile, a what-if query and an edited source all raise the question "what is different now?". The answer is three
tables of aligned rows: nodes in order (aligned by their targets), guards by their sources, breaks in order.

In: a frame of a recording, and a frame of the same or of another one. Out: a `Difference`, with `str()` for terminals;
`difference_data` for the browser. PyTorch's counterpart: none.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.break_places import place_words
from dynexplore.views.guard_words import words
from dynexplore.views.names import input_names

T = TypeVar("T")

WIDEST = 76
"""The most characters of a cell in a terminal table; a longer text is cut in the middle."""


@dataclass(frozen=True, slots=True)
class Row:
    """One aligned row: `sign` is "=" (equal), "~" (changed), "-" (only before) or "+" (only after)."""

    sign: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two captures, as aligned rows."""

    nodes: tuple[Row, ...] = ()
    guards: tuple[Row, ...] = ()
    breaks: tuple[Row, ...] = ()

    def __bool__(self) -> bool:
        return any(row.sign != "=" for rows in (self.nodes, self.guards, self.breaks) for row in rows)

    def __str__(self) -> str:
        parts = [f"{name}: {_counts(rows)}\n{_table(rows)}" for name, rows in self.parts() if rows]
        return "\n".join(parts) or "nothing was captured on either side"

    def parts(self) -> tuple[tuple[str, tuple[Row, ...]], ...]:
        """The three tables by name."""
        return ("graph", self.nodes), ("guards", self.guards), ("breaks", self.breaks)


def difference(before: Recording, frame: int, after: Recording, other: int) -> Difference:
    """The difference between frame `frame` of `before` and frame `other` of `after`."""
    return Difference(
        _renamed(
            _aligned(_nodes(before, frame), _nodes(after, other), _node_key, _node_text),
            *(_input_names(recording, number) for recording, number in ((before, frame), (after, other))),
        ),
        _by_key(_guards(before, frame), _guards(after, other), _guard_key, words),
        _aligned(_breaks(before, frame), _breaks(after, other), _break_key, _break_text),
    )


def difference_data(difference: Difference) -> dict[str, list[dict[str, str]]]:
    """The same as lists of {sign, before, after}, by name."""
    return {
        name: [{"sign": row.sign, "before": row.before, "after": row.after} for row in rows] for name, rows in difference.parts()
    }


# -- rows ------------------------------------------------------------------------------------------------------


def _nodes(recording: Recording, frame: int) -> list[ev.NodeAdded]:
    return [node for graph in recording.graphs if graph.frame == frame for node in graph.nodes]


def _guards(recording: Recording, frame: int) -> list[ev.GuardInstalled]:
    return [guard for guard in recording.guards if guard.frame == frame]


def _node_key(node: ev.NodeAdded) -> Hashable:
    return node.op, node.target


def _node_text(node: ev.NodeAdded) -> str:
    result = f": {node.dtype}{node.shape}" if node.dtype else ""
    if node.op == "placeholder":
        return f"{node.name} = input{result}"
    if node.op == "output":
        return f"output {node.args}"
    keywords = f", {node.kwargs}" if node.kwargs not in ("", "{}") else ""
    return f"{node.name} = {node.target}{_ONE_ARGUMENT.sub(')', node.args)}{keywords}{result}"


_ONE_ARGUMENT = re.compile(r",\)$")
"""The end of a tuple of one argument: a call has no comma there."""


def _input_names(recording: Recording, frame: int) -> dict[str, str]:
    """The program's names of the graph inputs of a frame, where they differ: `l_x_` is `x`."""
    return input_names(recording, recording.frame(frame)) if recording.of_frame(frame, ev.FrameEntered) else {}


def _renamed(rows: Sequence[Row], before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows with the program's names of graph inputs on either side."""
    return tuple(_row_of(row.sign, _with_names(row.before, before), _with_names(row.after, after)) for row in rows)


def _with_names(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), text) if names else text


def _row_of(sign: str, before: str, after: str) -> Row:
    """A row of that sign; equal texts do not differ."""
    return Row("=" if sign == "~" and before == after else sign, before, after)


_MANY_OF_A_PLACE = frozenset({
    "SHAPE_ENV", "NAME_ABSENT", "NAME_PRESENT", "ATTRIBUTE_ABSENT", "ALIAS", "DISTINCT", "NO_ATTRIBUTE_ALIAS", "NO_DICT_ALIAS",
})  # fmt: skip


def _guard_key(guard: ev.GuardInstalled) -> Hashable:
    # guards of these kinds are told apart by their expected value
    return guard.scope, guard.source, guard.kind, guard.expected if guard.kind in _MANY_OF_A_PLACE else ""


def _breaks(recording: Recording, frame: int) -> list[tuple[ev.GraphBroke, str]]:
    """The breaks of a frame, each with its location."""
    return [(broke, place_words(broke, recording)) for broke in recording.of_frame(frame, ev.GraphBroke)]


def _break_key(row: tuple[ev.GraphBroke, str]) -> Hashable:
    broke, _ = row
    return broke.kind, broke.user_stack[-1].line if broke.user_stack else 0


def _break_text(row: tuple[ev.GraphBroke, str]) -> str:
    broke, place = row
    return broke.title + (f" at {place}" if place else "")


# -- aligning --------------------------------------------------------------------------------------------------


def _aligned(before: Sequence[T], after: Sequence[T], key: Callable[[T], Hashable], text: Callable[[T], str]) -> tuple[Row, ...]:
    """Rows in order, aligned where keys are equal in the same order."""
    matcher = difflib.SequenceMatcher(None, [key(item) for item in before], [key(item) for item in after], autojunk=False)
    rows: list[Row] = []
    for _, low, high, other_low, other_high in matcher.get_opcodes():
        before_texts, after_texts = [text(item) for item in before[low:high]], [text(item) for item in after[other_low:other_high]]
        paired = high - low == other_high - other_low and [key(i) for i in before[low:high]] == [
            key(i) for i in after[other_low:other_high]
        ]
        if paired:
            rows += [_row(before_text, after_text) for before_text, after_text in zip(before_texts, after_texts, strict=True)]
        else:
            rows += [
                *(Row("-", before_text, "") for before_text in before_texts),
                *(Row("+", "", after_text) for after_text in after_texts),
            ]
    return tuple(rows)


def _by_key(before: Iterable[T], after: Iterable[T], key: Callable[[T], Hashable], text: Callable[[T], str]) -> tuple[Row, ...]:
    """Rows aligned by key, regardless of order; those of the left first."""
    others = {key(item): text(item) for item in after}
    rows = []
    for item in before:
        other = others.pop(key(item), None)
        rows.append(Row("-", text(item), "") if other is None else _row(text(item), other))
    return (*rows, *(Row("+", "", other) for other in others.values()))


def _row(before: str, after: str) -> Row:
    return Row("=" if before == after else "~", before, after)


def _counts(rows: Sequence[Row]) -> str:
    words = {"=": "unchanged", "~": "changed", "-": "removed", "+": "added"}
    signs = [row.sign for row in rows]
    return ", ".join(f"{signs.count(sign)} {word}" for sign, word in words.items() if sign in signs)


def _table(rows: Sequence[Row]) -> str:
    cells = [(row.sign, ev.clip(row.before, WIDEST), ev.clip(row.after, WIDEST)) for row in rows]
    width = max((len(before) for _, before, _ in cells), default=0)
    return "\n".join(f"  {sign} {before.ljust(width)} | {after}".rstrip() for sign, before, after in cells)
