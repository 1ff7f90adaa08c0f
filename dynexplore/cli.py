"""The command line: `dynexplore explain`, `watch`, `open`, `replay`, `lab` and `bench`, and the tools (cli_tools.py).

Which idea lives here: a thin layer over the public API. Each command is one function that takes parsed arguments and
returns an exit status; a mistake in the input is reported in one sentence on standard error (status 2), and a
failing script keeps its own traceback and status. The rooms a command needs are imported inside it, so that
`dynexplore --help` is quick and `dynexplore open` works without torch.

In:  the words after `dynexplore`.
Out: text on standard output, files where --html, --json and --save say so, the exit status.

PyTorch has no counterpart; its reports come from the environment variables TORCH_LOGS and TORCH_TRACE.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import dynexplore
from dynexplore import cli_tools
from dynexplore.cli_program import Mistake, Program, as_python_starts_it, script_words_last

if TYPE_CHECKING:
    from dynexplore.recording.recording import Recording

CHECKOUT = Path(__file__).resolve().parent.parent
"""The folder with notebooks/ and benchmarks/, where dynexplore runs from a checkout."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    looks = parser()
    arguments, others = looks.parse_known_args(script_words_last(sys.argv[1:] if words is None else words))
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
    """The parser of the command line."""
    top = argparse.ArgumentParser(prog="dynexplore", description="See what a TorchDynamo does with your code.")
    top.add_argument("--version", action="version", version=f"dynexplore {dynexplore.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    one = commands.add_parser(
        "explain",
        help="run a script under the engine and report what was captured",
        usage="dynexplore explain [--html OUT] [--json OUT] [--save OUT] [--graphviz] [--redact] [--no-real] SCRIPT.py [ARGS ...]",
        description="Run SCRIPT.py unchanged under the engine, and report its graphs, guards and graph breaks. "
        "These options may also stand after ARGS; everything after -- belongs to the script.",
    )
    one.add_argument("--json", type=Path, metavar="OUT", help="write the recording, for `dynexplore open`")
    _add_outputs(one)
    one.add_argument("--no-real", action="store_true", help="record no real values beside the symbolic ones, replay nothing")
    one.add_argument("script", type=Path, metavar="SCRIPT.py")
    one.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")
    one.set_defaults(command=explain_script, passes_on=False)

    one = commands.add_parser(
        "watch",
        help="run a script that uses torch.compile, and report what torch.compile did",
        usage="dynexplore watch [--html OUT] [--json OUT] [--save OUT] [--graphviz] [--redact] [--artifacts] [--no-steps] "
        "SCRIPT.py [ARGS ...]",
        description="Run SCRIPT.py unchanged, as Python would, and report what torch.compile did in it: graphs, guards, breaks, "
        "recompiles, and each step of its capture. These options may also stand after ARGS; all after -- belongs to the script.",
    )
    one.add_argument("--json", type=Path, metavar="OUT", help="write the recording, for `dynexplore open`")
    _add_outputs(one)
    one.add_argument("--artifacts", action="store_true", help="add what AOTAutograd and Inductor make: graphs, code, times")
    one.add_argument("--no-steps", action="store_true", help="leave out the symbolic stack after each instruction")
    one.add_argument("script", type=Path, metavar="SCRIPT.py")
    one.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")
    one.set_defaults(command=watch_script, passes_on=False)

    cli_tools.add_to(commands)

    one = commands.add_parser(
        "open",
        help="show a saved recording, or a folder of TORCH_TRACE",
        description="Show a recording in the browser, or as text where the output is no terminal: one that was saved, or what "
        "TORCH_TRACE=DIR left of a job that used torch.compile (the folder, or one log of it). Needs no torch.",
    )
    one.add_argument("recording", type=Path, metavar="REC.json|DIR")
    one.add_argument("--rank", type=int, metavar="N", help="the rank whose log is shown, of a folder that has several (the lowest)")
    one.add_argument("--text", action="store_true", help="print it as text")
    _add_outputs(one)
    one.set_defaults(command=open_recording, passes_on=False)

    one = commands.add_parser(
        "replay",
        help="show a saved frame, or run it again",
        description="Show a frame that config.replay_record_enabled or record_frame saved; nothing of it is run without --trust.",
    )
    one.add_argument("frame", type=Path, metavar="ONE.frame")
    one.add_argument("--trust", action="store_true", help="run it in a process of its own: the file holds code")
    _add_outputs(one)
    one.set_defaults(command=replay_frame, passes_on=False)

    one = commands.add_parser(
        "lab", help="open the tutorials in JupyterLab", epilog="Other options go to jupyter lab (--no-browser, --port)."
    )
    one.set_defaults(command=open_lab, passes_on=True)

    one = commands.add_parser(
        "bench",
        help="run the benchmarks beside torch.compile",
        add_help=False,  # each benchmark has its own
    )
    one.set_defaults(command=run_benchmark, passes_on=True)
    return top


def _add_outputs(command: argparse.ArgumentParser) -> None:
    command.add_argument("--html", type=Path, metavar="OUT", help="write the explorer as one HTML file")
    command.add_argument(
        "--save", type=Path, metavar="OUT", help="write a file of the form that its ending names: .html, .json, .txt, .dot or .svg"
    )
    command.add_argument(
        "--graphviz",
        action="store_true",
        help="put graphviz into HTML files (0.8 MB more): groups of a diagram open and close there",
    )
    command.add_argument("--redact", action="store_true", help="leave tensor elements, string constants and paths out of the files")


def explain_script(arguments: argparse.Namespace) -> int:
    """Run a script under the engine, print the report, write the files that were asked for."""
    script: Path = arguments.script
    if not script.is_file():
        raise Mistake(f"there is no script {script}")
    outputs = _outputs(arguments)  # mistakes are reported before a long run, not after it
    program = Program(script)
    with as_python_starts_it(script, arguments.args), dynexplore.config.patch(log_level="ERROR"):
        # graph breaks are not logged as they happen: the report below has all of them
        explanation = dynexplore.explain(program.as_function(), real=not arguments.no_real)()
    print(explanation)
    _mention_torch_compile(script)
    _write(outputs, explanation.recording, arguments)
    return program.status


def _mention_torch_compile(script: Path) -> None:
    from dynexplore.watching.watch import has_compiled

    if has_compiled():
        print(f"{script.name} uses torch.compile: above stands what dynexplore captures of the rest of it.")
        print(f"What torch.compile did: dynexplore watch {script}")


def watch_script(arguments: argparse.Namespace) -> int:
    """Run a script while torch.compile is watched, print the report, write the files that were asked for."""
    script: Path = arguments.script
    if not script.is_file():
        raise Mistake(f"there is no script {script}")
    outputs = _outputs(arguments)
    program = Program(script)
    options = {"steps": not arguments.no_steps, "artifacts": arguments.artifacts}
    with as_python_starts_it(script, arguments.args), dynexplore.watch(**options) as seen:
        program.run()
    print(seen)
    _write(outputs, seen.recording, arguments)
    return program.status


def open_recording(arguments: argparse.Namespace) -> int:
    """Show a saved recording in the browser or as text, or write the files that were asked for."""
    path: Path = arguments.recording
    outputs = _outputs(arguments)
    recording = _read_traces(path, arguments.rank) if path.is_dir() or path.suffix == ".log" else _read_recording(path)
    if outputs:
        _write(outputs, recording, arguments)
    elif arguments.text or not sys.stdout.isatty():
        from dynexplore.views import text

        print(text.report(recording))
    else:
        _open_in_browser(recording, path.stem, arguments.redact)
    return 0


def _read_recording(path: Path) -> Recording:
    try:
        return dynexplore.Recording.from_json(path.read_bytes())
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror}") from None
    except dynexplore.exc.RecordingError as error:
        raise Mistake(f"{path}: {error}") from None


def _read_traces(path: Path, rank: int | None) -> Recording:
    """What TORCH_TRACE left; what could not be read of it is told on standard error."""
    from dynexplore.traces.folder import open_traces

    if not path.exists():
        raise Mistake(f"there is no log {path}")
    bar = _ProgressBar(path.name)
    try:
        opened = open_traces(path, rank=rank, progress=bar)
    except dynexplore.exc.RecordingError as error:
        raise Mistake(str(error)) from None
    finally:
        bar.end()
    for notice in opened.notices:
        print(notice, file=sys.stderr)
    return opened.recording


class _ProgressBar:
    """How much of a long work is done, in one line of a terminal; nothing elsewhere, and nothing of what is quickly done."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_shown = sys.stderr.isatty()
        self._next = 20_000_000
        self._drawn = False

    def __call__(self, done: int, of: int) -> None:
        if self._is_shown and done >= self._next:
            self._next = done + max(of // 100, 1_000_000)
            filled = 30 * done // max(of, 1)
            megabytes = f"{done / 1e6:,.0f} of {of / 1e6:,.0f} MB"
            print(f"\r{self._name} [{'#' * filled}{'.' * (30 - filled)}] {megabytes}", end="", file=sys.stderr, flush=True)
            self._drawn = True

    def end(self) -> None:
        """The line is free again."""
        if self._drawn:
            print(file=sys.stderr)


def _open_in_browser(recording: Recording, name: str, redact: bool) -> None:
    """Write the page where it stays until the system cleans up, for the browser reads it later."""
    page = Path(tempfile.mkdtemp(prefix="dynexplore-")) / f"{name}.html"
    recording.save(page, redact=redact)
    is_open = webbrowser.open(page.as_uri())
    print(f"{'opened' if is_open else 'there is no browser here; open'} {page}")


def replay_frame(arguments: argparse.Namespace) -> int:
    """Show a saved frame; with --trust run it, and write the files that were asked for. Status 1: its translation fails."""
    outputs = _outputs(arguments)
    if outputs and not arguments.trust:
        raise Mistake("files are written of a run, and nothing runs without --trust")
    try:
        frame = dynexplore.replay(arguments.frame, trust=arguments.trust)
    except dynexplore.exc.ReplayError as error:
        raise Mistake(str(error)) from None
    print(frame)
    if frame.recording is not None:
        _write(outputs, frame.recording, arguments)
    return int(frame.outcome is not None and frame.outcome.kind in ("failed", "died"))


def open_lab(arguments: argparse.Namespace) -> NoReturn:
    """Become JupyterLab on the first tutorial: that of the checkout, or a copy of the one that came with the package."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise Mistake("JupyterLab is not installed: pip install 'dynexplore[lab]'")
    folder = CHECKOUT / "notebooks"
    if not folder.is_dir():
        folder = _copied_tutorials(Path.cwd() / "dynexplore-tutorials")
    root, first = folder.parent, sorted(folder.glob("*.ipynb"))[0]
    # the address that is printed leads there, too, for whoever opens it by hand on another machine
    address = f"/lab/tree/{folder.name}/{first.name}"
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}", f"--LabApp.default_url={address}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # Jupyter refuses to run as root otherwise
    os.chdir(root)
    sys.stdout.flush()
    os.execv(sys.executable, [*command, *arguments.others])  # in its place: Ctrl-C and every other signal are JupyterLab's own


def _copied_tutorials(folder: Path) -> Path:
    """Put the tutorials of the installed package where they can be edited; those that are there already stay as they are."""
    try:
        folder.mkdir(exist_ok=True)
        for notebook in sorted((Path(dynexplore.__file__).parent / "tutorials").glob("*.ipynb")):
            if not (folder / notebook.name).exists():
                shutil.copy(notebook, folder)
    except OSError as error:
        raise Mistake(f"the tutorials cannot be copied to {folder}: {error.strerror}") from None
    print(f"the tutorials are in {folder}")
    return folder


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
    elif {"-h", "--help"} & set(options):
        print(_help_of_benchmarks(benchmarks))
        return 0
    # the benchmarks measure this checkout, whether or not it is installed
    paths = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    return max(subprocess.call([sys.executable, str(path), *options], env=environment) for path in benchmarks.values())


def _help_of_benchmarks(benchmarks: dict[str, Path]) -> str:
    """Their names, each with the first line of its own description."""
    about = {name: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "") for name, path in benchmarks.items()}
    lines = [f"  {name:<{max(map(len, benchmarks))}}  {text.partition(chr(10))[0]}" for name, text in about.items()]
    return "\n".join([
        "usage: dynexplore bench [NAME] [OPTIONS ...]", "", *lines, "",
        "Without a NAME all of them run; options go to the benchmark, and dynexplore bench NAME --help lists them.",
    ])  # fmt: skip


def _outputs(arguments: argparse.Namespace) -> list[tuple[Path, str]]:
    """The files that are asked for, each with the ending that says its form; files that cannot be written are reported now."""
    asked = [(arguments.html, ".html"), (getattr(arguments, "json", None), ".json"), (arguments.save, "")]
    outputs = [(out, ending or out.suffix.lower()) for out, ending in asked if out is not None]
    if arguments.graphviz and ".html" not in [ending for _, ending in outputs]:
        raise Mistake("--graphviz applies to HTML files: add --html OUT")
    from dynexplore.widgets.exports import check_form

    for out, ending in outputs:
        if not out.resolve().parent.is_dir():
            raise Mistake(f"{out} cannot be written: there is no folder {out.parent}")
        try:
            check_form(out, ending)
        except dynexplore.exc.ExportError as error:
            raise Mistake(str(error)) from None
    return outputs


def _write(outputs: Sequence[tuple[Path, str]], recording: Recording, arguments: argparse.Namespace) -> None:
    from dynexplore.widgets.exports import write

    for out, ending in outputs:
        try:
            holds = write(recording, out, ending, redact=arguments.redact, graphviz=arguments.graphviz)
        except dynexplore.exc.ExportError as error:
            raise Mistake(str(error)) from None
        print(f"wrote {out} ({out.stat().st_size / 1024:.0f} KB). {holds}")


if __name__ == "__main__":
    sys.exit(main())
