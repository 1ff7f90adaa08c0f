"""tools/frame_rebuild.py: what was saved comes back as it was."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import io
import json
import re
import types
import weakref
from typing import Any, Generic, NamedTuple, TypeVar

import pytest
import torch

from dynexplore.engine.errors import ReplayError
from dynexplore.tools.frame_rebuild import Missing, Rebuilt
from dynexplore.tools.frame_values import SavedValues


def there_and_back(**values: Any) -> dict[str, Any]:
    """Through JSON and a file of tensors that is loaded with weights_only."""
    saved = SavedValues()
    references = {name: saved.add(value, name) for name, value in values.items()}
    packed = io.BytesIO()
    torch.save(saved.tensors, packed)
    packed.seek(0)
    rebuilt = Rebuilt(json.loads(json.dumps(saved.rows)), torch.load(packed, weights_only=True))
    return {name: rebuilt.value(json.loads(json.dumps(reference))) for name, reference in references.items()}


@pytest.mark.plain("makes values from rows")
def test_tensors_keep_what_they_share() -> None:
    """Storage, strides, requires_grad, gradients, leaves, attributes, Parameters."""
    x = torch.randn(3, 4)
    leaf = torch.ones(2, requires_grad=True)
    leaf.grad = torch.full((2,), 3.0)
    leaf.mark = "hers"  # type: ignore[attr-defined]
    back = there_and_back(
        x=x, t=x.t(), row=x[1], wide=torch.ones(2, 1).expand(2, 5), leaf=leaf, made=leaf * 2, p=torch.nn.Parameter(x[0], False)
    )
    assert back["t"].stride() == (1, 4) and torch.equal(back["t"], back["x"].t())
    back["x"][1] = 9.0
    assert back["row"].eq(9).all() and back["p"].data_ptr() == back["x"].data_ptr()
    assert back["wide"].stride() == (1, 0) and back["leaf"].is_leaf and back["leaf"].grad.tolist() == [3, 3]
    assert back["leaf"].mark == "hers" and back["leaf"].requires_grad
    assert not back["made"].is_leaf and back["made"].requires_grad
    back["made"].add_(1)  # as with the first one, and unlike with a leaf
    assert isinstance(back["p"], torch.nn.Parameter) and not back["p"].requires_grad


T = TypeVar("T")


class Pair(NamedTuple):
    first: int
    second: Any


@dataclasses.dataclass
class Settings:
    size: int = 3
    names: list[str] = dataclasses.field(default_factory=list)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    def lower(self) -> str:
        return self.name.lower()


class Slotted:
    __slots__ = ("a", "b")


class Base(torch.nn.Module, Generic[T]):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.same = self.linear
        self.settings = Settings(4, ["n"])
        self.register_buffer("offset", torch.arange(3.0))

    @property
    def scale(self) -> float:
        return 2.0

    @staticmethod
    def plus(x: Any) -> Any:
        return x + 1

    @functools.cached_property
    def tail(self) -> int:
        return 5

    def forward(self, x: Any) -> Any:
        return self.plus(self.linear(x) + self.offset) * self.scale * self.tail


class Model(Base[int]):
    def forward(self, x: Any) -> Any:
        return super().forward(x) if Colour.RED.lower() == "red" else x


for made_here in (Pair, Settings, Colour, Slotted, Base, Model):
    made_here.__module__ = "__main__"  # as in a script: another process cannot import them
    for held in vars(made_here).values():
        function = getattr(held, "__func__", held)
        if isinstance(function, types.FunctionType) and not function.__module__.startswith(("torch", "typing", "enum")):
            function.__module__ = "__main__"


@pytest.mark.plain("makes values from rows")
def test_a_module_of_a_script() -> None:
    """Its classes, with super(), properties, dataclasses and enums; what was shared still is; an optimizer goes on."""
    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    back = there_and_back(model=model, optimizer=optimizer, ref=weakref.ref(model), method=model.forward, cls=Model)
    made = back["model"]
    assert type(made) is back["cls"] and type(made) is not Model and made.linear is made.same and back["ref"]() is made
    assert back["method"].__self__ is made and made.settings.names == ["n"]
    assert back["optimizer"].param_groups[0]["params"][0] is made.linear.weight
    optimizer.step(), back["optimizer"].step()
    assert torch.equal(made(torch.ones(2, 3)), model(torch.ones(2, 3)))
    assert made.training and list(made.state_dict()) == list(model.state_dict())


@pytest.mark.plain("makes values from rows")
def test_plain_things() -> None:
    """Containers, numbers, names, objects: equal, and of the same type."""
    slotted = Slotted()
    slotted.a = [1]  # type: ignore[attr-defined]
    values = {
        "numbers": [1, -(10**2000), 1.5, float("inf"), 2 + 1j, b"x", bytearray(b"y"), True, None, ...],
        "containers": (1, {2}, frozenset({3}), {4: (5,)}, collections.deque([1], 2), collections.OrderedDict(a=1), range(3)),
        "default": collections.defaultdict(list, a=[1]),
        "names": [torch.float16, torch.device("cpu"), torch.Size([2]), torch.add, len, Exception, slice(1, 2), dataclasses.MISSING],
        "pattern": re.compile("a+"),
        "pair": Pair(1, [2]),
        "colour": Colour.BLUE,
    }
    back = there_and_back(**values, slotted=slotted, partial=functools.partial(max, 3))
    assert {name: back[name] for name in values if name not in ("pair", "colour")} == {
        name: value for name, value in values.items() if name not in ("pair", "colour")
    }
    assert tuple(back["pair"]) == (1, [2]) and back["pair"].second == [2] and back["colour"].lower() == "blue"
    assert back["slotted"].a == [1] and back["partial"](2) == 3


@pytest.mark.plain("makes values from rows")
def test_circles() -> None:
    """A list in itself; a function that calls itself; an object that knows its owner."""
    loop: list[Any] = [1]
    loop.append(loop)

    def count(n: int) -> int:
        return n and 1 + count(n - 1)

    parent, child = Slotted(), Slotted()
    parent.a, child.a = child, parent  # type: ignore[attr-defined]
    back = there_and_back(loop=loop, count=count, parent=parent)
    assert back["loop"][1] is back["loop"] and back["count"](4) == 4 and back["parent"].a.a is back["parent"]


@pytest.mark.plain("makes values from rows")
def test_what_is_missing_says_so() -> None:
    """When it is asked for something."""
    missing = there_and_back(x=[one for one in [(n for n in ())]])["x"][0]
    assert isinstance(missing, Missing) and repr(missing).startswith("<x[0] (generator) was not saved")
    with pytest.raises(AttributeError, match="was not saved with the frame: cannot pickle 'generator'"):
        missing.send
    with pytest.raises(TypeError, match="was not saved"):
        missing()


@pytest.mark.plain("makes values from rows")
def test_what_is_not_there_any_more() -> None:
    """A module or a name that cannot be imported is one sentence."""
    with pytest.raises(ReplayError, match="the frame needs the module 'no_such_module', which cannot be imported here"):
        Rebuilt([{"kind": "import", "module": "no_such_module", "name": ""}], {}).value(0)
    with pytest.raises(ReplayError, match="needs math.no_such_name, which no longer exists"):
        Rebuilt([{"kind": "import", "module": "math", "name": "no_such_name"}], {}).value(0)
    with pytest.raises(ReplayError, match="unknown kind 'spell'"):
        Rebuilt([{"kind": "spell"}], {}).value(0)
