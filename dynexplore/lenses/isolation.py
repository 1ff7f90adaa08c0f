"""Work in a forked process, so that its side effects do not reach the program.

The idea: capture methods have side effects: caches on code objects, counters, random number generators, buffers, lists of the
program that a traced function appends to. The lazy backend leaves threads and a device behind, and some C++ errors terminate
the process. A forked child has the whole program, its side effects stay in it, and only plain data is returned.

In: a function without arguments whose result can be pickled. Out: its result; `ChildFailed`, with the reason, if the child died
or timed out. PyTorch's counterpart: torch/_inductor/compile_worker/subproc_pool.py, for another purpose.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import torch


class ChildFailed(Exception):
    """The child ended without a result; the message says how."""


def reason_against() -> str:
    """Why work cannot run in a forked child here; "" if it can."""
    if not hasattr(os, "fork"):
        return "this system has no fork"
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return "CUDA is in use, and a forked process cannot use it"
    return ""


def in_a_child(work: Callable[[], Any], seconds: float) -> Any:
    """Fork, run `work` in the child for at most `seconds`, and return its result."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        # Python warns because threads do not survive a fork. The child uses only threads that it starts itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(read_end)
        _work_and_end(work, write_end)
    os.close(write_end)
    has_ended = False
    try:
        data = _read_all(read_end, seconds)
        has_ended = data is not None
    finally:
        os.close(read_end)
        if not has_ended:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    return _result(data, status, seconds)


def _result(data: bytes | None, status: int, seconds: float) -> Any:
    if data is None:
        raise ChildFailed(f"it did not finish within {seconds:g} seconds")
    if os.WIFSIGNALED(status):
        raise ChildFailed(f"its process was killed by {signal.Signals(os.WTERMSIG(status)).name}")
    if not data:
        raise ChildFailed(f"its process ended without a result (exit status {os.waitstatus_to_exitcode(status)})")
    result, error = pickle.loads(data)
    if error:
        raise ChildFailed(error)
    return result


def _read_all(read_end: int, seconds: float) -> bytes | None:
    """All bytes until the other end closes; None on timeout."""
    end = time.monotonic() + seconds
    parts: list[bytes] = []
    while (remaining := end - time.monotonic()) > 0:
        if not select.select([read_end], [], [], remaining)[0]:
            break
        if not (part := os.read(read_end, 1 << 20)):
            return b"".join(parts)
        parts.append(part)
    return None


def _work_and_end(work: Callable[[], Any], write_end: int) -> NoReturn:
    """In the child: run, send the result, exit; never return into the program, never run its exit handlers."""
    status = 1
    try:
        _be_quiet()
        torch.set_num_threads(1)  # the threads of the parent's pools do not exist here
        data = pickle.dumps(_outcome(work))
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(data)
        status = 0
    finally:
        os._exit(status)


def _outcome(work: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return work(), ""
    except Exception as error:  # nothing in the child could handle it
        return None, f"{type(error).__name__}: {error}"


def _be_quiet() -> None:
    """Discard everything that the child writes."""
    faulthandler.disable()
    logging.disable(logging.CRITICAL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()


def here(work: Callable[[], Any], seconds: float) -> Any:
    """Run the work in this process if forking is impossible: its output is discarded, its side effects remain."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        result, error = _outcome(work)
    if error:
        raise ChildFailed(error)
    return result
