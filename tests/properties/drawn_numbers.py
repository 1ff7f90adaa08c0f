"""The grammar of programs about numbers: expressions of ints, floats and sizes, with conditions that protect later ones.

Which idea lives here: once a number has changed it is a symbol, or a value that is computed again in each call, and what the
program asked about it becomes guards. A guard that is asked of a number for which the program would never have asked it (`12 % n`
behind `n != 0`, `math.sqrt(n)` behind `n >= 0`) must not raise, and a number that is of another type, negative, zero, a bool,
nan or huge must not be served by what was compiled for another. A program here is `program(x, n, m)`: x a tensor of one
dimension, n and m numbers, and local names k and y; it returns the tensor and each number that it came by.

No number that is drawn here grows for long: exponents and shifts are small or bounded by `min`.

In:  a random.Random. Out: the text of a program, and calls: the numbers and the size of the tensor in each.
"""

from __future__ import annotations

import random
from collections.abc import Callable

INTS = ("5", "6", "7", "2", "3", "4", "8", "9", "10", "12")
FLOATS = ("0.5", "1.5", "2.5", "3.0", "4.25", "7.75")
ODD = (
    "0", "1", "-1", "-2", "-3", "-7", "True", "False", "0.0", "-0.0", "-1.5", "-0.5", "1.0", "float('nan')", "float('inf')",
    "-float('inf')", "2**31", "2**40", "-(2**40)", "2**62", "2**63", "2**63 - 1", "-(2**63)", "2**64", "10**30", "-(10**30)",
    "1e308", "-1e308", "1e-320", "2.0**53 + 1", "1e18", "2**53 + 1",
)
SIZES = (3, 4, 5, 6, 2, 7, 1, 0)
ERRORS = ("ZeroDivisionError", "ValueError", "OverflowError", "TypeError", "ArithmeticError", "Exception")


def indented(lines: list[str]) -> list[str]:
    """These lines as the body of a block."""
    return ["    " + line for line in lines]


class Writer:
    """Writes one program. `budget` bounds how many statements it has."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.budget = 12
        self.in_loop = False

    def one_of(self, *choices: str) -> str:
        """One of these texts."""
        return self.draw.choice(choices)

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        return self.draw.randrange(limit)

    # -- expressions

    def name(self) -> str:
        """A number that has a name, or a size."""
        return self.one_of("n", "m", "n", "m", "k", "x.shape[0]", "len(x)", "x.numel()", "y.size(0)")

    def literal(self) -> str:
        """A constant."""
        return self.one_of("0", "1", "2", "3", "-1", "12", "0.5", "2.0", "-1.5", "True")

    def number(self, depth: int = 2) -> str:
        """An expression that is a number, or raises."""
        if depth <= 0:
            return self.name() if self.below(4) else self.literal()
        choices: list[Callable[[], str]] = [self.name, self.name, self.operation, self.operation, self.function, self.protected]
        return choices[self.below(len(choices))]() if depth > 1 else choices[self.below(5)]()

    def operation(self) -> str:
        """Two numbers and an operator."""
        a, b = self.number(1 - self.below(2)), self.number(self.below(2))
        choices = [f"({a} {self.one_of('+', '-', '*', '/', '//', '%')} {b})"] * 5 + [
            f"({a} ** {self.one_of('2', '3', '0.5', '-1', '0')})",
            f"({self.one_of('(-1)', '2', '0', '(-2)', '1.5', '0.0')} ** min({b}, {self.one_of('3', '4')}))",
            f"((-1) ** {b})",
            f"({a} {self.one_of('<<', '>>')} min({b}, 5))",
            f"(1 << min({b}, 5))",
            f"({a} {self.one_of('&', '|', '^')} {b})",
            f"({self.one_of('-', '+', '~', 'not ')}{a})",
        ]
        return self.one_of(*choices)

    def function(self) -> str:
        """A function of numbers."""
        a, b = self.number(self.below(2)), self.number(0)
        named = self.one_of(
            "abs", "int", "float", "bool", "round", "math.sqrt", "math.floor", "math.ceil", "math.trunc", "math.isnan", "math.exp",
            "math.log", "math.isqrt", "math.cos", "math.isfinite", "math.log2", "math.fabs",
        )
        choices = [f"{named}({a})"] * 4 + [
            f"min({a}, {b})", f"max({a}, {b})", f"divmod({a}, {b})[{self.below(2)}]", f"round({a}, {self.below(3)})",
            f"math.fmod({a}, {b})", f"math.gcd({a}, {b})", f"math.copysign({a}, {b})", f"math.pow({a}, 2)", f"pow({a}, 2, {b})",
            f"sum([{a}, {b}])", f"range(min({a}, 3)).__len__()", f"({a}).is_integer()", f"int.bit_length({a})",
            f"math.atan2({a}, {b})",
        ]
        return self.one_of(*choices)

    def protected(self) -> str:
        """An expression that would raise, or mean something else, if a condition did not stand before it."""
        a, b = self.name(), self.number(self.below(2))
        other = self.literal()
        return self.one_of(
            f"({b} {self.one_of('/', '%', '//')} {a} if {a} else {other})",
            f"({b} {self.one_of('/', '%', '//')} {a} if {a} != 0 else {other})",
            f"({other} if {a} == 0 else {b} {self.one_of('/', '%', '//')} {a})",
            f"({a} and {b} {self.one_of('/', '%', '//')} {a})",
            f"(math.sqrt({a}) if {a} >= 0 else {other})",
            f"({a} > 0 and math.log({a}) > 1)",
            f"(1 << {a} if {a} >= 0 and {a} < 9 else {other})",
            f"(12 % {a} if isinstance({a}, int) and {a} > 0 else {other})",
            f"(int({a}) if {a} == {a} and abs({a}) < 2**40 else {other})",
            f"({a} == 0 or {b} % {a} == 0)",
            f"({b} if {self.condition()} else {other})",
        )

    def condition(self) -> str:
        """What an `if` asks."""
        a, b = self.number(self.below(2)), self.number(self.below(2))
        compared = f"{a} {self.one_of('>', '<', '==', '!=', '>=', '<=')} {b}"
        name = self.name()
        return self.one_of(
            compared, compared, compared, f"{name}", f"not {name}", f"{self.literal()} < {name} < {a}", f"{name} == {name}",
            f"isinstance({name}, {self.one_of('int', 'float', 'bool')})", f"{name} != 0 and {a} % {name} == 0",
            f"{name} == 0 or {a} // {name} > 1", f"{name} > 0 and math.sqrt({name}) > 1.5", f"{name} in (0, 1, 2)", f"{name} % 2",
            f"type({name}) is {self.one_of('int', 'float', 'bool')}", f"{name} is True", f"12 % {name} == 0",
        )

    # -- statements

    def block(self, depth: int) -> list[str]:
        """A few statements."""
        lines: list[str] = []
        for _ in range(self.below(2) + 1):
            lines += self.statement(depth)
        return lines

    def statement(self, depth: int) -> list[str]:
        """One statement."""
        self.budget -= 1
        simple = [
            lambda: [f"k = {self.number()}"], lambda: [f"k = {self.number()}"], lambda: [f"r.append({self.number()})"],
            lambda: [f"y = y {self.one_of('*', '+', '-')} {self.number()}"], lambda: [f"y = y * {self.number()}"],
            lambda: [f"y = {self.number(1)} {self.one_of('*', '-')} y"],
            lambda: [f"y = y + torch.full((min({self.name()}, 4),), 1.0).sum()"],
            lambda: [f"y = y[: {self.name()}].sum() + y"],
            lambda: [f"{self.one_of('n', 'm')} = {self.number()}"], lambda: ["print('here')"],
            lambda: [f"assert {self.condition()}"], lambda: ["break" if self.in_loop else f"return y, {self.number()}"],
        ]
        if depth <= 0 or self.budget <= 0:
            return self.draw.choice(simple[:-1])()
        chosen = self.below(len(simple) + 6)
        return simple[chosen]() if chosen < len(simple) else self.nested(depth - 1)

    def nested(self, depth: int) -> list[str]:
        """A statement with a block."""
        kind = self.below(7)
        if kind < 3:
            lines = [f"if {self.condition()}:", *indented(self.block(depth))]
            return [*lines, "else:", *indented(self.block(depth))] if kind else lines
        if kind < 5:
            return self.caught(self.block(depth))
        loop, self.in_loop = self.in_loop, True
        lines = [f"for i in range({self.one_of('2', 'min(n, 3)', 'len(x) % 3')}):", *indented(self.block(depth))]
        self.in_loop = loop
        return lines

    def caught(self, lines: list[str]) -> list[str]:
        """These lines, and which error they raise is noted."""
        return ["try:", *indented(lines), f"except {self.one_of(*ERRORS)} as e:", "    r.append(type(e).__name__)"]

    def program(self) -> str:
        """The whole text."""
        lines = ["def program(x, n, m):", "    y, k, r = x * 2, 1, []"]
        for _ in range(self.below(4) + 1):
            statement = self.statement(2)
            lines += indented(self.caught(statement) if self.below(3) == 0 else statement)
        return "\n".join([*lines, f"    y = y * {self.name()}", "    return y, n, m, k, r"]) + "\n"

    def calls(self) -> tuple[tuple[str, str, int], ...]:
        """A few calls with numbers like each other, so that they become symbols, then others."""
        kinds = [self.draw.choice((INTS, INTS, FLOATS)) for _ in range(2)]
        alike = [tuple(self.one_of(*kind) for kind in kinds) for _ in range(self.below(3) + 1)]
        changed = []
        for _ in range(self.below(4) + 1):
            n, m = (self.one_of(*(ODD if self.below(3) else kind)) for kind in kinds)
            changed.append((n, m))
        sizes = [self.draw.choice(SIZES[:4]), self.draw.choice(SIZES)]
        return tuple((n, m, self.draw.choice(sizes)) for n, m in [*alike, *changed])
