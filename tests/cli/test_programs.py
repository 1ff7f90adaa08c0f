"""cli/program.py: how a program starts and ends under the command line; nothing that was seen is lost."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dynexplore.cli.program import Program, _Clock, ends_in_good_order, signal_handlers_restored
from dynexplore.engine import events as ev
from dynexplore.session.program_capture import ProgramCapture
from dynexplore.session.targets import Targets
from source_tree import ROOT
from warm_python import python, run

FUNCTION = """
import sys
import torch

def double(x):
    return x * 2

double(torch.ones(2))
print("ready", flush=True)
"""


def script_of(tmp_path: Path, source: str) -> Path:
    """A script."""
    path = tmp_path / "script.py"
    path.write_text(source)
    return path


ENDING = [signal.SIGINT, signal.SIGTERM]
GRAPH = "double (script.py:5) is one graph of 1 operator"
ENDS = {
    "raise ValueError('mine')": (1, "script.py ended with ValueError: mine (script.py:11)."),
    "raise KeyboardInterrupt": (-signal.SIGINT, "script.py ended with KeyboardInterrupt (script.py:11)."),
    "import no_such_module": (1, "script.py ended with ModuleNotFoundError: No module named 'no_such_module' (script.py:11)."),
    "sys.exit()": (0, GRAPH),
    "sys.exit('no')": (1, GRAPH),
    "sys.exit(7)": (7, GRAPH),
    "raise SystemExit": (0, GRAPH),
    "raise BaseException('odd')": (1, "script.py ended with BaseException: odd (script.py:11)."),
}
"""How a script ends -> its status as subprocess gives it, and a sentence of the report."""


@pytest.mark.parametrize("end", ENDS)
def test_however_a_program_ends_the_report_follows(end: str, tmp_path: Path) -> None:
    """Report, page and recording are written, with the status and the traceback that Python would give."""
    status, sentence = ENDS[end]
    saved, page = tmp_path / "o.json", tmp_path / "o.html"
    done = run("explain", script_of(tmp_path, f"{FUNCTION}\n{end}\n"), "--json", saved, "--html", page)
    assert done.returncode == status, done.stderr
    assert sentence in " ".join(done.stdout.split())
    assert "1 graph" in done.stdout.replace("one graph", "1 graph")
    assert "double" in saved.read_text() and page.stat().st_size > 1000
    traceback = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert all("script.py" in line or "importlib" in line for line in traceback)
    assert bool(traceback) is (("raise" in end and "SystemExit" not in end) or end.startswith("import"))


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_program_in_good_order(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM leave the report of what was seen, and `finally` blocks of the program run; then the process ends by the
    signal, as under plain Python."""
    ready = 'print("ready", flush=True)'
    source = f"{FUNCTION.replace(ready, '')}\nimport time\ntry:\n    {ready}\n    time.sleep(100)\n"
    source += "finally:\n    print('cleaned up', flush=True)\n"
    command = [sys.executable, "-m", "dynexplore", "explain", str(script_of(tmp_path, source))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == -number, errors
    assert printed.startswith("cleaned up\nscript.py ended with ") and "1 graph, 0 graph breaks" in printed


@pytest.mark.plain("runs no program")
@pytest.mark.parametrize(("number", "again"), [(signal.SIGINT, "press Ctrl-C again"), (signal.SIGTERM, "send SIGTERM again")])
def test_the_first_signal_does_not_end_the_report(number: signal.Signals, again: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What comes between the end of the program and that of its report is told; the next one ends this process."""
    before = signal.getsignal(number)
    with signal_handlers_restored():
        with ends_in_good_order(Program(Path("script.py"))):
            pass
        os.kill(os.getpid(), number)
        assert capsys.readouterr().err == f"\ndynexplore: writing the report; {again} to stop\n"
        assert signal.getsignal(number) is signal.SIG_DFL
    assert signal.getsignal(number) is before


@pytest.mark.plain("ends before the engine is there")
@pytest.mark.plain("about the text of a traceback, without a program")
def test_a_traceback_is_that_of_the_program_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What ends a program while this package works stands at the line that the program was about to run, and no frame of a watch
    that only looks on is seen."""
    package = ROOT / "dynexplore"

    def raised(*files: Path | str) -> str:
        """The traceback of an error that came through functions of these files."""
        step: object = None
        for file in reversed(files):
            body = "def call():\n    raise RuntimeError('died')" if step is None else "def call():\n    step()"
            space: dict[str, object] = {"step": step}
            exec(compile(body, str(file), "exec"), space)
            step = space["call"]
        try:
            step()  # type: ignore[operator]
        except RuntimeError as error:
            Program(tmp_path / "train.py").failed(error)
        return capsys.readouterr().err

    script = tmp_path / "train.py"
    at_work = raised(script, package / "session" / "target_search.py", json.__file__)
    assert "train.py" in at_work and str(package) not in at_work and json.__file__ not in at_work
    assert at_work.endswith("RuntimeError: died\n")
    watched = raised(script, json.__file__, package / "watching" / "listener.py", os.__file__)
    assert str(package) not in watched and json.__file__ in watched and os.__file__ in watched


EARLY = """
import os, signal, sys

class Finder:
    def find_spec(name, *rest):
        if name == {name!r}:
            signal.raise_signal({number})

sys.meta_path.insert(0, Finder)
"""


@pytest.mark.plain("ends before the engine is there")
@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("name", ["dynexplore.engine", "torch"])
def test_a_signal_before_anything_was_recorded_is_one_sentence(name: str, number: signal.Signals, tmp_path: Path) -> None:
    """While this package or torch is still imported there is nothing to report, and no traceback of ours to show."""
    (tmp_path / "sitecustomize.py").write_text(EARLY.format(name=name, number=int(number)))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "dynexplore", "watch", str(script_of(tmp_path, ""))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stdout) == (-number, "")
    assert done.stderr == "dynexplore: interrupted before anything was recorded\n"


@pytest.mark.plain("ends before the engine is there")
def test_the_command_line_alone_handles_early_signals(tmp_path: Path) -> None:
    """A program that imports this package keeps Python's handlers, and so do the program of a command and what runs none."""
    prints_handlers = "import signal; print(*(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)))"
    pythons = python("-c", prints_handlers).stdout
    assert pythons == python("-c", f"import dynexplore; {prints_handlers}").stdout
    script = script_of(tmp_path, prints_handlers)
    assert run("breaks", script).stdout == pythons


def test_functions_of_atexit_run_after_ctrl_c_as_in_python(tmp_path: Path) -> None:
    """Python runs them after an uncaught Ctrl-C, and then ends by the signal."""
    source = "import atexit\natexit.register(print, 'at exit', flush=True)\nraise KeyboardInterrupt\n"
    script = script_of(tmp_path, source)
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    command = [sys.executable, "-m", "dynexplore", "explain", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert plain.returncode == done.returncode == -signal.SIGINT
    assert plain.stdout == "at exit\n" and done.stdout.endswith("\nat exit\n")
    assert plain.stderr == done.stderr


def test_a_program_that_runs_for_ever_is_ended_after_so_many_calls(tmp_path: Path) -> None:
    """`--calls` ends it with status 0; what the program catches does not stop that."""
    loop = "\nwhile True:\n    try:\n        double(torch.ones(2))\n    except Exception:\n        pass\n"
    done = run("explain", "--calls", 3, script_of(tmp_path, FUNCTION + loop))
    assert done.returncode == 0, done.stderr
    assert "is one graph of 1 operator" in done.stdout and "Traceback" not in done.stderr
    assert "in 3 calls" in " ".join(done.stdout.split())
    assert done.stdout.endswith("script.py was ended after 3 captured calls (--calls).\n")


@pytest.mark.plain("ends before anything is captured")
@pytest.mark.parametrize(
    ("command", "what"), [("explain", "a function to capture was called"), ("watch", "it called torch.compile")]
)
def test_a_program_whose_time_is_over_before_anything_was_captured_says_that_alone(command: str, what: str, tmp_path: Path) -> None:
    """`--for` ends it with status 0, and no reason is invented for what nobody saw; `finally` blocks run."""
    source = "import time\ntry:\n    time.sleep(100)\nfinally:\n    print('cleaned up')\n"
    done = run(command, "--for", "0.2s", script_of(tmp_path, source))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"cleaned up\nscript.py was ended after 0.2 s (--for), before {what}.\nAllow more time.\n"


def test_when_its_time_is_over_the_call_that_is_being_captured_is_finished(tmp_path: Path) -> None:
    """The clock rings while the only target runs, however slow the machine is: the report has its graph."""
    source = "import threading, time, torch\ndef double(x):\n    while not rung():\n        time.sleep(0.1)\n    return x * 2\n"
    source += "def rung():\n    return clock.ident is None or not clock._last == float('inf')\n"
    source += "clock = next(one for one in threading.enumerate() if one.name == 'dynexplore --for')\n"
    source += "double(torch.ones(2))\ntime.sleep(100)\n"
    path = script_of(tmp_path, source)
    program = Program(path)
    capture = ProgramCapture("script.py", Targets())
    with signal_handlers_restored(), ends_in_good_order(program, 1.0, capture.end):
        capture.run(program.as_function())
    assert (program.status, program.stopped) == (0, "after 1 s (--for)")
    assert [one.error for one in capture.recording.of(ev.CallEnded)] == [""] and capture.recording.graphs


@pytest.mark.plain("runs no program")
@pytest.mark.parametrize("is_late", [False, True], ids=["its end is processed", "it has ended"])
@pytest.mark.parametrize("number", [*ENDING, 0])
def test_a_signal_after_the_end_of_the_program_loses_nothing(
    number: int, is_late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock of `--for` (0) interrupts once more, or the user presses Ctrl-C, before the report begins."""

    def arrives() -> None:
        if not number:
            next(one for one in threading.enumerate() if isinstance(one, _Clock))._has_rung = True
        signal.raise_signal(number or signal.SIGINT)

    monkeypatch.setattr("dynexplore.cli.program.ignore_handlers_of_the_program", (lambda: None) if is_late else arrives)
    program = Program(script_of(tmp_path, "print('over')"))
    with signal_handlers_restored(), ends_in_good_order(program, 1000.0):
        program.run()
        if is_late:
            arrives()
    assert (program.status, program.error, program.stopped) == (0, "", "")
    assert ("writing the report" in capsys.readouterr().err) is bool(number)


@pytest.mark.parametrize("span", ["0", "soon", "-3s"])
@pytest.mark.plain("a mistake on the command line")
def test_a_span_that_is_none_is_refused(span: str, tmp_path: Path) -> None:
    """The sentence says what was expected."""
    done = run("explain", f"--for={span}", script_of(tmp_path, FUNCTION))
    assert done.returncode == 2 and "is not a duration such as 30s or 2m" in done.stderr


def test_a_module_is_run_as_python_runs_it(tmp_path: Path) -> None:
    """`-m PACKAGE` runs its __main__ with its arguments, from the working folder; its own functions are captured."""
    package = tmp_path / "tool"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(FUNCTION + "\nprint(sys.argv[1:], __name__, __package__)\n")
    done = run("explain", "-m", "tool", "3", "--rate", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "['3', '--rate', '1'] __main__ tool\n" in done.stdout
    assert "tool: double (__main__.py:5) is one graph of 1 operator" in done.stdout
    missing = run("explain", "-m", "tool.nothing", cwd=tmp_path)
    assert (missing.returncode, missing.stderr) == (2, "dynexplore: there is no module tool.nothing that can be run\n")


def test_a_notebook_is_run_cell_by_cell(tmp_path: Path) -> None:
    """Cells run in order in one namespace; magics are left out with a notice; places name the cell."""
    notebook = tmp_path / "demo.ipynb"
    cells = [
        {"cell_type": "markdown", "source": ["# words"]},
        {
            "cell_type": "code",
            "source": ["%matplotlib inline\n", "import torch\n", "def f(x):\n", "    print('in f')\n", "    return x + 1"],
        },
        {"cell_type": "code", "source": "!pip list\nprint(f(torch.ones(2)).tolist(), __name__)"},
    ]
    notebook.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    done = run("explain", notebook)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("in f\n[2.0, 2.0] __main__\ndemo.ipynb: 1 graph, 1 graph break")
    assert "demo.ipynb[1]:4 in f" in done.stdout and "print('in f')" in done.stdout
    assert "dynexplore: 2 lines with magics or shell commands in demo.ipynb were skipped\n" in done.stderr
    notebook.write_text("[]")
    assert run("explain", notebook).stderr == f"dynexplore: {notebook} is not a notebook: it is not JSON with a list of cells\n"


def test_worker_processes_run_plain_and_leave_no_report(tmp_path: Path) -> None:
    """Workers of a DataLoader, spawned processes and forks print what they print; one that dies ends the script; one report."""
    source = """
import multiprocessing, os, sys
import torch

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        if i >= 4:
            os._exit(3)
        return double(torch.ones(2) * i)

def double(x):
    return x * 2

def child(x):
    double(x)

if __name__ == "__main__":
    for batch in torch.utils.data.DataLoader(Data(), num_workers=1):
        double(batch)
    process = multiprocessing.get_context("spawn").Process(target=child, args=(torch.ones(1),))
    process.start()
    process.join()
    if os.fork() == 0:
        double(torch.ones(3))
        print("in the fork", flush=True)
        os._exit(0)
    os.wait()
    Data.__len__ = lambda self: 5
    for batch in torch.utils.data.DataLoader(Data(), num_workers=1):
        pass
"""
    done = run("explain", script_of(tmp_path, source))
    assert done.returncode == 1, done.stderr
    assert "in the fork" in done.stdout and done.stdout.count("script.py ended with ") == 1
    assert "Before that: 1 graph, 0 graph breaks" in " ".join(done.stdout.split())
    assert done.stderr.count("dynexplore: capturing") == 1


def test_a_long_capture_shows_that_it_is_alive_on_a_terminal_only(tmp_path: Path) -> None:
    """After two seconds inside one call a line says what is captured, and it is erased; a pipe gets none."""
    source = "import torch, time\ndef slow(x):\n    print(end='')\n    time.sleep(4)\n    return x + 1\nslow(torch.ones(2))\n"
    path = script_of(tmp_path, source)
    terminal, inside = pty.openpty()
    command = [sys.executable, "-m", "dynexplore", "explain", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=inside, cwd=ROOT)
    os.close(inside)
    seen = b""
    limit = time.monotonic() + 120
    while time.monotonic() < limit:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # what a terminal says when its other end is closed
            break
        if not part:
            break
        seen += part
    os.close(terminal)
    assert process.wait(timeout=60) == 0
    assert b"dynexplore: capturing slow: 1 function, " in seen
    assert seen.rstrip().endswith(b"\r\x1b[K") or seen.endswith(b"\r\x1b[K")
    assert "functions," not in run("explain", path).stderr
