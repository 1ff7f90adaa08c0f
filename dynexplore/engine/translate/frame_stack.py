"""The stack of symbolic frames: the root, and the callees that are being inlined.

The idea: the translator interprets one frame at a time, and a callee's frame is on top of its caller's, as in CPython. The
innermost frame is "the frame" for `super()`, for the exception being handled, and for the position of a node or a break.

In: the root frame, and each callee as it is interpreted. Out: `FrameStack`; `user_frame`, a frame as a traceback shows it.
PyTorch's counterpart: `InstructionTranslatorBase.parent` (torch/_dynamo/symbolic_convert.py); CPython's:
`_PyInterpreterFrame.previous`.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn

from dynexplore.engine.bytecode import Instruction, ParsedCode, argument_slots
from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.events import UserFrame
from dynexplore.engine.native import ENTRY_FILE
from dynexplore.engine.provenance.sources import LocalSource, Scope
from dynexplore.engine.specialization.break_chains import BreakChains
from dynexplore.engine.specialization.module_classes import ModuleClasses
from dynexplore.engine.translate.nested_frames import up_to_copied_call, up_to_recorded_chain, up_to_repeated_block
from dynexplore.engine.translate.resume import resume_point
from dynexplore.engine.variables.contract.context import ObservedException

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.contract.context import TraceContext

_CALL_IMPL: Any = nn.Module._call_impl


class FrameStack:
    """The frames of one attempt, the root first; implements the protocol `ActiveFrames` of the trackers' context."""

    def __init__(self, root: SymbolicFrame, classes: ModuleClasses, scope: Scope, chains: BreakChains) -> None:
        self.root, self.root_began_at = root, root.pc
        self.scope = scope
        self._classes = classes
        self._chains = chains
        self.running: list[SymbolicFrame] = []
        self.chain: list[SymbolicFrame] = [root]  # the frames in which the graph may end (nested_frames.py)
        self.root_only_forwards = False  # whether the root only forwards the call
        self._unwinding: BaseException | None = None
        self._unwound: tuple[SymbolicFrame, ...] = ()

    @contextlib.contextmanager
    def entered(self, frame: SymbolicFrame) -> Iterator[None]:
        """Keep a frame on the stack while it is interpreted. However that ends, no frame abandoned by an exception remains."""
        self.running.append(frame)
        try:
            yield
        except (ObservedException, RuntimeError) as error:
            if error is not self._unwinding:
                self._unwinding, self._unwound = error, tuple(self.running)
            raise
        finally:
            self.running.pop()

    def unwound_by(self, error: BaseException | None) -> Sequence[SymbolicFrame]:
        """The frames that an exception has unwound; for any other exception, or None, the frames that are being interpreted."""
        return self._unwound if error is not None and error is self._unwinding else self.running

    @property
    def innermost(self) -> SymbolicFrame:
        """The frame that is being interpreted; between two instructions of the root, the root."""
        return self.running[-1] if self.running else self.root

    @property
    def stopping(self) -> SymbolicFrame:
        """The frame in which the graph ends if it breaks here."""
        return next(frame for frame in reversed(self.joined(self.chain)) if frame.allows_partial_graph)

    def is_entry_of_a_frame(self) -> bool:
        """Whether the root is an entry that forwards the call to a function that will be a frame of its own, and break there."""
        is_entry = self.root.parsed.code.co_filename == ENTRY_FILE and self.root_only_forwards
        return is_entry and any(frame.allows_partial_graph for frame in self.chain[1:])

    def joined(self, frames: Sequence[SymbolicFrame]) -> Sequence[SymbolicFrame]:
        """Those of these frames, each called by the one before, whose graphs are one if it breaks in the last frame."""
        if self.root_only_forwards:
            return frames[:1]
        return up_to_recorded_chain(up_to_copied_call(up_to_repeated_block(frames, self._classes, self.scope)), self._chains)

    def user_stack(self) -> tuple[UserFrame, ...]:
        """The frames as a traceback shows them, outermost first."""
        return tuple(map(user_frame, self.running or [self.root]))

    def forward_call(
        self, caller: VariableTracker, function: VariableTracker, through: Sequence[FunctionType] = ()
    ) -> None:
        """Declare that calling `caller` only calls `function` and returns its result unchanged, and so does the current
        instruction if it only calls `caller`.

        `through`: the methods of `caller` that forward the call in eager and are not interpreted, outermost first.
        """
        frame = self.innermost
        if frame.only_calls is caller:
            frame.only_calls = function
            frame.calls_through += tuple((method, caller) for method in through)

    def runs_as_in_eager(self) -> bool:
        """Whether the innermost frame takes the path that eager takes, though it is captured: a module's call with hooks, in which
        a break may nest. Hooks that are always called are called in the handler that it would lack.
        """
        return self.innermost.allows_nested_break and self.innermost.parsed.code is _CALL_IMPL.__code__

    def handled_exception(self) -> VariableTracker | None:
        """The exception that an `except` or `finally` block of the innermost frame, or of one around it, handles."""
        return next((frame.exceptions[-1] for frame in reversed(self.running) if frame.exceptions), None)

    def is_owned_by_root(self, value: VariableTracker) -> bool:
        """Whether a local of the root frame, not of a callee or caller, refers to an object that the frame created.

        In a resume function the object may also be passed in, as a local that is not an argument of the original function, or as
        any value of a callee in which it resumes. No local owns a class: classes are in reference cycles, and only the garbage
        collector frees them.
        """
        if issubclass(value.python_type(), type):
            return False
        if value.source is None:
            return any(local is value for local in self.root.locals.values())
        root = value.source.root()
        return isinstance(root, LocalSource) and root.local not in argument_slots(self.root.parsed.code)

    def super_arguments(self, ctx: TraceContext) -> tuple[VariableTracker, VariableTracker]:
        """The arguments of zero-argument `super()` in the innermost frame: content of the `__class__` cell, first argument.

        Raises in the program what CPython raises, in its order (super_init_without_args in Objects/typeobject.c).
        """
        frame = self.innermost
        code = frame.parsed.code
        resume = resume_point(code)
        if resume is not None and resume.parsed is not None:
            code = resume.parsed.code  # a resume function takes all locals as arguments
        if not code.co_argcount:
            ctx.raise_exception(RuntimeError, "super(): no arguments")
        first = code.co_varnames[0]
        receiver = frame.cells[first].content if first in frame.cells else frame.locals.get(first)
        if receiver is None:
            ctx.raise_exception(RuntimeError, "super(): arg[0] deleted")
        if "__class__" not in frame.cells:
            ctx.raise_exception(RuntimeError, "super(): __class__ cell not found")
        cell = frame.cells["__class__"]
        if cell.content is None:
            cell.guard_on_absence(ctx)
            ctx.raise_exception(RuntimeError, "super(): empty __class__ cell")
        return cell.load(ctx), receiver.read(ctx)


def user_frame(frame: SymbolicFrame) -> UserFrame:
    """The position of a symbolic frame, as a traceback shows it."""
    return _at(frame.parsed, frame.current, frame.globals.values)


def chain_of(code: CodeType) -> tuple[UserFrame, ...]:
    """The positions at which the frames of a resume function continue, if it resumes in a callee; outermost first."""
    resume = resume_point(code)
    frames: list[UserFrame] = []
    while resume is not None and resume.parsed is not None and (frames or resume.inner is not None):
        frames.append(_at(resume.parsed, resume.call or resume.target, {}))
        resume = resume.inner
    return tuple(frames)


def _at(parsed: ParsedCode, at: Instruction, namespace: dict[str, Any]) -> UserFrame:
    code = parsed.code
    instruction = parsed.nearest_with_line(at)
    position = instruction.position
    line = instruction.lineno or code.co_firstlineno
    text = linecache.getline(code.co_filename, line, namespace).rstrip("\n")
    column = position.col if position is not None and position.col is not None else 0
    same_line = position is not None and position.end_lineno == position.lineno
    end_column = position.end_col if position is not None and same_line and position.end_col is not None else len(text)
    return UserFrame(shown_file(code.co_filename), line, code.co_qualname, text, column, end_column)
