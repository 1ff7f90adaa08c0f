"""Query results of a recording that print as a table, and display as one in a notebook.

The idea: query results are data, but the default repr of a dataclass is hard to read. So the results are tuples and strings as
before, of subclasses that format themselves. The formatting is done by views/, which this package may not import; it is called
through engine/display_hooks.py.

In: records of one kind; GraphModules; a multi-line text. Out: `Shown` (a tuple), `ShownGraphs` (a list) and `Printed` (a
string). PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from dynexplore.engine import display_hooks

T = TypeVar("T")


class Shown(tuple[T, ...]):
    """Records of one kind, named by `noun`: a tuple that prints as a table. `recording` is the recording that they belong to, used
    to describe them; a copy or a pickle contains only the records.

    >>> Shown("graph break")
    no graph breaks
    """

    noun: str
    recording: Any

    def __new__(cls, noun: str, records: Iterable[T] = (), recording: Any = None) -> Shown[T]:
        shown = super().__new__(cls, records)
        shown.noun, shown.recording = noun, recording
        return shown

    def __reduce__(self) -> tuple[Any, ...]:
        return Shown, (self.noun, tuple(self))

    def __repr__(self) -> str:
        return display_hooks.connected().words(self)

    def _repr_html_(self) -> str:
        return display_hooks.connected().picture(self)


class ShownGraphs(list[Any]):
    """GraphModules: a list that prints each with its code; a plain list would print only their names.

    >>> ShownGraphs()
    no graphs
    """

    def __repr__(self) -> str:
        return "\n\n".join(map(graph_text, self)) or "no graphs"

    def _repr_html_(self) -> str:
        return display_hooks.connected().picture(Printed(repr(self)))


def graph_text(graph: Any) -> str:
    """A GraphModule as text: its name, the number of its operators, and its code."""
    operators = sum(node.op.startswith("call_") for node in graph.graph.nodes)
    return f"{type(graph).__name__}: {operators} operator{'' if operators == 1 else 's'}\n{graph.code.strip()}"


class Printed(str):
    """A multi-line text whose repr shows lines instead of an escaped string.

    >>> Printed("one\\ntwo")
    one
    two
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return display_hooks.connected().picture(self)
