"""engine/graph/argument_checks.py: a call whose result is unused raises as in eager, constant and symbolic arguments alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from properties.random_programs import ANY

from engine_checks import assert_same_as_eager

Form = Callable[[Any, Any], Any]

OF_A_DIMENSION: dict[str, Form] = {
    "softmax": lambda x, n: x.softmax(n),
    "log_softmax": lambda x, n: x.log_softmax(n),
    "softmin": lambda x, n: torch.nn.functional.softmin(x, n),
    "sort": lambda x, n: x.sort(n),
    "stable sort": lambda x, n: torch.sort(x, stable=True, dim=n),
    "argsort": lambda x, n: x.argsort(n),
    "sum": lambda x, n: x.sum(n),
    "cumsum": lambda x, n: x.cumsum(n),
    "max": lambda x, n: x.max(n),
    "flip": lambda x, n: x.flip(n),
    "unsqueeze": lambda x, n: x.unsqueeze(n),
    "cat": lambda x, n: torch.cat([x, x], n),
    "gather": lambda x, n: x.gather(n, torch.zeros(1, 3, dtype=torch.int64)),
    "into a slice": lambda x, n: x.slice_scatter(x[:1], n, 1, 2),
    "into a row": lambda x, n: x.select_scatter(x[0], n, 0),
}
OF_A_NUMBER: dict[str, Form] = {
    "row": lambda x, n: x[n],
    "column": lambda x, n: x[:, n],
    "select": lambda x, n: torch.select(x, 0, n),
    "narrow": lambda x, n: x.narrow(0, 0, n),
    "topk": lambda x, n: x.topk(n),
    "unfold": lambda x, n: x.unfold(0, n, 1),
    "expand": lambda x, n: x.expand(n, 3),
    "view": lambda x, n: x.view(n, 3),
    "repeat": lambda x, n: x.repeat(n, 1),
    "chunk": lambda x, n: x.chunk(n),
    "zeros": lambda x, n: torch.zeros(n),
    "arange": lambda x, n: torch.arange(0, 5, n),
    "one_hot": lambda x, n: torch.nn.functional.one_hot(torch.tensor([1]), n),
    "as_strided": lambda x, n: x.as_strided((n,), (1,)),
    "as_strided from an offset": lambda x, n: x.as_strided((1,), (1,), n),
    "into a slice": lambda x, n: x.slice_scatter(x[:1], 0, n, n + 1),
    "into a row": lambda x, n: x.select_scatter(x[0], 0, n),
    "into a diagonal": lambda x, n: x.diagonal_scatter(torch.zeros(3), n),
    "reversed uniform": lambda x, n: x.clone().uniform_(2.5 + n * n, 2.5),
    "random with a lower bound": lambda x, n: x.clone().random_(n, 3),
}


def only_asks(form: Form) -> Callable[[Any, Any], Any]:
    """It returns no tensor: AOTAutograd leaves an attribute on those that it returns under dynamic sizes."""

    def program(x: Any, n: int) -> Any:
        raised = None
        try:
            form(x, n)
        except Exception as error:
            raised = type(error).__name__
        x.mul_(2)
        return raised

    return program


@pytest.mark.parametrize("name", OF_A_DIMENSION)
@pytest.mark.parametrize("dim", [1, -1, 2, -3, 7])
def test_of_a_dimension(name: str, dim: int) -> None:
    """A compiler would drop the call, and whether it raises with it."""
    program = only_asks(OF_A_DIMENSION[name])
    assert_same_as_eager(lambda x: program(x, dim), torch.arange(12.0).reshape(4, 3), backend="aot_eager", graphs=ANY)


@pytest.mark.parametrize("name", OF_A_NUMBER)
@pytest.mark.parametrize("numbers", [(2, 3, 99, -99, 0, 1, 4, -1), (1, 2, -7, 5, 50)], ids=["begins with 2", "begins with 1"])
def test_of_a_number(name: str, numbers: tuple[int, ...]) -> None:
    """The second number makes it symbolic; the others are served by what was compiled only if they raise alike."""
    first, *more = [(torch.arange(12.0).reshape(4, 3), number) for number in numbers]
    assert_same_as_eager(only_asks(OF_A_NUMBER[name]), *first, then=more, backend="aot_eager", graphs=ANY)
