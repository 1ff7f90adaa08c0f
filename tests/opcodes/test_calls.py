"""The instructions that make and call functions, classes, generators, and import, one tiny function each."""

from __future__ import annotations

from typing import Any

from opcodes.opcode_table import OpcodeTable, X

TABLE = OpcodeTable()
shows = TABLE.shows


def takes_anything(x: Any, *args: Any, scale: int = 1, **kwargs: Any) -> Any:
    return x * scale + len(args) + len(kwargs)


def counts(x: Any) -> Any:
    yield x
    got = yield x + 1
    return got


@shows("CALL", graphs=1, ops=3)
def calls(x):
    return takes_anything(x, 1, 2), x.add(1), len(x), abs(-2)


@shows("CALL_KW", graphs=1, ops=3)
def calls_by_keyword(x):
    return takes_anything(x, 1, scale=2, more=3), x.sum(dim=0, keepdim=True)


@shows("CALL_FUNCTION_EX", X, (1, 2), {"scale": 3}, graphs=1, ops=9)
def calls_with_stars(x, args, kwargs):
    return takes_anything(x, *args), takes_anything(x, *args, 5, **kwargs, other=1), takes_anything(*[x])


@shows("PUSH_NULL", graphs=1, ops=4)
def calls_what_an_expression_gives(x):
    return (lambda y: y + 1)(x), [takes_anything][0](x)


@shows("MAKE_FUNCTION", graphs=1, ops=2)
def makes_functions(x):
    def with_defaults(y, z=2, *, w: int = 3) -> Any:
        return y + z * w

    return with_defaults(x), with_defaults(x, 1, w=0), (lambda *a, **k: (a, k))(x, k=1)


@shows("SET_FUNCTION_ATTRIBUTE", graphs=1, ops=6)
def makes_a_function_with_everything(x):
    free = 2

    def inner(y: Any, z: int = 1, *, w: int = 3) -> Any:
        return y * free + z + w

    return inner(x), inner(x, w=0)


@shows("RETURN_VALUE", graphs=0)
def returns_a_constant(x):
    if x.shape[0] == 2:
        return "two"
    return None


@shows("RETURN_GENERATOR", graphs=1, ops=3)
def runs_a_generator(x):
    def numbers():
        yield 1
        yield x + 2

    return list(numbers()), [n * 2 for n in numbers()], sum(n for n in (1, 2))


TABLE.shows("YIELD_VALUE", X, breaks=None)(lambda x: [n for n in (y * 2 for y in [x, x + 1])])


@shows("GET_YIELD_FROM_ITER", graphs=1, ops=1, breaks=None)
def delegates(x):
    def inner():
        got = yield from counts(x)
        yield got

    return list(inner())


@shows("SEND", graphs=1, ops=1, breaks=None)
def delegates_to_a_list(x):
    def inner():
        yield from [x, x + 1]

    return list(inner())


@shows("CLEANUP_THROW", graphs=0, breaks=None)
def throws_into_a_delegate(x):
    def inner():
        try:
            yield x
        except ValueError:
            yield x + 1

    def outer():
        yield from inner()

    running = outer()
    first = next(running)
    return first, running.throw(ValueError())


@shows("LOAD_BUILD_CLASS", graphs=1, ops=1, breaks=None)
def makes_a_class(x):
    class Doubler:
        factor = 2

        def __call__(self, y: Any) -> Any:
            return y * self.factor

    return Doubler()(x)


@shows("STORE_NAME", graphs=1, ops=1, breaks=None)
def makes_a_class_that_reads_a_free_variable(x):
    factor = 3

    class Tripler:
        own = factor
        gone = 1
        del gone

    return x * Tripler.own


@shows("IMPORT_NAME", graphs=1, ops=1)
def imports(x):
    import math
    import os.path as paths
    from collections import OrderedDict, deque

    return x * math.pi, paths.sep, OrderedDict(a=1), len(deque([1]))


@shows("IMPORT_FROM", graphs=1, ops=1)
def imports_from(x):
    from torch.nn.functional import relu

    return relu(x)


@shows("CALL_INTRINSIC_1", graphs=1, ops=2)
def runs_a_generator_that_may_not_leak_a_stop(x):
    def numbers():
        yield x + 1

    return next(numbers()), list(numbers())


@TABLE.parameters()
def test_instruction(run):
    """The function holds the instruction, where this Python has it, and does what CPython does."""
    run()
