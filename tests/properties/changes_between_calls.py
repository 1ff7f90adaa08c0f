"""Programs that look at something, and what is looked at changes between calls: all combinations of four tables.

Which idea lives here: a compiled function is right as long as it notices what changed. What can change is a *host* (an instance, a
class, a module, a function ...), how a program depends on it is a way of *looking* (an attribute, `hasattr`, an operator, a call),
and the host hangs in some *place* (an argument, a closure, a list ...). No table knows of the others: every change is tried on
every host under every look, and eager decides which of these programs say anything: those whose answer the change changes.

In: the four tables below, each row a few lines of Python. Out: `Case`s; `run` calls one as plain Python and under the engine
(twice, then changed twice, then changed back twice), and the outcome says whether they differ.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import linecache
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import dynexplore

# What every program may use. `put` and `drop` change something and remember how it was.
PRELUDE = """
import abc, builtins, collections, dataclasses, enum, functools, math, operator, types, typing
import torch

_before = []

def _own(owner, name):
    return owner[name] if isinstance(owner, dict) else _raw(owner, name)

def _raw(owner, name):
    for place in (type.__dict__["__dict__"].__get__(owner) if isinstance(owner, type) else getattr(owner, "__dict__", {}),):
        if name in place:
            return place[name]
    if name in ("__name__", "__bases__", "__class__") or (not isinstance(owner, type) and hasattr(type(owner), name)):
        return getattr(owner, name)
    raise KeyError(name)

def put(owner, name, value):
    if owner is enum.EnumType:  # every enumeration of the process, torch's own too: torch itself no longer runs
        raise TypeError
    try:
        _before.append((owner, name, True, _own(owner, name)))
    except KeyError:
        _before.append((owner, name, False, None))
    try:
        if isinstance(owner, dict):
            owner[name] = value
        else:
            setattr(owner, name, value)
    except BaseException:
        _before.pop()
        raise

def drop(owner, name):
    _before.append((owner, name, True, _own(owner, name)))
    try:
        if isinstance(owner, dict):
            del owner[name]
        else:
            delattr(owner, name)
    except BaseException:
        _before.pop()
        raise

def change_back():
    while _before:
        owner, name, there, value = _before.pop()
        if isinstance(owner, dict):
            if there:
                owner[name] = value
            else:
                owner.pop(name, None)
        elif there:
            setattr(owner, name, value)
        else:
            delattr(owner, name)

class Shape(abc.ABC):
    pass

@typing.runtime_checkable
class HasExtra(typing.Protocol):
    extra: int

@typing.runtime_checkable
class CanArea(typing.Protocol):
    def area(self): ...
"""

# Each defines `host`. Names that many of them have: `v` (2), `w`, `area()`; none has `extra`.
HOSTS: dict[str, str] = {
    "instance": """
class K:
    w = 3
    def __init__(self): self.v = 2
    def area(self, k=2, *, j=1): return self.v + k + j
host = K()
""",
    "instance of a subclass": """
class B:
    w = 3
    def area(self, k=2, *, j=1): return 4 + k + j
class K(B):
    def __init__(self): self.v = 2
host = K()
""",
    "instance with slots": """
class K:
    __slots__ = ("v",)
    w = 3
    def __init__(self): self.v = 2
    def area(self, k=2, *, j=1): return self.v + k + j
host = K()
""",
    "instance with every method": """
class K:
    w = 3
    def __init__(self): self.v = 2
    @property
    def p(self): return 6
    @staticmethod
    def s(): return 2
    @classmethod
    def c(cls): return cls.w
    def area(self, k=2, *, j=1): return self.v + k + j
    def __getattr__(self, name):
        if name == "lazy": return 8
        raise AttributeError(name)
    def __add__(self, other): return 7
    def __bool__(self): return True
    def __len__(self): return 4
    def __call__(self, k=2): return k + 1
    def __eq__(self, other): return True
    def __hash__(self): return 5
    def __lt__(self, other): return True
    def __iter__(self): return iter([1, 2])
    def __getitem__(self, key): return 3 if key != 3 else ()[3]
    def __contains__(self, item): return True
    def __enter__(self): return 5
    def __exit__(self, *error): return None
    def __float__(self): return 2.0
    def __index__(self): return 2
    def __neg__(self): return 3
host = K()
""",
    "class": """
class K:
    v, w = 2, 3
    @classmethod
    def area(cls, k=2, *, j=1): return cls.v + k + j
host = K
""",
    "class with a metaclass": """
class M(type):
    w = 3
    def area(cls, k=2, *, j=1): return cls.v + k + j
class K(metaclass=M):
    v = 2
host = K
""",
    "class with a base": """
class B:
    v, w = 2, 3
    @staticmethod
    def area(k=2, *, j=1): return 2 + k + j
class K(B): pass
host = K
""",
    "dataclass": """
@dataclasses.dataclass
class K:
    v: int = 2
    w: int = 3
    def area(self, k=2, *, j=1): return self.v + k + j
host = K()
""",
    "frozen dataclass": """
@dataclasses.dataclass(frozen=True)
class K:
    v: int = 2
    w: int = 3
    def area(self, k=2, *, j=1): return self.v + k + j
host = K()
""",
    "enum member": """
class K(enum.Enum):
    A = 2
    B = 3
    @property
    def v(self): return self.value
    def area(self, k=2, *, j=1): return self.value + k + j
host = K.A
""",
    "int enum member": """
class K(enum.IntEnum):
    A = 2
    B = 3
    def area(self, k=2, *, j=1): return 2 + k + j
host = K.A
""",
    "enum class": """
class K(enum.Enum):
    A = 2
    v = 2
    @classmethod
    def area(cls, k=2, *, j=1): return 2 + k + j
host = K
""",
    "named tuple": """
class K(typing.NamedTuple):
    v: int = 2
    w: int = 3
    def area(self, k=2, *, j=1): return self.v + k + j
host = K()
""",
    "module": """
class K(torch.nn.Module):
    w = 3
    def __init__(self):
        super().__init__()
        self.v = 2
        self.sub = torch.nn.ReLU()
    def area(self, k=2, *, j=1): return self.v + k + j
    def forward(self, x=None): return 3
host = K()
""",
    "torch module": """
host = torch.nn.ReLU()
host.v = 2
""",
    "linear": """
host = torch.nn.Linear(3, 3)
host.weight.data.fill_(0.5)
host.bias.data.fill_(0.25)
""",
    "module list": """
host = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU()])
host.v = 2
""",
    "tensor": "host = torch.full((3,), 2.0)\n",
    "tensor with an attribute": "host = torch.full((3,), 2.0)\nhost.v = 2\n",
    "parameter": "host = torch.nn.Parameter(torch.full((3,), 2.0))\nhost.v = 2\n",
    "tensor subclass": """
class K(torch.Tensor):
    w = 3
    def area(self, k=2, *, j=1): return 1 + k + j
host = torch.full((3,), 2.0).as_subclass(K)
""",
    "function": """
def host(k=2, *, j=1): return k + j + 1
host.v = 2
""",
    "function made by another": """
def make(n):
    def inner(k=2, *, j=1): return k + j + n
    return inner
host = make(4)
host.v = 2
""",
    "lambda": "host = lambda k=2: k + 1\n",
    "method": """
class K:
    def __init__(self): self.v = 2
    def area(self, k=2, *, j=1): return self.v + k + j
host = K().area
""",
    "partial": """
def base(k=2, *, j=1): return k + j + 1
host = functools.partial(base, 3)
host.v = 2
""",
    "cached function": """
@functools.lru_cache
def host(k=2, *, j=1): return k + j + 1
host.v = 2
""",
    "wrapped function": """
def base(k=2, *, j=1): return k + j + 1
@functools.wraps(base)
def host(*args, **kwargs): return base(*args, **kwargs) + 1
host.v = 2
""",
    "python module": """
host = types.ModuleType("hosted")
host.v, host.w = 2, 3
exec("def area(k=2, *, j=1): return v + k + j", host.__dict__)
""",
    "namespace": "host = types.SimpleNamespace(v=2, w=3)\n",
    "dict": 'host = {"v": 2}\n',
    "dict subclass": """
class K(dict):
    w = 3
    def area(self, k=2, *, j=1): return 2 + k + j
host = K(v=2)
""",
    "dict with a default": """
class K(dict):
    def __missing__(self, key): return 9
host = K(v=2)
""",
    "default dict": 'host = collections.defaultdict(lambda: 9, v=2)\n',
    "list subclass": """
class K(list):
    w = 3
    def area(self, k=2, *, j=1): return 2 + k + j
host = K([1, 2, 3])
""",
    "int subclass": """
class K(int):
    w = 3
    def area(self, k=2, *, j=1): return 2 + k + j
host = K(4)
""",
    "autograd function": """
class K(torch.autograd.Function):
    v = 2
    @staticmethod
    def area(k=2, *, j=1): return 2 + k + j
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
host = K
""",
    "module class": """
class K(torch.nn.Module):
    v = 2
    @classmethod
    def area(cls, k=2, *, j=1): return 2 + k + j
    def forward(self, x=None): return 3
host = K
""",
    "exception": """
class K(ValueError):
    w = 3
    def area(self, k=2, *, j=1): return 2 + k + j
host = K("one")
host.v = 2
""",
    "descriptor": """
class D:
    def __get__(self, instance, owner): return 2
class K:
    v = D()
    def __init__(self): self.w = 3
host = K()
""",
    "property over a function": """
def read(self, k=4): return k
class K:
    v = property(read)
host = K()
""",
}

# Each is an expression of `h`, or statements that set `n`; an exception that a program would expect is an answer, too.
LOOKS: dict[str, str] = {
    "hasattr": 'n = 3 if hasattr(h, "extra") else 5',
    "hasattr of what is there": 'n = 3 if hasattr(h, "v") else 5',
    "getattr with a default": 'n = getattr(h, "extra", 5)',
    "getattr of what is there": 'n = getattr(h, "v", 5)',
    "missing attribute": "n = h.extra",
    "attribute": "n = h.v",
    "class attribute": "n = h.w",
    "lazy attribute": "n = h.lazy",
    "property": "n = h.p",
    "static method": "n = h.s() + h.c()",
    "attribute of the type": "n = type(h).w",
    "missing in the type": 'n = getattr(type(h), "extra", 5)',
    "method": "n = h.area()",
    "method with arguments": "n = h.area(3, j=2)",
    "unbound method": "n = type(h).area(h)",
    "method as a value": "m = h.area; n = m(4)",
    "call": "n = h()",
    "call with an argument": "n = h(2)",
    "callable": "n = 3 if callable(h) else 5",
    "truth": "n = 3 if h else 5",
    "len": "n = len(h)",
    "add": "n = h + 1",
    "radd": "n = 1 + h",
    "neg": "n = -h",
    "equal": "n = 3 if h == 9 else 5",
    "less": "n = 3 if h < 1 else 5",
    "iteration": "n = sum(h)",
    "subscript": 'n = h["extra"]',
    "subscript of what is there": 'n = h["v"]',
    "subscript by number": "n = h[1]",
    "contains": 'n = 3 if "extra" in h else 5',
    "get": 'n = h.get("extra", 5)',
    "with": "with h as n: pass",
    "hash": "n = 3 if len({h: 1}) else 5",
    "float": "n = float(h)",
    "isinstance": "n = 3 if isinstance(h, Shape) else 5",
    "isinstance of a protocol": "n = 3 if isinstance(h, CanArea) else 5",
    "isinstance of a data protocol": "n = 3 if isinstance(h, HasExtra) else 5",
    "isinstance of a standard ABC": "n = 3 if isinstance(h, collections.abc.Sized) else 5",
    "isinstance of a union": "n = 3 if isinstance(h, (Shape, str)) else 5",
    "issubclass": "n = 3 if issubclass(h, Shape) else 5",
    "class": 'n = 3 if type(h).__name__ == "K" else 5',
    "__class__": "n = 3 if h.__class__ is type(h) else 5",
    "__class__.w": "n = h.__class__.w",
    "__dict__": 'n = 3 if "extra" in h.__dict__ else 5',
    "vars": "n = len(vars(h))",
    "name": "n = len(h.__name__)",
    "doc": "n = 5 if h.__doc__ is None else 3",
    "value": "n = h.value",
    "make one": "n = 3 if h() is not None else 5",
    "attribute of a new one": "n = h().v",
    "members": "n = len(list(h))",
    "mro": "n = len(h.__mro__)",
    "bases": "n = len(type(h).__mro__)",
    "apply": "n = h.apply(x)",
    "run": "n = h(x)",
    "tensor method": "n = h.sum()",
    "submodule": "n = h.sub(x)",
    "defaults": "n = len(h.__defaults__ or ())",
    "match": """match h:
    case Shape(): n = 3
    case _: n = 5""",
    "format": 'n = len(f"{h}")',
    "setattr": "h.scratch = 1; n = h.scratch",
    "new attribute under a hook": 'h.v = 2; n = h.v',
    "dict of the type": 'n = 3 if "extra" in type(h).__dict__ else 5',
}

# What a program may find without any host: names, and functions of modules.
NAMES: dict[str, str] = {
    "missing name": "n = extra",
    "name over a builtin": "n = len((1, 2))",
    "builtin": "n = abs(-2)",
    "global": "n = number",
    "global function": "n = helper()",
    "function of C": "n = math.sqrt(4.0)",
    "missing in math": 'n = 3 if hasattr(math, "extra") else 5',
    "constant of math": "n = math.pi",
    "operator": "n = operator.add(1, 2)",
    "torch function": "n = torch.relu(x)",
    "functional": "n = torch.nn.functional.relu(x)",
    "inside torch": "n = torch.nn.functional.softsign(x)",
    "python function of the standard library": "n = functools.reduce(lambda a, b: a + b, [1, 2])",
    "missing in torch": 'n = getattr(torch, "extra", 5)',
    "abs of a tensor": "n = abs(x)",
    "missing builtin": 'n = 3 if hasattr(builtins, "extra") else 5',
}

CHANGES: dict[str, str] = {
    "attribute added": 'put(host, "extra", 7)',
    "attribute changed": 'put(host, "v", 9)',
    "attribute dropped": 'drop(host, "v")',
    "attribute over a class's": 'put(host, "w", 9)',
    "method over a class's": 'put(host, "area", lambda *a, **k: 9)',
    "key added": 'put(host, "extra", 7) if isinstance(host, dict) else 1/0',
    "key dropped": 'drop(host, "v") if isinstance(host, dict) else 1/0',
    "item appended": "host.append(5)",
    "class attribute added": 'put(type(host), "extra", 7)',
    "class attribute changed": 'put(type(host), "w", 9)',
    "class attribute dropped": 'drop(type(host), "w")',
    "attribute of a base added": 'put(type(host).__mro__[-2], "extra", 7)',
    "attribute of a base changed": 'put(type(host).__mro__[-2], "w", 9)',
    "attribute of a base class added": 'put(host.__mro__[-2], "extra", 7)',
    "attribute of a base class changed": 'put(host.__mro__[-2], "v", 9)',
    "property added": 'put(type(host), "extra", property(lambda self: 7))',
    "property over an attribute": 'put(type(host), "v", property(lambda self: 9, lambda self, value: None))',
    "descriptor over an attribute": """
class Descriptor:
    def __get__(self, instance, owner): return 9
    def __set__(self, instance, value): pass
put(type(host), "v", Descriptor())""",
    "property changed": 'put(type(host), "p", property(lambda self: 9))',
    "metaclass property": 'put(type(type(host)), "extra", property(lambda self: 7))',
    "method replaced": 'put(type(host), "area", lambda self, *a, **k: 9)',
    "static method replaced": 'put(type(host), "s", staticmethod(lambda: 9))',
    "method of a class replaced": 'put(host, "area", classmethod(lambda cls, *a, **k: 9))',
    "__getattr__": 'put(type(host), "__getattr__", lambda self, name: 7)',
    "__getattribute__": 'put(type(host), "__getattribute__", lambda self, name: 7)',
    "__getattr__ of a module": 'put(host, "__getattr__", lambda name: 7)',
    "__setattr__": 'put(type(host), "__setattr__", lambda self, name, value: object.__setattr__(self, name, 8))',
    "__add__": 'put(type(host), "__add__", lambda self, other: 9)',
    "__radd__": 'put(type(host), "__radd__", lambda self, other: 9)',
    "__neg__": 'put(type(host), "__neg__", lambda self: 9)',
    "__bool__": 'put(type(host), "__bool__", lambda self: False)',
    "__len__": 'put(type(host), "__len__", lambda self: 0)',
    "__call__": 'put(type(host), "__call__", lambda self, *a: 9)',
    "__eq__": 'put(type(host), "__eq__", lambda self, other: other == 9)',
    "__lt__": 'put(type(host), "__lt__", lambda self, other: True)',
    "__iter__": 'put(type(host), "__iter__", lambda self: iter([4, 5]))',
    "__getitem__": 'put(type(host), "__getitem__", lambda self, key: 9 if key != 3 else ()[3])',
    "__missing__": 'put(type(host), "__missing__", lambda self, key: 7)',
    "__contains__": 'put(type(host), "__contains__", lambda self, item: True)',
    "__enter__": 'put(type(host), "__enter__", lambda self: 9); put(type(host), "__exit__", lambda self, *e: None)',
    "__hash__": 'put(type(host), "__hash__", None)',
    "__float__": 'put(type(host), "__float__", lambda self: 9.0)',
    "__str__": 'put(type(host), "__str__", lambda self: "a text of its own")',
    "__format__": 'put(type(host), "__format__", lambda self, how: "a")',
    "__init__": 'put(host, "__init__", lambda self: setattr(self, "v", 9))',
    "__new__": 'put(host, "__new__", staticmethod(lambda cls, *a: None))',
    "metaclass __call__": 'put(type(host), "__call__", lambda cls, *a: None)',
    "metaclass __instancecheck__": 'put(type(host), "__instancecheck__", lambda cls, one: True)',
    "__class__": """
class Other(type(host)):
    extra = 7
    w = 9
    def area(self, *a, **k): return 9
    def __len__(self): return 9
    def __call__(self, *a): return 9
put(host, "__class__", Other)""",
    "__bases__": """
class Other:
    extra = 7
    w = 9
    def area(self, *a, **k): return 9
    def __len__(self): return 9
for one in (host if isinstance(host, type) else type(host),):
    put(one, "__bases__", (Other, *[base for base in one.__bases__ if base is not object]))""",
    "ABC.register": "Shape.register(host if isinstance(host, type) else type(host))",
    "ABC.register of a standard one": "collections.abc.Sized.register(host if isinstance(host, type) else type(host))",
    "__subclasshook__": 'put(Shape, "__subclasshook__", classmethod(lambda cls, one: True))',
    "value of an enum": 'put(host, "_value_", 9)',
    "__name__ of the class": 'put(type(host), "__name__", "another")',
    "__name__": 'put(host, "__name__", "another")',
    "__doc__": 'put(host, "__doc__", "text")',
    "code": 'put(host, "__code__", (lambda k=2, *, j=1: 9).__code__)',
    "code of a method": 'put(type(host).area, "__code__", (lambda self, k=2, *, j=1: 9).__code__)',
    "code of a class method": 'put(host.area.__func__, "__code__", (lambda cls, k=2, *, j=1: 9).__code__)',
    "code of a static method": 'put(host.area, "__code__", (lambda k=2, *, j=1: 9).__code__)',
    "code of a forward": 'put(type(host).forward, "__code__", (lambda self, x=None: 9).__code__)',
    "code of a special method": 'put(type(host).__call__, "__code__", (lambda self, k=2: 9).__code__)',
    "code of a property": 'put(type(host).p.fget, "__code__", (lambda self: 9).__code__)',
    "code of what is wrapped": 'put(host.__wrapped__, "__code__", (lambda k=2, *, j=1: 9).__code__)',
    "code of base": 'put(base, "__code__", (lambda k=2, *, j=1: 9).__code__)',
    "defaults": 'put(host, "__defaults__", (8,))',
    "defaults dropped": 'put(host, "__defaults__", None)',
    "keyword defaults": 'put(host, "__kwdefaults__", {"j": 8})',
    "keyword default in place": 'host.__kwdefaults__["j"] = 8',
    "defaults of a method": 'put(type(host).area, "__defaults__", (8,))',
    "keyword defaults of a method": 'put(type(host).area, "__kwdefaults__", {"j": 8})',
    "keyword default of a method in place": 'type(host).area.__kwdefaults__["j"] = 8',
    "defaults of base": 'put(base, "__defaults__", (8,))',
    "defaults of a reader": 'put(read, "__defaults__", (8,))',
    "closure": "host.__closure__[0].cell_contents = 8",
    "partial's arguments": "host.__setstate__((host.func, (8,), {}, {}))",
    "forward of the class": 'put(type(host), "forward", lambda self, *a: 9)',
    "forward of the object": 'put(host, "forward", lambda *a: 9)',
    "static forward": 'put(host, "forward", staticmethod(lambda ctx, x: x * 9))',
    "forward of a submodule's class": 'put(torch.nn.ReLU, "forward", lambda self, x: x * 9)',
    "forward of a submodule": 'put(host.sub, "forward", lambda x: x * 9)',
    "submodule": 'put(host, "sub", torch.nn.Sigmoid())',
    "submodule dropped": "del host.sub",
    "__call__ of every module": 'put(torch.nn.Module, "__call__", lambda self, *a: 9)',
    "method of every tensor": 'put(torch.Tensor, "sum", lambda self: 9)',
    "attribute of every tensor": 'put(torch.Tensor, "extra", 7)',
    "attribute of every module": 'put(torch.nn.Module, "extra", 7)',
    "member of an enum": 'put(host, "extra", 7)',
    "global namespace of the function": 'put(host.__globals__, "len", lambda *a: 9)',
    "attribute in its namespace": 'put(host.__dict__, "v", 9)',
    "new attribute in its namespace": 'put(host.__dict__, "extra", 7)',
    "data": "host.fill_(5.0)",
    "data replaced": "host.data = torch.full((3,), 7.0)",
    "requires_grad": 'put(host, "requires_grad", not host.requires_grad)',
    "training": "host.eval()",
}
NAME_CHANGES: dict[str, str] = {
    "global added": 'put(space, "extra", 7)',
    "builtin added": 'put(builtins, "extra", 7)',
    "builtin shadowed": 'put(space, "len", lambda *a: 9)',
    "builtin replaced": 'put(builtins, "abs", lambda a: 9)',
    "global changed": 'put(space, "number", 9)',
    "global dropped": 'drop(space, "number")',
    "global function replaced": 'put(space, "helper", lambda: 9)',
    "code of a global function": 'put(space["helper"], "__code__", (lambda: 9).__code__)',
    "defaults of a global function": 'put(space["helper"], "__defaults__", (9,))',
    "function of C replaced": 'put(math, "sqrt", lambda a: 9.0)',
    "name added to math": 'put(math, "extra", 7)',
    "constant of math changed": 'put(math, "pi", 9.0)',
    "operator replaced": 'put(operator, "add", lambda a, b: 9)',
    "torch function replaced": 'put(torch, "relu", lambda a: a * 9)',
    "functional replaced": 'put(torch.nn.functional, "relu", lambda a: a * 9)',
    "function inside torch replaced": 'put(torch.nn.functional, "softsign", lambda a: a * 9)',
    "what a function inside torch calls": 'put(torch.Tensor, "abs", lambda a: a * 9)',
    "reduce replaced": 'put(functools, "reduce", lambda *a: 9)',
    "name added to torch": 'put(torch, "extra", 7)',
    "abs of a tensor": 'put(torch.Tensor, "__abs__", lambda a: a * 9)',
}

# How `look(x, h)` comes by its host. `{look}` is the indented body; each defines `call(x)` and, for names, `space`.
PLACES: dict[str, str] = {
    "argument": """
def program(x, h):
{look}
    return x * n
def call(x): return program(x, host)
""",
    "closure": """
def outer(h):
    def program(x):
{look4}
        return x * n
    return program
program = outer(host)
def call(x): return program(x)
""",
    "global": """
h = host
def program(x):
{look}
    return x * n
def call(x): return program(x)
""",
    "attribute": """
class Box: pass
box = Box()
box.h = host
def program(x, box):
    h = box.h
{look}
    return x * n
def call(x): return program(x, box)
""",
    "attribute of a global": """
class Box: pass
box = Box()
box.h = host
def program(x):
    h = box.h
{look}
    return x * n
def call(x): return program(x)
""",
    "list": """
def program(x, items):
    h = items[0]
{look}
    return x * n
items = [host]
def call(x): return program(x, items)
""",
    "global dict": """
table = dict(h=host)
def program(x):
    h = table["h"]
{look}
    return x * n
def call(x): return program(x)
""",
    "class": """
class Holder:
    h = host
def program(x):
    h = Holder.__dict__["h"] if isinstance(host, types.FunctionType) else Holder.h
{look}
    return x * n
def call(x): return program(x)
""",
    "python module": """
holder = types.ModuleType("holder")
holder.h = host
def program(x):
    h = holder.h
{look}
    return x * n
def call(x): return program(x)
""",
    "nn.Module": """
class Net(torch.nn.Module):
    def forward(self, x):
        h = self.h
{look4}
        return x * n
program = Net()
object.__setattr__(program, "h", host)
def call(x): return program(x)
""",
    "default": """
def program(x, h=host):
{look}
    return x * n
def call(x): return program(x)
""",
    "callee": """
def look(x, h):
{look}
    return n
def program(x, h): return x * look(x, h)
def call(x): return program(x, host)
""",
    "callee of another module": """
other = types.ModuleType("other")
other.__dict__.update({{k: v for k, v in globals().items() if not k.startswith("__")}})
exec({look_text!r}, other.__dict__)
look = other.look
space = other.__dict__
def program(x, h): return x * look(x, h)
def call(x): return program(x, host)
""",
    "method": """
class Box:
    def program(self, x):
        h = self.h
{look4}
        return x * n
box = Box()
box.h = host
program = box.program
def call(x): return program(x)
""",
}
_NAMES_AT = ("argument", "closure", "nn.Module", "callee", "callee of another module")
EXPECTED = "(AttributeError, TypeError, KeyError, NameError, ValueError, IndexError, NotImplementedError)"


@dataclass(frozen=True)
class Case:
    """One program: what is changed, how it is looked at, what is changed, where it hangs."""

    host: str
    look: str
    change: str
    place: str

    def pieces(self) -> tuple[str, str, str]:
        """The program, as Python: what makes the host, what looks at it, what changes it."""
        names = self.host == "nothing"
        look = "try:\n" + _indented((NAMES if names else LOOKS)[self.look], 4) + f"\nexcept {EXPECTED}:\n    n = 11"
        look += "\nif not isinstance(n, (int, float, torch.Tensor)): n = 13"
        body = PLACES[self.place].format(
            look=_indented(look, 4), look4=_indented(look, 8),
            look_text=f"def look(x, h):\n{_indented(look, 4)}\n    return n",
        )
        host = "host = None\nnumber = 2\ndef helper(k=2): return k\n" if names else HOSTS[self.host]
        change = _indented((NAME_CHANGES if names else CHANGES)[self.change].strip(), 4)
        return host, body, f"def change():\n{change}\n"

    def text(self) -> str:
        """The whole program, for people."""
        return "\n".join((PRELUDE, "space = globals()", *self.pieces()))

    def __str__(self) -> str:
        return f"{self.change} | {self.look} | {self.host} | {self.place}"


def _indented(text: str, depth: int) -> str:
    return "\n".join(" " * depth + line for line in text.splitlines())


def all_cases(places: tuple[str, ...] = tuple(PLACES)) -> Iterator[Case]:
    """The whole product of the tables."""
    for change, look, host in itertools.product(CHANGES, LOOKS, HOSTS):
        for place in places:
            yield Case(host, look, change, place)
    for change, look in itertools.product(NAME_CHANGES, NAMES):
        for place in places:
            if place in _NAMES_AT:
                yield Case("nothing", look, change, place)


def telling_cases() -> list[Case]:
    """The cases in which eager's answer changes: asked of each where the host is an argument, or the name stands in a function."""
    possible = {(host, change) for host, change in itertools.product(HOSTS, CHANGES) if can_be_changed(host, change)}
    telling = (case for case in all_cases(("argument",))
               if (case.host == "nothing" or (case.host, case.change) in possible) and changes_the_answer(case))
    return [Case(case.host, case.look, case.change, place) for case in telling
            for place in (_NAMES_AT if case.host == "nothing" else PLACES)]


@functools.cache
def code_of(text: str) -> types.CodeType:
    """A piece of a program, compiled as if it stood in a file."""
    name = f"<piece {len(linecache.cache)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    return compile(text, name, "exec")


def world(case: Case) -> dict[str, Any]:
    """The namespace of a program of its own."""
    module = types.ModuleType("program_of_changes")
    space = module.__dict__
    space.update(_module=module, space=space)  # the module lives as long as its dictionary is used
    sys.modules[module.__name__] = module
    for piece in (PRELUDE, *case.pieces()):
        exec(code_of(piece), space)
    return space


def can_be_changed(host: str, change: str) -> bool:
    """Whether the change is one that this host takes."""
    space = world(Case(host, "attribute", change, "argument"))
    try:
        space["change"]()
    except Exception:
        return False
    finally:
        space["change_back"]()
    return True


def answers(space: dict[str, Any], calls: int = 2) -> list[Any]:
    """What two calls give, two after the change, and two after it was taken back where it can be."""
    found = []
    try:
        found += [answer(space["call"]) for _ in range(calls)]
        try:
            space["change"]()
        except Exception as error:
            found.append(f"no change: {type(error).__name__}")
            return found
        found += [answer(space["call"]) for _ in range(calls)]
        space["change_back"]()
        found += [answer(space["call"]) for _ in range(calls)]
    finally:
        space["change_back"]()
    return found


def answer(call: Any) -> Any:
    """What one call gives, as plain data."""
    try:
        value = call(torch_ones())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [type(value).__name__, value.detach().tolist()] if hasattr(value, "detach") else repr(value)


def answers_of_a_fresh_process(case: Case) -> list[Any]:
    """What plain Python gives where no class was changed before.

    A class of torch that cases change over and over runs out of version tags on Python 3.13 (after about 1,000). From then on
    CPython itself, without any engine, calls the old `__getitem__` of a subclass where that was specialized:
    type_modified_unlocked of Objects/typeobject.c returns before it clears the cache of a class without a tag.
    """
    program = (
        "import json, sys; from properties.changes_between_calls import *; print(json.dumps(answers(world(Case(*sys.argv[1:])))))"
    )
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join([tests, os.path.dirname(tests), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *dataclasses.astuple(case)],
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )
    return list(json.loads(done.stdout.splitlines()[-1]))


def torch_ones() -> Any:
    """The one argument of every program."""
    return torch.ones(3)


def changes_the_answer(case: Case) -> bool:
    """Whether the change makes the plain program answer differently."""
    try:
        found = answers(world(case), 1)
    except Exception:
        return False
    return len(found) == 3 and found[1] != found[0]


@dataclass
class Outcome:
    """What became of a case: the answers of both sides, and how often the engine compiled."""

    plain: list[Any]
    compiled: list[Any]
    graphs: int
    recompiles: int

    @property
    def counts(self) -> bool:
        """Whether it says anything: a graph was made, and eager's answer changed."""
        return self.graphs > 0 and len(self.plain) == 6 and self.plain[2] != self.plain[0]

    @property
    def differs(self) -> bool:
        """Whether the engine gave a wrong answer."""
        return self.plain != self.compiled


def run(case: Case) -> Outcome:
    """Call the program as plain Python, and under the engine."""
    plain = answers(world(case))
    dynexplore.reset()
    space = world(case)
    space["program"] = dynexplore.optimize("eager")(space["program"])
    try:
        compiled = answers(space)
        stats = dynexplore.counters["stats"]
        return Outcome(plain, compiled, stats["graphs"], stats["recompiles"])
    finally:
        dynexplore.reset()
