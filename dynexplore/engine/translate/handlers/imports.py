"""Imports inside the frame: of modules that are loaded already."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.provenance.sources import ModuleSource
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("IMPORT_NAME")
def import_name(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """import name; a module that is not loaded yet is left to Python, since loading runs its code."""
    names = frame.pop().as_constant()
    level = frame.pop().as_constant()
    full = importlib.util.resolve_name("." * level + step.arg, frame.globals.values.get("__package__")) if level else step.arg
    if full not in sys.modules:
        ctx.break_graph("DX312", module=full)
    wanted = full if names else full.partition(".")[0] if not level else full
    frame.push(ctx.build(sys.modules[wanted], ModuleSource(wanted)))


@handles("IMPORT_FROM")
def import_from(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """from module import name: an attribute, or else a submodule that is loaded."""
    module = frame.stack[-1]
    live = module.live_value()
    submodule = f"{live.__name__}.{step.arg}"
    if not hasattr(live, step.arg) and submodule in sys.modules:
        frame.push(ctx.build(sys.modules[submodule], ModuleSource(submodule)))
        return
    if not hasattr(live, step.arg):
        ctx.break_graph("DX312", module=submodule)
    frame.push(module.get_attribute(ctx, step.arg))
