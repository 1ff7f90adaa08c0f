"""Replay of a frame whose translation failed, on any machine: inspect it, then run only that frame.

The idea: with `config.replay_record_enabled` the engine writes a file for each frame that it could not translate (frame_record.py).
`replay(path)` reads it and runs nothing: source, input values, what could not be saved, how it failed. `replay(path, trust=True)`
runs the frame in a separate process (frame_process.py), and returns the recording of that run: so the explorer shows each step up
to the failure, on the machine of the person who fixes it.

In: the path of a file. Out: `Replay`.

PyTorch's counterpart: `replay` in torch/_dynamo/convert_frame.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dynexplore.engine.bytecode.versions import PYTHON
from dynexplore.engine.errors import ReplayError
from dynexplore.engine.events import WIDTH, wrapped
from dynexplore.engine.old_names import keep_old_names
from dynexplore.engine.translate import dispatch
from dynexplore.recording.recording import Recording
from dynexplore.tools.frame_file import read_frame, unpacked_tensors, write_frame
from dynexplore.tools.frame_values import SavedValues
from dynexplore.views import html_report, html_text

_PROCESS = "dynexplore.tools.frame_process"


@dataclass(frozen=True, slots=True)
class InputValue:
    """One value that the frame uses: "argument", "closure" or "global", its name, and its description in one line."""

    where: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of running a frame: "failed" (the capture), "raised" (the program), "ran" or "died" (the process).

    `error` is the exception's type, `message` its message, or the value in one line.
    """

    kind: str
    error: str
    message: str
    printed: str = ""

    def __str__(self) -> str:
        if self.kind == "ran":
            return f"it returned {self.message}"
        words = {"failed": "capture failed", "raised": "the program raised", "died": "the process died"}
        return f"{words[self.kind]}: {self.error}{': ' if self.error else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class Replay:
    """A saved frame. `print` it; in a notebook it is a table, and the explorer if it was run.

    `source`, `qualname`, `file` and `line` are the function's; `inputs` lists its arguments, closure variables and globals;
    `missing` names the values that could not be saved, and why; `failure` is how the capture failed (None for a frame that was
    saved on request); `python` and `torch_version` are those it was saved with. If it was run, `outcome` and `recording` are
    those of the run.
    """

    path: Path
    qualname: str
    file: str
    line: int
    source: str
    python: str
    torch_version: str
    inputs: tuple[InputValue, ...]
    missing: tuple[tuple[str, str], ...]
    failure: Outcome | None
    outcome: Outcome | None = None
    recording: Recording | None = None

    @property
    def reproduced(self) -> bool:
        """Whether the frame was run and failed as it did when it was saved."""
        return self.failure is not None and self.outcome is not None and _same_failure(self.failure, self.outcome)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor of the file by its path ("model.layers.0.weight"); runs nothing. Raises ReplayError."""
        data, packed = read_frame(self.path)
        loaded = unpacked_tensors(packed, self.path)
        named = (row for row in data["rows"] if row.get("kind") == "tensor" and not row["path"].startswith("modes["))
        return {str(row["path"]): loaded[row["key"]] for row in named}

    def state_dict(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors of the module that the frame refers to by this name; runs nothing. Raises ReplayError."""
        tensors = {path.removeprefix(f"{name}."): tensor for path, tensor in self.tensors().items() if path.startswith(f"{name}.")}
        if not tensors:
            raise ReplayError(f"{self.path} contains no tensors of {name!r}")
        return tensors

    def __str__(self) -> str:
        lines = [self._title(), *self._failure_lines(), "", "source"]
        lines += [f"{number:>6}  {text}" for number, text in enumerate(self.source.splitlines(), self.line)]
        lines += ["", "inputs", *(f"  {row.where:<9} {row.name}: {row.text}" for row in self.inputs)]
        if self.missing:
            lines += ["", "not saved (replaced with a placeholder)"]
            lines += [f"  {path}: {why}" for path, why in self.missing]
        return "\n".join([*lines, "", *self._conclusion(WIDTH)])

    __repr__ = __str__

    def _title(self) -> str:
        return f"Frame of {self.qualname} ({self.file}:{self.line}), saved with Python {self.python}, torch {self.torch_version}"

    def _failure_lines(self) -> list[str]:
        return [] if self.failure is None else [f"When it was saved: {self.failure}"]

    def _conclusion(self, width: int = 0) -> list[str]:
        if self.outcome is None:
            again = f"dynexplore.replay({str(self.path)!r}, trust=True)"
            return ["Nothing was run. A replay runs code from the file; do so only if you trust its origin:", f"  {again}"]
        verdict = "" if self.failure is None else "the same failure, " if self.reproduced else "a different outcome, "
        printed = ["it printed:", self.outcome.printed.rstrip("\n")] if self.outcome.printed.strip() else []
        return [wrapped(f"Run again in a separate process: {verdict}{self.outcome}", 2, width), *printed]

    def _repr_html_(self) -> str:
        parts = self._html_parts()
        if self.recording is not None:
            parts.append(html_text.fragment(self.recording, html_text.next_prefix()))
        return html_report.report(*parts)

    def _ipython_display_(self) -> None:
        """Display the content of the file and the outcome in a notebook, followed by the recording."""
        from IPython.display import display

        display({"text/plain": str(self), "text/html": html_report.report(*self._html_parts())}, raw=True)
        if self.recording is not None:
            display(self.recording)

    def _html_parts(self) -> list[str]:
        parts = [html_report.line(self._title()), *map(html_report.line, self._failure_lines()), html_report.code(self.source)]
        parts.append(html_report.rows(("where", "name", "value"), [(row.where, row.name, row.text) for row in self.inputs]))
        if self.missing:
            parts.append(html_report.rows(("not saved", "why"), self.missing))
        return [*parts, html_report.code("\n".join(self._conclusion()))]


def _same_failure(saved: Outcome, now: Outcome) -> bool:
    return now.kind == "failed" and (saved.error, _steady(saved.message)) == (now.error, _steady(now.message))


def _steady(message: str) -> str:
    """A message without the parts that differ between processes."""
    return re.sub(r"0x[0-9a-f]+|__compiled_fn_\d+|(?<=__resume_at_)\d+_\d+|\b\d+(?= is taken)", "?", message)


def replay(path: str | Path, *, trust: bool = False, backend: Any = None, timeout: float | None = 600.0) -> Replay:
    """Show a saved frame, and with `trust=True` run it under the engine in a separate process.

    Args: path: a file that `config.replay_record_enabled` or `record_frame` wrote. trust: the file contains code, which only runs
    if this is True. backend: the backend to use, instead of the saved one. timeout: seconds until a run is ended.

    Handlers that are overridden by `dispatch.override` are overridden in that process too: those of the file, and the current ones.

    Raises ReplayError, in one sentence, for a file that is damaged or of a newer format, and, with `trust=True`, for one of another
    Python version or one that needs a missing module.

    >>> import dynexplore, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = dynexplore.record_frame(lambda x: x + 1, torch.ones(2), path=f"{folder}/f.frame")
    ...     replayed = replay(file)
    >>> [(value.name, value.text) for value in replayed.inputs], replayed.outcome
    ([('x', 'float32[2] cpu')], None)
    """
    place = Path(path)
    frame = _described(place)
    if not trust:
        return frame
    if tuple(map(int, frame.python.split(".")[:2])) != _version():
        needed = ".".join(frame.python.split(".")[:2])
        raise ReplayError(
            f"{place} contains bytecode of Python {frame.python}, but this is Python {PYTHON}: run it with Python {needed};"
            " without trust=True (--trust) it is shown here"
        )
    with tempfile.TemporaryDirectory() as folder:
        return _run(frame, backend, timeout, Path(folder))


def _version() -> tuple[int, ...]:
    return tuple(map(int, str(PYTHON).split(".")[:2]))


def _described(path: Path) -> Replay:
    data, _ = read_frame(path)
    try:
        failure = data["failure"]
        return Replay(
            path,
            data["qualname"],
            data["file"],
            data["line"],
            data["source"],
            data["python"],
            data["torch"],
            tuple(InputValue(*row) for row in data["holds"]),
            tuple((row, why) for row, why in data["missing"]),
            Outcome("failed", failure["type"], failure["message"]) if failure is not None else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReplayError(f"{path} is damaged: it does not describe a frame ({type(error).__name__}: {error})") from None


# -- the other process -------------------------------------------------------------------------------------------------


def _run(frame: Replay, backend: Any, timeout: float | None, folder: Path) -> Replay:
    out = folder / "outcome.json"
    command = [sys.executable, "-m", _PROCESS, str(frame.path.absolute()), _of_this_process(backend, folder), str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, env=_environment())
    except subprocess.TimeoutExpired:
        return _with(frame, {"outcome": "died", "message": f"it did not end within {timeout:g} seconds"}, "")
    if not out.is_file():
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no output")
        return _with(frame, {"outcome": "died", "message": f"exit status {done.returncode}: {last.strip()}"}, done.stdout)
    answer = json.loads(out.read_text(encoding="utf-8"))
    if answer["outcome"] == "cannot":
        raise ReplayError(answer["message"])
    return _with(frame, answer, done.stdout)


def _environment() -> dict[str, str]:
    """The environment of the other process: it imports this same package, and saves no frames."""
    home = str(Path(__file__).parents[2])
    variables = {name: value for name, value in os.environ.items() if not name.startswith("DYNEXPLORE_")}
    return {**variables, "PYTHONPATH": os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))}


def _of_this_process(backend: Any, folder: Path) -> str:
    """The caller's additions: current handler overrides, another backend. The path of a file, or "-"."""
    swapped = dispatch.overridden()
    if backend is None and not swapped:
        return "-"
    saved = SavedValues()
    data = {
        "handlers": {op: saved.add(handler, f"handler of {op}") for op, handler in swapped.items()},
        "backend": saved.add(backend, "backend"),
    }
    if saved.missing:
        place, why = saved.missing[0]
        raise ReplayError(f"{place} cannot be sent to the process of the replay: {why}")
    path = folder / "added.frame"
    write_frame(path, {**data, "rows": saved.rows}, saved.tensors)
    return str(path)


def _with(frame: Replay, answer: Mapping[str, Any], printed: str) -> Replay:
    """The frame with its outcome."""
    recording = Recording.from_json(answer["recording"]) if "recording" in answer else None
    values = {name: getattr(frame, name) for name in Replay.__dataclass_fields__ if name not in ("outcome", "recording")}
    return Replay(
        **values, outcome=Outcome(answer["outcome"], answer.get("type", ""), answer["message"], printed), recording=recording
    )


keep_old_names(globals())
