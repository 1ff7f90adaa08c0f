"""Records as people see them: what a question to a recording answers prints as a table, and is one in a notebook.

Which idea lives here: an answer is data, and a person who looks at it must not read the dump of a data class. So the answers are
tuples and strings as before, of classes that know how they print. The words are those of views/, which this room does not know:
they come by way of engine/display_hooks.py.

In:  records of one kind; GraphModules; a text of several lines.
Out: `Shown`, a tuple, `ShownGraphs`, a list, and `Printed`, a string, which print and display well.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from dynexplore.engine import display_hooks

T = TypeVar("T")


class Shown(tuple[T, ...]):
    """Records of one kind, which `noun` names: a tuple that prints as a table. `recording`: that they are of, where words for them
    come from other records of it; a copy or a pickle has the records alone.

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
    """GraphModules: a list that prints each with its code, where torch prints their names alone.

    >>> ShownGraphs()
    no graphs
    """

    def __repr__(self) -> str:
        return "\n\n".join(map(graph_text, self)) or "no graphs"

    def _repr_html_(self) -> str:
        return display_hooks.connected().picture(Printed(repr(self)))


def graph_text(graph: Any) -> str:
    """A GraphModule by its name, the number of its operators, and its code."""
    operators = sum(node.op.startswith("call_") for node in graph.graph.nodes)
    return f"{type(graph).__name__}: {operators} operator{'' if operators == 1 else 's'}\n{graph.code.strip()}"


class Printed(str):
    """A text of several lines, which a session shows as lines and not as an escaped string.

    >>> Printed("one\\ntwo")
    one
    two
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return display_hooks.connected().picture(self)
