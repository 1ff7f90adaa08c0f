"""Kernel selection for scaled dot product attention: `with torch.nn.attention.sdpa_kernel(SDPBackend.MATH):`.

The idea: the block sets process-wide flags from which `scaled_dot_product_attention` chooses its kernel. Torch's own function sets
them, in one node at the start of the block and one at its end; if the graph ends inside the block, it is exited like every mode.

In: calls of `sdpa_kernel` with constant backends. Out: nodes and active modes. PyTorch's counterpart: `SDPAKernelVariable` in
torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from torch.nn import attention

from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.modes.active_modes import add_mode_node, leave_mode
from dynexplore.engine.variables.modes.protocol import ModeManagerVariable
from dynexplore.engine.variables.objects.opaque import OpaqueVariable, guard_identity
from dynexplore.engine.variables.scalars.specialize import specialize_bool
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_attention: Any = attention
_Backend: Any = attention.SDPBackend
Backends = tuple[int, ...]


def sdpa_kernel_of(backends: Backends, set_priority: bool) -> Any:
    """The real manager. Backends are integers here, because FX cannot generate code for torch's enum members."""
    chosen = [_Backend(number) for number in backends]
    return _attention.sdpa_kernel(chosen, set_priority=True) if set_priority else _attention.sdpa_kernel(chosen)


def enter_sdpa_kernel(backends: Backends, set_priority: bool) -> Backends:
    """Select these kernels; returns the previous selection."""
    before = _attention._cur_sdpa_kernel_backends(**_priority(set_priority, "with_priority"))
    leave_sdpa_kernel(backends, set_priority)
    return tuple(map(int, before))


def leave_sdpa_kernel(backends: Backends, set_priority: bool) -> None:
    """Restore the previous selection."""
    _attention._sdpa_kernel([_Backend(number) for number in backends], **_priority(set_priority, "set_priority"))


def _priority(set_priority: bool, name: str) -> dict[str, bool]:
    return {name: True} if set_priority else {}


class SdpaKernelVariable(ModeManagerVariable):
    """sdpa_kernel(backends, set_priority)."""

    def __init__(self, backends: Backends, set_priority: bool) -> None:
        make: Any = sdpa_kernel_of
        super().__init__(make, (backends, set_priority))

    def python_type(self) -> type[Any]:
        return contextlib._GeneratorContextManager

    def enter(self, ctx: TraceContext) -> VariableTracker:
        backends, set_priority = self.arguments
        before = enter_sdpa_kernel(backends, set_priority)
        node = add_mode_node(ctx, enter_sdpa_kernel, backends, set_priority)
        mode = ActiveMode(
            lambda: leave_sdpa_kernel(before, set_priority),
            lambda inner: add_mode_node(inner, leave_sdpa_kernel, node, set_priority),
            of="attention",
        )
        self.entered.append(mode)
        ctx.active_modes.append(mode)
        return DictVariable()

    def exit(self, ctx: TraceContext) -> None:
        leave_mode(ctx, self.entered.pop())

    def text(self) -> str:
        return f"sdpa_kernel({', '.join(_Backend(number).name for number in self.arguments[0])})"


@builtin(attention.sdpa_kernel)
def _sdpa_kernel(ctx: TraceContext, backends: VariableTracker, set_priority: VariableTracker | None = None) -> VariableTracker:
    chosen = backends.unpack(ctx) if isinstance(backends, ListVariable) else [backends]
    numbers = dict.fromkeys(_number_of(ctx, backend.read(ctx)) for backend in chosen)
    return SdpaKernelVariable(tuple(numbers), set_priority is not None and specialize_bool(ctx, set_priority))


def _number_of(ctx: TraceContext, backend: VariableTracker) -> int:
    if not isinstance(backend, OpaqueVariable) or type(backend.value) is not _Backend:
        ctx.break_graph("DX205", function="sdpa_kernel", arguments=backend.type_name())
    guard_identity(ctx, backend.value, backend.source)
    return int(backend.value)
