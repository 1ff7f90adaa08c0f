"""engine/runtime/optimized.py: a wrapper is what it wraps, but that its calls are captured."""

from __future__ import annotations

import abc
import copy
import functools
import gc
import inspect
import pickle
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dynexplore
from engine_checks import CountingBackend, graphs_compiled

X = torch.arange(6.0).reshape(2, 3)


def scale(x: torch.Tensor, /, factor: float = 2.0, *more: float, power: int = 1, **rest: float) -> torch.Tensor:
    """Scale x."""
    for one in (*more, *rest.values()):
        x = x + one
    return x * factor**power


@dynexplore.optimize()
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Net(torch.nn.Module):
    """A small model."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(size, size)
        self.register_buffer("offset", torch.ones(size))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + self.offset

    @property
    def weight(self) -> torch.Tensor:
        return self.linear.weight

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.offset


class Registry(type):
    """A metaclass of a program that keeps a list of its classes."""

    known: list[str] = []

    def __new__(mcs, name: str, bases: Any, namespace: Any) -> Any:
        mcs.known.append(name)
        return super().__new__(mcs, name, bases, namespace)


# -- functions ------------------------------------------------------------------------------------------------


def test_a_wrapped_function_keeps_its_face() -> None:
    """Name, docstring, module, signature and attributes are those of the function, which stands in __wrapped__."""
    wrapped = dynexplore.optimize()(scale)
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__module__) == ("scale", "Scale x.", __name__)
    assert wrapped.__qualname__ == "scale" and wrapped.__wrapped__ is scale
    assert inspect.signature(wrapped) == inspect.signature(scale)
    assert inspect.unwrap(wrapped) is scale


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((3.0,), {}), ((3.0, 4.0, 5.0), {}), ((), {"power": 2, "factor": 3.0}), ((1.0,), {"a": 1.0, "b": 2.0})],
)
def test_every_kind_of_argument_arrives(args: Any, kwargs: Any) -> None:
    """Positional, keyword, *args and **kwargs reach the function as without the wrapper."""
    wrapped = dynexplore.optimize()(scale)
    assert torch.equal(wrapped(X, *args, **kwargs), scale(X, *args, **kwargs))
    assert graphs_compiled() == 1


def test_wrong_arguments_raise_what_the_function_raises() -> None:
    """A call that does not fit raises the function's own TypeError; the next, which fits, is captured."""
    wrapped = dynexplore.optimize()(scale)
    with pytest.raises(TypeError, match=r"scale\(\) missing 1 required positional argument: 'x'"):
        wrapped()
    wrapped(X)
    assert graphs_compiled() == 1


def test_methods() -> None:
    """A decorated method binds, as do classmethods and staticmethods; a bound method can be wrapped by itself."""
    backend = CountingBackend()
    optimize = dynexplore.optimize(backend)

    class Thing:
        def __init__(self) -> None:
            self.by = 3.0

        @optimize
        def method(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

        @optimize
        @classmethod
        def of_class(cls, x: torch.Tensor) -> torch.Tensor:
            return x + len(cls.__name__)

        @staticmethod
        @optimize
        def static(x: torch.Tensor) -> torch.Tensor:
            return x - 1

        def plain(self, x: torch.Tensor) -> torch.Tensor:
            return x / self.by

    thing = Thing()
    assert torch.equal(thing.method(X), X * 3) and torch.equal(Thing.method(thing, X), X * 3)
    assert torch.equal(thing.of_class(X), X + 5) and torch.equal(Thing.static(X), X - 1)
    assert torch.equal(optimize(thing.plain)(X), X / 3)
    assert backend.targets() == [["mul"], ["add"], ["sub"], ["truediv"]]


def test_functions_without_code_to_look_at() -> None:
    """A torch function, one of torch.nn.functional, a partial, a lambda and a callable object are captured."""

    class Callable:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 5

    for function in (torch.sin, F.relu, functools.partial(scale, factor=3.0), lambda x: x - 1, Callable()):
        backend = CountingBackend()
        assert torch.equal(dynexplore.optimize(backend)(function)(X), function(X)), function
        assert len(backend.graphs) == 1, function


def test_a_function_decorated_by_torch_is_captured_through() -> None:
    """@torch.no_grad() puts a wrapper of torch around a function: the function in it is captured."""
    backend = CountingBackend()
    weight = torch.ones(3, requires_grad=True)

    @dynexplore.optimize(backend)
    @torch.no_grad()
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * weight

    assert torch.equal(f(X), X) and not f(X).requires_grad and torch.is_grad_enabled()
    assert len(backend.graphs) == 1


def test_wrapped_functions_copy_and_pickle_as_functions_do() -> None:
    """A copy is the same object; a pickle is the name."""
    assert copy.copy(decorated) is copy.deepcopy(decorated) is pickle.loads(pickle.dumps(decorated)) is decorated
    assert torch.equal(decorated(X), X + 1) and graphs_compiled() == 1
    holder = torch.nn.Identity()
    holder.f = decorated
    assert copy.deepcopy(holder).f is decorated


def undecorated(x: torch.Tensor) -> torch.Tensor:
    return x * 3


renamed = dynexplore.optimize("eager", nopython=True)(undecorated)


def test_a_wrapper_that_has_another_name_than_its_function_pickles_too() -> None:
    """It is loaded as the same function, optimized with the same backend and options; copies of it run in the same region."""
    for loaded in (pickle.loads(pickle.dumps(renamed)), copy.deepcopy(renamed)):
        assert loaded.region is renamed.region and loaded.__wrapped__ is undecorated
        assert torch.equal(loaded(X), X * 3)
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_generators_and_coroutines_run_plain() -> None:
    """Calling a wrapped generator function makes the generator; its body is not captured. One that consumes it is."""
    backend = CountingBackend()

    @dynexplore.optimize(backend)
    def numbers(x: torch.Tensor) -> Any:
        yield x + 1
        yield x + 2

    assert [value.sum().item() for value in numbers(X)] == [21.0, 27.0] and backend.graphs == []

    @dynexplore.optimize(backend)
    async def later(x: torch.Tensor) -> Any:
        return x + 1

    with pytest.raises(StopIteration) as stopped:
        later(X).send(None)
    assert torch.equal(stopped.value.value, X + 1) and backend.graphs == []
    assert torch.equal(dynexplore.optimize(backend)(lambda x: sum(numbers(x)))(X), X * 2 + 3)
    assert len(backend.graphs) == 1


# -- modules --------------------------------------------------------------------------------------------------


def test_an_optimized_module_is_a_module_of_its_class() -> None:
    """isinstance, parameters, state_dict, repr, attributes and properties are the original's."""
    module = Net()
    optimized = dynexplore.optimize()(module)
    assert isinstance(optimized, Net) and isinstance(optimized, torch.nn.Module) and type(optimized) is not Net
    assert type(optimized).__name__ == "Net" and repr(optimized) == repr(module)
    assert list(optimized.state_dict()) == list(module.state_dict()) == ["offset", "linear.weight", "linear.bias"]
    assert [id(p) for p in optimized.parameters()] == [id(p) for p in module.parameters()]
    assert optimized.weight is module.linear.weight and optimized.__dict__ is module.__dict__


def test_its_calls_are_captured_as_one_graph() -> None:
    """Calling it captures forward through Module.__call__; values and gradients are eager's."""
    backend = CountingBackend()
    module = Net()
    optimized = dynexplore.optimize(backend)(module)
    expected = module(X)
    assert torch.equal(optimized(X), expected) and torch.equal(optimized(x=X), expected)
    assert backend.targets()[0] == ["linear", "relu", "add"]
    optimized(X).sum().backward()
    assert module.linear.weight.grad is not None


def test_its_forward_is_captured_and_runs_no_hooks() -> None:
    """`forward` called by name runs in the region as well, as eager does: without the module's hooks, with its signature."""
    backend = CountingBackend()
    module = Net()
    optimized = dynexplore.optimize(backend)(module)
    seen: list[str] = []
    module.register_forward_hook(lambda *_: seen.append("hook"))
    assert torch.equal(optimized.forward(X), module.forward(X)) and torch.equal(optimized.forward(x=X), module.forward(X))
    assert not seen and backend.targets()[0] == ["linear", "relu", "add"]
    assert inspect.signature(optimized.forward) == inspect.signature(module.forward)
    assert torch.equal(optimized(X), module.forward(X)) and seen == ["hook"]
    optimized.forward(X).sum().backward()
    assert module.linear.weight.grad is not None


def test_a_forward_set_on_the_instance_is_the_one_that_runs() -> None:
    """What a program puts in place of `forward`, before or after, is what a call by name reaches."""
    module = Net()
    optimized = dynexplore.optimize()(module)
    optimized.forward(X)
    module.forward = lambda x: x + 5  # type: ignore[method-assign]
    assert torch.equal(optimized.forward(X), X + 5) and torch.equal(optimized(X), X + 5)
    del module.forward
    assert torch.equal(optimized.forward(X), module(X))
    assert graphs_compiled() == 2


def test_its_forward_is_inlined_in_another_function() -> None:
    """A compiled function that calls `forward` of an optimized module by name has one graph with both."""
    backend = CountingBackend()
    optimized = dynexplore.optimize()(Net())

    def f(x: torch.Tensor) -> torch.Tensor:
        return optimized.forward(x) * 2

    assert torch.equal(dynexplore.optimize(backend)(f)(X), f(X))
    assert backend.targets() == [["linear", "relu", "add", "mul"]]


def test_other_tracers_see_the_forward_of_the_original() -> None:
    """torch.fx traces an optimized module as it traces the original, and nothing is compiled meanwhile."""
    module = Net()
    optimized = dynexplore.optimize()(module)
    traced = torch.fx.symbolic_trace(optimized)
    assert torch.equal(traced(X), module(X)) and graphs_compiled() == 0
    assert torch.equal(optimized(X), module(X)) and graphs_compiled() == 1


def test_what_is_set_on_either_reaches_the_other() -> None:
    """Attributes, parameters, training mode, hooks and `to` act on both, and calls see them."""
    module = Net()
    optimized = dynexplore.optimize()(module)
    optimized(X)
    optimized.calls = 7
    module.name = "m"
    assert module.calls == 7 and optimized.name == "m"
    optimized.eval()
    assert not module.training and not module.linear.training
    optimized.offset = torch.zeros(3)
    assert torch.equal(optimized(X), module(X)) and not module.offset.any()
    seen: list[str] = []
    handle = optimized.register_forward_hook(lambda *_: seen.append("hook"))
    optimized(X)
    handle.remove()
    optimized(X)
    assert seen == ["hook"]
    optimized.to(torch.float64)
    assert module.linear.weight.dtype == torch.float64
    assert torch.equal(optimized(X.double()), module(X.double()))
    del optimized.name
    assert not hasattr(module, "name")
    assert graphs_compiled() == 4


def test_it_pickles_as_the_plain_original(tmp_path: Any) -> None:
    """pickle and torch.save write the original, which loads where dynexplore is not in use."""
    module = Net()
    optimized = dynexplore.optimize()(module)
    optimized(X)
    assert type(optimized) is not Net and graphs_compiled() == 1
    loaded = pickle.loads(pickle.dumps(optimized))
    assert type(loaded) is Net and torch.equal(loaded(X), module(X))
    torch.save(optimized, tmp_path / "model.pt")
    assert type(torch.load(tmp_path / "model.pt", weights_only=False)) is Net


def test_a_deep_copy_is_an_optimized_copy() -> None:
    """deepcopy and copy give modules that are captured, with parameters of their own (deepcopy) or shared (copy)."""
    backend = CountingBackend()
    module = Net()
    optimized = dynexplore.optimize(backend)(module)
    deep, shallow = copy.deepcopy(optimized), copy.copy(optimized)
    assert isinstance(deep, Net) and deep.linear.weight is not module.linear.weight
    assert shallow.linear is module.linear
    with torch.no_grad():
        deep.linear.weight.zero_()
    assert not torch.equal(deep(X), module(X)) and torch.equal(shallow(X), module(X))
    assert len(backend.graphs) == 2
    both = copy.deepcopy([module, optimized])
    assert both[0].linear.weight is both[1].linear.weight


def test_an_optimized_part_of_a_module() -> None:
    """A submodule that is optimized in place keeps the names of the whole; alone it is captured for itself."""
    backend = CountingBackend()
    model = torch.nn.Sequential(Net(), Net())
    names = list(model.state_dict())
    expected = model(X)
    model[0] = dynexplore.optimize(backend)(model[0])
    assert list(model.state_dict()) == names and torch.equal(model(X), expected)
    assert len(backend.graphs) == 1
    whole = CountingBackend()
    assert torch.equal(dynexplore.optimize(whole)(model)(X), expected)
    assert whole.targets() == [["linear", "relu", "add"] * 2] and len(backend.graphs) == 1


def test_each_wrapper_of_a_module_has_its_own_entries() -> None:
    """Two instances of one class do not share an entry code object, so their caches and limits are their own."""
    backend = CountingBackend()
    first, second = (dynexplore.optimize(backend)(Net()) for _ in range(2))
    for module in (first, second, first, second):
        module(X)
    assert len(backend.graphs) == 2 and dynexplore.counters["stats"]["recompiles"] == 0


def test_classes_of_the_program_do_not_notice() -> None:
    """Neither __init_subclass__ nor a metaclass hears of the generated class; abstract classes work."""
    heard: list[str] = []

    class DeferredEvent(Net):
        def __init_subclass__(cls, *, needed: int) -> None:
            heard.append(cls.__name__)

    class Kept(Net, metaclass=Registry):
        pass

    class Abstract(Net, abc.ABC):
        @abc.abstractmethod
        def unit(self) -> str: ...

    class Concrete(Abstract):
        def unit(self) -> str:
            return "m"

    known = list(Registry.known)
    for cls in (DeferredEvent, Kept, Concrete):
        module = cls()
        optimized = dynexplore.optimize()(module)
        assert isinstance(optimized, cls) and torch.equal(optimized(X), module(X))
        assert type(optimized) is not cls
    assert graphs_compiled() == 3
    assert heard == [] and Registry.known == known
    assert isinstance(optimized, Abstract) and not isinstance(Net(), Abstract)


def test_a_script_module_stays_what_it_is() -> None:
    """TorchScript is compiled already; the module that it was made of is not."""
    module = torch.nn.Linear(3, 3)
    with pytest.warns((DeprecationWarning, FutureWarning)):  # the second since torch 2.14
        scripted = torch.jit.script(module)
    assert dynexplore.optimize()(scripted) is scripted
    assert dynexplore.optimize()(module) is not module


def test_methods_of_modules_can_be_optimized() -> None:
    """A bound method of a module is captured by itself."""
    backend = CountingBackend()
    module = Net()
    assert torch.equal(dynexplore.optimize(backend)(module.shifted)(X), X + 1)
    assert backend.targets() == [["add"]]


# -- life -----------------------------------------------------------------------------------------------------


def gone(*references: weakref.ref[Any]) -> bool:
    """Whether all these objects are freed. Code objects hide what hangs on them, so that takes more than one round."""
    for _ in range(3):
        gc.collect()
    return all(reference() is None for reference in references)


@pytest.mark.parametrize("named", [True, False])
def test_dropping_a_function_frees_it_and_its_graphs(named: bool) -> None:
    """Function, wrapper, graph and what its closure holds go, also when the backend lives on."""
    graphs: list[weakref.ref[Any]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(weakref.ref(graph))
        return graph.forward

    # a function whose code object nobody else holds
    namespace = {"offset": torch.ones(3), "dynexplore": dynexplore}
    exec("def f(x):\n    x = x + offset\n    dynexplore.graph_break()\n    return x * 2\n", namespace)
    f: Any = namespace["f"]
    offset: Any = namespace["offset"]
    wrapped = dynexplore.optimize("eager" if named else backend)(f)
    wrapped(X), wrapped(X[:1]), wrapped(X)
    assert graphs_compiled() == 4
    references = [weakref.ref(f), weakref.ref(wrapped), weakref.ref(offset), weakref.ref(f.__code__)]
    del f, wrapped, offset, namespace
    assert gone(*references, *graphs)


def test_dropping_a_module_frees_it_and_its_graphs() -> None:
    """Module, wrapper, parameters and graphs go, although the code of its class and the backend live on."""
    graphs: list[weakref.ref[Any]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(weakref.ref(graph))
        return graph.forward

    module = Net()
    wrapped = dynexplore.optimize(backend)(module)
    wrapped(X), dynexplore.optimize(backend)(module.shifted)(X), dynexplore.optimize(backend)(module.forward)(X)
    references = [weakref.ref(module), weakref.ref(wrapped), weakref.ref(module.linear.weight)]
    del module, wrapped
    assert gone(*references, *graphs) and graphs


def test_dropping_a_backend_frees_it_and_what_it_compiled() -> None:
    """A backend function, object or bound method goes with its graphs, although the function lives on."""

    class Backend:
        def __init__(self) -> None:
            self.graphs: list[Any] = []

        def __call__(self, graph: Any, inputs: Any) -> Any:
            self.graphs.append(graph)
            return graph.forward

        def compile(self, graph: Any, inputs: Any) -> Any:
            return self(graph, inputs)

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def function(graph: Any, inputs: Any) -> Any:
        held.append(graph)
        return graph.forward

    held: list[Any] = []
    one, two = Backend(), Backend()
    for backend in (one, two.compile, function):
        dynexplore.optimize(backend)(f)(X)
    references = [weakref.ref(one), weakref.ref(two), weakref.ref(function)]
    references += [weakref.ref(graph) for graph in (one.graphs[0], two.graphs[0], held[0])]
    del one, two, function, backend
    held.clear()
    assert gone(*references)


def test_inputs_of_a_call_are_not_kept() -> None:
    """Neither the first call's arguments nor later ones live on in guards, graphs or entries."""
    wrapped = dynexplore.optimize()(scale)
    references = []
    for size in (3, 4, 5):
        x = torch.ones(2, size, requires_grad=True)
        y = wrapped(x, 3.0)
        references += [weakref.ref(x), weakref.ref(y)]
        del x, y
    assert graphs_compiled() == 2
    assert gone(*references)
