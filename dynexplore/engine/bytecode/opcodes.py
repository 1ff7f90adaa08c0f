"""The canonical instruction set: one row per opcode, the same for every Python that dynexplore runs on.

The idea: CPython renames, splits and merges opcodes with each release. `reader.py` lowers them to the rows of this table, so that
the translator has one handler per row and never checks which Python it runs on. A row is also the documentation: its stack effect
in words is what the widget shows, what the tests check against `dis.stack_effect`, and what one needs to write the handler.

In: nothing. Out: `OPCODES` (name -> `Opcode`), `stack_change`, `stack_effect`. PyTorch's counterpart: one method per CPython opcode
and version in torch/_dynamo/symbolic_convert.py, and `stacksize_analysis` in torch/_dynamo/bytecode_analysis.py.

The words of an effect: `"left right -- result"` pops `right` and `left` (the top of the stack is on the right) and pushes `result`;
`items[n]` represents as many values as the row's `count` says. A word on both sides is one value that stays or is moved:
`"deep between[n] top -- top between[n] deep"` is SWAP. `null` is the NULL beside a callable. For a jump, `jumped` is the effect
when it is taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from dynexplore.engine.records import record

T = TypeVar("T")


@record()
class Opcode:
    """One canonical opcode. `count` computes the n of `items[n]`, `count_after` the m of `items[m]`.

    `only_moves`: it only moves values of the stack, so that its effect defines it completely.
    """

    name: str
    effect: str
    operand: str
    sentence: str
    jumped: str | None = None
    count: Callable[[Any], int] | None = None
    count_after: Callable[[Any], int] | None = None
    only_moves: bool = False

    @property
    def jumps(self) -> bool:
        """Whether a step of this opcode has a target."""
        return self.jumped is not None


def _itself(n: Any) -> int:
    return int(n)


def _above(depth: Any) -> int:
    """How many values are above the one at this depth."""
    return int(depth) - 1


def _between(depth: Any) -> int:
    """How many values are between the top and the one at this depth."""
    return int(depth) - 2


def _call_count(operand: Any) -> int:
    return int(operand[0])


def _function_parts(flags: Any) -> int:
    return int(flags).bit_count()


def _spec(operand: Any) -> int:
    return int(bool(operand[1]))


def _flag(operand: Any) -> int:
    return int(bool(operand))


_GENERATORS = "only in generators and coroutines"

_ROWS = (
    # -- the stack itself
    Opcode("NOP", "--", "none", "Do nothing.", only_moves=True),
    Opcode("POP_TOP", "value --", "none", "Drop the value on top.", only_moves=True),
    Opcode("PUSH_NULL", "-- null", "none", "Push the empty slot that a call has beside its callable.",
           only_moves=True),
    Opcode("COPY", "value above[n] -- value above[n] value", "depth, 1 = top",
           "Push the value at this depth once more.",
           count=_above, only_moves=True),
    Opcode("SWAP", "deep between[n] top -- top between[n] deep", "depth, 2 = below the top",
           "Exchange the top with the value at this depth.",
           count=_between, only_moves=True),
    # -- names
    Opcode("LOAD_CONST", "-- value", "the constant itself", "Push a constant."),
    Opcode("LOAD_FAST", "-- value", "name", "Push a local variable; unbound: UnboundLocalError."),
    Opcode("LOAD_FAST_AND_CLEAR", "-- value_or_null", "name",
           "Push what the local's slot holds (an empty slot, or a cell itself, too) and leave the slot empty."),
    Opcode("STORE_FAST", "value --", "name",
           "Store the top in the local's slot (after LOAD_FAST_AND_CLEAR also an empty slot or a cell)."),
    Opcode("DELETE_FAST", "--", "name", "Make a local variable unbound."),
    Opcode("LOAD_GLOBAL", "-- value", "name", "Push a global, or else a builtin."),
    Opcode("STORE_GLOBAL", "value --", "name", "Bind a global name."),
    Opcode("DELETE_GLOBAL", "--", "name", "Unbind a global name."),
    Opcode("LOAD_NAME", "-- value", "name", "Push a name of a module or class body."),
    Opcode("STORE_NAME", "value --", "name", "Bind a name of a module or class body."),
    Opcode("DELETE_NAME", "--", "name", "Unbind a name of a module or class body."),
    Opcode("LOAD_LOCALS", "-- namespace", "none", "Push the namespace of a class body."),
    Opcode("LOAD_DEREF", "-- value", "name", "Push the content of a closure cell; empty: NameError."),
    Opcode("STORE_DEREF", "value --", "name", "Store the top in a closure cell."),
    Opcode("DELETE_DEREF", "--", "name", "Empty a closure cell."),
    Opcode("LOAD_CLOSURE", "-- cell", "name",
           "Push the cell itself (more exactly: what its slot holds now, see LOAD_FAST_AND_CLEAR)."),
    Opcode("MAKE_CELL", "--", "name",
           "Put the slot's value into a new cell in that slot (only where a comprehension is inlined)."),
    Opcode("LOAD_CLASSDEREF", "-- value", "name",
           "Push a name of the class namespace, or else of a cell."),
    Opcode("LOAD_FROM_DICT_OR_DEREF", "namespace -- value", "name",
           "Look a name up in the namespace on top, or else in a cell."),
    Opcode("LOAD_FROM_DICT_OR_GLOBALS", "namespace -- value", "name",
           "Look a name up in the namespace on top, or else among globals and builtins."),
    # -- operators
    Opcode("UNARY_OP", "value -- result", "'neg', 'pos', 'not' or 'invert'", "Apply a unary operator."),
    Opcode("BINARY_OP", "left right -- result", "the operator: '+', '+=', ...",
           "Apply a binary operator, in place if it ends in '='."),
    Opcode("COMPARE_OP", "left right -- result", "the operator: '<', '==', ...", "Compare two values."),
    Opcode("IS_OP", "left right -- result", "True for `is not`", "Compare two identities."),
    Opcode("CONTAINS_OP", "item container -- result", "True for `not in`",
           "Test whether a container contains an item."),
    Opcode("TO_BOOL", "value -- truth", "none", "Replace a value with its truth value, True or False."),
    Opcode("BINARY_SUBSCR", "container key -- item", "none", "container[key]."),
    Opcode("STORE_SUBSCR", "value container key --", "none", "container[key] = value."),
    Opcode("DELETE_SUBSCR", "container key --", "none", "del container[key]."),
    Opcode("BINARY_SLICE", "container start stop -- part", "none", "container[start:stop]."),
    Opcode("STORE_SLICE", "value container start stop --", "none", "container[start:stop] = value."),
    Opcode("BUILD_SLICE", "parts[n] -- slice", "2 or 3",
           "Build slice(start, stop) or slice(start, stop, step).",
           count=_itself),
    # -- attributes
    Opcode("LOAD_ATTR", "owner -- value", "name", "owner.name."),
    Opcode("STORE_ATTR", "value owner --", "name", "owner.name = value."),
    Opcode("DELETE_ATTR", "owner --", "name", "del owner.name."),
    Opcode("LOAD_SUPER_ATTR", "super cls self -- value", "(name, two_arg)",
           "super(cls, self).name; two_arg is False when the source says super()."),
    # -- containers
    Opcode("BUILD_TUPLE", "items[n] -- tuple", "count", "Build a tuple.", count=_itself),
    Opcode("BUILD_LIST", "items[n] -- list", "count", "Build a list.", count=_itself),
    Opcode("BUILD_SET", "items[n] -- set", "count", "Build a set.", count=_itself),
    Opcode("BUILD_MAP", "keys_values[n] -- dict", "count of pairs",
           "Build a dict of keys and values in turn.",
           count=lambda n: 2 * int(n)),
    Opcode("BUILD_CONST_KEY_MAP", "values[n] keys -- dict", "count",
           "Build a dict; the keys are a tuple on top.",
           count=_itself),
    Opcode("BUILD_STRING", "parts[n] -- string", "count", "Join strings.", count=_itself),
    Opcode("LIST_APPEND", "item --", "depth of the list, without the item", "list.append(item)."),
    Opcode("SET_ADD", "item --", "depth of the set, without the item", "set.add(item)."),
    Opcode("MAP_ADD", "key value --", "depth of the dict, without key and value", "dict[key] = value."),
    Opcode("LIST_EXTEND", "items --", "depth of the list, without the items", "list.extend(items)."),
    Opcode("SET_UPDATE", "items --", "depth of the set, without the items", "set.update(items)."),
    Opcode("DICT_UPDATE", "mapping --", "depth of the dict, without the mapping",
           "dict.update(mapping)."),
    Opcode("DICT_MERGE", "mapping --", "depth of the dict, without the mapping",
           "dict.update(mapping) for **kwargs: a key given twice is a TypeError."),
    Opcode("LIST_TO_TUPLE", "list -- tuple", "none", "tuple(list)."),
    Opcode("UNPACK_SEQUENCE", "sequence -- items[m]", "count", "Unpack; the first item ends on top.",
           count_after=_itself),
    Opcode("UNPACK_EX", "sequence -- items[m]", "(before, after)",
           "Unpack with a star: `before` items, a list of the rest, `after` items; the first ends on top.",
           count_after=lambda pair: int(pair[0]) + 1 + int(pair[1])),
    Opcode("GET_LEN", "value -- value length", "none", "Push len(value), leaving the value."),
    # -- strings
    Opcode("CONVERT_VALUE", "value -- string", "'str', 'repr' or 'ascii'",
           "Apply !s, !r or !a of an f-string."),
    Opcode("FORMAT_VALUE", "value spec[n] -- string", "(conversion or None, has_spec)",
           "format(value, spec) of an f-string; a conversion, if any, is applied to the value first.", count=_spec),
    Opcode("BUILD_INTERPOLATION", "value expression spec[n] -- interpolation", "(conversion or None, has_spec)",
           "A value of a template string, with the text of its expression.", count=_spec),
    Opcode("BUILD_TEMPLATE", "strings interpolations -- template", "none",
           "A template string: a tuple of strings, and a tuple of the interpolations between them."),
    # -- calls and functions
    Opcode("CALL", "callable_null_pair[2] arguments[n] -- result", "(count, keyword names)",
           "Call; the last len(keyword names) of the arguments are keywords.", count=_call_count),
    Opcode("CALL_KW", "callable_null_pair[2] arguments[n] names -- result", "count",
           "Call; a tuple on top names the last arguments.", count=_itself),
    Opcode("CALL_FUNCTION_EX", "callable_null_pair[2] arguments kwargs[n] -- result", "has_kwargs",
           "Call with a tuple of arguments and, if has_kwargs, a dict.", count=_flag),
    Opcode("MAKE_FUNCTION", "parts[n] code -- function",
           "flags: 1 defaults, 2 keyword defaults, 4 annotations, 8 closure",
           "Create a function from a code object and the parts that the flags select.", count=_function_parts),
    Opcode("SET_FUNCTION_ATTRIBUTE", "value function -- function", "flag, as in MAKE_FUNCTION",
           "Set the defaults, annotations or closure of a new function."),
    Opcode("CALL_INTRINSIC_1", "value -- result", "CPython's name, INTRINSIC_...",
           "One of CPython's rare one-argument helpers."),
    Opcode("CALL_INTRINSIC_2", "first second -- result", "CPython's name, INTRINSIC_...",
           "One of CPython's rare two-argument helpers."),
    Opcode("LOAD_BUILD_CLASS", "-- builder", "none", "Push builtins.__build_class__."),
    Opcode("RETURN_VALUE", "value --", "none", "Return the top."),
    # -- control flow
    Opcode("JUMP", "--", "none", "Go to the target.", jumped="--"),
    Opcode("POP_JUMP_IF_TRUE", "value --", "none",
           "Go to the target if the value is true.", jumped="value --"),
    Opcode("POP_JUMP_IF_FALSE", "value --", "none",
           "Go to the target if the value is false.", jumped="value --"),
    Opcode("POP_JUMP_IF_NONE", "value --", "none",
           "Go to the target if the value is None.", jumped="value --"),
    Opcode("POP_JUMP_IF_NOT_NONE", "value --", "none", "Go to the target unless the value is None.",
           jumped="value --"),
    Opcode("JUMP_IF_TRUE_OR_POP", "value --", "none",
           "If the value is true keep it and go to the target.",
           jumped="value -- value"),
    Opcode("JUMP_IF_FALSE_OR_POP", "value --", "none",
           "If the value is false keep it and go to the target.",
           jumped="value -- value"),
    Opcode("GET_ITER", "iterable -- iterator", "none", "iter(iterable)."),
    Opcode("FOR_ITER", "iterator -- iterator item", "none",
           "Push the next item; when there is none, drop the iterator and go to the target.", jumped="iterator --"),
    # -- match
    Opcode("MATCH_MAPPING", "subject -- subject truth", "none",
           "Push whether the subject is a mapping."),
    Opcode("MATCH_SEQUENCE", "subject -- subject truth", "none",
           "Push whether the subject is a sequence."),
    Opcode("MATCH_KEYS", "subject keys -- subject keys values_or_none", "none",
           "Push the tuple of values under the keys, or None."),
    Opcode("MATCH_CLASS", "subject class names -- attributes_or_none", "count of positional patterns",
           "Match a class pattern: push a tuple of attributes, or None."),
    # -- exceptions and with
    Opcode("RAISE_VARARGS", "parts[n] --", "0, 1 (exception) or 2 (exception, cause)",
           "raise.", count=_itself),
    Opcode("RERAISE", "exception --", "depth of lasti below the exception, 0 if none",
           "Raise the exception on top again, without a new traceback entry."),
    Opcode("PUSH_EXC_INFO", "exception -- previous exception", "none",
           "Begin handling: the exception becomes the current one, the previous one goes below it."),
    Opcode("POP_EXCEPT", "previous --", "none",
           "End handling: the previous exception is the current one again."),
    Opcode("CHECK_EXC_MATCH", "exception type -- exception truth", "none",
           "`except type`: does it match?"),
    Opcode("CHECK_EG_MATCH", "group type -- rest match", "none", "`except* type`: split the group."),
    Opcode("PREP_RERAISE_STAR", "original raised -- exception_or_none", "none",
           "End of `except*`: what is left to be raised."),
    Opcode("WITH_EXCEPT_START", "exit empty[n] lasti previous exception -- exit empty[n] lasti previous exception result",
           "1 where the exit function has a slot beside it",
           "Call the exit function of a `with` with the exception.", count=_itself),
    Opcode("BEFORE_WITH", "manager -- exit entered", "none",
           "Call __enter__; leave the bound __exit__ below it."),
    Opcode("LOAD_ASSERTION_ERROR", "-- AssertionError", "none", "Push AssertionError."),
    # -- imports
    Opcode("IMPORT_NAME", "level fromlist -- module", "name", "Import a module."),
    Opcode("IMPORT_FROM", "module -- module value", "name", "Push one name of a module."),
    Opcode("IMPORT_STAR", "module --", "none", "from module import *."),
    # -- generators
    Opcode("RETURN_GENERATOR", "-- sent", "none", f"Make the generator and return it ({_GENERATORS})."),
    Opcode("YIELD_VALUE", "value -- sent", "none",
           f"Yield the top, then push the value that is sent ({_GENERATORS})."),
    Opcode("GET_YIELD_FROM_ITER", "iterable -- iterator", "none",
           f"Prepare `yield from` ({_GENERATORS})."),
    Opcode("SEND", "receiver value -- receiver yielded", "none",
           f"Send into the receiver; when it has returned, drop it and go to the target ({_GENERATORS}).",
           jumped="receiver value -- returned"),
    Opcode("END_SEND", "receiver value -- value", "none",
           f"Drop a receiver that has returned ({_GENERATORS})."),
    Opcode("CLEANUP_THROW", "receiver last exception -- none value", "none",
           f"After throw(): turn StopIteration into its value, or raise again ({_GENERATORS})."),
    # -- opcodes that are not traced
    Opcode("UNSUPPORTED", "--", "CPython's opcode name",
           "A CPython opcode that is not traced; `versions.UNSUPPORTED` says why (its stack effect is not modelled)."),
)  # fmt: skip

#: every canonical opcode by name
OPCODES: dict[str, Opcode] = {row.name: row for row in _ROWS}


class StackChange(NamedTuple):
    """The effect of a step on the stack: how many values it pops, and what it pushes, deepest first.

    Each pushed value is the index of a popped one (0 is the deepest), or the word for a new one.
    """

    popped: int
    pushed: tuple[int | str, ...]

    def applied(self, stack: Sequence[T], new: Mapping[str, T]) -> list[T]:
        """The stack after the step; `new` maps words to the new values.

        >>> stack_change("SWAP", 3).applied(["a", "b", "c", "d"], {})
        ['a', 'd', 'c', 'b']
        """
        rest = len(stack) - self.popped
        return [*stack[:rest], *[new[value] if isinstance(value, str) else stack[rest + value] for value in self.pushed]]


def stack_change(op: str, arg: Any = None, *, jump: bool = False) -> StackChange:
    """The effect of a step on the stack, from its row's words (`jump`: if its jump is taken).

    >>> stack_change("SWAP", 3), stack_change("COPY", 2)
    (StackChange(popped=3, pushed=(2, 1, 0)), StackChange(popped=2, pushed=(0, 1, 0)))
    >>> stack_change("FOR_ITER"), stack_change("FOR_ITER", jump=True)
    (StackChange(popped=1, pushed=(0, 'item')), StackChange(popped=1, pushed=()))
    """
    row = OPCODES[op]
    is_counted = row.count is not None or row.count_after is not None
    return _stack_change(op, arg if is_counted else None, jump)


@functools.lru_cache(maxsize=4096)
def _stack_change(op: str, arg: Any, jump: bool) -> StackChange:
    row = OPCODES[op]
    words = row.jumped if jump and row.jumped is not None else row.effect
    before, _, after = words.partition("--")
    popped = _values(before, row, arg)
    index_of = {value: index for index, value in enumerate(popped)}
    return StackChange(len(popped), tuple([index_of.get(value, value[0]) for value in _values(after, row, arg)]))


def _values(words: str, row: Opcode, arg: Any) -> list[tuple[str, int]]:
    """The values on one side of an effect: each as its word and its index among the values of that word."""
    values = []
    for word in words.split():
        name, _, length = word.partition("[")
        values += [(name, number) for number in range(_count(length.rstrip("]"), row, arg))]
    return values


def _count(length: str, row: Opcode, arg: Any) -> int:
    match length:
        case "":
            return 1
        case "n":
            assert row.count is not None, row.name
            return row.count(arg)
        case "m":
            assert row.count_after is not None, row.name
            return row.count_after(arg)
        case digits:
            return int(digits)


def stack_effect(op: str, arg: Any = None, *, jump: bool = False) -> int:
    """The number of values a step pushes minus the number it pops (`jump`: if its jump is taken).

    >>> stack_effect("BUILD_TUPLE", 3), stack_effect("FOR_ITER"), stack_effect("FOR_ITER", jump=True)
    (-2, 1, -1)
    """
    change = stack_change(op, arg, jump=jump)
    return len(change.pushed) - change.popped
