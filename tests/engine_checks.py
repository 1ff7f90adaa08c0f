"""The main claim as one call: a function under the engine does what it does without, in so many graphs and breaks.

Which idea lives here: `assert_same_as_eager` runs a function twice in two separate worlds, once as plain Python and
once under `dynexplore.optimize`, and compares everything that a program can notice: values, types, identities, shared
memory, changes to arguments, exceptions and their tracebacks, what was printed and warned, gradients, random
numbers and torch's global modes afterwards. Then it counts graphs, operators, breaks and recompiles.

In:  a function, bound method or nn.Module and its arguments, which are copied and never touched.
Out: a `Report` with the captured graphs; an AssertionError that lists all differences and prints the break report.

PyTorch's counterpart: `standard_test` and CompileCounter in torch/_dynamo/testing.py.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import importlib
import io
import os
import random
import re
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from seeding import seed_everything

import dynexplore
from dynexplore.engine.graph_breaks import KINDS
from sameness import differences, object_numbers, tensors_in, with_numbered_objects

_PACKAGE = os.path.join(os.path.dirname(dynexplore.__file__), "")  # a checkout may lie in a folder of any name
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
Place = tuple[str, str, int | None, int | None, int | None, int | None]
"""An entry of a traceback: file, function, first and last line, first and last column."""


class CountingBackend:
    """A backend that keeps the graphs it is given and lets another one compile them.

    >>> backend = CountingBackend("eager")
    >>> dynexplore.optimize(backend)(torch.nn.Identity())(torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, inner: str | Callable[..., Any] = "eager") -> None:
        self.inner = inner
        self.graphs: list[torch.fx.GraphModule] = []
        self.runs = 0

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Keep the graph, and return what the inner backend makes of it, counting its runs."""
        self.graphs.append(graph)
        compiled = self._compile(graph, example_inputs)

        def run(*inputs: Any) -> Any:
            self.runs += 1
            return compiled(*inputs)

        return run

    def _compile(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if self.inner == "eager":
            return graph.forward
        if isinstance(self.inner, str):
            backends = importlib.import_module("dynexplore.engine.runtime.backends")
            return backends.lookup(self.inner)(graph, example_inputs)  # type: ignore[no-any-return]
        return self.inner(graph, example_inputs)  # type: ignore[no-any-return]

    @property
    def ops(self) -> list[int]:
        """The number of operators of each graph: its call_function nodes, as PyTorch counts them."""
        return [count_ops(graph) for graph in self.graphs]

    def targets(self) -> list[list[str]]:
        """The names of the functions and methods that each graph calls, in order."""
        return [[target_name(node) for node in graph.graph.nodes if is_call(node)] for graph in self.graphs]


def count_ops(graph: torch.fx.GraphModule) -> int:
    """The call_function nodes of one graph."""
    return sum(node.op == "call_function" for node in graph.graph.nodes)


def graphs_compiled() -> int:
    """How many graphs the engine has compiled since the last reset, whatever the backend: none where it is switched off."""
    return dynexplore.counters["stats"]["graphs"]


def is_call(node: torch.fx.Node) -> bool:
    """Whether a node calls something."""
    return node.op.startswith("call_")


def target_name(node: torch.fx.Node) -> str:
    """`add`, `sum`, `relu`: what a call node calls, in one word."""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


@dataclass
class Report:
    """What the engine made of the function: the graphs, and the counts that were compared."""

    value: Any
    graphs: list[torch.fx.GraphModule]
    ops: list[int]
    targets: list[list[str]]
    breaks: list[str]
    """The id of each graph break (its whole reason where it is no row of the table), sorted."""
    recompiles: int


@dataclass
class Call:
    """What one call of the function did that can be seen from outside."""

    value: Any = None
    exceptions: list[tuple[str, str]] = field(default_factory=list)
    """Type and message of the exception that came out, then of its causes and contexts."""
    tracebacks: list[list[Place]] = field(default_factory=list)
    """Where each of these exceptions, and of the contexts that they hide, was raised: file, function, lines and columns, from
    the first frame that `fn` began."""
    printed: str = ""
    warned: list[tuple[str, str, int]] = field(default_factory=list)
    observed: Any = None
    modes: dict[str, Any] = field(default_factory=dict)
    random_numbers: list[Any] = field(default_factory=list)


def assert_same_as_eager(
    fn: Callable[..., Any],
    *args: Any,
    graphs: int | range | None = None,
    breaks: int | Sequence[str] | None = None,
    ops: int | Sequence[int] | None = None,
    recompiles: int | None = None,
    calls: int = 1,
    then: Sequence[tuple[Any, ...]] = (),
    backend: str | Callable[..., Any] = "eager",
    setup: Callable[[], object] | None = None,
    observe: Callable[[], Any] | None = None,
    gradients: bool = True,
    **kwargs: Any,
) -> Report:
    """Assert that `fn(*args, **kwargs)` does the same under the engine as without, and how it was captured.

    Args:
        fn: a function, bound method, nn.Module or any callable. Modules and bound objects are copied, once per side.
        graphs: how many graphs were compiled, over all calls; None: at least one; 0: the engine looked at it, and there was none. A
            range only where the programs are drawn.
        breaks: how many graph breaks there were, or their ids (`["DX104", "DX104"]`), in any order.
        ops: how many call_function nodes all graphs hold together, or one number per graph, in order of compilation.
        recompiles: how many translations happened because a guard failed.
        calls: how often it is called with the same arguments; changes that a call makes are there in the next.
        then: more calls with other positional arguments, each called once, after those.
        backend: compiles the graphs; with another one than "eager" tensor values may differ by rounding.
        setup: run before either side starts, to reset what `fn` reaches through globals and closures.
        observe: called after each side; what it returns (a global list, say) is compared as well.
        gradients: whether to compare the gradients of the outputs, where an output requires grad.

    Example:
        >>> assert_same_as_eager(lambda x: torch.relu(x) + 1, torch.randn(3), graphs=1, ops=2, breaks=0)
    """
    dynexplore.reset()
    counting = CountingBackend(backend)
    series = [(args, kwargs)] * calls + [(more, kwargs) for more in then]
    sides: tuple[Callable[[Any], Any], ...] = (lambda own: own, dynexplore.optimize(counting))
    # on one line: a program may look at the stack
    eager, optimized = [_World(fn, series, setup, observe).run(wrap) for wrap in sides]
    problems = [
        f"call {number}: {problem}"
        for number, (expected, actual) in enumerate(zip(eager.calls, optimized.calls, strict=True), 1)
        for problem in _call_differences(expected, actual)
    ]
    problems += differences(eager.everything(), optimized.everything(), exact=backend == "eager")
    if gradients and not problems:
        problems += _gradient_differences(eager, optimized, exact=backend == "eager")
    report = Report(
        value=optimized.calls[-1].value,
        graphs=counting.graphs,
        ops=counting.ops,
        targets=counting.targets(),
        breaks=sorted(_ids_of_breaks()),
        recompiles=dynexplore.counters["stats"]["recompiles"],
    )
    problems += list(_count_differences(report, graphs, breaks, ops, recompiles))
    if problems:
        raise AssertionError(_failure_text(fn, problems, report, series))
    return report


class _World:
    """One side of the comparison: own copies of the function and of all arguments, and what the calls did."""

    def __init__(
        self,
        fn: Callable[..., Any],
        series: Sequence[Arguments],
        setup: Callable[[], object] | None,
        observe: Callable[[], Any] | None,
    ) -> None:
        self._setup, self._observe = setup, observe
        self._file = file_of(fn)
        distinct = list({id(one): one for one in series}.values())
        memo: dict[int, Any] = {}
        self.fn = with_own_closure(fn, memo) if isinstance(fn, types.FunctionType) else copied(fn, memo)
        copies = copied(distinct, memo)
        by_original = {id(one): own for one, own in zip(distinct, copies, strict=True)}
        self.series: list[Arguments] = [by_original[id(one)] for one in series]
        self.calls: list[Call] = []

    def run(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> _World:
        """Call the function once per set of arguments."""
        if self._setup is not None:
            self._setup()
        wrapped = wrap(self.fn)
        with _same_random_numbers(), _modes_put_back():
            for args, kwargs in self.series:
                self.calls.append(self._call(wrapped, args, kwargs))
        return self

    def _call(self, wrapped: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        call = Call()
        printed = io.StringIO()
        objects = object_numbers([self.fn, args, kwargs])  # they live during the call, so nothing else has their addresses
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed):
            warnings.simplefilter("always")
            try:
                call.value = wrapped(*args, **kwargs)
            except BaseException as error:
                if isinstance(error, (KeyboardInterrupt, dynexplore.exc.DynexploreError)):
                    raise
                call.exceptions = list(_chain(error, objects))
                call.tracebacks = tracebacks_of(error)
        call.printed = with_numbered_objects(printed.getvalue(), objects)
        call.warned = [(w.category.__name__, str(w.message), w.lineno) for w in warned if w.filename == self._file]
        _warn_again([w for w in warned if w.filename.startswith(_PACKAGE)])
        if self._observe is not None:
            call.observed = copied(self._observe())
        call.modes = global_modes()
        call.random_numbers = [torch.get_rng_state(), repr(random.getstate())]
        if numpy := sys.modules.get("numpy"):
            kind, words, *rest = numpy.random.get_state()
            call.random_numbers.append((kind, words.tobytes(), *rest))  # the repr of 624 words costs more than a capture
        return call

    def everything(self) -> dict[str, Any]:
        """All that the calls could have changed or made, as one world."""
        return {
            "arguments": self.series,
            "function": self.fn,
            "value": [call.value for call in self.calls],
            "observed": [call.observed for call in self.calls],
        }

    def gradients(self) -> Any:
        """The gradients of the sum of the last outputs in respect of every leaf among arguments and parameters."""
        outputs = [t for t in tensors_in(self.calls[-1].value) if t.requires_grad and t.grad_fn is not None]
        leaves = [t for t in tensors_in([self.series, self.fn]) if t.requires_grad and t.is_leaf]
        if not outputs or not leaves:
            return []
        total = sum((t.abs() if t.is_complex() else t).sum().to(torch.float64) for t in outputs)
        try:
            return torch.autograd.grad(total, leaves, allow_unused=True)  # type: ignore[arg-type]
        except RuntimeError as error:
            return f"{type(error).__name__}: {error}"


def file_of(fn: Callable[..., Any]) -> str:
    """The file that holds the code of a function, a bound method or a module's forward; "" where there is none."""
    code = getattr(fn, "__code__", None) or getattr(getattr(type(fn), "forward", type(fn).__call__), "__code__", None)
    return code.co_filename if code else ""


def copied(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """A deep copy in which tensors that are no leaves are clones, and what cannot be copied is shared."""
    memo = {} if memo is None else memo
    for tensor in tensors_in(value):
        if tensor.grad_fn is not None and id(tensor) not in memo:
            memo[id(tensor)] = tensor.clone()
    try:
        return copy.deepcopy(value, memo)
    except (TypeError, RuntimeError):
        if type(value) in (tuple, list):
            return type(value)(copied(part, memo) for part in value)
        if type(value) is dict:
            return {key: copied(part, memo) for key, part in value.items()}
        return value


def with_own_closure(fn: types.FunctionType, memo: dict[int, Any]) -> types.FunctionType:
    """A function of the same code and globals whose cells hold copies, so that two sides share no state."""
    if fn.__closure__ is None:
        return fn
    cells = tuple(types.CellType() for _ in fn.__closure__)
    own = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, cells)
    own.__kwdefaults__, own.__qualname__, own.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    own.__dict__.update(fn.__dict__)
    memo[id(fn)] = own  # a function may hold itself in a cell
    for cell, original in zip(cells, fn.__closure__, strict=True):
        with contextlib.suppress(ValueError):  # an empty cell stays empty
            cell.cell_contents = copied(original.cell_contents, memo)
    return own


def global_modes() -> dict[str, Any]:
    """The modes of torch that a call must leave as it found them."""
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    # each side starts from the same numbers, and the test goes on with the ones it had
    before = torch.get_rng_state(), random.getstate()
    seed_everything()
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])


@contextlib.contextmanager
def _modes_put_back() -> Iterator[None]:
    # a program may leave a mode set for good: the other side, and the next test, start without it
    before = global_modes()
    try:
        yield
    finally:
        torch.set_grad_enabled(before["grad"])
        torch.set_default_dtype(before["default dtype"])
        torch.use_deterministic_algorithms(before["deterministic"])


def _chain(error: BaseException, objects: Mapping[int, int]) -> Iterator[tuple[str, str]]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield type(current).__qualname__, with_numbered_objects(str(current), objects)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def tracebacks_of(error: BaseException) -> list[list[Place]]:
    """The traceback of an exception that was caught here, without the frame that caught it, and those of all that hang on it."""
    found: list[list[Place]] = []
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        entries = traceback.extract_tb(one.__traceback__)[one is error :]
        found.append([(at.filename, at.name, at.lineno, at.end_lineno, at.colno, at.end_colno) for at in entries])
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return found


def _warn_again(warned: Sequence[warnings.WarningMessage]) -> None:
    # a warning of the engine about itself is an error here, as any other warning in a test is
    for warning in warned:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _call_differences(expected: Call, actual: Call) -> Iterator[str]:
    for question in ("exceptions", "tracebacks", "printed", "warned", "modes"):
        wanted, got = getattr(expected, question), getattr(actual, question)
        if wanted != got:
            yield f"{question.replace('_', ' ')}: {wanted!r} expected, {got!r} found"
    yield from differences({"random numbers": expected.random_numbers}, {"random numbers": actual.random_numbers})


def _gradient_differences(eager: _World, optimized: _World, exact: bool) -> list[str]:
    return differences({"gradients": eager.gradients()}, {"gradients": optimized.gradients()}, exact=exact)


def _ids_of_breaks() -> Iterator[str]:
    for reason, count in dynexplore.graph_breaks().items():
        kinds = [kind for kind in KINDS.values() if re.fullmatch(re.escape(kind.title) + r"( \(.*\))?", reason)]
        yield from [kinds[0].id if kinds else reason] * count


def _count_differences(
    report: Report,
    graphs: int | range | None,
    breaks: int | Sequence[str] | None,
    ops: int | Sequence[int] | None,
    recompiles: int | None,
) -> Iterator[str]:
    if graphs is None and not dynexplore.counters["stats"].get("graphs"):  # some run as they stand, and no backend is asked
        yield "a graph was expected, none was compiled (`graphs=0` where there is to be none)"
    elif graphs is not None and not report.graphs and not dynexplore.counters["frames"]["total"]:
        yield f"{graphs} graphs were expected, 0 were compiled: not one frame was translated"
    elif graphs is not None and len(report.graphs) not in (graphs if isinstance(graphs, range) else (graphs,)):
        yield f"{graphs} graphs were expected, {len(report.graphs)} were compiled"
    if isinstance(breaks, int) and len(report.breaks) != breaks:
        yield f"{breaks} graph breaks were expected, {len(report.breaks)} happened: {report.breaks}"
    elif isinstance(breaks, Sequence) and collections.Counter(breaks) != collections.Counter(report.breaks):
        yield f"the graph breaks {sorted(breaks)} were expected, {report.breaks} happened"
    if isinstance(ops, int) and sum(report.ops) != ops:
        yield f"{ops} operators were expected, {sum(report.ops)} were captured: {report.targets}"
    elif isinstance(ops, Sequence) and list(ops) != report.ops:
        yield f"{list(ops)} operators per graph were expected, {report.ops} were captured: {report.targets}"
    if recompiles is not None and report.recompiles != recompiles:
        yield f"{recompiles} recompiles were expected, {report.recompiles} happened"


def _failure_text(fn: Callable[..., Any], problems: Sequence[str], report: Report, series: Sequence[Arguments]) -> str:
    name = getattr(fn, "__qualname__", type(fn).__qualname__)
    lines = [f"{name} under the engine is not what was expected:", *(f"  - {problem}" for problem in problems)]
    lines += [f"  graphs: {report.targets}", f"  breaks: {dynexplore.graph_breaks()}", "", _break_report(fn, series)]
    return "\n".join(lines)


def _break_report(fn: Callable[..., Any], series: Sequence[Arguments]) -> str:
    # for people only: whatever goes wrong in here must not hide what the test found
    try:
        world = _World(fn, series[:1], setup=None, observe=None)
        ((args, kwargs),) = world.series
        with contextlib.redirect_stdout(io.StringIO()):
            explanation = dynexplore.explain(world.fn, *args, **kwargs)
        return str(explanation)
    except Exception as error:
        return f"(no break report: {type(error).__name__}: {error})"
