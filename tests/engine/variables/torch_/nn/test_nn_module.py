"""nn.Modules in traced code: what they hold, how they are called, and what must be noticed about them, against eager."""

from __future__ import annotations

import copy
import functools
import gc
import operator
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
import torch.nn.utils.prune
from programs.program_table import Programs
from torch import Tensor, nn

import dynexplore
from dynexplore.engine.variables.torch_.nn.nn_module import HOOKS
from engine_checks import CountingBackend, assert_same_as_eager, graphs_compiled

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(12.0).reshape(3, 4) / 10


class Net(nn.Module):
    """Parameters, buffers, submodules, plain attributes, None entries."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.register_parameter("nothing", None)
        self.factor = 3
        self.sizes = [1, 2]
        self.names = {"a": 1}
        self.shape = (2, 2)
        self.activation = F.relu
        self.extra = torch.ones(4)

    def forward(self, x: Any) -> Any:
        x = self.activation(self.linear(x)) * self.weight + self.scale * self.factor
        if self.nothing is not None:
            x = x + self.nothing
        return self.norm(x) * self.sizes[1] + self.names["a"] + self.extra * self.shape[0]


class Holder(nn.Module):
    """Containers of modules and parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.table = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.stack = nn.Sequential(OrderedDict(first=nn.Linear(4, 4), second=nn.GELU()))
        self.weights = nn.ParameterList([nn.Parameter(torch.full((4,), float(n))) for n in range(3)])
        self.by_name = nn.ParameterDict({"w": nn.Parameter(torch.ones(4))})
        self.plain = [nn.Linear(4, 4), nn.Dropout(0.5)]

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        for index, layer in enumerate(self.layers[1:]):
            x = layer(x) + index
        x = self.layers[-1](self.layers[0](x))
        for name, module in self.table.items():
            x = module(x) if name in self.table else x
        x = self.table["relu"](x)
        x = self.stack(x)
        x = self.stack[1](self.stack.first(x))
        for weight in self.weights:
            x = x + weight
        x = x + self.weights[1] * self.by_name["w"]
        x = self.plain[1](self.plain[0](x))
        return x, len(self.layers), len(self.table), len(self.stack), len(self.weights), list(self.table), "tanh" in self.table


class Child(Net):
    """A subclass that calls up, with a property and a static method."""

    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Linear(4, 4)

    @property
    def total(self) -> Any:
        return self.weight.sum() + self.scale.sum()

    @staticmethod
    def twice(x: Any) -> Any:
        return x * 2

    @functools.cached_property
    def cached(self) -> Any:
        return self.factor + 1

    def forward(self, x: Any) -> Any:
        return self.more(super().forward(x)) * self.total + self.twice(x) + self.cached


@pytest.mark.parametrize("module", [Net, Holder, Child])
@pytest.mark.parametrize("training", [True, False])
def test_a_module(module: type[nn.Module], training: bool) -> None:
    """A module is one graph, with the values and gradients of eager."""
    assert_same_as_eager(module().train(training), X, graphs=None, breaks=0, calls=2)


# -- what modules are asked --------------------------------------------------------------------------------------------


class Asked(nn.Module):
    """Walks over its own tree."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.again = self.a
        self.register_buffer("kept", torch.ones(4))
        self.register_buffer("not_kept", torch.ones(4), persistent=False)

    def forward(self, x: Any) -> Any:
        found = {
            "parameters": [tuple(p.shape) for p in self.parameters()],
            "named": [name for name, _ in self.named_parameters()],
            "own": [name for name, _ in self.named_parameters(recurse=False)],
            "prefixed": [name for name, _ in self.named_parameters(prefix="p")],
            "buffers": [name for name, _ in self.named_buffers()],
            "children": [type(m).__name__ for m in self.children()],
            "named children": [name for name, _ in self.named_children()],
            "modules": [type(m).__name__ for m in self.modules()],
            "named modules": [name for name, _ in self.named_modules()],
            "has": (hasattr(self, "a"), hasattr(self, "z"), getattr(self, "z", None), "a" in self._modules),
            "is": (self.again is self.a, self.a in list(self.children()), isinstance(self.a, nn.Linear), self.a.in_features),
            "training": (self.training, self.b[1].training),
            "sub": type(self.get_submodule("b.0")).__name__,
            "registries": (list(self._parameters), list(self._buffers), [k for k, v in self._modules.items()]),
            "len": (len(self._modules), len(self.b), bool(self.b)),
        }
        total = x
        for parameter in self.parameters():
            total = total + parameter.sum()
        for buffer in self.buffers():
            total = total + buffer.sum()
        for module in self.modules():
            if isinstance(module, nn.Linear):
                total = total + module.weight.mean() + module.bias.sum()
        norm = sum(p.norm() for p in self.parameters() if p.requires_grad)
        device = next(self.parameters()).device
        return total, norm, found, device, next(self.parameters()).dtype


@pytest.mark.parametrize("training", [True, False])
def test_walks_over_a_module(training: bool) -> None:
    """What a module is asked about its tree is answered while tracing."""
    assert_same_as_eager(Asked().train(training), X, graphs=1, breaks=0)


# -- changes inside ----------------------------------------------------------------------------------------------------


class Changing(nn.Module):
    """Buffers, counters, caches and lists that change in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running", torch.zeros(4))
        self.register_buffer("steps", torch.tensor(0))
        self.norm = nn.BatchNorm1d(4)
        self.count = 0
        self.cache = None
        self.history: list[Any] = []

    def forward(self, x: Any) -> Any:
        self.count += 1
        self.steps += 1
        self.running = self.running * 0.9 + x.mean(0) * 0.1
        self.cache = x * 2 if self.cache is None else self.cache + x
        self.history.append(self.norm(x))
        self.last = x
        return self.running + self.cache.sum() * self.count, len(self.history)


def test_a_module_that_changes() -> None:
    """What forward changes in the module is changed after it, call by call."""
    module = Changing()
    assert_same_as_eager(module, X, breaks=0, calls=5)


def test_a_counter_stops_recompiling() -> None:
    """A module's int that grows and a buffer that is replaced at each call make a bounded number of graphs."""
    module = Changing()
    del module.history
    type(module).history = property(lambda self: [])  # not what is tested
    try:
        counting = CountingBackend()
        compiled = dynexplore.optimize(counting)(module)
        for _ in range(10):
            compiled(X)
        assert len(counting.graphs) == 3
    finally:
        del type(module).history


class OldStyle(nn.Module):
    """Calls up by the name of the class."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.act = nn.Sequential(nn.ReLU(), nn.Tanh())
        self.more = nn.ModuleList([nn.ReLU()])
        self.more.append(nn.Sigmoid())
        self.add_module("last", nn.Identity())

    def forward(self, x: Any) -> Any:
        for module in (*self.more[1:], self.last, self.act[:1], self.act):
            x = module(x)
        return x * len(self.more)


class Makes(nn.Module):
    """Modules without parameters made in forward; modules replaced in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.MSELoss()
        self.act: nn.Module = nn.ReLU()

    def forward(self, x: Any) -> Any:
        y = nn.Softmax(dim=-1)(x) + nn.Identity()(x) + OldStyle()(x)
        self.act = nn.Tanh() if isinstance(self.act, nn.ReLU) else nn.ReLU()
        return self.loss(self.act(y), x), nn.CrossEntropyLoss()(x, torch.tensor([0, 1, 2]))


def test_modules_made_in_forward() -> None:
    """A module without parameters may be made while tracing."""
    assert_same_as_eager(Makes(), X, breaks=0, calls=3)


# -- calls -------------------------------------------------------------------------------------------------------------


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.seen: list[str] = []

    def forward(self, x: Any) -> Any:
        return self.linear(x) + 1


def test_hooks_run() -> None:
    """Forward hooks and pre-hooks of a module and its submodules run inside the graph."""
    module = Hooked()
    module.linear.register_forward_hook(lambda m, args, out: out * 2)
    module.linear.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    module.register_forward_hook(lambda m, args, kwargs, out: out + kwargs.get("bias", 1), with_kwargs=True)
    assert_same_as_eager(module, X, graphs=1, breaks=0)


class Calls(nn.Module):
    """A class with a `__call__` of its own, methods called directly, forward replaced on the instance."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.other = nn.Linear(4, 4)
        self.other.forward = types.MethodType(lambda self, x: F.linear(x, self.weight) * 5, self.other)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs) * 2

    def forward(self, x: Any, *, flag: bool = False) -> Any:
        return self.helper(self.linear.forward(x)) + self.other(x) if flag else x

    def helper(self, x: Any) -> Any:
        return x + self.linear.bias


def test_ways_of_calling() -> None:
    """`__call__` of the class, forward of the instance, methods: each is what eager calls."""
    assert_same_as_eager(Calls(), X, graphs=1, breaks=0, flag=True)


class Forgiving(nn.Module):
    """`__getattr__` of its own, on top of the module's."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, x: Any) -> Any:
        return self.inner(x) + self.weight.sum() + self.in_features


def test_a_getattr_of_its_own() -> None:
    """A module whose `__getattr__` asks another module."""
    assert_same_as_eager(Forgiving(nn.Linear(4, 4)), X, graphs=1, breaks=0)


LINEAR = nn.Linear(4, 4)


@program(X, graphs=1, ops=4)
def a_global_module(x):
    return LINEAR(x) + LINEAR.weight.sum() + F.linear(x, LINEAR.weight)


@program(X, nn.Linear(4, 4), [nn.ReLU(), nn.Tanh()], {"a": nn.Sigmoid()}, graphs=1, ops=5)
def modules_as_arguments(x, linear, activations, table):
    for activation in activations:
        x = activation(linear(x))
    return table["a"](x), linear.weight, linear.in_features


@program(X, graphs=1, ops=5)
def functions_of_modules(x):
    def block(module, y):
        return module(y) + module.bias

    return block(LINEAR, x), [m(x) for m in (LINEAR, nn.ReLU())], (lambda m: m(x))(LINEAR)


@PROGRAMS.parameters()
def test_program(run):
    """The program does under the engine what it does without, in as many graphs as expected."""
    run()


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.rnn = getattr(nn, kind)(4, 5, num_layers=2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.rnn(x)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers(kind: str) -> None:
    """Recurrent layers are one graph."""
    assert_same_as_eager(Recurrent(kind), torch.randn(2, 3, 4), graphs=1, breaks=0)


LAYERS = {
    "conv": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, padding_mode="circular", padding=1),
        nn.GroupNorm(2, 4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
        nn.Softmax(dim=1),
    ),
    "upsampling": lambda: nn.Sequential(
        nn.ConvTranspose2d(3, 4, 2, stride=2),
        nn.InstanceNorm2d(4),
        nn.LeakyReLU(0.1),
        nn.Upsample(scale_factor=2),
        nn.PixelShuffle(2),
        nn.ZeroPad2d(1),
        nn.AvgPool2d(2),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [True, False])
def test_layers_of_torch(name: str, training: bool) -> None:
    """Layers of torch.nn are inlined: one graph of operators."""
    assert_same_as_eager(LAYERS[name]().train(training), torch.randn(2, 3, 8, 8), graphs=1, breaks=0, calls=2)


@pytest.mark.parametrize("training", [True, False])
def test_a_transformer_layer(training: bool) -> None:
    """Attention, dropout and feed-forward layers are one graph."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1).train(training)
    assert_same_as_eager(layer, torch.randn(2, 5, 8), graphs=1, breaks=0, calls=2)


# -- what must be noticed ----------------------------------------------------------------------------------------------


class Small(nn.Module):
    """A tree of two levels with everything that can change."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.BatchNorm1d(4))
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("buffer", torch.ones(4))
        self.maybe: Any = None
        self.factor = 2
        self.sizes = [1, 2]
        self.act: Any = torch.relu

    def forward(self, x: Any) -> Any:
        x = self.act(self.inner(x)) * self.weight + self.buffer
        if self.training:
            x = x + 100
        if self.maybe is not None:
            x = x + self.maybe
        if self.inner[0].bias is not None:
            x = x + self.inner[0].bias
        return x * self.factor + sum(self.sizes) + self.helper()

    def helper(self) -> Any:
        return len(self.inner)


def _replace_weight(m: Small) -> None:
    m.inner[0].weight = nn.Parameter(torch.full((4, 4), 0.5))


def _extend(m: Small) -> None:
    m.inner.append(nn.Linear(4, 4, bias=False))
    nn.init.ones_(m.inner[3].weight)


CHANGES: dict[str, Any] = {
    "train": lambda m: m.train(),
    "eval of a child": lambda m: m.inner[2].eval(),
    "training set by hand": lambda m: setattr(m.inner[1], "training", True),
    "a parameter replaced": _replace_weight,
    "a parameter replaced by assignment to data": lambda m: setattr(m.weight, "data", torch.full((4,), 7.0)),
    "a parameter changed in place": lambda m: m.weight.data.mul_(3),
    "a parameter of another size": lambda m: setattr(m, "weight", nn.Parameter(torch.ones(1))),
    "a parameter removed": lambda m: m.inner[0].register_parameter("bias", None),
    "requires_grad of a parameter": lambda m: m.weight.requires_grad_(False),
    "a parameter frozen from the module": lambda m: m.requires_grad_(False),
    "a buffer replaced": lambda m: setattr(m, "buffer", torch.full((4,), 5.0)),
    "a buffer that became a parameter": lambda m: (delattr(m, "buffer"), setattr(m, "buffer", nn.Parameter(torch.zeros(4)))),
    "a submodule replaced": lambda m: m.inner.__setitem__(0, nn.Linear(4, 4, bias=False)),
    "a submodule appended": _extend,
    "a submodule of another class": lambda m: m.inner.__setitem__(1, nn.Tanh()),
    "submodules in another order": lambda m: m.inner.__init__(m.inner[2], m.inner[0], m.inner[1]),
    "cast": lambda m: m.double(),
    "cast of a child": lambda m: m.inner.double(),
    "a forward hook": lambda m: m.inner[0].register_forward_hook(lambda *a: a[2] * 2),
    "a forward pre-hook": lambda m: m.register_forward_pre_hook(lambda mod, args: (args[0] * 3,)),
    "a global hook": lambda m: nn.modules.module.register_module_forward_hook(lambda mod, args, out: out + 1),
    "a plain attribute": lambda m: setattr(m, "factor", 5),
    "an attribute of another type": lambda m: setattr(m, "factor", torch.full((4,), 3.0)),
    "an attribute that was None": lambda m: setattr(m, "maybe", torch.ones(4)),
    "an attribute that was None becomes a number": lambda m: setattr(m, "maybe", 4),
    "a list attribute": lambda m: m.sizes.append(10),
    "a list attribute replaced": lambda m: setattr(m, "sizes", [7]),
    "a function attribute": lambda m: setattr(m, "act", torch.sigmoid),
    "a method hidden by an attribute": lambda m: setattr(m, "helper", lambda: 50),
    "forward replaced": lambda m: setattr(m, "forward", lambda x: x * 1000),
    "forward of a child replaced": lambda m: setattr(m.inner[0], "forward", lambda x: x * 1000),
    "the class": lambda m: setattr(m, "__class__", Other),
    "a method of the class": lambda m: setattr(Small, "helper", lambda self: 70),
    "forward of the class": lambda m: setattr(Small, "forward", lambda self, x: x + 5),
    "parametrized": lambda m: nn.utils.parametrize.register_parametrization(m.inner[0], "weight", Doubled()),
    "pruned": lambda m: nn.utils.prune.l1_unstructured(m.inner[0], "weight", 0.5),
    "state loaded": lambda m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}),
    "state assigned": lambda m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}, assign=True),
}


class Other(Small):
    def helper(self) -> Any:
        return 30


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


@pytest.fixture
def clean_classes() -> Any:
    """Undo what a change does to classes and to all modules."""
    kept = dict(Small.__dict__)
    hooks = dict(nn.modules.module._global_forward_hooks)
    yield
    for name in ("helper", "forward"):
        setattr(Small, name, kept[name])
    nn.modules.module._global_forward_hooks.clear()
    nn.modules.module._global_forward_hooks.update(hooks)


WAYS = [(entry, change) for entry in ("module", "argument", "another instance") for change in CHANGES] + [
    (entry, change) for entry in ("function", "closure", "attribute", "item") for change in list(CHANGES)[::5]
]


@pytest.mark.parametrize(("entry", "change"), WAYS)
@pytest.mark.usefixtures("clean_classes")
def test_changes_are_noticed(entry: str, change: str) -> None:
    """A change of a module after capture changes what the compiled function gives, as it does in eager."""
    module = Small().eval()
    compiled = ENTRIES[entry](module, dynexplore.optimize("eager"))
    module_copy = copy.deepcopy(module)
    assert torch.equal(compiled(X), module_copy(X))
    assert graphs_compiled() == (2 if entry == "another instance" else 1)
    CHANGES[change](module)
    x = X.double() if change.startswith("cast") else X
    for _ in range(2):
        expected = _outcome(lambda: copy.deepcopy(module)(x) if change not in NOT_COPIED else module(x))
        actual = _outcome(lambda: compiled(x))
        assert type(expected) is type(actual), (expected, actual)
        if isinstance(expected, torch.Tensor):
            assert torch.equal(expected, actual)
            assert expected.requires_grad == actual.requires_grad
        else:
            assert expected == actual


def _as_argument(module: nn.Module, optimize: Any) -> Any:
    fn = optimize(lambda m, x: m(x))
    return lambda x: fn(module, x)


def _after_another(module: nn.Module, optimize: Any) -> Any:
    """The entry that serves every instance, whose modules are guarded by type and content."""
    fn = optimize(lambda m, x: m(x))
    for _ in range(2):
        fn(Small().eval(), X)
    return lambda x: fn(module, x)


def _as_attribute(module: nn.Module, optimize: Any) -> Any:
    owner = types.SimpleNamespace(model=module)
    fn = optimize(lambda o, x: o.model(x))
    return lambda x: fn(owner, x)


def _as_item(module: nn.Module, optimize: Any) -> Any:
    fn = optimize(lambda modules, x: modules[0](x))
    return lambda x: fn([module], x)


ENTRIES: dict[str, Any] = {
    "module": lambda module, optimize: optimize(module),
    "function": lambda module, optimize: optimize(lambda x: module(x)),
    "closure": lambda module, optimize: optimize(functools.partial(_called, module)),
    "argument": _as_argument,
    "another instance": _after_another,
    "attribute": _as_attribute,
    "item": _as_item,
}
NOT_COPIED = {"forward replaced", "forward of a child replaced", "a method hidden by an attribute", "parametrized", "pruned"}


def _called(module: nn.Module, x: Any) -> Any:
    return module(x)


def _outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: Any) -> Any:
        print(end="")
        return self.norm(self.linear(x)) + x


class Tower(nn.Module):
    """Twelve blocks, each of which breaks: each block is a frame of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(12)])

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


def test_twelve_blocks_make_two_entries() -> None:
    """Instances of one class that come after another share one entry, whose parameters are inputs of the graph."""
    tower = Tower()
    expected = tower(X)
    counting = CountingBackend()
    compiled = dynexplore.optimize(counting)(tower)
    assert torch.equal(compiled(X), expected)
    assert len(counting.graphs) == 2
    assert torch.equal(compiled(X), expected)
    assert len(counting.graphs) == 2


def test_a_dropped_module_is_freed() -> None:
    """Neither guards nor graphs nor modified code keep a module alive."""
    module = Net()
    compiled = dynexplore.optimize("eager")(module)
    compiled(X)
    assert graphs_compiled() == 1
    alive = weakref.ref(module), weakref.ref(module.linear)
    del module, compiled
    gc.collect()
    assert [ref() for ref in alive] == [None, None]


def test_the_weights_of_a_dropped_module_are_freed_at_once() -> None:
    """No circle of the engine's own objects keeps a module or its weights until the garbage collector comes."""

    @dynexplore.optimize("eager")
    def f(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return module(x)

    module = nn.Linear(4, 4)
    f(module, X)
    assert graphs_compiled() == 1
    alive = weakref.ref(module), weakref.ref(module.weight), weakref.ref(module.bias)
    gc.collect()
    gc.disable()
    try:
        del module
        assert [ref() for ref in alive] == [None, None, None]
    finally:
        gc.enable()


def lazily_made() -> nn.Module:
    """Three modules without weights, one of them behind random numbers."""
    return nn.Sequential(nn.LazyConv1d(3, 1), nn.Dropout(0.5), nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d())


@pytest.mark.parametrize("nopython", [False, True])
def test_a_model_with_lazy_modules_is_one_graph_from_its_second_call_on(nopython: bool) -> None:
    """The first call runs plain, and draws the weights as eager does, among the program's other random numbers."""
    x = torch.ones(2, 5, 4)
    torch.manual_seed(0)
    plain = lazily_made()
    expected = [plain(x), plain(x), plain(x)]
    torch.manual_seed(0)
    counting = CountingBackend()
    compiled = dynexplore.optimize(counting, nopython=nopython)(lazily_made())
    torch.testing.assert_close(compiled(x), expected[0])
    assert not counting.graphs
    torch.testing.assert_close([compiled(x), compiled(x)], expected[1:])
    assert (len(counting.graphs), counting.runs) == (1, 2)
    torch.testing.assert_close(compiled.state_dict(), plain.state_dict())


def test_a_function_that_calls_a_lazy_model_breaks_there_once() -> None:
    """What stands around the model's first call is compiled; from the second call on there is one graph."""
    model, counting = lazily_made().eval(), CountingBackend()

    def around(x: torch.Tensor) -> torch.Tensor:
        return model(x + 1) * 2

    compiled = dynexplore.optimize(counting)(around)
    x = torch.ones(2, 5, 4)
    first = compiled(x)
    before = [node.target for graph in counting.graphs for node in graph.graph.nodes if node.op == "call_function"]
    assert before == [operator.add, operator.mul]
    torch.testing.assert_close([compiled(x), compiled(x)], [first, first])
    assert (len(counting.graphs), counting.runs) == (3, 4)
    torch.testing.assert_close(around(x), first)


def test_what_goes_on_in_a_model_behind_a_break_may_make_weights() -> None:
    """A forward that breaks before its lazy module: the rest of it runs plain once."""

    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.LazyLinear(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            dynexplore.graph_break()
            return self.last(y) * 2

    counting, model = CountingBackend(), Breaks()
    compiled = dynexplore.optimize(counting)(model)
    seen = []
    for _ in range(3):
        result = compiled(X)
        seen.append((len(counting.graphs), counting.runs))
    torch.testing.assert_close(result, model.last(X + 1) * 2)
    assert seen == [(1, 1), (2, 3), (2, 5)]


class LazyForGood(nn.modules.lazy.LazyModuleMixin, nn.Module):
    """A lazy module that keeps its class when it has its weights (`cls_to_become` is None)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.UninitializedParameter()

    def initialize_parameters(self, x: torch.Tensor) -> None:
        """Take the size from the first input."""
        self.weight.materialize((x.shape[-1],))
        nn.init.ones_(self.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [n, size]; gives [n, size]."""
        return x * self.weight


@pytest.mark.parametrize("called_before", [False, True])
def test_a_lazy_module_with_weights_is_a_module_like_any_other(called_before: bool) -> None:
    """Whether its class is a lazy one does not matter then; what does is guarded."""
    module = LazyForGood()
    if called_before:
        module(X)
    counting = CountingBackend()
    compiled = dynexplore.optimize(counting)(lambda x: module(x + 1) - 1)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), X)
    known = len(counting.graphs)
    operators = [node.target for node in counting.graphs[-1].graph.nodes if node.op.startswith("call")]
    assert operators == [operator.add, operator.mul, operator.sub]
    assert known == 1 or not called_before
    with torch.no_grad():
        module.weight.mul_(2)
    torch.testing.assert_close(compiled(X), (X + 1) * 2 - 1)
    assert len(counting.graphs) == known


def test_guarding_a_tree_runs_no_python() -> None:
    """Noticing changes is a walk in C: a warm call enters as many Python functions for 550 modules as for 50."""

    def entered(depth: int) -> int:
        module = nn.Sequential(*[nn.Identity() for _ in range(depth)])
        compiled = dynexplore.optimize("eager")(lambda x: module(x) + 1)
        compiled(X)
        events: list[str] = []
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            compiled(X)
        finally:
            sys.setprofile(None)
        return events.count("call")

    assert entered(550) == entered(50) < 50


class Chain(nn.Module):
    """So many parameters that they are passed and matched as a whole, with a buffer that the graph changes among them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(12)])
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Any, y: Any) -> Any:
        for place, layer in enumerate(self.layers):
            x = layer(x)
            if place == 5:
                x = self.norm(x) * y
        return x


def test_many_parameters_are_still_noticed() -> None:
    """Where parameters are matched as a whole, each is still compared: data, dtype, requires_grad, and being an argument, too."""
    module = Chain()
    counting = CountingBackend()
    compiled = dynexplore.optimize(counting)(module)

    def agree(*args: Any) -> bool:
        expected = copy.deepcopy(module)(*args)
        return torch.equal(compiled(*args), expected)

    y = torch.ones(4)
    assert agree(X, y)
    assert len(counting.graphs) == 1
    module.layers[3].weight.requires_grad_(False)
    assert agree(X, y)
    module.layers[7].weight.data = module.layers[7].weight.data * 2
    assert agree(X, y)
    module.layers[7].bias = nn.Parameter(torch.ones(4))
    assert agree(X, y)
    before = len(counting.graphs)
    assert agree(X, module.layers[2].bias)
    assert len(counting.graphs) > before
    module.double()
    assert agree(X.double(), y.double())


def test_objects_that_come_and_go_are_no_reason_to_translate_again() -> None:
    """After an object died that an entry relied on, those at the same place are guarded by type and content."""
    place = types.SimpleNamespace()

    def through_argument(x: Any, module: Any) -> Any:
        return module(x)

    def through_attribute(x: Any, module: Any) -> Any:
        return place.module(x)

    for function in (through_argument, through_attribute):
        counting = CountingBackend()
        compiled = dynexplore.optimize(counting)(function)
        for _ in range(6):
            place.module = module = nn.Linear(4, 4)
            assert torch.equal(compiled(X, module), module(X))
        del module
        assert len(counting.graphs) == 2


class Registered(nn.Module):
    """One parameter, one buffer, one submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.sub = nn.ReLU()
        self.register_buffer("buffer", torch.ones(4))
        self.weight = nn.Parameter(torch.ones(4))


NETS: list[nn.Module] = []


def registered() -> None:
    """A new one for each side."""
    NETS[:] = [Registered()]


@pytest.mark.parametrize("name", ["sub", "buffer", "weight"])
@pytest.mark.parametrize("again", [False, True])
def test_what_a_registry_holds_is_deleted_for_real(name: str, again: bool) -> None:
    """`del m.weight` takes it out of the registry; stored again, it goes to the end, and `None` becomes a plain attribute."""
    def fn(x: torch.Tensor) -> torch.Tensor:
        net = NETS[0]
        value = getattr(net, name)
        delattr(net, name)
        if again:
            setattr(net, name, value)
        return x * (1 + hasattr(net, name))

    def observe() -> Any:
        own = vars(NETS[0])
        return [list(own[kind]) for kind in ("_parameters", "_buffers", "_modules")], list(NETS[0].state_dict())

    assert_same_as_eager(fn, X, setup=registered, observe=observe)


def test_a_registry_loses_what_is_deleted_from_it() -> None:
    """`del m._parameters["weight"]`."""
    def fn(x: torch.Tensor) -> torch.Tensor:
        del NETS[0]._parameters["weight"]
        return x * (1 + hasattr(NETS[0], "weight"))

    assert_same_as_eager(fn, X, setup=registered, observe=lambda: list(NETS[0].state_dict()))


class Failing(torch.nn.Module):
    """A property raises AttributeError: Module.__getattr__ is asked next."""

    def __init__(self, has: bool) -> None:
        super().__init__()
        if has:
            self._buffers["p"] = torch.full((2,), 5.0)

    @property
    def p(self) -> Any:
        """Ask the base, which has none."""
        return super().p


@pytest.mark.parametrize("has", [True, False])
def test_a_property_that_fails_lets_the_registries_answer(has: bool) -> None:
    """A buffer of the same name is what there is; without one the words are those of Module.__getattr__."""
    def fn(x: torch.Tensor) -> Any:
        try:
            return x * NETS[0].p.sum()
        except AttributeError as error:
            return x * 3, str(error)

    assert_same_as_eager(fn, X[:2], setup=lambda: NETS.__setitem__(slice(None), [Failing(has)]), graphs=range(1, 3))


class Unmade(torch.nn.Module):
    """A module whose `__init__` does not run Module's."""

    def __init__(self, prints: bool) -> None:
        self.__dict__["v"] = 3
        if prints:
            print("a break")


@pytest.mark.parametrize("prints", [True, False])
@pytest.mark.parametrize("looks", [
    lambda net: getattr(net, "nn", 2), lambda net: "_modules" in net.__dict__, lambda net: [str(net.__dict__)],
    lambda net: len(list(net.children())), lambda net: setattr(net, "new", torch.nn.ReLU()),
])
def test_a_module_that_was_never_initialized_has_no_registries(looks: Any, prints: bool) -> None:
    """Made in the frame, or alive after a break: it has what its own `__init__` gave it, nothing else."""
    def fn(x: torch.Tensor) -> Any:
        net = Unmade(prints)
        try:
            return x * 2, looks(net), net.v
        except AttributeError as error:
            return x * 3, str(error)

    assert_same_as_eager(fn, X, graphs=range(5))


def test_where_an_attribute_stands_decides_how_it_is_deleted() -> None:
    """A submodule in one call, a plain attribute or nothing in another."""
    def fn(x: torch.Tensor) -> Any:
        try:
            del NETS[0].z
        except AttributeError as error:
            return x * 3, str(error)
        return x * 2

    compiled = dynexplore.optimize()(fn)
    for held in (torch.nn.ReLU(), 1, None, 1, torch.nn.ReLU()):
        outcomes = []
        for function in (fn, compiled):
            NETS[:] = [torch.nn.Module()]
            if held is not None:
                NETS[0].z = held
            outcomes.append((str(function(X)), "z" in vars(NETS[0]), list(NETS[0]._modules)))
        assert outcomes[0] == outcomes[1]
    assert graphs_compiled() >= 2


def test_the_order_of_a_registry_is_relied_on() -> None:
    """The same modules under the same names in another order: `named_parameters` gives them in that order."""
    net = torch.nn.Sequential(OrderedDict(one=torch.nn.Linear(2, 2), two=torch.nn.Linear(2, 2)))

    def fn(x: torch.Tensor) -> Any:
        return x * 2, [name for name, _ in net.named_parameters()], [name for name, _ in net.named_children()]

    compiled = dynexplore.optimize()(fn)
    assert compiled(X)[1:] == fn(X)[1:]
    net._modules["one"] = net._modules.pop("one")
    assert compiled(X)[1:] == fn(X)[1:]
    assert compiled(X)[2] == ["two", "one"]
    net.two._parameters["weight"] = net.two._parameters.pop("weight")
    assert compiled(X)[1] == fn(X)[1] == ["two.bias", "two.weight", "one.weight", "one.bias"]
    assert graphs_compiled() == 3


class _NineTimes(nn.Linear):
    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] * 9


@pytest.mark.parametrize("where", ["instance", "class"])
def test_a_call_impl_that_a_program_put_there_is_called(where: str) -> None:
    """`Module.__call__` calls `_call_impl`: one of the instance or of a subclass stands before `forward`."""
    module = Net()
    if where == "instance":
        module.linear._call_impl = lambda x: x * 9
    else:
        module.linear = _NineTimes(4, 4)
    assert_same_as_eager(module, X, calls=2)


def test_a_call_impl_that_a_class_gets_later_is_called() -> None:
    """The entry misses once the class has another one."""
    module = Net()
    optimized = dynexplore.optimize("eager")(lambda x: module(x) + 1)
    optimized(X)
    nn.Linear._call_impl = _NineTimes._call_impl  # type: ignore[method-assign]
    try:
        torch.testing.assert_close(optimized(X), module(X) + 1)
    finally:
        del nn.Linear._call_impl
    torch.testing.assert_close(optimized(X), module(X) + 1)
    assert graphs_compiled() >= 2


def test_an_attribute_of_its_own_comes_before_what_a_module_has_registered() -> None:
    """What is put into a module's `__dict__` under the name of a parameter or submodule hides it, from the next call on."""

    def calls(fn_of: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        net = nn.Sequential()
        net.first, net.second = nn.Linear(2, 2), nn.ReLU()

        def both(x: torch.Tensor) -> Any:
            return net.second(net.first(x)), net.first.bias is None, "bias" in net.first.__dict__

        fn = fn_of(both)
        results = [fn(torch.ones(2))]
        net.first.__dict__["bias"] = torch.zeros(2)
        results.append(fn(torch.ones(2)))
        object.__setattr__(net, "second", torch.sin)
        results.append(fn(torch.ones(2)))
        del net.first.__dict__["bias"], net.__dict__["second"]
        return [*results, fn(torch.ones(2))]

    eager = calls(lambda fn: fn)
    dynexplore.reset()
    assert repr(calls(dynexplore.optimize("eager"))) == repr(eager)
    assert graphs_compiled() >= 3


def test_an_average_over_a_state_dict_is_one_graph() -> None:
    """`state_dict()` gives its result an attribute, `_metadata`; a moving average that walks over it has no break."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    averages = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}

    def average(decay: float) -> Any:
        state = model.state_dict()
        with torch.no_grad():
            for name, value in state.items():
                if value.is_floating_point():
                    averages[name].lerp_(value, 1 - decay)
        return dict(averages), str(state._metadata)

    assert_same_as_eager(average, 0.9, graphs=1, breaks=0)


# -- a module whose `Module.__init__` never ran ------------------------------------------------------------------------------------


class _Uninitialized(nn.Module):
    """It forgot `super().__init__()`."""

    def __init__(self) -> None:
        pass

    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class _WithoutForward(_Uninitialized):
    forward = nn.Module.forward


class _WithClassRegistries(_Uninitialized):
    """A class attribute does for the hooks of an instance."""

    _backward_hooks = _backward_pre_hooks = _forward_hooks = _forward_pre_hooks = {}  # type: ignore[assignment]


def _without(name: str) -> nn.Module:
    module = nn.Linear(3, 3, bias=False)
    del module.__dict__[name]
    return module


_MODULES: dict[str, Callable[[], nn.Module]] = {
    "no init": _Uninitialized, "no init, no forward": _WithoutForward, "registries of the class": _WithClassRegistries,
    **{f"without {name}": functools.partial(_without, name) for name in HOOKS},
}  # fmt: skip


def _call(x: Tensor, module: nn.Module) -> object:
    y = x * 2
    try:
        return module(y), y
    except (AttributeError, NotImplementedError) as error:
        return y, type(error), str(error)


@pytest.mark.parametrize("make", _MODULES.values(), ids=list(_MODULES))
def test_a_call_raises_where_a_hook_registry_is_missing(make: Callable[[], nn.Module]) -> None:
    """`'Module' object has no attribute '_backward_hooks'`: its forward ran as if there were no hooks."""
    torch.manual_seed(0)
    assert_same_as_eager(_call, torch.ones(3), make(), calls=2)


@pytest.mark.parametrize("cls", [_Uninitialized, _WithoutForward, _WithClassRegistries])
def test_a_new_module_raises_where_a_hook_registry_is_missing(cls: type[nn.Module]) -> None:
    """The same for one that the frame creates; it has no registries of hooks that a program could read either."""

    def creates(x: Tensor) -> object:
        module = cls()
        return _call(x, module), hasattr(module, "_forward_hooks"), hasattr(module, "_forward_hooks_with_kwargs"), vars(module)

    assert_same_as_eager(creates, torch.ones(3), calls=2)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_registry_that_is_deleted_after_the_capture_is_missed(name: str) -> None:
    """The guard of a module without hooks asks that the registry is there and empty."""
    module = nn.Linear(3, 3)
    compiled = dynexplore.optimize("eager")(_call)
    assert len(cast("tuple[object, ...]", compiled(torch.ones(3), module))) == 2
    del module.__dict__[name]
    assert compiled(torch.ones(3), module)[1:] == _call(torch.ones(3), module)[1:]  # type: ignore[index]
    assert dynexplore.counters["stats"]["graphs"] == 2
