"""DistributedDataParallel under the engine: split at bucket boundaries, in two real processes (tests/ddp_programs.py)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ddp_programs import COMPILED, EARLY, TRAININGS, mlp
from recorded import recorded
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.errors import Unsupported
from dynexplore.engine.runtime import distributed

TESTS = Path(__file__).parents[2]
Found = list[dict[str, Any]]
Programs = Callable[[], Found]
"""Runs a group of programs when it is first called, and gives what both processes found."""


def environment(**more: str) -> dict[str, str]:
    """What a started process gets: the paths of the tests, one thread, no graphics card."""
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **more}


def torchrun(group: str, folder: Path) -> Found:
    """What both processes of a group of programs found."""
    assert dynexplore.optimize()(mlp) is not mlp, "with the engine off both trainings are one and the same"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(TESTS / "ddp_programs.py"), group, str(folder)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return cache(lambda: torchrun("trainings", tmp_path_factory.mktemp("trainings")))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("backend inductor wants a C++ compiler, and this machine has none")
    return cache(lambda: torchrun("compiled", tmp_path_factory.mktemp("compiled")))


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return cache(lambda: torchrun("early", tmp_path_factory.mktemp("early")))


def assert_trained_the_same(found: Found, name: str) -> None:
    """Losses of each step, gradients of the last, and parameters and buffers after it, are those of eager DDP."""
    for rank in found:
        plain, engine = rank["trainings"][name]["plain"], rank["trainings"][name]["engine"]
        torch.testing.assert_close(engine["losses"], plain["losses"], rtol=1e-6, atol=1e-6)
        assert engine["gradients"].keys() == plain["gradients"].keys()
        for key, gradient in plain["gradients"].items():
            assert (engine["gradients"][key] is None) == (gradient is None), key
            if gradient is not None:
                torch.testing.assert_close(engine["gradients"][key], gradient, rtol=0, atol=1e-6, msg=key)
        for key, value in plain["state"].items():
            torch.testing.assert_close(engine["state"][key], value, rtol=1e-6, atol=1e-6, msg=key)
    training = TRAININGS.get(name, COMPILED.get(name))
    if training is not None and training.join:
        return  # the last steps of one process are not the other's
    first, second = (rank["trainings"][name]["engine"]["gradients"] for rank in found)
    assert first == second, "the gradients of both processes are the average"


# -- two processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRAININGS)
def test_training_is_that_of_eager_ddp(trained: Programs, name: str) -> None:
    """Whatever DDP's options and the model are, losses and gradients are those of eager DDP."""
    assert_trained_the_same(trained(), name)
    assert all(rank["trainings"][name]["pieces"] for rank in trained()), "graphs were compiled"


@pytest.mark.parametrize("name", EARLY)
def test_what_was_compiled_before_there_was_a_group_is_split_inside_ddp(early: Programs, name: str) -> None:
    """A model that was compiled, and ran, before init_process_group is compiled again for DDP: in pieces, gradients right."""
    assert_trained_the_same(early(), name)
    for rank in early():
        pieces = rank["trainings"][name]["pieces"]
        assert rank["trainings"][name]["graphs"] >= 1
        assert pieces and all(len(graph) >= 2 for graph in pieces), pieces


@pytest.mark.parametrize("name", COMPILED)
def test_training_with_inductor_is_that_of_eager_ddp(compiled: Programs, name: str) -> None:
    """The same with code that Inductor generates for each piece."""
    assert_trained_the_same(compiled(), name)
    pieces = compiled()[0]["trainings"][name]["pieces"]
    assert pieces and all(len(graph) >= 2 for graph in pieces)


def test_a_graph_is_split_where_its_buckets_end(trained: Programs) -> None:
    """Buckets of 8 KiB hold two layers of 4,224 bytes: two pieces, and the last layers are in the bucket sent first."""
    for name in ("mlp", "mlp aot_eager", "inside", "no_sync", "static graph", "bucket views"):
        ((first, second),) = (graph for graph in trained()[0]["trainings"][name]["pieces"] if graph)
        assert first == [["0.weight", "0.bias", "2.weight", "2.bias"], [1], ["linear", "relu", "linear_1", "relu_1"]]
        assert second == [["4.weight", "4.bias", "6.weight", "6.bias"], [0], ["linear_2", "relu_2", "linear_3"]]
    assert trained()[0]["trainings"]["mlp"]["engine"]["buckets"] == "8448, 8448"
    assert trained()[0]["trainings"]["mlp aot_eager"]["counters"]["backend"] == {"aot_eager": 2}


def test_a_transformer_block_is_split(trained: Programs) -> None:
    """Each piece begins with the first node that uses a parameter of its bucket."""
    (graph,) = trained()[0]["trainings"]["block"]["pieces"]
    assert [piece[0] for piece in graph] == [
        ["norm1.weight", "norm1.bias"],
        ["qkv.weight", "qkv.bias", "out.weight", "out.bias", "norm2.weight", "norm2.bias"],
        ["up.weight", "up.bias"],
        ["down.weight", "down.bias"],
    ]
    assert [piece[1] for piece in graph] == [[3], [2], [1], [0]]


def test_a_shared_weight_belongs_to_its_first_use(trained: Programs) -> None:
    """Its gradient is complete only there; frozen parameters are in no bucket."""
    (graph,) = trained()[0]["trainings"]["tied and frozen"]["pieces"]
    assert [piece[0] for piece in graph] == [["first.weight", "first.bias"], ["extra.weight", "extra.bias"], ["last.bias"]]


def test_what_fits_into_one_bucket_stays_whole(trained: Programs) -> None:
    """DDP's default buckets hold the whole small model: nothing is gained by splitting it."""
    assert trained()[0]["trainings"]["default buckets"]["pieces"] == [[]]


def test_two_graphs_of_one_model_are_split_as_one_model_is(trained: Programs) -> None:
    """Buckets go on over a graph break."""
    before, after = trained()[0]["trainings"]["a break"]["pieces"]
    assert [piece[1] for piece in before] == [[3], [2]]
    assert [piece[1] for piece in after] == [[1], [0]]


def test_sending_begins_before_backward_ends(trained: Programs) -> None:
    """In the profiler's record the first all-reduce stands before the last piece's backward; unsplit, after all of it."""
    assert trained()[0]["overlap"]["True"][:5] == [
        "backward begins",
        "backward ends",
        "all-reduce begins",
        "backward begins",
        "backward ends",
    ]
    assert trained()[0]["overlap"]["False"][:3] == ["backward begins", "backward ends", "all-reduce begins"]


def test_the_death_of_a_process_is_an_error_in_the_other(tmp_path: Path) -> None:
    """The one that lives gets a RuntimeError that says what happened, and ends; it does not wait for ever."""
    started = [
        subprocess.Popen(
            [sys.executable, str(TESTS / "ddp_programs.py"), "death", str(tmp_path)],
            env=environment(RANK=str(rank), WORLD_SIZE="2", DDP_MEETING_PLACE=f"file://{tmp_path}/meeting"),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    (_, said), _ = (process.communicate(timeout=100) for process in started)
    assert started[1].returncode == 3
    assert started[0].returncode == 1
    assert "RuntimeError" in said and "Connection" in said, said
    assert "EngineError" not in said


# -- one process ---------------------------------------------------------------------------------------------


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def replica(**options: Any) -> DDP:
    return DDP(mlp(), **{"bucket_cap_mb": 8 / 1024, **options})


@pytest.mark.usefixtures("alone")
def test_the_pieces_are_recorded() -> None:
    """The event of the compiled graph lists its pieces with nodes, buckets, parameters and bytes."""
    recording = recorded(replica(), (torch.randn(2, 32),))
    (compiled,) = recording.of(ev.SubgraphCompiled)
    assert [piece.number for piece in compiled.pieces] == [1, 2]
    assert compiled.pieces[0] == ev.GraphPiece(
        number=1,
        nodes=("linear", "relu", "linear_1", "relu_1"),
        buckets=(1,),
        parameters=("0.weight", "0.bias", "2.weight", "2.bias"),
        parameter_bytes=8448,
    )


@pytest.mark.usefixtures("alone")
def test_without_gradients_a_graph_stays_whole() -> None:
    """No backward, no all-reduce: nothing to overlap."""
    with torch.no_grad():
        recording = recorded(replica(), (torch.randn(2, 32),))
    assert [compiled.pieces for compiled in recording.of(ev.SubgraphCompiled)] == [()]


@pytest.mark.usefixtures("alone")
def test_splitting_can_be_switched_off() -> None:
    """With config.optimize_ddp off there is one graph."""
    with dynexplore.config.patch(optimize_ddp=False):
        recording = recorded(replica(), (torch.randn(2, 32),))
    assert [compiled.pieces for compiled in recording.of(ev.SubgraphCompiled)] == [()]


@pytest.mark.usefixtures("alone")
def test_a_ddp_module_has_no_graph_break() -> None:
    """Passed to optimize by itself, even with nopython: the module inside is one graph."""
    x = torch.randn(2, 32)
    ddp = replica()
    optimized = dynexplore.optimize("eager", nopython=True)(ddp)
    torch.testing.assert_close(optimized(x), ddp(x), rtol=0, atol=0)
    assert dynexplore.counters["graph_break"] == {}
    assert dynexplore.counters["frames"]["ok"] == 1
    explained = dynexplore.explain(ddp, x)
    assert explained.graph_count == 1 and not explained.breaks
    assert not explained.recording.of(ev.FrameSkipped)  # what torch marks in DDP is its own affair


@pytest.mark.usefixtures("alone")
def test_a_function_that_calls_ddp_breaks_there() -> None:
    """DDP's own work is no part of a graph; nopython says so."""
    ddp = replica()
    with pytest.raises(Unsupported, match="DX418"):
        dynexplore.optimize("eager", nopython=True)(lambda x: ddp(x) + 1)(torch.randn(2, 32))


@pytest.mark.usefixtures("alone")
def test_what_was_compiled_before_ddp_is_compiled_again_for_it() -> None:
    """A model that ran by itself first is split when it runs inside DDP."""
    model = mlp()
    optimized = dynexplore.optimize("eager")(model)
    x = torch.randn(2, 32)
    optimized(x)
    ddp = DDP(optimized, bucket_cap_mb=8 / 1024)
    ddp(x)
    assert dynexplore.counters["stats"]["graphs"] == 2
    assert dynexplore.counters["backend"]["eager"] == 3  # one whole, and two pieces
    optimized(x)
    ddp(x)
    assert dynexplore.counters["stats"]["graphs"] == 2


@pytest.mark.plain("computes the limits of buckets")
@pytest.mark.usefixtures("alone")
def test_limits_of_buckets() -> None:
    """bucket_cap_mb holds for every bucket; without it the first one closes at 1 MiB."""
    assert distributed.bucket_limits(DDP(nn.Linear(2, 2), bucket_cap_mb=1)) == [1048576, 1048576]
    assert distributed.bucket_limits(DDP(nn.Linear(2, 2))) == [1048576, 25 * 1048576]
