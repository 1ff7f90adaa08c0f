"""`inductor_artifacts`: call a function, and inspect everything that AOTAutograd and Inductor generate for its graphs.

The idea: one call runs the function under the engine with all artifacts enabled (`compiler_stages.py` records them), and then runs
backward once, since the backward graph is compiled only when it is first needed. Gradients are computed without accumulation, so no
`.grad` changes.

Without a C++ compiler Inductor stops at its CPU feature check, after fusion: everything before that is shown, with one sentence
that names what is missing.

In: a function and its arguments. Out: `InductorArtifacts`: texts by graph, stage and part; the explorer in a notebook.

PyTorch's counterpart: the folder that TORCH_COMPILE_DEBUG=1 writes (`DebugContext` in torch/_inductor/debug.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dynexplore.engine import display_hooks
from dynexplore.engine.config import check_parts, config
from dynexplore.engine.events import ARTIFACT_PARTS, ArtifactEmitted
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.session import torch_compiled
from dynexplore.session.explain import Explanation, explain
from dynexplore.tools.generated_kernels import Kernel, kernels_of
from dynexplore.views import text

BACKENDS = ("inductor", "aot_eager")


@dataclass(repr=False)
class InductorArtifacts:
    """The artifacts of the compilers: `print` it, display it in a notebook, or get single texts with `find`.

    Attributes: `explanation` (the capture itself), `notice` (what is missing, in one sentence; "" if nothing is).
    """

    explanation: Explanation
    notice: str = ""

    @property
    def all(self) -> tuple[ArtifactEmitted, ...]:
        """Every artifact, in the order of creation."""
        return self.explanation.recording.of(ArtifactEmitted)

    @property
    def graphs(self) -> list[str]:
        """The names of the graphs with artifacts."""
        return list(dict.fromkeys(artifact.graph for artifact in self.all))

    def find(self, part: str, stage: str = "forward", graph: int = 0) -> str:
        """The text of one part ("ir") of one stage ("forward", "backward") of the graph with this number.

        Raises ValueError, with a list of what exists, if there is no such text.
        """
        check_parts((part,))
        stage = "joint" if part == "joint" else stage
        names = self.graphs
        for artifact in self.all:
            if names.index(artifact.graph) == graph and (artifact.stage, artifact.part) == (stage, part):
                return artifact.text
        available = ", ".join(f"{text.artifact_title(each)} of graph {names.index(each.graph)}" for each in self.all)
        raise ValueError(f"there is no {part} of {stage} of graph {graph}; there are: {available or 'none'}")

    def kernels(self, stage: str = "forward", graph: int = 0) -> list[Kernel]:
        """The generated kernels of a stage, each with `name`, `language`, `text`, `reads` and `writes`."""
        return kernels_of(self.find("code", stage, graph))

    def __str__(self) -> str:
        return text.artifacts(self.explanation.recording) + (f"\n{self.notice}" if self.notice else "")

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> display_hooks.Bundle:
        return display_hooks.connected().mimebundle(self.explanation)

    def save(self, path: str | os.PathLike[str], *, redact: bool = False) -> str:
        """Write the capture and its artifacts to a file, as `Recording.save` does."""
        return self.explanation.save(path, redact=redact)


def inductor_artifacts(
    fn: Callable[..., Any], /, *args: Any, backend: str = "inductor", parts: Sequence[str] = ARTIFACT_PARTS, **kwargs: Any
) -> InductorArtifacts:
    """Call `fn(*args, **kwargs)` and its backward; return everything that the backend generated for the graphs.

    Args: backend: "inductor", or "aot_eager" for the graphs of AOTAutograd alone. parts: the requested artifacts, names from
    `ARTIFACT_PARTS`: "joint", "graph", "ir", "fused ir", "diagram", "kernels", "code", "times", "memory".

    Raises ValueError for another backend, ConfigError for an unknown part, and what the call raises.

    >>> made = inductor_artifacts(lambda x: x.cos().cos(), torch.ones(3, requires_grad=True), backend="aot_eager")
    >>> made.find("graph", "backward").count("aten.sin")
    2
    """
    if backend not in BACKENDS:
        raise ValueError(f"artifacts are available only for the backends {' and '.join(BACKENDS)}, not for {backend!r}")
    torch_compiled.refuse(fn, "inductor_artifacts")
    artifacts = InductorArtifacts(explain(fn, engine=DYNEXPLORE, backend=backend).__enter__().explanation)
    with config.patch(artifacts=tuple(parts)):
        _run_backward(artifacts.explanation.call(*args, **kwargs))
    artifacts.notice = artifacts.explanation.notice
    return artifacts


def _run_backward(value: Any) -> None:
    """Compute the gradients of all results once, and discard them."""
    results = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    leaves = _leaves(results)
    if leaves:
        torch.autograd.grad(results, leaves, [torch.ones_like(leaf) for leaf in results], allow_unused=True, retain_graph=True)


def _leaves(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that backward accumulates gradients into."""
    waiting: list[Any] = [tensor.grad_fn for tensor in results if tensor.grad_fn is not None]
    seen, leaves = set(waiting), []
    while waiting:
        node = waiting.pop()
        if hasattr(node, "variable"):  # AccumulateGrad
            leaves.append(node.variable)
        following = {step for step, _ in node.next_functions if step is not None} - seen
        seen |= following
        waiting += following
    return leaves
