"""The guards of two engines, read as facts about places: what both rely on is the same, however many checks it takes."""

from __future__ import annotations

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.two_engines.guard_claims import claims, unlike

pytestmark = pytest.mark.plain("guards that are made up, read without any engine")

Guards = tuple[tuple[str, str], ...]
"""Source and kind of each."""

CODE = ev.CodeView(1, "f", "model.py", 1, "def f(x):\n    return x\n", ())


def capture(*guards: tuple[str, str], engine: str = "dynexplore", expected: str = "") -> Recording:
    """A recording of `f` with guards of these sources and kinds."""
    recording = Recording(engine=engine)
    recording.record(ev.FrameEntered(frame=1, parent=None, code=CODE))
    recording.record(ev.AttemptStarted(frame=1, attempt=1))
    for index, (source, kind) in enumerate(guards):
        scope = "local" if source else ""
        recording.record(
            ev.GuardInstalled(frame=1, attempt=1, index=index, scope=scope, source=source, kind=kind, expected=expected)
        )
    return recording


def said(theirs: Recording, ours: Recording) -> list[str]:
    """The differences, in words."""
    return [one.message for one in unlike(claims(theirs), claims(ours))]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ((("xs", "SEQUENCE_LENGTH"),), (("xs", "TYPE_MATCH"), ("xs", "LIST_LENGTH"))),
        ((("n", "EQUALS_MATCH"), ("n", "CONSTANT_MATCH")), (("n", "EQUALS"),)),
        ((("", "GRAD_MODE"), ("", "DEFAULT_DEVICE")), (("", "GLOBAL_STATE"),)),
        ((("self.fc", "TYPE_MATCH"), ("self.fc.training", "CONSTANT_MATCH")), (("self.fc", "MODULE_STATE"),)),
        ((("type(x)", "ID_MATCH"),), ()),
    ],
    ids=["a list", "a constant", "the modes", "a module tree", "a row of a class"],
)
def test_the_same_facts_by_other_checks_are_no_difference(theirs: Guards, ours: Guards) -> None:
    """Each engine splits and groups its checks in its own way, and relies on the same."""
    assert said(capture(*theirs, engine="torch.compile"), capture(*ours)) == []


def test_a_stronger_fact_is_a_difference_and_names_both_sides() -> None:
    """Who relies on the very object compiles again for another one; who relies on its class does not."""
    theirs, ours = capture(("f", "TYPE_MATCH"), engine="torch.compile"), capture(("f", "ID_MATCH"))
    assert said(theirs, ours) == ["`f`: only dynexplore checks its identity"]
    theirs, ours = capture(("d", "DICT_KEYS_MATCH"), engine="torch.compile"), capture(("d", "ID_MATCH"))
    [told] = said(theirs, ours)
    assert told == "`d`: torch.compile checks its keys, dynexplore checks its identity"
