"""The explorer that a `%%dynamo` cell shows can be asked: what if, another text, live steps; and it lets go when it ends."""

from __future__ import annotations

import gc
import json
import time
import weakref
from typing import Any

import pytest
from notebook_shell import Notebook

from dynexplore.widgets.live import SHELF, CannotAnswer

CELL = """%%dynamo -o rec
def f(x, n=3):
    y = x.sin() * n
    print('hi')
    return y + x
r = f(a)
f(torch.ones(4), n=2)"""


def ask(about: str, **question: Any) -> dict[str, Any]:
    """What the explorer that was shown last answers, by way of JSON."""
    seat = next(reversed(SHELF._held))
    answer, _ = seat.answerers[about](json.loads(json.dumps(question)))
    found: dict[str, Any] = json.loads(json.dumps(answer))
    return found


def test_a_cell_and_its_functions(notebook: Notebook) -> None:
    """Without a frame and with the cell's own, the cell; with a function's frame, that function as it was called."""
    notebook.run(CELL)
    for frame in (None, 1):
        told = ask("inputs", frame=frame)
        assert told["about"].startswith("the cell") and [one["path"] for one in told["inputs"]] == ["a"]
    functions = [one.frame for one in notebook["rec"].frames if one.code.qualname == "f"]
    told = [ask("inputs", frame=frame) for frame in functions]
    assert [one["about"] for one in told] == [f"f, as it was called for frame {frame}" for frame in functions]
    assert [one["inputs"][0]["shape"] for one in told] == [[2], [4]]
    assert ask("what_if", frame=functions[0], changes={"x": {"dtype": "float64"}})["outcome"] == "recompile"
    assert ask("what_if", frame=functions[0], changes={})["outcome"] == "hit"
    assert ask("what_if", frame=1, changes={"a": {"shape": [7]}})["outcome"] == "recompile"
    with pytest.raises(CannotAnswer, match="there is no input 'n'; the inputs are: a"):
        ask("what_if", frame=1, changes={"n": {"value": "7"}})


def test_the_text_of_a_cell_can_be_edited(notebook: Notebook) -> None:
    """Its text comes without the line of the magic; changed it runs again, and the notebook's names stay."""
    notebook.run(CELL)
    names = dict(notebook.shell.user_ns)
    source = ask("source", frame=1)["source"]
    assert source == CELL.partition("\n")[2] + "\n"
    answer = ask("rerun", frame=1, source=source.replace("    print('hi')\n", "") + "%who_ls int\nnew = 1\n")
    breaks = answer["numbers"][2]
    assert breaks["before"] == 4 > breaks["after"] and answer["raised"] == ""
    assert "new" not in notebook and all(notebook[name] is value for name, value in names.items())
    with pytest.raises(CannotAnswer, match=r"The cell has a syntax error in line 1, invalid syntax: x = = 1\."):
        ask("rerun", frame=1, source="x = = 1")
    answer = ask("rerun", frame=2, source=ask("source", frame=2)["source"].replace("print('hi')", "pass"))
    assert answer["numbers"] == [
        {"name": "graphs", "before": 2, "after": 1},
        {"name": "operators", "before": 3, "after": 3},
        {"name": "breaks", "before": 1, "after": 0},
    ]


def test_live_steps_of_a_cell(notebook: Notebook) -> None:
    """A run is that of the frame that was on show when it was started, and says so, whatever is on show later."""
    notebook.run(CELL)
    names = dict(notebook.shell.user_ns)
    for frame, about, name in ((1, "the cell", "<cell>"), (2, "f, as it was called for frame 2", "f")):
        assert ask("live", act="start", frame=frame)["about"].startswith(about)
        stand = ask("live", act="step", count=3, frame=5)
        assert stand["about"].startswith(about) and stand["function"] == name
        stand = ask("live", act="until", what="end")
        while stand["status"] == "running":
            time.sleep(0.01)
            stand = ask("live", act="look")
        assert stand["status"] == "finished" and stand["value"].startswith("tensor(")
    assert all(notebook[name] is value for name, value in names.items())


def test_only_some_functions(notebook: Notebook) -> None:
    """-f NAME: the frames are of that function alone, each to be asked about; also one whose name is free again."""
    notebook.run("def g(x, n):\n    return x * n")
    notebook.run("%%dynamo -o rec -f g\nfor n in (2, 3):\n    g(a, n)\ndel g")
    assert [ask("inputs", frame=one.frame)["inputs"][1]["text"] for one in notebook["rec"].frames] == ["2", "3"]
    assert ask("what_if", frame=1, changes={"n": {"value": "3"}})["outcome"] == "hit"


def test_a_cell_that_reads_nothing(notebook: Notebook) -> None:
    """There is nothing to change, but it can be edited and stepped."""
    notebook.run("%%dynamo\nx = torch.ones(3)\ny = x + 1\ny")
    assert ask("inputs", frame=1)["inputs"] == []
    assert ask("rerun", frame=1, source="y = torch.ones(2).sin().cos()")["numbers"][1] == {
        "name": "operators",
        "before": 2,
        "after": 3,
    }
    assert ask("live", act="start", frame=1)["status"] == "parked"


def test_the_line_form(notebook: Notebook) -> None:
    """`%dynamo expression` can be asked, too."""
    notebook.run("def g(x, n):\n    return x * n")
    notebook.run("%dynamo g(a, 3)")
    assert ask("what_if", frame=1, changes={"a": {"shape": [3]}})["outcome"] == "recompile"


def test_running_it_again_frees_what_was_held(notebook: Notebook) -> None:
    """Recording, session and the inputs that were held for questions are free when the cell runs again or is deleted."""
    notebook.run(CELL, cell_id="c")
    ask("live", act="start", frame=1)
    live = next(reversed(SHELF._held.values()))
    held = [weakref.ref(one) for one in (notebook["rec"], live.session, live.session.of_frame(2).args[0], notebook["a"])]
    del live
    notebook.run("a = torch.ones(2) * 2")
    gc.collect()
    assert None not in [ref() for ref in held]  # what the explorer may be asked about is there
    notebook.run(CELL, cell_id="c")
    gc.collect()
    assert [ref() for ref in held] == [None] * 4
