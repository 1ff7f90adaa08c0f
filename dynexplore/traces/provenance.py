"""The provenance of kernels: which operators Inductor fused into each, and which captured operators these come from.

The idea: with INDUCTOR_PROVENANCE=1 torch logs two tables: from each kernel to the operators of the last graph that it computes,
and from those to the operators of the captured graph. Both are shown as one list, kernel by kernel, in the order of their launch.

In: the text of `inductor_provenance_tracking_node_mappings`. Out: `as_text(text)`; `kernels_in(text)`: `KernelOrigin`s.

PyTorch's counterpart: torch/_inductor/debug.py, `create_node_mapping_kernel_to_post_grad`; tlparse shows three texts side by side.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dynexplore.traces.json_object import json_object

NONE = "torch logged no kernel for this graph."


@dataclass(frozen=True, slots=True)
class KernelOrigin:
    """A launch of a kernel: its name, the number of the launch (0: not known), and the operators that it computes, each with the
    captured ones that it comes from.
    """

    kernel: str
    launch: int
    operators: tuple[tuple[str, tuple[str, ...]], ...]


def kernels_in(text: str) -> list[KernelOrigin]:
    """The kernels of one graph in the order of their launch; none if the text is something else.

    >>> kernels_in('{"cppCodeToPost": {"cpp_fused_add_0:2": ["add"]}, "postToPre": {"add": ["y"]}}')
    [KernelOrigin(kernel='cpp_fused_add_0', launch=2, operators=(('add', ('y',)),))]
    """
    tables = json_object(text)
    of_kernels, captured = _table(tables.get("cppCodeToPost")), _table(tables.get("postToPre"))
    kernels = []
    for key, operators in of_kernels.items():
        name, _, launch = key.partition(":")
        rows = tuple((operator, captured.get(operator, ())) for operator in operators)
        kernels.append(KernelOrigin(name, int(launch) if re.fullmatch(r"\d{1,9}", launch) else 0, rows))
    return sorted(kernels, key=lambda kernel: kernel.launch)


def as_text(text: str) -> str:
    """The kernels with their operators as lines, or that there are none; the text itself if it is in another form.

    >>> print(as_text('{"cppCodeToPost": {"k:1": ["relu", "le"]}, "postToPre": {"relu": ["h"]}}'))
    launch 1: k
      relu  from h
      le    from no captured operator
    """
    kernels = kernels_in(text)
    if not kernels:
        return NONE if re.fullmatch(r'\{\s*("version": [\d.]+)?\s*\}', text) else text
    return "\n".join(line for kernel in kernels for line in _lines(kernel))


def _lines(kernel: KernelOrigin) -> list[str]:
    width = max((len(operator) for operator, _ in kernel.operators), default=0)
    head = f"launch {kernel.launch}: {kernel.kernel}" if kernel.launch else kernel.kernel
    rows = [
        f"  {operator:<{width}}  from {', '.join(captured) or 'no captured operator'}" for operator, captured in kernel.operators
    ]
    return [head, *rows]


def _table(rows: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(rows, dict):
        return {}
    return {
        name: tuple(value for value in values if isinstance(value, str))
        for name, values in rows.items()
        if isinstance(name, str) and isinstance(values, list)
    }
