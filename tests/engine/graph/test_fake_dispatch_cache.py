"""The memo of operators gives what FakeTensorMode gives, and serves nothing that it could get wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from dynexplore.engine.graph import fake_dispatch_cache
from dynexplore.engine.graph.fake_mode import EffectTrackingFakeMode

pytestmark = pytest.mark.plain("works on operators and modes by itself, without a frame")

aten = torch.ops.aten

# what the memo serves, with arguments made of two tensors
SERVED: list[Any] = [
    lambda x, y: x + y,
    lambda x, y: x + 2,
    lambda x, y: x * 2.5,
    lambda x, y: x > y,
    lambda x, y: x / 3,
    lambda x, y: x.sum(0, keepdim=True),
    lambda x, y: x.mean(),
    lambda x, y: torch.cat([x, y, x]),
    lambda x, y: torch.stack((x, y), -1),
    lambda x, y: x.to(torch.float64),
    lambda x, y: x.argmax(-1),
    lambda x, y: torch.where(x > 0, x, y),
    lambda x, y: torch.zeros_like(x, dtype=torch.int64),
    lambda x, y: x.clone(memory_format=torch.contiguous_format),
    lambda x, y: torch.nn.functional.gelu(x),
    lambda x, y: torch.rand_like(y),
    lambda x, y: x.transpose(0, -1),
    lambda x, y: x.unsqueeze(1).expand(-1, 3, *[-1] * (x.dim() - 1)),
    lambda x, y: x[0],
    lambda x, y: x[:1] if x.dim() > 1 else x[..., -1:],
    lambda x, y: x.detach(),
    lambda x, y: x.reshape(-1),
    lambda x, y: y.clone().view(1, -1) if y.is_contiguous() else y.permute(*reversed(range(y.dim()))),
    lambda x, y: x.max(-1).indices,
    lambda x, y: torch.var_mean(x, -1)[1],
    lambda x, y: torch.nn.functional.layer_norm(x, x.shape[-1:]),
]
tensors = st.builds(
    lambda sizes, dtype, flip, grad: (torch.ones(sizes, dtype=dtype).transpose(0, -1) if flip else torch.ones(sizes, dtype=dtype))
    .requires_grad_(grad and dtype.is_floating_point),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sampled_from([torch.float32, torch.float16, torch.float64]),
    st.booleans(),
    st.booleans(),
)  # fmt: skip


def facts(tensor: torch.Tensor) -> tuple[object, ...]:
    """All that a capture reads of a fake tensor."""
    return (
        tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.storage_offset(), tensor.requires_grad, tensor.is_leaf,
        tensor.layout, tensor.is_inference(), tensor.untyped_storage().nbytes(),
        None if tensor.is_inference() else tensor._version,
    )  # fmt: skip


def under(mode: FakeTensorMode, program: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[object, ...]:
    fakes = mode.from_tensor(x), mode.from_tensor(y)
    with mode:
        return facts(program(*fakes))


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SERVED), tensors, st.booleans())
def test_what_is_remembered_is_what_the_operator_makes(program: Any, x: torch.Tensor, inference: bool) -> None:
    """The first time, the second time, and without the memo: in all that can be read of the result."""
    y = x.detach() * 2
    with torch.inference_mode(inference):
        plain = FakeTensorMode()
        plain.cache_enabled = False
        expected = under(plain, program, x, y)
        assert under(EffectTrackingFakeMode(), program, x, y) == expected
        assert under(EffectTrackingFakeMode(), program, x, y) == expected


def test_a_second_operator_on_tensors_of_the_same_kind_is_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tensor is a new one each time, and the operator is not carried out again."""
    mode = EffectTrackingFakeMode()
    x = mode.from_tensor(torch.ones(3, 7, 11))
    with mode:
        first = torch.add(x, 12345.5)
        monkeypatch.setattr(mode, "_dispatch_impl", None)
        second = torch.add(x, 12345.5)
    assert second is not first
    assert second.untyped_storage()._cdata != first.untyped_storage()._cdata


def test_a_view_shares_the_memory_of_what_is_viewed() -> None:
    """Also the one that is recalled: a write to either is a write to both."""
    mode = EffectTrackingFakeMode()
    x, y = mode.from_tensor(torch.ones(3, 5)), mode.from_tensor(torch.ones(3, 5))
    with mode:
        views = [torch.transpose(tensor, 0, 1) for tensor in (x, y)]
        views[1].add_(1)
    storages = [tensor.untyped_storage()._cdata for tensor in (x, y, *views)]
    assert storages[:2] == storages[2:]
    assert (x._version, y._version) == (0, 1)
    assert mode.written == {storages[1]}


def test_the_default_dtype_is_part_of_the_key() -> None:
    """`ones / 3` of whole numbers is of the default dtype."""
    results = []
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            results.append(under(EffectTrackingFakeMode(), lambda x, y: x / 3, torch.ones(2, dtype=torch.int64), torch.ones(1))[2])
        finally:
            torch.set_default_dtype(torch.float32)
    assert results == [torch.float32, torch.float64]


def test_one_and_one_point_zero_are_different_arguments() -> None:
    """1 == 1.0, but whole numbers stay whole when one is added."""
    inputs = torch.ones(2, dtype=torch.int64), torch.ones(1)
    answers = [under(EffectTrackingFakeMode(), lambda x, y, n=n: x + n, *inputs) for n in (1, 1.0)]
    assert [facts[2] for facts in answers] == [torch.int64, torch.float32]


@pytest.mark.parametrize("operator", [aten.add_.Tensor, aten.reshape.default, aten._unsafe_view.default, aten.nonzero.default,
                                      aten.lift_fresh.default, aten.unbind.int, aten.item.default, aten.split.Tensor])
def test_operators_that_write_alias_or_ask_the_data_are_not_served(operator: Any) -> None:
    """Nor are those that give a list."""
    assert not fake_dispatch_cache.is_fit(operator)


def test_unfit_arguments_are_handed_on() -> None:
    """A NaN, a tensor of another mode, a tensor of varying size, a sparse one: no key, so FakeTensorMode is asked."""
    mode, other = EffectTrackingFakeMode(), EffectTrackingFakeMode()
    fine = mode.from_tensor(torch.ones(3))
    assert fake_dispatch_cache.key_of(mode, aten.add.Tensor, (fine, 1), {}) is not None
    sparse = mode.from_tensor(torch.eye(2).to_sparse())
    for argument in (float("nan"), other.from_tensor(torch.ones(3)), object(), torch.ones(3), sparse):
        assert fake_dispatch_cache.key_of(mode, aten.add.Tensor, (fine, argument), {}) is None


def test_the_memo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program whose constants never repeat does not fill the memory."""
    monkeypatch.setattr(fake_dispatch_cache, "_MOST", 10)
    monkeypatch.setattr(fake_dispatch_cache, "_cache", {})
    mode = EffectTrackingFakeMode()
    x = mode.from_tensor(torch.ones(3))
    with mode:
        for number in range(50):
            torch.add(x, number)
    assert len(fake_dispatch_cache._cache) <= 10
