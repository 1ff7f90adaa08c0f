"""ConstraintViolationError in the program's terms: which size was marked as dynamic, which one the program needs, and where.

The idea: `mark_dynamic(x, 0)` promises that a size varies, and torch raises if the program fixes it. Its message names guards and
options of torch.export. Here it becomes one sentence, with the line that fixed the size, and advice.

In: the text of an exception. Out: `explained(error)`: a `Violation`, or None for any other exception.

PyTorch's counterpart: `ConstraintViolationError` in torch/fx/experimental/symbolic_shapes.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARKED = re.compile(
    r"(?:You marked |are valid because )[LG]\['(\w+)'\]([\w.\[\]']*?)\.size\(\)\[(\d+)\] "
    r"(?:as dynamic but your code specialized it|was inferred) to be a constant \((\d+)\)"
)
_USER_LINE = re.compile(r'^  File "(.*?)", line (\d+), in .*$', re.M)


@dataclass(frozen=True, slots=True)
class Violation:
    """A tensor with a dimension that was marked, the size that the program needs, and the line ("", 0: unknown)."""

    tensor: str
    axis: int
    size: int
    file: str = ""
    line: int = 0

    @property
    def sentence(self) -> str:
        """What is wrong."""
        return f"Dimension {self.axis} of `{self.tensor}` is marked as dynamic, but the program requires size {self.size}"

    @property
    def remedy(self) -> str:
        """What to do."""
        return (
            "If the size comes from another tensor, mark that one, too. To allow one size, use torch._dynamo.maybe_mark_dynamic."
        )


def explained(error: str) -> Violation | None:
    """The violation that an exception is about.

    >>> explained("...ConstraintViolationError: Constraints violated\\n  - You marked L['a'].size()[0] as dynamic but your code "
    ...           "specialized it to be a constant (4). If").sentence
    'Dimension 0 of `a` is marked as dynamic, but the program requires size 4'
    >>> explained("ValueError: no") is None
    True
    """
    marked = _MARKED.search(error) if "ConstraintViolationError" in error else None
    if marked is None:
        return None
    lines = _USER_LINE.findall(error.partition("User stack:")[2])
    file, line = lines[-1] if lines else ("", "0")
    return Violation(marked[1] + marked[2], int(marked[3]), int(marked[4]), file, int(line))
