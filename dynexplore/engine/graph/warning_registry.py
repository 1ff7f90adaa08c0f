"""`__warningregistry__`: a translation must not make a warning that the program has shown appear once more.

The idea: under the default filter a warning is shown once per location. Each module's registry records which were shown, together
with a version number of the filters; if the number has changed, the registry is cleared. Suppressing a warning temporarily
(`warnings.catch_warnings`, which torch enters in each compilation, and so does the engine) changes the number twice, and the
program's warnings would be shown more often than in plain Python.

So the number is restored after the translation, if the filters are unchanged. Meanwhile it is negative and increases from one
translation to the next: entries of torch's modules under such a number never match a number of the program.

In: `with preserved():` around a translation; `mark_as_shown`. Out: nothing. PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from dynexplore.engine import native

_lock = threading.Lock()


class _Translations:
    """The active translations, and the number with which the next one begins."""

    count = 0
    number = -sys.maxsize // 2
    programs_number = 0
    filters: tuple[list[Any], list[Any]] = [], []


def _is_understood() -> bool:
    """Whether this build of Python stores the number where the extension expects it."""
    count_on = getattr(warnings, "_filters_mutated", None)
    if count_on is None:
        return False
    before = native.filters_version()
    count_on()
    return native.filters_version() == before + 1


_UNDERSTOOD = _is_understood()


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Preserve the program's warning registries over the block; blocks may overlap, also across threads."""
    if not _UNDERSTOOD:
        yield
        return
    with _lock:
        _Translations.count += 1
        if _Translations.count == 1:
            _begin()
    try:
        yield
    finally:
        with _lock:
            _Translations.count -= 1
            if _Translations.count == 0:
                _end()


def mark_as_shown(registry: dict[Any, Any], warning: Warning, lineno: int) -> None:
    """Enter a warning into a registry as one that was shown at this line, as long as the filters are unchanged."""
    if not _UNDERSTOOD:
        return
    version = native.filters_version()
    if registry.get("version") != version:
        registry.clear()
        registry["version"] = version
    registry[str(warning), type(warning), lineno] = True


def _begin() -> None:
    before = native.filters_version()
    if before != _Translations.programs_number:  # else the registries of the last translation are still valid
        _Translations.number += 1
    _Translations.programs_number = before
    _Translations.filters = _filters(), list(_filters())
    native.set_filters_version(_Translations.number)


def _end() -> None:
    _Translations.number = native.filters_version()
    filters, content = _Translations.filters
    unchanged = _filters() is filters and filters == content
    native.set_filters_version(_Translations.programs_number + (not unchanged))


def _filters() -> list[Any]:
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    return filters
