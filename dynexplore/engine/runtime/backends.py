"""Backends: how a captured graph becomes a callable, and how a backend is called.

The idea: a backend is a function `(GraphModule, example inputs) -> callable`, or of the GraphModule alone. `eager` is dynexplore's
and runs the graph as captured; every other name comes from torch's registry, which is imported when such a name is first used
(which takes seconds). All backends are called in the same way: with fake tensors as example inputs, under a tracing context with
their fake mode, with the frame hook disabled and the translation lock released.

In: a name or a callable; a module. Out: `resolve` returns a `Backend`; `GraphBackend` is the compiler that aliasing/lower.py uses,
whose callables run with the hook disabled. PyTorch's counterpart: `call_user_compiler` in torch/_dynamo/output_graph.py, and
torch/_dynamo/backends/.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, TypeVar

import torch
import torch.fx
from torch._guards import TracingContext, tracing

from dynexplore.engine import native, tool_hooks
from dynexplore.engine.aliasing import float_inputs
from dynexplore.engine.config import config
from dynexplore.engine.counters import counters
from dynexplore.engine.errors import BackendCompilerError, InvalidBackend, MissingBackendPackage, MissingCompiler
from dynexplore.engine.events import BackendFailed
from dynexplore.engine.gc_control import importing
from dynexplore.engine.graph.custom_operators import with_recorded_results
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.graph.modes import default_devices_off
from dynexplore.engine.graph.operator_warnings import without_node_warnings
from dynexplore.engine.nearest_name import did_you_mean
from dynexplore.engine.recorder import Recorder
from dynexplore.engine.records import record
from dynexplore.engine.runtime import backend_failures, distributed
from dynexplore.engine.runtime.compile_lock import released, torch_backend_lock
from dynexplore.engine.runtime.direct_calls import with_compilers
from dynexplore.engine.runtime.foreign_modes import modes_off
from dynexplore.engine.runtime.lazy_inductor_templates import lazy_templates
from dynexplore.engine.runtime.missing_compiler import missing_compiler
from dynexplore.engine.runtime.preserve_global_state import saved_tensor_hooks_hidden
from dynexplore.engine.runtime.profiler_ranges import GRAPH, ranged
from dynexplore.engine.runtime.torch_key_cache import keep_hash_of_sources
from dynexplore.engine.specialization.shape_env import make_shape_env

CompilerFn = Callable[..., Any]
F = TypeVar("F", bound=CompilerFn)


def eager(graph: torch.fx.GraphModule, example_inputs: Sequence[Any] = ()) -> Callable[..., Any]:
    """Run the graph as captured, operator by operator."""
    forward: Callable[..., Any] = with_recorded_results(graph).forward
    return forward


@record(eq=False)
class Backend:
    """A resolved backend: its display name, the function, and its arguments besides the graph."""

    name: str
    function: CompilerFn
    options: Mapping[str, Any] = field(default_factory=dict)
    takes_inputs: bool = True

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        """Compile a graph with the backend."""
        if self.takes_inputs:
            return self.function(graph, list(example_inputs), **with_compilers(self.function, self.options))
        return self.function(graph, **self.options)


# -- names ---------------------------------------------------------------------------------------------------

_OWN: dict[str, CompilerFn] = {"eager": eager}
"""Backends by name: dynexplore's, and those of `register_backend`."""

_MOST_WANTED = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


def register_backend(function: F | None = None, *, name: str | None = None) -> Any:
    """Register a backend under a name: `@register_backend`, `@register_backend(name="mine")` or `register_backend(f)`.

    Raises TypeError for a non-callable, ValueError if another backend has the name.
    """
    if function is None:
        return lambda late: register_backend(late, name=name)
    if not callable(function):
        raise TypeError(f"a backend must be a callable, not {type(function).__name__}")
    chosen = name or getattr(function, "__name__", None)
    if not chosen:
        raise ValueError("this backend has no __name__: pass name=...")
    if _OWN.get(chosen, function) is not function or chosen in _MOST_WANTED:
        raise ValueError(f"the name {chosen!r} is already used by another backend")
    _OWN[chosen] = function
    return function


def list_backends() -> list[str]:
    """The names that `optimize(backend=...)` accepts: dynexplore's, and those of torch's registry.

    >>> "eager" in list_backends()
    True
    """
    return sorted({*_OWN, *_MOST_WANTED, *_registry().list_backends(None)})


def own_backends() -> dict[str, CompilerFn]:
    """The backends that this process registered, by name, and `eager`."""
    return dict(_OWN)


def _registry() -> Any:
    return importlib.import_module("torch._dynamo.backends.registry")


def lookup(name: str) -> CompilerFn:
    """The backend of this name. Raises InvalidBackend, which lists the available names."""
    own = _OWN.get(name)
    if own is not None:
        return own
    with importing():
        if name in _DECLARED_IN:
            importlib.import_module(_DECLARED_IN[name])
        elif name not in (names := list_backends()):
            raise InvalidBackend(f"there is no backend {name!r}{did_you_mean(name, names)}")
        compiler: CompilerFn = _registry().lookup_backend(name)
    return compiler


# The most common backend is imported without the others, which the registry would import.
_DECLARED_IN = {"inductor": "torch._dynamo.backends.inductor"}

# What a backend of torch's registry imports on its first graph: 579 modules and a second of CPU (torch 2.13), a fifth of which the
# garbage collector spends on traversing them.
_IMPORTED_LATE = {"inductor": "torch._inductor.compile_fx"}


def _import_at_rest(backend: Backend) -> None:
    """Import what a backend of torch will need, with the garbage collector disabled, and precompute its cache key."""
    module_name = _IMPORTED_LATE.get(backend.name) if _is_of_torch(backend) else None
    if module_name is None:
        return
    if module_name not in sys.modules:
        with importing(), lazy_templates():
            importlib.import_module(module_name)
    keep_hash_of_sources()


def resolve(backend: str | CompilerFn, options: Mapping[str, Any] | None = None) -> Backend:
    """The backend for a name or a callable. Raises InvalidBackend or TypeError."""
    if isinstance(backend, str):
        return _of_name(backend, dict(options or {}))
    if not callable(backend):
        raise TypeError(f"backend must be a name or a callable (graph, example_inputs) -> callable, not {type(backend).__name__}")
    return Backend(_name_of(backend), backend, dict(options or {}), _takes_inputs(backend))


# Names of torch's registry that require an argument, and their behavior without one.
_MINIFIERS = ("dynamo_minifier_backend", "dynamo_accuracy_minifier_backend")
_UNDER_A_MODE = "aot_eager_decomp_partition_with_mode"


def _of_name(name: str, options: dict[str, Any]) -> Backend:
    if name in _MINIFIERS and "compiler_name" not in options:
        return Backend(name, eager)  # without a backend that could fail, there is nothing to minify
    if name == _UNDER_A_MODE:
        options.setdefault("mode", contextlib.nullcontext())
    return Backend(name, lookup(name), options)


def _name_of(backend: CompilerFn) -> str:
    """The name of a callable; of one that calls a backend with options, the backend's."""
    if isinstance(backend, functools.partial):
        return _name_of(backend.func)
    name = getattr(backend, "__qualname__", None) or getattr(backend, "__name__", None)
    if _is_torch_wrapper(backend):
        name = backend.compiler_name  # type: ignore[attr-defined]
    return name if isinstance(name, str) else type(backend).__qualname__


def _is_torch_wrapper(backend: CompilerFn) -> bool:
    """Whether this is the object that `torch.compile(mode=..., options=...)` makes of its backend."""
    return type(backend).__module__ == "torch" and isinstance(getattr(backend, "compiler_name", None), str)


def function_and_options(backend: CompilerFn) -> tuple[CompilerFn, dict[str, Any]]:
    """The backend inside a callable that calls it with options, and these: a partial, or what torch.compile makes of a mode. Any
    other callable is its own, without options.
    """
    if isinstance(backend, functools.partial) and not backend.args:
        return backend.func, dict(backend.keywords)
    if _is_torch_wrapper(backend):
        function, patches = getattr(backend, "compiler_fn", None), getattr(backend, "config", None)
        if function is not None:
            return function, dict(getattr(backend, "kwargs", {}))
        if backend.compiler_name == "inductor" and isinstance(patches, dict):  # type: ignore[attr-defined]
            return lookup("inductor"), {"config_patches": dict(patches)} if patches else {}
    return backend, {}


def inductor_settings(backend: str | CompilerFn) -> dict[str, Any] | None:
    """The settings of Inductor that a mode or options change; None if this is not Inductor."""
    if isinstance(backend, str):
        return {} if backend == "inductor" else None
    function, options = function_and_options(backend)
    if options.keys() - {"config_patches"} or _name_of(function) != "inductor" or function is not lookup("inductor"):
        return None
    return dict(options.get("config_patches", {}))


def _takes_inputs(backend: CompilerFn) -> bool:
    """Whether a callable also takes the example inputs; assumed if its signature is unknown."""
    try:
        signature = inspect.signature(backend)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True


def _is_of_torch(backend: Backend) -> bool:
    module = getattr(backend.function, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] == "torch"


# -- one graph -----------------------------------------------------------------------------------------------


class GraphBackend:
    """The backend as a `GraphCompiler` for aliasing/lower.py."""

    def __init__(self, backend: Backend, recorder: Recorder | None = None, frame: int = 0) -> None:
        self.backend, self.recorder, self.frame = backend, recorder, frame
        self.name = backend.name
        self.is_eager = backend.function is eager
        self.is_of_torch = _is_of_torch(backend)
        self.takes_floats_as_tensors = float_inputs.supports_symfloats(backend.name)
        self.buckets = distributed.pieces_of
        self.run_as_captured = eager

    def observed(self, graph: FinishedGraph, name: str, compile_graph: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """Compile a graph; here nobody watches (observed_backend.py)."""
        return compile_graph()

    def begin(self, graph: FinishedGraph, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Record the graph's memory; returns a function that verifies and names the compiled callable and disables the hook."""
        if self.recorder is not None and (tools := tool_hooks.connected()) is not None:
            tools.note_memory(self.recorder, self.frame, name, graph.module)
        is_compiled = not self.is_eager and graph.backend_skipped is None
        reference = copy.deepcopy(graph.module) if config.verify_correctness and is_compiled else None

        def finish(compiled: Callable[..., Any]) -> Callable[..., Any]:
            if reference is not None:
                compiled = _Verified(compiled, reference, name, self.name)
            return _unhooked(ranged(compiled, GRAPH + name) if config.profiler_ranges else compiled)

        return finish

    def compile_module(
        self, module: torch.fx.GraphModule, examples: Sequence[Any], name: str, fake_mode: Any,
        around: Sequence[AbstractContextManager[Any]],
    ) -> Callable[..., Any]:  # fmt: skip
        """Compile one graph, or one piece, with the backend. Raises BackendCompilerError, which names the graph,
        MissingBackendPackage and MissingCompiler.
        """
        backend = self.backend
        if fake_mode.shape_env is None:
            fake_mode.shape_env = make_shape_env()  # on-disk caches require one; a backend may query it for sizes
        try:
            with released(), torch_backend_lock if self.is_of_torch else contextlib.nullcontext(), contextlib.ExitStack() as blocks:
                for block in around:
                    blocks.enter_context(block)
                for block in (tracing(TracingContext(fake_mode)), modes_off(), saved_tensor_hooks_hidden(), default_devices_off()):
                    blocks.enter_context(block)
                if any("warnings" in node.meta for node in module.graph.nodes):
                    blocks.enter_context(without_node_warnings())
                _import_at_rest(backend)
                watched = _watched_compiler(self.name, self.recorder, self.frame, name)
                options = {**function_and_options(backend.function)[1], **backend.options}
                compiled = backend(module, examples) if watched is None else watched(module, examples, **options)
            if not callable(compiled):
                raise TypeError(f"it returned {type(compiled).__name__} instead of a callable")
        except Exception as error:
            if self.recorder is not None:
                self.recorder.record(_failed(error, backend, name, self.frame, module.graph))
            raise _backend_error(error, backend, name, module) from error
        counters["backend"][self.name] += 1
        result: Callable[..., Any] = compiled
        return result


def _watched_compiler(backend: str, recorder: Recorder | None, frame: int, graph: str) -> CompilerFn | None:
    """The backend wrapped for observation, if compiler artifacts are recorded."""
    tools = tool_hooks.connected() if recorder is not None and config.artifacts else None
    return tools.watched_compiler(backend, recorder, frame, graph) if tools is not None and recorder is not None else None


def _failed(error: Exception, backend: Backend, name: str, frame: int, graph: torch.fx.Graph) -> BackendFailed:
    at, node = backend_failures.raised_at(error), backend_failures.node_in_hand(error, graph)
    message = f"{type(error).__name__}: {error}"
    return BackendFailed(frame=frame, graph=name, backend=backend.name, error=message, raised_at=at, node=node)


def _backend_error(error: Exception, backend: Backend, name: str, module: torch.fx.GraphModule) -> Exception:
    compiler = missing_compiler(error)
    if compiler:
        return MissingCompiler(compiler)
    package = _missing_package(error)
    if package is not None:
        line = _line_of(error, backend)
        return MissingBackendPackage(f"backend {backend.name!r} needs the package {package!r}, which is not installed{line}")
    return BackendCompilerError(name, module, error, backend=backend.name)


def _missing_package(error: BaseException) -> str | None:
    """The package whose import failed, if a backend raised ImportError for that reason."""
    cause: BaseException | None = error
    while isinstance(cause, ImportError):
        if isinstance(cause, ModuleNotFoundError) and cause.name:
            return cause.name.partition(".")[0]
        cause = cause.__cause__ or cause.__context__
    return None


def _line_of(error: BaseException, backend: Backend) -> str:
    """The line of a user-defined backend that required the package: " (asked for at backend.py:12: graph.graph.print_tabular())".
    """
    code = getattr(backend.function, "__code__", None)
    if code is None or backend.function.__module__.partition(".")[0] == "torch":
        return ""
    file = code.co_filename
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" (requested at {file}:{lines[-1].lineno}: {lines[-1].line})" if lines else ""


# -- running the compiled callable --------------------------------------------------------------------------


def _unhooked(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, with the frame hook disabled while it runs.

    The code of a graph that runs as captured is marked instead of wrapped, which saves one call on each cache hit.
    """
    owner = getattr(compiled, "__self__", None)
    if isinstance(compiled, types.MethodType) and isinstance(owner, torch.fx.GraphModule):
        code = compiled.__func__.__code__
        if all(_runs_no_python(node) for node in owner.graph.nodes):
            native.skip_code(code)
        else:
            native.skip_code_recursively(code)
        return compiled
    return native.RegionCall(compiled, None)


def _runs_no_python(node: torch.fx.Node) -> bool:
    """Whether running this node of a graph enters no Python function that the hook would inspect."""
    if node.op == "call_function":
        return isinstance(node.target, types.BuiltinFunctionType)
    if node.op == "call_method":
        return isinstance(getattr(torch.Tensor, str(node.target), None), types.MethodDescriptorType)
    return node.op != "call_module"


class _Verified:
    """Runs a compiled graph and the captured one on the same inputs, and raises if their results differ."""

    def __init__(self, compiled: Callable[..., Any], reference: torch.fx.GraphModule, name: str, backend: str) -> None:
        self.compiled, self.reference = compiled, reference
        self.name, self.backend = name, backend

    def __call__(self, *inputs: Any) -> Any:
        copies = [_copy_of(value) for value in inputs]
        random_numbers = torch.get_rng_state()
        with torch.no_grad():
            expected = self.reference(*copies)
        torch.set_rng_state(random_numbers)
        actual = self.compiled(*inputs)
        for number, (reference_output, compiled_output) in enumerate(zip(expected, actual, strict=True)):
            difference = _difference(reference_output, compiled_output)
            if difference:
                cause = AssertionError(f"output {number} differs from the captured graph's: {difference}")
                raise BackendCompilerError(self.name, self.reference, cause, backend=self.backend)
        return actual


def _copy_of(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _difference(expected: Any, actual: Any) -> str:
    """The difference as text; "" if there is none, up to rounding."""
    if not isinstance(expected, torch.Tensor):
        return "" if expected == actual else f"{expected!r} expected, {actual!r} found"
    try:
        rounding = 2e-2 if expected.dtype in (torch.float16, torch.bfloat16) else 1e-3
        torch.testing.assert_close(actual, expected, rtol=rounding, atol=rounding, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""
