"""Resume functions: going on at any instruction gives what the function gives when it runs through.

The brute force: run a function under a trace function that is told of every instruction; at the n-th one, read the
stack out of the running frame, make a resume function for exactly that moment, call it on the spot, and compare what
it returns or raises (and everything it logs) with what the plain function does. For every n.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import re
import sys
import textwrap
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dynexplore.engine.bytecode import FACTS, Label, Writer, argument_slots, listing, live_locals, name_of_code, read
from dynexplore.engine.bytecode.reader import slot_names
from dynexplore.engine.bytecode.stack_depths import stack_depths
from dynexplore.engine.translate.resume import make_resume_code, resume_point

pytestmark = pytest.mark.plain("writes resume functions for code made by hand, and runs them")

# -- looking into a running frame -------------------------------------------------------------------------------------

#: offsets in CPython's structs: PyFrameObject.f_frame, _PyInterpreterFrame.localsplus
F_FRAME, LOCALSPLUS = 24, 72 if FACTS.version < (3, 14) else 80
NULL = object()


def raw_slots(frame: types.FrameType, count: int) -> list[Any]:
    """The first slots of a running frame (variables, then the stack); NULL for an empty one."""
    inner = ctypes.c_void_p.from_address(id(frame) + F_FRAME).value
    assert inner is not None
    slots = (ctypes.c_void_p * count).from_address(inner + LOCALSPLUS)
    return [_object_in(slot or 0) for slot in slots]


def _object_in(slot: int) -> Any:
    """From 3.14 on the low bits are a tag: 1 for a reference that is not owned (an empty slot is 1, too), 3 for an integer."""
    if FACTS.version >= (3, 14) and slot & 3 == 3:
        return slot >> 2
    pointer = slot & ~1 if FACTS.version >= (3, 14) else slot
    return ctypes.cast(pointer, ctypes.py_object).value if pointer else NULL


def is_inside_a_with(frame: types.FrameType) -> bool:
    """Where several instructions enter a `with` nobody goes on between them."""
    parsed = read(frame.f_code)
    here = parsed.at_offset(frame.f_lasti)
    return bool(FACTS.with_unit) and parsed.unit_start(here) is not here


class Moment:
    """What a frame held before one of its instructions, and the resume function that goes on from there."""

    def __init__(self, frame: types.FrameType) -> None:
        code = frame.f_code
        self.parsed = read(code)
        self.instruction = self.parsed.at_offset(frame.f_lasti)
        names = slot_names(code)
        slots = raw_slots(frame, len(names) + stack_depths(self.parsed)[self.instruction])
        self.variables = dict(zip(names, slots, strict=False))
        self.stack = slots[len(names) :]
        hidden = [*code.co_cellvars, *code.co_freevars]
        live = live_locals(self.parsed, self.instruction)
        held = {name: value for name, value in self.variables.items() if value is not NULL}
        arguments = argument_slots(code)
        self.resume = make_resume_code(
            self.parsed,
            self.instruction,
            stack=tuple(value is not NULL for value in self.stack),
            locals=tuple(
                name for name in code.co_varnames if name in held and name in live and name not in (*arguments, *hidden)
            ),
            bound_args=frozenset(name for name in arguments if name in hidden or (name in held and name in live)),
            shadowed=tuple(n for n in hidden if n in held and not isinstance(held[n], types.CellType)),
            cleared=tuple(n for n in hidden if n not in held),
            name="__resume_at_here",
        )
        self.globals = frame.f_globals

    def function(self) -> types.FunctionType:
        """The resume function, closed over the frame's own cells."""
        cells = [self.variables[name] for name in self.resume.freevars]
        closure = tuple(cell if isinstance(cell, types.CellType) else types.CellType() for cell in cells)
        return types.FunctionType(self.resume.code, self.globals, None, None, closure)

    def arguments(self) -> list[Any]:
        """What it is called with."""
        resume = self.resume
        given: list[Any] = []
        for name in resume.arguments:
            value = self.variables[name]
            if isinstance(value, types.CellType) and name in resume.freevars:
                try:
                    value = value.cell_contents
                except ValueError:
                    value = None
            given.append(value if name in resume.bound_args and value is not NULL else None)
        given += [self.variables[name] for name in (*resume.locals, *resume.shadowed)]
        return given + [value for value in self.stack if value is not NULL]


def outcome(call: Callable[[], Any]) -> tuple[str, str]:
    """What a call returns or raises, as text: the original frame goes on to change what it shares."""
    try:
        return "returned", repr(call())
    except Exception as error:
        return type(error).__name__, str(error)


def run_and_resume(
    code: types.CodeType, call: Callable[[], Any], log: list[Any], at: int
) -> tuple[tuple[str, str], list[Any], Moment] | None:
    """Run `call`; before the `at`-th instruction of `code` go on in a resume function. None: it has fewer."""
    results: list[Any] = []
    count = 0

    offsets = resumable_offsets(code)

    def on_instruction(frame: types.FrameType) -> None:
        nonlocal count
        if results or frame.f_lasti not in offsets:
            return
        if is_inside_a_with(frame):
            return
        if count == at:
            moment = Moment(frame)
            function, given = moment.function(), moment.arguments()
            results.append((outcome(lambda: function(*given)), list(log), moment))
        count += 1

    with watched_instructions(code, on_instruction):
        outcome(call)
    return results[0] if results else None


@contextlib.contextmanager
def watched_instructions(code: types.CodeType, watch: Callable[[types.FrameType], None]) -> Iterator[None]:
    """Call `watch` before each instruction that a frame of `code` runs."""
    if hasattr(sys, "monitoring"):
        monitoring: Any = sys.monitoring
        tool = 4
        monitoring.use_tool_id(tool, "resume test")
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, lambda c, o: watch(sys._getframe(1)))
        monitoring.set_local_events(tool, code, monitoring.events.INSTRUCTION)
        try:
            yield
        finally:
            monitoring.set_local_events(tool, code, 0)
            monitoring.free_tool_id(tool)
        return

    def on_frame(frame: types.FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is code:
            frame.f_trace_opcodes = True
            return on_event
        return None

    def on_event(frame: types.FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            watch(frame)
        return on_event

    before = sys.gettrace()
    sys.settrace(on_frame)
    try:
        yield
    finally:
        sys.settrace(before)


def resumable_offsets(code: types.CodeType) -> set[int]:
    """Where the units after the prologue start."""
    parsed = read(code)
    resume = [instruction.opname for instruction in parsed.instructions].index("RESUME")
    return {i.offset for i in parsed.instructions[resume + 1 :] if parsed.unit_start(i) is i}


# -- programs ---------------------------------------------------------------------------------------------------------

LOG: list[Any] = []


def log(*values: Any) -> None:
    LOG.append(values)


class Noisy:
    def __init__(self, name: str, swallow: bool = False) -> None:
        self.name, self.swallow = name, swallow

    def __enter__(self) -> str:
        log("enter", self.name)
        return self.name

    def __exit__(self, kind: Any, error: Any, tb: Any) -> bool:
        log("exit", self.name, kind and kind.__name__)
        return self.swallow


def straight(a, b=2, *rest, key=3, **more):
    c = a + b
    d = (c, key, rest, more)
    return [x for x in (c, d)], f"{c!r:>5} {key}", {**more, "c": c}, c if a else b


def branches(a, b):
    if a > b and b:
        x = a
    elif a is None or not b:
        x = "none"
    else:
        x = -1
    return x or (a, b)


def nested_loops(n):
    total = 0
    for i in range(n):
        for j in (1, 2, 3):
            if j == i:
                continue
            if i * j > 5:
                break
            total += i * j
            log(i, j)
        else:
            total += 100
    while total > 50:
        total -= 7
    return total


def with_blocks(fail):
    with Noisy("outer", swallow=True) as outer, Noisy("inner") as inner:
        log(outer, inner)
        if fail:
            raise ValueError("inside")
        log("fine")
    return outer, inner


def return_in_with(n):
    for i in range(n):
        with Noisy(f"loop {i}"):
            if i == 1:
                return f"left at {i}"
    return "never"


def handlers(kind):
    try:
        log("try")
        if kind == 1:
            [][0]
        elif kind == 2:
            {}["x"]
        elif kind == 3:
            raise RuntimeError("three") from ValueError("cause")
    except IndexError as error:
        log("index", str(error))
        result = "index"
    except (KeyError, TypeError):
        try:
            raise
        except KeyError as again:
            result = repr(again)
    else:
        result = "else"
    finally:
        log("finally")
    return result


def finally_with_return(n):
    for i in range(n):
        try:
            if i == 2:
                return i
            log(i)
        finally:
            log("f", i)
            if i == 1:
                continue
    return -1


def exception_groups(kind):
    try:
        if kind:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        log("calm")
    except* ValueError as group:
        log("values", len(group.exceptions))
    except* KeyError:
        log("keys")
    return "end"


def closures(a, b):
    c = a + b

    def inner(d):
        nonlocal c
        c += d
        return a, c  # noqa: F821

    inner(1)
    b = inner(2)
    del a
    return b, c, sorted([3, 1, 2], key=lambda v: -v * c)


def unbound(flag):
    if flag:
        x = 1
    try:
        log(x)
    except UnboundLocalError as error:
        log("unbound", str(error))
        x = 2
    del x
    y = flag
    try:
        return x
    except NameError:
        return y


def deletes_argument(a, b):
    del a
    log(b)
    try:
        return a  # noqa: F821
    except UnboundLocalError:
        return b


def comprehensions(n):
    x = "kept"
    squares = [x * x for x in range(n)]
    lambdas = [(lambda: y) for y in range(n)]
    table = {k: v for k, v in zip("abc", squares, strict=False)}
    nested = [[i * j for i in range(j)] for j in range(n)]
    return x, squares, [f() for f in lambdas], table, {s % 2 for s in squares}, nested


def shadowed_cell(a):
    many = [a for a in range(3)]
    return many, (lambda: a)()


def shadowed_by_cell(n):
    functions = [lambda: n for n in range(n)]
    return [f() for f in functions], n


def unpacking(items):
    first, *middle, last = items
    (a, b), c = (first, last), [*middle, *items]
    a, b = b, a
    return a, b, c, middle[1:], dict(x=1, **{"y": 2}), log(*items, **{}), items[0:2]


def matching(value):
    match value:
        case {"kind": kind, **rest}:
            return kind, rest
        case [x, y, *others] if x:
            return x, y, others
        case str(text):
            return text.upper()
        case _:
            return None


def method_calls(text):
    parts = text.strip().split(",", maxsplit=1)
    return " ".join(p.title() for p in parts), text.replace("a", "b").count("b")


def calls_with_keywords(a):
    return dict(a=a, b=dict(c=max(a, 2, key=lambda v: -v))), int("7", base=8), print(end="", sep="")


def short_circuits(a, b):
    return (a and b) or (not a and [b]) or (a if a else None), a == b != 3, a < 5 < 9


def many_locals(v):
    a = b = c = d = e = f = g = h = i = j = k = m = n = o = p = q = r = s = v
    a, b = r, s
    t = r + s
    return [a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t]


def imports():
    import os.path
    from math import floor

    return os.path.join("a", "b"), floor(2.5)


def makes_class(base):
    class Made(base):
        attribute = 1

        def method(self) -> Any:
            return super().__repr__()[:5], self.attribute

    return Made().method()


class Base:
    def speak(self, *words: str) -> Any:
        return ("base", *words)


class Derived(Base):
    def speak(self, *words: str) -> Any:
        before = len(words)
        spoken = super().speak(*words)
        return before, spoken, __class__.__name__  # type: ignore[name-defined]

    def speak_with_cell(self, word: str) -> Any:
        later = lambda: (self, word)
        return super().speak(word), later()[1]


def long_body(x):
    """Long enough that its jumps need EXTENDED_ARG."""
    for i in range(2):
        if x > 0:
            x = x + 1 if x % 2 else x - 1
            x = x * 3 + i
            x = (x, x)[0]
            x = [x][0]
            x = {"a": x}["a"]
            x = x + 1 if x % 2 else x - 1
            x = x * 3 + i
            x = (x, x)[0]
            x = [x][0]
            x = {"a": x}["a"]
            x = x + 1 if x % 2 else x - 1
            x = x * 3 + i
            x = (x, x)[0]
            x = [x][0]
            x = {"a": x}["a"]
            x = x + 1 if x % 2 else x - 1
            x = x * 3 + i
            x = (x, x)[0]
            x = [x][0]
            x = {"a": x}["a"]
            x = x + 1 if x % 2 else x - 1
            x = x * 3 + i
            x = (x, x)[0]
            x = [x][0]
            x = {"a": x}["a"]
            x = x + 1 if x % 2 else x - 1
            x = x * 3 + i
            x = (x, x)[0]
            x = [x][0]
            x = {"a": x}["a"]
            x = x + 1 if x % 2 else x - 1
            x = x * 3 + i
            x = (x, x)[0]
            x = [x][0]
            x = {"a": x}["a"]
    return x  # fmt: skip


def fails_late(a):
    b = a + 1
    with Noisy("around"):
        return b / (a - a)


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (straight, (1,), {}),
    (straight, (1, 5, 6, 7), {"key": 8, "z": 9}),
    (branches, (3, 2), {}),
    (branches, (1, 2), {}),
    (branches, (0, 0), {}),
    (nested_loops, (4,), {}),
    (with_blocks, (False,), {}),
    (with_blocks, (True,), {}),
    (return_in_with, (3,), {}),
    *((handlers, (kind,), {}) for kind in range(4)),
    (finally_with_return, (4,), {}),
    (exception_groups, (0,), {}),
    (exception_groups, (1,), {}),
    (closures, (1, 2), {}),
    (unbound, (0,), {}),
    (unbound, (1,), {}),
    (deletes_argument, (1, 2), {}),
    (comprehensions, (3,), {}),
    (shadowed_cell, (7,), {}),
    (shadowed_by_cell, (3,), {}),
    (unpacking, ([1, 2, 3, 4],), {}),
    *((matching, (value,), {}) for value in ({"kind": 1, "b": 2}, [1, 2, 3], "text", 4)),
    (method_calls, (" aha,b,c ",), {}),
    (calls_with_keywords, (3,), {}),
    (short_circuits, (0, 2), {}),
    (short_circuits, (4, 4), {}),
    (many_locals, (1,), {}),
    (imports, (), {}),
    (makes_class, (object,), {}),
    (Derived.speak, (Derived(), "a", "b"), {}),
    (Derived.speak_with_cell, (Derived(), "a"), {}),
    (long_body, (3,), {}),
    (fails_late, (1,), {}),
]


@pytest.mark.parametrize(
    ("function", "args", "kwargs"), PROGRAMS, ids=[f"{i}-{p[0].__name__}" for i, p in enumerate(PROGRAMS)]
)
def test_going_on_at_any_instruction_gives_the_same(function: Any, args: Any, kwargs: Any) -> None:
    """Whatever instruction a function is left at, the resume function returns, raises and logs the same."""

    def call() -> Any:
        LOG.clear()
        return function(*args, **kwargs)

    expected = outcome(call), list(LOG)
    at = 0
    while (resumed := run_and_resume(function.__code__, call, LOG, at)) is not None:
        result, logged, moment = resumed
        assert (result, logged) == expected, f"resumed at {moment.instruction} line {moment.instruction.lineno}"
        at += 1
    assert at > 5


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (textwrap.TextWrapper._wrap_chunks, lambda: textwrap.fill("the quick brown fox jumps over it all", 12)),
        (textwrap.dedent, lambda: textwrap.dedent("  a\n    b\n  c")),
        (contextlib.ExitStack.__exit__, lambda: _use_exit_stack()),
        (traceback.TracebackException.__init__, lambda: traceback.format_exception_only(ValueError("x"))),
        (re._parser._parse, lambda: re._parser.parse("(a|b)*c[d-f]{2,3}?(?=g)").pattern is None),  # type: ignore[attr-defined]
    ],
    ids=["textwrap", "dedent", "exitstack", "traceback", "regex"],
)
def test_library_functions_can_be_resumed(function: Any, call: Any) -> None:
    """What holds for small functions holds for real ones, at every thirteenth instruction that they run."""
    expected = outcome(call)
    at = 0
    while (resumed := run_and_resume(function.__code__, call, [], at)) is not None:
        # a frame of its own, deep in a call: that it does not raise what the plain one does not is what can be seen
        assert resumed[0][0] == "returned" or expected[0] != "returned", f"{resumed[2].instruction}: {resumed[0]}"
        at += 13
    assert at > 0


def _use_exit_stack() -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(Noisy("a"))
        stack.enter_context(Noisy("b", swallow=True))
        raise KeyError("swallowed")


# -- single behaviours ------------------------------------------------------------------------------------------------


def resume_by_hand(
    function: Any, opname: str, stack: tuple[bool, ...], locals: tuple[str, ...] = (), **more: Any
) -> Any:
    parsed = read(function.__code__)
    target = next(i for i in parsed.instructions if i.opname.startswith(opname))
    arguments = frozenset(argument_slots(function.__code__))
    return make_resume_code(
        parsed, target, stack=stack, locals=locals, bound_args=arguments, name="__resume_at_1_0", **more
    )


def function_of(resume: Any, *cells: Any) -> Any:
    return types.FunctionType(resume.code, globals(), None, None, cells)


def raised(error: Exception) -> Exception:
    """The exception with a traceback, as every caught one has it (CPython hands it to __exit__ unchecked)."""
    try:
        raise error
    except Exception as caught:
        return caught


def test_an_exception_can_be_handed_to_a_handler() -> None:
    """Resuming at a handler's first instruction with the exception on the stack runs that handler."""

    def f(a):
        try:
            return a
        except ValueError as error:
            return "handled", str(error), sys.exc_info()[1] is error

    g = function_of(resume_by_hand(f, "PUSH_EXC_INFO", (True,)))
    assert g(1, raised(ValueError("given"))) == ("handled", "given", True)
    with pytest.raises(TypeError, match="other"):
        g(1, raised(TypeError("other")))
    assert sys.exc_info()[1] is None


def test_a_with_block_can_be_left_by_a_given_exception() -> None:
    """The handler of a `with` wants its exit function and the number of the raising instruction below the exception."""

    def f(manager):
        with manager:
            log("inside")
        return "after"

    beside = (False,) if FACTS.with_unit else ()  # the slot beside the exit function
    resume = resume_by_hand(f, "PUSH_EXC_INFO", (True, *beside, True, True))
    raising = next(i for i in read(f.__code__).instructions if i.argval == "inside")
    manager, g = Noisy("m", swallow=True), function_of(resume)
    LOG.clear()
    assert g(None, manager.__exit__, resume.lasti_of(raising), raised(KeyError("k"))) == "after"
    assert LOG == [("exit", "m", "KeyError")]
    with pytest.raises(KeyError) as caught:
        g(None, Noisy("n").__exit__, resume.lasti_of(raising), raised(KeyError("k")))
    assert caught.value.args == ("k",)


def test_a_traceback_shows_the_users_line() -> None:
    """File, line and columns of what raises in a resume function are those of the original."""

    def f(a):
        b = a.first
        return b.second + a.missing

    def last_frame(call: Callable[[], Any]) -> types.TracebackType:
        with pytest.raises(AttributeError, match="missing") as caught:
            call()
        assert caught.tb is not None
        *_, (last, _) = traceback.walk_tb(caught.tb)
        return next(tb for tb in iterate(caught.tb) if tb.tb_frame is last)

    second = types.SimpleNamespace(second=1)
    resume = resume_by_hand(f, "STORE_FAST", (True,))
    plain = last_frame(lambda: f(types.SimpleNamespace(first=second)))
    resumed = last_frame(lambda: function_of(resume)(types.SimpleNamespace(), second))
    assert resumed.tb_frame.f_code is resume.code
    shown, expected = traceback.extract_tb(resumed)[0], traceback.extract_tb(plain)[0]
    for attribute in ("filename", "lineno", "end_lineno", "colno", "end_colno", "line"):
        assert getattr(shown, attribute) == getattr(expected, attribute)
    assert name_of_code(resume.code) == "__resume_at_1_0"
    assert resume.code.co_name == shown.name == f.__code__.co_name
    assert resume.code.co_qualname == f.__code__.co_qualname
    assert resume.code.co_firstlineno == f.__code__.co_firstlineno


def iterate(tb: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while tb is not None:
        yield tb
        tb = tb.tb_next


def test_an_argument_that_is_a_cell_keeps_its_slot() -> None:
    """Slot 0 holds the plain argument, its cell comes by the closure: super() finds both."""
    resume = resume_by_hand(
        Derived.speak_with_cell, "LOAD_CLOSURE" if not FACTS.closure_by_load_fast else "LOAD_FAST", ()
    )
    assert resume.parameters == ("___argument_self", "___argument_word")
    assert resume.arguments == ("self", "word")
    assert resume.freevars == ("self", "word", "__class__")
    assert resume.code.co_cellvars == ()
    derived = Derived()
    cells = types.CellType(derived), types.CellType("w"), types.CellType(Derived)
    assert function_of(resume, *cells)(derived, "w") == (("base", "w"), "w")


def test_a_call_is_resumed_with_all_that_prepares_it() -> None:
    """Asked to go on at a CALL, the resume function goes on at the start of the unit, keyword names and all."""

    def f(a, b):
        return dict(key=a if b else None)

    parsed = read(f.__code__)
    call = next(i for i in parsed.instructions if i.opname.startswith("CALL"))
    stack = (False, True, True) if FACTS.null_below else (True, False, True, True)
    resume = make_resume_code(parsed, call, stack=stack, locals=(), bound_args=frozenset("ab"), name="r")
    names = () if FACTS.null_below else (("key",),)
    assert function_of(resume)(1, 2, dict, "value", *names) == {"key": "value"}
    assert resume.target is parsed.unit_start(call)


def test_the_same_place_is_made_once() -> None:
    """A second request with the same shape gives the same code object; another shape another one."""

    def f(a, b):
        return a + b

    first = resume_by_hand(f, "BINARY_OP", (True, True))
    assert resume_by_hand(f, "BINARY_OP", (True, True)) is first
    assert resume_by_hand(f, "BINARY_OP", (False, True)) is not first
    assert resume_by_hand(f, "BINARY_OP", (True, True), prefix=lambda w: None, prefix_key="none") is not first


def test_a_resume_function_knows_where_it_comes_from() -> None:
    """From its code object one gets to the original's instructions, and only those make further resume functions."""

    def f(a, b):
        return a + b

    resume = resume_by_hand(f, "BINARY_OP", (True, True))
    assert resume_point(resume.code) is resume
    assert resume_point(f.__code__) is None
    assert resume.parsed is not None and resume.parsed.code is f.__code__
    assert resume.target in resume.parsed.instructions
    origins = [i.origin for i in read(resume.code).instructions if i.role == "original"]
    assert origins == resume.parsed.instructions[1:]
    with pytest.raises(ValueError, match="is a resume function"):
        parsed = read(resume.code)
        make_resume_code(parsed, parsed.instructions[-1], stack=(True,), locals=(), bound_args=frozenset(), name="r")


def test_nothing_keeps_the_original_alive() -> None:
    """A resume function does not keep the original code object, and the original's end forgets its resume codes."""
    namespace: dict[str, Any] = {}
    exec("def f(a):\n    return a + 1", namespace)
    code = namespace.pop("f").__code__
    parsed = read(code)
    resume = make_resume_code(
        parsed, parsed.instructions[-1], stack=(True,), locals=(), bound_args=frozenset(), name="r"
    )
    resume_code = resume.code
    gone = weakref.ref(code)
    del code, parsed
    gc.collect()
    assert gone() is None
    assert resume.parsed is None
    assert types.FunctionType(resume_code, {})(None, 5) == 5
    gone_too = weakref.ref(resume_code)
    del resume, resume_code
    gc.collect()
    assert gone_too() is None


def test_the_prefix_runs_before_the_stack_is_put_back() -> None:
    """A prefix can enter again what was never entered for real."""

    def f(a):
        return log("body", a)

    def enter(writer: Writer) -> None:
        writer.begin_call()
        writer.load_global("log")
        writer.callable_ready()
        writer.load_const("prefix")
        writer.call(1)
        writer.pop_top()

    resume = resume_by_hand(f, "RETURN_VALUE", (True,), prefix=enter, prefix_key="enter")
    LOG.clear()
    assert function_of(resume)(1, "result") == "result"
    assert LOG == [("prefix",)]


def test_the_listing_says_what_each_instruction_is_for() -> None:
    """The rows of a resume function name the parts: resume, restore stack, original with the original offset."""

    def f(a, b):
        return a + b

    resume = resume_by_hand(f, "BINARY_OP", (True, True))
    rows = listing(resume.code)
    taken = len(rows) - len(read(f.__code__).instructions) - 1  # 3.11 has no instruction that loads and clears
    assert [row.role for row in rows[: taken + 2]] == ["resume", *["restore stack"] * taken, "resume"]
    assert list(dict.fromkeys(row.arg for row in rows[1 : taken + 1])) == ["___stack0", "___stack1"]
    originals = [row for row in rows if row.role == "original"]
    assert [row.origin for row in originals] == [i.offset for i in read(f.__code__).instructions[1:]]
    assert rows[taken + 1].arg == f"to {next(row.offset for row in originals if row.opname == 'BINARY_OP')}"


def test_generators_and_unclear_names_are_refused() -> None:
    """What cannot be a function is refused in one sentence."""

    def generator(a) -> Iterator[Any]:
        yield a

    with pytest.raises(ValueError, match="generator"):
        resume_by_hand(generator, "YIELD_VALUE", (True,))

    shadowed = 0

    def unclear() -> Any:
        return shadowed, [lambda: shadowed for shadowed in range(3)]

    if FACTS.inlined_comprehensions:
        with pytest.raises(ValueError, match="shadowed"):
            resume_by_hand(unclear, "BUILD_TUPLE", (True, True))
    else:
        assert not read(unclear.__code__).ambiguous_names


def test_labels_left_open_are_an_error() -> None:
    """A jump to a label that was never marked does not become a code object."""
    writer = Writer(test_labels_left_open_are_an_error.__code__)
    writer.prologue()
    writer.jump(Label("nowhere"))
    with pytest.raises(ValueError, match="never marked"):
        from dynexplore.engine.bytecode import assemble

        assemble(writer, test_labels_left_open_are_an_error.__code__)
