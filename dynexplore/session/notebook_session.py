"""The session of a notebook cell: its inputs are the names that it reads, with their values from before it ran.

The idea: a cell is a function without arguments that reads and writes the notebook's namespace. So the values of all names within
its reach are saved before it runs, including those that the notebook's functions read. A query that runs nothing sets the namespace
to these values, some of them changed if the query says so, and restores it afterwards. A re-run of the cell works on a copy of the
namespace, in which functions of other cells are recreated, so that their stores go to the copy. Methods of the notebook's classes,
and for a live run all functions of other cells, see the notebook's own namespace.

A session holds the cell's function, the values of those names, and the arguments of the first functions called (frame_calls.py).
Its owner, the explorer of a cell, determines its lifetime.

In: the session of the cell's function, the cell's text, a compiler from text to code object. Out: `NotebookSession`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.policy.nested_breaks import note_runs_once
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.runtime.stores import Store
from dynexplore.recording.recording import Recording
from dynexplore.session import cell_capture, changed_inputs, edited_function
from dynexplore.session.changed_inputs import Input
from dynexplore.session.edited_function import EditError, Rerun
from dynexplore.session.frame_calls import FrameCalls
from dynexplore.session.live_run import LiveRun
from dynexplore.session.prediction import Prediction
from dynexplore.session.session import Session
from dynexplore.session.verdicts import Verdicts

CodeOfText = Callable[[str, str], types.CodeType]
"""Text and file name of a cell -> the code of a function without arguments. Raises ValueError, in one sentence."""

_READS = ("LOAD_GLOBAL", "LOAD_NAME")
_STORES = ("STORE_GLOBAL", "STORE_NAME")


class CellSession(Session):
    """Runs a cell, which is captured as a function or run as a program (cell_capture.py)."""

    _only: str = ""

    def _runs(self) -> Callable[..., Any]:
        return functools.partial(cell_capture.run_function, self.function, self._store)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the cell; for a program, record the calls of its targets instead of the cell itself."""
        __tracebackhide__ = True
        row, _ = cell_capture.why_program(self.function)
        if not row:
            return super()._run(*args, **kwargs)
        self.call_count += 1
        outer = native.enter(None)  # of nested regions the outermost wins: leave all of them
        try:
            return cell_capture.run_program(self.function, self._store, self.recording, self._only)
        finally:
            native.leave(outer)

    def _fresh(self, function: Any, store: Store, recording: Recording) -> Session:
        fresh = CellSession(function, store, self._explainer, recording)
        fresh._only = self._only
        return fresh


class NotebookSession(CellSession):
    """A cell's session; see the module docstring. Create it before the cell runs; `text` is the cell as the user sees it.

    `only`: the one function name that was translated (`config.debug_function`), or "".
    """

    def __init__(self, session: Session, text: str, code_of: CodeOfText, only: str = "") -> None:
        self._cell: types.FunctionType = session.function
        super().__init__(self._cell, session._store, session._explainer, session.recording)
        self._text, self._code_of, self._only = text, code_of, only
        note_runs_once(self._cell.__code__)  # what it calls keeps frames of its own, which have sessions
        _, self._why_program = cell_capture.why_program(self._cell)
        self._calls = self._store.observers.calls = FrameCalls()
        self.about = "the cell: the names that it reads, with their values from before it ran"
        self.namespace: dict[str, Any] = self._cell.__globals__
        names = _names_within_reach(self._cell)
        self._before = {name: self.namespace[name] for name in names if name in self.namespace}
        self._absent = [name for name in names if name not in self.namespace]
        unread = _stored_first(self._cell.__code__)
        self._values = {name: value for name, value in self._before.items() if name not in unread and _may_change(name, value)}

    # -- frames

    def to_edit(self, frame: int | None) -> Session:
        """The session whose source is edited while a frame is displayed: the cell's, for functions defined in the cell."""
        session = self.of_frame(frame)
        is_own = session is self or session.function.__code__.co_filename == self._cell.__code__.co_filename
        return self if is_own else session

    def of_frame(self, frame: int | None) -> Session:
        """The session of the call that started a frame of the recording; for the cell's own frames, this session.

        A resume function belongs to the call that it continues. Raises LookupError for a frame whose call was not kept.
        """
        if frame is None:
            return self
        begun = self._resumed_frame(frame)
        call = self._calls.by_frame.get(begun)
        if call is None:
            raise LookupError(
                f"frame {begun} cannot be explained: only the first {self._calls.most} frames of a cell keep their inputs"
            )
        if call.function is self._cell:
            return self
        session = Session(call.function, self._store, self._explainer, self.recording)
        session.args, session.kwargs = call.args, call.kwargs
        session.about = f"{call.function.__qualname__}, as it was called for frame {begun}"
        return session

    def _resumed_frame(self, frame: int) -> int:
        """The frame that a resume function continues."""
        entered = {event.frame: event for event in self.recording.frames}
        while frame in entered and entered[frame].code.resumes >= 0 and entered[frame].parent is not None:
            frame = entered[frame].parent or 0
        return frame

    # -- what if

    def check(self, *args: Any, **kwargs: Any) -> Verdicts:
        """Which entries the cell would hit if it ran again from its original state. Runs nothing."""
        if self._why_program:
            return Verdicts()
        with self._as_before({}):
            return super().check(*args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> Prediction:
        """What the engine would do if the cell ran again from its original state. Runs nothing."""
        if self._why_program:
            return self._plain()
        with self._as_before({}):
            return super().predict(*args, **kwargs)

    def _predicted(self, changes: Mapping[str, Any], *, capture: bool) -> Prediction:
        _, values = changed_inputs.changed_call(self._names, (), self._values, changes)
        if self._why_program:
            return self._plain()
        with self._as_before(values):
            return super()._predicted({}, capture=capture)

    def _plain(self) -> Prediction:
        return Prediction("plain Python", -1, f"the cell runs as plain Python, because {self._why_program}", (), None, None)

    @property
    def inputs(self) -> list[Input]:
        """The tensors and plain values that the cell reads from its namespace."""
        return [each for each in changed_inputs.inputs_of(self._names, (), self._values) if each.kind != "object"]

    @property
    def _names(self) -> Callable[..., Any]:
        """A stand-in function whose parameters are the cell's inputs."""

        def names() -> None:
            pass

        kind = inspect.Parameter.KEYWORD_ONLY
        names.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in self._values])  # type: ignore[attr-defined]
        return names

    # -- edited text

    @property
    def source(self) -> str:
        """The cell's text, which `rerun` takes in edited form."""
        return self._text

    @property
    def first_line(self) -> int:
        """The first line of a cell's source: always 1."""
        return 1

    def rerun(self, text: str) -> Rerun:
        """Run the cell with another text, from its original state, in a copy of the namespace; the notebook's is not modified."""
        earlier = self.recording if self.call_count == 1 else None
        cell = types.FunctionType(self._cell.__code__, self._own_namespace())
        modules = [value for value in self._before.values() if isinstance(value, _PUT_BACK)]
        state = CallSnapshot(_nothing, modules, {})
        try:
            with config.patch(debug_function=self._only, log_level="ERROR"):
                return edited_function.rerun(
                    cell, text, (), {}, self._explainer, earlier, self._edited, self.namespace,
                    lambda explanation: explanation.follow_cell(text, self._code_of, self._only),
                )  # fmt: skip
        finally:
            state.fresh()

    def _edited(self, cell: Any, text: str) -> types.FunctionType:
        try:
            code = self._code_of(text, edited_function.remembered(text, "cell"))
        except ValueError as error:
            raise EditError(str(error)) from None
        return types.FunctionType(code, cell.__globals__)

    def _own_namespace(self) -> dict[str, Any]:
        """A copy of the namespace as it was before the cell ran: data is copied, functions of the notebook are bound to the
        copy.
        """
        (values,), _ = CallSnapshot(_nothing, (self._values,), {}).fresh()
        own: dict[str, Any] = {**self.namespace, **self._before, **values}
        for name in self._absent:
            own.pop(name, None)
        for name, value in own.items():
            if isinstance(value, types.FunctionType) and value.__globals__ is self.namespace:
                own[name] = _bound_to(value, own)
        return own

    # -- step by step

    def live(self, *args: Any, **kwargs: Any) -> LiveRun:
        """Step through the cell, in a copy of the namespace as it was before the cell ran, with copies of its inputs."""
        with self._as_before({}):
            (values,), _ = CallSnapshot(self._cell, (self._values,), {}).fresh()
            namespace = self.namespace | values
        return self._live_run(types.FunctionType(self._cell.__code__, namespace), (), {})

    # -- the namespace

    @contextlib.contextmanager
    def _as_before(self, changes: Mapping[str, Any]) -> Iterator[None]:
        """Set the namespace to its state before the cell ran, with these changes, for the duration of the block."""
        now = dict(self.namespace)
        for name in self._absent:
            self.namespace.pop(name, None)
        self.namespace.update(self._before | {**changes})
        try:
            yield
        finally:
            for name in [name for name in self.namespace if name not in now]:
                del self.namespace[name]
            for name, value in now.items():
                if name not in self.namespace or self.namespace[name] is not value:
                    self.namespace[name] = value


def _nothing() -> None:
    """A function that references nothing."""


_PUT_BACK = (torch.nn.Module, torch.optim.Optimizer, torch.Generator)
"""The objects that a run mutates itself, and that are restored afterwards."""


def _bound_to(function: types.FunctionType, namespace: dict[str, Any]) -> types.FunctionType:
    """The same function with other globals."""
    clone = types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__)
    clone.__kwdefaults__ = function.__kwdefaults__
    clone.__qualname__ = function.__qualname__
    clone.__dict__.update(function.__dict__)
    return clone


# -- names -------------------------------------------------------------------------------------------------------------


def _may_change(name: str, value: Any) -> bool:
    """Whether a value is data that can be changed, and not a function, a module or another object."""
    return not name.startswith("__") and isinstance(value, torch.Tensor | tuple | list | dict | int | float | complex | str | bytes)


def _names_within_reach(cell: types.FunctionType) -> list[str]:
    """The names of the namespace that a cell reads or stores, directly or through functions and classes of the notebook."""
    names: dict[str, None] = {}
    waiting: list[types.CodeType] = [cell.__code__]
    seen = set(waiting)
    while waiting:
        for name in _names_of(waiting.pop(0)):
            if name in names:
                continue
            names[name] = None
            codes = [code for code in _codes_behind(cell.__globals__.get(name), cell.__globals__) if code not in seen]
            seen.update(codes)
            waiting += codes
    return list(names)


def _names_of(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in (*_READS, *_STORES, "DELETE_GLOBAL", "DELETE_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_of(constant)


def _codes_behind(value: Any, namespace: Mapping[str, Any]) -> Iterator[types.CodeType]:
    """The code of a function of this namespace; for its classes and their instances, the code of the methods."""
    if isinstance(value, types.FunctionType):
        if value.__globals__ is namespace:
            yield value.__code__
        return
    for cls in (value if isinstance(value, type) else type(value)).__mro__:
        if cls.__module__ == namespace.get("__name__"):
            for attribute in vars(cls).values():
                if isinstance(attribute, types.FunctionType):
                    yield attribute.__code__


def _stored_first(code: types.CodeType) -> set[str]:
    """The names that the cell definitely stores before reading: their earlier values are not inputs."""
    stored: set[str] = set()
    read: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            break
        if instruction.opname in _READS:
            read.add(instruction.argval)
        elif instruction.opname in _STORES and instruction.argval not in read:
            stored.add(instruction.argval)
    return stored
