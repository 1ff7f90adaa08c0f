"""The wrappers around the call of a compiled graph that need to know its frame: a table.

The idea: matching eager in the call of a graph (exceptions, modes, tensor subclasses) does not depend on the backend. Each wrapper
is one row, as in aliasing/wrappers.py, and is applied after those. The event SubgraphCompiled lists the wrappers of a graph.

In:  a callable, and the frame that calls it. Out: the callable, wrapped.
PyTorch's counterpart: for some of this, bytecode written by torch/_dynamo/output_graph.py; for the rest, none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.aliasing.rollback import with_rollback
from dynexplore.engine.aliasing.wrappers import Wrapper
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.records import record
from dynexplore.engine.translate.graph_failure import Segment
from dynexplore.engine.variables.modes.active_modes import restoring_modes
from dynexplore.engine.variables.torch_.tensor.tensor_subclass import with_torch_function_disabled

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@record(eq=False)
class Call:
    """The call of a graph in a frame."""

    ctx: Interpreter
    graph: FinishedGraph
    segment: Segment


CALL_WRAPPERS: dict[str, Wrapper[Call]] = {
    row.name: row
    for row in (
        Wrapper[Call](
            "note program code",
            "Effects of hooks and custom operators during the graph are recorded, so that they are not repeated after a failure.",
            lambda call: True,
            lambda function, call: call.segment.with_hook_notes(function),
        ),
        Wrapper[Call](
            "rollback",
            "When an operator raises, the code runs again as plain Python, so the mutations by the graph are rolled back first.",
            lambda call: bool(call.graph.meta.mutated_inputs) or call.graph.meta.draws_rng,
            lambda function, call: with_rollback(function, call.graph, call.segment),
        ),
        Wrapper[Call](
            "disable __torch_function__",
            "`__torch_function__` of tensor subclasses ran during capture; the graph runs with it disabled.",
            lambda call: call.ctx.function_modes.has_subclasses,
            lambda function, call: with_torch_function_disabled(function),
        ),
        Wrapper[Call](
            "restore modes",
            "A graph that sets modes restores them, even if one of its operators raises.",
            lambda call: call.ctx.graph.sets_modes,
            lambda function, call: restoring_modes(function),
        ),
    )
}
"""The wrappers by name, in the order in which they are applied."""
