"""Deprecated names: what was renamed in this release and still works until the next one, with a DeprecationWarning.

The idea: one table maps each old public name to the new one. A module with old names ends with `keep_old_names(globals())`: an old
attribute of a class becomes a property, an old name of the module is resolved by its `__getattr__` (PEP 562).

In: the table `RENAMED`. Out: `keep_old_names(namespace)`. PyTorch's counterpart: `typing_extensions.deprecated` on each old
function.
"""

from __future__ import annotations

import warnings
from typing import Any

RENAMED: dict[str, dict[str, str]] = {
    "dynexplore.engine.events": {
        "PlacedEvent": "InstructionEvent",
        "MutationNoted": "MutationRecorded",
        "ArtifactMade": "ArtifactEmitted",
        "ResumeFunctionMade": "ResumeFunctionCreated",
        "DivergenceFound": "DivergenceDetected",
        "KeptStorage": "SavedStorage",
        "MutationRecorded.what": "operation",
        "ValueObserved.what": "role",
        "MemoryPlanned.kept": "saved",
        "NodeMemory.made": "allocated",
        "NodeMemory.kept": "saved",
    },
    "dynexplore.lenses.outcome": {"OperatorDifference.ours": "engine_side", "OperatorDifference.theirs": "method_side"},
    "dynexplore.ranks.differences": {"Difference.what": "message"},
    "dynexplore.ranks.ranks": {"Ranks.beside": "comparison"},
    "dynexplore.ranks.shared_clock": {"Arrival.what": "operation"},
    "dynexplore.recording.engines": {"OURS": "DYNEXPLORE"},
    "dynexplore.recording.job": {"Collective.what": "signature"},
    "dynexplore.recording.memory": {
        "GraphMemory.kept": "saved",
        "GraphMemory.kept_bytes": "saved_bytes",
        "GraphMemory.kept_more": "extra_saved_bytes",
    },
    "dynexplore.tools.break_report": {"BreakCost.broke": "graph_break"},
    "dynexplore.tools.replay": {"Replay.holds": "inputs"},
    "dynexplore.two_engines.alignment": {"Pair.ours": "engine_side", "Pair.theirs": "torch_side"},
    "dynexplore.two_engines.comparison_model": {
        "ComparisonModel.ours": "engine_side",
        "ComparisonModel.theirs": "torch_side",
        "ComparisonModel.partings": "divergences",
    },
    "dynexplore.two_engines.divergences": {"Divergence.what": "message"},
    "dynexplore.two_engines.guard_claims": {
        "GuardDifference.ours": "engine_side",
        "GuardDifference.theirs": "torch_side",
        "GuardDifference.only_ours": "only_engine",
        "GuardDifference.only_theirs": "only_torch",
        "GuardDifference.what": "message",
    },
    "dynexplore.two_engines.operators": {
        "UnlikeOperators.ours": "engine_side",
        "UnlikeOperators.theirs": "torch_side",
        "UnlikeOperators.what": "message",
    },
    "dynexplore.two_engines.two_captures": {"TwoCaptures.beside": "comparison", "TwoCaptures.partings": "divergences"},
    "dynexplore.two_engines.visits": {"Visit.broke": "graph_break"},
    "dynexplore.views.headline": {"Headline.what": "summary"},
    "dynexplore.views.ranked_costs": {"Cost.what": "kind"},
}
"""Module -> its old names (`Class.attribute` for a class's attribute), each with its new name."""


def keep_old_names(namespace: dict[str, Any]) -> None:
    """Add the old names from the table to the module with these `globals()`."""
    module: str = namespace["__name__"]
    of_module = {}
    for old, new in RENAMED[module].items():
        owner, _, attribute = old.rpartition(".")
        if owner:
            setattr(namespace[owner], attribute, _property(old, new))
        else:
            of_module[old] = new

    def lookup(name: str) -> Any:
        if name not in of_module:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(name, of_module[name])
        return namespace[of_module[name]]

    if of_module:
        namespace["__getattr__"] = lookup


def _property(old: str, new: str) -> property:
    def read(owner: Any) -> Any:
        _warn(old, new)
        return getattr(owner, new)

    return property(read, doc=f"The old name of `{new}`.")


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now named {new}", DeprecationWarning, stacklevel=3)
