"""The command line: `dynexplore explain`, `open`, `lab` and `bench`.

Which idea lives here: a thin layer over the public API. Each command is one function that takes parsed arguments and
returns an exit status; what is wrong with the input is said in one sentence on standard error (status 2), and a
failing script keeps its own traceback and status. The rooms a command needs are imported inside it, so that
`dynexplore --help` is quick and `dynexplore open` works without torch.

In:  the words after `dynexplore`.
Out: text on standard output, files where --html and --json say so, the exit status.

PyTorch has no counterpart; its reports come from the environment variables TORCH_LOGS and TORCH_TRACE.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import runpy
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import dynexplore

if TYPE_CHECKING:
    from dynexplore.engine.recording import Recording

CHECKOUT = Path(__file__).resolve().parent.parent
"""The folder with notebooks/ and benchmarks/, where dynexplore runs from a checkout."""


class Mistake(Exception):
    """What the user asked for cannot be done; the message is the one sentence that says why."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    looks = parser()
    arguments, others = looks.parse_known_args(_script_words_last(sys.argv[1:] if words is None else words))
    if others and not arguments.passes_on:
        looks.error(f"unrecognized arguments: {' '.join(others)}")
    arguments.others = others
    try:
        status: int = arguments.command(arguments)
    except Mistake as mistake:
        print(f"dynexplore: {mistake}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `dynexplore explain ... | head` is no failure; nothing may be written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def parser() -> argparse.ArgumentParser:
    """What the command line looks like."""
    top = argparse.ArgumentParser(prog="dynexplore", description="See what a TorchDynamo does with your code.")
    top.add_argument("--version", action="version", version=f"dynexplore {dynexplore.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    one = commands.add_parser(
        "explain",
        help="run a script under the engine and report what was captured",
        usage="dynexplore explain [--html OUT] [--json OUT] SCRIPT.py [ARGS ...]",
        description="Run SCRIPT.py unchanged under the engine, and report its graphs, guards and graph breaks. "
        "--html and --json may also stand after ARGS; everything after -- belongs to the script.",
    )
    one.add_argument("--html", type=Path, metavar="OUT", help="write the report as one HTML file")
    one.add_argument("--json", type=Path, metavar="OUT", help="write the recording, for `dynexplore open`")
    one.add_argument("script", type=Path, metavar="SCRIPT.py")
    one.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")
    one.set_defaults(command=explain_script, passes_on=False)

    one = commands.add_parser("open", help="show a saved recording", description="Show a recording. Needs no torch.")
    one.add_argument("recording", type=Path, metavar="REC.json")
    one.add_argument("--html", type=Path, metavar="OUT", help="write it as one HTML file instead of printing it")
    one.set_defaults(command=open_recording, passes_on=False)

    one = commands.add_parser(
        "lab", help="open the tutorials in JupyterLab", epilog="Other options go to jupyter lab (--no-browser, --port)."
    )
    one.set_defaults(command=open_lab, passes_on=True)

    one = commands.add_parser(
        "bench",
        help="run the benchmarks beside torch.compile",
        usage="dynexplore bench [NAME] [OPTIONS ...]",
        epilog="Without a NAME all of them run; options go to the benchmark.",
    )
    one.set_defaults(command=run_benchmark, passes_on=True)
    return top


def explain_script(arguments: argparse.Namespace) -> int:
    """Run a script under the engine, print the report, write the files that were asked for."""
    script: Path = arguments.script
    if not script.is_file():
        raise Mistake(f"there is no script {script}")
    for out in (arguments.html, arguments.json):
        _check_folder(out)
    program = _Program(script)
    with _as_python_starts_it(script, arguments.args), dynexplore.config.patch(log_level="ERROR"):
        # graph breaks are not logged as they happen: the report below has all of them
        explanation = dynexplore.explain(program.as_function())()
    print(explanation)
    if arguments.json is not None:
        _write(arguments.json, explanation.recording.to_json())
    if arguments.html is not None:
        _write(arguments.html, _page(explanation.recording, script.name))
    return program.status


def open_recording(arguments: argparse.Namespace) -> int:
    """Print a saved recording as text, or write it as one HTML file."""
    path: Path = arguments.recording
    _check_folder(arguments.html)
    try:
        recording = dynexplore.Recording.from_json(path.read_bytes())
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror}") from None
    except dynexplore.exc.RecordingError as error:
        raise Mistake(f"{path}: {error}") from None
    if arguments.html is not None:
        _write(arguments.html, _page(recording, path.name))
    else:
        from dynexplore.views import text

        print(text.report(recording))
    return 0


def open_lab(arguments: argparse.Namespace) -> int:
    """Start JupyterLab on the first tutorial, or in the current folder where there are none."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise Mistake("JupyterLab is not installed: pip install 'dynexplore[lab]'")
    tutorials = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
    command = [sys.executable, "-m", "jupyterlab", *map(str, tutorials[:1])]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # Jupyter refuses to run as root otherwise
    try:
        return subprocess.call([*command, *arguments.others], cwd=CHECKOUT if tutorials else None)
    except KeyboardInterrupt:
        return 0


def run_benchmark(arguments: argparse.Namespace) -> int:
    """Run every benchmark of the checkout, or the one that is named first; what else stands there is its own."""
    benchmarks = {path.stem: path for path in sorted((CHECKOUT / "benchmarks").glob("*.py"))}
    if not benchmarks:
        raise Mistake("the benchmarks come with a checkout of the project, not with the installed package")
    options = list(arguments.others)
    if options and not options[0].startswith("-"):
        name = options.pop(0)
        if name not in benchmarks:
            raise Mistake(f"there is no benchmark {name!r}; there are: {', '.join(benchmarks)}")
        benchmarks = {name: benchmarks[name]}
    # the benchmarks measure this checkout, whether or not it is installed
    paths = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    return max(subprocess.call([sys.executable, str(path), *options], env=environment) for path in benchmarks.values())


class _Program:
    """A script as a function: run as `python SCRIPT.py ARGS` would, its end remembered and not passed on."""

    def __init__(self, script: Path) -> None:
        self.script = script
        self.status = 0

    def as_function(self) -> Callable[[], None]:
        """A function of the script's file, named like it (what the engine explains and puts in its title), that runs it.

        Its own frame is no part of what is explained; what it calls is. So nothing of this package's may stand between
        the two: frames of this package run with all that they call as plain Python.
        """

        def run() -> None:
            try:
                runpy.run_path(str(self.script), run_name="__main__")
            except SystemExit as end:
                self.exited(end)
            except Exception as error:
                self.failed(error)

        code = run.__code__.replace(co_filename=str(self.script), co_name=self.script.name, co_qualname=self.script.name)
        program = types.FunctionType(code, run.__globals__, self.script.name, None, run.__closure__)
        return dynexplore.skip(program)

    def _is_own(self, code: types.CodeType) -> bool:
        """Whether it is code of the script, and not the function that stands for it."""
        return code.co_filename == str(self.script) and code.co_name != self.script.name

    def exited(self, end: SystemExit) -> None:
        """The script ended itself; the report still follows."""
        self.status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)

    def failed(self, error: Exception) -> None:
        """The script raised: print its own frames only, as Python would; the report still follows."""
        frames = error.__traceback__
        while frames is not None and not self._is_own(frames.tb_frame.f_code):
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames or error.__traceback__)
        self.status = 1


@contextlib.contextmanager
def _as_python_starts_it(script: Path, args: Sequence[str]) -> Iterator[None]:
    # what `python SCRIPT.py ARGS` sets up: the script's own arguments, and its folder first on the path
    path, argv = list(sys.path), list(sys.argv)
    sys.path.insert(0, str(script.resolve().parent))
    sys.argv[:] = [str(script), *args]
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, argv


def _script_words_last(words: Sequence[str]) -> list[str]:
    """`explain`'s own options moved before the script, wherever they stand before a `--`.

    >>> _script_words_last(["explain", "s.py", "3", "--html", "out.html", "--", "--json"])
    ['explain', '--html', 'out.html', 's.py', '3', '--json']
    """
    if not words or words[0] != "explain":
        return list(words)
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
        if name in ("--html", "--json"):
            own += [word] if is_joined or not rest else [word, rest.pop(0)]
        elif word in ("-h", "--help") and not others:
            own.append(word)
        else:
            others.append(word)
    return ["explain", *own, *others, *after]


def _check_folder(out: Path | None) -> None:
    # found out before a long run, not after it
    if out is not None and not out.resolve().parent.is_dir():
        raise Mistake(f"{out} cannot be written: there is no folder {out.parent}")


def _page(recording: Recording, title: str) -> str:
    from dynexplore.widgets import html

    return html.page(recording, title)


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Mistake(f"{out} cannot be written: {error.strerror}") from None
    print(f"wrote {out} ({len(text.encode()) / 1024:.0f} KB)")


if __name__ == "__main__":
    sys.exit(main())
