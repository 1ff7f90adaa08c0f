"""Every builtin type, each method and operator that `dir` lists, on the type itself and on classes that extend it.

The idea: the cases are not drawn but enumerated: a type x a name x how its class was made (`KINDS`) x where the value comes from
(`PLACES`) x what is passed (`ARGUMENTS`). Each is a program of a few lines, `y = x + 1; r = OP; return y * 2, r`, which Python
runs twice and the engine runs twice. What a run shows is written down as text: the result, all the way down and with its class,
whether it is the value itself, the value afterwards, what overridden methods were asked, or the exception.

In:  nothing; a seed says which cases a slice takes.
Out: `Case`s, and for each the difference, if there is one.
"""

from __future__ import annotations

import collections
import linecache
import logging
import random
import re
import types
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import dynexplore

PRELUDE = """
import dynexplore
import collections, enum, functools, itertools, operator, re, types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque
Point = collections.namedtuple("Point", "a b")
LOG = []
"""

#: what makes a value of each type, as text; `T` is the type or a class that extends it
TYPES: dict[str, str] = {
    "int": "T(5)",
    "bool": "True",
    "float": "T(2.5)",
    "complex": "T(1, 2)",
    "str": "T('abca')",
    "bytes": "T(b'abca')",
    "bytearray": "T(b'abca')",
    "list": "T([3, 1, 2])",
    "tuple": "T((1, 2, 3))",
    "range": "range(1, 7, 2)",
    "slice": "slice(1, 5, 2)",
    "set": "T([1, 2, 3])",
    "frozenset": "T([1, 2, 3])",
    "dict": "T(a=1, b=2)",
    "OrderedDict": "T(a=1, b=2)",
    "defaultdict": "T(list, a=1, b=2)",
    "Counter": "T('abca')",
    "deque": "T([1, 2, 3])",
    "ChainMap": "T({'a': 1}, {'b': 2})",
    "UserDict": "T(a=1, b=2)",
    "UserList": "T([1, 2, 3])",
    "UserString": "T('abca')",
    "Point": "T(1, 2)",
    "functools.partial": "T(max, 3)",
    "types.SimpleNamespace": "T(a=1, b=2)",
    "property": "T(len)",
}
#: values of types of which the program makes no class
VALUES: dict[str, str] = {
    "None": "None",
    "Ellipsis": "...",
    "mappingproxy": "types.MappingProxyType({'a': 1, 'b': 2})",
    "keys": "{'a': 1, 'b': 2}.keys()",
    "values": "{'a': 1, 'b': 2}.values()",
    "items": "{'a': 1, 'b': 2}.items()",
    "list iterator": "iter([1, 2, 3])",
    "text iterator": "iter('abc')",
    "range iterator": "iter(range(3))",
    "dict iterator": "iter({'a': 1, 'b': 2})",
    "set iterator": "iter({1, 2, 3})",
    "enumerate": "enumerate([1, 2])",
    "zip": "zip([1, 2], 'ab')",
    "map": "map(abs, [-1, 2])",
    "filter": "filter(None, [0, 1])",
    "reversed": "reversed([1, 2])",
    "count": "itertools.count(2)",
    "cycle": "itertools.cycle([1, 2])",
    "repeat": "itertools.repeat(1, 3)",
    "chain": "itertools.chain([1], [2])",
    "islice": "itertools.islice([1, 2, 3], 1, 3)",
    "pattern": "re.compile('a|b')",
    "match": "re.search('(a)(b)', 'xabab')",
    "memoryview": "memoryview(b'abca')",
    "itemgetter": "operator.itemgetter(0)",
    "bound method": "[1, 2].append",
    "union": "int | str",
    "alias": "list[int]",
    "code": "(lambda: 0).__code__",
    "NotImplemented": "NotImplemented",
}
#: how the class of the value is made: the type itself, one that extends it, and three that override the method
KINDS = ("exact", "extends", "asks super", "returns NotImplemented", "raises")
PLACES = ("made", "argument", "global", "over a break")
#: what is passed; `S` is another value made like the first
ARGUMENTS = ("", "1", "'a'", "[1, 2]", "{'a': 9}", "S", "1, 2", "'a', 1", "None", "0, [7]")
_UNARY = {
    "__len__": "len(v)",
    "__iter__": "iter(v)",
    "__repr__": "repr(v)",
    "__str__": "str(v)",
    "__hash__": "hash(v)",
    "__bool__": "bool(v)",
    "__neg__": "-v",
    "__pos__": "+v",
    "__invert__": "~v",
    "__abs__": "abs(v)",
    "__int__": "int(v)",
    "__float__": "float(v)",
    "__index__": "[1, 2, 3, 4, 5, 6][v]",
    "__complex__": "complex(v)",
    "__reversed__": "reversed(v)",
    "__next__": "next(v)",
    "__round__": "round(v)",
    "__format__": "f'{v}'",
    "__dir__": "len(dir(v))",
    "__reduce_ex__": "copy.copy(v)",
    "__copy__": "copy.copy(v)",
    "__deepcopy__": "copy.deepcopy(v)",
    "__class__": "type(v), v.__class__",
    "__doc__": "v.__doc__",
    "__init__": "v.__init__()",
    "__call__": "v()",
}
_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "divmod": None,
    "pow": "**",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
    "matmul": "@",
}
_COMPARED = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
_OTHERS = ("1", "2.5", "'ab'", "[1, 2]", "(1, 2)", "{1, 2}", "{'a': 9}", "None", "S")
#: of these the answer belongs to the process, or a class that overrides them is no class
_LEFT_OUT = frozenset(
    {
        "__init_subclass__",
        "__subclasshook__",
        "__new__",
        "__sizeof__",
        "__getattribute__",
        "__setattr__",
        "__delattr__",
        "__class_getitem__",
        "__annotations__",
        "__weakref__",
        "__module__",
        "__dict__",
        "__slots__",
        "__del__",
        "co_linetable",
        "co_positions",
        "co_lines",
        "co_filename",
        "co_firstlineno",
        "co_code",
        "_co_code_adaptive",
        "co_exceptiontable",
    }
)


@dataclass(frozen=True)
class Case:
    """One program."""

    type: str
    name: str
    kind: str
    place: str
    operation: str

    def text(self) -> str:
        """The program."""
        make = TYPES.get(self.type) or VALUES[self.type]
        base = self.type if self.type in TYPES else "object"
        lines = ["import copy", _class(base, self.name, self.kind), f"def make(): return {make}"]
        in_frame = f"    v = {make}" if self.place == "made" else "    v = V" if self.place == "global" else "    pass"
        if self.place == "over a break":
            in_frame = f"    v = {make}\n    dynexplore.graph_break()"
        operation = re.sub(r"\bS\b", f"({make})", self.operation)
        if operation.startswith("v ") and operation.split()[1] in {f"{symbol}=" for symbol in _BINARY.values()}:
            body = ["    w = v", f"    {operation}", "    r = v", "    v = w"]
        else:
            body = [f"    r = {operation}"]
        parameters = "x, v" if self.place == "argument" else "x"
        lines += [f"def f({parameters}):", "    y = x + 1", in_frame, *body, "    return y * 2, r, r is v, v"]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return f"{self.type} {self.name} {self.kind!r} {self.place}: {self.operation}"


def _class(base: str, name: str, kind: str) -> str:
    if kind == "exact":
        return f"T = {base}"
    if kind == "extends":
        return f"class T({base}): pass"
    does = {
        "asks super": f"return super().{name}(*a, **k)",
        "returns NotImplemented": "return NotImplemented",
        "raises": "raise ZeroDivisionError('own')",
    }[kind]
    return f"class T({base}):\n    def {name}(self, *a, **k):\n        LOG.append('{name}')\n        {does}"


def _operations(name: str) -> Iterator[str]:
    if name in _UNARY:
        yield _UNARY[name]
    stem = name.strip("_")
    if name in _COMPARED:
        yield from (f"v {_COMPARED[name]} {other}" for other in _OTHERS)
        yield f"1 {_COMPARED[name]} v"
    elif _BINARY.get(stem):
        yield from (f"v {_BINARY[stem]} {other}" for other in _OTHERS)
    elif stem[:1] == "r" and _BINARY.get(stem[1:]):
        yield from (f"{other} {_BINARY[stem[1:]]} v" for other in _OTHERS)
    elif stem[:1] == "i" and _BINARY.get(stem[1:]):
        yield from (f"v {_BINARY[stem[1:]]}= {other}" for other in _OTHERS)
    elif name == "__getitem__":
        yield from ("v[0]", "v['a']", "v[1:]", "v[-1]", "v[[]]", "[*v]")
    elif name == "__contains__":
        yield from ("1 in v", "'a' in v", "None in v", "[] in v")
    elif name == "__missing__":
        yield from ("v['z']", "v.get('z')")
    yield f"v.{name}"
    yield from (f"v.{name}({arguments})" for arguments in ARGUMENTS)


def all_cases() -> list[Case]:
    """Each case, in a fixed order."""
    return list(_cases())


def _cases() -> Iterator[Case]:
    namespace = _namespace("")
    for name, make in {**TYPES, **VALUES}.items():
        namespace["T"] = eval(name, namespace) if name in TYPES else None
        value = eval(make, namespace)
        open_to_classes = name in TYPES and name not in ("bool", "range", "slice")
        for attribute in dir(value):
            if attribute in _LEFT_OUT:
                continue
            if attribute == "__hash__" and type(value).__hash__ is object.__hash__:
                continue
            method = callable(getattr(type(value), attribute, None)) and attribute not in ("__class__", "__hash__", "__doc__")
            for kind in KINDS if open_to_classes and method else KINDS[:2] if open_to_classes else KINDS[:1]:
                for place in PLACES:
                    for operation in _operations(attribute):
                        yield Case(name, attribute, kind, place, operation)


def _namespace(text: str) -> dict[str, Any]:
    name = f"<operation {abs(hash(text)):x}>"
    whole = PRELUDE + text
    linecache.cache[name] = (len(whole), None, whole.splitlines(True), name)
    module = types.ModuleType("operation_module")
    exec(compile(whole, name, "exec"), module.__dict__)
    return module.__dict__


def difference(case: Case) -> str | None:
    """What the engine does otherwise than Python in one of two calls."""
    text = case.text()
    try:
        _namespace(text)["make"]()
    except Exception:  # its `__init__` raises: there is no such value
        return None
    expected = _shown(_namespace(text), case, lambda f: f)
    before = len(dynexplore.counters["engine_error"])
    actual = _shown(_namespace(text), case, dynexplore.optimize("eager"))
    if len(dynexplore.counters["engine_error"]) > before:
        return f"an engine error: {list(dynexplore.counters['engine_error'])[-1]}"
    if actual == expected:
        return None
    return "\n".join(f"  {label} {call}" for label, calls in (("Python", expected), ("engine", actual)) for call in calls)


def _shown(namespace: dict[str, Any], case: Case, wrap: Any) -> list[str]:
    namespace["V"] = namespace["make"]() if case.place == "global" else None
    function = wrap(namespace["f"])
    return [_call(namespace, case, function) for _ in range(2)]


def _call(namespace: dict[str, Any], case: Case, function: Any) -> str:
    log: list[str] = namespace["LOG"]
    log.clear()
    more = (namespace["make"](),) if case.place == "argument" else ()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            y, result, same, value = function(torch.ones(2), *more)
        except Exception as error:
            shown = f"raises {type(error).__name__}: {error}"
        else:
            asked = list(log)
            shown = f"{y.tolist()} {same} {describe(result)}, value {describe(value)}, asked {asked}"
    kinds = sorted(w.category.__name__ for w in warned)
    # whose method it is called depends on how the instruction calls it
    shown = re.sub(r"\b[\w.]+\.(\w+\(\) (takes|missing|expected))", r"\1", f"{shown} {kinds or ''}")
    return re.sub(r"0x[0-9a-f]+", "0x", shown).replace("str_ascii_iterator", "str_iterator")


def describe(value: Any, depth: int = 4) -> str:
    """A value in full, with its class; an iterator by what is left of it."""
    kind = type(value).__name__
    if depth == 0:
        return kind
    try:
        if isinstance(value, (list, tuple, deque)):
            return f"{kind}[{', '.join(describe(item, depth - 1) for item in list.__iter__(list(_plain(value))))}]"
        if isinstance(value, dict):  # the order of an OrderedDict is kept beside that of the dict it is
            items = collections.OrderedDict.items if isinstance(value, collections.OrderedDict) else dict.items
            return f"{kind}{{{', '.join(f'{describe(k, 1)}: {describe(v, depth - 1)}' for k, v in items(value))}}}"
        if hasattr(type(value), "__next__"):
            items = []
            for _ in range(5):
                try:
                    items.append(describe(next(value), depth - 1))
                except StopIteration:
                    break
            return f"{kind} left {items}"
        return f"{kind} {_text(value)}"
    except Exception as error:
        return f"{kind}, which raises {type(error).__name__}: {error}"


def _plain(value: Any) -> Any:
    for kind in (list, tuple, deque):
        if isinstance(value, kind):
            return kind.__iter__(value)  # type: ignore[attr-defined]
    return value


def _text(value: Any) -> str:
    if isinstance(value, (set, frozenset)):  # the order of one that was changed is nobody's promise
        return str(sorted(map(repr, value)))
    for kind in (int, float, complex, str, bytes, bytearray):
        if isinstance(value, kind):
            return kind.__repr__(value)
    return repr(value)


def slice_of(seed: int, count: int) -> list[Case]:
    """So many cases, picked by a seed."""
    cases = all_cases()
    random.Random(seed).shuffle(cases)
    return cases[:count]


def quiet() -> None:
    """No line about breaks while thousands of them are made."""
    logging.getLogger("dynexplore").setLevel(logging.ERROR)
