"""Pictures of a recording, one idea each: for tutorials, and for explaining a function to others.

The idea: the explorer shows everything; a picture shows one thing, and its text says the same to readers without images.

In: a Recording, or anything with one.
Out: the functions below, each of which returns a `Picture`:
- `split(shown)`: where a function was split, and the values passed between the parts;
- `calls(shown)`: which cache entry each call hit, and which guard of the others failed;
- `way(shown)`: the stations that each call went through;
- `capture(shown)`: the instructions, and the nodes that they created;
- `traffic(shown)`: memory reads and writes of operators and kernels;
- `bars(values, unit)`: measured numbers, side by side;
- `joint(shown)`: forward, backward, and the tensors saved in between;
- `clock(bars)`: several processes on one clock;
- `stack(rows)`: the value stack after each instruction;
- `layers(diagnosis)`: which layer is at fault.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dynexplore.recording.recording import recording_of
from dynexplore.views.bars_picture import bars_picture, bars_text
from dynexplore.views.call_flow_diagram import call_flow_diagram, call_flow_text
from dynexplore.views.calls_picture import calls_picture, calls_text
from dynexplore.views.capture_picture import capture_picture, capture_text
from dynexplore.views.clock_picture import Bar, clock_picture, clock_text
from dynexplore.views.joint_picture import joint_picture, joint_text
from dynexplore.views.layers_picture import Layer, layers_picture, layers_text
from dynexplore.views.split_picture import split_picture, split_text
from dynexplore.views.stack_picture import Row, stack_picture, stack_text
from dynexplore.views.traffic_picture import traffic_picture, traffic_text


class Picture:
    """One picture: drawn in a notebook, described in words elsewhere. Both forms are created on demand."""

    def __init__(self, draw: Callable[..., str], tell: Callable[..., str], *shown: Any) -> None:
        self._draw, self._tell, self._shown = draw, tell, shown

    def __repr__(self) -> str:
        return self._tell(*self._shown)

    def _repr_html_(self) -> str:
        return self._draw(*self._shown)


def split(shown: Any) -> Picture:
    """Where a function was split into parts, and the values that each part passes on to the next.

    >>> from dynexplore import Recording
    >>> split(Recording())
    <BLANKLINE>
    """
    return Picture(split_picture, split_text, recording_of(shown))


def calls(shown: Any) -> Picture:
    """Which cache entry each call hit, and which guard of the others failed.

    >>> from dynexplore import Recording
    >>> calls(Recording())
    <BLANKLINE>
    """
    return Picture(calls_picture, calls_text, recording_of(shown))


def way(shown: Any) -> Picture:
    """The path of each call: hook, cache, guards, capture, code swap.

    >>> from dynexplore import Recording
    >>> way(Recording())
    <BLANKLINE>
    """
    return Picture(call_flow_diagram, call_flow_text, recording_of(shown))


def capture(shown: Any) -> Picture:
    """Each instruction of the first frame with a graph, the stack after it, and the node that it added to the graph.

    >>> from dynexplore import Recording
    >>> capture(Recording())
    <BLANKLINE>
    """
    return Picture(capture_picture, capture_text, recording_of(shown))


def traffic(shown: Any, stage: str = "forward") -> Picture:
    """The memory reads and writes of each graph, operator by operator and by Inductor's kernels; for `inductor_artifacts`.

    >>> from dynexplore import Recording
    >>> traffic(Recording())
    No kernels: Inductor generated none, or their diagram was not recorded.
    """
    return Picture(traffic_picture, traffic_text, recording_of(getattr(shown, "explanation", shown)), stage)


def bars(values: Mapping[str, float], unit: str, singular: str = "") -> Picture:
    """Measured numbers, each compared with the first; `singular` is the unit's name for the number 1.

    >>> bars({"captured": 14, "minified": 1}, "operators", "operator")
    captured: 14 operators
    minified: 1 operator
    """
    return Picture(bars_picture, bars_text, dict(values), unit, singular)


def joint(shown: Any) -> Picture:
    """Forward, backward, and the tensors saved in between; for `inductor_artifacts`.

    >>> from dynexplore import Recording
    >>> joint(Recording())
    No backward: no input requires grad, or AOTAutograd's graphs were not saved.
    """
    return Picture(joint_picture, joint_text, recording_of(getattr(shown, "explanation", shown)))


def clock(bars: Sequence[tuple[str, str, str, float, float]]) -> Picture:
    """A timeline: each bar is its lane, its row, its name, its start and its end, in seconds of one clock.

    >>> clock([("rank 0", "backward", "piece 2", 2.0, 2.5)])
    0.0 to 500.0 ms: rank 0, backward, piece 2
    """
    return Picture(clock_picture, clock_text, tuple(Bar(*bar) for bar in bars))


def stack(rows: Iterable[tuple[str, Any, Sequence[Any]]]) -> Picture:
    """The value stack after each instruction: each row is an opcode, its argument, and the stack from the bottom up.

    >>> stack([("LOAD_FAST", "x", [3]), ("LOAD_CONST", 1, [3, 1])])
    LOAD_FAST x: 3
    LOAD_CONST 1: 3, 1
    """
    words = ((op, "" if argument is None else str(argument), tuple(map(str, values))) for op, argument, values in rows)
    return Picture(stack_picture, stack_text, tuple(Row(*row) for row in words))


def layers(diagnosis: Any) -> Picture:
    """The layers that `dynexplore.diagnose` tried, in order, and the first that fails."""
    stages = tuple(Layer(stage.layer, stage.verdict, stage.failure) for stage in diagnosis.stages)
    return Picture(layers_picture, layers_text, stages)
