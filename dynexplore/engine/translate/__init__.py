"""Symbolic execution: bytecode to graphs, guards and modified code; PyTorch's counterpart is torch/_dynamo/symbolic_convert.py.

The idea: importing any module of this package fills the handler table, so that `dispatch.override` finds every opcode.

In: a frame. Out: a `Translation` (contract/request.py), from `translator.translate`.
"""

from dynexplore.engine.translate import handlers

__all__ = ["handlers"]
