"""Specialization decisions of a frame as sentences: why sizes, numbers and objects are static, dynamic or inputs.

The idea: the engine records each decision with its reason, and a guard or a recompile is explained by the latest decision about
its source.

In: a Recording, a frame of it, a source (`x`, `n`). Out: `decisions(recording, frame)`, the latest decision about each source;
of these, `sentences_about(source, decided)`, including sizes and strides of a tensor, and `specialized_by(guard, decided)`;
`recompiled_because(recording)`, those of the recompiles. PyTorch's counterpart: TORCH_LOGS="dynamic", and the decisions of
torch/_dynamo/pgo.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.changes import as_the_program_says


def decisions(recording: Recording, frame: int) -> Mapping[str, ev.Specialized]:
    """Source -> the latest decision about it, in the frame's final attempt."""
    final = recording.final_attempt(frame)
    return {event.source: event for event in recording.of_frame(frame, ev.Specialized) if event.attempt == final}


def sentence(decision: ev.Specialized) -> str:
    """One decision as a sentence.

    >>> sentence(ev.Specialized(frame=1, source="x.size()[0]", kind="dynamic", because="dynamic=True was set"))
    'x.size()[0] is dynamic: dynamic=True was set'
    """
    return f"{decision.source} is {decision.kind}: {decision.because}"


def sentences_about(source: str, decided: Mapping[str, ev.Specialized]) -> list[str]:
    """The decisions about a source, and about the sizes and strides of its tensor."""
    parts = (f"{source}.size()", f"{source}.stride()")
    return [sentence(decision) for where, decision in decided.items() if where == source or where.startswith(parts)]


_OF_VALUES = ("TENSOR_MATCH", "EQUALS", "NUMBER")
"""The kinds of guards on specialized values; other guards on the same source do not repeat the decision."""


def specialized_by(guard: ev.GuardInstalled, decided: Mapping[str, ev.Specialized]) -> list[str]:
    """The decisions behind a guard: why the sizes of a tensor, or a number, are guarded as they are."""
    return sentences_about(guard.source, decided) if guard.kind in _OF_VALUES else []


def recompiled_because(recording: Recording) -> list[str]:
    """The decision of each recompile about the source whose guard failed: whether another value will recompile again."""
    texts: dict[str, None] = {}
    for again in recording.of(ev.Recompiled):
        decided = decisions(recording, again.frame)
        failures = recording.of_frame(again.frame, ev.GuardFailed)
        named = {failed.source: as_the_program_says(recording, failed).source for failed in failures}
        for source, name in named.items():
            if source and "___" not in source:  # a stack value of a resume function has no name in the program
                texts.update(dict.fromkeys(text.replace(source, name) for text in sentences_about(source, decided)))
    return list(texts)
