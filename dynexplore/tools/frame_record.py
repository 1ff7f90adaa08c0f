"""Serialization of everything that one frame uses, just before it runs.

The idea: a failing translation depends on the code, the values in the argument slots, the globals and cells that the code reads,
the modes of the process, and what the engine has learned from earlier calls. All of this is known when the frame hook asks about
the frame, and none of it has been mutated yet: so it can be saved, and the frame translated again elsewhere. The options and
handlers overridden by `dispatch.override` are saved too.

In: the hook's `FrameState` and the failure, or a function and its arguments. Out: the path of a file (frame_file.py).

PyTorch's counterpart: `ExecutionRecorder` in torch/_dynamo/replay_record.py.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
import os
import re
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.bytecode.versions import PYTHON
from dynexplore.engine.config import DEFAULTS, config
from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.events import clip
from dynexplore.engine.native import ENTRY_FILE, FrameState, function_of
from dynexplore.engine.runtime import optimized, preserve_global_state, reports
from dynexplore.engine.runtime.cache import slot_values, state_of
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.engine.translate import dispatch
from dynexplore.engine.translate.resume import ResumeCode, original_of, resume_point
from dynexplore.session import torch_compiled
from dynexplore.tools.frame_file import write_frame
from dynexplore.tools.frame_values import SavedValues, global_names, packed_code, tensor_text
from dynexplore.views.counts import plural

SUFFIX = ".frame"
_NOT_CARRIED = ("disable", "debug_function", *(name for name in DEFAULTS if name.startswith(("replay_record_", "repro_"))))
_numbers = itertools.count(1)


@dataclass(slots=True)
class FrameToSave:
    """A frame that has not begun: its code, the values it uses, and the options of its compilation."""

    code: types.CodeType
    globals: dict[str, Any]
    closure: tuple[types.CellType, ...]
    slots: Mapping[str, object]
    backend: Any
    options: Options
    history: Mapping[str, Any] = field(default_factory=dict)
    failure: Mapping[str, str] | None = None


def save_failed_frame(store: Store, state: FrameState, error: BaseException, where: str) -> Path | None:
    """Save the frame whose translation just failed, and log the path. A frame that cannot be saved causes no further error."""
    frame = FrameToSave(
        code=state.code,
        globals=state.globals,
        closure=state.closure or function_of(state).__closure__ or (),
        slots=slot_values(state),
        backend=_backend_of(store),
        options=store.options,
        history=vars(state_of(state.cache).profile),
        failure={"type": type(error).__name__, "message": str(error), "where": where},
    )
    name = _shown_name(frame)
    try:
        path = save(frame, _new_path(name))
    except (OSError, RecursionError, MemoryError) as trouble:
        reports.log("WARNING", f"the frame of {name} could not be saved: {type(trouble).__name__}: {trouble}")
        return None
    reports.log("WARNING", f"the frame of {name} is saved: dynexplore.replay({str(path)!r}) shows it")
    return path


def record_frame(
    fn: Callable[..., Any], /, *args: Any, path: str | Path | None = None, backend: Any = "eager", **kwargs: Any
) -> Path:
    """Save the frame that `fn(*args, **kwargs)` begins with, without running it; return the path of the file.

    Args: fn: a function, bound method or module. path: the file to write; None: a new one in `config.replay_record_folder`.
    backend: the backend for the replay.

    Raises TypeError if the arguments do not match the function's signature, OSError if the file cannot be written.

    >>> import tempfile, dynexplore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = record_frame(torch.nn.Linear(2, 3), torch.ones(1, 2), path=f"{folder}/linear.frame")
    ...     dynexplore.replay(file).qualname
    'Linear'
    """
    torch_compiled.refuse(fn, "record_frame")
    target = optimized.original_of(fn)
    function = getattr(target, "__func__", target)
    if not isinstance(function, types.FunctionType):
        if not callable(target):
            raise TypeError(f"expected a function, a method or a module, not {type(target).__qualname__}")
        function = target = optimized.entry_of(target)
    bound = inspect.signature(target, follow_wrapped=False).bind(*args, **kwargs)
    bound.apply_defaults()
    slots: dict[str, object] = dict(bound.arguments)
    if function is not target:
        slots = {argument_slots(function.__code__)[0]: target.__self__, **slots}
    frame = FrameToSave(function.__code__, function.__globals__, function.__closure__ or (), slots, backend, Options())
    return save(frame, Path(path) if path is not None else _new_path(_shown_name(frame)))


def _new_path(name: str) -> Path:
    folder = Path(config.replay_record_folder)
    plain = re.sub(r"\W+", "_", name).strip("_") or "frame"
    return folder / f"{plain}-{os.getpid()}-{next(_numbers)}{SUFFIX}"


def _backend_of(store: Store) -> Any:
    """The backend function, or its name if it is a registered one (an object of torch's registry)."""
    backend = store.backend
    return backend.function if getattr(backend.function, "__qualname__", None) == backend.name else backend.name


# -- writing -------------------------------------------------------------------------------------------------------------


def save(frame: FrameToSave, path: Path) -> Path:
    """Write the file. Raises OSError."""
    saved = SavedValues()
    file, line, source = _source(frame)
    data: dict[str, Any] = {
        "python": PYTHON,
        "torch": str(torch.__version__),
        "qualname": _shown_name(frame),
        "file": file,
        "line": line,
        "source": source,
        "failure": frame.failure,
        "slots": {name: saved.add(value, name) for name, value in frame.slots.items()},
        "closure": [saved.add(cell, name) for name, cell in zip(_freevars(frame), frame.closure, strict=True)],
        "globals": saved.add_globals(frame.globals, frame.code, ""),
        "code": packed_code(frame.code),
        "resume": _resume(resume_point(frame.code)),
        "holds": _contents(frame),
        "backend": saved.add(frame.backend, "the backend"),
        "options": {"nopython": frame.options.nopython, "dynamic": frame.options.dynamic},
        "config": saved.add(_changed_options(), "config"),
        "handlers": {op: saved.add(dispatch.HANDLERS[op], f"handler of {op}") for op in sorted(dispatch.overridden())},
        "history": saved.add(dict(frame.history), "history"),
        "modes": saved.add(_modes(), "modes"),
        "sys_path": [os.path.abspath(folder) for folder in sys.path],
    }
    data.update(rows=saved.rows, modules=saved.modules, missing=saved.missing)
    tensors = {key: tensor for key, tensor in saved.tensors.items() if _can_be_written(tensor, key, saved)}
    data["missing"] = saved.missing
    write_frame(path, data, tensors)
    return path


def _freevars(frame: FrameToSave) -> tuple[str, ...]:
    return frame.code.co_freevars[: len(frame.closure)]


def _shown_name(frame: FrameToSave) -> str:
    """The function's name; for an optimized module, whose frame only calls it, the module's."""
    if frame.code.co_filename == ENTRY_FILE and frame.closure:
        target = frame.closure[0].cell_contents
        return str(getattr(target, "__qualname__", type(target).__qualname__))
    original = original_of(frame.code)
    return frame.code.co_qualname if original is None else f"{original.co_qualname}, resumed"


def _source(frame: FrameToSave) -> tuple[str, int, str]:
    """File, first line and text of the user's source."""
    shown: Any = frame.code
    if frame.code.co_filename == ENTRY_FILE and frame.closure:
        target = frame.closure[0].cell_contents
        shown = type(target).forward if isinstance(target, torch.nn.Module) else target
    shown = original_of(frame.code) or shown
    code = getattr(shown, "__code__", shown)
    file, line = getattr(code, "co_filename", "?"), getattr(code, "co_firstlineno", 0)
    try:
        lines, line = inspect.getsourcelines(shown)
    except (OSError, TypeError):
        return shown_file(file), line, linecache.getline(file, line)
    return shown_file(file), line, textwrap.dedent("".join(lines))


def _resume(resumed: ResumeCode | None) -> dict[str, Any] | None:
    """How to regenerate a resume function: from the original code, and that of the callee in which it resumes."""
    parsed = resumed.parsed if resumed is not None else None
    if resumed is None or parsed is None:
        return None
    return {
        "original": packed_code(parsed.code),
        "offset": resumed.target.offset,
        "stack": list(resumed.stack),
        "locals": list(resumed.locals),
        "perhaps_unbound": sorted(resumed.maybe_unbound),
        "bound_args": sorted(resumed.bound_args),
        "shadowed": list(resumed.shadowed),
        "cleared": list(resumed.cleared),
        "name": resumed.code.co_name,
        "call": resumed.call.offset if resumed.call is not None else None,
        "inner": _resume(resumed.inner),
    }


def _changed_options() -> dict[str, Any]:
    now = config.as_dict()
    return {name: value for name, value in now.items() if value != DEFAULTS[name] and name not in _NOT_CARRIED}


def _modes() -> dict[str, Any]:
    return {"random": torch.get_rng_state(), "plain": preserve_global_state.plain_modes()}


def _can_be_written(tensor: torch.Tensor, key: str, saved: SavedValues) -> bool:
    """Whether a tensor can be saved: unusual kinds are tried one by one, so that one failure does not lose the rest."""
    if tensor.layout is torch.strided and not tensor.is_quantized:
        return True
    try:
        torch.save(tensor, os.devnull)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        row = next(row for row in saved.rows if row.get("kind") == "tensor" and row["key"] == key)
        why = next(iter(str(error).splitlines()), type(error).__name__)
        saved.missing.append((row["path"], why))
        path = row["path"]
        row.clear()
        row.update(kind="missing", path=path, what="Tensor", why=why)
        return False
    return True


def _contents(frame: FrameToSave) -> list[list[str]]:
    """The contents for display: where each value is held, its name, its description."""
    rows = [["argument", name, described(value)] for name, value in frame.slots.items()]
    for name, cell in zip(_freevars(frame), frame.closure, strict=True):
        try:
            rows.append(["closure", name, described(cell.cell_contents)])
        except ValueError:
            rows.append(["closure", name, "not assigned yet"])
    for name in dict.fromkeys(global_names(frame.code)):
        if name in frame.globals:
            rows.append(["global", name, described(frame.globals[name])])
    return rows


def described(value: object) -> str:
    """A value in one line: a tensor's dtype and shape, a module's class and state, otherwise its repr.

    >>> described(torch.nn.Linear(2, 3)), described([torch.ones(2), 1])
    ('Linear, a state_dict of 2 tensors', '[float32[2] cpu, 1]')
    """
    if isinstance(value, torch.Tensor):
        return tensor_text(value)
    if isinstance(value, torch.nn.Module):
        count = sum(1 for _ in value.named_parameters()) + sum(1 for _ in value.named_buffers())
        return f"{type(value).__qualname__}, a state_dict of {plural(count, 'tensor')}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}, by import"
    if isinstance(value, types.FunctionType | type):
        return f"{'class' if isinstance(value, type) else 'function'} {value.__module__}.{value.__qualname__}"
    if type(value) in (list, tuple) and len(value) <= 8:  # type: ignore[arg-type]
        inner = ", ".join(described(item) for item in value)  # type: ignore[attr-defined]
        return f"[{inner}]" if type(value) is list else f"({inner}{',' * (len(value) == 1)})"  # type: ignore[arg-type]
    return clip(reports.value_view(value, 0).text, 120)
