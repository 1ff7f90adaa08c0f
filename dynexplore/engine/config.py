"""Configuration: typed options, each read where it takes effect, all set through one object.

The idea: `config` is one object whose attributes are the options. Reading one is a plain attribute access; setting one checks the
name and the type, and the error lists the valid ones; `config.patch(...)` sets options for a `with` block or a function. Options
are read when a frame is translated. Every option is used somewhere.

In: `config.cache_size_limit`, `config.debug = True`, `with config.patch(debug=True): ...`, and environment variables:
DYNEXPLORE_DISABLE=1 disables the engine; DYNEXPLORE_DEBUG=1 enables the debug printout; DYNEXPLORE_LOGS lists a log level or parts
to print ("info,bytecode,guards"); DYNEXPLORE_DEBUG_FUNCTION=name translates only functions of that name;
DYNEXPLORE_REPLAY_RECORD=1 saves frames that fail (to DYNEXPLORE_REPLAY_DIR); DYNEXPLORE_REPRO_AFTER=dynamo or aot writes a
repro.py (to DYNEXPLORE_REPRO_DIR) when a backend fails, with DYNEXPLORE_REPRO_LEVEL=2 only for exceptions. If one is unset,
torch's variable of the same name (TORCHDYNAMO_DISABLE) is read. An invalid value is reported in a sentence on standard error, and
does not fail the import. Out: `config`. Options with another name in torch.compile's config also have that name
(`NAMES_IN_TORCH`).

PyTorch's counterpart: torch/_dynamo/config.py and torch/utils/_config_module.py.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from dynexplore.engine.errors import ConfigError
from dynexplore.engine.events import ARTIFACT_PARTS
from dynexplore.engine.nearest_name import did_you_mean

F = TypeVar("F", bound=Callable[..., Any])

LOG_LEVELS = ("ERROR", "WARNING", "INFO", "DEBUG")
LOG_PARTS = ("bytecode", "graph", "guards", "breaks", "steps", "recompiles")
_PARTS_IN_TORCH = {"graph_breaks": "breaks", "graph_code": "graph", "recompiles_verbose": "recompiles"}
_LEVELS_IN_TORCH = {"+DYNAMO": "DEBUG", "DYNAMO": "INFO", "-DYNAMO": "ERROR"}

NAMES_IN_TORCH = {"recompile_limit": "cache_size_limit"}
"""Option of torch._dynamo.config -> the option here, if the names differ."""


class ListedClasses(tuple[type, ...]):
    """The classes of an option, extensible like a set: `config.traceable_tensor_subclasses.add(Wrapped)`."""

    __slots__ = ()

    def add(self, cls: type) -> None:
        """Add a class to the option's current list."""
        config.traceable_tensor_subclasses = (*(listed for listed in config.traceable_tensor_subclasses if listed is not cls), cls)

    def remove(self, cls: type) -> None:
        """Remove a class from that list. Raises KeyError if it is absent."""
        if cls not in config.traceable_tensor_subclasses:
            raise KeyError(cls)
        config.traceable_tensor_subclasses = tuple(listed for listed in config.traceable_tensor_subclasses if listed is not cls)


@dataclass
class Config:
    """All options with their defaults. Assigning an unknown name or a wrong type raises ConfigError."""

    # Capture.
    cache_size_limit: int = 8
    """The maximum number of cache entries per code object; on the next miss the frame runs as plain Python, with one warning."""
    dynamic_shapes: bool | None = None
    """None: a size becomes dynamic once it has changed; True: always; False: never; arguments take precedence."""
    specialize_int: bool = False
    """Specialize on the value of each int argument, instead of making it a symbol once it has changed."""
    specialize_float: bool = False
    """Specialize on the value of each float argument, instead of making it an input of the graph once it has changed."""
    capture_scalar_outputs: bool = False
    """Capture `Tensor.item()` as a symbol, instead of breaking the graph. `nopython=True` does so in any case."""
    capture_dynamic_output_shape_ops: bool = False
    """Capture operators whose output shape is data-dependent (nonzero, unique, boolean masks), as `nopython=True` does."""
    traceable_tensor_subclasses: tuple[type, ...] = ListedClasses()
    """Tensor subclasses that are treated as plain tensors during capture."""
    nested_graph_breaks: bool = True
    """Whether a break in an inlined callee ends one graph for all frames around it, instead of one per frame."""
    inline_depth_limit: int = 100
    """The maximum depth of inlined calls before the graph breaks (DX501)."""
    instruction_limit: int = 1_000_000
    """The maximum number of instructions that one attempt interprets before the graph breaks (DX502)."""
    translation_seconds: float = 120.0
    """The maximum CPU time of one attempt, or 1/40 of it without a tensor operation (DX505: plain Python from then on)."""

    optimize_ddp: bool = True
    """Split graphs at the bucket boundaries of DistributedDataParallel, so that all-reduce overlaps with backward."""

    error_on_recompile: bool = False
    """Raise RecompileError, which names the guard, if a function would be recompiled."""

    # Verification.
    verify_correctness: bool = False
    """Run each compiled graph together with the captured one, and raise if their results differ."""
    suppress_errors: bool = True
    """Count bugs of the engine, report them in a warning, and run the frame as plain Python."""
    raise_engine_errors: bool = False
    """Raise bugs of the engine as EngineError, regardless of `suppress_errors` (for tests)."""

    # Measurements.
    profiler_ranges: bool = False
    """Show each run of a compiled graph and each guard check as a range in the PyTorch profiler."""
    guard_prices: bool = False
    """Measure how long each new cache entry of a recorded function takes to check its guards, and the part of each source."""
    artifacts: tuple[str, ...] = ()
    """The artifacts of "inductor" and "aot_eager" that recordings keep for each graph: names of ARTIFACT_PARTS."""

    # Failures.
    replay_record_enabled: bool = False
    """Save each frame whose capture fails, with all its data, for `dynexplore.replay`."""
    replay_record_folder: str = "dynexplore_frames"
    """The folder for saved frames; created on first use."""
    repro_after: str = ""
    """"dynamo" or "aot": minimize a graph on which a backend fails, and write repro.py ("" to disable)."""
    repro_folder: str = "."
    """The folder for repro.py; created when needed."""
    repro_level: int = 4
    """What counts as a failure for `repro_after`: 2: the backend raises; 4: wrong values and gradients, too."""

    # Output.
    verbose: bool = False
    """Report graph breaks in full, once per location; include both full stacks in errors, of the engine and of user code."""
    debug: bool = False
    """Print for each frame: graph, original and modified bytecode, guards."""
    log_level: str = "WARNING"
    """ERROR, WARNING (graph breaks), INFO (code and graph compiled) or DEBUG (every instruction), or logging's numbers."""
    logs: tuple[str, ...] = ()
    """What to print for each frame even if `debug` is off: names of LOG_PARTS."""
    output_code: bool = False
    """Print the modified bytecode of each frame."""
    debug_function: str = ""
    """Translate only functions of this name ("" for all)."""
    disable: bool = False
    """Disable the engine: optimized functions run as plain Python."""

    def __setattr__(self, name: str, value: Any) -> None:
        name, value = as_named_here(name, value)
        check(name, value)
        object.__setattr__(self, name, ListedClasses(value) if name == "traceable_tensor_subclasses" else value)

    if not typing.TYPE_CHECKING:  # a type checker uses the declared options

        def __getattr__(self, name: str) -> Any:  # called only for unknown names
            if name not in NAMES_IN_TORCH:
                raise AttributeError(_no_option(name), name=name, obj=self)
            return getattr(self, NAMES_IN_TORCH[name])

    def __delattr__(self, name: str) -> None:
        raise ConfigError(f"option {name!r} cannot be deleted")

    def patch(self, changes: Mapping[str, Any] | str | None = None, /, *value: Any, **options: Any) -> Patch:
        """Set options for a `with` block or for each call of a decorated function.

        One option may be given as `patch("debug", True)`.

        >>> with config.patch(cache_size_limit=2):
        ...     config.cache_size_limit
        2
        >>> config.cache_size_limit
        8
        """
        positional = dict.fromkeys([changes], *value) if isinstance(changes, str) else dict(changes or {})
        new_values = dict(as_named_here(name, new) for name, new in {**positional, **options}.items())
        for name, new in new_values.items():
            check(name, new)
        return Patch(self, new_values)

    def prints_frames(self) -> bool:
        """Whether something is to be printed or logged for each translated frame."""
        return self.debug or self.output_code or bool({*self.logs} - {"recompiles"}) or self.log_level in ("INFO", "DEBUG")

    def as_dict(self) -> dict[str, Any]:
        """Return all options by name."""
        return {name: getattr(self, name) for name in OPTIONS}

    def reset(self) -> None:
        """Reset every option to its default, then apply the environment variables."""
        for name, value in DEFAULTS.items():
            setattr(self, name, value)
        for name, value in from_environment(os.environ, _tell).items():
            try:
                setattr(self, name, value)
            except ConfigError as error:
                _tell(f"{error} (from an environment variable)")


class Patch:
    """Temporarily set options: a reusable context manager and decorator."""

    def __init__(self, target: Config, options: Mapping[str, Any]) -> None:
        self._target = target
        self._options = dict(options)
        self._saved: list[dict[str, Any]] = []

    def __enter__(self) -> Config:
        self._saved.append({name: getattr(self._target, name) for name in self._options})
        for name, value in self._options.items():
            setattr(self._target, name, value)
        return self._target

    def __exit__(self, *exc: object) -> None:
        for name, value in self._saved.pop().items():
            setattr(self._target, name, value)

    def __call__(self, function: F) -> F:
        """Return `function` with these options set during each call."""

        @functools.wraps(function)
        def with_options(*args: Any, **kwargs: Any) -> Any:
            with Patch(self._target, self._options):
                return function(*args, **kwargs)

        return typing.cast(F, with_options)


def as_named_here(name: str, value: Any) -> tuple[str, Any]:
    """Convert an option and its value to their names here, from torch's names and logging's numbers.

    >>> as_named_here("recompile_limit", 4), as_named_here("log_level", 20), as_named_here("logs", ("graph_breaks",))
    (('cache_size_limit', 4), ('log_level', 'INFO'), ('logs', ('breaks',)))
    """
    name = NAMES_IN_TORCH.get(name, name)
    if name == "log_level" and type(value) is int:
        value = logging.getLevelName(value)
    if name == "logs" and isinstance(value, tuple):
        value = tuple(_PARTS_IN_TORCH.get(part, part) for part in value)
    return name, value


def _no_option(name: str) -> str:
    return f"there is no option {name!r}{did_you_mean(name, [*OPTIONS, *NAMES_IN_TORCH])}"


def _tell(sentence: str) -> None:
    print(f"dynexplore: {sentence}", file=sys.stderr)


def check(name: str, value: object) -> None:
    """Raise ConfigError, with the valid ones, unless `name` is an option and `value` is valid for it."""
    if name not in OPTIONS:
        raise ConfigError(_no_option(name))
    if not any(_fits(value, option_type) for option_type in OPTIONS[name]):
        raise ConfigError(f"option {name!r} takes {type_text(name)}, not {type(value).__name__} ({value!r})")
    if name in _TUPLES and not all(isinstance(item, _TUPLES[name][0]) for item in typing.cast("tuple[object]", value)):
        raise ConfigError(f"option {name!r} takes {type_text(name)}, not {value!r}")
    if name == "logs" and (wrong := [part for part in typing.cast("tuple[str, ...]", value) if part not in LOG_PARTS]):
        raise ConfigError(f"there is no part {wrong[0]!r} of logs{did_you_mean(wrong[0], [*LOG_PARTS, *_PARTS_IN_TORCH])}")
    if name == "artifacts":
        check_parts(typing.cast("tuple[str, ...]", value))
    if name == "log_level" and value not in LOG_LEVELS:
        raise ConfigError(f"option 'log_level' takes one of {', '.join(LOG_LEVELS)}, not {value!r}")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ConfigError(f"option {name!r} takes one of {', '.join(map(repr, _CHOICES[name]))}, not {value!r}")
    if name.endswith("_limit") and isinstance(value, int) and value < 1:
        raise ConfigError(f"option {name!r} takes a number of at least 1, not {value}")


def check_parts(parts: tuple[str, ...]) -> None:
    """Raise ConfigError for a name that is not in ARTIFACT_PARTS."""
    for part in parts:
        if part not in ARTIFACT_PARTS:
            raise ConfigError(f"there is no artifact {part!r}{did_you_mean(part, ARTIFACT_PARTS)}")


def type_text(name: str) -> str:
    """The types that an option accepts, as text: "bool or None"."""
    if name in _TUPLES:
        return f"tuple of {_TUPLES[name][1]}"
    return " or ".join("None" if option_type is type(None) else option_type.__name__ for option_type in OPTIONS[name])


def _fits(value: object, option_type: type) -> bool:
    # in Python bool is a subclass of int, but `cache_size_limit = True` is a mistake
    return type(value) is bool if option_type is bool else isinstance(value, option_type) and type(value) is not bool


def _option_types() -> dict[str, tuple[type, ...]]:
    accepted: dict[str, tuple[type, ...]] = {}
    for name, hint in typing.get_type_hints(Config).items():
        parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        accepted[name] = tuple(typing.get_origin(part) or part for part in parts)
    return accepted


def from_environment(environment: Mapping[str, str], tell: Callable[[str], None] = _tell) -> dict[str, Any]:
    """Return the options set by the DYNEXPLORE_* variables, or if one is unset, by torch's variable of the same name.

    >>> from_environment({"DYNEXPLORE_LOGS": "info,guards", "TORCHDYNAMO_DEBUG": "1"})
    {'debug': True, 'log_level': 'INFO', 'logs': ('guards',)}
    """
    variables = {f"DYNEXPLORE_{name.removeprefix('TORCHDYNAMO_')}": text for name, text in environment.items() if name in _IN_TORCH}
    variables |= {name: text for name, text in environment.items() if name.startswith("DYNEXPLORE_")}
    options: dict[str, Any] = {}
    for variable, name in _SWITCHES.items():
        if variable in variables:
            options[name] = variables[variable].strip().lower() not in ("", "0", "false", "no", "off")
    for variable, name in _TEXTS.items():
        if variables.get(variable):
            options[name] = variables[variable].strip()
    if variables.get("DYNEXPLORE_REPRO_LEVEL", "").strip():
        level = variables["DYNEXPLORE_REPRO_LEVEL"].strip()
        options["repro_level"] = int(level) if level.isdigit() else level
    return options | _logs(variables.get("DYNEXPLORE_LOGS", ""), tell)


def _logs(words: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """The options that a list of levels and parts sets; any other word is reported and ignored."""
    options: dict[str, Any] = {}
    parts: list[str] = []
    for word in filter(None, map(str.strip, words.split(","))):
        level = _LEVELS_IN_TORCH.get(word.upper(), word.upper())
        part = _PARTS_IN_TORCH.get(word.lower(), word.lower())
        if level in LOG_LEVELS:
            options["log_level"] = level
        elif part in LOG_PARTS:
            parts.append(part)
        else:
            tell(f"DYNEXPLORE_LOGS names {word!r}, which is ignored{did_you_mean(word, (*LOG_LEVELS, *LOG_PARTS))}")
    return options | ({"logs": tuple(parts)} if parts else {})


_SWITCHES = {
    "DYNEXPLORE_DISABLE": "disable",
    "DYNEXPLORE_DEBUG": "debug",
    "DYNEXPLORE_VERBOSE": "verbose",
    "DYNEXPLORE_REPLAY_RECORD": "replay_record_enabled",
}
_TEXTS = {
    "DYNEXPLORE_DEBUG_FUNCTION": "debug_function",
    "DYNEXPLORE_REPLAY_DIR": "replay_record_folder",
    "DYNEXPLORE_REPRO_AFTER": "repro_after",
    "DYNEXPLORE_REPRO_DIR": "repro_folder",
}
_IN_TORCH = tuple(f"TORCHDYNAMO_{name.removeprefix('DYNEXPLORE_')}" for name in (*_SWITCHES, *_TEXTS, "DYNEXPLORE_REPRO_LEVEL"))
_CHOICES: dict[str, tuple[object, ...]] = {"repro_after": ("", "dynamo", "aot"), "repro_level": (2, 4)}
_TUPLES: dict[str, tuple[type, str]] = {
    "traceable_tensor_subclasses": (type, "classes"),
    "logs": (str, "words"),
    "artifacts": (str, "words"),
}

OPTIONS: dict[str, tuple[type, ...]] = _option_types()
"""Every option and the types that it accepts."""

DEFAULTS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Config)}
"""Every option and its default."""

config = Config()
"""The options of this process."""

config.reset()
