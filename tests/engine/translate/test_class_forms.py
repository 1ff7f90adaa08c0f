"""Each form of a class that a frame can make: by a statement, by `type()`, by `namedtuple()`, each with what can be asked of it.

The idea: a table of programs. Each runs twice as Python, twice under the engine and, where it is said to be whole, twice in one
graph; what it returns, raises and prints is compared. Nothing in a result may be of the stand-in that the capture made.
"""

from __future__ import annotations

import io
import re
import textwrap
from contextlib import redirect_stdout
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled

#: programs of one graph; each binds `r`, which is returned beside a tensor
WHOLE = {
    "annotated attributes": (
        "class A:\n  a: int = 3\n  b: 'str'\nr = A.a, A.__annotations__, A().__annotations__, hasattr(A, 'b')"
    ),
    "annotations in order": "class A:\n  b: int\n  a: str\n  b: float\nr = list(A.__annotations__.items())",
    "no annotations of its own": "class A:\n  a: int\nclass B(A):\n  pass\nr = B.a if hasattr(B, 'a') else None",
    "annotated methods": "class A:\n  def f(self, b: int, *c: str, d: 'x' = 2) -> float:\n    return b + d\nr = A().f(1)",
    "slots as a list": (
        "class A:\n  __slots__ = ['a']\n  def __init__(s):\n    s.a = 1\nr = A().a, A.__slots__, type(A.__slots__)"
    ),
    "slots of names": "names = ['a', 'b']\nclass A:\n  __slots__ = names\na = A()\na.b = 2\nr = a.b, A.__slots__ is names",
    "slots as a dict": "class A:\n  __slots__ = {'a': 'text'}\na = A()\na.a = 3\nr = a.a",
    "a slot that is not set": "class A:\n  __slots__ = ['a']\ntry:\n  A().a\nexcept AttributeError as e:\n  r = str(e)",
    "a default that is a list": (
        "class A:\n  def f(s, a=[]):\n    a.append(1)\n    return len(a)\nA().f()\nr = A().f(), A().f([])"
    ),
    "a default that is shared": "l = []\nclass A:\n  def f(s, *, k=l):\n    return k is l\nr = A().f(), A().f(k=[])",
    "a default that is a tensor": "class A:\n  def f(s, a=x):\n    return a\nr = (A().f() is x)",
    "a default that is a function": "class A:\n  def f(s, k=len):\n    return k([1])\nr = A().f(), A().f(k=sum)",
    "a default that is a class": "class A:\n  pass\nclass B:\n  def f(s, k=A):\n    return k is A\nr = B().f()",
    "an abstract method": (
        "class A(abc.ABC):\n  @abc.abstractmethod\n  def f(s): ...\nclass B(A):\n  def f(s):\n    return 1\n"
        "r = B().f()"
    ),
    "an abstract property": (
        "class A(abc.ABC):\n  @property\n  @abc.abstractmethod\n  def f(s): ...\nclass B(A):\n  f = 4\nr = B().f, A.f is None"
    ),
    "a metaclass": (
        "class M(type):\n  pass\nclass A(metaclass=M):\n  v = 1\n"
        "r = A().v, type(A) is M, isinstance(A, M), A.__class__ is M"
    ),
    "a metaclass with methods": (
        "class M(type):\n  def m(cls):\n    return cls.v\nclass A(metaclass=M):\n  v = 1\n"
        "r = A.m(), hasattr(A(), 'm')"
    ),
    "a metaclass with __call__": (
        "class M(type):\n  def __call__(cls, *a):\n    return super().__call__(*a), len(a)\n"
        "class A(metaclass=M):\n  v = 1\nr = A()[0].v"
    ),
    "a metaclass with __len__": (
        "class M(type):\n  def __len__(cls):\n    return 4\nclass A(metaclass=M):\n  pass\nr = len(A)"
    ),
    "a metaclass with __getattr__": (
        "class M(type):\n  def __getattr__(cls, n):\n    return n\nclass A(metaclass=M):\n  pass\nr = A.q"
    ),
    "a metaclass that is inherited": (
        "class M(type):\n  k = 2\nclass A(metaclass=M):\n  pass\nclass B(A):\n  pass\nr = B.k, type(B) is M"
    ),
    "a metaclass of ABCMeta": "class M(abc.ABCMeta):\n  k = 2\nclass A(metaclass=M):\n  pass\nr = A.k, type(A) is M",
    "metaclasses in conflict": (
        "class M(type): pass\nclass N(type): pass\nclass A(metaclass=M): pass\ntry:\n  class B(A, metaclass=N): pass\n"
        "except TypeError as e:\n  r = str(e)"
    ),
    "type() with a base": (
        "class B:\n  y = 2\nA = type('A', (B,), {'x': 3})\nr = A().x, A.y, A.__bases__ == (B,), issubclass(A, B)"
    ),
    "type() and its texts": "A = type('A', (), {})\nr = A.__name__, A.__qualname__, A.__module__, A.__doc__, repr(type(A))",
    "type() with its own texts": (
        "A = type('A', (), {'__module__': 'm', '__doc__': 'd'})\nr = A.__module__, A.__doc__, A.__qualname__"
    ),
    "type() shares values": "l = [1]\nd = {'l': l}\nA = type('A', (), d)\nd['k'] = 1\nr = A.l is l, hasattr(A, 'k'), len(d)",
    "type() of an exception": (
        "E = type('E', (ValueError,), {'code': 5})\ntry:\n  raise E('t')\nexcept ValueError as e:\n"
        "  r = e.code, str(e)"
    ),
    "type() of a module": "N = type('N', (torch.nn.Module,), {'k': 2})\nr = N().k",
    "type() of a tensor in it": "A = type('A', (), {'t': x * 3})\nr = A.t",
    "type() of wrong bases": "try:\n  type('A', (bool,), {})\nexcept TypeError as e:\n  r = str(e)",
    "namedtuple of a string": (
        "P = namedtuple('P', 'a b')\np = P(1, b=2)\nr = p.a, p.b, p[1], len(p), list(p), isinstance(p, tuple)"
    ),
    "namedtuple of a list": "P = namedtuple('P', ['a', 'b'])\nr = P._fields, P.__name__, P.__module__, P.__qualname__",
    "namedtuple with commas": "P = namedtuple('P', 'a, b,c')\na, *b = P(1, 2, 3)\nr = a, b",
    "namedtuple with defaults": "P = namedtuple('P', 'a b', defaults=[5])\nr = P(1).b, P._field_defaults",
    "namedtuple that renames": "P = namedtuple('P', 'a def a', rename=True)\nr = P._fields",
    "namedtuple in another module": "P = namedtuple('P', 'a', module='elsewhere')\nr = P.__module__",
    "namedtuple with its methods": (
        "P = namedtuple('P', 'a b')\np = P._make([1, 2])\nr = repr(p), p._asdict(), repr(p._replace(a=5)), p == (1, 2), p < (2,)"
    ),
    "namedtuple of a wrong name": "try:\n  namedtuple('P', 'a a')\nexcept ValueError as e:\n  r = str(e)",
    "namedtuple of a keyword": "try:\n  namedtuple('class', 'a')\nexcept ValueError as e:\n  r = str(e)",
    "namedtuple of tensors": "P = namedtuple('P', 'a b')\np = P(x, x * 2)\nr = p.a + p.b",
    "a class on a namedtuple": (
        "class A(namedtuple('P', 'a b')):\n  def s(self):\n    return self.a + self.b\nr = A(1, 2).s(), A._fields"
    ),
    "a namedtuple matched": "P = namedtuple('P', 'a b')\nmatch P(1, 2):\n  case P(a, 2):\n    r = a",
    "a namedtuple as a key": "P = namedtuple('P', 'a')\nr = {P(1): 2}[P(1)], {P(1): 3}[(1,)]",
    "exc_info in a handler": (
        "try:\n  raise ValueError('t')\nexcept ValueError as e:\n  i = sys.exc_info()\n"
        "  r = i[0], i[1] is e, len(i), i[2] is None"
    ),
    "exc_info in finally": (
        "try:\n  try:\n    raise KeyError(1)\n  finally:\n    r = sys.exc_info()[0], sys.exc_info()[1].args\n"
        "except KeyError:\n  pass"
    ),
    "exc_info in a callee": (
        "def f():\n  return sys.exc_info()[1]\ntry:\n  raise ValueError('t')\nexcept ValueError as e:\n"
        "  r = f() is e"
    ),
    "exc_info of the inner one": (
        "try:\n  raise KeyError(1)\nexcept KeyError:\n  try:\n    raise ValueError(2)\n"
        "  except ValueError:\n    a = sys.exc_info()[0]\n"
        "  r = a, sys.exc_info()[0]"
    ),
    "exc_info raised again": (
        "try:\n  try:\n    raise KeyError(1)\n  except KeyError:\n    t, v, tb = sys.exc_info()\n    raise v.with_traceback(tb)\n"
        "except KeyError as e:\n  r = e.args, e is v"
    ),
    "an exit stack": (
        "l = []\nwith contextlib.ExitStack() as s:\n  s.callback(l.append, 1)\n  s.callback(l.append, 2)\n  l.append(0)\nr = l"
    ),
    "an exit stack that suppresses": (
        "class C:\n  def __enter__(s):\n    return 1\n  def __exit__(s, *a):\n    return a[0] is KeyError\n"
        "r = 0\nwith contextlib.ExitStack() as s:\n  s.enter_context(C())\n  raise KeyError(1)\nr = r + 1"
    ),
    "an exit stack that raises": (
        "class C:\n  def __enter__(s):\n    return 1\n  def __exit__(s, *a):\n    raise ValueError(2)\n"
        "try:\n  with contextlib.ExitStack() as s:\n    s.enter_context(C())\n    raise KeyError(1)\n"
        "except ValueError as e:\n  r = e.args, type(e.__context__), e.__context__.args"
    ),
}  # fmt: skip
#: programs that break the graph, or of which a part runs as Python
RIGHT = {
    "no such slot": "class A:\n  __slots__ = ['a']\ntry:\n  A().b = 1\nexcept AttributeError as e:\n  r = str(e)",
    "exc_info behind a handler": (
        "try:\n  raise ValueError\nexcept ValueError:\n  pass\nr = sys.exc_info() == (None, None, None) or 1"
    ),
    "an annotation of the frame": "class A:\n  a: x = 3\nr = list(A.__annotations__)",
    "annotations of a method": "class A:\n  def f(self, b: int) -> 'str': ...\nr = A.f.__annotations__",
    "defaults of the frame": "class A:\n  def f(self, a=[], *, k={}): ...\nr = A.f.__defaults__, A.f.__kwdefaults__",
    "a wrong slot": "try:\n  class A:\n    __slots__ = ['a', 1]\nexcept TypeError as e:\n  r = str(e)",
    "slots of the frame": "class A:\n  __slots__ = [str(x.dim())]\nr = A.__slots__",
    "an abstract class": (
        "class A(abc.ABC):\n  @abc.abstractmethod\n  def f(s): ...\ntry:\n  A()\nexcept TypeError as e:\n"
        "  r = str(e)"
    ),
    "a metaclass with __new__": (
        "class M(type):\n  def __new__(m, n, b, d):\n    print(n)\n    return super().__new__(m, n, b, d | {'w': 2})\n"
        "class A(metaclass=M): pass\nr = A.w"
    ),
    "a metaclass with __init__": (
        "class M(type):\n  def __init__(c, *a):\n    print(a[0])\nclass A(metaclass=M): pass\nr = type(A) is M"
    ),
    "a metaclass with mro": (
        "class M(type):\n  def mro(c):\n    print('mro')\n    return [c, object]\nclass A(metaclass=M): pass\n"
        "r = 1"
    ),
    "a metaclass with __prepare__": (
        "class M(type):\n  @classmethod\n  def __prepare__(m, n, b):\n    return {'w': 3}\nclass A(metaclass=M):\n  v = w\nr = A.v"
    ),
    "a metaclass that is a function": "class A(metaclass=lambda n, b, d: n):\n  pass\nr = A",
    "a metaclass with __instancecheck__": (
        "class M(type):\n  def __instancecheck__(c, o):\n    return True\nclass A(metaclass=M): pass\nr = isinstance(3, A)"
    ),
    "__init_subclass__": "class B:\n  def __init_subclass__(cls, n=1):\n    cls.tag = n\nclass A(B, n=3): pass\nr = A().tag",
    "__init_subclass__ by type()": (
        "class B:\n  def __init_subclass__(cls):\n    print(cls.__name__)\nA = type('A', (B,), {})\nr = 1"
    ),
    "__set_name__": "class D:\n  def __set_name__(s, o, n):\n    print(n)\nclass A:\n  q = D()\nr = 1",
    "__set_name__ by type()": "class D:\n  def __set_name__(s, o, n):\n    print(n)\nA = type('A', (), {'q': D()})\nr = 1",
    "type() with a function": "def f(s):\n  return 3\nA = type('A', (), {'f': f})\nr = A().f(), A.f is f",
    "type() with a special method": "A = type('A', (), {'__len__': lambda s: 7})\nr = len(A())",
    "type() with a property": "p = property(lambda s: 3)\nA = type('A', (), {'p': p})\nr = A().p, A.p is p",
    "type() of wrong arguments": "r = []\nfor a in [('A', (), 3), (1, (), {}), ('A', [], {}), ('A', ()), ('A', (), {1: 2})]:\n"
                                 "  try:\n    r.append(type(*a).__name__)\n  except TypeError as e:\n    r.append(str(e))",
    "type() with a subclass of dict": "class D(dict): pass\nr = type('A', (), D(x=1)).x",
    "a metaclass that is called": "class M(type): pass\nA = M('A', (), {'x': 1})\nr = A.x, type(A) is M",
    "a class that leaves": "class A:\n  a: int = 1\n  def f(s, k=[]):\n    return k\nr = A",
    "an instance that leaves": "class A:\n  __slots__ = ['a']\na = A()\na.a = 1\nr = a",
    "a namedtuple that leaves": "P = namedtuple('P', 'a b')\nr = P(1, x.dim())",
    "a constant namedtuple that leaves": "P = namedtuple('P', 'a b', defaults=(2,))\nr = [P(1)], P",
    "a namedtuple over a break": "P = namedtuple('P', 'a b')\np = P(1, x)\nprint(p.a)\nr = p.b, type(p) is P, p._fields",
    "a namedtuple with a wrong call": "P = namedtuple('P', 'a b')\ntry:\n  P(1)\nexcept TypeError as e:\n  r = str(e)",
    "a namedtuple and its texts": "P = namedtuple('P', 'a b')\nr = P.__doc__, P.a.__doc__, P.__match_args__",
    "a namedtuple of the frame's names": "P = namedtuple('P', [str(x.dim())], rename=True)\nr = P(1)._fields",
    "a namedtuple with defaults of the frame": "P = namedtuple('P', 'a b', defaults=[x])\nr = P(1).b",
    "a traceback that leaves": (
        "try:\n  raise ValueError\nexcept ValueError:\n"
        "  r = type(sys.exc_info()[2]).__name__, sys.exc_info()[2].tb_lineno > 0"
    ),
    "exc_info that is returned": "try:\n  raise ValueError('t')\nexcept ValueError:\n  r = sys.exc_info()[:2]",
    "exc_info over a break": (
        "try:\n  raise ValueError('t')\nexcept ValueError:\n  print(sys.exc_info()[0])\n"
        "  r = sys.exc_info()[1].args"
    ),
}  # fmt: skip
_HEADER = """
import abc, contextlib, sys, torch
from collections import namedtuple
def program(x):
"""


def program(body: str) -> Any:
    """A fresh function with this body."""
    namespace: dict[str, Any] = {"__name__": "some_module"}
    exec(_HEADER + textwrap.indent(f"x = x + 1\n{body}\nreturn x * 2, r", "    "), namespace)
    return namespace["program"]


def outcome(function: Any) -> str:
    """What two calls return, raise and print, as text; a class shows what it is made of."""
    printed, results = io.StringIO(), []
    with redirect_stdout(printed):
        for number in (1.0, 2.0):
            try:
                result = function(torch.full((2,), number))
            except Exception as error:  # compared as text
                result = type(error), error.args
            results.append((result, shown_class(result[1])))
    return re.sub(r" at 0x\w+", "", repr((results, printed.getvalue())))


def shown_class(value: Any) -> Any:
    """Of a class of the program, or of the class of a value: its names and attributes."""
    cls = value if isinstance(value, type) else type(value)
    return cls.__qualname__, cls.__module__, sorted(vars(cls)) if cls.__module__ == "some_module" else ()


@pytest.mark.plain("compares values, which Python has, too")
@pytest.mark.parametrize("form", [*WHOLE, *RIGHT])
def test_each_form_does_what_python_does(form: str) -> None:
    """In two calls, each of which makes a class of its own."""
    body = {**WHOLE, **RIGHT}[form]
    assert outcome(dynexplore.optimize("eager")(program(body))) == outcome(program(body))
    assert not dynexplore.counters["engine_error"]


@pytest.mark.parametrize("form", WHOLE)
def test_a_form_is_one_graph(form: str) -> None:
    """Without a break."""
    assert outcome(dynexplore.optimize("eager", nopython=True)(program(WHOLE[form]))) == outcome(program(WHOLE[form]))
    assert graphs_compiled() == 1
