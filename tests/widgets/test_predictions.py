"""widgets/predictions.py: a question before a cell runs, and what is printed of the choice once the recording has the answer."""

from __future__ import annotations

import pytest

from dynexplore.widgets.predictions import Prediction, predict

pytestmark = pytest.mark.plain("words about choices; the recordings that judge them are those of the tutorials")


def graphs() -> Prediction:
    return predict("How many graphs has `f`?", {1: "The `if` needs a number.", 2: "One on each side."})


def test_the_recording_answers_a_wrong_choice(capsys: pytest.CaptureFixture[str]) -> None:
    """With the sentence of the choice that was made; a right one has its own."""
    question = graphs()
    question.choice = 1
    question.judge(2)
    question.choice = 2
    question.judge(2)
    assert capsys.readouterr().out == (
        "You predicted 1. The answer is 2. The `if` needs a number.\nRight: 2. One on each side.\n"
    )


def test_nobody_needs_to_choose(capsys: pytest.CaptureFixture[str]) -> None:
    """Run without a reader, the answer is printed and nothing is said to be right."""
    graphs().judge(2)
    assert capsys.readouterr().out == "No prediction made. The answer is 2. One on each side.\n"


def test_words_are_quoted_and_code_has_backquotes(capsys: pytest.CaptureFixture[str]) -> None:
    """In the printed sentence; buttons, choices and recorded answers are without them."""
    words = predict("Hit or recompile?", {"hit": "`n` changed.", "recompile": "A guard checks `n`."})
    words.judge("recompile")
    words.choice = "hit"
    words.judge("recompile")
    code = predict("Which call hits?", {"`f(x)`": "Same arguments.", '`f(x, "a")`': "Another mode."})
    code.judge("f(x)")
    code.choice = 'f(x, "a")'
    code.judge("f(x)")
    code.choice = "f(x)"
    code.judge("f(x)")
    assert capsys.readouterr().out.splitlines() == [
        'No prediction made. The answer is "recompile". A guard checks `n`.',
        'You predicted "hit". The answer is "recompile". `n` changed.',
        "No prediction made. The answer is `f(x)`. Same arguments.",
        'You predicted `f(x, "a")`. The answer is `f(x)`. Another mode.',
        "Right: `f(x)`. Same arguments.",
    ]
    assert [label for label, _ in code.widget.children[1].options] == ["f(x)", 'f(x, "a")']
    assert repr(code) == 'Predict: Which call hits?\n  f(x)   f(x, "a")'


def test_code_within_words_keeps_its_backquotes(capsys: pytest.CaptureFixture[str]) -> None:
    """A choice of words and code is printed as it is written; code may be given with its backquotes, too."""
    question = predict("Which of them?", {"`a` and `b`": "Both.", "`a`": "One."})
    question.judge("`a` and `b`")
    question.choice = "`a`"
    question.judge("`a`")
    assert capsys.readouterr().out == "No prediction made. The answer is `a` and `b`. Both.\nRight: `a`. One.\n"
    assert list(question.choices) == ["`a` and `b`", "a"]


def test_a_click_is_a_choice() -> None:
    """The buttons and `choice` are one thing."""
    question = graphs()
    question.widget.children[1].value = 2
    assert question.choice == 2


def test_a_fact_without_a_choice_is_the_tutorials_fault() -> None:
    """A program that came to mean something else does not pass unseen."""
    with pytest.raises(ValueError, match=r"the recorded answer 3 is none of the choices \[1, 2\]"):
        graphs().judge(3)


def test_a_saved_page_keeps_the_question() -> None:
    """Text and HTML stand in for the buttons where no kernel runs."""
    data = graphs()._repr_mimebundle_()
    assert data["text/plain"] == "Predict: How many graphs has `f`?\n  1   2"
    assert "<code>f</code>" in data["text/html"] and "<code>2</code>" in data["text/html"]
