"""The location of a graph break: a line of the user's code, followed by the line of a library that it leads to.

The idea: a break often occurs in a library, which the user cannot fix. So a break is located at the innermost line of the
program: of the user stack if that has one, else at the line that made the call. Every report, table and page locates breaks
with the functions of this file.

In: a break, which knows the caller of a compiled library function; the Recording, for those saved without it. Out:
`own_line(broke)`, `library_line(broke)`; `place_words(broke)`, both as text. PyTorch's counterpart: `real_stack` of
the exceptions in torch/_dynamo/exc.py, which is shown in full.
"""

from __future__ import annotations

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.names import calling_line, is_library, plain_name, short_file


def own_line(broke: ev.GraphBroke, recording: Recording | None = None) -> ev.UserFrame | None:
    """The line in the user's own code; None if a library function's caller is unknown."""
    own = [frame for frame in broke.user_stack if frame.line and not is_library(frame.file)]
    if own:
        return own[-1]
    if broke.caller is not None and not is_library(broke.caller.file):
        return broke.caller
    return calling_line(recording, broke) if recording is not None else None  # a recording of an earlier version


def library_line(broke: ev.GraphBroke) -> ev.UserFrame | None:
    """The line that breaks, if it is in a library; None for the polyfills that torch.compile traces in place of C code."""
    frames = [frame for frame in broke.user_stack if _POLYFILLS not in frame.file]
    return frames[-1] if frames and frames[-1].line and is_library(frames[-1].file) else None


_POLYFILLS = "/torch/_dynamo/polyfills/"


def place_words(broke: ev.GraphBroke, recording: Recording | None = None, *, full: bool = False) -> str:
    """Both lines as text, with the full path of their files if `full`; "" if no line is known.

    >>> stack = ev.UserFrame("/src/model.py", 31, "Net.forward"), ev.UserFrame("/lib/site-packages/einops/einops.py", 539, "reduce")
    >>> place_words(ev.GraphBroke(frame=1, kind="DX104", title="", reason="", user_stack=stack))
    'model.py:31 in Net.forward (einops.py:539 in reduce)'
    >>> place_words(ev.GraphBroke(frame=1, kind="DX104", title="", reason="", user_stack=stack[:1]))
    'model.py:31 in Net.forward'
    """
    own, library = own_line(broke, recording), library_line(broke)
    first, *behind = [frame.place if full else _words(frame) for frame in (own, library) if frame is not None] or [""]
    return f"{first} ({behind[0]})" if behind else first


def _words(frame: ev.UserFrame) -> str:
    return f"{short_file(frame.file)}:{frame.line}" + (f" in {plain_name(frame.function)}" if frame.function else "")
