"""What changed when a function recompiled, as text: "`x` changed from 8 rows to 9", "in the loop at model.py:12".

The idea: a guard reports its expected and actual value in the engine's terms; a person asks what changed in the program. A
guard on a module's state stores no old value, because it compares identities: its description at installation contains the
value. And a frame that recompiles within one call is usually a later iteration of a loop.

In: a Recording, a GuardFailed or Recompiled event of it. Out: `change(failed)`, a `Change`, and `changes_of(failed)`,
all of them (a tensor may have another dtype and another size), for the result of `as_the_program_says(recording, failed)`;
`is_last_round(failed)`; `precedes_graph_break(recording, failed)`; `loops_of(recording)`. PyTorch's counterpart: the reasons of
TORCH_LOGS="recompiles", which are the failed expressions.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording, resumed_at
from dynexplore.views.counts import plural
from dynexplore.views.names import argument_behind, decorator_of, is_entry, is_library, is_torchs_entry


def as_the_program_says(recording: Recording, failed: ev.GuardFailed) -> ev.GuardFailed:
    """Return the guard in the user's terms: with an attribute's old value, `self` for `target` or `fn` of a module wrapper, and
    `x` for `kwargs['x']` of a decorator or a library.
    """
    if failed.kind == "MODULE_STATE" and (before := _value_before(recording, failed)):
        failed = replace(failed, expected=before, kind="EQUALS")
    elif failed.kind == "ATTRIBUTE_ABSENT" and (now := _value_now(recording, failed)):
        attribute = failed.expected.strip("'")
        failed = replace(failed, source=f"{failed.source}.{attribute}", expected="", actual=now)
    entered = recording.of_frame(failed.frame, ev.FrameEntered)
    code = recording.original_code(failed.frame) if entered else None
    if code is None or not (is_entry(code) or decorator_of(code) or is_library(code.file)):
        return failed
    source = re.sub(r"\bkwargs\['(\w+)'\]", r"\1", failed.source)  # forwarding functions have no parameter of that name
    source = re.sub(r"\bargs\[\d+\]", lambda match: argument_behind(recording, entered[0], match[0]), source)
    if is_torchs_entry(code):
        source = re.sub(r"\bfn\b", "self", source)
    elif is_entry(code):
        source = re.sub(r"\btarget\b", "self", source)
    return replace(failed, source=source)


def _value_before(recording: Recording, failed: ev.GuardFailed) -> str:
    """The value of an attribute when the entry was added, from its guard's description `scale is 2; empty: ...`; "" if unknown.

    An attribute that the object itself did not have came from its class: the guards of the classes follow that of the object.
    """
    if failed.expected not in ("the same value", "no such attribute"):
        return ""
    frame = recording.frame_of_entry(failed.entry)
    guards = [guard for guard in recording.final_guards(frame) if guard.kind == "MODULE_STATE"]
    of_classes = failed.expected == "no such attribute"
    entry_guards = [event for event in guards if event.index == failed.index or (of_classes and event.index > failed.index)]
    key = failed.source.rpartition(".")[2]
    matches = [re.match(rf"{re.escape(key)} is (.+)", fact) for guard in entry_guards for fact in guard.expected.split("; ")]
    return next((match[1] for match in matches if match), "")


def _value_now(recording: Recording, failed: ev.GuardFailed) -> str:
    """The present value of an attribute that was absent, from the guard of the new entry; "" if unknown."""
    source = f"{failed.source}.{failed.expected.strip(chr(39))}"
    guards = recording.of_frame(failed.frame, ev.GuardInstalled)
    return next((guard.expected for guard in guards if guard.source == source and guard.kind == "EQUALS"), "")


def precedes_graph_break(recording: Recording, failed: ev.GuardFailed) -> bool:
    """Whether the changed value is not an argument, but a variable that was computed before a graph break and passed to the resume
    function.
    """
    entered = next(iter(recording.of_frame(failed.frame, ev.FrameEntered)), None)
    if entered is None or entered.code.resumes < 0:
        return False
    frames = {other.frame: other for other in recording.frames}
    first = entered
    while first.code.resumes >= 0 and first.parent in frames:
        first = frames[first.parent]
    variable = re.split(r"[.\[]", failed.source, maxsplit=1)[0]
    return variable.isidentifier() and variable not in {name for name, _ in first.arguments}


# -- in a loop ---------------------------------------------------------------------------------------------------------


Place = tuple[str, int, str]
"""File, line and function."""


def loops_of(recording: Recording) -> dict[int, Place]:
    """Frame -> the loop in which it recompiled within the call that first compiled it: the loop that it resumes in, or is called
    in. Other frames are omitted.
    """
    calls, frame_of_entry = _calls(recording), {added.entry: added.frame for added in recording.of(ev.CacheEntryAdded)}
    loops = {}
    for again in recording.of(ev.Recompiled):
        failed = next(iter(recording.of_frame(again.frame, ev.GuardFailed)), None)
        first = calls.get(frame_of_entry.get(failed.entry, 0), 0) if failed is not None else 0
        if first and first == calls.get(again.frame) and (place := _loop(recording, recording.frame(again.frame))):
            loops[again.frame] = place
    return loops


def _calls(recording: Recording) -> dict[int, int]:
    """Frame -> the number of the call in which it was translated; 0 if calls were not recorded."""
    calls: dict[int, int] = {}
    call = 0
    for _, event in recording.besides_steps:
        if isinstance(event, ev.CallBegan):
            call = event.call
        elif isinstance(event, ev.FrameEntered):
            calls.setdefault(event.frame, call)
    return calls


def _loop(recording: Recording, entered: ev.FrameEntered) -> Place | None:
    in_callee = _loop_in_callee(recording, entered.frame, entered.chain)
    own = in_callee or _loop_around(recording.original_code(entered.frame), resumed_at(entered.code))
    parent = entered.parent or 0
    broke = recording.of_frame(parent, ev.GraphBroke)[-1:] if recording.of_frame(parent, ev.FrameEntered) else ()
    if own or not broke:
        return own
    if broke[0].nested:
        return _loop_in_callee(recording, parent, broke[0].user_stack)
    return _loop_around(recording.original_code(parent), broke[0].offset) if not broke[0].inline else None


def _loop_in_callee(recording: Recording, frame: int, chain: Sequence[ev.UserFrame]) -> Place | None:
    """The innermost loop around the positions of a chain's callees."""
    codes = {(entered.code.file, entered.code.qualname): entered.code for entered in recording.of_frame(frame, ev.InlineEntered)}
    for at in reversed(chain[1:]):
        code = codes.get((at.file, at.function))
        rows = code.rows if code is not None else ()
        span = (at.line, at.column, at.end_column)
        offset = next((row.offset for row in rows if (row.line, row.column, row.end_column) == span), -1)
        if code is not None and (loop := _loop_around(code, offset)):
            return loop
    return None


def _loop_around(code: ev.CodeView, offset: int) -> Place | None:
    """The innermost loop that contains an instruction, recognized by a backward jump over it."""
    if offset < 0:
        return None
    jumps = [row for row in code.rows if 0 <= row.target <= offset <= row.offset]
    first = max((row.target for row in jumps), default=-1)
    line = next((row.line for row in code.rows if row.offset == first and row.line > 0), 0)
    return (code.file, line, code.qualname) if line else None


# -- guards ------------------------------------------------------------------------------------------------------------


_LAST_ROUND = ("ITERATOR_HAS_MORE", "ITERATOR_REMAINING")
_TENSOR = re.compile(r"(\w+)\[(.*?)\] (\S+)")
_STRIDES = re.compile(r"stride mismatch at index (\d+)\. expected (\d+), actual (\d+)")
_GRADIENTS = re.compile(r"requires_grad mismatch\. expected requires_grad=(\d)")
_CLASS = re.compile(r"class mismatch\. expected (\S+), actual (\S+)\)")
_CLASS_BY_TORCH = re.compile(r"to be (?:a tensor type|<class '[\w.]+'>),.* but found <class '(?:.+\.)?(.+?)'>")
_UNITS = {1: ("element", "elements"), 2: ("row", "rows")}


def is_last_round(failed: ev.GuardFailed) -> bool:
    """Whether the guard failed because the loop's iterator, which is on the stack, is exhausted."""
    return failed.kind in _LAST_ROUND or ("___stack" in failed.source and failed.actual.startswith("IndexError"))


_ON_THE_STACK = re.compile(r"\b___stack\d+")
FROM_BEFORE = "a value from before the graph break"
"""The description of a resume function's stack argument, which has no name in the program."""

_PART_OF_A_DICT = re.compile(r"((?:key|value) \d+) of \((?!(?:[^:()]+:)?___stack)([^()]*)\)(.*)")
_ITEM_OF_A_LOOP = re.compile(r"item (\d+) of \((?:[^:()]+:)?___stack\d+\)(.*)")
_OF_A_CALLEE = re.compile(r"([\w. ]+):(\w.*)")
_CALLEE_IN_A_RELATION = re.compile(r"(?<=[( ])([A-Za-z_][\w.]*):(?=[A-Za-z_])")
"""A variable of a callee in which a resume function resumes (engine/translate/nested_resume.py)."""


def _name(source: str) -> str:
    """The changed value in the program's terms: a loop's iterator, which is on the stack, has no name.

    >>> _name("x"), _name("item 0 of (___stack0)[1]"), _name("item 2 of (___stack1)")
    ('`x`', "`[1]` of the loop's next item", 'the item that the loop comes to 2 rounds later')
    >>> _name("Block.forward:x.shape"), _name("leaf:___stack0")
    ('`x.shape` in `Block.forward`', 'a value from before the graph break')
    >>> _name("(forward:self.layer == (forward:cache.layers - 1))")
    '`self.layer == (cache.layers - 1)` in `forward`'
    """
    ahead = _ITEM_OF_A_LOOP.fullmatch(source)
    if entry := _PART_OF_A_DICT.fullmatch(source):
        return f"{entry[1]} of `{entry[2]}`{f' at `{entry[3]}`' if entry[3] else ''}"
    if ahead is None:
        without_a_name = re.fullmatch(r"argument \d+", source)
        callees = set(_CALLEE_IN_A_RELATION.findall(source))
        if source.startswith("(") and len(callees) == 1:
            return f"`{without_parentheses(_CALLEE_IN_A_RELATION.sub('', source))}` in `{callees.pop()}`"
        of_callee = _OF_A_CALLEE.fullmatch(source)
        if of_callee and not _ON_THE_STACK.search(source):
            return f"`{of_callee[2]}` in `{of_callee[1]}`"
        return FROM_BEFORE if _ON_THE_STACK.search(source) else source if without_a_name else f"`{without_parentheses(source)}`"
    steps, part = int(ahead[1]), ahead[2]
    item = f"the item that the loop comes to {plural(steps, 'round')} later" if steps else "the loop's next item"
    return f"`{part}` of {item}" if part else item


def named_in_program(source: str) -> str:
    """The same without marks, for a condition.

    >>> named_in_program("x.shape"), named_in_program("___stack2")
    ('x.shape', 'a value from before the graph break')
    """
    return _name(source).replace("`", "") if source else ""


def is_another_object(failed: ev.GuardFailed) -> bool:
    """Whether the guard is on identity, and the new object has the same class."""
    return failed.expected == failed.actual and failed.expected.endswith(" object")


@dataclass(frozen=True, slots=True)
class Change:
    """A change: the `name` of the value in the program's terms, and what `happened` to it.

    They are separate because one change may apply to several names: "`x` and `y` changed from 8 rows to 9". `aspect` is the
    property of a tensor that changed: "dtype", "size 0".

    >>> str(Change("`x`", "changed from 8 rows to 9"))
    '`x` changed from 8 rows to 9'
    """

    name: str
    happened: str
    aspect: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.happened}"

    def of_several(self, names: str) -> str:
        """The same change of several values.

        >>> Change("`x`", "no longer requires gradients").of_several("`x` and `y`")
        '`x` and `y` no longer require gradients'
        >>> Change("`f`", "is a different Linear").of_several("`f` and `g`")
        '`f` and `g` are different objects of type Linear'
        """
        happened = re.sub(r"^is a different (.*)$", r"are different objects of type \1", self.happened)
        happened = re.sub(r"^(now|no longer) (require|ha)s\b", _of_many, happened)
        happened = re.sub(r"^is ", "are ", re.sub(r"^was (.*) and now has ", r"were \1 and now have ", happened))
        return f"{names} {happened}"


def _of_many(verb: re.Match[str]) -> str:
    return f"{verb[1]} {'have' if verb[2] == 'ha' else verb[2]}"


def from_to(before: str, now: str) -> str:
    """What happened to a value of which both states are known, as text.

    >>> from_to("8 rows", "9")
    'changed from 8 rows to 9'
    """
    return f"changed from {before} to {now}"


def changes_of(failed: ev.GuardFailed) -> list[Change]:
    """Return every change that a failed guard shows: several for a tensor, of which the check reports the first."""
    first = change(failed)
    if failed.kind != "TENSOR_MATCH" or not first.aspect:
        return [first]
    return [Change(first.name, *difference) for difference in _tensor_changes(failed.expected, failed.actual)]


def change(failed: ev.GuardFailed) -> Change:
    """Return the change that made a guard fail, the first if there are several."""
    name = _name(failed.source) if failed.source else "the state of the process"
    if is_last_round(failed):
        return Change("the loop", "is in its last iteration")
    if failed.kind == "GLOBAL_STATE" and failed.expected in ("as it was", "the state at capture"):  # no values are known
        return Change("the global state of torch", f"changed ({failed.actual.strip().replace('_', ' ')})")
    if failed.kind == "BACKEND_MATCH":
        return Change("the backend", "is a different one")
    if failed.kind == "TORCH_FUNCTION_MODE_STACK":
        return Change("the stack of torch function modes", "changed (`with torch.device(...)` is such a mode)")
    if is_another_object(failed):
        return Change(name, f"is a different {failed.actual.removesuffix(' object')}")
    if failed.kind == "torch tensor" and (part := _PROPERTY.fullmatch(failed.source)) is not None:
        happened = _property_change(part[2], failed.expected, failed.actual)
        return Change(f"`{part[1]}`", happened, part[2].replace(" at index", ""))
    if failed.kind == "TENSOR_MATCH":
        return Change(name, *_tensor_changes(failed.expected, failed.actual)[0])
    if failed.kind == "SHAPE_ENV":
        return _relation_change(failed)
    if failed.kind == "DICT_KEYS":
        return _keys_change(failed)
    if failed.kind == "DICT_KEY" and (key := _KEY_AT.fullmatch(failed.source)) is not None:
        return Change(f"key {int(key[2]) + 1} of `{key[1]}`", from_to(failed.expected, failed.actual))
    if failed.expected == "no such attribute" or (failed.kind == "ATTRIBUTE_ABSENT" and not failed.expected):
        return Change(name, f"is now set on the object itself (to {failed.actual})")  # its class may have one
    if failed.kind == "MODULE_STATE" and (registry := registry_of(failed)) != ("", ""):
        return Change(f"the {registry[1]} of `{registry[0]}`", "changed")
    if failed.kind == "MODULE_STATE":
        same = failed.expected == "the same value"
        return Change(name, f"changed to {failed.actual}" if same else from_to(failed.expected, failed.actual))
    if failed.kind in ("NAME_ABSENT", "NAME_PRESENT"):
        return Change(name, f"{'now' if failed.kind == 'NAME_ABSENT' else 'no longer'} has {failed.expected}")
    if failed.kind == "ATTRIBUTE_ABSENT":
        return Change(name, f"now has its own attribute {failed.expected}")
    noun = {"TYPE_MATCH": "type", "LIST_LENGTH": "length"}.get(failed.kind, "")
    if (content := _content_change(failed.expected, failed.actual)) != "":
        return Change(name, content)
    before, now = _short_floats(*map(_plain_value, (failed.expected, failed.actual)))
    return Change(f"the {noun} of {name}" if noun else name, from_to(before, now))


def _content_change(expected: str, actual: str) -> str:
    """The change of a container of which a guard knows only whether it is empty or has a key; "" for any other value.

    >>> _content_change("empty", "not empty"), _content_change("with the key 'a'", "without the key 'a'"), _content_change("1", "2")
    ('is no longer empty', "no longer has the key 'a'", '')
    """
    if {expected, actual} == {"empty", "not empty"}:
        return "is now empty" if actual == "empty" else "is no longer empty"
    if expected.startswith("without the key ") and actual.startswith("with the key "):
        return f"now has {actual.removeprefix('with ')}"
    if expected.startswith("with the key ") and actual.startswith("without the key "):
        return f"no longer has {expected.removeprefix('with ')}"
    return ""


_STRIDE = re.compile(r"(\S+)\.stride\(\)")


def _plain_value(words: str) -> str:
    """A value as text; for a container with tensors only its kind, because the elements do not matter here.

    >>> _plain_value("3"), _plain_value("(tensor([[1.,\\n 2.]]), tensor(1))"), _plain_value("[tensor(1)]")
    ('3', 'a tuple with tensors', 'a list with tensors')
    """
    if "tensor(" not in words or words[:1] not in _CONTAINERS:
        return words
    return f"a {_CONTAINERS[words[0]]} with tensors"


def _short_floats(before: str, now: str) -> tuple[str, str]:
    """Two floats in six digits, unless they differ only beyond those.

    >>> _short_floats("-0.44638922810554504", "0.5"), _short_floats("0.1", "0.10000000000000002"), _short_floats("12345678", "3")
    (('-0.446389', '0.5'), ('0.1', '0.10000000000000002'), ('12345678', '3'))
    """
    short = [f"{float(value):.6g}" if _LONG_FLOAT.fullmatch(value) else value for value in (before, now)]
    return (short[0], short[1]) if short[0] != short[1] else (before, now)


def short_float(text: str) -> str:
    """A float in six digits; any other text as it is.

    >>> short_float("0.09027624130249023"), short_float("3"), short_float("float32[2] cpu")
    ('0.0902762', '3', 'float32[2] cpu')
    """
    return f"{float(text):.6g}" if _LONG_FLOAT.fullmatch(text) else text


_LONG_FLOAT = re.compile(r"-?\d+\.\d{6,}(e[-+]?\d+)?")
_CONTAINERS = {"(": "tuple", "[": "list", "{": "dict"}


def _relation_change(failed: ev.GuardFailed) -> Change:
    """A change of sizes or strides: a size that a relation excludes, or another memory layout."""
    strided = _STRIDE.search(failed.expected)
    if strided is not None:
        return Change(f"the memory layout of `{strided[1]}`", f"changed: {_sizes_of(strided[1], failed.actual)}")
    excluded = _EXCLUDED.fullmatch(failed.expected)
    if excluded is not None:
        return Change(f"`{excluded[1]}`", f"has size {excluded[3]} in dimension {excluded[2]}, which the compiled version excludes")
    equation = _EQUATION.fullmatch(failed.expected)
    if equation is not None and ".size()" not in equation[1]:
        computed, now = f"`{without_parentheses(equation[1])}`", failed.actual.removeprefix(f"{equation[1]} is ")
        is_value = now != failed.actual
        return Change(computed, from_to(*_short_floats(equation[2], now)) if is_value else f"{_NO_LONGER} {equation[2]}: {now}")
    return Change(f"`{failed.expected}`", f"no longer holds{f': {_of_both(failed.actual)}' if failed.actual else ''}")


_NO_LONGER = "is no longer"


def without_parentheses(expression: str) -> str:
    """An expression without the parentheses around the whole of it.

    >>> without_parentheses("((n + 1) > 3)"), without_parentheses("(a) + (b)"), without_parentheses("n")
    ('(n + 1) > 3', '(a) + (b)', 'n')
    """
    depths = list(itertools.accumulate((letter == "(") - (letter == ")") for letter in expression))
    is_around = expression.startswith("(") and expression.endswith(")") and 0 not in depths[:-1]
    return expression[1:-1] if is_around else expression


def is_computed_number(change: Change) -> bool:
    """Whether a number that the graph contains as a constant has another value."""
    return change.name.startswith("`") and change.happened.startswith(("changed from ", f"{_NO_LONGER} "))


_EQUATION = re.compile(r"(.+) == (-?[\d.]+(?:e[-+]?\d+)?)")
"""A number that the graph holds as a constant: what is computed of others, and its value."""


def _of_both(sizes: str) -> str:
    """Two sizes of a relation, which may be the same.

    >>> _of_both("x.size()[0] is 35, y.size()[0] is 35"), _of_both("x.size()[0] is 3, y.size()[0] is 4")
    ('both are 35', 'x.size()[0] is 3, y.size()[0] is 4')
    """
    parts = [part.rpartition(" is ")[2] for part in sizes.split(", ")]
    return f"both are {parts[0]}" if len(parts) == 2 and parts[0] == parts[1] and " is " in sizes else sizes


_EXCLUDED = re.compile(r"(\S+)\.size\(\)\[(\d+)\] != (\d+)")
_SIZE_NOW = re.compile(r"(size|stride)\(\)\[(\d+)\] is (\d+)")


def _sizes_of(source: str, actual: str) -> str:
    """The sizes and strides in a failed relation, without the tensor that they all belong to.

    >>> _sizes_of("x", "x.stride()[0] is 65, x.size()[1] is 64"), _sizes_of("x", "x.stride()[0] is 65, y.size()[1] is 64")
    ('stride 65 in dimension 0, size 64 in dimension 1', 'x.stride()[0] is 65, y.size()[1] is 64')
    """
    facts = [_SIZE_NOW.fullmatch(fact.removeprefix(f"{source}.")) for fact in actual.split(", ")]
    return ", ".join(f"{fact[1]} {fact[3]} in dimension {fact[2]}" for fact in facts if fact) if all(facts) else actual


_REGISTRIES = {
    "_modules": "submodules", "_parameters": "parameters", "_buffers": "buffers", "_forward_hooks": "forward hooks",
    "_forward_pre_hooks": "forward pre-hooks", "_backward_hooks": "backward hooks", "_backward_pre_hooks": "backward pre-hooks",
}  # fmt: skip
"""Registries of an nn.Module, which programs do not access by name."""


def registry_of(failed: ev.GuardFailed) -> tuple[str, str]:
    """The module whose submodules, parameters or buffers have other names now, and the registry; "" twice for any other dict.

    >>> registry_of(
    ...     ev.GuardFailed(
    ...         frame=1, entry=1, index=0, scope="local", source="self._modules", kind="DICT_KEYS", expected="", actual=""
    ...     )
    ... )
    ('self', 'submodules')
    """
    owner, _, attribute = failed.source.rpartition(".")
    noun = _REGISTRIES.get(attribute, "") if failed.kind in ("DICT_KEYS", "MODULE_STATE") and owner else ""
    return (owner, noun) if noun else ("", "")


def _keys_change(failed: ev.GuardFailed) -> Change:
    """The keys that were added and removed, if all of them are plain; else the number of keys."""
    owner, noun = registry_of(failed)
    before, now = _plain_keys(failed.expected), _plain_keys(failed.actual)
    if noun.endswith("hooks"):  # their keys are internal ids
        happened = "were added" if before == () else "were removed" if now == () else "were replaced"
        return Change(f"the {noun} of `{owner}`", happened)
    whose = f"the {noun} of `{owner}`" if noun else f"the keys of {_name(failed.source)}"
    if before == () and not noun:
        content = f"the key{'' if len(now) == 1 else 's'} {_keys(now)}" if now else failed.actual
        return Change(_name(failed.source), f"was empty and now has {content}")
    if before is None or now is None:
        return Change(whose, from_to(failed.expected, failed.actual))
    added = [key for key in now if key not in before]
    removed = [key for key in before if key not in now]
    if not added and not removed:
        return Change(whose, "are in a different order")
    parts = ([f"now include {_keys(added)}"] if added else []) + ([f"no longer include {_keys(removed)}"] if removed else [])
    return Change(whose, " and ".join(parts))


_MOST_KEYS = 3
_KEY_AT = re.compile(r"list\((.*)\)\[(\d+)\]")


def _plain_keys(text: str) -> tuple[object, ...] | None:
    """The keys in a guard's text, if they are constants; None if it only describes them."""
    try:
        keys = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    return keys if isinstance(keys, tuple) else None


def _keys(keys: Sequence[object] | None) -> str:
    """The keys as text: `'a'`, `'b'` and 3 more."""
    named = [f"`{key}`" for key in keys or ()]
    shown = named if len(named) <= _MOST_KEYS + 1 else [*named[:_MOST_KEYS], f"{len(named) - _MOST_KEYS} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _tensor_changes(expected: str, actual: str) -> list[tuple[str, str]]:
    """What happened to a tensor, and to which property: dtype, number of dimensions, sizes, device, or what torch's own message
    says. At least one.

    >>> _tensor_changes("float32[4, 2] cpu", "float64[5, 2] cpu (tensor 'x' dtype mismatch. expected Float, actual Double)")
    [('changed from float32 to float64', 'dtype'), ('changed from 4 rows to 5', 'size 0')]
    """
    before, now = _TENSOR.match(expected), _TENSOR.match(actual)
    if (other_class := _class_change(actual)) and now is None:
        return [(other_class, "class")]
    if before is None or now is None:
        return [(from_to(expected, actual), "")]
    old, new = ([size for size in match[2].split(", ") if size] for match in (before, now))
    changed = [(from_to(before[1], now[1]), "dtype")] if before[1] != now[1] else []
    if len(old) != len(new):
        changed.append((from_to(plural(len(old), "dimension"), str(len(new))), "rank"))
    else:
        sizes = enumerate(zip(old, new, strict=True))
        changed += [
            (_size_change(axis, len(old), was, size), f"size {axis}")
            for axis, (was, size) in sizes
            if was != size and "?" not in (was, size)
        ]
    if before[3] != now[3]:
        changed.append((f"moved from {before[3]} to {now[3]}", "device"))
    message = _change_in_message(actual.partition(" (")[2])
    if message and (message[1] or not changed):
        changed.append(message)
    return changed or [(from_to(expected, actual), "")]


def _change_in_message(words: str) -> tuple[str, str] | None:
    """The change of a property that a tensor's text does not contain, by torch's message; its name is "" if it is another."""
    gradients, strides = _GRADIENTS.search(words), _STRIDES.search(words)
    if gradients is not None:
        happened = _GRADIENTS_CHANGED[gradients[1] == "1"]
        return happened, "requires_grad"
    if strides is not None:
        return from_to(f"stride {strides[2]}", f"{strides[3]} in dimension {strides[1]}"), f"stride {strides[1]}"
    if other_class := _class_change(words):
        return other_class, "class"
    return (f"changed: {words.rstrip(')')}", "") if words else None


def _class_change(words: str) -> str:
    """The change of a tensor's class, or to a value that is no tensor; "" if there is none. torch names only the new class.

    >>> _class_change("float32[3] cpu (class mismatch. expected Parameter, actual Tensor)")
    'changed from a Parameter to a Tensor'
    >>> _class_change("(expected type of 'x' to be a tensor type, ' but found <class 'NoneType'>)")
    'changed from a tensor to None'
    """
    match, new = _CLASS.search(words), _CLASS_BY_TORCH.search(words)
    if match is None and new is None:
        return ""
    if match is not None:
        return _other_class(_with_article(match[1]), match[2])
    return _other_class("a tensor of another class", new[1])  # type: ignore[index]


def _other_class(before: str, now: str) -> str:
    """The sentence: `before` with its article, `now` the name of a class."""
    return TO_NONE if now == "NoneType" else from_to(before, _with_article(now))


TO_NONE = from_to("a tensor", "None")
_GRADIENTS_CHANGED = ("now requires gradients", "no longer requires gradients")  # by whether it required them


def _with_article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


_PROPERTY = re.compile(r"(.*) \(([a-z_ ]+(?: at index \d+)?)\)")
"""torch's TENSOR_MATCH failure: the tensor, and the property that differs."""


def source_alone(source: str) -> str:
    """A source without the property that torch adds in parentheses.

    >>> source_alone("x (dtype)"), source_alone("x.weight")
    ('x', 'x.weight')
    """
    part = _PROPERTY.fullmatch(source)
    return part[1] if part is not None else source


_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8", "Char": "int8",
    "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip
"""Name of a dtype in torch's C++ code -> name in Python."""


def _property_change(name: str, expected: str, actual: str) -> str:
    """The change of a tensor's property that torch names.

    >>> _property_change("dtype", "Float", "Double"), _property_change("stride at index 0", "4", "1")
    ('changed from float32 to float64', 'changed from stride 4 to 1 in dimension 0')
    >>> _property_change("requires_grad", "0", "1"), _property_change("rank", "1", "2")
    ('now requires gradients', 'changed from 1 dimension to 2')
    """
    if name == "dtype":
        return from_to(_DTYPES.get(expected, expected), _DTYPES.get(actual, actual))
    if name == "requires_grad":
        return _GRADIENTS_CHANGED[expected == "1"]
    if name == "rank" and expected.isdecimal():
        return from_to(plural(int(expected), "dimension"), actual)
    if (part := re.fullmatch(r"(size|stride) at index (\d+)", name)) is not None:
        return from_to(f"{part[1]} {expected}", f"{actual} in dimension {part[2]}")
    if name == "class":
        return _other_class(expected, actual)
    if name == "dispatch key set":
        return _keys_of_dispatch(expected, actual)
    return from_to(f"{name} {expected}", actual)


def _keys_of_dispatch(expected: str, actual: str) -> str:
    """The dispatch keys that were added and removed; an inference tensor is described as such, without the autograd keys.

    >>> _keys_of_dispatch("DispatchKeySet(CPU, ADInplaceOrView, AutogradCPU)", "DispatchKeySet(CPU)")
    'changed from a normal tensor to an inference tensor'
    >>> _keys_of_dispatch("DispatchKeySet(CPU, AutogradCPU)", "DispatchKeySet(CUDA, AutogradCUDA)")
    'moved from cpu to cuda'
    """
    before, now = (re.findall(r"\w+", text.partition("(")[2]) for text in (expected, actual))
    removed, added = ([key for key in these if key not in those] for these, those in ((before, now), (now, before)))
    if removed + added and all(key.startswith(("ADInplaceOrView", "Autograd")) for key in removed + added):
        normal, inference = "a normal tensor", "an inference tensor"
        return from_to(normal, inference) if removed else from_to(inference, normal)
    if all(len(keys) == 2 and keys[1] == f"Autograd{keys[0]}" for keys in (removed, added)):
        return f"moved from {removed[0].lower()} to {added[0].lower()}"
    parts = [f"{word} {', '.join(keys)}" for word, keys in (("lost", removed), ("gained", added)) if keys]
    return f"has different dispatch keys: {' and '.join(parts)}"


def _size_change(axis: int, dimensions: int, was: str, size: str) -> str:
    if axis == 0 and dimensions in _UNITS:
        singular, plural = _UNITS[dimensions]
        return from_to(f"{was} {singular if was == '1' else plural}", size)
    return from_to(f"size {was}", f"{size} in dimension {axis}")
