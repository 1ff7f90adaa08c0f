"""Signals during a translation: their handlers run when that is safe, and their exceptions reach the program.

The idea: Python calls a signal's handler between any two instructions of the main thread, and a handler may raise. A translation
runs operators on fake tensors, where torch's C++ code calls back into torch's Python code, and it imports modules on demand. An
unexpected exception ends the process in the first case (`std::terminate`) and leaves a half-imported package in the second; or the
engine treats it as an internal failure, and it is lost. So signals are intercepted while a frame is translated:

    Ctrl-C           if only the engine's own frames are running, it is passed to the program's handler; else it is sent again a
                     millisecond later
    any other one    its handler is called when the translation is over, or when the backend begins: as if one call into C took long

In: `with deferred(sys._getframe()):` around a translation; inside it `with passed_on():` around the backend, which may take
minutes and is interrupted as without the engine. Out: the program's handlers are called, and never in the middle of torch.
PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from _signal import getsignal  # type: ignore[import-not-found]  # that of `signal` looks up 64 enum members: 0.2 ms a capture
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from dynexplore.engine.policy.trace_rules import OWN_FOLDER
from dynexplore.engine.translate.stack_traces import code_of, traceback_from

Handler = Callable[[int, "FrameType | None"], Any]

RETRY_SECONDS = 0.001


class _RaisedByHandler(BaseException):
    """Carries an exception of the program's handler through a backend, so that it is not treated as a compiler failure."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__()
        self.raised, self.context = raised, raised.__context__


@contextlib.contextmanager
def deferred(translating: FrameType) -> Iterator[None]:
    """While active, defer Ctrl-C during calls of `translating` into foreign code, and other signals until the end.

    Outside the main thread, where handlers never run, it does nothing.
    """
    waiting = {number: _waiting(number, handler, translating) for number, handler in _handlers().items()}
    carried: _RaisedByHandler | None = None
    try:
        for number, each in waiting.items():
            signal.signal(number, each)
        yield
    except _RaisedByHandler as carrier:
        carried = carrier
    finally:
        _put_back(waiting)
    for each in waiting.values():
        each.deliver()
    if carried is not None:
        try:
            raise carried.raised
        finally:
            carried.raised.__context__ = carried.context


@contextlib.contextmanager
def passed_on() -> Iterator[None]:
    """While active, signals behave as without the engine."""
    waiting = {number: handler for number, handler in _handlers().items() if isinstance(handler, _Waiting)}
    try:
        _put_back(waiting)
        for each in waiting.values():
            each.deliver()
        yield
    except Exception as error:
        raised = _raised_by_handler(error, [each.handler for each in waiting.values()])
        if raised is None:
            raise
        raise _RaisedByHandler(raised) from None
    finally:
        for number, each in waiting.items():
            _replace(number, each.handler, each)


def _put_back(waiting: dict[int, _Waiting]) -> None:
    for number, each in waiting.items():
        _replace(number, each, each.handler)


def _replace(number: int, handler: Handler, other: Handler) -> None:
    """Replace a handler, unless the program has installed another one meanwhile."""
    if getsignal(number) is handler:
        signal.signal(number, other)


def _handlers() -> dict[int, Handler]:
    """The handlers that Python would call in this thread. SIG_IGN, SIG_DFL and C handlers are not intercepted."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers = {number: getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in handlers.items() if callable(handler)}


_SIGNALS = sorted(map(int, signal.valid_signals()))


def _raised_by_handler(error: BaseException | None, handlers: list[Handler]) -> BaseException | None:
    """The exception that one of these handlers raised, in an exception's chain of causes."""
    codes = [code for code in map(code_of, handlers) if code is not None]
    while error is not None:
        if traceback_from(error.__traceback__, codes) is not None:
            return error
        error = error.__cause__ or error.__context__
    return None


def _waiting(number: int, handler: Handler, translating: FrameType) -> _Waiting:
    return _CtrlC(handler, translating) if number == signal.SIGINT else _Waiting(handler)


class _Waiting:
    """A handler that records the signal, to call the original handler later."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.arrived: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.arrived = number

    def deliver(self) -> None:
        """Call the original handler if the signal arrived; several pending signals of one kind count as one, as in the system."""
        number, self.arrived = self.arrived, None
        if number is not None:
            self.handler(number, sys._getframe())


class _CtrlC(_Waiting):
    """A handler of SIGINT that calls the original one, but only while nothing but the engine's own frames is running."""

    def __init__(self, handler: Handler, translating: FrameType) -> None:
        super().__init__(handler)
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
