"""The engine is broken on purpose, one fault at a time, and each fault must turn at least one test red.

Which idea lives here: a suite is worth what it notices. So each guard is made to hold always, in each place where it is asked
(generated Python, C, the explanation of a miss), facts are not noted, and each handler of the opcode table gets its operands
swapped, or its result dropped (engine_faults.py and native_faults.py). pytest collects the tests once and runs them once
unbroken, noting which parts each of them uses. Then for each fault a forked child breaks the engine and runs the tests that
could notice, the cheap ones first, until one fails. Tests that need no engine (`plain`) come last: what a program notices is
worth more than what a table says.

In:  the tests; `--uses FILE` keeps what the first run noted, so that the next run of this script starts with the faults.
Out: a table "fault | tests that could notice | what turns red" (in Markdown); exit status 1 if a fault survives all of its
     tests. A fault that nobody could notice is said to be equivalent, with the reason.

    python scripts/break_on_purpose.py                      every fault
    python scripts/break_on_purpose.py --only TYPE_MATCH    faults whose name contains that
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a child of a process with threads must not wait for them

import native_faults
import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = (
    "opcodes",
    "engine/aliasing",
    "engine/provenance",
    "engine/specialization",
    "engine/graph/test_operator_warnings.py",
    "engine/translate/test_graph_failure.py",
    *(f"engine/native/test_{name}.py" for name in ("cache", "dict_guard", "frame_hook", "guard_walk", "lookup_rows")),
    *(f"engine/runtime/test_{name}.py" for name in ("cache", "convert", "preserve_global_state")),
    "engine/variables/torch_/nn/test_nn_module.py",
    *(f"engine/variables/{name}.py" for name in (
        "containers/test_builtin_iterators", "containers/test_containers", "modes/test_active_modes", "modes/test_protocol",
        "objects/test_exception", "objects/test_instance_dict", "objects/test_type_lookup",
        "objects/test_user_hash_key", "objects/test_user_object",
        "scalars/test_symint",
    )),
)  # fmt: skip
"""Where the tests stand that notice most at the least cost; others can be given on the command line."""

SECONDS = 60
"""How much CPU time one test may take in a broken engine: one that never ends is red, too."""

WAITS = 10
"""How many times as long it may take by the clock: it may wait for ever, or the machine may be busy."""

MANY = 50
"""How many tests one child notes."""


# -- which test uses what --------------------------------------------------------------------------------------------


class Parts:
    """The parts of the engine that are used: what engine_faults.py and native_faults.py see together."""

    def __init__(self, engine: Any, library: Any) -> None:
        self.engine, self.library = engine, library

    def watch(self) -> None:
        """Watch them from now on."""
        self.engine.watch()

    def used(self) -> list[str]:
        """Those that were used since this was asked last."""
        native = (f"native {site}" for site in native_faults.sites_that_said_no(self.library))
        parts = sorted({*self.engine.SEEN, *native})
        self.engine.SEEN.clear()
        return parts


@functools.cache
def version_of(path: Path) -> int:
    """What tells one text of a file from another."""
    return zlib.crc32(path.read_bytes())


class Used:
    """Of each test: the parts it uses and its seconds of CPU. Kept in a file from run to run, until the test's file changes."""

    def __init__(self, path: Path, parts: Parts) -> None:
        self.path, self.parts = path, parts
        self.tests: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def note(self, items: list[pytest.Item], jobs: int) -> None:
        """Run the tests that are not known yet, unbroken, in children."""
        unknown = [item for item in items if self.tests.get(item.nodeid, {}).get("version") != version_of(item.path)]
        print(f"noting what {len(unknown)} tests use", flush=True)
        batches = [unknown[start : start + MANY] for start in range(0, len(unknown), MANY)]
        for line in in_children([lambda send, batch=batch: self._run(batch, send) for batch in batches], jobs, SECONDS * 10):
            one = json.loads(line)
            self.tests[one.pop("test")] = one
        for item in unknown:
            one = self.tests.setdefault(item.nodeid, {"parts": [], "seconds": 0.0, "passed": False})
            one["version"] = version_of(item.path)  # also of what a child did not come to: it is not asked again
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.tests))

    def _run(self, items: list[pytest.Item], send: Callable[[str], None]) -> None:
        self.parts.watch()
        for item, after in zip(items, [*items[1:], None], strict=True):
            self.parts.used()
            began = time.process_time()
            failed = red(item, after)
            seconds = round(time.process_time() - began, 3)
            send(json.dumps({"test": item.nodeid, "parts": self.parts.used(), "seconds": seconds, "passed": not failed}))

    def of(self, fault: Any, items: list[pytest.Item]) -> list[pytest.Item]:
        """The tests that could notice a fault: those that are about its opcode first, then the cheap ones that use little else."""
        opcode = next(iter(fault.needs[0])).partition(" ")[2]

        def could(item: pytest.Item) -> bool:
            one = self.tests[item.nodeid]
            return one["passed"] and not any(need.isdisjoint(one["parts"]) for need in fault.needs)

        def worth(item: pytest.Item) -> tuple[bool, bool, bool, float]:
            one = self.tests[item.nodeid]
            is_plain = item.get_closest_marker("plain") is not None
            cost = one["seconds"] * 10 + len(one["parts"]) / 10
            return fault.about not in item.nodeid, is_plain, f"[{opcode}-" not in item.nodeid, cost

        return sorted(filter(could, items), key=worth)


# -- running tests in a child ----------------------------------------------------------------------------------------


class TooLong(BaseException):
    """A test does not come to its end."""


def red(item: pytest.Item, after: pytest.Item | None) -> str:
    """Run one test; how it failed ("" if it did not)."""
    from _pytest.runner import runtestprotocol

    def stop(*_: Any) -> None:
        raise TooLong

    limits = {signal.SIGPROF: (signal.ITIMER_PROF, SECONDS), signal.SIGALRM: (signal.ITIMER_REAL, SECONDS * WAITS)}
    before = {number: signal.signal(number, stop) for number in limits}
    for timer, seconds in limits.values():
        signal.setitimer(timer, seconds)
    try:
        reports = runtestprotocol(item, log=False, nextitem=after)
    except TooLong:
        return "never ends"
    finally:
        for number, (timer, _) in limits.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
    bad = next((report for report in reports if report.failed and report.when != "teardown"), None)
    if bad is None:
        return ""
    crash = getattr(bad.longrepr, "reprcrash", None)
    lines = [line.strip(" -") for line in str(crash.message if crash else bad.longrepr).splitlines()]
    # assert_same_as_eager says below its first line what differs
    wanted = lines[1:] if "is not what was expected" in lines[0] else lines
    return next(filter(None, wanted), "failed")[:150]


Send = Callable[[str], None]


class Child:
    """A fork of this process that does some work and sends lines; it is killed after `seconds` of CPU time."""

    def __init__(self, work: Callable[[Send], None], seconds: int) -> None:
        self.reading, writing = os.pipe()
        self.end = time.monotonic() + seconds * WAITS
        self.data = b""
        self.pid = os.fork()
        if self.pid == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            self._run(work, writing)
        os.close(writing)

    @staticmethod
    def _run(work: Callable[[Send], None], writing: int) -> None:
        status = 1
        try:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            work(lambda line: (os.write(writing, line.encode() + b"\n"), None)[1])
            status = 0
        finally:
            os._exit(status)

    def is_over(self) -> bool:
        """Take what was sent; whether nothing more will come."""
        if time.monotonic() > self.end:
            os.kill(self.pid, signal.SIGKILL)
            return True
        part = os.read(self.reading, 1 << 16) if select.select([self.reading], [], [], 0)[0] else None
        self.data += part or b""
        return part == b""

    def lines(self) -> list[str]:
        """All that was sent."""
        os.close(self.reading)
        os.waitpid(self.pid, 0)
        return self.data.decode(errors="replace").splitlines()


def in_children(works: list[Callable[[Send], None]], jobs: int, seconds: int) -> Iterator[str]:
    """The lines that each work sends, `jobs` of them at a time; a child is killed after that much CPU time."""
    waiting, running = list(reversed(works)), list[Child]()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Child(waiting.pop(), seconds))
        select.select([child.reading for child in running], [], [], 1.0)
        over = [child for child in running if child.is_over()]
        running = [child for child in running if child not in over]
        for child in over:
            yield from child.lines()


class Break:
    """The pytest plugin: instead of running the collected tests, break the engine and run those that could notice."""

    def __init__(self, library: Any, options: argparse.Namespace) -> None:
        self.library, self.options = library, options
        self.outcomes: dict[str, list[str]] = {}  # red, equivalent, not in this Python, survives -> faults

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Note what each test uses, then plant one fault after the other."""
        engine = importlib.import_module("engine_faults")  # imports the engine, which collecting tests does not
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            items = [item for item in session.items if not item.get_closest_marker("lenses")]
            used = Used(self.options.uses, Parts(engine, self.library))
            used.note(items, self.options.jobs)
            noted = _children_seconds()
            self._break_all(list(engine.faults(self.library)), items, used)
            self._say(self._summary(noted))
        return True

    def _break_all(self, faults: list[Any], items: list[pytest.Item], used: Used) -> None:
        self._say("| fault | tests that could notice | red |\n|---|---:|---|")
        wanted = [fault for fault in faults if not self.options.only or any(word in fault.name for word in self.options.only)]
        here = lowered()
        works = []
        for fault in wanted:
            why, could = without_run(fault, here), used.of(fault, items)
            if why or not could:
                self._tell(fault.name, str(len(could)), why or SURVIVES)
            else:
                works.append(self._work(fault, could))
        running: dict[str, tuple[str, str]] = {}
        for line in in_children(works, self.options.jobs, SECONDS * 8):
            name, tests, test, why = line.split("\t")
            if why:
                running.pop(name, None)
                self._tell(name, tests, f"`{test}`: {why}" if test else why)
            else:
                running[name] = tests, test
        for name, (tests, test) in running.items():
            self._tell(name, tests, f"`{test}`: the process dies, or never ends")

    def _work(self, fault: Any, likely: list[pytest.Item]) -> Callable[[Send], None]:
        """What a child does for one fault: it sends "fault, number of tests, test, how it fails", and before each test the same."""
        tests = likely[: self.options.most]

        def work(send: Send) -> None:
            fault.plant()
            start = f"{fault.name}\t{len(likely)}\t"
            for item, after in zip(tests, [*tests[1:], None], strict=True):
                test = item.nodeid.removeprefix("tests/").replace("|", "\\|")
                send(f"{start}{test}\t")
                why = red(item, after).replace("|", "\\|").replace("\t", " ")
                if why:
                    send(f"{start}{test}\t{why}")
                    return
            send(f"{start}\t{SURVIVES}")

        return work

    def _tell(self, name: str, tests: str, outcome: str) -> None:
        kind = next((kind for kind in (SURVIVES, EQUIVALENT, ELSEWHERE) if outcome.startswith(kind)), "red")
        self.outcomes.setdefault(kind, []).append(name)
        self._say(f"| {name} | {tests} | {outcome} |")

    def _summary(self, noted: float) -> str:
        counts = ", ".join(f"{len(names)} {kind.strip('*')}" for kind, names in self.outcomes.items())
        seconds = _children_seconds()
        cost = f"{noted:.0f} s of CPU for noting, {seconds - noted:.0f} s for the faults"
        return f"\n{sum(map(len, self.outcomes.values()))} faults: {counts}. Python {sys.version.split()[0]}; {cost}."

    def _say(self, line: str) -> None:
        print(line, flush=True)
        if self.options.table is not None:
            with self.options.table.open("a") as file:
                file.write(line + "\n")


SURVIVES, EQUIVALENT, ELSEWHERE = "**survives**", "equivalent", "not in this Python"


def without_run(fault: Any, here: set[str]) -> str:
    """The outcome of a fault that needs no run: nobody could notice it, or this Python lacks the instruction."""
    if fault.equivalent:
        return f"{EQUIVALENT}: {fault.equivalent}"
    opcode = next(iter(fault.needs[0])).removeprefix("opcode ")
    return ELSEWHERE if not fault.is_of_guard and opcode not in here else ""


def lowered() -> set[str]:
    """The canonical opcodes that the running Python's instructions become."""
    read = importlib.import_module("dynexplore.engine.bytecode").read
    decode = importlib.import_module("dynexplore.engine.bytecode.versions").DECODE

    def shown(code: Any) -> set[str]:
        inner = [constant for constant in code.co_consts if hasattr(constant, "co_code")]
        return {step.op for step in read(code).steps}.union(*map(shown, inner))

    plain = {decoding.opname for decoding in filter(None, decode) if decoding.lower is None}
    plain.discard("MAKE_CELL")  # only a comprehension that stands in its function (3.12) makes a cell in the middle
    return plain.union(*(shown(compile(path.read_text(), path.name, "exec")) for path in (ROOT / "tests").glob("opcodes/*.py")))


def _children_seconds() -> float:
    """The CPU time of the children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Read the options, break everything, and say what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="faults whose name contains this (may be given again)")
    parser.add_argument("--most", type=int, default=60, help="how many of the tests that could notice are run, at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many children run at a time")
    parser.add_argument("--uses", type=Path, default=ROOT / "build" / "uses.json", help="what each test uses, kept here")
    parser.add_argument("--table", type=Path, help="write the table here, too")
    parser.add_argument("tests", nargs="*", default=[str(ROOT / "tests" / name) for name in TESTS])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plugin = Break(native_faults.load(Path(folder)), options)
        arguments = ["-q", "--no-header", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *options.tests]
        status = pytest.main(arguments, plugins=[plugin])
    survivors = plugin.outcomes.get(SURVIVES, [])
    print(f"{len(survivors)} faults survive" + "".join(f"\n  {name}" for name in survivors))
    return 1 if survivors else int(status not in (0, pytest.ExitCode.NO_TESTS_COLLECTED))


if __name__ == "__main__":
    sys.exit(main())
