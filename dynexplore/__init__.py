"""The front door: `optimize`, `compile`, `run`, `explain`, `config` and the rest of the public names.

Which idea lives here: a door, not a room. `import dynexplore` imports no torch; a public name brings in the module
that holds it when it is first asked for (PEP 562), so that reading a recording works without torch and costs little.
What is not supported says so here, at import, in one sentence.

In:  the table `PUBLIC`: public name -> (module, name in it; None for the module itself).
Out: those names as attributes of `dynexplore`, and `load_ipython_extension` for `%load_ext dynexplore`.

PyTorch's counterpart: torch/_dynamo/__init__.py, which imports everything at once.

>>> import dynexplore
>>> dynexplore.config.cache_size_limit
8
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from typing import TYPE_CHECKING, Any

# The version tables refuse a Python that they have no table for, with a sentence that names those they have.
import dynexplore.engine.bytecode.versions  # noqa: F401
from dynexplore.engine import outlets

if TYPE_CHECKING:  # what the table says, once more for type checkers and editors; a test keeps the two equal
    from dynexplore.engine import errors as exc
    from dynexplore.engine.config import config
    from dynexplore.engine.counters import counters, graph_breaks
    from dynexplore.engine.recording import Recording
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
        register_backend,
        reset,
        run,
        skip,
    )
    from dynexplore.engine.runtime.debugging.break_report import all_breaks
    from dynexplore.engine.runtime.debugging.compilation_profiler import CompilationProfiler
    from dynexplore.engine.runtime.debugging.compile_times import compile_times
    from dynexplore.engine.runtime.debugging.coverage import coverage
    from dynexplore.engine.runtime.debugging.diagnosis import diagnose
    from dynexplore.engine.runtime.debugging.frame_record import record_frame
    from dynexplore.engine.runtime.debugging.inductor_artifacts import inductor_artifacts
    from dynexplore.engine.runtime.debugging.minifier import minify
    from dynexplore.engine.runtime.debugging.quiescence import until_quiet
    from dynexplore.engine.runtime.debugging.replay import replay
    from dynexplore.engine.runtime.explain import Explanation, explain
    from dynexplore.engine.runtime.export import export
    from dynexplore.engine.runtime.stance import stance
    from dynexplore.engine.translate.dispatch import override as override_handler
    from dynexplore.lenses.compare import compare
    from dynexplore.lenses.comparison import Comparison

__version__ = "0.1.0"

TORCH_RANGE = ((2, 11), (2, 14))
"""The torch that is supported: from the first (included) to the second (excluded). pyproject.toml says the same."""

_API = "dynexplore.engine.runtime.api"
_EXPLAIN = "dynexplore.engine.runtime.explain"
_DEBUGGING = "dynexplore.engine.runtime.debugging"

PUBLIC: dict[str, tuple[str, str | None]] = {
    # switch the engine on and off
    "optimize": (_API, "optimize"),
    "compile": (_API, "compile"),
    "run": (_API, "run"),
    "disable": (_API, "disable"),
    "skip": (_API, "skip"),
    "reset": (_API, "reset"),
    # say what it should do with a function or a place in it
    "graph_break": (_API, "graph_break"),
    "allow_in_graph": (_API, "allow_in_graph"),
    "disallow_in_graph": (_API, "disallow_in_graph"),
    "is_compiling": (_API, "is_compiling"),
    "assume_constant_result": (_API, "assume_constant_result"),
    # look into it
    "explain": (_EXPLAIN, "explain"),
    "Explanation": (_EXPLAIN, "Explanation"),
    "Recording": ("dynexplore.engine.recording", "Recording"),
    "counters": ("dynexplore.engine.counters", "counters"),
    "graph_breaks": ("dynexplore.engine.counters", "graph_breaks"),
    # take one whole graph away
    "export": ("dynexplore.engine.runtime.export", "export"),
    # other ways to capture the same function, side by side
    "compare": ("dynexplore.lenses.compare", "compare"),
    "Comparison": ("dynexplore.lenses.comparison", "Comparison"),
    # find out what is wrong, and make it small
    "diagnose": (f"{_DEBUGGING}.diagnosis", "diagnose"),
    "minify": (f"{_DEBUGGING}.minifier", "minify"),
    "record_frame": (f"{_DEBUGGING}.frame_record", "record_frame"),
    "replay": (f"{_DEBUGGING}.replay", "replay"),
    "all_breaks": (f"{_DEBUGGING}.break_report", "all_breaks"),
    "coverage": (f"{_DEBUGGING}.coverage", "coverage"),
    "inductor_artifacts": (f"{_DEBUGGING}.inductor_artifacts", "inductor_artifacts"),
    "CompilationProfiler": (f"{_DEBUGGING}.compilation_profiler", "CompilationProfiler"),
    "compile_times": (f"{_DEBUGGING}.compile_times", "compile_times"),
    # change the engine itself for a while: another handler for an opcode
    "override_handler": ("dynexplore.engine.translate.dispatch", "override"),
    # serve without surprises
    "stance": ("dynexplore.engine.runtime.stance", "stance"),
    "until_quiet": (f"{_DEBUGGING}.quiescence", "until_quiet"),
    # choose who compiles the graphs, and how
    "list_backends": (_API, "list_backends"),
    "register_backend": (_API, "register_backend"),
    "config": ("dynexplore.engine.config", "config"),
    "exc": ("dynexplore.engine.errors", None),
}
"""Public name -> where it lives."""

__all__ = [
    "optimize",
    "compile",
    "run",
    "disable",
    "skip",
    "reset",
    "graph_break",
    "allow_in_graph",
    "disallow_in_graph",
    "is_compiling",
    "assume_constant_result",
    "explain",
    "Explanation",
    "Recording",
    "counters",
    "graph_breaks",
    "export",
    "compare",
    "Comparison",
    "diagnose",
    "minify",
    "record_frame",
    "replay",
    "all_breaks",
    "coverage",
    "inductor_artifacts",
    "CompilationProfiler",
    "compile_times",
    "override_handler",
    "stance",
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
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"dynexplore.{name} needs PyTorch, which is not installed: pip install 'torch>={_text(TORCH_RANGE[0])}'",
            name="torch",
        ) from None
    # all names of what is imported now: captured code finds `dynexplore.graph_break` without running this function
    for other, (holder, inside) in PUBLIC.items():
        ready = module if holder == module_name else sys.modules.get(holder)
        found = ready if inside is None else getattr(ready, inside, None)
        if found is not None:
            globals()[other] = found
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})


_MAGIC = "dynexplore.widgets.magic"  # behind the lazy door, as all rooms are


def load_ipython_extension(shell: Any) -> None:
    """Register the magics `%%dynamo` and `%dynamo`: what `%load_ext dynexplore` calls."""
    importlib.import_module(_MAGIC).load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away again: what `%unload_ext dynexplore` calls."""
    importlib.import_module(_MAGIC).unload_ipython_extension(shell)


class _Rooms:
    """Recordings are shown and written by rooms behind the lazy door, as all are."""

    def mimebundle(self, shown: Any) -> outlets.Bundle:
        bundle: outlets.Bundle = importlib.import_module("dynexplore.widgets.display").mimebundle(shown)
        return bundle

    def save(self, shown: Any, path: str | os.PathLike[str], *, redact: bool) -> str:
        holds: str = importlib.import_module("dynexplore.widgets.exports").save(shown, path, redact=redact)
        return holds


outlets.connect(_Rooms())


def check_torch(version: str | None) -> None:
    """Raise ImportError, in one sentence, unless torch `version` is supported; None (not installed) is fine here.

    >>> check_torch("2.13.0+cpu")
    >>> check_torch("1.12.1")
    Traceback (most recent call last):
        ...
    ImportError: dynexplore supports torch 2.11 up to, but not including, 2.14; this is torch 1.12.1
    """
    if version is None:
        return
    found = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if not TORCH_RANGE[0] <= found < TORCH_RANGE[1]:
        lowest, above = (_text(end) for end in TORCH_RANGE)
        raise ImportError(f"dynexplore supports torch {lowest} up to, but not including, {above}; this is torch {version}")


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _torch_version() -> str | None:
    # Asking the installed package's metadata takes about a millisecond; importing torch takes seconds.
    if "torch" in sys.modules:
        return str(sys.modules["torch"].__version__)
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


check_torch(_torch_version())
