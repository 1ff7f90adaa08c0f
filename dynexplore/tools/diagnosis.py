"""Diagnosis: the same call with one more layer of the stack each time, until the result differs.

The idea: between a program and the hardware are the capture (this engine), AOTAutograd and a backend. `diagnose` runs the call in
eager mode; then captured, with each graph run uncompiled; then through AOTAutograd; then through the backend. If AOTAutograd fails,
the graphs passed to it also run uncompiled, because the engine's own passes after capture may be at fault. Values, gradients, and
mutations of arguments and modules are compared with those of the eager run. The first stage that differs or raises is the layer at
fault, and its row shows what to do next. Internal errors of the engine are raised, without a fallback. A nondeterministic program
is not reported as wrong: only type, dtype and shape of its results are compared, and the report says so.

Only what was run is reported as right: sizes are symbols only if `dynamic` says so, and only the given inputs are tried; the report
lists both.

In: a function and its arguments, and those of further calls. Out: `Diagnosis`: the stages with their time and memory, the failing
one if any, and if AOTAutograd ran, the peak memory of the graphs.

PyTorch's counterpart: `CompilerBisector` in torch/_inductor/compiler_bisector.py, which searches backends and passes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.counters import counters
from dynexplore.engine.errors import BackendCompilerError, EngineError, MissingBackendPackage, MissingCompiler
from dynexplore.engine.events import clip, wrapped
from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.api import make_store
from dynexplore.engine.runtime.backend_failures import cause_of
from dynexplore.engine.runtime.backends import CompilerFn, inductor_settings, resolve
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.runtime.missing_compiler import missing_compiler
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.engines import DYNEXPLORE, TORCH
from dynexplore.recording.memory import Memory
from dynexplore.recording.recording import Recording
from dynexplore.session import torch_compiled
from dynexplore.session.session import watched_store
from dynexplore.tools.accuracy import Difference, common_parts, first_difference, named_parts
from dynexplore.tools.graph_failure import same_random_numbers
from dynexplore.tools.process_memory import MemoryPeak, as_text
from dynexplore.views import html_report
from dynexplore.views.counts import plural

_ANY = float("inf")
"""An infinite tolerance: any values are accepted."""

Compile = Callable[[Any, "bool | None"], Any]
"""A backend and the `dynamic` option -> the function to call, captured by one engine or the other."""

_NEXT = {
    "plain Python": "The program fails without any compiler: fix it first.",
    "capture": "The bug is in dynexplore's engine. dynexplore.explain(f, ...) shows where its trace differs from the program;"
    " dynexplore.record_frame(f, ...) saves the frame for a report. Please report it.",
    "capture by torch.compile": "The bug is in torch.compile's capture. dynexplore.explain(f, ..., engine='torch.compile') shows"
    " its steps. Please report it to PyTorch.",
    "lowering": "The bug is in a pass between capture and backend (engine/aliasing/lowerings.py). Please report it.",
    "AOTAutograd": "The captured graphs are correct, but AOTAutograd's forward or backward graphs are not."
    " dynexplore.minify(f, ..., backend='aot_eager') reduces the problem to a small program.",
    "backend": "The graphs are correct, so the bug is in the backend."
    " dynexplore.minify(f, ...{options}) reduces the problem to a small program.{of}",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of the call: `layer` is what it adds to the previous stage, `failure` what went wrong ("" for nothing), `missing`
    what is not installed, so that it could not be tried.

    `first_seconds` and `seconds` are the wall time of the first call (including compilation) and of the next, `memory` the peak
    memory in bytes of the first call.
    """

    layer: str
    backend: str
    failure: str
    first_seconds: float = 0.0
    seconds: float = 0.0
    memory: int | None = None
    missing: str = ""

    @property
    def verdict(self) -> str:
        """The verdict in one word."""
        return "absent" if self.missing else "fails" if self.failure else "ok"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of `diagnose`. `print` it; in a notebook it is a table.

    `failing` is the first stage that raised or differed from eager; None if all agree. `advice` is the next step. `unsteady`
    describes where eager itself is nondeterministic ("" for a deterministic program). `memory` is the memory of the graphs in
    forward and backward (`recording.memory`); empty if AOTAutograd was not run, and for torch.compile. `engine` is whose capture
    was tried, `dynamic` its option for sizes, `calls` how many inputs were tried. `freed` are the positions of results whose
    gradients were not compared, because the call's own backward frees their graph once it is compiled; `results` is the number of
    results. `is_complete` is False if the call can reach more objects than are restored between runs. `iterators` are the names of
    those that it can advance: they are not set back.
    """

    function: str
    stages: tuple[Stage, ...]
    advice: str
    unsteady: str = ""
    memory: Memory = field(default_factory=Memory)
    engine: str = DYNEXPLORE
    dynamic: bool | None = None
    calls: int = 1
    freed: tuple[int, ...] = ()
    results: int = 1
    is_complete: bool = True
    iterators: tuple[str, ...] = ()

    @property
    def failing(self) -> Stage | None:
        """The first failing stage."""
        return next((stage for stage in self.stages if stage.failure), None)

    def __str__(self) -> str:
        lines = [f"{'stage':<14}{'backend':<28}{'':<7}{'first call':>12}{'next call':>12}{'memory':>12}"]
        lines += ["".join((f"{row[0]:<14}{row[1]:<28}{row[2]:<7}", *(f"{cell:>12}" for cell in row[3:]))) for row in self._rows()]
        conclusion = (wrapped(line, 4) for line in self._conclusion())
        return "\n".join([self._title, *(line.rstrip() for line in lines), *conclusion])

    @property
    def _title(self) -> str:
        whose = "" if self.engine == DYNEXPLORE else f", captured by {self.engine}"
        return f"Diagnosis of {self.function}{whose}{self._tried()}"

    def _tried(self) -> str:
        """The options beyond a single call, in words."""
        sizes = "" if self.dynamic is None else f", dynamic={self.dynamic}"
        return sizes + (f", {self.calls} calls" if self.calls > 1 else "")

    def _not_tried(self) -> list[str]:
        """What was not tried, in words; sizes become symbols automatically once a call has different ones."""
        if self.calls > 1 or self.dynamic:
            return []
        return [
            "Only one input was tested, with static shapes. Pass calls=[...] to test more, or dynamic=True to test dynamic shapes."
        ]

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for stage in self.stages:
            times = (_milliseconds(stage.first_seconds), _milliseconds(stage.seconds))
            yield stage.layer, stage.backend, stage.verdict, *times, as_text(stage.memory)

    def _conclusion(self) -> list[str]:
        steady = [f"Values could not be compared: plain Python returns a different value each time ({self.unsteady})."]
        steady += [advanced(self.iterators)] if self.iterators else []
        steady = ["", *steady] if self.unsteady else []
        if not self.is_complete:
            steady += ["", "The call can reach more objects than are restored between runs: a later run may find changed state."]
        if self.failing is None:
            tested = "Every stage that could be tested" if self._missing() else "Every stage"
            matches = "runs" if self.unsteady else "matches plain Python"
            agree = f"{tested} {matches}{', as far as it was compared' if self.freed else ''}."
            return [*steady, "", agree, *self._freed(), *self._not_tried(), *self._missing(), *self._memory()]
        return [*steady, "", f"First failing stage: {self.failing.layer}", f"  {self.failing.failure}", f"  next: {self.advice}"]

    def _freed(self) -> list[str]:
        """Which gradients were not compared, and why."""
        if not self.freed:
            return []
        listed = ", ".join(map(str, self.freed))
        named = "the result" if self.results == 1 else f"result {listed}" if len(self.freed) == 1 else f"results {listed}"
        why = f"No gradients were compared for {named}: the call's own backward frees the graph. "
        shared = "With AOTAutograd, all results of a compiled function share one graph: a second backward raises, even where eager"
        return [f"{why}{shared} mode runs it; retain_graph=True keeps the graph."]

    def _missing(self) -> list[str]:
        return [f"{stage.layer} was not tested. {stage.missing}" for stage in self.stages if stage.missing]

    def _memory(self) -> list[str]:
        """The graph with the largest memory, in one line."""
        graphs = [graph for graph in self.memory if graph.peak is not None]
        if not graphs:
            return []
        most = max(graphs, key=lambda graph: graph.peak.bytes if graph.peak else 0)
        which = f" (the largest of {len(self.memory)} graphs)" if len(self.memory) > 1 else ""
        return [f"Memory{which}: {'; '.join(most.lines())}."]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = ("stage", "backend", "", "first call", "next call", "memory")
        table = html_report.rows(head, self._rows(), self._title)
        return html_report.report(table, *map(html_report.line, self._conclusion()))


def advanced(iterators: Sequence[str]) -> str:
    """Why runs of a call with iterators differ, in a sentence.

    >>> advanced(["batches"])
    'The call can advance the iterator `batches`, which cannot be set back between runs.'
    """
    first = f"`{iterators[0]}`" if iterators[0] else "that it gets"
    others = f" and {plural(len(iterators) - 1, 'other')}" if len(iterators) > 1 else ""
    return f"The call can advance the iterator {first}{others}, which cannot be set back between runs."


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds else "-"


def diagnose(
    fn: Callable[..., Any],
    /,
    *args: Any,
    backend: str | CompilerFn | None = None,
    tolerance: float | None = None,
    engine: str | None = None,
    dynamic: bool | None = None,
    calls: Sequence[Any] = (),
    **kwargs: Any,
) -> Diagnosis:
    """Find the first stage that fails or returns a wrong result: eager mode, capture, AOTAutograd or the backend.

    Args: fn: a function, bound method or module, called several times, on copies of the other arguments, so that its output
    appears several times. backend: the backend to test, by name or as a callable; by default the one that fn is compiled with, or
    "inductor". tolerance: the allowed difference of results, relative to the largest element; None: what the rounding errors of
    the dtype explain (accuracy.ALLOWED). engine: the engine whose capture is tested, "dynexplore" or "torch.compile"; by default
    torch.compile if it compiled fn, and otherwise dynexplore. dynamic: as in `optimize`; by default the setting that fn was
    compiled with. calls: further calls to the same compiled function, each a tuple of arguments or the one argument, for example
    with other sizes. Each starts from the same state as the first one.

    Afterwards, the state of all modules and optimizers that the call can reach is restored.

    Raises InvalidBackend for an unknown backend. If the call raises an exception, the exception is part of the diagnosis.

    >>> print(diagnose(lambda x: x * 2, torch.ones(2), backend="eager").failing)
    None
    """
    backend = torch_compiled.suspected(backend, fn)
    resolve(backend)  # an unknown name is the caller's mistake, not a finding
    chosen_engine = torch_compiled.chosen_by_parts(engine, fn)
    dynamic = torch_compiled.dynamic_of(fn) if dynamic is None else dynamic
    with torch_compiled.uncompiled(fn):
        inside = torch_compiled.original_of(fn)
        compiled = functools.partial(_compiled, inside) if chosen_engine == DYNEXPLORE else functools.partial(_by_torch, fn)
        inputs = [(args, kwargs), *((_arguments(call), {}) for call in calls)]
        starts = [CallSnapshot(inside, *call) for call in inputs]
        return _Search(inside, starts, compiled, chosen_engine, backend, tolerance, dynamic).run()


def _arguments(call: Any) -> tuple[Any, ...]:
    return tuple(call) if isinstance(call, tuple | list) else (call,)


@dataclass
class _Search:
    """Runs stage after stage, until one fails; its inputs are the states that the calls start from."""

    fn: Any
    starts: list[CallSnapshot]
    compiled: Compile
    engine: str
    backend: str | CompilerFn
    tolerance: float | None
    dynamic: bool | None
    freed: set[int] = field(default_factory=set)

    def run(self) -> Diagnosis:
        """Run the stages; return the diagnosis."""
        plain, expected, unsteady = _run_plain(self.fn, self.starts, self.tolerance)
        stages = [plain]
        known_failures: set[str] = set()  # of operators, caught by the program itself
        counted = counters.snapshot()
        for layer, chosen in _layers(self.backend):
            if stages[-1].failure or expected is None:
                break
            counters["graph_failure"].clear()
            stage = self._stage(layer, chosen, expected, bool(unsteady))
            raised = set(counters["graph_failure"])
            stages.append(_raised_by_a_graph(stage, raised - known_failures) if layer != "capture" else stage)
            known_failures |= raised
            if stages[-1].failure and layer == "AOTAutograd" and self.engine == DYNEXPLORE:
                lowered = self._stage("lowering", _run_lowered, expected, bool(unsteady))
                stages[-1:] = [lowered] if lowered.failure else [lowered, stages[-1]]
        ran_aot = any(stage.layer == "AOTAutograd" for stage in stages)
        agree = self.engine == DYNEXPLORE and not stages[-1].failure and ran_aot
        memory = _memory_of(self.fn, self.starts[0], expected[0].sources) if agree and expected else Memory()
        self.starts[0].fresh()
        counters.restore(counted)
        failing = stages[-1].layer if stages[-1].failure else ""
        by_torch = failing == "capture" and self.engine == TORCH
        advice = _advice("capture by torch.compile" if by_torch else failing, self.backend)
        name = optimized.name_of(self.fn)
        freed, results = tuple(sorted(self.freed)), len(tree_leaves(expected[0].value)) if expected else 1
        complete = all(start.is_complete for start in self.starts)
        return Diagnosis(
            name, tuple(stages), advice, unsteady, memory, self.engine, self.dynamic, len(self.starts), freed, results, complete,
            tuple(self.starts[0].iterators),
        )  # fmt: skip

    def _stage(self, layer: str, backend: str | CompilerFn, expected: list[_Outcome], is_unsteady: bool) -> Stage:
        """Run one more layer: the first call, the next one with the same inputs, then the further ones."""
        name = resolve(backend).name
        allowed = _ANY if is_unsteady else self.tolerance
        measured = _Measured()
        try:
            failure, second = self._tried(backend, expected, allowed, measured)
        except MissingCompiler as error:
            return dataclasses.replace(measured.stage(layer, name, ""), missing=str(error))
        except Exception as error:  # any exception is a finding
            absent = missing_compiler(error)
            return dataclasses.replace(measured.stage(layer, name, "" if absent else _words(error)), missing=absent)
        return measured.stage(layer, name, failure, second)

    def _tried(
        self, backend: str | CompilerFn, expected: list[_Outcome], allowed: float | None, measured: _Measured
    ) -> tuple[str, float]:
        """The failure of one more layer, and the time of its second call. If the call runs a backward itself, a compiled one may
        free graphs that eager mode keeps: then fewer results are the beginning of a backward, in both.
        """
        try:
            return self._tried_once(backend, expected, allowed, measured)
        except RuntimeError as error:
            if not _is_freed(error) or not any(outcome.ran_backward for outcome in expected):
                raise
        fewer, freed = self._with_fewer_sources(backend, expected)
        failure, second = self._tried_once(backend, fewer, allowed, measured)
        if not failure:
            expected[:] = fewer
            self.freed |= freed
        return failure, second

    def _with_fewer_sources(self, backend: str | CompilerFn, expected: list[_Outcome]) -> tuple[list[_Outcome], set[int]]:
        """What to expect of backwards from the results whose graph is still there after the compiled call; the other results."""
        called = self.compiled(backend, self.dynamic)
        fewer, freed = [], set()
        for start, outcome in zip(self.starts, expected, strict=True):
            with _as_compilers_are_tested(backend):
                sources = _sources_of(called, start, outcome.sources, _is_freed)
            freed |= set(outcome.sources).difference(sources)
            fewer.append(dataclasses.replace(_observe(self.fn, start, sources)[0], ran_backward=outcome.ran_backward))
        return fewer, freed

    def _tried_once(
        self, backend: str | CompilerFn, expected: list[_Outcome], allowed: float | None, measured: _Measured
    ) -> tuple[str, float]:
        called = self.compiled(backend, self.dynamic)
        with _as_compilers_are_tested(backend):
            with measured:
                outcome = _observe(called, self.starts[0], expected[0].sources)[0]
            again, second = _observe(called, self.starts[0], expected[0].sources)
            difference = _compared(expected[0], outcome, allowed) or _compared(expected[0], again, allowed)
            failure = str(difference or "")
            for number, (start, reference) in enumerate(zip(self.starts[1:], expected[1:], strict=True), 2):
                difference = None if failure else _compared(reference, _observe(called, start, reference.sources)[0], allowed)
                failure = failure or (f"in call {number}, {difference}" if difference else "")
        return failure, second


def _memory_of(fn: Any, start: CallSnapshot, sources: tuple[int, ...]) -> Memory:
    """The memory of each graph's forward and backward: in a further call, with the compiler watched, since times are taken
    unwatched.
    """
    recording = Recording()
    region = watched_store("aot_eager", Options(), recording, real=False).region
    with config.patch(artifacts=("memory",)), _as_compilers_are_tested("aot_eager"):
        _observe(optimized.wrap(fn, region), start, sources)
    return recording.memory


def _raised_by_a_graph(stage: Stage, raised: set[str]) -> Stage:
    """An exception of a compiled graph: the engine falls back to plain Python for that segment, but it is still a finding."""
    if stage.failure or not raised:
        return stage
    return dataclasses.replace(stage, failure=f"a compiled graph raises {min(raised)} when it is called")


def _run_lowered(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """A backend that runs the graphs passed to a backend, uncompiled."""
    run: Callable[..., Any] = graph.forward
    return run


def _layers(backend: str | CompilerFn) -> list[tuple[str, str | CompilerFn]]:
    layers: list[tuple[str, str | CompilerFn]] = [("capture", "eager")]
    if backend != "eager":
        layers.append(("AOTAutograd", "aot_eager"))
    if backend not in ("eager", "aot_eager"):
        layers.append(("backend", backend))
    return layers


def _advice(layer: str, backend: str | CompilerFn) -> str:
    if layer not in _NEXT:
        return ""
    settings = inductor_settings(backend)
    name = repr(backend) if isinstance(backend, str) else resolve(backend).name
    options = "" if settings else f", backend={name}"  # the name alone would be Inductor without them
    options += ", after='aot'" if settings is not None else ""
    return _NEXT[layer].format(options=options, of=" Pass the compiled f: its mode and options apply." if settings else "")


# -- one stage -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Outcome:
    """The result of one call, and everything that it mutated. `sources`: the positions of the results that a backward began at;
    `ran_backward`: whether the plain call itself runs one.
    """

    value: Any
    arguments: Any
    input_gradients: list[torch.Tensor | None]
    reached: dict[str, dict[str, torch.Tensor]]
    sources: tuple[int, ...]
    ran_backward: bool = False
    counts: dict[str, int] = field(default_factory=dict)


def _run_plain(fn: Any, starts: list[CallSnapshot], tolerance: float | None) -> tuple[Stage, list[_Outcome] | None, str]:
    """Run the first stage; return what to expect of the others, call by call, and how two eager runs differ, if they do."""
    measured = _Measured()
    try:
        first = _observe_plain(fn, starts[0], measured)
        expected = [first, *(_observe_plain(fn, start) for start in starts[1:])]
        again, second = _observe(fn, starts[0], first.sources)
        further = zip(starts[1:], expected[1:], strict=True)
        repeated = [again, *(_observe(fn, start, outcome.sources)[0] for start, outcome in further)]
    except Exception as error:  # any exception is a finding
        return measured.stage("plain Python", "-", _words(error)), None, ""
    differences = (_compared(first_run, second_run, tolerance) for first_run, second_run in zip(expected, repeated, strict=True))
    unsteady = str(next(filter(None, differences), ""))
    return measured.stage("plain Python", "-", "", second), expected, unsteady


class _Measured:
    """Time and memory of the first call, even if it raises."""

    def __init__(self) -> None:
        self._memory = MemoryPeak()
        self._begun = self._seconds = 0.0

    def __enter__(self) -> None:
        self._memory.__enter__()
        self._begun = time.perf_counter()

    def __exit__(self, *exc: Any) -> None:
        self._seconds = time.perf_counter() - self._begun
        self._memory.__exit__(*exc)

    def stage(self, layer: str, backend: str, failure: str, next_seconds: float = 0.0) -> Stage:
        """Create the row."""
        return Stage(layer, backend, failure, self._seconds, next_seconds, self._memory.peak)


def _compiled(fn: Any, backend: str | CompilerFn, dynamic: bool | None) -> Any:
    """The function under the engine, in a separate store."""
    return optimized.wrap(fn, make_store(resolve(backend), Options(dynamic=dynamic)).region)


def _by_torch(fn: Any, backend: str | CompilerFn, dynamic: bool | None) -> Any:
    """The function under torch.compile, freshly compiled."""
    return torch_compiled.compiled_anew(fn, backend, dynamic=dynamic)


@contextlib.contextmanager
def _as_compilers_are_tested(backend: Any) -> Iterator[None]:
    """Raise internal errors, and draw the random numbers of eager mode."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(config.patch(raise_engine_errors=True, log_level="ERROR"))
        stack.enter_context(same_random_numbers(backend))
        yield


def _observe(called: Any, start: CallSnapshot, sources: tuple[int, ...] | None = None) -> tuple[_Outcome, float]:
    """Call, and run a backward from these results; None: from all that have a graph."""
    args, kwargs = start.fresh()
    outer = native.enter(None)  # of nested regions the outermost wins: leave all of them
    try:
        begun = time.perf_counter()
        value = called(*args, **kwargs)
        sources = _with_graph(value) if sources is None else sources
        _run_backward(value, sources)
        seconds = time.perf_counter() - begun
    finally:
        native.leave(outer)
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    gradients = [leaf.grad if leaf.is_leaf else None for leaf in inputs]
    return _Outcome(value, (args, kwargs), gradients, start.reached(), sources, counts=start.counts()), seconds


def _observe_plain(fn: Any, start: CallSnapshot, measured: contextlib.AbstractContextManager[None] | None = None) -> _Outcome:
    """The outcome of a call with a backward from each result whose graph allows one: a training step runs its own backward, which
    frees what the graph saved, and its optimizer changes it. Whether a graph allows one, only a backward tells: to read what it
    saved runs hooks (a checkpoint computes its forward again).
    """
    backwards: list[None] = []
    called = functools.partial(_noting_backwards, backwards, fn)
    try:
        with measured or contextlib.nullcontext():
            outcome = _observe(called, start)[0]
    except RuntimeError as error:
        if not _is_used_up(error):
            raise
        outcome = _observe(called, start, _sources_of(fn, start))[0]
    return dataclasses.replace(outcome, ran_backward=bool(backwards))


def _noting_backwards(backwards: list[None], fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call in plain Python, and note each backward that begins meanwhile: all of them pass one function of torch."""
    namespace = vars(torch.autograd)
    engine = namespace.get(_RUN_BACKWARD)
    if engine is None:  # another torch: no backward is noted, so that no result is left out
        return fn(*args, **kwargs)

    @functools.wraps(engine)
    def counting(*roots: Any, **options: Any) -> Any:
        backwards.append(None)
        return engine(*roots, **options)

    namespace[_RUN_BACKWARD] = counting
    try:
        return fn(*args, **kwargs)
    finally:
        namespace[_RUN_BACKWARD] = engine


_RUN_BACKWARD = "_engine_run_backward"


def _sources_of(
    fn: Any, start: CallSnapshot, among: tuple[int, ...] | None = None, is_left_out: Callable[[RuntimeError], bool] | None = None
) -> tuple[int, ...]:
    """The positions of the results that a backward can begin at, tried on a further call: in groups, halved where they fail."""
    is_left_out = is_left_out or _is_used_up
    args, kwargs = start.fresh()
    outer = native.enter(None)
    try:
        value = fn(*args, **kwargs)
        sources: list[int] = []
        waiting = [_with_graph(value) if among is None else among]
        while waiting:
            group = waiting.pop()
            try:
                _run_backward(value, group, retain_graph=True)
                sources += group
            except RuntimeError as error:
                if not is_left_out(error):
                    raise
                middle = len(group) // 2
                waiting += [group[:middle], group[middle:]] if middle else []
    finally:
        native.leave(outer)
    return tuple(sorted(sources))


def _is_used_up(error: RuntimeError) -> bool:
    """Whether a backward failed because the graph's saved tensors were freed, or changed in place."""
    return _is_freed(error) or "modified by an inplace operation" in str(error)


def _is_freed(error: RuntimeError) -> bool:
    """Whether a backward failed because an earlier one had freed the graph."""
    return "Trying to backward through the graph a second time" in str(error)


def _with_graph(value: Any) -> tuple[int, ...]:
    return tuple(at for at, leaf in enumerate(tree_leaves(value)) if _has_graph(leaf))


def _has_graph(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.grad_fn is not None


def _run_backward(value: Any, sources: tuple[int, ...], *, retain_graph: bool = False) -> None:
    """Compute the gradients of these results at once, with differing weights, so that errors do not cancel."""
    leaves = dict(enumerate(tree_leaves(value)))
    results = [leaves[at] for at in sources if _has_graph(leaves.get(at))]
    if results:
        weights = [torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape).to(result) for result in results]
        torch.autograd.backward(results, weights, retain_graph=retain_graph)


def _compared(expected: _Outcome, actual: _Outcome, tolerance: float | None) -> Difference | None:
    (positional, named), (actual_positional, actual_named) = expected.arguments, actual.arguments
    after = [(str(at), *pair) for at, pair in enumerate(zip(positional, actual_positional, strict=True))]
    after += [(f"`{name}`", named[name], actual_named[name]) for name in named]
    parts = (
        ("the value", expected.value, actual.value),
        ("the gradient of argument", expected.input_gradients, actual.input_gradients),
        ("the gradient of parameter", expected.reached["gradients"], actual.reached["gradients"]),
        *((f"after the call, argument {argument}", reference, candidate) for argument, reference, candidate in after),
        *named_parts("after the call", expected.reached["state"], actual.reached["state"]),
        *named_parts("after the call", *common_parts(expected.counts, actual.counts)),
    )
    differences = (first_difference(reference, candidate, tolerance, title) for title, reference, candidate in parts)
    return next(filter(None, differences), None)


def _words(error: Exception) -> str:
    """The first line of an exception's message (a compiler's may have thousands); of BackendCompilerFailed, the backend's."""
    error = cause_of(error)
    first = next(iter(str(error).strip().splitlines()), "")
    is_own_error = isinstance(error, EngineError | BackendCompilerError | MissingBackendPackage)
    return clip(first if is_own_error else f"raises {type(error).__name__}: {first}".rstrip(": "), 400)
