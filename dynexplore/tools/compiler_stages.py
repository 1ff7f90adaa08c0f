"""Recording of AOTAutograd's and Inductor's stages, as a captured graph is compiled.

The idea: a captured graph is lowered in several stages. AOTAutograd traces forward and backward together (the *joint* graph) in
ATen operators, and a partitioner splits it into a forward and a backward graph. Inductor lowers each of the two to its *IR* (one
loop body per result), fuses loop bodies over the same elements into *kernels*, and generates code: C++ for CPUs, Triton for GPUs,
and a Python wrapper that allocates buffers and launches kernels. Each stage is one record here, of one *part*: see `ARTIFACT_PARTS`
in events.py. graph_memory.py computes the memory of forward and backward, and measured_memory.py measures the temporary memory of
their operators.

All of it is read at hooks that torch provides: `inner_compile` of compile_fx is called with each of the two graphs,
`joint_custom_pre_pass`, `_pre_fusion_custom_pass` and `_post_fusion_custom_pass` of Inductor's config with the joint graph and with
the scheduler's nodes, `GraphLowering.save_output_code` with the text. Inductor's caches are disabled meanwhile, because a cache hit
skips these stages. The backward graph is compiled when backward first runs.

In: the backend "inductor" or "aot_eager", a recorder, and `config.artifacts` (the requested parts). Out: `ArtifactEmitted` and
`MemoryPlanned` events, and the same compiled graph as without recording.

PyTorch's counterpart: `DebugContext` in torch/_inductor/debug.py (TORCH_COMPILE_DEBUG), which writes the same to files.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import linecache
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch.fx

from dynexplore.engine.config import config
from dynexplore.engine.events import ArtifactEmitted
from dynexplore.engine.recorder import Recorder
from dynexplore.tools.generated_kernels import fused_dot, kernels_of
from dynexplore.tools.graph_memory import Halves
from dynexplore.tools.measured_memory import allocator_of, measured_once

_LONGEST = 400_000  # the maximum number of characters of a text


def watched(backend: str, recorder: Recorder | None, frame: int, graph: str) -> Callable[..., Any] | None:
    """A backend that behaves like torch's backend of that name, and records each stage.

    None if no artifact is requested, or the backend's stages are unknown.
    """
    make = {"inductor": _inductor, "aot_eager": _aot_eager}.get(backend)
    if make is None or recorder is None or not config.artifacts:
        return None
    notes = _Notes(recorder, frame, graph, config.artifacts)

    def compiled(module: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        _annotate_lines(module)
        return make(notes, module, inputs, **options)

    return compiled


def _annotate_lines(module: torch.fx.GraphModule) -> None:
    """Annotate each node with its line of the program, in the form that AOTAutograd propagates and torch.fx prints."""
    for node in module.graph.nodes:
        file, line = node.meta.get("line", ("", None))
        if line:
            code = linecache.getline(file, line).strip()
            node.meta["stack_trace"] = f'  File "{file}", line {line}, in {node.meta.get("function", "?")}\n    {code}\n'


class _Notes:
    """Records the artifacts of one captured graph."""

    def __init__(self, recorder: Recorder, frame: int, graph: str, parts: Sequence[str]) -> None:
        self.recorder, self.frame, self.graph, self.parts = recorder, frame, graph, parts
        self.memory = Halves(recorder, frame, graph) if "memory" in parts else None

    def add(self, stage: str, part: str, text: str | Callable[[], str], language: str) -> None:
        """Record one text, if its part is requested; a function that creates the text is called only then."""
        if part not in self.parts:
            return
        content = text if isinstance(text, str) else text()
        if len(content) > _LONGEST:
            content = f"{content[:_LONGEST]}\n... {len(content) - _LONGEST:,} more characters"
        self.recorder.record(
            ArtifactEmitted(
                frame=self.frame, graph=self.graph, stage=stage, part=part, language=language, text=without_paths(content).strip()
            )
        )

    def joint(self, graph: torch.fx.Graph) -> None:
        """The joint graph, if this is one: it has tangents among its inputs."""
        if any(str(node.target).startswith("tangents") for node in graph.find_nodes(op="placeholder")):
            self.add("joint", "joint", lambda: _graph_text(torch.fx.GraphModule(torch.nn.Module(), _pure(graph))), "python")

    def half(self, stage: str, graph: torch.fx.Graph, results: int | None = None) -> None:
        """Record the memory of the forward or the backward graph; forward saves its outputs after the first `results` (None: no
        outputs).
        """
        if self.memory is None:
            return
        if stage == "backward":
            self.memory.backward(graph)
        else:
            self.memory.forward(graph, results)

    def measured(self, stage: str, module: torch.fx.GraphModule, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled graph; if memory is requested and it runs on a GPU, its first run measures the operators' temporary
        memory.
        """
        if self.memory is None or (allocator := allocator_of(module.graph)) is None:
            return compiled
        return measured_once(module, compiled, allocator, functools.partial(self.memory.measured, stage))


def without_paths(text: str) -> str:
    """The text with all file paths shortened to file names: folders mean nothing on another machine or in another process.

    >>> without_paths("# File: /home/me/model.py:3 in forward, code: return x")
    '# File: model.py:3 in forward, code: return x'
    """
    text = re.sub(r"/\S*ipykernel_\d+/\d+\.py", "<cell>", text)  # the file names of notebook cells
    return re.sub(r"(?<![\w.])(?:/[\w.+\-]+){1,}/([\w.+\-]+\.(?:py|h|hpp|cpp|cu|so)\b|<\w[^>]*>|\d+\.py)", r"\1", text)


def _pure(graph: torch.fx.Graph) -> torch.fx.Graph:
    """A copy whose attributes are inputs, so that it can be printed without the module."""
    copy, copied_nodes = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    for node in graph.nodes:
        if node.op == "get_attr":
            copied_nodes[node] = copy.placeholder(node.name)
            copied_nodes[node].meta = dict(node.meta)
        else:
            copied_nodes[node] = copy.node_copy(node, copied_nodes.__getitem__)
    return copy


def _graph_text(module: torch.fx.GraphModule) -> str:
    return str(module.print_readable(print_output=False))


# -- Inductor ------------------------------------------------------------------------------------------------


def _inductor(
    notes: _Notes, module: torch.fx.GraphModule, inputs: Sequence[Any], config_patches: Mapping[str, Any] | None = None
) -> Any:
    """`inductor` in torch/_dynamo/backends/inductor.py, with every stage recorded."""
    compiler = importlib.import_module("torch._inductor.compile_fx")
    options = importlib.import_module("torch._inductor.config")
    clock = _Clock()

    def inner(graph: torch.fx.GraphModule, examples: Sequence[Any], **settings: Any) -> Any:
        stage = "backward" if settings.get("is_backward") else "forward"
        if stage == "forward":
            clock.passed("trace, differentiate, partition")
        else:
            clock.restart()
        notes.add(stage, "graph", lambda: _graph_text(graph), "python")
        notes.half(stage, graph.graph, None if settings.get("is_inference") else _results())
        with _lowering_watched(notes, stage, clock, options):
            return compiler.compile_fx_inner(graph, examples, **settings)

    with options.patch(joint_custom_pre_pass=_first(notes.joint, options.joint_custom_pre_pass), force_disable_caches=True):
        return compiler.compile_fx(module, inputs, inner_compile=inner, config_patches=config_patches)


def _results() -> int | None:
    """How many outputs of the forward graph being compiled are results of the program: the others are saved for backward."""
    context = torch._guards.TracingContext.try_get()
    about = context.fw_metadata if context is not None else None
    return None if about is None else int(about.num_forward)


def _first(note: Callable[[Any], None], passes: Any) -> Callable[[Any], None]:
    """A pass of Inductor that records, and then runs the previously configured pass."""

    def record_and_run(value: Any) -> None:
        note(value)
        for inner in passes if isinstance(passes, list | tuple) else [passes]:
            if inner is not None:
                inner(value)

    return record_and_run


class _Clock:
    """The duration of each phase, as lines of text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.began = time.perf_counter()

    def restart(self) -> None:
        self.lines, self.began = [], time.perf_counter()

    def passed(self, phase: str) -> None:
        now = time.perf_counter()
        self.lines.append(f"{now - self.began:10.4f} s  {phase}")
        self.began = now


@contextlib.contextmanager
def _lowering_watched(notes: _Notes, stage: str, clock: _Clock, options: Any) -> Iterator[None]:
    """Record Inductor's output for one graph: IR, fused IR, code, and times."""
    debug = importlib.import_module("torch._inductor.debug")
    lowering = importlib.import_module("torch._inductor.graph").GraphLowering
    before, after = options._pre_fusion_custom_pass, options._post_fusion_custom_pass

    def lowered(nodes: Any) -> Any:
        clock.passed("lower to IR")
        notes.add(stage, "ir", lambda: debug.DebugFormatter._write_ir(nodes), "text")
        return before(nodes) if before is not None else nodes

    def fused(nodes: Any) -> Any:
        clock.passed("fuse")
        nodes = after(nodes) if after is not None else nodes
        notes.add(stage, "fused ir", lambda: debug.DebugFormatter._write_ir(nodes), "text")
        notes.add(stage, "diagram", lambda: fused_dot(nodes), "dot")
        return nodes

    def written(code: str) -> None:
        clock.passed("write code")
        notes.add(stage, "kernels", lambda: "\n\n".join(kernel.text for kernel in kernels_of(code)), "cpp")
        notes.add(stage, "code", code, "python")

    with (
        options.patch(_pre_fusion_custom_pass=lowered, _post_fusion_custom_pass=fused, force_disable_caches=True),
        _saving_code(lowering, written),
    ):
        yield
    clock.passed("compile and load")
    notes.add(stage, "times", "\n".join(clock.lines), "text")


@contextlib.contextmanager
def _saving_code(lowering: Any, saved: Callable[[str], None]) -> Iterator[None]:
    """Patch the attribute that `run_and_get_code` in torch/_inductor/utils.py also sets."""
    before = lowering.save_output_code
    lowering.save_output_code = staticmethod(saved)
    try:
        yield
    finally:
        lowering.save_output_code = before


# -- AOTAutograd alone ---------------------------------------------------------------------------------------


def _aot_eager(notes: _Notes, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    """`aot_eager` in torch/_dynamo/backends/debugging.py, with the joint, forward and backward graphs recorded."""
    aot = importlib.import_module("torch._dynamo.backends.common")
    compile_nothing = importlib.import_module("torch._dynamo.backends.debugging").boxed_nop
    min_cut = importlib.import_module("torch._functorch.partitioners").min_cut_rematerialization_partition

    halves: list[torch.fx.GraphModule] = []

    def half(stage: str) -> Callable[..., Any]:
        def compile_half(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
            notes.add(stage, "graph", lambda: _graph_text(graph), "python")
            if not halves:
                notes.half(stage, graph.graph)
            return notes.measured(stage, graph, compile_nothing(graph, examples))

        return compile_half

    def partition(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        notes.joint(joint.graph)
        halves[:] = min_cut(joint, *args, **kwargs)
        for stage, module in zip(("forward", "backward"), halves, strict=True):  # backward is compiled when it first runs, if ever
            notes.half(stage, module.graph, kwargs["num_fwd_outputs"])
        return tuple(halves)

    compiled = aot.aot_autograd(
        fw_compiler=half("forward"),
        bw_compiler=half("backward"),
        inference_compiler=half("forward"),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    return compiled(module, inputs)
