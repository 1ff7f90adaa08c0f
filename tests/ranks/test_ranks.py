"""Recordings of several ranks side by side: made-up ones, so that each difference, each clock and each damage is there."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from ranks.made_up import CODE, MadeUp, made_up_ranks

from dynexplore.cli import main
from dynexplore.engine import events as ev
from dynexplore.engine.errors import ExportError, RecordingError
from dynexplore.ranks.compilations import guard_words, node_words
from dynexplore.ranks.differences import Difference
from dynexplore.ranks.folder import file_of, holds_ranks, open_ranks
from dynexplore.ranks.ranks import Ranks
from dynexplore.recording.recording import Recording

pytestmark = pytest.mark.plain("the recordings are made up")


def ranks_of(*made: MadeUp) -> Ranks:
    return Ranks({rank: one.made() for rank, one in enumerate(made)})


def told(ranks: Ranks) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.kind, one.ranks) for one in ranks.differences()]


def saved(folder: Path, *made: MadeUp) -> Path:
    for rank, one in enumerate(made):
        (folder / file_of(rank)).write_text(one.made().to_json(), encoding="utf-8")
    return folder


# -- differences -------------------------------------------------------------------------------------------------------


def test_a_rank_that_recompiles_alone_makes_the_others_wait() -> None:
    """The headline has the rank, the line, the cause, how long the other waited in which collective, and what to do."""
    assert str(made_up_ranks().headline).splitlines() == [
        "train.py on 2 ranks: only rank 1 recompiled `step`.",
        "train.py:12: `x` changed from 4 rows to 6. Rank 0 waited 0.50 s for rank 1 in all_reduce of",
        "  float[3].",
        "Use inputs of the same size on all ranks (pad or drop the last batch), or compile with dynamic=True.",
    ]


def test_costs_of_all_ranks_are_one_list() -> None:
    """A recompile that two of three ranks have is listed once, with both and their seconds; the costliest comes first."""
    other = ev.CodeView(2, "score", "/jobs/train.py", 30, "def score(x):\n    return x\n", ())
    first = MadeUp(0, world_size=3).compiled(0.0).compiled(1.0, 0.2, rows=6, cause="4")
    second = MadeUp(1, world_size=3).compiled(0.0).compiled(1.0, 0.5, rows=6, cause="4")
    third = MadeUp(2, world_size=3).compiled(0.0, code=other).compiled(1.0, 0.3, rows=8, cause="4", code=other)
    lines = str(ranks_of(first, second, third)).split("\n")
    start = lines.index("Graph breaks and recompiles, costliest first")
    assert lines[start + 1].startswith("  1. recompile of step (train.py:12), 0.50 s of compile time: `x` changed from 4 rows to 6")
    assert "     on ranks 0 and 1, 0.20 s to 0.50 s" in lines[start:] and "     on rank 2" in lines[start:]
    assert sum("recompile of step" in line for line in lines[start:]) == 1


def test_ranks_that_are_alike_are_called_so() -> None:
    """No difference: the headline says that all compiled the same."""
    ranks = ranks_of(MadeUp(0).compiled(0), MadeUp(1).compiled(0.2))
    assert ranks.differences() == ()
    assert str(ranks.headline) == "train.py on 2 ranks: all ranks compiled the same, 1 frame each."


def test_most_ranks_are_what_is_usual() -> None:
    """Of four ranks the one that differs is told; where most compile again, those that do are told."""
    assert told(ranks_of(*(MadeUp(rank).compiled(0, op="torch.tanh" if rank == 2 else "torch.relu") for rank in range(4)))) == [
        ("graph", (2,))
    ]
    again = [MadeUp(rank).compiled(0).compiled(1, rows=6, cause="4") for rank in range(3)]
    assert told(ranks_of(*again, MadeUp(3).compiled(0))) == [("recompile", (0, 1, 2))]


def test_the_first_node_where_graphs_part_is_named() -> None:
    """Number and words of the node, on both ranks."""
    (graph,) = ranks_of(MadeUp(0).compiled(0), MadeUp(1).compiled(0, op="torch.tanh")).differences()
    assert graph.cause == "node 2 is made = torch.relu(x,) on rank 0, made = torch.tanh(x,) on rank 1"


def test_sizes_that_differ_are_differences_of_graph_and_guards() -> None:
    """The first compilation of another size: graph and guards are others, nothing is compiled again."""
    assert told(ranks_of(MadeUp(0).compiled(0), MadeUp(1).compiled(0, rows=5))) == [("graph", (1,)), ("guards", (1,))]


def test_a_function_of_one_rank_alone() -> None:
    """What the others never compiled is told as such, and what another rank broke, or failed in."""
    other = dataclasses.replace(CODE, id=2, qualname="log", first_line=30)
    assert told(ranks_of(MadeUp(0).compiled(0), MadeUp(1).compiled(0).compiled(1, code=other))) == [("only", (1,))]
    place = {"frame": 1, "attempt": 1}
    broke = ev.GraphBroke(**place, kind="GB1", title="a print", reason="", user_stack=(ev.UserFrame("/jobs/train.py", 13, "step"),))
    ranks = ranks_of(MadeUp(0).compiled(0, more=(broke,)), MadeUp(1).compiled(0))
    assert ranks.differences()[0].cause == "rank 0 breaks the graph at train.py:13: a print"
    limit = ev.CacheLimitReached(frame=1, function="step", limit=8, reason="")
    assert told(ranks_of(MadeUp(0).compiled(0), MadeUp(1).compiled(0, more=(limit,)))) == [("failure", (1,))]


def test_a_graph_that_ends_early_is_told_as_its_break() -> None:
    """Where one rank breaks the graph, its operators are other ones as well: the break is what there is to fix."""
    line = ev.UserFrame("/jobs/train.py", 13, "step", code="    print(rank)")
    broke = ev.GraphBroke(frame=1, attempt=1, kind="GB1", title="a print", reason="", user_stack=(line,))
    ranks = ranks_of(MadeUp(0).compiled(0), MadeUp(1).compiled(0, op="torch.tanh", more=(broke,)))
    assert told(ranks) == [("break", (1,))]
    assert ranks.differences()[0].cause == "rank 1 breaks the graph at train.py:13 (`print(rank)`): a print"


def test_buckets_that_differ_are_told() -> None:
    """DDP's pieces of a graph are laid beside each other, too; where they are alike they stand once."""

    def pieces(*names: str) -> tuple[ev.GraphPiece, ...]:
        return tuple(ev.GraphPiece(number, ("made",), (0,), (name,), 8) for number, name in enumerate(names, 1))

    unlike = ranks_of(MadeUp(0).compiled(0, pieces=pieces("a", "b")), MadeUp(1).compiled(0, pieces=pieces("a")))
    assert told(unlike) == [("buckets", (1,))]
    alike = ranks_of(*(MadeUp(rank).compiled(0, pieces=pieces("a", "b")) for rank in (0, 1)))
    assert "DDP's buckets split step (train.py:12) into 2 pieces on all ranks" in str(alike)


def test_collectives_in_another_order_are_the_worst() -> None:
    """As they ran: the first that is not the same on all ranks; or one that a rank never began."""
    first = MadeUp(0).compiled(0).began(1).began(2, "broadcast")
    second = MadeUp(1).compiled(0, op="torch.tanh").began(1, "broadcast").began(2)
    order = ranks_of(first, second).differences()[0]
    assert order.message == "collective 1 is not the same on all ranks"
    assert order.cause == "rank 0 began all_reduce of float[3], rank 1 broadcast of float[3]"
    lost = ranks_of(MadeUp(0).compiled(0).began(1).began(2, "barrier", ""), MadeUp(1).compiled(0).began(1)).differences()[0]
    assert str(lost) == "rank 1 did not begin collective 2, as rank 0 did: barrier."


def test_what_healthy_ranks_do_not_share_is_not_compared() -> None:
    """The number of a rank's own device, addresses, and numbers of generated names are no difference."""

    def node(device: str, name: str) -> str:
        place = {"frame": 1, "graph": "g", "name": "a", "op": "call_function", "target": "f"}
        return node_words(ev.NodeAdded(**place, args=f"({name},)", dtype="float32", shape="[2]", device=device))  # type: ignore[arg-type]

    assert node("cuda:0", "__compiled_fn_1_x") == node("cuda:7", "__compiled_fn_3_y")
    check = "___check_obj_id(f, 94387209114240)"
    guard = ev.GuardInstalled(frame=1, index=0, scope="local", source="f", kind="ID_MATCH", expression=check)
    assert guard_words(guard) == guard_words(dataclasses.replace(guard, expression="___check_obj_id(f, 94387209114999)"))


@pytest.mark.parametrize(
    ("one", "other", "are_the_same"),
    [
        ("__builtins_dict___10['str']", "__builtins_dict___12['str']", True),
        ("__gen_rand_values_3", "__gen_rand_values_5", True),
        ("_140326311297808_c4.Tensor", "_139848192787216_c5.Tensor", True),
        ("__optimizer_140326311297808_c0.lr", "__optimizer_139848192787216_c0.lr", True),
        ("__builtins_dict___10['str']", "__builtins_dict___10['int']", False),
        ("layer_10", "layer_12", False),
        ("self.__dict__['n_1']", "self.__dict__['n_2']", False),
    ],
)
def test_globals_with_names_of_torchs_own_are_known_by_what_they_are_for(one: str, other: str, are_the_same: bool) -> None:
    """A counter, or an address, in a name that torch.compile made is no difference between ranks; one in the user's name is."""

    def words(source: str) -> str:
        return guard_words(ev.GuardInstalled(frame=1, index=0, scope="global", source=source, kind="ID_MATCH", expression=source))

    assert (words(one) == words(other)) is are_the_same


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_hosts_are_aligned_at_shared_collectives() -> None:
    """Clocks of two hosts that are an hour apart: the table is that of one clock, and says how sure it is."""
    first = MadeUp(0, host="one").compiled(0.0).began(0.5).began(1.0).began(1.5)
    second = MadeUp(1, host="two", ahead=3600).compiled(0.2).began(0.5).began(1.0).began(1.5)
    ranks = ranks_of(first, second)
    assert ranks.clock.how == "The clocks of the hosts are aligned by 3 collectives that all ranks began, accurate to about 0 ms."
    assert re.search(r"step, train.py:12 +0\.00 \+0\.10 +0\.20 \+0\.10", str(ranks))


def test_hosts_without_a_shared_collective_are_called_not_aligned() -> None:
    """Nothing is claimed about who waited for whom, where nobody can know."""
    first = MadeUp(0, host="one").compiled(0.0)
    second = MadeUp(1, host="two", ahead=3600).compiled(0.0).compiled(1, rows=6, cause="4")
    ranks = ranks_of(first, second)
    assert "not aligned" in ranks.clock.how
    assert ranks.differences()[0].waited == "Rank 0 waits for rank 1 at the next collective."


# -- files -------------------------------------------------------------------------------------------------------------


def test_missing_and_damaged_files_are_told(tmp_path: Path) -> None:
    """A rank without a file, half a file, and a file of another job each get a sentence; the rest is shown."""
    size = {"world_size": 4}
    older = MadeUp(1, name="older", ahead=-500, **size).compiled(0)  # type: ignore[arg-type]
    folder = saved(tmp_path, MadeUp(0, **size).compiled(0), older, MadeUp(2, **size).compiled(0))  # type: ignore[arg-type]
    whole = (folder / file_of(2)).read_text(encoding="utf-8")
    (folder / file_of(2)).write_text(whole[: len(whole) // 2], encoding="utf-8")
    ranks = open_ranks(folder)
    assert list(ranks) == [0]
    damaged, other, lost = ranks.notices
    assert damaged.startswith("rank_2.json cannot be shown: this is not a dynexplore recording: it is not JSON")
    assert other == "rank_1.json is skipped: it belongs to another job."
    assert lost == "There is no file of rank 3, of 4 ranks: it ended before writing one, or is still running."
    assert all(notice in str(ranks) for notice in ranks.notices)


def test_a_folder_without_a_readable_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to show: status 2, and which file could not be read."""
    (tmp_path / file_of(0)).write_text("{", encoding="utf-8")
    with pytest.raises(RecordingError, match=re.escape("rank_0.json cannot be shown")):
        open_ranks(tmp_path)
    assert main(["open", str(tmp_path)]) == 2
    assert "rank_0.json" in capsys.readouterr().err
    assert not holds_ranks(tmp_path / file_of(0))


def test_a_folder_is_opened_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As text, as a page, one rank alone; a form that one file cannot have is declined."""
    ranks = made_up_ranks()
    for rank in ranks:
        ranks[rank].save(tmp_path / file_of(rank))
    assert main(["open", str(tmp_path)]) == 0
    assert "only rank 1 recompiled `step`" in capsys.readouterr().out
    assert main(["open", str(tmp_path), "--html", str(tmp_path / "out.html")]) == 0
    assert 'class="lanes"' in (tmp_path / "out.html").read_text(encoding="utf-8")
    assert main(["open", str(tmp_path), "--rank", "1", "--text"]) == 0
    assert "1 recompile" in capsys.readouterr().out
    assert main(["open", str(tmp_path), "--save", str(tmp_path / "out.json")]) == 2
    assert "one rank" in capsys.readouterr().err


# -- showing -----------------------------------------------------------------------------------------------------------


def test_one_picture_has_a_lane_for_each_rank() -> None:
    """Bars of all compilations, the one that differs with its edge, the wait below; every text is escaped."""
    html = made_up_ranks()._repr_html_()
    assert html.count('<rect class="lane"') == 2
    assert html.count('<rect class="made"') == 2 and html.count('<rect class="again odd"') == 1
    assert "rank 0 was at all_reduce of float[3] 0.50 s before the last rank" in html
    wild = dataclasses.replace(CODE, qualname="<b>step</b>")
    assert "<b>" not in ranks_of(MadeUp(0).compiled(0, code=wild), MadeUp(1).compiled(0, code=wild))._repr_html_()


def test_many_ranks_share_columns_and_lanes() -> None:
    """Of forty ranks those that are alike have one column, and the one that differs its own; it has a lane."""
    made = [MadeUp(rank, world_size=40).compiled(0, op="torch.tanh" if rank == 39 else "torch.relu") for rank in range(40)]
    ranks = ranks_of(*made)
    assert "ranks 0-38" in str(ranks) and "rank 39" in str(ranks)
    html = ranks._repr_html_()
    assert html.count('<rect class="lane"') == 32 and ">rank 39<" in html and "not drawn: ranks 31-38" in html


def test_redacted_ranks_keep_no_host_and_no_path(tmp_path: Path) -> None:
    """A page to pass on: neither the host's name nor a path stands in it; that the ranks ran on one host is known still."""
    ranks = ranks_of(*(MadeUp(rank, host="planted-host").compiled(0) for rank in (0, 1)))
    assert ranks.redacted().clock.how == ranks.clock.how
    assert "planted" not in ranks.redacted()[0].to_json()
    holds = ranks.save_html(tmp_path / "out.html", redact=True)
    assert "were left out" in holds
    assert not re.search("planted|/jobs/", (tmp_path / "out.html").read_text(encoding="utf-8"))
    with pytest.raises(ExportError, match="several ranks can be saved only as .html or .txt"):
        ranks.save_html(tmp_path / "out.svg")


def test_a_rank_that_is_not_there_is_a_sentence() -> None:
    """As is a job of which nothing was compiled, and one of a single rank."""
    with pytest.raises(KeyError, match="there is no recording of rank 7; there are: 0, 1"):
        made_up_ranks()[7]
    assert str(Ranks({0: Recording(title="t.py"), 1: Recording(title="t.py")}).headline) == "t.py on 2 ranks: nothing was compiled."
    assert "no other rank" in str(ranks_of(MadeUp(0).compiled(0)).headline)


def test_the_old_name_of_a_message_still_works_and_warns() -> None:
    """`Difference.what` is the name of earlier releases."""
    difference = Difference("graph", (1,), "a message")
    with pytest.warns(DeprecationWarning, match="message"):
        assert difference.what == "a message"
