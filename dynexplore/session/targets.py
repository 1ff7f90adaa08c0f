"""Targets: the calls of a program that a user would compile.

The idea: a script imports, parses arguments, builds modules, reads data and trains. Of all the frames that begin while it runs,
only some are worth a graph: the outermost calls of modules, and the program's own functions on tensors. Each frame is classified at
its entry, from its code, its arguments and the call stack, by the first matching row of a table: `FUNCTION_ROWS` for a function of
the program, `MODULE_ROWS` for a call of a module. The outer target wins: everything that runs inside it is part of it. Names given
by the user (`--only`, `--not`) take precedence over the tables.

Imports never get here: they run with the frame hook off. Class bodies, module bodies and generators are not seen by the hook.

In: a frame that is about to begin (`FrameState`), patterns. Out: a `Choice`: whether it is a target, its display name, and which
row decided, in words.

PyTorch's counterpart: none; there the user marks what to compile.
"""

from __future__ import annotations

import fnmatch
import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.native import UNBOUND, FrameState, function_of
from dynexplore.engine.policy.trace_rules import is_of_the_program
from dynexplore.engine.records import record
from dynexplore.engine.runtime import foreign_modes
from dynexplore.session.call_facts import DRIVING_TYPES, MODULE_CALL, holds_tensor, why_around
from dynexplore.session.code_facts import COMPREHENSIONS, CodeFacts, facts_of

_Named = tuple[str, str, int, int]
"""The name of a function, its file, and its first and last line."""

Answer = Literal["target", "never", "not now"]
"""`never`: no call of this code can be a target. `not now`: this call is not one; others may be."""


# -- names given by the user --------------------------------------------------------------------------------------------------


@record()
class Pattern:
    """`NAME`, `Class.method`, `FILE:LINE` or a glob of names, as given on the command line.

    >>> [Pattern(text).fits("Net.forward", "/src/mnist.py", 12, 20) for text in ("Net.*", "forward", "mnist.py:14", "Net")]
    [True, True, True, False]
    >>> Pattern("Net").fits("Net.forward", "/src/mnist.py", 12, 20, is_module=True)
    True
    """

    text: str

    def fits(self, name: str, file: str, first_line: int, last_line: int, *, is_module: bool = False) -> bool:
        """Whether it matches this function: by qualified name, last component, a line inside it, or, for a module's call, the
        class.
        """
        return _fits(self.text, name, file, first_line, last_line, is_module)


@functools.lru_cache(4096)
def _fits(text: str, name: str, file: str, first_line: int, last_line: int, is_module: bool) -> bool:
    """The same for the text of a pattern. Each call of a module asks it."""
    path, _, line = text.rpartition(":")
    if path and line.isdigit():
        return first_line <= int(line) <= last_line and _ends_with(file, path)
    owner, _, last = name.rpartition(".")
    names = (name, last, owner) if is_module else (name, last)
    return any(fnmatch.fnmatchcase(candidate, text) for candidate in names if candidate)


def _ends_with(file: str, path: str) -> bool:
    return file == path or os.path.abspath(file).endswith(os.sep + os.path.normpath(path).lstrip(f".{os.sep}"))


# -- facts of a call --------------------------------------------------------------------------------------------------------------


class Call:
    """A frame that is about to begin, and the facts that the rows check."""

    def __init__(self, state: FrameState, targets: Targets) -> None:
        self.state = state
        self.code = state.code
        self.targets = targets

    @functools.cached_property
    def arguments(self) -> list[Any]:
        """The arguments in order."""
        return [value for value in self.state.values if value is not UNBOUND]

    @functools.cached_property
    def module(self) -> torch.nn.Module:
        """The module that is called, in a frame of `Module.__call__`."""
        module: torch.nn.Module = self.state.values[0]
        return module

    @functools.cached_property
    def name(self) -> str:
        """The function's name without the functions that it is nested in."""
        return self.code.co_qualname.rpartition("<locals>.")[2]

    @functools.cached_property
    def facts(self) -> CodeFacts:
        """The facts of its code."""
        return self.targets.facts_of(function_of(self.state))

    @functools.cached_property
    def around(self) -> str:
        """Why nothing below the frames on this stack is a target; "" if it may be."""
        return why_around(sys._getframe(1), self.targets.is_own)

    @functools.cached_property
    def has_tensor(self) -> bool:
        """Whether a tensor is among the arguments, or nested a few levels inside one."""
        return any(holds_tensor(value) for value in self.arguments)

    @functools.cached_property
    def drives_a_model(self) -> bool:
        """Whether a module is called in a loop of this function: then users compile the module."""
        if not self.facts.loops or self._is_forward():
            return False
        others = self.arguments[1:] if self.is_method else self.arguments
        if any(isinstance(value, torch.nn.Module) for value in others):
            return True
        return self.facts.calls_itself or any(isinstance(value, torch.nn.Module) for value in self._named_globals())

    def _is_forward(self) -> bool:
        """Whether it is the `forward` that a module's call runs, called by name."""
        return self.code.co_name == "forward" and isinstance(self.arguments[0] if self.arguments else None, torch.nn.Module)

    @property
    def is_method(self) -> bool:
        """Whether it is defined in a class, and takes an object as its first argument."""
        return bool(self.arguments) and "." in self.name

    def _named_globals(self) -> Iterator[Any]:
        values = self.state.globals
        return (values[name] for name in self.code.co_names if name in values)


# -- the tables -------------------------------------------------------------------------------------------------------------------


@record()
class Row:
    """One rule: when it applies, the decision, and the reason in words (or the text that `applies` itself returns)."""

    id: str
    applies: Callable[[Call], object]
    answer: Answer
    why: str

    def reason(self, call: Call) -> str | None:
        """The reason if the row applies, else None."""
        verdict = self.applies(call)
        if not verdict:
            return None
        return verdict if isinstance(verdict, str) else self.why


def _is_library(call: Call) -> bool:
    return not call.targets.is_own(call.code.co_filename)


def _is_special(call: Call) -> bool:
    name = call.code.co_name
    return name.startswith("__") and name.endswith("__") and name != "__call__"


def _is_method_of_driver(call: Call) -> bool:
    return call.is_method and isinstance(call.arguments[0], DRIVING_TYPES)


FUNCTION_ROWS: tuple[Row, ...] = (
    Row("library", _is_library, "never", "it is a function of a library"),
    Row("special", _is_special, "never", "Python calls it implicitly"),
    Row("comprehension", lambda call: call.code.co_name in COMPREHENSIONS, "never", "it is part of another function"),
    Row("driver", lambda call: call.facts.drives, "never", "it drives the program"),
    Row("parameters", lambda call: call.facts.fills_parameters, "never", "it initializes parameters"),
    Row("around", lambda call: call.around, "not now", "its caller is never captured"),
    Row("method of a driver", _is_method_of_driver, "not now", "it is a method of an optimizer, a dataset or a file"),
    Row(
        "driving arguments",
        lambda call: any(isinstance(value, DRIVING_TYPES) for value in call.arguments),
        "not now",
        "it receives an optimizer, a dataset or a file",
    ),
    Row("no tensor", lambda call: not call.has_tensor, "not now", "it receives no tensor"),
    Row("loop around a model", lambda call: call.drives_a_model, "not now", "it runs a module in a loop; the module is captured"),
    Row("function on tensors", lambda call: True, "target", "a function of the program that receives a tensor"),
)
"""For a function: the first matching row decides."""

MODULE_ROWS: tuple[Row, ...] = (
    Row(
        "compiled",
        lambda call: foreign_modes.is_compiled_module(call.module),
        "not now",
        "torch.compile has wrapped it",
    ),
    Row("around", lambda call: call.around, "not now", "its caller is never captured"),
    Row("outermost module", lambda call: True, "target", "the outermost call of a module"),
)
"""For a call of a module: the first matching row decides."""


@record()
class Choice:
    """The decision about a frame: the row, its reason in words, and the frame's display name."""

    answer: Answer
    row: str
    why: str
    name: str
    file: str
    line: int
    caller: str = ""
    """Where the program calls it, if its code belongs to a library: `train.py:30`."""

    @property
    def is_target(self) -> bool:
        """Whether the frame is captured."""
        return self.answer == "target"

    @property
    def place(self) -> str:
        """The place: `mnist.py:12`."""
        return f"{os.path.basename(self.file)}:{self.line}"

    @property
    def shown_place(self) -> str:
        """The program's own line: where it is defined, or else where it is called."""
        return f"called at {self.caller}" if self.caller else self.place


@dataclass
class Targets:
    """Decides which frames of a program are targets.

    only, excluded: patterns given by the user. given_to_compile: functions and modules that the program passed to torch.compile,
    captured by this engine instead (`--engine dynexplore`); once there is one, the tables are not used any more. None:
    torch.compile compiles them.
    """

    only: tuple[Pattern, ...] = ()
    excluded: tuple[Pattern, ...] = ()
    given_to_compile: list[Any] | None = None
    folder: str = ""
    """Files below this folder belong to the program, too: a package that is run with -m may be installed."""
    passed: dict[tuple[str, str, int], Passed] = field(default_factory=dict)
    """Functions that were called but not captured, by name and place, for readers who look for them."""

    _forwards: dict[type, tuple[Any, _Named]] = field(default_factory=dict)
    _not_named: dict[type, tuple[Any, Passed]] = field(default_factory=dict)
    """Classes of modules that no pattern names, with their `forward`: each call of a module asks, and there are many."""
    _facts: dict[int, tuple[types.CodeType, CodeFacts]] = field(default_factory=dict)

    def is_own(self, file: str) -> bool:
        """Whether a file belongs to the program; code that a library executes from text does not."""
        if file.startswith("<") and not file.startswith(_TYPED):
            return False
        return is_of_the_program(file) or bool(self.folder and os.path.abspath(file).startswith(self.folder))

    def facts_of(self, function: types.FunctionType) -> CodeFacts:
        """The facts of a function's code, computed once."""
        code = function.__code__
        cached = self._facts.get(id(code))
        if cached is None:
            cached = self._facts[id(code)] = code, facts_of(function, self.is_own)
        return cached[1]

    def decide(self, state: FrameState) -> Choice:
        """Decide whether this frame is a target."""
        if state.code is MODULE_CALL and (refused := self._refused_before(state.values[0])) is not None:
            return refused
        call = Call(state, self)
        choice = self._of_module(call) if state.code is MODULE_CALL else self._of_function(call)
        if not choice.is_target and choice.row not in _UNINTERESTING and state.code.co_name not in COMPREHENSIONS:
            passed = self.note(choice)
            if passed is not None and choice.row == _NOT_NAMED:
                self._remember_refusal(state, passed)
        return choice

    def _remember_refusal(self, state: FrameState, passed: Passed) -> None:
        if state.code is MODULE_CALL:
            owner = type(state.values[0])
            self._not_named[owner] = type.__getattribute__(owner, "forward"), passed

    def _refused_before(self, module: torch.nn.Module) -> Choice | None:
        """The earlier refusal of modules of this class, if the patterns name neither the class nor this module."""
        forward, passed = self._not_named.get(type(module), (None, None))
        if passed is None:
            return None
        # looked up as `type` does it, so that nothing of the program runs
        if type.__getattribute__(type(module), "forward") is not forward or self._is_named_global(module):
            return None
        passed.calls += 1
        return passed.choice

    def _is_named_global(self, module: torch.nn.Module) -> bool:
        """Whether a pattern is the name of a global variable of the script that has this module."""
        of_the_script = vars(sys.modules["__main__"])
        for patterns in (self.only, self.excluded):
            for pattern in patterns:
                if of_the_script.get(pattern.text) is module:
                    return True
        return False

    def selects(self, name: str, file: str, first_line: int, last_line: int) -> bool:
        """Whether the user's patterns include a function that another engine has compiled."""
        is_module = name.endswith(".forward")
        by_name = self._by_name((name, file, first_line, last_line), is_module=is_module)
        return by_name is None or by_name[0] == "target"

    def _of_module(self, call: Call) -> Choice:
        module = call.module
        named = self._forward_of(type(module))
        by_name = self._by_name(named, module)
        if by_name is not None:
            return Choice(*by_name, *named[:3])
        if self.given_to_compile:
            return Choice(*self._by_compile_calls(module), *named[:3])
        return Choice(*_first_row(MODULE_ROWS, call), *named[:3])

    def _forward_of(self, owner: type) -> _Named:
        """The name, the file and the lines of the `forward` of a module class: each call of a module needs them."""
        forward = None
        for base in owner.__mro__:
            if "forward" in (own := vars(base)):
                forward = own["forward"]
                break
        cached = self._forwards.get(owner)
        if cached is None or cached[0] is not forward:
            code = getattr(inspect.unwrap(forward) if isinstance(forward, types.FunctionType) else forward, "__code__", None)
            name = f"{owner.__qualname__.rpartition('<locals>.')[2]}.forward"
            lines = (code.co_filename, code.co_firstlineno, _last_line(code)) if code is not None else ("", 0, 0)
            cached = self._forwards[owner] = forward, (name, *lines)
        return cached[1]

    def _of_function(self, call: Call) -> Choice:
        code = call.code
        named = (call.name, code.co_filename, code.co_firstlineno, _last_line(code))
        if self.only or self.excluded:
            by_name = self._by_name(named) if self.is_own(code.co_filename) or self._names_library(named) else None
            if by_name is not None:
                return Choice(*by_name, *named[:3])
        if self.given_to_compile:
            return Choice(*self._by_compile_calls(function_of(call.state)), *named[:3])
        return Choice(*_first_row(FUNCTION_ROWS, call), *named[:3])

    def _by_name(
        self, named: _Named, module: torch.nn.Module | None = None, *, is_module: bool = False
    ) -> tuple[Answer, str, str] | None:
        """The decision of the user's patterns; None if no pattern applies."""
        if not self.only and not self.excluded:
            return None

        def is_named(pattern: Pattern) -> bool:
            if pattern.fits(*named, is_module=is_module or module is not None):
                return True
            return module is not None and vars(sys.modules["__main__"]).get(pattern.text) is module

        if any(map(is_named, self.excluded)):
            return "not now", "not", "--not names it"
        if not self.only:
            return None
        if any(map(is_named, self.only)):
            return "target", "only", "--only names it"
        return "not now", _NOT_NAMED, "not selected by --only"

    def _names_library(self, named: _Named) -> bool:
        return any("." in pattern.text and pattern.fits(*named) for pattern in (*self.only, *self.excluded))

    def _by_compile_calls(self, target: Any) -> tuple[Answer, str, str]:
        for compiled in self.given_to_compile or ():
            if (
                compiled is target
                or getattr(compiled, "__func__", None) is target
                or getattr(compiled, "__code__", _NOTHING) is getattr(target, "__code__", None)
            ):
                return "target", "given", "the script passes it to torch.compile"
        return "not now", "not compiled", "the script does not pass it to torch.compile"

    def note(self, choice: Choice) -> Passed | None:
        """Record a function that was called but not captured; None if there are too many of them."""
        key = choice.name, choice.file, choice.line
        earlier = self.passed.get(key)
        if earlier is not None:
            earlier.calls += 1
        elif len(self.passed) < _MOST_PASSED:
            earlier = self.passed[key] = Passed(choice)
        return earlier


@dataclass
class Passed:
    """A frame that was not captured, and how often it began until the search stopped checking it."""

    choice: Choice
    calls: int = 1


_TYPED = ("<stdin>", "<ipython-input", "<cell")

_UNINTERESTING = frozenset({"library", "special", "comprehension", "compiled", "not compiled"})
_NOT_NAMED = "not named"
_MOST_PASSED = 500
_NOTHING = object()


def _first_row(rows: tuple[Row, ...], call: Call) -> tuple[Answer, str, str]:
    for row in rows:
        why = row.reason(call)
        if why is not None:
            if row.answer == "target" and (tracer := foreign_modes.active()) is not None:
                return "not now", "tracer", tracer
            return row.answer, row.id, why
    raise AssertionError("the last row of a table applies always")


def _last_line(code: types.CodeType) -> int:
    return max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)


def call_of(state: FrameState) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The call that begins a frame, `function(*args, **kwargs)`, from its argument slots; a method is bound to its object."""
    code = state.code
    slots = dict(zip(argument_slots(code), state.values, strict=True))
    names = code.co_varnames
    kwonly_end = code.co_argcount + code.co_kwonlyargcount
    args = [slots[name] for name in names[: code.co_argcount]]
    kwargs = {name: slots[name] for name in names[code.co_argcount : kwonly_end]}
    others = list(names[kwonly_end : len(slots)])
    if code.co_flags & inspect.CO_VARARGS:
        args += slots[others.pop(0)]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(slots[others.pop(0)])
    if args and _is_method_of(code, args[0]):
        receiver, *args = args
        return types.MethodType(function_of(state), receiver), tuple(args), kwargs
    return function_of(state), tuple(args), kwargs


def _is_method_of(code: types.CodeType, first: Any) -> bool:
    """Whether a function is defined in the class of its first argument, or in the class that this argument is."""
    owner, _, _ = code.co_qualname.rpartition(".")
    classes = first.__mro__ if isinstance(first, type) else type(first).__mro__
    return any(cls.__qualname__ == owner for cls in classes)
