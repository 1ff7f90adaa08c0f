"""`__warningregistry__`: a translation must not make a warning that the program has shown appear once more.

The idea: under the default filter a warning is shown once a place. Each module remembers what was shown, together with a number
that counts changes of the filters; where the number is another one, the memory is emptied. Whoever ignores a warning for a moment
(`warnings.catch_warnings`, which torch enters in each compilation, and the engine beside it) changes the number twice, and the
program's warnings would be shown once more than in plain Python.

So the number is put back when the translation is over, if the filters are what they were. Meanwhile it is a number of the
translations' own, below zero, which grows from one to the next: what torch's modules remember under it is never taken for something
that they remember under a number of the program's.

In: `with preserved():` around a translation. Out: nothing. PyTorch's Dynamo has no counterpart.
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
    """Those that are going on, and the number that the next one begins with."""

    count = 0
    number = -sys.maxsize // 2
    programs_number = 0
    filters: tuple[list[Any], list[Any]] = [], []


def _is_understood() -> bool:
    """Whether this build of Python keeps the number where the extension looks for it."""
    count_on = getattr(warnings, "_filters_mutated", None)
    if count_on is None:
        return False
    before = native.filters_version()
    count_on()
    return native.filters_version() == before + 1


_UNDERSTOOD = _is_understood()


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """What the program's modules remember of their warnings is the same after the block; blocks may overlap, in threads too."""
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


def _begin() -> None:
    before = native.filters_version()
    if before != _Translations.programs_number:  # else what is remembered from the last translation still holds
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
