"""engine/policy/trace_rules.py: the standard library, torch's inner parts and ourselves are left alone, user code is not."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sysconfig
from pathlib import Path

import pytest
import torch

import dynexplore
from dynexplore.engine.policy.trace_rules import USER, is_of_the_program, rule_of, torch_rows

pytestmark = pytest.mark.plain("asks the rules what they say; nothing is captured")


def file_of(thing: object) -> str:
    """The file that a module or function stands in."""
    return inspect.getfile(thing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "filename",
    [
        "model.py",
        "/home/someone/project/train.py",
        "/opt/env/lib/python3.11/site-packages/transformers/models/bert/modeling_bert.py",
        "/opt/env/lib/python3.11/site-packages/timm/layers/mlp.py",
        "/opt/env/lib/python3.11/site-packages/einops/einops.py",
        "/tmp/ipykernel_17/3489.py",
        "<ipython-input-1-0123456789ab>",
        "<stdin>",
        "<string>",
        "<eval_with_key>.3",
        __file__,
    ],
)
def test_user_code_is_looked_into(filename: str) -> None:
    """Projects, model libraries, notebook cells and generated code are user code."""
    assert rule_of(filename) is USER


@pytest.mark.parametrize(
    ("module", "frame", "call"),
    [
        (torch.nn.modules.linear, "translate", "inline"),
        (torch.nn.modules.module, "plain", "inline"),
        (torch.nn.functional, "plain", "graph"),
        (torch.functional, "plain", "graph"),
        (torch.nn.init, "plain", "inline"),
        (torch.distributions.normal, "translate", "inline"),
        (torch.optim.SGD, "translate", "inline"),
        (torch.optim.LBFGS, "plain", "skip"),
        (torch.optim.lr_scheduler, "plain", "skip"),
        (torch.utils._pytree, "plain", "inline"),
        (torch.utils.checkpoint, "plain", "inline"),
        (torch.utils.data, "plain", "skip"),
        (torch.fx.Graph, "alone", "skip"),
        (torch._subclasses.fake_tensor, "alone", "skip"),
        (torch.serialization, "alone", "skip"),
        (torch, "plain", "skip"),
    ],
)
def test_torch_is_looked_into_where_it_is_made_of_operators(module: object, frame: str, call: str) -> None:
    """Layers, optimizers and distributions are traced; functional is nodes; compilers and machinery run alone."""
    rule = rule_of(file_of(module))
    assert (rule.frame, rule.call, rule.library) == (frame, call, "torch")


def test_small_layers_of_the_standard_library_are_inlined() -> None:
    """contextlib and os.path are traced through when traced code calls them, and never a frame of their own."""
    for name in (file_of(contextlib), "<frozen posixpath>", "<frozen abc>", "<frozen _collections_abc>"):
        assert (rule_of(name).frame, rule_of(name).call) == ("plain", "inline"), name


def test_the_rest_of_the_standard_library_is_not() -> None:
    """json and importlib are left alone."""
    for name in (file_of(json), "<frozen importlib._bootstrap>"):
        assert (rule_of(name).frame, rule_of(name).call) == ("plain", "skip"), name


def test_packages_without_tensor_work_are_left_alone() -> None:
    """pytest, numpy and IPython run plain, wherever they are installed; what they call is looked at."""
    for package in ("_pytest/python.py", "numpy/lib/function_base.py", "IPython/core/shell.py", "tqdm/std.py"):
        rule = rule_of(f"/opt/env/lib/python3.11/site-packages/{package}")
        assert (rule.frame, rule.call) == ("plain", "skip"), package
    assert rule_of(file_of(pytest)).frame == "plain"
    finder = rule_of("/opt/env/lib/python3.11/site-packages/__editable___model_1_0_finder.py")
    assert finder.frame == "plain"  # setuptools wrote it, for a package that is installed in place


def test_what_carries_output_is_left_alone_with_all_that_it_calls() -> None:
    """A kernel's streams are no part of the program, and neither are the dates and sockets that they use."""
    for package in ("ipykernel/iostream.py", "jupyter_client/session.py", "zmq/sugar/socket.py"):
        rule = rule_of(f"/opt/env/lib/python3.11/site-packages/{package}")
        assert (rule.frame, rule.call) == ("alone", "skip"), package


@pytest.mark.parametrize("name", ["dynexplore", "pytest", "torchrun", "my-own-tool"])
def test_what_starts_the_program_is_no_part_of_it(name: str) -> None:
    """A console script beside the interpreter is a launcher; a script of the user's in another folder is the program."""
    launcher = os.path.join(sysconfig.get_path("scripts"), name)
    assert rule_of(launcher).library == "launcher" and not is_of_the_program(launcher)
    assert is_of_the_program(f"/home/me/bin/{name}") and is_of_the_program(os.path.join(sysconfig.get_path("scripts"), "train.py"))


def test_we_do_not_look_at_ourselves() -> None:
    """Files of dynexplore run plain with all that they call; its tests and notebooks are user code."""
    assert rule_of(file_of(dynexplore)).frame == "alone"
    assert rule_of(str(Path(file_of(dynexplore)).parent.parent / "notebooks" / "cell.py")) is USER


def test_every_row_of_torch_names_something_that_exists() -> None:
    """A row for a file that torch no longer has would be dead."""
    folder = Path(file_of(torch)).parent
    missing = [row for row in torch_rows() if not os.path.exists(folder / row)]
    assert not missing
