"""What is said of an answer to an exercise."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from dynexplore.widgets.exercises import WrongAnswer, check, solve

pytestmark = pytest.mark.plain("words about answers; what is asked in the tutorials is tested in tests/docs")


def of_four(answer: int) -> str | None:
    """What is wrong with an answer that should be four."""
    return None if 2 * answer == 8 else f"twice {answer} is not 8"


def test_no_answer_and_a_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    """One line is printed for either."""
    check("exercise 1", ..., of_four)
    check("exercise 1", 4, of_four)
    assert capsys.readouterr().out == "exercise 1: put your answer in place of the ...\nexercise 1: right\n"


def test_a_wrong_answer_raises_what_is_wrong() -> None:
    """So that the cells below do not run on it."""
    with pytest.raises(WrongAnswer, match="^exercise 1: twice 5 is not 8$"):
        check("exercise 1", 5, of_four)


def test_an_answer_that_cannot_be_tried() -> None:
    """What it raised is said with the line that did, and is a wrong answer like any other."""
    with pytest.raises(WrongAnswer, match=r"^exercise 1: trying your answer raised TypeError: .*, at the line `return None"):
        check("exercise 1", None, of_four)


def test_a_notebook_shows_the_sentence_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """IPython prints no traceback of a wrong answer."""
    InteractiveShell().run_cell("from dynexplore.widgets.exercises import check\ncheck('exercise 2', 5, lambda answer: 'not so')")
    shown = capsys.readouterr()
    assert "exercise 2: not so" in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err and "lambda" not in shown.out + shown.err


def test_a_solution_is_held_against_its_exercise_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    """A right one prints nothing; a wrong one raises."""
    solve(4, of_four)
    assert capsys.readouterr().out == ""
    with pytest.raises(WrongAnswer, match="twice 5 is not 8"):
        solve(5, of_four)
