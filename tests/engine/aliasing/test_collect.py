"""The metadata of a graph: what each input and output aliases, mutates and requires."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.aliasing.metadata import GraphMetadata
from dynexplore.engine.runtime.observed_backend import ObservedBackend


def metadata_of(program: Any, *args: Any, monkeypatch: pytest.MonkeyPatch) -> GraphMetadata:
    """The metadata of the one graph that the engine makes of a program."""
    collected: list[GraphMetadata] = []
    compiled = ObservedBackend.compiled

    def note(backend: Any, graph: Any, *rest: Any) -> Any:
        collected.append(graph.meta)
        return compiled(backend, graph, *rest)

    monkeypatch.setattr(ObservedBackend, "compiled", note)
    dynexplore.optimize("eager", nopython=True)(program)(*args)
    (meta,) = collected
    return meta


def test_mutations_and_what_autograd_notices_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutation through `.data` is hidden from autograd, one of the tensor is not; an input that is only read has neither."""

    def mutates(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        x.data.add_(1)
        y.view(-1).mul_(2)
        return x + y + z

    meta = metadata_of(mutates, torch.ones(2), torch.ones(2), torch.ones(2), monkeypatch=monkeypatch)
    assert meta.mutated_inputs == (0, 1)
    assert meta.hidden_mutations == (0,)
    assert meta.has_mutation and not meta.may_raise and not meta.draws_rng and not meta.runs_program_code


def test_inputs_that_enter_autograds_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that what requires grad is copied into gains a grad_fn; a result of an earlier operator is no leaf."""

    def copies(buffer: torch.Tensor, non_leaf: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        buffer.copy_(w * 2)
        non_leaf.mul_(2)
        return buffer.sum()

    w = torch.ones(3, requires_grad=True)
    meta = metadata_of(copies, torch.ones(3), w * 1, w, monkeypatch=monkeypatch)
    assert sum(info.gains_grad_fn for info in meta.inputs) == 1
    assert sum(info.mutates_data and info.requires_grad and not info.is_leaf for info in meta.inputs) == 1


def test_outputs_that_are_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of an output names it as its base; a view made in `no_grad` has no grad_fn, though its base has one."""

    def views(x: torch.Tensor) -> Any:
        y = x * 2
        with torch.no_grad():
            view = y[:1]
        return y, y[1:], view, 3

    meta = metadata_of(views, torch.ones(3, requires_grad=True), monkeypatch=monkeypatch)
    base, no_grad_view, view = meta.outputs
    assert (base.is_view, base.has_grad_fn) == (False, True)
    assert (view.base, view.has_grad_fn, view.is_no_grad_view) == (0, True, False)
    assert (no_grad_view.base, no_grad_view.has_grad_fn, no_grad_view.is_no_grad_view) == (0, False, True)


def test_operators_that_raise_draw_and_see_storages(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index out of range may raise, dropout draws, and `as_strided` counts from the start of the storage."""

    def program(x: torch.Tensor, i: torch.Tensor) -> Any:
        return x.as_strided((2,), (1,)), torch.nn.functional.dropout(x)[i]

    meta = metadata_of(program, torch.ones(3), torch.tensor([1]), monkeypatch=monkeypatch)
    assert meta.may_raise and meta.draws_rng and not meta.has_mutation
    assert meta.as_strided_inputs == (0,)
