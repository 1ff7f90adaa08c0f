"""Functions bear the names under which programs know them, on the symbolic stack and in graphs."""

import math
import operator

import pytest
import torch

import dynexplore
from dynexplore.engine.graph.qualified_names import callable_name, qualified_name


@pytest.mark.plain("asks for names alone")
@pytest.mark.parametrize(("function", "name"), [
    (torch.abs, "torch.abs"), (torch.nn.functional.gelu, "torch.nn.functional.gelu"), (operator.add, "operator.add"),
    (len, "len"), (str.join, "str.join"), (math.sqrt, "sqrt"),
])
def test_names_on_the_stack(function, name):
    """Torch's functions in C are called as in a program; all others as they call themselves."""
    assert callable_name(function) == name


@pytest.mark.plain("asks for names alone")
def test_names_of_targets():
    """A target's name stands behind its module's; those of builtins stand alone."""
    assert [qualified_name(target) for target in (torch.abs, operator.add, math.sqrt, len)] == [
        "torch.abs", "operator.add", "math.sqrt", "len"]


def test_a_step_says_what_is_called_and_with_how_many_arguments():
    """The stack holds `torch.sum`, and the call says its count and its keywords."""
    recording = dynexplore.explain(lambda x: torch.sum(x, dim=0, keepdim=True), torch.ones(2, 2)).recording
    assert "torch.sum" in [value.text for step in recording.steps for value in step.stack]
    assert next(step.arg for step in recording.steps if step.op.startswith("CALL")) in ("3 (dim=, keepdim=)", "3")
