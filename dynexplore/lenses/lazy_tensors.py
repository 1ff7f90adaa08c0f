"""The lazy tensor backend: tensors that defer their operations until their data is needed.

The idea: nothing is captured ahead of time. The function runs as it is, with tensors on the device `lazy`, which record
operations instead of executing them. When a result is read, the operations that it needs become a graph. Python runs on every
call, so branches and side effects are always right, and the graph is rebuilt on every call (compiled graphs are looked up by
hash).

In: a call, in a separate process: the backend's device and threads exist until the process ends. Out: the graph that computes
everything that the call returned or mutated. PyTorch's counterpart: torch/_lazy, torch/csrc/lazy.
"""

from __future__ import annotations

import copy
import importlib
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from dynexplore.lenses import lazy_rows
from dynexplore.lenses.lens import Call, Captured
from dynexplore.lenses.outcome import Graph


class LazyTensors:
    """The capture method; see the module docstring."""

    key = "lazy"
    name = "lazy tensors"
    works_on = "deferred tensors"
    how = "Runs the function on tensors that record operations instead of executing them; a graph is built when data is needed."
    purpose = (
        "Devices that need whole graphs. Correct for any program, at the cost of tracing every call."
    )
    reasons = (
        ("device|lazy", "the function mixes lazy tensors with tensors that it creates or stores elsewhere"),
    )  # fmt: skip

    def prepare(self) -> None:
        """Import the backend and initialize it in this process."""
        importlib.import_module("torch._lazy.ts_backend").init()
        importlib.import_module("torch._lazy.metrics")

    def capture(self, call: Call) -> Captured:
        """Run once on lazy tensors, and keep the graph that computes the results."""
        graphs: list[Graph] = []
        runs = 0

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal runs
            runs += 1
            return _run(call.fn, args, kwargs, self._keep if runs == 1 else None, graphs)

        importlib.import_module("torch._lazy.metrics").reset()
        run(*call.args, **call.kwargs)
        at_once = _counted("aten::")
        syncs = at_once.pop(_ASKED_FOR_DATA, 0)
        breaks = [f"data was requested {_times(syncs)}, and the operators recorded until then ran immediately"] if syncs else []
        notes = [f"the backend cannot defer {', '.join(sorted(at_once))}: they ran immediately, on data"] if at_once else []
        return Captured(lambda: graphs, run, count=lambda: runs, breaks=lambda: breaks, notes=notes)

    def _keep(self, tensors: list[torch.Tensor], graphs: list[Graph]) -> None:
        dump = torch._C._lazy._get_tensors_text(tensors)
        graphs.append(lazy_rows.graph_of(dump, self.name))


_ASKED_FOR_DATA = "aten::_local_scalar_dense"


def _counted(prefix: str) -> dict[str, int]:
    """The backend's counters whose names have this prefix."""
    metrics = importlib.import_module("torch._lazy.metrics")
    return {name: int(metrics.counter_value(name)) for name in metrics.counter_names() if name.startswith(prefix)}


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _run(fn: Any, args: Any, kwargs: Any, keep: Callable[..., None] | None, graphs: list[Graph]) -> Any:
    """Make one call on lazy twins and copy its mutations back."""
    twins = _Twins()
    lazy_args, lazy_kwargs = twins.of((args, kwargs))
    lazy_fn = twins.of_function(fn)
    with torch.device("lazy"):
        result = lazy_fn(*lazy_args, **lazy_kwargs)
    changed = [twin for tensor, twin in twins.tensors if twin._version]
    lazy_leaves = [
        leaf for leaf in [*tree_leaves(result), *changed] if isinstance(leaf, torch.Tensor) and leaf.device.type == "lazy"
    ]
    if keep is not None and lazy_leaves:
        keep(lazy_leaves, graphs)
    # batch norm updates its statistics in the graph, and no result that is read depends on them
    importlib.import_module("torch._lazy").mark_step()
    twins.copy_back()
    return tree_map(twins.back, result)


class _Twins:
    """Lazy copies of tensors and modules, one per object."""

    def __init__(self) -> None:
        self.tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._modules: list[tuple[torch.nn.Module, torch.nn.Module]] = []
        self._twin_of_id: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """The lazy copy of nested values."""
        return tree_map(self._twin, value)

    def of_function(self, fn: Any) -> Any:
        """The function with lazy copies of the tensors and modules in its closure and in the globals that it names."""
        if isinstance(fn, types.MethodType):
            return types.MethodType(self.of_function(fn.__func__), self._twin(fn.__self__))
        if not isinstance(fn, types.FunctionType):
            return self._twin(fn)
        named = {name: fn.__globals__[name] for name in fn.__code__.co_names if name in fn.__globals__}
        twins = {name: self._twin(value) for name, value in named.items()}
        cells = tuple(self._cell(cell) for cell in fn.__closure__ or ())
        if all(twins[name] is named[name] for name in named) and all(
            a is b for a, b in zip(cells, fn.__closure__ or (), strict=True)
        ):
            return fn
        lazy_function = types.FunctionType(fn.__code__, fn.__globals__ | twins, fn.__name__, fn.__defaults__, cells or None)
        lazy_function.__kwdefaults__ = fn.__kwdefaults__
        return lazy_function

    def _cell(self, cell: types.CellType) -> types.CellType:
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            return cell
        twin = self._twin(value)
        return cell if twin is value else types.CellType(twin)

    def _twin(self, value: Any) -> Any:
        if id(value) in self._twin_of_id:
            return self._twin_of_id[id(value)]
        if isinstance(value, torch.Tensor):
            twin: Any = value.detach().to("lazy").requires_grad_(value.requires_grad)
            self.tensors.append((value, twin))
        elif isinstance(value, torch.nn.Module):
            twin = copy.deepcopy(value).to("lazy")
            self._modules.append((value, twin))
        else:
            return value
        self._twin_of_id[id(value)] = twin
        return twin

    def back(self, value: Any) -> Any:
        """A result on the program's device: a returned argument is that very argument again."""
        if not isinstance(value, torch.Tensor) or value.device.type != "lazy":
            return value
        arguments = [tensor for tensor, twin in self.tensors if twin is value]
        return arguments[0] if arguments else value.detach().cpu()

    @torch.no_grad()
    def copy_back(self) -> None:
        """Copy in-place changes of the call back to the program's objects."""
        for tensor, twin in self.tensors:
            if twin._version:
                tensor.detach().copy_(twin.detach().cpu())
        for module, lazy_module in self._modules:
            for (_, buffer), (_, twin) in zip(module.named_buffers(), lazy_module.named_buffers(), strict=True):
                buffer.copy_(twin.cpu())
