"""Measure `dynexplore explain` on unmodified third-party scripts: CPU time, lines, headline, size of the page.

    python benchmarks/scripts.py --sources DIR [--only NAME ...] [--plain] [--command watch] [--keep OUT] [--limit S] [--json OUT]
    python benchmarks/scripts.py --sources DIR --no-target [--repeats 3] [--only NAME ...]
    python benchmarks/scripts.py --sources DIR --interrupts 10 [--signal SIGTERM] [--only NAME ...] [--seed N]

DIR contains a checkout of each repository under its own name (DIR/nanoGPT, DIR/examples, ...): karpathy/nanoGPT,
karpathy/minGPT, karpathy/nanochat, pytorch-labs/gpt-fast, vwxyzjn/cleanrl and pytorch/examples, at the commits in
support/scripts.py. The command `whisper` and transformers come from packages. Scripts whose requirements are missing are
skipped with a message. Packages: a torchvision that loads with this torch, tiktoken, sentencepiece, rustbpe, openai-whisper
(and ffmpeg on the PATH), gymnasium 0.29.1 with mujoco 2.3.7 and imageio (for cleanrl), tyro, tensorboard,
transformers and accelerate.

Each script has a working folder with its files and random data (support/script_data.py), which is recreated before each run. It
runs once as plain Python, once under `python -m dynexplore explain --html`, and once with its targets captured as `optimize`
does it (dynexplore/session/plain_capture.py). CPU seconds include child processes; those of the capture include only the
translation. `bound` is the budget of the command: twice the plain run plus three times the capture. `over` marks a run above
it. A run that exceeds the limit is interrupted as by Ctrl-C, and killed if that does not end it. The start of the report is
found by comparison with the output of the plain run, which comes first, so the wording of a report does not matter.

With --no-target nothing is captured, because `--only` names a function that no script has. This measures the cost of running a
script under the command. Plain runs and these runs take turns, and the ratio compares the medians of their CPU seconds.

With --interrupts, each script is also ended by Ctrl-C, or another signal, at N random moments. A line lists what each run left:
a report, a page, one sentence if nothing had started yet, and whether a traceback contains a line of dynexplore. The process
must end by the signal, unless the signal came too late.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.scripts import SCRIPTS, Script

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
GRACE = 90.0
"""Seconds that an interrupted run has for leaving what it has."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """How a run ended: its status, with "limit" before it where it was interrupted; its CPU seconds; its lines on both outputs."""

    status: str
    seconds: float
    said: list[str]
    told: list[str]


class Bench:
    """A script in its folder: laid anew before each run, so that no run sees what another one left."""

    def __init__(self, script: Script, sources: Path, out: Path) -> None:
        self.script = script
        self.out = out
        self.laid, self.used = out / "laid", out / "used"
        self._lay(sources)

    def _lay(self, sources: Path) -> None:
        for path in self.script.paths:
            assert self.script.repository is not None
            _copy(checkout_of(self.script, sources) / path, self.laid / path)
        (self.laid / self.script.within).mkdir(parents=True, exist_ok=True)
        if self.script.data:
            maker = [sys.executable, str(HERE / "support" / "script_data.py"), self.script.data]
            folder = self.laid / self.script.within
            subprocess.run(maker, cwd=folder, env=self._environment(), check=True, capture_output=True)

    def run(self, name: str, words: Sequence[str], limit: float, number: signal.Signals = signal.SIGINT) -> Run:
        """One run; what it printed is kept beside the folder under the name."""
        shutil.rmtree(self.used, ignore_errors=True)
        shutil.copytree(self.laid, self.used)
        files = [self.out / f"{name}.{ending}" for ending in ("out", "err")]
        command = [sys.executable, *words, *self.script.words]
        with files[0].open("wb") as out, files[1].open("wb") as errors:
            status, seconds = finish(command, self.used / self.script.within, self._environment(), limit, out, errors, number)
        return Run(status, seconds, *(file.read_text(encoding="utf-8", errors="replace").splitlines() for file in files))

    def _environment(self) -> dict[str, str]:
        own = dict(self.script.environment)
        paths = [str(CHECKOUT), own.pop("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
        return {
            **os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", **own,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
        }  # fmt: skip


def finish(
    command: Sequence[str],
    folder: Path,
    environment: dict[str, str],
    limit: float,
    out: Any,
    errors: Any,
    number: signal.Signals = signal.SIGINT,
) -> tuple[str, float]:
    """Run a command to its end, or to that of its limit: its status, and the CPU seconds of it and of children it waited for."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True
    )
    was_interrupted = threading.Event()

    def interrupt() -> None:
        was_interrupted.set()
        os.kill(process.pid, number)

    timers = [threading.Timer(limit, interrupt), threading.Timer(limit + GRACE, os.killpg, (process.pid, signal.SIGKILL))]
    for timer in timers:
        timer.start()
    try:
        _, code, usage = os.wait4(process.pid, 0)
    finally:
        for timer in timers:
            timer.cancel()
        with contextlib.suppress(ProcessLookupError, PermissionError):  # workers that outlive it
            os.killpg(process.pid, signal.SIGKILL)
    process.returncode = os.waitstatus_to_exitcode(code)
    status = f"limit, {process.returncode}" if was_interrupted.is_set() else str(process.returncode)
    return status, usage.ru_utime + usage.ru_stime


def measure(script: Script, options: argparse.Namespace, out: Path) -> Row:
    """The row of one script; what it printed on standard error beyond the plain run is in the JSON only."""
    try:
        bench = Bench(script, options.sources, out)
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return {"script": script.name, "left out": f"its data could not be made: {' '.join(last)}"}
    plain = bench.run("plain", (), options.limit)
    row: Row = {"script": script.name, "plain status": plain.status, "plain s": round(plain.seconds, 2)}
    if options.plain:
        return row
    captured = capture_seconds(bench, out, options.limit, plain.status)
    page = out / f"{options.command}.html"
    watched = bench.run(options.command, ("-m", "dynexplore", options.command, "--html", str(page)), options.limit)
    report = report_of(plain.said, watched.said)
    return {
        **row,
        "status": watched.status,
        "s": round(watched.seconds, 2),
        "ratio": round(watched.seconds / plain.seconds, 2),
        "capture s": round(captured, 2),
        "bound s": round(2 * plain.seconds + 3 * captured, 2),
        "in bound": watched.seconds <= 2 * plain.seconds + 3 * captured,
        "lines": len(report),
        "html KB": page.stat().st_size // 1000 if page.exists() else 0,
        "headline": [line.strip() for line in report if line.strip()][:2],
        "on stderr": [line for line in watched.told if shape(line) not in {shape(other) for other in plain.told}][:5],
    }


def capture_seconds(bench: Bench, out: Path, limit: float, status: str) -> float:
    """CPU seconds that translating the targets takes where nothing is recorded; a run that ends otherwise is told."""
    measured = out / "capture.json"
    run = bench.run("capture", ("-m", "dynexplore.session.plain_capture", str(measured)), limit)
    if run.status != status or not measured.exists():
        print(f"{bench.script.name}: the capture ended with {run.status}: {' '.join(run.told[-1:])}", file=sys.stderr)
        return 0.0
    return float(json.loads(measured.read_text(encoding="utf-8"))["seconds"])


# -- where nothing is a target ----------------------------------------------------------------------------------------------------

NO_TARGET = ("-m", "dynexplore", "explain", "--only", "a_function_that_no_script_has")
MOST = 1.1
"""How much of a script's CPU time a run may cost in which nothing is captured; of scripts that take LONG seconds or more."""
LONG = 5.0


def without_target(script: Script, options: argparse.Namespace, out: Path) -> Row:
    """One script, plain and with nothing to capture, in turns: the medians of both."""
    bench = Bench(script, options.sources, out)
    pair: tuple[tuple[str, tuple[str, ...]], ...] = (("plain", ()), ("no_target", NO_TARGET))
    runs = [[bench.run(name, words, options.limit) for name, words in pair] for _ in range(options.repeats)]
    plain, watched = (statistics.median(run.seconds for run in column) for column in zip(*runs, strict=True))
    return {
        "script": script.name,
        "plain s": round(plain, 2),
        "no target s": round(watched, 2),
        "no target ratio": round(watched / plain, 3),
        "wrong": int(plain >= LONG and watched > MOST * plain),
    }


# -- signals at random moments ----------------------------------------------------------------------------------------------------

NOTHING_YET = "interrupted before anything was recorded"


def interrupt(script: Script, options: argparse.Namespace, out: Path) -> Row:
    """End one script at random moments of a run: what each of them left."""
    bench = Bench(script, options.sources, out)
    page = out / "interrupted.html"
    words = ("-m", "dynexplore", options.command, "--html", str(page))
    plain = bench.run("plain", (), options.limit)
    began = time.monotonic()
    bench.run(options.command, words, options.limit)
    whole = time.monotonic() - began
    moments = random.Random(options.seed)
    runs = []
    for _ in range(options.interrupts):
        page.unlink(missing_ok=True)
        moment = moments.uniform(0, whole)
        run = bench.run("interrupted", words, moment, options.signal)
        statuses = {f"limit, {-options.signal}", plain.status, f"limit, {plain.status}"}
        runs.append(interrupted(run, moment, statuses, bool(report_of(plain.said, run.said)), page.exists()))
        print(f"{script.name:<20}{runs[-1]['moment']:>8.1f} s  {runs[-1]['left']}", flush=True)
    wrong = sum(run["left"].startswith("WRONG") for run in runs)
    return {"script": script.name, "whole s": round(whole, 1), "interrupts": runs, "wrong": wrong}


def interrupted(run: Run, moment: float, statuses: set[str], has_report: bool, has_page: bool) -> Row:
    """What a run left that was interrupted at this moment, in words that begin with WRONG where something is lost, or where its
    status is none that plain Python could have had.
    """
    said_so = any(NOTHING_YET in line for line in run.told)
    own = any(line.startswith("  File") and f"{os.sep}dynexplore{os.sep}" in line for line in run.told)
    left = "nothing had begun" if said_so else f"{'report' if has_report else 'NO REPORT'}, {'page' if has_page else 'NO PAGE'}"
    left += ", a traceback through dynexplore" if own else ""
    is_whole = (said_so or (has_report and has_page)) and not own and run.status in statuses
    return {"moment": round(moment, 1), "status": run.status, "left": left if is_whole else f"WRONG: {left} ({run.status})"}


def report_of(plain: Sequence[str], said: Sequence[str]) -> list[str]:
    """What was printed after the script's own lines, from the first that is not blank.

    The runs differ in times and losses, and an interrupted script has not printed all: so lines are compared without their numbers,
    and the report is what stands behind the last of them that the two runs share.
    """
    places = [at for at, line in enumerate(said) if line.strip()]
    pair = difflib.SequenceMatcher(
        None, [shape(line) for line in plain if line.strip()], [shape(said[at]) for at in places], autojunk=False
    )
    shared = [block.b + block.size for block in pair.get_matching_blocks() if block.size]
    report = places[max(shared, default=0) :]
    return list(said[report[0] :]) if report else []


def shape(line: str) -> str:
    """A line without its numbers, and without the spaces that they are padded with."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?|\binf\b|\bnan\b", " ", line)).strip()


def missing(script: Script, sources: Path) -> str:
    """What this script needs and is not here; "" for nothing."""
    if script.repository is not None and not checkout_of(script, sources).is_dir():
        return f"no checkout of {script.repository.name} in {sources}"
    absent = [name for name in script.needs if importlib.util.find_spec(name) is None]
    return f"no {', '.join(absent)}" if absent else ""


def checkout_of(script: Script, sources: Path) -> Path:
    """Where the checkout of its repository is expected."""
    assert script.repository is not None
    return sources / script.repository.name.rpartition("/")[2]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


@contextlib.contextmanager
def folder_of(options: argparse.Namespace) -> Iterator[Path]:
    """Where the folders of the scripts are: those of before are gone, and these stay where --keep says so."""
    if options.keep is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        options.keep.mkdir(parents=True, exist_ok=True)
        yield options.keep.resolve()


def show(row: Row) -> None:
    """One row as lines: the figures, then the headline."""
    if "left out" in row:
        print(f"{row['script']:<20} left out: {row['left out']}", flush=True)
        return
    if "no target s" in row:
        over = " over" if row["wrong"] else ""
        print(
            f"{row['script']:<20}{row['plain s']:>9.2f}{row['no target s']:>11.2f}{row['no target ratio']:>7.2f}{over}", flush=True
        )
        return
    figures = f"{row['script']:<20}{row['plain status']:>10}{row['plain s']:>9.1f}"
    if "s" in row:
        bound = f"{row['capture s']:>9.1f}{row['bound s']:>8.1f}{'' if row['in bound'] else ' over':<5}"
        figures += f"{row['status']:>12}{row['s']:>9.1f}{row['ratio']:>7.1f}{bound}{row['lines']:>7}{row['html KB']:>9}"
    print("\n".join([figures, *(f"    {line[:150]}" for line in row.get("headline", []))]), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each script; the status says whether all of them ended as their plain runs did."""
    options = _options(arguments)
    if options.sources is None:
        print("scripts: others' scripts are measured from checkouts of theirs: --sources DIR (see --help)")
        return 0
    ran = f"{options.command:>12}{'s':>9}{'ratio':>7}{'capture':>9}{'bound':>8}{'':<5}{'lines':>7}{'html KB':>9}"
    if options.no_target:
        print(f"{'script':<20}{'plain s':>9}{'no target':>11}{'ratio':>7}")
    else:
        print(f"{'script':<20}{'plain':>10}{'plain s':>9}" + ("" if options.plain or options.interrupts else ran))
    rows: list[Row] = []
    with folder_of(options) as folder:
        for script in [one for one in SCRIPTS if not options.only or one.name in options.only]:
            absent = missing(script, options.sources)
            out = folder / script.name
            shutil.rmtree(out, ignore_errors=True)
            if not absent and options.interrupts:
                rows.append(interrupt(script, options, out))
            else:
                look = without_target if options.no_target else measure
                rows.append({"script": script.name, "left out": absent} if absent else look(script, options, out))
                show(rows[-1])
            if options.json is not None:
                options.json.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return int(
        any(row.get("wrong") for row in rows)
        or any(row.get("status", row.get("plain status")) != row.get("plain status") for row in rows)
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, help="a folder with a checkout of each repository")
    parser.add_argument("--only", nargs="+", choices=[script.name for script in SCRIPTS], help="only these")
    parser.add_argument("--plain", action="store_true", help="only the plain runs")
    parser.add_argument("--command", default="explain", help="another command of dynexplore that takes a script and --html")
    parser.add_argument("--no-target", action="store_true", help="what it costs where nothing is captured")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="of each run of --no-target (3)")
    parser.add_argument("--interrupts", type=int, default=0, metavar="N", help="end each script by a signal at N random moments")
    parser.add_argument("--signal", type=signal.Signals.__getitem__, default=signal.SIGINT, help="that signal (SIGINT: Ctrl-C)")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--limit", type=float, default=600, help="seconds that a run may take")
    parser.add_argument("--keep", type=Path, help="leave the folders, what was printed and the pages here")
    parser.add_argument("--json", type=Path, help="also write a line of JSON for each script here")
    # what every benchmark takes, for `dynexplore bench` without a name
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.sources = options.sources and options.sources.resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
