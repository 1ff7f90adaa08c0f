"""One handler per canonical opcode, by theme. Importing this package fills `dispatch.HANDLERS`."""

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
