"""`%%dynamo` at the top of a cell, `%dynamo` before an expression: run it under the engine, and show what was captured.

The idea: thin magics over `dynexplore.explain`. The cell becomes a function (source.py), is run once under the engine in the
notebook's own namespace, and prints, stores and returns the same as without the magic; then its recording is shown. A mistake in
the cell or an option is reported in one sentence; an exception of the cell propagates, its traceback reduced to the user's frames,
after the captures so far have been shown. Nothing here keeps a recording alive: `-o NAME` binds it, and re-running the cell drops
the previous one.

In: lines and cells of IPython.
Out: `load_ipython_extension` and `unload_ipython_extension`, which `%load_ext` and `%unload_ext` call.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import argparse
import dis
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.display_paths import running_cell
from dynexplore.recording.engines import DYNEXPLORE, ENGINES
from dynexplore.recording.recording import Recording
from dynexplore.views import break_inspection, cache_timeline, html_text, text
from dynexplore.widgets.display import outputs_of
from dynexplore.widgets.source import CellError, call_parts, function_code

SHOWN = "explorer"
"""The default view."""


def _each_frame(view: Callable[[Recording, int], str]) -> Callable[[Recording], str]:
    return lambda recording: "\n\n".join(view(recording, entered.frame) for entered in recording.frames)


def _part(name: str) -> Callable[[Recording], str]:
    return _each_frame(lambda recording, frame: text.debug_printout(recording, frame, (name,)))


VIEWS: dict[str, Callable[[Recording], str] | None] = {
    SHOWN: None,
    "summary": text.explanation,
    "frames": text.frames,
    "calls": text.calls,
    "timeline": cache_timeline.text,
    "graphs": lambda recording: "\n\n".join(text.graph(graph) for graph in recording.graphs),
    "bytecode": _part("bytecode"),
    "guards": _each_frame(text.guard_anatomy),
    "breaks": lambda recording: "\n\n".join(break_inspection.inspection(recording, broke) for broke in recording.breaks),
    "steps": _each_frame(text.steps),
    "artifacts": text.artifacts,
    "all": text.report,
    "none": lambda recording: "",
}
"""The values of --view: name -> the text that is shown; the explorer is not a text."""


_PARTS = ",".join(part.replace(" ", "-") for part in ev.ARTIFACT_PARTS)

_COMPILERS = ("inductor", "aot_eager")
"""The backends whose artifacts can be recorded."""


@magics_class
class DynamoMagics(Magics):
    """The magics of dynexplore."""

    @magic_arguments("%dynamo")
    @argument(
        "-b",
        "--backend",
        default="",
        help="the backend that compiles the graphs (default: eager); dynexplore.list_backends() lists them",
    )
    @argument("--fullgraph", action="store_true", help="a graph break is an error")
    @argument("--dynamic", action="store_true", help="sizes are symbols from the first call on")
    @argument("-f", "--function", metavar="FUNCTION", default="", help="capture and show only functions with this name")
    @argument("-o", "--output", metavar="NAME", default="", help="assign the recording to this variable")
    @argument("--view", default=SHOWN, help=f"what to show: {', '.join(VIEWS)}")
    @argument("--artifacts", metavar="PARTS", default="", help=f"record what the backend generates: all, or some of {_PARTS}")
    @argument("--engine", default="dynexplore", help="the engine to report on: dynexplore or torch.compile")
    @argument("--diagnose", action="store_true", help="find the first compiler stage that fails, up to the backend (inductor)")
    @argument("--no-real", action="store_true", help="do not record real values, and replay no graphs")
    @argument("--no-run", action="store_true", help="show the cell's bytecode without running it")
    @argument("code", nargs="...", help="the expression to run (a cell magic runs the lines below it)")
    @line_cell_magic
    def dynamo(self, line: str, cell: str | None = None) -> Any:
        """Run a cell, or an expression, under the engine and show what was captured.

        What the cell prints, stores and gives stays as it is without the magic.
        """
        __tracebackhide__ = True  # exceptions of a cell are shown with the user's frames only
        words, code = _split(line)
        if {"-h", "--help"} & set(words):
            _show_text(self.dynamo.__doc__.strip())
            return None
        options = _parsed(self.dynamo.parser, words)
        if cell is None:
            if not code:
                raise UsageError("%dynamo needs an expression, as in %dynamo fn(x, y); %%dynamo runs a whole cell")
            cell = code
        elif code:
            raise UsageError(f"%%dynamo takes options only, not {code!r}: the code goes into the lines below it")
        return self._show_and_run(options, cell)

    def _show_and_run(self, options: argparse.Namespace, cell: str) -> Any:
        __tracebackhide__ = True
        if options.diagnose:
            return self._diagnose(options, cell)
        options.backend = options.backend or (_COMPILERS[0] if options.artifacts else "eager")
        function = self._function(cell)
        if options.no_run:
            _show_text(dis.Bytecode(function.__code__).dis())
            return None
        explanation, error = self._run(options, function, cell)
        if options.output:
            self.shell.user_ns[options.output] = explanation.recording
        if options.function and not explanation.recording.frames:
            _show_text(f"nothing to show: no function named {options.function!r} was captured")
        else:
            _show(explanation, options.view, error)
        value = explanation.value
        del explanation  # an error's traceback keeps this frame alive, and must not keep a recording with it
        if error is not None:
            raise error
        return value

    def _diagnose(self, options: argparse.Namespace, cell: str) -> Any:
        """Return a diagnosis as the magic's value; a call is made with copies of its arguments, a cell runs a few times."""
        call = call_parts(self.shell.transform_cell(cell), self.shell.user_ns)
        function, args, kwargs = call if call is not None else (self._function(cell), (), {})
        try:
            diagnosis = dynexplore.diagnose(function, *args, backend=options.backend or "inductor", **kwargs)
        except (dynexplore.exc.InvalidBackend, dynexplore.exc.MissingBackendPackage) as error:
            raise UsageError(str(error)) from None
        if options.output:
            self.shell.user_ns[options.output] = diagnosis
        return diagnosis

    def _function(self, cell: str) -> types.FunctionType:
        source = self.shell.transform_cell(cell)
        number = running_cell()
        file = self.shell.compile.cache(source, self.shell.execution_count if number is None else number, raw_code=cell)
        try:
            code = function_code(source, file)
        except CellError as error:
            raise UsageError(str(error)) from None
        return types.FunctionType(code, self.shell.user_ns)

    def _code_of(self, text: str, file: str) -> types.CodeType:
        """The code of a cell with another text."""
        return function_code(self.shell.transform_cell(text), file)

    def _run(
        self, options: argparse.Namespace, function: types.FunctionType, text: str
    ) -> tuple[dynexplore.Explanation, BaseException | None]:
        """Run the function; return its explanation, and any exception, including Ctrl-C: the recording extends up to there."""
        __tracebackhide__ = True
        changes: dict[str, Any] = {"log_level": "ERROR"}  # breaks are shown below, not logged as they happen
        if options.function:
            changes["debug_function"] = options.function
        if options.artifacts:
            changes["artifacts"] = _parts(options.artifacts)
        dynamic = True if options.dynamic else None
        explain = dynexplore.explain(
            function, backend=options.backend, nopython=options.fullgraph, dynamic=dynamic, real=not options.no_real,
            engine=options.engine,
        )  # fmt: skip
        try:
            with explain as cell, dynexplore.config.patch(**changes):
                cell.explanation.follow_cell(text, self._code_of, options.function)
                return cell.explanation, _error_of(cell, function.__code__)
        except (dynexplore.exc.InvalidBackend, dynexplore.exc.MissingBackendPackage) as error:
            raise UsageError(str(error)) from None


def _error_of(cell: Callable[[], object], code: types.CodeType) -> BaseException | None:
    try:
        cell()
    except BaseException as error:  # re-raised after the captures are shown
        error.__traceback__ = _of_cell(error.__traceback__, code)
        return error
    return None


def _of_cell(trace: types.TracebackType | None, code: types.CodeType) -> types.TracebackType | None:
    """The part of a traceback from the cell on, without this package's frames; None if the engine refused to run the cell."""
    while trace is not None and trace.tb_frame.f_code.co_filename != code.co_filename:
        trace = trace.tb_next
    at = trace
    while at is not None:
        following = at.tb_next
        while following is not None and following.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
            following = following.tb_next
        at.tb_next = following
        at = following
    return trace


_OWN_FOLDER = os.path.join(os.path.dirname(dynexplore.__file__), "")


# -- options -----------------------------------------------------------------------------------------------------------

_WITH_VALUE = ("-b", "--backend", "-f", "--function", "-o", "--output", "--view", "--artifacts", "--engine")


def _split(line: str) -> tuple[list[str], str]:
    """The options at the start of a line, and the rest as it was typed.

    >>> _split("-o rec --fullgraph fn(x,  '-b')")
    (['-o', 'rec', '--fullgraph'], "fn(x,  '-b')")
    """
    words: list[str] = []
    rest = line.strip()
    while rest.startswith("-"):
        word, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        if word == "--":
            break
        words.append(word)
        if word in _WITH_VALUE and rest and not rest.startswith("-"):
            value, _, rest = rest.partition(" ")
            words.append(value)
            rest = rest.lstrip()
    return words, rest


def _parsed(parser: Any, words: list[str]) -> argparse.Namespace:
    try:
        options: argparse.Namespace = parser.parse_args(words)
    except UsageError as error:
        option_names = " ".join(action.option_strings[-1] for action in parser._actions if action.option_strings)
        raise UsageError(f"{str(error).strip()}; the options of %dynamo are {option_names}") from None
    if options.view not in VIEWS:
        raise UsageError(f"there is no view {options.view!r}; there are: {', '.join(VIEWS)}")
    if options.engine not in ENGINES:
        raise UsageError(f"there is no engine {options.engine!r}; there are: {', '.join(ENGINES)}")
    if options.engine != DYNEXPLORE and (options.artifacts or options.diagnose or options.function):
        raise UsageError(f"--artifacts, --diagnose and --function are not supported with --engine {options.engine}")
    if options.artifacts and options.backend not in ("", *_COMPILERS):
        raise UsageError(f"--artifacts needs the backend {' or '.join(_COMPILERS)}, not {options.backend!r}")
    if not {*_parts(options.artifacts)} <= {*ev.ARTIFACT_PARTS}:
        raise UsageError(f"--artifacts takes all, or some of {_PARTS}, separated by commas, not {options.artifacts!r}")
    if options.output and not options.output.isidentifier():
        raise UsageError(f"-o needs a variable name for the recording, and {options.output!r} is not one")
    return options


def _parts(text: str) -> tuple[str, ...]:
    """The requested artifacts.

    >>> _parts("fused-ir,code")
    ('fused ir', 'code')
    """
    return ev.ARTIFACT_PARTS if text == "all" else tuple(part.replace("-", " ") for part in text.split(",") if part)


# -- showing -----------------------------------------------------------------------------------------------------------


def _show(explanation: dynexplore.Explanation, view: str, error: BaseException | None) -> None:
    shown, recording = VIEWS[view], explanation.recording
    if error is not None and view != "none":
        ended = "was interrupted" if isinstance(error, KeyboardInterrupt) else f"raised {type(error).__name__}"
        print(f"The cell {ended}; what was captured until then is shown.", file=sys.stderr)
    if shown is None:
        display(explanation)
    elif view != "none":
        _show_text(shown(recording) or f"nothing to show: the recording has no {view}")


def _show_text(shown: str) -> None:
    display({"text/plain": shown, "text/html": html_text.preformatted(shown)}, raw=True)


# -- %load_ext, %unload_ext --------------------------------------------------------------------------------------------


def load_ipython_extension(shell: Any) -> None:
    """Register the magics."""
    shell.register_magics(DynamoMagics)
    outputs_of(shell)  # listens to cells from here on


def unload_ipython_extension(shell: Any) -> None:
    """Unregister the magics."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("dynamo", None)
    shell.magics_manager.registry.pop(DynamoMagics.__name__, None)
