"""`dynexplore explain` and `dynexplore watch`: run an unmodified program and report what was captured.

The idea: a program runs once. `explain` captures its targets (session/targets.py) with this engine, until the program calls
torch.compile: from then on torch.compile is watched, because what matters is what ran, and not the text of the file. `watch`
watches torch.compile from the start. Options override both. Under torchrun, `watch --ranks` writes a file for each process, and
rank 0 joins them.

In: parsed arguments. Out: the report as text, the files given by --html, --json and --save, the program's own status.

PyTorch's counterpart: none; its reports are enabled by the environment variables TORCH_LOGS and TORCH_TRACE.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dynexplore
from dynexplore.cli import output_files, tools
from dynexplore.cli.output_files import Outputs
from dynexplore.cli.program import (
    AS_MODULE,
    Mistake,
    Program,
    as_python_starts_it,
    ends_in_good_order,
    imports_use_torch_compile,
    signal_handlers_restored,
)
from dynexplore.cli.progress import Progress
from dynexplore.engine.gc_control import gc_disabled, importing
from dynexplore.recording.engines import DYNEXPLORE, TORCH

if TYPE_CHECKING:
    from dynexplore.ranks.ranks import Ranks
    from dynexplore.recording.recording import Recording
    from dynexplore.session.program_capture import TargetCapture
    from dynexplore.session.target_search import TargetSearch
    from dynexplore.session.targets import Choice
    from dynexplore.watching.watch import Watch

_OUTPUTS = "[--html OUT] [--json OUT] [--save OUT] [--summary-json OUT] [--perfetto OUT] [--graphviz] [--redact]"
_ANYWHERE = " These options may also follow ARGS; everything after `--` belongs to the script."


def add_to(commands: Any) -> None:
    """Add `explain` and `watch` to the command line's parser."""
    _add_explain(commands)
    _add_watch(commands)


def _add_explain(commands: Any) -> None:
    command = commands.add_parser(
        "explain",
        help="run a script and report its graphs, graph breaks and recompiles",
        usage=f"dynexplore explain [--only NAME] [--not NAME] [--all] {_OUTPUTS} [--no-real] [--full] [--for SECONDS] [--calls N] "
        f"[--engine NAME] {tools.PROGRAM}",
        description="Run SCRIPT.py unchanged, capture the outermost calls to modules and the script's functions that work on "
        "tensors, and report graphs, graph breaks and recompiles. Imports, model construction and training loops run as plain "
        "Python. If the script calls torch.compile, the report is about torch.compile instead." + _ANYWHERE,
    )
    _add_program(command, explain_script)
    tools.add_targets(command, "capture everything that runs, including imports and constructors")
    command.add_argument("--no-real", action="store_true", help="do not record real values next to the symbolic ones (faster)")
    command.add_argument("--calls", type=int, default=0, metavar="N", help="end the script after N captured calls")
    tools.add_engine(
        command, "the engine to report on: dynexplore or torch.compile (default: torch.compile if the script calls it)"
    )


def _add_watch(commands: Any) -> None:
    command = commands.add_parser(
        "watch",
        help="run a script that uses torch.compile and report what torch.compile did",
        usage=f"dynexplore watch [--only NAME] [--not NAME] [--all] {_OUTPUTS} [--artifacts] [--no-steps] [--check] "
        "[--guard-prices] [--full] "
        f"[--for SECONDS] [--engine NAME] [--ranks OUT] {tools.PROGRAM}",
        description="Run SCRIPT.py unchanged and report what torch.compile did: graphs, guards, graph breaks, recompiles, and each "
        "step of its capture." + _ANYWHERE,
        epilog="Under torchrun: torchrun --nproc-per-node N -m dynexplore watch --ranks OUT SCRIPT.py",
    )
    _add_program(command, watch_script)
    tools.add_targets(command, "show everything that torch.compile compiled (the default)")
    command.add_argument("--artifacts", action="store_true", help="add what AOTAutograd and Inductor generate: graphs, code, times")
    command.add_argument("--no-steps", action="store_true", help="leave out the symbolic stack after each instruction")
    command.add_argument(
        "--check", action="store_true", help="also run compiled calls in eager mode, on copies of their inputs, and compare"
    )
    command.add_argument("--guard-prices", action="store_true", help="measure what guards cost, and what guard filters would save")
    tools.add_engine(
        command, "the engine: torch.compile, or dynexplore, which captures what the script passes to torch.compile", TORCH
    )
    command.add_argument(
        "--ranks",
        type=Path,
        metavar="OUT",
        help="for a job with several processes: collect one file per rank in this folder",
    )


def _add_program(command: argparse.ArgumentParser, run: Callable[..., int]) -> None:
    command.add_argument("--json", type=Path, metavar="OUT", help="write the recording, for `dynexplore open`")
    output_files.add_to(command)
    command.add_argument("--full", action="store_true", help="print the whole report, not only the first screen")
    command.add_argument(
        "--for",
        dest="seconds",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="end the script after this time, such as 30s or 2m",
    )
    command.add_argument(AS_MODULE, action="store_true", help=argparse.SUPPRESS)
    command.add_argument("script", metavar="SCRIPT.py")
    command.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")
    command.set_defaults(command=run, passes_on=False)


def seconds(text: str) -> float:
    """Parse a duration.

    >>> seconds("30s"), seconds("2m"), seconds("1.5")
    (30.0, 120.0, 1.5)
    """
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        span = float(number) * unit
    except ValueError:
        span = 0.0
    if not 0 < span < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 30s or 2m")
    return span


@signal_handlers_restored()
def explain_script(arguments: argparse.Namespace) -> int:
    """Run a program under the engine, print the report, write the requested files."""
    outputs = output_files.requested_files(arguments)
    program, names = tools.program_of(arguments)
    process = os.getpid()
    if arguments.engine == TORCH:
        report = _watched(program, arguments)
        return _finish(report.recording, program, outputs, arguments, notices=report.notices, process=process)
    capture, watch = _captured(program, names, arguments)
    recording, notices = capture.recording, capture.notices
    if watch is not None and (watch.recording.frames or (watch.frames_seen and not capture.chosen)):
        recording, notices = watch.recording, [*watch.notices, _about_torch_compile(program)]
    elif arguments.engine is None and _has_compiled():
        notices = [*notices, f"torch.compile compiled something, too. To see what: dynexplore watch {arguments.script}"]
    return _finish(recording, program, outputs, arguments, notices=notices, process=process)


def _has_compiled() -> bool:
    from dynexplore.engine.runtime.foreign_modes import has_compiled

    return has_compiled()


def _about_torch_compile(program: Program) -> str:
    return (
        f"{program.name} calls torch.compile, so this report is about torch.compile. To use dynexplore's engine instead, pass "
        f"--engine {DYNEXPLORE}."
    )


@signal_handlers_restored()
def watch_script(arguments: argparse.Namespace) -> int:
    """Run a program while torch.compile is watched, print the report, write the requested files."""
    outputs = output_files.requested_files(arguments)
    program, names = tools.program_of(arguments)
    process = os.getpid()
    if arguments.ranks is not None:
        return _watch_as_rank(program, names, outputs, arguments)
    recording, notices, wrong = _run_under_engine(program, names, arguments)
    status = _finish(recording, program, outputs, arguments, notices=notices, process=process)
    return status or int(wrong)


# -- a run under one engine ----------------------------------------------------------------------------------


def _run_under_engine(program: Program, names: list[str], arguments: argparse.Namespace) -> tuple[Recording, list[str], bool]:
    """The recording, the notices, and whether a checked call was wrong."""
    if arguments.engine == DYNEXPLORE:
        arguments.no_real, arguments.calls, arguments.all = True, 0, False
        with dynexplore.config.patch(guard_prices=arguments.guard_prices):
            capture, _ = _captured(program, names, arguments)
        return capture.recording, capture.notices, False
    watch = _watched(
        program,
        arguments,
        steps=not arguments.no_steps,
        artifacts=arguments.artifacts,
        check=arguments.check,
        guard_prices=arguments.guard_prices,
    )
    return _narrowed(watch.recording, program, names, arguments), watch.notices, bool(watch.wrong_calls)


def _narrowed(recording: Recording, program: Program, names: list[str], arguments: argparse.Namespace) -> Recording:
    """A watch's recording without the functions that --only and --not exclude: torch.compile itself compiles all of them."""
    if not names and not arguments.excluded:
        return recording
    from dynexplore.views.targets_table import functions_of

    targets = tools.targets_of(program, names, arguments)
    selected = [each for each in functions_of(recording) if targets.selects(each.name, each.file, each.first_line, each.last_line)]
    if not selected:
        compiled = ", ".join(function.name for function in functions_of(recording)[:12]) or "nothing"
        raise Mistake(f"torch.compile compiled no function of that name; it compiled: {compiled}")
    return recording.only_frames({frame for function in selected for frame in function.frames})


def _captured(program: Program, names: list[str], arguments: argparse.Namespace) -> tuple[TargetSearch, Watch | None]:
    """Run a program, capture its targets, and watch torch.compile from the moment that the program calls it.

    Graph breaks are not logged as they happen: the report contains all of them.
    """
    watching = contextlib.ExitStack()
    watches: list[Watch] = []

    def begin_to_watch() -> None:
        if not watches:
            watches.append(watching.enter_context(dynexplore.watch()))

    search = _search(program, names, arguments, begin_to_watch)
    if arguments.engine is None and not program.module and imports_use_torch_compile(program.script):
        begin_to_watch()
    progress = Progress(search)
    with watching, as_python_starts_it(program, arguments.args), dynexplore.config.patch(log_level="ERROR"), progress:
        with ends_in_good_order(program, arguments.seconds, search.end):
            search.run(program.as_function())
    search.note_passed()
    return search, watches[0] if watches else None


def _search(
    program: Program, names: list[str], arguments: argparse.Namespace, on_torch_compile: Callable[[], None]
) -> TargetSearch:
    """The search for the targets of a program; the engine is imported for the first target, or with --all immediately."""
    targets = tools.targets_of(program, names, arguments, compile_targets=[] if arguments.engine == DYNEXPLORE else None)
    if arguments.all:
        with importing():
            from dynexplore.session.program_capture import ProgramCapture

        return ProgramCapture(program.name, targets, real=not arguments.no_real, captures_all=True)
    with importing():
        from dynexplore.recording.recording import Recording
        from dynexplore.session.target_search import TargetSearch

    path = list(sys.path)

    def begin(search: TargetSearch) -> TargetCapture:
        with _path_before(path), importing():
            from dynexplore.session.program_capture import TargetCapture

        return TargetCapture(search, real=not arguments.no_real)

    return TargetSearch(
        targets,
        Recording(title=program.name),
        begin,
        most_calls=arguments.calls,
        on_target=_announce,
        on_torch_compile=on_torch_compile,
    )


@contextlib.contextmanager
def _path_before(path: list[str]) -> Iterator[None]:
    """Restore the path from before the program ran during the block: a file next to the script may shadow a module that the engine
    needs.
    """
    of_the_program = list(sys.path)
    sys.path[:] = path
    try:
        yield
    finally:
        sys.path[:] = of_the_program


_announced: list[str] = []


def _announce(choice: Choice) -> None:
    """Print one line: which target was selected first, and how to select another."""
    if not _announced:
        _announced.append(choice.name)
        print(
            f"dynexplore: capturing {choice.name} ({choice.shown_place}); to capture something else, pass --only NAME or --all",
            file=sys.stderr,
        )


def _watched(program: Program, arguments: argparse.Namespace, **options: bool) -> Watch:
    """Run an unmodified program while torch.compile is watched."""
    with as_python_starts_it(program, arguments.args), dynexplore.watch(**options) as seen:
        with ends_in_good_order(program, arguments.seconds):
            program.run()
    return seen


# -- the report ----------------------------------------------------------------------------------------------


def _finish(
    recording: Recording, program: Program, outputs: Outputs, arguments: argparse.Namespace, *, notices: list[str], process: int
) -> int:
    """Print the report and write the files; a process that was forked from this one writes no second report."""
    if os.getpid() != process:
        return program.status
    _note_end(recording, program)
    with gc_disabled():  # a report creates many objects and no cycles; each collection would traverse torch and the recording
        _tell(recording, program, notices, full=arguments.full)
        output_files.write(outputs, recording, arguments)
    return program.status


def _note_end(recording: Recording, program: Program) -> None:
    from dynexplore.engine import events as ev

    if not recording.title:
        recording.title = program.name
    file, line = program.error_at
    recording.record(
        ev.ProgramEnded(frame=0, status=program.status, error=program.error, file=file, line=line, stopped=program.stopped)
    )


def _tell(recording: Recording, program: Program, notices: list[str], *, full: bool) -> None:
    """Print what was captured; if nothing was, print which command fits."""
    from dynexplore.views import program_report, text

    most_lines = text.MOST_LINES - len(notices)
    print(program_report.whole_report(recording) if full else program_report.report(recording, most_lines=most_lines))
    for notice in notices:
        print(notice)


# -- one process of a job ------------------------------------------------------------------------------------


def _watch_as_rank(program: Program, names: list[str], outputs: Outputs, arguments: argparse.Namespace) -> int:
    """Watch this process of a job, and save its file; rank 0 shows all of them once they exist."""
    from dynexplore.watching.rank_job import NoJob, RankJob

    folder: Path = arguments.ranks
    if arguments.summary_json is not None:
        raise Mistake(f"--summary-json covers a single process: dynexplore open {folder} --rank N --summary-json OUT")
    if arguments.check:
        raise Mistake("--check supports a single process: run the script without torchrun")
    output_files.check_forms_of_ranks(outputs)
    try:
        job = RankJob(folder)
        job.begin()
        recording, *_ = _run_under_engine(program, names, arguments)
        recording.title = program.name
        job.leave(recording, redact=arguments.redact)
        if job.rank == 0:
            ranks = job.joined()
            _tell_ranks(ranks)
            output_files.write_ranks(outputs, ranks, arguments)
            print(f"The ranks side by side: dynexplore open {folder}")
    except OSError as error:
        raise Mistake(f"{folder} cannot be written: {error.strerror}") from None
    except (NoJob, dynexplore.exc.RecordingError) as error:
        raise Mistake(str(error)) from None
    return program.status


def _tell_ranks(ranks: Ranks) -> None:
    print(ranks)
