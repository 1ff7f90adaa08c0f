"""`dynexplore try`: remedies on copies of a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynexplore.cli import main
from dynexplore.engine import events as ev
from dynexplore.tools.tried_remedies import _problem, applied, try_remedies
from dynexplore.views.changes import Change
from dynexplore.views.miss_reasons import Reason
from dynexplore.views.ranked_costs import Cost
from dynexplore.views.remedies import Remedy, verdict

pytestmark = pytest.mark.plain("what is tried are programs of torch.compile")

PROGRAM = """
from pathlib import Path
import torch
from helper import scaled
g = torch.compile(scaled, backend="eager")
for n in (2, 3, 4):
    Path("written.txt").write_text(str(n))
    x = torch.ones(n, 3)
    g(x)
"""


@pytest.mark.lenses
def test_remedies_are_tried_on_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report says what each changed; modules beside the script are found, and none of the user's files is written."""
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("def scaled(x):\n    return x * 2\n")
    out = tmp_path / "out.json"
    assert main(["try", "--most", "1", "--json", str(out), str(script)]) == 0
    text = capsys.readouterr().out
    assert "train.py: 2 graphs, 0 graph breaks, 1 recompile in 3 compiled calls." in text
    assert "TORCH_COMPILE_DYNAMIC_SOURCES=\"L['x']\"" in text and "Tried: 0 recompiles instead of 1; same values." in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["helper.py", "out.json", "train.py"]
    assert script.read_text() == PROGRAM
    (tried,) = json.loads(out.read_text())["tried"]
    assert tried["helped"] and (tried["before"], tried["after"]) == ([2, 0, 1], [1, 0, 0])


@pytest.mark.lenses
def test_a_remedy_that_raises_is_told(tmp_path: Path) -> None:
    """The obvious one may be refused by torch: the program specializes the size that was to vary."""
    script = tmp_path / "specializes.py"
    script.write_text(
        "import torch\n"
        "def f(x):\n    return x * (2 if x.shape[0] == 4 else 3)\n"
        "g = torch.compile(f, backend='eager')\n"
        "for n in (4, 5, 6):\n    x = torch.ones(n, 3)\n    g(x)\n".replace("\\\n", "\n")
    )
    trial = try_remedies(script, most=2)
    refused = next(event for _, remedy, event in trial.tried if remedy.row == "mark-dynamic")
    assert "ConstraintViolationError" in refused.error and not refused.helped
    assert "Tried: does not help" in verdict(refused)
    assert refused in trial.before.recording.of(ev.RemedyTried)


@pytest.mark.lenses
def test_a_call_that_raises_is_a_compiled_call(tmp_path: Path) -> None:
    """Also if the script catches the exception: what torch.compile refused is told, and a remedy for it tried."""
    script = tmp_path / "refused.py"
    script.write_text(
        "import torch\n"
        "@torch.compile(fullgraph=True, backend='eager')\ndef f(x):\n    print('a')\n    return x + 1\n"
        "for _ in range(2):\n    try:\n        f(torch.ones(2))\n    except Exception:\n        pass\n"
    )
    trial = try_remedies(script, most=1)
    assert str(trial).startswith("refused.py: 0 graphs, 2 graph breaks, 0 recompiles in 2 compiled calls (all raised Unsupported).")
    ((_, remedy, tried),) = trial.tried
    assert remedy.row == "print" and tried.helped, tried
    assert trial.before.is_compiled and trial.before.attempts == 2


def test_there_is_no_script(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, and no traceback."""
    assert main(["try", "nowhere.py"]) != 0
    assert "there is no script nowhere.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("how", "text", "source", "changed"),
    [
        ("option", "dynamic=True", "@torch.compile\ndef f(x): ...\n", "@torch.compile(dynamic=True)\ndef f(x): ...\n"),
        ("option", "dynamic=True", "f = torch.compile(g, dynamic=None)\n", "f = torch.compile(g, dynamic=True)\n"),
        ("option", "dynamic=True", "f = torch.compile(g, dynamic=d)\n", "f = torch.compile(g, dynamic=d)\n"),
        ("option", "dynamic=True", "é = torch.compile(\n  g,\n)\n", None),
        ("top", "a.b = 1", '"""Doc."""\nfrom __future__ import annotations\nx = 1\n',
         '"""Doc."""\nfrom __future__ import annotations\nimport torch._dynamo; a.b = 1\nx = 1\n'),
    ],
    ids=["decorator", "another value", "value of the program", "over lines", "top"],
)  # fmt: skip
def test_where_a_text_goes(how: str, text: str, source: str, changed: str | None) -> None:
    """The program stays valid Python. A constant that it passes is replaced; a value that it computes stays."""
    result, environment = applied(Remedy("row", text, how, ""), None, source, "s.py")  # type: ignore[arg-type]
    compile(result, "s.py", "exec")
    assert not environment and (changed is None or result == changed) and (changed is not None or "dynamic=True" in result)


@pytest.mark.parametrize(
    ("call", "passed"),
    [
        ("f(x)", "x"),
        ("f(y, n)", "y"),
        ("print(f(x))", "x"),
        ("g(x)", "x"),
        ("model.g(x).sum()", "x"),
        ("f(torch.ones(n, 3))", None),
        ("f(make(n))", None),
        ("print(f(torch.ones(n, 3)))", None),
        ("g(torch.ones(n, 3))", None),
        ("g(F.pad(n, 3))", None),
        ("g(range(n))", None),
    ],
)
def test_the_argument_of_the_call(call: str, passed: str | None) -> None:
    """A line is put before the call about the variable that it passes; what a call in an argument is given is another value."""
    source = f"import torch\nimport torch.nn.functional as F\ndef f(x):\n    return x\nfor n in (2, 3):\n    {call}\n"
    cost = Cost("recompile", "f (s.py:3)", "", "", callers={"s.py:6": 1})
    result, _ = applied(Remedy("mark-dynamic", "mark_dynamic(x, 0)", "call", "", source="x"), cost, source, "s.py")
    lines = source.splitlines()
    assert result.splitlines() == ([*lines[:5], f"    mark_dynamic({passed}, 0)", *lines[5:]] if passed else lines)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"before": (8, 0, 7), "after": (2, 0, 1), "same_values": True}, "Tried: 1 recompile instead of 7; same values."),
        ({"before": (3, 2, 1), "after": (1, 0, 0), "same_values": None},
         "Tried: 0 graph breaks instead of 2, 0 recompiles instead of 1; no values to compare."),
        ({"before": (2, 0, 1), "after": (2, 0, 1), "same_values": True},
         "Tried: no effect on graph breaks and recompiles; same values."),
        ({"error": "there is no call for it in the script"},
         "Not tried: no call of `torch.compile` in the script can be changed to pass it."),
        ({"error": "ValueError: no"}, "Tried: does not help; the program then raises ValueError: no"),
        (
            {"error": "there is no place for it in the script"},
            "Not tried: no call in the script passes it by this name; apply it where the value is computed.",
        ),
    ],
)  # fmt: skip
def test_the_verdict_is_a_sentence(event: dict[str, object], said: str) -> None:
    """What became of the recompiles and breaks, and of the values."""
    assert verdict(ev.RemedyTried(frame=0, row="r", text="t", **event)) == said  # type: ignore[arg-type]


def test_a_remedy_stands_below_the_change_that_it_is_about() -> None:
    """Of two values that changed, the remedy of the second is not listed under the first."""
    changed = (("x", "4 elements to 7"), ("n", "1 to 2"))
    reasons = {(name, "k"): Reason(name, "k", "", "", Change(f"`{name}`", f"changed from {how}"), None) for name, how in changed}
    cost = Cost("recompile", "f (s.py:3)", "`x` changed from 4 elements to 7", "", reasons=reasons)
    assert _problem(cost, Remedy("r", "", "environment", "", "n")) == "recompile of f (s.py:3): `n` changed from 1 to 2"
    assert _problem(cost, Remedy("r", "", "environment", "", "x")) == "recompile of f (s.py:3): `x` changed from 4 elements to 7"
    broke = Cost("graph break", "s.py:3 in f", "printing", "")
    assert _problem(broke, Remedy("r", "", "top", "")) == "graph break at s.py:3 in f: printing"
