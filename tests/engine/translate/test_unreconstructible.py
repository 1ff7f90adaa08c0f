"""Values that no bytecode makes again (a running generator, the result of max()), alive where a graph ends.

The frame stops before such a value is made, so that Python makes it; all around it is captured.
"""

from __future__ import annotations

import torch
from programs.program_table import Programs

from engine_checks import assert_same_as_eager

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(3.0)


def three(x):
    yield x + 1
    yield x + 2
    yield x + 3


def generator_and_tensor(x):
    return three(x), x + 1


class Holder:
    pass


@program(X, breaks=["DX206", "DX307", "DX307", "DX318"], graphs=3, ops=[1, 1, 1])
def break_in_a_loop_over_a_generator(x):
    total = x * 2
    for part in three(x):
        total = total + part
        print("one")
        total = total * 2
    return total


@program(X, breaks=["DX206", "DX318"], graphs=3, ops=[0, 1, 1])
def maximum_lives_across_a_break(x):
    first, second = x.sum(), x.mean()
    larger = max(first, second)
    y = larger * 2
    print("woo")
    return larger + y, larger is first


@program(X, breaks=["DX318"], graphs=1, ops=0)
def maximum_is_returned(x):
    return max(x.sum(), x.mean())


@program(X, breaks=["DX206", "DX318"], graphs=2, ops=[1, 1])
def list_that_holds_itself(x):
    parts = [x + 1]
    parts.append(parts)
    print("woo")
    return parts[0] * 2, parts[1] is parts


@program(X, graphs=3, ops=[1, 1, 1], breaks=["DX206", "DX307", "DX318"])
def generator_made_in_a_callee(x):
    parts, y = generator_and_tensor(x * 2)
    print("woo")
    return sum(parts) + y


@program(X, graphs=4, ops=[1, 1, 1, 1], breaks=["DX206", *["DX307"] * 4, "DX318", "DX318"])
def two_generators(x):
    first, second = three(x), three(x * 2)
    y = next(first) + next(second)
    print("woo")
    return y + next(first) + next(second)


@program(X, graphs=1, ops=1, breaks=["DX206", "DX307", "DX307", "DX318"])
def generator_in_an_attribute(x):
    holder = Holder()
    holder.parts = three(x)
    y = next(holder.parts)
    print("woo")
    return y + next(holder.parts)


@program(X, graphs=1, ops=15)
def generator_used_up_before_the_end(x):
    parts = three(x)
    return next(parts) + sum(parts), sum(part * 2 for part in three(x))


@PROGRAMS.parameters()
def test_value_is_real_where_the_graph_ends(run):
    """The program does what it does in eager, with the expected breaks."""
    run()


def test_generator_made_in_an_except_handler():
    """The exception being handled is not on the stack: the stop moves back to the instruction that raised."""

    def handled(x):
        try:
            raise ValueError
        except ValueError:
            parts = three(x)
            y = next(parts)
            print("woo")
            return y + next(parts)

    assert_same_as_eager(handled, X, calls=2)
