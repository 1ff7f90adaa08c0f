"""Which files are a person's own, and which were installed: told by their path alone, for a recording is read anywhere.

In:  the path of a file, as a recording has it. Out: `is_installed(file)`.

PyTorch has no counterpart; torch/_dynamo/trace_rules.py names the packages that it does not trace.
"""

from __future__ import annotations

import re

_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3[.\d]*[/\\]")
_LAUNCHER = re.compile(
    r"[/\\](bin|Scripts)[/\\](accelerate|deepspeed|dynexplore|i?python|jupyter|py\.?test|torchrun)[^/\\.]*(\.exe)?$"
)


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package or to the standard library, or launches programs.

    >>> is_installed("/usr/lib/python3.12/contextlib.py"), is_installed("<frozen _collections_abc>"), is_installed("model.py")
    (True, True, False)
    """
    return file.startswith("<frozen ") or bool(_LIBRARY.search(file) or _LAUNCHER.search(file))
