"""Whether a source file belongs to the user or was installed, decided from its path alone.

The idea: a recording may be opened on another machine, so no file is accessed.

In: the path of a file, as stored in a recording. Out: `is_installed(file)`, `is_torch(file)`, `is_standard(file)`.
PyTorch's counterpart: none; torch/_dynamo/trace_rules.py lists the modules that Dynamo skips.
"""

from __future__ import annotations

import re

_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3[.\d]*[/\\]")
_PACKAGES = re.compile(r"[/\\](site-packages|dist-packages)[/\\]")
_STANDARD = re.compile(r"[/\\]lib[/\\]python3[.\d]*t?[/\\]")
_TORCH = re.compile(r"[/\\](site-packages|dist-packages)[/\\]torch[/\\]")
_LAUNCHER = re.compile(
    r"[/\\](bin|Scripts)[/\\](accelerate|deepspeed|dynexplore|i?python|jupyter|py\.?test|torchrun)[^/\\.]*(\.exe)?$"
)


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package or to the standard library, or is a launcher script.

    >>> is_installed("/usr/lib/python3.12/contextlib.py"), is_installed("<frozen _collections_abc>"), is_installed("model.py")
    (True, True, False)
    """
    return file.startswith("<frozen ") or bool(_LIBRARY.search(file) or _LAUNCHER.search(file))


def is_torch(file: str) -> bool:
    """Whether a file is one of PyTorch's own, by its path.

    >>> is_torch("/x/site-packages/torch/nn/modules/conv.py"), is_torch("/x/site-packages/transformers/modeling_utils.py")
    (True, False)
    """
    return bool(_TORCH.search(file))


def is_standard(file: str) -> bool:
    """Whether a file belongs to the standard library.

    >>> is_standard("/usr/lib/python3.12/warnings.py"), is_standard("/x/lib/python3.12/site-packages/torch/nn/init.py")
    (True, False)
    """
    return _STANDARD.search(file) is not None and _PACKAGES.search(file) is None
