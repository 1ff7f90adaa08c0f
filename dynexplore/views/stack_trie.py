"""All compilations of a run as a trie of stacks: which line of the program led to which compilation.

The idea: a codebase that one does not know compiles in many places. Callers that several compilations share are shown once, and
below them the lines at which they part. A chain of callers without a branch stays at one level, so that depth means a choice.
torch's own frames are left out.

In: a Recording with `FrameEntered.stack`, as of a log of torch.compile. Out: `trie_of(recording)`: `Branch`es; `trie_lines(...)`,
text; `trie_data(recording)`, rows for the explorer. PyTorch's counterpart: none; tlparse shows such a trie in its index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import GraphView, Recording
from dynexplore.views.counts import plural
from dynexplore.views.names import frame_name, short_file

Key = tuple[str, int, str]
"""File, line and function of a caller."""


@dataclass
class Branch:
    """A caller, the callers below it, and the compilations that its line began; at the root, `place` is None."""

    place: ev.UserFrame | None = None
    inner: dict[Key, Branch] = field(default_factory=dict)
    frames: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of compilations in it."""
        return len(self.frames) + sum(branch.count for branch in self.inner.values())


def trie_of(recording: Recording) -> Branch:
    """The trie; empty if no stack was recorded."""
    root = Branch()
    for entered in recording.frames:
        if not entered.stack:
            continue
        branch = root
        for place in entered.stack:
            branch = branch.inner.setdefault((place.file, place.line, place.function), Branch(place))
        branch.frames.append(entered.frame)
    return root


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the trie: a caller, or a compilation (`frame`, from 1) below it. `depth` counts the branchings above it."""

    depth: int
    text: str
    code: str = ""
    frame: int = 0


def rows_of(recording: Recording) -> list[Row]:
    """The trie line by line."""
    entered_frames = {entered.frame: entered for entered in recording.frames if entered.stack}
    if not entered_frames:
        return []
    first_graphs = {graph.frame: graph for graph in reversed(recording.graphs)}

    def rows(branch: Branch, depth: int) -> Iterator[Row]:
        if branch.place is not None:
            where = f"{short_file(branch.place.file)}:{branch.place.line} in {branch.place.function}"
            yield Row(depth, where, branch.place.code.strip())
        is_fork = len(branch.inner) + bool(branch.frames) > 1
        below = depth + 1 if is_fork and branch.place is not None else depth
        for frame in branch.frames:
            name, facts = frame_name(recording, entered_frames[frame]), _facts(recording, frame, first_graphs.get(frame))
            yield Row(depth + 1, f"{name}: {facts}", "", frame)
        for child in branch.inner.values():
            yield from rows(child, below)

    return list(rows(trie_of(recording), 0))


def _facts(recording: Recording, frame: int, graph: GraphView | None) -> str:
    """The outcome of a compilation, whose first graph this is, in a few words."""
    outcome = " ".join(event.outcome for event in recording.of_frame(frame, ev.FrameFinished))
    facts = [graph.name] if graph is not None else []
    facts.append(outcome or "not finished")
    if graph is not None:
        facts.append(plural(graph.op_count, "operator"))
    facts += ["recompile" for _ in recording.of_frame(frame, ev.Recompiled)[:1]]
    facts += ["graph break" for _ in recording.of_frame(frame, ev.GraphBroke)[:1]]
    facts += ["backend failed" for _ in recording.of_frame(frame, ev.BackendFailed)[:1]]
    return ", ".join(facts)


def trie_lines(recording: Recording) -> list[str]:
    """The trie as text; none if no stack was recorded."""
    return [
        f"{'  ' * row.depth}{'* ' if row.frame else ''}{row.text}{f'    {row.code}' if row.code else ''}"
        for row in rows_of(recording)
    ]


def trie_data(recording: Recording) -> list[dict[str, Any]]:
    """The trie as rows for the explorer."""
    return [{"depth": row.depth, "text": row.text, "code": row.code, "frame": row.frame} for row in rows_of(recording)]
