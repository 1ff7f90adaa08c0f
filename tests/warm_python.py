"""Python in a process of its own, without waiting for torch to be imported each time.

The idea: most tests of the command line ask what a program prints, which files it writes and how it ends. Importing torch takes
most of their time, and they do not depend on it. So one server per process of pytest imports torch and the engine, and what a first
graph makes torch import, and forks for each program: the child goes on as `python WORDS` would have begun, with the folder,
environment and standard streams that it is given.

In four ways it is not a process of its own, and a test about one of them starts Python itself:
- torch and the engine are imported already, so that neither a cold start nor what is imported can be seen;
- all children share one hash seed, and with it the order of sets of strings;
- variables that Python or torch reads at its start or import have no effect: an `env` that changes one is refused;
- a program that Ctrl-C ends has status 1, not that of a signal, and objects are not taken down at the end.

In:  the words behind `python`, or those behind `python -m dynexplore`.
Out: `python(*words)` and `run(*words)`: the status, standard output and standard error, as subprocess gives them.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 240

IMPORTED_LATE = ("torch._dynamo", "torch._functorch.aot_autograd", "torch._inductor.pattern_matcher")
"""What torch imports for the first fake mode, for AOTAutograd and for its partitioner: 0.8, 1.0 and 1.9 s of CPU time."""


READ_EARLY = ("PYTHON", "TORCH")
"""How the names of variables begin that Python reads at its start, or torch at its import."""

READ_LATE = ("TORCHINDUCTOR_CACHE_DIR",)
"""Those that it reads when it needs them; torch sets this one itself."""


def run(*words: object, cwd: Path = ROOT, timeout: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """`python -m dynexplore WORDS`. TimeoutExpired for one that takes longer."""
    return python("-m", "dynexplore", *words, cwd=cwd, timeout=timeout)


def python(
    *words: object, cwd: Path = ROOT, stdin: str = "", env: Mapping[str, str] | None = None, timeout: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """`python FILE ...`, `python -m MODULE ...` or `python -c CODE ...`. ValueError for an `env` that a warm child would ignore."""
    command = [str(word) for word in words]
    environment = dict(os.environ if env is None else env)
    _server().accept(environment)
    with tempfile.TemporaryDirectory() as folder:
        streams = [os.path.join(folder, name) for name in ("in", "out", "err")]
        Path(streams[0]).write_text(stdin, encoding="utf-8")
        request: dict[str, object] = {"words": command, "cwd": str(cwd), "env": environment, "streams": streams}
        status = _server().ask(request, timeout)
        printed, errors = (Path(stream).read_text(encoding="utf-8") for stream in streams[1:])
    return subprocess.CompletedProcess(command, status, printed, errors)


class _Server:
    """The process that forks; it ends with this one, because its pipe does."""

    def __init__(self) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        self._environment = {**os.environ, "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(requests), str(answers)],
            stdin=subprocess.DEVNULL,
            pass_fds=(requests, answers),
            env=self._environment,
            cwd=ROOT,
        )
        os.close(requests)
        os.close(answers)
        atexit.register(self._end)

    def _end(self) -> None:
        os.close(self._requests)
        self.process.wait()

    def accept(self, environment: Mapping[str, str]) -> None:
        """ValueError if a variable that Python or torch reads before the fork has another value than in the server."""
        folders = set(self._environment["PYTHONPATH"].split(os.pathsep))
        ignored = [
            name
            for name, text in environment.items()
            if name.startswith(READ_EARLY) and name not in READ_LATE and self._environment.get(name) != text
            if name != "PYTHONPATH" or not set(filter(None, text.split(os.pathsep))) <= folders
        ]
        if ignored:
            raise ValueError(f"a warm child ignores {', '.join(sorted(ignored))}: start Python itself (subprocess)")

    def ask(self, request: dict[str, object], timeout: float) -> int:
        """The status with which the command ends, negative for a signal."""
        os.write(self._requests, json.dumps(request).encode() + b"\n")
        pid = int(self._answer(SECONDS))
        try:
            return int(self._answer(timeout))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._answer(SECONDS)
            raise subprocess.TimeoutExpired(str(request["words"]), timeout) from None

    def _answer(self, timeout: float) -> bytes:
        if not select.select([self._answers], [], [], timeout)[0]:
            raise TimeoutError
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(self._answers, 1)
            assert part, "the server has ended"
            line += part
        return line


@functools.cache
def _server() -> _Server:
    return _Server()


def _serve(requests: int, answers: int) -> None:
    """Fork for each request until the pipe ends. A child returns from here, ready to be what was asked for."""
    import torch  # noqa: F401

    import dynexplore.engine.runtime.api  # noqa: F401

    for name in IMPORTED_LATE:
        importlib.import_module(name)

    assert threading.active_count() == 1, "a fork takes no other thread along"
    gc.freeze()  # children leave these pages as they are
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            child = os.fork()
            if not child:
                os.close(answers)
                break
            os.write(answers, b"%d\n" % child)
            _, status = os.waitpid(child, 0)
            os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))
        else:
            os._exit(0)
    _become(json.loads(line))


def _become(request: dict[str, object]) -> None:
    """Take the streams, folder, environment and words."""
    flags = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, (path, flag) in enumerate(zip(request["streams"], flags, strict=True)):  # type: ignore[call-overload]
        opened = os.open(path, flag, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    os.chdir(str(request["cwd"]))
    sys.argv = list(request["words"])  # type: ignore[call-overload]
    sys.modules["__main__"] = ModuleType("__main__")


def _go_on() -> int:
    """Do what Python does with the words; the status."""
    try:
        match sys.argv:
            case ["-m", module, *words]:
                sys.argv = ["-m", *words]
                sys.path[0] = os.getcwd()
                runpy._run_module_as_main(module)  # type: ignore[attr-defined]
            case ["-c", code, *words]:
                sys.argv = ["-c", *words]
                sys.path[0] = ""
                exec(code, vars(sys.modules["__main__"]))
            case [file, *_]:
                sys.path[0] = os.path.dirname(os.path.abspath(file))
                runpy.run_path(file, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    _serve(*map(int, sys.argv[1:]))
    ended = _go_on()
    # As multiprocessing ends its processes: taking down all of torch, object by object, takes longer than most commands.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended)
