"""Real jobs of torchrun over gloo, one rank made to differ: what a watch gathers, and what TORCH_TRACE left of the same run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ranks.rank_jobs import JOB, LATE, torchrun

import dynexplore
from dynexplore.cli import main
from dynexplore.ranks.differences import Difference
from dynexplore.ranks.folder import open_ranks
from dynexplore.ranks.ranks import Ranks

pytestmark = pytest.mark.plain("each job is a process of its own, which no engine of this one reaches")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a watched job of two processes, and what it printed."""
    home = tmp_path_factory.mktemp("watched")
    done = torchrun(home, "job.py", "torch")
    assert done.returncode == 0, done.stderr[-6000:]
    return home, done.stdout


STEP = f"job.py:{JOB.splitlines().index('def step(x):') + 1}"


def of_kind(ranks: Ranks, kind: str) -> list[Difference]:
    return [one for one in ranks.differences() if one.kind == kind]


def assert_differs_as_made(ranks: Ranks, last: int) -> None:
    """The last rank alone compiles `step` again, has another graph of `loss`, and collectives in another order."""
    (order,) = of_kind(ranks, "collectives")
    assert "`exchange`" in order.message and order.ranks == (last,)
    (again,) = of_kind(ranks, "recompile")
    assert (again.ranks, again.cause) == ((last,), "`x` changed from 4 rows to 6")
    assert again.message == f"only rank {last} recompiled `step`"
    assert again.where == STEP
    (graph,) = [one for one in of_kind(ranks, "graph") if "`loss`" in one.message]
    assert graph.ranks == (last,) and "tanh" in graph.cause
    assert [one for one in of_kind(ranks, "guards") if "`loss`" in one.message]


def test_a_watched_job_is_shown_rank_by_rank(watched: tuple[Path, str]) -> None:
    """torchrun with `dynexplore watch --ranks` leaves a file a rank; what differs is told with place, cause and who waited."""
    home, printed = watched
    ranks = open_ranks(home / "ranks")
    assert list(ranks) == [0, 1] and not ranks.notices
    assert str(ranks) in printed
    assert_differs_as_made(ranks, 1)
    (again,) = of_kind(ranks, "recompile")
    assert again.waited.startswith("Rank 0 waited ") and again.waited.endswith(" s for rank 1 in all_reduce of float[3].")
    for rank in ranks:
        job = ranks[rank].job
        assert job is not None and job.world_size == 2 and job.host and ranks[rank].rank == rank
    assert ranks.clock.how == "All ranks ran on one host, so their times share one clock."


def test_the_worst_difference_is_the_headline(watched: tuple[Path, str]) -> None:
    """Collectives in another order come before what only costs time."""
    assert "collectives in the graph of `exchange`" in open_ranks(watched[0] / "ranks").headline.summary


def test_the_buckets_that_split_a_graph_are_its_pieces(watched: tuple[Path, str]) -> None:
    """DDPOptimizer's split of the module is told, by a watch as by a log: its parameters, and in which order buckets are sent."""
    ranks = open_ranks(watched[0] / "ranks")
    pieces = [graph.pieces for graph in ranks[0].graphs if graph.pieces]
    assert len(pieces) == 1 and len(pieces[0]) == 2
    assert [piece.buckets for piece in pieces[0]] == [(1,), (0,)]
    assert [len(piece.parameters) for piece in pieces[0]] == [2, 2]
    assert "DDP's buckets split " in str(ranks) and "on all ranks" in str(ranks)
    assert pieces[0][0].parameters == ("first.weight", "first.bias")
    logged = [graph.pieces for graph in open_ranks(watched[0] / "trace")[0].graphs if graph.pieces]
    assert logged == pieces


def test_a_folder_of_logs_says_the_same(watched: tuple[Path, str]) -> None:
    """TORCH_TRACE of the same run: the same differences, times called not aligned, without torch."""
    home, _ = watched
    ranks = open_ranks(home / "trace")
    assert_differs_as_made(ranks, 1)
    assert "not aligned" in ranks.clock.how
    program = "import sys; from dynexplore.cli import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
    words = [sys.executable, "-c", program, "open", str(home / "trace")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert "only rank 1 recompiled `step`" in done.stdout


def test_one_rank_of_a_folder_can_be_opened(watched: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    """`--rank N` shows that rank alone, of files and of logs; a rank that is not there is a sentence."""
    for folder in ("ranks", "trace"):
        assert main(["open", str(watched[0] / folder), "--rank", "1"]) == 0
        assert "rank 0" not in capsys.readouterr().out
        assert main(["open", str(watched[0] / folder), "--rank", "7"]) == 2
        assert "rank 7" in capsys.readouterr().err


def test_this_engine_in_every_rank(tmp_path: Path) -> None:
    """`--engine dynexplore` gathers what ours captures, of a rank that fails as well: the same differences, DDP's pieces."""
    done = torchrun(tmp_path, "--engine", "dynexplore", "job.py", "dynexplore", "--fail")
    assert done.returncode != 0 and "the last rank gives up" in done.stderr
    assert "only rank 1 recompiled `step`" in done.stdout
    ranks = open_ranks(tmp_path / "ranks")
    assert [one.engine for one in ranks.recordings.values()] == ["dynexplore"] * 2
    (again,) = of_kind(ranks, "recompile")
    assert (again.ranks, again.where, again.cause) == ((1,), STEP, "`x` changed from 4 rows to 6")
    assert "tanh" in of_kind(ranks, "graph")[0].cause
    assert [len(graph.pieces) for graph in ranks[1].graphs if graph.pieces] == [2]


def test_ranks_that_are_ended_keep_their_files(tmp_path: Path) -> None:
    """torchrun ends the others when one rank fails: what was seen of them is kept, and shown."""
    (tmp_path / "late.py").write_text(LATE, encoding="utf-8")
    done = torchrun(tmp_path, "--no-steps", "late.py")
    assert done.returncode != 0
    assert "only rank 1" not in done.stdout and "all ranks compiled the same, 1 frame each" in done.stdout
    assert list(open_ranks(tmp_path / "ranks")) == [0, 1]


@pytest.mark.soak
def test_four_processes(tmp_path: Path) -> None:
    """Of four ranks the last one differs; the other three are told together."""
    done = torchrun(tmp_path, "--no-steps", "job.py", "torch", processes=4)
    assert done.returncode == 0, done.stderr[-6000:]
    for folder in ("ranks", "trace"):
        ranks = open_ranks(tmp_path / folder)
        assert list(ranks) == [0, 1, 2, 3]
        assert_differs_as_made(ranks, 3)
    assert of_kind(open_ranks(tmp_path / "ranks"), "recompile")[0].waited.startswith("Ranks 0-2 waited up to ")


def test_without_torchrun_it_says_how_to_start_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A process that is none of several is told so in one sentence, with the command that starts a job."""
    script = tmp_path / "one.py"
    script.write_text("print(1)\n", encoding="utf-8")
    assert main(["watch", "--ranks", str(tmp_path / "out"), str(script)]) == 2
    assert "start it with torchrun" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert dynexplore.Recording().job is None
