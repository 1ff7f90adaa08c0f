"""State that bytecode cannot reconstruct when the graph ends: the frame then stops earlier, or runs as plain Python.

The idea: four kinds of state need Python. A generator that is suspended inside `try` or `with` runs code when finalized;
a dict with two trackers was mutated through one of them; an object that `functools.lru_cache` holds was mutated; an object whose
end the program observes left a live container (released_objects.py).

In: a finished attempt. Out: nothing, or ReconstructionError (stop before the value is created), or SkipFrame.
PyTorch's counterpart: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.graph_breaks import SkipFrame
from dynexplore.engine.translate.codegen import ReconstructionError
from dynexplore.engine.translate.dict_aliasing import first_change_through_alias, guard_on_dict_aliasing
from dynexplore.engine.translate.generator_finalization import has_finalizer_code, may_have_finalizer_code
from dynexplore.engine.translate.released_objects import refuse_observed_releases

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter
    from dynexplore.engine.variables.callables.generator import GeneratorVariable

_FINALIZED_IN_TIME = "a generator is suspended inside `try` or `with`: only plain Python closes it as soon as it is dropped"


def refuse_unreconstructible(ctx: Interpreter) -> None:
    """Refuse each of the four kinds of state."""
    _refuse_unfinished_generators(ctx)
    _refuse_changes_of_aliased_dicts(ctx)
    _refuse_changes_of_cached_objects(ctx)
    refuse_observed_releases(ctx)


def refuse_generators_created_at(ctx: Interpreter, step: int) -> None:
    """Refuse a generator that the frame itself created at this step and that an instruction needs for real."""
    for generator in ctx.calls.generators:
        is_created_here = generator.created_at_step == step and _is_owned_here(ctx, generator) and not ctx.request.nopython
        if is_created_here and may_have_finalizer_code(generator.frame):
            raise SkipFrame(_FINALIZED_IN_TIME)


def _refuse_unfinished_generators(ctx: Interpreter) -> None:
    """Refuse a generator that is suspended inside `try` or `with`: it has code to run when finalized, so Python must create it.

    The frame itself is then skipped: the arguments of a resume function stay alive on its caller's stack.
    """
    for generator in ctx.calls.generators:
        if generator.started and has_finalizer_code(generator.frame):
            if _is_owned_here(ctx, generator) and not ctx.request.nopython:
                raise SkipFrame(_FINALIZED_IN_TIME)
            raise ReconstructionError("generator", "it is suspended inside `try` or `with`", generator.created_at_step)


def _is_owned_here(ctx: Interpreter, generator: GeneratorVariable) -> bool:
    """Whether it was created by a frame in which the graph may end, or by another generator of that frame (`yield from`)."""
    makers = {id(other.frame): other.holder for other in ctx.calls.generators}
    holder = generator.holder
    while id(holder) in makers:
        holder = makers[id(holder)]
    return holder is not None and bool(holder.allows_nested_break)


def _refuse_changes_of_aliased_dicts(ctx: Interpreter) -> None:
    """Refuse the mutation of a dict that has another tracker, so that Python performs it."""
    if not ctx.journal.changed:
        return
    namespaces = ctx.calls.namespaces.values()
    changed = first_change_through_alias(ctx.journal, namespaces)
    if changed is None:
        guard_on_dict_aliasing(ctx, namespaces)
    else:
        because = "it is mutated, and the function can also reach it in another way"
        raise ReconstructionError(changed.type_name(), because, ctx.journal.changed[changed])


def _refuse_changes_of_cached_objects(ctx: Interpreter) -> None:
    """Refuse an object returned by a user's cache if the frame mutates it: later calls see the mutation."""
    changed = ctx.journal.changed_in_a_cache
    if changed is not None:
        raise ReconstructionError(changed.type_name(), "functools.lru_cache holds the object itself", changed.created_at_step)
