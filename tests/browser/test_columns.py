"""Every column of the tables on a page without a kernel: what stands below each heading, row by row, by its name."""

from __future__ import annotations

import pytest

from browser.pages import Opened, node, table_rows
from sample_recordings import toy

GUARD = {
    "source": "local a",
    "kind": "TENSOR_MATCH",
    "expected": "torch.Tensor float32 cpu requires_grad=False size=[10] stride=[1]",
    "check": "tensors.check(a, b)",
    "because": "the value is used here",
}

ROWS: dict[str, dict[str, str]] = {
    ".dynx-graph table": {
        "opcode": "call_function",
        "name": "add",
        "target": "operator.add",
        "args": "(abs_1, 1)",
        "kwargs": "{}",
        "result": "float32[10]",
        "module": "",
        "line": "10",
    },
    ".dynx-guards table": {
        "#": "0",
        "verdict": "",
        "found": "",
        "asked for by": "LOAD_FAST a (offset 2, line 10)",
        **GUARD,
    },
    ".dynx-original table": {"line": "10", "offset": "2", "opcode": "LOAD_FAST", "argument": "a", "canonical": "="},
    ".dynx-modified table": {"offset": "14", "role": "original", "opcode": "POP_JUMP_IF_FALSE", "argument": "to 28", "from": "30"},
    ".dynx-breaks table[aria-label^=Symbolic]": {"slot": "0", "kind": "TensorVariable", "value": "lt: bool[] cpu"},
    ".dynx-breaks table[aria-label^=Live]": {
        "local": "x",
        "kind": "TensorVariable",
        "value": "truediv: float32[10] cpu",
    },
    ".dynx-breaks table[aria-label^=Arguments]": {"parameter": "b", "value in the first call": "float32[10] cpu"},
    ".dynx-breaks table[aria-label*=beside]": {
        "line": "12",
        "original offset": "32",
        "original": "LOAD_FAST b",
        "offset": "36",
        "resume function": "LOAD_FAST b",
        "role": "unchanged",
    },
    ".dynx-timeline .dynx-body > table": {
        "call": "1",
        "function": "toy",
        "outcome": "compile",
        "entry 1": "+ made",
        "entry 2": "",
    },
}
"""Table -> one of its rows on the page of `toy`."""


@pytest.mark.parametrize("table", ROWS)
def test_a_row_has_what_its_headings_say(opened: Opened, table: str) -> None:
    """A row is compared whole, so that a column that is added, lost or filled with another's text is seen."""
    assert ROWS[table] in table_rows(opened(toy()), table)


def test_stack_and_locals_have_their_columns(opened: Opened) -> None:
    """A comparison was pushed; no real run was recorded, and no column speaks of one."""
    page = opened(toy())
    node(page, "lt")
    assert {"±": "+", "slot": "0", "value": "lt: bool[] cpu"} in table_rows(page, ".dynx-state table[aria-label^=Symbolic]")
    (local, *_) = table_rows(page, ".dynx-state table[aria-label=Locals]")
    assert local == {"±": "", "local": "a", "value": "a: float32[10] cpu", "before": ""}


def test_the_list_of_keys_has_its_columns(opened: Opened) -> None:
    """Each key, and what it does."""
    page = opened(toy())
    page.keyboard.press("?")
    assert {"key": "p", "what it does": "play or pause"} in table_rows(page, ".dynx-dialog table")


def test_what_is_copied_of_stack_and_locals_has_its_columns(opened: Opened) -> None:
    """The text that Copy puts on the clipboard begins with its headings; slots and locals follow."""
    page = opened(toy())
    node(page, "lt")
    copies = "dynexplore.views.map(({ copies }) => copies?.['stack and locals']).find(Boolean)()"
    text = page.evaluate(copies)
    header, _, first, *_ = (line.split() for line in text.splitlines())
    assert dict(zip(header, [" ".join(first[:2]), " ".join(first[2:])], strict=True)) == {
        "where": "stack 0",
        "value": "lt: bool[] cpu",
    }
