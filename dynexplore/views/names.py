"""Display names of the functions and files of a recording.

The idea: the engine's internal names are not those of the program. A module is called through a wrapper of the engine
(`entry`), but people think of the `forward` that it calls. A resume function has a generated name, but people think of the
function that it continues. A decorator puts a function called `wrapper` in front of the user's, but people think of the latter.
A file is known by its base name, a library by its installation directory.

In: a Recording and parts of it. Out: `argument_behind`, `calling_line`, `decorator_of`, `frame_code`, `frame_name`, `goes_on`,
`input_names`, `is_entry`, `is_library`, `is_torchs_entry`, `module_name`, `plain_name`, `short_file`,
`skipped_name`, `user_codes`. PyTorch's counterpart: none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, groupby

from dynexplore.engine import events as ev
from dynexplore.recording.engines import TORCH
from dynexplore.recording.installed_files import is_installed
from dynexplore.recording.recording import Recording, resumed_at

ENTRY_FILE = "<dynexplore entry>"
"""The file name of the engine's wrappers, as in native/native.h."""

_ON_THE_STACK = re.compile(r"\b___stack(\d+)\b")
"""A parameter of a resume function, for what was on the stack at the graph break."""
_OF_NUMPY = re.compile(r"(?:___|torch\.)from_numpy\((.+)\)")
_OF_CALLEE = re.compile(r"([\w.<>]+):(\w+)")
_OF_TORCH = re.compile(r"[lL]_(?!self_)(\w+?)_")


def _of_program(source: str) -> str:
    """A source without what an engine added to the program's name.

    >>> _of_program("___from_numpy(w)"), _of_program("forward:x"), _of_program("self.weight")
    ('w', 'x of forward', 'self.weight')
    """
    inner = _OF_NUMPY.fullmatch(source)
    name = _ON_THE_STACK.sub(r"stack slot \1", inner[1] if inner else source)
    callee = _OF_CALLEE.fullmatch(name)
    return f"{callee[2]} of {callee[1]}" if callee else name


_WRAPS = re.compile(r"\s*(?:@.*\n\s*)*?@(?:\w+\.)*wraps\((\w+)\)")


def is_entry(code: ev.CodeView) -> bool:
    """Whether this is the engine's own wrapper, around a module or a callable object, or a resume function of it."""
    return code.file == ENTRY_FILE


def is_torchs_entry(code: ev.CodeView) -> bool:
    """Whether this is torch.compile's wrapper around a module whose `forward` is in a library: `inner` calls `fn(*args)`."""
    return code.qualname == "wrap_inline.<locals>.inner" and is_library(code.file)


def is_library(file: str) -> bool:
    """Whether a file belongs to an installed package, the standard library or the engine, or is a launcher script, by its path.

    >>> is_library("/usr/lib/python3.12/contextlib.py"), is_library("<frozen _collections_abc>"), is_library("/home/me/model.py")
    (True, True, False)
    >>> is_library("/home/me/.venv/bin/dynexplore"), is_library("/home/me/bin/train")
    (True, False)
    """
    return file == ENTRY_FILE or is_installed(file)


def short_file(file: str) -> str:
    """The base name of a path.

    >>> short_file("/home/me/model.py"), short_file("In [2]")
    ('model.py', 'In [2]')
    """
    return re.split(r"[/\\]", file)[-1]


def plain_name(qualname: str) -> str:
    """A function's name without the enclosing functions.

    >>> plain_name("make.<locals>.inner"), plain_name("Model.forward"), plain_name("f.<locals>.<lambda>")
    ('inner', 'Model.forward', '<lambda>')
    """
    return qualname.rpartition("<locals>.")[2]


def decorator_of(code: ev.CodeView) -> str:
    """The decorator that defines this wrapper, which passes the wrapped function to `functools.wraps`; "" for any other function.

    >>> source = "    @functools.wraps(func)\\n    def wrapper(*args):\\n        return func(*args)"
    >>> decorator_of(ev.CodeView(1, "timed.<locals>.wrapper", "m.py", 3, source, ()))
    'timed'
    """
    return code.qualname.partition(".<locals>")[0] if "<locals>" in code.qualname and _WRAPS.match(code.source) else ""


def module_path(source: str) -> str:
    """The source of a guard in the engine's wrapper, as the path in the wrapped module.

    >>> module_path("target.layer.weight"), module_path("target"), module_path("args[0]")
    ('module layer.weight', 'module', 'args[0]')
    """
    head, _, path = source.partition(".")
    return source if head != "target" else f"module {path}".strip()


def user_codes(recording: Recording) -> list[ev.CodeView]:
    """The code objects of frames and callees that the user wrote, in the order in which they were reached; those of libraries if
    there are no others.
    """
    reached = list(_reached(recording))
    return [code for code in reached if not is_library(code.file)] or reached


def _reached(recording: Recording) -> Iterator[ev.CodeView]:
    """Each code object once, by its number, because comparing code objects is slow."""
    codes = (recording.original_code(entered.frame) for entered in recording.frames)
    seen_ids: set[int] = set()
    for code in chain(codes, (entered.code for entered in recording.of(ev.InlineEntered))):
        if code.id not in seen_ids and not is_entry(code):
            seen_ids.add(code.id)
            yield code


def frame_name(recording: Recording, entered: ev.FrameEntered) -> str:
    """The display name of a frame: `f`, `f, from line 8 on`, `Model.forward` for the wrapper that only calls it."""
    code = recording.original_code(entered.frame)
    if is_entry(code):
        called = _wrapped(recording, entered)
        name = plain_name(called.code.qualname if called is not None else recording.title or code.qualname)
        own = next((place for place in entered.chain if place.line and not is_library(place.file)), None)
        return f"{name}, from line {own.line} on" if own is not None else name
    if (forward := _behind_wrappers(recording, entered, code)) is not None:
        return plain_name(forward.code.qualname)
    offset = resumed_at(entered.code)
    line = next((row.line for row in code.rows if row.offset == offset and row.line > 0), 0)
    if entered.code.resumes >= 0 and not entered.code.rows:  # from a log, which has no instructions
        line = entered.code.first_line
    if is_torchs_entry(code):  # around a module whose class was not traced as a whole
        module = dict(entered.arguments).get("fn")
        return module.text if module is not None and module.text.isidentifier() else "a module"
    decorator = decorator_of(code)  # the decorated function was not recorded
    name = f"@{decorator}" if decorator else plain_name(code.qualname)
    return f"{name}, from line {line} on" if line else name


def skipped_name(recording: Recording, skipped: ev.FrameSkipped) -> str:
    """The display name of a function that ran as plain Python; for a resume function the part, `f, from line 8 on`, never the
    whole.
    """
    entered = recording.of_frame(skipped.frame, ev.FrameEntered) if skipped.frame else ()
    if entered and (entered[0].code.resumes >= 0 or is_entry(recording.original_code(skipped.frame))):
        return frame_name(recording, entered[0])
    if skipped.file == ENTRY_FILE:
        return plain_name(recording.title)
    return plain_name(skipped.function)


def calling_line(recording: Recording, event: ev.Event) -> ev.UserFrame | None:
    """The program's line that led to an event in a library frame: where the calling frame broke, else where the recorded call was
    made; None if unknown.
    """
    entered, frame = {place.frame: place for place in recording.frames}, event.frame
    while frame in entered and (parent := entered[frame].parent):
        before = [broke for broke in recording.of_frame(parent, ev.GraphBroke) if broke.user_stack]
        own = [place for place in before[-1].user_stack if place.line and not is_library(place.file)] if before else []
        if own:
            return own[-1]
        frame = parent
    if frame in entered and (caller := entered[frame].caller) is not None and not is_library(caller.file):
        return caller
    began = call_of(recording, event)
    return began.caller if began is not None and began.caller is not None and not is_library(began.caller.file) else None


def chain_words(frames: Sequence[ev.UserFrame]) -> str:
    """The lines of a call chain, outermost first: `train.py:20 > model.py:14 > attention.py:8`.

    >>> chain_words([ev.UserFrame("/src/train.py", 20, "train"), ev.UserFrame("/src/model.py", 14, "Model.forward")])
    'train.py:20 > model.py:14'
    """
    own = [frame for frame in frames if frame.line and not is_library(frame.file)] or frames
    places = [f"{short_file(frame.file)}:{frame.line}" for frame in own]
    return " > ".join(place for place, _ in groupby(places))  # a comprehension is a call on the same line


def call_of(recording: Recording, event: ev.Event) -> ev.CallBegan | None:
    """The CallBegan event of the call in which an event happened; None if calls were not recorded."""
    began = None
    for _, other in recording.besides_steps:
        if isinstance(other, ev.CallBegan):
            began = other
        if other is event:
            break
    return began


def goes_on(resume: ev.CodeView, offset: int) -> str:
    """Where a resume function resumes: "at offset 24", or its line if instructions are unknown, as from a log.

    >>> goes_on(ev.CodeView(2, "f", "model.py", 16, "", (), resumes=1), -1)
    'at line 16'
    """
    return f"at offset {offset}" if offset >= 0 else f"at line {resume.first_line}"


def frame_code(recording: Recording, entered: ev.FrameEntered) -> ev.CodeView:
    """The code that `frame_name` names: for a module wrapper that of the `forward` method."""
    code = recording.original_code(entered.frame)
    called = _wrapped(recording, entered) if is_entry(code) else _behind_wrappers(recording, entered, code)
    return called.code if called is not None else code


def module_name(path: str) -> str:
    """The path of a module as PyTorch names it: list items are components, and the engine's wrapper is omitted.

    >>> module_name("target.encoder.layer[5].attention"), module_name("model.layers[0]"), module_name("target")
    ('encoder.layer.5.attention', 'model.layers.0', 'target')
    """
    return re.sub(r"\[(\d+)\]", r".\1", path).removeprefix("target.")


def _wrapped(recording: Recording, entered: ev.FrameEntered) -> ev.InlineEntered | None:
    """The code that the engine's wrapper calls: the `forward` of the wrapped module, possibly decorated, else the user's function,
    else any callee.
    """
    called = [call for call in recording.of_frame(entered.frame, ev.InlineEntered) if not is_entry(call.code)]
    return min(called, key=lambda call: (not _is_forward_of_target(call), is_library(call.code.file)), default=None)


def _is_forward_of_target(called: ev.InlineEntered) -> bool:
    is_method = bool(called.arguments) and called.arguments[0][1].source == "target"
    return is_method and called.code.qualname.endswith(".forward")


def _behind_wrappers(recording: Recording, entered: ev.FrameEntered, code: ev.CodeView) -> ev.InlineEntered | None:
    """The code that torch.compile's wrapper, or a decorator's, finally calls; None if the frame is neither, resumes after a break,
    or its callee was not recorded.
    """
    last = recording.final_attempt(entered.frame)
    called = [call for call in recording.of_frame(entered.frame, ev.InlineEntered) if call.attempt == last]
    first = next(iter(called), None) if is_torchs_entry(code) else None
    behind = first if first is not None else _decorated(called, 0, code)
    while behind is not None and (deeper := _decorated(called, behind.callee, behind.code)) is not None:
        behind = deeper
    return behind if entered.code.resumes < 0 else None


def _decorated(called: list[ev.InlineEntered], caller: int, code: ev.CodeView) -> ev.InlineEntered | None:
    """The callee of a decorator's function that has the wrapped function's name."""
    wrapped = _WRAPS.match(code.source) if decorator_of(code) else None
    if wrapped is None:
        return None
    lines = {row.line for row in code.rows if row.arg.partition(" ")[0] == wrapped[1]}
    calls = {row.offset for row in code.rows if row.op.startswith("CALL") and row.line in lines}
    return next((call for call in reversed(called) if call.inline == caller and call.offset in calls), None)


def argument_behind(recording: Recording, entered: ev.FrameEntered, source: str) -> str:
    """The name that the function behind a wrapper uses for the wrapper's argument `args[0]`; if that function is unknown,
    "argument 0" for a wrapper of torch.compile or of this engine, and unchanged for one of the program.
    """
    code = recording.original_code(entered.frame)
    called = _wrapped(recording, entered) if is_entry(code) else _behind_wrappers(recording, entered, code)
    named = (name for name, view in called.arguments if view.source == source) if called is not None else iter(())
    unknown = f"argument {source[5:-1]}" if is_entry(code) or is_torchs_entry(code) else source
    return next(named, unknown)


def input_names(recording: Recording, entered: ev.FrameEntered) -> dict[str, str]:
    """The program's names of a frame's graph inputs, if they differ: `target_layer_weight` is `layer.weight`, `args_0` is `x`.

    In the engine's wrapper around a module, paths begin in that module, and arguments have the parameter names of the function
    behind the wrapper.
    """
    wraps = is_entry(recording.original_code(entered.frame))
    inputs = {node.name for node in recording.of_frame(entered.frame, ev.NodeAdded) if node.op in ("placeholder", "get_attr")}
    called = _wrapped(recording, entered) if wraps else None
    parameters = {view.node: name for name, view in called.arguments if view.node} if called is not None else {}
    sources = {
        node.name: source
        for graph in recording.graphs
        if graph.frame == entered.frame and graph.compiled is not None
        for node, source in zip(
            (candidate for candidate in graph.nodes if candidate.op == "placeholder"), graph.compiled.inputs, strict=False
        )
    }
    sources |= {
        view.node: view.source
        for step in recording.of_frame(entered.frame, ev.InstructionStepped)
        for view in step.stack
        if view.source and view.node in inputs
    }
    sources = {node: _of_program(source) for node, source in sources.items()}
    if recording.engine == TORCH:  # a graph that no backend compiled has torch's names of its inputs only
        sources = {node: name[1] for node in inputs if (name := _OF_TORCH.fullmatch(node))} | sources
    names = {node: source.removeprefix("target.") if wraps else source for node, source in sources.items()}
    names |= {node: name for node, name in parameters.items() if node in inputs}
    return {node: name for node, name in names.items() if name != node}
