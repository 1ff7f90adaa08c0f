"""One handler per canonical opcode, by theme.

The idea: importing this package fills `dispatch.HANDLERS`.

In: a frame, a canonical step, the translator. Out: the frame after the step. PyTorch's counterpart: the methods of
InstructionTranslatorBase named like opcodes (torch/_dynamo/symbolic_convert.py).
"""

from dynexplore.engine.translate.handlers import (
    attributes,
    calls,
    containers,
    control,
    exceptions,
    functions,
    generators,
    imports,
    names,
    operators,
    patterns,
    stack,
    strings,
    with_blocks,
)
from dynexplore.engine.translate.handlers.unsupported_opcodes import NOT_TRACED

__all__ = [
    "NOT_TRACED",
    "attributes", "calls", "containers", "control", "exceptions", "functions", "generators", "imports", "names", "operators",
    "patterns", "stack", "strings", "with_blocks",
]
