"""explain: run a function under the engine, once or several times, and report what was captured.

The idea: an explanation is a recording of one or more calls, plus the live objects that a recording cannot hold: the captured
GraphModules, and a `Session` (session.py) for follow-up questions (do these guards pass for another input? what would be captured
then?). It uses a fresh store, so it does not affect compiled code and counters elsewhere.

In: a function and arguments. Out: `Explanation`: recording, graphs, guards, breaks, counts, resume functions, return value.

PyTorch's counterpart: `explain` in torch/_dynamo/eval_frame.py and `ExplainOutput` in torch/_dynamo/backends/debugging.py.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

from dynexplore.engine import display_hooks, tool_hooks
from dynexplore.engine import events as ev
from dynexplore.engine.bytecode.versions import PYTHON
from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.backends import CompilerFn
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.engines import DYNEXPLORE, TORCH
from dynexplore.recording.recording import Recording
from dynexplore.recording.shown import Printed, ShownGraphs
from dynexplore.session import torch_compiled
from dynexplore.session.notebook_session import CodeOfText, NotebookSession
from dynexplore.session.session import Session, watched_store
from dynexplore.views import cache_timeline, text
from dynexplore.views.modified_python import modified_python


class Explanation:
    """The captures of one or more calls. `print` it, or unpack: `explanation, out_guards, graphs, ops_per_graph = explain(f, x)`.

    Attributes: `recording`, `session`, `function`, `value` (the call's return value), `graphs` (GraphModules in capture order), and
    the properties below.
    """

    def __init__(self, recording: Recording, graphs: list[torch.fx.GraphModule], session: Session) -> None:
        self.recording = recording
        self._graphs = graphs
        self.session = session
        self.function = session.function  # a strong reference: a lambda has no other, and the session's is weak
        self.value: Any = None

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function again, and add the call to this explanation; return its result, which becomes `value`."""
        with torch_compiled.uncompiled(self.function):
            self.value = self.session.call(*args, **kwargs)
        return self.value

    def follow_cell(self, text: str, code_of: CodeOfText, only: str = "") -> None:
        """Declare that the function is a notebook cell with this text, about to run, so that the session can answer more questions.

        `code_of` compiles a text under a file name to the code of such a function; `only`: translate only functions with this name,
        or "".
        """
        self.session = NotebookSession(self.session, text, code_of, only)

    @property
    def notice(self) -> str:
        """What the backend is missing, in one sentence, or "": without a C++ compiler, graphs run uncompiled."""
        return " ".join(self.session.notices)

    @property
    def graphs(self) -> list[torch.fx.GraphModule]:
        """The captured graphs, which are callable."""
        return ShownGraphs(self._graphs)

    @property
    def graph_count(self) -> int:
        """The number of captured graphs."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """The number of graph breaks."""
        return len(self.breaks)

    @property
    def op_count(self) -> int:
        """The number of operators in all graphs: calls of functions, methods and modules."""
        return sum(map(len, self.ops_per_graph))

    @property
    def ops_per_graph(self) -> list[list[Any]]:
        """For each graph, the targets of its operators."""
        return [[node.target for node in graph.graph.nodes if node.op.startswith("call_")] for graph in self.graphs]

    @property
    def guards(self) -> tuple[ev.GuardInstalled, ...]:
        """The guards of every frame."""
        return self.recording.guards

    @property
    def out_guards(self) -> list[ev.GuardInstalled]:
        """The guards, under their name in the early torch._dynamo API."""
        return list(self.guards)

    @property
    def breaks(self) -> tuple[ev.GraphBroke, ...]:
        """Every graph break, with its reason and fix."""
        return self.recording.breaks

    @property
    def break_reasons(self) -> list[str]:
        """The reason of each graph break in one line."""
        return [broke.reason for broke in self.breaks]

    @property
    def resume_functions(self) -> tuple[ev.ResumeFunctionCreated, ...]:
        """The functions that execution continues in after a break."""
        return self.recording.resume_functions

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each call: "compile", "hit", "recompile", "limit reached", "plain Python", "failed" or "nothing".

        >>> explain(lambda x: x + x).calls(torch.ones(2), torch.ones(2), torch.ones(3)).outcomes
        ['compile', 'hit', 'recompile']
        """
        return [call.outcome for call in cache_timeline.calls(self.recording)]

    @property
    def timeline(self) -> Printed:
        """Calls and cache entries as a printable table: which call compiled, hit or missed which entry, and on which guard."""
        return Printed(cache_timeline.text(self.recording))

    @property
    def modified_python(self) -> Printed:
        """The code that replaces each frame, as Python: inputs, the call of the graph, side effects, resume functions.

        >>> print(*explain(lambda x: x.relu(), torch.ones(2)).modified_python.splitlines()[-2:], sep="\\n")
            ___out_0, = ___v_0
            return ___out_0
        """
        return Printed(modified_python(self.recording))

    def __iter__(self) -> Iterator[Any]:
        return iter((str(self), self.out_guards, self.graphs, self.ops_per_graph))

    def __str__(self) -> str:
        room = text.MOST_LINES - bool(self.notice)
        return text.explanation(self.recording, most_lines=room) + (f"\n{self.notice}" if self.notice else "")

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> display_hooks.Bundle:
        return display_hooks.connected().mimebundle(self)

    def _display_(self) -> Any:
        """Used by marimo to display the result of a cell."""
        return display_hooks.connected().explorer(self)

    def save(self, path: str | os.PathLike[str], *, redact: bool = False) -> str:
        """Write the recording to a file, as `Recording.save` does."""
        return self.recording.save(path, redact=redact)


class Explainer:
    """A function to be explained, as returned by `explain(fn)`. Call it, or explain several calls at once.

    >>> several = explain(lambda x: x + x).calls(torch.ones(2), torch.ones(3), torch.ones(4))
    >>> [len(several.graphs), len(several.session.entries)]
    [2, 2]

    As a context manager it returns a function that can be called any number of times; `explanation` covers all calls.

    >>> with explain(lambda x: x + x) as double:
    ...     double(torch.ones(2))
    ...     double(torch.ones(3))
    tensor([2., 2.])
    tensor([2., 2., 2.])
    >>> double.explanation.graph_count
    2
    """

    def __init__(
        self, fn: Callable[..., Any], backend: str | CompilerFn, options: Options, real: bool = True, engine: str = DYNEXPLORE
    ) -> None:
        self._name = optimized.name_of(fn)
        self._new_explanation = functools.partial(_explanation_of, fn, backend, options, real, engine)

    def __repr__(self) -> str:
        return f"{self._name} to be explained: call this with its arguments, or its `calls(...)` for several calls"

    def __call__(self, *args: Any, **kwargs: Any) -> Explanation:
        """Call the function; return the `Explanation` of this call."""
        explanation = self._new_explanation()
        explanation.call(*args, **kwargs)
        return explanation

    def calls(self, *inputs: Any) -> Explanation:
        """One explanation of several consecutive calls: `calls(x, y)`, `calls((x, 2), (y, 3))`.

        Args: inputs: for each call its arguments: a tuple or list of them, an `inspect.BoundArguments` if there are keyword
        arguments, or the single argument itself.
        """
        explanation = self._new_explanation()
        for arguments in inputs:
            args, kwargs = _arguments(arguments)
            explanation.call(*args, **kwargs)
        return explanation

    def __enter__(self) -> WatchedFunction:
        return WatchedFunction(self._new_explanation())

    def __exit__(self, *exc: object) -> None:
        pass


class WatchedFunction:
    """A function that adds each of its calls to one `explanation`."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; return its value."""
        return self.explanation.call(*args, **kwargs)


def _arguments(arguments: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(arguments, inspect.BoundArguments):
        return arguments.args, arguments.kwargs
    return (tuple(arguments) if isinstance(arguments, tuple | list) else (arguments,)), {}


def explain(
    fn: Callable[..., Any],
    /,
    *args: Any,
    backend: str | CompilerFn = "eager",
    nopython: bool = False,
    dynamic: bool | None = None,
    real: bool = True,
    engine: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call `fn(*args, **kwargs)` under the engine; return an `Explanation` of what was captured.

    `explain(fn)` without further arguments returns an `Explainer`, which explains each call that you make with it. Use
    `explain(f)()` for a function without arguments, or with a parameter named `backend`, `nopython`, `dynamic`, `real` or
    `engine`. To explain several calls, use `explain(f).calls(x, y)`, or `with explain(f) as g: g(x); g(y)`.

    The real values of the call are recorded next to the symbolic ones (`recording.real(step)`, `recording.divergences`); for this
    the graphs are replayed on copies. `real=False` skips this.

    `engine="torch.compile"` reports what torch.compile does instead: the function is compiled by torch.compile and observed,
    without real values. It is the default for functions wrapped by torch.compile, and for modules with compiled submodules.

    The side effects of the call happen only once, and its exceptions propagate.

    >>> print(explain(lambda x: x + x, torch.ones(2)))
    The lambda is one graph of 1 operator: no graph breaks, no recompiles.
    <BLANKLINE>
    1 graph, 0 graph breaks, 1 operator
    """
    options = Options(nopython, dynamic)
    chosen_engine = torch_compiled.chosen_by_parts(engine, fn)
    if not args and not kwargs:
        return Explainer(fn, backend, options, real, chosen_engine)
    return Explainer(fn, backend, options, real, chosen_engine)(*args, **kwargs)


def _explanation_of(
    fn: Callable[..., Any], backend: str | CompilerFn, options: Options, real: bool, engine: str = DYNEXPLORE
) -> Explanation:
    """An explanation without any calls yet."""
    hooks = tool_hooks.connected()
    if engine != DYNEXPLORE and hooks is not None:
        watched: Explanation = hooks.watched_explanation(fn, backend, options)
        return watched
    target = torch_compiled.original_of(fn)
    recording = Recording(title=optimized.name_of(target))
    recording.versions = f"Python {PYTHON}, torch {torch.__version__}"
    recording.rank = _rank()
    store = watched_store(backend, options, recording, real=real)
    assert store.observers.graphs is not None
    explainer = functools.partial(Explainer, backend=backend, options=options, real=real)
    if torch_compiled.is_compiled(fn) and store.observers.notices is not None:
        store.observers.notices[_TAKEN_OFF] = None
    return Explanation(recording, store.observers.graphs, Session(target, store, explainer, recording))


_TAKEN_OFF = (
    "It is compiled by torch.compile. This is dynexplore's capture of the original function; "
    f'explain(..., engine="{TORCH}") shows what torch.compile does.'
)


def _rank() -> int | None:
    """This process's rank in torch.distributed; None if it is not initialized."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    rank: int = torch.distributed.get_rank()
    return rank
