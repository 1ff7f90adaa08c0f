"""The rest of a function is captured after a call that breaks the graph, whatever was called, wherever the call stands.

Theme: a table of callables in C that are not traced (functions, methods of objects and classes, constructors) x the place of the
call. Each program has one operator before the call and four after it; all are in two graphs, or three for a callee.
"""

from __future__ import annotations

import contextvars
import importlib
import threading
from typing import Any

import pytest
import torch

import dynexplore

VARIABLE = contextvars.ContextVar("variable", default=3)
LOCK = threading.Lock()
CONTEXT = contextvars.copy_context()
CALLS: dict[str, Any] = {
    "ContextVar.get": "VARIABLE.get()",
    "ContextVar.set": "VARIABLE.set(3)",
    "Context.get": "CONTEXT.get(VARIABLE)",
    "partial of a method": "functools.partial(VARIABLE.get)()",
    "datetime": "datetime.datetime(2020, 1, 2)",
    "datetime.now": "datetime.datetime.now()",
    "timedelta": "datetime.timedelta(1)",
    "array": "array.array('i', [1, 2])",
    "clock": "time.time()",
    "cwd": "os.getcwd()",
    "StringIO": "io.StringIO('a').read()",
    "BytesIO": "io.BytesIO(b'a').getvalue()",
    "crc32": "zlib.crc32(b'a')",
    "sha1": "hashlib.sha1(b'a')",
    "Decimal": "decimal.Decimal('1.5')",
    "json": "json.loads('[1]')",
    "Lock.locked": "LOCK.locked()",
    "queue": "queue.SimpleQueue().qsize()",
    "pickle": "pickle.dumps(3)",
    "bisect": "bisect.bisect([1, 2, 3], 2)",
    "bytearray": "bytearray(b'ab')",
    "memoryview": "memoryview(b'ab')",
    "ident": "threading.get_ident()",
}
MODULES = "array bisect contextlib datetime decimal functools hashlib io json os pickle queue time zlib".split()
PLACES = {
    "statement": "def f(x):\n  x = x + 1\n  CALL\n  return ((x * 2) - 3).sin().cos()\n",
    "argument": "def f(x):\n  x = x + 1\n  return (keep(x * 2, CALL) - 3).sin().cos()\n",
    "condition": "def f(x):\n  x = x + 1\n  if CALL is None:\n    x = x * 3\n  return ((x * 2) - 3).sin().cos()\n",
    "block": "def f(x):\n  x = x + 1\n  with contextlib.nullcontext():\n    CALL\n    x = x * 2\n  return (x - 3).sin().cos()\n",
    "callee": "def g(x):\n  CALL\n  return x * 2\ndef f(x):\n  x = x + 1\n  return (g(x) - 3).sin().cos()\n",
}


def keep(x: Any, other: Any) -> Any:
    return x


@pytest.mark.parametrize("place", PLACES)
def test_what_follows_a_call_is_captured(place: str) -> None:
    """One graph before the call, the others after it; nothing is left to Python but the call."""
    wrong = {}
    for name, call in CALLS.items():
        operators: list[int] = []

        def backend(graph: Any, inputs: Any, operators: list[int] = operators) -> Any:
            operators.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
            return graph

        namespace = {**globals(), **{module: importlib.import_module(module) for module in MODULES}}
        exec(PLACES[place].replace("CALL", call), namespace)
        f = namespace["f"]
        dynexplore.reset()
        compiled = dynexplore.optimize(backend)(f)
        x = torch.ones(3)
        for _ in range(2):
            assert torch.equal(compiled(x), f(x))
        graphs = 3 if place == "callee" else 2
        if len(operators) > graphs or sum(operators) < 5:
            wrong[name] = operators
    assert not wrong
