"""The grammar of programs about exceptions: what an exception passes on its way from where it is raised to where it is caught.

Which idea lives here: an exception may leave any Python function that the engine inlined: a method, a function called through
`super()`, a property, a special method, a generator's body, a closure, a comprehension; or an operator, on fake tensors or when
the graph runs. It may be caught anywhere: by `except`, by `hasattr`, by `getattr` with a default, by a context manager. A program
here is three classes (some inherit, some are modules or dicts) of which each has some of those methods, two functions, two
generators, and a function `program(x, n, flag, o)` that uses them. A `print` may stand in any block, and breaks the graph there.

Nothing runs for long: a function calls functions that stand above it, a method only methods further down in `METHODS`.

In:  a random.Random. Out: the text of a program, which stands on `PRELUDE`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

PRELUDE = """
import contextlib
import functools
import sys
import torch

LOG = []


class Own(AttributeError):
    pass


class Meta(type):
    def __getattr__(cls, k):
        if k == "w":
            return 2
        raise AttributeError(k)


def logs(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        finally:
            LOG.append(fn.__name__)
    return inner


class Logged:
    def __init__(self, swallows=None, raises=None):
        self.swallows, self.raises = swallows, raises

    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        LOG.append(kind and kind.__name__)
        if self.raises:
            raise self.raises("left")
        return kind is not None and self.swallows is not None and issubclass(kind, self.swallows)


class Printing(Logged):
    def __exit__(self, kind, value, trace):
        print("leaving")
        return super().__exit__(kind, value, trace)


@contextlib.contextmanager
def made_with(k):
    LOG.append("made")
    try:
        yield k
    except ValueError as error:
        LOG.append(str(error))
    finally:
        LOG.append("unmade")
"""

EXCEPTIONS = ("AttributeError", "ValueError", "KeyError", "Own", "StopIteration", "ZeroDivisionError", "RuntimeError")
CAUGHT = ("AttributeError", "Exception", "ValueError", "(KeyError, ValueError)", "Own", "StopIteration", "LookupError")
NAMES = ("v", "a", "w", "p", "nn")
BASES = {
    "K0": ("", "", "(torch.nn.Module)", "(dict)", "(metaclass=Meta)"),
    "K1": ("(K0)", ""),
    "K2": ("(K1)", "(K0)", "(K1, K0)", ""),
}
CLASSES = tuple(BASES)
ABOUT_THE_EXCEPTION = (
    "LOG.append(type(e.__context__).__name__)", "LOG.append(type(e.__cause__).__name__)", "LOG.append(str(e))",
    "LOG.append(sys.exc_info()[0].__name__)", "LOG.append(e.args)", "LOG.append(e is sys.exc_info()[1])",
)
METHODS = ("each", "m0", "m1", "p")
"""A method calls what stands after it, on any object."""


def indented(lines: list[str]) -> list[str]:
    """These lines as the body of a block."""
    return ["    " + line for line in lines]


class Writer:
    """Writes one program. `budget` bounds how many statements it has, `owner` is the object that statements work on."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.budget = 22
        self.functions: list[str] = []
        self.generators: list[str] = []
        self.classes: list[str] = []
        self.methods: tuple[str, ...] = METHODS
        self.owner, self.class_name = "o", ""
        self.in_generator = self.in_loop = self.in_handler = False

    # -- choices

    def one_of(self, *choices: str) -> str:
        """One of these texts."""
        return self.draw.choice(choices)

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        return self.draw.randrange(limit)

    # -- expressions

    def number(self) -> str:
        """An expression that is a small number, or raises."""
        o, name = self.owner, self.one_of(*NAMES)
        choices = [
            str(self.below(4)), "n", f"{o}.{name}", f"getattr({o}, '{name}', {self.below(4)})", f"hasattr({o}, '{name}')",
            f"len([k for k in (1, 2) if hasattr({o}, '{name}')])", f"{o}.{name}", f"getattr({o}, '{name}', {self.below(4)})",
        ]
        if self.below(3) == 0:
            choices = [f"{o}['{name}']", f"len({o})", f"bool({o})", f"({o} == 1)", f"('{name}' in {o})", f"({o} + 1)", f"{o}(2)"]
            choices += [f"sum({o})", f"next({o})", "1 // (n - n)", "[1, 2][n]", f"dict(v=1)['{name}']", f"int('{name}')", "unknown"]
            choices += [f"{cls}.{name}" for cls in self.classes] + [f"getattr({cls}, '{name}', 1)" for cls in self.classes]
        if self.class_name:
            choices += [f"super().{name}", f"getattr(super(), '{name}', 2)", f"super({self.class_name}, self).{name}"]
        return self.one_of(*choices)

    def tensor(self) -> str:
        """An expression that is a tensor, or raises."""
        o, i = self.owner, self.number()
        if self.below(12) == 0:
            return self.one_of("x.view(2, 2)", "x[5]", "torch.cat([x, x.reshape(1, 3)])", "x.nn", "x @ x.reshape(1, 3)")
        choices = ["x", f"x * {i}", f"x + {i}", "x.sin()"]
        choices += [f"{o}.{method}(x, {i})" for method in self.methods if method in ("m0", "m1")]
        if "m0" in self.methods and "m0" not in (self.class_name and self.methods[-1:]):
            choices.append(f"[{o}.m1(x, k) for k in range(2)][-1]")
        if "each" in self.methods:
            choices += [f"next({o}.each(x, {i}))", f"sum({o}.each(x, {i}), x)"]
        if self.class_name and self.current in ("m0", "m1"):
            choices += [f"super().{self.current}(x, {i})", f"super({self.class_name}, self).{self.current}(x, {i})"]
        choices += [f"{function}(x, {i}, {o})" for function in self.functions]
        choices += [f"next({made}(x, {i}, {o}), x)" for made in self.generators]
        choices += [f"[*{made}(x, {i}, {o})][-1]" for made in self.generators]
        choices += [f"x * {made}({o}, {i}).{self.one_of(*NAMES)}" for made in self.classes]
        return self.one_of(*choices)

    current = ""
    """The method that is being written."""

    def condition(self) -> str:
        """What an `if` asks."""
        o = self.owner
        return self.one_of(
            "n > 2", "flag", f"hasattr({o}, '{self.one_of(*NAMES)}')", f"{self.number()} > {self.below(3)}", f"isinstance({o}, K1)",
            "x.sum() > 0",
        )

    def raised(self) -> str:
        """What is raised."""
        return f"{self.one_of(*EXCEPTIONS)}('{self.one_of('v', 'w', 'else')}')"

    # -- statements

    def block(self, depth: int, most: int = 3) -> list[str]:
        """A few statements."""
        lines: list[str] = []
        for _ in range(self.below(most) + 1):
            lines += self.statement(depth)
        return lines

    def statement(self, depth: int) -> list[str]:
        """One statement."""
        self.budget -= 1
        simple: list[Callable[[], list[str]]] = [
            lambda: [f"x = {self.tensor()}"],
            lambda: [f"x = {self.tensor()} * {self.number()}"],
            lambda: [f"n = ({self.number()} + 1) % 5"],
            lambda: [f"LOG.append({self.number()})"],
            lambda: [f"{self.owner}.{self.one_of(*NAMES)} = {self.number()}"],
            lambda: [f"del {self.owner}.{self.one_of(*NAMES)}"],
            lambda: ["print('here', n)"],
            lambda: [f"raise {self.raised()}"],
            lambda: [f"if {self.condition()}: raise {self.raised()}"],
            lambda: [f"assert {self.condition()}, 'm'"],
            lambda: [self.one_of(*ABOUT_THE_EXCEPTION)] if self.in_handler else [f"LOG.append({self.number()})"],
            self.leaving,
        ]
        if depth <= 0 or self.budget <= 0:
            return self.draw.choice(simple)()
        nested = [self.trying, self.trying, self.trying, self.within, self.deciding, self.looping, self.driving, self.closing_over]
        chosen = self.below(len(simple) + len(nested))
        return simple[chosen]() if chosen < len(simple) else nested[chosen - len(simple)](depth - 1)

    def leaving(self) -> list[str]:
        """A statement that leaves the block, or hands out a value."""
        if self.in_generator:
            further = [f"x = yield from {made}(x, {self.number()}, {self.owner})" for made in self.generators]
            return [self.one_of(f"yield {self.tensor()}", f"n = (yield {self.tensor()}) or 1", "return x", "return", *further)]
        if self.in_handler:
            return [self.one_of("raise", f"raise {self.raised()}", f"raise {self.raised()} from None", "LOG.append(1)")]
        if self.in_loop:
            return [self.one_of("break", "continue")]
        return [f"return {self.tensor()}"]

    def trying(self, depth: int) -> list[str]:
        """`try` with handlers, `else` and `finally`."""
        lines = ["try:", *indented(self.block(depth))]
        shape = self.below(5)
        if shape < 4:
            self.in_handler, outer = True, self.in_handler
            handler = ["LOG.append(type(e).__name__)"] * self.below(2) + self.block(depth, 2)
            self.in_handler = outer
            lines += [f"except {self.one_of(*CAUGHT)} as e:", *indented(handler)]
        if shape == 2:
            lines += ["else:", *indented(self.block(depth - 1, 2))]
        if shape >= 3:
            loop, self.in_loop = self.in_loop, False
            lines += ["finally:", *indented(self.block(depth - 1, 2))]
            self.in_loop = loop
        return lines

    def within(self, depth: int) -> list[str]:
        """`with` one of the context managers, some of which swallow, raise or print."""
        manager = self.one_of(
            "Logged()", f"Logged({self.one_of(*EXCEPTIONS)})", f"Logged(None, {self.one_of(*EXCEPTIONS)})",
            f"Printing({self.one_of(*EXCEPTIONS)})", "made_with(n)", f"contextlib.suppress({self.one_of(*EXCEPTIONS)})",
            "torch.no_grad()", self.owner, *(f"{made}({self.owner}, n)" for made in self.classes),
        )
        if self.below(5) == 0:
            entered = [f"x = stack.enter_context({manager}) and x", "stack.callback(LOG.append, n)", f"stack.push({manager})"]
            some = [line for line in entered if self.below(2)]
            return ["with contextlib.ExitStack() as stack:", *indented(some + self.block(depth))]
        return [f"with {manager}:", *indented(self.block(depth))]

    def deciding(self, depth: int) -> list[str]:
        """`if`, perhaps with `else`."""
        lines = [f"if {self.condition()}:", *indented(self.block(depth))]
        return [*lines, "else:", *indented(self.block(depth))] if self.below(2) else lines

    def looping(self, depth: int) -> list[str]:
        """A loop over numbers or over what a generator yields."""
        over = ["i in range(2)", *(f"x in {made}(x, n, {self.owner})" for made in self.generators)]
        if "each" in self.methods:
            over.append(f"x in {self.owner}.each(x, n)")
        if self.below(5) == 0:
            over = ["while n < 3 and len(LOG) < 30:", "    n += 1", "    LOG.append(n)"]
        else:
            over = [f"for {self.one_of(*over)}:"]
        loop, self.in_loop = self.in_loop, not self.in_generator and not self.in_handler
        lines = [*over, *indented(self.block(depth))]
        self.in_loop = loop
        return lines

    def closing_over(self, depth: int) -> list[str]:
        """A function of its own that shares `n`, and a call of it."""
        shown = self.in_generator, self.in_loop, self.in_handler
        self.in_generator = self.in_loop = self.in_handler = False
        body = self.block(depth)
        self.in_generator, self.in_loop, self.in_handler = shown
        lines = ["def inner(x, k=1):", "    nonlocal n", "    n = (n + k) % 5", *indented(body), "    return x"]
        called = self.one_of("inner(x)", "logs(inner)(x)", "functools.partial(inner, k=2)(x)", f"inner({self.tensor()})")
        return [*lines, f"x = {called}"]

    def driving(self, depth: int) -> list[str]:
        """A generator that is driven by hand."""
        if not self.generators:
            return self.trying(depth)
        lines = [f"g = {self.one_of(*self.generators)}(x, n, {self.owner})"]
        for _ in range(self.below(3) + 1):
            thrown = f"x = g.throw({self.raised()})"
            lines.append(self.one_of("x = next(g)", "x = next(g, x)", "x = g.send(None)", "x = g.send(2)", thrown, "g.close()"))
        return lines

    # -- definitions

    def define(self, head: str, *, generator: bool = False) -> list[str]:
        """A function that returns a tensor, or yields some."""
        self.in_generator = generator
        body = self.block(2)
        if generator and not any("yield" in line for line in body):
            body.append("yield x")
        self.in_generator = False
        decorated = [] if generator or self.below(6) else ["@logs"]
        return [*decorated, head, *indented(body + ([] if generator else ["return x"])), ""]

    def klass(self, name: str) -> list[str]:
        """A class with some of the methods that an exception may pass."""
        bases = BASES[name]
        self.owner, self.class_name = "self", name
        body = [f"{attribute} = {self.below(4)}" for attribute in ("v", "a") if self.below(2)]
        body += self.constructor() * (self.below(3) > 0)
        body += self.get_attribute() * (self.below(3) == 0)
        body += self.missing_attribute() * (self.below(3) == 0)
        body += self.set_attribute() * (self.below(4) == 0)
        body += self.context() * (self.below(3) == 0)
        body += [line for _ in range(self.below(3)) for line in self.special()]
        for number, method in enumerate(METHODS):
            if self.below(2):
                self.current, self.methods = method, METHODS[number + 1 :]
                head = f"def {method}(self, x, n, flag=True):"
                body += self.property() if method == "p" else self.define(head, generator=method == "each")
        self.owner, self.class_name, self.current, self.methods = "o", "", "", METHODS
        return [f"class {name}{self.one_of(*bases)}:", *indented(body or ["pass"]), "", ""]

    def constructor(self) -> list[str]:
        """`__init__`: looks at an object it is given, goes on to the base, sets attributes."""
        looks = self.one_of("", "hasattr(c, 'nn')", "c = getattr(c, 'w', c)", "LOG.append(c.v)", "LOG.append(hasattr(self, 'a'))")
        goes_on = self.one_of(
            "", "super().__init__()", f"super({self.class_name}, self).__init__()",
            "try: super().__init__(c, n)\nexcept (TypeError, AttributeError) as e: LOG.append(type(e).__name__)",
        )
        sets = self.one_of("", f"self.v = {self.below(8)}", "self.w = n", "self.v = super().v", "self.a = self.v + 1")
        shows = self.one_of("", "", "print('init')")
        lines = [line for part in (looks, goes_on, sets, shows) if part for line in part.split("\n")]
        return ["def __init__(self, c=None, n=1):", *indented(lines or ["pass"]), ""]

    def get_attribute(self) -> list[str]:
        """`__getattribute__`."""
        explicit = f"super({self.class_name}, self).__getattribute__(k)"
        above = self.one_of("super().__getattribute__(k)", "object.__getattribute__(self, k)", explicit)
        body = self.one_of(
            f"return {above}",
            f"if k == '{self.one_of(*NAMES)}': raise {self.raised()}\nreturn {above}",
            f"try:\n    return {above}\nexcept AttributeError as e:\n    LOG.append(type(e).__name__)\n    raise",
            f"try:\n    return {above}\nexcept AttributeError as e:\n    if k == 'w': return 5\n    raise {self.raised()} from e",
            f"if k == 'nn': print(k)\nreturn {above}",
            f"with Logged({self.one_of(*EXCEPTIONS)}):\n    return {above}\nraise Own(k)",
        )
        own = ["    if k[:2] == '__': return object.__getattribute__(self, k)"] * (self.below(4) > 0)
        return ["def __getattribute__(self, k):", *own, *indented(body.split("\n")), ""]

    def missing_attribute(self) -> list[str]:
        """`__getattr__`."""
        body = self.one_of(
            "raise AttributeError(k)",
            f"if k == '{self.one_of(*NAMES)}': return {self.below(4)}\nraise AttributeError(k)",
            "return super().__getattr__(k)",
            "try:\n    return object.__getattribute__(self, 'b_' + k)\nexcept AttributeError:\n    raise Own(k) from None",
            f"if k == '{self.one_of(*NAMES)}': raise {self.raised()}\nraise Own(k)",
            "if k == 'w': return self.v\nif k == 'nn': print(k)\nraise AttributeError(k)",
        )
        return ["def __getattr__(self, k):", *indented(body.split("\n")), ""]

    def set_attribute(self) -> list[str]:
        """`__setattr__`."""
        body = self.one_of(
            "super().__setattr__(k, value)",
            f"if k == '{self.one_of(*NAMES)}': raise {self.raised()}\nsuper().__setattr__(k, value)",
            "hasattr(self, k)\nobject.__setattr__(self, k, value)",
            "try:\n    super().__setattr__(k, value)\nexcept AttributeError:\n    self.__dict__['w'] = value",
        )
        return ["def __setattr__(self, k, value):", *indented(body.split("\n")), ""]

    def context(self) -> list[str]:
        """`__enter__` and `__exit__`."""
        raised = f"raise {self.raised()}"
        enters = self.one_of("return self", "LOG.append(self.v)\nreturn self", "return super().__enter__()", raised)
        leaves = self.one_of(
            "return False", f"return kind is not None and issubclass(kind, {self.one_of(*EXCEPTIONS)})", f"raise {self.raised()}",
            "hasattr(self, 'nn')\nreturn super().__exit__(kind, value, trace)", "print('exit')", "self.w = kind and kind.__name__",
        )
        return [
            "def __enter__(self):", *indented(enters.split("\n")), "",
            "def __exit__(self, kind, value, trace):", *indented(leaves.split("\n")), "",
        ]

    def special(self) -> list[str]:
        """One of the methods that operators and builtins call."""
        head = self.one_of(
            "__len__(self)", "__bool__(self)", "__eq__(self, other)", "__contains__(self, other)", "__add__(self, other)",
            "__call__(self, k=0, c=0)", "__getitem__(self, k)", "__missing__(self, k)", "__iter__(self)", "__next__(self)",
            "__delattr__(self, k)", "__radd__(self, other)",
        )
        name, _, rest = head.partition("(self")
        given = rest.removeprefix(", ").removesuffix(")").replace("=0", "")
        body = self.one_of(
            f"return {self.below(3)}", f"raise {self.raised()}", f"return super().{name}({given})", "return self.w",
            f"LOG.append(hasattr(self, '{self.one_of(*NAMES)}'))\nreturn super().{name}({given})",
            f"try:\n    return super().{name}({given})\nexcept AttributeError as e:\n    raise {self.raised()} from e",
            "yield 1\nyield self.v" if name == "__iter__" else f"LOG.append('{name}')\nreturn {self.below(2)}",
        )
        ends = {  # who walks the object comes to an end
            "__getitem__": ["if k == 3: raise IndexError(k)"],
            "__next__": ["LOG.append('next')", "if len(LOG) > 20: raise StopIteration"],
        }
        return [f"def {head}:", *indented([*ends.get(name, []), *body.split("\n")]), ""]

    def property(self) -> list[str]:
        """A property `p`."""
        body = self.one_of(
            "return self.v", "return super().p", f"raise {self.raised()}", "return self.a + 1", "return getattr(self, 'w', 3)",
            "try:\n    return super().p\nexcept AttributeError:\n    return super().__getattribute__('v')",
        )
        return ["@property", "def p(self):", *indented(body.split("\n")), ""]

    def program(self) -> str:
        """The whole text."""
        lines: list[str] = []
        for name in CLASSES:
            lines += self.klass(name)
            self.classes.append(name)
        for number in range(2):
            if self.below(2):
                lines += [*self.define(f"def g{number}(x, n, o, flag=True):", generator=True), ""]
                self.generators.append(f"g{number}")
            if self.below(2):
                lines += [*self.define(f"def f{number}(x, n, o, flag=True):"), ""]
                self.functions.append(f"f{number}")
        self.budget = 16
        lines.append("def program(x, n, flag, o):")
        for _ in range(self.below(6) + 2):
            lines += indented(self.statement(3) if self.below(4) == 0 else self.caught(self.statement(2)))
            lines += indented(self.caught([f"x = {self.tensor()} * {self.number()}"])) * self.below(2)
        return "\n".join([*lines, "    return x, n"]) + "\n"

    def caught(self, lines: list[str]) -> list[str]:
        """These lines, and what they raise is logged."""
        return ["try:", *indented(lines), "except Exception as e:", "    LOG.append((type(e).__name__, str(e)))"]
