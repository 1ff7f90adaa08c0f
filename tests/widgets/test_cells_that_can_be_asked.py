"""The explorer that a `%%dynamo` cell shows can be asked: what if, another text, live steps; and it lets go when it ends."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref
from typing import Any
from unittest.mock import ANY

import pytest
from notebook_shell import Notebook

from dynexplore.widgets.live import SHELF, CannotAnswer
from dynexplore.widgets.turns import TURN

CELL = """%%dynamo -o rec
def f(x, n=3):
    y = x.sin() * n
    print('hi')
    return y + x
r = f(a)
f(torch.ones(4), n=2)"""


def ask(about: str, **question: Any) -> dict[str, Any]:
    """What the explorer that was shown last answers, by way of JSON."""
    seat = next(reversed(SHELF._lives))
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
    assert answer["before"]["breaks"] == 4 > json.loads(answer["data"])["story"]["breaks"] and answer["said"] == ""
    assert "new" not in notebook and all(notebook[name] is value for name, value in names.items())
    wrong = ask("rerun", frame=1, source="x = = 1")
    assert wrong["said"] == "The cell has a syntax error in line 1, invalid syntax: x = = 1." and wrong["line"] == 1
    assert ask("source", frame=2)["source"] == source  # f is defined in the cell


HELPER = """calls, scale = 0, 2.0
def helper(x):
    global calls
    calls += 1
    return x * scale"""


def test_a_function_of_another_cell_is_edited_alone(notebook: Notebook) -> None:
    """Where a function of another cell is on show, its own source is edited, with the arguments that it had."""
    notebook.run("def other(x):\n    print('x')\n    return x + 1")
    notebook.run("%%dynamo -o rec\nother(a)")
    frame = next(one.frame for one in notebook["rec"].frames if one.code.qualname == "other")
    told = ask("source", frame=frame)
    assert told["source"].startswith("def other(x):") and told["first"] == 1
    answer = ask("rerun", frame=frame, source=told["source"].replace("print('x')", "pass"))
    assert (answer["before"]["breaks"], json.loads(answer["data"])["story"]["breaks"]) == (1, 0)


def test_an_edited_cell_has_a_namespace_of_its_own(notebook: Notebook) -> None:
    """What the edited cell stores, what functions of other cells bind, and inputs written in place: the notebook has none of it."""
    notebook.run(HELPER)
    notebook.run("%%dynamo\nr = helper(a)")
    before = notebook["r"]
    assert notebook["calls"] == 1
    answer = ask("rerun", frame=1, source="a.add_(1)\nr = helper(a) + helper(a)\nnew = 1\nprint(calls)")
    assert answer["said"] == "" and answer["printed"] == "2" and answer["automatic"] == ""
    assert notebook["calls"] == 1 and notebook["r"] is before and "new" not in notebook
    assert notebook["a"].tolist() == [1.0, 1.0]


def test_a_cell_that_changes_a_global_meanwhile(notebook: Notebook) -> None:
    """An edited cell that runs in another thread leaves what the notebook binds meanwhile, and sees what was there before."""
    notebook.run(HELPER)
    notebook.run("%%dynamo\nr = helper(a)")
    session = SHELF.get(next(reversed(SHELF._lives))).session
    inside, go_on = threading.Event(), threading.Event()
    notebook.shell.user_ns["wait"] = lambda: (inside.set(), go_on.wait(20))
    done: list[Any] = []
    runs = threading.Thread(target=lambda: done.append(session.rerun("wait()\nr = helper(a)\nprint(scale, calls)")))
    runs.start()
    assert inside.wait(20)
    notebook.shell.user_ns.update(scale=3.0, later=1)  # a thread of the notebook's own does so; a cell would wait
    go_on.set()
    runs.join(60)
    assert done[0].effects.printed == "2.0 1\n" and notebook["scale"] == 3.0 and notebook["later"] == 1
    assert [one for one in done[0].effects.outside if "`scale`" in one]


def test_a_running_cell_has_precedence(notebook: Notebook) -> None:
    """While a cell runs, an edited source is not run, and what if says that it waits; a cell that begins waits for a run's end."""
    notebook.run("%%dynamo\nr = a + 1")
    notebook.shell.user_ns["in_another_thread"] = in_another_thread
    notebook.run("from dynexplore.widgets import live\nlive.CELL_PATIENCE, patience = 0.05, live.CELL_PATIENCE")
    notebook.run("answers = in_another_thread()\nlive.CELL_PATIENCE = patience")
    assert notebook.error is None
    assert notebook["answers"] == [{"busy": True, "seconds": ANY}, "A cell is running: try again when it has finished."]
    assert in_another_thread()[0]["said"] == ""
    order: list[str] = []
    notebook.shell.user_ns["order"] = order
    with TURN.question():
        cell = threading.Thread(target=lambda: notebook.shell.run_cell("order.append('cell')"))
        cell.start()
        time.sleep(0.2)
        order.append("question")
    cell.join(20)
    assert order == ["question", "cell"]


def in_another_thread() -> list[Any]:
    """What the browser is told in a thread of its own."""
    told: list[Any] = []

    def answers() -> None:
        told.append(ask("rerun", frame=1, source="r = a + 2"))
        try:
            told.append(ask("what_if", frame=1, changes={}))
        except CannotAnswer as error:
            told.append(str(error))

    thread = threading.Thread(target=answers)
    thread.start()
    thread.join(60)
    return told


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
    assert ask("rerun", frame=1, source="y = torch.ones(2).sin().cos()")["before"]["operators"] == 2
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
    live = next(reversed(SHELF._lives.values()))
    held = [weakref.ref(one) for one in (notebook["rec"], live.session, live.session.of_frame(2).args[0], notebook["a"])]
    del live
    notebook.run("a = torch.ones(2) * 2")
    gc.collect()
    assert None not in [ref() for ref in held]  # what the explorer may be asked about is there
    notebook.run(CELL, cell_id="c")
    gc.collect()
    assert [ref() for ref in held] == [None] * 4
