"""Exceptions in traced code: raised, caught, chained, passed on, and left to Python, against eager.

PYTEST_DONT_REWRITE: the asserts of the programs are material.
"""

from __future__ import annotations

import abc
import sys
from typing import Any

import pytest
import torch
from programs.before_and_after import seen
from programs.program_table import Programs

import dynexplore
from dynexplore.engine.bytecode.versions import FACTS
from engine_checks import assert_same_as_eager, graphs_compiled

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3)


class Failed(Exception):
    """An exception class with an `__init__`."""

    def __init__(self, code: int, detail: Any = None) -> None:
        super().__init__(f"failed with {code}")
        self.code = code
        self.detail = detail


class Worded(ValueError):
    """An exception class with a `__str__`."""

    def __str__(self) -> str:
        return "worded: " + ", ".join(map(str, self.args))


class Plain(RuntimeError):
    """A subclass without anything."""


def raises(x: Any, kind: Any = ValueError) -> Any:
    x = x * 2
    if kind is not None:
        raise kind("from inside")
    return x


@program(X, graphs=1, ops=2)
def raised_and_caught(x):
    try:
        x = x + 1
        raise ValueError("no", 3)
    except ValueError as error:
        x = x * len(error.args)
        y = error.args[0]
    return x, y, str(ValueError("a")), repr(ValueError("a", 1)), str(KeyError("k")), str(Exception())


@program(X, graphs=1, ops=8)
def caught_from_a_callee(x):
    log = []
    for kind in (ValueError, KeyError, Plain, None):
        try:
            log.append(raises(x, kind))
        except (ValueError, KeyError) as error:
            log.append(type(error).__name__)
        except RuntimeError as error:
            log.append((isinstance(error, Plain), str(error)))
        else:
            log.append("fine")
        finally:
            log.append(x + 1)
    return log


@program(X, graphs=1, ops=1)
def exceptions_of_the_program(x):
    try:
        raise Failed(3, x)
    except Failed as error:
        caught = error.code, error.detail + 1, str(error), error.args
    try:
        raise Worded("a", 1)
    except ValueError as error:
        words = f"{error}", str(error), error.args
    try:
        raise Plain
    except Exception as error:
        kind = type(error) is Plain, error.args
    return caught, words, kind


@program(X, graphs=1, ops=1)
def chained(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as outer:
        cause = outer.__cause__
        kinds = type(cause).__name__, outer.__suppress_context__, cause.args
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer") from None
    except ValueError as outer:
        kinds += (outer.__cause__, outer.__suppress_context__)
    return kinds, x + 1


@program(X, graphs=1, ops=1)
def raised_again(x):
    try:
        try:
            raise ValueError("first")
        except ValueError:
            x = x + 1
            raise
    except ValueError as error:
        return x, str(error)


@program(X, graphs=1, ops=1)
def passed_on(x):
    error = Failed(1, x + 1)
    error.note = "kept"
    made = ValueError("a", x)
    return error, made, [Worded("w")], Failed


@program(X, graphs=1, ops=2)
def finally_runs(x):
    log = []

    def inner(y):
        try:
            return y + 1
        finally:
            log.append("finally")

    for n in range(3):
        try:
            if n == 1:
                continue
            x = inner(x)
            if n == 2:
                break
        finally:
            log.append(n)
    return x, log


@program(X, graphs=1, ops=1)
def what_python_raises(x):
    log = []
    for attempt in (
        lambda: [1][3],
        lambda: {"a": 1}["b"],
        lambda: (1).nothing,
        lambda: 1 + "a",
        lambda: int("x"),
        lambda: 1 / 0,
        lambda: next(iter([])),
        lambda: undefined,  # noqa: F821
        lambda: len(3),
        lambda: x.nothing,
        lambda: [].pop(),
        lambda: (lambda n: n())(None),
        lambda: "a".join([1]),
        lambda: (lambda a: a)(),
        lambda: max([]),
        lambda: dict(a=1).pop("b"),
        lambda: tuple(5),
    ):
        try:
            attempt()
        except Exception as error:
            log.append(f"{type(error).__name__}: {error}")
    return log, x + 1


@program(X, graphs=1, ops=3)
def stops_early(x):
    def take(items, limit):
        for index, item in enumerate(items):
            if index == limit:
                raise StopIteration(item)
        return None

    try:
        take([x, x + 1, x + 2], 1)
    except StopIteration as stop:
        return stop.value * 2


@program(X, graphs=1, ops=1, breaks=["DX310"])
def leaves_the_function(x):
    y = x + 1
    raise ValueError("out", 3)


@program(X, graphs=1, ops=2, breaks=["DX310"])
def leaves_a_callee(x):
    y = x + 1
    return raises(y, Failed)


@program(X, graphs=1, ops=1, breaks=["DX310"])
def asserts(x):
    y = x + 1
    assert x.shape[0] == 3, f"expected 3, got {x.shape[0]}"
    return y


@program(X, graphs=1, ops=1)
def asserts_that_hold(x):
    assert x.shape[0] == 2, "two"
    assert isinstance(x, torch.Tensor)
    return x + 1


@program(X, [], graphs=4, ops=[1, 1, 1, 1], breaks=None)
def a_break_in_try(x, log):
    try:
        y = x + 1
        print("in try")
        z = y * 2
        raise ValueError("after the break")
    except ValueError as error:
        log.append(str(error))
        print("in except")
        z = x - 1
    finally:
        log.append("finally")
        print("in finally")
    return z + 1


@program(X, graphs=1, ops=1)
def not_an_exception(x):
    try:
        raise 3
    except TypeError as error:
        first = str(error)
    try:
        raise int
    except TypeError as error:
        second = str(error)
    try:
        try:
            raise ValueError
        except 3:
            pass
    except TypeError as error:
        third = str(error)
    return first, second, third, x + 1


@program(X, graphs=1, ops=1)
def the_exception_being_handled(x):
    try:
        raise ValueError("v")
    except ValueError as error:
        same = sys.exception() is error
    return x + 1, same


def asks_for_its_callers_exception(x):
    kept = sys.exc_info()
    y = x + 1
    print("woo")
    return y * 2, kept[0], sys.exception() is kept[1], kept[2] is not None


@program(X, graphs=2, ops=[1, 1], breaks=None)
def handled_by_the_caller(x):
    try:
        raise ValueError("v")
    except ValueError:
        print("woo")
        return asks_for_its_callers_exception(x)


@program(X, graphs=1, ops=1, breaks=None)
def leaves_a_handler_with_its_context(x):
    y = x + 1
    try:
        raise ValueError("first")
    except ValueError as error:
        assert y is None, "second"
    return y


@program(X, graphs=1, ops=1)
def the_context_of_what_is_raised_in_a_handler(x):
    try:
        raise ValueError("outer")
    except ValueError as outer:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            chained = inner.__context__ is outer
        try:
            1 // (x.dim() - x.dim())
        except ZeroDivisionError as inner:
            return x + 1, chained, inner.__context__ is outer, inner.args


@program(X, graphs=1, ops=2, breaks=None)
def leaves_a_handler_after_a_break_in_it(x):
    y = x + 1
    try:
        y = y @ torch.ones(7, 7)
    except RuntimeError:
        print("woo")
        raise LookupError from None


@PROGRAMS.parameters()
def test_program(run):
    """The program does under the engine what it does without, in as many graphs as expected."""
    run()


def truth_in_a_condition(x: Any) -> Any:
    try:
        if x > 1:
            return 1
    except RuntimeError as error:
        return str(error)


def truth_in_a_loop(x: Any) -> Any:
    try:
        y = x + 1
        while not (y > 1):
            y = y + 1
    except RuntimeError:
        return "caught", y


def truth_in_finally(x: Any) -> Any:
    try:
        raise ValueError
    finally:
        if x > 1:
            pass


def truth_kept_as_a_value(x: Any) -> Any:
    y = x + 1
    try:
        flag = bool(x > 1) or 2
        other = not not (y > 1)
    except RuntimeError as error:
        return str(error), y
    return flag, other, y


# what a comparison alone is worth as a graph: nothing where its instruction takes the truth, too, and Python runs it whole
COMPARED = 0 if FACTS.compare_to_bool else 1


@pytest.mark.parametrize(
    ("program", "size", "graphs"),
    [
        (truth_in_a_condition, 1, 1), (truth_in_a_loop, 1, 2), (truth_in_finally, 1, 1), (truth_kept_as_a_value, 1, 3),
        (truth_in_a_condition, 2, COMPARED), (truth_in_a_loop, 2, 1), (truth_in_finally, 2, COMPARED),
        (truth_kept_as_a_value, 2, 1),
    ],
)  # fmt: skip
def test_the_truth_of_a_tensor_raises_where_it_is_asked(program: Any, size: int, graphs: int) -> None:
    """A tensor of several elements has none: the handlers around the question take the exception, and none is left behind."""
    calls = [(torch.zeros(size),), (torch.full((size,), 3.0),)]
    assert_same_as_eager(program, torch.ones(size), then=calls, graphs=graphs)
    assert sys.exception() is None


def test_a_constructor_that_breaks_and_raises_is_caught_every_time() -> None:
    """CPython 3.13 enters `__init__` without the frame hook once a call is warm: its exceptions still find the caller's handler."""

    class Broken:
        def __init__(self, n):
            dynexplore.graph_break()
            self.value = n.missing

    def fn(x):
        try:
            x = x * Broken(2).value
        except AttributeError:
            x = x + 1
        return x * 2

    assert_same_as_eager(fn, torch.ones(3), graphs=1, breaks=None, calls=6)


# -- what the caller is handling ---------------------------------------------------------------------------------------


def asks_whether_there_is_one(x):
    value = sys.exc_info()[1]
    if value is None:
        return x + 1
    return x + 2, str(value)


def walks_over_contexts(x):
    names = []
    try:
        raise KeyError("inner")
    except KeyError as error:
        while error is not None:
            names.append(type(error).__name__)
            error = error.__context__
    return x + 1, names


def raises_it_by_name(x):
    x = x + 1
    try:
        raise sys.exc_info()[1]
    except BaseException as error:
        return x * 2, repr(error)


def raises_from_it(x):
    x = x + 1
    try:
        raise ValueError("new") from sys.exc_info()[1]
    except ValueError as error:
        return x * 2, repr(error.__cause__)


def raises_again(x):
    x = x + 1
    try:
        raise
    except BaseException as error:
        return x * 2, repr(error)


@pytest.mark.parametrize("first", [0, 1], ids=["none first", "one first"])
@pytest.mark.parametrize(
    "fn", [asks_whether_there_is_one, walks_over_contexts, raises_it_by_name, raises_from_it, raises_again],
    ids=lambda fn: fn.__name__,
)  # fmt: skip
def test_what_the_caller_is_handling_is_asked_in_each_call(fn: Any, first: int) -> None:
    """Whether there is an exception, and which, is the caller's: it is neither taken for one that is there nor for none."""
    handled = [None, OSError("first"), LookupError("second"), None]
    optimized = dynexplore.optimize("eager")(fn)

    def calls_while_handling(called: Any, exception: Any) -> str:
        if exception is None:
            return repr(called(torch.ones(2)))
        try:
            raise exception
        except (OSError, LookupError):
            return repr(called(torch.ones(2)))

    for exception in handled[first:]:
        assert calls_while_handling(optimized, exception) == calls_while_handling(fn, exception)
    assert graphs_compiled() > 0


def entries_of(traceback: Any) -> list[tuple[str, int]]:
    entries = []
    while traceback is not None:
        entries.append((traceback.tb_frame.f_code.co_name, traceback.tb_lineno))
        traceback = traceback.tb_next
    return entries


def raises_deep(what: str) -> None:
    raise ValueError(what)


def keeps_what_it_caught(x: Any, kept: list[Any]) -> Any:
    for place in (0, 5):
        try:
            x = x * [1, 2][place]
        except IndexError as error:
            kept.append(error)
    return x + 1


def returns_what_it_caught(x: Any, kept: list[Any]) -> Any:
    try:
        raises_deep("deep")
    except ValueError as error:
        caught = error
    y = x * 2
    dynexplore.graph_break()
    kept.append(caught)
    return y + 1


def looks_at_a_traceback(x: Any, kept: list[Any]) -> Any:
    y = x * 2
    try:
        raises_deep("deep")
    except ValueError as error:
        has_one, bare = error.__traceback__ is not None, ValueError().__traceback__
        kept.append(error.with_traceback(None))
    return y + 1, has_one, bare


@pytest.mark.parametrize("program", [keeps_what_it_caught, returns_what_it_caught, looks_at_a_traceback])
def test_an_exception_that_was_caught_has_a_traceback(program: Any) -> None:
    """One that leaves the frame was raised for real: its traceback says through which functions and lines it came."""

    def run(fn: Any) -> Any:
        kept: list[Any] = []
        return [fn(X, kept) for _ in range(2)], [(str(error), entries_of(error.__traceback__)) for error in kept]

    dynexplore.reset()
    assert repr(run(dynexplore.optimize("eager")(program))) == repr(run(program))
    assert graphs_compiled()


class Leaving:
    """A context manager that swallows an exception, and says what it was told of it."""

    def __enter__(self) -> Leaving:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.told = kind, traceback is None, error is not None and error.__traceback__ is traceback
        return True


class Reading(Leaving):
    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.told = kind, traceback is not None and traceback.tb_lineno, error
        return True


def leaves_a_block_by_an_exception(x: Any, block: Any, number: int) -> Any:
    with block:
        x = x + [3, 4][number]
    return x * 2, block.told


@pytest.mark.parametrize("block", [Leaving, Reading])
def test_the_traceback_that_an_exit_function_gets(block: Any) -> None:
    """`__exit__` gets None only where no exception left the block; what the traceback says is read from a real one."""
    calls = [(torch.ones(2), block(), number) for number in (1, 2)]
    report = assert_same_as_eager(leaves_a_block_by_an_exception, *calls[0], then=calls[1:])
    assert bool(report.breaks) == (block is Reading)


def gathers(x: Any, count: int) -> Any:
    """Raises a group of what it caught."""
    errors: list[Exception] = []
    for number in range(count):
        try:
            raise ValueError(number) if number % 2 else KeyError(number)
        except Exception as error:
            errors.append(error)
    raise ExceptionGroup("several", errors)


def takes_a_group_apart(x: Any, count: int) -> Any:
    kinds = []
    try:
        gathers(x, count)
    except* ValueError as group:
        kinds.append(("values", len(group.exceptions)))
    except* KeyError as group:
        kinds.append(("keys", len(group.exceptions)))
    return x + len(kinds), kinds


def catches_a_group(x: Any, count: int) -> Any:
    try:
        gathers(x, count)
    except Exception as group:
        return x * 2, type(group), group.exceptions if isinstance(group, ExceptionGroup) else group.args


@pytest.mark.parametrize("fn", [takes_a_group_apart, catches_a_group])
def test_a_group_holds_what_its_list_held_when_it_was_made(fn: Any) -> None:
    """The C type reads the list of exceptions at once, so a group is made by Python; an empty list is refused by it."""
    assert_same_as_eager(fn, X, 2, then=[(X, 5), (X, 1), (X, 2)])
    assert_same_as_eager(catches_a_group, X, 0)


def makes_an_error_of_c(x: Any, *args: Any) -> Any:
    try:
        raise UnicodeDecodeError(*args)
    except (UnicodeDecodeError, TypeError) as error:
        return x + 1, type(error), error.args


def test_an_error_that_checks_its_arguments_is_made_by_python() -> None:
    """UnicodeDecodeError wants five arguments of certain types, and raises TypeError else."""
    assert_same_as_eager(makes_an_error_of_c, X, "utf-8", b"\xff", 0, 1, "no", then=[(X, "utf-8"), (X, 1, 2, 3, 4, 5)])


class Virtual(Exception, metaclass=abc.ABCMeta):
    """An exception class that says of KeyError that it is one of its own."""


Virtual.register(KeyError)


def caught_by_bases_alone(x: Any) -> Any:
    try:
        raise KeyError("k")
    except Virtual:
        return x * 2
    except KeyError:
        return x * 3, issubclass(KeyError, Virtual)


def test_except_asks_no_class_whether_an_exception_is_its_own() -> None:
    """`except` goes by the bases of the exception's class: neither `register` nor `__subclasscheck__` counts."""
    assert_same_as_eager(caught_by_bases_alone, torch.ones(2), graphs=1, breaks=0)


def test_the_bases_of_an_exception_class_are_relied_on() -> None:
    """An exception whose class gets another base is caught by what catches that."""

    class First(Exception):
        pass

    class Second(Exception):
        pass

    class Raised(First):
        pass

    def caught(x: Any) -> Any:
        try:
            raise Raised
        except First:
            return x * 2
        except Second:
            return x * 3

    seen(caught, lambda: setattr(Raised, "__bases__", (Second,)), before=2, after=3)
