"""The command line: `bench`, and the commands of captures.py, tools.py, files.py, lab.py, hunt.py and remedies.py.

The idea: a thin layer over the public API. Each command is one function that takes parsed arguments and returns an exit status; a
mistake in the input is reported in one sentence on standard error (status 2), and a failing script keeps its own traceback and
status. A command's packages are imported inside its function, so that `dynexplore --help` is fast and `dynexplore open` works
without torch.

In: the command-line arguments after `dynexplore`.
Out: text on standard output, the files given by --html, --json and --save, the exit status.

PyTorch's counterpart: none; its reports are enabled by the environment variables TORCH_LOGS and TORCH_TRACE.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import dynexplore
from dynexplore import early_signals
from dynexplore.cli import captures, files, hunt, remedies, tools
from dynexplore.cli.program import OWN_OPTIONS, Mistake, script_words_last

CHECKOUT = Path(__file__).resolve().parent.parent.parent
"""The folder with benchmarks/, if dynexplore runs from a checkout."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status, negative for the signal that ended the program."""
    looks = parser()
    ordered = script_words_last(sys.argv[1:] if words is None else words)
    arguments, others = looks.parse_known_args(ordered)
    if others and not arguments.passes_on:
        looks.error(f"unrecognized arguments: {' '.join(others)}")
    arguments.others = others
    if ordered[0] not in OWN_OPTIONS:  # it runs no program
        early_signals.hand_over()
    try:
        status: int = arguments.command(arguments)
    except Mistake as mistake:
        print(f"dynexplore: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dynexplore: interrupted", file=sys.stderr)
        return -signal.SIGINT
    except ModuleNotFoundError as error:
        from dynexplore.views.packages import MissingPackage

        if not isinstance(error, MissingPackage):
            raise
        print(f"dynexplore: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `dynexplore explain ... | head` is not an error; nothing may be written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def run_as_process(words: Sequence[str] | None = None) -> int:
    """What a shell starts: one command; a signal that ended the program also ends this process, after the report."""
    ended_by: list[int] = []
    atexit.register(early_signals.end_process, ended_by)  # runs last, because what the program registers comes later
    status = main(words)
    if status < 0:
        ended_by.append(-status)
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    top = argparse.ArgumentParser(prog="dynexplore", description="See what TorchDynamo does with your code.")
    top.add_argument("--version", action="version", version=f"dynexplore {dynexplore.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    captures.add_to(commands)
    tools.add_to(commands)
    files.add_to(commands)
    remedies.add_to(commands)
    hunt.add_to(commands)

    command = commands.add_parser(
        "lab",
        help="open the tutorials in JupyterLab",
        epilog="Other options are passed to jupyter lab, such as --no-browser and --port.",
    )
    command.set_defaults(command=open_lab, passes_on=True)

    command = commands.add_parser(
        "bench",
        help="run the benchmarks, next to torch.compile",
        add_help=False,  # each benchmark has its own help
    )
    command.set_defaults(command=run_benchmark, passes_on=True)
    return top


def open_lab(arguments: argparse.Namespace) -> NoReturn:
    """Start JupyterLab on the tutorials."""
    from dynexplore.cli import lab

    lab.open_lab(arguments.others)


def run_benchmark(arguments: argparse.Namespace) -> int:
    """Run every benchmark of the checkout, or the one that is named first; the remaining arguments are the benchmark's own."""
    benchmarks = {path.stem: path for path in sorted((CHECKOUT / "benchmarks").glob("*.py"))}
    if not benchmarks:
        raise Mistake("the benchmarks come with a checkout of the project, not with the installed package")
    options = list(arguments.others)
    if options and not options[0].startswith("-"):
        name = options.pop(0)
        if name not in benchmarks:
            raise Mistake(f"there is no benchmark {name!r}; there are: {', '.join(benchmarks)}")
        benchmarks = {name: benchmarks[name]}
    elif {"-h", "--help"} & set(options):
        print(_help_of_benchmarks(benchmarks))
        return 0
    # the benchmarks measure this checkout, whether or not it is installed
    paths = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    return max(subprocess.call([sys.executable, str(path), *options], env=environment) for path in benchmarks.values())


def _help_of_benchmarks(benchmarks: dict[str, Path]) -> str:
    """The names of the benchmarks, each with the first line of its own description."""
    about = {name: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "") for name, path in benchmarks.items()}
    lines = [f"  {name:<{max(map(len, benchmarks))}}  {text.partition(chr(10))[0]}" for name, text in about.items()]
    return "\n".join([
        "usage: dynexplore bench [NAME] [OPTIONS ...]", "", *lines, "",
        "Without a NAME, all benchmarks run. Options are passed to the benchmark; dynexplore bench NAME --help lists them.",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(run_as_process())
