"""Verdicts of torch's real guards on a call that is not made: which entry would hit, and which guard of the others fails.

The idea: torch.compile attaches its cache entries to the code object, each with its guard tree. The tree itself is evaluated, with
the locals that the frame of such a call would have; nothing is run or compiled, and the order of entries does not change. The
failing check is reported in this project's terms, with expected and actual value.

In: a function, the arguments of a call, a listener's facts about the entries.
Out: `TorchPrediction`: hit, recompile or first compile, and a `TorchVerdict` for each entry.

PyTorch's counterpart: `get_guard_fail_reason` in torch/_dynamo/guards.py.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynexplore.engine import events as ev
from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.raw_attributes import closure_values
from dynexplore.session.first_frame import slot_values
from dynexplore.traces import recompile_reasons
from dynexplore.traces.values_in_scope import Scope
from dynexplore.views.changes import change
from dynexplore.watching import private_torch


@dataclass(frozen=True, slots=True)
class TorchVerdict:
    """One entry: its number and frame in the recording (0: created before the watch began), whether it would hit, and the
    failing guard, as printed by torch and in words.
    """

    entry: int
    frame: int
    hits: bool
    check: str = ""
    failed: ev.GuardFailed | None = None

    def __str__(self) -> str:
        """The entry in one line."""
        name = f"entry {self.entry}" if self.entry else "an entry that is older than the recording"
        if self.hits:
            return f"{name}: hit"
        return f"{name}: guard fails: {change(self.failed) if self.failed is not None else self.check}"


@dataclass(frozen=True, slots=True)
class TorchPrediction:
    """What torch.compile would do with a call: `outcome` is "hit", "recompile" or "compile" (there is no entry yet).

    `entry` is the one that would hit (-1: none), `entries` are all, in the order in which torch tries them.
    """

    outcome: str
    entry: int
    entries: tuple[TorchVerdict, ...]

    def __str__(self) -> str:
        """The outcome, and a line for each entry that is tried."""
        return "\n".join([self.outcome, *(f"  {verdict}" for verdict in self.entries)])


class WatchedEntry:
    """A watch's facts about an entry: its number, its frame, the expected metadata of tensors, and the numbers of its guards."""

    def __init__(self, number: int, frame: int, tensors: Mapping[str, str], guards: Mapping[str, int]) -> None:
        self.number, self.frame, self.tensors, self.guards = number, frame, tensors, guards

    @property
    def shown(self) -> int:
        """The number used in events."""
        return self.number or ev.EARLIER


BEFORE_THE_WATCH = WatchedEntry(0, 0, {}, {})
"""Stands for an entry that was created before the watch began."""


def predict(
    target: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    entry_of: Callable[[Any], WatchedEntry | None],
    region: int = -1,
) -> TorchPrediction:
    """Evaluate the guards of every entry of a function's code; `entry_of` returns a watch's facts about an entry, by its modified
    code.
    """
    function = target.forward if isinstance(target, torch.nn.Module) else target
    scope_locals = frame_locals(function, args, kwargs)
    plain = getattr(function, "__func__", function)
    scope = scope_locals, plain.__globals__
    verdicts = tuple(_verdict(entry, scope, entry_of) for entry in private_torch.entries_of(plain.__code__, region))
    hit = next((verdict for verdict in verdicts if verdict.hits), None)
    outcome = "hit" if hit is not None else "recompile" if verdicts else "compile"
    return TorchPrediction(outcome, hit.entry if hit is not None else -1, verdicts)


def frame_locals(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The locals of the frame that a call would begin with: parameters, `self`, and closure variables."""
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, types.FunctionType):
        raise TypeError(f"the guards of {type(plain).__name__} cannot be evaluated: it is not a Python function")
    owner = () if plain is function else (function.__self__,)
    slots = zip(argument_slots(plain.__code__), slot_values(plain, (*owner, *args), kwargs), strict=True)
    return {**dict(closure_values(plain)), **dict(slots)}


def _verdict(entry: Any, scope: Scope, entry_of: Callable[[Any], WatchedEntry | None]) -> TorchVerdict:
    watched = entry_of(entry.code) or BEFORE_THE_WATCH
    hits, parts = private_torch.check_guards(entry, scope[0])
    if hits:
        return TorchVerdict(watched.number, watched.frame, True)
    reason = parts[0] if parts else "torch does not name the guard"
    failed = recompile_reasons.failed_guard(reason, scope, watched.tensors, watched.guards, watched.frame, watched.shown)
    return TorchVerdict(watched.number, watched.frame, False, recompile_reasons.plain_reason(reason), failed)
