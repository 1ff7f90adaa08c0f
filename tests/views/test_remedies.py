"""Each row of the table of remedies: its program recompiles or breaks, the row is offered, and with it the claim holds."""

from __future__ import annotations

import contextlib
import copy
import linecache
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.tools.tried_remedies import applied
from dynexplore.views.miss_reasons import reasons_of
from dynexplore.views.ranked_costs import Cost, costs_of, remedies_of
from dynexplore.views.remedies import BREAKS, LIMITS, NO_ACTION, ROWS, Remedy, advice, limit_remedy, row_of
from dynexplore.watching.watch import watch

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]

SIZES = """
import torch
def f(x): return (x * 2).sum()
g = torch.compile(f, backend="eager")
for n in (4, 5, 6):
    x = torch.ones(n, 3)
    g(x)
"""
NUMBERS = """
import torch
def f(x, n): return x * n
g = torch.compile(f, backend="eager")
for n in range(2, 5): g(torch.ones(3), n)
"""
MODULE = """
import torch
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.n = {first}; self.w = torch.nn.Parameter(torch.ones(2)); self.d = dict(a=1)
    def forward(self, x): return x.sum() * self.w.sum() * {uses}
m = M(); g = torch.compile(m, backend="eager")
for k in range(2, 6):
    {change}
    g(torch.ones(3))
"""

PARAMETERS = """
import torch
def f(x): return (x * 2).sum()
g = torch.compile(f, backend="eager")
for n in (2, 3, 4, 5):
    x = torch.nn.Parameter(torch.ones(n, 3))
    g(x)
"""
BUFFERS = """
import torch
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.register_buffer("w", torch.ones(2))
    def forward(self, x): return x.sum() * self.w.sum()
m = M(); g = torch.compile(m, backend="eager")
for k in range(2, 6):
    m.w = torch.ones(k)
    g(torch.ones(3))
"""

HOLDER = """
import torch
class Holder: pass
h = Holder()
def f(x, h): return x.sum() * h.w.sum()
g = torch.compile(f, backend="eager")
for k in range(2, 6):
    h.w = torch.ones(k)
    g(torch.ones(3), h)
"""

TRIED: dict[str, str] = {
    "dynamic-source": SIZES, "mark-dynamic": SIZES, "dynamic-option": SIZES,
    "dynamic-number": NUMBERS, "number-option": NUMBERS,
    "module-int": MODULE.format(first="1", uses="self.n", change="m.n = k"),
    "parameter-sizes": BUFFERS,
    "parameter-argument": PARAMETERS,
    "parameter-source": MODULE.format(first="1", uses="1", change="m.w = torch.nn.Parameter(torch.ones(k))"),
    "float": """
import torch
def f(x, s): return x * s
g = torch.compile(f, backend="eager")
for k in range(4):
    s = 0.5 + k
    g(torch.ones(3), s)
""",
    "scalar-outputs": """
import torch
@torch.compile(backend="eager")
def f(x):
    n = x.sum().item()
    return x * n
f(torch.ones(3))
""",
    "warn": """
import torch, warnings
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    warnings.warn("between")
    return y + 1
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    f(torch.ones(3))
""",
    "logger": """
import torch, logging
logger = logging.getLogger("remedies")
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    logger.info("between")
    return y + 1
f(torch.ones(3))
""",
    "logging": """
import torch, logging
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    logging.info("between")
    return y + 1
f(torch.ones(3))
""",
    "print": """
import torch
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    print("between")
    return y + 1
f(torch.ones(3))
""",
    "dynamic-outputs": """
import torch
@torch.compile(backend="eager")
def f(x):
    return torch.nonzero(x) * 2
f(torch.ones(3))
""",
}  # fmt: skip
"""Row -> a program that it helps, as `dynexplore try` applies it."""

CHOICES = """
import torch
def f(x, s): return x * len(s)
g = torch.compile(f, backend="eager")
for s in ("a", "bb", "ccc", "a"): g(torch.ones(3), s)
"""
BY_HAND: dict[str, tuple[str, str]] = {
    "str": (CHOICES, """
import torch
def one(x): return x
def two(x): return x * 2
def three(x): return x * 3
versions = {s: torch.compile(f, backend="eager") for s, f in (("a", one), ("bb", two), ("ccc", three))}
for s in ("a", "bb", "ccc", "a"): versions[s](torch.ones(3))
"""),
    "flag": (MODULE.format(first="True", uses="(2 if self.n else 3)", change="m.n = k % 2 == 0"), ""),
    "None": (MODULE.format(first="None", uses="(2 if self.n is None else 3)", change="m.n = None if k == 2 else 'set'"),
             MODULE.format(first="'set'", uses="(2 if self.n is None else 3)", change="pass")),
    "gradient-mode": ("""
import torch
g = torch.compile(lambda x: x * 2, backend="eager")
for k in range(4):
    with torch.set_grad_enabled(k % 2 == 0): g(torch.ones(3))
""", ""),
    "equal-sizes": ("""
import torch
g = torch.compile(lambda x, y: x * x.sum() + y.sum(), backend="eager", dynamic=True)
for n, m in ((5, 5), (8, 8), (8, 6), (9, 4), (3, 3)): g(torch.ones(n), torch.ones(m))
""", ""),
    "backend": ("""
import torch
def f(x): return x * 2
for k in range(4): torch.compile(f, backend=("eager", "aot_eager")[k % 2])(torch.ones(3))
""", ""),
    "function-modes": ("""
import contextlib
import torch
g = torch.compile(lambda x: x * 2, backend="eager")
for k in range(4):
    with torch.device("cpu") if k % 2 else contextlib.nullcontext(): g(torch.ones(3))
""", ""),
    "process-state": ("""
import torch
g = torch.compile(lambda x: x * 2, backend="eager")
threads = torch.get_num_threads()
for k in range(2):
    torch.set_num_threads(threads + k)
    g(torch.ones(3))
torch.set_num_threads(threads)
""", """
import torch
g = torch.compile(lambda x: x * 2, backend="eager")
for k in range(2): g(torch.ones(3))
"""),
    "dtype": ("""
import torch
g = torch.compile(lambda x: x * 2, backend="eager")
for dtype in (torch.float32, torch.float64): g(torch.ones(3, dtype=dtype))
""", """
import torch
g = torch.compile(lambda x: x * 2, backend="eager")
for dtype in (torch.float32, torch.float64): g(torch.ones(3, dtype=dtype).to(torch.float32))
"""),
    "dict": ("""
import torch
def f(x, d): return x * (2 if "a" in d else 3)
g = torch.compile(f, backend="eager")
for d in ({"a": 1}, {"b": 1}): g(torch.ones(3), d)
""", """
import torch
def f(x, d): return x * (2 if d["a"] else 3)
g = torch.compile(f, backend="eager")
for d in ({"a": 1, "b": 0}, {"a": 1, "b": 1}): g(torch.ones(3), d)
"""),
    "growing": ("""
import torch
log = []
def f(x):
    log.append(x.sum())
    return x * 2
g = torch.compile(f, backend="eager")
for _ in range(3): g(torch.ones(3))
""", """
import torch
log = []
def f(x):
    return x * 2, x.sum()
g = torch.compile(f, backend="eager")
for _ in range(3): log.append(g(torch.ones(3))[1])
"""),
    "length": ("""
import torch
def f(x, xs): return x + sum(xs)
g = torch.compile(f, backend="eager")
for k in (1, 2, 3): g(torch.ones(3), [torch.ones(3)] * k)
""", """
import torch
def f(x, xs): return x + xs.sum(0)
g = torch.compile(f, backend="eager")
for k in (1, 2, 3):
    xs = torch.zeros(3, 3); xs[:k] = 1
    g(torch.ones(3), xs)
"""),
}  # fmt: skip
"""Row -> a program, and the same with the remedy applied by a person ("": the claim is that nothing needs to be done)."""


PROGRAMS: dict[str, tuple[str, str, str]] = {
    "last-iteration": ("dynexplore", """
def f(x, items):
    for item in items:
        x = x + item
        print(end="")
    return x
calls = [(torch.ones(2), [torch.ones(2)] * 3)]
""", ""),
    "before-break": ("dynexplore", """
words = iter(["a", "bb", "ccc"])
import dynexplore
def f(x):
    return x * len(h(x))
@dynexplore.disable
def h(x):
    return next(words)
calls = [(torch.ones(2),)] * 3
""", """
def f(x):
    return x * len(h(x))
def h(x):
    return "a"
calls = [(torch.ones(2),)] * 3
"""),
    "mode": ("torch.compile", """
def f(x): return x @ x
def change(k): torch.set_autocast_enabled("cpu", k == 1)
calls = [(torch.ones(2, 2),)] * 3
""", ""),
    "layout": ("torch.compile", """
def f(x): return x * 2
calls = [(torch.ones(4, 4),), (torch.ones(4, 4).t(),)]
""", """
def f(x): return x * 2
calls = [(torch.ones(4, 4),), (torch.ones(4, 4).t().contiguous(),)]
"""),
    "any-layout": ("dynexplore", """
def f(x): return x * 2
calls = [(torch.ones(4, n)[:, :3],) for n in (4, 5, 6, 7)]
""", ""),
    "layout-of-one": ("torch.compile", """
def f(x): return x * 2
calls = [(torch.ones(1, n)[:, -1:],) for n in (4, 5)]
""", """
def f(x): return x * 2
calls = [(torch.ones(1, n)[:, -1:].clone(memory_format=torch.contiguous_format),) for n in (4, 5)]
"""),
    "optional-tensor": ("dynexplore", """
def f(x, mask=None): return x * 2 if mask is None else x * mask
calls = [(torch.ones(2), torch.ones(2)), (torch.ones(2), None), (torch.ones(2), torch.ones(2))]
""", ""),
    "relation": ("dynexplore", """
def f(x): return x * 2 if x.shape[0] < 8 else x * 3
calls = [(torch.ones(n, 3),) for n in (4, 5, 6, 9, 10)]
""", """
def f(x): return x * 2 if x.shape[0] < 8 else x * 3
calls = [(torch.ones(n, 3),) for n in (4, 5, 6, 7, 7)]
"""),
    "number-relation": ("dynexplore", """
def f(x, t): return x * t if t > 0 else x * 3
calls = [(torch.ones(3), t) for t in (9, 8, 7, 0, -1)]
""", """
def f(x, t): return x * t if t > 0 else x * 3
calls = [(torch.ones(3), t) for t in (9, 8, 7, 1, 2)]
"""),
    "filled-dict": ("dynexplore", """
cache = {}
def f(x):
    if "k" not in cache: cache["k"] = 1
    return x * cache["k"]
calls = [(torch.ones(3),)] * 4
""", ""),
    "hook": ("dynexplore", """
m = torch.nn.Linear(2, 2)
def f(x): return m(x)
def change(k): m.register_forward_hook(lambda *args: None)
calls = [(torch.ones(3, 2),)] * 3
""", """
m = torch.nn.Linear(2, 2)
m.register_forward_hook(lambda *args: None)
def f(x): return m(x)
calls = [(torch.ones(3, 2),)] * 3
"""),
    "training-mode": ("dynexplore", """
m = torch.nn.Dropout(0.0)
def f(x): return m(x) * 2
def change(k): m.train(k % 2 == 0)
calls = [(torch.ones(3),)] * 4
""", ""),
    "function": ("torch.compile", """
def f(x, fn): return fn(x)
def function(n):
    source = f"def made(x): return x * {n}"
    names = {}
    exec(source, names)
    return names["made"]
calls = [(torch.ones(3), function(n)) for n in (1, 2, 3)]
""", """
def f(x): return x * 1
calls = [(torch.ones(3),)] * 3
"""),
    "any-instance": ("dynexplore", """
def f(x, m): return m(x) * 2
calls = [(torch.ones(3, 2), torch.nn.Linear(2, 2)) for n in range(4)]
""", ""),
    "class": ("dynexplore", """
class Net(torch.nn.Module):
    def forward(self, x): return x * 2
class Other(Net): pass
def f(x, m): return m.forward(x) * 2
calls = [(torch.ones(3, 2), m) for m in (Net(), Other()) * 2]
""", ""),
    "tensor-class": ("torch.compile", """
class Sub(torch.Tensor): pass
def f(x): return x * 2
calls = [(x,) for x in (torch.ones(3).as_subclass(Sub), torch.ones(3)) * 2]
""", ""),
    "instance": ("torch.compile", """
def f(x, fn): return fn(x)
calls = [(torch.ones(3), fn) for fn in (torch.sin, torch.cos)]
""", ""),
    "zero-or-one": ("dynexplore", """
def f(x): return x * 2
calls = [(torch.ones(n, 2),) for n in (3, 1, 1)]
""", ""),
    "size": ("dynexplore", """
def f(x): return x * 2
calls = [(torch.ones(n, 2),) for n in (3, 4, 5, 6)]
""", ""),
    "requires-grad": ("dynexplore", """
def f(x): return x * 2
calls = [(torch.ones(2, requires_grad=n),) for n in (True, False, True, False)]
""", ""),
    "inference-tensor": ("torch.compile", """
def f(x): return x * 2
with torch.inference_mode(): y = torch.ones(3)
calls = [(torch.ones(3),), (y,), (torch.ones(3),)]
""", ""),
    "size-before-break": ("dynexplore", """
def f(x, shape):
    filled = x.new_ones(shape)
    print(end="")
    return filled * 2
calls = [(torch.ones(2), (2,) * count) for count in (1, 2, 3)]
""", """
def f(x, shape):
    filled = x.new_ones(shape)
    return filled * 2
calls = [(torch.ones(2), (2,) * count) for count in (1, 2, 3)]
"""),
    "parameter-size": ("torch.compile", """
def f(x): return (x * 2).sum()
calls = [(torch.nn.Parameter(torch.ones(n, 3)),) for n in (2, 3, 4, 5)]
""", """
torch._dynamo.config.force_parameter_static_shapes = False
def f(x): return (x * 2).sum()
calls = [(torch.nn.Parameter(torch.ones(n, 3)),) for n in (2, 3, 4, 5)]
"""),
    "one-size": ("torch.compile", """
def f(x): return x * (2 if x.shape[0] == 3 else 3 if x.shape[0] == 4 else 4)
calls = [(torch.ones(n, 2),) for n in (3, 4, 5)]
""", """
def f(x): return x * (2 if x.shape[0] == 3 else 3 if x.shape[0] == 4 else 4)
calls = [(torch.ones(3, 2),)] * 3
"""),
    "tensor": ("dynexplore", """
def f(x): return x * 2
calls = [(torch.ones(2),), (torch.ones(2, 2),), (torch.ones(2, 2, 2),)]
""", """
def f(x): return x * 2
calls = [(torch.ones(2, 2, 2),)] * 3
"""),
    "device": ("torch.compile", """
def f(x): return x * 2
calls = [(torch.ones(2, device=name),) for name in ("cpu", "meta", "cpu", "meta")]
""", ""),
    "optional": ("dynexplore", """
def f(x, mask=None): return x * 2 if mask is None else x * mask
calls = [(torch.ones(2), None), (torch.ones(2), torch.ones(2)), (torch.ones(2), None)]
""", ""),
    "number": ("dynexplore", """
def f(x, n): return x * n
calls = [(torch.ones(2), n) for n in (2, 3, 4, 5)]
""", ""),
    "varying-int": ("torch.compile", """
def f(x, n): return x * n
calls = [(torch.ones(2), n) for n in (2, 3, 4, 5)]
""", ""),
    "varying-float": ("torch.compile", """
def f(x, n): return x * n
calls = [(torch.ones(2), n) for n in (2.5, 3.5, 4.5)]
""", ""),
    "identity": ("dynexplore", """
import enum
class E(enum.Enum):
    A = 1
    B = 2
def f(x, e): return x * e.value
calls = [(torch.ones(2), e) for e in (E.A, E.B, E.A)]
""", ""),
    "range": ("torch.compile", """
def f(x, start):
    for i in range(start, start + 3): x = x + i
    return x
calls = [(torch.ones(2), start) for start in (2, 3, 4, 5)]
""", """
def f(x, start):
    for i in range(3): x = x + (start + i)
    return x
calls = [(torch.ones(2), start) for start in (2, 3, 4, 5)]
"""),
    "int": ("dynexplore", """
def f(x, n): return x * [2, 3, 4, 5][n]
calls = [(torch.ones(2), n) for n in (1, 2, 3)]
""", """
def f(x, n): return x * torch.tensor([2, 3, 4, 5])[n]
calls = [(torch.ones(2), torch.tensor(n)) for n in (1, 2, 3)]
"""),
    "module-int": ("torch.compile", """
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.n = 2
    def forward(self, x): return x * self.n
m = M()
def f(x): return m(x)
def change(k): m.n = k + 2
calls = [(torch.ones(2),)] * 4
""", """
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.n = torch.tensor(2)
    def forward(self, x): return x * self.n
m = M()
def f(x): return m(x)
def change(k): m.n = torch.tensor(k + 2)
calls = [(torch.ones(2),)] * 4
"""),
    "int-attribute": ("dynexplore", """
class C: pass
c = C()
def f(x):
    for _ in range(c.n): x = x + 1
    return x
def change(k): c.n = k + 1
calls = [(torch.ones(2),)] * 3
""", """
class C: pass
c = C()
def f(x): return x + c.n
def change(k): c.n = torch.tensor(k + 1)
calls = [(torch.ones(2),)] * 3
"""),
    "constant-in-graph": ("dynexplore", """
def f(x, n): return torch.nn.functional.dropout(x, n / 100, False)
calls = [(torch.ones(2), n) for n in (5, 10, 20, 30)]
""", """
def f(x, n): return torch.nn.functional.dropout(x, n / 100, False)
calls = [(torch.ones(2), 5)] * 4
"""),
    "one-float": ("dynexplore", """
def f(x, n): return x * n if n > 3. else x
calls = [(torch.ones(2), n) for n in (2.5, 3.5, 1.5)]
""", """
def f(x, n): return torch.where(n > 3.0, x * n, x)
calls = [(torch.ones(2), torch.tensor(n)) for n in (2.5, 3.5, 1.5)]
"""),
    "float-attribute": ("dynexplore", """
class C: pass
c = C()
def f(x): return x * 2 if c.n > 3 else x
def change(k): c.n = 1.5 + k
calls = [(torch.ones(2),)] * 3
""", """
class C: pass
c = C()
def f(x): return torch.where(c.n > 3, x * 2, x)
def change(k): c.n = torch.tensor(1.5 + k)
calls = [(torch.ones(2),)] * 3
"""),
    "other": ("dynexplore", """
def f(x, n): return x * len(n)
calls = [(torch.ones(2), n) for n in ("a", b"b", (1,))]
""", """
def f(x, n): return x * len(n)
calls = [(torch.ones(2), "a")] * 3
"""),
    "submodules": ("dynexplore", """
m = torch.nn.Sequential(torch.nn.ReLU())
def f(x): return m(x)
def change(k): m.append(torch.nn.ReLU()) if k == 1 else None
calls = [(torch.ones(3),)] * 4
""", ""),
}  # fmt: skip
"""Row of the table -> engine, a program whose calls recompile for it, the same as the row says ("": nothing needs to be done)."""


@contextlib.contextmanager
def settings(environment: dict[str, str]) -> Iterator[None]:
    """torch's settings are put back afterwards; what it reads of the environment when it is imported is set as it reads it."""
    names = [change.setting for row in ROWS for change in row.changes if change.setting] + [row[4] for row in BREAKS]
    sources = environment.get("TORCH_COMPILE_DYNAMIC_SOURCES", "")
    with (
        torch._dynamo.config.patch({name: copy.copy(getattr(torch._dynamo.config, name)) for name in names}),
        torch.compiler.config.patch(dynamic_sources=sources),
    ):
        yield


def ran(source: str, environment: dict[str, str] | None = None) -> Recording:
    """What torch.compile does in a program; a process group that the program made and did not come to destroy ends with it."""
    torch._dynamo.reset()
    linecache.cache["<program>"] = (len(source), None, source.splitlines(keepends=True), "<program>")
    try:
        with settings(environment or {}), watch(steps=False) as seen:
            exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
    finally:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    return seen.recording


def counts(recording: Recording) -> int:
    return len(recording.breaks) + len(recording.of(ev.Recompiled))


def offered(recording: Recording, row: str, source: str) -> tuple[Cost, Remedy]:
    """The remedy of a row that the costs of a program are offered."""
    pairs = [(cost, remedy) for cost in costs_of(recording) for remedy in remedies_of(cost, source) if remedy.row == row]
    assert pairs, [reason.line for cost in costs_of(recording) for reason in cost.reasons.values()]
    return pairs[0]


@pytest.mark.parametrize("source", [BUFFERS, HOLDER], ids=["of a module", "of an object"])
def test_the_source_of_an_attribute_is_named_as_torch_names_it(source: str) -> None:
    """A buffer of a module and a tensor of another object, whose names differ in torch: the variable helps both."""
    before = ran(source)
    cost, remedy = offered(before, "dynamic-source", source)
    changed, environment = applied(remedy, cost, source, "<program>")
    assert counts(ran(changed, environment)) < counts(before)


def test_marking_a_parameter_is_not_offered() -> None:
    """`mark_dynamic` and dynamic=True change nothing for a parameter, so neither the advice nor a remedy names them."""
    before = ran(PARAMETERS)
    cost = costs_of(before)[0]
    assert "mark_dynamic" not in cost.advice and "force_parameter_static_shapes" in cost.advice
    assert [remedy.row for remedy in remedies_of(cost, PARAMETERS)] == ["parameter-argument", "parameter-source"]
    for old, new in (("    g(x)", "    torch._dynamo.mark_dynamic(x, 0)\n    g(x)"), ('"eager"', '"eager", dynamic=True')):
        assert counts(ran(PARAMETERS.replace(old, new))) == counts(before)


@pytest.mark.parametrize("row", ["parameter-argument", "parameter-source"])
def test_a_parameter_is_known_without_its_guard(row: str) -> None:
    """Some versions of torch do not write the class into the guard: the argument's class or torch's name of the source says it."""
    text = ran(TRIED[row]).to_json()
    for_another = dynexplore.Recording.from_json(text.replace(", Parameter, DispatchKeySet", ", Tensor, DispatchKeySet"))
    assert ", Parameter, DispatchKeySet" in text and "mark_dynamic" not in costs_of(for_another)[0].advice
    assert row in [remedy.row for remedy in remedies_of(costs_of(for_another)[0], TRIED[row])]


@pytest.mark.parametrize("row", TRIED)
def test_a_remedy_that_can_be_applied_helps(row: str) -> None:
    """Fewer recompiles and breaks than before, with the very text that is to be pasted."""
    source = TRIED[row]
    before = ran(source)
    cost, remedy = offered(before, row, source)
    line = (
        next(number for number, text in enumerate(source.splitlines(), 1) if text.startswith("    g("))
        if remedy.how == "call"
        else 0
    )
    cost.callers = {f"<program>:{line}": 1}  # between torch and a test stands what forbids torch.compile
    changed, environment = applied(remedy, cost, source, "<program>")
    assert changed != source or environment
    assert counts(ran(changed, environment)) < counts(before)


@pytest.mark.parametrize("row", BY_HAND)
def test_what_a_person_has_to_do_helps(row: str) -> None:
    """By hand, too: what the row says, done. Where it says that nothing needs to be done, no call after the second recompiles."""
    source, mended = BY_HAND[row]
    before = ran(source)
    offered(before, row, source)
    assert (counts(ran(mended)) == 0) if mended else counts(before) == 1


def called(engine: str, source: str) -> Recording:
    """What is recorded of the calls of a program."""
    return explained_calls(engine, source).recording


def explained_calls(engine: str, source: str) -> Any:
    """The calls of a program: each gets its arguments after `change`, where the program has that, changed something."""
    torch._dynamo.reset()
    dynexplore.reset()
    linecache.cache["<program>"] = (len(source), None, source.splitlines(keepends=True), "<program>")
    names: dict[str, Any] = {"torch": torch}
    exec(compile(source, "<program>", "exec"), names)
    change, (first, *others) = names.get("change", lambda number: None), names["calls"]
    change(0)
    explained = dynexplore.explain(names["f"], *first, engine=engine)
    for number, args in enumerate(others, 1):
        change(number)
        explained.call(*args)
    return explained


@pytest.mark.parametrize("row", PROGRAMS)
def test_what_a_report_advises_is_true(row: str) -> None:
    """The row is that of the recompile. Whoever does as it says recompiles less; where nothing needs to be done, further calls with
    either value do not recompile."""
    engine, source, mended = PROGRAMS[row]
    before = called(engine, source)
    recompiles = before.of(ev.Recompiled)
    reasons = [reason for event in recompiles for reason in reasons_of(before, event.frame)]
    assert row in {row_of(reason).id for reason in reasons}, [(row_of(reason).id, reason.line) for reason in reasons]
    sentence = next(advice(reason) for reason in reasons if row_of(reason).id == row)
    assert not re.search("SOURCE|OWNER|KIND", sentence)
    with settings({}):
        assert not mended or len(called(engine, mended).of(ev.Recompiled)) < len(recompiles)
    assert mended or (sentence.startswith(NO_ACTION) and len(recompiles) == 1), sentence


def test_a_dimension_of_size_one_keeps_its_stride_in_a_contiguous_tensor() -> None:
    """That is why `.contiguous()` is not the advice there."""
    engine, source, _ = PROGRAMS["layout-of-one"]
    assert called(engine, source.replace("-1:]", "-1:].contiguous()")).of(ev.Recompiled)


MODE_AND_KEYS = """
m = torch.nn.Dropout(0.0)
def f(x, d): return m(x) * len(d)
def change(k): m.train(k < 2)
calls = [(torch.ones(2), d) for d in ({"a": 1}, {"a": 1}, {"b": 1}, {"b": 1})]
"""
TWO_TO_CHANGE = """
def f(x, s, d): return x * len(s) + len(d)
calls = [(torch.ones(2), [1], {"k": 1}), (torch.ones(2), [1, 2], {"k": 1, "j": 2})]
"""
THREE_TO_CHANGE = """
def f(x, s, d, t): return x * len(s) + len(d) + len(t)
calls = [(torch.ones(2), [1], {"k": 1}, [2]), (torch.ones(2), [1, 2], {"k": 1, "j": 2}, [])]
"""
COMBINED = {
    MODE_AND_KEYS: "No action needed for `m.training` if you run the model in both train() and eval() mode: each mode gets its "
    "own compiled version.",
    TWO_TO_CHANGE: "Keep the length of `s` the same in every call: pad it, or stack it into a tensor. Use the same keys in `d` in "
    "every call, or compile a separate function for each set of keys.",
    THREE_TO_CHANGE: "Keep the length of `s`, the keys of `d` and the length of `t` the same in every call: changing any one of "
    "them triggers a recompile.",
}


@pytest.mark.parametrize("source", COMBINED, ids=["mode and keys", "two", "three"])
def test_of_several_causes_the_advice_removes_the_recompile(source: str) -> None:
    """If a mode alone forces it, another value that stays the same does not help: the mode comes first. Else all are named."""
    (cost,) = costs_of(called("dynexplore", source))
    assert cost.advice == COMBINED[source]


def test_each_row_has_its_program() -> None:
    """No sentence is left that no program was run for."""
    changes = {change.id for row in ROWS for change in row.changes} | {row[0] for row in BREAKS}
    assert changes == set(TRIED)
    assert {row.id for row in ROWS} == {*BY_HAND, *PROGRAMS}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_was_raised_is_not_raised_again(name: str) -> None:
    """Nor is a setting offered that the program has set."""
    assert limit_remedy(8, 9, f"torch._dynamo.config.{name} = 64") is None
    remedy = limit_remedy(8, 9, "")
    assert remedy is not None and remedy.text == "torch._dynamo.config.recompile_limit = 16"


def test_no_remedy_names_a_file_of_an_engine() -> None:
    """Nobody mends a program by editing what they installed."""
    texts: list[str] = [text for row in ROWS for text in (row.says, row.many, row.costs)] + [row[3] for row in BREAKS]
    assert not [text for text in texts if ".py" in text]


@pytest.mark.parametrize("engine", ["dynexplore", "torch.compile"])
def test_a_number_that_is_compared_is_not_said_to_have_any_value(engine: str) -> None:
    """The new version has a guard on `t`: the report neither promises any value, nor advises to pad a number."""
    source = PROGRAMS["number-relation"][1]
    report = " ".join(str(explained_calls(engine, source)).split())
    assert "the new version accepts other values of `t`, too." in report
    assert "any value" not in report
    assert "pad" not in report
    assert "3 graphs, 0 graph breaks, 2 recompiles" in report
