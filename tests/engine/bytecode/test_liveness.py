"""Which locals are read later."""

from __future__ import annotations

from typing import Any

import pytest

from dynexplore.engine.bytecode import live_locals, read

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")


def live_before(function: Any, opname: str, argval: Any = None) -> set[str]:
    parsed = read(function.__code__)
    found = next(
        i for i in parsed.instructions if i.opname.startswith(opname) and (argval is None or i.argval == argval)
    )
    return set(live_locals(parsed, found))


def test_what_is_written_before_it_is_read_is_dead() -> None:
    """A variable is live from its last write to its last read; the first argument always."""

    def f(first, b, c):
        d = b + 1
        b = c
        return d, b

    assert live_before(f, "BINARY_OP") == {"first", "c"}  # b lies on the stack, and is written before it is read
    assert live_before(f, "RETURN") == {"first"}


def test_loops_carry_liveness_around() -> None:
    """What the next round reads is live at the end of this one."""

    def f(items):
        total = 0
        for item in items:
            total = total + item
        return total

    assert live_before(f, "FOR_ITER") == {"items", "total"}
    assert live_before(f, "BINARY_OP") == {"items"}


def test_handlers_count() -> None:
    """What an exception handler reads is live wherever the handler may be entered."""

    def f(a):
        note = "before"
        try:
            other = a.first
            note = other.second
        except AttributeError:
            return note
        return None

    assert "note" in live_before(f, "LOAD_ATTR", "first")
    assert "note" in live_before(f, "STORE_FAST", "other")


def test_code_that_may_see_its_locals_keeps_them_all() -> None:
    """A function that names locals, eval, super, ... keeps every variable."""

    def f(a, b):
        c = a
        return locals()

    assert live_before(f, "RETURN") == {"a", "b", "c"}


def test_cells_are_no_fast_locals() -> None:
    """Cell and free variables are left out: they live in cells."""

    def f(a, b):
        return lambda: (a, f), b

    assert live_before(f, "LOAD_CONST") == {"b"}


def test_deleting_counts_as_reading() -> None:
    """`del x` needs x to be bound."""

    def f(a, b):
        print()
        del b

    assert live_before(f, "LOAD_GLOBAL", "print") == {"a", "b"}
