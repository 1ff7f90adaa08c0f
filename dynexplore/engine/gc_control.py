"""The garbage collector rests while a frame is translated, and while the data of an explorer is made.

The idea: such work makes many objects that live to its end. The collector would walk over them again and again, which makes
capture grow faster than linearly; and nearly none of them is garbage. A backend is somebody else's program and runs with the
collector on. What an import makes lives as long as the process, so that not even the first collection after it need walk over
it: it joins the oldest objects unseen.

In/out: three blocks. torch/_dynamo/convert_frame.py does the same for a part of its work (`gc.freeze` in CUDA graphs aside).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FROZEN_BY_PYTHON = 1000
"""Python 3.12 begins with 375 frozen objects. A program that freezes does it with all that there is, which is thousands."""


class _State(threading.local):
    resting = False  # whether this thread has sent the collector to rest


_state = _State()


@contextmanager
def gc_disabled() -> Iterator[None]:
    """No collection inside the block."""
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
    """Within a block at rest: the collector is back for a while."""
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
    """No collection inside the block, and none afterwards that walks over all that is new, until a full one."""
    with gc_disabled():
        yield
        if _state.resting and gc.get_freeze_count() < _FROZEN_BY_PYTHON:  # what the program froze itself would thaw
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
