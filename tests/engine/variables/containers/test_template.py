"""Template strings, from Python 3.14 on: what is captured, and what comes out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynexplore.engine.bytecode import FACTS
from engine_checks import assert_same_as_eager

pytestmark = pytest.mark.skipif(FACTS.version < (3, 14), reason="template strings are syntax of Python 3.14")

X = torch.arange(3.0)


def defined(source: str) -> Any:
    """The function f of a program that older Pythons cannot read."""
    namespace: dict[str, Any] = {"torch": torch}
    exec(source, namespace)
    return namespace["f"]


def parts(template: Any) -> Any:
    """What can be compared of a template: classes of Python 3.14 compare by identity."""
    fields = ("value", "expression", "conversion", "format_spec")
    return [part if isinstance(part, str) else [getattr(part, field) for field in fields] for part in template]


def test_a_template_comes_out_with_its_values() -> None:
    """A template that the function returns has the tensor, the texts, the conversion and the format."""
    f = defined("def f(x, n):\n    return t'a{x + 1}b{n!r:>{n + 1}}' t'{n=}'\n")
    assert_same_as_eager(lambda x, n: parts(f(x, n)), X, 4, graphs=1)


def test_the_parts_are_read_inside() -> None:
    """strings, values and interpolations, and a walk over the parts."""
    f = defined(
        "def f(x, n):\n"
        "    t = t'a{x}b{n:>3}'\n"
        "    total = sum(v for v in t.values)\n"
        "    return total, t.strings, [i.expression for i in t.interpolations], [p if isinstance(p, str) else p.value for p in t]\n"
    )
    assert_same_as_eager(f, X, 4, graphs=1)


def test_a_template_lives_through_a_break() -> None:
    """One that is made before a break and read behind it is the same object for all who hold it."""
    f = defined(
        "def f(x):\n    t = t'{x * 2}'\n    u = [t]\n    print('between')\n    return t.values[0] + 1, u[0] is t, t''.strings\n"
    )
    assert_same_as_eager(f, X, graphs=2, breaks=2)  # the live template is not looked into
