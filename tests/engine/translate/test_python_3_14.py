"""What CPython 3.14 does in another way, and programs see: entering a `with`, annotations that are code, branches counted."""

from __future__ import annotations

import functools
import os
import sys
import types
import typing
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.ones(3)


def run_source(source: str, namespace: dict[str, Any]) -> None:
    """Execute text in which annotations are what they are by default, and not the strings that they are in this file."""
    exec(compile(source, "<text>", "exec", dont_inherit=True), namespace)


class Manager:
    """Enters, leaves, swallows a ValueError."""

    def __enter__(self) -> int:
        print("entered")
        return 5

    def __exit__(self, *raised: Any) -> bool:
        print("left", raised[0])
        return raised[0] is ValueError


class NoExit:
    """Cannot be left."""

    def __enter__(self) -> int:
        return 1


class OwnExit(Manager):
    """Has an `__exit__` of its own, which no `with` looks at."""

    def __init__(self) -> None:
        self.__exit__ = lambda *raised: print("own")  # type: ignore[method-assign]


class Bound(Manager):
    """Its `__exit__` is no function: it is bound when the block is entered, once."""

    class Descriptor:
        """Tells when it is asked."""

        def __get__(self, instance: Any, owner: Any) -> Any:
            print("bound")
            return lambda *raised: print("left by", raised[0])

    __exit__ = Descriptor()  # type: ignore[assignment]


def enters(x: Any, manager: Any) -> Any:
    y = x * 2
    try:
        with manager() as value:
            y = y + value
            print("inside")
            if value == 5:
                raise ValueError(value)
            y = y * 3
    except (TypeError, ValueError) as error:
        return y, str(error)
    return y + 1


@pytest.mark.parametrize("manager", [Manager, NoExit, OwnExit, Bound, int])
def test_a_manager_is_entered_and_left_as_python_does(manager: Any) -> None:
    """The class's `__exit__` is found, bound and called once, and where it is missing Python's sentence comes."""
    assert_same_as_eager(enters, X, manager, calls=2)


def annotated_function(x: Any) -> Any:
    namespace: dict[str, Any] = {"seen": []}
    run_source("def note(kind):\n    seen.append(kind)\n    return kind\n", namespace)
    run_source("def f(a: note(int), b: note(str) = 'b') -> note(list):\n    return a\n", namespace)
    f = namespace["f"]
    y = x + 1
    before = len(namespace["seen"])
    shown = f.__annotations__, f.__annotations__
    return y * 2, shown, before, namespace["seen"]


def test_annotations_run_when_they_are_read() -> None:
    """What an annotation calls is called when Python calls it, and once: at the `def` before 3.14, at the first look from it on."""
    assert_same_as_eager(annotated_function, X)


GLOBAL: dict[str, Any] = {"seen": []}
run_source("def note(kind):\n    seen.append(kind)\n    return kind\ndef f(a: note(int)) -> note(list):\n    return a\n", GLOBAL)


def reads_annotations_of_a_global(x: Any) -> Any:
    y = x + len(GLOBAL["seen"])
    return y, GLOBAL["f"].__annotations__["a"], len(GLOBAL["seen"])


def test_annotations_of_a_global_function_are_not_read_by_translating() -> None:
    """Translation does not run them: the program sees them run once, where it reads them."""
    reset = "def note(kind):\n    seen.append(kind)\n    return kind\ndef f(a: note(int)) -> note(list):\n    return a\n"

    def begin() -> None:
        GLOBAL["seen"].clear()
        exec(reset, GLOBAL)

    begin()
    expected = [reads_annotations_of_a_global(X) for _ in range(2)]
    begin()
    optimized = dynexplore.optimize("eager")(reads_annotations_of_a_global)
    actual = [optimized(X) for _ in range(2)]
    assert [str(one) for one in actual] == [str(one) for one in expected]
    assert graphs_compiled() > 0


def nested_annotations(x: Any) -> Any:
    def inner(a: int, *, b: str = "b") -> list:
        return [a, b]

    return x + 1, inner.__annotations__, inner(1), inner


def test_a_function_made_inside_keeps_its_annotations() -> None:
    """A function that leaves the frame evaluates the same annotations outside."""
    assert_same_as_eager(lambda x: (lambda r: (*r[:3], r[3].__annotations__))(nested_annotations(x)), X, calls=2)


def branches(x: Any) -> Any:
    if x.sum() > 0:
        x = x + 1
    if x.sum() < 0:
        x = x + 5
    while x.sum() < 30:
        x = x + 3
    return x


def events_of(function: Any) -> tuple[Any, list[tuple[str, int]]]:
    """What a tool that counts branches hears of `branches`: which way, in which line."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    heard: list[tuple[str, int]] = []
    branch_events = {"left": monitoring.events.BRANCH_LEFT, "right": monitoring.events.BRANCH_RIGHT}
    monitoring.use_tool_id(4, "branches")

    def listener(way: str) -> Any:
        def hear(code: Any, offset: int, _: int) -> None:
            if code.co_name == "branches":
                heard.append((way, next(line for begin, end, line in code.co_lines() if begin <= offset < end)))

        return hear

    for way, event in branch_events.items():
        monitoring.register_callback(4, event, listener(way))
    monitoring.set_events(4, sum(branch_events.values()))
    try:
        value = function(X)
    finally:
        monitoring.set_events(4, 0)
        monitoring.free_tool_id(4)
    return value, heard


TELLS_BOTH_WAYS = "BRANCH_LEFT" in dir(getattr(getattr(sys, "monitoring", None), "events", None))


@pytest.mark.skipif(not TELLS_BOTH_WAYS, reason="sys.monitoring tells both ways apart from Python 3.14 on")
def test_tools_see_both_ways_of_a_branch() -> None:
    """A branch that Python decides is seen by sys.monitoring whichever way it goes, taken or not."""
    optimized = dynexplore.optimize("eager")(branches)
    optimized(X)
    expected, actual = events_of(branches), events_of(optimized)
    assert torch.equal(expected[0], actual[0]) and expected[1] == actual[1] and {way for way, _ in actual[1]} == {"left", "right"}
    assert dynexplore.graph_breaks()


def inlined(y: Any) -> Any:
    return y * 2


def calls_inlined(x: Any) -> Any:
    y = x + 1
    return inlined(y) - 1


def starts_of(function: Any) -> list[str]:
    """The functions of this file that a tool of sys.monitoring hears start."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    heard: list[str] = []
    monitoring.use_tool_id(4, "starts")
    monitoring.register_callback(
        4, monitoring.events.PY_START, lambda code, offset: heard.append(code.co_name) if code.co_filename == __file__ else None
    )
    monitoring.set_events(4, monitoring.events.PY_START)
    try:
        function(X)
    finally:
        monitoring.set_events(4, 0)
        monitoring.free_tool_id(4)
    return heard


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in Python 3.12")
def test_tools_hear_nothing_of_an_inlined_function() -> None:
    """DIFF45: the compiled function starts, at its capture and at each call after it; the one that it inlines does not."""
    optimized = dynexplore.optimize("eager")(calls_inlined)
    assert starts_of(calls_inlined) == ["calls_inlined", "inlined"]
    assert [starts_of(optimized) for _ in range(2)] == [["calls_inlined"], ["calls_inlined"]]
    assert graphs_compiled() == 1


needs_3_14 = pytest.mark.skipif(sys.version_info < (3, 14), reason="new in Python 3.14")


def noted(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def partial_of_partial(x: Any) -> Any:
    place = functools.Placeholder  # type: ignore[attr-defined]
    first = functools.partial(noted, place, 0)
    second = functools.partial(first, place, 1, r=2)
    third = functools.partial(second, -1, 4)
    return x + 1, first.args, second.args, third.args, third(5), second(x, 7)


def too_few(x: Any) -> Any:
    place = functools.Placeholder  # type: ignore[attr-defined]
    texts = []
    for call in (
        lambda: functools.partial(noted, place, 0)(),
        lambda: functools.partial(noted, 0, place),
        lambda: functools.partial(noted, 0, r=place),
    ):
        try:
            call()
        except TypeError as error:
            texts.append(str(error))
    return x + 1, texts


@needs_3_14
@pytest.mark.parametrize("program", [partial_of_partial, too_few])
def test_arguments_fill_the_placeholders_of_a_partial(program: Any) -> None:
    """Those of a partial of a partial, too; what is missing or out of place is Python's TypeError."""
    assert_same_as_eager(program, X, graphs=1, breaks=0)


@needs_3_14
def test_a_partial_with_placeholders_comes_from_outside() -> None:
    """One that exists before the frame is called as Python does."""
    outside = functools.partial(noted, functools.Placeholder, 0)  # type: ignore[attr-defined]
    assert_same_as_eager(lambda x: (outside(x * 2, 5, r=3), x + 1), X, graphs=1, breaks=0)


@needs_3_14
@pytest.mark.parametrize("form", ["VALUE", "FORWARDREF", "STRING"])
def test_annotations_are_evaluated_in_globals_of_another_class(form: str) -> None:
    """annotationlib runs `__annotate__` with globals that answer for each name: such a frame is left to Python."""
    import annotationlib  # type: ignore[import-not-found]

    namespace: dict[str, Any] = {"annotationlib": annotationlib, "form": annotationlib.Format[form]}
    known = "int" if form == "VALUE" else "absent[int]"
    run_source(
        f"def f(x):\n    y = x + 1\n    def g(a: {known}, b: 'text', c: [int, 1 if int else 2]): ...\n"
        "    evaluated = annotationlib.get_annotations(g, format=form)\n"
        "    return y * 2, {name: repr(value)[:9] for name, value in evaluated.items()}\n",
        namespace,
    )
    assert_same_as_eager(namespace["f"], X, graphs=range(1, 3))


NAMES_OF_ANNOTATE = {
    "read": "seen = name(g)",
    "of a nested function": "def k():\n        def m(a: int): ...\n        return m\n    seen = name(k())",
    "with defaults": "def h(a: int = 1, *, b: str = 's') -> x.shape: ...\n    seen = name(h)",
    "of a method": "class C:\n        b: int\n        def m(self, a: int): ...\n    seen = name(C.m), C.__annotate__.__qualname__",
    "renamed function": "g.__qualname__ = 'other'\n    seen = name(g)",
    "renamed itself": "g.__annotate__.__qualname__ = 'other'\n    seen = name(g)",
    "put into another": "def h(): ...\n    h.__annotate__ = g.__annotate__\n    seen = name(h)",
    "a function that was put there": "def put(format): return {}\n    g.__annotate__ = put\n    seen = name(g)",
    "leaves the frame": "seen = g.__annotate__",
    "leaves with its function": "seen = g",
    "is read behind a break": "print('break')\n    seen = name(g)",
    "name without a qualification": "seen = g.__annotate__.__name__, g.__annotate__.__code__.co_qualname",
}


@needs_3_14
@pytest.mark.parametrize("way", NAMES_OF_ANNOTATE)
def test_code_of_annotations_is_named_after_its_function(way: str) -> None:
    """Later releases of 3.14 name it when the function is made; its code object is named after what encloses the function."""
    namespace: dict[str, Any] = {"name": lambda function: (function.__annotate__.__qualname__, function.__annotate__.__name__)}
    lines = "def f(x):", "y = x + 1", "def g(a: int) -> str: ...", NAMES_OF_ANNOTATE[way], "return y * 2, seen\n"
    run_source("\n    ".join(lines), namespace)

    def program(x: Any) -> Any:
        y, seen = namespace["f"](x)
        if isinstance(seen, types.FunctionType):
            return y, seen.__qualname__, getattr(seen.__annotate__, "__qualname__", None)  # type: ignore[attr-defined]
        return y, seen

    assert_same_as_eager(program, X, graphs=range(1, 4), calls=2)


class Answering(dict[str, Any]):
    """Globals that know each name."""

    def __missing__(self, name: str) -> str:
        return f"no {name}"


def test_a_function_with_globals_of_another_class_is_left_to_python() -> None:
    """Its class answers for a name that is missing, in a call from traced code and in a frame of its own."""
    function = types.FunctionType((lambda x: (x + 1, absent_name)).__code__, Answering())  # type: ignore[name-defined]  # noqa: F821
    assert_same_as_eager(lambda x: (function(x * 2), x + 3), X, graphs=range(1, 4), breaks=["DX202"])
    assert_same_as_eager(lambda x: (list(map(function, [x])), x + 3), X, graphs=range(1, 4))


def wraps_itself(x: Any) -> Any:
    y = x + 1

    def g(a: int, b: str = "b") -> None: ...

    g.__wrapped__ = g  # type: ignore[attr-defined]
    print(g.__defaults__)
    return y * 2, g.__annotations__["a"], g.__wrapped__ is g  # type: ignore[attr-defined]


def test_a_function_that_only_python_can_make_has_its_parts() -> None:
    """A break stands where it is made, before its defaults and annotations are put into it."""
    assert_same_as_eager(wraps_itself, X, graphs=range(1, 4))


@pytest.mark.parametrize("bound", [True, False])
def test_a_parameter_may_be_called_like_a_variable_of_the_closure(bound: bool) -> None:
    """That of an `__annotate__` is called `format`: where an annotation is the outer function's `format`, Python runs it."""
    source = "def outer(x):\n    y = x + 1\n    def g(a: format): ...\n    if bound:\n        format = 5\n    return y, g\n"
    namespace: dict[str, Any] = {"bound": bound}

    def program(x: Any) -> Any:
        run_source(source, namespace)
        y, g = namespace["outer"](x)
        try:
            return y, g.__annotations__
        except NameError as error:
            return y, str(error)

    assert_same_as_eager(program, X, graphs=range(1, 4), calls=2)


@needs_3_14
def test_a_call_of_annotate_with_a_closure_is_left_to_python() -> None:
    """From traced code, too."""
    namespace: dict[str, Any] = {}
    run_source("def f(x, format):\n    y = x + 1\n    def g(a: format): ...\n    return y * 2, g.__annotate__(1)\n", namespace)
    assert_same_as_eager(namespace["f"], X, 5, graphs=range(1, 3), breaks=["DX202"])


def test_a_class_that_refuses_its_subscript_raises_in_the_program() -> None:
    """A forward reference that is no expression is a SyntaxError."""

    def program(x: Any) -> Any:
        try:
            return list["int"], typing.List["/T"], x  # type: ignore[misc]  # noqa: F722
        except SyntaxError as error:
            return x + 1, str(error)

    assert_same_as_eager(program, torch.ones(2), graphs=1)


STACKS: list[list[str]] = []
"""What the script below saw, each time that it ran."""


def send_to_itself(path: str) -> None:
    sys.remote_exec(os.getpid(), path)  # type: ignore[attr-defined, unused-ignore]


def is_sent_a_script(x: Any, path: str) -> Any:
    y = inlined(x) + 1
    send_to_itself(path)
    for step in range(3):
        y = y + step
    return inlined(y), len(STACKS)


@needs_3_14
@pytest.mark.skipif(not getattr(sys, "is_remote_debug_enabled", bool)(), reason="remote debugging is switched off here")
def test_a_script_of_remote_exec_runs_as_without_the_engine(tmp_path: Path) -> None:
    """DIFF46: at the same place of the program, with the same functions below it on the stack."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nframe, names = sys._getframe(1), []\n"
        "while frame and frame.f_code.co_name != 'run':\n    names.append(frame.f_code.co_name)\n    frame = frame.f_back\n"
        f"sys.modules[{__name__!r}].STACKS.append(names)\n"
    )
    seen = {"setup": STACKS.clear, "observe": lambda: [names[:2] for names in STACKS]}
    assert_same_as_eager(is_sent_a_script, X, str(script), calls=2, **seen)
