"""The options of the engine: typed, few, each read where it acts, all changed through one object.

Which idea lives here: `config` is one object whose attributes are the options. Reading one is a plain
attribute read; setting one checks name and type and says what would have been right; `config.patch(...)` sets
some for the length of a `with` block or of a function. Options are read when a frame is translated. An option
exists only with a reader.

In:  `config.cache_size_limit`, `config.debug = True`, `with config.patch(debug=True): ...`, and the
     environment: DYNEXPLORE_DISABLE=1 switches the engine off, DYNEXPLORE_DEBUG=1 switches on the debug
     printout, DYNEXPLORE_LOGS names a log level or parts to print ("info,bytecode,guards"),
     DYNEXPLORE_DEBUG_FUNCTION=name translates only functions of that name,
     DYNEXPLORE_REPLAY_RECORD=1 saves frames that fail (into DYNEXPLORE_REPLAY_DIR),
     DYNEXPLORE_REPRO_AFTER=dynamo or aot writes a repro.py (into DYNEXPLORE_REPRO_DIR) where a backend fails;
     DYNEXPLORE_REPRO_LEVEL=2 for what raises only. Each is read under its name in torch, too (TORCHDYNAMO_DISABLE), if ours is
     not set. What the environment says wrong is a sentence on standard error, no failing import.
Out: `config`. Options with another name in torch.compile's config are known by that, too (`NAMES_IN_TORCH`).

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
from dynexplore.engine.nearest_name import instead

F = TypeVar("F", bound=Callable[..., Any])

LOG_LEVELS = ("ERROR", "WARNING", "INFO", "DEBUG")
LOG_PARTS = ("bytecode", "graph", "guards", "breaks", "steps", "recompiles")
_PARTS_IN_TORCH = {"graph_breaks": "breaks", "graph_code": "graph", "recompiles_verbose": "recompiles"}
_LEVELS_IN_TORCH = {"+DYNAMO": "DEBUG", "DYNAMO": "INFO", "-DYNAMO": "ERROR"}

NAMES_IN_TORCH = {"recompile_limit": "cache_size_limit"}
"""Option of torch._dynamo.config -> the option here, where the names differ."""


class ListedClasses(tuple[type, ...]):
    """The classes of an option, which takes another one as a set does: `config.traceable_tensor_subclasses.add(Wrapped)`."""

    __slots__ = ()

    def add(self, cls: type) -> None:
        """Put a class on the list that the option holds now."""
        config.traceable_tensor_subclasses = (*(listed for listed in config.traceable_tensor_subclasses if listed is not cls), cls)

    def remove(self, cls: type) -> None:
        """Take a class off that list. Raises KeyError where it is not on it."""
        if cls not in config.traceable_tensor_subclasses:
            raise KeyError(cls)
        config.traceable_tensor_subclasses = tuple(listed for listed in config.traceable_tensor_subclasses if listed is not cls)


@dataclass
class Config:
    """All options with their defaults. Assigning an unknown name or a wrong type is a ConfigError."""

    # What is captured.
    cache_size_limit: int = 8
    """Entries per code object; the next miss runs the frame as plain Python, with one warning."""
    dynamic_shapes: bool | None = None
    """None: a size becomes dynamic once it was seen to change; True: always; False: never; arguments win."""
    specialize_int: bool = False
    """Compile for the value of each int argument, instead of making it a symbol once it has changed."""
    specialize_float: bool = False
    """Compile for the value of each float argument, instead of making it an input of the graph once it has changed."""
    capture_scalar_outputs: bool = False
    """Carry `Tensor.item()` through the graph as a symbol, instead of breaking the graph."""
    capture_dynamic_output_shape_ops: bool = False
    """Capture operators whose output shape depends on data (nonzero, unique, boolean masks)."""
    traceable_tensor_subclasses: tuple[type, ...] = ListedClasses()
    """Tensor subclasses that are treated as plain tensors while capturing."""
    nested_graph_breaks: bool = False
    """Whether a break in an inlined callee ends one graph for all frames around it, not one a frame."""
    inline_depth_limit: int = 100
    """How deep calls are inlined before the graph breaks (DX501)."""
    instruction_limit: int = 1_000_000
    """How many instructions one attempt interprets before the graph breaks (DX502)."""
    translation_seconds: float = 120.0
    """CPU time that one attempt may take, a fortieth of it without a tensor operation; then the frame is plain Python (DX505)."""

    optimize_ddp: bool = True
    """Split graphs at the bucket boundaries of DistributedDataParallel, so that all-reduce overlaps with backward."""

    error_on_recompile: bool = False
    """Raise RecompileError, which names the guard, where a function would be compiled once more."""

    # How it is checked.
    verify_correctness: bool = False
    """Run each compiled graph beside the captured one and raise when they differ."""
    suppress_errors: bool = True
    """A bug of the engine is counted and named in a warning, and the frame runs as plain Python."""
    raise_engine_errors: bool = False
    """Raise bugs of the engine as EngineError, whatever `suppress_errors` says (tests)."""

    # What is measured.
    profiler_ranges: bool = False
    """Each run of a compiled graph and each check of guards is a range in the PyTorch profiler."""
    artifacts: tuple[str, ...] = ()
    """Recordings keep what "inductor" and "aot_eager" make of each graph: names of ARTIFACT_PARTS."""

    # What is kept of failures.
    replay_record_enabled: bool = False
    """Save each frame whose translation fails, with all that it works on, for `dynexplore.replay`."""
    replay_record_folder: str = "dynexplore_frames"
    """Where frames are saved; it is made when the first one is."""
    repro_after: str = ""
    """"dynamo" or "aot": cut a graph that a backend fails on down, and write repro.py ("" for never)."""
    repro_folder: str = "."
    """Where repro.py is written; it is made when it is needed."""
    repro_level: int = 4
    """What counts as failing for `repro_after`: 2: the backend raises; 4: values and gradients that are wrong, too."""

    # What is said.
    verbose: bool = False
    """Graph breaks are told in full, each place; errors carry both full stacks, of the engine and of the user's code."""
    debug: bool = False
    """Print, per frame: graph, original and modified bytecode, guards."""
    log_level: str = "WARNING"
    """ERROR, WARNING (graph breaks), INFO (code and graph compiled) or DEBUG (every instruction); logging's numbers will do."""
    logs: tuple[str, ...] = ()
    """What is told of each frame though `debug` is off: names of LOG_PARTS."""
    output_code: bool = False
    """Print the modified bytecode of each frame."""
    debug_function: str = ""
    """Translate only functions of this name ("" for all)."""
    disable: bool = False
    """Switch the engine off: optimized functions run as plain Python."""

    def __setattr__(self, name: str, value: Any) -> None:
        name, value = as_named_here(name, value)
        check(name, value)
        object.__setattr__(self, name, ListedClasses(value) if name == "traceable_tensor_subclasses" else value)

    if not typing.TYPE_CHECKING:  # a type checker knows the options themselves

        def __getattr__(self, name: str) -> Any:  # what is no attribute
            if name not in NAMES_IN_TORCH:
                raise AttributeError(_no_option(name), name=name, obj=self)
            return getattr(self, NAMES_IN_TORCH[name])

    def __delattr__(self, name: str) -> None:
        raise ConfigError(f"option {name!r} cannot be deleted")

    def patch(self, changes: Mapping[str, Any] | str | None = None, /, *value: Any, **options: Any) -> Patch:
        """Set options for the length of a `with` block or of each call of a decorated function.

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
        """Whether something is to be printed or logged of each frame that is translated."""
        return self.debug or self.output_code or bool({*self.logs} - {"recompiles"}) or self.log_level in ("INFO", "DEBUG")

    def as_dict(self) -> dict[str, Any]:
        """Return all options by name."""
        return {name: getattr(self, name) for name in OPTIONS}

    def reset(self) -> None:
        """Set every option to its default, and then to what the environment says."""
        for name, value in DEFAULTS.items():
            setattr(self, name, value)
        for name, value in from_environment(os.environ, _tell).items():
            try:
                setattr(self, name, value)
            except ConfigError as error:
                _tell(f"{error}; the environment says so")


class Patch:
    """Options set for a while: a context manager, entered as often as you like, and a decorator."""

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
    """An option and its value as they are called here: torch's names, logging's numbers.

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
    return f"there is no option {name!r}{instead(name, [*OPTIONS, *NAMES_IN_TORCH])}"


def _tell(sentence: str) -> None:
    print(f"dynexplore: {sentence}", file=sys.stderr)


def check(name: str, value: object) -> None:
    """Raise ConfigError, naming what would be right, unless `name` is an option and `value` fits it."""
    if name not in OPTIONS:
        raise ConfigError(_no_option(name))
    if not any(_fits(value, option_type) for option_type in OPTIONS[name]):
        raise ConfigError(f"option {name!r} takes {type_text(name)}, not {type(value).__name__} ({value!r})")
    if name in _TUPLES and not all(isinstance(item, _TUPLES[name][0]) for item in typing.cast("tuple[object]", value)):
        raise ConfigError(f"option {name!r} takes {type_text(name)}, not {value!r}")
    if name == "logs" and (wrong := [part for part in typing.cast("tuple[str, ...]", value) if part not in LOG_PARTS]):
        raise ConfigError(f"there is no part {wrong[0]!r} of logs{instead(wrong[0], [*LOG_PARTS, *_PARTS_IN_TORCH])}")
    if name == "artifacts":
        check_parts(typing.cast("tuple[str, ...]", value))
    if name == "log_level" and value not in LOG_LEVELS:
        raise ConfigError(f"option 'log_level' takes one of {', '.join(LOG_LEVELS)}, not {value!r}")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ConfigError(f"option {name!r} takes one of {', '.join(map(repr, _CHOICES[name]))}, not {value!r}")
    if name.endswith("_limit") and isinstance(value, int) and value < 1:
        raise ConfigError(f"option {name!r} takes a number of at least 1, not {value}")


def check_parts(parts: tuple[str, ...]) -> None:
    """Raise ConfigError for what is none of ARTIFACT_PARTS."""
    for part in parts:
        if part not in ARTIFACT_PARTS:
            raise ConfigError(f"there is no artefact {part!r}{instead(part, ARTIFACT_PARTS)}")


def type_text(name: str) -> str:
    """The types that an option takes, in words: "bool or None"."""
    if name in _TUPLES:
        return f"tuple of {_TUPLES[name][1]}"
    return " or ".join("None" if option_type is type(None) else option_type.__name__ for option_type in OPTIONS[name])


def _fits(value: object, option_type: type) -> bool:
    # bool is an int to Python, but `cache_size_limit = True` is a mistake
    return type(value) is bool if option_type is bool else isinstance(value, option_type) and type(value) is not bool


def _option_types() -> dict[str, tuple[type, ...]]:
    accepted: dict[str, tuple[type, ...]] = {}
    for name, hint in typing.get_type_hints(Config).items():
        parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        accepted[name] = tuple(typing.get_origin(part) or part for part in parts)
    return accepted


def from_environment(environment: Mapping[str, str], tell: Callable[[str], None] = _tell) -> dict[str, Any]:
    """Return the options that the DYNEXPLORE_* variables set, or where one is not set, that of the same name in torch.

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
    """The options that a list of levels and parts sets; a word that is neither is told, and left out."""
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
            tell(f"DYNEXPLORE_LOGS names {word!r}, which is left out{instead(word, (*LOG_LEVELS, *LOG_PARTS))}")
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
"""Every option and the types it takes."""

DEFAULTS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Config)}
"""Every option and its default."""

config = Config()
"""The options of this process."""

config.reset()
