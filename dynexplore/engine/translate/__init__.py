"""From bytecode to graphs. Importing any part of it fills the handler table: `dispatch.override` finds every opcode there."""

from dynexplore.engine.translate import handlers

__all__ = ["handlers"]
