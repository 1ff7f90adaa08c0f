"""Write the illustrated registry: a page for each kind of graph break of dynexplore, and for fifty of torch.compile.

    python scripts/break_pages.py [OUT]        (OUT is docs/breaks)

Which idea lives here: a page is a row of a table, which has the program, the same program fixed, and the reasons. How many graphs
dynexplore makes of one of torch.compile's programs is not in the table: each is run.

In:  KINDS of dynexplore/engine/graph_breaks.py; docs/breaks/acceptable.py; docs/breaks/torch_breaks.py.
Out: OUT/dx104.md, OUT/gb0170.md ..., and OUT/index.md; tests/docs/test_break_pages.py compares them with what this script writes.

scripts/gallery.py makes the explorers of the pages.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import dynexplore
from dynexplore.engine.graph_breaks import KINDS, THEMES, Kind, result_of_fix

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "breaks"
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from docs.breaks.acceptable import ACCEPTABLE  # noqa: E402
from docs.breaks.torch_breaks import ROWS, TorchBreak  # noqa: E402

NOTE = "<!-- Generated: python scripts/break_pages.py -->"


# -- running a program ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def loaded(name: str, source: str) -> Iterator[dict[str, Any]]:
    """The namespace of a program; tracebacks and explorers show its lines."""
    text = source.strip() + "\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names: dict[str, Any] = {"__name__": "example", "torch": torch, "dynexplore": dynexplore}
    exec(compile(text, name, "exec"), names)
    yield names
    del linecache.cache[name]


def explained(id: str, example: str, engine: str = "dynexplore") -> Any:
    """The explanation of one call of a program's `f`."""
    with (
        loaded(f"{id.lower()}.py", example) as names,
        dynexplore.config.patch(log_level="ERROR", **names.get("options", {})),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        dynexplore.explain(names["f"], engine=engine) as compiled,
    ):
        with contextlib.suppress(ValueError):  # one of the examples raises it
            compiled(*names.get("args", (torch.ones(3),)))
    return compiled.explanation


# -- pages ---------------------------------------------------------------------------------------------------------------


def page_of_kind(kind: Kind, also: list[TorchBreak]) -> str:
    """The page of one of dynexplore's kinds."""
    lines = [f"# {kind.id}: {kind.title}", "", NOTE, "", _status(kind), ""]
    if kind.example:
        lines += _program(kind.id, kind.example, "The explorer for this program. Press `b` to go to the graph break.")
    lines += ["## Why it breaks", "", kind.why, "", "## Fix", "", kind.fix, ""]
    if kind.fixed:
        lines += [kind.result_of_fix, "", *_code(kind.fixed)]
    lines += ["## When you can ignore it", "", ACCEPTABLE[kind.id], ""]
    if also:
        links = [f"- {_link(row)}" for row in also]
        lines += ["## In torch.compile", "", "torch.compile reports breaks of this kind as:", "", *links, ""]
    return "\n".join(lines)


def page_of_torch_break(row: TorchBreak, explanation: Any) -> str:
    """The page of one of torch.compile's kinds; `explanation` is dynexplore's explanation of the same program."""
    site = f"https://meta-pytorch.org/compile-graph-break-site/gb/{row.id.lower()}.html"
    hits = f" [Seen in](index.md#how-they-were-counted) {_hits(row)}." if _hits(row) else ""
    lines = [f"# {row.id}: {row.title}", "", NOTE, ""]
    lines += [f"A graph break of torch.compile. See also [PyTorch's page]({site}).{hits}", ""]
    old = f"The explorer for this program under torch.compile {row.version}, which breaks here. Newer versions capture it."
    seen = old if row.version else "The explorer for this program under torch.compile."
    lines += _program(row.id, row.example, seen)
    lines += ["## Why it breaks", "", row.why, "", "## Fix", "", row.fix, ""]
    lines += [result_of_fix(row.compiled), "", *_code(row.fixed)]
    lines += ["## When you can ignore it", "", row.acceptable, "", "## In dynexplore", "", _in_dynexplore(explanation), ""]
    return "\n".join(lines)


def _hits(row: TorchBreak) -> str:
    parts = [f"{row.models} model{'s' * (row.models != 1)}"] if row.models else []
    parts += [f"{row.files}{' or more' * (row.files == 10)} file{'s' * (row.files != 1)}"] if row.files else []
    return ", ".join(parts)


def _link(row: TorchBreak) -> str:
    return f"[{row.id}]({row.id.lower()}.md): {row.title}"


def _in_dynexplore(explanation: Any) -> str:
    kinds = sorted({broke.kind for broke in explanation.recording.breaks})
    graphs = f"{explanation.graph_count} graph{'s' * (explanation.graph_count != 1)}"
    if not kinds:
        return f"dynexplore captures this program in {graphs}, without a graph break."
    links = ", ".join(f"[{kind}: {KINDS[kind].title}]({kind.lower()}.md)" for kind in kinds)
    return f"dynexplore captures this program in {graphs}. The graph break is reported as {links}."


def _status(kind: Kind) -> str:
    if kind.fundamental:
        return "*Fundamental*: future versions of dynexplore will break here, too."
    return "*Not supported yet*: a future version of dynexplore may capture this code."


def _program(id: str, source: str, seen: str) -> list[str]:
    return [*_code(source), f"```{{explorer}} {id.lower()}", seen, "```", ""]


def _code(source: str) -> list[str]:
    return ["```python", source.strip(), "```", ""]


# -- the index -----------------------------------------------------------------------------------------------------------


def index() -> str:
    """All pages, by theme and by how often they are met."""
    lines = ["# Graph breaks, illustrated", "", NOTE, ""]
    lines += [
        "Look up a graph break from your report by its id, or search this site for its message. Each page shows a short program",
        "that breaks, an explorer to step through it, the fixed program, and cases in which you can ignore the break.",
        "",
        "`DX` ids are dynexplore's, and `GB` ids are torch.compile's.",
        "",
    ]
    for prefix, theme in THEMES.items():
        lines += [f"## {theme}", ""]
        lines += [f"- [{kind.id}]({kind.id.lower()}.md): {kind.title}" for kind in KINDS.values() if kind.id.startswith(prefix)]
        lines += [""]
    counted = sum(bool(row.models or row.files) for row in ROWS)
    lines += [f"## torch.compile: the {counted} most frequent", ""]
    lines += [f"{rank}. {_link(row)} ({_hits(row)})" for rank, row in enumerate(ROWS[:counted], 1)]
    lines += ["", f"## torch.compile: {len(ROWS) - counted} more", ""]
    lines += ["These occur in ordinary programs, although they were found neither in the corpus nor by the code search below.", ""]
    lines += [f"- {_link(row)}" for row in ROWS[counted:]]
    lines += [
        "",
        "## How they were counted",
        "",
        "*Models* are the models in the corpus",
        "[penguinwu/oss-model-graph-break-corpus](https://github.com/penguinwu/oss-model-graph-break-corpus) whose results contain",
        "the break; `python scripts/count_torch_breaks.py CLONE` counts them in a clone. *Files* are public files on GitHub that",
        "link to PyTorch's page about the break, counted by a code search in November 2026 that returns at most ten files.",
        "Kinds with equal counts are ordered by how many `DX` programs on these pages break there under",
        "torch.compile. GB0213 occurs in two models of the corpus but has no page, because no short program that breaks there is",
        "known.",
        "",
        "```{toctree}",
        ":hidden:",
        ":glob:",
        "",
        "dx*",
        "gb*",
        "```",
    ]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """The text of each page, by the name of its file."""
    dynexplore.reset()
    explanations = {row.id: explained(row.id, row.example) for row in ROWS}
    kinds_of = {id: {broke.kind for broke in explanation.recording.breaks} for id, explanation in explanations.items()}
    texts = {f"{row.id.lower()}.md": page_of_torch_break(row, explanations[row.id]) for row in ROWS}
    for kind in KINDS.values():
        texts[f"{kind.id.lower()}.md"] = page_of_kind(kind, [row for row in ROWS if kind.id in kinds_of[row.id]])
    return {**texts, "index.md": index()}


def main() -> None:
    """Write them all."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    for name, text in pages().items():
        (out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
