"""Code generation at the end of a graph: modified code that runs the graph, replays side effects, and returns or resumes.

The idea: when interpretation stops (the frame returns, or breaks), the modified code is written:

    load the graph's inputs from their sources, call `__compiled_fn_0`, store its outputs
    push the frame's result: the return value, or stack and live locals
    replay the journal: apply the mutations of the trackers to the real objects
    return; or run the original instruction that broke, and call a resume function for the rest (break_code.py)

Values are pushed before any real object is mutated, so that sources still evaluate as they did at entry.

In: a finished attempt. Out: a `Translation`. PyTorch's counterpart: `PyCodegen` in torch/_dynamo/codegen.py, and
`compile_subgraph` in torch/_dynamo/output_graph.py.
"""

from __future__ import annotations

import dataclasses
import time
import types
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch.fx

from dynexplore.engine.aliasing.lower import lower
from dynexplore.engine.aliasing.wrappers import apply_wrappers
from dynexplore.engine.bytecode import Instruction, Writer, assemble
from dynexplore.engine.gc_control import gc_enabled
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.graph.scalar_only_graphs import is_scalar_only, only_unbinds_rows, run_by_python
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.provenance.data_parallel import guard_on_no_ddp, relies_on_no_ddp
from dynexplore.engine.provenance.sources import ComputedSource, LocalSource, Namer, Source
from dynexplore.engine.translate.call_wrappers import CALL_WRAPPERS, Call
from dynexplore.engine.translate.contract.request import CompiledGraph, CompiledGuards, Translation
from dynexplore.engine.translate.dict_aliasing import may_share_dict
from dynexplore.engine.translate.function_reconstruction import push_function
from dynexplore.engine.translate.graph_call import (
    GraphCall,
    write_draws,
    write_new_parameters,
)
from dynexplore.engine.translate.graph_failure import Segment
from dynexplore.engine.translate.guard_compilation import compile_guards_and_walk
from dynexplore.engine.translate.injected_locals import InjectedLocals
from dynexplore.engine.translate.skip_frames import should_skip_frame, skip_frame
from dynexplore.engine.translate.symbolic_frame import NULL
from dynexplore.engine.translate.unique_names import NUMBERS
from dynexplore.engine.variables.callables.function import NestedFunctionVariable
from dynexplore.engine.variables.containers.iterator import IteratorVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.frame_effects import TraceTimeClass
from dynexplore.engine.variables.contract.reconstruction import CannotRebuild
from dynexplore.engine.variables.modes.active_modes import leave_all, leave_in_graph
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.identity import copy_of_constant, literal_key
from dynexplore.engine.variables.torch_.nn.new_parameter import first_reused_storage

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter
    from dynexplore.engine.variables.contract.active_mode import ActiveMode


class ReconstructionError(Exception):
    """Bytecode cannot reconstruct a value or replay a mutation: the frame must stop at `step`, before the value is created."""

    def __init__(self, type_name: str, because: str, step: int) -> None:
        super().__init__(f"{type_name}: {because}")
        self.facts: dict[str, object] = {"type": type_name, "because": because}
        self.step = step


class LastReferenceGoes(ReconstructionError):
    """A mutation may release the last reference to an object whose end the program observes: Python must run it."""

    def __init__(self, type_name: str, step: int) -> None:
        super().__init__(type_name, "", step)


class TraceTimeClassEscapes(ReconstructionError):
    """The trace-time class of a class statement is alive at the end of the graph: each call must run the statement itself."""

    def __init__(self, trace_time_class: TraceTimeClass) -> None:
        super().__init__("type", "its class statement creates a new class in each call", trace_time_class.step)
        self.facts = {}
        self.user_stack = trace_time_class.user_stack


def _owners_of(value: object) -> Iterator[object]:
    """A live object, and what a bound method or a descriptor of C leads to: `cls.fromkeys` holds `cls`."""
    yield value
    if isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType | types.MethodType):
        yield value.__self__
    if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
        yield value.__objclass__


class CodeGenerator:
    """Writes the modified code of one frame; implements Reconstruction."""

    def __init__(self, ctx: Interpreter) -> None:
        self.ctx = ctx
        self.code = ctx.request.code
        self.writer = Writer(self.code)
        self.injected = InjectedLocals()
        self.namer: Namer = self.injected
        self.resume_codes: list[CodeType] = []
        self.outputs: dict[torch.fx.Node, str] = {}
        self._built: dict[VariableTracker, str] = {}
        self._literals = {literal_key(literal): literal for literal in self.code.co_consts}
        self._copied: dict[int, str] = {}
        self._building: set[VariableTracker] = set()
        self.temporaries: list[str] = []
        self._later: list[Callable[[], None]] = []
        self._segment: Segment | None = None
        ctx.effects.cleanup_callbacks.append(vars(self).clear)  # deferred emits form a reference cycle with it

    # -- Reconstruction: pushing values

    def push(self, value: VariableTracker) -> None:
        """Emit bytecode that pushes a value."""
        if value.storage_owner is not None:
            value = value.storage_owner
        if value is NULL:
            self.writer.push_null()
        elif value in self._built:
            self.writer.load_fast(self._built[value])
        elif value.source is not None:
            self._load(value, value.source)
            if value.kind == "number of numpy" and isinstance(value.source, ComputedSource):
                self.writer.copy(1)
                self.remember(value)  # numpy would create a new object each time: evaluate once
        elif value.mutable:
            self._push_shared(value)
        else:
            self._reconstruct(value)

    def _load(self, value: VariableTracker, source: Source) -> None:
        try:
            with self.writer.role("load value"):
                source.load(self.writer, self.injected)
        except NotImplementedError as reason:
            raise ReconstructionError(value.type_name(), str(reason), value.created_at_step) from reason

    def _push_shared(self, value: VariableTracker) -> None:
        """Push a new object; one that may be pushed more than once is built once."""
        if self.ctx.journal.is_cached(value):
            raise ReconstructionError(value.type_name(), "functools.lru_cache holds the object itself", value.created_at_step)
        if value in self._building:
            raise ReconstructionError(value.type_name(), "it contains itself", value.created_at_step)
        self._building.add(value)
        self._reconstruct(value)
        self._building.discard(value)
        if value not in self._built:  # its own reconstruct may have remembered it already
            self.writer.copy(1)
            self.remember(value)

    def remember(self, value: VariableTracker) -> None:
        """Pop the top of the stack, which holds `value`, into a local; later pushes load it from there."""
        self._built[value] = self.store_temporary()

    def store_iterator_parts(self, iterator: IteratorVariable) -> None:
        """Create an iterator after the side effects, which may mutate what it iterates over; load its parts before them."""
        for part in iterator.parts():
            if isinstance(part, IteratorVariable) and part.source is None:
                self.store_iterator_parts(part)
            elif part not in self._built and not (
                isinstance(part, ConstantVariable) and isinstance(part.source, LocalSource | None)  # side effects leave it as it is
            ):
                self.push(part)
                self.remember(part)

    def _reconstruct(self, value: VariableTracker) -> None:
        try:
            with self.writer.role("rebuild value"):
                value.reconstruct(self)
        except CannotRebuild as reason:
            other = reason.because_of
            raise ReconstructionError(other.type_name(), str(reason), other.created_at_step) from reason
        except NotImplementedError as reason:
            raise ReconstructionError(value.type_name(), str(reason), value.created_at_step) from reason

    def push_object(self, value: object) -> None:
        """Push a live object that the cache entry keeps alive."""
        trace_time_classes = self.ctx.effects.trace_time_classes
        for owner in _owners_of(value) if trace_time_classes else ():
            trace_time_class = trace_time_classes.get(id(owner)) or trace_time_classes.get(id(type(owner)))
            if trace_time_class is not None:
                raise TraceTimeClassEscapes(trace_time_class)
        self.writer.load_fast(self.injected.name(value))

    def push_constant(self, value: object) -> None:
        """Push a literal. A computed one is copied if the code has an equal one, which it would become as a constant."""
        name = self._copied.get(id(value))
        if name is not None:
            self.writer.load_fast(name)
        elif isinstance(value, tuple | frozenset) or self.may_be_constant(value):
            self.writer.load_const(value)
        else:
            self.call_helper(copy_of_constant, partial(self.writer.load_const, value))
            self.writer.copy(1)
            self._copied[id(value)] = self.store_temporary()

    def may_be_constant(self, value: object) -> bool:
        """Whether no other object that is equal is a literal of the code, or was pushed as one."""
        return self._literals.setdefault(literal_key(value), value) is value

    def push_output(self, node: torch.fx.Node) -> None:
        """Push an output of the graph."""
        name = self.outputs.get(node)
        if name is None:
            name = self.outputs[node] = f"___out_{len(self.outputs)}"
        self.writer.load_fast(name)

    def call_object(self, function: object, *args: VariableTracker) -> None:
        """Push the result of calling a live object with these values."""
        self.call_helper(function, *[partial(self.push, arg) for arg in args])

    def call_helper(self, function: object, *loads: Callable[[], object]) -> None:
        """Push the result of calling a live object; each of `loads` pushes one argument."""
        self.writer.call_helper(partial(self.push_object, function), *loads)

    def store_temporary(self) -> str:
        """Pop the top of the stack into a fresh local."""
        name = f"___tmp_{len(self.temporaries)}"
        self.temporaries.append(name)
        self.writer.store_fast(name)
        return name

    def later(self, emit: Callable[[], None]) -> None:
        """Run `emit` after every value has been pushed."""
        self._later.append(emit)

    def make_function(self, function: VariableTracker) -> None:
        """Push a new function."""
        assert isinstance(function, NestedFunctionVariable)
        push_function(self, function)

    # -- side effects

    def side_effects(self, *, returning: bool) -> None:
        """Apply the mutations of trackers to the real objects, in the order of each object's first mutation."""
        for first, *others in self.ctx.journal.possible_aliases():
            assert first.source is not None
            if all(self.ctx.guards.fix_object(alias.source) for alias in (first, *others)):
                continue
            kind = "NO_ATTRIBUTE_ALIAS" if may_share_dict(self.ctx.journal, [first, *others]) else "DISTINCT"
            self.ctx.guard(first.source, kind, [other.source for other in others])
        with self.writer.role("side effect"):
            changed = list(self.ctx.journal.changed)
            own = {id(cell) for name, cell in self.ctx.frames.root.cells.items() if name in self.code.co_cellvars}
            local = [tracker for tracker in changed if returning and id(tracker) in own]
            for tracker in changed:
                if tracker not in local:
                    self._write_back(tracker)
            # of its own cells, the frame writes only those held by a function that has escaped by now
            while escaped := [tracker for tracker in local if tracker in self._built]:
                local = [tracker for tracker in local if tracker not in escaped]
                for tracker in escaped:
                    self._write_back(tracker)
            for emit in self._later:
                emit()
            for mode in self.ctx.active_modes:
                if mode.set_for_real is not None:
                    mode.set_for_real(self)

    def _write_back(self, tracker: VariableTracker) -> None:
        try:
            tracker.write_back(self)
        except NotImplementedError as reason:
            raise ReconstructionError(tracker.type_name(), str(reason), self.ctx.journal.changed[tracker]) from reason

    def set_modes_before(self, block: ActiveMode) -> None:
        """Set the modes that were set before a `with` block: entering it saves the current ones (inference mode: all modes)."""
        with self.writer.role("side effect"):
            for mode in self.ctx.active_modes:
                if mode is block:
                    return
                if mode.set_for_real is not None:
                    mode.set_for_real(self)
                    mode.set_for_real = None

    # -- putting it together

    def finish(self, breaks: list[GraphBreak], guards: CompiledGuards | None = None) -> Translation:
        """Compile the graph, write the head of the modified code, assemble it. `guards`: another attempt's, if not its own."""
        ctx = self.ctx
        for trace_time_class in ctx.effects.trace_time_classes.values():
            self.injected.name(trace_time_class.value)  # guards hold only a weak reference to it
        head = Writer(self.code)
        with head.role("prologue"):
            head.prologue(self.code.co_cellvars, self.code.co_freevars, self._own_cells)
        self.temporaries += write_draws(ctx, head, self.injected)
        self.temporaries += write_new_parameters(ctx, head, self.injected)
        tail = Writer(self.code)
        graphs = self._call_graph(head, tail, breaks) if ctx.graph.call_count or self.outputs else []
        instructions = [*head.instructions, *self.writer.instructions, *tail.instructions]
        code = self._assemble(instructions)
        if ctx.emitter is not None:
            objects = zip(self.injected.names, self.injected.values, strict=True)
            ctx.emitter.code_emitted(code, [graph.name for graph in graphs], self.resume_codes, objects)
        guards = guards if guards is not None else compile_guards_and_walk(ctx)
        return Translation(
            code,
            tuple(self.injected.values),
            len(ctx.request.slot_names),
            guards.check,
            guards.walk,
            graphs,
            breaks,
            guards.weak_owners,
            self.resume_codes,
            runs_alone=bool(graphs) and not breaks and self.writer.calls_nothing(),
        )

    def _call_graph(self, head: Writer, tail: Writer, breaks: list[GraphBreak]) -> list[CompiledGraph]:
        """Finish the graph, compile it, and write its call; returns it unless Python runs its operators."""
        ctx = self.ctx
        name = f"__compiled_fn_{NUMBERS.next()}"
        order = {node: position for position, node in enumerate(ctx.graph.graph.nodes)}
        self.outputs = dict(sorted(self.outputs.items(), key=lambda output: order[output[0]]))
        self._refuse_shared_parameters()
        graph = ctx.graph.finish(list(self.outputs), name)
        is_for_python = is_scalar_only(graph) or (bool(breaks) and only_unbinds_rows(graph))
        graphs: list[CompiledGraph] = []
        if is_for_python and not (ctx.function_modes.has_wrappers or ctx.function_modes.has_subclasses):
            function = run_by_python(graph)
        else:
            function = self._compiled(graph, name, breaks)
            graphs.append(CompiledGraph(name, graph, function))
        injected = self.injected.add(function, name)
        segment = self._segment if self._segment is not None else Segment(ctx, graph, in_order=True)
        call = GraphCall(ctx, self.code, self.injected, segment)
        self.temporaries += call.write(head, tail, graph, injected, list(self.outputs.values()))
        return graphs

    def _compiled(self, graph: FinishedGraph, name: str, breaks: list[GraphBreak]) -> Callable[..., Any]:
        """The callable of the graph, in the wrappers that make its calls match eager."""
        ctx = self.ctx
        began = time.perf_counter()
        if relies_on_no_ddp(graph_input.example for graph_input in graph.inputs):
            guard_on_no_ddp(ctx.guard, ctx.module_guards)
        leave_all(ctx.active_modes)  # the backend traces the graph again, under the modes that were active when the frame began
        env = ctx.graph.shape_env
        guards_before = len(env.guards) if env is not None else 0
        with gc_enabled():
            lowered = lower(
                graph, name, ctx.request.compiler, ctx.graph.fake_mode, breaks, ctx.guard, ctx.request.profile.observe_overlap
            )
        if env is not None and env.oblivious_sizes:
            ctx.request.backend_size_guards.note(env, guards_before)
        self._segment = Segment(ctx, graph, in_order=lowered.runs_as_captured)
        wrappers = list(lowered.wrappers)
        function = apply_wrappers(lowered.function, CALL_WRAPPERS.values(), Call(ctx, graph, self._segment), wrappers)
        lowered = dataclasses.replace(lowered, function=function, wrappers=tuple(wrappers))
        if ctx.emitter is not None:
            ctx.emitter.compiled(name, graph, lowered, ctx.request.backend_name, time.perf_counter() - began)
        return function

    def _refuse_shared_parameters(self) -> None:
        """Refuse a parameter created from a tensor that the program keeps using: only Python can create it on the same storage."""
        parameters = [parameter for parameter, _ in self.ctx.effects.new_parameters]
        used_again = first_reused_storage(parameters, self.ctx.graph.graph, list(self.outputs))
        if used_again is not None:
            raise ReconstructionError("Parameter", "the tensor that it wraps is used again", used_again.created_at_step)

    def _assemble(self, instructions: list[Instruction]) -> CodeType:
        code = self.code
        slots = self.ctx.request.slot_names
        fixed_slots = {*slots, *self.injected.names}
        cells = {*code.co_cellvars, *code.co_freevars}
        names = [*self.ctx.frames.root.parsed.code.co_varnames, *self.outputs.values(), *self.temporaries]
        others = [name for name in dict.fromkeys(names) if name not in fixed_slots and name not in cells]
        return assemble(
            instructions, code, varnames=(*slots, *self.injected.names, *others, *self._own_cells), cellvars=code.co_cellvars,
            freevars=code.co_freevars, moved=self._own_cells,
        )  # fmt: skip

    @property
    def _own_cells(self) -> tuple[str, ...]:
        """Free variables of a resume function that are cell variables of the frame that it resumes."""
        return () if self.ctx.resume is None else self.ctx.resume.own_cells


def finish_with_return(ctx: Interpreter) -> Translation:
    """Finish a frame that returned: push the value, replay side effects, return; or skip the frame."""
    if should_skip_frame(ctx):
        return skip_frame(ctx)
    leave_in_graph(ctx, ctx.active_modes)
    generator = CodeGenerator(ctx)
    assert ctx.frames.root.returned is not None
    generator.push(ctx.frames.root.returned)
    generator.side_effects(returning=True)
    with generator.writer.at(ctx.frames.root.current), generator.writer.role("return"):
        generator.writer.return_value()
    return generator.finish([])
