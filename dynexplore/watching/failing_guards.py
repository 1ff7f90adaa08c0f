"""Every failing guard of an entry of torch.compile, not only the first.

The idea: torch ends its check at the first guard that fails, and so does the reason that it reports. To find the others, the guard
tree is checked again without the source that failed: torch can copy a tree without chosen sources. This repeats until the rest of
the tree passes. Guards below a failed source are left out with it, because they give no further information.

A guard on grad mode belongs to no source. To check the remaining guards, the tree is checked in the opposite mode.

In: an entry of torch's cache, the locals of a call that it does not match.
Out: `failing_checks(entry, locals)`: the failing checks, as printed by torch, the first one first.

PyTorch's counterpart: `clone_with_chosen_sources` in torch/_dynamo/guards.py, with which torch finds the guards that differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from dynexplore.traces.recompile_reasons import check_of, source_in

MOST = 100
"""The maximum number of failing guards reported for one entry."""

SECONDS = 0.1
"""The time limit for one entry: a tree of many thousands of guards is copied for each failure."""


def failing_checks(entry: Any, locals_: Mapping[str, Any]) -> Iterator[str]:
    """The checks of an entry that fail for a call with these locals."""
    root = (getattr(entry, "guard_manager", None) or entry.check_fn.guard_manager).root
    values, until = dict(locals_), time.perf_counter() + SECONDS
    tree, gradients = root, torch.is_grad_enabled()
    sources, failed = frozenset(_sources(root)), set[str]()
    for _ in range(MOST):
        with torch.set_grad_enabled(gradients):
            answer = tree.check_verbose(values)
        parts = [str(part) for part in answer.verbose_code_parts]
        if answer.result or not parts:
            return
        yield parts[0]
        if "GLOBAL_STATE changed: grad_mode" in parts[0] and gradients == torch.is_grad_enabled():
            gradients = not gradients
            continue
        source = source_in(check_of(parts[0]), sources)
        if len(parts) > 1 or not source or source in failed or time.perf_counter() > until:
            return
        failed.add(source)
        tree = root.clone_manager(lambda manager: manager.get_source() not in failed)


def _sources(manager: Any) -> Iterator[str]:
    """The source of every manager below this one: the root's own guards have no source."""
    for child in manager.get_child_managers():
        yield child.get_source()
        yield from _sources(child)
    for pair in getattr(manager, "get_key_value_managers", dict)().values():
        for child in filter(None, pair):
            yield child.get_source()
            yield from _sources(child)
