"""Garbage collector control: disabled while a frame is translated, and while the data of an explorer is built.

The idea: such work creates many objects that live until its end. The collector would traverse them again and again, which makes
capture time grow faster than linearly; and almost none of them is garbage. Backends run with the collector enabled. What an import
creates lives as long as the process, so it is moved to the oldest generation without being traversed.

In: nothing. Out: three context managers. PyTorch's counterpart: none in Dynamo; CUDA graphs use `gc.freeze`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FROZEN_BY_PYTHON = 1000
"""Python 3.12 starts with 375 frozen objects. A program that freezes does so with all existing objects, which are thousands."""


class _State(threading.local):
    resting = False  # whether this thread has disabled the collector


_state = _State()


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable garbage collection inside the block."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    outer, _state.resting = _state.resting, True
    try:
        yield
    finally:
        _state.resting = outer
        gc.enable()


@contextmanager
def gc_enabled() -> Iterator[None]:
    """Inside a `gc_disabled` block: enable the collector temporarily."""
    if not _state.resting:
        yield
        return
    gc.enable()
    try:
        yield
    finally:
        gc.disable()


@contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection inside the block, and afterwards exclude the new objects from collections until a full one."""
    with gc_disabled():
        yield
        if _state.resting and gc.get_freeze_count() < _FROZEN_BY_PYTHON:  # what the program itself has frozen would thaw
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
