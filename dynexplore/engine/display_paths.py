"""Display paths: a notebook's cell is `In [2]`, not the temporary path under which its kernel compiles it.

The idea: a notebook kernel compiles each cell under an invented file name. Users do not know that file; they know the number next
to the cell. IPython keeps the numbers for its own tracebacks.

In: `co_filename` of a code object. Out: `shown_file(path)`: the same path, or `In [2]`; used in events, but not to open files.
`shown_line(frame, line)`: a line of the code that a frame runs, under that name. `running_cell()`: the number of the cell whose
code is running. PyTorch's counterpart: none; its logs show the temporary path.
"""

from __future__ import annotations

import linecache
import re
import sys
from types import FrameType

from dynexplore.engine.events import UserFrame


def shown_file(path: str) -> str:
    """Return the displayed name of a file.

    >>> shown_file("/home/me/model.py")
    '/home/me/model.py'
    """
    number = _cell_of(path)
    return path if number is None else f"In [{number}]"


def running_cell() -> int | None:
    """The number of the cell on the stack; None if there is none. IPython's own counter cannot be used: versions differ in whether
    a cell is counted before or after it runs.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        number = _cell_of(frame.f_code.co_filename)
        if number is not None:
            return number
        frame = frame.f_back
    return None


def _cell_of(path: str) -> int | None:
    """The number of the cell that IPython compiled under this name."""
    ipython = sys.modules.get("IPython")  # if it is not imported there are no cells
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    tell = getattr(getattr(shell, "compile", None), "format_code_name", None)
    label_and_name = tell(path) if tell is not None else None
    number = re.fullmatch(r"In ?\[(\d+)\]", label_and_name[1]) if label_and_name else None
    return int(number[1]) if number else None


def shown_line(frame: FrameType, line: int) -> UserFrame:
    """A line of the code of a frame, with its text."""
    code = frame.f_code
    text = linecache.getline(code.co_filename, line, frame.f_globals).rstrip("\n")
    return UserFrame(shown_file(code.co_filename), line, code.co_qualname, text)
