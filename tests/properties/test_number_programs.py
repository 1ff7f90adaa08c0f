"""Programs about numbers do under the engine what they do without, when the numbers are of other sizes, signs and types.

What is drawn stands in drawn_numbers.py. Each program is called with numbers that are like each other until they are symbols, and
then with zeros, negatives, bools, nan and huge ones; everything is compared: values, types of numbers, exceptions and their line.
`make soak` draws thousands (fuzzing.py says how many and from which seed).
"""

from __future__ import annotations

import linecache
import math
import random
import zlib
from typing import Any

import pytest
import torch
from properties.drawn_numbers import Writer
from properties.fuzzing import Case, Fuzzer
from properties.random_programs import ANY

from dynexplore.engine.config import config
from dynexplore.engine.graph.builder import GraphBuilder
from dynexplore.engine.provenance.guard_check import GuardCheck
from dynexplore.engine.variables.scalars import symint
from engine_checks import assert_same_as_eager


def draw(numbers: random.Random) -> Case:
    """A program, and n, m and the size of x of each call; in some cases every size is a symbol from the start."""
    writer = Writer(numbers)
    return Case(writer.program(), writer.calls(), (("dynamic_shapes", True),) if numbers.random() < 0.3 else ())


def function_of(text: str) -> Any:
    """Compile a program as if it stood in a file."""
    name = f"<number program {zlib.crc32(text.encode()):08x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {"math": math, "torch": torch}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"]


def check(case: Case) -> int:
    """Assert that a program is right in these calls; how many graphs there were."""
    program = function_of(case.text)
    first, *more = [(torch.arange(1.0, size + 1.0), eval(n), eval(m)) for n, m, size in case.calls]
    try:
        with config.patch(dict(case.options), cache_size_limit=1000):
            report = assert_same_as_eager(program, *first, then=more, graphs=ANY)
    finally:
        linecache.cache.pop(program.__code__.co_filename, None)
    return len(report.graphs)


FUZZER = Fuzzer(draw, check)


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_a_random_program_about_numbers_does_the_same(first: int) -> None:
    """Numbers that change their size, sign or type are not served by what was compiled for others, and no guard raises."""
    tally = FUZZER.slice(first, 20)
    assert not tally.failures, tally.failures[0]
    assert tally.with_graph >= tally.cases / 2


def adds_the_node_as_it_is(self: GraphBuilder, op: str, target: Any, args: Any, kwargs: Any, fake: Any) -> torch.fx.Node:
    """`GraphBuilder.add` without its care for `(-1) ** n`."""
    node = self.graph.create_node(op, target, tuple(args), dict(kwargs))
    node.meta["example_value"] = fake
    self.call_count += 1
    return node


@pytest.mark.soak
@pytest.mark.parametrize("mend", ["guards that raise", "signs"])
def test_the_fuzzer_finds_a_mend_taken_out(mend: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """With the mend taken out, some program differs from eager."""
    if mend == "guards that raise":
        monkeypatch.setattr(GuardCheck, "failure_of", GuardCheck._failure_of)
    else:
        monkeypatch.setattr(symint, "_power", lambda ctx, left, right: symint._node(ctx, "**", left, right))
        monkeypatch.setattr(GraphBuilder, "add", adds_the_node_as_it_is)
    found = FUZZER.finds()
    with capfd.disabled():
        print(f"\n{found}")
    assert found


@pytest.mark.soak
def test_random_programs_about_numbers_for_long(capfd: pytest.CaptureFixture[str]) -> None:
    """Thousands of new programs, from a seed that is printed."""
    with capfd.disabled():
        tally = FUZZER.run_for_long()
    assert not tally.failures, "\n\n".join(tally.failures)
