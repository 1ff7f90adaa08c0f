"""Numbers and strings of the program that change from call to call: a running total, a counter, a line of a report.

The idea: a value that is only carried along (put into a list, printed, handed to a resume function) needs no guard at all; one that
is computed with needs no known value, as long as the computation can be written down: it is a source like any other, `total + loss`
(`ComputedSource`), which the modified code and the guards compute again. So a loop that adds up numbers between graph breaks is
compiled once, and not for each total. What decides something (`if loss < best`) is guarded as such: the guard is on the comparison.

Only where the value itself is needed (a size, an index, a key) is it taken as a constant, or as an input of the graph:
`UnspecializedVariable` is a constant whose guard is installed when its `value` is asked for.

In: numbers and strings that resume functions get, floats that were seen to change. Out: computed sources, constants, graph inputs.
torch/_dynamo/variables/lazy.py (LazyConstantVariable) and the symbolic floats of variables/builder.py do the same job.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch.fx

from dynexplore.engine.provenance.sources import AttributeSource, ComputedSource, LiteralSource, Source
from dynexplore.engine.variables import builtin_rules
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Contents, Unknown
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY, binary, binary_rule, compare, unary_rule
from dynexplore.engine.variables.rules import rule, rule_for
from dynexplore.engine.variables.scalars import number_rules, text_rules
from dynexplore.engine.variables.scalars.constant import ConstantVariable, computed, run_now
from dynexplore.engine.variables.scalars.symbolic_number import SymbolicNumberVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_ROWS = (builtin_rules, number_rules, text_rules)  # their rows for constants are the ones that are asked first below
_DEEPEST = 24  # computations of computations: beyond, the value is taken as it is
_NUMBERS = (int, float)
_ALWAYS_WORKS = frozenset({"+", "-", "*"})
_WORKS_UNLESS_ZERO = frozenset({"/", "//", "%"})


class UnspecializedVariable(ConstantVariable):
    """A number or string that a later call may have otherwise. `known` is the one of this call; reading it relies on nothing."""

    kind = "changing value"
    source: Source

    def __init__(self, ctx: TraceContext, known: Any, source: Source) -> None:
        self.ctx, self.known, self.source = ctx, known, source
        self.relied_on = False
        self._proxy: Any = None

    @property
    def value(self) -> Any:
        """The value, from now on guarded."""
        if not self.relied_on:
            self.relied_on = True
            self.ctx.guard(self.source, "EQUALS", self.known)
            self.ctx.note_number(self.source, self.known)  # another one here varies, where a graph wants it
        return self.known

    def python_type(self) -> type[Any]:
        self.ctx.guard(self.source, "TYPE_MATCH", type(self.known))
        return type(self.known)

    def varying_key(self) -> tuple[object, Source] | None:
        source = self.source
        return (self.known, source) if source.guardable and not self.relied_on and _varies(self.ctx, source) else None

    def type_name(self) -> str:
        return type(self.known).__name__

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return decided(ctx, bool, [self], "bool({})")

    def same_object(self, other: VariableTracker) -> bool | None:
        if not isinstance(other, ConstantVariable) or (
            type(other) is ConstantVariable and type(other.value) not in (int, float, str)
        ):
            self.python_type()  # a later call may have any object here, that one too
            return False
        return True if other is self else super().same_object(other)

    def as_proxy(self) -> Any:
        if self._proxy is None:
            symbol = None if self.relied_on else self.ctx.dynamic_number(self.known, self.source)
            self._proxy = self.value if symbol is None else symbol.as_proxy()
        return self._proxy

    def text(self) -> str:
        text = repr(self.known)
        return text if len(text) <= 60 else text[:57] + "..."

    # -- for those who watch

    def unguarded_value(self, depth: int = 8) -> Any:
        return self._proxy if isinstance(self._proxy, torch.fx.Node) else self.known

    def may_vary(self) -> bool:
        return not self.relied_on and not isinstance(self._proxy, torch.fx.Node)

    def contents(self) -> Contents | None:
        return None


class DrawnVariable(UnspecializedVariable):
    """A number that is not known before the frame runs (a random one, and what is computed from it): no guard can be on it."""

    kind = "drawn number"

    @property
    def value(self) -> Any:
        """Needed as a constant: it is none."""
        self.ctx.break_graph("DX219", value=self.source.text())

    def python_type(self) -> type[Any]:
        return type(self.known)

    def is_constant(self) -> bool:
        return False

    def as_proxy(self) -> Any:
        if self._proxy is None:
            node = self.ctx.drawn_number(self.known, self.source)
            if node is None:
                self.ctx.break_graph("DX219", value=self.source.text())
            self._proxy = node
        return self._proxy

    def text(self) -> str:
        return self.source.text()

    def unguarded_value(self, depth: int = 8) -> Any:
        if self._proxy is None:
            raise Unknown
        return self._proxy


def _varies(ctx: TraceContext, source: Source) -> bool:
    """Whether a number is known to be another one in each call: one of an object that is one of several is, too."""
    if isinstance(source, ComputedSource):
        return any(_varies(ctx, operand) for operand in (source.base, *source.others))
    return source.varies or (isinstance(source, AttributeSource) and not ctx.is_stable(source))


# -- computing --------------------------------------------------------------------------------------------------------


def _known(value: VariableTracker) -> Any:
    return value.known if isinstance(value, UnspecializedVariable) else value.as_constant()


def _source(value: VariableTracker) -> Source:
    return value.source if isinstance(value, UnspecializedVariable) else LiteralSource(value.as_constant())


def _depth(value: VariableTracker) -> int:
    source = value.source
    return source.depth if isinstance(source, ComputedSource) else 0


def _computable(operands: Sequence[VariableTracker]) -> bool:
    """Whether the operands are numbers and strings, not too deep, one of which changes."""
    return (
        any(isinstance(operand, UnspecializedVariable) and not operand.relied_on for operand in operands)
        and all(isinstance(operand, ConstantVariable) and type(_known(operand)) in (int, float, str, bool) for operand in operands)
        and max(map(_depth, operands)) < _DEEPEST
    )


def _rely_on_kinds(ctx: TraceContext, operands: Sequence[VariableTracker]) -> None:
    """A number stays a number, whichever; a string a string."""
    for operand in operands:
        if isinstance(operand, UnspecializedVariable) and not isinstance(operand, DrawnVariable):
            if type(operand.known) in _NUMBERS:
                ctx.guard(operand.source, "NUMBER", None)
            else:
                ctx.guard(operand.source, "TYPE_MATCH", type(operand.known))


def deferred(
    ctx: TraceContext, function: Callable[..., Any], operands: Sequence[VariableTracker], text: str
) -> UnspecializedVariable:
    """The result of a C function that acts on nothing but its operands, to be computed again in each call."""
    _rely_on_kinds(ctx, operands)
    result = run_now(ctx, function, *map(_known, operands))
    first, *others = map(_source, operands)
    kind = DrawnVariable if any(isinstance(operand, DrawnVariable) for operand in operands) else UnspecializedVariable
    return kind(ctx, result, ComputedSource(first, function, tuple(others), text))


def decided(ctx: TraceContext, function: Callable[..., Any], operands: Sequence[VariableTracker], text: str) -> bool:
    """What a question about the operands is answered now; the answer is guarded, and not the operands."""
    answer = deferred(ctx, function, operands, text).value
    assert isinstance(answer, bool)
    return answer


def _operate(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    plain = symbol[:-1] if symbol in BINARY and symbol.endswith("=") else symbol
    if _computable([left, right]):
        kinds = {type(_known(left)) in (int, float, bool), type(_known(right)) in (int, float, bool)}
        if plain in COMPARE and (len(kinds) == 1 or plain in ("==", "!=")):
            return ConstantVariable(decided(ctx, COMPARE[plain], [left, right], f"({{}} {plain} {{}})"))
        if kinds == {True} and _works(ctx, plain, right):
            return deferred(ctx, BINARY[plain], [left, right], f"({{}} {plain} {{}})")
        if kinds == {False} and plain == "+":
            return deferred(ctx, operator.add, [left, right], "({} + {})")
    return computed(ctx, BINARY.get(plain) or COMPARE[plain], left.as_constant(), right.as_constant())


def _works(ctx: TraceContext, symbol: str, right: VariableTracker) -> bool:
    """Whether an operation of numbers cannot raise: a divisor must not be zero."""
    if symbol in _WORKS_UNLESS_ZERO:
        return right.truth(ctx) is True
    return symbol in _ALWAYS_WORKS


def _with_symbol(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """With a number of the graph: it becomes one, or a constant; a drawn one can be none."""
    operands: list[VariableTracker] = []
    for operand in (left, right):
        if isinstance(operand, DrawnVariable):
            node = operand.as_proxy()
            operands.append(SymbolicNumberVariable(node, node.meta["example_value"]))
        elif isinstance(operand, UnspecializedVariable):
            number = None if operand.relied_on else ctx.dynamic_number(operand.known, operand.source)
            operands.append(ConstantVariable(operand.value) if number is None else number)
        else:
            operands.append(operand)
    return (compare if symbol in COMPARE else binary)(ctx, symbol, *operands)


binary_rule(UnspecializedVariable, ConstantVariable, rank=5)(_operate)
binary_rule(ConstantVariable, UnspecializedVariable, rank=5)(_operate)
binary_rule(UnspecializedVariable, SymbolicNumberVariable, rank=5)(_with_symbol)
binary_rule(SymbolicNumberVariable, UnspecializedVariable, rank=5)(_with_symbol)


@unary_rule(UnspecializedVariable, rank=5)
def _unary(ctx: TraceContext, symbol: str, operand: UnspecializedVariable) -> VariableTracker:
    has_sign = symbol in ("neg", "pos") and type(operand.known) in _NUMBERS
    if (has_sign or (symbol == "invert" and type(operand.known) is int)) and _computable([operand]):
        return deferred(ctx, UNARY[symbol], [operand], {"neg": "-{}", "pos": "+{}", "invert": "~{}"}[symbol])
    return computed(ctx, UNARY[symbol], operand.value)


# -- functions --------------------------------------------------------------------------------------------------------


def _works_on(function: Any, operands: Sequence[VariableTracker]) -> bool:
    """Whether a function of `_DEFERRED` cannot raise for operands of these types."""
    known = [_known(operand) for operand in operands]
    if function in (min, max):
        return len(known) > 1 and all(type(value) in _NUMBERS for value in known)
    if function is format:
        return len(known) == 1 or not isinstance(operands[1], UnspecializedVariable)  # a specification that works now works later
    if function in (str, repr):
        return len(known) == 1
    return len(known) == 1 and type(known[0]) in _NUMBERS  # abs, float


def _defer(function: Any) -> None:
    """Let a builtin be computed again in each call, where an argument changes; its row for constants answers else."""
    row = rule_for(function)
    assert row is not None, function
    answer_known = row.answer

    def answer(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        if args and not kwargs and _computable(args) and _works_on(function, args):
            for arg in args:
                if function in (format, str, repr) and isinstance(arg, UnspecializedVariable):
                    arg.python_type()
            return deferred(ctx, function, args, f"{function.__name__}({', '.join(['{}'] * len(args))})")
        return answer_known(ctx, args, kwargs)

    rule(function)(answer)


for _function in (abs, float, format, max, min, repr, str):
    _defer(_function)


def joined(ctx: TraceContext, pieces: Sequence[VariableTracker]) -> VariableTracker:
    """The pieces of an f-string as one string."""
    if not _computable(pieces):
        return ConstantVariable("".join(piece.as_constant() for piece in pieces))
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = binary(ctx, "+", whole, piece)
    return whole
