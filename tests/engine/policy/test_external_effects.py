"""Which kind of graph break a call that reaches outside of the program is."""

from __future__ import annotations

import datetime
import io
import logging
import math
import os
import pathlib
import random
import time
import uuid

import numpy as np
import pytest

from dynexplore.engine.policy.external_effects import kind_of_break

pytestmark = pytest.mark.plain("asks the rules what they say; nothing is captured")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (time.time, "DX215"), (time.perf_counter, "DX215"), (os.getcwd, "DX215"), (datetime.datetime.now, "DX215"),
        (random.shuffle, "DX219"), (random.Random, "DX219"), (random.Random(3), "DX219"),
        (np.ones, "DX207"), (np.sqrt, "DX207"), (np.float32, "DX207"), (np.ones(2), "DX207"), (np.random.rand, "DX207"),
        (os.fspath, "as before"), (io.StringIO, "as before"), (io.StringIO().write, "as before"), (io.open, "DX215"),
        (pathlib.PurePosixPath("a").with_suffix, "as before"), (pathlib.Path.exists, "DX215"), (uuid.UUID, "as before"),
        (logging.getLogger, "DX206"), (logging.getLogger("a").handle, "DX206"),
        (math.gamma, "as before"), (len, "as before"), (datetime.timedelta, "as before"), (3, "as before"), (print, "as before"),
    ],
)  # fmt: skip
def test_kind(value, kind):
    """The module of the callee decides; what only computes there, and all others, keep the caller's kind."""
    assert kind_of_break(value, "as before") == kind


class Refusing:
    """Stands for a function of the program that answers for its attributes itself."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"asked for {name}")


def test_the_name_of_a_property_is_asked_by_the_program_alone() -> None:
    """From Python 3.13 on a property asks its function for its name, which may raise."""
    assert kind_of_break(property(Refusing()), "DX201") == "DX201"  # type: ignore[arg-type]
