"""engine/config.py: options are typed, patched and read from the environment."""

from __future__ import annotations

import logging
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
    """Setting or patching an unknown name is a ValueError that says the nearest, or where none is near lists all."""
    with pytest.raises(ConfigError, match=r"there is no option 'debg'; did you mean 'debug'\?$") as caught:
        config.debg = True  # type: ignore[attr-defined]
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ConfigError, match="there is no option 'zzz'; there are: cache_size_limit, "):
        config.patch(zzz=1)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("debug", 1, r"takes bool, not int \(1\)"),
        ("cache_size_limit", True, "takes int, not bool"),
        ("cache_size_limit", "8", "takes int, not str"),
        ("cache_size_limit", 0, "at least 1, not 0"),
        ("dynamic_shapes", 1, "takes bool or None, not int"),
        ("logs", ("guarsd",), r"there is no part 'guarsd' of logs; did you mean 'guards'\?$"),
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


WORDS = "ERROR, WARNING, INFO, DEBUG, bytecode, graph, guards, breaks, steps, recompiles"
LEFT_OUT = "DYNEXPLORE_LOGS names 'guarsd', which is ignored; did you mean 'guards'?"


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"DYNEXPLORE_LOGS": "guarsd,bytecode"}, LEFT_OUT),
        ({"DYNEXPLORE_LOGS": "zzz"}, f"DYNEXPLORE_LOGS names 'zzz', which is ignored; there are: {WORDS}"),
        ({"TORCHDYNAMO_REPRO_LEVEL": "3"}, "option 'repro_level' takes one of 2, 4, not 3 (from an environment variable)"),
    ],
)
def test_what_the_environment_says_wrong_is_one_sentence(variables: dict[str, str], says: str) -> None:
    """A word that is neither level nor part, or a value that does not fit, is told and left out; importing goes on."""
    code = "from dynexplore.engine.config import config; print(config.repro_level)"
    done = subprocess.run([sys.executable, "-c", code], env={**variables, "PATH": ""}, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("4\n", f"dynexplore: {says}\n")


def test_torchs_names_of_environment_variables() -> None:
    """TORCHDYNAMO_* count where ours are not set; what torch alone has is none of our business."""
    assert from_environment({"TORCHDYNAMO_DISABLE": "1", "TORCHDYNAMO_VERBOSE": "1", "TORCHDYNAMO_EXTENDED_ADVICE": "1"}) == {
        "disable": True,
        "verbose": True,
    }
    assert from_environment({"TORCHDYNAMO_DISABLE": "1", "DYNEXPLORE_DISABLE": "0"}) == {"disable": False}
    assert from_environment({"TORCHDYNAMO_REPRO_AFTER": "aot"}) == {"repro_after": "aot"}


def test_torchs_names_of_logs() -> None:
    """What TORCH_LOGS calls the same things."""
    assert from_environment({"DYNEXPLORE_LOGS": "recompiles,graph_breaks,guards"}) == {"logs": ("recompiles", "breaks", "guards")}
    assert from_environment({"DYNEXPLORE_LOGS": "+dynamo,graph_code"}) == {"log_level": "DEBUG", "logs": ("graph",)}
    with config.patch(logs=("graph_breaks",)):
        assert config.logs == ("breaks",)
    with pytest.raises(ConfigError, match="there is no part 'guarsd' of logs; did you mean 'guards'"):
        config.patch(logs=("guarsd",))


def test_torchs_names_of_options() -> None:
    """`recompile_limit` is `cache_size_limit`: read, set, patched in each way."""
    with config.patch(recompile_limit=3):
        assert config.recompile_limit == config.cache_size_limit == 3
    with config.patch("recompile_limit", 4):
        config.recompile_limit = 5
        assert config.cache_size_limit == 5
    assert config.cache_size_limit == 8
    with pytest.raises(ConfigError, match="no option 'recompile_limits'; did you mean 'recompile_limit'"):
        config.recompile_limits = 5  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no option 'debg'; did you mean 'debug'"):
        config.debg


def test_log_levels_may_be_loggings_numbers() -> None:
    """`log_level = logging.INFO` is "INFO"; a number between levels is refused."""
    with config.patch(log_level=logging.INFO):
        assert config.log_level == "INFO"
    with pytest.raises(ConfigError, match="one of ERROR, WARNING, INFO, DEBUG, not 'Level 15'"):
        config.patch(log_level=15)


def test_a_class_is_listed_and_taken_off_as_from_a_set() -> None:
    """`traceable_tensor_subclasses` has `add` and `remove`; each class is on it once."""
    with config.patch(traceable_tensor_subclasses=(int,)):
        config.traceable_tensor_subclasses.add(str)
        config.traceable_tensor_subclasses.add(str)
        assert config.traceable_tensor_subclasses == (int, str)
        config.traceable_tensor_subclasses.remove(int)
        assert config.traceable_tensor_subclasses == (str,)
        with pytest.raises(KeyError):
            config.traceable_tensor_subclasses.remove(int)
    assert config.traceable_tensor_subclasses == ()
