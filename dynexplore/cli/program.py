"""A program run by the command line: a script, a notebook, or a module, as Python would run it.

The idea: a program runs unmodified, once, under any observer. However it ends (an exception, `sys.exit`, Ctrl-C, SIGTERM, or an
early stop), its end is stored and not propagated, so that the report still follows. Its own arguments are kept separate from the
command's options.

In: the path of a script or notebook, or the name of a module, and its arguments. Out: `Program`, a function that runs it, and the
status it ended with; `script_words_last`, the command line in the order that argparse understands.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import linecache
import os
import runpy
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import dynexplore
from dynexplore import early_signals


class Mistake(Exception):
    """The command cannot be carried out; the message is one sentence with the reason."""


class Terminated(BaseException):
    """The program received SIGTERM: it ends as with `sys.exit`, so that its `finally` blocks run."""


class Program:
    """A program as a function: it runs as `python SCRIPT.py ARGS` would, and its end is stored and not propagated.

    Attributes: `name`, for titles; `file`, the file of its code; `status`, what Python's exit status would be, as subprocess gives
    it: negative for a signal; `error`, the exception that ended it ("" for a normal end), `error_at`, the file and line of its own
    code where that happened; `stopped`, the reason if it was ended early; `has_ended`, whether it is over.
    """

    def __init__(self, script: Path, *, is_module: bool = False) -> None:
        self.script = script
        self.module = str(script) if is_module else ""
        self.file = Path(_file_of_module(self.module)) if is_module else script
        self.name = self.module or script.name
        self.status = 0
        self.error = ""
        self.error_at: tuple[str, int] = ("", 0)
        self.stopped = ""
        self.has_ended = False

    def as_function(self) -> Callable[[], None]:
        """A function in the program's file, with the program's name (which the engine explains and puts in its title), that runs
        it.

        Its own frame is not part of the explanation; the functions that it calls are. So no frame of this package may be between
        the two: frames of this package, and everything that they call, run as plain Python.
        """

        return self._as_of_the_program(self._runner(self._as_of_the_program))

    def _as_of_the_program(self, function: types.FunctionType) -> types.FunctionType:
        from dynexplore.engine.native import skip_code

        code = function.__code__.replace(co_filename=str(self.file), co_name=self.name, co_qualname=self.name)
        skip_code(code)
        return types.FunctionType(code, function.__globals__, self.name, None, function.__closure__)

    def run(self) -> None:
        """Run it, with this engine disabled."""
        self._runner(lambda function: function)()

    def _runner(self, wrapped: Callable[[types.FunctionType], Callable[..., object]]) -> types.FunctionType:
        start = self._start(wrapped)

        def run() -> None:
            early_signals.hand_over()
            try:
                try:
                    start()
                finally:
                    self.has_ended = True  # first, before any call: CPython may run a signal handler at each call
                    ignore_handlers_of_the_program()
            except SystemExit as end:
                self.exited(end)
            except BaseException as error:  # including Ctrl-C: the report still follows
                self.failed(error)

        return cast(types.FunctionType, run)

    def _start(self, wrapped: Callable[[types.FunctionType], Callable[..., object]]) -> Callable[[], object]:
        """The code that runs it, without a frame of this package: `wrapped` wraps the functions of this file."""
        if self.module:
            return functools.partial(runpy.run_module, self.module, run_name="__main__", alter_sys=True)
        if self.script.suffix == ".ipynb":
            cells, left_out = cells_of(self.script)
            return functools.partial(wrapped(cast(types.FunctionType, run_notebook)), self.script, cells, left_out)
        return functools.partial(runpy.run_path, str(self.script), run_name="__main__")

    def is_own(self, file: str) -> bool:
        """Whether this is the program's main file, or one of its cells."""
        return file == str(self.file) or file.startswith(f"{self.file}[")

    def exited(self, end: SystemExit) -> None:
        """Called when the program exits by itself; the report still follows."""
        self.status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)

    def failed(self, error: BaseException) -> None:
        """Called when the program raises: print only its own frames, as Python would; the report still follows."""
        from dynexplore.session.target_search import ProgramStopped

        if isinstance(error, ProgramStopped):
            self.stopped = str(error)
            return
        if isinstance(error, Terminated):
            self.status, self.error = -signal.SIGTERM, "SIGTERM"
            return
        frames = self._first_of_its_own(error.__traceback__)
        shown = traceback.TracebackException(type(error), error, frames or error.__traceback__)
        if not isinstance(error, dynexplore.exc.DynexploreError):
            _leave_out_this_package(shown)
        print("".join(shown.format()), end="", file=sys.stderr)
        self.status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        self.error = traceback.format_exception_only(error)[-1].strip()
        own = [(entry.filename, entry.lineno or 0) for entry in traceback.extract_tb(frames) if self.is_own(entry.filename)]
        self.error_at = own[-1] if own else ("", 0)

    def _first_of_its_own(self, entry: types.TracebackType | None) -> types.TracebackType | None:
        """The traceback without the leading frames of this package and of runpy, which Python would not show."""
        while entry is not None and self._is_launcher(entry.tb_frame.f_code):
            entry = entry.tb_next
        return entry

    def _is_launcher(self, code: types.CodeType) -> bool:
        return code.co_name == self.name or code.co_filename in (__file__, runpy.__file__, "<frozen runpy>")


def _file_of_module(name: str) -> str:
    """The file of a module, or of the `__main__` of a package."""
    sys.path.insert(0, "")
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError):
        spec = None
    finally:
        sys.path.remove("")
    if spec is None or spec.origin is None:
        raise Mistake(f"there is no module {name} that can be run")
    return spec.origin


def _leave_out_this_package(shown: traceback.TracebackException) -> None:
    """Remove this package's frames from a traceback, and from those of its causes.

    If the program ends while this package works (Ctrl-C, the death of a worker), the traceback ends at the program's line that was
    about to run. Frames of a mere observer, such as a watch, are removed, and torch's frames below them stay.
    """
    from dynexplore.engine.policy.trace_rules import is_of_the_program

    folder = os.path.dirname(dynexplore.__file__) + os.sep
    onlooker = os.path.join(folder, "watching") + os.sep
    entry: traceback.TracebackException | None = shown
    while entry is not None:
        files = [frame.filename for frame in entry.stack]
        last = max((number for number, file in enumerate(files) if is_of_the_program(file)), default=-1)
        works = (number for number, file in enumerate(files) if file.startswith(folder) and not file.startswith(onlooker))
        end = next((number for number in works if number > last), len(files))
        if last >= 0 or entry is not shown:
            entry.stack[:] = [frame for frame in entry.stack[:end] if not frame.filename.startswith(folder)]
        entry = entry.__cause__ or (None if entry.__suppress_context__ else entry.__context__)


# -- notebooks ----------------------------------------------------------------------------------------------------------------


def run_notebook(path: Path, cells: Sequence[tuple[str, str]], left_out: int) -> None:
    """Run the code cells of a notebook in order, as one program; magics and shell commands are skipped, with a notice."""
    if left_out:
        print(f"dynexplore: {left_out} lines with magics or shell commands in {path.name} were skipped", file=sys.stderr)
    main = types.ModuleType("__main__")
    main.__file__ = str(path)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = main
    try:
        for name, source in cells:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            exec(compile(source, name, "exec"), vars(main))
    finally:
        sys.modules["__main__"] = before


def cells_of(path: Path) -> tuple[list[tuple[str, str]], int]:
    """The code cells of a notebook, each with its file name (`demo.ipynb[2]`), and the number of skipped lines."""
    import json

    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        sources = ["".join(cell["source"]) for cell in cells]
    except (ValueError, KeyError, TypeError):
        raise Mistake(f"{path} is not a notebook: it is not JSON with a list of cells") from None
    plain = [_without_magics(source) for source in sources]
    return [(f"{path}[{number}]", source) for number, (source, _) in enumerate(plain, 1)], sum(count for _, count in plain)


def _without_magics(source: str) -> tuple[str, int]:
    """The source with lines of magics and shell commands commented out, so that line numbers are preserved."""
    lines = source.splitlines()
    count = 0
    for number, line in enumerate(lines):
        if line.lstrip().startswith(("%", "!")):
            indent = line[: len(line) - len(line.lstrip())]
            lines[number] = f"{indent}pass  # {line.lstrip()}"
            count += 1
    return "\n".join(lines) + "\n", count


# -- torch.compile --------------------------------------------------------------------------------------------------------------


def imports_use_torch_compile(script: Path) -> bool:
    """Whether a file next to the script, and imported by it, names `torch.compile`, or calls a `.compile()` method.

    Checked before it runs, because imports run unobserved. A use in the script itself is observed when it happens; a use in a more
    distant module is noticed after the script has ended.
    """
    waiting: list[Path] = [script]
    seen: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        try:
            nodes = list(ast.walk(ast.parse(file.read_bytes())))
        except SyntaxError:  # running it will report the error
            continue
        if file != script and any(map(_is_torch_compile, nodes)):
            return True
        waiting += [script.parent / f"{name.partition('.')[0]}.py" for node in nodes for name in _imported(node)]
    return False


def _is_torch_compile(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "torch" and any(name.name == "compile" for name in node.names)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return (node.value.id, node.attr) == ("torch", "compile")
    is_method = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
    return is_method and node.value.func.attr == "compile"  # type: ignore[attr-defined]


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [name.name for name in node.names] if isinstance(node, ast.Import) else []


# -- how it starts and ends -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def as_python_starts_it(program: Program, args: Sequence[str]) -> Iterator[None]:
    """Set up what `python SCRIPT.py ARGS` does: the script's own arguments, and its folder first on the path (-m: the working
    folder).
    """
    path, argv = list(sys.path), list(sys.argv)
    sys.path.insert(0, "" if program.module else str(program.script.resolve().parent))
    sys.argv[:] = [str(program.file) if program.module else str(program.script), *args]
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, argv


FINISHING = 30.0
"""Seconds that a call which is being captured may still take after the program's time limit."""

_AGAIN = 0.5


@contextlib.contextmanager
def ends_in_good_order(program: Program, seconds: float = 0.0, end: Callable[..., None] | None = None) -> Iterator[None]:
    """During the block, SIGTERM ends the program as an exception does, and so does its time limit (0: none).

    The report follows: from the end of the program on, the first Ctrl-C or SIGTERM prints a notice, the second ends this process.

    end: ends the program at the time limit, `TargetSearch.end`. It is called repeatedly until it succeeds, then with `at_once`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    clock = _Clock(seconds, end or _end_at_once)

    def terminated(number: int, frame: types.FrameType | None) -> None:
        if not program.has_ended:
            raise Terminated
        after_the_end(number, frame)

    def interrupted(number: int, frame: types.FrameType | None) -> None:
        if clock.rings():
            if not program.has_ended:
                clock.end_program()
        elif not program.has_ended:
            signal.default_int_handler(number, frame)
        else:
            after_the_end(number, frame)

    def after_the_end(number: int, frame: types.FrameType | None) -> None:
        clock.stop()  # its next interrupt would count as the second Ctrl-C
        _report_is_written(number, frame)

    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, interrupted)
    if seconds:
        clock.start()
    try:
        yield
    finally:
        clock.stop()
        for number in early_signals.THAT_END:
            if signal.getsignal(number) is not signal.SIG_DFL:  # the notice is printed once
                signal.signal(number, _report_is_written)


def _report_is_written(number: int, frame: types.FrameType | None) -> None:
    again = "press Ctrl-C again" if number == signal.SIGINT else "send SIGTERM again"
    print(f"\ndynexplore: writing the report; {again} to stop", file=sys.stderr)
    signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def signal_handlers_restored() -> Iterator[None]:
    """Restore the handlers of the signals that end a program after the block; those of a starting command line are over then."""
    before = {number: signal.getsignal(number) for number in early_signals.THAT_END}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            early_signals.hand_over()


def ignore_handlers_of_the_program() -> None:
    """Disable the signal handlers of a program that has ended, so that none raises into the report: a DataLoader's does if a worker
    died.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in signal.valid_signals() - {signal.SIGINT, signal.SIGTERM}:  # those still end the report normally
        if callable(signal.getsignal(number)):
            # a process that ignores SIGCHLD cannot wait for its children
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)


def _end_at_once(reason: str, *, at_once: bool) -> None:
    from dynexplore.session.target_search import ProgramStopped

    raise ProgramStopped(reason)


class _Clock(threading.Thread):
    """Interrupts the main thread at the time limit, repeatedly until the program has ended."""

    def __init__(self, seconds: float, end: Callable[..., None]) -> None:
        super().__init__(daemon=True, name="dynexplore --for")
        self._seconds = seconds
        self._end = end
        self._is_stopped = threading.Event()
        self._has_rung = False
        self._last = float("inf")

    def run(self) -> None:
        """Wait, then interrupt."""
        if self._is_stopped.wait(self._seconds):
            return
        self._last = time.monotonic() + FINISHING
        while not self._is_stopped.is_set():
            self._has_rung = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            self._is_stopped.wait(_AGAIN)

    def rings(self) -> bool:
        """Called in the main thread after an interrupt: whether this clock caused it."""
        has_rung, self._has_rung = self._has_rung, False
        return has_rung

    def end_program(self) -> None:
        """Called in the main thread after this clock has rung: end the program if possible."""
        self._end(f"after {self._seconds:g} s (--for)", at_once=time.monotonic() > self._last)

    def stop(self) -> None:
        """Called when the program has ended; there are no further interrupts."""
        self._is_stopped.set()
        if self.is_alive():
            self.join()


# -- command-line arguments -------------------------------------------------------------------------------------------------------

_TARGETS = ("--only", "--not")
_FILES = ("--html", "--json", "--save", "--summary-json", "--perfetto")

OWN_OPTIONS = {
    "explain": (
        ("--redact", "--graphviz", "--no-real", "--all", "--full"), (*_FILES, *_TARGETS, "--engine", "--for", "--calls"),
    ),
    "watch": (
        ("--redact", "--graphviz", "--artifacts", "--no-steps", "--check", "--guard-prices", "--all", "--full"),
        (*_FILES, *_TARGETS, "--engine", "--ranks", "--for"),
    ),
    "diagnose": (("--dynamic", "--all"), ("--html", "--summary-json", "--backend", "--tolerance", "--engine", *_TARGETS)),
    "minify": (("--dynamic", "--all"), ("--html", "--backend", "--tolerance", "--after", "--out", "--engine", *_TARGETS)),
    "breaks": (("--dynamic", "--all", "--full"), ("--html", "--engine", *_TARGETS)),
    "coverage": (("--dynamic", "--all", "--full"), ("--html", "--engine", "--backend", *_TARGETS)),
    "compare": (("--engines", "--dynamic", "--all", "--full"), ("--html", "--json", "--methods", "--seconds", *_TARGETS)),
}  # fmt: skip
"""Commands that take a script and its arguments -> their own options: flags, and options with a value."""

AS_MODULE = "--run-module"
"""How `-m NAME` is passed to the parser: this flag, and NAME in the place of the script."""


def script_words_last(words: Sequence[str]) -> list[str]:
    """Move the command's own options before the script, wherever they are before a `--`.

    >>> script_words_last(["explain", "s.py", "3", "--html", "out.html", "--", "--json"])
    ['explain', '--html', 'out.html', 's.py', '3', '--json']
    >>> script_words_last(["explain", "-m", "tool.main", "3"])
    ['explain', '--run-module', 'tool.main', '3']
    """
    if not words or words[0] not in OWN_OPTIONS:
        return list(words)
    alone, with_value = OWN_OPTIONS[words[0]]
    rest = list(words[1:])
    after: list[str] = []
    if "--" in rest:
        cut = rest.index("--")
        rest, after = rest[:cut], rest[cut + 1 :]
    own: list[str] = []
    others: list[str] = []
    while rest:
        word = rest.pop(0)
        name, is_joined, _ = word.partition("=")
        if name in alone:
            own.append(word)
        elif name in with_value:
            own += [word] if is_joined or not rest else [word, rest.pop(0)]
        elif word == "-m" and not others:
            own.append(AS_MODULE)
        elif word in ("-h", "--help") and not others:
            own.append(word)
        else:
            others.append(word)
    return [words[0], *own, *others, *after]
