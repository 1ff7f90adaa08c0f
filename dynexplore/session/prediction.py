"""What another call would do, in a form that a test can assert: hit or recompile, which guards fail, what would be captured.

The idea: a `Prediction` combines two results about a call that is not made: the verdict of every guard of every entry
(verdicts.py), and the engine's own decision (dry_run.py). If the engine would translate, the new capture is a recording, shown next
to the earlier one. Both are about the call's first frame; what follows its first break is predicted as far as possible without
running anything (predicted_resumes.py).

In: a store, a `DryRunFrame`, the recording of the calls so far. Out: `Prediction`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.engine.runtime.cache import CompiledEntry
from dynexplore.engine.runtime.stores import Store
from dynexplore.recording.recording import GraphView, Recording
from dynexplore.session.dry_run import Kind, Outcome, dry_run
from dynexplore.session.first_frame import DryRunFrame
from dynexplore.session.predicted_resumes import Fate, PredictedResume, predicted_resumes
from dynexplore.session.verdicts import EntryVerdict, GuardVerdict, judge
from dynexplore.views import html_report
from dynexplore.views.capture_difference import Difference, difference
from dynexplore.views.guard_words import without_message
from dynexplore.views.names import chain_words

_WORDS: dict[Kind, str] = {
    "hit": "it hits entry {0.entry}",
    "compile": "it is compiled: there is no entry yet",
    "recompile": "it recompiles: {0.reason}",
    "limit reached": "it runs as plain Python, because the recompile limit is reached: {0.reason}",
    "plain Python": "it runs as plain Python: {0.reason}",
    "raises": "it raises {0.reason}",
}

_WOULD: dict[Kind, str] = {
    "hit": "would hit version {version}",
    "compile": "would compile: there is no version yet",
    "recompile": "would recompile: {requires}",
    "limit reached": "would run as plain Python, because the recompile limit is reached: {requires}",
    "plain Python": "would run as plain Python: {reason}",
    "raises": "would raise {reason}",
}
"""The same in the explorer, which says versions and conditions."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a call would do, without making it, for the call's first frame up to its first break.

    `outcome` is "hit", "compile" (there is no entry yet), "recompile", "limit reached", "plain Python" or "raises"; `entry` is the
    number of the entry that is hit (-1: none); `reason` the reason in words; `entries` the verdicts of all guards of all entries.
    `capture` is the recording of what would be captured, or None; `difference` compares it with the entry that is checked first.
    `breaks_at` is the line of the first break, with the calls that lead there if it is in a callee ("" if there is none); `then`
    lists the resume functions that may follow it after a hit, each with its outcome, or "not known".
    """

    outcome: Kind
    entry: int
    reason: str
    entries: tuple[EntryVerdict, ...]
    capture: Recording | None
    difference: Difference | None
    breaks_at: str = ""
    then: tuple[PredictedResume, ...] = ()

    @property
    def would_fail(self) -> list[GuardVerdict]:
        """The guards that fail on these inputs, of every entry, including those that would not be reached."""
        return [guard for entry in self.entries for guard in entry.guards if guard.alone == "fail"]

    @property
    def graphs(self) -> tuple[GraphView, ...]:
        """The graphs that would be captured."""
        return self.capture.graphs if self.capture is not None else ()

    @property
    def guards(self) -> tuple[ev.GuardInstalled, ...]:
        """The guards that the new entry would have."""
        return self.capture.guards if self.capture is not None else ()

    @property
    def breaks(self) -> tuple[ev.GraphBroke, ...]:
        """Where the new capture would break."""
        return self.capture.breaks if self.capture is not None else ()

    @property
    def sentence(self) -> str:
        """The outcome in one sentence, with versions and conditions as the explorer shows them."""
        numbers = sorted(entry.entry for entry in self.entries)
        failing = ((entry.entry, guard) for entry in self.entries for guard in entry.guards if guard.verdict == "fail")
        requires = self.reason
        if (first := next(failing, None)) is not None:  # of the entry that is checked first, as the reason is
            number, guard = first
            requires = f"version {numbers.index(number) + 1} requires {guard.required}, found {without_message(guard.actual)}"
        version = numbers.index(self.entry) + 1 if self.entry in numbers else self.entry
        return _WOULD[self.outcome].format(version=version, requires=requires, reason=self.reason) + self.what_follows

    def __str__(self) -> str:
        """The outcome, then the guards that fail, then what would be different."""
        lines = [ev.wrapped(_WORDS[self.outcome].format(self) + self.what_follows, 2)]
        lines += [ev.wrapped(f"  would fail: {guard.guard}, found {guard.actual}", 4) for guard in self.would_fail]
        if self.difference is not None:
            lines.append(str(self.difference))
        predicted = [resume for resume in self.then if resume.fate != "not known"]
        lines += [f"  and {_resume_words(resume)}" for resume in predicted[1:]]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_report.report(html_report.code(str(self)))

    @property
    def what_follows(self) -> str:
        """The end of the sentence: how far the prediction extends."""
        if not self.breaks_at:
            return ", and nothing is compiled" if self.outcome == "hit" else ""
        if self.outcome != "hit":
            return f" (what follows the break {self.breaks_at} is decided when the call gets there)" if self.capture else ""
        return f" up to the break {self.breaks_at}; {_after(self.then)}"


_RESUMES: dict[Fate, str] = {
    "compile": "it is compiled: there is no entry yet",
    "recompile": "it recompiles: {0.reason}",
    "limit reached": "it runs as plain Python, because the recompile limit is reached: {0.reason}",
    "plain Python": "it runs as plain Python: {0.reason}",
    "raises": "it raises {0.reason}",
}


def _after(then: tuple[PredictedResume, ...]) -> str:
    """The prediction for the first resume function about which something is known."""
    predicted = [resume for resume in then if resume.fate != "not known"]
    if not predicted:
        return "the rest is unknown: it depends on values that exist only after the graphs have run"
    return _resume_words(predicted[0], is_certain=len(then) == 1, condition=" given the current arguments,")


def _resume_words(resume: PredictedResume, *, is_certain: bool = False, condition: str = "") -> str:
    where = f"from line {resume.line} on" if is_certain else f"if the call reaches line {resume.line}"
    return f"{where},{condition} {_RESUMES[resume.fate].format(resume)}"


def predict(store: Store, frame: DryRunFrame | None, recording: Recording, *, capture: bool = True) -> Prediction:
    """What a call that begins with this frame would do; None: its first frame is not seen by the engine."""
    if frame is None:
        return Prediction("plain Python", -1, "the call starts no Python frame", (), None, None)
    entries = tuple(judge(frame.cache, frame.scope, recording))
    outcome = dry_run(store, frame, capture=capture)
    return Prediction(
        outcome.kind,
        outcome.entry,
        outcome.reason,
        entries,
        outcome.recording,
        _difference(outcome, entries, recording),
        *_after_the_hit(store, frame, outcome, recording),
    )


def _after_the_hit(
    store: Store, frame: DryRunFrame, outcome: Outcome, recording: Recording
) -> tuple[str, tuple[PredictedResume, ...]]:
    """Where the frame breaks first, and which resume functions may follow."""
    if outcome.kind != "hit":
        return _place(outcome.recording.breaks if outcome.recording is not None else ()), ()
    entry = next(cached for cached in frame.cache.entries if isinstance(cached, CompiledEntry) and cached.number == outcome.entry)
    place = _place(tuple(broke for broke in recording.breaks if broke.frame == entry.frame))
    then = predicted_resumes(store, frame, entry)
    return place or ("after its first graph" if then else ""), then


def _place(breaks: tuple[ev.GraphBroke, ...]) -> str:
    first = next((broke for broke in breaks if broke.user_stack), None)
    if first is None:
        return ""
    return f"at {chain_words(first.user_stack)}" if first.nested else f"at line {first.user_stack[0].line}"


def _difference(outcome: Outcome, entries: tuple[EntryVerdict, ...], recording: Recording) -> Difference | None:
    """The new capture, compared with that of the entry that is checked first."""
    if outcome.recording is None or not outcome.recording.frames or not entries:
        return None
    return difference(recording, entries[0].frame, outcome.recording, outcome.recording.frames[0].frame)
