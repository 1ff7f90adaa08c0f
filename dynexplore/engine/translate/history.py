"""What earlier calls of a code object looked like: which sizes vary, and so become symbolic.

The idea: the first call is compiled for the sizes it has. When a later call misses because a size differs, that dimension becomes
dynamic, so that one more graph serves all sizes ("automatic dynamic shapes").

Strides become dynamic, too, where they vary and no size does: a cache that keeps a window of its last states is a view into a
tensor of another length in each call.

In: one `FrameHistory` per code object and backend, kept by the runtime. Out: the dynamic dimensions and strides of each input.
torch/_dynamo/pgo.py and variables/builder.py do the same job.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import torch

from dynexplore.engine.config import config
from dynexplore.engine.policy import dimensions
from dynexplore.engine.provenance.sources import ItemSource, Source


class FrameHistory:
    """Sizes and numbers seen at each source, over the translations of one code object."""

    def __init__(self) -> None:
        self._sizes: dict[str, tuple[int | None, ...]] = {}
        self._strides: dict[str, tuple[int | None, ...]] = {}
        self._numbers: dict[str, Any] = {}
        self._dynamic_numbers: set[str] = set()
        self._floats_asked_for = False
        self._unstable: set[str] = set()
        self._failed_when_plain: set[tuple[str, str]] = set()
        self.goes_on_plain = False
        """What went on behind a break of this code was left to Python."""

    def note_uncompiled(self, source: Source, value: object, depth: int = 3) -> None:
        """A frame ran uncompiled with this value: a later one of another size, or another number, shows what varies."""
        where = source.text()
        if isinstance(value, torch.Tensor):
            self.dynamic_dims(where, value, None), self.dynamic_strides(where, value, None)
        elif type(value) in (int, float):
            self.is_dynamic_number(where, value, None)
        elif type(value) in (tuple, list, dict) and depth:
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):  # type: ignore[arg-type]
                if type(key) in (int, str):
                    self.note_uncompiled(ItemSource(source, key), item, depth - 1)

    def dynamic_dims(
        self, where: str, tensor: torch.Tensor, wanted: bool | None, size_of_data: bool = False, is_open: bool = False
    ) -> frozenset[int]:
        """The dimensions of this input that vary; `wanted` forces all (True) or none (False).

        `size_of_data`: the first is known to vary before another one was seen; `is_open`: and to be 0 and 1, too.
        """
        choice = wanted if wanted is not None else config.dynamic_shapes
        marked, never = dimensions.wanted_dynamic(tensor), dimensions.static(tensor)
        if choice is False:
            return frozenset()
        sizes = tuple(tensor.shape)
        if choice is True:
            return frozenset(dim for dim, size in enumerate(sizes) if size not in (0, 1)) - never | marked
        seen = self._sizes.get(where, (None, *sizes[1:]) if size_of_data and sizes else None)
        if seen is None or len(seen) != len(sizes):
            self._sizes[where] = sizes
            return marked
        merged = tuple(old if old == new else None for old, new in zip(seen, sizes, strict=True))
        self._sizes[where] = merged
        varying = [dim for dim, size in enumerate(merged) if size is None and (sizes[dim] not in (0, 1) or (is_open and dim == 0))]
        return frozenset(varying) - never | marked

    def dynamic_strides(self, where: str, tensor: torch.Tensor, wanted: bool | None) -> frozenset[int]:
        """The dimensions of this input whose strides vary while all sizes stay; to be asked after `dynamic_dims`."""
        if (wanted if wanted is not None else config.dynamic_shapes) is not None or None in self._sizes.get(where, (None,)):
            return frozenset()
        strides = tensor.stride()
        seen = self._strides.get(where, strides)
        merged = tuple(old if old == new else None for old, new in zip(seen, strides, strict=False))
        self._strides[where] = merged if len(seen) == len(strides) else strides
        return frozenset(dim for dim, stride in enumerate(self._strides[where]) if stride is None and strides[dim] not in (0, 1))

    def is_dynamic_number(self, where: str, value: Any, wanted: bool | None, varies: bool = False) -> bool:
        """Whether a number varies, and so becomes a symbol instead of a constant."""
        if wanted is False or (config.specialize_int if type(value) is int else config.specialize_float):
            return False
        self._floats_asked_for |= type(value) is float
        if varies or where in self._dynamic_numbers:
            return True
        if self.was_another(where, value):
            self._dynamic_numbers.add(where)
            return True
        self._numbers[where] = value
        return False

    def note_number(self, where: str, value: Any) -> None:
        """A number was taken as a constant here, and not because it was asked whether it varies."""
        self._numbers.setdefault(where, value)

    def was_another(self, where: str, value: Any) -> bool:
        """Whether another number was taken as a constant here."""
        return where in self._numbers and self._numbers[where] != value

    def is_known_to_vary(self, where: str) -> bool:
        """Whether a number here was taken as a constant once, and was another one later."""
        return where in self._dynamic_numbers

    def has_varying_floats(self) -> bool:
        """Whether a float was, or may have been, made an input of a graph."""
        return self._floats_asked_for

    def note_unstable(self, where: str) -> None:
        """Another object stands, or will stand, at this source than the one an entry was made for, which may have died."""
        self._unstable.add(where)

    def note_failed_when_plain(self, where: str, kind: str) -> None:
        """A guard of this kind on this source failed for a frame that had nothing worth a graph when it was asked."""
        self._failed_when_plain.add((where, kind))

    def has_failed_when_plain(self, where: str, kind: str) -> bool:
        """Whether such a guard did."""
        return (where, kind) in self._failed_when_plain

    def fails_when_plain(self) -> bool:
        """Whether any guard did."""
        return bool(self._failed_when_plain)

    @property
    def unstable(self) -> AbstractSet[str]:
        """The sources at which objects come and go."""
        return self._unstable
