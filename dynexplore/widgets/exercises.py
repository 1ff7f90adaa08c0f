"""Exercises of the tutorials: what is said of an answer.

Which idea lives here: a wrong answer is worth a sentence about what is wrong with it, and nobody learns from the traceback of
whoever looked at it. So `check` raises, and cells below wait; but a notebook shows its sentence alone.

In:  an answer, and a function that says what is wrong with one.
Out: `check(exercise, answer, what_is_wrong)`, `solve(answer, what_is_wrong)`, `WrongAnswer`.

PyTorch has no counterpart.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any


class WrongAnswer(AssertionError):
    """An answer that is wrong, and why; `str` is the sentence."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it, in place of a traceback."""
        return [str(self)]


def check(exercise: str, answer: Any, what_is_wrong: Callable[[Any], str | None]) -> None:
    """Say whether an answer is right; `what_is_wrong(answer)` is a sentence about a wrong one, and nothing about a right one.

    >>> check("exercise 1", ..., lambda answer: None)
    exercise 1: put your answer in place of the ...
    >>> check("exercise 1", 4, lambda answer: None if answer == 4 else "count the graphs again")
    exercise 1: right
    """
    if answer is ...:
        print(f"{exercise}: put your answer in place of the ...")
        return
    try:
        wrong = what_is_wrong(answer)
    except Exception as error:  # the answer may be anything, and its code may raise anything
        wrong = _how_it_failed(error)
    if wrong:
        raise WrongAnswer(f"{exercise}: {wrong}")
    print(f"{exercise}: right")


def solve(answer: Any, what_is_wrong: Callable[[Any], str | None]) -> None:
    """Hold a solution against the same question without a word: below an exercise that is still open, "right" would mislead.

    >>> solve(4, lambda answer: None if answer == 4 else "count the graphs again")
    """
    if wrong := what_is_wrong(answer):
        raise WrongAnswer(wrong)


def _how_it_failed(error: Exception) -> str:
    """What an answer raised, and the last line that ran before it did."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = str(error).strip().partition("\n")[0]
    return f"trying your answer raised {type(error).__name__}: {message}" + (f", at the line `{last.line}`" if last.line else "")
