"""Every column of the tables on a page without a kernel: what stands below each heading, row by row, by its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from browser.large import large
from browser.pages import Opened, node, pane, resize, tab, table_rows
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from sample_recordings import inlined, toy

GUARD = {
    "source": "local a",
    "checks": "dtype and shape",
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
        "used by": "LOAD_FAST a (offset 2, line 10)",
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
    ".dynx-timeline .dynx-calls > table": {
        "call": "1",
        "1": "+",
        "result": "● First compile",
        "why": "first call",
        "compile": "12 ms",
    },
    ".dynx-miss table": {"version": "1", "guard": "a is dtype float32", "found": "dtype float64", "other guards": "no other fails"},
}
"""Table -> one of its rows on the page of `toy`."""


@pytest.mark.parametrize("table", ROWS)
def test_a_row_has_what_its_headings_say(opened: Opened, table: str) -> None:
    """A row is compared whole, so that a column that is added, lost or filled with another's text is seen."""
    assert ROWS[table] in table_rows(opened(toy()), table)


def test_the_price_of_an_entry_stands_above_its_guards(opened: Opened) -> None:
    """Where guards were measured, the pane says what one check takes, and what a filter would save."""
    recording = toy()
    entry = recording.of(ev.CacheEntryAdded)[0]
    filters = (ev.FilterPrice("skip_all_guards_unsafe", 0, 5, 1e-7),)
    recording.record(ev.GuardsTimed(frame=entry.frame, entry=entry.entry, seconds=2e-6, filters=filters))
    page = opened(recording)
    tab(page, "guards")
    price = page.locator(".dynx-guard-price").inner_text().strip()
    assert price == "One check takes 2.00 us; skip_all_guards_unsafe saves 1.90 us (keeps 0 of 5 guards)."
    parts = page.evaluate("dynexplore.data.anatomy.entries[0].parts")
    assert parts == ["skip_all_guards_unsafe saves 1.90 us (keeps 0 of 5 guards)"]


def wide() -> Recording:
    """Long names, long paths of modules, many recompiles, and an instruction with a long argument."""
    names = ((f"encoder.layer.{at}.attention.output.dense", "weight_" * 6 + str(at)) for at in range(40))
    recording = large(modules=40, named=tuple(names))
    for number in range(2, 10):
        recording.record(ev.CallBegan(frame=0, call=number))
        recording.record(ev.CacheEntryAdded(frame=1, entry=number, code=1, guard_count=1))
        recording.record(ev.CallEnded(frame=0, call=number))
    return recording


BEYOND = """() => {
  const drawings = '.dynx-strip, .dynx-growing .dynx-body, .dynx-diagram .dynx-body, svg *';
  const wider = [...dynexplore.root.querySelectorAll('*')].filter((e) => e.clientWidth && e.scrollWidth > e.clientWidth + 1);
  const style = (e) => getComputedStyle(e);
  return wider.filter((e) => !e.matches(drawings) && style(e).overflowX !== 'visible').flatMap((e) => {
    e.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
    const isTold = e.closest('[title]')?.title.replace(/\\s+/g, '').includes(e.textContent.replace(/\\s+/g, ''));
    return style(e).textOverflow === 'ellipsis' && isTold ? [] : [`${e.className || e.tagName}: ${e.textContent.slice(0, 60)}`];
  });
}"""
"""What is wider than its place, is not a drawing, and has neither an ellipsis nor a way to the whole."""


UPON_THE_NEXT = """() => [...dynexplore.root.querySelectorAll('td, th')].filter((e) => e.clientWidth
  && getComputedStyle(e).overflowX === 'visible' && e.scrollWidth > e.clientWidth).map((e) => e.textContent)"""
"""Cells that clip nothing, for their column has room, and yet have too little."""


@pytest.mark.parametrize("width", [1040, 914])
@pytest.mark.parametrize("recording", [toy, inlined, wide])
def test_nothing_goes_on_behind_the_right_edge(opened: Opened, recording: Callable[[], Recording], width: int) -> None:
    """In every tab columns fit; what an ellipsis hides is told by the pointer."""
    page = opened(recording())
    resize(page, width, 800)
    page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
    for name in page.get_by_role("tab").all():
        name.click()
        for turn in page.locator(".dynx-turn:visible").all() or [name]:
            turn.click()
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            assert page.evaluate(BEYOND) == []  # columns get their widths before a frame is painted, but after its callbacks
            assert page.evaluate(UPON_THE_NEXT) == []
    clips = page.eval_on_selector_all(".dynx-fixed td", "cells => cells.map((e) => getComputedStyle(e).overflowX)")
    assert clips.count("visible") > len(clips) / 2, "each cell that clips is painted by itself"


def test_where_it_is_narrow_tables_wrap_and_the_status_has_two_lines(opened: Opened) -> None:
    """Columns of short texts ask for more than there is, too; what the status says is whole, and the buttons stay in place."""
    page = opened(toy())
    resize(page, 480, 800)
    tab(page, "breaks")
    assert page.evaluate(f"async () => {{ await new Promise(requestAnimationFrame); return ({BEYOND})(); }}") == []
    said = page.locator(".dynx-status")
    assert said.evaluate("e => e.scrollHeight <= e.clientHeight && e.scrollWidth <= e.clientWidth")
    assert "if on a tensor value" in said.inner_text()
    forward = page.get_by_role("button", name="Step forward")
    top = forward.evaluate("e => e.offsetTop")
    page.keyboard.press("ArrowRight")
    assert forward.evaluate("e => e.offsetTop") == top


def test_the_row_that_has_the_focus_says_all_of_it(opened: Opened) -> None:
    """A line below the table holds what ellipses hide in that row; it goes with the focus."""
    page = opened(wide())
    resize(page, 914, 800)
    body = pane(page, "graph", " .dynx-body")
    body.focus()
    body.evaluate("e => { e.scrollTop = e.scrollHeight; }")
    page.locator(".dynx-graph tbody tr").last.click()
    page.keyboard.press("ArrowUp")
    name = "weight_" * 6 + "38"
    assert f"name: {name}" in page.locator(".dynx-graph .dynx-whole").inner_text()
    page.get_by_role("searchbox").focus()
    assert page.locator(".dynx-whole").count() == 0


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
