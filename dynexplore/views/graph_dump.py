"""`dynexplore open DIR --dump OUT`: the graphs of a recording as text files, nested by module, with an index.

The idea: to compare two jobs, or to search a model of a hundred layers, people write a script that prints every graph. Here each
graph becomes one file, named after the user's function, with its operators below the module that computes them and the line of the
program beside them; another one has its kernels, if the log relates them to operators. The index lists them with their sizes,
breaks and files. `stacks.txt` has the callers of all compilations. The texts contain no times or addresses, so that two dumps can
be compared with `diff -r`.

In: a Recording, a folder. Out: `dump(recording, folder)`, the files written, the index first; `graph_text(graph)`.

PyTorch's counterpart: `TORCH_LOGS=graph_code`, which prints graphs between other messages; vLLM's `compilation_config` dumps.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from dynexplore.engine import events as ev
from dynexplore.recording.recording import GraphView, Recording
from dynexplore.views import text
from dynexplore.views.counts import plural
from dynexplore.views.names import frame_name, short_file
from dynexplore.views.stack_trie import trie_lines

_LONGEST_NAME = 60


def dump(recording: Recording, folder: Path) -> list[Path]:
    """Write the graphs; return the files. Raises OSError if the folder has files already, or cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(17, "it is not empty")
    names = {entered.frame: frame_name(recording, entered) for entered in recording.frames}
    rows: list[tuple[str, ...]] = []
    files: list[Path] = []
    for number, graph in enumerate(recording.graphs, 1):
        function = names.get(graph.frame, "")
        name = f"{number:03}_{_as_file_name(function)}.txt"
        file = folder / name
        file.write_text(f"{function}, graph {graph.name}\n\n{graph_text(graph)}\n", encoding="utf-8")
        files.append(file)
        if kernels := _kernels_of(recording, graph):
            file = file.with_suffix(".kernels.txt")
            file.write_text(f"{function}, graph {graph.name}\n\n{kernels}\n", encoding="utf-8")
            files.append(file)
        broke = next(iter(recording.of_frame(graph.frame, ev.GraphBroke)), None)
        modules = len({node.module for node in graph.nodes if node.module})
        rows.append((name, function, graph.name, str(graph.op_count), str(modules), broke.title if broke else ""))
    if stacks := trie_lines(recording):
        files.append(folder / "stacks.txt")
        files[-1].write_text("\n".join(stacks) + "\n", encoding="utf-8")
    index = folder / "index.txt"
    header = ("file", "function", "graph", "operators", "modules", "ends with a break")
    table = text.table(header, rows) if rows else "Nothing was captured."
    index.write_text(f"{recording.title}: {plural(len(rows), 'graph')}\n\n{table}\n", encoding="utf-8")
    return [index, *files]


def _kernels_of(recording: Recording, graph: GraphView) -> str:
    """Which operators and lines each kernel of a graph computes, stage by stage; "" if the recording does not contain it."""
    texts = [event for event in recording.of_frame(graph.frame, ev.ArtifactEmitted) if event.part in text.TITLES]
    return "\n\n".join(f"{text.artifact_title(event)}\n{event.text}" for event in texts if event.graph == graph.name)


def _as_file_name(function: str) -> str:
    """A name without characters that a file system refuses.

    >>> _as_file_name("Block.forward, from line 8 on"), _as_file_name("<lambda>")
    ('Block.forward_from_line_8_on', 'lambda')
    """
    return re.sub(r"[^\w.-]+", "_", function).strip("_")[:_LONGEST_NAME] or "graph"


def graph_text(graph: GraphView) -> str:
    """The nodes of a graph, one a line, below the modules that compute them."""
    return "\n".join(_lines(graph))


def _lines(graph: GraphView) -> Iterator[str]:
    path: list[str] = []
    for module, group in itertools.groupby(graph.nodes, lambda node: node.module):
        nodes = list(group)
        parts = module.split(".") if module else []
        common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(path, parts, strict=False)))
        for depth in range(common, len(parts)):
            yield f"{'  ' * depth}{parts[depth]}:"
        path = parts
        yield from (f"{'  ' * len(parts)}{_line(node)}" for node in nodes)


def _line(node: ev.NodeAdded) -> str:
    kind = f": {node.dtype}{node.shape}" if node.dtype else ""
    place = f"  # {short_file(node.file)}:{node.line}" if node.file and node.line > 0 else ""
    if node.op == "placeholder":
        return f"input {node.name}{kind}"
    if node.op == "output":
        return f"return {node.args}"
    named = "" if node.kwargs in ("", "{}") else f", {node.kwargs}"
    return f"{node.name}{kind} = {node.target}({node.args.strip('()').rstrip(',')}{named}){place}"
