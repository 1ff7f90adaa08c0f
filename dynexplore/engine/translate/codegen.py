"""The end of a graph: modified code that runs it, replays side effects, and returns or goes on.

The idea: when interpretation stops (the frame returns, or breaks), the modified code is written:

    load the graph's inputs from their sources, call `__compiled_fn_0`, keep its outputs
    push what the frame leaves behind: the return value, or stack and live locals
    replay the journal: make real objects what their trackers became
    return; or run the original instruction that broke, and call a resume function for the rest

Values are pushed before anything real is changed, so that sources still mean what they meant at entry. The call of the graph is
covered by a handler that runs the segment again as plain Python if an operator fails (nothing has been changed yet), so that the
program sees the exception, and the side effects before it, that eager gives.

In: a finished attempt. Out: a `Translation`. torch/_dynamo/codegen.py and output_graph.py do the same job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, cast

import torch.fx

from dynexplore.engine.bytecode import FACTS, Instruction, Label, Step, Writer, assemble, live_locals
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.graph.builder import FinishedGraph
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.native import GuardWalk, skip_code
from dynexplore.engine.provenance.sources import LocalSource, Namer
from dynexplore.engine.translate.request import CompiledGraph, SkipFrame, Translation
from dynexplore.engine.translate.resume import ResumeCode, make_resume_code
from dynexplore.engine.translate.stack_shape import Shape, shape_after
from dynexplore.engine.translate.symbolic_frame import NULL
from dynexplore.engine.translate.tail_calls import TailCall, run_resumes
from dynexplore.engine.translate.unique_names import unique_number
from dynexplore.engine.variables.base import VariableTracker
from dynexplore.engine.variables.constant import ConstantVariable, is_constant_value
from dynexplore.engine.variables.context_manager import restoring_modes
from dynexplore.engine.variables.function import NestedFunctionVariable
from dynexplore.engine.variables.iterator import IteratorVariable
from dynexplore.engine.variables.unread import UnreadVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.interpreter import Interpreter

_VARARGS, _VARKEYWORDS = 0x04, 0x08


class InjectedLocals(Namer):
    """Objects that the cache entry holds and the modified code finds in local variables of its own."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.names: list[str] = []
        self._known: dict[int, str] = {}

    def name(self, value: object) -> str:
        return self.add(value, f"__object_{len(self.values)}")

    def add(self, value: object, name: str) -> str:
        """Inject a value under a name (or the name it has already)."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = name
            self.values.append(value)
            self.names.append(name)
        return known


class CodeGenerator:
    """Writes the modified code of one frame; implements Reconstruction."""

    def __init__(self, ctx: Interpreter) -> None:
        self.ctx = ctx
        self.code = ctx.request.code
        self.writer = Writer(self.code)
        self.injected = InjectedLocals()
        self.namer: Namer = self.injected
        self.resume_codes: list[CodeType] = []
        self._outputs: dict[torch.fx.Node, str] = {}
        self._built: dict[VariableTracker, str] = {}
        self._building: set[VariableTracker] = set()
        self._temporaries: list[str] = []
        self._later: list[Callable[[], None]] = []

    # -- Reconstruction: pushing values

    def push(self, value: VariableTracker) -> None:
        """Emit bytecode that pushes a value."""
        if value is NULL:
            self.writer.push_null()
        elif value in self._built:
            self.writer.load_fast(self._built[value])
        elif value.source is not None:
            with self.writer.role("load value"):
                value.source.load(self.writer, self.injected)
        elif value.mutable:
            self._push_shared(value)
        else:
            self._reconstruct(value)

    def _push_shared(self, value: VariableTracker) -> None:
        """A new object that may appear twice is built once."""
        if value in self._building:
            self.ctx.break_graph("DX318", type=value.type_name(), because="it contains itself")
        self._building.add(value)
        self._reconstruct(value)
        self._building.discard(value)
        if value not in self._built:  # its own reconstruct may have told already
            self.writer.copy(1)
            self.remember(value)

    def remember(self, value: VariableTracker) -> None:
        """Pop the top of the stack, which holds `value`, into a local; later pushes load it from there."""
        self._built[value] = self.store_temporary()

    def hold_walked(self, iterator: IteratorVariable) -> None:
        """An iterator is made after the side effects (what it walks may change); what it is made of is fetched before them."""
        for part in iterator.parts():
            if isinstance(part, IteratorVariable):
                self.hold_walked(part)
            elif part not in self._built and not isinstance(part, ConstantVariable):
                self.push(part)
                self.remember(part)

    def _reconstruct(self, value: VariableTracker) -> None:
        try:
            with self.writer.role("rebuild value"):
                value.reconstruct(self)
        except NotImplementedError:
            self.ctx.break_graph("DX318", type=value.type_name())

    def push_object(self, value: object) -> None:
        """Push a live object that the cache entry holds."""
        self.writer.load_fast(self.injected.name(value))

    def push_output(self, node: torch.fx.Node) -> None:
        """Push an output of the graph."""
        name = self._outputs.get(node)
        if name is None:
            name = self._outputs[node] = f"___out_{len(self._outputs)}"
        self.writer.load_fast(name)

    def call_object(self, function: object, *args: VariableTracker) -> None:
        """Push the result of calling a live object with these values."""
        self.writer.begin_call()
        self.push_object(function)
        self.writer.callable_ready()
        for arg in args:
            self.push(arg)
        self.writer.call(len(args))

    def store_temporary(self) -> str:
        """Pop the top of the stack into a fresh local."""
        name = f"___tmp_{len(self._temporaries)}"
        self._temporaries.append(name)
        self.writer.store_fast(name)
        return name

    def later(self, emit: Callable[[], None]) -> None:
        """Run `emit` when every value has been pushed."""
        self._later.append(emit)

    def make_function(self, function: NestedFunctionVariable) -> None:
        """Push a new function."""
        flags = self._push_function_parts(function)
        if function.in_frame:
            self.writer.make_function(function.code, closure=bool(function.cells), flags=flags)
        else:
            self._make_function_elsewhere(function, flags)
        for name, value in function.attributes.items():
            self.writer.copy(1)
            self.push(value)
            self.writer.swap(2)
            self.writer.store_attr(name)

    def _make_function_elsewhere(self, function: NestedFunctionVariable, flags: int) -> None:
        """A function whose globals are not the frame's: MAKE_FUNCTION would give it the wrong ones."""
        parts = [self.store_temporary() for bit in (8, 4, 2, 1) if flags & bit or (bit == 8 and function.cells)]
        self.writer.begin_call()
        self.push_object(function_of_parts)
        self.writer.callable_ready()
        self.push_object(function.code)
        self.push_object(function.namespace)
        self.writer.load_const(flags | (8 if function.cells else 0))
        for part in reversed(parts):
            self.writer.load_fast(part)
        self.writer.call(3 + len(parts))

    def _push_function_parts(self, function: NestedFunctionVariable) -> int:
        flags = 0
        if function.defaults:
            self._push_all(function.defaults)
            self.writer.build_tuple(len(function.defaults))
            flags |= 1
        if function.keyword_defaults:
            for name, value in function.keyword_defaults.items():
                self.writer.load_const(name)
                self.push(value)
            self.writer.build_map(len(function.keyword_defaults))
            flags |= 2
        if function.annotations is not None:
            self.push(function.annotations)
            flags |= 4
        if function.cells:
            self._push_all(function.cells)
            self.writer.build_tuple(len(function.cells))
        return flags

    def _push_all(self, values: Sequence[VariableTracker]) -> None:
        for value in values:
            self.push(value)

    # -- side effects

    def side_effects(self, *, returning: bool) -> None:
        """Make real objects what their trackers became, in the order of their first change."""
        with self.writer.role("side effect"):
            changed = list(self.ctx.journal.changed)
            own = {id(cell) for name, cell in self.ctx.root.cells.items() if name in self.code.co_cellvars}
            for tracker in changed:
                if returning and id(tracker) in own and tracker not in self._built:
                    continue  # nobody but this frame sees the cell
                tracker.write_back(self)
            for emit in self._later:
                emit()
            for mode in self.ctx.active_modes:
                if mode.set_for_real is not None:
                    mode.set_for_real(self)

    def set_outer_modes(self) -> None:
        """Set for real the modes that were set before any `with` block was entered: entering one remembers what it found."""
        with self.writer.role("side effect"):
            for mode in self.ctx.active_modes:
                if mode.set_for_real is None:
                    return
                mode.set_for_real(self)
                mode.set_for_real = None

    # -- putting it together

    def finish(self, breaks: list[GraphBreak]) -> Translation:
        """Compile the graph, write the head of the code, assemble."""
        ctx = self.ctx
        graphs: list[CompiledGraph] = []
        head = Writer(self.code)
        with head.role("prologue"):
            head.prologue(self.code.co_cellvars, self.code.co_freevars)
        tail = Writer(self.code)
        if ctx.graph.call_count or self._outputs:
            name = f"__compiled_fn_{unique_number()}"
            order = {node: position for position, node in enumerate(ctx.graph.graph.nodes)}
            self._outputs = dict(sorted(self._outputs.items(), key=lambda output: order[output[0]]))
            graph = ctx.graph.finish(list(self._outputs), name)
            began = time.perf_counter()
            function = ctx.request.compile_graph(graph, name, ctx.graph.fake_mode)
            if ctx.graph.sets_modes:
                function = restoring_modes(function)
            if ctx.narrator is not None:
                ctx.narrator.compiled(name, graph, ctx.request.backend_name, time.perf_counter() - began)
            graphs.append(CompiledGraph(name, graph, function))
            self._write_graph_call(head, tail, graph, self.injected.add(function, name))
        for value in ctx.kept:
            self.injected.name(value)
        instructions = [*head.instructions, *self.writer.instructions, *tail.instructions]
        code = self._assemble(instructions)
        if ctx.narrator is not None:
            ctx.narrator.code_emitted(code, [graph.name for graph in graphs], self.resume_codes)
        check = ctx.finish_check()
        walk = ctx.module_guards.walk(cast("Callable[..., Any]", GuardWalk))
        return Translation(
            code, tuple(self.injected.values), len(ctx.request.slot_names), check, walk, graphs, breaks,
            not graphs and not breaks, ctx.module_guards.owners(), self.resume_codes,
        )

    def _write_graph_call(self, head: Writer, tail: Writer, graph: FinishedGraph, name: str) -> None:
        rerun = None if self.ctx.graph.mutates_inputs else Label("run again")
        with head.covered_by(rerun):
            with head.role("call graph"):
                head.begin_call()
                head.load_fast(name)
                head.callable_ready()
            with head.role("load input"):
                for graph_input in graph.inputs:
                    graph_input.source.load(head, self.injected)
            with head.role("call graph"):
                head.call(len(graph.inputs))
        with head.role("keep outputs"):
            if not self._outputs:
                head.pop_top()
            else:
                head.unpack_sequence(len(self._outputs))
                for output in self._outputs.values():
                    head.store_fast(output)
        if rerun is not None:
            tail.mark(rerun)
            self._write_rerun(tail)

    def _write_rerun(self, writer: Writer) -> None:
        """The graph failed: the exception is on the stack, nothing has been changed. Run the original code, plainly."""
        code = self.code
        plain = plain_copy(code, len(self.ctx.request.slot_names))
        with writer.role("run again"):
            name = "___failure"
            self._temporaries.append(name)
            writer.store_fast(name)
            writer.begin_call()
            writer.load_fast(self.injected.add(rerun_after_failure, "__run_again"))
            writer.callable_ready()
            writer.load_fast(name)
            writer.load_const(None)
            writer.store_fast(name)
            if code.co_freevars:
                for variable in code.co_freevars:
                    writer.load_closure(variable)
                writer.build_tuple(len(code.co_freevars))
            writer.make_function(plain, closure=bool(code.co_freevars))
            cells = set(code.co_cellvars)
            for slot in self.ctx.request.slot_names:
                if slot in cells:
                    writer.load_deref(slot)
                else:
                    writer.load_fast(slot)
            writer.call(2 + len(self.ctx.request.slot_names))
            writer.return_value()

    def _assemble(self, instructions: list[Instruction]) -> CodeType:
        code = self.code
        slots = self.ctx.request.slot_names
        known = {*slots, *self.injected.names}
        cells = {*code.co_cellvars, *code.co_freevars}
        wanted = [*self.ctx.parsed.code.co_varnames, *self._outputs.values(), *self._temporaries]
        others = [name for name in dict.fromkeys(wanted) if name not in known and name not in cells]
        return assemble(
            instructions, code, varnames=(*slots, *self.injected.names, *others), cellvars=code.co_cellvars,
            freevars=code.co_freevars,
        )


def plain_copy(code: CodeType, slots: int) -> CodeType:
    """The same code as a function of positional arguments only; the engine leaves it alone."""
    copy = code.replace(co_argcount=slots, co_posonlyargcount=0, co_kwonlyargcount=0,
                        co_flags=code.co_flags & ~(_VARARGS | _VARKEYWORDS))
    skip_code(copy)
    return copy


def rerun_after_failure(failure: BaseException, function: Callable[..., Any], *args: Any) -> Any:
    """Run a segment as plain Python after its graph failed; what is no error of it (Ctrl-C, our own) goes on its way."""
    if not isinstance(failure, Exception) or isinstance(failure, DynexploreError):
        raise failure
    return function(*args)


def function_of_parts(code: CodeType, namespace: dict[str, Any], flags: int, *parts: Any) -> FunctionType:
    """What MAKE_FUNCTION does, with other globals than the running frame's; `parts` in the order of its flags."""
    given = iter(parts)
    defaults, keyword_defaults, annotations, closure = (next(given) if flags & bit else None for bit in (1, 2, 4, 8))
    made = FunctionType(code, namespace, code.co_name, defaults, closure)
    made.__kwdefaults__ = keyword_defaults
    made.__qualname__ = code.co_qualname
    if annotations:
        made.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True))
    return made


# -- the two ways in which a frame ends ------------------------------------------------------------------------------


def finish_with_return(ctx: Interpreter) -> Translation:
    """The frame returned: push the value, replay, return."""
    ctx.leave_modes_in_graph()
    generator = CodeGenerator(ctx)
    assert ctx.root.returned is not None
    generator.push(ctx.root.returned)
    generator.side_effects(returning=True)
    with generator.writer.at(ctx.root.current), generator.writer.role("return"):
        generator.writer.return_value()
    return generator.finish([])


def finish_with_break(ctx: Interpreter, graph_break: GraphBreak) -> Translation:
    """The frame breaks before the current instruction: run that for real, then resume functions."""
    return _BreakWriter(ctx, graph_break).finish()


def _may_hold_tensor(value: VariableTracker) -> bool:
    """Whether a value is a tensor, or may hold one: everything but plain constants and iterators over such."""
    return not (value.is_constant() or (isinstance(value, UnreadVariable) and is_constant_value(value.value))
                or value.kind in ("iterator", "range") or value.python_type() in _PLAIN)


_PLAIN: tuple[type[Any], ...] = (type(iter(range(0))), type(iter(())), type(iter([])), type(iter("")), range, str)

Slot = str | None  # the temporary that holds a stack value; None for NULL


class _BreakWriter:
    """Writes what follows a graph that ends at a break."""

    def __init__(self, ctx: Interpreter, graph_break: GraphBreak) -> None:
        self.ctx = ctx
        self.graph_break = graph_break
        self.generator = CodeGenerator(ctx)
        self.writer = self.generator.writer
        self.frame = ctx.root
        self.parsed = ctx.root.parsed
        self.unit = self.parsed.unit(self.frame.current)
        self.broken = self.unit[-1]
        self.steps = [step for step in self.parsed.steps if step.origin in self.unit]
        self.loops = any(step.target >= 0 and step.target <= step.index for step in self.parsed.steps)
        self.is_resume = ctx.resume is not None
        self.late_locals: list[tuple[str, VariableTracker]] = []

    def finish(self) -> Translation:
        """The whole of it."""
        self._refuse_idle_loop()
        self.ctx.leave_modes_in_graph()
        with self.writer.at(self.broken):
            slots = self._leave_state()
            self._write_original(slots)
        return self.generator.finish([self.graph_break])

    def _refuse_idle_loop(self) -> None:
        """A loop that goes round in resume functions without any tensor in sight is better run plain."""
        if not (self.is_resume and self.loops) or self.ctx.graph.call_count:
            return
        values = [*self.frame.stack, *self.frame.locals.values(), *(cell.content for cell in self.frame.cells.values())]
        if not any(value is not None and _may_hold_tensor(value) for value in values):
            raise SkipFrame("a loop without tensors")

    # -- stack and locals

    def _leave_state(self) -> list[Slot]:
        """Put stack values into temporaries and locals into their variables, changes replayed in between."""
        generator, writer = self.generator, self.writer
        slots: list[Slot] = []
        late: list[tuple[int, VariableTracker]] = []
        generator.set_outer_modes()
        with writer.role("restore stack"):
            for value in self.frame.stack:
                if value is NULL:
                    slots.append(None)
                elif isinstance(value, IteratorVariable):
                    generator.hold_walked(value)
                    late.append((len(slots), value))
                    slots.append("")
                else:
                    generator.push(value)
                    slots.append(generator.store_temporary())
        with writer.role("restore locals"):
            names = self._push_locals()
        generator.side_effects(returning=False)
        with writer.role("restore stack"):
            for index, value in late:
                generator.push(value)
                slots[index] = generator.store_temporary()
        with writer.role("restore locals"):
            for name, value in self.late_locals:
                generator.push(value)
                names.append(name)
            for name in reversed(names):
                writer.store_fast(name)
            for name in self._entry_locals():
                if name not in self.frame.locals:
                    writer.delete_fast(name)
        return slots

    def _push_locals(self) -> list[str]:
        """Push every local that may still be read and is not yet in its variable."""
        needed = self._live()
        names = []
        for name, value in self.frame.locals.items():
            here = isinstance(value.source, LocalSource) and value.source.local == name
            if name not in needed or here:
                continue
            if isinstance(value, IteratorVariable):
                self.generator.hold_walked(value)
                self.late_locals.append((name, value))
            else:
                self.generator.push(value)
                names.append(name)
        return names

    def _live(self) -> frozenset[str]:
        live = live_locals(self.parsed, self.unit[0])
        for target in self._targets():
            live |= live_locals(self.parsed, target)
        return live

    def _targets(self) -> list[Instruction]:
        """The original instructions where Python may go on after the broken one."""
        found = []
        if not self._ends_here():
            found.append(self.parsed.next_unit(self.broken))
        jump = self._jump_step()
        if jump is not None:
            found.append(self.parsed.steps[jump.target].origin)
        if self.broken.handler is not None:
            found.append(self.broken.handler.target)
        return found

    def _jump_step(self) -> Step | None:
        return next((step for step in self.steps if step.target >= 0), None)

    def _ends_here(self) -> bool:
        return self.steps[-1].op in ("JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE")

    def _entry_locals(self) -> list[str]:
        """Argument slots that held a value at entry and are plain locals of the original code."""
        own = set(self.parsed.code.co_varnames)
        cells = {*self.parsed.code.co_cellvars, *self.parsed.code.co_freevars}
        return [name for name in self.ctx.request.slot_names if name in own and name not in cells
                and name in self.ctx.request.values]

    # -- the instruction that broke, and what follows

    def _write_original(self, slots: list[Slot]) -> None:
        writer = self.writer
        shape: Shape = tuple(slot is not None for slot in slots)
        jump = self._jump_step()
        after, kept = shape_after(shape, self.steps, jumped=False)
        after_jump: Shape = ()
        if jump is not None:
            after_jump, kept_jump = shape_after(shape, self.steps, jumped=True)
            kept = min(kept, kept_jump)
        with writer.role("restore stack"):
            for slot in slots[kept:]:
                self._load_slot(slot)
        failed, jumped = Label("failed"), Label("jumped")
        handler = self.broken.handler
        with writer.covered_by(failed if handler is not None else None), writer.role("original instruction"):
            self._copy_unit(jumped if jump is not None else None)
        if not self._ends_here():
            self._resume(self.parsed.next_unit(self.broken), slots[:kept], after[kept:])
        elif self.steps[-1].op == "RETURN_VALUE":
            pass
        if jump is not None:
            writer.mark(jumped)
            self._write_fillers(jump)
            self._resume(self.parsed.steps[jump.target].origin, slots[:kept], after_jump[kept:])
        if handler is not None:
            writer.mark(failed)
            self._resume_handler(slots)

    def _load_slot(self, slot: Slot) -> None:
        if slot is None:
            self.writer.push_null()
        else:
            self.writer.load_fast(slot)

    def _copy_unit(self, jumped: Label | None) -> None:
        """The original instructions; the method forms of attribute loads are written so that the NULL stays known."""
        first = self.steps[0]
        if len(self.steps) > 1 and first.op in ("LOAD_ATTR", "LOAD_SUPER_ATTR"):
            if first.op == "LOAD_ATTR":
                self.writer.load_attr(first.arg)
            else:
                assert self.broken.arg is not None
                self.writer.emit("LOAD_SUPER_ATTR", self.broken.arg & ~1, first.arg[0])
            self.writer.push_null()
            if FACTS.null_below:
                self.writer.swap(2)
            return
        for instruction in self.unit:
            self.writer.original(instruction, jumped if instruction.target is not None else None)

    def _write_fillers(self, jump: Step) -> None:
        """3.12 and later: what stands at the target of an exhausted FOR_ITER is skipped, but must be there."""
        if jump.op != "FOR_ITER":
            return
        assert self.broken.target is not None
        after = self.parsed.steps[jump.target].origin
        for index in range(self.broken.target.index, after.index):
            self.writer.original(self.parsed.instructions[index])

    # -- resume functions

    def _resume(self, target: Instruction, kept: list[Slot], results: Shape) -> None:
        """Results of the broken instruction are on the stack: take them off, call the resume function at `target`."""
        taken: list[Slot] = []
        with self.writer.role("resume"):
            for is_value in reversed(results):
                name = self.generator.store_temporary()
                taken.append(name if is_value else None)
            self._call_resume(target, [*kept, *reversed(taken)])

    def _resume_handler(self, slots: list[Slot]) -> None:
        """The broken instruction raised: go on in the original handler, with the exception as a stack value."""
        handler = self.broken.handler
        assert handler is not None
        with self.writer.role("resume"):
            exception = self.generator.store_temporary()
            self._call_resume(handler.target, slots[:handler.depth], exception=exception, lasti=handler.lasti)

    def _call_resume(self, target: Instruction, slots: list[Slot], exception: str | None = None, lasti: bool = False) -> None:
        shape = [slot is not None for slot in slots] + [True] * (lasti + (exception is not None))
        resume = self._resume_code(target, tuple(shape))
        writer = self.writer
        tail_call = self.loops and self.is_resume
        writer.begin_call()
        if self.loops:
            self.generator.push_object(TailCall if tail_call else run_resumes)
            writer.callable_ready()
        self._push_resume_function(resume)
        if not self.loops:
            writer.callable_ready()
        count = self._push_arguments(resume, slots)
        if lasti:
            writer.load_const(resume.lasti_of(self.broken))
        if exception is not None:
            writer.load_fast(exception)
            writer.load_const(None)  # no cycle through the frame of the traceback
            writer.store_fast(exception)
        writer.call(count + lasti + (exception is not None) + bool(self.loops))
        with writer.role("return"):
            writer.return_value()

    def _resume_code(self, target: Instruction, shape: Shape) -> ResumeCode:
        arguments = self.ctx.argument_names
        cells = {*self.parsed.code.co_cellvars, *self.parsed.code.co_freevars}
        live = live_locals(self.parsed, target)
        bound = frozenset(name for name in arguments if name in self.frame.locals or name in cells)
        passed = tuple(name for name in self.parsed.code.co_varnames
                       if name in self.frame.locals and name in live and name not in arguments)
        own = all(name in self.frame.cells and self.frame.cells[name].frame_cell for name in cells)
        if not own or any(name in self.frame.locals for name in cells):
            self.ctx.break_graph("DX504", where="in a comprehension whose variable is also a closure variable")
        name = f"__resume_at_{target.offset}_{unique_number()}"
        resume = make_resume_code(self.parsed, target, stack=shape, locals=passed, bound_args=bound, name=name)
        if resume.code not in self.generator.resume_codes:
            self.generator.resume_codes.append(resume.code)
        return resume

    def _push_resume_function(self, resume: ResumeCode) -> None:
        for name in resume.freevars:
            self.writer.load_closure(name)
        if resume.freevars:
            self.writer.build_tuple(len(resume.freevars))
        self.writer.make_function(resume.code, closure=bool(resume.freevars))

    def _push_arguments(self, resume: ResumeCode, slots: list[Slot]) -> int:
        """The argument slots (None for a dead or unbound one), other locals, stack values."""
        writer = self.writer
        live = live_locals(self.parsed, resume.target)
        cells = {*resume.freevars}
        for index, name in enumerate(resume.arguments):
            if name in cells:
                if index == 0:  # zero-argument super() reads slot 0
                    writer.load_deref(name)
                else:
                    writer.load_const(None)
            elif name in self.frame.locals and name in live:
                writer.load_fast(name)
            else:
                writer.load_const(None)
        for name in resume.locals:
            writer.load_fast(name)
        values = [slot for slot in slots if slot is not None]
        for slot in values:
            writer.load_fast(slot)
        return len(resume.arguments) + len(resume.locals) + len(values)


