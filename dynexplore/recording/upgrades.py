"""Upgrades of events that an older version of dynexplore saved to the present schema.

The idea: a recording outlives the version that wrote it. Every renamed event, replaced field and changed count is one table row
or one function here, so the readers only know the present schema.

In: the events of a file, as parsed from JSON, and the schema version of the file. Out: `upgraded(row, ...)`. PyTorch's
counterpart: the upgraders of TorchScript's serialized operators; TORCH_TRACE has none.
"""

from __future__ import annotations

from typing import Any

GUARD_KINDS = {
    "NOTHING_HIDDEN": "NO_INSTANCE_OVERRIDE",
    "ATTRIBUTES_APART": "NO_ATTRIBUTE_ALIAS",
    "DICTIONARIES_APART": "NO_DICT_ALIAS",
    "NO_DICTIONARY_OF_THESE": "NOT_INSTANCE_DICT",
    "SEQUENCE_ITERATOR_LEFT": "ITERATOR_REMAINING",
    "SEQUENCE_ITERATOR_MORE": "ITERATOR_HAS_MORE",
}
"""Guard kinds that were renamed in schema 5."""

EVENTS = {
    "MutationNoted": "MutationRecorded",
    "ArtifactMade": "ArtifactEmitted",
    "ResumeFunctionMade": "ResumeFunctionCreated",
    "DivergenceFound": "DivergenceDetected",
}
"""Events that were renamed in schema 5."""

FIELDS: dict[str, dict[str, str]] = {
    "MutationRecorded": {"what": "operation"},
    "ValueObserved": {"what": "role"},
    "MemoryPlanned": {"kept": "saved"},
}
"""Present event name -> its fields that were renamed in schema 5, old name -> new name."""

NODE_MEMORY = {"made": "allocated", "kept": "saved"}
"""The same for the rows in `MemoryPlanned.nodes`."""

_EVENTS_OF_GUARDS = ("GuardInstalled", "GuardFailed")


def upgraded(row: Any, first_entry: int) -> Any:
    """The event in the present schema; `first_entry` is the number of the file's first cache entry, 0 in the oldest files."""
    if not isinstance(row, dict):
        return row
    event: Any = row.get("event")
    event = EVENTS.get(event, event)
    row = _renamed({**row, "event": event}, FIELDS.get(event, {}))
    if event == "MemoryPlanned" and isinstance(row.get("nodes"), list):
        row["nodes"] = [_renamed(node, NODE_MEMORY) if isinstance(node, dict) else node for node in row["nodes"]]
    if first_entry == 0 and row.get("entry", -1) >= 0:
        row["entry"] += 1
    if "call_count" in row:  # the number of operators without method calls, which `op_count` includes
        row["op_count"] = row.pop("call_count")
    if event in _EVENTS_OF_GUARDS:
        row["kind"] = GUARD_KINDS.get(row["kind"], row["kind"])
    return row


def _renamed(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in row.items()}
