"""The public API: `optimize`, `compile`, `run`, `explain`, `config` and the other public names, imported lazily.

The idea: lazy imports. `import dynexplore` does not import torch; the first access to a public name imports the module that defines
it (PEP 562), so that reading a recording works without torch and is fast. An unsupported Python is reported here, at import, in one
sentence; an untested torch is checked when the engine starts (engine/torch_versions.py).

In: the table `PUBLIC`: public name -> (module, name in it; None for the module itself).
Out: those names as attributes of `dynexplore`, and `load_ipython_extension` for `%load_ext dynexplore`.

PyTorch's counterpart: torch/_dynamo/__init__.py, which imports everything eagerly.

>>> import dynexplore
>>> dynexplore.config.cache_size_limit
8
"""

from __future__ import annotations

import dynexplore.early_signals  # isort: split

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The version tables reject a Python that they do not contain, in a sentence that names the supported ones.
import dynexplore.engine.bytecode.versions  # noqa: F401
from dynexplore.engine import display_hooks, tool_hooks, torch_versions
from dynexplore.engine.gc_control import importing
from dynexplore.engine.recorder import Recorder

if TYPE_CHECKING:  # repeats the table for type checkers and editors; a test keeps the two equal
    from dynexplore.engine import errors as exc
    from dynexplore.engine.config import config
    from dynexplore.engine.counters import counters, graph_breaks
    from dynexplore.engine.policy.error_on_graph_break import error_on_graph_break
    from dynexplore.engine.policy.nested_breaks import disable_nested_graph_breaks
    from dynexplore.engine.provenance.guard_filter import GuardFilterEntry
    from dynexplore.engine.runtime.api import (
        allow_in_graph,
        assume_constant_result,
        compile,
        disable,
        disallow_in_graph,
        graph_break,
        is_compiling,
        list_backends,
        optimize,
        optimize_assert,
        register_backend,
        reset,
        run,
        skip,
        substitute_in_graph,
    )
    from dynexplore.engine.runtime.stance import stance
    from dynexplore.engine.specialization.marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
    from dynexplore.engine.translate.comptime import comptime
    from dynexplore.engine.translate.dispatch import override as override_handler
    from dynexplore.lenses.compare import compare
    from dynexplore.lenses.compare_engines import compare_engines
    from dynexplore.lenses.comparison import Comparison
    from dynexplore.ranks.folder import open_ranks
    from dynexplore.ranks.ranks import Ranks
    from dynexplore.recording.recording import Recording
    from dynexplore.session.explain import Explanation, explain
    from dynexplore.tools import break_hunt
    from dynexplore.tools.break_report import all_breaks
    from dynexplore.tools.compilation_profiler import CompilationProfiler
    from dynexplore.tools.compile_times import compile_times
    from dynexplore.tools.coverage import coverage
    from dynexplore.tools.diagnosis import diagnose
    from dynexplore.tools.export import export
    from dynexplore.tools.frame_record import record_frame
    from dynexplore.tools.inductor_artifacts import inductor_artifacts
    from dynexplore.tools.minifier import minify
    from dynexplore.tools.quiescence import until_quiet
    from dynexplore.tools.replay import replay
    from dynexplore.two_engines.two_captures import TwoCaptures
    from dynexplore.watching.watch import watch

__version__ = "0.1.0"

_API = "dynexplore.engine.runtime.api"
_EXPLAIN = "dynexplore.session.explain"
_TOOLS = "dynexplore.tools"
_MARKS = "dynexplore.engine.specialization.marks"

PUBLIC: dict[str, tuple[str, str | None]] = {
    # enable and disable the engine
    "optimize": (_API, "optimize"),
    "optimize_assert": (_API, "optimize_assert"),
    "compile": (_API, "compile"),
    "run": (_API, "run"),
    "disable": (_API, "disable"),
    "skip": (_API, "skip"),
    "reset": (_API, "reset"),
    # control how a function, or a place in it, is handled
    "graph_break": (_API, "graph_break"),
    "allow_in_graph": (_API, "allow_in_graph"),
    "disallow_in_graph": (_API, "disallow_in_graph"),
    "substitute_in_graph": (_API, "substitute_in_graph"),
    "is_compiling": (_API, "is_compiling"),
    "assume_constant_result": (_API, "assume_constant_result"),
    "mark_dynamic": (_MARKS, "mark_dynamic"),
    "mark_unbacked": (_MARKS, "mark_unbacked"),
    "maybe_mark_dynamic": (_MARKS, "maybe_mark_dynamic"),
    "mark_static": (_MARKS, "mark_static"),
    # inspect captures
    "explain": (_EXPLAIN, "explain"),
    "Explanation": (_EXPLAIN, "Explanation"),
    "Recording": ("dynexplore.recording.recording", "Recording"),
    "counters": ("dynexplore.engine.counters", "counters"),
    "graph_breaks": ("dynexplore.engine.counters", "graph_breaks"),
    # observe torch.compile itself
    "watch": ("dynexplore.watching.watch", "watch"),
    # compare the ranks of a job
    "open_ranks": ("dynexplore.ranks.folder", "open_ranks"),
    "Ranks": ("dynexplore.ranks.ranks", "Ranks"),
    # export a function as one graph
    "export": ("dynexplore.tools.export", "export"),
    # compare with other ways to capture the same function
    "compare": ("dynexplore.lenses.compare", "compare"),
    "compare_engines": ("dynexplore.lenses.compare_engines", "compare_engines"),
    "Comparison": ("dynexplore.lenses.comparison", "Comparison"),
    "TwoCaptures": ("dynexplore.two_engines.two_captures", "TwoCaptures"),
    # diagnose failures, and minimize them
    "diagnose": (f"{_TOOLS}.diagnosis", "diagnose"),
    "minify": (f"{_TOOLS}.minifier", "minify"),
    "record_frame": (f"{_TOOLS}.frame_record", "record_frame"),
    "replay": (f"{_TOOLS}.replay", "replay"),
    "all_breaks": (f"{_TOOLS}.break_report", "all_breaks"),
    "coverage": (f"{_TOOLS}.coverage", "coverage"),
    "inductor_artifacts": (f"{_TOOLS}.inductor_artifacts", "inductor_artifacts"),
    "CompilationProfiler": (f"{_TOOLS}.compilation_profiler", "CompilationProfiler"),
    "compile_times": (f"{_TOOLS}.compile_times", "compile_times"),
    # practice: ten programs that break
    "break_hunt": (f"{_TOOLS}.break_hunt", None),
    # modify the engine temporarily: another handler for an opcode
    "override_handler": ("dynexplore.engine.translate.dispatch", "override"),
    # avoid recompiles in production
    "stance": ("dynexplore.engine.runtime.stance", "stance"),
    "GuardFilterEntry": ("dynexplore.engine.provenance.guard_filter", "GuardFilterEntry"),
    "comptime": ("dynexplore.engine.translate.comptime", "comptime"),
    "disable_nested_graph_breaks": ("dynexplore.engine.policy.nested_breaks", "disable_nested_graph_breaks"),
    "error_on_graph_break": ("dynexplore.engine.policy.error_on_graph_break", "error_on_graph_break"),
    "until_quiet": (f"{_TOOLS}.quiescence", "until_quiet"),
    # select the backend, and its options
    "list_backends": (_API, "list_backends"),
    "register_backend": (_API, "register_backend"),
    "config": ("dynexplore.engine.config", "config"),
    "exc": ("dynexplore.engine.errors", None),
}
"""Public name -> the module that defines it."""

__all__ = [
    "optimize",
    "optimize_assert",
    "compile",
    "run",
    "disable",
    "skip",
    "reset",
    "graph_break",
    "allow_in_graph",
    "disallow_in_graph",
    "substitute_in_graph",
    "is_compiling",
    "assume_constant_result",
    "mark_dynamic",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "mark_static",
    "explain",
    "Explanation",
    "Recording",
    "counters",
    "graph_breaks",
    "watch",
    "open_ranks",
    "Ranks",
    "export",
    "compare",
    "compare_engines",
    "Comparison",
    "TwoCaptures",
    "diagnose",
    "minify",
    "record_frame",
    "replay",
    "all_breaks",
    "coverage",
    "inductor_artifacts",
    "CompilationProfiler",
    "compile_times",
    "break_hunt",
    "override_handler",
    "stance",
    "GuardFilterEntry",
    "comptime",
    "disable_nested_graph_breaks",
    "error_on_graph_break",
    "until_quiet",
    "list_backends",
    "register_backend",
    "config",
    "exc",
]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'dynexplore' has no attribute {name!r}")
    module_name, _ = PUBLIC[name]
    try:
        with importing():
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        lowest = torch_versions.text(torch_versions.TESTED[0])
        raise ModuleNotFoundError(
            f"dynexplore.{name} needs PyTorch, which is not installed: pip install 'torch>={lowest}'",
            name="torch",
        ) from None
    # bind all names of modules imported by now: captured code finds `dynexplore.graph_break` without running this function
    for other, (holder, inside) in PUBLIC.items():
        ready = module if holder == module_name else sys.modules.get(holder)
        value = ready if inside is None else getattr(ready, inside, None)
        if value is not None:
            globals()[other] = value
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})


_MAGIC = "dynexplore.widgets.magic"  # imported lazily, like all modules


def load_ipython_extension(shell: Any) -> None:
    """Register the magics `%%dynamo` and `%dynamo`; called by `%load_ext dynexplore`."""
    importlib.import_module(_MAGIC).load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Unregister the magics; called by `%unload_ext dynexplore`."""
    importlib.import_module(_MAGIC).unload_ipython_extension(shell)


class _Rooms:
    """The hooks that display and write recordings; the modules behind them are imported lazily."""

    def mimebundle(self, shown: Any) -> display_hooks.Bundle:
        bundle: display_hooks.Bundle = importlib.import_module("dynexplore.widgets.display").mimebundle(shown)
        return bundle

    def explorer(self, shown: Any) -> Any:
        return importlib.import_module("dynexplore.widgets.display").explorer(shown)

    def save(self, shown: Any, path: str | os.PathLike[str], *, redact: bool) -> str:
        holds: str = importlib.import_module("dynexplore.widgets.exports").save(shown, path, redact=redact)
        return holds

    def memory(self, shown: Any) -> str:
        pictures: str = importlib.import_module("dynexplore.views.memory_picture").html(shown)
        return pictures

    def table(self, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], title: str) -> str:
        report = importlib.import_module("dynexplore.views.html_report")
        page: str = report.report(report.rows(header, rows, title) if rows else report.line(title))
        return page

    def words(self, shown: Any) -> str:
        text: str = importlib.import_module("dynexplore.views.records").words(shown)
        return text

    def picture(self, shown: Any) -> str:
        drawn: str = importlib.import_module("dynexplore.views.records").picture(shown)
        return drawn


display_hooks.connect(_Rooms())


class _Tools:
    """The hooks for tools that options enable, each imported on first use."""

    def printing(self, recorder: Recorder | None) -> Recorder | None:
        printing: Recorder | None = _tool("printout").watching(recorder)
        return printing

    def print_frame(self, recorder: Recorder | None, frame: int, state: Any) -> None:
        _tool("printout").show(recorder, frame, state)

    def save_failed_frame(self, store: Any, state: Any, error: BaseException, where: str) -> Path | None:
        path: Path | None = _tool("frame_record").save_failed_frame(store, state, error, where)
        return path

    def compile_watched(self, graph: Any, name: str, backend: Any, compile_it: Callable[[], Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = _tool("repro_on_failure").compile_watched(graph, name, backend, compile_it)
        return compiled

    def watched_compiler(self, backend: str, recorder: Recorder, frame: int, graph: str) -> Callable[..., Any] | None:
        watched: Callable[..., Any] | None = _tool("compiler_stages").watched(backend, recorder, frame, graph)
        return watched

    def note_memory(self, recorder: Recorder, frame: int, graph: str, module: Any) -> None:
        _tool("graph_memory").note_captured(recorder, frame, graph, module)

    def watched_explanation(self, fn: Callable[..., Any], backend: Any, options: Any) -> Any:
        return importlib.import_module("dynexplore.watching.explaining").WatchedExplanation(fn, backend, options)

    def compiled_by_torch(self, target: Any, backend: Any, fullgraph: bool, dynamic: bool | None) -> Callable[..., Any]:
        compiled: Callable[..., Any] = importlib.import_module("dynexplore.watching.compiled_anew").compiled_anew(
            target, backend, fullgraph, dynamic
        )
        return compiled

    def checked_calls(self, unwatched: Callable[[], Any], torch_module: Any, module_class: type) -> Any:
        return _tool("checked_calls").CheckedCalls(unwatched, torch_module, module_class)


def _tool(name: str) -> Any:
    return importlib.import_module(f"{_TOOLS}.{name}")


tool_hooks.connect(_Tools())
