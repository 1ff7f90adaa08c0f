"""Graph break reasons of torch up to 2.7: one line, without an explanation or hints.

The idea: later versions of torch write a title, an explanation and hints; logs of torch 2.6 only say `Tensor.item`. The most
frequent of these reasons get the title, explanation and hint of later versions. Any other line is left as it is.

In: the first line of a reason. Out: `parse_short_reason(line)`: title, why, fix; None for an unknown line. `UNTRACED`, the fix for
a function that is not traced.

PyTorch's counterpart: the callers of `unimplemented` in torch/_dynamo (torch/_dynamo/exc.py), which pass a `gb_type` in later
versions.
"""

from __future__ import annotations

import re

_BRANCH = (
    "Data-dependent branching",
    "The program branches on the value of a tensor, which is not known during tracing.",
    "Use `torch.where` or `torch.cond`, or move the branch out of the compiled function.",
)
UNTRACED = "Move the call out of the compiled function, or wrap it with `torch.library.custom_op`."
"""The fix for a function that is not traced."""

_UNLISTED = ("Attempted to call function marked as skipped", "Dynamo does not trace `{}`.", UNTRACED)

_SHORT_REASONS: tuple[tuple[str, tuple[str, str, str]], ...] = (
    (r"Data-dependent jump|generic_jump TensorVariable\(\)", _BRANCH),
    (
        r"builtin: (\w+) \[",
        (
            "Failed to trace builtin operator",
            "Dynamo does not know how to trace the builtin `{}` with these arguments.",
            "Move the call to `{}` out of the compiled function.",
        ),
    ),
    (
        r"Tensor\.item",
        (
            "Unsupported Tensor.item() call",
            "`Tensor.item()` converts a tensor to a Python number, but its value is not known during tracing.",
            "Set `torch._dynamo.config.capture_scalar_outputs = True`, or keep the value a tensor.",
        ),
    ),
    (
        r"(?:dynamic shape|data dependent) operator: (\S+?);",
        (
            "Data-dependent operator",
            "The size or value of the result of `{}` depends on the values of a tensor.",
            "Set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`, or `capture_scalar_outputs` for a number.",
        ),
    ),
    (r"'?(?:inline in skipfiles: |call_function )(\S+)(?: \|.*| in skip_files .*)", _UNLISTED),
    (r"Graph break due to unsupported builtin (\S+?)\.? ", _UNLISTED),
)


def parse_short_reason(line: str) -> tuple[str, str, str] | None:
    """Title, why and fix of a short reason.

    >>> parse_short_reason("builtin: print [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False")[2]
    'Move the call to `print` out of the compiled function.'
    """
    for pattern, words in _SHORT_REASONS:
        if match := re.match(pattern, line.removeprefix("Unsupported: ")):
            title, why, fix = (word.format(*match.groups()) for word in words)
            return title, why, fix
    return None
