"""Run one module of CPython's own tests, plain or with every function's code swapped; print how each test ended.

    python cpython_tests.py test_contextlib plain|swapped|checked|moved

Which idea lives here: CPython's tests exercise every corner of calls, frames and exceptions, and know the right answer.

In:  a module of the `test` package, and how to run it: `checked` puts a guard in front of each swap, `moved` makes
     every frame run in a new frame because the old has no room.
Out: one JSON object on the last line of stdout: {"swaps": ..., "tests": {id: outcome}, "first failures": [...]}.
"""

from __future__ import annotations

import importlib
import json
import sys
import unittest
import warnings
from typing import Any

from code_swaps import MORE_THAN_A_CHUNK, swapped, swapping_region

from dynexplore.engine.native import Region, installed, region_depth


class Outcomes(unittest.TestResult):
    """A result that remembers each test's outcome under its id."""

    def __init__(self) -> None:
        super().__init__()
        self.by_id: dict[str, str] = {}

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.by_id[test.id()] = "ok"

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.by_id[test.id()] = "error"

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.by_id[test.id()] = "failure"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.by_id[test.id()] = "skipped"

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.by_id[test.id()] = "expected failure"


def region_for(way: str) -> Region | None:
    """The region that a way of running stands for."""
    if way == "plain":
        return None
    return swapping_region(check=(lambda *_: True) if way == "checked" else None, room=MORE_THAN_A_CHUNK if way == "moved" else 0)


def run(name: str, way: str) -> dict[str, Any]:
    """Run the module's tests in one process."""
    warnings.simplefilter("ignore")
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"test.{name}"))
    result, region = Outcomes(), region_for(way)
    if region is None:
        suite.run(result)
        swaps = 0
    else:
        swapped(region, suite.run)(result)
        assert not installed()
        assert region_depth() == 0
        assert region.store is not None
        swaps = sum(entry.hits + 1 for cache in region.store.caches() for entry in cache.entries)
    failures = [text[-2000:] for _, text in result.errors + result.failures][:3]
    return {"swaps": swaps, "tests": result.by_id, "first failures": failures}


if __name__ == "__main__":
    print("\n" + json.dumps(run(*sys.argv[1:])))
