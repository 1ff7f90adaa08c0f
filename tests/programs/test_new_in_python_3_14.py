"""Programs that use what is new in Python 3.14: the same values, prints and exceptions as without the engine, call after call.

Each is source text, as older Pythons cannot read some of it. That `sys.monitoring` hears of both ways of a branch, and what happens
in a `with`, stands in tests/engine/translate/test_python_3_14.py; more about template strings in
tests/engine/variables/containers/test_template.py.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import textwrap
import traceback
import warnings
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="new in Python 3.14")

X = torch.arange(3.0)

MONITORING = {
    "calls_of_a_tool_inside": """
        def f(x, n):
            y = x + 1
            heard = []
            monitoring = sys.monitoring
            monitoring.use_tool_id(4, "inside")
            monitoring.register_callback(4, monitoring.events.PY_START, lambda code, offset: heard.append(code.co_name))
            monitoring.set_events(4, monitoring.events.PY_START)
            try:
                textwrap.dedent("  a")
            finally:
                monitoring.set_events(4, 0)
                monitoring.free_tool_id(4)
            return y * 2, "dedent" in heard, monitoring.get_tool(4)
        """,
    "a_tool_that_is_taken": """
        def f(x, n):
            sys.monitoring.use_tool_id(4, "first")
            try:
                sys.monitoring.use_tool_id(4, "second")
            except ValueError as error:
                return x + 1, str(error), sys.monitoring.get_tool(4)
            finally:
                sys.monitoring.free_tool_id(4)
        """,
}

INTERPRETERS = {
    "code_runs_in_another": """
        def f(x, n):
            y = x + 1
            other = interpreters.create()
            try:
                other.prepare_main(n=n)
                other.exec("total = n * 2")
                got = other.call(pow, n, 2)
                return y * 2, got, other.is_running()
            finally:
                other.close()
        """,
    "its_exception_comes_back": """
        def f(x, n):
            y = x + 1
            other = interpreters.create()
            try:
                other.exec("1 / 0")
            except interpreters.ExecutionFailed as failed:
                return y * 2, failed.excinfo.type.__name__
            finally:
                other.close()
        """,
    "a_queue_between_them": """
        def f(x, n):
            queue = interpreters.create_queue()
            queue.put((n, "text"))
            y = x * queue.get()[0]
            try:
                queue.get_nowait()
            except interpreters.QueueEmpty:
                return y + 1, queue.empty(), interpreters.is_shareable(n), interpreters.is_shareable([])
        """,
    "which_one_runs": """
        def f(x, n):
            return x + 1, interpreters.get_current() == interpreters.get_main(), len(interpreters.list_all())
        """,
}

ANNOTATIONS = {
    "a_forward_reference_is_evaluated": """
        def f(x, n):
            def g(a: Later, b: list[Later]): ...
            early = annotationlib.get_annotations(g, format=annotationlib.Format.FORWARDREF)
            name = early["a"].__forward_arg__
            evaluated = early["a"].evaluate(globals={"Later": int})
            return x + 1, name, evaluated, annotationlib.get_annotations(g, format=annotationlib.Format.STRING)
        """,
    "those_of_a_class": """
        def f(x, n):
            y = x + 1
            class Point:
                a: int
                b: "str" = "b"
                if n > 1:
                    c: list[int]
            return y * 2, Point.__annotations__, annotationlib.get_annotations(Point, format=annotationlib.Format.STRING)
        """,
    "a_name_that_is_missing": """
        def f(x, n):
            def g(a: Missing): ...
            try:
                g.__annotations__
            except NameError as error:
                return x + 1, str(error), error.name
        """,
    "a_name_that_is_bound_later": """
        def f(x, n):
            def g(a: Later): ...
            y = x + 1
            Later = n
            first = g.__annotations__
            Later = n + 1
            return y * 2, first, g.__annotations__, g.__annotations__ is first
        """,
    "changed_and_deleted": """
        def f(x, n):
            def g(a: int): ...
            g.__annotations__ = {"a": str}
            before = g.__annotations__, g.__annotate__
            g.__annotate__ = lambda format: {"made": format}
            return x + 1, before, g.__annotations__
        """,
    "read_behind_a_change": """
        def f(x, n):
            def g(a: int): ...
            def h(a: int): ...
            def i(a: int): ...
            g.__annotations__ = {"a": str}
            h.__annotations__ = None
            i.__annotate__ = None
            print("between")
            return x + 1, [(one.__annotate__, one.__annotations__) for one in (g, h, i)]
        """,
    "values_that_are_refused": """
        def f(x, n):
            def g(a: int): ...
            texts = []
            for name in "__annotations__", "__annotate__":
                try:
                    setattr(g, name, 5)
                except TypeError as error:
                    texts.append(str(error))
            return x + 1, texts, g.__annotations__
        """,
    "as_text": """
        def f(x, n):
            values = {"a": int, "b": list[int], "c": None, "d": torch.Tensor}
            return x + 1, annotationlib.annotations_to_string(values), annotationlib.type_repr(int)
        """,
    "a_dataclass_of_annotations": """
        def f(x, n):
            @dataclasses.dataclass
            class Pair:
                first: Later
                second: int = 2
            return x + Pair(n).second, Pair(n).first, [field.name for field in dataclasses.fields(Pair)]
        """,
}

TEMPLATES = {
    "joined_and_walked": """
        def f(x, n):
            template = t"a{n}b" + t"{n + 1!s}"
            texts = [part if isinstance(part, str) else (part.value, part.conversion) for part in template]
            return x + template.values[1], texts, template.strings
        """,
    "nested": """
        def f(x, n):
            inner = t"<{n}>"
            outer = t"{inner} {[v for v in inner.values]}"
            return x * n, outer.values[0] is inner, outer.values[1]
        """,
    "a_value_that_raises": """
        def f(x, n):
            y = x + 1
            try:
                t"{print('first')}{1 // 0}{print('never')}"
            except ZeroDivisionError as error:
                return y, str(error)
        """,
    "joined_to_text": """
        def f(x, n):
            try:
                t"{n}" + "text"
            except TypeError as error:
                return x + 1, str(error)
        """,
    "across_a_break": """
        def f(x, n):
            template = t"{n:>{n}}"
            print("between", template.interpolations[0].format_spec)
            return x + 1, template.interpolations[0].expression
        """,
    "matched": """
        def f(x, n):
            match t"{n!r}".interpolations[0]:
                case Interpolation(value, expression, "r"):
                    return x + value, expression
            return x
        """,
}

FINALLY = {
    "return_drops_the_exception": """
        def f(x, n):
            try:
                raise ValueError(n)
            finally:
                return x + 1
        """,
    "return_replaces_a_return": """
        def f(x, n):
            try:
                return x + print("first")
            except TypeError:
                return x - 1
            finally:
                return x + n
        """,
    "break_drops_the_exception": """
        def f(x, n):
            for i in range(4):
                try:
                    x = x + i
                    if i == n:
                        raise ValueError(i)
                    print(i)
                finally:
                    if i == n:
                        break
            return x * 2, i
        """,
    "continue_drops_the_exception": """
        def f(x, n):
            seen = []
            for i in range(4):
                try:
                    x = x * 2
                    1 // (i - n)
                    seen.append(i)
                finally:
                    continue
            return x, seen
        """,
    "behind_a_break_of_the_graph": """
        def f(x, n):
            while True:
                try:
                    print("inside")
                    raise KeyError(n)
                finally:
                    x = x + 1
                    break
            return x * 2
        """,
    "in_a_generator": """
        def f(x, n):
            def items():
                for i in range(3):
                    try:
                        yield x + i
                        raise ValueError
                    finally:
                        continue
            return [item * 2 for item in items()]
        """,
}

WITHOUT_PARENTHESES = {
    "one_of_two": """
        def f(x, n):
            try:
                {}[n]
            except ValueError, KeyError:
                return x + 1
        """,
    "a_group": """
        def f(x, n):
            try:
                raise ExceptionGroup("group", [ValueError(n), KeyError(n), OSError(n)])
            except* ValueError, KeyError:
                x = x + 1
            except* OSError:
                x = x * 2
            return x
        """,
    "none_of_them": """
        def f(x, n):
            y = x + 1
            try:
                try:
                    raise OSError(n)
                except ValueError, KeyError:
                    return y
            except OSError as error:
                return y * 2, str(error)
        """,
}

PROGRAMS = {**MONITORING, **ANNOTATIONS, **TEMPLATES, **FINALLY, **WITHOUT_PARENTHESES}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_python_3_14(name: str) -> None:
    """Two calls, then one with another number: as plain Python, with at least one graph."""
    assert_is_as_in_plain_python(name, PROGRAMS[name])


@pytest.mark.parametrize("name", INTERPRETERS)
def test_programs_with_several_interpreters(name: str) -> None:
    """As above, in a child: a process that ever had a second interpreter fails torch's check that backward() released the GIL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads of pytest stay behind
        child = os.fork()
    if not child:
        try:
            assert_is_as_in_plain_python(name, INTERPRETERS[name])
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def assert_is_as_in_plain_python(name: str, program: str) -> None:
    """Each of its calls is what it is without the engine."""
    from concurrent import interpreters  # type: ignore[attr-defined, unused-ignore]
    from string.templatelib import Interpolation  # type: ignore[import-not-found, unused-ignore]

    import annotationlib  # type: ignore[import-not-found, unused-ignore]

    names = (sys, textwrap, torch, interpreters, Interpolation, annotationlib, dataclasses)
    namespace: dict[str, Any] = {"__name__": __name__, **{one.__name__.rsplit(".")[-1]: one for one in names}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # `return` in `finally`
        exec(compile(textwrap.dedent(program), f"<{name}>", "exec", dont_inherit=True), namespace)
    assert_same_as_eager(namespace["f"], X, 2, calls=2, then=[(X, 3)])
