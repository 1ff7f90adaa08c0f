"""The frame hook: how the engine gets between a call and the frame that runs it.

Comes in: a `Region` (where to look compiled variants up, whom to ask when there is none) and calls made inside it.
Goes out: the same calls, run with the code object of the first `Entry` whose guards pass. All of it is C, because it
stands in the way of every Python call; see `_frame_hook.pyi` for what each name does, and `frame_hook.c` for how.

PyTorch does the same job in torch/csrc/dynamo/ (eval_frame.c, extra_state.cpp, cache_entry.cpp, guards.cpp).
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
        current,
        dict_version,
        enter,
        evaluated_annotations,
        filters_version,
        has_generic_lookup,
        hides_nothing,
        installed,
        is_skipped,
        leave,
        made_dictionary,
        nth_key,
        nth_value,
        region_depth,
        set_filters_version,
        skip_code,
        skip_code_recursively,
        special_method,
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
    "current",
    "dict_version",
    "enter",
    "evaluated_annotations",
    "filters_version",
    "function_of",
    "has_generic_lookup",
    "hides_nothing",
    "installed",
    "is_skipped",
    "leave",
    "made_dictionary",
    "nth_key",
    "nth_value",
    "region_depth",
    "set_filters_version",
    "skip_code",
    "skip_code_recursively",
    "special_method",
    "type_version",
    "unskip_code",
]


def function_of(state: FrameState) -> FunctionType:
    """The function that was called (mypy takes a property of this type for a method)."""
    return cast("FunctionType", state.function)
