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
    how = "Compiles the source text of the function, typed, without running it: branches and loops stay what they are."
    purpose = "Taking a model with control flow away from Python, if it is written in the part of Python that TorchScript knows."
    reasons = (
        (
            "could not get source|Can't get source|Could not get qualified name|Expected a single top-level function|source code",
            "it compiles source text, and the source of this function cannot be read",
        ),
        (
            r"variable number of arguments|\*args|\*\*kwargs|keyword-arg|Compiled functions can't take",
            "TorchScript's part of Python has no *args and **kwargs",
        ),
        (
            r"Tensor \(inferred\)|but instead got type|Expected a value of type",
            "it takes arguments without annotations for tensors, and the types do not fit",
        ),
        (
            "Return type|previously had type|[Tt]ype mismatch|must have the same type|Could not infer|Dict.*(key|values|type)",
            "TorchScript is typed, and the types of this function do not fit together",
        ),
        (
            "python value of type|undefined value|Unknown builtin|closed over|global",
            "the function uses something of Python that TorchScript does not know",
        ),
        (
            "UnsupportedNodeError|NotSupportedError|is not supported|aren't supported|Unsupported",
            "the function uses syntax outside TorchScript's part of Python",
        ),
    )

    def prepare(self) -> None:
        """Do nothing: importing torch imports torch.jit."""

    def capture(self, call: Call) -> Captured:
        """Compile the function."""
        scripted = torch.jit.script(call.fn)
        graph = scripted.inlined_graph
        return Captured(lambda: [jit_rows.graph_of(graph, self.name)], scripted)
