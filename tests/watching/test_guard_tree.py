"""The tree of guards of an entry, taken down by a watch: the text that torch writes, and nothing of torch is held."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from watching.programs import PROGRAMS, Program, run

from dynexplore.watching.guard_tree import GuardTree

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def _keys(x: torch.Tensor, held: dict[Any, torch.Tensor]) -> torch.Tensor:
    return sum((value for value in held.values()), x)


OTHERS = {
    "dict": Program(lambda: _keys, lambda: [(torch.ones(2), {"a": torch.ones(2), 3: torch.ones(2)})]),
    "aliased": Program(lambda: lambda a, b: a + b, lambda: [(one, one) for one in (torch.ones(2),)]),
    "dynamic": Program(lambda: lambda x: x * x.shape[0], lambda: [(torch.ones(n, 2),) for n in (3, 4)]),
}


@pytest.mark.parametrize("name", [*PROGRAMS, *OTHERS])
def test_the_tree_is_written_as_torch_writes_it(name: str) -> None:
    """The text made later of what was taken down is that of torch, to the letter."""
    from torch._dynamo import guards

    trees: list[tuple[GuardTree, str]] = []

    def collect(manager: Any, *args: Any, **kwargs: Any) -> None:
        original(manager, *args, **kwargs)
        trees.append((GuardTree(manager.guard_manager), str(manager.guard_manager)))

    original = guards.CheckFunctionManager.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards.CheckFunctionManager, "__init__", collect)
        run((PROGRAMS | OTHERS)[name])
    assert trees or name == "loop"
    for tree, text in trees:
        assert tree.text.splitlines() == text.splitlines()
