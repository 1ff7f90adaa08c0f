"""Where dynexplore runs, and the sentence for everywhere else.

Which idea lives here: the engine reads the bytecode of a Python and rewrites its frames, so it knows the Pythons and the system
that it runs on. setup.py runs this file by its path before anything is built, so it imports the standard library alone.

In:  the interpreter and the system that run this file.
Out: `SUPPORTED`, the Pythons there is a version file for; `refusal()`, one sentence where this one is not supported, else "".

PyTorch refuses in torch/_dynamo/eval_frame.py (`check_if_dynamo_supported`), when it is first used.
"""

from __future__ import annotations

import platform
import sys

SUPPORTED = ((3, 11), (3, 12), (3, 13))

_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


def refusal() -> str:
    """Why dynexplore does not run here, in one sentence; "" where it does."""
    interpreter = platform.python_implementation()
    if sys.platform == "linux" and interpreter == "CPython" and sys.version_info[:2] in SUPPORTED:
        return ""
    *most, last = (f"{major}.{minor}" for major, minor in SUPPORTED)
    here = "{} {}.{} on {}".format(interpreter, *sys.version_info[:2], _SYSTEMS.get(sys.platform, sys.platform))
    return f"dynexplore runs on Linux with CPython {', '.join(most)} or {last}, and this is {here}."
