"""session/predicted_resumes.py: what is told of resume functions before a call is made, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore


def twice_broken(x: Any, b: Any, n: int = 2, flag: bool = True, xs: Any = ()) -> Any:
    y = x.sin()
    dynexplore.graph_break()
    y = y + b * n
    xs = [*xs, y]
    dynexplore.graph_break()
    return y.relu() if flag else xs


@pytest.fixture
def session() -> Any:
    """A session of one call; the explanation is held by it, as the function is by its module."""
    return dynexplore.explain(twice_broken, torch.ones(3), torch.ones(3)).session


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "; the rest is unknown: it depends on values that exist only after the graphs have run"),
        (
            {"n": 3},
            "; from line 15 on, given the current arguments, it recompiles: n EQUALS: expected 2, found 3",
        ),
        ({"b": {"shape": (1,)}}, "recompiles: b TENSOR_MATCH: expected float32[3] cpu, found float32[1] cpu (tensor 'b'"),
        ({"flag": False}, "if the call reaches line 18, given the current arguments, it recompiles: flag EQUALS: expected True,"),
    ],
)
def test_a_hit_says_how_far_it_reaches(session: Any, changes: dict[str, Any], words: str) -> None:
    """Text and HTML name the break, and what is known of what follows it."""
    foretold = session.what_if(changes)
    assert (foretold.outcome, foretold.breaks_at) == ("hit", "at line 15")
    first = in_one_line(foretold)
    assert first.startswith(f"it hits entry {foretold.entry} up to the break at line 15; ")
    assert words in first
    assert "up to the break at line 15; " in foretold._repr_html_()


def in_one_line(foretold: Any) -> str:
    """What is printed, which is wrapped, in one line again."""
    return " ".join(str(foretold).split())


def test_a_miss_says_it_too(session: Any) -> None:
    """What follows the break of a new capture is decided when the call gets there."""
    foretold = session.what_if(x={"shape": (1,)})
    assert foretold.outcome == "recompile" and foretold.then == ()
    assert "(what follows the break at line 15 is decided when the call gets there)" in in_one_line(foretold)


def test_without_a_break_nothing_is_left_open() -> None:
    """The frame is the whole call."""
    explanation = dynexplore.explain(lambda x: x + 1, torch.ones(3))
    foretold = explanation.session.what_if()
    assert str(foretold) == f"it hits entry {foretold.entry}, and nothing is compiled"
    assert (foretold.then, foretold.breaks_at) == ((), "")


def test_a_name_that_is_bound_anew_is_not_told_of(session: Any) -> None:
    """`xs` holds another object after the first break: what its argument was says nothing."""
    foretold = session.what_if(xs=(1, 2))
    assert [one.fate for one in foretold.then] == ["not known", "not known"]


def test_the_limit_and_the_stance_count_after_a_break(session: Any) -> None:
    """Where nothing new may be compiled, the words say what happens instead."""
    with dynexplore.config.patch(cache_size_limit=1):
        assert [one.fate for one in session.what_if(n=3).then] == ["limit reached"]
    with dynexplore.config.patch(error_on_recompile=True):
        foretold = session.what_if(n=3)
        assert [one.fate for one in foretold.then] == ["raises"]
        assert "raises RecompileError: n EQUALS: expected 2, found 3" in in_one_line(foretold)
        with pytest.raises(dynexplore.exc.RecompileError):
            session.call(torch.ones(3), torch.ones(3), 3)


def test_a_branch_that_was_not_taken_is_compiled() -> None:
    """Of a resume function without an entry that much is known."""

    def branch(x: Any) -> Any:
        if x.sum() > 0:
            return x + 1
        return x - 1

    explanation = dynexplore.explain(branch, torch.ones(3))
    foretold = explanation.session.what_if()
    assert sorted(one.fate for one in foretold.then) == ["compile", "not known"]
    other = next(one.line for one in foretold.then if one.fate == "compile")
    words = f"if the call reaches line {other}, given the current arguments, it is compiled: there is no entry yet"
    assert words in in_one_line(foretold)


def two_calls_deep(x: Any, n: int = 2) -> Any:
    def leaf(x: Any) -> Any:
        y = x + 1
        dynexplore.graph_break()
        return y * 2

    return leaf(x * 3) - n


def test_a_break_in_a_callee_is_one_place() -> None:
    """It is named by the lines of its calls, and what follows it is one resume function, of the outermost frame."""
    first = two_calls_deep.__code__.co_firstlineno
    with dynexplore.config.patch(nested_graph_breaks=True):
        session = dynexplore.explain(two_calls_deep, torch.ones(3)).session
        foretold, missed = session.what_if(), session.what_if(x={"dtype": torch.float64})
    chain = f"test_predicted_resumes.py:{first + 6} > test_predicted_resumes.py:{first + 3}"
    assert (foretold.outcome, foretold.breaks_at, len(foretold.then)) == ("hit", f"at {chain}", 1)
    assert (missed.outcome, missed.breaks_at, len(missed.breaks)) == ("recompile", f"at {chain}", 1)
    assert session.what_if(n=3).then[0].reason == "n EQUALS: expected 2, found 3"
