"""traces/cuda_graphs.py: messages of torch's log about CUDA graphs, from torch 2.11 on a GPU and in words of other versions."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from dynexplore.traces.cuda_graphs import Logged, cuda_graph

pytestmark = pytest.mark.plain("a log is read: nothing is captured")

LOG = Path(__file__).parent / "saved" / "cudagraphs.log"
_LINE = re.compile(r"^(?P<record>\w+ \S+ \d+ \S+\]) (?:(?P<id>\[\d+/\d+\]) )?\[__cudagraphs\] (?P<text>.*)$")


def messages() -> list[str]:
    """The messages of the saved log: those of several lines have the same head on each."""
    found: list[tuple[str, str]] = []
    for line in LOG.read_text(encoding="utf-8").splitlines():
        match = _LINE.match(line)
        assert match is not None, line
        if found and found[-1][0] == match["record"] and match["text"][:1] in ("", " "):
            found[-1] = match["record"], f"{found[-1][1]}\n{match['text']}"
        else:
            found.append((match["record"], match["text"]))
    return [text for _, text in found]


def test_a_log_of_a_gpu_is_read() -> None:
    """Two functions are recorded, one that writes to its input is skipped with its line, and many sizes are warned about."""
    logged = [found for message in messages() if (found := cuda_graph(message)) is not None]
    assert Counter(one.outcome for one in logged) == {"warmed up": 14, "recorded": 2, "skipped": 1, "warned": 1}
    assert [one.compilation for one in logged if one.outcome == "recorded"] == ["0/0", "2/0"]
    (skipped,) = (one for one in logged if one.outcome == "skipped")
    assert skipped.reason == "mutated inputs (1 instances)" and skipped.place is not None
    assert (skipped.place.line, skipped.place.function, skipped.place.code) == (11, "mutate", "buffer.add_(x)")
    (warned,) = (one for one in logged if one.outcome == "warned")
    assert warned.reason == "9 sizes of the inputs, each with a CUDA graph"


@pytest.mark.parametrize(
    ("message", "logged"),
    [
        ("[1/2] Recording function=f, mode=FORWARD, cuda_graph_id=3, inputs: ", Logged("recorded", "1/2", "f")),
        ("[None] Re-recording function=f, mode=FORWARD, reason=input moved", Logged("re-recorded", "None", "f", "input moved")),
        ("[4/0] Running warmup function=g, mode=BACKWARD", Logged("warmed up", "4/0", "g")),
        ("skipping cudagraphs due to multiple devices: cpu, cuda:0", Logged("skipped", reason="multiple devices: cpu, cuda:0")),
        ("skipping cudagraph due to dynamic shapes", Logged("skipped", reason="dynamic shapes")),
        ("disabling cudagraphs due to override_cudagraphs annotation", Logged("skipped", reason="override_cudagraphs annotation")),
        ("Recording cudagraph tree for graph without symints", None),
        ("Created 1 graph partitions: 1 cudagraphable, 0 non-cudagraphable", None),
    ],
)  # fmt: skip
def test_words_of_other_versions(message: str, logged: Logged | None) -> None:
    """Each outcome has its fields, with and without the mode that newer versions print."""
    assert cuda_graph(message) == logged
