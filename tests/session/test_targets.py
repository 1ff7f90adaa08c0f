"""session/targets.py: which calls of a running program are captured, row by row."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dynexplore.engine import events as ev
from dynexplore.session.code_facts import facts_of
from dynexplore.session.program_capture import ProgramCapture
from dynexplore.session.targets import FUNCTION_ROWS, MODULE_ROWS, Pattern, Targets

HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
    def forward(self, x):
        return self.layer(x).relu()

x = torch.ones(1, 2)
net = Net()
"""


def captured(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, targets: Targets | None = None, *, backend: str = "eager"
) -> ProgramCapture:
    """What is captured of a script that begins with HEAD."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + source)
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.syspath_prepend(str(tmp_path))
    capture = ProgramCapture("script.py", targets or Targets(), backend=backend)
    capture.run(lambda: exec(compile(path.read_text(), str(path), "exec"), vars(module)))
    capture.note_passed()
    return capture


TARGETS = {
    "a module": ("net(x)", ["Net.forward"]),
    "a library's module": ("nn.Sequential(nn.Linear(2, 2), nn.ReLU())(x)", ["Sequential.forward"]),
    "a module that a function without tensors runs": ("def main():\n    return net(x)\nmain()", ["Net.forward"]),
    "the outer function": ("def loss(x):\n    return net(x).sum()\nloss(x)", ["loss"]),
    "tensors in containers": ("def total(batch):\n    return batch['x'][0] + 1\ntotal({'x': [x]})", ["total"]),
    "a callable object": ("class Scale:\n    def __call__(self, x):\n        return x * 2\nScale()(x)", ["Scale.__call__"]),
    "a method of a module": ("net.encode = lambda y: y + 1\nnet.encode(x)", ["<lambda>"]),
    "two functions": ("def f(x):\n    return x + 1\ndef g(x):\n    return x * 2\ng(f(x))", ["f", "g"]),
    "a decorated function": ("@torch.no_grad()\ndef f(x):\n    return net(x)\nf(x)", ["f"]),
    "a model that an optimizer runs by a closure": (
        """
opt = torch.optim.LBFGS(net.parameters(), max_iter=1)
def closure():
    opt.zero_grad()
    loss = net(x).square().sum()
    loss.backward()
    return loss
opt.step(closure)""",
        ["Net.forward"],
    ),
    "a function named like a loop's variable": ("def step(x):\n    return x + 1\nstep(x)", ["step"]),
}
"""What is captured of a line of a script, by what it is about."""


@pytest.mark.parametrize("about", TARGETS)
def test_what_a_person_would_compile_is_captured(about: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outermost calls of modules, and the program's own functions on tensors."""
    source, names = TARGETS[about]
    capture = captured(source, tmp_path, monkeypatch)
    assert [choice.name for choice in capture.chosen] == names
    assert len(capture.recording.graphs) >= 1
    assert [began.target for began in capture.recording.of(ev.CallBegan)] == names
    assert len(capture.recording.of(ev.CallEnded)) == len(names)


PASSED: dict[str, tuple[str, str]] = {
    "library": ("import fractions\nfractions.Fraction(1, 2) + 1", ""),
    "special": ("class Data:\n    def __getitem__(self, i):\n        return x\nData()[x]", ""),
    "comprehension": ("[y + 1 for y in x]", ""),
    "driver": ("def train(x):\n    net(x).sum().backward()\ntrain(x)", "Net.forward"),
    "driver, in a callee": (
        """
def update(loss):
    loss.backward()
def fit(x):
    update(net(x).sum())
fit(x)""",
        "Net.forward",
    ),
    "driver, in a method": (
        """
class Fit:
    def run(self, x):
        self.go(net(x).sum())
    def go(self, loss):
        loss.backward()
Fit().run(x)""",
        "Net.forward",
    ),
    "driver, by a method of a class": (
        """
class Fitting(Net):
    def fit(self, x):
        self(x).sum().backward()
def fit_all(layers, x):
    for layer in layers:
        layer.fit(x)
fit_all([Fitting(), Fitting()], x)""",
        "Fitting.forward",
    ),
    "driver, for it takes gradients": (
        """
def penalty(net, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(net(x).sum(), x)[0].norm()
penalty(net, x)""",
        "Net.forward",
    ),
    "driver, for it takes gradients by another name": (
        """
from torch.autograd import grad as gradient
def penalty(net, x):
    x = x.clone().requires_grad_()
    return gradient(net(x).sum(), x)[0].norm()
penalty(net, x)""",
        "Net.forward",
    ),
    "driver, for it evaluates": (
        """
def test(net, x):
    net.eval()
    with torch.no_grad():
        return net(x).sum().item()
test(net, x)""",
        "Net.forward",
    ),
    "parameters": ("def fill(w):\n    nn.init.ones_(w)\nfill(x)", ""),
    "around": (
        """
def collate(batch):
    return batch[0][0] + 1
for one in torch.utils.data.DataLoader([(x, x)], collate_fn=collate):
    pass""",
        "",
    ),
    "around, in backward": (
        """
y = torch.ones(2, requires_grad=True)
y.register_hook(lambda g: g * 2)
(y * 2).sum().backward()""",
        "",
    ),
    "around, in a step of the program's own optimizer": (
        """
def halved(g):
    return g / 2
class Halving(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
    def step(self):
        for w in self.param_groups[0]["params"]:
            w.data -= halved(w)
Halving(net.parameters()).step()""",
        "",
    ),
    "around, in a constructor": (
        """
class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = Net()(x).numel()
Sized()""",
        "",
    ),
    "around, while a state dict is loaded": (
        """
class Renamed(Net):
    def __init__(self):
        super().__init__()
        self.register_load_state_dict_pre_hook(self.rename)
    def rename(self, module, state, *others):
        for key in list(state):
            state[key] = state.pop(key) + 0
Renamed().load_state_dict(Net().state_dict())""",
        "",
    ),
    "method of a driver": (
        """
class Rows(torch.utils.data.Dataset):
    def row(self, x):
        return x + 1
Rows().row(x)""",
        "",
    ),
    "driving arguments": (
        "def look(opt, x):\n    return x + 1\nlook(torch.optim.SGD(net.parameters(), 0.1), x)",
        "",
    ),
    "no tensor": ("def half(n):\n    return n / 2\nhalf(3)", ""),
    "loop around a model": (
        """
def generate(model, x):
    for _ in range(2):
        x = model(x)
    return x
generate(net, x)""",
        "Net.forward",
    ),
    "loop around a model, itself": (
        """
class Chat(Net):
    def generate(self, x):
        for _ in range(2):
            x = self(x)
        return x
Chat().generate(x)""",
        "Chat.forward",
    ),
}
"""Row -> a line of a script that it is about, and what is captured of it besides ("": nothing)."""


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=() if inner else pytest.mark.plain("nothing of this script is captured"))
        for row, (_, inner) in PASSED.items()
    ],
)
def test_what_drives_a_program_is_not_captured(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the table lets its own kind of function pass; modules in it are still captured."""
    source, inner = PASSED[row]
    capture = captured(source, tmp_path, monkeypatch)
    assert [choice.name for choice in capture.chosen] == ([inner] if inner else [])
    assert bool(capture.recording.graphs) is bool(inner)
    noted = {passed.row for passed in capture.recording.of(ev.TargetPassed)}
    kind = row.partition(",")[0]
    assert kind in noted or kind in ("library", "special", "comprehension")


@pytest.mark.plain("compares two tables with each other")
def test_each_row_has_a_program_here() -> None:
    """A row that nothing above is about would be one that nobody has seen decide."""
    shown = {name.partition(",")[0] for name in PASSED} | {"function on tensors", "outermost module", "compiled"}
    assert {row.id for row in (*FUNCTION_ROWS, *MODULE_ROWS)} <= shown


def test_imports_class_bodies_and_construction_are_never_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a module computes while it is imported, and a class while it is made, runs as plain Python, inner functions too."""
    (tmp_path / "part.py").write_text("import torch\ndef f(x):\n    return x + 1\nY = f(torch.ones(2))\n")
    source = "import part\nclass Box:\n    def make(x):\n        return x + 1\n    value = part.Y\nnet(part.Y)"
    capture = captured(source, tmp_path, monkeypatch)
    assert [choice.name for choice in capture.chosen] == ["Net.forward"]
    assert {code.qualname for code in (entered.code for entered in capture.recording.frames)} == {"Net.forward"}


def test_names_of_a_person_come_before_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--only captures what it names and nothing else; --not leaves out what it names; a global name means the module it holds."""
    source = "def half(n):\n    return x * n\ndef loss(y):\n    return net(y).sum()\nhalf(2)\nloss(x)"
    for only, names in {
        "half": ["half"],
        "Net": ["Net.forward"],
        "net": ["Net.forward"],
        "*.forward": ["Net.forward"],
        "script.py:15": ["half"],
        "Net.forward": ["Net.forward"],
    }.items():
        capture = captured(source, tmp_path, monkeypatch, Targets((Pattern(only),)))
        assert [choice.name for choice in capture.chosen] == names, only
    capture = captured(source, tmp_path, monkeypatch, Targets((), (Pattern("loss"),)))
    assert [choice.name for choice in capture.chosen] == ["Net.forward"] and len(capture.recording.graphs) == 1
    assert [(one.name, one.row) for one in capture.recording.of(ev.TargetPassed) if one.row == "not"] == [("loss", "not")]


def test_a_module_that_is_named_later_is_captured_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a class was not named is remembered: one of its modules may still become the global that --only names, and the class
    may get a `forward` in the line that it names.
    """
    source = """other = Net()
for _ in range(3):
    other(x)
later = other
later(x)
def forward(self, x):
    return x * 3
Net.forward = forward
net(x)"""
    for only, calls in {"later": 1, "script.py:20": 1, "Net": 5}.items():
        capture = captured(source, tmp_path, monkeypatch, Targets((Pattern(only),)))
        assert capture.call_count == calls and capture.recording.graphs, only


LOOPS_INSIDE = """
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Net() for _ in range(3))
    def forward(self, x):
        for i, _ in enumerate(self.parts):
            x = self.parts[i](x)
        return x
"""


@pytest.mark.parametrize("call", ["Deep()(x)", "Deep().forward(x)"])
def test_the_loop_that_a_module_is_may_be_captured(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module whose forward loops over its parts is one graph, also where `forward` is called by its name."""
    capture = captured(LOOPS_INSIDE + call, tmp_path, monkeypatch)
    assert [choice.name for choice in capture.chosen] == ["Deep.forward"]
    assert [graph.op_count for graph in capture.recording.graphs] == [6]


@pytest.mark.plain("reads the bytecode of two functions")
def test_a_step_that_is_no_method_drives_nothing() -> None:
    """`self.step` read as a number is no optimizer's step; called it is."""

    def reads(self: object, x: torch.Tensor) -> object:
        return x * self.step  # type: ignore[attr-defined]

    def calls(self: object, x: torch.Tensor) -> object:
        return self.step(x)  # type: ignore[attr-defined]

    assert not facts_of(reads).drives and facts_of(calls).drives


@pytest.mark.plain("reads the bytecode of functions that call each other")
def test_the_code_of_a_callee_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many functions of a large module call the same ones: the cost grows with the functions, and not with their calls."""
    names = [f"f{number}" for number in range(40)]
    source = "\n".join(f"def {name}(x):\n    return {' + '.join(f'{callee}(x)' for callee in names)}" for name in names)
    namespace: dict[str, Any] = {}
    exec(compile(source, "many_functions.py", "exec"), namespace)
    read: list[types.CodeType] = []
    instructions = dis.get_instructions

    def counted(code: types.CodeType) -> Iterator[dis.Instruction]:
        read.append(code)
        return instructions(code)

    monkeypatch.setattr(dis, "get_instructions", counted)
    for name in names:
        facts_of(namespace[name], lambda file: True)
    assert len(read) <= 2 * len(names)
