"""explain: run a function once under the engine, and tell what was captured.

The idea: an explanation is a recording of one call, with the live things beside it that a recording cannot
hold: the captured GraphModules, and a `Session` that can be asked more (would these guards hold for another
input? what would be captured then?). It is made in a fresh store, so that what is compiled and counted
elsewhere stays as it is.

In: a function and arguments. Out: `Explanation`: recording, graphs, guards, breaks, counts, resume functions,
the value.

torch/_dynamo/eval_frame.py (explain) and torch/_dynamo/backends/debugging.py (ExplainOutput) do the same job.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.fx

from dynexplore.engine import events as ev
from dynexplore.engine import native
from dynexplore.engine.counters import counters
from dynexplore.engine.native import CodeCache
from dynexplore.engine.provenance.sources import Scope
from dynexplore.engine.recording import Recording
from dynexplore.engine.runtime import optimized, reports
from dynexplore.engine.runtime.api import make_store
from dynexplore.engine.runtime.backends import CompilerFn, resolve
from dynexplore.engine.runtime.cache import CompiledEntry, misses
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.engine.translate.resume import argument_slots
from dynexplore.views import html_text, text


class Explanation:
    """What one call did. `print` it; or unpack it: `explanation, out_guards, graphs, ops_per_graph = explain(f, x)`.

    Attributes: `recording`, `session`, `value` (what the call returned), `graphs` (GraphModules, in the order
    in which they were captured), and the properties below.
    """

    def __init__(self, recording: Recording, graphs: Sequence[torch.fx.GraphModule], session: Session) -> None:
        self.recording = recording
        self.graphs = list(graphs)
        self.session = session
        self.value: Any = None

    @property
    def graph_count(self) -> int:
        """How many graphs were captured."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """How often a graph broke."""
        return len(self.breaks)

    @property
    def op_count(self) -> int:
        """How many call_function nodes all graphs have: what PyTorch calls ops."""
        return sum(map(len, self.ops_per_graph))

    @property
    def ops_per_graph(self) -> list[list[Any]]:
        """What each graph calls: the targets of its call_function nodes."""
        return [[node.target for node in graph.graph.nodes if node.op == "call_function"] for graph in self.graphs]

    @property
    def call_count(self) -> int:
        """How many call nodes all graphs have, methods and modules included."""
        return sum(node.op.startswith("call_") for graph in self.graphs for node in graph.graph.nodes)

    @property
    def guards(self) -> tuple[ev.GuardInstalled, ...]:
        """The guards of every frame."""
        return self.recording.guards

    @property
    def out_guards(self) -> list[ev.GuardInstalled]:
        """The guards under the name that they had in the early API."""
        return list(self.guards)

    @property
    def breaks(self) -> tuple[ev.GraphBroke, ...]:
        """Every graph break, with why and what to do."""
        return self.recording.breaks

    @property
    def break_reasons(self) -> list[str]:
        """The reason of each graph break in one line."""
        return [broke.reason for broke in self.breaks]

    @property
    def resume_functions(self) -> tuple[ev.ResumeFunctionMade, ...]:
        """The functions that go on after a break."""
        return self.recording.resume_functions

    def __iter__(self) -> Iterator[Any]:
        return iter((str(self), self.out_guards, self.graphs, self.ops_per_graph))

    def __str__(self) -> str:
        return text.explanation(self.recording)

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return html_text.mimebundle(self.recording)


def explain(
    fn: Callable[..., Any],
    /,
    *args: Any,
    backend: str | CompilerFn = "eager",
    nopython: bool = False,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Call `fn(*args, **kwargs)` under the engine; an `Explanation` of what was captured.

    `explain(fn)` alone gives a function that does it when it is called: `explain(f)()` for functions without
    arguments, and for those with a parameter named `backend`, `nopython` or `dynamic`.

    What the call prints and changes happens, once. An exception out of it is raised.

    >>> print(explain(lambda x: x + x, torch.ones(2)))
    Dynamo produced 1 graphs, with 0 graph break and 1 ops
    """
    options = Options(nopython, dynamic)
    if not args and not kwargs:
        return functools.partial(_explain, fn, backend, options)
    return _explain(fn, backend, options, *args, **kwargs)


def _explain(fn: Callable[..., Any], backend: str | CompilerFn, options: Options, /, *args: Any, **kwargs: Any) -> Explanation:
    target = optimized.original_of(fn)
    recording = Recording(title=_name_of(target))
    store = watched_store(backend, options, recording)
    graphs = store.graphs
    assert graphs is not None
    session = Session(target, args, kwargs, store, backend)
    explanation = Explanation(recording, (), session)
    counted = counters.snapshot()
    outer = native.enter(None)  # of nested regions the outer wins: be in none
    try:
        explanation.value = optimized.wrap(target, store.region)(*args, **kwargs)
    finally:
        native.leave(outer)
        _put_back(counted)
        explanation.graphs = list(graphs)
    return explanation


def watched_store(backend: str | CompilerFn, options: Options, recording: Recording) -> Store:
    """A new store that nobody else has, whose every step is recorded."""
    store = make_store(resolve(backend), options)
    store.recorder = recording
    store.graphs = []
    store.region.on_hit = functools.partial(reports.hit, store)
    return store


def _put_back(counted: Mapping[str, Mapping[str, int]]) -> None:
    counters.clear()
    for group, counts in counted.items():
        counters[group].update(counts)


def _name_of(target: Any) -> str:
    name = getattr(target, "__qualname__", None)
    return name if isinstance(name, str) else type(target).__qualname__


# -- asking more ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """A guard and a new input: "pass", "fail" (with expected and actual) or "not reached"."""

    guard: str
    verdict: Literal["pass", "fail", "not reached"]
    expected: str = ""
    actual: str = ""


@dataclass(frozen=True, slots=True)
class EntryVerdict:
    """A cache entry and a new input: whether it would hit, and each of its guards."""

    entry: int
    frame: int
    hits: bool
    guards: tuple[GuardVerdict, ...]


class Session:
    """The live side of a recording: the function (held weakly), the inputs of the call, the entries that it made.

    Nothing that is asked here touches what is cached elsewhere.
    """

    def __init__(
        self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], store: Store, backend: str | CompilerFn
    ) -> None:
        self._target = _weakly(target)
        self.args, self.kwargs = tuple(args), dict(kwargs)
        self.backend = backend
        self._store = store

    @property
    def function(self) -> Any:
        """The function or module. LookupError when it is gone."""
        target = self._target()
        if target is None:
            raise LookupError("the function of this recording is gone")
        return target

    @property
    def entries(self) -> list[CompiledEntry]:
        """Every cache entry that the recorded call made."""
        found = (entry for cache in self._store.native.caches() for entry in cache.entries)
        return [entry for entry in found if isinstance(entry, CompiledEntry)]

    def check(self, *args: Any, **kwargs: Any) -> list[EntryVerdict]:
        """Which entries of the function itself another call would hit, guard by guard. Runs nothing.

        Raises TypeError when the arguments do not fit the function.
        """
        function = self.function
        cache = self._cache_of(function)
        if cache is None:
            return []
        code = cache.code
        assert code is not None
        scope = _scope(function, code, args, kwargs)
        failed = {miss.entry: miss for miss in misses(cache, scope)}
        return [_verdict(entry, failed.get(entry), scope) for entry in cache.entries if isinstance(entry, CompiledEntry)]

    def capture(self, *args: Any, **kwargs: Any) -> Explanation:
        """What would be captured for other arguments: the function is called with them, in a fresh store."""
        return _explain(self.function, self.backend, self._store.options, *args, **kwargs)

    def _cache_of(self, function: Any) -> CodeCache | None:
        """The cache of the frame that the recorded call began with."""
        own = getattr(function, "__code__", None)
        entry_file = optimized.ENTRY_FILE
        for cache in self._store.native.caches():
            code = cache.code
            if code is not None and (code is own or (code.co_filename == entry_file and cache.entries)):
                return cache
        return None


def _weakly(target: Any) -> Callable[[], Any]:
    try:
        return weakref.WeakMethod(target) if isinstance(target, types.MethodType) else weakref.ref(target)
    except TypeError:
        return lambda: target


def _scope(function: Any, code: types.CodeType, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Scope:
    """The slots as a call would fill them."""
    names = argument_slots(code)
    if code.co_filename == optimized.ENTRY_FILE:
        values: dict[str, object] = {"self": function, "args": tuple(args), "kwargs": dict(kwargs)}
        values = {name: values[name] for name in names}
        cell = types.CellType(function)
        return Scope(values, tuple(cell for _ in code.co_freevars), {})
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    values = dict(bound.arguments)
    plain = getattr(function, "__func__", function)
    if plain is not function:
        values = {names[0]: function.__self__, **values}
    return Scope(values, plain.__closure__, plain.__globals__)


def _verdict(entry: CompiledEntry, miss: Any, scope: Scope) -> EntryVerdict:
    """Guards are checked in order: those before the one that fails pass, those after it are not reached."""
    found: list[GuardVerdict] = []
    if entry.state is not None:
        if miss is not None and miss.kind == "MODULE_STATE":
            found.append(GuardVerdict(f"{miss.source} MODULE_STATE", "fail", miss.expected, miss.actual))
        else:
            found.append(GuardVerdict("module state", "pass"))
    is_over = bool(found) and found[-1].verdict == "fail"
    for index, guard in enumerate(entry.guards.guards):
        if is_over:
            found.append(GuardVerdict(guard.text(), "not reached"))
        elif miss is not None and miss.index == index:
            found.append(GuardVerdict(guard.text(), "fail", miss.expected, miss.actual))
            is_over = True
        else:
            found.append(GuardVerdict(guard.text(), "pass"))
    return EntryVerdict(entry.number, entry.frame, miss is None and entry.guards.holds(scope), tuple(found))
