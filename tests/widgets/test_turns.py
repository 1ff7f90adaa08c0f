"""Whose turn it is: cells and questions of the browser, in threads of their own."""

from __future__ import annotations

import threading

import pytest

from dynexplore.widgets.turns import Turn

pytestmark = pytest.mark.plain("a lock, and who has it")


def has_turn(turn: Turn) -> bool:
    """Whether a question in another thread gets the turn."""
    told: list[bool] = []

    def ask() -> None:
        with turn.question() as has_it:
            told.append(has_it)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return told[0]


def test_a_cell_has_the_turn_until_it_ends() -> None:
    """Cells inside of cells, and the end of one that never began, change nothing about it."""
    turn = Turn()
    turn.cell_ended()
    assert has_turn(turn)
    turn.cell_begins()
    turn.cell_begins()
    turn.cell_ended()
    assert not has_turn(turn)
    turn.cell_ended()
    assert has_turn(turn)


def test_the_thread_that_has_the_turn_may_ask() -> None:
    """A cell that asks an explorer itself is answered; a question gives back what it took."""
    turn = Turn()
    turn.cell_begins()
    with turn.question() as has_it:
        assert has_it
    assert not has_turn(turn)
    turn.cell_ended()
    with turn.question() as has_it:
        assert has_it and not has_turn(turn)
    assert has_turn(turn)
