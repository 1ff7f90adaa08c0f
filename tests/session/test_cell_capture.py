"""What a notebook cell is: one function, or a program whose targets are captured; and what stays plain in both."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.session.cell_capture import CELL_ROWS, why_program
from dynexplore.session.notebook_session import NotebookSession
from dynexplore.widgets.source import function_code

CLASSES = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.scale = scaled(torch.ones(1))
    def forward(self, x):
        return self.layer(x).relu()
"""
FUNCTIONS = """
def scaled(x):
    return x * 2
def loss_of(predicted, wanted):
    return ((predicted - wanted) ** 2).mean()
def make_net() -> torch.nn.Module:
    return Net()
def work_without_arguments():
    return torch.ones(3).sin() + 1
def train(net, data):
    for x, wanted in data:
        loss_of(net(x), wanted).backward()
"""


def namespace() -> dict[str, Any]:
    """A notebook with a module, functions, an optimizer and a loader."""
    names: dict[str, Any] = {"__name__": "__main__", "torch": torch, "nn": torch.nn, "x": torch.ones(2, 4)}
    exec(compile(FUNCTIONS + CLASSES, "In [1]", "exec"), names)
    names["net"] = names["Net"]()
    names["optimizer"] = torch.optim.SGD(names["net"].parameters(), lr=0.1)
    names["pairs"] = torch.utils.data.TensorDataset(torch.ones(8, 4), torch.ones(8, 1))
    names["loader"] = torch.utils.data.DataLoader(names["pairs"], batch_size=4)
    return names


def cell_of(text: str, names: dict[str, Any] | None = None) -> types.FunctionType:
    """A cell as the function that the magic makes of it."""
    return types.FunctionType(function_code(text, "In [2]"), namespace() if names is None else names)


def session_of(text: str, names: dict[str, Any] | None = None, only: str = "") -> tuple[NotebookSession, Any]:
    """The session of a cell that ran, and its value."""
    cell = cell_of(text, names)
    with dynexplore.config.patch(log_level="ERROR"), dynexplore.explain(cell) as watched:
        watched.explanation.follow_cell(text, function_code, only)
        value = watched()
        session = watched.explanation.session
    assert isinstance(session, NotebookSession)
    session._holds = cell
    return session, value


def captured(recording: Recording) -> list[str]:
    """The functions whose frames were translated, each once, without resume functions."""
    names = [one.code.qualname for one in recording.frames if one.code.resumes < 0]
    return list(dict.fromkeys(name.rpartition("<locals>.")[2] for name in names))


@pytest.mark.plain("decides, and runs nothing")
@pytest.mark.parametrize(
    ("text", "row", "why"),
    [
        ("y = x * 2\ny.sum()", "", ""),
        ("work_without_arguments()", "", ""),
        ("net(x)", "", ""),
        ("[isinstance(part, torch.nn.Linear) for part in net.children()]", "", ""),
        ("class A:\n    size = 3", "class", "it defines a class"),
        ("loss = net(x).sum()\nloss.backward()", "driver", "it calls backward()"),
        ("train(net, [])", "driver", "it calls backward(), in train"),
        ("data = torch.load('file.pt')", "driver", "it reads or writes files"),
        ("for a, b in loader:\n    net(a)", "driving object", "it uses a DataLoader"),
        ("first = Net()", "module", "it builds a module, Net"),
        ("first = torch.nn.Linear(2, 2)", "module", "it builds a module, Linear"),
        ("first = make_net()", "module", "it builds a module, make_net"),
    ],
)
def test_a_row_decides_what_a_cell_is(text: str, row: str, why: str) -> None:
    """Straight tensor code is one function; a cell that builds, reads or trains is a program, and each row has its case."""
    assert why_program(cell_of(text)) == (row, why)
    assert not row or row in {one.id for one in CELL_ROWS}


TRAINING = f"""
import torch
from torch.utils.data import DataLoader, TensorDataset
{CLASSES}
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for x, wanted in DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8, 1)), batch_size=4):
    loss = loss_of(net(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
losses
"""


def test_a_cell_that_trains_is_a_program_whose_module_and_loss_are_captured() -> None:
    """The loop is plain Python; `Net.forward` and the loss are one graph each, and nothing of construction, loader or optimizer."""
    torch.manual_seed(0)
    session, value = session_of(TRAINING)
    torch.manual_seed(0)
    assert value == cell_of(TRAINING)()
    assert captured(session.recording) == ["Net.forward", "loss_of"]
    assert len(session.recording.graphs) == 2
    assert not session.recording.breaks
    assert [(one.name, one.row) for one in session.recording.of(ev.TargetPassed)][:1] == [("<cell>", "class")]
    assert [one.target for one in session.recording.of(ev.CallBegan)] == ["Net.forward", "loss_of"] * 2


def test_a_module_that_is_imported_by_a_captured_cell_runs_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs while an import is in progress is not captured; the cell's own lines are."""
    lines = "import torch\ndef table(x):\n    return x.sin() * 2\nTABLE = table(torch.ones(4))\n"
    (tmp_path / "computes_when_imported.py").write_text(lines)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "computes_when_imported", raising=False)
    session, value = session_of("import computes_when_imported\ny = x * 2\ny.sum()")
    assert value == 16
    assert captured(session.recording) == ["<cell>"]
    assert [graph.op_count for graph in session.recording.graphs] == [2]


def test_what_a_loader_runs_is_not_captured_in_a_function_that_iterates_it() -> None:
    """A collate function has tensors as arguments, but a data loader runs it."""
    names = namespace()
    exec(compile("def collated(items):\n    return torch.stack([a for a, _ in items]) * 2", "In [1]", "exec"), names)
    names["batches"] = [torch.utils.data.DataLoader(names["pairs"], batch_size=4, collate_fn=names["collated"])]
    session, value = session_of("total = x.sum()\nfor a in batches[0]:\n    total = total + a.sum()\ntotal", names)
    assert value == 72
    assert "collated" not in captured(session.recording)
    assert session.recording.graphs


def test_a_function_that_a_class_body_calls_is_not_captured() -> None:
    """A class body runs while a class is defined; what it calls is part of that."""
    text = "class Table:\n    values = scaled(torch.ones(3))\ny = loss_of(Table.values, Table.values)\ny"
    session, _ = session_of(text)
    assert captured(session.recording) == ["loss_of"]


def test_a_function_without_arguments_is_captured_in_a_cell_as_before() -> None:
    """The code of a cell is one function, with the functions that it calls: none of them needs an argument."""
    session, _ = session_of("y = work_without_arguments() + x.sum()")
    assert [graph.op_count for graph in session.recording.graphs] == [5]


def test_only_names_what_a_program_captures() -> None:
    """With `-f loss_of` the other targets of a cell run as plain Python."""
    session, _ = session_of("class A:\n    pass\nloss_of(net(x), x)", only="loss_of")
    assert captured(session.recording) == ["loss_of"]


def test_the_session_of_a_program_answers() -> None:
    """What-if says why it is plain, an edited text runs, frames of targets can be asked, and a live run steps through them."""
    session, _ = session_of("other = Net()\nother(x)")
    assert session.what_if(x={"shape": (3, 4)}).outcome == "plain Python"
    assert "it builds a module, Net" in session.predict().reason
    assert session.check() == []
    edited = session.rerun("other = Net()\nother(x) * 2")
    assert edited.error == ""
    frame = session.recording.frames[0].frame
    assert session.of_frame(frame).predict(session.namespace["other"], torch.ones(2, 4)).outcome == "hit"
    with session.live() as run:
        run.finish()
        assert captured(run.recording) == ["Net.forward"]


@pytest.mark.plain("says why nothing is captured")
def test_what_a_cell_that_captures_nothing_says() -> None:
    """The headline gives the reason: it is a program, and nothing in it is a target."""
    session, _ = session_of("class A:\n    size = 3")
    assert "It runs as plain Python (it defines a class)" in dynexplore.views.text.explanation(session.recording)
