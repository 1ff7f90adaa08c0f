"""A function with edited source: the editable re-run of a graph break.

The idea: a user reads why the graph broke, changes a line, and tries again. The edited text is compiled in the function's place:
with a copy of its globals (so that nothing leaks back), the same closure cells, and the same class for `super()`. Other functions
defined in the text are visible to it, so a callee can be edited along with it. The edited function is then explained on copies of
the recorded inputs, and everything that the run mutated is restored. Effects that could not be undone are reported (effects.py).

In: a function, method or module, and a text. Out: the edited callable (`edited`), and `Rerun`: the captures before and after.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import linecache
import textwrap
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.recording.recording import Recording
from dynexplore.session.effects import Effects, watched
from dynexplore.views.capture_difference import Difference, difference

_numbers = itertools.count(1)
_MOST_FILES = 50  # edited texts that tracebacks and recordings can still display
_files: list[str] = []


class EditError(ValueError):
    """The text does not define a function that can replace the recorded one; the message is one sentence with the reason."""


@dataclass(frozen=True, slots=True)
class Counts:
    """A capture in three numbers: graphs, operators in them (call nodes), graph breaks."""

    graphs: int
    operators: int
    breaks: int


@dataclass(frozen=True, slots=True)
class Rerun:
    """An edited function next to the recorded one. `error` is one sentence: why there is no `after`, or which exception was raised.

    `effects`: side effects of the run beyond its copies, its output, its duration. `explanation` holds the live objects.
    """

    before: Counts
    after: Counts | None
    difference: Difference | None
    recording: Recording | None
    error: str = ""
    effects: Effects = field(default_factory=Effects)
    explanation: Any = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if self.after is None:
            return self.error
        now, then = self.after, self.before
        lines = [
            f"graphs     {then.graphs} -> {now.graphs}",
            f"operators  {then.operators} -> {now.operators}",
            f"breaks     {then.breaks} -> {now.breaks}",
        ]
        return "\n".join([*lines, *([self.error] if self.error else []), str(self.difference)])


def counts(recording: Recording) -> Counts:
    """The counts of a recording."""
    graphs = recording.graphs
    return Counts(len(graphs), sum(graph.op_count for graph in graphs), len(recording.breaks))


# -- source ------------------------------------------------------------------------------------------------------


def plain_function(target: Any) -> types.FunctionType:
    """The Python function behind a function, method or module. Raises EditError."""
    function = type(target).forward if isinstance(target, torch.nn.Module) else getattr(target, "__func__", target)
    if not isinstance(function, types.FunctionType):
        raise EditError(f"only a Python function can be edited here, not a {type(target).__qualname__}")
    if not function.__name__.isidentifier():  # a lambda, a cell
        raise EditError(f"only a function defined with `def` can be edited here, and {function.__qualname__} is not")
    return function


def source_of(target: Any) -> str:
    """The source of the function, starting at its `def`, dedented. Raises EditError."""
    lines, first = _lines_of(target)
    return "\n".join(lines[first:]) + "\n"


def first_line_of(target: Any) -> int:
    """The line of the file at which that source begins. Raises EditError."""
    return plain_function(target).__code__.co_firstlineno + _lines_of(target)[1]


def _lines_of(target: Any) -> tuple[list[str], int]:
    """The lines of the function including its decorators, and how many lines precede its `def`."""
    function = plain_function(target)
    try:
        text = textwrap.dedent(inspect.getsource(function.__code__))
    except (OSError, TypeError):
        raise EditError(f"the source of {function.__qualname__} was not found") from None
    try:
        tree = ast.parse(text)
    except SyntaxError:
        tree = ast.Module([], [])
    definition = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function.__name__), None)
    if definition is None:
        raise EditError(f"only a function defined with `def` can be edited here, and {function.__qualname__} is not")
    return text.splitlines(), definition.lineno - 1


# -- compile the edited text -------------------------------------------------------------------------------------


def edited(target: Any, text: str) -> Any:
    """`target` with `text` as its source: a function, a method of the same object, or an equal module.

    Raises EditError, in one sentence, for a text that does not define such a function.
    """
    function = _function(plain_function(target), textwrap.dedent(text))
    if isinstance(target, types.MethodType):
        return types.MethodType(function, target.__self__)
    return _module(target, function) if isinstance(target, torch.nn.Module) else function


def _function(original: types.FunctionType, text: str) -> types.FunctionType:
    name = original.__name__
    file = remembered(text, name)
    tree = _parsed(text, file, name)
    namespace = dict(original.__globals__)
    outer = _wrapped(tree, original.__code__.co_freevars, name)
    try:
        exec(compile(outer, file, "exec", dont_inherit=True), namespace)
        definition = namespace[_OUTER](*(None for _ in original.__code__.co_freevars))
    except SyntaxError as error:  # accepted by the parser, rejected by the compiler: `return` outside a function
        raise EditError(_of_syntax(error)) from None
    except Exception as error:  # a default value or another statement of the text may raise anything
        raise EditError(f"the text cannot be run: {type(error).__name__}: {error}") from None
    if not isinstance(definition, types.FunctionType):
        raise EditError(f"the text does not end with a function named {name!r}")
    cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
    own = dict(zip(definition.__code__.co_freevars, definition.__closure__ or (), strict=True))
    closure = tuple(cells.get(free, own[free]) for free in definition.__code__.co_freevars)
    function = types.FunctionType(definition.__code__, namespace, name, definition.__defaults__, closure)
    function.__kwdefaults__ = definition.__kwdefaults__
    return function


def remembered(text: str, name: str) -> str:
    """Register the text under a file name for tracebacks and recordings; return the name."""
    file = f"<edited {name} {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    _files.append(file)
    while len(_files) > _MOST_FILES:
        linecache.cache.pop(_files.pop(0), None)
    return file


def _parsed(text: str, file: str, name: str) -> ast.Module:
    try:
        tree = ast.parse(text, file)
    except SyntaxError as error:
        raise EditError(_of_syntax(error)) from None
    except ValueError as error:  # a null byte
        raise EditError(f"the text cannot be read: {error}") from None
    definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not definitions:
        raise EditError(f"the text defines no function named {name!r}")
    definitions[-1].decorator_list = []  # explain the function itself, without its decorators
    return tree


def _of_syntax(error: SyntaxError) -> str:
    line = f" in line {error.lineno}" if error.lineno else ""
    text = f": {error.text.strip()}" if error.text else ""
    return f"the text has a syntax error{line}, {error.msg}{text}"


_OUTER = "__edited__"


def _wrapped(tree: ast.Module, free: tuple[str, ...], name: str) -> ast.Module:
    """Wrap the statements in a function whose parameters are the free variables, so that they stay free variables."""
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    body = [node for node in tree.body if node not in future]
    outer = ast.parse(f"def {_OUTER}(): pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.args.args = [ast.arg(each) for each in free]
    outer.body = [*body, ast.Return(ast.Name(name, ast.Load()))]
    return ast.fix_missing_locations(ast.Module([*future, outer], []))


def _module(module: torch.nn.Module, forward: types.FunctionType) -> torch.nn.Module:
    """A module with the same parameters, buffers and submodules but another forward; `module` is not modified."""
    edited_module = copy.copy(module)
    for name in ("_parameters", "_buffers", "_modules"):
        edited_module.__dict__[name] = dict(module.__dict__[name])
    cls = type(module)
    names = {"forward": forward, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    edited_module.__class__ = type(cls.__name__, (cls,), names)
    return edited_module


# -- re-run ------------------------------------------------------------------------------------------------------


def rerun(
    target: Any,
    text: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    explainer: Callable[[Any], Any],
    earlier: Recording | None,
    change: Callable[[Any, str], Any] | None = None,
    outside: Mapping[str, Any] | None = None,
    prepare: Callable[[Any], None] | None = None,
) -> Rerun:
    """Explain `target` with `text` as its source, on copies of the arguments.

    `earlier` is the recording of this one call with the current source; None: make that call first, also on copies. `change` builds
    the edited callable from `target` and the text if `target` is not a function; default: `edited`. `outside` is the namespace that
    the run should leave unmodified; default: the function's globals. `prepare` is called with the explanation of the edited
    function before it runs.
    """
    state = CallSnapshot(target, args, kwargs)
    original = earlier if earlier is not None else _explained(target, state, explainer, {}).recording
    before = counts(original)
    try:
        changed = (change or edited)(target, text)
    except EditError as error:
        return Rerun(before, None, None, None, str(error))
    around = outside if outside is not None else plain_function(target).__globals__
    done = _explained(changed, state, explainer, around, prepare)
    after = done.recording
    return Rerun(before, counts(after), _difference(original, after), after, done.error, done.effects, done.explanation)


@dataclass(frozen=True, slots=True)
class _Done:
    """One explained call on copies: the exception it raised, as a sentence, and its side effects."""

    explanation: Any
    effects: Effects
    error: str

    @property
    def recording(self) -> Recording:
        recording: Recording = self.explanation.recording
        return recording


def _explained(
    target: Any,
    state: CallSnapshot,
    explainer: Callable[[Any], Any],
    outside: Mapping[str, Any],
    prepare: Callable[[Any], None] | None = None,
) -> _Done:
    """Make one call on copies, and restore what it mutated."""
    args, kwargs = state.fresh()
    failure = ""
    with explainer(target) as run:
        if prepare is not None:
            prepare(run.explanation)
        with watched(outside) as effects:
            try:
                run(*args, **kwargs)
            except Exception as raised:  # any exception of the program is reported
                failure = _of_run(raised)
            finally:
                state.fresh()
    run.explanation.value = None  # not needed
    return _Done(run.explanation, effects, failure)


def _of_run(error: Exception) -> str:
    places = [entry for entry in traceback.extract_tb(error.__traceback__) if entry.filename.startswith("<edited ")]
    where = f" in line {places[-1].lineno}" if places else ""
    message = str(error).strip().splitlines()
    return f"it raises {type(error).__name__}{where}{': ' + message[0] if message else ''}"


def _difference(before: Recording, after: Recording) -> Difference | None:
    """The diff between the captures of the two functions' own frames."""
    if not before.frames or not after.frames:
        return None
    return difference(before, _own_frame(before), after, _own_frame(after))


def _own_frame(recording: Recording) -> int:
    """The first frame that captured something, else the first frame."""
    captured = {graph.frame for graph in recording.graphs}
    return next((entered.frame for entered in recording.frames if entered.frame in captured), recording.frames[0].frame)
