"""What a symbolic step did, held against what CPython's instruction means.

The idea: a handler may be wrong (a reader swaps one to see what happens), and then graph, guards and modified code agree with
each other, and all are wrong. So each step is looked at once more, by a second opinion that knows nothing of handlers: a table
from canonical opcodes to what Python does. Three kinds of answers:

- *moves* (LOAD_FAST, COPY, BUILD_TUPLE, ...): the very same trackers must lie where Python puts the values. Settled at once.
- *computations* on constants (`2 + 3`, a jump): Python computes them again. Settled at once.
- *computations* on tensors: if the graph got exactly the node that the instruction stands for (`operator.add` of these two), the
  step is right; otherwise a `Claim` is left, and graph_replay.py runs the instruction on real values and compares.

Nothing here may ask a tracker a question that could install a guard: only plain attributes are read.

In: the stack before and after a step, and the graph. Out: None (it is right, or nothing is known of it), a `Mismatch`, or a
`Claim`. PyTorch has no counterpart.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from dynexplore.engine.bytecode.opcodes import stack_effect
from dynexplore.engine.policy.skip import is_graph_callable
from dynexplore.engine.translate.symbolic_frame import NULL
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, SizeVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.function import BuiltinVariable, CellVariable
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY
from dynexplore.engine.variables.rules import rule_for
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symbolic_number import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.tensor import TensorMethodVariable, TensorVariable
from dynexplore.second_opinion import container_checks, place_checks
from dynexplore.second_opinion.check_table import OPINIONS, Verdict, about, differs, moved, says
from dynexplore.second_opinion.deferred_checks import (
    Claim,
    Mismatch,
    Stack,
    Stepped,
    Unknown,
    as_read,
    has_nodes,
    is_plain,
    known,
    may_change,
    same_constant,
)
from dynexplore.second_opinion.stack_calls import called

_THEMES = (container_checks, place_checks)  # imported for the opinions they declare


def verdict(view: Stepped) -> Verdict:
    """What there is to say of a step."""
    for opinion in OPINIONS.get(view.step.op, ()):
        try:
            found = opinion(view)
        except (Unknown, IndexError):  # a wrong handler may have left a stack that is too short to look at
            continue
        return found if found is not None or view.step.op in _MOVES else _depth(view)
    return _depth(view)


#: opinions on these look at the whole stack themselves
_MOVES = frozenset({
    "LOAD_FAST", "STORE_FAST", "PUSH_NULL", "POP_TOP", "COPY", "SWAP", "NOP", "LOAD_DEREF", "STORE_DEREF", "FOR_ITER",
})  # fmt: skip


def _depth(view: Stepped) -> Verdict:
    """Of every other instruction at least the size of the stack after it is known."""
    step = view.step
    if step.op in _SUSPENDED or view.frame.returned is not None:
        return None
    jumped = step.target >= 0 and view.frame.pc == step.target
    expected = len(view.before) + _effect(step.op, step.arg, jumped)
    return None if len(view.after) == expected else Mismatch("depth of the stack", str(expected), str(len(view.after)))


def _effect(op: str, arg: Any, jumped: bool) -> int:
    return _effect_known(op, arg, jumped) if isinstance(arg, int | tuple | None) else stack_effect(op, None, jump=jumped)


@functools.lru_cache(maxsize=4096)
def _effect_known(op: str, arg: Any, jumped: bool) -> int:
    return stack_effect(op, arg, jump=jumped)


#: a generator's stack is put together by who resumes it, and exceptions are not pushed as CPython does
_SUSPENDED = frozenset(
    {"UNSUPPORTED", "YIELD_VALUE", "SEND", "RETURN_GENERATOR", "END_SEND", "CLEANUP_THROW", "GET_YIELD_FROM_ITER"}
)


# -- moves -----------------------------------------------------------------------------------------------------


@about("NOP")
def _nop(view: Stepped) -> Verdict:
    return moved(view.before, view)


@about("POP_TOP")
def _pop(view: Stepped) -> Verdict:
    return moved(view.before[:-1], view)


@about("PUSH_NULL")
def _push_null(view: Stepped) -> Verdict:
    return moved([*view.before, NULL], view)


@about("COPY")
def _copy(view: Stepped) -> Verdict:
    return moved([*view.before, view.before[-view.step.arg]], view)


@about("SWAP")
def _swap(view: Stepped) -> Verdict:
    expected = list(view.before)
    expected[-1], expected[-view.step.arg] = expected[-view.step.arg], expected[-1]
    return moved(expected, view)


@about("LOAD_FAST")
def _load_fast(view: Stepped) -> Verdict:
    bound = view.bound
    if bound is None or (isinstance(bound, LazyVariable) and type(bound) is not LazyVariable):
        raise Unknown
    return moved([*view.before, bound], view)


@about("STORE_FAST")
def _store_fast(view: Stepped) -> Verdict:
    value = view.before[-1]
    bound = view.frame.locals.get(view.step.arg)
    if value is not NULL and not isinstance(value, CellVariable) and bound is not value:
        return differs(f"local {view.step.arg}", says(value), says(bound))
    return moved(view.before[:-1], view)


@about("RETURN_VALUE")
def _return_value(view: Stepped) -> Verdict:
    returned = view.frame.returned
    return None if returned is view.before[-1] else differs("value returned", says(view.before[-1]), says(returned))


@about("BUILD_TUPLE", "BUILD_LIST")
def _build(view: Stepped) -> Verdict:
    count = view.step.arg
    items = view.before[len(view.before) - count :]
    made = view.after[-1]
    if not isinstance(made, TupleVariable if view.step.op == "BUILD_TUPLE" else ListVariable):
        return Mismatch("value on the stack", view.step.op.removeprefix("BUILD_").lower(), says(made))
    if len(made.items) != count or any(as_read(want) is not as_read(got) for want, got in zip(items, made.items, strict=True)):
        return differs("items", ", ".join(map(says, items)), ", ".join(map(says, made.items)))
    return None


@about("UNPACK_SEQUENCE")
def _unpack(view: Stepped) -> Verdict:
    sequence = view.before[-1]
    if type(sequence) not in (TupleVariable, ListVariable, SizeVariable):
        raise Unknown
    items = sequence.items  # type: ignore[attr-defined]
    return moved([*view.before[:-1], *reversed(items)], view)


# -- computations ----------------------------------------------------------------------------------------------


def _computes(
    view: Stepped,
    function: Callable[..., Any],
    operands: Stack,
    named: dict[str, VariableTracker] | None = None,
    *,
    method: str = "",
) -> Verdict:
    """The top must be what `function` gives; see the head of this file."""
    values = tuple(map(known, operands))
    keywords = {name: known(value) for name, value in (named or {}).items()}
    result = known(view.after[-1])
    if _is_the_node(view, method or function, values, keywords, result):
        return None
    if has_nodes((*values, *keywords.values(), result)):
        if any(map(may_change, (*operands, *(named or {}).values(), view.after[-1]))):
            raise Unknown
        return Claim(function, values, result, keywords)
    if not all(map(is_plain, (*values, *keywords.values()))):
        raise Unknown
    try:
        expected = function(*values, **keywords)
    except Exception:  # any operator may raise anything: then the step was no computation that succeeded
        return None
    return None if same_constant(expected, result) else Mismatch("value", repr(expected)[:80], repr(result)[:80])


def _is_the_node(view: Stepped, target: Any, values: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> bool:
    """Whether the graph got the one node that the instruction stands for."""
    if len(view.made) != 1 or view.made[0] is not result:
        return False
    node = view.made[0]
    return bool(
        node.op == ("call_method" if isinstance(target, str) else "call_function")
        and (node.target == target if isinstance(target, str) else node.target is target)
        and same_constant(tuple(node.args), values)
        and node.kwargs.keys() == keywords.keys()
        and all(same_constant(node.kwargs[name], value) for name, value in keywords.items())
    )


@about("BINARY_OP")
def _binary(view: Stepped) -> Verdict:
    if isinstance(view.before[-2], ListVariable) and view.step.arg.endswith("="):
        raise Unknown  # the list is what it became by now
    return _computes(view, BINARY[view.step.arg], view.before[-2:])


@about("COMPARE_OP")
def _compare(view: Stepped) -> Verdict:
    return _computes(view, COMPARE[view.step.arg], view.before[-2:])


@about("UNARY_OP")
def _unary(view: Stepped) -> Verdict:
    return _computes(view, UNARY[view.step.arg], view.before[-1:])


@about("BINARY_SUBSCR")
def _subscript(view: Stepped) -> Verdict:
    return _item(view, view.before[-2], view.before[-1:])


@about("BINARY_SLICE")
def _slice(view: Stepped) -> Verdict:
    return _item(view, view.before[-3], view.before[-2:])


def _item(view: Stepped, container: VariableTracker, key: Stack) -> Verdict:
    """`container[key]`: of a sequence of trackers the very item, else a computation."""
    where = known(key[0]) if len(key) == 1 else slice(*map(known, key))
    if type(container) in (TupleVariable, ListVariable, SizeVariable) and not has_nodes(where) and is_plain(where):
        items = container.items  # type: ignore[attr-defined]
        if type(where) is not int or not -len(items) <= where < len(items):
            raise Unknown
        return moved([*view.before[:-2], items[where]], view)
    return _computes(view, operator.getitem, [container, *key] if len(key) == 1 else [container, _made_slice(*key, _NONE)])


_NONE = ConstantVariable(None)
_made_slice: Any = SliceVariable


@about("CONTAINS_OP")
def _contains(view: Stepped) -> Verdict:
    inverted = bool(view.step.arg)
    return _computes(view, lambda item, container: (item in container) is not inverted, view.before[-2:])


@about("TO_BOOL")
def _to_bool(view: Stepped) -> Verdict:
    return _computes(view, bool, view.before[-1:])


@about("GET_LEN")
def _length(view: Stepped) -> Verdict:
    return _computes(view, len, view.before[-1:])


@about("LOAD_CONST")
def _load_const(view: Stepped) -> Verdict:
    constant = view.step.arg
    return _computes(view, lambda: constant, []) if is_plain(constant) else None


@about("BUILD_STRING")
def _build_string(view: Stepped) -> Verdict:
    parts = view.before[len(view.before) - view.step.arg :]
    return _computes(view, lambda *texts: "".join(texts), parts)


_CONVERSIONS: dict[str | None, Callable[[Any], Any]] = {"str": str, "repr": repr, "ascii": ascii}


@about("CONVERT_VALUE")
def _convert(view: Stepped) -> Verdict:
    return _computes(view, _CONVERSIONS[view.step.arg], view.before[-1:])


@about("FORMAT_VALUE")
def _format(view: Stepped) -> Verdict:
    conversion, has_spec = view.step.arg
    first = _CONVERSIONS.get(conversion, lambda value: value)
    return _computes(view, lambda value, spec="": format(first(value), spec), view.before[-1 - bool(has_spec) :])


_ABOUT_TENSORS = frozenset({"shape", "ndim", "dtype", "device", "T", "mT", "H", "mH", "real", "imag", "itemsize", "is_cuda"})


@about("LOAD_ATTR")
def _load_attribute(view: Stepped) -> Verdict:
    owner, name = view.before[-1], view.step.arg
    if not isinstance(owner, TensorVariable) or name not in _ABOUT_TENSORS:
        raise Unknown
    node = view.made[0] if len(view.made) == 1 else None
    if node is not None and node.target is getattr and node.args == (owner.node, name) and known(view.after[-1]) is node:
        return None
    return _computes(view, operator.attrgetter(name), [owner])


# -- calls -----------------------------------------------------------------------------------------------------

_PURE = (len, abs, min, max, sum, int, float, bool, str, round, divmod, pow)


@about("CALL", "CALL_KW", "CALL_FUNCTION_EX")
def _call(view: Stepped) -> Verdict:
    """A call of an operator of torch, a method of a tensor, or a builtin that only computes."""
    if view.inlined:
        return None
    function, args, named = called(view)
    if type(function) is TensorMethodVariable:
        name = function.name
        if name.endswith("_") or name in _OF_GRADIENTS:
            raise Unknown
        return _computes(view, _method(name), [function.tensor, *args], named, method=name)
    if type(function) is not BuiltinVariable:
        raise Unknown
    target = function.function
    if not any(target is one for one in _PURE) and (rule_for(target) is not None or not is_graph_callable(target)):
        raise Unknown
    return _computes(view, target, args, named)


#: methods about gradients, modes and memory: these are others in a replay
_OF_GRADIENTS = frozenset({
    "detach", "requires_grad_", "backward", "register_hook", "retain_grad", "is_inference", "is_shared", "is_pinned", "is_set_to",
    "stride", "storage_offset", "is_contiguous", "data_ptr", "untyped_storage",
})  # fmt: skip


def _method(name: str) -> Callable[..., Any]:
    return lambda receiver, *args, **named: getattr(receiver, name)(*args, **named)


# -- jumps -----------------------------------------------------------------------------------------------------


@about("JUMP")
def _jump(view: Stepped) -> Verdict:
    return _went(view, True)


@about("POP_JUMP_IF_TRUE", "JUMP_IF_TRUE_OR_POP")
def _jump_if_true(view: Stepped) -> Verdict:
    return _decided(view, bool)


@about("POP_JUMP_IF_FALSE", "JUMP_IF_FALSE_OR_POP")
def _jump_if_false(view: Stepped) -> Verdict:
    return _decided(view, operator.not_)


@about("POP_JUMP_IF_NONE")
def _jump_if_none(view: Stepped) -> Verdict:
    return _decided(view, lambda value: value is None)


@about("POP_JUMP_IF_NOT_NONE")
def _jump_if_not_none(view: Stepped) -> Verdict:
    return _decided(view, lambda value: value is not None)


def _decided(view: Stepped, decide: Callable[[Any], bool]) -> Verdict:
    """A jump that depends on a value: of a constant it is known where it goes, a symbolic number is asked in the replay."""
    value = known(view.before[-1])
    if isinstance(value, torch.fx.Node):
        if type(view.before[-1]) is not SymbolicNumberVariable:
            raise Unknown
        return Claim(decide, (value,), view.frame.pc == view.step.target, {})
    if has_nodes(value) and not isinstance(value, tuple | list):
        raise Unknown
    return _went(view, decide(value))


def _went(view: Stepped, jumps: bool) -> Verdict:
    target = view.step.target if jumps else view.step.index + 1
    if view.frame.pc == target:
        return None
    return Mismatch("next instruction", f"step {target}", f"step {view.frame.pc}")
