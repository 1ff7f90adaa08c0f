"""The public functions: enable and disable the engine for a function, a module or a block.

The idea: this file only selects the store of a backend and its options, and wraps an object or enters a region for a block.
convert.py does the rest. `run` is in run_only.py; `disable`, `skip` and the marks are in decorators.py.

In: the user's arguments. Out: `optimize`, `compile`, `reset`, and the other public names of the engine. PyTorch's counterpart:
torch/_dynamo/eval_frame.py and torch.compile (torch/__init__.py).
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Hashable, Mapping
from typing import Any, NoReturn, TypeVar, cast

from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.counters import counters
from dynexplore.engine.errors import Unsupported
from dynexplore.engine.nearest_name import did_you_mean
from dynexplore.engine.phases import times
from dynexplore.engine.policy.constant_functions import is_compiling
from dynexplore.engine.policy.markers import assume_constant_result, graph_break
from dynexplore.engine.provenance.guard_filter import GuardFilter
from dynexplore.engine.runtime import convert, optimized, reports, stance, stores
from dynexplore.engine.runtime.backends import Backend, CompilerFn, list_backends, register_backend, resolve
from dynexplore.engine.runtime.decorators import allow_in_graph, disable, disallow_in_graph, skip, substitute_in_graph
from dynexplore.engine.runtime.run_only import run
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.engine.translate import unique_names

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "disable",
    "disallow_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "optimize",
    "optimize_assert",
    "register_backend",
    "reset",
    "run",
    "skip",
    "substitute_in_graph",
]

T = TypeVar("T")


# -- regions -------------------------------------------------------------------------------------------------


class _Region(native.RegionBlock):
    """A region as a reusable, thread-safe decorator and context manager."""

    def __call__(self, target: T) -> T:
        """Return the same function, method or module, running in the region."""
        return cast(T, optimized.wrap(target, self.region))


class _WholeRegion(_Region):
    """A region with `nopython`: the call of a generator function raises, because its body is suspended and cannot be one graph."""

    def __call__(self, target: T) -> T:
        function: Any = target
        if not inspect.isgeneratorfunction(function):
            return super().__call__(target)

        @functools.wraps(function)
        def refused(*args: Any, **kwargs: Any) -> NoReturn:
            why = "its body runs in pieces, and is captured only when a captured function runs it"
            raise Unsupported(f"{function.__qualname__} is a generator function, which cannot be captured as one graph: {why}")

        return cast(T, refused)


class _SwitchedOff:
    """The result of `optimize` if the engine is disabled: it does nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass

    def __call__(self, target: T) -> T:
        return target


def make_store(backend: Backend, options: Options) -> Store:
    """Create a store whose region translates frames on a cache miss."""
    store = Store(backend, options)
    store.callback = store.region.callback = convert.converter(store)
    return store


def store_for(backend: str | CompilerFn, options: Options, arguments: Mapping[str, Any] | None = None) -> Store:
    """The unique store of a backend and options. Raises InvalidBackend, TypeError."""
    if isinstance(backend, str):
        resolved = resolve(backend, arguments)
        return stores.lead(stores.store_of_name((backend, _key(arguments)), resolved, options, make_store))
    resolved = resolve(backend, arguments)
    if arguments:
        return stores.lead(make_store(resolved, options))
    return stores.lead(stores.store_of_callable(backend, resolved, options, make_store))


def _forced_store(backend: Backend, store: Store) -> Store:
    """The store that replaces another one while a backend is forced; a store of this backend replaces itself."""
    if store.backend.function is backend.function:
        return store
    return stores.store_of_callable(backend.function, backend, store.options, make_store)


def _force_backend(backend: Backend | None) -> None:
    """Compile everything with this backend; None: stop forcing one."""
    stores.force(None if backend is None else functools.partial(_forced_store, backend))


stance.connect(_force_backend)


def _key(arguments: Mapping[str, Any] | None) -> Hashable:
    return tuple(sorted((name, repr(value)) for name, value in (arguments or {}).items()))


# -- enable -------------------------------------------------------------------------------------------------


def optimize(
    backend: str | CompilerFn = "eager", *, nopython: bool = False, dynamic: bool | None = None, disable: bool = False,
    guard_filter_fn: GuardFilter | None = None,
) -> Any:
    """Capture and compile: a decorator for functions, bound methods and nn.Modules, and a context manager.

    Args: backend: a name from `list_backends()`, or a callable `(graph, example_inputs) -> callable` or `(graph) -> callable`.
    nopython: raise `exc.Unsupported` at a graph break instead of continuing in Python; data-dependent numbers and sizes are
    captured, as with `config.capture_scalar_outputs` and `config.capture_dynamic_output_shape_ops`. dynamic: if True, sizes are
    symbols from the first call on; if False, never; if None, once a size has changed. disable: if True, nothing is compiled, as
    with the environment variable DYNEXPLORE_DISABLE=1. guard_filter_fn: a function that receives a list with one
    GuardFilterEntry per guard, and returns a list of bools: True for each guard to check. The filters in torch.compiler work, too.

    A context manager applies to the functions that are called in the block. The code of the block itself runs as plain Python.

    Raises InvalidBackend (a ValueError that lists the known names) for an unknown backend, and ValueError for an invalid option.

    >>> @optimize("eager")
    ... def double(x):
    ...     return x + x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    _check_flag("nopython", nopython)
    _check_flag("disable", disable)
    if dynamic is not None:
        _check_flag("dynamic", dynamic, "True, False or None")
    _check_filter(guard_filter_fn)
    if disable or config.disable:
        return _SwitchedOff()
    region = store_for(backend, Options(nopython, dynamic, guard_filter_fn)).region
    if isinstance(backend, str):
        optimized.PICKLED_AS[region] = (_again, backend, nopython, dynamic, guard_filter_fn)
    return _WholeRegion(region) if nopython else _Region(region)


def _again(function: Any, backend: str, nopython: bool, dynamic: bool | None, guard_filter_fn: GuardFilter | None = None) -> Any:
    """Recreate a wrapper when it is unpickled."""
    return optimize(backend, nopython=nopython, dynamic=dynamic, guard_filter_fn=guard_filter_fn)(function)


def optimize_assert(backend: str | CompilerFn = "eager", *, dynamic: bool | None = None) -> Any:
    """`optimize` with `nopython=True`: a graph break is an error.

    >>> optimize_assert("eager")(lambda x: x + x)(torch.ones(2))
    tensor([2., 2.])
    """
    return optimize(backend, nopython=True, dynamic=dynamic)


def _check_flag(name: str, value: object, right: str = "True or False") -> None:
    if type(value) is not bool:
        raise ValueError(f"{name} must be {right}, not {value!r}")


def _check_filter(guard_filter_fn: object) -> None:
    if guard_filter_fn is not None and not callable(guard_filter_fn):
        raise ValueError(f"guard_filter_fn must be a function or None, not {guard_filter_fn!r}")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | CompilerFn | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    dynamic_shapes: Any = None,
) -> Any:
    """`optimize` with the interface of torch.compile, as a function or a decorator.

    Args:
        model: a function, method or module. If None, a decorator is returned.
        fullgraph: raise an error at a graph break; the same as `nopython` in `optimize`.
        backend: as in `optimize`; "inductor" by default.
        mode: a preset of Inductor's options by name ("default", "reduce-overhead", "max-autotune", ...).
        options: Inductor's options by name. Cannot be combined with `mode`. Any other backend receives both as keyword arguments.
            The key "guard_filter_fn" is passed to `optimize` instead of the backend.
        name: accepted for compatibility, and ignored.
        recompile_limit: how often each function may be compiled, in place of `config.recompile_limit`. With fullgraph, exceeding
            the limit raises `exc.RecompileLimitError`.
        isolate_recompiles: do not share compiled code, or the recompile limit, with other calls of `compile`.
        shapes_spec, dynamic_shapes: not supported; use `dynamic` and `mark_dynamic` to declare dynamic sizes.

    Raises ValueError for an unknown mode or option. The message lists the valid ones.
    """
    if mode is not None and options is not None:
        raise ValueError("mode and options cannot be combined: a mode is a set of options")
    _check_flag("fullgraph", fullgraph)
    _check_parameters_of_today(name, recompile_limit, isolate_recompiles, shapes_spec=shapes_spec, dynamic_shapes=dynamic_shapes)
    backend = "inductor" if backend is None else backend
    if disable or config.disable:
        return _SwitchedOff() if model is None else model
    guard_filter_fn = (options or {}).get("guard_filter_fn")
    _check_filter(guard_filter_fn)
    if guard_filter_fn is not None:
        options = {name: value for name, value in (options or {}).items() if name != "guard_filter_fn"} or None
    arguments = _backend_arguments(backend, mode, options, dynamic)
    if dynamic is not None:
        _check_flag("dynamic", dynamic, "True, False or None")
    store_options = Options(fullgraph, dynamic, guard_filter_fn, recompile_limit)
    if isolate_recompiles:
        store = stores.lead(make_store(resolve(backend, arguments), store_options))
    else:
        store = store_for(backend, store_options, arguments)
    region = (_WholeRegion if fullgraph else _Region)(store.region)
    return region if model is None else region(model)


def _check_parameters_of_today(name: object, recompile_limit: object, isolate_recompiles: object, **refused: object) -> None:
    """Raise ValueError for newer parameters of torch.compile that this engine does not support."""
    if name is not None and type(name) is not str:
        raise ValueError(f"name must be a string or None, not {name!r}")
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        raise ValueError(f"recompile_limit must be None or at least 1, not {recompile_limit!r}")
    _check_flag("isolate_recompiles", isolate_recompiles)
    for parameter, value in refused.items():
        if value is not None:
            raise ValueError(f"{parameter} is not supported: use `dynamic` or `mark_dynamic` to declare which sizes vary")


def _backend_arguments(
    backend: str | CompilerFn, mode: str | None, options: Mapping[str, Any] | None, dynamic: bool | None
) -> dict[str, Any]:
    """The keyword arguments of the backend, besides graph and inputs."""
    if backend != "inductor":
        passed_on = {"mode": mode, "options": options}
        return {name: value for name, value in passed_on.items() if value is not None}
    patches = _mode_options(mode, dynamic) if mode not in (None, "default") else {}
    for name, value in (options or {}).items():
        patches[_inductor_option(name, value)] = value
    return {"config_patches": patches} if patches else {}


def _mode_options(mode: str | None, dynamic: bool | None) -> dict[str, Any]:
    modes = importlib.import_module("torch._inductor").list_mode_options(dynamic=dynamic)
    if mode not in modes:
        raise ValueError(f"there is no mode {mode!r}{did_you_mean(str(mode), modes)}")
    return dict(modes[mode])


def _inductor_option(name: str, value: Any) -> str:
    """The full name of an option of Inductor. Raises ValueError for an unknown name or a wrong type."""
    inductor_options = importlib.import_module("torch._inductor.config").get_config_copy()
    full = name.replace("-", "_")
    if full not in inductor_options:
        raise ValueError(f"inductor has no option {name!r}{did_you_mean(full, sorted(inductor_options))}")
    option_type = type(inductor_options[full])
    if inductor_options[full] is not None and not isinstance(value, option_type | int if option_type is float else option_type):
        raise ValueError(f"inductor's option {name!r} takes {option_type.__name__}, not {value!r}")
    return full


# -- reset --------------------------------------------------------------------------------------------------


def reset() -> None:
    """Discard all compiled code, all counters and everything learned from earlier calls. Marks such as `mark_dynamic` are kept."""
    stores.clear()
    counters.clear()
    times.clear()
    reports.forget_breaks()
    unique_names.NUMBERS.reset()
