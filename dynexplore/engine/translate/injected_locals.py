"""Injected locals: objects that the modified code loads and that no bytecode can create: compiled graphs, pinned objects, helpers.

The idea: the cache entry owns them, and the frame hook stores them in local variables of the modified frame, right after the
argument slots. So globals do not change, no code constant holds an object that the garbage collector must see, and a running frame
keeps the objects it uses alive.

In: objects, while code is written. Out: the names under which the code loads them, and the values in the order of the slots.
PyTorch's counterpart: `install_global` in torch/_dynamo/output_graph.py, which stores such objects in the program's globals.
"""

from __future__ import annotations

from typing import Any

from dynexplore.engine.provenance.sources import Namer

TAIL_CALL = "__tail_call"
"""The name of `native.TailCall` in modified code."""


class InjectedLocals(Namer):
    """Objects that the cache entry owns and the modified code reads from local variables."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.names: list[str] = []
        self._name_of_id: dict[int, str] = {}

    def name(self, value: object) -> str:
        return self.add(value, f"__object_{len(self.values)}")

    def add(self, value: object, name: str) -> str:
        """Inject a value under this name, or return the name that it already has."""
        existing_name = self._name_of_id.get(id(value))
        if existing_name is None:
            existing_name = self._name_of_id[id(value)] = name
            self.values.append(value)
            self.names.append(name)
        return existing_name
