"""engine/policy/constant_functions.py: who asks whether it is being compiled gets a constant."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.policy.constant_functions import constant_result, is_compiling, is_constant, table

pytestmark = pytest.mark.plain("asks the rules what they say; nothing is captured")


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (dynexplore.is_compiling, True),
        (torch.compiler.is_compiling, True),
        (torch.compiler.is_dynamo_compiling, True),
        (torch._utils.is_compiling, True),
        (torch.compiler.is_exporting, False),
        (torch.jit.is_scripting, False),
        (torch.jit.is_tracing, False),
        (torch._C._get_tracing_state, None),
        (torch.onnx.is_in_onnx_export, False),
        (torch._C._len_torch_dispatch_stack, 0),
    ],
)
def test_what_captured_code_is_told(function: Any, value: object) -> None:
    """A compiler is at work, TorchScript and export are not."""
    assert is_constant(function) and constant_result(function) is value


def test_dynamos_own_question() -> None:
    """torch._dynamo.external_utils.is_compiling counts, too, once somebody has imported it."""
    external = importlib.import_module("torch._dynamo").external_utils
    assert is_constant(external.is_compiling) and constant_result(external.is_compiling) is True


def test_the_table() -> None:
    """It lists each function with what it gives."""
    assert all(constant_result(function) is value for function, value in table())


def test_other_functions_are_no_constants() -> None:
    """Any other function is no constant, and asking for its value is a KeyError."""
    assert not is_constant(torch.sin) and not is_constant(len)
    with pytest.raises(KeyError):
        constant_result(torch.sin)


def test_outside_nothing_is_compiling() -> None:
    """Plain Python is told the truth."""
    assert is_compiling() is False
