"""Cuts a log of TORCH_TRACE down to what tests need: `python tests/traces/cut_log.py DIR PLACE OUT`.

Left out are what the reader passes over, settings, programs of graphs, and torch's own stacks; PLACE, the folder of the job,
becomes `/jobs`; OUT is compressed. logs/ has what is left of logs/job.py under older versions of torch:
`TORCH_TRACE=DIR python job.py inductor`.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from pathlib import Path

from dynexplore.traces.compiles import relevant_metrics
from dynexplore.traces.folder import logs_in
from dynexplore.traces.trace_log import TraceLog

_LEFT_OUT = ("chromium_event", "describe_tensor", "describe_storage", "fx_graph_runnable", "torch._functorch.config", "fw_metadata")
_SETTINGS = ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit")
_OF_TORCH = re.compile(r'  File "[^"]*?/site-packages/torch/[^\n]*\n(?:    [^\n]*\n)*')


def cut(path: Path, place: str) -> str:
    """What is kept of a log."""
    kept = []
    log = TraceLog(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    heads = [line for line in lines if not line.startswith("\t")]
    for head, entry in zip(heads, log, strict=True):
        if any(word in (entry.kind, entry.name) or entry.name.endswith(word) for word in _LEFT_OUT):
            continue
        text = log.text(entry.payload) if entry.payload is not None else ""
        said, begin = _said(entry.kind, json.loads(head[head.index("] {") + 2 :])), head[: head.index("] {") + 2]
        kept.append(re.sub(r"\S+?/site-packages/", "", begin) + json.dumps(said))
        rows = _OF_TORCH.sub("", text + "\n").splitlines() if text else []
        kept += [f"\t{row.rstrip()}" for row in rows[: 12 if entry.kind == "inductor_output_code" else None]]
    cleaned = re.sub(r"/\S+?/site-packages/", "", "\n".join(kept)).replace(place, "/jobs")
    return re.sub(r'(?<=")/[^" ]*?/(?=\w\w/\w{52}\.\w+")', "/tmp/", cleaned) + "\n"


def _said(kind: str, said: dict[str, object]) -> dict[str, object]:
    facts = said.get(kind)
    if isinstance(facts, dict) and kind.endswith("compilation_metrics"):
        settings = json.loads(facts.get("dynamo_config") or "{}")
        limits = {name: settings[name] for name in _SETTINGS if name in settings}
        names = sorted({*relevant_metrics(facts), "start_time", "start_time_us"} - {"compiler_config"})
        said[kind] = {name: facts[name] for name in names if facts.get(name)} | {"dynamo_config": json.dumps(limits)}
    elif isinstance(facts, dict):
        said[kind] = {name: value for name, value in facts.items() if name not in ("stack", "user_stack") or kind == "dynamo_start"}
    return said


if __name__ == "__main__":
    folder, place, out = sys.argv[1:]
    Path(out).write_bytes(lzma.compress(cut(logs_in(Path(folder))[0], place).encode()))
