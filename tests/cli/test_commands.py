"""The command line: its own options, what it says when something is wrong, and what a script gets to see."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from doc_pages import is_as_said
from dynexplore import cli
from dynexplore.cli import program as cli_program
from dynexplore.recording.recording import save
from sample_recordings import toy
from source_tree import ROOT
from warm_python import python, run

SCRIPT = """
import sys
import torch

def double(x):
    return x * 2

print("arguments", sys.argv[1:], __name__)
print(double(torch.ones(2)))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that prints its arguments and calls one function."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(
    ("words", "ordered"),
    [
        (["explain", "s.py"], ["explain", "s.py"]),
        (["explain", "s.py", "a", "--html", "o"], ["explain", "--html", "o", "s.py", "a"]),
        (["explain", "--json=o", "s.py", "--lr", "3"], ["explain", "--json=o", "s.py", "--lr", "3"]),
        (["explain", "s.py", "-b", "4"], ["explain", "s.py", "-b", "4"]),
        (["explain", "s.py", "--", "--html", "theirs"], ["explain", "s.py", "--html", "theirs"]),
        (["explain", "s.py", "--help"], ["explain", "s.py", "--help"]),
        (["explain", "--help"], ["explain", "--help"]),
        (["explain", "s.py", "a", "--redact", "--save", "o.svg"], ["explain", "--redact", "--save", "o.svg", "s.py", "a"]),
        (["explain", "s.py", "--graphviz", "--html", "o"], ["explain", "--graphviz", "--html", "o", "s.py"]),
        (["open", "r.json", "--html", "o"], ["open", "r.json", "--html", "o"]),
        ([], []),
    ],
)
def test_own_options_may_stand_anywhere(words: list[str], ordered: list[str]) -> None:
    """`explain`'s own options are found before and after the script's, up to a `--`; the rest is the script's."""
    assert cli_program.script_words_last(words) == ordered


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["explain", "no_such.py"], "dynexplore: there is no script no_such.py\n"),
        (["open", "no_such.json"], "dynexplore: no_such.json cannot be read: No such file or directory\n"),
        (["bench", "nothing"], "dynexplore: there is no benchmark 'nothing'; there are: "),
        (["open", "README.md"], "dynexplore: README.md: "),
        (["open", "--save", "o.svg"], "dynexplore: without a recording, only a viewer page can be written: --html OUT"),
        (["replay", "README.md"], "dynexplore: README.md is not a frame saved by dynexplore"),
        (["replay", "README.md", "--html", "o.html"], "dynexplore: to write output files, the frame must run: pass --trust"),
        (
            ["explain", "setup.py", "--html", "no/such/folder.html"],
            "dynexplore: no/such/folder.html cannot be written: ",
        ),
        (
            ["explain", "setup.py", "--save", "graph.pdf"],
            "dynexplore: graph.pdf: a recording can be saved only as .html, .json, .json.gz, .txt, .dot or .svg",
        ),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str) -> None:
    """What cannot be done is said in one sentence on standard error, with status 2."""
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_options_that_no_command_knows_are_refused() -> None:
    """`open` takes no unknown options; `lab` and `bench` hand theirs on."""
    done = run("open", "r.json", "--no-browser")
    assert done.returncode == 2
    assert done.stderr.endswith("dynexplore: error: unrecognized arguments: --no-browser\n")
    arguments, others = cli.parser().parse_known_args(["lab", "--no-browser", "--port", "1"])
    assert (arguments.passes_on, others) == (True, ["--no-browser", "--port", "1"])


def test_help_is_quick_and_needs_no_torch() -> None:
    """`dynexplore --help` lists the commands without importing torch."""
    code = "import sys; from dynexplore import cli; cli.parser().print_help(); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for command in ("explain", "open", "replay", "lab", "bench"):
        assert command in done.stdout


def test_a_script_runs_as_under_python(script: Path) -> None:
    """A script sees its own arguments and the name __main__, and its output comes before the report."""
    done = run("explain", script, "3", "--rate", "0.1")
    assert done.returncode == 0, done.stderr
    assert "arguments ['3', '--rate', '0.1'] __main__\ntensor([2., 2.])\n" in done.stdout
    assert "double (script.py:5) is one graph of 1 operator" in done.stdout


def test_the_readme_shows_what_is_printed() -> None:
    """The README's example prints what the README says, and its report holds the example's own break only."""
    shown = (ROOT / "README.md").read_text().split("```text\n")[1].split("```")[0]
    command = [sys.executable, "-m", "dynexplore", "explain", "examples/toy.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert is_as_said(shown, done.stdout)
    assert done.stderr == "dynexplore: capturing toy (toy.py:6); to capture something else, pass --only NAME or --all\n"


def test_a_script_that_fails_keeps_its_traceback_and_status(script: Path) -> None:
    """The traceback of a failing script shows the script's frames only; the report still follows."""
    script.write_text(SCRIPT + "raise ValueError('mine')\n")
    done = run("explain", script)
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: mine\n")
    assert "runpy" not in done.stderr and "dynexplore/" not in done.stderr
    assert "script.py ended with ValueError: mine (script.py:10).\nBefore that: 1 graph, 0 graph breaks" in done.stdout


def test_a_script_may_exit(script: Path) -> None:
    """`sys.exit(3)` in the script is the status of the command, after the report."""
    script.write_text(SCRIPT + "sys.exit(3)\n")
    done = run("explain", script)
    assert done.returncode == 3
    assert "double (script.py:5) is one graph" in done.stdout


def test_a_recording_can_be_saved_and_opened(script: Path, tmp_path: Path) -> None:
    """`--json` writes a recording that `dynexplore open` shows again."""
    saved = tmp_path / "rec.json"
    done = run("explain", script, "--json", saved)
    assert done.returncode == 0, done.stderr
    json.loads(saved.read_text())
    shown = run("open", saved)
    assert shown.returncode == 0, shown.stderr
    assert "double" in shown.stdout


def test_a_recording_opens_without_torch(tmp_path: Path) -> None:
    """`dynexplore open` shows a recording, as text and as HTML, in a process without torch."""
    saved, page = tmp_path / "rec.json", tmp_path / "rec.html"
    save(toy(), saved)
    for words in ([str(saved)], [str(saved), "--html", str(page)]):
        code = f"import sys; from dynexplore.cli import main; main(['open', *{words}]); assert 'torch' not in sys.modules"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        assert "toy" in done.stdout or "toy" in page.read_text()


def test_a_page_is_written(script: Path, tmp_path: Path) -> None:
    """`--html` writes one page that names no other host."""
    page = tmp_path / "out.html"
    done = run("explain", script, "--html", page)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "double" in text
    assert 'src="http' not in text
    assert 'id="graphviz"' not in text


def test_a_page_that_draws_its_diagrams(script: Path, tmp_path: Path) -> None:
    """`--graphviz` puts the program that draws into the HTML file; without such a file it is a mistake."""
    page = tmp_path / "out.html"
    done = run("explain", script, "--save", page, "--graphviz")
    assert done.returncode == 0, done.stderr
    assert '<script type="text/plain" id="graphviz">' in page.read_text()
    done = run("explain", script, "--graphviz", "--json", tmp_path / "rec.json")
    assert (done.returncode, done.stderr) == (2, "dynexplore: --graphviz applies to HTML files: add --html OUT\n")


def test_files_can_be_redacted(script: Path, tmp_path: Path) -> None:
    """`--redact` leaves strings and paths out of every file, and what each holds is printed."""
    page, saved, picture = (tmp_path / name for name in ("r.html", "r.json", "r.svg"))
    done = run("explain", script, "--html", page, "--redact", "--json", saved, "--save", picture)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("string constants and paths were left out.\n") == 3
    for path in (page, saved, picture):
        assert str(tmp_path) not in path.read_text()
    again = tmp_path / "again.txt"
    assert "were left out" in run("open", saved, "--save", again).stdout
    assert "double" in again.read_text()


@pytest.mark.parametrize("words", [[], ["--text"]])
def test_open_shows_the_page_on_a_terminal(tmp_path: Path, words: list[str]) -> None:
    """On a terminal `open` hands the page to the browser, and with --text prints the report; piped it prints, too."""
    saved, seen, browser = tmp_path / "rec.json", tmp_path / "seen", tmp_path / "browser"
    save(toy(), saved)
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(0o755)
    terminal, inside = pty.openpty()
    environment = {**os.environ, "BROWSER": f"{browser} %s", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "dynexplore", "open", str(saved), *words]
    done = subprocess.Popen(command, stdout=inside, stderr=subprocess.PIPE, cwd=ROOT, env=environment)
    os.close(inside)
    said = b""
    with contextlib.suppress(OSError):  # what a terminal says when its other end is closed
        while part := os.read(terminal, 65536):
            said += part
    os.close(terminal)
    assert done.communicate(timeout=60) == (None, b"") and done.returncode == 0
    if words:
        assert b"operator.truediv" in said and not seen.exists()
    else:
        page = Path(seen.read_text().strip().removeprefix("file://"))
        assert said.decode().split() == ["opened", str(page)]
        assert page.name == "rec.html" and "operator.truediv" in page.read_text()


def test_a_frame_is_shown_and_run_again(tmp_path: Path) -> None:
    """`replay` shows it; with --trust it runs, and its recording is a file; the status says whether its capture fails."""
    frame, page = tmp_path / "one.frame", tmp_path / "one.html"
    code = f"import dynexplore, torch; dynexplore.record_frame(lambda x: x * 2, torch.ones(2), path={str(frame)!r})"
    assert python("-c", code).returncode == 0
    shown = run("replay", frame)
    assert shown.returncode == 0 and "argument  x: float32[2] cpu" in shown.stdout and "Nothing was run." in shown.stdout
    done = run("replay", frame, "--trust", "--html", page)
    assert done.returncode == 0 and "it returned float32[2] cpu" in done.stdout and page.stat().st_size > 1000
