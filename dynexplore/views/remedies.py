"""What to change against a recompile or a graph break of torch.compile: the exact text to paste, where, and what it costs.

Which idea lives here: advice is worth what it does. So each remedy is a row of one table: the cause that it is for, a text that can
be pasted as it stands, the place for it, and its price. Where a program can apply it (a variable of the environment, a line at the
top, a line before the call, an option of torch.compile), `dynexplore try` does, runs the calls again, and says what that changed;
until then it is only expected to help. A remedy that only a person can apply is by hand, and says so. None names a file of an
engine, and none raises a limit that the program has raised already.

In:  a `Cost` of a recording of torch.compile.
Out: `remedies_for(cost, source)`: `Remedy`s, the one to try first standing first; `verdict(tried)`, what came of one, in words;
     `costs_data(recording)`, the costs with their remedies for JSON and the explorer.

PyTorch has no counterpart; its messages name settings one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dynexplore.engine import events as ev
from dynexplore.recording.engines import TORCH
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural
from dynexplore.views.miss_reasons import Reason
from dynexplore.views.ranked_costs import Cost, costs_of, plain

How = Literal["environment", "top", "option", "call", "by hand"]
"""Where the text goes: a variable of the environment; a line at the top of the script; an option of torch.compile; a line before
the call; or nobody but a person can say."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change: the id of its row, the text to paste, where it goes, and what it costs. `source` is what it is about."""

    row: str
    text: str
    how: How
    costs: str
    source: str = ""

    @property
    def where(self) -> str:
        """Where the text goes, in words."""
        return _WHERE[self.how]


_WHERE: dict[How, str] = {
    "environment": "in the environment of the program",
    "top": "at the top of the program",
    "option": "as an option of torch.compile",
    "call": "before the call",
    "by hand": "by hand",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: which reasons it is for, and what makes the text; `setting` is what a program may have set itself."""

    id: str
    applies: Callable[[Reason], bool]
    text: Callable[[Reason], str]
    how: How
    costs: str
    setting: str = ""


_SIZE = re.compile(r"had (size \d+ in dimension \d+|\d+ (rows?|elements?)), now \d+")


def _is_size(reason: Reason) -> bool:
    happened = reason.change.happened
    return reason.kind == "TENSOR_MATCH" and _SIZE.fullmatch(happened) is not None


def _may_be_parameter(reason: Reason) -> bool:
    """A tensor that an object holds: a recording does not say whether it is a parameter."""
    return _is_size(reason) and _is_attribute(reason)


def _is_number(reason: Reason, kind: type) -> bool:
    return reason.kind == "EQUALS" and all(_kind_of(text) is kind for text in (reason.expected, reason.actual))


def _kind_of(text: str) -> type | None:
    """The type of a plain value, by its text.

    >>> _kind_of("3"), _kind_of("-0.5"), _kind_of("'a'"), _kind_of("True"), _kind_of("another value")
    (<class 'int'>, <class 'float'>, <class 'str'>, <class 'bool'>, None)
    """
    if text in ("True", "False"):
        return bool
    for kind, pattern in ((int, r"-?\d+"), (float, r"-?(\d+\.\d*|\d*\.?\d+e[-+]?\d+)"), (str, r"['\"].*['\"]")):
        if re.fullmatch(pattern, text):
            return kind
    return None


def _is_dtype(reason: Reason) -> bool:
    return reason.kind in ("TENSOR_MATCH", "torch tensor") and re.match(r"was \w+, now \w+", reason.change.happened) is not None


def _is_attribute(reason: Reason) -> bool:
    return "." in reason.source


def _torch_source(reason: Reason) -> str:
    """`L['self'].n` for `self.n`, as torch names a local."""
    head, dot, rest = reason.source.partition(".")
    name, bracket, index = head.partition("[")
    return f"L['{name}']{bracket}{index}{dot}{rest}"


def _dynamic_sources(reason: Reason) -> str:
    return f'TORCH_COMPILE_DYNAMIC_SOURCES="{_torch_source(reason)}"'


def _mark_dynamic(reason: Reason) -> str:
    axis = re.search(r"in dimension (\d+)", reason.change.happened)
    return f"torch._dynamo.mark_dynamic({reason.source}, {axis[1] if axis else 0})"


def _constant(text: str) -> Callable[[Reason], str]:
    return lambda reason: text.replace("SOURCE", reason.source)


_VARIES = "one version for all sizes; its kernels are not tuned for one of them, and 0 and 1 still get their own"
_ALL_VARY = "every size and number of this function varies from the first call on"
_NUMBER_VARIES = "the number is an input of the graph; code that needs the very value is compiled for each"
_TWO = "two versions"

ROWS: tuple[Row, ...] = (
    Row("parameter-sizes", _may_be_parameter, _constant("torch._dynamo.config.force_parameter_static_shapes = False"), "top",
        "sizes of parameters are inputs of the graph; its kernels are not tuned for one of them", "force_parameter_static_shapes"),
    Row("dynamic-source", _is_size, _dynamic_sources, "environment", _VARIES),
    Row("mark-dynamic", lambda r: _is_size(r) and not _is_attribute(r), _mark_dynamic, "call",
        "the same; it raises ConstraintViolationError where the program needs one size"),
    Row("dynamic-option", lambda r: _is_size(r) and not _is_attribute(r), _constant("dynamic=True"), "option", _ALL_VARY),
    Row("module-int", lambda r: _is_number(r, int) and _is_attribute(r),
        _constant("torch._dynamo.config.allow_unspec_int_on_nn_module = True"), "top",
        "ints that modules hold are inputs of the graph; code that needs the very value is compiled for each",
        "allow_unspec_int_on_nn_module"),
    Row("dynamic-number", lambda r: _is_number(r, int), _dynamic_sources, "environment", _NUMBER_VARIES),
    Row("number-option", lambda r: _is_number(r, int) and not _is_attribute(r), _constant("dynamic=True"), "option", _ALL_VARY),
    Row("float", lambda r: _is_number(r, float) and not _is_attribute(r),
        _constant("SOURCE = torch.tensor(SOURCE, dtype=torch.float64)"), "call",
        "a tensor of no dimensions in place of the float, and `if` on it breaks the graph"),
    Row("float-attribute", lambda r: _is_number(r, float) and _is_attribute(r), _constant("SOURCE = torch.tensor(SOURCE)"),
        "by hand", "a tensor in place of the float wherever the program sets it"),
    Row("str", lambda r: _is_number(r, str),
        _constant("Choose by `SOURCE` before the compiled function, and compile what each choice calls"), "by hand",
        "a function for each value"),
    Row("flag", lambda r: _is_number(r, bool), _constant("Nothing, if both values of `SOURCE` are used: each has its version"),
        "by hand", _TWO),
    Row("None", lambda r: "None" in (r.expected, r.actual), _constant("Set `SOURCE` before the first call"), "by hand", "nothing"),
    Row("gradient-mode", lambda r: r.kind == "GLOBAL_STATE" and "grad" in r.actual,
        _constant("Nothing, if the function runs with and without gradients: each has its version; else call it in one mode"),
        "by hand", _TWO),
    Row("process-state", lambda r: r.kind == "GLOBAL_STATE" and "grad" not in r.actual,
        _constant("Set threads, default dtype and deterministic mode once, before the first call"), "by hand", "nothing"),
    Row("dtype", _is_dtype, _constant("Convert `SOURCE` to one dtype before the call"), "by hand",
        "a copy for each call with the other dtype"),
    Row("module", lambda r: "_modules" in r.source or r.kind == "NN_MODULE" or (r.kind == "ID_MATCH" and "Module" in r.expected),
        _constant("Compile the modules, not the function that gets them: `module.compile()` on each"), "by hand",
        "a version for each module"),
    Row("hook", lambda r: "hooks" in r.source, _constant("Register hooks once, before the first call"), "by hand", "nothing"),
    Row("function", lambda r: "function" in r.expected or r.expected == "code object",
        _constant("Define the function that is `SOURCE` once, outside of the loop"), "by hand", "nothing"),
    Row("dict", lambda r: r.kind in ("DICT_CONTAINS", "DICT_KEYS") or "___dict" in r.source,
        _constant("Give `SOURCE` the same keys in all calls"), "by hand", "nothing"),
    Row("length", lambda r: r.source.startswith("len("), _constant("Give SOURCE one value: pad, or stack into a tensor"), "by hand",
        "memory for what is padded"),
)  # fmt: skip
"""The table, the remedy to try first standing first. `SOURCE` stands for what the reason is about."""

BREAKS: tuple[tuple[str, re.Pattern[str], str, str, str], ...] = (
    ("scalar-outputs", re.compile(r"\.item\(\)|scalar|_local_scalar_dense"), "torch._dynamo.config.capture_scalar_outputs = True",
     "the number is a symbol in the graph; `if` on it still breaks", "capture_scalar_outputs"),
    ("dynamic-outputs", re.compile(r"[Dd]ynamic (output )?shape|nonzero|data.dependent"),
     "torch._dynamo.config.capture_dynamic_output_shape_ops = True", "sizes that depend on data are symbols in the graph",
     "capture_dynamic_output_shape_ops"),
)  # fmt: skip
"""Of graph breaks: id, what the cause says, the line at the top, its price, and the setting."""

LIMITS = ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit")


def remedies_for(cost: Cost, source: str = "") -> list[Remedy]:
    """The remedies for a cost, for each of its reasons those that fit; `source` is the text of the program, whose own settings stay
    as they are."""
    by_text = {(remedy.row, remedy.text): remedy for remedy in (*_of_reasons(cost, source), *_of_break(cost, source))}
    return sorted(by_text.values(), key=lambda remedy: remedy.how == "by hand")


def _of_reasons(cost: Cost, source: str) -> Iterator[Remedy]:
    for reason in cost.reasons.values():
        for row in ROWS:
            if row.applies(reason) and not (row.setting and row.setting in source):
                yield Remedy(row.id, row.text(reason), row.how, row.costs, reason.source)


def _of_break(cost: Cost, source: str) -> Iterator[Remedy]:
    if cost.kind == "graph break":
        for row, pattern, text, price, setting in BREAKS:
            if pattern.search(f"{cost.cause} {cost.code}") and setting not in source:
                yield Remedy(row, text, "top", price)


def limit_remedy(limit: int, versions: int, source: str) -> Remedy | None:
    """What lets a function have more versions; None where the program has set a limit itself: then another one is no remedy."""
    if any(name in source for name in LIMITS):
        return None
    text = f"torch._dynamo.config.recompile_limit = {max(versions, 2 * limit)}"
    return Remedy("limit", text, "top", "each version takes memory, and a call asks each of them until one fits")


# -- what came of one --------------------------------------------------------------------------------------------------


def verdict(tried: ev.RemedyTried) -> str:
    """What came of a remedy, in one sentence.

    >>> verdict(ev.RemedyTried(frame=0, row="r", text="t", before=(8, 0, 7), after=(2, 0, 1), same_values=True, helped=True))
    'Tried: 7 recompiles became 1, same values.'
    """
    if tried.error:
        return f"Tried: it does not help, the program then raises {ev.clip(tried.error.splitlines()[0], 160)}"
    changes = [
        f"{plural(was, noun)} became {now}"
        for was, now, noun in zip(tried.before[1:], tried.after[1:], ("graph break", "recompile"), strict=True)
        if was != now
    ]
    values = {True: "same values", False: "but other values", None: "no values to compare"}[tried.same_values]
    if not changes:
        return f"Tried: it did not help, as many graph breaks and recompiles as before, {values}."
    return f"Tried: {', '.join(changes)}, {values}."


# -- as data -----------------------------------------------------------------------------------------------------------


def costs_data(recording: Recording) -> list[dict[str, Any]]:
    """The list of costs for the explorer and for JSON, each with the remedies of torch.compile and what came of those tried."""
    costs = costs_of(recording)
    tried = {event.text: verdict(event) for event in recording.of(ev.RemedyTried) if event.after != (0, 0, 0) or event.error}
    rows = plain(costs)
    for row, cost in zip(rows, costs, strict=True):
        row["remedies"] = [
            {**_plain_remedy(remedy), "tried": tried.get(remedy.text, "")}
            for remedy in (remedies_for(cost) if recording.engine == TORCH else [])
        ]
    return rows


def _plain_remedy(remedy: Remedy) -> dict[str, Any]:
    return {"row": remedy.row, "text": remedy.text, "where": remedy.where, "costs": remedy.costs}
