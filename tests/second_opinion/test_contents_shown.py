"""What containers and objects made in a frame really held, at each step."""

from __future__ import annotations

from typing import Any

import torch
from second_opinion.planted import recorded

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import real_run


class Point:
    """Made in the frame."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x = x
        self.y = y


def history(recording: Recording, name: str) -> list[str]:
    """What a local really was, each time that it became another."""
    locals_of = [recording.real(number).locals for number in range(len(recording.steps))]
    texts = [str(known[name]) for known in locals_of if name in known]
    return [text for text, last in zip(texts, ["", *texts], strict=False) if text != last]


def test_a_list_is_put_together_from_its_items() -> None:
    """Tensors with their elements, constants; after each change."""

    def f(x: torch.Tensor) -> Any:
        items = [x, 3]
        items.append(x * 2)
        items[1] = "a"
        return items

    assert history(recorded(f, torch.ones(2)), "items") == [
        "list of 2: float32[2] cpu (1, 1), 3 [replayed]",
        "list of 3: float32[2] cpu (1, 1), 3, float32[2] cpu (2, 2) [replayed]",
        "list of 3: float32[2] cpu (1, 1), 'a', float32[2] cpu (2, 2) [replayed]",
    ]


def test_dicts_sets_objects_and_what_is_in_them() -> None:
    """Keys and names are shown; a change deep inside is seen from outside."""

    def f(x: torch.Tensor) -> Any:
        inner = [1]
        named = {"a": inner, "b": (x, None)}
        point = Point(named, {2})
        inner.append(5)
        return point, x + 1

    recording = recorded(f, torch.ones(1))
    assert history(recording, "named") == [
        "dict of 2: 'a': list of 1: 1, 'b': tuple of 2: float32[1] cpu (1), None [replayed]",
        "dict of 2: 'a': list of 2: 1, 5, 'b': tuple of 2: float32[1] cpu (1), None [replayed]",
    ]
    assert history(recording, "point")[-1] == (
        "a Point: x = dict of 2: 'a': list of 2: 1, 5, 'b': tuple of 2: float32[1] cpu (1), None, y = set of 1: 2 [replayed]"
    )


def test_a_tensor_in_a_list_that_is_written_to() -> None:
    """The list is another one afterwards, though nothing was stored in it."""

    def f(x: torch.Tensor) -> Any:
        y = x * 2
        items = [y]
        y += 1
        return items

    texts = history(recorded(f, torch.ones(1)), "items")
    assert texts == ["list of 1: float32[1] cpu (2) [replayed]", "list of 1: float32[1] cpu (3) [replayed]"]


def test_a_list_in_itself_and_a_long_one() -> None:
    """Depth and length are bounded."""

    def f(x: torch.Tensor) -> Any:
        items: list[Any] = [x.sum()]
        items.append(items)
        return x + len([items, *range(100)])

    recording = recorded(f, torch.ones(1))
    assert history(recording, "items")[-1] == "list of 2: float32[] cpu (1), itself [replayed]"
    longest = max(seen.length for seen in recording.of(ev.ContentsSeen))
    assert longest == 101
    assert max(len(seen.items) for seen in recording.of(ev.ContentsSeen)) == 6


def test_of_an_attempt_that_was_given_up_nothing_is_claimed() -> None:
    """A list of tensors that no graph ever computed."""

    def f(x: torch.Tensor) -> Any:
        items = [x * 2]
        print(end="")
        more = [items[0] + 1]
        breaks = more[0].sum().item() > 0
        return items, more, breaks

    recording = recorded(f, torch.ones(1))
    assert len(recording.breaks) == 2
    for number, step in enumerate(recording.steps):
        for value in recording.real(number).stack:
            assert "never ran" in value.why or value.provenance != "not observed" or not value.text, (step, value)


def test_the_browser_gets_the_same_as_the_recording() -> None:
    """The table of changes answers for each step what `Recording.real` answers."""

    def f(x: torch.Tensor) -> Any:
        y = x * 2
        items = [y, [1]]
        y += 1
        items[1].append(2)
        return items, {n: n for n in range(3)}

    recording = recorded(f, torch.ones(2))
    table = real_run.RealTable(recording)
    data = real_run.frame_data(recording, 1, table)["contents"]
    checked = 0
    for number, step in enumerate(recording.steps):
        for view, value in zip(step.stack, recording.real(number).stack, strict=True):
            changes = data.get(str(step.attempt), {}).get(f"{view.id} {view.kind}", [])
            rows = [row for since, row in changes if since <= number]
            if rows and not view.node:
                checked += 1
                assert table.rows[rows[-1]]["text"] == value.text
    assert checked > 5


def test_an_argument_is_not_taken_for_a_container_of_its_number() -> None:
    """What a frame was called with is numbered apart from what is made in it."""

    def f(x: torch.Tensor, scale: int, *more: int) -> Any:
        return x * scale, (x, more)

    recording = recorded(f, torch.ones(1), 3)
    assert history(recording, "scale") == ["3 [real]"]
    entered = recording.of(ev.FrameEntered)[0]
    index = real_run.RealTable(recording).index
    shown = {name: index.value(1, 1, 50, view).text for name, view in entered.arguments}
    assert shown["scale"] == "3"


def test_it_goes_to_json_and_keeps_no_strings_when_redacted() -> None:
    """Plain data; keys and constants that are strings are private."""
    recording = recorded(lambda x: (x, {"secret": x + 1, "k": "hidden"}), torch.ones(1))
    assert Recording.from_json(recording.to_json()) == recording
    redacted = recording.to_json(redact=True)
    assert "secret" not in redacted
    assert "hidden" not in redacted
    assert len(recording.graphs) == 1


def test_the_symbolic_local_changes_with_its_list() -> None:
    """A list that is filled is shown as it is at each step, not as it was when it was bound."""

    def f(x: torch.Tensor) -> Any:
        items = [x]
        items.append(3)
        return items

    shown = [view.text for step in recorded(f, torch.ones(2)).steps for name, view in step.changed if name == "items" and view]
    assert shown == ["list of 1: float32[2] cpu", "list of 2: float32[2] cpu, 3"]
