"""The captured functions of a program, one row each: calls, graphs, breaks, recompiles, operators, seconds.

The idea: a recording of a program contains the calls of several targets, one after the other. Each frame belongs to the target
whose call it began in; without targets (when observing torch.compile), to the function at the origin of its chain of resume
functions.

In: a Recording. Out: `functions_of(recording)`, `Function` records in the order of their first call. PyTorch's counterpart:
none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.names import frame_code, frame_name, is_library, plain_name, short_file


@dataclass
class Function:
    """One captured function: `place` is the program's own line, of its definition or else of its call; `calls` is 0 if unknown."""

    name: str
    place: str = ""
    calls: int = 0
    graphs: int = 0
    breaks: int = 0
    recompiles: int = 0
    operators: int = 0
    seconds: float = 0.0
    file: str = ""
    first_line: int = 0
    last_line: int = 0
    frames: list[int] = field(default_factory=list)


def functions_of(recording: Recording) -> list[Function]:
    """Every captured function, in the order of first calls."""
    fold = _Fold(recording)
    for _, event in recording.besides_steps:
        fold.apply(event)
    for graph in recording.graphs:
        function = fold.of_frame.get(graph.frame)
        if function is not None:
            function.graphs += 1
            function.operators += graph.op_count
    return list(fold.functions.values())


class _Fold:
    """Assigns frames to functions."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.functions: dict[str, Function] = {}
        self.of_frame: dict[int, Function] = {}
        self.recompiled: set[int] = set()  # frames that were not entered yet
        own = [event for event in recording.of(ev.TargetChosen) if not is_library(event.file)]
        self.places = {event.name: f"{short_file(event.file)}:{event.line}" for event in own}
        self.target = ""

    def apply(self, event: ev.Event) -> None:
        """Process the next event."""
        match event:
            case ev.CallBegan():
                self.target = event.target
                if event.target:
                    self.function(event.target, event.caller).calls += 1
            case ev.CallEnded():
                self.target = ""
            case ev.FrameEntered():
                function = self.function_of(event)
                self.of_frame[event.frame] = function
                function.frames.append(event.frame)
                function.recompiles += event.frame in self.recompiled
            case ev.GraphBroke() if event.frame in self.of_frame:
                self.of_frame[event.frame].breaks += 1
            case ev.Recompiled() if event.frame in self.of_frame:
                self.of_frame[event.frame].recompiles += 1
            case ev.Recompiled():  # the engine's precede the FrameEntered event
                self.recompiled.add(event.frame)
            case ev.FrameFinished() if event.frame in self.of_frame:
                self.of_frame[event.frame].seconds += event.seconds
            case _:
                pass

    def function(self, name: str, caller: ev.UserFrame | None) -> Function:
        """The function of that name, created if necessary."""
        function = self.functions.get(name)
        if function is None:
            place = self.places.get(name, "")
            if not place and caller is not None:
                place = f"called at {short_file(caller.file)}:{caller.line}"
            function = self.functions[name] = Function(name, place)
        return function

    def function_of(self, entered: ev.FrameEntered) -> Function:
        """The function that a frame belongs to."""
        if self.target:
            return self.function(self.target, None)
        if entered.parent is not None and entered.parent in self.of_frame and entered.code.resumes >= 0:
            return self.of_frame[entered.parent]
        code = frame_code(self.recording, entered)
        name = plain_name(frame_name(self.recording, entered)) or plain_name(code.qualname)
        function = self.function(name, None)
        if not function.file:
            function.file, function.first_line = code.file, code.first_line
            function.last_line = max((row.line for row in code.rows), default=code.first_line)
        if not function.place and not is_library(code.file):
            function.place = f"{short_file(code.file)}:{code.first_line}"
        return function
