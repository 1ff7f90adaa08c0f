"""Recompile reasons: converts torch's text for a failing guard to a `GuardFailed` event.

The idea: torch reports the failing guard of an entry as the text of its check, which contains the expected value but, except for
tensors, not the actual one. So the actual value is looked up in the same place, without running user code: in the locals and
globals of the call, in instance dicts, under keys of plain dicts, and nowhere else.

In: a reason of torch._dynamo, the locals and globals of the call (empty for a log), the known guards of the entry.
Out: `plain_reason(reason)`, `failed_guard(...)`, a `GuardFailed`.

PyTorch's counterpart: `get_guard_fail_reason` in torch/_dynamo/guards.py, which writes the reason.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.traces.torch_words import PLAIN_TYPES, plain_source

_PREFIX = re.compile(r"^\s*\d+(?:/\d+)+(?:_\d+)?: ")
_TENSOR = re.compile(r"tensor '(.*?)' (.*?)\.? expected (.*?),? actual (.*?)(?:\. Guard failed on .*)?$")
_GRADIENTS = re.compile(r"tensor '(.*?)' requires_grad mismatch\. expected requires_grad=([01])")
_SIZE = re.compile(r"size mismatch at index (\d+)")
_EQUAL = re.compile(r"^(.*?) == (.*)$")
_CONTAINS = re.compile(r"^(not )?___dict_contains\((.*), (.*)\)$")
_CLASS = re.compile(  # from torch 2.14 on it names a class where 2.13 says "a tensor type"
    r"^expected type of '(.*?)' to be (?:a tensor type|<class '[\w.]+'>),.* but found <class '(?:.*\.)?(\w+)'>"
)
_NONE = re.compile(r"^(.*) is None$")
_EMPTY = re.compile(r"^not ([\w.\[\]']+)$")
_LENGTH = re.compile(r"^len\((.*)\)$")
_KEY_AT = re.compile(r"^(list\(dict\.keys\((.*)\)\))\[(\d+)\] == (.*)$")
_NOT_SO_LONG = re.compile(r"^(len\(.*\)) != (\d+)$")
_FREED = re.compile(r"^Cache line invalidated because (.*) got deallocated$")
_STATE = re.compile(r"^GLOBAL_STATE changed: *(.*)$")
# torch 2.11 prints the object, later versions its class
_OBJECT = re.compile(r"^___check_obj_id\((.*?), \d+\)(?:, type=(?:<class '(.*)'>|<.*>))?$", re.DOTALL)
_TYPE = re.compile(r"^___check_type_id\((.*), \d+\)(?:, type=<class '(.*)'>)?$")

_NEEDED_AT = re.compile(r"  # (.*?)\s+# ([^#\s][^#]*?):(\d+) in (\S+)(?: \(\S+:\d+ in \S+\))?$")
"""The line of the program; of a relation between sizes torch adds its own line in parentheses."""

_IS_RELATION = re.compile(r" [-+*/%] |\.(size|stride)\(\)")
"""An expression of numbers and sizes, not a place where a value is found."""

_CODE = ".__code__"

Scope = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The locals and globals of a call."""


def check_of(reason: str) -> str:
    """The check alone, as printed by torch: without the compile id and the line that required it.

    >>> check_of("1/0: L['n'] == 3  # y = x * n  # script.py:4 in f")
    "L['n'] == 3"
    """
    return _PREFIX.sub("", reason.strip()).partition("\n")[0].partition("  #")[0].strip()


def source_in(check: str, sources: Collection[str]) -> str:
    """The source that a check is about, one of `sources`; "" if there is none.

    >>> source_in("len(L['xs'][0]) == 3", ["L", "L['xs']", "L['xs'][0]"]), source_in("GLOBAL_STATE changed: grad_mode", ["L"])
    ("L['xs'][0]", '')
    """
    if (tensor := _TENSOR.search(check)) and tensor[1] in sources:
        return tensor[1]
    return max((source for source in sources if source[1:2] == "[" and source in check), key=len, default="")


def needed_at(reason: str) -> ev.UserFrame | None:
    """The line of the program that required a check, from the comment after it; None if there is none.

    >>> needed_at("1/0: L['n'] == 3  # y = x * n  # script.py:4 in f")
    UserFrame(file='script.py', line=4, function='f', code='y = x * n', column=-1, end_column=-1)
    >>> needed_at("2/1: (L['n'] % 2) == 0  # if n % 2 == 0:  # a.py:4 in f (_dynamo/variables/tensor.py:26 in evaluate_expr)").line
    4
    """
    line = _NEEDED_AT.search(reason.partition(" (HINT")[0].rstrip())
    return ev.UserFrame(line[2], int(line[3]), line[4], line[1].strip()) if line else None


def plain_reason(reason: str) -> str:
    """The check with its sources in Python syntax.

    >>> plain_reason("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5")
    "tensor 'x' size mismatch at index 0. expected 4, actual 5"
    >>> plain_reason("1/0: L['n'] == 3  # y = x * n  # script.py:4 in f")
    'n == 3'
    """
    return plain_source(check_of(reason))


def failed_guard(
    reason: str,
    scope: Scope,
    tensors: Mapping[str, str],
    numbers: Mapping[str, int],
    frame: int,
    entry: int,
    kind_of_event: type[ev.GuardFailed] = ev.GuardFailed,
) -> ev.GuardFailed:
    """The failing guard of an entry; `tensors` and `numbers` map sources to its tensor checks and guard numbers."""
    check = check_of(reason)
    source, kind, expected, actual = _words(check, scope)
    if match := _TENSOR.search(check):
        source, kind, expected, actual = _tensor_words(match, tensors, scope)
    return kind_of_event(
        frame=frame, entry=entry, index=numbers.get(source, 0), scope="", source=source, kind=kind, expected=expected,
        actual=actual, needed_at=needed_at(reason),
    )  # fmt: skip


def _words(check: str, scope: Scope) -> tuple[str, str, str, str]:
    """The source, the kind, the expected and the actual value of a check.

    >>> _words("len(L['log']) == 1", ({"log": [1, 2]}, {})), _words("not L['log']", ({}, {}))
    (('len(log)', 'EQUALS', '1', '2'), ('log', 'torch', 'empty', 'not empty'))
    >>> _words("len(L['d']) != 3", ({"d": {}}, {})), _words("tensor 'x' requires_grad mismatch. expected requires_grad=0", ({}, {}))
    (('len(d)', 'DICT_LENGTH', '3', '0'), ('x (requires_grad)', 'torch tensor', '0', '1'))
    >>> _words("list(dict.keys(L['d']))[1] == 'b'", ({"d": {"a": 1, "c": 2}}, {}))
    ('list(d)[1]', 'DICT_KEY', "'b'", "'c'")
    >>> _words("L['mask'] is None", ({"mask": 2}, {}))
    ('mask', 'EQUALS', 'None', '2')
    >>> _words("GLOBAL_STATE changed: grad_mode ", ({}, {}))
    ('', 'GLOBAL_STATE', 'as it was', 'grad mode')
    >>> _words("BACKEND_MATCH failure: torch.compile detected different backend callables.", ({}, {}))
    ('', 'BACKEND_MATCH', 'the same backend', 'another backend')
    >>> _words("___check_torch_function_mode_stack()", ({}, {}))
    ('', 'TORCH_FUNCTION_MODE_STACK', 'as it was', 'another')
    >>> _words("Cache line invalidated because L['f'] got deallocated", ({}, {}))
    ('f', 'torch', 'alive', 'freed')
    >>> _words("___check_obj_id(L['fn'].__code__, 140346788737024), type=<class 'code'>", ({}, {}))
    ('fn', 'ID_MATCH', 'function object', 'function object')
    >>> _words("___check_obj_id(L['fn'], 140303149258112), type=<built-in method sin of type object at 0x7f9a5613e180>", ({}, {}))
    ('fn', 'ID_MATCH', 'object object', 'object object')
    >>> _words("expected type of 'b' to be a tensor type, ' but found <class 'torch.nn.parameter.Parameter'>", ({}, {}))
    ('b (class)', 'torch tensor', 'a tensor of another class', 'Parameter')
    >>> _words("expected type of 'b' to be <class 'torch.Tensor'>, but found <class 'NoneType'>", ({}, {}))
    ('b (class)', 'torch tensor', 'a tensor of another class', 'NoneType')
    """
    if match := _NONE.match(check):
        came = value_at(match[1], scope)
        return plain_source(match[1]), "EQUALS", "None", _in_place_of_none(came)
    if match := _EMPTY.match(check):
        return plain_source(match[1]), _kind_of_length(match[1], scope, "torch"), "empty", "not empty"
    if match := _FREED.match(check):
        return plain_source(match[1]), "torch", "alive", "freed"
    if match := _CONTAINS.match(check):
        absent, key, source = match.groups()
        without, with_it = f"without the key {key}", f"with the key {key}"
        return plain_source(source), "DICT_CONTAINS", without if absent else with_it, with_it if absent else without
    if check.startswith("BACKEND_MATCH failure"):
        return "", "BACKEND_MATCH", "the same backend", "another backend"
    if "___check_torch_function_mode_stack" in check:
        return "", "TORCH_FUNCTION_MODE_STACK", "as it was", "another"
    if match := _STATE.match(check):
        return "", "GLOBAL_STATE", "as it was", match[1].strip().replace("_", " ") or "another"
    if match := _TYPE.match(check):
        source, expected = match[1], (match[2] or "the same").rpartition(".")[2]
        came = value_at(source, scope)
        return plain_source(source), "TYPE_MATCH", expected, "another" if came is UNKNOWN else type(came).__name__
    if match := _OBJECT.match(check):
        source, kind = match[1], (match[2] or "object").rpartition(".")[2]
        if source.endswith(_CODE):  # a function is guarded by its code
            source, kind = source.removesuffix(_CODE), "function"
        return plain_source(source), "ID_MATCH", f"{kind} object", f"{kind} object"
    if match := _CLASS.match(check):
        return f"{plain_source(match[1])} (class)", "torch tensor", "a tensor of another class", match[2]
    if match := _GRADIENTS.search(check):
        other = "0" if match[2] == "1" else "1"
        return f"{plain_source(match[1])} (requires_grad)", "torch tensor", match[2], other
    if match := _KEY_AT.match(check):
        keys, source, position, expected = match.groups()
        return plain_source(f"{keys}[{position}]"), "DICT_KEY", expected, _shown(_key_at(source, int(position), scope))
    if match := _EQUAL.match(check) or _NOT_SO_LONG.match(check):  # for a dict, torch prints the actual relation, not the check
        source, expected = match.groups()
        came = _length_at(match[1], scope) if (match := _LENGTH.match(source)) else value_at(source, scope)
        if came is UNKNOWN and _IS_RELATION.search(source):
            return _relation(check, scope)
        kind = _kind_of_length(match[1], scope, "EQUALS") if (match := _LENGTH.match(source)) else "EQUALS"
        return plain_source(source), kind, expected, _shown(came)
    return _relation(check, scope)


def _shown(value: object) -> str:
    """A value whose repr runs no user code; "another value" for any other, and for one that is not known."""
    kind = type(value)
    is_plain = kind in PLAIN_TYPES or (kind.__module__ == "torch" and kind.__name__ in _PLAIN_OF_TORCH)
    return ev.safe_repr(value, 80) if is_plain else _ANOTHER


_ANOTHER = "another value"
_PLAIN_OF_TORCH = ("device", "dtype", "layout", "memory_format")


def _in_place_of_none(value: object) -> str:
    """A value that is passed where None was expected: by its class, if it is not shown itself.

    >>> _in_place_of_none(2), _in_place_of_none([1, 2]), _in_place_of_none(OrderedDict()), _in_place_of_none(UNKNOWN)
    ('2', 'a list', 'an OrderedDict', 'another value')
    """
    shown = _shown(value)
    if value is UNKNOWN or shown != _ANOTHER:
        return shown
    name = type(value).__name__
    return "a tensor" if name == "Tensor" else f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _key_at(source: str, position: int, scope: Scope) -> Any:
    """The key at a position of a dict; UNKNOWN if it cannot be looked up."""
    value = value_at(source, scope)
    return list(dict.keys(value))[position] if type(value) in (dict, OrderedDict) and position < len(value) else UNKNOWN


def _kind_of_length(source: str, scope: Scope, otherwise: str) -> str:
    """The kind of a check on a length: keys are not padded as the items of a list are."""
    return "DICT_LENGTH" if isinstance(value_at(source, scope), dict) else otherwise


def _relation(check: str, scope: Scope) -> tuple[str, str, str, str]:
    """A check that relates sizes or strides, with those of this call; any other check only fails.

    >>> _relation("L['x'].size()[0] != 5", ({}, {}))
    ('x', 'SHAPE_ENV', 'x.size()[0] != 5', '')
    >>> _relation("L['a'] is L['b']", ({}, {}))
    ('a is b', 'torch', 'true', 'false')
    >>> _relation("x.stride()[0] == y.layers[0].size()[1]", ({}, {}))[:2]
    ('x', 'SHAPE_ENV')
    """
    parts = _SIZE_OF.findall(check)
    if not parts:
        return plain_source(check), "torch", "true", "false"
    facts = [f"{plain_source(place)}.{name}()[{axis}] is {_size_at(place, name, int(axis), scope)}" for place, name, axis in parts]
    sizes = [fact for fact in dict.fromkeys(facts) if not fact.endswith(" ?")]
    return plain_source(parts[0][0]), "SHAPE_ENV", plain_source(check), ", ".join(sizes)


_SIZE_OF = re.compile(r"((?:[LG]\['\w+'\]|\b[A-Za-z_]\w*)(?:\.\w+(?!\()|\[[^\]]*\])*)\.(size|stride)\(\)\[(\d+)\]")


def _size_at(source: str, name: str, axis: int, scope: Scope) -> str:
    value = value_at(source, scope)
    if not _is_plain_tensor(value) or axis >= value.dim():
        return "?"
    return str((value.shape if name == "size" else value.stride())[axis])


def _tensor_words(match: re.Match[str], tensors: Mapping[str, str], scope: Scope) -> tuple[str, str, str, str]:
    """The same for a tensor: its other sizes are looked up, or `?` if that is not possible. torch checks sizes last: with another
    dtype they may have changed, too.
    """
    name, property_name, expected, actual = match.groups()
    source = plain_source(name)
    size, tensor = _SIZE.match(property_name), re.fullmatch(r"(\w+)\[(.*)\] (\S+)", tensors.get(source, ""))
    before, after = tensor[2].split(", ") if tensor is not None else [], _sizes_at(name, scope)
    if property_name == "dtype mismatch" and tensor is not None and after and _has_other_sizes(before, after):
        dtype = str(value_at(name, scope).dtype).removeprefix("torch.")
        return source, "TENSOR_MATCH", tensors[source], f"{dtype}[{', '.join(after)}] {tensor[3]}"
    if tensor is not None and property_name.startswith("stride mismatch"):  # torch checks strides last: the sizes match
        return source, "TENSOR_MATCH", tensors[source], f"{tensors[source]} ({match[0]})"
    if size is None or tensor is None:
        return f"{source} ({property_name.replace(' mismatch', '')})", "torch tensor", expected, actual
    axis = int(size[1])  # torch checks sizes in order: those before this one matched
    now = [*before[:axis], actual, *(after[axis + 1 :] if len(after) == len(before) else ["?"] * (len(before) - axis - 1))]
    return source, "TENSOR_MATCH", tensors[source], f"{tensor[1]}[{', '.join(now)}] {tensor[3]}"


def _has_other_sizes(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether a tensor has other sizes than an entry requires, or more or fewer; `?` accepts any.

    >>> _has_other_sizes(["?", "2"], ["5", "2"]), _has_other_sizes(["4"], ["5"]), _has_other_sizes(["4"], ["4", "1"])
    (False, True, True)
    """
    return len(before) != len(after) or any(old not in (new, "?") for old, new in zip(before, after, strict=True))


def _sizes_at(source: str, scope: Scope) -> list[str]:
    """The sizes of the tensor under a source; [] if they cannot be looked up without running user code."""
    value = value_at(source, scope)
    return [str(size) for size in value.shape] if _is_plain_tensor(value) else []


def _is_plain_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch's own classes, whose methods run no user code. This file reads logs without torch."""
    return f"{type(value).__module__}.{type(value).__qualname__}" in ("torch.Tensor", "torch.nn.parameter.Parameter")


# -- actual values -----------------------------------------------------------------------------------------------------

UNKNOWN = object()
"""Stands for a value that cannot be looked up without running user code."""

_BEGIN = re.compile(r"^(?:L\['(\w+)'\]|G\['(\w+)'\]|([A-Za-z_]\w*))")
_PART = re.compile(r"\.(\w+)|\['([^']*)'\]|\[(\d+)\]")


def value_at(source: str, scope: Scope) -> Any:
    """The value under a source of torch, in a call; UNKNOWN if it is not certain.

    >>> value_at("L['d']['n']", ({"d": {"n": 3}}, {})), value_at("xs[1]", ({"xs": [1, 2]}, {}))
    (3, 2)
    """
    begin = _BEGIN.match(source)
    if begin is None:
        return UNKNOWN
    locals_, globals_ = scope
    name = begin[1] or begin[2] or begin[3]
    value = UNKNOWN if begin[2] else locals_.get(name, UNKNOWN)
    if value is UNKNOWN and not begin[1]:
        value = globals_.get(name, UNKNOWN)
    at = begin.end()
    while at < len(source) and value is not UNKNOWN:
        part = _PART.match(source, at)
        if part is None:
            return UNKNOWN
        at = part.end()
        value = _inside(value, *part.groups())
    return value


def _length_at(source: str, scope: Scope) -> Any:
    value = value_at(source, scope)
    return len(value) if type(value) in (list, tuple, dict, OrderedDict) else UNKNOWN


def _inside(value: Any, name: str | None, key: str | None, position: str | None) -> Any:
    if name is not None:
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return UNKNOWN
        return attributes.get(name, UNKNOWN) if type(attributes) is dict else UNKNOWN
    if key is not None:
        return value.get(key, UNKNOWN) if type(value) is dict else UNKNOWN
    if type(value) in (list, tuple) and int(position or 0) < len(value):
        return value[int(position or 0)]
    return UNKNOWN
