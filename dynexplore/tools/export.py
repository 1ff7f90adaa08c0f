"""export: a whole function as one graph that is called like the function, and runs without the engine.

The idea: the function is captured once, with `nopython`. The graph has the engine's calling convention: a flat list of inputs,
whatever their sources, and a flat list of output tensors. It is wrapped in a GraphModule with the function's own calling
convention: nested arguments are flattened, tensors that were not arguments (parameters, buffers, closures) become attributes, and
the result is reconstructed from outputs of the graph, arguments returned unchanged, and constants. What cannot be expressed this
way (a mutated list or attribute, an object that is not a pytree) is rejected, in one sentence.

In: a function or module and its arguments. Out: (GraphModule, guards); `Unsupported` with all the reasons.

PyTorch's counterpart: `export` in torch/_dynamo/eval_frame.py.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo

from dynexplore.engine import events as ev
from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.errors import Unsupported
from dynexplore.engine.policy.constant_functions import exporting
from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.runtime.stores import Options
from dynexplore.engine.variables.scalars.constant import is_constant_value
from dynexplore.recording.recording import Recording
from dynexplore.recording.shown import Printed, Shown, graph_text
from dynexplore.session import torch_compiled
from dynexplore.session.session import watched_store

TracingMode = Literal["real", "fake", "symbolic"]


class ExportResult(tuple[torch.fx.GraphModule, tuple[ev.GuardInstalled, ...]]):
    """The result of export: a pair of graph and guards, which prints as the graph's code and a table of guards."""

    __slots__ = ()

    def __repr__(self) -> str:
        graph, guards = self
        return f"{graph_text(graph)}\n\n{guards!r}"

    def _repr_html_(self) -> str:
        graph, guards = self
        return Printed(graph_text(graph))._repr_html_() + Shown("guard", guards)._repr_html_()


def export(
    fn: Callable[..., Any],
    /,
    *args: Any,
    aten_graph: bool = False,
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: TracingMode = "real",
    **kwargs: Any,
) -> ExportResult:
    """Capture a call of `fn` as one graph that is called like `fn`: `graph(*args, **kwargs)`.

    Args: fn: a function, bound method or module. aten_graph: trace to ATen operators (through make_fx) instead of the program's own
    calls. decomposition_table: operator -> function that replaces it; only with aten_graph. tracing_mode: how make_fx runs the
    graph: "real", "fake", or "symbolic" (sizes become symbols); only with aten_graph.

    The function is called once, on copies of the arguments; the state of reachable modules and optimizers is restored.

    Returns the GraphModule, and the guards: the assumptions that later calls must satisfy.

    Raises Unsupported, which lists all the reasons, for a program that cannot be one graph, that mutates objects other than
    tensors, or that returns an object that is neither a tensor, a constant nor a nested structure of these. Raises ValueError for
    incompatible options.

    >>> graph, guards = export(lambda x, scale: {"y": x * scale["by"]}, torch.ones(2), {"by": torch.tensor(3.0)})
    >>> graph(torch.full((2,), 2.0), {"by": torch.tensor(5.0)})
    {'y': tensor([10., 10.])}
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise ValueError(f"tracing_mode must be 'real', 'fake' or 'symbolic', not {tracing_mode!r}")
    if not aten_graph and (decomposition_table is not None or tracing_mode != "real"):
        raise ValueError("decomposition_table and tracing_mode are for aten graphs: pass aten_graph=True")
    torch_compiled.refuse(fn, "export")
    _refuse_twins(fn, args, kwargs)
    start = CallSnapshot(fn, args, kwargs)
    own_args, own_kwargs = start.fresh()
    try:
        captured = _capture(fn, own_args, own_kwargs)
        inner = captured.graph
        if aten_graph:
            trace = make_fx(
                inner, decomposition_table=dict(decomposition_table or {}), tracing_mode=tracing_mode, _allow_non_fake_inputs=True
            )
            inner = trace(*captured.inputs)
        return ExportResult((_Wrapping(fn, own_args, own_kwargs, captured, inner).build(), captured.guards))
    finally:
        start.fresh()


def _refuse_twins(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Reject a tensor passed under two names: it would be one input, and two different tensors passed later would be confused."""
    tensors = [leaf for leaf in pytree.tree_leaves((tuple(args), dict(kwargs))) if isinstance(leaf, torch.Tensor)]
    if len({id(tensor) for tensor in tensors}) < len(tensors):
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        raise Unsupported(f"{name} cannot be exported with the same tensor passed twice: pass a copy (tensor.clone()) for one")


# -- the capture -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Captured:
    """The one graph of a call, with the real inputs and results."""

    graph: torch.fx.GraphModule = field(default_factory=lambda: _empty_graph())
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    result: Any = None
    guards: tuple[ev.GuardInstalled, ...] = ()

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Act as a backend."""
        self.graph = graph

        def run(*inputs: Any) -> Any:
            self.inputs = list(inputs)
            self.outputs = list(graph(*inputs))
            return self.outputs

        return run


def _empty_graph() -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    graph.output(())
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def _capture(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Captured:
    name = getattr(fn, "__qualname__", type(fn).__qualname__)
    captured, recording = _Captured(), Recording(title=name)
    try:
        captured.result = _run(fn, args, kwargs, captured, recording, Options(nopython=True, dynamic=False))
    except Unsupported as error:
        raise _all_that_stands_in_the_way(fn, args, kwargs, name, error) from None
    if not recording.frames:  # the engine is off, or another tracer is active: then the result would be a constant of the graph
        raise Unsupported(f"{name} cannot be exported: it ran as plain Python, {_why_plain(recording)}")
    changes = sorted({f"{change.operation} of {change.target.source or 'the globals'}" for change in _changes(recording)})
    if changes:
        raise Unsupported(f"{name} cannot be exported: it has side effects other than mutations of tensors: {', '.join(changes)}")
    captured.guards = recording.guards
    return captured


def _why_plain(recording: Recording) -> str:
    if config.disable:
        return "because config.disable is on"
    reasons = [skipped.reason for skipped in recording.of(ev.FrameSkipped)]
    return f"because {reasons[0]}" if reasons else "and no frame of it reached the engine"


def _run(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], backend: Any, recording: Recording, options: Options) -> Any:
    outer = native.enter(None)  # of nested regions the outermost wins: leave all of them
    exporting.now, before = options.nopython, exporting.now
    try:
        with config.patch(log_level="ERROR"):
            return optimized.wrap(optimized.entry_of(fn), watched_store(backend, options, recording).region)(*args, **kwargs)
    finally:
        exporting.now = before
        native.leave(outer)


def _changes(recording: Recording) -> list[ev.MutationRecorded]:
    """The side effects on objects that existed before the call, other than tensors."""
    mutations = recording.of(ev.MutationRecorded)
    outside = [change for change in mutations if change.target.source or change.target.kind == "NamespaceVariable"]
    return [change for change in outside if change.target.kind not in ("tensor", "cell")]


def _all_that_stands_in_the_way(
    fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str, first: Unsupported
) -> Unsupported:
    """Run the call again with graph breaks allowed, to find all the reasons."""
    recording = Recording(title=name)
    with contextlib.suppress(Exception):  # the program's own exception ends the search, not the report
        _run(fn, args, kwargs, "eager", recording, Options())
    reports: dict[tuple[str, str], str] = {}
    for broke in recording.breaks:
        place = broke.user_stack[-1].place if broke.user_stack else ""
        reports.setdefault((broke.kind, place), broke.report())
    if not reports:
        return first
    many = "1 place" if len(reports) == 1 else f"{len(reports)} places"
    text = "\n\n".join(reports.values())
    return Unsupported(f"{name} cannot be exported as one graph: it breaks in {many}.\n\n{text}", first.graph_break)


# -- the function's calling convention -----------------------------------------------------------------------------------


class _Wrapping:
    """The GraphModule around the captured graph."""

    def __init__(
        self, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], captured: _Captured, inner: torch.fx.GraphModule
    ) -> None:
        self.fn, self.captured, self.inner = fn, captured, inner
        self.names = _parameter_names(fn, args, kwargs)
        self.arguments, self.in_spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self.graph = torch.fx.Graph()
        self.attributes: dict[str, Any] = {}
        self.placeholders = [self.graph.placeholder(f"{name}_") for name in _leaf_names(self.names, self.in_spec)]
        self.attribute_names = {id(tensor): name for name, tensor in _named_tensors(fn)}

    def build(self) -> torch.fx.GraphModule:
        """Copy the graph, with inputs and outputs in the function's own structure."""
        places = {}
        inner_inputs = [node for node in self.inner.graph.nodes if node.op == "placeholder"]
        for node, value in zip(inner_inputs, self.captured.inputs, strict=True):
            places[node] = self._argument(value) or self._attribute(node.name, value)
        self._copy_attributes()
        outputs = self.graph.graph_copy(self.inner.graph, places)
        outputs_by_id = dict(
            zip(map(id, self.captured.outputs), outputs if isinstance(outputs, tuple | list) else (outputs,), strict=True)
        )
        leaves, out_spec = pytree.tree_flatten(self.captured.result)
        self.graph.output([self._leaf(leaf, outputs_by_id) for leaf in leaves])
        self.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(self.names, self.in_spec, out_spec)))
        self.graph.eliminate_dead_code(lambda node: node.op not in ("get_attr",))
        module = torch.fx.GraphModule(self.attributes, self.graph, class_name="Exported")
        module.recompile()
        return module

    def _argument(self, value: Any) -> torch.fx.Node | None:
        return next((node for node, argument in zip(self.placeholders, self.arguments, strict=True) if argument is value), None)

    def _attribute(self, hint: str, value: Any) -> Any:
        """A tensor that was not an argument becomes an attribute, under its name in the module."""
        if not isinstance(value, torch.Tensor):
            return value
        base = name = self.attribute_names.get(id(value), hint)
        count = 0
        while self.attributes.setdefault(name, value) is not value:
            count += 1
            name = f"{base}_{count}"
        return self.graph.get_attr(name)

    def _copy_attributes(self) -> None:
        for node in self.inner.graph.nodes:
            if node.op in ("get_attr", "call_module"):
                value: Any = self.inner
                for part in str(node.target).split("."):
                    value = getattr(value, part)
                self.attributes[str(node.target)] = value

    def _leaf(self, leaf: Any, outputs_by_id: Mapping[int, Any]) -> Any:
        """One leaf of the result: an output of the graph, an argument, a tensor of the program, or a constant."""
        argument = self._argument(leaf) if isinstance(leaf, torch.Tensor) else None
        if argument is not None:
            return argument
        if id(leaf) in outputs_by_id:
            return outputs_by_id[id(leaf)]
        if isinstance(leaf, torch.Tensor):
            return self._attribute("constant", leaf)
        if leaf is None or is_constant_value(leaf):
            return leaf
        raise Unsupported(
            f"{getattr(self.fn, '__qualname__', type(self.fn).__qualname__)} cannot be exported: it returns an object of type"
            f" {type(leaf).__qualname__}, and a graph returns tensors, constants and nests of them"
            " (torch.utils._pytree.register_dataclass makes a dataclass a nest)"
        )


def _parameter_names(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """The parameter names of the GraphModule for the given arguments."""
    function = fn.forward if isinstance(fn, torch.nn.Module) else fn
    names = [f"arg{number}" for number in range(len(args))]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a C function may have none
        parameters = []
    for number, parameter in enumerate(parameters[: len(args)]):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            break
        names[number] = parameter.name
    return [*names, *kwargs]


def _leaf_names(names: Sequence[str], spec: pytree.TreeSpec) -> list[str]:
    """A name for each leaf of the arguments: `x`, `options_1`."""
    children = [child for part in spec.children() for child in part.children()]
    return [
        name if child.num_leaves == 1 else f"{name}_{number}"
        for name, child in zip(names, children, strict=True)
        for number in range(child.num_leaves)
    ]


def _named_tensors(fn: Any) -> list[tuple[str, torch.Tensor]]:
    """Parameters and buffers of the module that a function is or is bound to."""
    module = fn if isinstance(fn, torch.nn.Module) else getattr(fn, "__self__", None)
    if not isinstance(module, torch.nn.Module):
        return []
    return [*module.named_parameters(), *module.named_buffers()]
