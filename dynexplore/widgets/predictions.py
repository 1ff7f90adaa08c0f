"""Predictions: a question that a tutorial asks before a cell runs, and that the recording answers.

The idea: people learn from a guess that turned out wrong. The reader selects a choice, the next cell runs the program, and `judge`
compares the choice with the recording, so the right answer is never written down. Each choice has a sentence that explains why
somebody selects it, or why it is right. Without a reader (nbval, a saved page) the question is shown as text, and `judge` prints
the result from the recording.

In: a question, and the choices with their sentences; then a number or a word from a recording.
Out: `predict(question, choices)`, a `Prediction` to be displayed; `prediction.judge(fact)` prints the comparison.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

import ipywidgets

from dynexplore.views.html_report import with_code

WIDTH = 100


class Prediction:
    """A question with buttons. `choice` is the reader's selection, or None; it can also be set from code."""

    def __init__(self, question: str, choices: Mapping[Any, str]) -> None:
        self.question = question
        self.choices = {_plain(choice): sentence for choice, sentence in choices.items()}
        self._quoted = {_plain(choice): _quoted(choice) for choice in choices}
        self._buttons = ipywidgets.ToggleButtons(options=[(str(choice), choice) for choice in self.choices], value=None)
        self.widget = ipywidgets.VBox([ipywidgets.HTML(f"<b>Predict:</b> {with_code(question)}"), self._buttons])

    @property
    def choice(self) -> Any:
        """The reader's selection; None before there is one."""
        return self._buttons.value

    @choice.setter
    def choice(self, choice: Any) -> None:
        self._buttons.value = _plain(choice)

    def judge(self, fact: Any) -> None:
        """Print whether the recording agrees with the choice, and the sentence of that choice.

        Raises ValueError if there is no such choice: then the tutorial no longer matches the program.
        """
        fact = _plain(fact)
        if fact not in self.choices:
            raise ValueError(f"the recorded answer {fact!r} is none of the choices {list(self.choices)}")
        answer = self._quoted[fact]
        if self.choice is None:
            verdict, chosen = f"No prediction made. The answer is {answer}.", fact
        elif self.choice == fact:
            verdict, chosen = f"Right: {answer}.", fact
        else:
            verdict, chosen = f"You predicted {self._quoted[self.choice]}. The answer is {answer}.", self.choice
        print(textwrap.fill(f"{verdict} {self.choices[chosen]}".strip(), WIDTH))

    def __repr__(self) -> str:
        options = "   ".join(map(str, self.choices))
        return f"{textwrap.fill(f'Predict: {self.question}', WIDTH)}\n  {options}"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        data = self.widget._repr_mimebundle_(**options) or {}
        listed = " · ".join(f"<code>{choice}</code>" for choice in self.choices)
        html = f"<p><b>Predict:</b> {with_code(self.question)}<br>{listed}</p>"
        return {**data, "text/plain": repr(self), "text/html": html}


def _plain(choice: Any) -> Any:
    """A choice as its button shows it and as `judge` compares it: code without its backquotes."""
    return choice[1:-1] if isinstance(choice, str) and re.fullmatch("`[^`]*`", choice) else choice


def _quoted(choice: Any) -> str:
    """A choice within a sentence: code in backquotes, words in quotation marks, numbers as they are.

    >>> print(_quoted("`self.calls`"), _quoted("recompile"), _quoted(2))
    `self.calls` "recompile" 2
    """
    return f'"{choice}"' if isinstance(choice, str) and "`" not in choice else str(choice)


def predict(question: str, choices: Mapping[Any, str]) -> Prediction:
    """A question before a cell runs: each choice with the feedback for readers who select it. Code has backquotes.

    >>> graphs = predict("How many graphs?", {1: "The `if` depends on data.", 2: "One on each side of the break."})
    >>> graphs.choice = 1
    >>> graphs.judge(2)
    You predicted 1. The answer is 2. The `if` depends on data.
    """
    return Prediction(question, choices)
