"""Jobs for `TORCH_TRACE`: programs run in processes of their own, and logs written by hand."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

JOB = """
import contextlib, warnings
import torch
warnings.simplefilter("ignore")

@torch.compile(backend="aot_eager")
def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:  # planted comment
        b = b * -1
    return x * b

@torch.compile(backend="eager")
def scaled(x, n):
    return torch.relu(x) * n

@torch.compile(fullgraph=True, backend="eager")
def fails(x):
    print("a planted string")
    return x + 1

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.layer(x))

def refuses(graph, inputs):
    raise RuntimeError("planted words of an exception")

toy(torch.ones(3), torch.ones(3))
toy(torch.ones(3), -torch.ones(3))
for n in (2, 3):
    scaled(torch.ones(2), n)
scaled(torch.ones(5), 3)
torch.compile(Net(), backend="aot_eager")(torch.ones(2, 4)).sum().backward()
with contextlib.suppress(Exception):
    fails(torch.ones(2))
with contextlib.suppress(Exception):
    torch.compile(lambda x: x - 1, backend=refuses)(torch.ones(2))
from torch._dynamo.utils import counters
import json
print(json.dumps([counters["stats"]["unique_graphs"], counters["stats"]["calls_captured"], counters["frames"]["total"]]))
"""


@functools.cache
def traced_job() -> tuple[Path, list[int]]:
    """The folder that a job left, and what torch counted in it: graphs, operators, frames. Run once."""
    home = Path(tempfile.mkdtemp(prefix="traced-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    (home / "job.py").write_text(textwrap.dedent(JOB), encoding="utf-8")
    environment = {**os.environ, "TORCH_TRACE": str(home / "trace"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(home / "job.py")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return home / "trace", json.loads(done.stdout.splitlines()[-1])


def line(said: dict[str, Any], payload: str = "") -> str:
    """An entry as torch writes it."""
    if payload:
        said = {**said, "has_payload": f"{hash(payload) & 0xFFFFFFFF:032x}"}
    head = f"V1122 23:31:41.509000 498 torch/_dynamo/utils.py:2350] {json.dumps(said)}\n"
    return head + "".join(f"\t{row}\n" for row in payload.splitlines())


def entry(kind: str, facts: Any, payload: str = "", compilation: tuple[int, int] = (0, 0), **more: Any) -> str:
    """An entry of a compilation."""
    frame, number = compilation
    return line({kind: facts, "frame_id": frame, "frame_compile_id": number, "attempt": 0, **more}, payload)


GRAPH = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[2][1]cpu", L_n_: "Sym(s86)"):
        l_x_ = L_x_
        l_n_ = L_n_

        # File: /jobs/model.py:13 in scaled, code: return torch.relu(x) * n
        relu: "f32[2][1]cpu" = torch.relu(l_x_);  l_x_ = None
        mul: "f32[2][1]cpu" = relu * l_n_;  relu = l_n_ = None
        return (mul,)
"""


def small_log(**more: Any) -> str:
    """A log of one function that was compiled."""
    return "".join([
        line({"str": ["/jobs/model.py", 0]}),
        entry("dynamo_start", {"stack": [{"line": 11, "name": "scaled", "filename": 0}]}, **more),
        entry("dynamo_output_graph", {"sizes": {}}, GRAPH, **more),
        entry("dynamo_cpp_guards_str", {}, "TREE:\n+- RootGuardManager\n| +- DEFAULT_DEVICE: d == None  # a.py:2 in g", **more),
        entry("compilation_metrics", {"co_name": "scaled", "guard_count": 1, "entire_frame_compile_time_s": 0.5}, **more),
    ])  # fmt: skip


WATCHED = """
import contextlib, io, json, sys
sys.path.insert(0, {tests!r})
import torch
import dynexplore
from dynexplore.engine import events as ev
from watching.programs import PROGRAMS, run
told = []
for program in PROGRAMS.values():
    torch._dynamo.reset()
    with dynexplore.watch(steps=False) as seen, contextlib.redirect_stdout(io.StringIO()):
        run(program)
    told += seen.recording.events
print(json.dumps([
    sum(isinstance(one, ev.FrameEntered) for one in told),
    [one.op_count for one in told if isinstance(one, ev.SubgraphCompiled)],
    [one.kind for one in told if isinstance(one, ev.GraphBroke)],
    [[one.source, one.kind] for one in told if isinstance(one, ev.GuardFailed)],
]))
"""


def watched_job(home: Path) -> tuple[Path, list[Any]]:
    """The folder of a process that ran all programs of tests/watching, each after a reset, and what a watch saw in it."""
    program = WATCHED.format(tests=str(Path(__file__).resolve().parents[1]))
    environment = {**os.environ, "TORCH_TRACE": str(home / "trace"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return home / "trace", json.loads(done.stdout.splitlines()[-1])
