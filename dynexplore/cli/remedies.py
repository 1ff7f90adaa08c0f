"""`dynexplore try SCRIPT` and `dynexplore fix SCRIPT`: find out which remedies help, by running the program with each of them.

The idea: run the trial in tools/tried_remedies.py, or the search in tools/proposed_patch.py, and print its result. A patch goes to
standard output and the report to standard error, so that `dynexplore fix SCRIPT | git apply` works.

In: parsed arguments. Out: the report as text, and as JSON if --json is given; the patch.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from dynexplore.cli.captures import seconds
from dynexplore.cli.program import Mistake


def add_to(commands: Any) -> None:
    """Add `try` and `fix` to the command line's parser."""
    command = commands.add_parser(
        "try",
        help="try remedies for recompiles and graph breaks on copies of a script",
        usage="dynexplore try [--calls N] [--for SECONDS] [--most N] [--json OUT] SCRIPT.py [ARGS ...]",
        description="Run SCRIPT.py unchanged, then once for each remedy for the costliest problems, each time on a fresh copy of "
        "the script's folder in a scratch directory. Report which remedies helped: fewer recompiles and graph breaks, same values. "
        "Your files do not change, unless the script writes to absolute paths.",
    )
    _add_script_and_limits(command, 8, "try at most N remedies (default: 8)")
    command.add_argument("--json", type=Path, metavar="OUT", help="write the remedies and their effects as JSON")
    command.set_defaults(command=try_script, passes_on=False)
    _add_fix(commands)


def _add_fix(commands: Any) -> None:
    command = commands.add_parser(
        "fix",
        help="print a patch that removes graph breaks and recompiles from a script",
        usage="dynexplore fix [--write] [--calls N] [--for SECONDS] [--most N] SCRIPT.py [ARGS ...]",
        description="Search for a patch to SCRIPT.py and the modules next to it. Each change is tried on a fresh copy of the "
        "script's folder in a scratch directory, and kept if fewer graph breaks and recompiles remain and the values are the same. "
        "Prints the patch as a unified diff on standard output, and its effects on standard error. Your files do not change "
        "without --write.",
    )
    command.add_argument("--write", action="store_true", help="apply the patch to your files")
    _add_script_and_limits(command, 16, "run the program at most N times (default: 16)")
    command.set_defaults(command=fix_script, passes_on=False)


def _add_script_and_limits(command: argparse.ArgumentParser, most: int, most_help: str) -> None:
    command.add_argument("--calls", type=int, default=20, metavar="N", help="end a run after N compiled calls (default: 20)")
    command.add_argument(
        "--for", type=seconds, default=120.0, dest="seconds", metavar="SECONDS", help="end a run after this time (default: 120)"
    )
    command.add_argument("--most", type=int, default=most, metavar="N", help=most_help)
    command.add_argument("script", type=Path, metavar="SCRIPT.py")
    command.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")


def try_script(arguments: argparse.Namespace) -> int:
    """Try the remedies, and print what they changed; return 1 if the program cannot be run."""
    from dynexplore.tools.scratch_runs import CannotTry
    from dynexplore.tools.tried_remedies import try_remedies

    try:
        trial = try_remedies(
            arguments.script, arguments.args, calls=arguments.calls, seconds=arguments.seconds, most=arguments.most
        )
    except CannotTry as error:
        raise Mistake(str(error)) from None
    print(trial)
    if arguments.json is not None:
        rows = [{**dataclasses.asdict(event), "how": remedy.how, "costs": remedy.costs} for _, remedy, event in trial.tried]
        arguments.json.write_text(json.dumps({"script": trial.script, "tried": rows}, indent=1), encoding="utf-8")
    return 1 if trial.before.error else 0


def fix_script(arguments: argparse.Namespace) -> int:
    """Search a patch and print it, or write it; return 1 if there is something to fix and no patch."""
    from dynexplore.tools.proposed_patch import propose_patch
    from dynexplore.tools.scratch_runs import CannotTry

    try:
        patch = propose_patch(
            arguments.script, arguments.args, calls=arguments.calls, seconds=arguments.seconds, most=arguments.most
        )
        print(patch, file=sys.stderr)
        if arguments.write:
            for file in patch.write():
                print(f"wrote {file}", file=sys.stderr)
        else:
            print(patch.diff, end="")
    except CannotTry as error:
        raise Mistake(str(error)) from None
    return 1 if patch.before.error or (patch.failed and not patch.steps) else 0
