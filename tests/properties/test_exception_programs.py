"""Programs about exceptions do under the engine what they do without, wherever the exception was raised, passed and caught.

What is drawn stands in drawn_exceptions.py. Each program is called three times, with other numbers, another flag and an object
of another class, and everything is compared: values, exceptions and their line, prints, what was logged, the object's attributes.
`make soak` draws thousands (fuzzing.py says how many and from which seed).
"""

from __future__ import annotations

import linecache
import random
import sys
import types
import zlib
from typing import Any

import pytest
import torch
from properties.drawn_exceptions import CLASSES, PRELUDE, Writer
from properties.fuzzing import Case, Fuzzer
from properties.random_programs import ANY

from dynexplore.engine.config import config
from dynexplore.engine.translate.translator import Translator
from engine_checks import assert_same_as_eager


def draw(numbers: random.Random) -> Case:
    """A program, and n, flag and the class of the object of each call."""
    calls = [(numbers.randrange(5), numbers.random() < 0.5, numbers.choice(CLASSES)) for _ in range(numbers.randrange(3) + 1)]
    return Case(Writer(numbers).program(), tuple(calls))


def namespace_of(text: str) -> dict[str, Any]:
    """Run the prelude, a program and what calls it as if they stood in a file of their own."""
    whole = f"{PRELUDE.strip()}\n\n\n{text}\n\n{CALLER.strip()}\n"
    name = f"<exception program {zlib.crc32(text.encode()):08x}>"
    linecache.cache[name] = (len(whole), None, whole.splitlines(True), name)
    module = types.ModuleType("exception_program")
    sys.modules["exception_program"] = module
    exec(compile(whole, name, "exec"), module.__dict__)
    return module.__dict__


#: The objects stand in a global: copying an argument would run the program's own `__getattribute__`.
CALLER = """
def call(x, n, flag, cls):
    return program(x, n, flag, OBJECTS[cls])
"""


def attributes(value: Any) -> dict[str, Any]:
    """An object's own attributes, of which no method of its class hears."""
    return object.__getattribute__(value, "__dict__")  # type: ignore[no-any-return]


def object_of(cls: type) -> Any:
    """An object of a drawn class that has attributes, though no constructor ran."""
    made: Any = cls.__new__(cls)
    if isinstance(made, torch.nn.Module):
        torch.nn.Module.__init__(made)
    attributes(made).update(v=2, nn=1)
    return made


def check(case: Case) -> int:
    """Assert that a program is right in these calls; how many graphs there were."""
    names = namespace_of(case.text)
    x = torch.tensor([0.5, -1.0, 2.0])

    def setup() -> None:
        names.update(LOG=[], OBJECTS={cls: object_of(names[cls]) for cls in CLASSES if cls in names})

    def observe() -> Any:
        return names["LOG"], {cls: dict(attributes(value)) for cls, value in names["OBJECTS"].items()}

    first, *more = [(x, *call) for call in case.calls]
    try:
        with config.patch(cache_size_limit=1000):
            report = assert_same_as_eager(names["call"], *first, then=more, graphs=ANY, setup=setup, observe=observe)
    finally:
        linecache.cache.pop(names["call"].__code__.co_filename, None)
    return len(report.graphs)


FUZZER = Fuzzer(draw, check)


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_a_random_program_about_exceptions_does_the_same(first: int) -> None:
    """Exceptions that pass inlined methods, generators and `with` blocks leave nothing behind that eager does not."""
    tally = FUZZER.slice(first, 25)
    assert not tally.failures, tally.failures[0]
    assert tally.with_graph >= tally.cases / 4


def leaves_the_frame_on_the_stack(self: Any, frame: Any, thrown: Any = None) -> bool:
    """What `Translator.interpret` would be if a frame that an exception leaves stayed."""
    before = list(self.frames.running)
    self.frames.running.append(frame)
    finished = self._take_steps(frame, thrown)
    self.frames.running[:] = before
    return finished


@pytest.mark.soak
def test_the_fuzzer_finds_a_frame_that_stays(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """With the mend taken out, some program differs from eager."""
    monkeypatch.setattr(Translator, "interpret", leaves_the_frame_on_the_stack)
    found = FUZZER.finds()
    with capfd.disabled():
        print(f"\n{found}")
    assert found


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a generator that raises when closed, in eager, too
def test_random_programs_about_exceptions_for_long(capfd: pytest.CaptureFixture[str]) -> None:
    """Thousands of new programs, from a seed that is printed."""
    with capfd.disabled():
        tally = FUZZER.run_for_long()
    assert not tally.failures, "\n\n".join(tally.failures)
