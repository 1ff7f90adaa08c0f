"""`dynexplore explain` and `dynexplore watch`: an unchanged script, and what was captured of it.

Which idea lives here: a script runs once, under one engine. `explain` is about this one, `watch` about torch.compile; each can
be told otherwise, and a script that uses torch.compile is watched, whichever way it was given. Under torchrun, `watch --ranks`
leaves a file for each process, and the first one joins them.

In:  parsed arguments. Out: the report as text, files where --html, --json and --save say so, the script's own status.

PyTorch has no counterpart; its reports come from the environment variables TORCH_LOGS and TORCH_TRACE.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dynexplore
from dynexplore import cli_outputs, cli_tools
from dynexplore.cli_outputs import Outputs
from dynexplore.cli_program import Mistake, Program, as_python_starts_it, uses_torch_compile
from dynexplore.recording.engines import OURS, TORCH

if TYPE_CHECKING:
    from dynexplore.ranks.ranks import Ranks
    from dynexplore.session.explain import Explanation
    from dynexplore.watching.watch import Watch


def add_to(commands: Any) -> None:
    """Add `explain` and `watch` to the command line's parser."""
    one = commands.add_parser(
        "explain",
        help="run a script under the engine and report what was captured",
        usage="dynexplore explain [--html OUT] [--json OUT] [--save OUT] [--graphviz] [--redact] [--no-real] [--engine NAME] "
        "SCRIPT.py [ARGS ...]",
        description="Run SCRIPT.py unchanged under the engine, and report its graphs, guards and graph breaks; one that uses "
        "torch.compile runs as it is, and is watched. "
        "These options may also stand after ARGS; everything after -- belongs to the script.",
    )
    _add_script(one, explain_script)
    one.add_argument("--no-real", action="store_true", help="record no real values beside the symbolic ones, replay nothing")
    cli_tools.add_engine(one, "whose captures: dynexplore or torch.compile (torch.compile's where the script names it)")

    one = commands.add_parser(
        "watch",
        help="run a script that uses torch.compile, and report what torch.compile did",
        usage="dynexplore watch [--html OUT] [--json OUT] [--save OUT] [--graphviz] [--redact] [--artifacts] [--no-steps] "
        "[--engine NAME] [--ranks OUT] SCRIPT.py [ARGS ...]",
        description="Run SCRIPT.py unchanged, as Python would, and report what torch.compile did in it: graphs, guards, breaks, "
        "recompiles, and each step of its capture. These options may also stand after ARGS; all after -- belongs to the script.",
        epilog="Under torchrun: torchrun --nproc-per-node N -m dynexplore watch --ranks OUT SCRIPT.py",
    )
    _add_script(one, watch_script)
    one.add_argument("--artifacts", action="store_true", help="add what AOTAutograd and Inductor make: graphs, code, times")
    one.add_argument("--no-steps", action="store_true", help="leave out the symbolic stack after each instruction")
    cli_tools.add_engine(one, "whose captures: torch.compile, or dynexplore, which then captures what the script calls", TORCH)
    one.add_argument(
        "--ranks", type=Path, metavar="OUT", help="of a job of several processes: gather a file for each in this folder",
    )


def _add_script(command: argparse.ArgumentParser, run: Callable[..., int]) -> None:
    command.add_argument("--json", type=Path, metavar="OUT", help="write the recording, for `dynexplore open`")
    cli_outputs.add_to(command)
    command.add_argument("script", type=Path, metavar="SCRIPT.py")
    command.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")
    command.set_defaults(command=run, passes_on=False)


def explain_script(arguments: argparse.Namespace) -> int:
    """Run a script under the engine, print the report, write the files that were asked for."""
    script = _script_of(arguments)
    outputs = cli_outputs.asked_for(arguments)
    program = Program(script)
    engine = arguments.engine or (TORCH if uses_torch_compile(script) else OURS)
    report: Explanation | Watch
    report = _explained(program, arguments, real=not arguments.no_real) if engine == OURS else _watched(program, arguments)
    _tell(report, script, engine)
    if arguments.engine is None and engine == TORCH:
        print(f"{script.name} uses torch.compile, and above stands what that did; --engine dynexplore: what this engine does.")
    cli_outputs.write(outputs, report.recording, arguments)
    return program.status


def watch_script(arguments: argparse.Namespace) -> int:
    """Run a script while torch.compile is watched, print the report, write the files that were asked for."""
    outputs = cli_outputs.asked_for(arguments)
    program = Program(_script_of(arguments))
    if arguments.ranks is not None:
        return _watch_as_rank(program, outputs, arguments)
    report = _asked_engine(program, arguments)
    _tell(report, program.script, arguments.engine)
    cli_outputs.write(outputs, report.recording, arguments)
    return program.status


def _script_of(arguments: argparse.Namespace) -> Path:
    script: Path = arguments.script
    if not script.is_file():
        raise Mistake(f"there is no script {script}")
    return script


# -- a run under one engine ----------------------------------------------------------------------------------


def _asked_engine(program: Program, arguments: argparse.Namespace) -> Explanation | Watch:
    if arguments.engine == OURS:
        return _explained(program, arguments, real=False)
    return _watched(program, arguments, steps=not arguments.no_steps, artifacts=arguments.artifacts)


def _explained(program: Program, arguments: argparse.Namespace, *, real: bool) -> Explanation:
    """Run a script under this engine. Graph breaks are not logged as they happen: the report has all of them."""
    with as_python_starts_it(program.script, arguments.args), dynexplore.config.patch(log_level="ERROR"):
        explanation: Explanation = dynexplore.explain(program.as_function(), real=real)()
    return explanation


def _watched(program: Program, arguments: argparse.Namespace, **options: bool) -> Watch:
    """Run a script as it is, while torch.compile is watched."""
    with as_python_starts_it(program.script, arguments.args), dynexplore.watch(**options) as seen:
        program.run()
    return seen


def _tell(report: Explanation | Watch | Ranks, script: Path, engine: str) -> None:
    """Print what was captured; where this engine captured what torch.compile left, that there is more."""
    from dynexplore.watching.watch import has_compiled

    print(report)
    if engine == OURS and has_compiled():
        print(f"{script.name} uses torch.compile: above stands what dynexplore captures of the rest of it.")
        print(f"What torch.compile did: dynexplore watch {script}")


# -- one process of a job ------------------------------------------------------------------------------------


def _watch_as_rank(program: Program, outputs: Outputs, arguments: argparse.Namespace) -> int:
    """Watch this process of a job, and leave its file; the first one shows all of them when they are there."""
    from dynexplore.watching.rank_job import NoJob, RankJob

    folder: Path = arguments.ranks
    cli_outputs.check_forms_of_ranks(outputs)
    try:
        job = RankJob(folder)
        job.begin()
        recording = _asked_engine(program, arguments).recording
        recording.title = program.script.name
        job.leave(recording, redact=arguments.redact)
        if job.rank == 0:
            ranks = job.joined()
            _tell(ranks, program.script, arguments.engine)
            cli_outputs.write_ranks(outputs, ranks, arguments)
            print(f"The ranks side by side: dynexplore open {folder}")
    except OSError as error:
        raise Mistake(f"{folder} cannot be written: {error.strerror}") from None
    except (NoJob, dynexplore.exc.RecordingError) as error:
        raise Mistake(str(error)) from None
    return program.status
