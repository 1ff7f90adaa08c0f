"""Supported platforms: where dynexplore runs, and the error message for everywhere else.

The idea: the engine reads the bytecode of a specific Python and rewrites its frames, so it depends on the Python version and the
operating system. setup.py runs this file by its path before anything is built, so it imports only the standard library.

In:  the interpreter and the system that run this file.
Out: `SUPPORTED`, the Pythons that have a version file; `refusal()`, one sentence if this platform is not supported, else "".

PyTorch's counterpart: `check_if_dynamo_supported` in torch/_dynamo/eval_frame.py, called on first use.
"""

from __future__ import annotations

import platform
import sys
import sysconfig

SUPPORTED = ((3, 11), (3, 12), (3, 13), (3, 14))

_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


def refusal() -> str:
    """Why dynexplore does not run here, in one sentence; "" if it does."""
    interpreter = platform.python_implementation()
    # also if the GIL is enabled at run time: the object layout differs
    if sys.platform == "linux" and sysconfig.get_config_var("Py_GIL_DISABLED"):
        interpreter = "the free-threaded build of CPython"
    if sys.platform == "linux" and interpreter == "CPython" and sys.version_info[:2] in SUPPORTED:
        return ""
    *most, last = (f"{major}.{minor}" for major, minor in SUPPORTED)
    running_python = "{} {}.{} on {}".format(interpreter, *sys.version_info[:2], _SYSTEMS.get(sys.platform, sys.platform))
    return f"dynexplore runs on Linux with CPython {', '.join(most)} or {last}, but this is {running_python}."
