"""Compilation of a finished attempt's guards into the check that a cache entry runs.

The idea: guards come from trackers (`ctx.guard`), from the state of modules (checked by a walk in C) and from symbolic sizes. The
user's guard filter may drop some. Dimensions that `mark_dynamic` constrains must still be symbolic.

In: an attempt. Out: a `GuardCheck`. PyTorch's counterpart: `CheckFunctionManager` in torch/_dynamo/guards.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from dynexplore.engine.errors import MarkViolated
from dynexplore.engine.native import GuardWalk
from dynexplore.engine.provenance.guard_check import GuardCheck
from dynexplore.engine.provenance.guard_codegen import ShapeExpressions, compile_check
from dynexplore.engine.provenance.guard_filter import GuardFilter, apply_guard_filter
from dynexplore.engine.provenance.guards import Guard
from dynexplore.engine.provenance.module_guards import StateWalk
from dynexplore.engine.provenance.sources import Scope
from dynexplore.engine.specialization import marks
from dynexplore.engine.specialization.shape_env import shape_guards, specialized_size
from dynexplore.engine.translate.contract.request import CompiledGuards

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


def compile_guards(ctx: Interpreter) -> GuardCheck:
    """Compile the guards; those on the state of modules and other objects are only for display, the walk checks them."""
    shapes = _shape_expressions(ctx)
    guard_filter = ctx.request.guard_filter
    if guard_filter is not None and not _filter_guards(ctx, guard_filter, shapes is not None):
        shapes = None
    _add_state_guards(ctx)
    return _compiled_check(ctx, shapes)


def compile_guards_and_walk(ctx: Interpreter) -> CompiledGuards:
    """The guards of an attempt as code, and as a walk over the state of modules, with the objects of that state."""
    check = compile_guards(ctx)
    return CompiledGuards(check, _walk(ctx), ctx.module_guards.owners())


def compile_relaxed_guards(
    ctx: Interpreter, relax_guards: Callable[[list[Guard]], list[Guard]]
) -> tuple[GuardCheck, StateWalk | None]:
    """The check and the walk of a skipped frame, whose guards may be weaker."""
    walk = None
    if not ctx.request.profile.has_failed_when_skipped("", "MODULE_STATE"):
        _add_state_guards(ctx)
        walk = _walk(ctx)
    ctx.guards.guards = relax_guards(ctx.guards.guards)
    return _compiled_check(ctx, _shape_expressions(ctx)), walk


def _walk(ctx: Interpreter) -> StateWalk | None:
    """The walk over the state of modules and other objects; None if no guard is on it."""
    return ctx.module_guards.walk(cast("Callable[..., Any]", GuardWalk))


def _filter_guards(ctx: Interpreter, guard_filter: GuardFilter, has_shapes: bool) -> bool:
    """Drop the guards that the user's filter rejects; return whether the guards on relations between sizes remain."""
    request = ctx.request
    scope = Scope(request.values, request.closure, request.globals)
    states, objects = ctx.module_guards.guards(), ctx.module_guards.guarded_objects()
    about = {id(guard): value for guard, value in zip(states, objects, strict=True)}
    remaining, shapes = apply_guard_filter(guard_filter, [*ctx.guards.guards, *states], scope, about, shapes=has_shapes)
    identities = set(map(id, remaining))
    ctx.module_guards.leave_out(subject for identity, subject in about.items() if identity not in identities)
    ctx.guards.guards = [guard for guard in ctx.guards.guards if id(guard) in identities]
    return shapes


def _add_state_guards(ctx: Interpreter) -> None:
    for guard in ctx.module_guards.guards():
        ctx.guards.guards.append(guard)
        if ctx.emitter is not None:
            ctx.emitter.guard_installed(guard)


def _shape_expressions(ctx: Interpreter) -> ShapeExpressions | None:
    if ctx.graph.shape_env is None:
        return None
    _check_dynamic_constraints(ctx)
    ctx.specializer.emit_specialized_symbols()
    return shape_guards(ctx.graph)


def _compiled_check(ctx: Interpreter, shapes: ShapeExpressions | None) -> GuardCheck:
    check = compile_check(ctx.guards, ctx.request.slot_names, shapes, ctx.module_guards.subclass_answers)
    if ctx.emitter is not None:
        for guard in check.guards[len(ctx.guards.guards) :]:
            ctx.emitter.guard_installed(guard, guard.because)
    return check


def _check_dynamic_constraints(ctx: Interpreter) -> None:
    """Raise MarkViolated if a dimension that is marked dynamic was specialized."""
    for source, fake, dim in ctx.values.dynamic_constraints:
        size = specialized_size(fake.shape[dim])
        if size is not None:
            raise MarkViolated(marks.violation(source.text(), dim, size))
