"""FX codegen of constants: numbers whose `repr` does not round-trip in the Python code that torch.fx generates.

The idea: a graph is run as Python code, and torch.fx writes each constant in it as `repr` does. For most numbers that is the same
number again. It is not for a complex number of which a part is a negative zero: `repr(complex(1.0, -0.0))` is `(1-0j)`, which is
`1 - 0j` and that has a positive zero; the square root of a number at a branch cut then lies on the other side. Neither is `-1 ** x`
the power of -1. So such a complex number goes into the graph as one that writes itself as a call, and such a power as a function.

In:  a complex constant; what an operation calls. Out: those that are written as they are meant.

PyTorch's counterpart: torch/fx/graph.py (`_get_repr`), whose graphs have these flaws.
"""

from __future__ import annotations

import ast
import math
import operator
from typing import Any

import torch


class WrittenComplex(complex):
    """A complex number whose `repr` is an expression that gives it again.

    >>> WrittenComplex(1, -0.0)
    complex(1.0, -0.0)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"complex({_written(self.real)}, {_written(self.imag)})"


def round_trippable_constant(number: complex) -> complex:
    """The number; one that `repr` would change writes itself as a call.

    >>> round_trippable_constant(1j), round_trippable_constant(-1j)
    (1j, complex(-0.0, -1.0))
    """
    written = WrittenComplex(number)
    try:
        read = ast.literal_eval(repr(number))
    except ValueError:  # an infinite part
        return written
    return number if repr(WrittenComplex(read)) == repr(written) else written


def round_trippable_target(target: Any, first: object, fake: object) -> Any:
    """What is called. A power of a negative number is no operator: torch.fx would write `-1 ** x`, which is `-(1 ** x)`."""
    if target is operator.pow and not isinstance(first, torch.fx.Node) and str(first).startswith("-"):
        return torch.pow if isinstance(fake, torch.Tensor) else pow
    return target


def _written(part: float) -> str:
    return repr(part) if math.isfinite(part) else f'float("{part!r}")'
