"""The process in which a saved frame is replayed.

The idea: rebuilding the saved objects runs code of their classes, and the failure may crash the process. So a replay runs in a
separate process, which starts clean, with the engine's current source: edit a file of the engine, and replay again. The process
restores the saved state (path, options, modes, random state, overridden handlers, the history of earlier calls), runs the frame
once with a recording, and writes the outcome to a file.

In: the command line: the file of a frame, a file with the caller's additions ("-" for none), the output file. Out: JSON.

PyTorch's counterpart: `replay` in torch/_dynamo/convert_frame.py, which runs in the caller's process.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dynexplore.engine.bytecode import argument_slots, read
from dynexplore.engine.config import config
from dynexplore.engine.errors import DynexploreError, EngineError, ReplayError, Unsupported
from dynexplore.engine.native import Entry, FrameState, RegionCall
from dynexplore.engine.runtime import preserve_global_state
from dynexplore.engine.runtime.cache import state_of
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.engine.translate import dispatch
from dynexplore.engine.translate.resume import ResumeCode, make_resume_code
from dynexplore.recording.recording import Recording
from dynexplore.session.session import watched_store
from dynexplore.tools.frame_file import read_frame, unpacked_tensors
from dynexplore.tools.frame_rebuild import Rebuilt, unpacked_code
from dynexplore.tools.frame_record import described

_POSITIONAL_REST, _KEYWORD_REST = 0x04, 0x08


def main(words: list[str]) -> None:
    """Run one frame, and write the outcome."""
    path, added, out = map(Path, words)
    try:
        outcome = replayed(path, added)
    except ReplayError as error:
        outcome = {"outcome": "cannot", "message": str(error)}
    out.write_text(json.dumps(outcome), encoding="utf-8")


def replayed(path: Path, added: Path) -> dict[str, Any]:
    """The outcome of the frame: "failed" with the failure, "raised" with the program's exception, or "ran" with the value."""
    data, packed = read_frame(path)
    sys.path += [folder for folder in data["sys_path"] if folder not in sys.path]
    rebuilt = Rebuilt(data["rows"], unpacked_tensors(packed, path))
    _remember_source(data)
    rebuilt.set_modules(data["modules"])
    frame = _Frame(data, rebuilt)
    handlers = {op: rebuilt.value(reference) for op, reference in data["handlers"].items()}
    backend = rebuilt.value(data["backend"])
    if added != Path("-"):
        live, more_tensors = read_frame(added)
        extra = Rebuilt(live["rows"], unpacked_tensors(more_tensors, added))
        handlers.update({op: extra.value(reference) for op, reference in live["handlers"].items()})
        backend = extra.value(live["backend"]) or backend
    with contextlib.ExitStack() as stack:
        for op, handler in handlers.items():
            stack.enter_context(dispatch.override(op, handler))
        options = {**rebuilt.value(data["config"]), "log_level": "ERROR", "raise_engine_errors": True, "suppress_errors": False}
        stack.enter_context(config.patch({name: value for name, value in options.items() if name in config.as_dict()}))
        _set_modes(rebuilt.value(data["modes"]))
        return frame.run(backend, Options(**data["options"]), rebuilt.value(data["history"]))


def _set_modes(modes: Mapping[str, Any]) -> None:
    torch.set_rng_state(modes["random"])
    preserve_global_state.set_plain_modes(modes["plain"])


def _remember_source(data: Mapping[str, Any]) -> None:
    """If the source file does not exist here, use the saved lines."""
    file, source = data["file"], data["source"]
    if not Path(file).is_file():
        lines = ["\n"] * (max(data["line"], 1) - 1) + source.splitlines(keepends=True)
        linecache.cache[file] = (len(source), None, lines, file)


class _Frame:
    """The frame as a function to call."""

    def __init__(self, data: Mapping[str, Any], rebuilt: Rebuilt) -> None:
        self.code = _code(data)
        closure = tuple(rebuilt.value(reference) for reference in data["closure"])
        self.function = types.FunctionType(self.code, rebuilt.value(data["globals"]), self.code.co_name, None, closure)
        self.slots = {name: rebuilt.value(reference) for name, reference in data["slots"].items()}

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """The argument slots as a call passes them."""
        code, names = self.code, argument_slots(self.code)
        positional, keywords = names[: code.co_argcount], names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        rest = list(names[code.co_argcount + code.co_kwonlyargcount :])
        args = [self.slots.get(name) for name in positional]
        kwargs = {name: self.slots[name] for name in keywords if name in self.slots}
        if code.co_flags & _POSITIONAL_REST:
            args += self.slots.get(rest.pop(0), ())
        if code.co_flags & _KEYWORD_REST:
            kwargs.update(self.slots.get(rest.pop(0), {}))
        return args, kwargs

    def run(self, backend: Any, options: Options, history: Mapping[str, Any]) -> dict[str, Any]:
        """Call it once, with a recording."""
        recording = Recording(title=self.code.co_qualname)
        store = watched_store(backend, options, recording)
        self._restore_history(store, history)
        args, kwargs = self.arguments()
        try:
            value = RegionCall(self.function, store.region)(*args, **kwargs)
            outcome = {"outcome": "ran", "message": described(value)}
        except DynexploreError as error:
            outcome = {"outcome": "failed", **failure_of(error)}
        except Exception as error:  # the program's own exception is an outcome
            outcome = {"outcome": "raised", "type": type(error).__name__, "message": str(error)}
        return {**outcome, "recording": recording.to_json()}

    def _restore_history(self, store: Store, history: Mapping[str, Any]) -> None:
        """Restore, before the frame is translated, what the engine knew about it from earlier calls."""
        convert = store.callback
        assert convert is not None

        def reminded(state: FrameState) -> Entry | None:
            if state.code is self.code and not state.cache.entries:
                vars(state_of(state.cache).profile).update(history)
            return convert(state)

        store.region.callback = reminded


def _code(data: Mapping[str, Any]) -> types.CodeType:
    """The code object; for a resume function, regenerated from the original."""
    resumed = data["resume"]
    return unpacked_code(data["code"]) if resumed is None else _resume_code(resumed).code


def _resume_code(resumed: Mapping[str, Any]) -> ResumeCode:
    parsed = read(unpacked_code(resumed["original"]))
    _originals.append(parsed.code)
    instructions = {instruction.offset: instruction for instruction in parsed.instructions}
    inner = resumed.get("inner")  # missing in files of an earlier version
    return make_resume_code(
        parsed,
        instructions[resumed["offset"]],
        stack=tuple(resumed["stack"]),
        locals=tuple(resumed["locals"]),
        bound_args=frozenset(resumed["bound_args"]),
        name=resumed["name"],
        shadowed=tuple(resumed["shadowed"]),
        cleared=tuple(resumed["cleared"]),
        maybe_unbound=frozenset(resumed["perhaps_unbound"]),
        call=instructions[resumed["call"]] if inner is not None else None,
        inner=_resume_code(inner) if inner is not None else None,
    )


_originals: list[types.CodeType] = []
"""Keeps the originals alive: resume functions reference them weakly."""


def failure_of(error: BaseException) -> dict[str, str]:
    """A failed translation in comparable form: the exception's type and message."""
    cause: BaseException | None = None
    if isinstance(error, EngineError):
        cause = error.__cause__
    elif isinstance(error, Unsupported):
        cause = error.graph_break
    cause = cause or error
    return {"type": type(cause).__name__, "message": str(cause)}


if __name__ == "__main__":
    main(sys.argv[1:])
