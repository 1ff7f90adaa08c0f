"""The call of a compiled graph, and the rerun of the segment when an operator in it fails.

The idea: the modified code begins with the call: load the inputs from their sources, call `__compiled_fn_0`, store the outputs.
An exception handler covers the call: if an operator fails, the segment reruns as plain Python (no Python object has been mutated
yet), so that the program sees the same exception, after the same side effects, as in eager. Any other exception raised while a
graph runs propagates to its origin (graph_failure.py). The graph's own side effects are rolled back first: mutated inputs and the
state of the random number generator (aliasing/rollback.py).

In: a finished graph. Out: the head of the modified code, and the exception handler after its end. PyTorch's counterpart:
`compile_and_call_fx_graph` in torch/_dynamo/output_graph.py; of the rerun, none.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import Label, Writer
from dynexplore.engine.graph.finished_graph import FinishedGraph, GraphInput
from dynexplore.engine.native import skip_code_recursively
from dynexplore.engine.provenance.sources import PinnedSource
from dynexplore.engine.translate.graph_failure import Segment, strip_engine_frames
from dynexplore.engine.translate.injected_locals import InjectedLocals

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

_VARARGS, _VARKEYWORDS = 0x04, 0x08
_FAILURE = "___failure"
_RANDOM_STATE = "___random_state"


class GraphCall:
    """Writes the call of one frame's graph."""

    def __init__(self, ctx: Interpreter, code: CodeType, injected: InjectedLocals, segment: Segment) -> None:
        self.ctx = ctx
        self.code = code
        self.injected = injected
        self.segment = segment

    def write(self, head: Writer, tail: Writer, graph: FinishedGraph, name: str, outputs: Sequence[str]) -> list[str]:
        """Write the call into the head; the handler that reruns the segment goes after everything else, into the tail.

        `name` is the local variable that holds the compiled graph, `outputs` those that receive its outputs. Returns the names of
        any further local variables.
        """
        rerun = Label("run again")
        with head.covered_by(rerun):
            self._write_call(head, graph, name)
        with head.role("keep outputs"):
            if not outputs:
                head.pop_top()
            else:
                head.unpack_sequence(len(outputs))
                for output in outputs:
                    head.store_fast(output)
        tail.mark(rerun)
        with tail.role("run again"):
            self._write_rerun(tail)
        return [_FAILURE]

    def _write_call(self, head: Writer, graph: FinishedGraph, name: str) -> None:
        with head.role("call graph"):
            head.begin_call()
            head.load_fast(name)
            head.callable_ready()
        if sum(map(_is_pinned, graph.inputs)) < _MANY:
            with head.role("load input"):
                for graph_input in graph.inputs:
                    graph_input.source.load(head, self.injected)
            with head.role("call graph"):
                head.call(len(graph.inputs))
            return
        with head.role("load input"):
            self._write_argument_list(head, graph.inputs)
        with head.role("call graph"):
            head.call_function_ex()

    def _write_argument_list(self, head: Writer, inputs: Sequence[GraphInput]) -> None:
        """Push all inputs as one list; inputs that are the same in every call come from prebuilt tuples.

        A frame with a thousand local variables would not fit into CPython's stack chunk, and would cost a page of memory per call.
        """
        head.build_list(0)
        for pinned, run in itertools.groupby(inputs, _is_pinned):
            if pinned:
                parameters = tuple(graph_input.example for graph_input in run)
                head.load_fast(self.injected.add(parameters, f"__parameters_{len(self.injected.values)}"))
            else:
                sources = [graph_input.source for graph_input in run]
                for source in sources:
                    source.load(head, self.injected)
                head.build_tuple(len(sources))
            head.list_extend(1)

    def _write_rerun(self, writer: Writer) -> None:
        """Write the handler: the graph's exception propagates, or the original code runs as plain Python (graph_failure.py)."""
        retry_label, failed_again = Label("again"), Label("left again")
        writer.store_fast(_FAILURE)
        self._call_helper(writer, self.segment.must_rerun, "__must_run_again", lambda: writer.load_fast(_FAILURE))
        writer.pop_jump_if_true(retry_label)
        self._write_raise(writer)
        writer.mark(retry_label)
        writer.load_const(None)  # avoids a reference cycle through the traceback's frame
        writer.store_fast(_FAILURE)
        if self.ctx.effects.draws:
            self._call_helper(writer, random.setstate, None, lambda: writer.load_fast(_RANDOM_STATE))
            writer.pop_top()
        with writer.covered_by(failed_again):
            self._write_call_of_plain_copy(writer)
        writer.return_value()
        writer.mark(failed_again)
        writer.store_fast(_FAILURE)
        self._call_helper(writer, strip_engine_frames, None, lambda: writer.load_fast(_FAILURE))
        writer.pop_top()
        self._write_raise(writer)

    def _write_call_of_plain_copy(self, writer: Writer) -> None:
        code, slots = self.code, self.ctx.request.slot_names

        def load_plain_copy() -> None:
            if code.co_freevars:
                for variable in code.co_freevars:
                    writer.load_closure(variable)
                writer.build_tuple(len(code.co_freevars))
            writer.make_function(plain_copy(code, len(slots)), closure=bool(code.co_freevars))

        loads = [partial(writer.load_deref if slot in code.co_cellvars else writer.load_fast, slot) for slot in slots]
        self._call_helper(writer, self.segment.rerun, "__run_again", load_plain_copy, *loads)

    def _call_helper(
        self, writer: Writer, function: Callable[..., Any], name: str | None, *loads: Callable[[], object]
    ) -> None:
        local = self.injected.add(function, name) if name is not None else self.injected.name(function)
        writer.call_helper(lambda: writer.load_fast(local), *loads)

    def _write_raise(self, writer: Writer) -> None:
        """Raise the exception in the local variable, and clear the variable."""
        writer.load_fast(_FAILURE)
        writer.load_const(None)
        writer.store_fast(_FAILURE)
        writer.reraise_exception()


_MANY = 16  # number of parameters from which they are injected as one tuple


def _is_pinned(graph_input: GraphInput) -> bool:
    return isinstance(graph_input.source, PinnedSource)


def write_draws(ctx: Interpreter, writer: Writer, injected: InjectedLocals) -> list[str]:
    """Draw the random numbers of the segment, in program order; the state before them is saved for a rerun.

    Returns the names of the local variables that this needs.
    """
    if not ctx.effects.draws:
        return []
    with writer.role("draw random number"):
        for name, function, args in ((_RANDOM_STATE, random.getstate, ()), *ctx.effects.draws):
            load_function = partial(writer.load_fast, injected.name(function))
            writer.call_helper(load_function, *[partial(writer.load_const, arg) for arg in args])
            writer.store_fast(name)
    return [_RANDOM_STATE, *(name for name, _, _ in ctx.effects.draws)]


def write_new_parameters(ctx: Interpreter, writer: Writer, injected: InjectedLocals) -> list[str]:
    """Create the segment's new parameters, without data; return the names of the local variables that hold them."""
    with writer.role("make parameter"):
        for parameter, make in ctx.effects.new_parameters:
            writer.call_helper(partial(writer.load_fast, injected.name(make)))
            writer.store_fast(parameter.source.local)
    return [parameter.source.local for parameter, _ in ctx.effects.new_parameters]


def plain_copy(code: CodeType, slots: int) -> CodeType:
    """The same code as a function of positional arguments only; the engine skips it and everything that it calls."""
    copy = code.replace(
        co_argcount=slots, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~(_VARARGS | _VARKEYWORDS)
    )
    skip_code_recursively(copy)
    return copy
