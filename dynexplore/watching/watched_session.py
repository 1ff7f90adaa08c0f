"""The session of a watched call: the verdicts of torch's own guards on changed inputs.

The idea: the "What if" pane queries a session, whichever engine it belongs to. This one answers for torch.compile, in the same
terms: which entry the call would hit, or which guard of each entry fails. torch's guards are evaluated up to the first failure,
so one guard is reported per entry. A recompile is not attempted, because torch would really have to compile. Edited source and live
runs are only supported by this project's engine.

In: a `Watch`, the function as it was given and as it was compiled, the inputs of the latest call.
Out: `WatchedSession`; its answers to the explorer are `WatchedAnswer`s.

PyTorch's counterpart: none; `get_guard_fail_reason` in torch/_dynamo/guards.py does this for real calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from dynexplore.engine import events as ev
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.session import changed_inputs
from dynexplore.session.changed_inputs import Input
from dynexplore.session.verdicts import EntryVerdict, GuardVerdict
from dynexplore.watching.real_guards import TorchPrediction, TorchVerdict
from dynexplore.watching.watch import Watch

_WORDS = {
    "recompile": "Recompile: no cache entry matches",
    "compile": "First compile: there is no cache entry yet",
}


@dataclass(frozen=True, slots=True)
class WatchedAnswer:
    """A prediction as the explorer shows it: `difference` and `breaks` belong to a new capture, which is not attempted."""

    outcome: str
    message: str
    entry: int
    entries: tuple[EntryVerdict, ...]
    difference: None = None
    breaks: tuple[ev.GraphBroke, ...] = ()

    def __str__(self) -> str:
        return self.message

    @property
    def sentence(self) -> str:
        """The same: it is one sentence."""
        return self.message


class WatchedSession:
    """The session of a watched call; see the module docstring. `args` and `kwargs` are those of the latest call."""

    about = ""

    def __init__(self, watch: Watch, target: Any, compiled: Any, *, is_a_part: bool = False) -> None:
        self._watch, self._target, self._compiled, self._is_a_part = watch, target, compiled, is_a_part
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    def of_frame(self, frame: int | None) -> WatchedSession:
        """This session, for frames of the explained function. Raises LookupError for frames of functions that it called."""
        if self._is_a_part:
            raise LookupError("Only parts of this module are compiled by torch.compile: explain one of them to check its guards.")
        code = self._watch.code_of(self._compiled)
        if frame is not None and self._watch.recording.original_code(frame).id != code:
            name = self._watch.recording.original_code(frame).qualname
            raise LookupError(f"The inputs of {name} were not recorded: explain {name} itself to check its guards.")
        return self

    to_edit = of_frame

    def check(self, *args: Any, **kwargs: Any) -> TorchPrediction:
        """Which entry this call would hit, and which guard of the others fails. Runs nothing, has no side effects."""
        return self._watch.check(self._compiled, *args, **kwargs)

    def predict(self, changes: Mapping[str, Any]) -> TorchPrediction:
        """The same for the latest call with some inputs changed."""
        args, kwargs = changed_inputs.changed_call(self._target, self.args, self.kwargs, changes)
        return self.check(*args, **kwargs)

    @property
    def inputs(self) -> list[Input]:
        """The inputs that `what_if` can change."""
        return changed_inputs.inputs_of(self._target, self.args, self.kwargs)

    def what_if(self, changes: Mapping[str, Any]) -> WatchedAnswer:
        """The prediction, as the explorer shows it."""
        prediction = self.predict(changes)
        message = _WORDS[prediction.outcome] if prediction.outcome != "hit" else self._describe_hit(prediction)
        return WatchedAnswer(prediction.outcome, message, prediction.entry, tuple(map(self._shown, prediction.entries)))

    first_answer = what_if
    """Only torch's guards are evaluated: there is no slower, more complete answer."""

    def _describe_hit(self, prediction: TorchPrediction) -> str:
        """The entry that the call hits, and its reach: guards of resume functions need values that do not exist yet."""
        hit = next(verdict for verdict in prediction.entries if verdict.hits)
        if not hit.entry:
            return "Cache hit: torch.compile reuses an entry that is older than the recording"
        name = f"Cache hit: torch.compile reuses entry {hit.entry}"
        breaks = self._watch.recording.of_frame(hit.frame, ev.GraphBroke)
        return f"{name}, up to its graph break; the rest is unknown" if breaks else f"{name}, and nothing is compiled"

    def _shown(self, verdict: TorchVerdict) -> EntryVerdict:
        failed = verdict.failed
        if failed is None:
            return EntryVerdict(verdict.entry, verdict.frame, verdict.hits, ())
        installed = self._watch.recording.of_frame(verdict.frame, ev.GuardInstalled) if verdict.frame else ()
        index = next((guard.index for guard in installed if guard.source == failed.source), -1)
        guard = GuardVerdict(
            verdict.check, "fail", failed.expected, failed.actual, "fail", index, failed.scope, failed.source, failed.kind
        )
        return EntryVerdict(verdict.entry, verdict.frame, verdict.hits, (guard,))

    @property
    def source(self) -> str:
        """Not supported: raises."""
        _refuse("Editing the source")

    def rerun(self, text: str) -> NoReturn:
        """Not supported: raises."""
        _refuse("Editing the source")

    def live(self) -> NoReturn:
        """Not supported: raises."""
        _refuse("A live run")


def _refuse(feature: str) -> NoReturn:
    where = f'explain(..., engine="{DYNEXPLORE}") shows an explorer that supports it'
    raise ValueError(f"{feature} is not supported with torch.compile: {where}.")
