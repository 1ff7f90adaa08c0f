"""Wrappers of torch's functions that record what torch.compile does.

The idea: a watched torch behaves exactly as it would otherwise. Each wrapper calls the function that it replaces, with the same
arguments, returns its result and propagates its exceptions; observations go to the recording. If reading an object of torch fails,
because its layout has changed since this was written, that observation is dropped, with one sentence, and torch continues.

In: calls of torch's functions (listed in private_torch.py).
Out: events in a `Recording`; `notices`, in sentences, for what could not be observed.

PyTorch's counterpart: `trace_structured` in torch/_logging/_internal.py, which writes much of this to a log.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.policy.calling_line import calling_line
from dynexplore.engine.runtime.backend_failures import cause_of, node_in_hand, raised_at
from dynexplore.recording.recording import Recording
from dynexplore.traces import recompile_reasons, torch_words
from dynexplore.traces.values_in_scope import Scope
from dynexplore.watching import break_causes, guard_prices, private_torch
from dynexplore.watching.attempt import Attempt
from dynexplore.watching.codes import Codes, resume_codes
from dynexplore.watching.compiler_output import CompilerOutput
from dynexplore.watching.cuda_graph_log import CudaGraphLog
from dynexplore.watching.failing_guards import failing_checks
from dynexplore.watching.guard_tree import GuardTree
from dynexplore.watching.private_torch import Replacements
from dynexplore.watching.real_guards import BEFORE_THE_WATCH, WatchedEntry
from dynexplore.watching.safe_reads import UNREADABLE, SafeReads

_About = tuple[Scope, Mapping[str, str], Mapping[str, int], int, int]
"""The arguments of `failed_guard` that describe a failing check."""


class FrameWatch:
    """A frame that torch compiles."""

    def __init__(self, number: int, code: types.CodeType) -> None:
        self.number = number
        self.code = code
        self.attempts: list[Attempt] = []
        self.causes: list[break_causes.LoggedCause] = []
        self.tree: GuardTree | None = None
        self.guard_count = 0
        self.prices: Callable[..., ev.Event] | None = None
        self.reasons: list[str] | None = None
        self.caller: ev.UserFrame | None = None
        self.described = 0

    @property
    def attempt(self) -> Attempt | None:
        """The current attempt, or the last one."""
        return self.attempts[-1] if self.attempts else None


class Listener:
    """The wrappers of one watch; see the module docstring. `steps`: whether each instruction is observed, too."""

    def __init__(
        self,
        recording: Recording,
        *,
        steps: bool = True,
        keep_graphs: bool = False,
        artifacts: bool = False,
        guard_prices: bool = False,
    ) -> None:
        self.recording = recording
        self.frames_seen = self.frames_without_tensors = 0
        self.graphs: list[Any] = []
        self._keep_graphs = keep_graphs
        self._look = SafeReads()
        self.codes = Codes(self._look)
        self._steps = steps
        self._output = CompilerOutput(recording, self._frame_number, self._look.notice) if artifacts else None
        self._cuda_graphs = CudaGraphLog(recording, self._frame_number)
        self._guard_prices = guard_prices
        self._is_on = False
        self._frames: list[FrameWatch] = []
        self._replaced = Replacements()
        # id of modified code -> the code, the frame it was compiled for, and its entry
        self._modified: dict[int, tuple[types.CodeType, FrameWatch, int]] = {}
        self._entries = 0

    def begin(self) -> None:
        """Start watching. Names that this torch does not have are skipped, and reported. Raises RuntimeError if it is already
        watching.
        """
        if self._is_on:
            raise RuntimeError("this watch has already been used: create a new one with dynexplore.watch()")
        wrappers = {
            private_torch.COMPILE: self._compile, private_torch.ATTEMPT: self._trace, private_torch.REASONS: self._reasons,
            private_torch.SUBGRAPH: self._subgraph, private_torch.BREAK: self._log_break, private_torch.BACKEND: self._backend,
            private_torch.GUARDS: self._guards, private_torch.TENSORS: self._tensors,
        }  # fmt: skip
        if self._steps:
            wrappers |= {private_torch.STEP: self._step, private_torch.NODE: self._node}
        absent = private_torch.missing()
        if absent:
            lost = ", ".join(f"{name.gives} ({name.full})" for name in absent)
            self._look.notice(f"This torch version lacks what `watch` needs for: {lost}. Everything else is recorded.")
        self._is_on = True
        self._cuda_graphs.begin()
        if self._output is not None:
            self._output.begin()
        for name, wrapper in wrappers.items():
            if name not in absent:
                self._replaced.put(name, wrapper)

    def end(self) -> None:
        """Restore all replaced functions."""
        self._is_on = False
        self._cuda_graphs.end()
        if self._output is not None:
            self._output.end()
        self._replaced.take_back()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing in the block: a tool compiles there."""
        self.end()
        try:
            yield
        finally:
            self.begin()

    @property
    def notices(self) -> list[str]:
        """What could not be observed, in sentences."""
        return self._look.notices

    def entry_of(self, code: types.CodeType | None) -> WatchedEntry | None:
        """The known facts of the entry with this modified code; None for an entry created before the watch began."""
        modified, frame, number = self._modified.get(id(code), (None, None, 0))
        if modified is not code or frame is None:
            return None
        attempt = frame.attempt
        if attempt is None:
            return WatchedEntry(number, frame.number, {}, {})
        return WatchedEntry(number, frame.number, attempt.tensors, attempt.guard_numbers)

    def hit(self, code: types.CodeType | None, region: int = -1) -> None:
        """Record that a call hit the first entry of a code object."""
        entries = self._look(private_torch.entries_of, code, region) if code is not None else None
        if code is None or not entries:
            return
        entry = self.entry_of(entries[0].code) or BEFORE_THE_WATCH
        number = self.recording.next_frame_id()
        name = torch_words.plain_function(code.co_qualname)
        self.recording.record(
            ev.CacheHit(frame=number, entry=entry.shown, code=self.codes.view_of(code).id, function=name, compiled_by=entry.frame)
        )

    @property
    def _frame(self) -> FrameWatch | None:
        return self._frames[-1] if self._is_on and self._frames else None

    def _frame_number(self) -> int | None:
        return self._frame.number if self._frame is not None else None

    # -- frames ----------------------------------------------------------------------------------------------------------

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile_frame(code: types.CodeType, *args: Any, **kwargs: Any) -> Any:
            if not self._is_on:
                return original(code, *args, **kwargs)
            frame = FrameWatch(self.recording.next_frame_id(), code)
            self.frames_seen += 1
            self._look(self._entered, frame, args[1] if len(args) > 1 else {})
            self._frames.append(frame)
            began = time.perf_counter()
            try:
                result = original(code, *args, **kwargs)
            except BaseException as error:
                self._look(self._failed, frame, error, time.perf_counter() - began)
                raise
            finally:
                self._frames.remove(frame)
            self._look(self._finished, frame, result, args[0] if args else {}, time.perf_counter() - began)
            return result

        return compile_frame

    def _tensors(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def has_tensor_in_frame(frame: Any) -> Any:
            has_tensor = original(frame)
            self.frames_without_tensors += self._is_on and has_tensor is False
            return has_tensor

        return has_tensor_in_frame

    def _entered(self, frame: FrameWatch, locals_: dict[str, Any]) -> None:
        self.codes.keep(frame.code)
        arguments: list[tuple[str, ev.ValueView]] = []
        for name in locals_:
            if not name.startswith("__nested_"):
                number = len(arguments) + 1
                unread = ev.ValueView(number, "", "?", name)
                arguments.append((name, self._look.part(unread, private_torch.argument_view, locals_[name], number, name)))
        frame.caller = self._look(calling_line)
        self.recording.note((self._frame_entered, frame, self._look(self._parent), tuple(arguments)))

    def _frame_entered(self, frame: FrameWatch, parent: int | None, arguments: tuple[tuple[str, ev.ValueView], ...]) -> ev.Event:
        code = self.codes.view_of(frame.code)
        return ev.FrameEntered(frame=frame.number, parent=parent, code=code, arguments=arguments, caller=frame.caller)

    def _parent(self) -> int | None:
        """The frame whose modified code made this call."""
        caller: types.FrameType | None = sys._getframe(1)
        while caller is not None:
            modified = self._modified.get(id(caller.f_code))
            if modified is not None:
                return modified[1].number
            caller = caller.f_back
        return None

    def _tell_attempts(self, frame: FrameWatch) -> None:
        while frame.described < len(frame.attempts):
            attempt = frame.attempts[frame.described]
            frame.described += 1
            self.recording.record(ev.AttemptStarted(frame=frame.number, attempt=attempt.number))
            attempt.tell(self.recording)

    def _finished(self, frame: FrameWatch, result: Any, names: dict[str, Any], seconds: float) -> None:
        guarded = result.guarded_code
        if guarded is None:
            self._look(self._tell_attempts, frame)
            self._skipped(frame, getattr(result, "skip_reason", None) or "torch.compile found nothing to compile in it", seconds)
            return
        code: types.CodeType = guarded.code
        graphs = tuple(name for name in code.co_names if name.startswith("__compiled_fn"))
        if frame.attempt is not None:
            frame.attempt.graph = graphs[0] if graphs else ""
        self._look(self._tell_attempts, frame)
        if self._output is not None:
            self._output.finished(frame.number, graphs[0] if graphs else "")
        resume_functions = self._look.part((), self._resume_functions, frame, code, names)
        self.codes.keep(code)
        self._entries += 1
        self._modified[id(code)] = code, frame, self._entries
        self.recording.note((self._code_emitted, frame, len(frame.attempts), code, graphs, resume_functions))
        self.recording.note((self._entry_added, frame, self._entries))
        if frame.prices is not None:
            self.recording.record(frame.prices(frame=frame.number, entry=self._entries))
        self.recording.record(ev.FrameFinished(frame=frame.number, outcome="compiled", seconds=seconds))

    def _code_emitted(
        self, frame: FrameWatch, attempt: int, code: types.CodeType, graphs: tuple[str, ...], resume_functions: tuple[str, ...]
    ) -> ev.Event:
        view = self.codes.modified_view(code)
        return ev.CodeEmitted(frame=frame.number, attempt=attempt, code=view, graphs=graphs, resume_functions=resume_functions)

    def _entry_added(self, frame: FrameWatch, entry: int) -> ev.Event:
        return ev.CacheEntryAdded(
            frame=frame.number, entry=entry, code=self.codes.view_of(frame.code).id, guard_count=frame.guard_count,
            check=frame.tree.text if frame.tree is not None else "",
        )  # fmt: skip

    def _resume_functions(self, frame: FrameWatch, code: types.CodeType, names: dict[str, Any]) -> tuple[str, ...]:
        names_of_resumes = []
        for name, resume in resume_codes(code, names):
            self.codes.keep(resume)
            self.recording.note((self._resume_event, frame.number, len(frame.attempts), name, resume))
            names_of_resumes.append(name)
        return tuple(names_of_resumes)

    def _resume_event(self, frame: int, attempt: int, name: str, resume: types.CodeType) -> ev.Event:
        view = self.codes.view_of(resume)
        offset = next((row.origin for row in view.rows if row.role == "resume" and row.origin >= 0), -1)
        parameters = resume.co_varnames[: resume.co_argcount]
        return ev.ResumeFunctionCreated(frame=frame, attempt=attempt, offset=offset, name=name, parameters=parameters, code=view)

    def _skipped(self, frame: FrameWatch, reason: str, seconds: float) -> None:
        code = frame.code
        self.recording.record(
            ev.FrameSkipped(
                frame=frame.number, function=torch_words.plain_function(code.co_qualname), file=shown_file(code.co_filename),
                line=code.co_firstlineno, reason=reason,
            )
        )  # fmt: skip
        self.recording.record(ev.FrameFinished(frame=frame.number, outcome="skipped", seconds=seconds))

    def _failed(self, frame: FrameWatch, error: BaseException, seconds: float) -> None:
        """Record that the frame could not be compiled: torch runs it as plain Python, or raises."""
        attempt, limit = frame.attempt, self._look.part(0, break_causes.reached_limit, error)
        reason = f"torch.compile raised {type(error).__name__}"
        if limit:
            function, last = frame.code.co_qualname, (frame.reasons or [""])[0]
            self.recording.record(
                ev.CacheLimitReached(
                    frame=frame.number, function=function, limit=limit, reason=recompile_reasons.plain_reason(last),
                    caller=frame.caller,
                )
            )
            reason = f"torch.compile's recompile limit of {limit} is reached"
        elif attempt is not None and (cause := self._look(break_causes.of_error, error)) is not None:
            cause = break_causes.with_earlier(cause, frame.causes)
            attempt.broke_whole(functools.partial(_whole_frame_broke, cause, attempt))
            reason = "its graph breaks where torch.compile cannot resume"
        self._look(self._tell_attempts, frame)
        if self._output is not None:
            self._output.finished(frame.number, "")
        self._skipped(frame, reason, seconds)

    # -- attempts --------------------------------------------------------------------------------------------------------

    def _trace(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def trace_frame(code: types.CodeType, *args: Any, **kwargs: Any) -> Any:
            frame = self._frame
            if frame is None:
                return original(code, *args, **kwargs)
            attempt = Attempt(frame.number, len(frame.attempts) + 1, code, self.codes, self._look)
            frame.attempts.append(attempt)
            try:
                return original(code, *args, **kwargs)
            except BaseException as error:
                self._look(self._attempt_failed, attempt, error)
                raise

        return trace_frame

    def _attempt_failed(self, attempt: Attempt, error: BaseException) -> None:
        output = getattr(getattr(error, "_torch_dynamo_tracer_output", None), "output_graph", None)
        if output is not None and not attempt.graph:
            attempt.describe(output.graph)
        if break_causes.is_restart(error):
            reason = str(getattr(error, "restart_reason", None) or type(error).__name__)
            attempt.unbroken()
            attempt.keep(functools.partial(_restarted, attempt, reason))

    def _step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        look, frames = self._look, self._frames

        def step(translator: Any) -> Any:  # the one read that happens thousands of times per compilation
            try:
                goes_on = original(translator)
            except BaseException:
                if frames and self._is_on and frames[-1].attempts:
                    look(frames[-1].attempts[-1].raised, translator)
                raise
            if frames and self._is_on and frames[-1].attempts:
                try:  # like `look`, without the extra call
                    frames[-1].attempts[-1].stepped(translator)
                except UNREADABLE as error:
                    look.unreadable(Attempt.stepped, error)
            return goes_on

        return step

    def _node(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_node(tracer: Any, *args: Any, **kwargs: Any) -> Any:
            node = original(tracer, *args, **kwargs)
            frame = self._frame
            if frame is not None and frame.attempts and getattr(tracer, "parent", None) is None:
                self._look(frame.attempts[-1].node, tracer.output_graph, node)
            return node

        return create_node

    # -- graphs and breaks -----------------------------------------------------------------------------------------------

    def _log_break(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def log_graph_break(translator: Any, *args: Any, **kwargs: Any) -> Any:
            if self._frame is not None:
                self._look(self._caused, self._frame, kwargs.get("exc", args[-1] if args else None), kwargs.get("reason", ""))
            return original(translator, *args, **kwargs)

        return log_graph_break

    def _caused(self, frame: FrameWatch, error: Any, reason: str) -> None:
        frame.causes.append(break_causes.of_logged(error, reason))

    def _subgraph(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile_subgraph(output: Any, translator: Any, *args: Any, **kwargs: Any) -> Any:
            frame = self._frame
            if frame is not None and frame.attempts:
                reason = kwargs.get("reason", args[0] if args else None)
                self._look(self._broke, frame, output, translator, reason)
            return original(output, translator, *args, **kwargs)

        return compile_subgraph

    def _broke(self, frame: FrameWatch, output: Any, translator: Any, reason: Any) -> None:
        if reason is None or not getattr(reason, "graph_break", True):
            return
        cause = break_causes.matching(frame.causes, reason)
        operations = sum(node.op.startswith("call_") for node in output.graph.nodes)
        frame.attempts[-1].broke(translator, functools.partial(cause.event, operations=operations))

    def _backend(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call_user_compiler(output: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
            frame = self._frame
            if frame is None or not frame.attempts:
                return original(output, graph, *args, **kwargs)
            attempt = frame.attempts[-1]
            later_code = self._look(attempt.describe, graph.graph)
            make_event = self._look(_compiled_graph, attempt, output, graph, later_code)
            began = time.perf_counter()
            try:
                result = original(output, graph, *args, **kwargs)
            except Exception as error:
                if break_causes.is_restart(error):  # not a failure: the backend found something that the next attempt needs
                    raise
                node = self._look(node_in_hand, error, graph.graph) or ""
                failed = functools.partial(ev.BackendFailed, attempt=attempt.number, graph="", raised_at=raised_at(error))
                cause = cause_of(error)
                message, backend = f"{type(cause).__name__}: {cause}", _backend_name(output)
                attempt.keep(lambda frame: failed(frame=frame, backend=backend, error=message, node=node))
                raise
            if self._keep_graphs:
                self.graphs.append(graph)
            if make_event is not None:
                pieces = self._look(private_torch.pieces_of, output.compiler_fn, graph, attempt.target_of) or ()
                attempt.compiled(functools.partial(make_event, seconds=time.perf_counter() - began, pieces=pieces))
            return result

        return call_user_compiler

    def _guards(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def build(manager: Any, code: types.CodeType, output: Any, *args: Any, **kwargs: Any) -> None:
            original(manager, code, output, *args, **kwargs)
            if self._frame is not None and self._frame.attempts:
                self._look(self._built, self._frame, manager, output)
                if self._guard_prices:
                    self._frame.prices = self._look(guard_prices.measured, manager, code, output, original)

        return build

    def _built(self, frame: FrameWatch, manager: Any, output: Any) -> None:
        self._cuda_graphs.compiling(private_torch.compilation_of(output), frame.number)
        frame.attempts[-1].add_guards(output.guards)
        frame.guard_count = sum(bool(guard.code_list) for guard in output.guards)
        frame.tree = frame.attempts[-1].tree = self._look(GuardTree, manager.guard_manager)

    # -- recompiles ------------------------------------------------------------------------------------------------------

    def _reasons(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def get_and_maybe_log_recompilation_reasons(entries: Any, *args: Any, **kwargs: Any) -> Any:
            reasons = original(entries, *args, **kwargs)
            if self._frame is not None:
                self._look(self._again, self._frame, entries, kwargs.get("frame", args[0] if args else None), reasons)
            return reasons

        return get_and_maybe_log_recompilation_reasons

    def _again(self, frame: FrameWatch, first: Any, caller: Any, reasons: list[str]) -> None:
        frame.reasons = list(reasons)
        entries = self._look.part([], private_torch.entries_in, first)
        scope = self._look.part(({}, {}), lambda: (caller.f_locals, caller.f_globals))
        freed = self._freed_entries(frame.code, entries)
        for entry, reason in zip(entries, reasons, strict=False):
            code = getattr(entry, "code", None)
            known_entry = self.entry_of(next(freed, None) if code is None else code) or BEFORE_THE_WATCH
            words = scope, known_entry.tensors, known_entry.guards
            about = *words, frame.number, known_entry.shown
            failed = self._look(recompile_reasons.failed_guard, reason, *about)
            if failed is not None:
                self.recording.record(failed)
            if code is not None:
                self._look(self._also_failed, entry, failed, about)
        why = recompile_reasons.plain_reason(reasons[0]) if reasons else "torch reports no reason"
        self.recording.record(ev.Recompiled(frame=frame.number, reason=why, entries=len(entries)))

    def _also_failed(self, entry: Any, first: ev.GuardFailed | None, about: _About) -> None:
        """The guards of an entry that torch did not check any more."""
        seen = {(first.source, first.kind)} if first is not None else set()
        for check in failing_checks(entry, about[0][0]):
            failed = recompile_reasons.failed_guard(check, *about, ev.GuardAlsoFailed)
            if (failed.source, failed.kind) not in seen:
                seen.add((failed.source, failed.kind))
                self.recording.record(failed)

    def _freed_entries(self, code: types.CodeType, entries: Sequence[Any]) -> Iterator[types.CodeType]:
        """The modified code of entries that guarded a freed object, which torch has invalidated. Newest first, as in torch."""
        there = {id(getattr(entry, "code", None)) for entry in entries}
        modified_codes = [modified for modified, frame, _ in self._modified.values() if frame.code is code]
        return iter([modified for modified in reversed(modified_codes) if id(modified) not in there])


def _restarted(attempt: Attempt, reason: str, frame: int) -> ev.AttemptRestarted:
    inline, offset = attempt.failed_place
    return ev.AttemptRestarted(frame=frame, attempt=attempt.number, inline=inline, offset=offset, reason=reason)


def _whole_frame_broke(cause: break_causes.LoggedCause, attempt: Attempt, frame: int) -> ev.GraphBroke:
    inline, offset = attempt.failed_place
    return cause.event(
        frame=frame, attempt=attempt.number, inline=inline, offset=offset, stack=attempt.failed_stack, live_locals=(), operations=0
    )


def _backend_name(output: Any) -> str:
    backend = output.compiler_fn
    return str(getattr(backend, "__name__", None) or getattr(backend, "compiler_name", None) or type(backend).__name__)


def _compiled_graph(
    attempt: Attempt, output: Any, graph: Any, later_code: Callable[[], str] | None
) -> Callable[..., ev.SubgraphCompiled]:
    nodes = list(graph.graph.nodes)
    ops = [node.op for node in nodes]
    outputs: list[Any] = next((node.all_input_nodes for node in nodes if node.op == "output"), [])
    code = vars(graph).get("_code") or later_code or graph.graph.python_code("self").src
    return functools.partial(
        _subgraph_compiled,
        backend=_backend_name(output),
        node_count=len(nodes),
        op_count=sum(op.startswith("call_") for op in ops),
        inputs=tuple(attempt.target_of(node.name) for node in nodes if node.op == "placeholder"),
        outputs=tuple(node.name for node in outputs),
        nodes=tuple(node.name for node in nodes),
        code=code,
    )


def _subgraph_compiled(*, code: str | Callable[[], str], **fields: Any) -> ev.SubgraphCompiled:
    return ev.SubgraphCompiled(code=(code if isinstance(code, str) else code()).strip(), **fields)
