"""torch.jit.script: compiles the function's source text without running it.

The idea: a compiler for a typed subset of Python. It reads the syntax tree, so the graph contains both sides of a branch and
the body of a loop. Code outside the subset (most libraries, `**kwargs`, dynamic types) does not compile. Arguments without
annotations are tensors.

In: a call, of which only the function is used. Out: one TorchScript graph, with `prim::If` and `prim::Loop`. PyTorch's
counterpart: torch/jit/_script.py, torch/jit/frontend.py.
"""

from __future__ import annotations

import torch

from dynexplore.lenses import jit_rows
from dynexplore.lenses.lens import Call, Captured


class JitScript:
    """The capture method; see the module docstring."""

    key = "jit.script"
    name = "torch.jit.script"
    works_on = "source (syntax tree)"
    how = "Compiles the source of the function, with static types, without running it. Branches and loops are preserved."
    purpose = "Running a model with control flow without Python, if TorchScript supports the Python features that it uses."
    reasons = (
        (
            "could not get source|Can't get source|Could not get qualified name|Expected a single top-level function|source code",
            "it compiles source text, and the source of this function cannot be read",
        ),
        (
            r"variable number of arguments|\*args|\*\*kwargs|keyword-arg|Compiled functions can't take",
            "TorchScript does not support *args and **kwargs",
        ),
        (
            r"Tensor \(inferred\)|but instead got type|Expected a value of type",
            "it assumes that arguments without annotations are tensors, and the types do not match",
        ),
        (
            "Return type|previously had type|[Tt]ype mismatch|must have the same type|Could not infer|Dict.*(key|values|type)",
            "TorchScript is statically typed, and the types in this function do not match",
        ),
        (
            "python value of type|undefined value|Unknown builtin|closed over|global",
            "the function uses a Python feature that TorchScript does not support",
        ),
        (
            "UnsupportedNodeError|NotSupportedError|is not supported|aren't supported|Unsupported",
            "the function uses syntax that TorchScript does not support",
        ),
    )

    def prepare(self) -> None:
        """Do nothing: importing torch imports torch.jit."""

    def capture(self, call: Call) -> Captured:
        """Compile the function."""
        scripted = torch.jit.script(call.fn)
        graph = scripted.inlined_graph
        return Captured(lambda: [jit_rows.graph_of(graph, self.name)], scripted)
