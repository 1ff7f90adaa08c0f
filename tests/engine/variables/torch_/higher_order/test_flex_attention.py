"""torch.nn.attention.flex_attention: attention with scores and masks of the program's own is one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols
from torch.nn.attention import flex_attention as of_torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

import dynexplore
from engine_checks import assert_same_as_eager

QUERY, KEY, VALUE = torch.rand(3, 2, 2, 16, 8).unbind()
BIAS = torch.rand(16)
HEADS = torch.tensor([0.5, 2.0])
DOCUMENTS = torch.tensor([0] * 5 + [1] * 7 + [2] * 4)


@pytest.fixture(autouse=True)
def _without_a_compiler_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of a compiler torch would call torch.compile for it."""
    monkeypatch.setattr(of_torch, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


def causal(b, h, q, k):
    return q >= k


def same_document(b, h, q, k):
    return (DOCUMENTS[q] == DOCUMENTS[k]) & (q >= k)


def relative(score, b, h, q, k):
    return score + (q - k)


def alibi(score, b, h, q, k):
    return score + HEADS[h] * (k - q)


def soft_cap(score, b, h, q, k):
    return torch.tanh(score / 20) * 20


MASK = create_block_mask(causal, None, None, 16, 16, device="cpu", BLOCK_SIZE=16)


def plain(q, k, v):
    return flex_attention(q, k, v).sin()


def with_relative_places(q, k, v):
    return flex_attention(q * 2, k, v, score_mod=relative) + 1


def with_a_bias_for_each_head(q, k, v):
    return flex_attention(q, k, v, score_mod=alibi, scale=0.5)


def with_a_mask_from_outside(q, k, v):
    return flex_attention(q, k, v, score_mod=soft_cap, block_mask=MASK)


def with_a_mask_made_inside(q, k, v):
    mask = create_block_mask(same_document, None, None, 16, 16, device="cpu", BLOCK_SIZE=16)
    return flex_attention(q, k, v, block_mask=mask)


def with_a_closure(q, k, v):
    slopes = q.mean((0, 2, 3)).exp()

    def score(score, b, h, i, j):
        return torch.where(i > j, score * slopes[h] + BIAS[j], score - BIAS[0])

    return flex_attention(q, k, v, score_mod=score)


def with_grouped_heads(q, k, v):
    return flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True)


def of_several_layers(q, k, v):
    for _ in range(3):
        q = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * 0.5, block_mask=MASK)
    return q


PROGRAMS = [
    plain, with_relative_places, with_a_bias_for_each_head, with_a_mask_from_outside, with_a_mask_made_inside, with_a_closure,
    with_grouped_heads, of_several_layers,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS)
def test_attention_is_one_graph(fn: Callable[..., Any], backend: str) -> None:
    """Its functions are bodies in the graph, whatever they index, and a compiler that traces the graph again takes them."""
    dynexplore.reset()
    compiled = dynexplore.optimize(backend, nopython=True)(fn)
    for scale in (1, 2):
        given = QUERY * scale, KEY, VALUE
        torch.testing.assert_close(compiled(*given), fn(*given))
    assert dynexplore.counters["stats"]["graphs"] == 1


def test_a_mask_that_the_program_returns() -> None:
    """Its tensors are results of the graph, its function is the program's own."""

    def run(x: Any) -> Any:
        return create_block_mask(same_document, None, None, 16, 16, device="cpu", BLOCK_SIZE=16), x + 1

    dynexplore.reset()
    mask, _ = dynexplore.optimize("eager")(run)(torch.ones(2))
    expected, _ = run(torch.ones(2))
    assert type(mask) is BlockMask
    assert mask.mask_mod is same_document
    torch.testing.assert_close(mask.to_dense(), expected.to_dense())
    assert dynexplore.counters["stats"]["graphs"] >= 1


def test_other_lengths() -> None:
    """A length that changes is compiled once more at most, and each length gives what eager gives."""
    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(with_relative_places)
    for length in (16, 24, 40, 56):
        given = torch.rand(3, 2, 2, length, 8).unbind()
        torch.testing.assert_close(compiled(*given), with_relative_places(*given))
    assert 1 <= dynexplore.counters["stats"]["graphs"] <= 2


@pytest.mark.parametrize("body", [
    lambda score, b, h, i, j: SEEN.append(1) or score,
    lambda score, b, h, i, j: score.add_(1),
])  # fmt: skip
def test_what_a_body_may_not_do_breaks(body: Callable[..., Any]) -> None:
    """torch calls such a function when it likes; the graph ends before the attention, and torch does what it does."""

    def run(q: Any, k: Any, v: Any) -> Any:
        SEEN.clear()
        return flex_attention(q * 2, k, v, score_mod=body)

    assert assert_same_as_eager(run, QUERY, KEY, VALUE, observe=lambda: len(SEEN)).breaks


SEEN: list[int] = []


def test_a_mark_of_a_size_is_left_where_no_compiler_alone_comes_by() -> None:
    """`torch._dynamo.mark_static` of the program itself is carried out: it is an attribute of the tensor."""

    def run(x: Any) -> Any:
        y = x + 1
        torch._dynamo.mark_static(y, 0)
        return y, y * 2

    report = assert_same_as_eager(run, torch.ones(3), observe=None)
    assert "DX203" in report.breaks


def test_lengths_that_are_known_have_no_unbacked_symbols() -> None:
    """Torch's question before it compares the lengths of a mask is answered as in eager, for lengths that vary, too."""

    def fn(x: torch.Tensor, length: int) -> torch.Tensor:
        return x + 1 if has_free_unbacked_symbols((x.shape[0], length, 3)) else x * 2

    assert_same_as_eager(fn, torch.ones(3), 4, graphs=1, breaks=0)
    compiled = dynexplore.optimize("eager", nopython=True)(fn)
    for size in (3, 5, 7):
        assert torch.equal(compiled(torch.ones(size), size), torch.full((size,), 2.0))


def test_a_mask_whose_rule_is_made_in_the_frame_is_one_graph() -> None:
    """torch asks a rule for its code and its defaults to learn how many arguments it takes; a new function has both."""

    def documents(query: Any, of_which: torch.Tensor) -> Any:
        def same(b: Any, h: Any, i: Any, j: Any) -> Any:
            return (of_which[i] == of_which[j]) & (i >= j)

        mask = create_block_mask(same, None, None, query.shape[-2], query.shape[-2], device="cpu")
        return flex_attention(query, query, query, block_mask=mask), same.__code__.co_varnames, same.__defaults__

    query = torch.linspace(-1, 1, 128 * 8).reshape(1, 1, 128, 8)
    assert_same_as_eager(documents, query, torch.arange(128) // 40, then=[(query, torch.arange(128) // 30)], graphs=1, breaks=0)
