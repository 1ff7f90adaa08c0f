"""Layer 1, bytecode: read a code object, lower it to canonical opcodes, write and assemble a new one.

In: code objects. Out: the names below; `README.md` of the engine says in which order to read the files.
"""

from __future__ import annotations

from dynexplore.engine.bytecode.instruction import Handler, Instruction, Label, Position, Step
from dynexplore.engine.bytecode.opcodes import OPCODES, Opcode
from dynexplore.engine.bytecode.reader import ParsedCode, read
from dynexplore.engine.bytecode.versions import FACTS, UNSUPPORTED, Facts

__all__ = [
    "FACTS", "OPCODES", "UNSUPPORTED", "Facts", "Handler", "Instruction", "Label", "Opcode", "ParsedCode",
    "Position", "Step", "read",
]  # fmt: skip
