"""A `__getattribute__` of the program runs as often as in eager: guards, trackers and modified code read past it."""

from __future__ import annotations

import functools
import importlib.util
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.raw_attributes import (
    has_python_getattribute,
    instance_dict,
    keys_of,
    literal_text,
    own_attribute,
    plain_attribute,
    values_of,
)
from engine_checks import assert_same_as_eager

LOG: list[str] = []
ANY = range(1, 5)


def asked(base: type[Any], **more: Any) -> type[Any]:
    """A class whose instances note each attribute that is asked of them."""

    def ask(self: Any, name: str) -> Any:
        LOG.append(name)
        return object.__getattribute__(self, name)

    return type("Asked", (base,), {"v": 2, "__getattribute__": ask, **more})


def class_attribute(x: torch.Tensor, host: Any) -> torch.Tensor:
    """Read what the class has."""
    return x * host.v


def own(x: torch.Tensor, host: Any) -> torch.Tensor:
    """Read what the object has: a tensor is an input of the graph."""
    return x * host.own


def missing(x: torch.Tensor, host: Any) -> torch.Tensor:
    """Ask for what nobody has."""
    return x * (1 + hasattr(host, "nothing"))


def stored(x: torch.Tensor, host: Any) -> torch.Tensor:
    """Set an attribute and read it."""
    host.new = x + 1
    return x * host.new


HOST: list[Any] = []


def start(make: Callable[[], Any]) -> Callable[[], None]:
    """What begins a side: a new object, of which nothing has been asked."""

    def setup() -> None:
        torch.manual_seed(0)
        HOST[:] = [make()]
        LOG.clear()

    return setup


def noted() -> list[str]:
    """What the object was asked for."""
    return list(LOG)


def host_of(base: type[Any]) -> Any:
    """An instance that has a tensor of its own."""
    made = asked(base)()
    instance_dict(made)["own"] = torch.ones(3)
    return made


@pytest.mark.parametrize("base", [object, dict, torch.nn.Module, torch.nn.ReLU])
@pytest.mark.parametrize("function", [class_attribute, own, missing, stored])
def test_an_attribute_hook_runs_as_often_as_in_eager(function: Callable[..., Any], base: type[Any]) -> None:
    """Neither guards nor trackers nor modified code run the program's `__getattribute__`."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return function(x, HOST[0])

    x = torch.arange(3.0)
    assert_same_as_eager(call, x, then=[(x,), (x,)], setup=start(lambda: host_of(base)), observe=noted, graphs=ANY)


class Net(torch.nn.Module):
    """A module that notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = torch.nn.ReLU()
        self.register_buffer("kept", torch.ones(3))
        self.weight = torch.nn.Parameter(torch.ones(3))

    def __getattribute__(self, name: str) -> Any:
        LOG.append(name)
        return super().__getattribute__(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Use one of each."""
        return self.relu(x) * self.kept + self.weight


USES: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "call": lambda x, net: net(x),
    "parameters": lambda x, net: x * len(list(net.parameters())),
    "get_parameter": lambda x, net: net.get_parameter("weight") * x,
    "add_module": lambda x, net: net.add_module("more", net.relu) or net.more(x),
    "register_buffer": lambda x, net: net.register_buffer("more", x * 1) or x * net.more,
    "setattr": lambda x, net: setattr(net, "kept", x + 1) or net.kept,
    "delattr": lambda x, net: delattr(net, "weight") or x * hasattr(net, "weight"),
    "eval": lambda x, net: net.eval()(x),
}


@pytest.mark.parametrize("use", USES)
def test_what_modules_do_in_python_asks_a_hook_of_the_class(use: str) -> None:
    """Module's own functions are answered without being run only where nobody hears what they ask."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return USES[use](x, HOST[0])

    assert_same_as_eager(call, torch.arange(3.0), setup=start(Net), observe=noted, graphs=ANY)


class Hidden:
    """A property stands before what the object's own dictionary has."""

    def __init__(self) -> None:
        self.__dict__["own"] = torch.ones(3)

    @property
    def own(self) -> int:
        """Something else."""
        return 5


def test_what_a_property_hides_is_loaded_from_the_dictionary() -> None:
    """`vars(obj)["own"]` is the dictionary's, whatever the class says about the name."""
    assert_same_as_eager(lambda x, host: x * vars(host)["own"] + host.own, torch.arange(3.0), Hidden())


@pytest.mark.plain("asks the functions that look, which need no capture")
def test_classes_without_a_hook_of_their_own() -> None:
    """Slots of C are no code of the program."""
    assert not any(map(has_python_getattribute, (int, type, torch.Tensor, torch.nn.Module, Hidden)))
    assert has_python_getattribute(Net)


@pytest.mark.plain("asks the functions that look, which need no capture")
def test_attributes_are_read_past_the_hook() -> None:
    """What C reads, and what the dictionary has."""
    host = asked(object)()
    instance_dict(host)["own"] = 1
    LOG.clear()
    assert (plain_attribute(host, "v"), own_attribute(host, "own")) == (2, 1)
    assert not LOG


def test_isinstance_of_a_base_does_not_ask_for_the_class() -> None:
    """`__class__` is asked only where the type itself does not answer."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return x * (1 + isinstance(HOST[0], torch.nn.Module)) + isinstance(HOST[0], dict)

    assert_same_as_eager(call, torch.ones(2), setup=start(Net), observe=noted)


def test_a_guard_on_the_content_of_a_dict_does_not_ask_for_its_truth() -> None:
    """`not d` would run a `__bool__` of the program, `len(d)` the one that is known to be the C type's."""

    class Doubtful(dict[str, int]):
        def __bool__(self) -> bool:
            LOG.append("bool")
            return False

    def call(x: torch.Tensor) -> torch.Tensor:
        return x * (1 + len(HOST[0]))

    x = torch.ones(2)
    assert_same_as_eager(call, x, then=[(x,), (x,)], setup=start(Doubtful), observe=noted)


def test_a_method_of_the_c_type_stays_one_across_a_break() -> None:
    """`super().update` as a value is the dict's, also where the class has an `update` of its own."""

    class Own(dict[str, int]):
        def update(self, *given: Any) -> None:  # type: ignore[override]
            LOG.append("own")

        def fill(self) -> None:
            method = super().update
            print("a break")
            method({"a": 1})

    def call(x: torch.Tensor) -> Any:
        HOST[0].fill()
        return x * 2, dict(HOST[0])

    assert_same_as_eager(call, torch.ones(2), setup=start(Own), observe=noted, graphs=ANY)


def test_isinstance_goes_by_the_bases_whatever_metaclass_they_have() -> None:
    """`__class__` is asked where the type does not answer; a metaclass without an `__instancecheck__` changes nothing."""

    class Meta(type):
        pass

    class Base(metaclass=Meta):
        pass

    def call(x: torch.Tensor) -> torch.Tensor:
        return x * (1 + isinstance(HOST[0], Base)) + isinstance(HOST[0], Other)

    class Other(metaclass=Meta):
        pass

    assert_same_as_eager(call, torch.ones(2), setup=start(lambda: host_of(Base)), observe=noted, graphs=ANY)


def test_an_object_that_is_not_traced_is_asked_for_its_class_by_python() -> None:
    """A dict with an `__iter__` of its own has no tracker: what it says of its `__class__` is not known."""

    class Walked(dict[str, int]):
        def __iter__(self) -> Any:
            return iter(())

    class Other:
        pass

    def call(x: torch.Tensor) -> torch.Tensor:
        return x * (1 + isinstance(HOST[0], Other)) + (HOST[0].__class__ is dict)

    assert_same_as_eager(call, torch.ones(2), setup=start(lambda: asked(Walked)()), observe=noted, graphs=ANY)


@pytest.mark.parametrize("where", ["argument", "item", "attribute", "global", "closure"])
def test_an_object_beside_the_program_is_not_asked_for_its_class(where: str) -> None:
    """Whether a frame has tensors, and how its values are guarded, goes by types alone."""
    host = asked(object)()
    box = asked(object)()
    instance_dict(box)["host"] = host

    def frame(x: torch.Tensor, value: Any) -> torch.Tensor:
        print("a break")
        return x * 2

    def call(x: torch.Tensor) -> Any:
        value = {"argument": host, "item": [{"a": host}], "attribute": box, "global": HOST[0], "closure": host}[where]
        return frame(x, value), plain(value)

    def plain(value: Any) -> int:
        return 5

    x = torch.ones(2)
    assert_same_as_eager(call, x, then=[(x,), (x + 1,)], setup=start(lambda: host), observe=noted, graphs=ANY)


# -- what looking may not do to objects of C -----------------------------------------------------------------------------


def another_partial() -> Any:
    """The class `partial` of a second `_functools`, of which the engine knows nothing."""
    spec = importlib.util.find_spec("_functools")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.partial


def test_an_object_of_c_gets_no_dictionary() -> None:
    """CPython joins a partial of a partial only where the inner one has no `__dict__`."""
    partial = another_partial()

    def nested() -> Any:
        inner = partial(max, 1)
        outer = partial(inner, 2)
        return outer.args

    def calls(x: torch.Tensor) -> Any:
        y = x + 1
        return y, nested()

    assert partial is not functools.partial
    assert_same_as_eager(calls, torch.ones(2), graphs=1)


class Collides:
    """Keys of one hash, which note with which other key they are compared."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        LOG.append(f"{self.name} == {getattr(other, 'name', other)}")
        return self is other


@pytest.mark.parametrize("cls", [dict, OrderedDict, type("Own", (OrderedDict,), {})])
def test_keys_are_not_compared(cls: Any) -> None:
    """An OrderedDict's own walk looks each key up again: the engine reads keys and values in their order without it."""
    keys = [Collides(name) for name in "abcd"]
    mapping = cls((key, key.name) for key in keys)
    mapping["text"] = "e"
    del mapping[keys[1]]
    if isinstance(mapping, OrderedDict):
        mapping.move_to_end(keys[0])
    names = "cdea" if isinstance(mapping, OrderedDict) else "acde"
    LOG.clear()
    assert [getattr(key, "name", "e") for key in keys_of(mapping)] == list(names)
    assert values_of(mapping) == list(names)
    assert not LOG

    def length(x: torch.Tensor, mapping: Any) -> Any:
        y = x + 1  # a graph also where the keys end it
        return y + len(mapping)

    dynexplore.reset()
    optimized = dynexplore.optimize("eager")(length)
    assert [optimized(torch.zeros(1), mapping).item() for _ in range(2)] == [5, 5]
    assert dynexplore.counters["stats"]["graphs"] >= 1
    assert not LOG


def test_a_long_number_is_written_without_the_library() -> None:
    """`_pylong`, which Python may use for one and which a program may replace, is not called."""
    number = 7**5000

    def fn(x: torch.Tensor, given: int) -> Any:
        return x + 1, given == number, (given, 1)

    assert literal_text(number) == hex(number)
    assert_same_as_eager(fn, torch.ones(2), number, graphs=1, breaks=0)
