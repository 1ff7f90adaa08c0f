"""Which locals change as loops go round."""

from __future__ import annotations

import pytest

from dynexplore.engine.bytecode import read
from dynexplore.engine.specialization.loop_carried import loop_carried_locals, stored_around


def nested(items):
    before = 0
    for item in items:
        part = item
        count = 0
        while part:
            part = part - 1
            count += 1
    return before


@pytest.mark.plain("names found in bytecode")
def test_counters_and_loop_variables_vary():
    """What is counted up or taken from an iterator varies; what is assigned otherwise is not known to."""
    assert loop_carried_locals(read(nested.__code__)) == {"item", "count"}


@pytest.mark.plain("names found in bytecode")
def test_what_the_loops_around_an_instruction_store():
    """Everything stored inside of any loop around it; None where there is no loop."""
    parsed = read(nested.__code__)
    inside = next(step.origin for step in parsed.steps if step.op == "BINARY_OP")
    assert stored_around(parsed, inside) == {"item", "part", "count"}
    assert stored_around(parsed, parsed.steps[-1].origin) is None
    assert stored_around(parsed, parsed.steps[1].origin) is None
