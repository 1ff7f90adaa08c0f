"""Which locals are read later."""

from __future__ import annotations

from typing import Any

import pytest

from dynexplore.engine.bytecode import live_locals, read, unbound_locals

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


def unbound_before(function: Any, op: str, arg: Any) -> set[str]:
    parsed = read(function.__code__)
    return set(unbound_locals(parsed, next(step.origin for step in parsed.steps if step.op == op and step.arg == arg)))


def test_what_may_be_unbound() -> None:
    """A variable that is stored on one way and not on another, in a round before or not; what was read is bound."""

    def f(items):
        before = 0
        for item in items:
            if item:
                print(late)  # noqa: F821
                print(late)  # noqa: F821
            late = before + item
        return item, late

    assert unbound_before(f, "LOAD_GLOBAL", "print") == {"late"}
    assert unbound_before(f, "STORE_FAST", "late") == set()
    assert unbound_before(f, "LOAD_FAST", "item") == {"late"}

    def deleted(a, b):
        if a:
            del b
        return b

    assert unbound_before(deleted, "LOAD_FAST", "a") == set()
    assert unbound_before(deleted, "LOAD_FAST", "b") == {"b"}


def test_code_that_sees_its_locals_has_none_that_may_be_unbound() -> None:
    """`locals()` tells a variable that is bound from one that is not, and reads neither."""

    def f(items):
        for item in items:
            print(locals())
        return item

    assert unbound_before(f, "LOAD_FAST", "item") == set()
