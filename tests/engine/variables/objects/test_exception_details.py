"""Exceptions as CPython has them: contexts with circles, `throw`, attributes of C types written later, handlers, groups.

Theme: one small program a rule, run by plain Python and by the engine; results are compared in two calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore

X = torch.ones(2)
CASES: list[Callable[[Any], Any]] = []


def case(function):
    CASES.append(function)
    return function


def outcome(function, *args):
    """The result; or class, text, arguments and what is chained to the exception."""
    try:
        return function(*args)
    except BaseException as e:
        return f"{type(e).__name__}: {e}", e.args, repr(e.__context__), repr(e.__cause__), e.__suppress_context__


@case
def ctx_self(x):
    try:
        try:
            raise ValueError(1)
        except ValueError as ex:
            ex.__context__ = ex
            raise TypeError(2)
    except TypeError as e:
        exc = e
    return repr(exc.__context__), exc.__context__.__context__ is exc.__context__


@case
def ctx_cycle3(x):
    a, b, c = ValueError("a"), ValueError("b"), ValueError("c")
    a.__context__ = b
    b.__context__ = c
    c.__context__ = a
    try:
        try:
            raise a
        except ValueError:
            raise KeyError("d")
    except KeyError as e:
        return repr(e.__context__), repr(e.__context__.__context__), repr(e.__context__.__context__.__context__)


@case
def ctx_reraise_in_chain(x):
    a = ValueError("a")
    try:
        try:
            try:
                raise a
            except ValueError:
                raise KeyError("b")
        except KeyError:
            raise a
    except ValueError as e:
        return repr(e.__context__), repr(e.__context__.__context__)


@case
def ctx_bare_raise(x):
    try:
        try:
            1 / 0
        except ZeroDivisionError as e:
            e.__context__ = e
            raise
    except ZeroDivisionError as e:
        return e.__context__ is e


@case
def gen_throw(x):
    def g():
        got = []
        try:
            got.append((yield 1))
        except KeyError as e:
            got.append(("caught", e.args, repr(sys.exception())))
        yield got

    it = g()
    next(it)
    return it.throw(KeyError("k")), repr(sys.exception())


@case
def gen_throw_cls(x):
    def g():
        try:
            yield 1
        except KeyError as e:
            yield e.args

    it = g()
    next(it)
    return it.throw(KeyError)


@case
def gen_throw_3(x):
    def g():
        try:
            yield 1
        except KeyError as e:
            yield e.args

    it = g()
    next(it)
    return it.throw(KeyError, "val", None)


@case
def gen_throw_3i(x):
    def g():
        try:
            yield 1
        except KeyError as e:
            yield e.args

    it = g()
    next(it)
    return it.throw(KeyError, KeyError(1, 2))


@case
def gen_throw_bad(x):
    def g():
        yield 1

    return (
        outcome(lambda: g().throw(3)),
        outcome(lambda: g().throw("x")),
        outcome(lambda: g().throw()),
        outcome(lambda: g().throw(KeyError(1), 2)),
    )


@case
def gen_throw_from(x):
    def inner():
        try:
            yield 1
        except ValueError as e:
            yield ("inner", e.args)
        return 7

    def outer():
        r = yield from inner()
        yield r

    it = outer()
    next(it)
    return it.throw(ValueError(3)), next(it)


@case
def gen_throw_unstarted_stop(x):
    def g():
        yield 1

    return outcome(lambda: g().throw(StopIteration(3)))


@case
def gen_throw_running(x):
    def g():
        try:
            yield 1
        except StopIteration:
            return 5

    it = g()
    next(it)
    return outcome(lambda: it.throw(StopIteration()))


@case
def gen_throw_exhausted(x):
    def g():
        yield 1

    it = g()
    list(it)
    return outcome(lambda: it.throw(KeyError(1))), outcome(lambda: next(it))


@case
def gen_close(x):
    log = []

    def g():
        try:
            yield 1
        except GeneratorExit:
            log.append(1)
            raise
        finally:
            log.append(2)

    it = g()
    next(it)
    it.close()
    return log


@case
def gen_close_ignores(x):
    def g():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    it = g()
    next(it)
    return outcome(it.close)


@case
def gen_throw_ctx(x):
    def g():
        try:
            yield 1
        except KeyError:
            raise ValueError("in")

    it = g()
    next(it)
    try:
        try:
            raise TypeError("outer")
        except TypeError:
            it.throw(KeyError("k"))
    except ValueError as e:
        return repr(e.__context__), repr(e.__context__.__context__)


@case
def c_attrs(x):
    e = OSError(2, "no")
    a = (e.errno, e.strerror, e.filename, type(e).__name__)
    e.errno = 5
    e.filename = "f"
    return a, e.errno, e.filename, str(e)


@case
def c_attrs2(x):
    e = StopIteration(3)
    e.value = 9
    s = SystemExit(1)
    s.code = 4
    return e.value, e.args, s.code, s.args


@case
def c_attrs3(x):
    e = ImportError("m", name="n", path="p")
    a = e.name, e.path, e.msg
    e.name = "q"
    return a, e.name, str(e)


@case
def c_attrs4(x):
    e = KeyError(1)
    e.args = (5, 6)
    e.note = 3
    e.__cause__ = ValueError(1)
    return e.args, e.note, repr(e.__cause__), e.__suppress_context__, str(e)


@case
def c_attrs5(x):
    e = UnicodeDecodeError("utf8", b"abc", 1, 2, "why")
    e.start = 0
    e.reason = "z"
    return e.start, e.end, e.reason, str(e)


@case
def c_attrs6(x):
    e = SyntaxError("m", ("f", 1, 2, "t"))
    e.lineno = 9
    return e.lineno, e.filename, str(e)


@case
def c_attrs7(x):
    e = NameError("n", name="nn")
    f = AttributeError("a", name="q", obj=3)
    f.obj = 4
    return e.name, f.name, f.obj


@case
def notes(x):
    e = ValueError(1)
    e.add_note("a")
    e.add_note("b")
    return e.__notes__


@case
def bad_sets(x):
    e = ValueError(1)
    return (
        outcome(lambda: setattr(e, "__cause__", 3)),
        outcome(lambda: setattr(e, "__context__", 3)),
        outcome(lambda: setattr(e, "__traceback__", 3)),
        outcome(lambda: setattr(e, "args", 3)),
        outcome(lambda: delattr(e, "args")),
        outcome(lambda: delattr(e, "__context__")),
        outcome(lambda: setattr(e, "__suppress_context__", 2)),
    )


@case
def sysexc(x):
    before = sys.exception()
    try:
        raise KeyError(1)
    except KeyError as e:
        a = sys.exception() is e, sys.exc_info()[1] is e, sys.exc_info()[0]
        try:
            raise ValueError(2)
        except ValueError as f:
            b = sys.exception() is f
        c = sys.exception() is e
    return before, a, b, c, sys.exception()


@case
def group(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
    except* ValueError as v:
        a = repr(v), v.exceptions
    except* (KeyError, TypeError) as k:
        b = repr(k)
    return a[0], b, repr(sys.exception())


@case
def group_rest(x):
    out = []
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError as v:
            out.append(repr(v))
    except BaseExceptionGroup as r:
        out.append(repr(r))
    return out


@case
def group_naked(x):
    try:
        raise ValueError(5)
    except* ValueError as v:
        return_ = repr(v), type(v).__name__, v.message
    return return_


@case
def group_raise(x):
    out = []
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError as v:
            raise TypeError(9)
        except* KeyError:
            out.append(1)
    except BaseExceptionGroup as r:
        out.append(repr(r))
    return out


@case
def group_methods(x):
    g = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(2), ValueError(3)])])
    return (
        repr(g.split(ValueError)),
        repr(g.subgroup(KeyError)),
        repr(g.derive([ValueError(1)])),
        g.message,
        len(g.exceptions),
        outcome(lambda: ExceptionGroup("g", [])),
        outcome(lambda: ExceptionGroup("x", [KeyboardInterrupt()])),
        type(BaseExceptionGroup("a", [ValueError(1)])).__name__,
    )


@case
def raise_bad(x):
    def a():
        raise 3

    def b():
        raise ValueError from 3

    def c():
        try:
            raise KeyError
        except 5:
            pass

    def d():
        raise

    return outcome(a), outcome(b), outcome(c), outcome(d)


@case
def with_exit(x):
    class C:
        def __enter__(s):
            return s

        def __exit__(s, *e):
            s.e = e[0], repr(e[1]), e[2] is not None, repr(sys.exception())
            return True

    with C() as c:
        raise KeyError(4)
    return c.e


@case
def finally_ret(x):
    def f():
        try:
            raise KeyError
        finally:
            return 3

    return f()


@case
def tb(x):
    try:
        raise ValueError(1)
    except ValueError as e:
        return e.__traceback__.tb_lineno, e.with_traceback(None).__traceback__


class Quiet(OSError):
    def __init__(self, *args):
        pass


OTHER_ARGS = {
    "an OSError": (OSError, (2, "no"), (7,)),
    "an OSError of the program": (Quiet, (2, "no"), (7,)),
    "StopIteration": (StopIteration, (1,), (2,)),
    "SystemExit": (SystemExit, (1,), ()),
    "a KeyError": (KeyError, ("a",), ("b", "c")),
    "a group": (ExceptionGroup, ("g", (ValueError(1),)), ()),
}


def everything(error):
    made_of = [getattr(error, name, "none") for name in ("errno", "strerror", "value", "code", "message")]
    return type(error), error.args, made_of, str(error), repr(error)


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("name", OTHER_ARGS)
def test_arguments_that_are_set_do_not_make_it_anew(name, leaves):
    """What the C type keeps beside `args` is of what it was made of, inside the frame and where the exception leaves it."""
    cls, made_of, others = OTHER_ARGS[name]

    def set_args(x):
        error = cls(*made_of)
        error.args = others
        return x + 1, error if leaves else everything(error)

    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(set_args)
    seen = [repr(everything(f(X)[1]) if leaves else f(X)[1]) for f in (set_args, compiled, compiled)]
    assert seen[1:] == seen[:1] * 2
    assert dynexplore.counters["stats"]["graphs"] >= 1
    assert not dynexplore.counters["engine_error"]


@pytest.mark.parametrize("change", [lambda items: items.clear(), lambda items: items.append(None), lambda items: None])
def test_a_group_keeps_what_its_list_held(change):
    """A group of a list that changes afterwards has the exceptions that were in it."""

    def group(x):
        errors = [ValueError(1), TypeError(2)]
        made = ExceptionGroup("g", errors)
        change(errors)
        return x + 1, repr(made), len(made.exceptions), errors is made.args[1], made

    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(group)
    seen = [repr([*f(X)[1:4], f(X)[4].exceptions, f(X)[4].args]) for f in (group, compiled, compiled)]
    assert seen[1:] == seen[:1] * 2
    assert dynexplore.counters["stats"]["graphs"] >= 1
    assert not dynexplore.counters["engine_error"]


@pytest.mark.parametrize("program", CASES, ids=lambda program: program.__name__)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_exceptions_are_those_of_cpython(program):
    """What is raised, chained, kept and said is the same in both calls, and no bug of the engine is met on the way."""

    def function(x):
        return x + 1, program(x)

    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(function)
    expected = repr(outcome(function, X)[1:])
    assert [repr(outcome(compiled, X)[1:]) for _ in range(2)] == [expected] * 2
    assert dynexplore.counters["stats"]["graphs"] >= 1
    assert not dynexplore.counters["engine_error"]
