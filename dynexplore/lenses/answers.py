"""The observable behavior of one call as picklable data: result, arguments afterwards, output, side effects.

The idea: an equal return value is not enough. A captured program may also fail to mutate an argument, to print, to append to a
list of the program, or to update a buffer. So an answer holds all of these, with objects converted to plain data, and two
answers are compared part by part.

In: a callable, and the state it starts from (the engine's `CallSnapshot`). Out: `Answer`; `judge(expected, actual)`, which
returns a verdict and an explanation. PyTorch's counterpart: `same` in torch/_dynamo/utils.py and `same_two_models` in
torch/_dynamo/debug_utils.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from dynexplore.engine.events import clip
from dynexplore.engine.raw_attributes import closure_values
from dynexplore.lenses.outcome import LOSES, REFUSES, SAME, WRONG
from dynexplore.tools.accuracy import first_difference


@dataclass(slots=True)
class Answer:
    """The observable behavior of one call; `raised` is "" unless the call raised."""

    result: Any = None
    arguments: Any = None
    state: dict[str, torch.Tensor] = field(default_factory=dict)
    printed: str = ""
    effects: dict[str, str] = field(default_factory=dict)
    raised: str = ""


def answer_of(run: Callable[..., Any], start: Any, fn: Any) -> Answer:
    """Call `run` on fresh arguments from `start` and return its answer. `fn` is the program whose surroundings are watched."""
    args, kwargs = start.fresh()
    before = _surroundings(fn)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = run(*args, **kwargs)
        except Exception as error:  # raised by the program or by the capture method: part of the answer
            first = next(iter(str(error).strip().splitlines()), "")
            return Answer(raised=f"{type(error).__name__}: {clip(first, 200)}", printed=printed.getvalue())
    state = start.reached()["state"]
    effects = _changes(before, _surroundings(fn))
    return Answer(plain(result), plain([list(args), kwargs]), state, printed.getvalue(), effects)


def judge(expected: Answer, actual: Answer) -> tuple[str, str]:
    """The verdict on an answer (see outcome.py), and a description of the difference."""
    if expected.raised or actual.raised:
        kind = expected.raised.split(":")[0]
        if actual.raised.split(":")[0] == kind:
            return SAME, ""
        if actual.raised:
            return REFUSES, f"raises {actual.raised}"
        return WRONG, f"returns a result where eager raises {expected.raised}"
    for part, eager_value, has in (("result", expected.result, actual.result), ("arguments", expected.arguments, actual.arguments)):
        if (difference := first_difference(eager_value, has)) is not None:
            where = "the result differs" if part == "result" else "the arguments differ after the call"
            return WRONG, f"{where} from eager: {difference}"
    lost = _lost(expected, actual)
    return (LOSES, lost) if lost else (SAME, "")


def _lost(expected: Answer, actual: Answer) -> str:
    """Side effects that occur only in eager, or only in the captured program."""
    if expected.printed != actual.printed:
        return f"prints {clip(actual.printed, 60)!r} where eager prints {clip(expected.printed, 60)!r}"
    for name in sorted({*expected.effects, *actual.effects}):
        eager_effect, has = expected.effects.get(name, "is unchanged"), actual.effects.get(name, "is unchanged")
        if eager_effect != has:
            return f"{name} {has}, but in eager it {eager_effect}"
    difference = first_difference(expected.state, actual.state)
    return f"parameters or buffers differ from eager after the call: {difference}" if difference is not None else ""


# -- plain data ----------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as nested tuples, lists, dicts, CPU tensors and plain values; other objects are represented by their type's name."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone() if value.layout == torch.strided else value.detach().cpu().to_dense()
    if isinstance(value, Mapping):
        return {key if isinstance(key, str | int) else repr(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | torch.Size):
        items = [plain(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return value
    return f"an object of {type(value).__module__}.{type(value).__qualname__}"


# -- side effects on the surroundings ------------------------------------------------------------------------------------


def _surroundings(fn: Any) -> dict[str, tuple[str, Any]]:
    """The containers and numbers that the program can reach besides its arguments: closure, globals that it names, its module."""
    surroundings: dict[str, tuple[str, Any]] = {}
    for name, value in _named(fn):
        if isinstance(value, list | dict | set):
            surroundings[name] = (type(value).__name__, len(value))
        elif type(value) in (int, float):
            surroundings[name] = ("number", value)
        elif type(value) in (bool, str):
            surroundings[name] = ("value", value)
    return surroundings


def _named(fn: Any) -> list[tuple[str, Any]]:
    named: list[tuple[str, Any]] = []
    owner = fn if isinstance(fn, torch.nn.Module) else getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        for path, module in owner.named_modules():
            prefix = f"self.{path}." if path else "self."
            named += [(prefix + name, value) for name, value in vars(module).items() if not name.startswith("_")]
        fn = type(owner).forward if fn is owner else fn
    function = getattr(fn, "__func__", fn)
    if (code := getattr(function, "__code__", None)) is None:
        return named
    named += closure_values(function)
    return named + [(name, function.__globals__[name]) for name in code.co_names if name in function.__globals__]


def _changes(before: Mapping[str, tuple[str, Any]], after: Mapping[str, tuple[str, Any]]) -> dict[str, str]:
    """A description of each change that does not depend on earlier calls."""
    changed: dict[str, str] = {}
    for name, (kind, now) in after.items():
        was = before.get(name, (kind, None))[1]
        if now == was:
            continue
        if kind == "value" or not isinstance(was, int | float):
            changed[name] = "changes"
        else:
            step = now - was
            verb = "grows" if step > 0 else "shrinks"
            changed[name] = f"{verb} by {abs(step):g}"
    return changed
