"""session/target_search.py: the targets of a program are chosen while it runs, and it can be ended when enough was seen."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dynexplore.engine import events as ev
from dynexplore.session.program_capture import ProgramCapture
from dynexplore.session.target_search import MOST_REFUSALS, ProgramStopped
from dynexplore.session.targets import Targets
from source_tree import ROOT


def ran(program: Callable[[], Any]) -> tuple[ProgramCapture, Any]:
    """A capture, and what the program returned."""
    capture = ProgramCapture("p.py", Targets())
    return capture, capture.run(lambda: program())


def test_functions_that_are_no_targets_are_not_asked_about_for_ever() -> None:
    """After some calls without a tensor the hook leaves a function alone; a target is always asked about."""

    def helper(n: int) -> int:
        return n + 1

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def program() -> None:
        for n in range(MOST_REFUSALS + 20):
            helper(n)
            doubled(torch.ones(2))

    capture, _ = ran(program)
    assert {passed.choice.name: passed.calls for passed in capture.targets.passed.values()}["helper"] == MOST_REFUSALS
    assert capture.call_count == MOST_REFUSALS + 20 and len(capture.recording.graphs) == 1


def test_a_program_is_stopped_after_so_many_calls() -> None:
    """What stops it is no Exception, so that the program does not catch it."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def program() -> None:
        while True:
            try:
                doubled(torch.ones(2))
            except Exception:
                return

    capture = ProgramCapture("p.py", Targets(), most_calls=3)
    with pytest.raises(ProgramStopped, match=r"after 3 captured calls \(--calls\)"):
        capture.run(program)
    assert capture.call_count == 3 and len(capture.recording.graphs) == 1


def test_a_call_that_is_being_captured_is_finished_before_the_program_ends() -> None:
    """`end` in the middle of a call ends the program when that call has returned, whatever the machine's speed."""
    seen: list[str] = []
    capture = ProgramCapture("p.py", Targets())

    def doubled(x: torch.Tensor) -> torch.Tensor:
        capture.end("after 1 s (--for)")
        seen.append("the call goes on")
        return x * 2

    def program() -> None:
        try:
            doubled(torch.ones(2))
        except Exception:
            seen.append("the program caught it")
        seen.append("the program goes on")

    with pytest.raises(ProgramStopped, match="after 1 s"):
        capture.run(program)
    assert seen == ["the call goes on"] and not capture.capturing
    assert [one.error for one in capture.recording.of(ev.CallEnded)] == [""] and capture.recording.graphs


@pytest.mark.plain("the end is asked for outside of any captured call")
def test_outside_of_a_call_the_program_ends_at_once_and_once() -> None:
    """Where nothing is captured `end` raises; while the program unwinds it does not raise again, unless nothing is waited for."""
    capture = ProgramCapture("p.py", Targets())
    with pytest.raises(ProgramStopped):
        capture.end("after 1 s (--for)")
    capture.end("after 1 s (--for)")
    with pytest.raises(ProgramStopped):
        capture.end("after 1 s (--for)", at_once=True)


def test_a_call_in_another_thread_is_waited_for_by_asking_again() -> None:
    """Only the main thread is ended: the end of a call in another one raises nothing there."""
    capture = ProgramCapture("p.py", Targets())
    errors: list[BaseException] = []

    def doubled(x: torch.Tensor) -> torch.Tensor:
        capture.end("after 1 s (--for)")
        return x * 2

    def work() -> None:
        try:
            capture.run(lambda: doubled(torch.ones(2)))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors and len(capture.recording.graphs) == 1
    with pytest.raises(ProgramStopped):
        capture.end("after 1 s (--for)")


@pytest.mark.plain("a process that never calls a target")
def test_a_program_without_targets_loads_no_engine() -> None:
    """What translates is imported at the first target: until then the search costs little beside the plain program."""
    code = (
        "import sys, torch\n"
        "from dynexplore.recording.recording import Recording\n"
        "from dynexplore.session.target_search import TargetSearch\n"
        "from dynexplore.session.targets import Targets\n"
        "def add(a, b): return a + b\n"
        "search = TargetSearch(Targets(), Recording(title='p'), lambda search: None)\n"
        "assert search.run(lambda: add(1, 2)) == 3\n"
        "print([name for name in sys.modules if name.startswith(('dynexplore.engine.translate', 'dynexplore.engine.variables'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


@pytest.mark.plain("a process that never calls a target")
def test_explaining_a_script_without_targets_and_files_loads_no_explorer(tmp_path: Path) -> None:
    """Beside the search a report needs the views of text alone."""
    script = tmp_path / "script.py"
    script.write_text("import atexit, sys\natexit.register(lambda: print(sorted(sys.modules)))\n")
    done = subprocess.run(
        [sys.executable, "-m", "dynexplore", "explain", str(script)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    rooms = ("engine.translate", "widgets", "ranks", "two_engines", "watching")
    loaded = [room for room in rooms if f"'dynexplore.{room}" in done.stdout]
    assert "dynexplore.views.program_report" in done.stdout and not loaded
