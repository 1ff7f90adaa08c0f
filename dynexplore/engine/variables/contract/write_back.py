"""Write-back: the two ways in which recorded mutations are applied to a real object.

The idea: most mutated trackers are written back in one of two ways. A container is cleared and refilled (`refill`); an object with
attributes has each stored attribute set and each deleted one deleted (`write_attributes`). All new values are first built into
temporaries, while the real objects are still unchanged; only then is anything mutated (`Reconstruction.later`).

In: the tracker and the new content of its real object. Out: bytecode, through `Reconstruction`. PyTorch's counterpart:
`codegen_update_mutated` in torch/_dynamo/side_effects.py, with a branch for each kind of tracker.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

Emit = Callable[["Reconstruction", str], None]


def refill(
    build: Reconstruction, tracker: VariableTracker, content: VariableTracker, *, clear: Callable[..., Any] | None, fill: Any
) -> None:
    """Emit `clear(real); fill(real, content)`; `clear` None: keep the existing content."""
    build.push(content)
    items = build.store_temporary()
    build.push(tracker)
    target = build.store_temporary()

    def replace() -> None:
        if clear is not None:
            _call(build, clear, target)
        _call(build, fill, target, items)

    build.later(replace)


def _call(build: Reconstruction, function: Callable[..., Any], *names: str) -> None:
    """Emit a call of a function with local variables, for its effect."""
    build.call_helper(function, *[functools.partial(build.writer.load_fast, name) for name in names])
    build.writer.pop_top()


def _store(build: Reconstruction, name: str) -> None:
    build.writer.store_attr(name)


def _delete(build: Reconstruction, name: str) -> None:
    build.writer.delete_attr(name)


def write_attributes(
    build: Reconstruction,
    tracker: VariableTracker,
    stored: Mapping[str, VariableTracker | None],
    *,
    store: Emit = _store,
    delete: Emit = _delete,
    set_first: Collection[str] = (),
) -> None:
    """Set each attribute of `stored` on the real object, in order; None: delete it.

    An attribute that the frame set before it deleted it (`set_first`) may or may not exist in a given call: it is set, then
    deleted.

    `store` finds value and object on the stack, `delete` the object; each pops them. The object is loaded before any mutation,
    like the values: a mutation may remove it from the path that leads to it.
    """
    if stored and tracker.source is not None and tracker.source.base is not None:
        build.push(tracker)
        build.remember(tracker)
    for name, value in stored.items():
        temporary = None
        if value is not None:
            build.push(value)
            temporary = build.store_temporary()
        emit = _setting_first(store, delete) if name in set_first else delete
        build.later(functools.partial(_write, build, tracker, name, temporary, store, emit))


def _setting_first(store: Emit, delete: Emit) -> Emit:
    def emit(build: Reconstruction, name: str) -> None:
        build.writer.copy(1)
        build.writer.load_const(None)
        build.writer.swap(2)
        store(build, name)
        delete(build, name)

    return emit


def _write(
    build: Reconstruction, tracker: VariableTracker, name: str, temporary: str | None, store: Emit, delete: Emit
) -> None:
    if temporary is not None:
        build.writer.load_fast(temporary)
    build.push(tracker)
    (store if temporary is not None else delete)(build, name)
