"""Recompile reasons: converts torch's text for a failing guard to a `GuardFailed` event.

The idea: torch reports the failing guard of an entry as the text of its check, which contains the expected value but, except for
tensors, not the actual one. So the actual value is looked up in the same place, without running user code (values_in_scope.py).

In: a reason of torch._dynamo, the locals and globals of the call (empty for a log), the known guards of the entry.
Out: `plain_reason(reason)`, `failed_guard(...)`, a `GuardFailed`.

PyTorch's counterpart: `get_guard_fail_reason` in torch/_dynamo/guards.py, which writes the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from dynexplore.engine import events as ev
from dynexplore.traces.torch_words import PLAIN_TYPES, plain_source
from dynexplore.traces.values_in_scope import UNKNOWN, Scope, key_at, length_at, size_at, sizes_at, value_at

_PREFIX = re.compile(r"^\s*\d+(?:/\d+)+(?:_\d+)?: ")
_TENSOR = re.compile(r"tensor '(.*?)' (.*?)\.? expected (.*?),? actual (.*?)(?:\. Guard failed on .*)?$")
_SIZE = re.compile(r"size mismatch at index (\d+)")
_LENGTH = re.compile(r"^len\((.*)\)$")

_NEEDED_AT = re.compile(r"  # (.*?)\s+# ([^#\s][^#]*?):(\d+) in (\S+)(?: \(\S+:\d+ in \S+\))?$")
"""The line of the program; of a relation between sizes torch adds its own line in parentheses."""

_IS_RELATION = re.compile(r" [-+*/%] |\.(size|stride)\(\)")
"""An expression of numbers and sizes, not a place where a value is found."""

_CODE = ".__code__"

Words = tuple[str, str, str, str]
"""The source, the kind, the expected and the actual value of a check."""


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


def _words(check: str, scope: Scope) -> Words:
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
    for pattern, words_of in _FORMS:
        match = pattern.search(check)
        words = None if match is None else words_of(match, scope)
        if words is not None:
            return words
    return _relation(check, scope)


def _words_of_none(match: re.Match[str], scope: Scope) -> Words:
    return plain_source(match[1]), "EQUALS", "None", _in_place_of_none(value_at(match[1], scope))


def _words_of_empty(match: re.Match[str], scope: Scope) -> Words:
    return plain_source(match[1]), _kind_of_length(match[1], scope, "torch"), "empty", "not empty"


def _words_of_key(match: re.Match[str], scope: Scope) -> Words:
    absent, key, source = match.groups()
    without, with_it = f"without the key {key}", f"with the key {key}"
    return plain_source(source), "DICT_CONTAINS", without if absent else with_it, with_it if absent else without


def _words_of_state(match: re.Match[str], scope: Scope) -> Words:
    return "", "GLOBAL_STATE", "as it was", match[1].strip().replace("_", " ") or "another"


def _words_of_type(match: re.Match[str], scope: Scope) -> Words:
    value = value_at(match[1], scope)
    expected = (match[2] or "the same").rpartition(".")[2]
    return plain_source(match[1]), "TYPE_MATCH", expected, "another" if value is UNKNOWN else type(value).__name__


def _words_of_object(match: re.Match[str], scope: Scope) -> Words:
    source, kind = match[1], (match[2] or "object").rpartition(".")[2]
    if source.endswith(_CODE):  # a function is guarded by its code
        source, kind = source.removesuffix(_CODE), "function"
    return plain_source(source), "ID_MATCH", f"{kind} object", f"{kind} object"


def _words_of_gradients(match: re.Match[str], scope: Scope) -> Words:
    return f"{plain_source(match[1])} (requires_grad)", "torch tensor", match[2], "0" if match[2] == "1" else "1"


def _words_of_key_at(match: re.Match[str], scope: Scope) -> Words:
    keys, source, index, expected = match.groups()
    return plain_source(f"{keys}[{index}]"), "DICT_KEY", expected, _shown(key_at(source, int(index), scope))


def _words_of_equality(match: re.Match[str], scope: Scope) -> Words | None:
    """None for a relation between sizes, which has no one value. For a dict, torch prints the actual relation, not the check."""
    source, expected = match.groups()
    length = _LENGTH.match(source)
    value = value_at(source, scope) if length is None else length_at(length[1], scope)
    if value is UNKNOWN and _IS_RELATION.search(source):
        return None
    kind = "EQUALS" if length is None else _kind_of_length(length[1], scope, "EQUALS")
    return plain_source(source), kind, expected, _shown(value)


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Scope], Words | None]], ...] = (
    (re.compile(r"^(.*) is None$"), _words_of_none),
    (re.compile(r"^not ([\w.\[\]']+)$"), _words_of_empty),
    (
        re.compile(r"^Cache line invalidated because (.*) got deallocated$"),
        lambda match, scope: (plain_source(match[1]), "torch", "alive", "freed"),
    ),
    (re.compile(r"^(not )?___dict_contains\((.*), (.*)\)$"), _words_of_key),
    (re.compile(r"^BACKEND_MATCH failure"), lambda match, scope: ("", "BACKEND_MATCH", "the same backend", "another backend")),
    (
        re.compile(r"___check_torch_function_mode_stack"),
        lambda match, scope: ("", "TORCH_FUNCTION_MODE_STACK", "as it was", "another"),
    ),
    (re.compile(r"^GLOBAL_STATE changed: *(.*)$"), _words_of_state),
    (re.compile(r"^___check_type_id\((.*), \d+\)(?:, type=<class '(.*)'>)?$"), _words_of_type),
    # torch 2.11 prints the object, later versions its class
    (re.compile(r"^___check_obj_id\((.*?), \d+\)(?:, type=(?:<class '(.*)'>|<.*>))?$", re.DOTALL), _words_of_object),
    (
        re.compile(  # from torch 2.14 on it names a class where 2.13 says "a tensor type"
            r"^expected type of '(.*?)' to be (?:a tensor type|<class '[\w.]+'>),.* but found <class '(?:.*\.)?(\w+)'>"
        ),
        lambda match, scope: (f"{plain_source(match[1])} (class)", "torch tensor", "a tensor of another class", match[2]),
    ),
    (re.compile(r"tensor '(.*?)' requires_grad mismatch\. expected requires_grad=([01])"), _words_of_gradients),
    (re.compile(r"^(list\(dict\.keys\((.*)\)\))\[(\d+)\] == (.*)$"), _words_of_key_at),
    (re.compile(r"^(.*?) == (.*)$"), _words_of_equality),
    (re.compile(r"^(len\(.*\)) != (\d+)$"), _words_of_equality),
)
"""The forms of torch's checks, and what each says. The first that matches and has words applies; any other check is a relation."""


def _shown(value: object) -> str:
    """A value whose repr runs no user code; "another value" for any other, and for one that is not known."""
    kind = type(value)
    is_plain = kind in PLAIN_TYPES or (kind.__module__ == "torch" and kind.__name__ in _PLAIN_OF_TORCH)
    return ev.safe_repr(value, 80) if is_plain else _ANOTHER


_ANOTHER = "another value"
_PLAIN_OF_TORCH = ("device", "dtype", "layout", "memory_format")


def _in_place_of_none(value: object) -> str:
    """A value that is passed where None was expected: by its class, if it is not shown itself.

    >>> _in_place_of_none(2), _in_place_of_none([1, 2]), _in_place_of_none(object()), _in_place_of_none(UNKNOWN)
    ('2', 'a list', 'an object', 'another value')
    """
    shown = _shown(value)
    if value is UNKNOWN or shown != _ANOTHER:
        return shown
    name = type(value).__name__
    return "a tensor" if name == "Tensor" else f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _kind_of_length(source: str, scope: Scope, otherwise: str) -> str:
    """The kind of a check on a length: keys are not padded as the items of a list are."""
    return "DICT_LENGTH" if isinstance(value_at(source, scope), dict) else otherwise


def _relation(check: str, scope: Scope) -> Words:
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
    facts = [f"{plain_source(place)}.{name}()[{axis}] is {size_at(place, name, int(axis), scope)}" for place, name, axis in parts]
    sizes = [fact for fact in dict.fromkeys(facts) if not fact.endswith(" ?")]
    return plain_source(parts[0][0]), "SHAPE_ENV", plain_source(check), ", ".join(sizes)


_SIZE_OF = re.compile(r"((?:[LG]\['\w+'\]|\b[A-Za-z_]\w*)(?:\.\w+(?!\()|\[[^\]]*\])*)\.(size|stride)\(\)\[(\d+)\]")


def _tensor_words(match: re.Match[str], tensors: Mapping[str, str], scope: Scope) -> Words:
    """The same for a tensor: its other sizes are looked up, or `?` if that is not possible. torch checks sizes last: with another
    dtype they may have changed, too.
    """
    name, property_name, expected, actual = match.groups()
    source = plain_source(name)
    size, tensor = _SIZE.match(property_name), re.fullmatch(r"(\w+)\[(.*)\] (\S+)", tensors.get(source, ""))
    before, after = tensor[2].split(", ") if tensor is not None else [], sizes_at(name, scope)
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


