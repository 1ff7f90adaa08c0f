"""Records as people see them: what a question to a recording answers prints as a table, and is one in a notebook.

Which idea lives here: an answer is data, and a person who looks at it must not read the dump of a data class. So the answers are
tuples and strings as before, of classes that know how they print. The words are those of views/, which this room does not know:
they come by way of engine/display_hooks.py.

In:  records of one kind; a text of several lines.
Out: `Shown`, a tuple, and `Printed`, a string, which print and display well.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from dynexplore.engine import display_hooks

T = TypeVar("T")


class Shown(tuple[T, ...]):
    """Records of one kind, which `noun` names: a tuple that prints as a table.

    >>> Shown("graph break")
    no graph breaks
    """

    noun: str

    def __new__(cls, noun: str, records: Iterable[T] = ()) -> Shown[T]:
        made = super().__new__(cls, records)
        made.noun = noun
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.noun, tuple(self)

    def __repr__(self) -> str:
        return display_hooks.connected().words(self)

    def _repr_html_(self) -> str:
        return display_hooks.connected().picture(self)


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
