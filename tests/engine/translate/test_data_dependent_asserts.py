"""Branches that only raise: the other way is assumed, checked in the graph, and the program raises what eager raises.

PYTEST_DONT_REWRITE: the assertions here are the programs.
"""

from __future__ import annotations

import pytest
import torch
from programs.program_table import Programs

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3) / 10


def positive(x):
    y = x * 2
    assert (x >= 0).all(), f"negative: {x.min().item():.1f}"
    return y + 1


def bounded(x):
    if (x > 5).any():
        raise ValueError("too large")
    return x.relu()


@program(X, graphs=1, ops=7)
def an_assertion_that_holds(x):
    return positive(x), bounded(x)


@program(-X, graphs=1, ops=4)
def an_assertion_that_fails(x):
    return positive(x)


@program(X * 100, graphs=1, ops=3)
def a_raise_that_is_reached(x):
    return bounded(x)


@program(X * 100, graphs=1, ops=3)
def a_raise_that_the_caller_catches(x):
    try:
        return bounded(x)
    except ValueError as error:
        return str(error), x + 1


@program(X, graphs=1, ops=2)
def an_assertion_on_several_values(x):
    assert x, "of more than one value"
    return x + 1


@program(X * 100, [], graphs=1, ops=3)
def changes_before_the_raise_are_seen(x, seen):
    seen.append(1)
    bounded(x)
    seen.append(2)
    return x


@program(X * 100, graphs=1, ops=5)
def random_numbers_drawn_before_the_raise(x):
    noise = torch.rand(2)
    try:
        bounded(x)
    except ValueError:
        pass
    return noise, torch.rand(2)


@program(X.clone(), graphs=1, ops=3)
def an_input_changes_after_the_assertion(x):
    assert x.sum() > 0
    x.add_(1)
    return x * 2


@program(-X, graphs=1, ops=3)
def an_input_would_change_after_a_failing_assertion(x):
    assert x.sum() > 0
    x.add_(1)
    return x * 2


@program(X.clone(), graphs=1, ops=3)
def an_input_changes_before_the_assertion(x):
    x.add_(1)
    assert x.sum() > 0
    return x * 2


@program(-X, graphs=1, ops=3)
def an_input_has_changed_before_a_failing_assertion(x):
    x.add_(-1)
    assert x.sum() > 0
    return x * 2


@program(X, graphs=2, ops=[1, 1], breaks=["DX104"])
def a_raise_behind_another_branch(x):
    if x.sum() > 100:
        if x.shape[0] > 1:
            raise ValueError("never")
    return x * 2


@program(X, graphs=1, ops=19)
def a_distribution_checks_its_arguments(x):
    made = torch.distributions.Normal(x, x + 1)
    return made.log_prob(x), made.mean


@program(-X, graphs=1, ops=8)
def a_distribution_refuses_its_arguments(x):
    return torch.distributions.Normal(x, x * 2).mean


@program(X, graphs=1, ops=3)
def a_branch_on_what_no_device_has_computed(x):
    try:
        return bounded(x.to("meta"))
    except (NotImplementedError, RuntimeError) as error:  # a check that only a device could fail must not pass for want of one
        return type(error), x + 1


@PROGRAMS.parameters()
def test_program(run):
    """The program does under the engine what it does without, in as many graphs as expected."""
    run()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_check_that_fails_leaves_the_device_usable(backend: str) -> None:
    """A GPU that is told to check by itself is of no use to the process once the check has failed."""
    x = X.to("cuda" if torch.cuda.is_available() else "cpu")
    assert_same_as_eager(a_raise_that_the_caller_catches, x, then=[(x * 100,), (x,)], backend=backend)
    assert (x * 2).sum().item() > 0


def test_the_same_entry_serves_both() -> None:
    """What raises once does not recompile: the next call that keeps to the assumption runs the graph."""
    counting = CountingBackend()
    compiled = dynexplore.optimize(counting)(bounded)
    for value, raises in ((1.0, False), (9.0, True), (2.0, False)):
        try:
            compiled(torch.tensor([value]))
        except ValueError:
            assert raises
        else:
            assert not raises
    assert len(counting.graphs) == 1
    assert counting.runs == 3
