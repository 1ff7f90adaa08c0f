"""`dynexplore fix`: a patch that was tried, and the user's files only with --write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dynexplore.cli import main
from dynexplore.engine import events as ev
from dynexplore.recording.engines import TORCH
from dynexplore.recording.recording import Recording
from dynexplore.tools import proposed_patch
from dynexplore.tools.scratch_runs import CannotTry, Run

pytestmark = pytest.mark.plain("what is patched are programs of torch.compile")

PROGRAM = """import torch
from layers import f
g = torch.compile(f, backend="eager")
for sign in (1, -1):
    g(torch.ones(3) * sign)
"""
LAYERS = """def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1
"""


@pytest.mark.lenses
def test_a_patch_of_a_module_beside_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed as a diff, the report beside it, and written only with --write."""
    script, layers = tmp_path / "train.py", tmp_path / "layers.py"
    script.write_text(PROGRAM)
    layers.write_text(LAYERS)
    assert main(["fix", str(script)]) == 0
    shown = capsys.readouterr()
    assert shown.out == (
        "--- a/layers.py\n+++ b/layers.py\n@@ -1,4 +1,3 @@\n+import torch\n def f(x):\n-    if x.sum() > 0:\n"
        "-        return x + 1\n-    return x - 1\n+    return torch.where(x.sum() > 0, x + 1, x - 1)\n"
    )
    assert "graphs became 1, 1 graph break became 0, same values." in shown.err
    assert (script.read_text(), layers.read_text()) == (PROGRAM, LAYERS)


def test_there_is_no_script(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, and no traceback."""
    assert main(["fix", "nowhere.py"]) == 2
    assert "there is no script nowhere.py" in capsys.readouterr().err


# -- the search, on runs that are made up --------------------------------------------------------------------------------

ITEM = "import torch\ndef f(x):\n    s = x.sum().item()\n    y = x if s > 0 else -x\n    return y\n"


class Made:
    """Runs whose breaks are those lines of the script that contain `.item()` or ` if `; `wrong` texts compute other values."""

    def __init__(self, script: Path, wrong: str = "no such text", differing: int = 0) -> None:
        self.script, self.wrong, self.differing = script, wrong, differing
        self.count = 0

    def run(self, changes: Mapping[str, str], environment: object = None, *, eager: bool = False) -> Run:
        self.count += 1
        text = changes.get(self.script.name) or self.script.read_text()
        recording = Recording(engine=TORCH)
        lines = [number for number, line in enumerate(text.splitlines(), 1) if ".item()" in line or " if " in line]
        for line in lines[:1]:  # an `if` on a number does not break the graph
            place = ev.UserFrame(str(self.script.parent / self.script.name), line, "f", text.splitlines()[line - 1])
            recording.record(
                ev.GraphBroke(frame=0, attempt=0, offset=0, kind="GB0170", title="t", reason="r", user_stack=(place,))
            )
        folder, differing = str(self.script.parent), self.differing * eager
        return Run(recording, [self.wrong in text], "", "", folder=folder, differing_branches=differing)


def searched(tmp_path: Path, most: int = 16, **kwargs: object) -> tuple[proposed_patch.Patch, Made]:
    script = tmp_path / "s.py"
    script.write_text(ITEM)
    runs = Made(script, **kwargs)  # type: ignore[arg-type]
    return proposed_patch._Search(runs, most).patch(), runs  # type: ignore[arg-type]


def test_two_changes_that_help_together(tmp_path: Path) -> None:
    """`.item()` alone moves the break to the `if`; the patch has both."""
    patch, _ = searched(tmp_path)
    assert [step.fix.id for step in patch.steps] == ["no-item", "where"] and not patch.failed
    assert "+    s = x.sum()\n+    y = torch.where(s > 0, x, -x)\n" in patch.diff
    patch.script.write_text("changed since")
    with pytest.raises(CannotTry, match="has changed since"):
        patch.write()
    patch.script.write_text(ITEM)
    assert patch.write() == [patch.script] and "torch.where" in patch.script.read_text()


@pytest.mark.parametrize(
    ("made", "words"),
    [({"wrong": "where"}, "other values"), ({"differing": 1}, "the branches differ in shape or dtype")],
)
def test_a_change_that_is_wrong_is_not_kept(tmp_path: Path, made: dict[str, object], words: str) -> None:
    """Other values, or branches that only happened to be alike: no patch, and the reason."""
    patch, _ = searched(tmp_path, **made)
    assert not patch.steps and not patch.diff
    assert words in str(patch) and "none helped" in str(patch)


def test_the_runs_are_limited(tmp_path: Path) -> None:
    """The search ends with what it has."""
    patch, runs = searched(tmp_path, most=2)
    assert runs.count == 2 and not patch.steps


def test_nothing_to_fix(tmp_path: Path) -> None:
    """And a program that raises is reported as such, and one without torch.compile."""
    fine = Run(Recording(engine=TORCH), [1], "", "")
    assert str(proposed_patch.Patch(tmp_path / "s.py", fine, fine)).endswith("Nothing to fix.")
    plain = Run(Recording(engine=TORCH), [], "", "")
    nothing = "s.py called nothing that torch.compile compiles, so there is nothing to fix."
    assert str(proposed_patch.Patch(tmp_path / "s.py", plain, plain)) == nothing
    caught = Run(Recording(engine=TORCH), [], "", "", attempts=2, raised="KeyError")
    of_all = "s.py: 0 graphs, 0 graph breaks, 0 recompiles in 2 compiled calls (all raised KeyError).\nNothing to fix."
    assert str(proposed_patch.Patch(tmp_path / "s.py", caught, caught)) == of_all
    failed = Run(Recording(engine=TORCH), [], "", "ValueError: no")
    assert str(proposed_patch.Patch(tmp_path / "s.py", failed, failed)).endswith("It raised ValueError: no")


def test_places_have_the_lines_of_the_users_file(tmp_path: Path) -> None:
    """Also after a change that added lines above them: the next one's place is where the user finds it."""
    script = tmp_path / "s.py"
    script.write_text(ITEM)
    search = proposed_patch._Search(Made(script), 4)  # type: ignore[arg-type]
    changed = proposed_patch._State({"s.py": f"import os\nimport sys\n{ITEM}"}, search._before)
    assert search._place_in_user_file("s.py:6 in f", changed) == "s.py:4 in f"
    assert search._place_in_user_file("f, from line 7 on (s.py:7)", changed) == "f, from line 5 on (s.py:5)"
    last = len(ITEM.splitlines())
    below = proposed_patch.original_lines(ITEM, f"{ITEM}\nx = 1\ny = 2\n")
    assert (below[1], below[last], below[last + 2]) == (1, last, last), "what was added at the end is nearest to the last line"
    assert search._place_in_user_file("others.py:6 in f", changed) == "others.py:6 in f"
