"""Remedies for recompiles and graph breaks: one table of advice, with code to paste and its cost.

The idea: advice must have the claimed effect. So all of it is in one table, by kind of cause, and a test runs a program for
each row and verifies the claim (tests/views/test_remedies.py). A row has the sentence for reports; a second one for more than
two values, if they need different advice; and for torch.compile changes that can be pasted: an environment variable, a line at
the top, a line before the call, an option of torch.compile. `dynexplore try` applies those, repeats the calls, and reports the
effect. Changes that only a person can make are "by hand": then the sentence is the change. No advice refers to an engine's
source files, and none raises a limit that the program has already raised.

In: `Reason`s of a recompile, or the text of a graph break of torch.compile. Out: `advice(reason)`, a sentence,
`advice_on_all(reasons, room)`, `advice_for_many(reason)` and `advice_at_limit(reasons, engine, room)`; `remedies_for(reasons,
source)` and `remedies_of_break(words, source)`: `Remedy`s, in the order in which to try them; `verdict(tried)`, the result of
one. PyTorch's counterpart: none; its messages mention settings individually.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dynexplore.engine import events as ev
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.views.changes import TO_NONE, is_computed_number, without_parentheses
from dynexplore.views.counts import plural
from dynexplore.views.miss_reasons import Reason

NO_ACTION = "No action needed"
"""The prefix of advice about a recompile that happens once and is expected."""

How = Literal["environment", "top", "option", "call", "by hand"]
"""Where the text goes: an environment variable; a line at the top of the script; an option of torch.compile; a line before the
call; or a manual change.
"""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change: the id of its row, the text to paste, where it goes, and its cost. `source` is its subject."""

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
    "environment": "as an environment variable",
    "top": "at the top of the program",
    "option": "as an option of torch.compile",
    "call": "before the call",
    "by hand": "by hand",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A change that can be pasted into a program that uses torch.compile: `text` with SOURCE as placeholder for the reason's
    subject, `applies` if it does not fit every reason of the row, `setting` an option that the program may have set itself.
    """

    id: str
    text: str | Callable[[Reason], str]
    how: How
    costs: str
    applies: Callable[[Reason], bool] = lambda reason: True
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: the reasons it applies to, the sentence for reports (placeholders: SOURCE for the reason's subject,
    OWNER for its module, KIND for the class of the object), the sentence for more than two values, the changes, and the cost of
    following the sentence.
    """

    id: str
    applies: Callable[[Reason], bool]
    says: str
    many: str = ""
    changes: tuple[Change, ...] = ()
    costs: str = "nothing"


_SIZE = re.compile(r"changed from (?:size \d+ to (\d+) in dimension \d+|\d+ (?:rows?|elements?) to (\d+))")


def _is_size(reason: Reason) -> bool:
    return reason.kind in ("TENSOR_MATCH", "torch tensor") and _SIZE.fullmatch(reason.change.happened) is not None


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


_DTYPE = re.compile(r"changed from ((?:u?int|float|bfloat|complex)\d+\w*|bool) to \w+")
_OF_PROCESS = re.compile(r"thread|dtype|determin|tf32|reduc|precision")


def _bounds_a_range(reason: Reason) -> bool:
    """Whether the line that relied on a number passes it to `range`, which needs its value: neither a symbol nor a tensor helps."""
    place = reason.needed_at
    if place is None or not _is_number(reason, int):
        return False
    return re.search(rf"\brange\((?:[^()]|\([^()]*\))*(?<![\w.]){re.escape(reason.source)}(?![\w.])", place.code) is not None


def _is_dtype(reason: Reason) -> bool:
    return reason.kind in ("TENSOR_MATCH", "torch tensor") and _DTYPE.fullmatch(reason.change.happened) is not None


def _is_of_torch(reason: Reason) -> bool:
    """Whether a `torch.device`, dtype or layout has another value."""
    return all(re.fullmatch(r"device\(.*\)|torch\.\w+", text) for text in (reason.expected, reason.actual))


def _is_tensor(reason: Reason) -> bool:
    return reason.kind in ("TENSOR_MATCH", "torch tensor")


def _is_attribute(reason: Reason) -> bool:
    return "." in reason.source


def _is_stored(reason: Reason) -> bool:
    """Whether the program sets a value somewhere: an attribute, or the item of a dict such as `STATS['calls']`."""
    return _is_attribute(reason) or re.search(r"\[['\"]", reason.source) is not None


def _is_argument(reason: Reason) -> bool:
    return not _is_attribute(reason)


def _becomes_zero_or_one(reason: Reason) -> bool:
    size = _SIZE.fullmatch(reason.change.happened)
    return _is_size(reason) and size is not None and (size[1] or size[2]) in ("0", "1")


def _is_state(reason: Reason, words: str) -> bool:
    return reason.kind == "GLOBAL_STATE" and re.search(words, reason.actual) is not None


def _is_text(reason: Reason) -> bool:
    return _kind_of(reason.expected) is str and _kind_of(reason.actual) is str


def _is_layout(reason: Reason) -> bool:
    happened = reason.change.happened
    return (
        "stride mismatch" in reason.actual
        or happened.startswith("changed from stride")
        or ".stride()" in f"{reason.source}{reason.expected}"
    )


def _is_of_size_one(reason: Reason) -> bool:
    """Whether the dimension whose stride changed has size 1: its stride is never used."""
    axis = re.match(r"changed from stride \d+ to \d+ in dimension (\d+)", reason.change.happened)
    sizes = re.match(r"\w+\[(.*?)\]", reason.expected)
    return axis is not None and sizes is not None and sizes[1].split(", ")[int(axis[1]) :][:1] == ["1"]


def _is_relation(reason: Reason) -> bool:
    """Whether it compares sizes or numbers; torch's guard has no kind of its own then, and its source is the comparison."""
    is_of_torch = reason.kind == "torch" and reason.expected == "true" and _COMPARISON.search(reason.source) is not None
    return reason.kind == "SHAPE_ENV" or is_of_torch


def _is_of_sizes(reason: Reason) -> bool:
    return re.search(r"\.(size|stride|storage_offset)\(\)", f"{reason.source} {reason.expected}") is not None


_EQUAL_SIZES = re.compile(r"\.size\(\)\[\d+\] == [\w.\[\]'\"]+\.size\(\)\[\d+\]")
_COMPARISON = re.compile(r" ([<>=!]=|[<>]) ")


def _is_function(reason: Reason) -> bool:
    return reason.actual == "function object" or reason.expected in ("function object", "code object")


def _is_class(reason: Reason) -> bool:
    """Whether an object has another class, as two modules that inherit one `forward`; numbers and containers are other causes."""
    classes = _CLASSES.fullmatch(reason.change.happened)
    return reason.kind in ("TYPE_MATCH", "NN_MODULE") and classes is not None and _PLAIN_TYPES.isdisjoint(classes.groups())


def _is_class_of_tensor(reason: Reason) -> bool:
    """Whether a tensor is passed as a subclass, too."""
    classes = _CLASSES.fullmatch(reason.change.happened)
    plain = _PLAIN_TYPES - {"Tensor", "Parameter"}
    is_one = classes is not None and not {"Tensor", "Parameter"}.isdisjoint(classes.groups())
    return reason.kind == "TYPE_MATCH" and classes is not None and is_one and plain.isdisjoint(classes.groups())


_CLASSES = re.compile(r"changed from (?:an? )?(\S+?)(?: object)? to (?:an? )?(\S+?)(?: object)?")
_PLAIN_TYPES = frozenset(
    {"int", "float", "bool", "complex", "str", "None", "NoneType", "Tensor", "Parameter", "list", "tuple", "dict", "set"}
)


def _is_length(reason: Reason) -> bool:
    return reason.kind == "LIST_LENGTH" or reason.source.startswith("len(") or reason.expected == "empty"


def _torch_source(reason: Reason) -> str:
    """A source as torch names a local: `L['self'].n` for `self.n`; a tensor of a module by the module's dictionaries:
    `L['self']._modules['fc']._parameters['weight']`.
    """
    if _is_tensor(reason) and _is_attribute(reason):
        name, *parts = re.findall(r"\w+", reason.source)
        modules = "".join(f"._modules['{part}']" for part in parts[:-1])
        if "parameter" in reason.facts:
            return f"L['{name}']{modules}._parameters['{parts[-1]}']"
        return f"{_of_local(reason.source)},L['{name}']{modules}._buffers['{parts[-1]}']"  # of an object, or of a module
    return _of_local(reason.source)


def _of_local(source: str) -> str:
    head, dot, rest = source.partition(".")
    name, bracket, index = head.partition("[")
    return f"L['{name}']{bracket}{index}{dot}{rest}"


def _dynamic_sources(reason: Reason) -> str:
    return f'TORCH_COMPILE_DYNAMIC_SOURCES="{_torch_source(reason)}"'


def _mark_dynamic(reason: Reason) -> str:
    axis = re.search(r"in dimension (\d+)", reason.change.happened)
    return f"{_package(reason)}.mark_dynamic({reason.source}, {axis[1] if axis else 0})"


def _package(reason: Reason) -> str:
    return "dynexplore" if reason.engine == DYNEXPLORE else "torch._dynamo"


_VARIES = "one version for all sizes, with kernels that are not tuned for any of them; sizes 0 and 1 still get their own"
_ALL_VARY = "every size and number of this function is dynamic from the first call"
_NUMBER_VARIES = "the number becomes a graph input; code that needs its value is still compiled for each value"
_EACH = "each gets its own compiled version"
_TWO = "two versions"
_TO_A_TENSOR = "the number becomes a 0-d tensor; an `if` on it breaks the graph"

_OF_SIZE = (
    Change("parameter-sizes", "torch._dynamo.config.force_parameter_static_shapes = False", "top",
           "sizes of parameters become graph inputs; kernels are not tuned for any of them", _is_attribute,
           "force_parameter_static_shapes"),
    Change("dynamic-source", _dynamic_sources, "environment", _VARIES),
    Change("mark-dynamic", _mark_dynamic, "call",
           f"{_VARIES}; raises ConstraintViolationError if the program requires one size", _is_argument),
    Change("dynamic-option", "dynamic=True", "option", _ALL_VARY, _is_argument),
)  # fmt: skip
_OF_PARAMETER = (
    Change("parameter-argument", _OF_SIZE[0].text, "top", _OF_SIZE[0].costs, setting=_OF_SIZE[0].setting),
    Change("parameter-source", _dynamic_sources, "environment", _VARIES),
)
_OF_INT = (
    Change("module-int", "torch._dynamo.config.allow_unspec_int_on_nn_module = True", "top",
           "ints of modules become graph inputs; code that needs their value is still compiled for each value", _is_attribute,
           "allow_unspec_int_on_nn_module"),
    Change("dynamic-number", _dynamic_sources, "environment", _NUMBER_VARIES),
    Change("number-option", "dynamic=True", "option", _ALL_VARY, _is_argument),
)  # fmt: skip
_OF_FLOAT = (Change("float", "SOURCE = torch.tensor(SOURCE, dtype=torch.float64)", "call", _TO_A_TENSOR, _is_argument),)

MARK = "Mark the size as dynamic with `CALL` before the first call, or pad `SOURCE` to one size."
ALIKE = "Pass inputs with the same properties every time, or compile a function for each kind."
BREAK_FIRST = "Fixing the preceding graph break also removes this recompile, unless the inputs change as well."
BREAK_FIRST_OF_MANY = BREAK_FIRST.replace("this recompile", "these recompiles")
KEEP_OR_TENSOR = "Pass the same `SOURCE` in every call, or pass it as a tensor."
OF_A_RANGE = (
    "`range` needs the value of `SOURCE`: loop over the same range in every call and use `SOURCE` inside the loop, "
    "or compile only the body of the loop."
)
SAME_OR_TENSOR = "Each new value recompiles: pass the same value every time, or pass a tensor."
MODULE_INT = f"Set `{_OF_INT[0].text}`, or store `SOURCE` as a tensor: an int of a module is a constant in the graph."
SAME_TEXT = "Each new value recompiles: branch on `SOURCE` outside the compiled function, and compile what each branch calls."
NUMBERS = ("EQUALS", "NUMBER")
_OF_KEYS = ("DICT_CONTAINS", "DICT_KEY", "DICT_KEYS", "DICT_LENGTH", "NAME_PRESENT")

ROWS: tuple[Row, ...] = (
    # loops, and values computed before a graph break
    Row("last-iteration", lambda r: "last round" in r.facts,
        f"{NO_ACTION}: the last iteration gets a separate version. Fixing the graph break in the loop removes it."),
    Row("before-break", lambda r: "from before" in r.facts, BREAK_FIRST, BREAK_FIRST_OF_MANY),
    # global state
    Row("gradient-mode", lambda r: _is_state(r, "grad|inference"),
        f"{NO_ACTION} if you use both, as in training and evaluation: {_EACH}.", costs=_TWO),
    Row("process-state", lambda r: _is_state(r, _OF_PROCESS.pattern),
        "Set the number of threads, the default dtype and deterministic mode once, before the first call."),
    Row("mode", lambda r: r.kind == "GLOBAL_STATE", f"{NO_ACTION} if you use both: {_EACH}.", costs=_TWO),
    Row("backend", lambda r: r.kind == "BACKEND_MATCH",
        f"{NO_ACTION} if you use both backends: {_EACH}. Otherwise compile the function once, and call the result.", costs=_TWO),
    Row("function-modes", lambda r: r.kind == "TORCH_FUNCTION_MODE_STACK",
        f"{NO_ACTION} if you call it inside and outside the mode: {_EACH}. Otherwise enter the mode for every call.", costs=_TWO),
    # relations between sizes, and memory layouts
    Row("any-layout", lambda r: _is_layout(r) and "varies" in r.facts,
        f"{NO_ACTION}: the new version accepts any such strides."),
    Row("layout-of-one", lambda r: _is_layout(r) and _is_of_size_one(r),  # .contiguous() returns such a tensor as it is
        "Pass `SOURCE.clone(memory_format=torch.contiguous_format)`, whose strides depend only on its sizes.",
        costs="a copy in each call"),
    Row("layout", _is_layout,
        "Call `.contiguous()` on `SOURCE` before the call, so that its strides stay the same.",
        costs="a copy in each call with a different layout"),
    Row("constant-in-graph", lambda r: r.kind == "SHAPE_ENV" and is_computed_number(r.change),
        f"{NO_ACTION} for a few values of `SOURCE`: {_EACH}. For many, keep it constant or compute it as a tensor.",
        "Each new value of `SOURCE` recompiles: keep it constant, or compute it as a tensor.", costs=_TWO),
    Row("number-relation", lambda r: _is_relation(r) and not _is_of_sizes(r),
        f"{NO_ACTION} if both cases occur: {_EACH}.", costs=_TWO),
    Row("equal-sizes", lambda r: _is_relation(r) and _EQUAL_SIZES.search(f"{r.source} {r.expected}") is not None,
        f"{NO_ACTION}: the first version requires these sizes to be equal, as in its first call; the new one accepts others, too.",
        costs=_TWO),
    Row("relation", _is_relation,
        f"{NO_ACTION}: the sizes that the compiled version excludes get separate versions.",
        "Pad the input to a few sizes: each condition whose result a new size changes adds a version.", costs=_TWO),
    # containers and module registries
    Row("hook", lambda r: r.registry.endswith("hooks") or "hooks" in r.source,
        "Register the hooks of `OWNER` once, before the first call."),
    Row("submodules", lambda r: bool(r.registry) or re.search(r"\._modules\b", r.source) is not None,
        f"{NO_ACTION} if you use both versions of the module: {_EACH}.",
        "Build the module once, before the first call.", costs=_TWO),
    Row("filled-dict", lambda r: ((r.kind, r.expected) in (("DICT_KEYS", "()"), ("DICT_LENGTH", "empty")) and not r.registry)
        or r.kind == "NAME_ABSENT",
        f"{NO_ACTION} if `SOURCE` is filled once: it causes one recompile.", costs=_TWO),
    Row("dict", lambda r: (r.kind in _OF_KEYS or "___dict" in r.source) and not r.registry,
        "Use the same keys in `SOURCE` in every call, or compile a separate function for each set of keys."),
    Row("growing", lambda r: _is_length(r) and "grows" in r.facts,
        "Append to `SOURCE` outside the compiled function, or keep its length the same in every call.",
        "Append to `SOURCE` outside the compiled function, or replace it by a tensor of fixed size: each new length recompiles.",
        costs="the compiled function returns what is appended"),
    Row("length", _is_length, "Keep the length of `SOURCE` the same in every call: pad it, or stack it into a tensor.",
        costs="memory for the padding"),
    # flags
    Row("training-mode", lambda r: _is_number(r, bool) and r.source.endswith(".training"),
        f"{NO_ACTION} if you run the model in both train() and eval() mode: each mode gets its own compiled version.", costs=_TWO),
    Row("flag", lambda r: {r.expected, r.actual} == {"True", "False"},
        f"{NO_ACTION} if you use both values of `SOURCE`: {_EACH}.", costs=_TWO),
    # objects
    Row("function", lambda r: "another object" in r.facts and _is_function(r),
        f"{NO_ACTION} for a few functions: {_EACH}. For many, compile these functions, not their caller.",
        "Compile the functions passed as `SOURCE`, not their caller, which recompiles for each of them.",
        costs="one version of each"),
    Row("any-instance", lambda r: "accepts any" in r.facts, f"{NO_ACTION}: the new version accepts any `KIND`."),
    Row("instance", lambda r: "another object" in r.facts,
        f"{NO_ACTION} for a few objects: each `KIND` gets its own compiled version. For many, reuse one of them.",
        "Reuse one `KIND` in every call: each new one gets its own compiled version.", costs="one version of each"),
    Row("tensor-class", _is_class_of_tensor,
        f"{NO_ACTION} for a few classes of `SOURCE`: {_EACH}. Otherwise convert it before the call: `.as_subclass(torch.Tensor)`.",
        "Convert `SOURCE` to one class before the call, as with `.as_subclass(torch.Tensor)`.", costs="one version of each"),
    Row("class", _is_class, f"{NO_ACTION} for a few classes of `SOURCE`: {_EACH}.",
        "Compile a separate function for each class of `SOURCE`.", costs="one version of each"),
    # tensors
    Row("optional-tensor", lambda r: r.change.happened == TO_NONE,
        f"{NO_ACTION} if `SOURCE` is optional: {_EACH}.", costs=_TWO),
    Row("zero-or-one", _becomes_zero_or_one, f"{NO_ACTION}: sizes 0 and 1 each get their own compiled version.", costs=_TWO),
    Row("size", lambda r: _is_size(r) and "varies" in r.facts,
        f"{NO_ACTION}: the new version accepts other sizes, too. With dynamic=True, the first call compiles that version.", MARK,
        _OF_SIZE),
    Row("requires-grad", lambda r: _is_tensor(r) and "requires gradients" in r.change.happened,
        f"{NO_ACTION} if you need it both with and without gradients: {_EACH}.", costs=_TWO),
    Row("inference-tensor", lambda r: "inference tensor" in r.change.happened,
        f"{NO_ACTION} if you need it both inside and outside inference mode: {_EACH}.", costs=_TWO),
    Row("size-before-break", lambda r: _is_tensor(r) and "before a break" in r.facts, BREAK_FIRST, BREAK_FIRST_OF_MANY),
    Row("dtype", _is_dtype, f"{NO_ACTION} if you use both: {_EACH}. Otherwise convert `SOURCE` to one dtype before the call.",
        "Convert `SOURCE` to one dtype before the call.", costs="a copy in each call with the other dtype"),
    Row("device", lambda r: _is_tensor(r) and r.change.happened.startswith("moved from "),
        f"{NO_ACTION} if you use both devices: {_EACH}. Otherwise move `SOURCE` to one device before the call.",
        f"{NO_ACTION} if you use all of these devices: {_EACH}. Otherwise move `SOURCE` to one device before the call.",
        costs=_TWO),
    Row("parameter-size", lambda r: _is_size(r) and "parameter" in r.facts,
        "Set `torch._dynamo.config.force_parameter_static_shapes = False`: otherwise sizes of parameters are static.",
        "", _OF_PARAMETER),
    Row("one-size", _is_size, MARK, "", _OF_SIZE),
    Row("tensor", _is_tensor, ALIKE),
    # values
    Row("None", lambda r: r.expected == "None" and _is_attribute(r),
        "Set `SOURCE` before the first call, so that it is never None."),
    Row("optional", lambda r: "None" in (r.expected, r.actual), f"{NO_ACTION} if `SOURCE` is optional: {_EACH}.", costs=_TWO),
    Row("range", _bounds_a_range, OF_A_RANGE),
    Row("number", lambda r: r.kind in NUMBERS and "varies" in r.facts and r.engine == DYNEXPLORE,
        f"{NO_ACTION}: the new version accepts any value of `SOURCE`.", SAME_OR_TENSOR),
    Row("varying-int", lambda r: r.kind in NUMBERS and "varies" in r.facts and not _is_number(r, float),
        f"{NO_ACTION}: the new version accepts any value of `SOURCE`. With dynamic=True, the first call compiles that version.",
        SAME_OR_TENSOR, _OF_INT),
    Row("varying-float", lambda r: r.kind in NUMBERS and "varies" in r.facts,
        f"{NO_ACTION}: the new version accepts any value of `SOURCE`.", SAME_OR_TENSOR, _OF_FLOAT),
    Row("str", _is_text, f"{NO_ACTION} if you use both values of `SOURCE`: {_EACH}. Otherwise pass the same value every time.",
        SAME_TEXT, costs="a function for each value"),
    Row("identity", lambda r: (r.kind == "ID_MATCH" and r.expected != r.actual) or _is_of_torch(r),
        f"{NO_ACTION} if you use both values of `SOURCE`: {_EACH}. Otherwise pass the same value every time.",
        "Pass the same `SOURCE` every time: each value gets its own compiled version.", costs=_TWO),
    Row("module-int", lambda r: _is_number(r, int) and _is_attribute(r) and r.engine != DYNEXPLORE, MODULE_INT, "", _OF_INT),
    Row("int-attribute", lambda r: _is_number(r, int) and _is_stored(r),
        "Store `SOURCE` as a tensor wherever the program sets it, or keep it constant.", costs=_TO_A_TENSOR),
    Row("int", lambda r: _is_number(r, int), KEEP_OR_TENSOR, SAME_OR_TENSOR, _OF_INT),
    Row("float-attribute", lambda r: _is_number(r, float) and _is_stored(r),
        "Store `SOURCE` as a tensor wherever the program sets it, or keep it constant.", costs=_TO_A_TENSOR),
    Row("one-float", lambda r: _is_number(r, float), KEEP_OR_TENSOR, SAME_OR_TENSOR, _OF_FLOAT),
    Row("other", lambda r: True, "Keep `SOURCE` the same in every call."),
)  # fmt: skip
"""The table; the first row that applies to a reason is its row."""

EACH_COMBINATION = f"{NO_ACTION} if you use all of these: each combination gets one compiled version at most."
"""The advice if several values changed, none of which needs an action."""

UNKNOWN = "Keep the value that changed the same in every call."
"""The advice if no guard is known."""


def row_of(reason: Reason) -> Row:
    """The row of a reason."""
    return next(row for row in ROWS if row.applies(reason))


def advice(reason: Reason | None) -> str:
    """The advice about a recompile, as in a report."""
    return _filled(row_of(reason).says, reason) if reason is not None else UNKNOWN


def advice_on_all(reasons: Sequence[Reason], room: int, of_one: Callable[[Reason], str] = advice) -> str:
    """The advice about a recompile with several reasons, as far as `room` characters hold it. Each reason alone forces the
    recompile: advice to change something helps only if it is about all of them, and only if none of them is expected. So what may
    stay as it is comes first. `of_one`: the advice on one of them.
    """
    subjects: dict[str, str] = {}  # advice -> the name of the value it is about
    for reason in [reason for reason in reasons if row_of(reason).id != "other"] or reasons:
        subjects.setdefault(of_one(reason), reason.change.name)
    if len(subjects) <= 1:
        return next(iter(subjects), UNKNOWN)
    if all(row_of(reason).id == "one-size" and _is_argument(reason) for reason in reasons):
        marked = _mark_all(list(dict.fromkeys(subjects.values())), _package(reasons[0]))
        return marked if len(marked) <= room else _keep_all(list(dict.fromkeys(subjects.values())))
    if len(set(subjects.values())) == 1:
        texts = list(subjects)
    else:
        texts = [_on(subject, text) for text, subject in subjects.items()]
    expected = _with_one_list_of_values([text for text in texts if text.startswith(NO_ACTION)])
    changes = [text for text in texts if not text.startswith(NO_ACTION)]
    if not changes:  # that no action is needed is said once
        expected = _without_repetition(expected)
    short = list(dict.fromkeys(re.split(r"(?<=\.) (?=[A-Z])", text)[0] for text in expected + changes))
    last = [EACH_COMBINATION] if expected else [_keep_all(list(dict.fromkeys(subjects.values())))]
    attempts = (expected + changes, short, short[: len(expected)] if changes and expected else last, last)
    return next((words for words in map(" ".join, attempts) if len(words) <= room), last[0])


_ANY_VALUE = re.compile(rf"({NO_ACTION}: the new version accepts any value of )(`[^`]+`)(\..*)")


def _with_one_list_of_values(expected: Sequence[str]) -> list[str]:
    """The numbers that became inputs in one sentence, in place of one for each.

    >>> _with_one_list_of_values([f"{NO_ACTION}: the new version accepts any value of `{name}`." for name in "ab"])
    ['No action needed: the new version accepts any value of `a` and `b`.']
    """
    matches = {text: match for text in expected if (match := _ANY_VALUE.fullmatch(text))}
    if len(matches) < 2:
        return list(expected)
    first, *rest = matches
    names = _listed([match[2] for match in matches.values()])
    endings = {match[3] for match in matches.values()}
    merged = f"{matches[first][1]}{names}{endings.pop() if len(endings) == 1 else '.'}"
    return [merged if text == first else text for text in expected if text not in rest]


def _without_repetition(expected: Sequence[str]) -> list[str]:
    """Advice to do nothing: first on which condition, then what is so without one.

    >>> _without_repetition(["No action needed: any size is accepted.", "No action needed if you use both."])
    ['No action needed if you use both.', 'Any size is accepted.']
    """
    always = f"{NO_ACTION}: "
    ordered = sorted(expected, key=lambda text: text.startswith(always))
    rest = [text.removeprefix(always) for text in ordered[1:]]
    return [*ordered[:1], *(text[0].upper() + text[1:] for text in rest)]


def _keep_all(names: Sequence[str]) -> str:
    """The advice about values of which each alone forces a recompile.

    >>> _keep_all(["`a`", "`b`", "`c`", "`d`", "`e`"])
    'Keep `a`, `b` and 3 more values the same in every call: changing any one of them triggers a recompile.'
    """
    return f"Keep {_listed(names)} the same in every call: changing any one of them triggers a recompile."


def _mark_all(names: Sequence[str], package: str) -> str:
    """The advice about tensors whose sizes change together: to mark one of them does not help.

    >>> _mark_all(["`p`", "`g`"], "dynexplore")
    'Mark the sizes of `p` and `g` as dynamic with `dynexplore.mark_dynamic` before the first call, or compile with dynamic=True.'
    """
    tensors = _listed(names)
    mark = f"`{package}.mark_dynamic`"
    return f"Mark the sizes of {tensors} as dynamic with {mark} before the first call, or compile with dynamic=True."


def _listed(names: Sequence[str]) -> str:
    shown = [*names[:2], plural(len(names) - 2, "more value")] if len(names) > _MOST_NAMES else list(names)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


_MOST_NAMES = 3


def _on(subject: str, text: str) -> str:
    """A piece of advice, with its subject if it does not name it.

    >>> _on("`x`", "No action needed if you use both."), _on("the keys of `d`", "Use the same keys in `d`.")
    ('No action needed for `x` if you use both.', 'Use the same keys in `d`.')
    """
    named = re.search("`.*?`", subject)
    if named is None or named[0] in text or text.startswith(f"{NO_ACTION}:"):
        return text
    if text.startswith(NO_ACTION):
        return text.replace(NO_ACTION, f"{NO_ACTION} for {subject}", 1)
    return f"For {subject}: {text[0].lower()}{text[1:]}"


def advice_for_many(reason: Reason | None) -> str:
    """The same for more than two values, when a separate entry for each is not a solution."""
    if reason is None:
        return UNKNOWN
    row = row_of(reason)
    return _filled(row.many or row.says, reason)


def _filled(text: str, reason: Reason) -> str:
    """A text of the table with the placeholders replaced.

    >>> from dynexplore.views.changes import Change
    >>> _filled("Set `SOURCE`", Reason("", "GLOBAL_STATE", "", "", Change("the state", "changed"), None))
    'Set what changed'
    >>> _filled("Set `SOURCE`", Reason("((step % 4) == 0)", "EQUALS", "True", "False", Change("`x`", "changed"), None))
    'Set `(step % 4) == 0`'
    """
    named = re.search("`(.*?)`", reason.change.name)  # a relation between sizes has no source
    source = re.sub(r"\.stride\(\).*", "", reason.source or (named[1] if named else ""))
    source = re.sub(r"^len\((.*)\)$|^list\((.*)\)\[\d+\]$", r"\1\2", source)
    if not source or source.startswith("argument "):
        text = text.replace("`SOURCE`", source or "what changed")
    kind = reason.actual.removesuffix(" object")
    words = {"SOURCE": without_parentheses(source), "OWNER": reason.owner or _owner(source), "KIND": kind}
    words |= {"CALL": _mark_dynamic(reason)}
    if "bounded" in reason.facts:
        text = text.replace("accepts any value of `SOURCE`", "accepts other values of `SOURCE`, too")
    return re.sub("CALL|SOURCE|OWNER|KIND", lambda match: words[match[0]], text)


def _owner(source: str) -> str:
    """The module that contains a registry.

    >>> _owner("len(self.layer._forward_hooks)"), _owner("self._modules")
    ('self.layer', 'self')
    """
    return re.split(r"\._\w*(?:hooks|modules)\b", source)[0].removeprefix("len(")


def advice_at_limit(reasons: Sequence[Reason], engine: str, room: int) -> str:
    """The advice that keeps a function from recompiling up to the limit: on as many of its reasons as `room` characters hold."""
    setting = "config.cache_size_limit" if engine == DYNEXPLORE else "torch._dynamo.config.recompile_limit"
    texts = [_ways_to_stay_below(reasons[:count], setting) for count in range(len(reasons), -1, -1)]
    return next((text for text in texts if len(text) <= room), texts[-2] if reasons else texts[-1])


def _ways_to_stay_below(reasons: Sequence[Reason], setting: str) -> str:
    """A sentence for each way, with all values to which it applies; the last of those for which raising the limit is an
    alternative says so.
    """
    ways: dict[str, list[str]] = {}
    for reason in reasons:
        ways.setdefault(_way_to_stay_below(reason), []).append(f"`{reason.source}`")
    texts = [way.replace("SOURCE", " and ".join(sources)) for way, sources in ways.items()] or [_CONSTANT]
    last = max((number for number, text in enumerate(texts) if text.endswith(";")), default=-1)
    ended = [f"{text} {setting} raises the limit." if number == last else f"{text[:-1]}." for number, text in enumerate(texts)]
    return " ".join(ended)


_CONSTANT = "Keep the value in the guard constant;"
_SAME_AT_LIMIT = (
    "layout", "dtype", "int-attribute", "float-attribute", "hook", "module-int", "constant-in-graph", "growing", "range",
)  # fmt: skip


def _way_to_stay_below(reason: Reason) -> str:
    """The advice on one reason, SOURCE for its subject; it ends in a semicolon if raising the limit is an alternative."""
    row = row_of(reason)
    if row.id in _SAME_AT_LIMIT:
        return advice_for_many(reason)
    if row.id == "function":
        return "Compile the functions passed as SOURCE, not their caller, which recompiles for each of them."
    if row.id == "str":
        return "Move the code that depends on SOURCE out of the compiled function, or keep it constant;"
    if _is_tensor(reason):
        return "Pass SOURCE with the same properties in every call;"
    return f"{_CONSTANT[:-1]}, or pass it as a tensor;" if _is_number(reason, int) or _is_number(reason, float) else _CONSTANT


BREAKS: tuple[tuple[str, re.Pattern[str], str, str, str], ...] = (
    ("scalar-outputs", re.compile(r"\.item\(\)|\.tolist\(|scalar|_local_scalar_dense"),
     "torch._dynamo.config.capture_scalar_outputs = True",
     "the number becomes a symbol in the graph; an `if` on it still breaks", "capture_scalar_outputs"),
    ("dynamic-outputs", re.compile(r"[Dd]ynamic (output )?shape|(?<!\w)nonzero|data.dependent"),
     "torch._dynamo.config.capture_dynamic_output_shape_ops = True", "sizes that depend on data become symbols in the graph",
     "capture_dynamic_output_shape_ops"),
    ("print", re.compile(r"(?<![\w.])print\("), "torch._dynamo.config.reorderable_logging_functions.add(print)",
     "the output is printed after the graph has run, in order", "reorderable_logging_functions"),
    ("warn", re.compile(r"(?<!\w)warnings\.warn\("),
     "import warnings; torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)",
     "the warning appears after the graph has run", "reorderable_logging_functions"),
    ("logger", re.compile(r"logging\.Logger method.*\.(debug|info|warning|error|critical|exception)\("),
     r"import logging; torch._dynamo.config.ignore_logging_functions.add(logging.Logger.\1)",
     "compiled code logs no messages of this level", "ignore_logging_functions"),
    ("logging", re.compile(r" in (debug|info|warning|error|critical|exception|log) \(__init__\.py:\d+\)"),
     r"import logging; torch._dynamo.config.ignore_logging_functions.add(logging.\1)",
     "compiled code skips this function", "ignore_logging_functions"),
)  # fmt: skip
"""For graph breaks: id, pattern of the cause, the line at the top, its cost, and the setting."""

LIMITS = ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit")


def remedies_for(reasons: Iterable[Reason], source: str = "") -> list[Remedy]:
    """The remedies for reasons of torch.compile, those that apply to each; `source` is the text of the program, whose own settings
    are preserved.
    """
    by_text = {(remedy.row, remedy.text): remedy for reason in reasons for remedy in _of_reason(reason, source)}
    return sorted(by_text.values(), key=lambda remedy: remedy.how == "by hand")


def _of_reason(reason: Reason, source: str) -> Iterator[Remedy]:
    row = row_of(reason)
    changes = [change for change in row.changes if change.applies(reason)]
    for change in changes:
        if not (change.setting and change.setting in source):
            text = _filled(change.text, reason) if isinstance(change.text, str) else change.text(reason)
            yield Remedy(change.id, text, change.how, change.costs, reason.source)
    if not changes:
        yield Remedy(row.id, advice(reason), "by hand", row.costs, reason.source)


def remedies_of_break(words: str, source: str = "") -> list[Remedy]:
    """The remedies for a graph break of torch.compile, by its cause and its line."""
    return [
        Remedy(row, match.expand(text), "top", price)
        for row, pattern, text, price, setting in BREAKS
        if (match := pattern.search(words)) is not None and setting not in source
    ]


def limit_remedy(limit: int, versions: int, source: str) -> Remedy | None:
    """The remedy that raises the recompile limit; None if the program has set a limit itself."""
    if any(name in source for name in LIMITS):
        return None
    text = f"torch._dynamo.config.recompile_limit = {max(versions, 2 * limit)}"
    return Remedy("limit", text, "top", "each version takes memory, and every call checks their guards until one matches")


# -- results -----------------------------------------------------------------------------------------------------------


NO_PLACE = "there is no place for it in the script"
"""The error of a remedy that could not be applied: the program was not run with it."""

NO_CALL = "there is no call for it in the script"
"""The same for an option of torch.compile."""


def verdict(tried: ev.RemedyTried) -> str:
    """The result of a remedy, in one sentence.

    >>> verdict(ev.RemedyTried(frame=0, row="r", text="t", before=(8, 0, 7), after=(2, 0, 1), same_values=True, helped=True))
    'Tried: 1 recompile instead of 7; same values.'
    """
    if tried.error == NO_PLACE:
        return "Not tried: no call in the script passes it by this name; apply it where the value is computed."
    if tried.error == NO_CALL:
        return "Not tried: no call of `torch.compile` in the script can be changed to pass it."
    if tried.error:
        return f"Tried: does not help; the program then raises {ev.clip(tried.error.splitlines()[0], 160)}"
    changes = [
        f"{plural(now, noun)} instead of {was}"
        for was, now, noun in zip(tried.before[1:], tried.after[1:], ("graph break", "recompile"), strict=True)
        if was != now
    ]
    values = {True: "same values", False: "different values", None: "no values to compare"}[tried.same_values]
    if not changes:
        return f"Tried: no effect on graph breaks and recompiles; {values}."
    return f"Tried: {', '.join(changes)}; {values}."
