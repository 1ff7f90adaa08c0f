"""variables/scalars/constant.py: what is computed at once, and what passes through while it is."""

from __future__ import annotations

import itertools
import operator
import re
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from engine.variables.fake_context import FakeContext

import dynexplore
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.scalars.constant import computed, run_now
from engine_checks import CountingBackend, assert_same_as_eager


@pytest.mark.plain("asks the function itself: what no program here can reach today")
@pytest.mark.parametrize("run", [run_now, computed])
def test_a_break_in_what_a_c_function_calls_back_is_a_break(run: Any) -> None:
    """`sorted` calls a key that the engine does not trace: the graph breaks there, and the program raises nothing."""
    ctx: Any = FakeContext()
    with pytest.raises(GraphBreak, match="callee"):
        run(ctx, sorted, [2, 1], key=lambda _: ctx.break_graph("DX212", callee="callee"))


@pytest.mark.plain("asks the function itself: what no program here can reach today")
@pytest.mark.parametrize("run", [run_now, computed])
def test_what_the_program_raises_in_there_is_raised_once(run: Any) -> None:
    """The exception that unwinds is the one that was raised, not one made of it anew."""
    ctx: Any = FakeContext()
    raised: list[ObservedException] = []

    def key(_: int) -> Any:
        try:
            ctx.raise_exception(ValueError, "no key")
        except ObservedException as error:
            raised.append(error)
            raise

    with pytest.raises(ObservedException) as caught:
        run(ctx, sorted, [2, 1], key=key)
    assert raised == [caught.value]


def test_what_a_c_function_raises_the_program_raises() -> None:
    """Type and arguments are those of Python."""

    def fn(x: Any) -> Any:
        try:
            "one".index("two")
        except ValueError as error:
            return x + 1, str(error)

    assert_same_as_eager(fn, torch.ones(2), graphs=1, breaks=0)


def test_an_operator_that_python_warns_of_warns_in_each_call() -> None:
    """From Python 3.12 on `~True` is deprecated; here the warning is an error, which the program sees each time."""

    def fn(x: Any, flag: bool) -> Any:
        y = x + 1
        try:
            inverted: Any = ~flag
        except DeprecationWarning as warning:
            inverted = str(warning)
        return y, inverted

    assert_same_as_eager(fn, torch.ones(2), True, then=[(torch.ones(2), False)] * 2, graphs=None, breaks=None)


WARNS = {
    "decode": r'b"\\d".decode("unicode_escape")',
    "str": r'str(b"\\d", "unicode_escape")',
    "bytes.decode": r'bytes.decode(b"\\d", "unicode_escape")',
    "map": r'list(map(bytes.decode, [b"\\d"], ["unicode_escape"]))',
    "invert": "True.__invert__()",
    "bool.__invert__": "bool.__invert__(x.dim() == 1)",
    "operator.invert": "operator.invert(True)",
    "a method kept": "(lambda method: method())(True.__invert__)",
}


@pytest.mark.parametrize("expression", WARNS.values(), ids=WARNS)
def test_a_c_function_that_python_warns_of_warns_in_each_call(expression: str) -> None:
    """A warning is the program's, on its line: inverting a bool warns from Python 3.12 on, an invalid escape in all versions."""
    names: dict[str, Any] = {"operator": operator, "warnings": warnings}
    exec(
        f"def program(x):\n    y = x + 1\n    with warnings.catch_warnings(record=True) as shown:\n"
        f"        warnings.simplefilter('always')\n        r = {expression}\n"
        f"    return y * 2, r, [(str(one.message), one.filename, one.lineno) for one in shown]",
        names,
    )
    report = assert_same_as_eager(names["program"], torch.ones(2), calls=3, graphs=None)
    assert report.graphs


@pytest.mark.filterwarnings("ignore:co_lnotab is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", sorted(name for name in dir(types.CodeType) if name.startswith("co_")))
def test_an_attribute_of_a_code_object_warns_in_each_call_if_python_does(name):
    """From Python 3.12 on, `co_lnotab` is deprecated."""
    namespace: dict[str, Any] = {}
    exec(f"def program(x):\n    y = x + 1\n    r = (lambda: 0).__code__.{name}\n    return y * 2, r", namespace)
    compiled = dynexplore.optimize("eager")(namespace["program"])
    for _ in range(2):
        seen = []
        for function in (namespace["program"], compiled):
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                result = function(torch.ones(2))[1]
            shown = type(result) if callable(result) else result
            seen.append((shown if not hasattr(result, "__next__") else list(result), [str(w.message) for w in warned]))
        assert seen[0] == seen[1]
    assert dynexplore.counters["stats"]["graphs"]


# -- methods of constants with containers and iterators


class Named(NamedTuple):
    first: str
    second: str


class OwnTuple(tuple):  # type: ignore[type-arg]
    __slots__ = ()


CONTAINERS = [("ab", "c"), (b"ab",), ["ab", "c"], frozenset(("ab",)), {97: "z"}, (1, 2), Named("ab", "c"), OwnTuple(("ab", "c"))]
FORMS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda value: value,
    "iterator": iter,
    "map": lambda value: map(str, value),
    "new tuple": lambda value: tuple(value),
    "generator": lambda value: (item for item in value),
    "new list": lambda value: list(value),
    "keys": lambda value: dict.fromkeys(value).keys(),
    "enumerate": enumerate,
}
METHODS: list[tuple[Any, str]] = [
    *(("abcd", name) for name in ("startswith", "endswith", "join", "removeprefix", "split", "translate", "count", "__contains__")),
    *(("abcd", name) for name in ("__add__", "__eq__", "__mod__", "format", "center")),
    *((b"abcd", name) for name in ("startswith", "endswith", "join", "count", "__contains__")),
    *((frozenset(("ab", "c")), name) for name in ("union", "issubset", "__or__", "__contains__")),
    *((("ab", "c"), name) for name in ("count", "index", "__add__", "__contains__", "__eq__", "__lt__")),
    (5, "to_bytes"), (int, "from_bytes"), (str, "maketrans")]  # fmt: skip


def calls_a_method(x, constant, name, form, value):
    try:
        result = getattr(constant, name)(form(value))
    except (TypeError, ValueError) as error:
        return x + 1, type(error).__name__, str(error)
    return x * 2, result if type(result) is not frozenset else len(result), type(result).__name__


@pytest.mark.parametrize("form", FORMS)
def test_a_method_of_a_constant_takes_containers_and_iterators(form: str) -> None:
    """The method gets a tuple where the program has a tuple; its messages name the type that the program passes."""
    x = torch.ones(1)
    for (constant, name), value in itertools.product(METHODS, CONTAINERS):
        dynexplore.reset()
        backend = CountingBackend()
        compiled = dynexplore.optimize(backend)(calls_a_method)
        outcomes = [str(run(x, constant, name, FORMS[form], value)) for run in (calls_a_method, compiled, compiled)]
        plain, *others = (re.sub(" at 0x[0-9a-f]+", "", outcome) for outcome in outcomes)
        assert others == [plain, plain], (constant, name, value)
        assert backend.graphs


def asks_twice(x, names):
    iterator = iter(names)
    try:
        "abc".startswith(iterator)
    except TypeError:
        x = x + 1
    return x, list(iterator), ", ".join(iterator)


def test_a_method_that_takes_no_iterator_leaves_it_as_it_is() -> None:
    """Nothing is taken from it before the TypeError."""
    assert_same_as_eager(asks_twice, torch.ones(2), ["a", "b"], graphs=1, breaks=0)


def drops_a_prefix(x, names):
    return x + sum(name.startswith(PREFIXES) for name in names)


PREFIXES = ("a_", "b_")


def test_a_tuple_from_outside_the_frame_is_a_tuple_to_a_method() -> None:
    """The graph does not break: `startswith` gets its tuple."""
    assert_same_as_eager(drops_a_prefix, torch.ones(2), ["a_b", "b_c", "c"], graphs=1, breaks=0)
