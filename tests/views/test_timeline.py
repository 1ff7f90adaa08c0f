"""views/timeline.py: the fold from events to states."""

from __future__ import annotations

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.timeline import MOMENTS, Timeline, states
from sample_recordings import ABS_OUT, ADD, INNER, LT, ONE, SAMPLES, A, B, X, inlined, toy


def test_each_moment_is_a_state() -> None:
    """There is one state for each event one stops at, numbered in order, and none for the others."""
    timeline = Timeline(toy())
    assert [state.event for state in timeline] == [event for event in toy() if isinstance(event, MOMENTS)]
    assert [state.number for state in timeline] == list(range(len(timeline)))
    assert all(toy().events[state.position] is not None for state in timeline)


def test_a_state_holds_the_whole_stack_and_all_locals() -> None:
    """Though events tell only the changed locals, each state has all of them, and the stack."""
    stored = Timeline(toy())[11]
    assert isinstance(stored.event, ev.InstructionStepped) and stored.event.op == "STORE_FAST"
    assert stored.stack == () and dict(stored.locals) == {"a": A, "b": B, "x": X}
    compared = Timeline(toy())[16]
    assert compared.stack == (LT,) and dict(compared.locals) == {"a": A, "b": B, "x": X}


def test_a_state_says_what_changed() -> None:
    """Pushed, popped, locals before and after, nodes and guards since the moment before."""
    timeline = Timeline(toy())
    added = timeline[9]
    assert added.difference.popped == (ABS_OUT, ONE) and added.difference.pushed == (ADD,)
    assert [node.name for node in added.nodes] == ["add"] and added.guards == ()
    assert timeline[11].difference.changed == (("x", None, X),)
    assert [guard.source for guard in timeline[4].guards] == ["torch"]
    assert not timeline[0].difference and timeline[9].difference
    assert (timeline[16].node_count, timeline[16].guard_count) == (7, 4)


def test_deleted_locals_are_gone() -> None:
    """A local changed to None is deleted, and the difference says what it was."""
    r = Recording()
    r.record(ev.FrameEntered(frame=1, parent=None, code=INNER, arguments=(("y", A),)))
    r.record(ev.AttemptStarted(frame=1, attempt=1))
    for name in ("y", "never_there"):
        r.record(ev.InstructionStepped(frame=1, attempt=1, offset=2, step=1, op="DELETE_FAST", changed=((name, None),)))
    gone, nothing = Timeline(r).states[-2:]
    assert gone.locals == () and gone.difference.changed == (("y", A, None),)
    assert nothing.difference.changed == (("never_there", None, None),)


def test_a_restart_begins_with_nothing() -> None:
    """The second attempt starts with an empty stack, the arguments, and no nodes or guards."""
    timeline = Timeline(toy())
    start = next(state for state in timeline if isinstance(state.event, ev.AttemptStarted) and state.attempt == 2)
    assert start.stack == () and dict(start.locals) == {"a": A, "b": B}
    assert (start.node_count, start.guard_count) == (0, 0)


def test_a_break_shows_the_stack_before_the_instruction() -> None:
    """At the break the symbolic stack and locals are those that the instruction found."""
    (broke,) = Timeline(toy()).steps_of_break()
    assert broke.stack == (LT,) and dict(broke.locals)["x"] == X and broke.offset == 30
    assert broke.source_span == (11, 7, 11, 18)


def test_an_inlined_callee_has_its_own_stack_and_locals() -> None:
    """Inside the callee its stack and arguments are at hand; after it the caller's are again as they were."""
    timeline = Timeline(inlined())
    into, *_, left, called = timeline.states[5:12]
    assert into.code == INNER and into.calls == (1,) and [name for name, _ in into.locals] == ["y"]
    assert timeline[6].stack == into.locals[0][1:] and timeline[6].calls == (1,)
    assert left.calls == () and [view.text for view in left.stack] == ["inner", "float32[4] cpu"]
    assert [view.node for view in called.stack] == ["relu"] and called.code is not INNER


def test_one_can_jump_to_what_made_a_thing() -> None:
    """Nodes and guards lead to the step of the final attempt that made them; any event to its state."""
    r = toy()
    timeline = Timeline(r)
    node, guard = timeline.step_of_node(1, "lt"), timeline.step_of_guard(1, 2)
    assert node is not None and node.attempt == 2 and node.offset == 28
    assert guard is not None and guard.attempt == 2 and guard.offset == 6
    assert timeline.step_of_node(1, "nothing") is None and timeline.step_of_guard(9, 0) is None
    for position, event in enumerate(r):
        state = timeline.of_event(position)
        if state is not None:
            assert state.frame == event.frame and state.position >= position
            assert event is state.event or event in state.caused
        else:
            assert not isinstance(event, MOMENTS)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_fold_is_pure(name: str) -> None:
    """Folding twice gives equal states, folding a prefix gives a prefix: stepping back is a smaller number."""
    events = list(SAMPLES[name]())
    whole = list(states(events))
    assert list(states(events)) == whole
    for length in range(len(events)):
        part = list(states(events[:length]))
        assert part == whole[: len(part)]


def test_frames_may_interleave() -> None:
    """A frame that is entered while another one is translated leaves its state alone."""
    r = Recording()
    r.record(ev.FrameEntered(frame=1, parent=None, code=INNER, arguments=(("y", A),)))
    r.record(ev.AttemptStarted(frame=1, attempt=1))
    r.record(ev.InstructionStepped(frame=1, attempt=1, offset=2, step=1, op="LOAD_FAST", stack=(A,)))
    r.record(ev.FrameEntered(frame=2, parent=1, code=INNER, arguments=(("y", B),)))
    r.record(ev.InstructionStepped(frame=1, attempt=1, offset=4, step=2, op="LOAD_ATTR", stack=(A,)))
    last = Timeline(r)[-1]
    assert last.stack == (A,) and not last.difference and last.locals == (("y", A),)
    assert [state.number for state in Timeline(r).of_frame(2)] == [3]


def test_a_cut_recording_still_folds() -> None:
    """Steps without their FrameEntered (a recording cut or begun in the middle) give states without stack."""
    events = [event for event in toy() if not isinstance(event, (ev.FrameEntered, ev.AttemptStarted))]
    assert all(state.stack == () or isinstance(state.event, ev.GraphBroke) for state in Timeline(events))
    assert Timeline([]).states == ()
