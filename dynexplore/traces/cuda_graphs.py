"""What torch's log says of CUDA graphs: which compiled parts were recorded, which were skipped, and why.

The idea: with `mode="reduce-overhead"` torch records the kernels of a compiled part once and replays them. Whether it does is
decided late, often only when the part runs, and the one place that says so is the log "cudagraphs" (TORCH_LOGS). Its messages are
read here, in the words of several versions of torch; a message that is not about one of the outcomes below is ignored.

In: a message of that log. Out: `cuda_graph(message)`: the compile id ("" if it has none), and the fields of `CudaGraphLogged`.

PyTorch's counterpart: `log_cudagraph_skip_and_bump_counter` in torch/_inductor/cudagraph_utils.py, and cudagraph_trees.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dynexplore.engine import events as ev

_SKIPPED = re.compile(r"(?:skipping|disabling) cudagraphs? due to (?P<reason>.*)", re.DOTALL)
_RAN = re.compile(
    r"(?:\[(?P<id>[^\]]*)\] )?(?P<what>Recording|Re-recording|Running warmup) function=(?P<function>[^\s,]+)"
    r"(?:.*?reason=(?P<reason>.*))?",
    re.DOTALL,
)
_MANY = re.compile(r"CUDAGraph supports dynamic shapes .*?observed (?P<count>\d+) distinct sizes", re.DOTALL)
_PLACE = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)\n\s*(?P<code>.*)')
_STACK_HEAD = re.compile(r"\.?\s*Found from\s*:")

_OUTCOMES = {"Recording": "recorded", "Re-recording": "re-recorded", "Running warmup": "warmed up"}


@dataclass(frozen=True, slots=True)
class Logged:
    """One message: the fields of `CudaGraphLogged`, and the compile id."""

    outcome: str
    compilation: str = ""
    function: str = ""
    reason: str = ""
    place: ev.UserFrame | None = None

    def event(self, frame: int) -> ev.Event:
        """The event, of the frame that the compile id belongs to."""
        return ev.CudaGraphLogged(
            frame=frame, outcome=self.outcome, function=self.function, reason=self.reason, place=self.place
        )


def cuda_graph(message: str) -> Logged | None:
    """What a message says; None if it is about something else.

    >>> cuda_graph("[0/1] Recording function=partition_0, cuda_graph_id=0, inputs: [0]: Tensor")
    Logged(outcome='recorded', compilation='0/1', function='partition_0', reason='', place=None)
    >>> cuda_graph("skipping cudagraphs due to cpu device (arg0_1)").reason
    'cpu device (arg0_1)'
    >>> cuda_graph("Checkpointing cuda caching allocator state.") is None
    True
    """
    if (ran := _RAN.match(message)) is not None:
        return Logged(_OUTCOMES[ran["what"]], ran["id"] or "", ran["function"], (ran["reason"] or "").strip())
    if (skipped := _SKIPPED.match(message)) is not None:
        reason = _STACK_HEAD.split(skipped["reason"])[0].strip()
        return Logged("skipped", reason=_PLACE.sub("", reason).strip(), place=_place(message))
    if (many := _MANY.match(message)) is not None:
        return Logged("warned", reason=f"{many['count']} sizes of the inputs, each with a CUDA graph")
    return None


def _place(message: str) -> ev.UserFrame | None:
    """The innermost line of the program in a message."""
    places = list(_PLACE.finditer(message))
    if not places:
        return None
    last = places[-1]
    return ev.UserFrame(last["file"], int(last["line"]), last["function"].strip(), last["code"].strip())
