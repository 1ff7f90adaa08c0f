"""The writer: what is written by name runs, on every Python."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from dynexplore.engine.bytecode import Label, Writer, assemble, read

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")


def template(a, b, c):
    """Three arguments, no cells."""


def run(write: Callable[[Writer], None], *args: Any, returns: bool = True, **names: Any) -> Any:
    """Write the body of a function of a, b, c (and locals x, y), assemble it, and call it."""
    writer = Writer(template.__code__)
    writer.prologue()
    write(writer)
    if returns:
        writer.return_value()
    code = assemble(writer, template.__code__, name="written", varnames=("a", "b", "c", "x", "y"))
    return types.FunctionType(code, {"__builtins__": __builtins__, **names})(*args, *[None] * (3 - len(args)))


def loads(writer: Writer, *names: str) -> Writer:
    for name in names:
        writer.load_fast(name)
    return writer


@pytest.mark.parametrize(
    ("write", "args", "expected"),
    [
        (lambda w: w.load_const(5.0), (), 5.0),
        (lambda w: loads(w, "a", "b").binary("-"), (5, 3), 2),
        (lambda w: loads(w, "a", "b").binary("+="), ([1], [2]), [1, 2]),
        (lambda w: loads(w, "a", "b").compare(">"), (5, 3), True),
        (lambda w: loads(w, "a", "b").compare("!="), ("x", "x"), False),
        (lambda w: loads(w, "a", "b").is_op(True), (None, 3), True),
        (lambda w: loads(w, "a", "b").contains_op(), (2, [1, 2]), True),
        (lambda w: loads(w, "a").to_bool(), ([],), False),
        (lambda w: loads(w, "a").unary_not(), ([],), True),
        (lambda w: loads(w, "a").unary_positive(), (True,), 1),
        (lambda w: loads(w, "a").load_attr("real"), (4,), 4),
        (lambda w: loads(w, "a", "b").binary_subscr(), ("xyz", 1), "y"),
        (lambda w: loads(w, "a", "b", "c").build_tuple(3), (1, 2, 3), (1, 2, 3)),
        (lambda w: loads(w, "a", "b", "c").build_list(3), (1, 2, 3), [1, 2, 3]),
        (lambda w: loads(w, "a", "b").build_set(2), (1, 2), {1, 2}),
        (lambda w: loads(w, "a", "b").build_map(1), ("k", 2), {"k": 2}),
        (lambda w: loads(w, "a", "b").build_slice(2), (1, 2), slice(1, 2)),
        (lambda w: loads(w, "a", "b").build_string(2), ("1", "2"), "12"),
        (lambda w: (w.build_list(0), w.load_fast("a"), w.list_extend(1), w.list_to_tuple()), ([1, 2],), (1, 2)),
        (lambda w: (w.build_list(0), w.load_fast("a"), w.list_append(1)), (3,), [3]),
        (lambda w: (w.build_map(0), w.load_fast("a"), w.dict_update(1)), ({"k": 1},), {"k": 1}),
        (lambda w: (w.build_set(0), w.load_fast("a"), w.set_update(1)), ([1, 1],), {1}),
        (lambda w: (loads(w, "a").unpack_sequence(2), w.build_tuple(2)), ([1, 2],), (2, 1)),
        (lambda w: (loads(w, "a").get_iter(), w.unpack_sequence(1)), ([7],), 7),
        (lambda w: (loads(w, "a").copy(), w.build_tuple(2)), (1,), (1, 1)),
        (lambda w: (loads(w, "a", "b", "c").swap(3), w.build_tuple(3)), (1, 2, 3), (3, 2, 1)),
    ],
)  # fmt: skip
def test_what_is_written_by_name_runs(write: Any, args: Any, expected: Any) -> None:
    """Each writing method does what its docstring says."""
    result = run(write, *args)
    assert result == expected
    assert type(result) is type(expected)


def test_names_can_be_written_and_deleted() -> None:
    """Locals, globals, attributes and items: load, store, delete."""

    def write(w: Writer) -> None:
        w.load_global("given")
        w.store_fast("x")
        w.load_fast("x")
        w.store_global("made")
        w.load_const(3)
        w.load_fast("a")
        w.store_attr("attribute")
        w.load_fast("a")
        w.delete_attr("old")
        w.load_const("value")
        w.load_fast("b")
        w.load_const("key")
        w.store_subscr()
        w.load_fast("b")
        w.load_const("gone")
        w.delete_subscr()
        w.delete_fast("x")
        w.load_global("made")
        w.delete_global("made")

    owner, table = types.SimpleNamespace(old=1), {"gone": 1}
    assert run(write, owner, table, given="g") == "g"
    assert vars(owner) == {"attribute": 3}
    assert table == {"key": "value"}
    with pytest.raises(UnboundLocalError):
        run(lambda w: w.load_fast_checked("x"))
    with pytest.raises(UnboundLocalError):
        run(lambda w: loads(w, "a").delete_fast("x"))


def test_calls_put_the_empty_slot_where_it_belongs() -> None:
    """begin_call and callable_ready leave out what this Python does not want; keywords come by name."""

    def collect(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    def plain(w: Writer) -> None:
        w.begin_call()
        w.load_fast("a")
        w.callable_ready()
        w.load_const(1)
        w.load_const(2)
        w.load_const(3)
        w.call(3, ("k", "l"))

    def spread(w: Writer) -> None:
        w.begin_call()
        w.load_fast("a")
        w.callable_ready()
        w.load_fast("b")
        w.load_fast("c")
        w.call_function_ex(True)

    assert run(plain, collect) == ((1,), {"k": 2, "l": 3})
    assert run(spread, collect, (1, 2), {"k": 3}) == ((1, 2), {"k": 3})


def test_functions_can_be_made() -> None:
    """make_function takes defaults, keyword defaults and a closure from the stack."""

    def outer() -> Any:
        cell = 10

        def inner(p=0, *, q=0):
            return p, q, cell

        return inner

    inner = outer()

    def write(w: Writer) -> None:
        w.load_const((1,))
        w.load_fast("b")
        w.load_fast("a")
        w.make_function(inner.__code__, closure=True, flags=3)

    made = run(write, inner.__closure__, {"q": 2})
    assert made() == (1, 2, 10)
    assert run(lambda w: w.make_function(template.__code__)).__code__ is template.__code__


def test_cells_are_made_loaded_and_passed_on() -> None:
    """The prologue makes cells and takes free variables; load_closure pushes the cell itself."""
    writer = Writer(template.__code__)
    writer.prologue(("a", "own"), ("given",))
    writer.load_deref("a")
    writer.store_deref("own")
    writer.load_const("new")
    writer.store_deref("given")
    writer.delete_deref("a")
    writer.load_closure("own")
    writer.load_closure("a")
    writer.build_tuple(2)
    writer.return_value()
    code = assemble(
        writer, template.__code__, cellvars=("a", "own"), freevars=("given",), flags=template.__code__.co_flags
    )
    given = types.CellType("old")
    own, a = types.FunctionType(code, {}, None, None, (given,))(1, 2, 3)
    assert own.cell_contents == 1
    assert given.cell_contents == "new"
    with pytest.raises(ValueError, match="empty"):
        a.cell_contents


@pytest.mark.parametrize(
    ("jump", "taken_for"),
    [("true", True), ("false", False), ("none", None), ("not_none", 5)],
)
def test_jumps_go_both_ways(jump: str, taken_for: Any) -> None:
    """Every conditional jump works forward and backward, also where CPython has no backward form."""

    def forward(w: Writer) -> None:
        taken = Label("taken")
        w.load_fast("a")
        getattr(w, f"pop_jump_if_{jump}")(taken)
        w.load_const("straight on")
        w.return_value()
        w.mark(taken)
        w.load_const("jumped")

    def backward(w: Writer) -> None:
        start, taken = Label("start"), Label("taken")
        w.jump(start)
        w.mark(taken)
        w.load_const("jumped")
        w.return_value()
        w.mark(start)
        w.load_fast("a")
        getattr(w, f"pop_jump_if_{jump}")(taken)
        w.load_const("straight on")

    others = {"true": False, "false": True, "none": 5, "not_none": None}
    for write in (forward, backward):
        assert run(write, taken_for) == "jumped"
        assert run(write, others[jump]) == "straight on"


def test_a_handler_covers_what_is_written_inside() -> None:
    """covered_by sends exceptions to its label with the stack cut to its depth; outside nothing is caught."""

    def write(w: Writer) -> None:
        caught = Label("caught")
        w.load_const("kept")
        with w.covered_by(caught, 1):
            w.load_fast("a")
            with w.covered_by(None):
                w.load_fast("b")
                w.load_attr("real")
            w.binary("+")
            w.return_value()
        w.mark(caught)
        w.emit("PUSH_EXC_INFO")
        w.swap(2)
        w.emit("POP_EXCEPT")
        w.build_tuple(2)

    assert run(write, 1, 2) == 3
    kept, error = run(write, "x", 2)
    assert kept == "kept"
    assert isinstance(error, TypeError)
    with pytest.raises(AttributeError):
        run(write, "x", "no number")


def test_exceptions_can_be_raised() -> None:
    """raise_varargs raises a new exception, reraise_exception an old one."""
    with pytest.raises(KeyError, match="given"):
        run(lambda w: loads(w, "a").raise_varargs(1), KeyError("given"), returns=False)
    with pytest.raises(KeyError, match="given"):
        run(lambda w: loads(w, "a").reraise_exception(), KeyError("given"), returns=False)


def test_originals_are_copied_with_their_jumps_and_regions() -> None:
    """A copied body runs as the original, and each copy knows its origin."""

    def f(a, b, c):
        for i in range(3):
            try:
                b += 10 // (i - a)
            except ZeroDivisionError:
                b += 1000
        return b

    parsed = read(f.__code__)
    writer = Writer(f.__code__)
    with writer.role("copied"):
        writer.originals(parsed.instructions)
    code = assemble(writer, f.__code__)
    assert types.FunctionType(code, globals())(1, 2, 3) == f(1, 2, 3)
    assert code.co_code == f.__code__.co_code
    assert code.co_exceptiontable == f.__code__.co_exceptiontable
    assert [i.origin for i in read(code).instructions] == parsed.instructions
    assert {i.role for i in read(code).instructions} == {"copied"}


def test_a_copied_jump_needs_a_label() -> None:
    """`original` refuses a jump without a label, and a label for what does not jump."""

    def f(a):
        return 1 if a else 2

    writer, parsed = Writer(f.__code__), read(f.__code__)
    jump = next(i for i in parsed.instructions if i.target is not None)
    with pytest.raises(ValueError, match="needs a label"):
        writer.original(jump)
    with pytest.raises(ValueError, match="needs a label"):
        writer.original(parsed.instructions[0], Label())


def test_what_is_written_for_an_instruction_has_its_position() -> None:
    """`at` gives position and origin; elsewhere the first line stands."""
    origin = read(test_what_is_written_for_an_instruction_has_its_position.__code__).instructions[-1]
    writer = Writer(template.__code__)
    writer.load_const(1)
    with writer.at(origin), writer.role("input"):
        writer.load_const(2)
    with writer.at(None):
        writer.return_value()
    plain, placed, last = writer.instructions
    assert plain.lineno == last.lineno == template.__code__.co_firstlineno
    assert (placed.position, placed.origin, placed.role) == (origin.position, origin, "input")
    assert (plain.origin, plain.role) == (None, "")


def test_a_label_is_marked_once() -> None:
    """A label stands for one place."""
    writer, label = Writer(), Label("here")
    writer.mark(label)
    with pytest.raises(ValueError, match="twice"):
        writer.mark(label)
    writer.load_const(1)
    with pytest.raises(ValueError, match="twice"):
        writer.mark(label)
