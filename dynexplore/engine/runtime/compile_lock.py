"""The compile lock: one translation at a time, but released while a backend compiles.

The idea: translation is quick and shares tables (parsed code, names, FX), so one lock per process guards it; a backend may take
minutes and may start threads that run optimized code themselves, so the lock is released while it works. Torch's own backends
trace with process-wide state (AOTAutograd patches torch meanwhile), so only one thread at a time may run them; they wait for no
other thread's optimized code.

In: `with compile_lock:` around a translation, `with released():` around the backend inside it, and inside that `with
torch_backend_lock:` around one of torch's. The locks are reentrant. Out: nothing. PyTorch's counterpart: `compile_lock` in
torch/_dynamo/convert_frame.py, held throughout.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

compile_lock = threading.RLock()
"""Acquired with `with`, which Ctrl-C cannot interrupt half way, because the lock is implemented in C."""

torch_backend_lock = threading.RLock()
"""Acquired only by threads that do not hold the translation lock."""

# In a forked child the thread that held the lock does not exist.
os.register_at_fork(after_in_child=compile_lock._at_fork_reinit)  # type: ignore[attr-defined]
os.register_at_fork(after_in_child=torch_backend_lock._at_fork_reinit)  # type: ignore[attr-defined]


@contextlib.contextmanager
def released() -> Iterator[None]:
    """Release the lock while the block runs, at all recursion levels of this thread, which may also be zero."""
    lock = compile_lock
    if not lock._is_owned():  # type: ignore[attr-defined]
        yield
        return
    # used by threading.Condition: releases and reacquires all levels, and Ctrl-C cannot interrupt it
    levels = lock._release_save()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        lock._acquire_restore(levels)  # type: ignore[attr-defined]
