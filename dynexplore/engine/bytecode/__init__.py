"""Layer 1, bytecode: read a code object, lower it to canonical opcodes, write and assemble a new one.

The idea: only this layer depends on the Python version. In: code objects. Out: the names below; `README.md` of the engine lists the
files in reading order. PyTorch's counterpart: torch/_dynamo/bytecode_transformation.py and bytecode_analysis.py.
"""

from __future__ import annotations

from dynexplore.engine.bytecode.assembler import assemble
from dynexplore.engine.bytecode.instruction import Handler, Instruction, Label, Position, Step
from dynexplore.engine.bytecode.listing import ListingRow, listing
from dynexplore.engine.bytecode.liveness import live_locals, unbound_locals
from dynexplore.engine.bytecode.moved_loads import moved_loads
from dynexplore.engine.bytecode.opcodes import OPCODES, Opcode
from dynexplore.engine.bytecode.reader import ParsedCode, argument_slots, name_of_code, read
from dynexplore.engine.bytecode.versions import FACTS, UNSUPPORTED, Facts
from dynexplore.engine.bytecode.writer import Writer

__all__ = [
    "FACTS", "OPCODES", "UNSUPPORTED", "Facts", "Handler", "Instruction", "Label", "ListingRow", "Opcode",
    "ParsedCode", "Position", "Step", "Writer", "argument_slots", "assemble", "listing", "live_locals",
    "moved_loads", "name_of_code", "read", "unbound_locals",
]  # fmt: skip
