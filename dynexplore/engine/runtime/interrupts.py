"""Ctrl-C during a translation: it is delivered at once where that is safe, else a moment later.

The idea: Python raises KeyboardInterrupt between any two instructions of the main thread. A translation runs operators on fake
tensors, where torch's C++ code calls back into Python code of torch, and it imports what it needs when it needs it. An
unexpected exception ends the process in the one case (`std::terminate`) and leaves a half-imported package in the other. So
Ctrl-C is intercepted while a frame is translated: if only frames of our own are running, it is passed on to the program's
handler; else it is sent again a millisecond later.

In: `with deferred(sys._getframe()):` around a translation; inside it `with passed_on():` around the backend, which may take minutes
and is interrupted as it is without us. Out: the program's handler of SIGINT called, and never in the middle of torch.

PyTorch has no counterpart.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from dynexplore.engine.policy.trace_rules import OWN_FOLDER

Handler = Callable[[int, "FrameType | None"], Any]

RETRY_SECONDS = 0.001


@contextlib.contextmanager
def deferred(translating: FrameType) -> Iterator[None]:
    """While the block runs, Ctrl-C waits for what `translating` has called and is not ours.

    Outside of the main thread, where it never comes, nothing happens.
    """
    handler = _python_handler()
    if handler is None:
        yield
        return
    try:
        signal.signal(signal.SIGINT, _Waiting(handler, translating))
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def passed_on() -> Iterator[None]:
    """While the block runs, Ctrl-C behaves as without the engine."""
    waiting = _python_handler()
    if not isinstance(waiting, _Waiting):
        yield
        return
    try:
        signal.signal(signal.SIGINT, waiting.handler)
        yield
    finally:
        signal.signal(signal.SIGINT, waiting)


def _python_handler() -> Handler | None:
    """The handler that Python would call in this thread; None where it calls none."""
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    return handler if callable(handler) else None  # SIG_IGN, SIG_DFL and handlers of C code are left as they are


class _Waiting:
    """A handler of SIGINT that calls another one, but only where frames of our own are all that runs."""

    def __init__(self, handler: Handler, translating: FrameType) -> None:
        self.handler = handler
        self.translating = translating

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._is_safe(frame):
            self.handler(number, frame)
            return
        retry_timer = threading.Timer(RETRY_SECONDS, signal.pthread_kill, (threading.get_ident(), number))
        retry_timer.daemon = True
        retry_timer.start()

    def _is_safe(self, frame: FrameType | None) -> bool:
        while frame is not None and frame is not self.translating:
            if not frame.f_code.co_filename.startswith(OWN_FOLDER):
                return False
            frame = frame.f_back
        return True
