"""The call of a compiled graph, and what happens when an operator in it fails.

The idea: the modified code begins with the call: load the inputs from their sources, call `__compiled_fn_0`, keep the
outputs. The call is covered by a handler that lets the segment run again as plain Python, in the frame's place, if an operator
fails (no Python object has been changed yet), so that the program sees the exception, and the side effects before it, that eager
gives. What the graph itself has changed by then is put back first: inputs that it writes to, the random number generator
(`undone_on_failure`). Inputs are copied for that only in the first run (it shows whether there are kernels for these types), and
in each run where the data of tensors decides whether an operator raises (an index out of range); those to which a second run writes
the same again are not copied (graph/written_again.py).

In: a finished graph. Out: the head of the modified code, and the handler behind its end.
PyTorch's Dynamo has no counterpart of the second half; the first is torch/_dynamo/output_graph.py (compile_and_call_fx_graph).
"""

from __future__ import annotations

import functools
import itertools
import random
import threading
from collections.abc import Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter as preserve_version_counter

from dynexplore.engine.bytecode import Label, Writer
from dynexplore.engine.counters import counters
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.graph.builder import FinishedGraph, GraphInput
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.graph.written_again import written_again
from dynexplore.engine.native import TailCall, skip_code_recursively
from dynexplore.engine.provenance.sources import PinnedSource
from dynexplore.engine.translate.injected_locals import TAIL_CALL, InjectedLocals

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

_VARARGS, _VARKEYWORDS = 0x04, 0x08
_FAILURE = "___failure"
_RANDOM_STATE = "___random_state"


class GraphCall:
    """Writes the call of one frame's graph."""

    def __init__(self, ctx: Interpreter, code: CodeType, injected: InjectedLocals) -> None:
        self.ctx = ctx
        self.code = code
        self.injected = injected

    def write(self, head: Writer, tail: Writer, graph: FinishedGraph, name: str, outputs: Sequence[str]) -> list[str]:
        """Write the call into the head; the handler that runs the segment again goes behind everything else, into the tail.

        `name` is the local variable that holds the compiled graph, `outputs` those that get its outputs. The names of the further
        ones that it needs.
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
        """Push all inputs as one list: those that are the same in every call lie in tuples that are ready.

        A frame of a thousand local variables would not fit into CPython's stack any more, and cost a page of memory in each call.
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
        """The graph failed: the exception is on the stack, nothing has been changed. Run the original code, plainly."""
        code, slots = self.code, self.ctx.request.slot_names
        writer.store_fast(_FAILURE)
        if self.ctx.draws:
            writer.begin_call()
            writer.load_fast(self.injected.name(random.setstate))
            writer.callable_ready()
            writer.load_fast(_RANDOM_STATE)
            writer.call(1)
            writer.pop_top()
        again = Label("again")
        writer.begin_call()
        writer.load_fast(self.injected.add(may_run_again, "__run_again"))
        writer.callable_ready()
        writer.load_fast(_FAILURE)
        writer.call(1)
        writer.pop_jump_if_true(again)
        writer.load_fast(_FAILURE)
        writer.load_const(None)
        writer.store_fast(_FAILURE)
        writer.reraise_exception()
        writer.mark(again)
        writer.load_const(None)  # no cycle through the frame of the traceback
        writer.store_fast(_FAILURE)
        writer.begin_call()
        writer.load_fast(self.injected.add(TailCall, TAIL_CALL))
        writer.callable_ready()
        if code.co_freevars:
            for variable in code.co_freevars:
                writer.load_closure(variable)
            writer.build_tuple(len(code.co_freevars))
        writer.make_function(plain_copy(code, len(slots)), closure=bool(code.co_freevars))
        for slot in slots:
            if slot in code.co_cellvars:
                writer.load_deref(slot)
            else:
                writer.load_fast(slot)
        writer.call(1 + len(slots))
        writer.return_value()


_MANY = 16  # parameters that are pinned


def _is_pinned(graph_input: GraphInput) -> bool:
    return isinstance(graph_input.source, PinnedSource)


def write_draws(ctx: Interpreter, writer: Writer, injected: InjectedLocals) -> list[str]:
    """Draw the random numbers of the segment, in the program's order; the state before them is kept for running it again.

    The names of the local variables that this needs.
    """
    if not ctx.draws:
        return []
    with writer.role("draw random number"):
        for name, function, args in ((_RANDOM_STATE, random.getstate, ()), *ctx.draws):
            writer.begin_call()
            writer.load_fast(injected.name(function))
            writer.callable_ready()
            for arg in args:
                writer.load_const(arg)
            writer.call(len(args))
            writer.store_fast(name)
    return [_RANDOM_STATE, *(name for name, _, _ in ctx.draws)]


def write_new_parameters(ctx: Interpreter, writer: Writer, injected: InjectedLocals) -> list[str]:
    """Make the parameters that the segment makes, without data; the names of the local variables that hold them."""
    with writer.role("make parameter"):
        for parameter, make in ctx.new_parameters:
            writer.begin_call()
            writer.load_fast(injected.name(make))
            writer.callable_ready()
            writer.call(0)
            writer.store_fast(parameter.source.local)
    return [parameter.source.local for parameter, _ in ctx.new_parameters]


def undone_on_failure(function: Callable[..., Any], graph: FinishedGraph, in_order: bool) -> Callable[..., Any]:
    """A compiled graph, made so that it leaves inputs and random numbers as they were when one of its operators raises.

    `in_order`: its operators run one by one, as they stand.
    """
    if not graph.written and not graph.draws_random_numbers:
        return function
    undone = _undone(function, graph, in_order)
    if graph.may_fail or not graph.written:
        return undone
    first = True

    def run(*inputs: Any) -> Any:
        nonlocal first
        if first:
            outputs, first = undone(*inputs), False
            return outputs
        try:
            return function(*inputs)
        except Exception as failure:
            _half_done.failure = failure
            raise

    return run


def unheard_by_autograd(function: Callable[..., Any], graph: FinishedGraph) -> Callable[..., Any]:
    """A compiled graph that writes through `.data`: it writes to the input itself, which does not count as a change of it."""
    if not graph.unheard:
        return function

    def run(*inputs: Any) -> Any:
        with preserve_version_counter(tuple(inputs[place] for place in graph.unheard)):
            return function(*inputs)

    return run


_half_done = threading.local()  # `failure`: of a graph that has changed its inputs by then


def _undone(function: Callable[..., Any], graph: FinishedGraph, in_order: bool) -> Callable[..., Any]:
    again = written_again(graph.module.graph, [graph.inputs[place].node for place in graph.written], in_order)
    uncopied = [place for place in graph.written if graph.inputs[place].node in again]
    copied = [place for place in graph.written if place not in uncopied]

    def run(*inputs: Any) -> Any:
        places: Sequence[int] = copied
        if uncopied and not _lie_apart(inputs, uncopied):
            places = graph.written
        saved = [_saved(inputs[place]) for place in places]
        states = _random_states(inputs) if graph.draws_random_numbers else ()
        try:
            return function(*inputs)
        except Exception:
            for put_back in (*saved, *states):
                put_back()
            raise

    return run


def _lie_apart(inputs: Sequence[Any], places: Sequence[int]) -> bool:
    """Whether no other input shares memory with the tensors at these places, in this call."""
    with torch._C.DisableTorchFunctionSubclass():  # the program does not hear of it
        memories = [storage_of(value) for value in inputs if isinstance(value, torch.Tensor)]
        return all(memories.count(storage_of(inputs[place])) == 1 for place in places)


def _saved(tensor: torch.Tensor) -> Callable[[], object]:
    """Copy a tensor; gives the function that puts the copy back, in the layout that it had."""
    data = tensor.detach()
    copy, layout = data.clone(), (data.size(), data.stride(), data.storage_offset())

    def put_back() -> None:
        now = tensor.detach()
        if (now.size(), now.stride(), now.storage_offset()) != layout:
            with torch.no_grad():
                tensor.as_strided_(*layout)
        tensor.data.copy_(copy)

    return put_back


def _random_states(inputs: Sequence[Any]) -> list[Callable[[], object]]:
    states: list[Callable[[], object]] = [functools.partial(torch.set_rng_state, torch.get_rng_state())]
    if any(isinstance(value, torch.Tensor) and value.is_cuda for value in inputs):
        states.append(functools.partial(torch.cuda.set_rng_state, torch.cuda.get_rng_state()))
    return states


def plain_copy(code: CodeType, slots: int) -> CodeType:
    """The same code as a function of positional arguments only; the engine leaves it, and what it calls, alone."""
    copy = code.replace(co_argcount=slots, co_posonlyargcount=0, co_kwonlyargcount=0,
                        co_flags=code.co_flags & ~(_VARARGS | _VARKEYWORDS))
    skip_code_recursively(copy)
    return copy


def may_run_again(failure: BaseException) -> bool:
    """Whether a segment runs again as plain Python after its graph failed; what is no error of it (Ctrl-C, our own) does not."""
    if not isinstance(failure, Exception) or isinstance(failure, DynexploreError):
        return False
    if failure is getattr(_half_done, "failure", None):
        _half_done.failure = None
        return False
    counters["graph_failure"][f"{type(failure).__name__}: {failure}"] += 1
    return True
