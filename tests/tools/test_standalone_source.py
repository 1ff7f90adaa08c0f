"""tools/standalone_source.py: the text of a function with all that it names runs alone."""

from __future__ import annotations

import functools
import linecache
import operator
from typing import Any

import pytest
import torch
import torch.fx

from dynexplore.tools.standalone_source import NoSource, source_of

LIMIT = {"eps": 1e-2, "kinds": (torch.float32,)}
BAD = torch.erf


class Off(torch.fx.Interpreter):
    """Wrong on one operator."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """One operator."""
        result = super().call_function(target, args, kwargs)
        return amended(result) if target is BAD else result


def amended(x: Any) -> Any:
    return operator.add(x, LARGE)


LARGE = 7


def backend(graph: Any, inputs: Any) -> Any:
    return lambda *given: Off(graph).run(*given)


def run(text: str) -> dict[str, Any]:
    """The text in a namespace of its own."""
    namespace: dict[str, Any] = {"__name__": "alone"}
    exec(compile("from __future__ import annotations\nfrom typing import Any\n" + text, "<alone>", "exec"), namespace)
    return namespace


@pytest.mark.plain("writes the text of functions")
def test_functions_classes_and_values() -> None:
    """Whatever a function names, and what that names, comes before it."""
    text = source_of(backend, "backend")
    graph = torch.fx.symbolic_trace(lambda x: torch.erf(x))
    assert run(text)["backend"](graph, [])(torch.zeros(1)).item() == 7
    assert "from torch import erf as BAD" in text and "LARGE = 7" in text and text.count("class Off") == 1


@pytest.mark.plain("writes the text of functions")
def test_closures_lambdas_and_objects() -> None:
    """A function in a function, one without a name, an object with attributes, a method of it."""
    offset = 3

    def decorated(function: Any) -> Any:
        return function

    @decorated
    def inner(x: Any) -> Any:
        return x + offset

    short = lambda x: inner(x) * 2

    class Scaled:
        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, x: Any) -> Any:
            return x * self.by

    assert run(source_of(inner, "f"))["f"](1) == 4
    assert run(source_of(short, "f"))["f"](1) == 8
    assert run(source_of(Scaled(5), "f"))["f"](2) == 10
    assert run(source_of(Scaled(5).__call__, "f"))["f"](2) == 10


@pytest.mark.plain("writes the text of functions")
def test_a_class_of_a_notebook_cell() -> None:
    """It has no file, and its lines are known all the same; a decorator is left out."""
    text = "import functools\n\n@functools.total_ordering\nclass Cell:\n    def __lt__(self, other):\n        return True\n"
    linecache.cache["<cell 3>"] = (len(text), None, text.splitlines(keepends=True), "<cell 3>")
    made: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "<cell 3>", "exec"), made)
    assert source_of(made["Cell"], "Cell") == text[text.index("class") :]


@pytest.mark.plain("writes the text of functions")
def test_what_has_none() -> None:
    """It is said what."""
    made: dict[str, Any] = {}
    # "<string>" may be the program of a `python -c`, whose lines Python 3.13 knows
    exec(compile("def f(x):\n    return x", "<no file>", "exec"), made)
    with pytest.raises(NoSource, match="'f' has no source file"):
        source_of(made["f"], "f")
    with pytest.raises(NoSource, match="f is an object of functools.partial"):
        source_of(functools.partial(max, 3), "f")
