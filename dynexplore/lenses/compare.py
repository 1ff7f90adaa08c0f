"""compare: one function captured by every method, side by side.

The idea: each method captures the same call in a separate process, so that no method affects another, the program or this
engine. Then the same set of calls is run on each captured program.

In: a function, bound method or module, and arguments. Out: a `Comparison`. PyTorch's counterpart: none.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.lenses import isolation
from dynexplore.lenses.comparison import Comparison
from dynexplore.lenses.examination import EagerRun, Trial, examine, in_eager
from dynexplore.lenses.jit_script import JitScript
from dynexplore.lenses.jit_trace import JitTrace
from dynexplore.lenses.lazy_tensors import LazyTensors
from dynexplore.lenses.lens import Lens
from dynexplore.lenses.outcome import Outcome, Probe
from dynexplore.lenses.probes import AS_GIVEN, SECOND, variants
from dynexplore.lenses.symbolic_trace import SymbolicTrace
from dynexplore.lenses.this_engine import ThisEngine
from dynexplore.lenses.torch_compile import TorchCompile
from dynexplore.lenses.torch_export import TorchExport
from dynexplore.session import torch_compiled

LENSES: tuple[Lens, ...] = (
    SymbolicTrace(),
    JitTrace(),
    JitScript(),
    LazyTensors(),
    TorchExport(),
    TorchCompile(),
    ThisEngine(),
)
"""Every method, ordered from those that analyze Python least to those that read its bytecode."""


class NothingToCompare(ValueError):
    """The method is unknown, or the call raises in eager. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a comparison; see `compare`."""

    methods: tuple[str, ...] | None = None
    second: tuple[Any, ...] | None = None
    seconds: float = 120.0
    dynamic: bool | None = None


def compare(
    fn: Callable[..., Any],
    /,
    *args: Any,
    methods: Sequence[str] | None = None,
    second: Sequence[Any] | None = None,
    seconds: float = 120.0,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Capture `fn(*args, **kwargs)` with every method of PyTorch and with this engine, and return a `Comparison`.

    Args: fn: a function, bound method or module. methods: the keys of the methods to use ("fx", "jit.trace", "jit.script", "lazy",
    "export", "dynamo", "dynexplore"); None: all. second: positional arguments of one additional call, if the generated ones
    (negated, other sizes, other numbers) do not cover the case of interest. seconds: the time limit of each method. dynamic:
    whether torch.compile and dynexplore treat sizes as symbolic, as in `optimize`.

    Each captured program is run on the given call and on the generated ones, and its results are compared with eager's. Every
    method runs in a forked process: the program, its modules, random number generators and caches do not change.

    `compare(fn)` without arguments returns a function that performs the comparison when it is called, as `explain(fn)` does.

    Raises TypeError for an object that is not callable, ValueError for an unknown method and for a call that raises in eager.

    >>> import torch
    >>> comparison = compare(lambda x: x.abs() + 1, torch.ones(2), methods=["fx", "dynexplore"])
    >>> comparison["fx"].operators, comparison["dynexplore"].operators, comparison["fx"].agrees
    (('abs', 'add'), ('abs', 'add'), True)
    """
    settings = Settings(None if methods is None else tuple(methods), None if second is None else tuple(second), seconds, dynamic)
    target = torch_compiled.original_of(fn)
    if not callable(target):
        raise TypeError(f"compare takes a function, a bound method or an nn.Module, not {type(fn).__name__}")
    lenses = list(_chosen(settings.methods))
    if not args and not kwargs:
        return functools.partial(_compare, target, lenses, settings)
    return _compare(target, lenses, settings, *args, **kwargs)


def _chosen(methods: tuple[str, ...] | None) -> Iterator[Lens]:
    lens_of = {lens.key: lens for lens in LENSES} | {lens.name: lens for lens in LENSES}
    for unknown in [name for name in methods or () if name not in lens_of]:
        raise NothingToCompare(f"there is no method {unknown!r}; there are {', '.join(lens.key for lens in LENSES)}")
    for lens in LENSES:
        if methods is None or lens.key in methods or lens.name in methods:
            yield lens


def _compare(fn: Callable[..., Any], lenses: Sequence[Lens], settings: Settings, /, *args: Any, **kwargs: Any) -> Comparison:
    with torch_compiled.uncompiled(fn):
        return _compared(fn, lenses, settings, args, kwargs)


def _compared(fn: Any, lenses: Sequence[Lens], settings: Settings, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Comparison:
    against = isolation.reason_against()
    alone = isolation.here if against else isolation.in_a_child
    _prepare(lenses)
    trials = list(_trials(fn, settings, args, kwargs))
    name = optimized.name_of(fn)
    try:
        eager_runs, outcomes = _everything(fn, lenses, trials, settings, alone)
    except isolation.ChildFailed as error:
        raise NothingToCompare(f"there is nothing to compare: {name} in eager: {error}") from None
    finally:
        trials[0].start.fresh()
    eager = eager_runs[0][1]
    if eager.answer.raised:
        raise NothingToCompare(f"there is nothing to compare: in eager, this call to {name} raises {eager.answer.raised}")
    probes = [
        Probe(label, run.operators != eager.operators, run.seconds, run.path != eager.path) for label, run in eager_runs
    ]
    note = f"All methods ran in the program's own process, because {against}. What they cached remains there." if against else ""
    return Comparison(name, probes, outcomes, note)


def _prepare(lenses: Sequence[Lens]) -> None:
    """Import what the methods need once in the parent, because otherwise each child would import it. Importing runs nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for lens in lenses:
            if lens.key != "lazy":  # the backend's threads must start in the process that uses them
                lens.prepare()


def _everything(
    fn: Callable[..., Any], lenses: Sequence[Lens], trials: Sequence[Trial], settings: Settings, alone: Callable[..., Any]
) -> tuple[list[tuple[str, EagerRun]], list[Outcome]]:
    """Run eager first and each method after it; a call that raises in eager is tried only if the user requested it."""
    runs: list[EagerRun] = alone(lambda: in_eager(fn, trials), settings.seconds)
    pairs = [(trial, run) for trial, run in zip(trials, runs, strict=True) if not run.answer.raised or trial.name == SECOND]
    if runs[0].answer.raised:
        return [(trials[0].name, runs[0])], []
    outcomes = [_outcome(lens, fn, pairs, settings, alone) for lens in lenses]
    return [(trial.name, run) for trial, run in pairs], outcomes


def _trials(fn: Any, settings: Settings, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Trial]:
    yield Trial(AS_GIVEN, CallSnapshot(fn, args, kwargs))
    if settings.second is not None:
        yield Trial(SECOND, CallSnapshot(fn, settings.second, kwargs))
    for name, other_args, other_kwargs in variants(args, kwargs):
        yield Trial(name, CallSnapshot(fn, other_args, other_kwargs))


def _outcome(
    lens: Lens, fn: Any, eager_runs: Sequence[tuple[Trial, EagerRun]], settings: Settings, alone: Callable[..., Any]
) -> Outcome:
    about = (lens.key, lens.name, lens.works_on, lens.how, lens.purpose)
    if alone is isolation.here and lens.key == "lazy":
        return Outcome(*about, failure="the lazy backend needs a separate process, which cannot be started here")
    trials, answers = [trial for trial, _ in eager_runs], [run.answer for _, run in eager_runs]
    try:
        outcome: Outcome = alone(lambda: examine(lens, fn, trials, answers, settings.dynamic), settings.seconds)
    except isolation.ChildFailed as error:
        return Outcome(*about, failure=f"{lens.name} could not be tried: {error}")
    return outcome
