"""variables/objects/super_.py: what `super()` without arguments finds, and what it raises, in every kind of function."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

BODIES = {
    "no parameter": "class C:\n    def f():\n        super()\n",
    "only *args": "class C:\n    def f(*args):\n        super()\n",
    "only keywords": "class C:\n    def f(*, self=None):\n        super()\n",
    "first parameter deleted": "class C:\n    def f(self=None):\n        del self\n        super()\n",
    "first parameter deleted in a cell":
        "class C:\n    def f(self=None):\n        g = lambda: self\n        del self\n        super()\n",
    "no __class__ cell": "class C:\n    pass\ndef f(self=None):\n    super()\nC.f = staticmethod(f)\n",
    "an unrelated first argument": "class C:\n    def f(self=3):\n        super()\n",
    "a method": "class C:\n    @staticmethod\n    def f():\n        return C().g()\n    def g(self):\n"
                "        return super().__eq__(self)\n",
    "first parameter in a cell": "class C:\n    @staticmethod\n    def f():\n        return C().g()\n    def g(self):\n"
                                 "        h = lambda: self\n        return super().__eq__(h())\n",
    "a list comprehension": "class C:\n    @staticmethod\n    def f():\n        return C().g()\n    def g(self):\n"
                            "        return [super().__eq__(self) for _ in range(1)]\n",
    "a generator expression": "class C:\n    @staticmethod\n    def f():\n        return C().g()\n    def g(self):\n"
                              "        return list(super().__eq__(self) for _ in range(1))\n",
}
"""Kind of function -> a class whose function `f` calls `super()`."""

CALL = """
def program(x):
    y = x + 1
    try:
        outcome = C.f()
    except (RuntimeError, TypeError) as error:
        outcome = type(error).__name__, str(error)
    return y * 2, outcome
"""


@pytest.mark.parametrize("breaks", ["", "print('here')"])
@pytest.mark.parametrize("kind", sorted(BODIES))
def test_super_finds_and_raises_what_it_does_in_python(kind: str, breaks: str) -> None:
    """Also behind a graph break, in a resume function, whose parameters are all locals."""
    text = re.sub(r"^( +)(?=.*super\(\))", rf"\1{breaks or 'pass'}\n\1", BODIES[kind], flags=re.M)
    namespace: dict[str, Any] = {}
    exec(text + CALL, namespace)
    assert_same_as_eager(namespace["program"], torch.ones(2), then=[(torch.ones(2),)])


def test_a_class_cell_is_empty_until_the_class_exists() -> None:
    """A metaclass that calls a method in `__new__` comes before `type.__new__` fills the cell."""
    class Calls(type):
        def __new__(cls, name, bases, body):
            try:
                body["f"](None)
            except RuntimeError as error:
                body["said"] = str(error)
            return type.__new__(cls, name, bases, body)

    def program(x):
        class C(metaclass=Calls):
            def f(self):
                super()

        return x + 1, C.said

    assert_same_as_eager(program, torch.ones(2))
