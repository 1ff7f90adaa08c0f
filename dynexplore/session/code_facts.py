"""Code facts: what the instructions of a function show about its purpose, before it runs.

The idea: a function that calls `backward()`, steps an optimizer, reads files or fills parameters drives a program, and is no part
of a model. The names and methods that its code uses show that, and so do those of the program's functions that it calls.

In: a function, and which files are the program's own. Out: `CodeFacts`; the functions that a function calls (`callees_of`).
PyTorch's counterpart: none.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from dynexplore.engine.policy.trace_rules import is_of_the_program
from dynexplore.engine.raw_attributes import is_a

_CALLS_BACKWARD = "it calls backward()"
_STEPS = "it calls step() on an optimizer or environment"
_LOADS = "it creates a data loader"
_USES_FILES = "it reads or writes files"
_READS_ARGUMENTS = "it reads the command line"
_SWITCHES = "it calls train() or eval()"
_TAKES_GRADIENTS = "it calls torch.autograd.grad"
NAMES_OF_DRIVERS: Mapping[str, str] = {
    "backward": _CALLS_BACKWARD,
    "zero_grad": _STEPS,
    "DataLoader": _LOADS,
    **dict.fromkeys(
        ("open", "load", "save", "dump", "makedirs", "mkdir", "loadtxt", "savetxt", "imread", "imwrite", "read_csv"), _USES_FILES
    ),
    **dict.fromkeys(("load_state_dict", "save_pretrained", "from_pretrained"), _USES_FILES),
    **dict.fromkeys(("ArgumentParser", "parse_args"), _READS_ARGUMENTS),
}
"""A name that a function uses -> why the function drives a program and is not part of a model."""
METHODS_OF_DRIVERS: Mapping[str, str] = {"step": _STEPS, "eval": _SWITCHES, "train": _SWITCHES}
"""The same for names that are called as methods; as plain attributes they have another meaning."""
_FILLS_PARAMETERS = frozenset(name for name in vars(torch.nn.init) if name.endswith("_") and not name.startswith("_"))
_NAMES_OF_FILLING = frozenset({"reset_parameters", "_reset_parameters", "init_weights", "_init_weights"})
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_JUMPS_BACK = "JUMP_BACKWARD"
_MOST_CODES = 4096
"""How many code objects are remembered: their facts, and the names that they use."""


@dataclass(frozen=True)
class CodeFacts:
    """Facts from the instructions of a function, and of the program's functions that it calls.

    drives: why the function drives a program, in words; "" if nothing indicates that. fills_parameters: it initializes parameters.
    loops: it contains a loop. calls_itself: it calls its first argument (`self(x)`), or the `forward` of something.
    """

    drives: str = ""
    fills_parameters: bool = False
    loops: bool = False
    calls_itself: bool = False


def facts_of(function: types.FunctionType, is_own: Callable[[str], bool] = is_of_the_program) -> CodeFacts:
    """The facts of a function's code, including those of its callees in the program; `is_own` identifies the program's files.

    >>> def train(loss):
    ...     loss.backward()
    >>> facts_of(train).drives
    'it calls backward()'
    """
    own = _own_facts(function.__code__)
    drives = _own_reason(function) or next((reason for reason in map(_drives, callees_of(function, is_own)) if reason), "")
    return CodeFacts(drives, own.fills_parameters, own.loops, own.calls_itself)


def _drives(function: types.FunctionType) -> str:
    why = _own_reason(function)
    return f"{why}, in {function.__qualname__}" if why else ""


def _own_reason(function: types.FunctionType) -> str:
    """Why the function drives a program, without its callees; "" if nothing indicates that."""
    return _own_facts(function.__code__).drives or (_TAKES_GRADIENTS if _takes_gradients(function) else "")


def _takes_gradients(function: types.FunctionType) -> bool:
    """Whether it calls `torch.autograd.grad`, as `grad` or as `autograd.grad`; `torch.func.grad` is another function."""
    return any(
        function.__globals__.get(name) is torch.autograd.grad or (name == "grad" and "autograd" in code.co_names)
        for code in with_nested(function.__code__)
        for name in code.co_names
    )


@functools.lru_cache(_MOST_CODES)
def _own_facts(code: types.CodeType) -> CodeFacts:
    """Facts of one code object and the code objects nested in it. Many functions call the same one, so it is read once."""
    names: set[str] = set()
    drives = ""
    loops = calls_itself = False
    for nested in with_nested(code):
        names.update(nested.co_names)
        drives = drives or next((NAMES_OF_DRIVERS[name] for name in nested.co_names if name in NAMES_OF_DRIVERS), "")
        steps = list(dis.get_instructions(nested))
        methods = [step.argval for step in steps if _loads_method(step)]
        drives = drives or next((METHODS_OF_DRIVERS[name] for name in methods if name in METHODS_OF_DRIVERS), "")
        loops |= any(step.opname.startswith(_JUMPS_BACK) for step in steps)
        calls_itself |= "forward" in methods or _calls_first_argument(nested, steps)
    fills = code.co_name in _NAMES_OF_FILLING or ("init" in names and not names.isdisjoint(_FILLS_PARAMETERS))
    return CodeFacts(drives, fills, loops, calls_itself)


def _loads_method(step: dis.Instruction) -> bool:
    return step.opname == "LOAD_METHOD" or "NULL|self" in step.argrepr


_READS_A_PART = frozenset({"LOAD_ATTR", "LOAD_METHOD", "BINARY_SUBSCR", "BINARY_OP"})


def _calls_first_argument(code: types.CodeType, steps: list[dis.Instruction]) -> bool:
    """Whether the first argument itself is called: it is loaded next to the NULL that goes below or above a callee."""
    if not code.co_argcount:
        return False
    first = code.co_varnames[0]

    def is_first(step: dis.Instruction) -> bool:
        return step.opname.startswith("LOAD_FAST") and step.argval == first  # LOAD_FAST, or a checked or borrowed variant

    triples = zip(steps, steps[1:], steps[2:], strict=False)
    return any(
        (a.opname == "PUSH_NULL" and is_first(b) and c.opname not in _READS_A_PART) or (is_first(a) and b.opname == "PUSH_NULL")
        for a, b, c in triples
    )


def with_nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and the code objects nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from with_nested(constant)


_METHODS_OF_TENSORS = frozenset(dir(torch.Tensor))
MOST_CALLEES = 200
"""The maximum number of functions that are inspected as callees of a function."""


def callees_of(function: types.FunctionType, is_own: Callable[[str], bool] = is_of_the_program) -> Iterator[types.FunctionType]:
    """The functions of the program that a function calls, directly or indirectly, as far as names can be resolved."""
    seen = {id(function.__code__)}
    waiting = [function]
    while waiting and len(seen) < MOST_CALLEES:
        for callee in _named_by(waiting.pop(), is_own):
            if id(callee.__code__) not in seen:
                seen.add(id(callee.__code__))
                waiting.append(callee)
                yield callee


def _named_by(function: types.FunctionType, is_own: Callable[[str], bool]) -> Iterator[types.FunctionType]:
    """The program's functions that a function references by name: globals, methods of its own class, and methods of any class that
    its module names, since the class of `layer` in `layer.fit(x)` is unknown before it runs. What tensors have is theirs.
    """
    owner = _owner_of(function)
    classes = [value for value in function.__globals__.values() if is_a(value, type) and value is not owner]
    for name, is_method in _names_of(function.__code__):
        own = [inspect.getattr_static(owner, name, None)] if owner else []
        others = [vars(cls).get(name) for cls in classes] if is_method else []
        for value in (function.__globals__.get(name), *own, *others):
            value = inspect.unwrap(value) if isinstance(value, types.FunctionType) else getattr(value, "__func__", value)
            if isinstance(value, types.FunctionType) and is_own(value.__code__.co_filename):
                yield value


@functools.lru_cache(_MOST_CODES)
def _names_of(code: types.CodeType) -> tuple[tuple[str, bool], ...]:
    """The names that a code object and those nested in it use, and whether as a method that no tensor has."""
    names = []
    for nested in with_nested(code):
        methods = {step.argval for step in dis.get_instructions(nested) if _loads_method(step)} - _METHODS_OF_TENSORS
        names += [(name, name in methods) for name in nested.co_names]
    return tuple(names)


def _owner_of(function: types.FunctionType) -> type | None:
    name = function.__qualname__.rpartition(".")[0]
    owner = function.__globals__.get(name)
    return owner if isinstance(owner, type) else None
