"""Scripts that make torch.compile compile again and again: `dynexplore explain` names the value and the function to blame."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dynexplore import cli
from dynexplore.views.text import MOST_LINES

pytestmark = [
    pytest.mark.lenses,
    pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin:UserWarning"),
]


@dataclass(frozen=True)
class Script:
    """`says` are parts of the report (lines joined); `status` is the script's."""

    text: str
    says: tuple[str, ...]
    status: int = 0
    files: dict[str, str] = field(default_factory=dict)


BLOCKS = """
import torch
from torch import nn
class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)
    def forward(self, x):
        return torch.relu(self.lin(x))
@torch.compile(backend="eager", fullgraph=True)
def score(model, x):
    return model(x).sum()
for width in range(2, 14):
    score(Head(width), torch.ones(3, width))
"""

KEYS = """
import torch
class Patch:
    def __init__(self, key):
        self.key = key
    @torch.compile(backend="eager")
    def __call__(self, w):
        return w + 1 if self.key.endswith("bias") else w * 2
for i in range(12):
    Patch(f"blocks.{i}.weight")(torch.ones(4))
"""

DECORATED = """
import functools, torch
def checked(fn):
    @functools.wraps(fn)
    def wrapped_fn(*args, **kwargs):
        return fn(*args, **kwargs)
    return wrapped_fn
x = torch.ones(3)
for fn in (torch.sin, torch.cos, torch.exp, torch.tanh, torch.abs, torch.relu, torch.neg, torch.sqrt, torch.sign, torch.floor):
    exec(f"def {fn.__name__}_of(x):\\n    return torch.{fn.__name__}(x)")
    x = torch.compile(checked(globals()[f"{fn.__name__}_of"]), backend="eager")(x.abs())
"""

PARAMETERS = """
import torch
@torch.compile(backend="eager", fullgraph=True)
def update(ps, gs):
    for p, g in zip(ps, gs):
        p.sub_(g * 0.1)
with torch.no_grad():
    for w in (8, 16, 24, 32, 40, 48, 56, 64, 72, 80):
        update([torch.nn.Parameter(torch.ones(4, w))], [torch.ones(4, w)])
"""

INTERRUPTED = """
import torch
def f(x):
    return x.sin() + (1 if x.sum() > 0 else 2)
f = torch.compile(f, backend="eager")
for i in range(3):
    f(torch.ones(3))
raise KeyboardInterrupt
"""

COMPILED_ELSEWHERE = """
import torch
def inner(x):
    print("side")
    return x.sin()
g = torch.compile(inner, backend="eager")
"""

SCRIPTS = {
    "modules of another width": Script(
        BLOCKS,
        (
            "(script.py:14).",
            "recompile of score (script.py:10), 8 times",
            "`x` changed from size 2 to 3 in dimension 1",
            "limit of 8",
        ),
        status=1,
    ),
    "a text of the object": Script(
        KEYS,
        (
            "Patch.__call__ (script.py:6) runs as plain Python from then on: `self.key` changed from",
            "Move the code that depends on `self.key` out",
        ),
    ),
    "a decorator around many functions": Script(
        DECORATED,
        (
            "@checked (script.py:4) runs as plain Python from then on: `fn` is a different function.",
            "Compile the functions passed as `fn`, not their caller",
        ),
    ),
    "parameters of another size": Script(
        PARAMETERS, ("recompile of update (script.py:3), 8 times", "changed from size 8 to 16 in dimension 1"), status=1
    ),
    "an interrupted script": Script(
        INTERRUPTED, ("ended with KeyboardInterrupt (script.py:8).", "graph break at script.py:4 in f"), status=-signal.SIGINT
    ),
    "what a module beside it compiles": Script(
        "import torch\nimport beside_limits\nfor i in range(2):\n    beside_limits.g(torch.ones(3))\n",
        ("torch.compile of script.py", "at beside_limits.py:4 in inner"),
        files={"beside_limits.py": COMPILED_ELSEWHERE},
    ),
}


@pytest.mark.parametrize("cause", SCRIPTS)
def test_what_is_to_blame_is_named(cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report is about torch.compile, which the script calls; one place is listed once, on one screen."""
    script, path = SCRIPTS[cause], tmp_path / "script.py"
    path.write_text(script.text)
    for name, text in script.files.items():
        (tmp_path / name).write_text(text)
    assert cli.main(["explain", str(path)]) == script.status
    printed = capsys.readouterr().out
    report = printed[printed.index("torch.compile of ") :]
    flat = " ".join(report.split())
    assert all(words in flat for words in script.says), flat
    assert flat.count("recompile of ") <= 1, flat
    assert len(report.rstrip("\n").split("\n")) <= MOST_LINES
