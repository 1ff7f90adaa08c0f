"""Exercises of the tutorials: feedback on an answer.

The idea: a wrong answer gets a sentence that says what is wrong with it; a traceback of the checker would not help. So `check`
raises, which stops the cells below, but a notebook shows only the sentence.

In: an answer, and a function that says what is wrong with one.
Out: `check(exercise, answer, what_is_wrong)`, `solve(answer, what_is_wrong)`, `WrongAnswer`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any


class WrongAnswer(AssertionError):
    """A wrong answer, with the reason; `str` is the sentence."""

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows instead of a traceback."""
        return [str(self)]


def check(exercise: str, answer: Any, what_is_wrong: Callable[[Any], str | None]) -> None:
    """Check an answer; `what_is_wrong(answer)` is a sentence about a wrong answer, and None or "" for a right one.

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
    """Check a solution without printing "right", which would mislead below an exercise that is still open.

    >>> solve(4, lambda answer: None if answer == 4 else "count the graphs again")
    """
    if wrong := what_is_wrong(answer):
        raise WrongAnswer(wrong)


def _how_it_failed(error: Exception) -> str:
    """The exception that an answer raised, and the last line that ran before it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = str(error).strip().partition("\n")[0]
    return f"trying your answer raised {type(error).__name__}: {message}" + (f", at the line `{last.line}`" if last.line else "")
