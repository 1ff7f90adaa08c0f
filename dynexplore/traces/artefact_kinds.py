"""Classification of a log's texts: the stage of torch.compile that produced them, the kind of content, the language.

The idea: torch uses some forty names for its log texts, and each version adds new ones. A table maps the known names to parts; any
other text is shown under its own name. If there is no room for all of them, the parts listed first take precedence.

In: an `Artefact`. Out: `described(artefact)`, `that_fit(contents, room)`, `OFTEN_THE_SAME`.

PyTorch's counterpart: the callers of `trace_structured` (torch/_logging/_internal.py); tlparse has a parser for each.
"""

from __future__ import annotations

import itertools

from dynexplore.engine.events import TRACE_PARTS
from dynexplore.traces.compiles import Artefact, Compile, Contents
from dynexplore.traces.trace_log import Payload

LONGEST_CHECK = 20_000

OFTEN_THE_SAME = ("settings", "runtime", "cache", "other")
"""Parts whose texts are often identical from one compilation to the next: duplicates are recorded once."""

_KINDS = {
    "dynamo_output_graph": ("captured", "captured", "python"),
    "optimize_ddp_split_graph": ("split for DDP", "captured", "python"),
    "optimize_ddp_split_child": ("split for DDP", "captured", "python"),
    "compiled_autograd_graph": ("compiled autograd", "captured", "python"),
    "aot_joint_graph": ("joint", "joint", "python"),
    "aot_forward_graph": ("forward", "graph", "python"),
    "aot_backward_graph": ("backward", "graph", "python"),
    "aot_inference_graph": ("inference", "graph", "python"),
    "inductor_pre_grad_graph": ("before AOTAutograd", "passes", "python"),
    "inductor_post_grad_graph": ("after all passes", "passes", "python"),
    "inductor_output_code": ("", "code", "python"),
    "dynamo_cpp_guards_str": ("tree of", "guards", "text"),
    "metrics": ("", "metrics", "text"),
    "symbols": ("sizes that vary", "symbols", "text"),
    "graph_dump": ("", "passes", "python"),
}
_ARTEFACTS = {
    "dynamo_graph_break_reason": ("graph break", "reasons", "text"),
    "recompile_reasons": ("recompile", "reasons", "text"),
    "dynamo_error": ("torch.compile's", "failure", "text"),
    "fx_graph_runnable": ("graph as a program", "runnable", "python"),
    "inductor_post_grad_graph": ("after all passes", "passes", "python"),
    "torch_version": ("torch version", "settings", "text"),
}
_RUNTIME = ("wrapper", "prologue", "epilogue", "compiled_function", "orchestration", "compiled_fn", "fw_metadata")


def described(artefact: Artefact, compile_: Compile | None = None) -> tuple[str, str, str]:
    """Stage, part and language of a text."""
    kind, name = artefact.kind, artefact.name
    if kind == "inductor_output_code":
        return _stage_of(artefact, compile_), "code", "python"
    if kind == "metrics":
        return name, "metrics", "text"
    if name == "inductor_provenance_tracking_node_mappings":
        return _stage_of(artefact, compile_), "provenance", "text"
    if name == "inductor_provenance_tracking_kernel_stack_traces":
        return _stage_of(artefact, compile_), "kernel lines", "text"
    if kind in _KINDS:
        stage, part, language = _KINDS[kind]
        return stage or name, part, language
    if kind == "artifact" and name in _ARTEFACTS:
        return _ARTEFACTS[name]
    return _by_name(name or kind)


def _by_name(name: str) -> tuple[str, str, str]:
    if name.endswith("_BYTECODE"):
        return ("original" if name.endswith("ORIGINAL_BYTECODE") else "modified"), "bytecode", "text"
    if name.startswith(("before_", "after_")):
        return name.replace("_", " ").removesuffix(" graph"), "passes", "python"
    if "config" in name:
        return name, "settings", "text"
    if "cache" in name:
        return name.replace("_", " "), "cache", "text"
    if any(word in name for word in _RUNTIME):
        return name.replace("_", " "), "runtime", "text" if "metadata" in name else "python"
    return name.replace("_", " "), "other", "text"


def _stage_of(artefact: Artefact, compile_: Compile | None) -> str:
    """The stage of generated code and of its provenance, which do not name their graph: the first is forward's, and the next
    backward's if there is a joint graph.
    """
    if compile_ is None:
        return "generated"
    if not compile_.of("aot_joint_graph"):
        return "inference"
    alike = compile_.of(artefact.kind, "" if artefact.kind == "inductor_output_code" else artefact.name)
    return "forward" if alike[0] is artefact else "backward"


def that_fit(contents: Contents, room: int) -> set[Payload]:
    """The payloads to read, in the order of TRACE_PARTS and small ones first, until the room is used up."""
    texts = [(artefact, each) for each in contents.compiles.values() for artefact in each.artefacts]
    every = [*texts, *((artefact, None) for artefact in contents.others)]
    ranked = sorted(every, key=lambda pair: (TRACE_PARTS.index(described(*pair)[1]), pair[0].size))
    sizes = itertools.accumulate(min(artefact.size, 2_000_000) for artefact, _ in ranked)
    return {
        artefact.payload for (artefact, _), used in zip(ranked, sizes, strict=True) if used <= room and artefact.payload is not None
    }
