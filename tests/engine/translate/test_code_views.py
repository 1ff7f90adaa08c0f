"""translate/code_views.py: any code object as a plain record, once, and without keeping it alive."""

from __future__ import annotations

import gc
import linecache
import weakref

import pytest

from dynexplore.engine.bytecode import read
from dynexplore.engine.events import CodeView
from dynexplore.engine.translate.code_views import code_view, source_of
from dynexplore.engine.translate.resume import make_resume_code

pytestmark = pytest.mark.plain("shows code objects made by hand")


def example(a, b):
    total = a + b
    for item in (a, b):
        if item:
            total = total * item
    return total


def test_a_view_says_name_place_and_source() -> None:
    """Name, file, first line and the source lines of the function, nothing after it."""
    view = code_view(example.__code__)
    assert (view.qualname, view.file, view.first_line) == ("example", __file__, example.__code__.co_firstlineno)
    assert view.source.startswith("def example(a, b):\n") and view.source.endswith("    return total\n")


def test_rows_have_spans_and_jumps() -> None:
    """A row holds its source span; a jump's target is a row that is marked as one."""
    view = code_view(example.__code__)
    offsets = {row.offset: row for row in view.rows}
    added = next(row for row in view.rows if row.op == "BINARY_OP")
    assert (added.arg, added.line - view.first_line, added.column, added.end_column) == ("+", 1, 12, 17)
    jumps = [row for row in view.rows if row.target >= 0]
    assert jumps and all(offsets[row.target].is_target for row in jumps)


def test_every_step_stands_with_its_instruction() -> None:
    """The canonical steps of all rows, in order, are the steps that the translator walks over."""
    parsed = read(example.__code__)
    shown = [(step.index, step.op) for row in code_view(example.__code__).rows for step in row.steps]
    assert shown == [(step.index, step.op) for step in parsed.steps]


def test_a_view_is_made_once() -> None:
    """The same code object has the same record; an equal one of another function has its own."""
    twin = example.__code__.replace()
    assert twin == example.__code__ and code_view(twin) is code_view(twin)
    assert code_view(twin) is not code_view(example.__code__) and code_view(twin).id != code_view(example.__code__).id


def test_a_view_keeps_no_code_alive() -> None:
    """A code object dies although its record is kept."""
    namespace: dict[str, object] = {}
    exec("def short_lived(x): return x", namespace)
    code = namespace.pop("short_lived").__code__  # type: ignore[attr-defined]
    view, dead = code_view(code), weakref.ref(code)
    del code
    gc.collect()
    assert isinstance(view, CodeView) and dead() is None


def test_a_resume_function_leads_to_what_it_continues() -> None:
    """Its view names the original code, and its body's rows the original instructions."""
    parsed = read(example.__code__)
    target = next(i for i in parsed.instructions if i.opname == "BINARY_OP")
    made = make_resume_code(parsed, target, stack=(True, True), locals=(), bound_args=frozenset({"a", "b"}), name="__resume_at_0")
    view = code_view(made.code)
    assert view.resumes == code_view(example.__code__).id
    original = {row.offset: row for row in code_view(example.__code__).rows}
    body = [row for row in view.rows if row.origin >= 0]
    assert body and all(original[row.origin].op == row.op for row in body if row.op == "BINARY_OP")


def test_source_of_a_cell_comes_from_linecache() -> None:
    """Code that was compiled from a notebook cell has the source that linecache holds; without one it has none."""
    text = "def in_a_cell(x):\n    return x\n\nafter = 1\n"
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
    namespace: dict[str, object] = {}
    exec(compile(text, "<cell 1>", "exec"), namespace)
    cell = namespace["in_a_cell"].__code__  # type: ignore[attr-defined]
    assert source_of(cell) == "def in_a_cell(x):\n    return x\n"
    del linecache.cache["<cell 1>"]
    assert source_of(cell) == ""
