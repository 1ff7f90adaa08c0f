"""The engine is broken on purpose, one fault at a time, and each fault must turn at least one test red.

Which idea lives here: a suite is worth what it notices. So each guard kind is made to hold always, and each handler of the
opcode table gets its operands swapped, or its result dropped (a result becomes None; an instruction without a result does
nothing). pytest collects the tests once and runs them once unbroken, noting which guard kinds and which opcodes each test
uses. Then for each fault a forked child breaks the engine and runs the tests that use that part, those first that use little
else, until one fails.

In:  the tests; `--uses FILE` keeps what the first run noted, so that the next run of this script starts with the faults.
Out: a table "fault | tests that use it | what turns red" (in Markdown); exit status 1 if a fault survives all of its tests.

    python scripts/break_on_purpose.py                      every fault
    python scripts/break_on_purpose.py --only TYPE_MATCH    faults whose name contains that
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a child of a process with threads must not wait for them

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tests/opcodes", "tests/programs", "tests/engine/provenance", "tests/engine/variables", "tests/engine/translate",
           "tests/engine/runtime/test_cache.py", "tests/engine/native/test_guard_walk.py", "tests/engine/runtime/test_convert.py",
           "tests/second_opinion")
CHANGES = ("noticed", "guard", "sizes", "modes", "recompile", "same_as_eager")
"""Words in the names of tests in which a second call finds something changed: for guards they come first."""

SECONDS = 60
"""How long one test may take in a broken engine: one that never ends is red, too."""


# -- faults ----------------------------------------------------------------------------------------------------------


planted = contextlib.ExitStack()
"""The handlers that stand in the place of right ones, for the life of a child."""


class Fault:
    """One way to break the engine: `part` is the guard kind or opcode that a test has to use to notice."""

    def __init__(self, name: str, part: str, plant: Callable[[], None]) -> None:
        self.name, self.part, self.plant = name, part, plant


def faults() -> Iterator[Fault]:
    """All faults, guards first."""
    yield from guard_faults()
    yield from handler_faults()


def guard_faults() -> Iterator[Fault]:
    """Each guard kind holds always."""
    from dynexplore.engine.provenance import guard_check, module_guards
    from dynexplore.engine.provenance.guards import GUARD_KINDS, GuardKind

    def holds_always(name: str) -> Callable[[], None]:
        def plant() -> None:
            row = GUARD_KINDS[name]
            GUARD_KINDS[name] = GuardKind(name, row.meaning, lambda v, e, n: "True", lambda v, e: True, row.describe)

        return plant

    class AnyModes:
        def check(self) -> bool:
            return True

        def reason(self) -> str:
            return ""

    def tensors() -> None:
        guard_check._emit_tensors = lambda emitter, guards: None
        guard_check.TensorMatch.mismatch = lambda self, value: None  # type: ignore[method-assign]

    def shapes() -> None:
        guard_check._shape_relations = lambda emitter, known, expressions: ([], [])

    def modes() -> None:
        guard_check.GlobalStateGuard = AnyModes
        guard_check._function_modes = lambda: 0

    def facts(kind: str) -> Callable[[], None]:
        def plant() -> None:
            right = module_guards.ObjectFacts.checks

            def checks(self: Any) -> Any:
                loose = {"identity": ("is", "is_weak")}.get(kind, (kind,))
                return tuple(check for check in right(self) if check[1] not in loose)

            module_guards.ObjectFacts.checks = checks  # type: ignore[method-assign]

        return plant

    at_once = {"TENSOR_MATCH": tensors, "SHAPE_ENV": shapes, "GLOBAL_STATE": modes}
    for name in GUARD_KINDS:
        if name == "MODULE_STATE":
            for kind in ("identity", "absent", "empty", "items"):
                yield Fault(f"MODULE_STATE ({kind}) holds always", f"guard {name}", facts(kind))
        else:
            yield Fault(f"{name} holds always", f"guard {name}", at_once.get(name) or holds_always(name))


NO_EFFECT = {
    "NOP": "does nothing",
    "MAKE_CELL": "cells are made before the first step",
}


def handler_faults() -> Iterator[Fault]:
    """Each handler with its operands swapped, and with its result dropped."""
    from dynexplore.engine.bytecode import OPCODES
    from dynexplore.engine.translate.translator import HANDLERS

    for op, handler in sorted(HANDLERS.items()):
        if op in NO_EFFECT:
            continue
        operands = OPCODES[op].effect.partition("--")[0].split()
        if len(operands) > 1 or any("[n]" in word for word in operands):
            yield Fault(f"{op}: operands swapped", f"opcode {op}", planter(op, swapped(op, handler)))
        yield Fault(f"{op}: result dropped", f"opcode {op}", planter(op, dropped(op, handler)))


def lowered() -> set[str]:
    """The canonical opcodes that the running Python's instructions become."""
    from dynexplore.engine.bytecode import read
    from dynexplore.engine.bytecode.versions import DECODE

    def shown(code: Any) -> set[str]:
        inner = [constant for constant in code.co_consts if hasattr(constant, "co_code")]
        return {step.op for step in read(code).steps}.union(*map(shown, inner))

    plain = {decoding.opname for decoding in filter(None, DECODE) if decoding.lower is None}
    return plain.union(*(shown(compile(path.read_text(), path.name, "exec")) for path in (ROOT / "tests").glob("opcodes/*.py")))


def planter(op: str, wrong: Any) -> Callable[[], None]:
    """What puts a wrong handler into the table."""

    def plant() -> None:
        from dynexplore.engine.translate import dispatch

        planted.enter_context(dispatch.override(op, wrong))

    return plant


def swapped(op: str, right: Any) -> Any:
    """A handler that finds its two topmost operands in the wrong order (of a call: its last two arguments)."""
    from dynexplore.engine.bytecode import OPCODES
    from dynexplore.engine.bytecode.opcodes import stack_sides

    def handler(frame: Any, step: Any, ctx: Any) -> None:
        wanted = stack_sides(op, step.arg)[0] - (2 if "callable_null_pair" in OPCODES[op].effect else 0)
        if wanted >= 2:
            frame.stack[-1], frame.stack[-2] = frame.stack[-2], frame.stack[-1]
        right(frame, step, ctx)

    return handler


def dropped(op: str, right: Any) -> Any:
    """A handler whose result is None, or that does nothing where there is no result."""
    from dynexplore.engine.bytecode import OPCODES
    from dynexplore.engine.bytecode.opcodes import stack_effect, stack_sides
    from dynexplore.engine.variables.scalars.constant import ConstantVariable

    has_result = bool(OPCODES[op].effect.partition("--")[2].split())

    def nothing(frame: Any, step: Any, ctx: Any) -> None:
        frame.popn(stack_sides(op, step.arg)[0])

    def none_instead(frame: Any, step: Any, ctx: Any) -> None:
        before = len(frame.stack)
        right(frame, step, ctx)
        if len(frame.stack) == before + stack_effect(op, step.arg) and frame.stack:
            frame.stack[-1] = ConstantVariable(None)

    def returns_none(frame: Any, step: Any, ctx: Any) -> None:
        frame.stack[-1] = ConstantVariable(None)
        right(frame, step, ctx)

    return returns_none if op == "RETURN_VALUE" else none_instead if has_result else nothing


# -- which test uses what --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def noting(seen: set[str]) -> Iterator[None]:
    """In this block `seen` collects the guard kinds and opcodes that are used."""
    from dynexplore.engine.provenance import guards
    from dynexplore.engine.translate.translator import HANDLERS

    add = guards.GuardSet.add
    right = dict(HANDLERS)

    def noting_add(self: Any, source: Any, kind: str, expected: Any, because: int) -> Any:
        seen.add(f"guard {kind}")
        return add(self, source, kind, expected, because)

    def noting_handler(op: str, handler: Any) -> Any:
        def run(frame: Any, step: Any, ctx: Any) -> None:
            seen.add(f"opcode {op}")
            handler(frame, step, ctx)

        return run

    guards.GuardSet.add = noting_add  # type: ignore[method-assign]
    for op, handler in right.items():
        HANDLERS[op] = noting_handler(op, handler)
    try:
        yield
    finally:
        guards.GuardSet.add = add  # type: ignore[method-assign]
        HANDLERS.update(right)


class Used:
    """Of each test: the parts it uses and its seconds. Kept in a file from run to run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def note(self, items: list[pytest.Item], jobs: int) -> None:
        """Run the tests that are not known yet, unbroken, in children."""
        unknown = [item for item in items if item.nodeid not in self.tests]
        print(f"noting what {len(unknown)} tests use", flush=True)
        batches = [unknown[start : start + 50] for start in range(0, len(unknown), 50)]
        for line in in_children([lambda send, batch=batch: self._run(batch, send) for batch in batches], jobs, SECONDS * 10):
            one = json.loads(line)
            self.tests[one.pop("test")] = one
        for item in unknown:  # what a child did not come to is not asked again
            self.tests.setdefault(item.nodeid, {"parts": [], "seconds": 0.0, "passed": False})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.tests))

    @staticmethod
    def _run(items: list[pytest.Item], send: Callable[[str], None]) -> None:
        for item, after in zip(items, [*items[1:], None], strict=True):
            seen: set[str] = set()
            began = time.perf_counter()
            with noting(seen):
                failed = red(item, after)
            seconds = time.perf_counter() - began
            send(json.dumps({"test": item.nodeid, "parts": sorted(seen), "seconds": round(seconds, 3), "passed": not failed}))

    def of(self, part: str, items: list[pytest.Item]) -> list[pytest.Item]:
        """The tests that use a part: those first that say it in their names, then the quick ones that use little else."""
        word = part.split()[1]
        known = [item for item in items if part in self.tests[item.nodeid]["parts"] and self.tests[item.nodeid]["passed"]]

        if part.startswith("guard "):  # what is noticed by a guard is said in names; module state is noted nowhere else
            known = known or [item for item in items if self.tests[item.nodeid]["passed"]]

        def worth(item: pytest.Item) -> tuple[bool, float]:
            one = self.tests[item.nodeid]
            told = any(hint in item.nodeid for hint in (f"[{word}-", *(CHANGES if part.startswith("guard ") else ())))
            return not told, one["seconds"] * 10 + len(one["parts"]) / 10

        return sorted(known, key=worth)


# -- running tests in a child ----------------------------------------------------------------------------------------


class TooLong(BaseException):
    """A test does not come to its end."""


def red(item: pytest.Item, after: pytest.Item | None) -> str:
    """Run one test; how it failed ("" if it did not)."""
    from _pytest.runner import runtestprotocol

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        reports = runtestprotocol(item, log=False, nextitem=after)
    except TooLong:
        return "never ends"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
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
    """A fork of this process that does some work and sends lines."""

    def __init__(self, work: Callable[[Send], None], seconds: float) -> None:
        self.reading, writing = os.pipe()
        self.end = time.monotonic() + seconds
        self.data = b""
        self.pid = os.fork()
        if self.pid == 0:
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


def in_children(works: list[Callable[[Send], None]], jobs: int, seconds: float) -> Iterator[str]:
    """The lines that each work sends, `jobs` of them at a time; a child is killed after that long."""
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
    """The pytest plugin: instead of running the collected tests, break the engine and run the likely ones."""

    def __init__(self, only: list[str], most: int, jobs: int, uses: Path, table: Path | None) -> None:
        self.only, self.most, self.jobs, self.uses, self.table = only, most, jobs, uses, table
        self.survivors: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Note what each test uses, then plant one fault after the other."""
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            items = [item for item in session.items if not item.get_closest_marker("lenses")]
            used = Used(self.uses)
            used.note(items, self.jobs)
            self._break_all(items, used)
        return True

    def _break_all(self, items: list[pytest.Item], used: Used) -> None:
        self._say("| fault | tests that use it | red |\n|---|---:|---|")
        wanted = [fault for fault in faults() if not self.only or any(word in fault.name for word in self.only)]
        here = lowered()
        works = [self._work(fault, used.of(fault.part, items), here) for fault in wanted]
        silent = {fault.name for fault in wanted}
        for line in in_children(works, self.jobs, SECONDS * 8):
            name, tests, outcome = line.split("\t")
            silent.discard(name)
            if not outcome:
                self.survivors.append(name)
            self._say(f"| {name} | {tests} | {outcome or '**survives**'} |")
        for name in sorted(silent):
            self._say(f"| {name} | ? | the process dies, or never ends |")

    def _work(self, fault: Fault, likely: list[pytest.Item], here: set[str]) -> Callable[[Send], None]:
        """What a child does for one fault: it sends "fault, number of tests, how the first one fails"."""
        start = f"{fault.name}\t{len(likely)}\t"
        tests = likely[: self.most]

        def work(send: Send) -> None:
            if fault.part.startswith("opcode ") and fault.part.split()[1] not in here:
                send(f"{start}not in this Python")
                return
            fault.plant()
            for item, after in zip(tests, [*tests[1:], None] if tests else [], strict=True):
                why = red(item, after)
                if why:
                    send(start + f"`{item.nodeid.removeprefix('tests/')}`: {why}".replace("|", "\\|").replace("\t", " "))
                    return
            send(start)

        return work

    def _say(self, line: str) -> None:
        print(line, flush=True)
        if self.table is not None:
            with self.table.open("a") as file:
                file.write(line + "\n")


def main() -> int:
    """Read the options, break everything, and say what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="faults whose name contains this (may be given again)")
    parser.add_argument("--most", type=int, default=200, help="how many of the tests that use a part are run, at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many children run at a time")
    parser.add_argument("--uses", type=Path, default=ROOT / "build" / "uses.json", help="what each test uses, kept here")
    parser.add_argument("--table", type=Path, help="write the table here, too")
    parser.add_argument("tests", nargs="*", default=[str(ROOT / folder) for folder in FOLDERS])
    options = parser.parse_args()
    plugin = Break(options.only, options.most, options.jobs, options.uses, options.table)
    status = pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *options.tests], plugins=[plugin])
    print(f"{len(plugin.survivors)} faults survive" + "".join(f"\n  {name}" for name in plugin.survivors))
    return 1 if plugin.survivors else int(status not in (0, pytest.ExitCode.NO_TESTS_COLLECTED))


if __name__ == "__main__":
    sys.exit(main())
