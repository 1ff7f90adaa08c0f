"""The FX graph under construction: inputs, nodes, fake values.

The idea: while the translator interprets a frame, each PyTorch operation becomes one `torch.fx.Node`, and runs at once on fake
tensors (shape, dtype and device without data), so that the next Python instruction can read `x.shape`.

- An input is a tensor (or symbolic number) that existed before the frame: one placeholder per object.
- A parameter or buffer is a placeholder like any other. As long as its identity is guarded, the modified code does not read it
  through Python attributes but holds it in an extra local variable (codegen.py); so the graph is the same for one module or many.
- A node keeps its fake value in `meta["example_value"]`, file and line in `meta["line"]`, the function in `meta["function"]`, its
  module path in `meta["module_path"]`, the offset of the original instruction in `meta["offset"]`.

In: operations with nodes and constants as arguments. Out: a `torch.fx.GraphModule` and its inputs. PyTorch's counterpart:
`OutputGraph` and `SubgraphTracer` in torch/_dynamo/output_graph.py.
"""

from __future__ import annotations

import builtins
import contextlib
import keyword
import logging
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import FunctionType
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.node import map_arg

from dynexplore.engine.aliasing.autograd_graph import grad_fn_of
from dynexplore.engine.aliasing.collect import collect_metadata
from dynexplore.engine.aliasing.input_history import InputHistory
from dynexplore.engine.aliasing.mutation import operator_name, outside_storages, tensors_of
from dynexplore.engine.aliasing.stale_views import StaleGradFnUnread, has_stale_grad_fn
from dynexplore.engine.aliasing.storage import layout_of, storage_of
from dynexplore.engine.graph import operator_warnings
from dynexplore.engine.graph.constant_codegen import round_trippable_target
from dynexplore.engine.graph.fake_mode import EffectTrackingFakeMode
from dynexplore.engine.graph.finished_graph import FinishedGraph, GraphInput, example_value
from dynexplore.engine.graph.recurrent_meta_kernels import fake_results, is_recurrent
from dynexplore.engine.graph.subgraphs import Body, move_out
from dynexplore.engine.graph.torch_function_probe import TorchFunctionDispatched, listening, make_call
from dynexplore.engine.graph.unbacked_symints import UnboundSymbol, captures_unbacked_symbols, running_operator, unbacked_bindings
from dynexplore.engine.provenance.sources import Source


class OperatorFailed(Exception):
    """An operation raised on fake tensors; `cause` is its exception."""

    def __init__(self, target: object, cause: Exception) -> None:
        super().__init__(f"{target}: {type(cause).__name__}: {cause}")
        self.target, self.cause = target, cause


class InputResized(Exception):
    """`out=` resized an input of the graph or a view of one."""


_fake_log = logging.getLogger("torch._subclasses.fake_tensor")
_NOT_WORD = re.compile(r"\W+")


def _refuse_grad_out(target: Any, outs: Iterable[tuple[torch.Tensor, object]]) -> None:
    """Refuse an `out=` tensor that requires grad: operators do, but not the Python decompositions that replace them here.

    Operators that write to a tensor that does not require grad, or that run with grad mode off, give it none.
    """
    if torch.is_grad_enabled() and any(out.requires_grad for out, _ in outs):
        name = getattr(target, "__name__", target)
        raise RuntimeError(f"{name}(): functions with out=... don't support automatic differentiation")


def _with_row_zero(key: Any, slices_are_whole: bool) -> Any:
    """A subscript with 0 for each one-element integer tensor; with `slices_are_whole`, also with None for a slice's bound."""
    if isinstance(key, tuple):
        return tuple(_with_row_zero(item, slices_are_whole) for item in key)
    if isinstance(key, slice) and slices_are_whole:
        return slice(*(None if isinstance(part, torch.Tensor) else part for part in (key.start, key.stop, key.step)))
    return 0 if _has_integer_tensor(key) else key


def _has_integer_tensor(key: Any) -> bool:
    """Whether a subscript is a one-element integer tensor, or contains one."""
    if isinstance(key, tuple):
        return any(map(_has_integer_tensor, key))
    return isinstance(key, torch.Tensor) and key.dim() == 0 and key.dtype not in (torch.bool, torch.uint8)


class GraphBuilder:
    """One graph under construction, with its fake mode."""

    def __init__(self, make_shape_env: Callable[[], Any]) -> None:
        self.graph = torch.fx.Graph()
        self.root = torch.nn.Module()
        self.inputs: list[GraphInput] = []
        self.dropped_inputs: list[GraphInput] = []  # inputs that no node uses; guards may refer to them
        self.attributes: dict[str, Any] = {}
        self._recompute_inputs: list[tuple[torch.Tensor, int]] = []  # inputs of recomputations in backward, and their versions
        self._saved_data_is_mutated = False
        self.bodies: list[Body] = []  # sections that become submodules when the graph is closed, inner ones first
        self.sets_modes = False  # whether a node sets a torch mode
        self.asked_about_gradients = False  # whether the program read the grad mode or `requires_grad`
        self.grad_mode: bool | None = torch.is_grad_enabled()  # at the current end of the graph; None: unknown
        self._make_shape_env = make_shape_env
        self.shape_env: Any = None
        self.fake_mode = EffectTrackingFakeMode()
        self._attribute_nodes: dict[int, torch.fx.Node] = {}
        self._names: set[str] = set()
        self.input_history = InputHistory()
        self._initial_versions: dict[int, int] = {}  # the version counter of each input's fake tensor at its creation, by id
        self._bases: dict[int, torch.Tensor] = {}  # the fake tensors of bases of views, by the id of the real base
        self._last_input: torch.fx.Node | None = None
        self.call_count = 0
        self.shown_warnings: list[warnings.WarningMessage] = []  # those that the last operation issued on fake values
        self._first_row_at = 0
        self._slices_are_whole = False
        if captures_unbacked_symbols():
            self.fake_mode.ensure_shape_env = self.ensure_shape_env

    def release(self) -> None:
        """Release the mapping from real to fake tensors after compilation. It consists of weak references, and
        `torch.utils.swap_tensors` refuses tensors that have any.
        """
        self.fake_mode.ensure_shape_env = None  # a reference cycle
        describer = self.fake_mode.fake_tensor_converter.meta_converter.describer
        describer.lookup_tensor.clear()
        describer.lookup_storage.clear()

    # -- values

    def ensure_shape_env(self) -> Any:
        """The ShapeEnv, created when the first symbolic size needs it (importing it is slow)."""
        if self.shape_env is None:
            self.shape_env = self._make_shape_env()
            self.fake_mode.shape_env = self.shape_env
            self.fake_mode.static_shapes = False
        return self.shape_env

    def fake_tensor(self, value: torch.Tensor, source: Source, symbolic_context: Any = None) -> torch.Tensor:
        """The fake tensor of a real tensor."""
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            return self._twin(value, source, symbolic_context)
        written = self.written_base(value)
        if written is not None:
            with self.fake_mode, torch.enable_grad():
                fake = written.as_strided(value.shape, value.stride(), value.storage_offset())
            self.fake_mode.stale_views.append(fake)  # the view itself has no grad_fn until something reads it
            return fake
        fake = self._twin(value, source, symbolic_context)
        self.input_history.note_input(value, fake)
        if has_stale_grad_fn(value):
            self.fake_mode.stale_views.append(fake)
        self._bases[id(value if value._base is None else value._base)] = fake if fake._base is None else fake._base
        self._initial_versions[id(fake)] = 0 if fake.is_inference() else fake._version
        return fake

    def written_base(self, value: torch.Tensor) -> torch.Tensor | None:
        """The fake tensor of this tensor's base, if the frame has meanwhile written a tensor that requires grad into it.

        Torch creates the fake tensor of a view from its base as it was before the frame; here it becomes a view of the fake base,
        whose sizes are fixed.
        """
        base = self._bases.get(id(value._base)) if value._base is not None else None
        return base if base is not None and base.requires_grad is not value._base.requires_grad else None  # type: ignore[union-attr]

    def _twin(self, value: torch.Tensor, source: Source, symbolic_context: Any) -> torch.Tensor:
        with ExitStack() as stack:  # the fake view is created by `as_strided`, which the program did not call
            stack.callback(setattr, self.fake_mode, "as_strided_storages", self.fake_mode.as_strided_storages.copy())
            if symbolic_context is not None:  # operators cannot trace the origin of an unbacked size
                stack.enter_context(self.ensure_shape_env().ignore_fresh_unbacked_symbols())
                stack.enter_context(running_operator(self.shape_env))
            if torch._C._functorch.peek_interpreter_stack() is not None:  # inside vmap it would become a batched tensor
                stack.enter_context(torch._C._DisableFuncTorch())
            if value.requires_grad:
                stack.enter_context(warnings.catch_warnings())
            if value.requires_grad:
                # torch reads `.grad` of non-leaf tensors, and suppresses only the printing of the warning
                # (torch/_subclasses/meta_utils.py, safe_grad): with warnings as errors it would be raised
                warnings.filterwarnings("ignore", r"The \.grad attribute of a Tensor")
                if has_stale_grad_fn(value):
                    stack.enter_context(StaleGradFnUnread())
            return self.fake_mode.from_tensor(
                value, static_shapes=symbolic_context is None, source=source, symbolic_context=symbolic_context
            )

    def placeholder(self, hint: str, source: Source, example: Any, fake: Any) -> torch.fx.Node:
        """Add a graph input; placeholders precede every other node."""
        name = self._unique_name(hint)
        with self.graph.inserting_after(self._last_input) if self._last_input else self._inserting_at_start():
            node = self.graph.create_node("placeholder", name, (), {}, name=name)
        node.meta["example_value"] = fake
        node.meta["source"] = source.text()
        self._last_input = node
        self.inputs.append(GraphInput(node, source, example))
        return node

    def _inserting_at_start(self) -> Any:
        first = next(iter(self.graph.nodes), None)
        return self.graph.inserting_before(first) if first is not None else ExitStack()

    def attribute(self, hint: str, value: Any, fake: Any) -> torch.fx.Node:
        """Add a `get_attr` node for a parameter, buffer, or constant tensor of the program."""
        existing = self._attribute_nodes.get(id(value))
        if existing is not None:
            return existing
        name = self._unique_name(hint)
        self.attributes[name] = value
        _register(self.root, name, value)
        with self.graph.inserting_after(self._last_input) if self._last_input else self._inserting_at_start():
            node = self.graph.create_node("get_attr", name, (), {}, name=name)
        node.meta["example_value"] = fake
        self._attribute_nodes[id(value)] = node
        return node

    def submodule(self, hint: str, module: torch.nn.Module) -> str:
        """Register a module (the body of a higher-order operator) and return its attribute name."""
        name = self._unique_name(hint)
        self.attributes[name] = module
        self.root.add_module(name, module)
        return name

    def _unique_name(self, hint: str) -> str:
        base = _NOT_WORD.sub("_", hint).strip("_") or "value"
        if base[0].isdigit():
            base = "_" + base
        if keyword.iskeyword(base) or base in vars(builtins):
            base += "_"
        name, count = base, 1
        while name in self._names:
            name, count = f"{base}_{count}", count + 1
        self._names.add(name)
        return name

    # -- operations

    def add(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], fake: Any) -> torch.fx.Node:
        """Add the node of an operation whose fake result is known.

        Raises OperatorFailed if it made an unbacked symbol that its result does not contain.
        """
        try:
            symbols = unbacked_bindings(self.shape_env, fake) if self.shape_env is not None else None
        except UnboundSymbol as error:
            raise OperatorFailed(target, error) from error
        target = round_trippable_target(target, args[0] if args else None, fake)
        node = self.graph.create_node(op, target, tuple(args), dict(kwargs))
        node.meta["example_value"] = fake
        if symbols:
            node.meta["unbacked_bindings"] = symbols
        self.call_count += 1
        return node

    @contextlib.contextmanager
    def integer_tensors_index_row_zero(
        self, tensor: torch.Tensor, argument_index: int = 1, slices_are_whole: bool = False
    ) -> Iterator[None]:
        """While active, a one-element integer tensor selects row 0 on fake values, since no fake value knows the row.

        `argument_index`: the selecting argument. `slices_are_whole`: a slice with a tensor bound selects everything.
        """
        self._first_row_at, self._slices_are_whole = argument_index, slices_are_whole
        self.fake_mode.rows_chosen_of.add(storage_of(tensor))
        try:
            yield
        finally:
            self._first_row_at, self._slices_are_whole = 0, False

    def run_fake(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the operation on fake values and return the result.

        Raises OperatorFailed with the operation's exception.
        """
        fake_args = map_arg(tuple(args), example_value)
        fake_kwargs = map_arg(dict(kwargs), example_value)
        if self._first_row_at:
            fake_args = self._with_row_zero_selected(fake_args)
        outs = [(out, layout_of(out)) for out in pytree.tree_leaves(fake_kwargs.get("out")) if isinstance(out, torch.Tensor)]
        quiet, _fake_log.disabled = _fake_log.disabled, True  # torch also logs its exceptions, and the caller reports them
        try:
            with (
                self.fake_mode, enable_python_dispatcher(), running_operator(self.shape_env),
                operator_warnings.recorded() as self.shown_warnings,
            ):  # fmt: skip
                if op == "call_method":
                    return getattr(fake_args[0], target)(*fake_args[1:], **fake_kwargs)
                if op == "get_attr_of":
                    return getattr(fake_args[0], target)
                if is_recurrent(target):
                    return fake_results(target, fake_args, fake_kwargs)
                result = target(*fake_args, **fake_kwargs)
            if outs:
                self._refuse_resized(outs)
                _refuse_grad_out(target, outs)
            return result
        except Exception as error:  # any operator may raise anything: the caller decides how to handle it
            self._restore_layouts(outs)
            raise OperatorFailed(target, error) from error
        finally:
            _fake_log.disabled = quiet

    def _with_row_zero_selected(self, fake_args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of an operator inside `integer_tensors_index_row_zero`."""
        at = self._first_row_at
        if _has_integer_tensor(fake_args[at]):  # the integer may be out of range
            self.fake_mode.may_raise = self.fake_mode.last_may_raise = True
        return (*fake_args[:at], _with_row_zero(fake_args[at], self._slices_are_whole), *fake_args[at + 1 :])

    def _restore_layouts(self, outs: list[tuple[torch.Tensor, tuple[Any, ...]]]) -> None:
        """Undo what an operator that failed did to the sizes of its `out=` tensors."""
        for out, layout in outs:
            if layout_of(out) != layout:
                with self.fake_mode:
                    out.as_strided_(*layout)

    def _refuse_resized(self, outs: list[tuple[torch.Tensor, tuple[Any, ...]]]) -> None:
        """Refuse an `out=` that resizes an input: guards and backends expect inputs as passed to the call."""
        resized = {storage_of(out) for out, layout in outs if layout_of(out) != layout}
        if resized:
            nodes = (*(graph_input.node for graph_input in self.inputs), *self._attribute_nodes.values())
            fakes = [fake for fake in map(example_value, nodes) if isinstance(fake, torch.Tensor)]
            if not resized.isdisjoint(map(storage_of, fakes)):
                raise InputResized

    def torch_function_call(
        self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TorchFunctionDispatched | None:
        """The arguments with which the operation calls the innermost TorchFunctionMode; None if it calls none."""
        passed = map_arg(tuple(args), example_value)
        named = map_arg(dict(kwargs), example_value)
        try:
            with self.fake_mode, enable_python_dispatcher(), listening(self.fake_mode):
                make_call(op, target, passed, named)
        except TorchFunctionDispatched as dispatched:
            dispatched.passed = [*passed, *named.values()]
            return dispatched if isinstance(target, FunctionType) or dispatched.is_about(op, target) else None
        except Exception:  # it raises the same when it is added to the graph, where that is handled
            return None
        return None

    def check_hidden_mutation_of_saved(self) -> None:
        """Check whether the last operation mutated, through `.data`, a tensor that autograd saved for backward.

        AOTAutograd would compute gradients from the old data; eager computes them from the data at the time of backward.
        """
        mode = self.fake_mode
        hidden = {storage_of(owner) for owner, version in mode.data_aliases if owner._version == version} & mode.written_last
        mode.data_aliases = [(owner, owner._version) for owner, _ in mode.data_aliases]
        self._saved_data_is_mutated |= bool(hidden) and any(_is_recorded(node, hidden) for node in self.graph.nodes)

    def note_recompute_inputs(self, values: Iterable[Any]) -> None:
        """Record that backward will read these values again, outside autograd's saved tensors: eager then sees mutations that the
        graph makes from now on, and a compiled graph does not.
        """
        self._recompute_inputs += [(value, value._version) for value in values if isinstance(value, torch.Tensor)]

    def note_data_replaced(self, tensor: torch.fx.Node) -> None:
        """Record that the data of a leaf is replaced: eager's backward uses the new data if autograd saved the leaf."""
        memory = {storage_of(example_value(tensor))}
        self._saved_data_is_mutated |= any(_is_recorded(user, memory) for user in tensor.users)

    def version_of(self, tensor: torch.Tensor) -> int | None:
        """`_version` of a fake tensor created in this graph; None for one from outside, or where fake tensors count differently.

        The version bumps of `_foreach` operators vary by device. Operators on an inference tensor bump those of their results: the
        kernel of clone(), for example, writes to an empty tensor.
        """
        by_lists = any("foreach" in operator_name(node) for node in self.graph.nodes)
        of_inference = any(value.is_inference() for node in self.graph.nodes for value in tensors_of(node))
        is_unknown = by_lists or of_inference or storage_of(tensor) in outside_storages(self.graph)
        return None if is_unknown else tensor._version

    # -- end

    def finish(self, outputs: list[torch.fx.Node], name: str) -> FinishedGraph:
        """Close the graph: remove unused inputs and dead pure nodes, make the output a tuple."""
        self.graph.create_node("output", "output", (tuple(outputs),), {})
        move_out(self.graph, self.root, self.bodies, self.submodule)
        self._drop_unused()
        module = torch.fx.GraphModule(self.root, self.graph, class_name=name)
        self.fake_mode.watching = False
        meta = collect_metadata(
            module, self.inputs, outputs, self.fake_mode, self._initial_versions, mutates_saved_data=self._saved_data_is_mutated,
            mutates_recompute_inputs=any(value._version != version for value, version in self._recompute_inputs),
        )  # fmt: skip
        return FinishedGraph(module, self.inputs, outputs, meta)

    def _drop_unused(self) -> None:
        for node in reversed(list(self.graph.nodes)):
            if (node.op == "get_attr" or _is_plain_item(node)) and not node.users:
                self.graph.erase_node(node)
        used_inputs = []
        self.dropped_inputs = [graph_input for graph_input in self.inputs if not graph_input.node.users]
        for graph_input in self.inputs:
            if graph_input.node.users:
                used_inputs.append(graph_input)
            else:
                self.graph.erase_node(graph_input.node)
        self.inputs = used_inputs


def _is_recorded(node: torch.fx.Node, storages: set[int]) -> bool:
    """Whether autograd recorded a node's operation, and it read or created one of these storages."""
    values = list(tensors_of(node))
    if node.op == "placeholder" or not any(grad_fn_of(value) is not None for value in values):
        return False
    values += [value for operand in node.all_input_nodes if isinstance(value := operand.meta.get("example_value"), torch.Tensor)]
    return any(storage_of(value) in storages for value in values)


def _is_plain_item(node: torch.fx.Node) -> bool:
    """Whether a node reads an item at a constant index: it cannot fail, so it may be dropped as dead code."""
    return (
        node.op == "call_function"
        and node.target is operator.getitem
        and not any(isinstance(arg, torch.fx.Node) for arg in pytree.tree_leaves(node.args[1]))
    )


def _register(root: torch.nn.Module, name: str, value: Any) -> None:
    if isinstance(value, torch.nn.Parameter):
        root.register_parameter(name, value)
    elif isinstance(value, torch.Tensor):
        root.register_buffer(name, value, persistent=False)
    else:
        setattr(root, name, value)
