"""The frame hook: how the engine intercepts a call before its frame runs.

The idea: PEP 523, the interpreter's replaceable frame evaluation function, in C, since every Python call goes through it.
`_frame_hook.pyi` documents each name, and `frame_hook.c` explains how it works.

In: a `Region` (where to look up compiled code, and the callback for a miss) and the calls made inside it. Out: the same calls, run
with the code object of the first `Entry` whose guards pass.

PyTorch's counterpart: torch/csrc/dynamo/ (eval_frame.c, extra_state.cpp, cache_entry.cpp, guards.cpp).
"""

from __future__ import annotations

from types import FunctionType
from typing import cast

try:
    from dynexplore.engine.native._frame_hook import (
        ENTRY_FILE,
        UNBOUND,
        CacheStore,
        CodeCache,
        DictGuard,
        Entry,
        FrameState,
        GuardWalk,
        Region,
        RegionBlock,
        RegionCall,
        SequenceGuard,
        TailCall,
        TypeGuard,
        compares_name,
        current,
        dict_version,
        enter,
        evaluated_annotations,
        filters_version,
        finish_call,
        has_generic_lookup,
        installed,
        is_skipped,
        leave,
        made_dictionary,
        names_of_class,
        no_instance_override,
        nth_key,
        nth_value,
        region_depth,
        set_filters_version,
        set_in_table,
        set_table_of,
        set_with_table_of,
        skip_code,
        skip_code_recursively,
        special_method,
        stored_hashes,
        type_version,
        unskip_code,
    )
except ModuleNotFoundError as error:
    if error.name != f"{__name__}._frame_hook":
        raise
    raise ImportError(
        "dynexplore's C extension is not built for this Python: `pip install -e .` in the repository builds it."
    ) from None

__all__ = [
    "ENTRY_FILE",
    "UNBOUND",
    "CacheStore",
    "CodeCache",
    "DictGuard",
    "Entry",
    "FrameState",
    "GuardWalk",
    "Region",
    "RegionBlock",
    "RegionCall",
    "SequenceGuard",
    "TailCall",
    "TypeGuard",
    "compares_name",
    "current",
    "dict_version",
    "enter",
    "evaluated_annotations",
    "filters_version",
    "finish_call",
    "function_of",
    "has_generic_lookup",
    "no_instance_override",
    "installed",
    "is_skipped",
    "leave",
    "made_dictionary",
    "names_of_class",
    "nth_key",
    "nth_value",
    "region_depth",
    "set_filters_version",
    "set_in_table",
    "set_with_table_of",
    "skip_code",
    "skip_code_recursively",
    "special_method",
    "stored_hashes",
    "set_table_of",
    "type_version",
    "unskip_code",
]


def function_of(state: FrameState) -> FunctionType:
    """The function that was called (not a property, which mypy would take for a method)."""
    return cast("FunctionType", state.function)
