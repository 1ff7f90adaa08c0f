"""engine/config.py: options are typed, patched and read from the environment."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dynexplore.engine.config import DEFAULTS, OPTIONS, Config, config, from_environment
from dynexplore.engine.errors import ConfigError

pytestmark = pytest.mark.plain("options, their types and the environment")


def test_the_options_people_rely_on_are_there() -> None:
    """Every option of the public contract exists with its default."""
    c = Config()
    assert (c.cache_size_limit, c.dynamic_shapes, c.suppress_errors, c.log_level) == (8, None, True, "WARNING")
    for name in (
        "specialize_int specialize_float capture_scalar_outputs capture_dynamic_output_shape_ops verbose debug "
        "traceable_tensor_subclasses verify_correctness raise_engine_errors output_code"
    ).split():
        assert name in OPTIONS
    assert c.as_dict() == DEFAULTS


def test_an_unknown_option_names_the_right_ones() -> None:
    """Setting or patching an unknown name is a ValueError that suggests the nearest and lists all."""
    with pytest.raises(ConfigError, match="no option 'debg'; did you mean 'debug'.*cache_size_limit") as caught:
        config.debg = True  # type: ignore[attr-defined]
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ConfigError, match=r"no option 'zzz'\. The options are: cache_size_limit, "):
        config.patch(zzz=1)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("debug", 1, r"takes bool, not int \(1\)"),
        ("cache_size_limit", True, "takes int, not bool"),
        ("cache_size_limit", "8", "takes int, not str"),
        ("cache_size_limit", 0, "at least 1, not 0"),
        ("dynamic_shapes", 1, "takes bool or None, not int"),
        ("log_level", "LOUD", "one of ERROR, WARNING, INFO, DEBUG, not 'LOUD'"),
        ("traceable_tensor_subclasses", [int], "takes tuple of classes, not list"),
        ("traceable_tensor_subclasses", (1,), "takes tuple of classes"),
    ],
)
def test_a_wrong_value_says_what_would_be_right(name: str, value: object, says: str) -> None:
    """A value of a wrong type, or out of range, is refused with the type that fits, and nothing is changed."""
    before = config.as_dict()
    with pytest.raises(ConfigError, match=says):
        setattr(config, name, value)
    with pytest.raises(ConfigError, match=says):
        config.patch({name: value})
    assert config.as_dict() == before


def test_patch_is_undone_even_by_an_exception() -> None:
    """A patch holds for its block, nests, and ends with the block however that ends."""
    with config.patch(debug=True, cache_size_limit=2):
        assert config.debug and config.cache_size_limit == 2
        with pytest.raises(RuntimeError), config.patch({"cache_size_limit": 3}):
            assert config.cache_size_limit == 3
            raise RuntimeError
        assert config.cache_size_limit == 2
    assert not config.debug and config.cache_size_limit == 8


def test_patch_decorates_functions() -> None:
    """A decorated function runs with the options, also when it calls itself, and keeps its name."""

    @config.patch(cache_size_limit=5)
    def limits(depth: int) -> list[int]:
        return [config.cache_size_limit, *(limits(depth - 1) if depth else [])]

    assert limits(2) == [5, 5, 5] and limits.__name__ == "limits" and config.cache_size_limit == 8


def test_one_patch_can_be_entered_twice() -> None:
    """The same patch object nests in itself."""
    patch = config.patch(debug=True)
    with patch, patch:
        assert config.debug
    assert not config.debug


def test_options_are_not_deleted() -> None:
    """Deleting an option is refused."""
    with pytest.raises(ConfigError, match="cannot be deleted"):
        del config.debug


def test_the_environment_sets_options() -> None:
    """The four variables set their options; empty and 0 mean no."""
    assert from_environment({}) == {}
    assert from_environment({"DYNEXPLORE_DISABLE": "1", "DYNEXPLORE_DEBUG_FUNCTION": "toy"}) == {
        "disable": True,
        "debug_function": "toy",
    }
    assert from_environment({"DYNEXPLORE_DISABLE": "0", "DYNEXPLORE_DEBUG": ""}) == {"disable": False, "debug": False}
    assert from_environment({"DYNEXPLORE_LOGS": " debug , bytecode,guards "}) == {
        "log_level": "DEBUG",
        "logs": ("bytecode", "guards"),
    }


def test_the_environment_is_read_at_import() -> None:
    """A process started with DYNEXPLORE_DISABLE=1 has the engine off."""
    code = "from dynexplore.engine.config import config; print(config.disable, config.log_level)"
    environment = {"DYNEXPLORE_DISABLE": "1", "DYNEXPLORE_LOGS": "info", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True INFO\n"


def test_a_wrong_word_in_the_environment_is_named() -> None:
    """DYNEXPLORE_LOGS with a word that is neither level nor part is refused, listing both."""
    with pytest.raises(ConfigError, match="DYNEXPLORE_LOGS.*'guarsd'.*bytecode"):
        from_environment({"DYNEXPLORE_LOGS": "guarsd"})
