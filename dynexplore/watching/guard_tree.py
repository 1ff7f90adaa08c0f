"""The guard tree of a cache entry: collected while torch compiles, formatted when it is read.

The idea: formatting the guard tree takes torch longer than everything else that a watch does. The text consists of short strings
that the tree already has; holding the tree itself would keep objects alive that the program has released, and it changes when an
entry is invalidated. So the strings are collected in one traversal, as flat lines, and formatted later, exactly as torch does.

In: torch's guard manager. Out: `GuardTree`: `text`, and `tensor_checks`, the expected metadata of tensors.

PyTorch's counterpart: `GuardManagerWrapper.__str__` in torch/_dynamo/guards.py.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from typing import Any, cast

from dynexplore.traces import torch_words

_Line = tuple[int, str]
"""The indentation level of a line, and the line."""


class GuardTree:
    """The lines of one tree, as strings only."""

    def __init__(self, manager: Any) -> None:
        self._lines: list[_Line] = []
        self._related: set[Any] = set()  # a guard on several sources is printed in full at its first occurrence
        self._walk(manager.root, 1)
        epilogue = getattr(manager.root, "get_epilogue_lambda_guards", None)
        for guard in epilogue() if epilogue is not None else ():
            self._leaf(guard, 0)
        self._related.clear()

    def _walk(self, manager: Any, depth: int) -> None:
        for guard in manager.get_leaf_guards():
            self._leaf(guard, depth)
        if _has_pairs(cast("Hashable", type(manager))):
            for index, (key, value) in sorted(manager.get_key_value_managers().items()):
                self._lines.append((depth, f"KeyValueManager pair at index={index}"))
                for name, child in (("KeyManager: ", key), ("ValueManager: ", value)):
                    if child:
                        self._child(child, depth + 1, name, "")
        accessors = manager.get_accessors()
        if accessors:
            for accessor, child in zip(accessors, manager.get_child_managers(), strict=False):
                self._child(child, depth, "", f", accessed_by={accessor.repr()}")

    def _child(self, manager: Any, depth: int, name: str, accessor: str) -> None:
        kind, of_type = f"{name}{type(manager).__name__}", manager.get_type_of_guarded_value()
        safe = f"({manager.is_tag_safe()}, {manager.is_tag_safe_root()})"
        self._lines.append((depth, f"{kind}: source={manager.get_source()}{accessor}, type={of_type}, tag_safe={safe}"))
        self._walk(manager, depth + 1)

    def _leaf(self, guard: Any, depth: int) -> None:
        name, has_several_sources = _kind_of(cast("Hashable", type(guard)))
        if has_several_sources:
            if guard in self._related:
                self._lines.append((depth, name))
                return
            self._related.add(guard)
        for part in guard.verbose_code_parts():
            self._lines.append((depth, f"{name}: {part}"))

    @functools.cached_property
    def text(self) -> str:
        """The tree as torch prints it."""
        lines = ["", "TREE_GUARD_MANAGER:", "+- RootGuardManager"]
        lines += [f"{'| ' * depth}+- {line}" for depth, line in self._lines]
        return "\n".join(lines) + "\n"

    @functools.cached_property
    def tensor_checks(self) -> Mapping[str, tuple[str, str]]:
        """Source -> the expected metadata of this tensor, and the whole check."""
        return torch_words.tensor_checks(self.text)


@functools.cache
def _has_pairs(kind: Hashable) -> bool:
    return hasattr(kind, "get_key_value_managers")


@functools.cache
def _kind_of(kind: Hashable) -> tuple[str, bool]:
    """The name of a class of guards, and whether its guards are on several sources."""
    cls = cast("type", kind)
    return cls.__name__, any(base.__name__ == "RelationalGuard" for base in cls.__mro__)
