"""What `dynexplore explain` says of whole scripts: the user's function, the user's line, and nothing of what runs around it.

Each script is one of those whose report was about something else: imports, construction, the launcher, the loop around the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dynexplore import cli
from dynexplore.views.text import MOST_LINES


@dataclass(frozen=True)
class Script:
    """`says` are parts of the report (lines joined), `not_said` what it must not have; `files` lie beside the script."""

    text: str
    says: tuple[str, ...]
    not_said: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


HELPER = """
import os
def folder(path):
    return os.path.dirname(path)
HERE = folder(__file__)
SWAPPED = {value for name, value in {"a": 1, "b": 2}.items()}
def double(x):
    return x * 2
"""

BLOCKS = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Linear(n, n), nn.Linear(n, n)
    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))
net = nn.Sequential(*[Block(8) for _ in range(12)], nn.Linear(8, 2))
print(net(torch.ones(3, 8)).shape)
"""

LOADER = """
import torch
from torch.utils.data import DataLoader, TensorDataset
def train(model, loader, opt):
    total = 0
    for x, y in loader:
        opt.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        opt.step()
        total += loss.item()
    return total
m = torch.nn.Linear(4, 1)
train(m, DataLoader(TensorDataset(torch.randn(12, 4), torch.randn(12, 1)), batch_size=4), torch.optim.SGD(m.parameters(), lr=.1))
"""

CLIPS = """
import os
import torch
here = os.path.dirname(os.path.abspath(__file__))
names = [k for k in globals().items() if not k[0].startswith("_")]
m = torch.nn.Linear(3, 3)
def f(x):
    y = m(x)
    return y.sum() if y.sum() > 0 else -y.sum()
for i in range(2):
    f(torch.ones(2, 3)).backward()
    torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
"""

STEPS = """
import torch
import torch.nn as nn
import torch.nn.functional as F
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
def train_step(x, y, step):
    scale = 1.0 / (1 + step)
    return F.cross_entropy(model(x), y) * scale
def main():
    data, target = torch.randn(50, 16), torch.randint(0, 4, (50,))
    for step, start in enumerate(range(0, 50, 16)):
        loss = train_step(data[start : start + 16], target[start : start + 16], step)
        opt.zero_grad()
        loss.backward()
        opt.step()
main()
"""

LIBRARY = """
import torch
def register(function):
    return function
class Stem(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.sizes = [value for value in {"a": width, "b": width}.values()]
        self.layer = torch.nn.Linear(*self.sizes)
        torch.nn.init.kaiming_normal_(self.layer.weight)
    def forward(self, x):
        return self.layer(x).relu()
@register
def create_model(width):
    return Stem(width).eval()
"""

SCRIPTS = {
    "an import while the script runs": Script(
        "import torch\nimport helper\ndef f(x):\n    return helper.double(x) + 1\nprint(f(torch.ones(2)))\n",
        ("script.py: f (script.py:3) is one graph of 2 operators: no graph breaks, no recompiles in 1 call.",),
        files={"helper.py": HELPER},
    ),
    "calls of libraries at module level": Script(
        "import os\nimport torch\nos.path.dirname(os.path.abspath(__file__))\ndef f(x):\n    return x + 1\nf(torch.ones(2))\n",
        ("script.py: f (script.py:4) is one graph of 1 operator: no graph breaks, no recompiles in 1 call.",),
    ),
    "construction of modules": Script(
        BLOCKS, ("Sequential.forward (called at script.py:11) is one graph of 49 operators: no graph break",), ("Linear.__init__",)
    ),
    "a module that a library makes": Script(
        "import torch\nimport madelib\nmodel = madelib.create_model(4)\nwith torch.no_grad():\n    model(torch.ones(1, 4))\n",
        ("Stem.forward (called at script.py:5) is one graph of 2 operators: no graph break",),
        files={"site-packages/madelib.py": LIBRARY},
    ),
    "a loop over a loader": Script(
        LOADER,
        (
            "Linear.forward (called at script.py:8) is one graph of 1 operator",
            "Not captured: train (script.py:4): it calls step() on an optimizer",
        ),
        ("neither a tensor input",),
    ),
    "calls of libraries before a break": Script(
        "import os\nimport torch\nhere = os.path.dirname(os.path.abspath(__file__))\n"
        "names = [k for k in globals().items() if not k[0].startswith('_')]\ndef f(x):\n    y = x * 2\n    if y.sum() > 0:\n"
        "        y = y + 1\n    return y\nif __name__ == '__main__':\n"
        "    print(os.path.exists(os.path.join(here, 'a')), f(torch.ones(3)))\n",
        ("2 graphs, 1 graph break, 0 recompiles.", "The graph breaks at script.py:7 in f: `if` on a tensor value."),
        ("dirname", "startswith", "dynexplore:"),
    ),
    "a break in a function that a loop calls": Script(
        CLIPS,
        ("1 graph break", "The graph breaks at script.py:9 in f: `if` on a tensor value.", "Use torch.where"),
        ("clip_grad", "backward", "dynexplore:"),
    ),
    "a recompile of the step": Script(
        STEPS,
        ("3 graphs, 0 graph breaks, 2 recompiles.", "train_step (script.py:7) recompiled in call 2: `step` changed from 0 to 1."),
        ("backward",),
    ),
}


@pytest.mark.parametrize("cause", SCRIPTS)
def test_a_report_is_about_the_users_program(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a person would compile is named with its own line, on one screen."""
    script, path = SCRIPTS[cause], tmp_path / "script.py"
    path.write_text(script.text)
    for name, text in script.files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    assert cli.main(["explain", str(path)]) == 0
    printed = capsys.readouterr().out
    report = printed[printed.index("script.py: ") :]
    flat = " ".join(report.split())
    assert all(words in flat for words in script.says), flat
    assert not any(words in flat for words in (*script.not_said, "a bug in dynexplore")), flat
    assert len(report.rstrip("\n").split("\n")) <= MOST_LINES


ENGINE_ERROR = """
import torch
from dynexplore.engine.translate import dispatch
class Net(torch.nn.Module):
    def forward(self, x):
        return helper(x) + 1
def helper(y):
    z = torch.relu(y)
    return z % 2
def refuses(frame, step, ctx):
    raise AssertionError("no remainders today")
with dispatch.override("BINARY_OP", refuses):
    print(Net()(torch.ones(2)).tolist())
"""


@pytest.mark.engine_errors_fall_back
def test_an_engine_error_names_the_line_of_the_program_and_says_that_results_are_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that raises: the program goes on with the right result, and report and log name the program's line."""
    path = tmp_path / "script.py"
    path.write_text(ENGINE_ERROR)
    assert cli.main(["explain", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("[2.0, 2.0] script.py: a bug in dynexplore;"), printed
    assert "It failed at script.py:9 in helper: AssertionError: no remainders today" in printed
    assert "The function ran as plain Python, so its result is right." in printed
    logged = " ".join(caplog.text.split())
    assert f"at {path}:9 in helper: AssertionError: no remainders today" in logged, logged
    assert "Net.forward" in logged and "runs as plain Python, so its result is right." in logged
