"""Parsers of torch's messages: source names, tensor checks, and graph break reasons.

The idea: torch.compile reports in text what it did: a source is `L['x']`, a graph break is a message with a title, an explanation,
hints, a context and a link. A live watch and a log reader get the same texts, so both are parsed here, without needing torch.

In: texts of torch._dynamo.
Out: `plain_source`, `plain_function`, `tensor_checks`; `Cause` with its `event`, created by `parsed`.

PyTorch's counterpart: `format_graph_break_message` in torch/_dynamo/exc.py, and torch/_dynamo/source.py, which write these texts.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.installed_files import is_standard, is_torch
from dynexplore.traces.short_reasons import UNTRACED, parse_short_reason

PLAIN_TYPES = (int, float, bool, str, bytes, complex, type(None))
"""Types whose repr runs no user code."""

_SCOPED = re.compile(r"\b[LG]\['(\w+)'\]")
_SUBMODULE = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")
_BUILTIN = re.compile(r"\b__builtins_dict___\d+\['(\w+)'\]")
_MODULE = re.compile(r"\b__import_(\w+)")
_ENVIRON = re.compile(r"\.environ\._data\[b('[^']*')\]")
_KEY = re.compile(r"\blist\(dict\.keys\(((?:[^()]|\([^()]*\))*)\)\)\[(\d+)\]")
_MEMBER = re.compile(r"\b(?:set|frozenset)\.__contains__\(([\w.]+(?:\[\w+\])*), ('[^']*'|\w+)\)")
_ITERATOR_ITEM = re.compile(r"\b___tuple_iterator_getitem\(([^()]*(?:\([^()]*\)[^()]*)*), (\d+)\)")
_ITERATOR_LENGTH = re.compile(r"\b___tuple_iterator_len\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_RANGE = re.compile(r"\b___normalize_range_iter\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_OF_CLASS = re.compile(r"\bdict\((type\((?:[^()]|\([^()]*\))*\)[\w.\[\]]*)\.__dict__\)\['(\w+)'\]")


def plain_source(text: str) -> str:
    """A source in Python syntax: `L['x'].shape[0]` as `x.shape[0]`, module attributes as users write them; builtins, imported
    modules and class attributes without torch's internal names.

    >>> plain_source("L['self']._modules['fc']._parameters['weight'] + G['n']"), plain_source("L['net']._modules['0'].training")
    ('self.fc.weight + n', 'net[0].training')
    >>> plain_source("G['__builtins_dict___0']['len']"), plain_source("G['__import_torch_dot_nn_dot_functional'].relu")
    ('len', 'torch.nn.functional.relu')
    >>> plain_source("dict(type(L['self']._modules['fc']).__dict__)['forward'].__defaults__[0]")
    'type(self.fc).forward.__defaults__[0]'
    >>> plain_source("set.__contains__(L['tags'], 'train')"), plain_source("G['os'].environ._data[b'MODE']")
    ("'train' in tags", "os.environ['MODE']")
    >>> plain_source("list(dict.keys(L['batch']))[1] == 'b'")
    "list(batch)[1] == 'b'"
    >>> plain_source("___tuple_iterator_getitem(L['gen'], 2).x"), plain_source("___tuple_iterator_len(L['gen']) == 3")
    ('list(gen)[2].x', 'len(list(gen)) == 3')
    """
    text = _KEY.sub(r"list(\1)[\2]", text)
    text = _ENVIRON.sub(r".environ[\1]", _SUBMODULE.sub(_subscript_or_attribute, _SCOPED.sub(r"\1", text)))
    if "__" not in text:
        return text
    text = _MODULE.sub(lambda module: module[1].replace("_dot_", "."), _BUILTIN.sub(r"\1", text))
    text = _RANGE.sub(r"\1", _ITERATOR_LENGTH.sub(r"len(list(\1))", _ITERATOR_ITEM.sub(r"list(\1)[\2]", text)))
    return _MEMBER.sub(r"\2 in \1", _OF_CLASS.sub(r"\1.\2", text))


def _subscript_or_attribute(match: re.Match[str]) -> str:
    return f"[{match[1]}]" if match[1].isdigit() else f".{match[1]}"


_MANGLED = re.compile(r"^[lL]_self_+(?=modules_|parameters_)|_*(?:modules|parameters)_+")


def parameter_name(source: str) -> str:
    """The name of a parameter in `named_parameters`, from its source, or from torch's name of the graph input.

    >>> parameter_name("self.layers[0].weight"), parameter_name("L_self_modules_first_parameters_weight_")
    ('layers.0.weight', 'first.weight')
    """
    if re.match(r"[lL]_self_", source):
        return ".".join(part for part in _MANGLED.sub(".", source).strip("_").split(".") if part)
    return re.sub(r"\[(\d+)\]", r".\1", source).removeprefix("self.").removeprefix("self")


_RESUMED = re.compile(r"torch_dynamo_resume_in_(.*?)_at_\d+$")


def plain_function(name: str) -> str:
    """The user's name for a resume function.

    >>> plain_function("torch_dynamo_resume_in_forward_at_12"), plain_function("forward")
    ('forward', 'forward')
    """
    return _RESUMED.sub(r"\1", name)


_TENSOR_CHECK = re.compile(
    r"TENSOR_MATCH: (check_tensor\((.*?), (\w+), DispatchKeySet\(.*?\), (torch\.\w+), device=(\w+), .*?size=(\[.*?\]), .*?\))"
    r"\s*(?:#|$)",
    re.M,
)


def tensor_checks(tree: str) -> dict[str, tuple[str, str]]:
    """Parse a guard tree: source -> the expected metadata of this tensor, and the whole check."""
    checks = {}
    for check, source, _, dtype, device, size in _TENSOR_CHECK.findall(tree):
        text = plain_source(check)
        place = "cpu" if device == "None" else f"cuda:{device}"
        checks[plain_source(source)] = f"{dtype.removeprefix('torch.')}{size.replace('None', '?')} {place}", ev.clip(text)
    return checks


# -- graph break reasons -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason of a graph break: torch's message, in parts, and the user's stack."""

    message: str
    title: str
    why: str = ""
    fix: str = ""
    context: str = ""
    kind: str = "torch"
    fundamental: bool = False
    user_stack: tuple[ev.UserFrame, ...] = ()

    def event(self, **more: Any) -> ev.GraphBroke:
        """The graph break event; `more` are its place and its values."""
        details = ("context", ev.clip(self.context)), ("said", _description_of(self.context))
        facts = tuple((name, text) for name, text in details if text)
        return ev.GraphBroke(
            kind=self.kind, title=self.title, reason=self._reason, why=self.why, fix=self.fix, facts=facts,
            user_stack=self.user_stack, fundamental=self.fundamental, **more,
        )  # fmt: skip

    @property
    def _reason(self) -> str:
        place = f" at {self.user_stack[-1].place}" if self.user_stack else ""
        return f"{self.title}{place}"


_RAISED = re.compile(r"^\w+ <.*?>: (?:\w+\(\): )?(.+)")
"""The Python exception behind a graph break: `TypeError <built-in function f>: it must be bool`."""

_SKIPPED = re.compile(r"^module: ([\w.]+|<unknown module>), qualname: ([\w.<>]+), skip reason: ")
"""Matches the untraced function in the context, because the title does not name it."""

_METHOD = re.compile(r"^call_method \w+\((?:<class ')?_?([\w.]+)(?:'>)?\) (\w+)")
"""The method of an object that is not a tensor: the title does not name it."""

_VARIES = re.compile(r"must be \w+, not Sym(Bool|Int|Float)$")
_FIX_OF_VARYING = {
    "Bool": "The argument depends on a symbolic size. Write it as `True if ... else False`: the branch adds a guard, "
    "and the result is a plain bool.",
    "": "The argument is a symbolic number, but must be a plain one: use dynamic=False or torch._dynamo.mark_static.",
}

_ANOTHER = "*** While handling this graph break, another graph break occurred: ***"
_IN_LOGS = ("Encountered graph break when attempting to trace", "Failed to handle graph break gracefully")
_FOLLOWS = re.compile(r"This graph break may have been caused by an earlier graph break")
_HAS_KWARGS = re.compile(r" \(has_kwargs (?:True|False)\)")  # a variable of torch's own code
_LINK = re.compile(r"/gb/(gb\d+)\.html")
_FUNDAMENTAL = "fundamental - it is unlikely that Dynamo will ever be able to trace"
_OF_TORCH = re.compile(f"{_FUNDAMENTAL}|Dynamo bug")


def parsed(message: str, stack: tuple[ev.UserFrame, ...] = ()) -> Cause:
    """The parts of torch's message.

    >>> cause = parsed("Data dependent operator\\n  Explanation: It returns a number.\\n  Hint: Enable a setting.\\n")
    >>> cause.title, cause.why, cause.fix
    ('Data dependent operator', 'It returns a number.', 'Enable a setting.')
    >>> parsed("No\\n  Explanation: Cannot trace `print` with argument types ['Tensor'] (has_kwargs False)\\n").why
    "Cannot trace `print` with argument types ['Tensor']"
    """
    first, _, after = message.partition(_ANOTHER)
    if after.strip():
        return _combined(parsed(first, stack), parsed(after.strip()), message)
    title, _, rest = message.partition("\n")
    if title.startswith(_IN_LOGS) and rest.strip():  # logs first name the opcode, which is visible in the code, or what torch does
        title, _, rest = rest.strip().partition("\n")
    hints = [_joined(hint) for hint in re.findall(r"^  Hint: (.*?)(?=^  Hint:|^\s*$|\Z)", rest, re.M | re.S)]
    link = _LINK.search(message)
    if not rest.strip() and (short_reason := parse_short_reason(title)) is not None:
        return Cause(message, *short_reason, context=title, user_stack=stack)
    context = _joined(_part(r"Developer debug context: (.*?)(?=^\s*$|\Z)", rest))
    return Cause(
        message=message,
        title=title.strip().removeprefix("Unsupported: ").rstrip(".") or "torch.compile cannot go on",
        why=_HAS_KWARGS.sub("", _joined(_part(r"^  Explanation: (.*?)(?=^  Hint:|^\s*$|\Z)", rest))),
        fix=_fix_of_varying(context)
        or _fix_of_operator(context)
        or _fix_of_torchs_own(title, context, stack)
        or _fix_of_random_branch(context, stack)
        or _fix_of_title(title)
        or _fix_of_logging(context, stack)
        or _fix_of_plain_result(context, stack)
        or _joined_once(_of_program(hint, context, _standard_call(stack)) for hint in hints if not _OF_TORCH.search(hint)),
        context=context,
        kind=link[1].upper() if link else "torch",
        fundamental=_FUNDAMENTAL in message,
        user_stack=stack,
    )


def is_consequence(message: str) -> bool:
    """Whether torch could not end the graph at an earlier break, and the message does not contain that break's."""
    return _FOLLOWS.search(message) is not None and _ANOTHER not in message


def with_consequence(earlier: str, message: str) -> str:
    """The message of an earlier break, and what it led to, as torch writes both where it handles a break."""
    return f"{earlier.rstrip()}\n\n{_ANOTHER}\n\n{message}"


def _description_of(context: str) -> str:
    """A description from torch's context, if it is more specific than the title; "" if not.

    >>> _description_of("module: time, qualname: perf_counter, skip reason: <missing>")
    'torch.compile does not trace time.perf_counter'
    >>> _description_of("call_method UserDefinedObjectVariable(ContextVar) get [] {}")
    'Unsupported method call: ContextVar.get'
    >>> _description_of("TypeError <built-in f>: f(): no")
    'no'
    """
    if _SKIPPED.search(context):
        return f"torch.compile does not trace {_called(context)}"
    if method := _METHOD.search(context):
        return f"Unsupported method call: {'.'.join(method.groups())}"
    raised = _RAISED.search(context)
    return raised[1] if raised else ""


def _fix_of_title(title: str) -> str:
    """The fix for breaks whose first hint fits few programs; "" for others.

    >>> _fix_of_title("Unsupported Tensor.backward() call")
    'Call `backward()` outside the compiled function, on its result.'
    >>> _fix_of_title("Dynamic shape operator")[:40]
    'Keep the size with `torch.where`, or set'
    """
    return _FIXES.get(title.removeprefix("Unsupported: "), "")


_FIXES = {
    "Unsupported Tensor.backward() call": "Call `backward()` outside the compiled function, on its result.",
    "Invalid call to __build_class__": "Define the class outside the compiled function, at the top of the file.",
    "Data-dependent branching": "Use torch.where or torch.cond, or move the `if` out of the compiled function.",
    "Dynamic shape operator": "Keep the size with `torch.where`, or set"
    " `torch._dynamo.config.capture_dynamic_output_shape_ops = True`.",
}


def _fix_of_logging(context: str, stack: tuple[ev.UserFrame, ...]) -> str:
    """The fix for a call that logs: torch breaks at a method of a logger, or inside of a function of `logging`; "" for others.

    >>> _fix_of_logging("method: <Logger app (INFO)>.info, args: [], kwargs: {}", ())[:59]
    'Move the logging out of the compiled function, or add `logg'
    """
    method = _LOGGER_METHOD.match(context)
    inside = next((frame for frame in stack if _IS_LOGGING.search(frame.file)), None)
    if method is not None:
        logs = f"logging.Logger.{method[1]}"
    elif inside is not None and inside.function in _LOGS:
        logs = f"logging.{inside.function}"
    else:
        return ""
    setting = "torch._dynamo.config.ignore_logging_functions"
    return f"Move the logging out of the compiled function, or add `{logs}` to `{setting}`: compiled code then skips it."


_IS_LOGGING = re.compile(r"(python3[.\d]*t?|[Ll]ib)[/\\]logging[/\\]__init__\.py$")  # the standard library's
_LOGGER_METHOD = re.compile(r"method: <Logger .*>\.(\w+), args: ")
_LOGS = ("debug", "info", "warning", "error", "critical", "exception", "log")


def _fix_of_plain_result(context: str, stack: tuple[ev.UserFrame, ...]) -> str:
    """The fix for an operator that returns no tensor, for which torch gives no hint; "" for others.

    >>> _fix_of_plain_result("example_value type: int; op: call_function; target: <function initial_seed at 0x7fec>", ())
    'Move the call to `initial_seed` out of the compiled function, and pass its result.'
    """
    target = _PLAIN_RESULT.match(context)
    if target is None:
        return ""
    name = target[1] or target[2]
    called = re.search(rf"(?<![\w.])[\w.]*\b{name}(?=\()", stack[-1].code) if stack else None
    return f"{_moved(called[0] if called is not None else name)}, and pass its result."


_PLAIN_RESULT = re.compile(r"example_value type: .*; op: \w+; target: (?:<(?:function|built-in \w+) (\w+) .*|(\w+)$)")


def _fix_of_torchs_own(title: str, context: str, stack: tuple[ev.UserFrame, ...]) -> str:
    """The fix for a break that is in torch's own code, which a program cannot change; "" for others.

    >>> _fix_of_torchs_own("", "module: torch.optim.adam, qualname: Adam.step, skip reason: <missing>", ())
    "No action needed: the optimizer's step is compiled separately."
    """
    if title.startswith("Call to `torch._dynamo.graph_break()`") and stack and is_torch(stack[-1].file):
        return "No action needed: torch breaks the graph here on purpose."
    if stack and is_torch(stack[-1].file) and any(frame.file.endswith(_DDP) for frame in stack):
        return WRAP_LATER
    return next((fix for pattern, fix in _FIXES_OF_TORCH if pattern.search(context)), "")


_DDP = "torch/nn/parallel/distributed.py"
WRAP_LATER = "Compile the module before it is wrapped: DistributedDataParallel(torch.compile(module))."

_FIXES_OF_TORCH = (
    (re.compile(r"^module: torch\.optim\.\w+, qualname: \w+\.step,"),
     "No action needed: the optimizer's step is compiled separately."),
    (re.compile(r"qualname: .*(\b_inside_ddp_forward|\b_broadcast_coalesced),"), WRAP_LATER),
)  # fmt: skip


def _fix_of_operator(context: str) -> str:
    """The fix for operators that return a bool, for which torch only suggests a custom operator; "" for others.

    >>> _fix_of_operator("aten.equal.default")[:71]
    'Compare elementwise instead, as `(a == b).all()`, and choose with torch'
    """
    instead = _COMPARISONS.get(context.strip())
    return f"Compare elementwise instead, as `{instead}`, and choose with torch.where." if instead else ""


_COMPARISONS = {"aten.equal.default": "(a == b).all()", "aten.allclose.default": "torch.isclose(a, b).all()"}


def _fix_of_varying(context: str) -> str:
    """The fix if an operator got a symbol instead of a plain number: torch blames the program, which runs in eager mode."""
    varies = _VARIES.search(context)
    return _FIX_OF_VARYING.get(varies[1], _FIX_OF_VARYING[""]) if varies is not None else ""


def _combined(first: Cause, then: Cause, message: str) -> Cause:
    """Combine two messages if torch cannot resume: why the whole frame is skipped, and the original reason."""
    why = f"{first.why} {then.why}".strip()
    return dataclasses.replace(first, message=message, title=f"{first.title} ({then.title})", why=why)


def _fix_of_random_branch(context: str, stack: tuple[ev.UserFrame, ...]) -> str:
    """The fix for a branch on a number of the module `random`, which torch takes for a tensor; "" for others."""
    draws = stack and re.search(r"\b(random|rng)\b", stack[-1].code) and "jump with UnspecializedPythonVariable" in context
    return "Draw the number outside the compiled function, and pass the result of the comparison." if draws else ""


def _called(context: str) -> str:
    """The function or method that is not traced, as the program names it; "" if the context names none.

    >>> _called("module: random, qualname: Random.choice, skip reason: a"), _called("module: posix, qualname: stat, skip reason: a")
    ('random.choice', 'os.stat')
    >>> _called("call_method UserDefinedClassVariable(<class 'datetime.datetime'>) now [] {}")
    'datetime.datetime.now'
    """
    if method := _METHOD.search(context):
        return ".".join(method.groups())
    if (skipped := _SKIPPED.search(context)) is None:
        return ""
    module, name = skipped.groups()
    if name.startswith("Random."):  # the functions of `random` are methods of one generator
        return name.lower()
    return name if module in ("builtins", "<unknown module>") else f"{_PUBLIC.get(module, module)}.{name}"


_PUBLIC = {"posix": "os", "nt": "os", "_warnings": "warnings", "_io": "io"}
"""Modules written in C -> the module that programs import."""


def _standard_call(stack: tuple[ev.UserFrame, ...]) -> str:
    """The function of the standard library that the program calls, if the break is somewhere inside of it; "" if it is not.

    >>> inside = ev.UserFrame("/usr/lib/python3.12/warnings.py", 160, "simplefilter", "_add_filter(action)")
    >>> _standard_call((ev.UserFrame("a.py", 1, "f", "warnings.simplefilter('ignore')"), inside)), _standard_call((inside,))
    ('warnings.simplefilter', '')
    """
    inside = list(itertools.takewhile(lambda frame: is_standard(frame.file), reversed(stack)))
    if not inside or len(inside) == len(stack):
        return ""
    called = re.search(rf"(?<![\w.])[\w.]*\b{re.escape(inside[-1].function)}(?=\()", stack[-len(inside) - 1].code)
    return called[0] if called is not None else ""


def _of_program(hint: str, context: str, standard: str = "") -> str:
    """A hint with what a program can change: torch asks to avoid the call, names a class method by `type`, or suggests reporting
    an issue, until which the builtin stays untraced. `standard`: the function that the program calls, if that calls the builtin.

    >>> _of_program("Avoid calling builtin `open` with argument types ['str'].", "")
    'Move the call to `open` out of the compiled function.'
    >>> _of_program("Avoid calling the function `Random.choice`.", "module: random, qualname: Random.choice, skip reason: a file")
    'Move the call to `random.choice` out of the compiled function, and pass the random numbers.'
    """
    avoided, builtin = _AVOIDED.match(hint), _BUILTIN_HINT.match(hint)
    called = _called(context) or (avoided[1] if avoided else "")
    if hint.startswith("If you are attempting to call a logging function") or (avoided and called in FIXES_OF_LOGGING):
        return FIXES_OF_LOGGING.get(called, "")
    if not avoided and not builtin:
        return "" if _NO_FIX.match(hint) or (_EXTENSION.match(hint) and _is_of_python(context)) else hint
    called = standard or called
    if called.lower().startswith("random.") and not called.endswith((".seed", ".shuffle")):
        return f"{_moved(called)}, and pass the random numbers."
    if builtin and called in FIXES_OF_LOGGING:  # said by another hint
        return ""
    if builtin and not standard:
        return f"{_moved(called)}, or wrap it with `torch.library.custom_op`." if called else UNTRACED
    return f"{_moved(called)}."


def _moved(called: str) -> str:
    return f"Move the call to `{called}` out of the compiled function"


def _is_of_python(context: str) -> bool:
    """Whether the untraced function belongs to a module of the standard library."""
    skipped = _SKIPPED.search(context)
    return skipped is not None and skipped[1].partition(".")[0] in sys.stdlib_module_names


_EXTENSION = re.compile(r"If it is a third-party C/C\+\+ Python extension")
_BUILTIN_HINT = re.compile("(If it is a Python builtin, p|P)lease file an issue on GitHub")
_NO_FIX = re.compile("Consider using an equivalent alternative function/method|Please (?:report|file) an issue to PyTorch")
_AVOIDED = re.compile(r"Avoid calling (?:the function |builtin )?`([\w.<>]+)`")
FIXES_OF_LOGGING = {
    "print": "Move the print outside the compiled function, or remove it.",
    "warnings.warn": "Move the call to `warnings.warn` out of the compiled function, or add `warnings.warn` to "
    "`torch._dynamo.config.reorderable_logging_functions`: it then runs after the graph.",
}
"""The fixes for functions that only report something."""


def _part(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.M | re.S)
    return match[1] if match else ""


def _joined_once(texts: Iterable[str]) -> str:
    return " ".join(filter(None, dict.fromkeys(texts)))


def _joined(text: str) -> str:
    return " ".join(text.split())
