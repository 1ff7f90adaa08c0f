"""The tools on the command line: `dynexplore diagnose`, `minify`, `breaks`, `coverage` and `compare`, on a call in a script.

The idea: the tools need a function and its arguments, and a script already makes that call. So it runs, unmodified, up to the first
call of the function that SCRIPT.py:FUNCTION names, and the tool is applied to that call; without a name, to the first function, or
module, that gets a tensor.

In: parsed arguments. Out: the tool's result as text, the files given by --html, --json and --out, the status: 0 if nothing is
wrong, 1 if something fails, 2 for a mistake in the input.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dynexplore
from dynexplore.cli import output_files
from dynexplore.cli.program import AS_MODULE, Mistake, Program, as_python_starts_it
from dynexplore.engine.gc_control import importing
from dynexplore.recording.engines import DYNEXPLORE, ENGINES, TORCH
from dynexplore.views.text import MOST_LINES

if TYPE_CHECKING:
    from dynexplore.session.targets import Targets
    from dynexplore.tools.first_call import FirstCall

_WHICH = (
    "SCRIPT.py runs unchanged up to the first call to FUNCTION, and ends there. FUNCTION is a function, Class.method, FILE:LINE, a"
    " glob, or the class or a global variable of an nn.Module. Without it, the script runs up to the first call that"
    " `dynexplore explain` would capture. These options may also follow ARGS; everything after `--` belongs to the script."
)


def add_to(commands: Any) -> None:
    """Add the tools to the command line's parser."""
    for add in (_add_diagnose, _add_minify, _add_breaks, _add_coverage, _add_compare):
        add(commands)


def _add_diagnose(commands: Any) -> None:
    options = ("--backend NAME", _DYNAMIC, "--tolerance X", _ENGINE, "--html OUT", "--summary-json OUT")
    command = _command(commands, "diagnose", "find the first compiler stage that fails", _diagnose, *options)
    _add_backend(command)
    output_files.add_summary(command)


def _add_minify(commands: Any) -> None:
    options = (_ENGINE, "--backend NAME", _DYNAMIC, "--after dynamo|aot", "--tolerance X", "--out REPRO.py", "--html OUT")
    summary = "reduce a failure to the smallest graph, and write it as a standalone program"
    command = _command(commands, "minify", summary, _minify, *options)
    _add_backend(command)
    command.add_argument(
        "--after",
        choices=("dynamo", "aot"),
        default="dynamo",
        help="which graph to reduce: the captured one, or the one with ATen operators",
    )
    command.add_argument(
        "--out", type=Path, default=Path("repro.py"), metavar="REPRO.py", help="the program to write (default: repro.py)"
    )


def _add_breaks(commands: Any) -> None:
    summary = "list all graph breaks, costliest first"
    command = _command(commands, "breaks", summary, _breaks, _ENGINE, _DYNAMIC, _FULL, "--html OUT")
    _add_engine_of_call(command)
    _add_dynamic(command)
    _add_full(command)


def _add_coverage(commands: Any) -> None:
    summary = "measure how much of a call runs inside graphs"
    command = _command(commands, "coverage", summary, _coverage, _ENGINE, "--backend NAME", _DYNAMIC, _FULL, "--html OUT")
    _add_engine_of_call(command)
    _add_dynamic(command)
    _add_full(command)
    command.add_argument("--backend", default="eager", metavar="NAME", help="the backend (default: eager)")


def _add_compare(commands: Any) -> None:
    options = ("--methods A,B", "--engines", _DYNAMIC, _FULL, "--html OUT", "--json OUT")
    summary = "capture a call with each of PyTorch's capture methods, and compare the results"
    command = _command(commands, "compare", summary, _compare, *options)
    command.add_argument("--methods", metavar="A,B", help="only these: fx, jit.trace, jit.script, lazy, export, dynamo, dynexplore")
    command.add_argument("--engines", action="store_true", help="compare only torch.compile and dynexplore, step by step")
    _add_dynamic(command)
    _add_full(command)
    command.add_argument("--seconds", type=float, default=120.0, metavar="N", help="time limit for each method (default: 120)")
    command.add_argument("--json", type=Path, metavar="OUT", help="write everything as JSON")


def _command(commands: Any, name: str, summary: str, run: Callable[..., int], *options: str) -> argparse.ArgumentParser:
    own = [f"[{option}]" for option in (*options, "--only NAME", "--not NAME", "--all")]
    usage = " ".join([f"dynexplore {name}", *own, PROGRAM])
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, usage=usage, description=f"{summary[0].upper()}{summary[1:]}. {_WHICH}"
    )
    command.add_argument("--html", type=Path, metavar="OUT", help="write the report as one HTML file")
    add_targets(command, "use the first function call of the script, even if `explain` would not capture it")
    command.add_argument(AS_MODULE, action="store_true", help=argparse.SUPPRESS)
    command.add_argument("script", metavar="SCRIPT.py[:FUNCTION]")
    command.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")
    command.set_defaults(command=run, passes_on=False)
    return command


_ENGINE, _DYNAMIC, _FULL = "--engine NAME", "--dynamic", "--full"
PROGRAM = "SCRIPT.py[:FUNCTION] | NOTEBOOK.ipynb | -m MODULE [ARGS ...]"


def add_targets(command: argparse.ArgumentParser, all_words: str) -> None:
    """Add the options that select what is captured; `all_words` is the help text of --all."""
    names = "NAME, Class.method, FILE:LINE or a glob; repeatable"
    command.add_argument("--only", action="append", default=[], metavar="NAME", help=f"only these functions and modules: {names}")
    command.add_argument("--not", action="append", default=[], dest="excluded", metavar="NAME", help=f"all but these: {names}")
    command.add_argument("--all", action="store_true", help=all_words)


def program_of(arguments: argparse.Namespace) -> tuple[Program, list[str]]:
    """The program, and the names of functions to capture: those of --only, and the part after a colon in SCRIPT.py:FUNCTION."""
    script: str = arguments.script
    if arguments.run_module:
        return Program(Path(script), is_module=True), list(arguments.only)
    path, _, name = script.rpartition(":")
    file = Path(script if not path or Path(script).is_file() else path)  # a colon may also be part of the file name
    if not file.is_file():
        raise Mistake(f"there is no script {file}")
    return Program(file), [*arguments.only, *([name] if file != Path(script) and name else [])]


def targets_of(
    program: Program, names: list[str], arguments: argparse.Namespace, *, compile_targets: list[Any] | None = None
) -> Targets:
    """The targets of the program."""
    with importing():  # and torch with it, which most programs import anyway
        from dynexplore.session.targets import Pattern, Targets

    folder = str(program.file.resolve().parent) + os.sep if program.module else ""
    return Targets(tuple(map(Pattern, names)), tuple(map(Pattern, arguments.excluded)), compile_targets, folder)


def add_engine(command: argparse.ArgumentParser, words: str, default: str | None = None) -> None:
    """Add the option that selects an engine."""
    command.add_argument("--engine", metavar="NAME", choices=ENGINES, default=default, help=words)


def _add_engine_of_call(command: argparse.ArgumentParser) -> None:
    words = "the engine to report on: dynexplore or torch.compile (default: torch.compile if the script compiles the call)"
    add_engine(command, words)


def _add_full(command: argparse.ArgumentParser) -> None:
    command.add_argument("--full", action="store_true", help="print the whole report, not only the first screen")


def _add_dynamic(command: argparse.ArgumentParser) -> None:
    command.add_argument("--dynamic", action="store_true", default=None, help="use symbolic sizes from the first call on")


def _add_backend(command: argparse.ArgumentParser) -> None:
    _add_engine_of_call(command)
    command.add_argument("--backend", metavar="NAME", help="the backend to test (default: torch.compile's, otherwise inductor)")
    _add_dynamic(command)
    command.add_argument("--tolerance", type=float, metavar="X", help="the difference to allow, relative to the largest element")


# -- the tools -----------------------------------------------------------------------------------------------


def _diagnose(arguments: argparse.Namespace) -> int:
    """Run `diagnose`; status 1: a stage fails."""
    output_files.check_summary(arguments)
    options = _layer_options(arguments)
    status, diagnosis = _run_on_call(arguments, dynexplore.diagnose, options)
    if status is None and arguments.summary_json is not None:
        from dynexplore.views.summary import of_diagnosis

        output_files.write_summary(of_diagnosis(diagnosis), arguments)
    return int(diagnosis.failing is not None) if status is None else status


def _minify(arguments: argparse.Namespace) -> int:
    """Run `minify`; status 1: something fails, and REPRO.py reproduces it."""
    from dynexplore.tools.minifier import NothingFails

    out: Path = arguments.out
    _check_place(out)
    options = {**_layer_options(arguments), "after": arguments.after}
    try:
        status, minified = _run_on_call(arguments, dynexplore.minify, options)
    except NothingFails as error:
        print(f"Nothing to minimize: {error}")
        return 0
    if status is not None:
        return status
    print(f"wrote {minified.write(out)}: run it with python {out}")
    return 1


def _layer_options(arguments: argparse.Namespace) -> dict[str, Any]:
    return _named(arguments, "backend", "tolerance", "engine", "dynamic")


def _named(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names}


def _breaks(arguments: argparse.Namespace) -> int:
    return _run_on_call(arguments, dynexplore.all_breaks, _named(arguments, "engine", "dynamic"))[0] or 0


def _coverage(arguments: argparse.Namespace) -> int:
    return _run_on_call(arguments, dynexplore.coverage, _named(arguments, "engine", "backend", "dynamic"))[0] or 0


def _compare(arguments: argparse.Namespace) -> int:
    if arguments.json is not None:
        _check_place(arguments.json)
    if arguments.engines:
        if arguments.methods:
            raise Mistake("--engines compares torch.compile with dynexplore, so it cannot be combined with --methods")
        status, comparison = _run_on_call(arguments, dynexplore.compare_engines, _named(arguments, "dynamic"))
    else:
        methods = arguments.methods.split(",") if arguments.methods else None
        options = {"methods": methods, **_named(arguments, "seconds", "dynamic")}
        status, comparison = _run_on_call(arguments, dynexplore.compare, options)
    if status is None and arguments.json is not None:
        arguments.json.write_text(comparison.to_json(), encoding="utf-8")
        print(f"wrote {arguments.json}")
    return status or 0


# -- a call of a script --------------------------------------------------------------------------------------


def _run_on_call(arguments: argparse.Namespace, tool: Callable[..., Any], options: dict[str, Any]) -> tuple[int | None, Any]:
    """The result of a tool on the script's call; or the status of a script that failed before it, or in it."""
    from dynexplore.lenses.compare import NothingToCompare
    from dynexplore.tools.first_call import NotCalled, at_first_call
    from dynexplore.tools.minifier import NothingFails

    program, names = program_of(arguments)
    names = names or ["*"] * arguments.all
    _check_place(arguments.html)

    def look(call: FirstCall) -> Any:
        whose = _set_from_call(options, call, tool.__name__)
        print(f"First call to {call.name} in {program.script}{whose}:")
        return tool(call.target, *call.args, **options, **call.kwargs)

    with as_python_starts_it(program, arguments.args), dynexplore.config.patch(log_level="ERROR"):
        try:
            result = at_first_call(program.as_function(), targets_of(program, names, arguments), look)
        except NotCalled as error:
            if program.status or program.error:
                return program.status, None
            raise Mistake(str(error)) from None
        except (NothingFails, Mistake):
            raise
        except (dynexplore.exc.DynexploreError, NothingToCompare) as error:
            raise Mistake(str(error)) from None
        except Exception as error:  # raised by the function: printed as the script would print it
            program.failed(error)
            return program.status, None
    _show(result, arguments)
    return None, result


def _set_from_call(options: dict[str, Any], call: FirstCall, tool: str) -> str:
    """Set the options of a tool that are left to the call; returns which engine that means, if nobody has named one."""
    clashing = sorted(options.keys() & call.kwargs.keys())
    if clashing:
        raise Mistake(f"{call.name} has an argument named {clashing[0]!r}, as this command has: call dynexplore.{tool} in Python")
    whose = ""
    if options.get("engine", DYNEXPLORE) is None and call.is_compiled:
        options["engine"] = TORCH
        whose = ", captured by torch.compile (to capture it with dynexplore's engine, pass --engine dynexplore)"
    if "engine" in options:  # such a tool takes these settings from a wrapper, but the call has the function inside
        unset = {name for name, value in options.items() if value is None}
        options.update({name: getattr(call, name) for name in unset & {"backend", "dynamic"}})
    return whose


def _check_place(out: Path | None) -> None:
    """Report a file that cannot be written, before a long run."""
    if out is not None and (not out.resolve().parent.is_dir() or out.is_dir() or not os.access(out.resolve().parent, os.W_OK)):
        raise Mistake(
            f"{out} cannot be written: {'it is a folder' if out.is_dir() else f'there is no folder {out.parent} to write to'}"
        )


def _show(result: Any, arguments: argparse.Namespace) -> None:
    is_cut = not getattr(arguments, "full", True) and hasattr(result, "text")  # only some commands have the option
    print(result.text(MOST_LINES - 1) if is_cut else result)  # a line is printed above it
    out: Path | None = arguments.html
    if out is not None:
        from dynexplore.views.html_text import document

        if hasattr(result, "save_html"):  # a page with its own scripts
            result.save_html(out)
        else:
            out.write_text(document(Path(arguments.script).name, result._repr_html_()), encoding="utf-8")
        print(f"wrote {out} ({out.stat().st_size / 1024:.0f} KB)")
