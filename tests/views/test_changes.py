"""views/changes.py: what was different when something was compiled again, in words, and in which loop."""

from __future__ import annotations

import functools
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dynexplore import explain, graph_break
from dynexplore.engine import events as ev
from dynexplore.engine.config import config
from dynexplore.recording.recording import Recording
from dynexplore.views.changes import as_the_program_says, change, loops_of
from dynexplore.views.headline import headline

X = torch.ones(4)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale).relu()


class Mode:
    mode = "fast"


def chooses(x: torch.Tensor, how: Mode) -> torch.Tensor:
    return x.sin() if how.mode == "fast" else x.cos()


def sums(parts: list[torch.Tensor]) -> torch.Tensor:
    total = parts[0].sum()
    for part in parts:
        print(end="")
        total = total + (part * 2).sum()
    return total


def calls_in_a_loop(parts: list[torch.Tensor]) -> torch.Tensor:
    total = parts[0].sum()
    for part in parts:
        total = total + squares(part)
    return total


def squares(x: torch.Tensor) -> torch.Tensor:
    y = x * x
    print(end="")
    return y.sum()


def told(recording: Recording) -> list[str]:
    return [str(change(as_the_program_says(recording, failed))) for failed in recording.of(ev.GuardFailed)]


def loops(recording: Recording) -> list[int]:
    return sorted({line for _, line, _ in loops_of(recording).values()})


def test_the_old_and_the_new_value_of_a_modules_attribute() -> None:
    """The guard compares objects and keeps no old value; the guard as it was installed says it."""
    module = Scaled()
    explanation = explain(module)(X)
    module.scale = 3
    explanation.call(X)
    assert told(explanation.recording) == ["`self.scale` changed from 2 to 3"]
    assert "`self.scale` changed from 2 to 3" in headline(explanation.recording).where


def test_an_attribute_that_hides_that_of_the_class() -> None:
    """It is not new to the program, which read that of the class before."""
    how = Mode()
    explanation = explain(chooses)(X, how)
    how.mode = "slow"
    explanation.call(X, how)
    assert told(explanation.recording) == ["`how.mode` is now set on the object itself (to 'slow')"]


def test_a_recompile_in_a_loop_is_told_as_such() -> None:
    """Its place is the loop, in the counts of a headline that is about something else."""
    parts = [torch.ones(size) for size in (2, 2, 3)]
    recording = explain(sums)(parts).recording
    line = sums.__code__.co_firstlineno + 2
    assert loops(recording) == [line]
    assert f"in the loop at test_changes.py:{line})." in headline(recording).summary


def test_a_function_that_is_called_in_a_loop() -> None:
    """The loop is its caller's."""
    recording = explain(calls_in_a_loop)([torch.ones(size) for size in (2, 2, 3)]).recording
    assert loops(recording) == [calls_in_a_loop.__code__.co_firstlineno + 2]


def calls_what_has_a_loop(parts: list[torch.Tensor]) -> torch.Tensor:
    total = sums(parts)
    return total + 1


def test_a_loop_of_a_callee_in_which_the_graph_ends() -> None:
    """The resume function goes on in the callee, in its loop."""
    with config.patch(nested_graph_breaks=True):
        recording = explain(calls_what_has_a_loop)([torch.ones(size) for size in (2, 2, 3)]).recording
    line = sums.__code__.co_firstlineno + 2
    assert loops(recording) == [line]
    assert f"in the loop at test_changes.py:{line})." in headline(recording).summary


def test_the_loop_of_a_library_is_named_by_the_line_that_calls_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own line comes first, and the library's after it."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    source = "".join(inspect.getsourcelines(sums)[0]).replace("torch.Tensor", "object")
    (folder / "sums_of_parts.py").write_text(f"from __future__ import annotations\n{source}")
    monkeypatch.syspath_prepend(str(folder))
    of_library = importlib.import_module("sums_of_parts").sums

    def calls(parts: list[torch.Tensor]) -> torch.Tensor:
        y = of_library(parts)
        return y + 1

    recording = explain(calls)([torch.ones(size) for size in (2, 2, 3)]).recording
    line = calls.__code__.co_firstlineno + 1
    assert f"in the loop at test_changes.py:{line} (sums_of_parts.py:4)" in headline(recording).summary, headline(recording).summary


def test_a_tensor_that_requires_gradients_in_a_later_call() -> None:
    """The change is said in words, without those of torch's guard."""

    def doubles(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    recording = explain(doubles).calls((torch.ones(2),), (torch.ones(2, requires_grad=True),)).recording
    assert told(recording) == ["`x` now requires gradients"]


def test_another_call_is_no_loop() -> None:
    """What is compiled again because the next call is another one has nothing to do with the loop that it has."""
    recording = explain(sums).calls([[torch.ones(2)] * 3], [[torch.ones(3)] * 3]).recording
    what = headline(recording).summary
    why = "2 in the last iteration of a loop and 2 because `parts[0]` and `part` changed from 2 elements to 3"
    assert what.endswith(f"4 recompiles ({why}).")


def test_a_value_that_changes_again_and_again_is_said_by_its_first_change() -> None:
    """The cause of several recompiles is not one change, where the value was another one each time."""

    class Counted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            x = x * 2 if self.calls % 3 else x * 3
            graph_break()
            return x + self.calls

    recording = explain(Counted()).calls(*[(torch.ones(2),)] * 4).recording
    assert "because `self.calls` changed, first from 0 to 1" in (what := headline(recording).summary), what


def test_the_last_round_is_named() -> None:
    """That a loop ends is compiled once, and is no fault."""

    def rounds(x: torch.Tensor) -> torch.Tensor:
        for number in range(4):
            x = x * (number + 1)
            print(end="")
        return x.relu()

    assert headline(explain(rounds)(X).recording).summary == (
        "rounds: 3 graphs, 2 graph breaks on 1 line, 1 recompile (in the last iteration of a loop)."
    )


def test_files_are_named_where_there_are_several(tmp_path: Path) -> None:
    """A line alone does not say where: each place is told with its file, those of one file together."""
    spaces: list[dict[str, object]] = []
    for name, text in (
        ("tools.py", "def first(x):\n    print(end='')\n    return x + 1\ndef second(x):\n    return x * x.sum().item()\n"),
        ("main.py", "def main(x):\n    y = first(x)\n    if y.sum() > 0:\n        y = y + 1\n    return second(y)\n"),
    ):
        path = tmp_path / name
        path.write_text(text)
        space: dict[str, object] = dict(spaces[0]) if spaces else {}
        exec(compile(text, str(path), "exec"), space)
        spaces.append(space)
    where = headline(explain(spaces[1]["main"])(X).recording).where  # type: ignore[arg-type]
    assert "at main.py:3 in main: `if` on a tensor value" in where and "at lines 2 and 5 of tools.py" in where


@pytest.mark.parametrize(
    ("kind", "expected", "actual", "words"),
    [
        ("TENSOR_MATCH", "float32[4] cpu", "float32[5] cpu (size)", "`x` changed from 4 elements to 5"),
        ("TENSOR_MATCH", "float32[1, 2] cpu", "float32[3, 2] cpu", "`x` changed from 1 row to 3"),
        ("TENSOR_MATCH", "float32[2, 4] cpu", "float32[2, 5] cpu", "`x` changed from size 4 to 5 in dimension 1"),
        ("TENSOR_MATCH", "float32[4] cpu", "float64[4] cpu (dtype)", "`x` changed from float32 to float64"),
        ("TENSOR_MATCH", "float32[] cpu", "float32[1, 4] cpu", "`x` changed from 0 dimensions to 2"),
        ("TENSOR_MATCH", "float32[4] cpu", "float32[4] cuda:0", "`x` moved from cpu to cuda:0"),
        ("TENSOR_MATCH", "float32[4] cpu", "float32[4] cpu (requires_grad mismatch)", "`x` changed: requires_grad mismatch"),
        ("TENSOR_MATCH", "a tensor", "int", "`x` changed from a tensor to int"),
        ("TYPE_MATCH", "int", "str", "the type of `x` changed from int to str"),
        ("LIST_LENGTH", "2", "3", "the length of `x` changed from 2 to 3"),
        ("SHAPE_ENV", "2 <= x.size()[0]", "x.size()[0] is 1", "`2 <= x.size()[0]` no longer holds: x.size()[0] is 1"),
        ("SHAPE_ENV", "x.stride()[0] == 4", "x.stride()[0] is 5", "the memory layout of `x` changed: stride 5 in dimension 0"),
        ("SHAPE_ENV", "x.size()[1] != 6", "x.size()[1] is 6", "`x` has size 6 in dimension 1, which the compiled version excludes"),
        ("TENSOR_MATCH", "float32[?, 4] cpu requires_grad", "float32[8, 4] cpu (requires_grad mismatch. expected requires_grad=1)",
         "`x` no longer requires gradients"),
        ("TENSOR_MATCH", "float32[3] cpu",
         "float32[3] cpu (expected type of 'x' to be a tensor type, ' but found <class 'torch.Tensor'>)",
         "`x` changed from a tensor of another class to a Tensor"),
        ("TENSOR_MATCH", "float32[3] cpu requires_grad", "float32[3] cpu (class mismatch. expected Parameter, actual Tensor)",
         "`x` changed from a Parameter to a Tensor"),
        ("TENSOR_MATCH", "float32[3] cpu", "a NoneType (class mismatch. expected Tensor, actual NoneType)",
         "`x` changed from a tensor to None"),
        ("DICT_KEYS", "()", "('a',)", "`x` was empty and now has the key `a`"),
        ("DICT_KEYS", "()", "8 keys of type Linear", "`x` was empty and now has 8 keys of type Linear"),
        ("DICT_KEYS", "('a', 'b')", "('a', 'c')", "the keys of `x` now include `c` and no longer include `b`"),
        ("DICT_KEYS", "('a', 'b')", "('b', 'a')", "the keys of `x` are in a different order"),
        ("DICT_KEYS", "2 keys of type Linear", "3 keys", "the keys of `x` changed from 2 keys of type Linear to 3 keys"),
        ("MODULE_STATE", "no such attribute", "4", "`x` is now set on the object itself (to 4)"),
        ("MODULE_STATE", "True", "False", "`x` changed from True to False"),
        ("ATTRIBUTE_ABSENT", "'mode'", "Config object", "`x` now has its own attribute 'mode'"),
        ("ID_MATCH", "<f>", "<g>", "`x` changed from <f> to <g>"),
    ],
)
def test_changes_in_words(kind: str, expected: str, actual: str, words: str) -> None:
    """What a failed guard says, as people say it."""
    failed = ev.GuardFailed(frame=1, entry=1, index=0, scope="local", source="x", kind=kind, expected=expected, actual=actual)
    assert str(change(failed)) == words


@pytest.mark.parametrize(
    ("source", "expected", "actual", "words"),
    [
        ("self._modules", "('a',)", "('a', 'gate')", "the submodules of `self` now include `gate`"),
        ("self.up._buffers", "('a',)", "()", "the buffers of `self.up` no longer include `a`"),
        ("self.key._forward_hooks", "(4,)", "(0,)", "the forward hooks of `self.key` were replaced"),
        ("self.key._forward_hooks", "()", "(0,)", "the forward hooks of `self.key` were added"),
    ],
)
def test_registries_of_a_module_are_named_as_what_they_hold(source: str, expected: str, actual: str, words: str) -> None:
    """No program names `_modules` or `_forward_hooks`: the change is about submodules, buffers or hooks."""
    failed = ev.GuardFailed(
        frame=1, entry=1, index=0, scope="local", source=source, kind="DICT_KEYS", expected=expected, actual=actual
    )
    assert str(change(failed)) == words


def test_an_item_of_a_loop_is_no_name_of_the_stack() -> None:
    """A guard on what a loop comes to next, whose iterator stands on the stack, is told as such in the headline's words."""

    def fn(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        total = torch.zeros(())
        for x, y in pairs:
            total = total + (x * y).sum()
            graph_break()
        return total

    rows = (8, 8, 8, 9)
    recording = explain(fn, [(torch.ones(n, 2), torch.ones(n, 2)) for n in rows]).recording
    words = [str(change(as_the_program_says(recording, failed))) for failed in recording.of(ev.GuardFailed)]
    assert "`[0]` of the loop's next item changed from 8 rows to 9" in words
    assert not any("___stack" in said for said in words)


def test_the_state_of_an_object_in_a_module_is_not_said_to_be_that_of_a_module() -> None:
    """A plain object that `forward` reads is guarded with its module; the reason holds for it, for the module and for its class."""

    class Settings:
        scale = 1.0

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.settings = Settings()
            self.settings.scale = 2.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.settings.scale

    guards = explain(Scaled(), torch.ones(2)).recording.guards
    said = {guard.source: guard.reason for guard in guards if guard.kind == "MODULE_STATE"}
    assert "attributes that a module, an object in it or its class has" in said["target.settings"]


def passes_on(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


@passes_on
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_a_keyword_that_a_decorator_passes_on_has_its_own_name() -> None:
    """Nobody who calls `doubled(x=...)` knows of the decorator's `kwargs`."""
    with explain(doubled) as watched:
        watched(x=torch.ones(2))
        watched(x=torch.ones(3))
    assert "`x` changed from 2 elements to 3" in str(headline(watched.explanation.recording))


def test_a_module_that_was_swapped_is_no_value_to_pass_as_a_tensor() -> None:
    """The native walk says of which object the submodules are others; nobody passes these as a tensor."""

    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)  # type: ignore[no-any-return]

    module = Holder()
    explained = explain(module, torch.ones(2, 2))
    module.layer = torch.nn.Linear(2, 3)
    explained.call(torch.ones(2, 2))
    text = " ".join(str(explained).split())
    assert "the submodules of `self` changed" in text and "as a tensor" not in text
