"""Lazy compilation of Inductor's jinja2 templates: a kernel template is compiled when it is first rendered.

The idea: importing Inductor creates about twenty jinja2 templates for GPU kernels, and creating one compiles it. That is a quarter
of the CPU time of the first call in a process whose graphs are all in Inductor's caches, and which renders none of them. So while
Inductor is imported, each template is a placeholder that holds its source, and is compiled on first use. If torch has no function
of the expected name, or jinja2 is not installed, nothing changes.

In: nothing. Out: `lazy_templates()`, a context manager. PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

_DECLARED_IN, _CLASS, _MAKER = "torch._inductor.codegen.common", "KernelTemplate", "_template_from_string"


@contextlib.contextmanager
def lazy_templates() -> Iterator[None]:
    """While active, templates are recorded without being compiled."""
    owner = getattr(importlib.import_module(_DECLARED_IN), _CLASS, None)
    maker = vars(owner).get(_MAKER) if owner is not None else None
    if not isinstance(maker, staticmethod) or importlib.util.find_spec("jinja2") is None:
        yield
        return
    setattr(owner, _MAKER, staticmethod(lambda source: LazyTemplate(maker.__func__, source)))
    try:
        yield
    finally:
        setattr(owner, _MAKER, maker)


class LazyTemplate:
    """A template that is compiled on the first access to an attribute, usually `render`."""

    def __init__(self, make: Callable[[str], Any], source: str) -> None:
        self._make, self._source = make, source
        self._template: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._template is None:
            self._template = self._make(self._source)
        return getattr(self._template, name)
