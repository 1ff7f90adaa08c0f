"""Frames that an exception abandons are gone: what is asked of "this frame" next is asked of the one that caught it."""

from __future__ import annotations

import dis
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.translate.translator import Translator
from engine_checks import assert_same_as_eager

X = torch.ones(2)
LOG: list[Any] = []


class Hooked:
    """Each look at an attribute is a Python frame."""

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Missing:
    """An attribute that is not there costs a frame that raises."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class Raising:
    """A property that raises."""

    @property
    def nn(self) -> Any:
        raise AttributeError("nn")


class Base:
    v: Any = 0

    def __init__(self) -> None:
        self.v = 7

    def scaled(self, x):
        return x * self.v


class AsksHasattr(Base):
    def __init__(self, config: Any) -> None:
        hasattr(config, "nn")
        super().__init__()


class AsksWithDefault(Base):
    def __init__(self, config: Any) -> None:
        self.w = getattr(config, "nn", 2)
        super().__init__()


class Tries(Base):
    def __init__(self, config: Any) -> None:
        try:
            config.nn
        except AttributeError:
            super().__init__()


class AsksLater(Base):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def scaled(self, x):
        hasattr(self.config, "nn")
        return super().scaled(x)


@pytest.mark.parametrize("config", [Hooked, Missing, Raising], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("asks", [AsksHasattr, AsksWithDefault, Tries, AsksLater], ids=lambda cls: cls.__name__)
def test_super_after_an_attribute_that_was_not_found(config: Any, asks: Any) -> None:
    """`super()` means the method that calls it, though an inlined look at an attribute raised before."""
    given = config()

    def scales(x):
        return asks(given).scaled(x)

    assert_same_as_eager(scales, X, calls=2, graphs=1, breaks=0, recompiles=0)


def yields_then_raises(x):
    yield x + 1
    raise ValueError("generator")


class Walks(Base):
    def scaled(self, x):
        try:
            for part in yields_then_raises(x):
                x = part
        except ValueError:
            return super().scaled(x)
        return x


class Throws(Base):
    def scaled(self, x):
        made = yields_then_raises(x)
        x = next(made)
        try:
            made.throw(KeyError("thrown"))
        except KeyError:
            return super().scaled(x)
        return x


class Enters:
    def __enter__(self) -> None:
        raise KeyError("enter")

    def __exit__(self, *exc: object) -> None:
        LOG.append(exc)


class Goes(Base):
    def scaled(self, x):
        try:
            with Enters():
                return x
        except KeyError:
            return super().scaled(x)


class Compares(Base):
    def __eq__(self, other: object) -> bool:
        raise TypeError("eq")

    __hash__ = None  # type: ignore[assignment]

    def scaled(self, x):
        try:
            self in [1]
        except TypeError:
            return super().scaled(x)
        return x


@pytest.mark.parametrize("cls", [Walks, Throws, Goes, Compares], ids=lambda cls: cls.__name__)
def test_super_after_any_frame_that_raised(cls: Any) -> None:
    """The same after an exception out of a generator, out of `__enter__` and out of an operator of the program."""

    def scales(x):
        return cls().scaled(x)

    assert_same_as_eager(scales, X, calls=2, graphs=1, breaks=0, recompiles=0)


def raises_again(x):
    try:
        raise KeyError("outer")
    except KeyError:
        hasattr(Missing(), "nn")
        try:
            raise
        except KeyError as error:
            return x * len(error.args[0])


def test_the_handled_exception_after_an_abandoned_frame() -> None:
    """A bare `raise` finds the exception of the frame that it stands in."""
    assert_same_as_eager(raises_again, X, calls=2, graphs=1, breaks=0)


def breaks_after(x):
    hasattr(Missing(), "nn")
    x = x + 1
    print("here")
    return x * 2


def test_a_break_after_an_abandoned_frame_names_the_line_that_broke() -> None:
    """The stack of a break holds the frames that run, and none that an exception left."""
    dynexplore.reset()
    recording = dynexplore.explain(breaks_after)(X).recording
    stacks = {tuple(frame.function for frame in event.user_stack) for event in recording.events if isinstance(event, ev.GraphBroke)}
    assert stacks == {("breaks_after",)}
    assert_same_as_eager(breaks_after, X, graphs=2, breaks=1)


def throws_stop_iteration(x):
    made = yields_then_raises(x)
    try:
        made.throw(StopIteration("early"))
    except RuntimeError as error:
        return x * 2, str(error)
    return x, ""


def test_stop_iteration_thrown_into_a_generator_that_has_not_begun() -> None:
    """Whether it becomes a RuntimeError there, too (PEP 479), is not the same on each Python: Python throws it."""
    try:
        throws_stop_iteration(X)
        graphs = 1  # as on 3.11, and the product is computed
    except StopIteration:
        graphs = 0
    assert_same_as_eager(throws_stop_iteration, X, graphs=graphs)


def leaves_the_frame_on_the_stack(self: Any, frame: Any, thrown: Any = None) -> bool:
    """What `Translator.interpret` would be if a frame that an exception leaves stayed."""
    self.frames.running.append(frame)
    finished = self._take_steps(frame, thrown)
    self.frames.running.pop()
    return finished


def test_the_second_opinion_flags_a_frame_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it did, the real run beside the capture would say so, at the call that caught the exception and at `super()`."""
    config = Hooked()

    def scales(x):
        return AsksHasattr(config).scaled(x)

    dynexplore.reset()
    assert dynexplore.explain(scales)(X).recording.divergences == ()
    monkeypatch.setattr(Translator, "interpret", leaves_the_frame_on_the_stack)
    dynexplore.reset()
    found = dynexplore.explain(scales)(X).recording.divergences
    assert found[0].aspect == "frame that runs"
    assert found[0].expected == "AsksHasattr.__init__"
    assert found[0].actual == "Hooked.__getattribute__"
    assert any(one.aspect.endswith("of super()") for one in found) or not super_is_a_call()


def super_is_a_call() -> bool:
    """Whether `super()` is a CALL without arguments, as before Python 3.12."""
    return "super" in AsksHasattr.__init__.__code__.co_names and "LOAD_SUPER_ATTR" not in dis.opmap


class Watched(dict[str, Any]):
    """It notes what is read of it, and has methods beside those of dict."""

    def __getattribute__(self, name: str) -> Any:
        LOG.append(name)
        return object.__getattribute__(self, name)

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)

    def pop(self, key: str) -> Any:
        return super().pop(key)


def reads_an_item(watched: Any, x: Any) -> Any:
    y = x + 1
    try:
        return y * watched["v"], LOG[:]
    except KeyError:
        return y * 2, LOG[:]


def takes_an_item(watched: Any, x: Any) -> Any:
    y = x + 1
    try:
        return y * watched.pop("v"), LOG[:]
    except KeyError:
        return y * 2, LOG[:]


@pytest.mark.parametrize("held", [{}, {"v": 3}])
@pytest.mark.parametrize("program", [reads_an_item, takes_an_item])
def test_a_method_of_a_base_that_raises_is_not_looked_up_again(program: Any, held: dict[str, int]) -> None:
    """`super().__getitem__` is dict's behind a break, too: neither the program's own, nor read through its `__getattribute__`."""
    assert_same_as_eager(program, Watched(held), X, calls=2, setup=LOG.clear, observe=lambda: LOG)


class Prints(torch.nn.Module):
    """Breaks in `forward`, in a line of its own."""

    def forward(self, x):
        y = x.sin()
        print("forward")
        return y.cos()


class PrintsBelow(torch.nn.Module):
    """Breaks in a module that `forward` calls."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Prints()

    def forward(self, x):
        return self.inner(x.exp()) + 1


def with_hooks() -> torch.nn.Module:
    module = Prints()
    module.register_forward_hook(lambda module, args, output: output * 2)
    return module


class PrintsInACall:
    """An object that is called: `__call__` breaks."""

    def __call__(self, x):
        y = x.sin()
        print("called")
        return y.cos()


@pytest.mark.parametrize("make", [Prints, PrintsBelow, with_hooks, PrintsInACall])
def test_an_entry_does_not_report_the_break_of_its_callee(make):
    """Optimized directly, a module reports one break, at its own line, as does a function that calls it; the values are eager's."""
    target = make()
    for call in (target, lambda x: target(x)):
        dynexplore.reset()
        (broke,) = dynexplore.explain(call)(X).recording.breaks
        assert (broke.kind, broke.user_stack[-1].code.strip()[:6]) == ("DX206", "print(")
        assert torch.equal(dynexplore.optimize("eager")(call)(X), target(X))
        assert dynexplore.counters["graph_break"] == {"printing or logging (function: print)": 1}


def test_an_entry_reports_what_its_callee_does_not():
    """With `nopython` the exception names the break, and so does the recording."""
    with pytest.raises(dynexplore.exc.Unsupported, match="printing or logging"):
        dynexplore.optimize("eager", nopython=True)(Prints())(X)
