"""Reduction of a failing graph, as long as it fails in the same way.

The idea: torch's own FX minifier does the reduction: parts of the graph are removed or become inputs, repeatedly, down to a graph
that cannot be reduced without losing the failure.

In: a graph with its inputs, a compiler, how it fails. Out: `Minified`, with graph, inputs, and the text of a self-contained program
(repro_file.py).

PyTorch's counterpart: `minifier` in torch/_functorch/fx_minifier.py, which is used here.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch.fx
from torch._functorch import fx_minifier

from dynexplore.engine.graph.finished_graph import copy_of_graph
from dynexplore.engine.runtime.backends import CompilerFn, resolve
from dynexplore.tools.behind_aot import inner_compiler
from dynexplore.tools.graph_failure import Compiler, Failure, Predicate, copies, failure_of, quiet
from dynexplore.tools.graph_views import graph_html
from dynexplore.tools.repro_file import ReproFile, can_stand_alone
from dynexplore.views import html_report
from dynexplore.views.counts import plural

After = Literal["dynamo", "aot"]


@dataclass(frozen=True, slots=True)
class Minified:
    """The result of `minify`. `print` it for both graphs; `write(path)` for a self-contained program.

    `before` and `graph` are the failing graph before and after minimizing, `inputs` the tensors of the small one, `failure` how it
    fails, `repro` the text of the program.
    """

    before: torch.fx.GraphModule
    graph: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    failure: Failure
    repro: str

    def write(self, path: str | Path = "repro.py") -> Path:
        """Write the program. Returns its path."""
        written = Path(path)
        written.write_text(self.repro, encoding="utf-8")
        return written

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{plural(operators(self.before), 'operator')} became {operators(self.graph)}; it {self.failure.words}",
                "",
                "before:",
                _code(self.before),
                "after:",
                _code(self.graph),
            )
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, _, _ = str(self).partition("\n")
        graphs = [(name, graph_html(graph, name)) for name, graph in (("before", self.before), ("after", self.graph))]
        return html_report.report(
            html_report.line(title), html_report.side_by_side(*graphs), html_report.to_copy("repro.py", self.repro)
        )


def operators(graph: torch.fx.GraphModule) -> int:
    """The number of operators in a graph."""
    return sum(node.op.startswith("call_") for node in graph.graph.nodes)


def _code(graph: torch.fx.GraphModule) -> str:
    return str(graph.code).strip("\n")


def shrink(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    compiler: Compiler,
    failure: Failure,
    *,
    backend: str | CompilerFn,
    after: After = "dynamo",
    fails: Predicate | None = None,
    tolerance: float | None = None,
) -> Minified:
    """Reduce a failing graph, as long as it fails in the same way."""
    inputs_before = {node.name for node in graph.graph.find_nodes(op="placeholder")}

    def still_fails(smaller: torch.fx.GraphModule, smaller_inputs: Sequence[Any]) -> bool:
        _rename_inputs(smaller, inputs_before)
        return failure.is_like(failure_of(smaller, smaller_inputs, compiler, fails, tolerance))

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), quiet():
        small, remaining_inputs = fx_minifier.minifier(
            copy_of_graph(graph), copies(inputs), still_fails, dump_state=lambda *_: None
        )
    _rename_inputs(small, inputs_before)
    text = _program(small, remaining_inputs, failure, backend, after, fails, tolerance)
    return Minified(graph, small, tuple(remaining_inputs), failure, text)


def _rename_inputs(graph: torch.fx.GraphModule, original_names: set[str]) -> None:
    """Rename inputs that were operators: the old name looks like the operator to people and backends."""
    renamed = [node for node in graph.graph.find_nodes(op="placeholder") if node.name not in original_names]
    for node in renamed:
        if not str(node.target).startswith("given_"):
            node._rename("given_1")
            node.target = node.name
    if renamed:
        graph.recompile()


def _program(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    failure: Failure,
    backend: str | CompilerFn,
    after: After,
    fails: Predicate | None,
    tolerance: float | None,
) -> str:
    """The text of the repro: with random inputs if the failure does not depend on them, else with these."""
    file = ReproFile(graph, inputs, backend=backend, after=after, failure=failure.words, tolerance=tolerance)
    if fails is None and can_stand_alone(backend):
        compiler = inner_compiler(backend) if after == "aot" else resolve(backend)
        if failure.is_like(failure_of(graph, file.random_inputs(), compiler, None, tolerance)):
            return file.text(exact_inputs=False)
    return file.text(exact_inputs=True)
