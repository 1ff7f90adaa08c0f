"""One translation at a time, but never while a backend compiles.

The idea: translating is quick and shares tables (parsed code, names, FX), so one lock per process guards it; a
backend may take minutes and may start threads that run optimized code of their own, so the lock is released while
it works. Torch's own backends trace with state of the whole process (AOTAutograd patches torch while it does), and one thread at a
time may be in them; they wait for no other thread's optimized code.

In: `with compile_lock:` around a translation, `with released():` around the backend inside it, and inside of that
`with torch_backend_lock:` around one of torch's. A thread may take a lock again that it holds. Out: nothing.

torch/_dynamo/convert_frame.py does the same job (compile_lock, held throughout).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

compile_lock = threading.RLock()
"""Taken with `with`, which no Ctrl-C can interrupt half way, because the lock is written in C."""

torch_backend_lock = threading.RLock()
"""Taken by those alone who do not hold the translation lock."""

# In a forked child the thread that held the lock is gone.
os.register_at_fork(after_in_child=compile_lock._at_fork_reinit)  # type: ignore[attr-defined]
os.register_at_fork(after_in_child=torch_backend_lock._at_fork_reinit)  # type: ignore[attr-defined]


@contextlib.contextmanager
def released() -> Iterator[None]:
    """Release the lock while the block runs, however often this thread took it; it may not hold it at all."""
    lock = compile_lock
    if not lock._is_owned():  # type: ignore[attr-defined]
        yield
        return
    # what threading.Condition uses: lets go and takes again all levels, and Ctrl-C cannot come in between
    levels = lock._release_save()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        lock._acquire_restore(levels)  # type: ignore[attr-defined]
