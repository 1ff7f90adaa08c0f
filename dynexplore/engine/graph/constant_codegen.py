"""FX codegen of constants: numbers whose `repr` does not round-trip in the Python code that torch.fx generates.

The idea: a graph runs as generated Python code, and torch.fx writes each constant as its `repr`. For most numbers that evaluates
to the same number. It does not for a complex number with a negative zero as a part: `repr(complex(1.0, -0.0))` is `(1-0j)`, which
evaluates to `1 - 0j` with a positive zero; a square root at a branch cut then lands on the other side. Nor is `-1 ** x` a power of
-1. So such a complex number enters the graph as one whose `repr` is a call, and such a power as a function call.

In: a complex constant; the target of an operation. Out: ones that round-trip. PyTorch's counterpart: `_get_repr` in
torch/fx/graph.py, which has these bugs.
"""

from __future__ import annotations

import ast
import math
import operator
from typing import Any

import torch


class WrittenComplex(complex):
    """A complex number whose `repr` evaluates to the same number.

    >>> WrittenComplex(1, -0.0)
    complex(1.0, -0.0)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"complex({_written(self.real)}, {_written(self.imag)})"


def round_trippable_constant(number: complex) -> complex:
    """The number; if its `repr` does not round-trip, a WrittenComplex.

    >>> round_trippable_constant(1j), round_trippable_constant(-1j)
    (1j, complex(-0.0, -1.0))
    """
    written = WrittenComplex(number)
    try:
        read = ast.literal_eval(repr(number))
    except ValueError:  # a part is infinite
        return written
    return number if repr(WrittenComplex(read)) == repr(written) else written


def round_trippable_target(target: Any, first: object, fake: object) -> Any:
    """The target to call. A power of a negative number becomes a function: torch.fx would write `-1 ** x`, which is `-(1 ** x)`."""
    if target is operator.pow and not isinstance(first, torch.fx.Node) and str(first).startswith("-"):
        return torch.pow if isinstance(fake, torch.Tensor) else pow
    return target


def _written(part: float) -> str:
    return repr(part) if math.isfinite(part) else f'float("{part!r}")'
