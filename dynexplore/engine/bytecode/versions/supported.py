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
import sysconfig

SUPPORTED = ((3, 11), (3, 12), (3, 13), (3, 14))

_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


def refusal() -> str:
    """Why dynexplore does not run here, in one sentence; "" where it does."""
    interpreter = platform.python_implementation()
    # also where the lock is switched on again: objects are laid out differently
    if sys.platform == "linux" and sysconfig.get_config_var("Py_GIL_DISABLED"):
        interpreter = "the free-threaded build of CPython"
    if sys.platform == "linux" and interpreter == "CPython" and sys.version_info[:2] in SUPPORTED:
        return ""
    *most, last = (f"{major}.{minor}" for major, minor in SUPPORTED)
    running_python = "{} {}.{} on {}".format(interpreter, *sys.version_info[:2], _SYSTEMS.get(sys.platform, sys.platform))
    return f"dynexplore runs on Linux with CPython {', '.join(most)} or {last}, and this is {running_python}."
