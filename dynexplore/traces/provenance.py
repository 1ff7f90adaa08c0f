"""The provenance of kernels: which operators Inductor fused into each, and which captured operators and lines these come from.

The idea: with INDUCTOR_PROVENANCE=1 torch logs two tables: from each kernel to the operators of the last graph that it computes,
and from those to the operators of the captured graph. Both are shown as one list, kernel by kernel, in the order of their launch.
A third table has the stacks of these operators; of each the innermost line is shown.

In: the text of `inductor_provenance_tracking_node_mappings`. Out: `as_text(text)`; `kernels_in(text)`: `KernelOrigin`s.
In: the text of `inductor_provenance_tracking_kernel_stack_traces`. Out: `lines_as_text(text)`.

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
        rows = tuple((operator, captured.get(operator, ())) for operator in operators)
        kernels.append(KernelOrigin(*_name_and_launch(key), rows))
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


def lines_as_text(text: str) -> str:
    """The kernels in the order of their launch, each with the lines of the program that it computes, in the order of the program;
    the text itself if it is in another form.

    >>> print(lines_as_text('{"k:2": [], "mm:1": []}'))
    launch 1: mm
      no line of the program
    launch 2: k
      no line of the program
    """
    stacks = _table(json_object(text))
    if not stacks:
        return NONE if re.fullmatch(r"\{\s*\}", text) else text
    rows = []
    for key in sorted(stacks, key=lambda key: _name_and_launch(key)[1]):
        rows.append(_head(*_name_and_launch(key)))
        lines = sorted({line for stack in stacks[key] for line in _INNERMOST.findall(stack)[-1:]}, key=_place)
        rows += [f"  {_base_name(file)}:{line} in {function}  {code}" for file, line, function, code in lines]
        rows += [] if lines else ["  no line of the program"]
    return "\n".join(rows)


_INNERMOST = re.compile(r'File "(.*?)", line (\d+), in (.*)\n +(.*)')


def _base_name(file: str) -> str:
    return re.split(r"[/\\]", file)[-1]


def _place(line: tuple[str, str, str, str]) -> tuple[str, int]:
    return line[0], int(line[1])


def _name_and_launch(key: str) -> tuple[str, int]:
    name, _, launch = key.partition(":")
    return name, int(launch) if re.fullmatch(r"\d{1,9}", launch) else 0


def _head(name: str, launch: int) -> str:
    return f"launch {launch}: {name}" if launch else name


def _lines(kernel: KernelOrigin) -> list[str]:
    width = max((len(operator) for operator, _ in kernel.operators), default=0)
    rows = [
        f"  {operator:<{width}}  from {', '.join(captured) or 'no captured operator'}" for operator, captured in kernel.operators
    ]
    return [_head(kernel.kernel, kernel.launch), *rows]


def _table(rows: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(rows, dict):
        return {}
    return {
        name: tuple(value for value in values if isinstance(value, str))
        for name, values in rows.items()
        if isinstance(name, str) and isinstance(values, list)
    }
