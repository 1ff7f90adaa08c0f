"""The grammar of random programs: the text of a whole function is drawn, whose parts know which names exist.

What is written seldom, but must be right all the same (classes in functions, generators, walrus, star patterns, chained
exceptions, text formats), stands in drawn_idioms.py.

Which idea lives here: a program is drawn as text, so that a failing one can be read, kept in a file and run alone. Each
choice lists its simplest alternative first, because Hypothesis shrinks towards that. Loops are bounded, numbers are kept
small, and nothing that is printed depends on addresses, so that two runs of one program must agree in everything.

In:  a `random.Random`: that of a seed draws the same program each time; that of Hypothesis (`st.randoms`) can be shrunk.
Out: `program_of(draw)`, a text; `programs()`, Hypothesis's strategy of such texts. Each defines
`program(x, y, n, flag, a, d, box)` and stands on the prelude (program_prelude.py).

How such a text is run and compared stands in random_programs.py.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable

from hypothesis import strategies as st
from properties.drawn_idioms import BLOCKS, LINES, NUMBERS, TENSORS, TEXTS, fill

LIMIT = 9

#: Lines that may add or delete keys of `d`. CPython leaves open what a loop over a dict then goes through: it depends on
#: where the dict's table had room, which no program may rely on.
CHANGES_A_DICT = re.compile(r"\bd\.(pop|update|popitem|setdefault|clear)|\bd\[[^]]*\] \S*=|\bdel d\b|\bf\d+\(")
"""At most this many statements in one block."""


class Scope:
    """What may be used at one place of a program: names by what they hold, and what encloses the place."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.tensors = ["x", "y", "z"]
        self.numbers = ["n", "m"]
        self.lists = ["a", "b"]
        self.functions: list[str] = []
        self.assigned = ["z", "m", "x", "n", "y"]
        self.in_loop = False
        self.in_handler = False
        self.made = 0
        self.budget = 26

    def new(self, stem: str) -> str:
        """A name that is not used yet."""
        self.made += 1
        return f"{stem}{self.made}"

    def one_of(self, *choices: str | Callable[[], str]) -> str:
        """One of these texts, or what one of these functions draws; the first is the simplest."""
        chosen = self.draw.choice(choices)
        return chosen if isinstance(chosen, str) else chosen()

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        return self.draw.randrange(limit)


class Expressions:
    """Draws expressions: tensors, numbers, conditions, lists. `depth` bounds how deep they nest."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def tensor(self, depth: int = 2) -> str:
        """An expression that is a tensor (or fails)."""
        s = self.scope
        if depth <= 0:
            return s.one_of(*s.tensors, "box.t")
        t, i, c = (lambda: self.tensor(depth - 1)), (lambda: self.number(depth - 1)), (lambda: self.condition(depth - 1))
        plain: list[Callable[[], str]] = [
            lambda: s.one_of(*s.tensors),
            lambda: f"({t()} + {i()})",
            lambda: f"({t()} {s.one_of('+', '*', '-', '/')} {t()})",
            lambda: f"{t()}{s.one_of('.relu()', '.sin()', '.sum()', '.clone()', '.detach()', '.t()', '.float()', '.mean(-1)')}",
            lambda: f"torch.{s.one_of('abs', 'tanh', 'ones_like', 'zeros_like')}({t()})",
            lambda: f"torch.where({t()} > {i()}, {t()}, {t()})",
            lambda: f"({t()} if {c()} else {t()})",
            lambda: f"{t()}[{s.one_of('0', '1:', '..., :2', '-1', 'None', '::2')}]",
            lambda: f"torch.{s.one_of('rand_like', 'dropout')}({t()}{s.one_of(')', ', 0.5, True)')}",
            lambda: f"torch.full((3,), {i()})",
            lambda: f"torch.stack([{t()}, {t()}]).sum(0)",
            lambda: f"torch.max({t()}, {t()})",
            lambda: f"{t()}.max(0){s.one_of('.values', '[0]')}",
            lambda: f"torch.tensor([1.0, {i()}, 2.0])",
        ]
        calls: list[Callable[[], str]] = [
            lambda: f"helper({t()}, {i()}, k={i()})",
            lambda: f"helper(*[{t()}, {t()}], **{{'k': {i()}, 'u': 1}})",
            lambda: f"say({t()})",
            lambda: f"say_late({t()}, {i()})",
            lambda: f"outside({t()})",
            lambda: f"box.scaled({t()})",
            lambda: f"box({t()})",
            lambda: f"box.noisy({t()})",
            lambda: f"box.bump({i()}).t",
            lambda: f"Box.made({t()}).t",
            lambda: f"Loud({t()}, {i()}).bump({i()}).scaled({t()})",
            lambda: f"Box.plus({t()}, k={i()})",
            lambda: f"changes({s.one_of(*s.lists)}, {t()})",
            lambda: f"may_raise({t()}, {i()})",
            lambda: f"checks_data({t()})",
            lambda: f"sum([v * {i()} for v in numbers({t()}, {i()})], {t()})",
            lambda: f"sum((v for v in {self.items(depth - 1)} if isinstance(v, torch.Tensor)), {t()})",
            lambda: f"next(numbers({t()}, {i()}), {t()})",
            lambda: f"recursive({t()}, {i()} % 3)",
            lambda: f"makes({i()})({t()})",
            lambda: f"wrapped({t()})",
            lambda: f"without_grad({t()})",
            lambda: f"functools.reduce(lambda p, q: p + q, [{t()}, {t()}])",
            lambda: f"functools.partial(helper, k={i()})({t()})",
            lambda: f"(lambda v, w={i()}: v * w)({t()})",
            lambda: f"{{'p': {t()}, 'q': {t()}}}['{s.one_of('p', 'q')}']",
            lambda: f"[{t()}, {t()}][{i()} % 2]",
            lambda: f"d.get('t', {t()})",
            lambda: f"{s.one_of(*s.functions, 'helper')}({t()})",
            lambda: f"{s.one_of(*s.functions, 'helper')}({t()}, {i()})",
        ]
        idioms = [lambda: self.idiom(TENSORS, depth - 1)]
        return s.draw.choice(plain + calls + 4 * idioms)()

    def idiom(self, table: tuple[str, ...], depth: int) -> str:
        """One row of a table of drawn_idioms.py, its holes filled."""
        s = self.scope
        draws: dict[str, Callable[[], str]] = {
            "t": lambda: self.tensor(depth), "i": lambda: self.number(depth), "c": lambda: self.condition(depth), "k": self.key,
            "T": lambda: s.one_of(*s.tensors), "L": lambda: s.one_of(*s.lists), "e": lambda: self.items(depth),
            "new": lambda: s.new("w"), "f": self.text,
        }  # fmt: skip
        return fill(s.draw.choice(table), draws)

    def number(self, depth: int = 1) -> str:
        """An expression that is an int (or a float, or fails)."""
        s = self.scope
        if depth <= 0:
            return s.one_of("1", "2", "0", *s.numbers, "-1", "3", "box.n")
        i, t = (lambda: self.number(depth - 1)), (lambda: self.tensor(depth - 1))
        return s.one_of(
            "1", "2", "0", *s.numbers, "-1", "0.5",
            lambda: f"len({s.one_of(*s.lists, 'd', 'box', 'LOG')})",
            lambda: f"{t()}.{s.one_of('shape[0]', 'dim()', 'shape[-1]', 'numel()')}",
            lambda: f"({i()} {s.one_of('+', '-', '*')} {i()})",
            lambda: f"({i()} {s.one_of('%', '//')} {i()})",
            lambda: f"int({t()}.sum().clamp(-3, 3).item())",
            lambda: f"say({i()})",
            lambda: f"max({i()}, {i()})",
            lambda: f"d.get({self.key()}, {i()})" if depth > 1 else "d.get('k', 1)",
            lambda: f"({i()} if {self.condition(depth - 1)} else {i()})",
            "box.n", "box.twice", "G", "STATE['count']", "Box.kind", "int(flag)", "random.randint(0, 3)",
            lambda: self.idiom(NUMBERS, depth - 1), lambda: self.idiom(NUMBERS, depth - 1),
        )  # fmt: skip

    def condition(self, depth: int = 1) -> str:
        """An expression that is asked for its truth."""
        s = self.scope
        t, i = (lambda: self.tensor(depth - 1)), (lambda: self.number(depth - 1))
        simple: list[str | Callable[[], str]] = [
            "flag",
            lambda: f"{i()} {s.one_of('<', '>', '==', '!=', '>=')} {i()}",
            lambda: f"{t()}.sum() > {i()}",
            lambda: f"{self.key()} in d",
            lambda: f"{s.one_of(*s.tensors)} is {s.one_of(*s.tensors, 'box.t', 'a[0]')}",
            lambda: f"{t()}.dim() == 1",
            lambda: s.one_of("a", "b", "d", "box", "isinstance(box, Box)", "box == box", "hasattr(box, 'extra')", "d is not None"),
            lambda: f"{t()}.requires_grad",
            lambda: f"torch.any({t()} > 2)",
            lambda: f"say({i()})",
        ]
        if depth > 0:
            c = lambda: self.condition(depth - 1)
            simple += [
                lambda: f"not {c()}",
                lambda: f"({c()} and {c()})",
                lambda: f"({c()} or {c()})",
                lambda: f"0 < {i()} < {i()}",
            ]
        return s.one_of(*simple)

    def key(self) -> str:
        """A key of a dict."""
        return self.scope.one_of("'k'", "'t'", "1", "(1, 'z')", "None", "n", "'new'")

    def items(self, depth: int = 1) -> str:
        """An expression that can be walked; bounded."""
        s = self.scope
        return s.one_of(
            "a[:3]", "b[:2]", "range(2)",
            lambda: f"[{self.tensor(depth - 1)}, {self.number(depth - 1)}]",
            lambda: f"numbers({self.tensor(depth - 1)}, {self.number(depth - 1)})",
            lambda: f"delegates({self.tensor(depth - 1)}, 2)",
            lambda: f"range({self.number(depth - 1)} % 4)" if depth > 0 else "range(3)",
            lambda: f"enumerate({self.items(depth - 1)})" if depth > 0 else "enumerate(b[:2])",
            lambda: f"zip(a[:3], {self.items(depth - 1)})" if depth > 0 else "zip(a[:3], b[:3])",
            lambda: f"(v for v in {self.items(depth - 1)})" if depth > 0 else "(v for v in a[:3])",
            lambda: f"[say(v) for v in {self.items(depth - 1)}]" if depth > 0 else "[say(v) for v in a[:2]]",
            lambda: f"map(say, {self.items(depth - 1)})" if depth > 0 else "map(say, a[:2])",
            "list(d)", "list(d.items())", "x[:2]", "itertools.islice(a, 2)", "reversed(a[:2])", "box.items[:3]", "iter(a[:2])",
        )  # fmt: skip

    def value(self) -> str:
        """Anything that a container may hold."""
        s = self.scope
        return s.one_of(
            self.number, self.tensor, "a", "box", "'s'", "None", lambda: f"[{self.number()}]", lambda: f"({self.tensor(1)}, 1)"
        )

    def text(self) -> str:
        """A string, most often an f-string."""
        s = self.scope
        return s.one_of(
            "'text'",
            lambda: f"f'{{{self._plain_number()}}} {{len(a)!r:>3}}'",
            lambda: f"f'{{{self.scope.one_of(*s.tensors)}.shape}} {{flag}}'",
            lambda: f"'%s-%d' % ('v', {self.number(0)})",
            lambda: f"'{{}} {{k}}'.format({self.number(0)}, k=len(d))",
            lambda: self.idiom(TEXTS, 0),
        )

    def _plain_number(self) -> str:
        return self.scope.one_of("n", "m", "len(b)", "box.n", "box.twice", "G")


class Statements:
    """Draws statements and blocks of them, as lists of lines."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.draws = Expressions(scope)

    def block(self, depth: int, most: int = 3) -> list[str]:
        """One or more statements."""
        lines: list[str] = []
        for _ in range(1 + self.scope.below(most)):
            lines += self.statement(depth)
        return lines

    def statement(self, depth: int) -> list[str]:
        """One statement; `depth` bounds how deep blocks nest."""
        s = self.scope
        s.budget -= 1
        if depth <= 0 or s.budget <= 0 or s.below(5) < 2:
            return [self.simple()]
        compound = [
            self._if, self._for, self._try, self._with, self._while, self._try_finally, self._function, self._leave,
            self._loop_in_try_in_with, self._match, self._idiom, self._idiom, self._idiom,
        ]  # fmt: skip
        return s.draw.choice(compound)(depth)

    def simple(self) -> str:
        """A statement of one line."""
        s, e = self.scope, self.draws
        return s.one_of(
            lambda: f"{s.one_of(*s.assigned[:3])} = {e.tensor()}",
            lambda: f"m = {e.number()}",
            "print('here')",
            "dynexplore.graph_break()",
            self._in_place, self._on_lists, self._on_dicts, self._on_objects, self._on_globals, self._on_texts,
            self._on_random_numbers, self._idiomatic, self._idiomatic,
            self._on_names, self._in_place, self._on_lists,
        )  # fmt: skip

    def _idiomatic(self) -> str:
        return self.draws.idiom(LINES, 1)

    def _idiom(self, depth: int) -> list[str]:
        """A block of drawn_idioms.py; a line that is `{block}` stands for statements of the grammar."""
        lines: list[str] = []
        for line in self.draws.idiom(BLOCKS, 1).splitlines():
            bare = line.lstrip()
            inner = self.block(depth - 1, 2) if bare == "<block>" else [bare]
            lines += [" " * (len(line) - len(bare)) + one for one in inner]
        return lines

    def _in_place(self) -> str:
        s, e = self.scope, self.draws
        return s.one_of(
            lambda: f"{s.one_of(*s.tensors)} += {e.tensor(1)}",
            lambda: f"{s.one_of(*s.tensors)}.{s.one_of('add_', 'mul_', 'sub_')}({e.number()})",
            lambda: f"{s.one_of(*s.tensors)}[{s.one_of('0', '1:', '..., 0', '-1')}] = {s.one_of(e.number, lambda: e.tensor(1))}",
            lambda: f"z = {s.one_of(*s.tensors)}{s.one_of('[1:]', '.view(-1)', '[None]', '.t()', '.unsqueeze(0)')}",
            lambda: f"{s.one_of(*s.tensors)}.copy_({e.tensor(1)})",
            lambda: f"torch.add(z, {s.one_of('1', 'z')}, out=z)",
            lambda: f"{s.one_of(*s.tensors)}.zero_()",
            lambda: f"{s.one_of(*s.tensors)}.extra = {e.number()}",
        )

    def _on_lists(self) -> str:
        s, e = self.scope, self.draws
        one = s.one_of(*s.lists)
        index = s.one_of("0", "-1", "1", "len(a) - 1", e.number)
        return s.one_of(
            lambda: f"{one}.append({e.value()})",
            lambda: f"{one}[{index}] = {e.value()}",
            lambda: f"m = len({one})",
            lambda: f"z = {one}[{index}] + {e.tensor(1)}",
            lambda: f"{one}.pop({index})",
            lambda: f"del {one}[{index}]",
            lambda: f"{one}.insert({index}, {e.value()})",
            lambda: f"{one}.extend({e.items()})",
            lambda: f"{one} = [v for v in {e.items()}]",
            lambda: f"{one} = [{e.tensor(1)} for v in {e.items()} if {e.condition(0)}]",
            lambda: f"{one} = {s.one_of(*s.lists)}{s.one_of('', '[1:]', '[::-1]', ' + [1]')}",
            lambda: f"{one} += [{e.value()}]",
            lambda: f"{one}[{s.one_of('1:', ':1', '::2')}] = {e.items()}",
            lambda: f"z, *{one} = [{e.tensor(1)}, {e.value()}, *{e.items()}]",
            lambda: f"{one}.append(lambda v: v + {e.number()})",
            lambda: f"{one}.append(numbers({e.tensor(1)}, 3))",
            lambda: f"{one}.reverse()",
            lambda: f"{one}.clear()",
        )

    def _on_dicts(self) -> str:
        s, e = self.scope, self.draws
        return s.one_of(
            lambda: f"d[{e.key()}] = {e.value()}",
            lambda: f"m = d.pop({e.key()}, {e.number()})",
            lambda: f"z = d[{e.key()}] + {e.tensor(1)}",
            lambda: f"d.setdefault({e.key()}, []).append({e.value()})",
            lambda: f"d.update({{{e.key()}: {e.value()}}})",
            lambda: f"d = {{**d, {e.key()}: {e.value()}}}",
            lambda: f"d = {{k: v for k, v in d.items() if k != {e.key()}}}",
            lambda: f"del d[{e.key()}]",
            lambda: f"d[{e.key()}] += {e.number()}",
            "d.popitem()",
        )

    def _on_objects(self) -> str:
        s, e = self.scope, self.draws
        return s.one_of(
            lambda: f"box.n = {e.number()}",
            lambda: f"box.t = {e.tensor()}",
            lambda: f"box.bump({e.number()})",
            lambda: f"box.twice = {e.number()}",
            lambda: f"box.items.append({e.value()})",
            lambda: f"setattr(box, '{s.one_of('extra', 'n')}', {e.value()})",
            lambda: f"box = {s.one_of('Box', 'Loud')}({e.tensor()}, {e.number()})",
            lambda: f"z = getattr(box, '{s.one_of('t', 'extra', 'any_1')}', {e.tensor(1)})",
            "del box.extra",
            lambda: f"box.n += {e.number()}",
            lambda: f"box.t += {e.tensor(1)}",
        )

    def _on_globals(self) -> str:
        s, e = self.scope, self.draws
        return s.one_of(
            lambda: f"G = {e.number()}",
            lambda: f"LOG.append({s.one_of(e.number, e.text)})",
            lambda: f"STATE['count'] += {e.number()}",
            lambda: f"Box.kind = {e.number(0)}",
            lambda: f"z = {e.tensor()} * G",
        )

    def _on_texts(self) -> str:
        s, e = self.scope, self.draws
        return s.one_of(
            lambda: f"LOG.append({e.text()})",
            lambda: f"print({e.text()})",
            lambda: f"d[{e.text()}] = {e.value()}",
            lambda: f"print({e.tensor(1)}.tolist())",
        )

    def _on_random_numbers(self) -> str:
        s, e = self.scope, self.draws
        return s.one_of(
            "torch.manual_seed(3)",
            lambda: f"z = {e.tensor(1)} + torch.rand({s.one_of('3', '()', '2, 3')})",
            lambda: f"m = random.{s.one_of('random()', 'randint(1, 4)', 'choice([1, 2])')}",
            lambda: f"z = torch.nn.functional.dropout({e.tensor(1)}, 0.5)",
            lambda: f"z = {e.tensor(1)}.bernoulli()",
        )

    def _on_names(self) -> str:
        s, e = self.scope, self.draws
        return s.one_of(
            "x, y = y, x",
            lambda: f"z = m = {e.tensor(1)}",
            lambda: f"z = (w := {e.tensor(1)}) + w",
            lambda: f"n += {e.number()}",
            lambda: f"gone = {e.number()}; del gone",
            lambda: f"assert {e.condition()}, {e.text()}",
            lambda: f"z = {e.tensor()}; y = z",
            lambda: f"(p, q), r = ({e.tensor(1)}, {e.number()}), {e.number()}",
            lambda: f"z = max([{e.number()}, {e.number()}], key=lambda v: -v) * {e.tensor(1)}",
            lambda: f"torch.set_grad_enabled({s.one_of('True', 'False', 'flag')})",
        )

    # -- blocks --------------------------------------------------------------------------------------------------------

    def _if(self, depth: int) -> list[str]:
        lines = [f"if {self.draws.condition(2)}:", *_inside(self.block(depth - 1))]
        if self.scope.below(2):
            lines += ["else:", *_inside(self.block(depth - 1))]
        return lines

    def _for(self, depth: int) -> list[str]:
        s, e = self.scope, self.draws
        head = s.one_of(
            "for i in range(3):",
            lambda: f"for i in range({e.number()} % 4):",
            lambda: f"for v in {e.items()}:",
            lambda: f"for i, v in enumerate({e.items()}):",
            "for k, v in list(d.items()):",
            lambda: f"for v in numbers({e.tensor(1)}, {e.number()}):",
            "for k in d:",
            lambda: f"for v in zip({e.items()}, {e.items()}):",
        )
        body = self._loop_body(depth)
        if head == "for k in d:" and CHANGES_A_DICT.search("\n".join(body)):
            head = "for k in list(d):"
        return [head, *_inside(body), *self._else(depth)]

    def _while(self, depth: int) -> list[str]:
        s, e = self.scope, self.draws
        count = s.new("c")
        test = s.one_of(
            f"{count} < 3", lambda: f"{count} < 3 and {e.condition()}", lambda: f"{count} < {e.number()} and {count} < 4"
        )
        return [f"{count} = 0", f"while {test}:", f"    {count} += 1", *_inside(self._loop_body(depth)), *self._else(depth)]

    def _loop_body(self, depth: int) -> list[str]:
        s = self.scope
        before, s.in_loop = s.in_loop, True
        lines = self.block(depth - 1)
        s.in_loop = before
        return lines

    def _else(self, depth: int) -> list[str]:
        return ["else:", *_inside(self.block(depth - 1, 1))] if self.scope.below(4) == 3 else []

    def _raised(self) -> str:
        s, e = self.scope, self.draws
        return s.one_of(
            lambda: f"raise Own({e.number()})",
            lambda: f"raise Own({e.text()}) from {s.one_of('None', 'KeyError(1)')}",
            lambda: f"z = {e.tensor(1)}.reshape(99)",
            lambda: f"m = 1 // {e.number()}",
            "m = [][1]",
            lambda: f"z = {e.tensor(1)} @ torch.ones(7, 7)",
            "raise ValueError",
            "missing_name",
        )

    def _leave(self, depth: int) -> list[str]:
        s, e = self.scope, self.draws
        ways: list[str | Callable[[], str]] = [lambda: f"return {e.tensor()}, z", self._raised]
        ways += ["break", "continue"] * s.in_loop + ["raise"] * s.in_handler
        return [f"if {e.condition()}:", f"    {s.one_of(*reversed(ways))}"]

    def _try(self, depth: int) -> list[str]:
        s = self.scope
        lines = ["try:", *_inside(self.block(depth - 1))]
        if s.below(2):
            lines.append("    " + self._raised())
        kinds = ["Exception as e", "Own as e", "(RuntimeError, TypeError)", "ZeroDivisionError as e", "ValueError"]
        for _ in range(1 + s.below(2)):
            kind = s.one_of(*kinds)
            lines.append(f"except {kind}:")
            lines += _inside(self._handler(depth, " as e" in kind))
        if s.below(4) == 3:
            lines += ["else:", *_inside(self.block(depth - 1, 1))]
        if s.below(3) == 2:
            lines += ["finally:", *_inside(self.block(depth - 1, 2))]
        return lines

    def _handler(self, depth: int, named: bool) -> list[str]:
        s = self.scope
        before, s.in_handler = s.in_handler, True
        lines = self.block(depth - 1, 2)
        if named:
            lines.append(
                s.one_of("LOG.append(type(e).__name__)", "LOG.append(str(e))", "m = len(e.args)", "raise Own(2) from e", "kept = e")
            )
        s.in_handler = before
        return lines

    def _try_finally(self, depth: int) -> list[str]:
        lines = ["try:", *_inside(self.block(depth - 1))]
        if self.scope.below(3) == 2:
            lines.append("    " + self._raised())
        return [*lines, "finally:", *_inside(self.block(depth - 1, 2))]

    def _with(self, depth: int) -> list[str]:
        s, e = self.scope, self.draws
        head = s.one_of(
            "with torch.no_grad():",
            "with Own_with('p') as m:",
            "with Own_with('p', swallows=True):",
            "with Own_with('p', breaks=True):",
            "with made_with(2) as m:",
            "with torch.set_grad_enabled(flag):",
            "with torch.enable_grad():",
            "with contextlib.suppress(ValueError, RuntimeError):",
            "with torch.autocast('cpu', dtype=torch.bfloat16):",
            "with Own_with('p') as m, Own_with('q', swallows=True):",
            lambda: f"with made_with({e.number()}), torch.no_grad():",
            "with contextlib.nullcontext():",
        )
        lines = [head, *_inside(self.block(depth - 1))]
        if s.below(3) == 2:
            lines.append("    " + self._raised())
        return lines

    def _loop_in_try_in_with(self, depth: int) -> list[str]:
        s = self.scope
        body = ["for i in range(3):", *_inside([*self._loop_body(depth), self.simple()])]
        return [
            s.one_of("with torch.no_grad():", "with Own_with('w', swallows=True) as m:", "with Own_with('w', breaks=True):"),
            "    try:", *_inside(_inside(body)),
            f"    {s.one_of('except Own as e', 'finally', 'except Exception as e')}:", *_inside(_inside(self.block(depth - 2, 2))),
        ]  # fmt: skip

    def _function(self, depth: int) -> list[str]:
        s, e = self.scope, self.draws
        name = s.new("f")
        if s.functions and s.below(2):
            return [f"z = {s.one_of(*s.functions)}({e.tensor()})"]
        parameters = s.one_of("v", "v, w=1", "v, *r", "v, *r, k=2, **kw", lambda: f"v, w={e.number()}")
        lines = [f"def {name}({parameters}):"]
        changed = s.one_of("z", "m", "z, m", "")
        if changed:
            lines.append(f"    nonlocal {changed}")
        before = s.in_loop, s.in_handler, s.tensors, s.assigned, s.budget
        s.in_loop, s.in_handler, s.tensors, s.assigned, s.budget = False, False, ["v", "x", "z"], ["v"], 3
        if "z" in changed:
            s.assigned = ["z", "v"]
        lines += [f"    {self._in_function(changed)}" for _ in range(s.below(3))]
        lines.append(f"    return {e.tensor()}")
        s.in_loop, s.in_handler, s.tensors, s.assigned, s.budget = before
        s.functions.append(name)
        return [*lines, f"{s.one_of('z', 'y')} = {name}({e.tensor(1)})"]

    def _in_function(self, changed: str) -> str:
        s, e = self.scope, self.draws
        ways: list[str | Callable[[], str]] = [
            lambda: f"v = {e.tensor()}",
            "print('inner')",
            lambda: f"a.append({e.value()})",
            lambda: f"v.add_({e.number()})",
            lambda: f"box.n = {e.number()}",
            lambda: f"LOG.append({e.text()})",
        ]
        ways += [lambda: f"z = {e.tensor()}"] * ("z" in changed) + [lambda: f"m = {e.number()}"] * ("m" in changed)
        return s.one_of(*ways)

    def _match(self, depth: int) -> list[str]:
        s, e = self.scope, self.draws
        subject = s.one_of("n", "a", "d", "box", e.value)
        lines = [f"match {subject}:"]
        patterns = ["1 | 2", "[p, *q]", "{'k': p}", "Box(n=p)", "[p, q] if flag", "str()"]
        for pattern in s.draw.choices(patterns, k=1 + s.below(2)):
            lines += [f"    case {pattern}:", *_inside(_inside(self.block(depth - 1, 1)))]
        return [*lines, "    case _:", *_inside(_inside([self.simple()]))]


def _inside(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def program_of(draw: random.Random) -> str:
    """The text of a program: `program(x, y, n, flag, a, d, box)`, without the prelude. What Python refuses is drawn anew: a hole of
    an idiom may get what must not stand there, such as `:=` in what a comprehension goes over.
    """
    while True:
        text = _text_of(draw)
        try:
            with warnings.catch_warnings(action="ignore"):
                compile(text, "<drawn>", "exec")
        except SyntaxError:
            continue
        return text


def _text_of(draw: random.Random) -> str:
    scope = Scope(draw)
    statements = Statements(scope)
    body: list[str] = []
    for _ in range(1 + scope.below(LIMIT)):
        body += statements.statement(3)
    head = ["def program(x, y, n, flag, a, d, box):", "    global G, STATE", "    z, m, b = x + 1, 2, [y, 1]"]
    return "\n".join([*head, *_inside(body), "    return x, y, z, n, m, a, b, d, box"]) + "\n"


def programs() -> st.SearchStrategy[str]:
    """Such texts, as Hypothesis draws them."""
    return st.randoms(use_true_random=False).map(program_of)
