"""engine/records.py: dataclasses that compile nothing before they are used, and the same records, made quickly."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import pytest

from dynexplore.engine import events as ev
from dynexplore.engine.records import quick, record

pytestmark = pytest.mark.plain("makes records by hand")


@record()
class Place:
    """A frozen record."""

    file: str
    line: int = 0
    note: str = dataclasses.field(default="", compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class UsualPlace:
    """What `Place` is compared with."""

    file: str
    line: int = 0
    note: str = dataclasses.field(default="", compare=False, repr=False)


@record(frozen=False)
class Pile:
    """A record that may change."""

    name: str
    rows: list[int] = dataclasses.field(default_factory=list)


VIEW = ev.ValueView(1, "TensorVariable", "float32[2] cpu", "x", "x")
STEP = {"frame": 1, "attempt": 2, "offset": 4, "inline": 0, "step": 3, "op": "LOAD_FAST", "arg": "x", "stack": (VIEW,)}


@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (ev.InstructionStepped, STEP),
        (ev.ValueView, {"id": 1, "kind": "k", "text": "t"}),
        (ev.AttemptStarted, {"frame": 1, "attempt": 1}),
    ],
)
def test_it_makes_what_the_class_makes(cls: type[ev.Event], values: dict[str, object]) -> None:
    """Equal, of the same class, with the same defaults, hash and text, and pickled the same."""
    made, usual = quick(cls)(**values), cls(**values)  # type: ignore[arg-type]
    assert type(made) is cls and made == usual and hash(made) == hash(usual) and repr(made) == repr(usual)
    assert pickle.loads(pickle.dumps(made)) == usual


def test_what_it_makes_is_frozen() -> None:
    """Nobody can change it, as any other record."""
    made = quick(ev.InstructionStepped)(**STEP)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.op = "POP_TOP"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.op


def test_a_missing_field_is_an_error() -> None:
    """A field without a default must be given."""
    with pytest.raises(TypeError, match="step"):
        quick(ev.InstructionStepped)(frame=1, attempt=1, offset=1, inline=0)


def test_a_record_does_what_a_dataclass_does() -> None:
    """Text, equality, hash, defaults, copies, pickles, `replace` and patterns are those of a frozen dataclass with slots."""
    place, usual = Place("a.py", note="x"), UsualPlace("a.py", note="x")
    assert repr(place) == repr(usual).replace("Usual", "") == "Place(file='a.py', line=0)"
    assert place == Place("a.py") != Place("b.py") and place != usual and hash(place) == hash(Place("a.py")) == hash(usual)
    assert copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == place
    assert dataclasses.replace(place, line=3) == Place("a.py", 3) and dataclasses.asdict(place) == dataclasses.asdict(usual)
    match place:
        case Place(file, line):
            assert (file, line) == ("a.py", 0)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'line'"):
        place.line = 4  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'line'"):
        del place.line
    assert not hasattr(place, "__dict__") and Place.__slots__ == UsualPlace.__slots__
    assert str(inspect.signature(Place)) == "(file, line=0, note='')"


def test_a_record_that_may_change() -> None:
    """Each has a list of its own, it can be assigned to, and has no hash."""
    first, second = Pile("a"), Pile("a")
    first.rows.append(1)
    second.name = "b"
    assert (first, second) == (Pile("a", [1]), Pile("b")) and first != second
    with pytest.raises(TypeError, match="unhashable"):
        hash(first)


def test_nothing_is_compiled_before_the_first_use() -> None:
    """The methods that name the fields are written together, when one of them is called; a subclass with its own finds them."""

    @record(kw_only=True)
    class Base:
        first: int
        second: int = 2

    class Derived(Base):
        def __init__(self, first: int) -> None:
            super().__init__(first=first)

    begun = Base.__init__, Base.__eq__, Base.__hash__
    assert Derived(1).second == 2 and Base.__init__ is not begun[0]
    assert all(now is not before for now, before in zip((Base.__init__, Base.__eq__, Base.__hash__), begun, strict=True))
    with pytest.raises(TypeError, match="positional argument"):
        Base(1)  # type: ignore[misc]
