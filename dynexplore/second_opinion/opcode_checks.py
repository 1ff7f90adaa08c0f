"""Checks of single instructions: a symbolic step against the meaning of CPython's instruction.

The idea: a handler may be wrong (a reader may replace one as an experiment), and then graph, guards and modified code are
consistent with each other and all wrong. So each step is checked against a table from canonical opcodes to their meaning in
Python, which is independent of the handlers. Three kinds of checks:

- of *moves* (LOAD_FAST, BUILD_TUPLE, ...): the identical trackers must be where Python puts the values. Decided at once. For
  instructions that only move values of the stack (SWAP, COPY, ...) the row in engine/bytecode/opcodes.py defines the result;
  for every other instruction it defines which values remain on the stack below the operands.
- of *computations* on constants (`2 + 3`, a jump): Python computes them again. Decided at once.
- of *computations* on tensors: if the graph got exactly the node that the instruction corresponds to (`operator.add` of these
  two), the step is right; otherwise the check is a `DeferredCheck`: graph_replay.py runs the instruction on real values and
  compares.

No query on a tracker here may install a guard.

In: the stack before and after a step, and the graph. Out: None (it is right, or inconclusive), a `Mismatch`, or a
`DeferredCheck`. PyTorch's counterpart: none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from dynexplore.engine.bytecode import OPCODES
from dynexplore.engine.bytecode.opcodes import stack_change
from dynexplore.engine.policy.skip import is_graph_callable
from dynexplore.engine.translate.symbolic_frame import NULL
from dynexplore.engine.variables.callables.function import BuiltinVariable, CellVariable
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Unknown
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY
from dynexplore.engine.variables.rules import rule_for
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorMethodVariable, TensorVariable
from dynexplore.second_opinion import container_checks, method_checks, place_checks
from dynexplore.second_opinion.check_table import CHECKS, another, check, check_stack, text_of
from dynexplore.second_opinion.contents import is_sequence
from dynexplore.second_opinion.deferred_checks import (
    CheckedStep,
    DeferredCheck,
    Mismatch,
    Stack,
    Verdict,
    as_read,
    has_nodes,
    is_plain,
    same_constant,
)
from dynexplore.second_opinion.fast_checks import NEW_VALUES
from dynexplore.second_opinion.large_containers import SMALL
from dynexplore.second_opinion.stack_calls import call_on_stack

_THEMES = (container_checks, method_checks, place_checks)  # imported for the checks that they register


def verdict(step: CheckedStep) -> Verdict:
    """The verdict on a step."""
    if OPCODES[step.op].only_moves:
        return check_stack(stack_change(step.op, step.arg).applied(step.before, NEW_VALUES), step)
    for check_it in CHECKS.get(step.op, ()):
        try:
            answer = check_it(step)
        except (Unknown, IndexError):  # a wrong handler may have left a stack that is too short
            continue
        return answer if answer is not None else _check_layout(step)
    return _check_layout(step)


def _check_layout(step: CheckedStep) -> Verdict:
    """Check the stack layout: for every instruction it is known which values remain, which are moved, and how many are new."""
    if step.op in _SUSPENDED or step.frame.returned is not None:
        return None
    target = step.instruction.target
    change = stack_change(step.op, step.arg, jump=target >= 0 and step.frame.pc == target)
    depth = len(step.before) - change.popped + len(change.pushed)
    if len(step.after) != depth:
        return Mismatch("depth of the stack", str(depth), str(len(step.after)))
    rest = len(step.before) - change.popped
    pushed = [
        step.after[rest + place] if isinstance(value, str) else step.before[rest + value]
        for place, value in enumerate(change.pushed)
    ]
    return check_stack([*step.before[:rest], *pushed], step)


#: whoever resumes a generator also builds its stack
_SUSPENDED = frozenset(
    {"UNSUPPORTED", "YIELD_VALUE", "SEND", "RETURN_GENERATOR", "END_SEND", "CLEANUP_THROW", "GET_YIELD_FROM_ITER"}
)


# -- moves -----------------------------------------------------------------------------------------------------


@check("LOAD_FAST")
def _load_fast(step: CheckedStep) -> Verdict:
    bound = step.local_before
    if bound is None or (isinstance(bound, LazyVariable) and type(bound) is not LazyVariable):
        raise Unknown
    return check_stack([*step.before, bound], step)


@check("STORE_FAST")
def _store_fast(step: CheckedStep) -> Verdict:
    value = step.before[-1]
    bound = step.frame.locals.get(step.arg)
    if value is not NULL and not isinstance(value, CellVariable) and bound is not value:
        return another(f"local {step.arg}", text_of(value), text_of(bound))
    return check_stack(step.before[:-1], step)


@check("RETURN_VALUE")
def _return_value(step: CheckedStep) -> Verdict:
    returned = step.frame.returned
    return None if returned is step.before[-1] else another("value returned", text_of(step.before[-1]), text_of(returned))


@check("BUILD_TUPLE", "BUILD_LIST")
def _build(step: CheckedStep) -> Verdict:
    count = step.arg
    items = step.before[len(step.before) - count :]
    container = step.after[-1]
    if container.container_type is not (tuple if step.op == "BUILD_TUPLE" else list):
        return Mismatch("value on the stack", step.op.removeprefix("BUILD_").lower(), text_of(container))
    built_items = _items_of(container)
    if len(built_items) != count or any(
        as_read(item) is not as_read(other) for item, other in zip(items, built_items, strict=True)
    ):
        return another("items", ", ".join(map(text_of, items)), ", ".join(map(text_of, built_items)))
    return None


def _items_of(sequence: VariableTracker) -> Stack:
    """The items of a list, tuple or deque that was read. Raises Unknown."""
    contents = sequence.contents() if is_sequence(sequence) else None
    if contents is None or contents.live is not None:
        raise Unknown
    return contents.items


@check("UNPACK_SEQUENCE")
def _unpack(step: CheckedStep) -> Verdict:
    return check_stack([*step.before[:-1], *reversed(_items_of(step.before[-1]))], step)


# -- computations ----------------------------------------------------------------------------------------------


def _computes(
    step: CheckedStep,
    function: Callable[..., Any],
    operands: Stack,
    named: dict[str, VariableTracker] | None = None,
    *,
    method: str = "",
) -> Verdict:
    """The top must be the result of `function`; see the module docstring."""
    values = tuple([value.unguarded_value() for value in operands])
    keywords = {name: value.unguarded_value() for name, value in (named or {}).items()}
    result = step.after[-1].unguarded_value()
    if _is_the_node(step, method or function, values, keywords, result):
        return None
    if has_nodes((*values, *keywords.values(), result)):
        if any(value.may_vary() for value in (*operands, *(named or {}).values(), step.after[-1])):
            raise Unknown
        return DeferredCheck(function, values, result, keywords)
    if not all(map(is_plain, (*values, *keywords.values()))):
        raise Unknown
    try:
        expected = function(*values, **keywords)
    except Exception:  # any operator may raise anything: then the step was not a successful computation
        return None
    return None if same_constant(expected, result) else Mismatch("value", repr(expected)[:80], repr(result)[:80])


def _is_the_node(step: CheckedStep, target: Any, values: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> bool:
    """Whether the graph got the one node that corresponds to the instruction."""
    if len(step.new_nodes) != 1 or step.new_nodes[0] is not result:
        return False
    node = step.new_nodes[0]
    return bool(
        node.op == ("call_method" if isinstance(target, str) else "call_function")
        and (node.target == target if isinstance(target, str) else node.target is target)
        and same_constant(tuple(node.args), values)
        and node.kwargs.keys() == keywords.keys()
        and all(same_constant(node.kwargs[name], value) for name, value in keywords.items())
    )


@check("BINARY_OP")
def _binary(step: CheckedStep) -> Verdict:
    if step.before[-2].container_type is list and step.arg.endswith("="):
        raise Unknown  # the list may have been mutated since
    return _computes(step, BINARY[step.arg], step.before[-2:])


@check("COMPARE_OP")
def _compare(step: CheckedStep) -> Verdict:
    return _computes(step, COMPARE[step.arg], step.before[-2:])


@check("UNARY_OP")
def _unary(step: CheckedStep) -> Verdict:
    return _computes(step, UNARY[step.arg], step.before[-1:])


@check("BINARY_SUBSCR")
def _subscript(step: CheckedStep) -> Verdict:
    return _item(step, step.before[-2], step.before[-1:])


@check("BINARY_SLICE")
def _slice(step: CheckedStep) -> Verdict:
    return _item(step, step.before[-3], step.before[-2:])


def _item(step: CheckedStep, container: VariableTracker, key: Stack) -> Verdict:
    """Check `container[key]`: for a sequence of trackers the identical item, else a computation."""
    _require_small(container)
    where = key[0].unguarded_value() if len(key) == 1 else slice(*(value.unguarded_value() for value in key))
    if is_sequence(container) and not has_nodes(where) and is_plain(where):
        items = _items_of(container)
        if type(where) is not int or not -len(items) <= where < len(items):
            raise Unknown
        return check_stack([*step.before[:-2], items[where]], step)
    return _computes(step, operator.getitem, [container, *key] if len(key) == 1 else [container, _made_slice(*key, _NONE)])


_NONE = ConstantVariable(None)
_made_slice: Any = SliceVariable


def _require_small(container: VariableTracker) -> None:
    """Raise Unknown if the step takes constant time, but iterating over the container would not."""
    if container.bulk() > SMALL and container.container_type is not None:
        raise Unknown


@check("CONTAINS_OP")
def _contains(step: CheckedStep) -> Verdict:
    _require_small(step.before[-1])
    inverted = bool(step.arg)
    return _computes(step, lambda item, container: (item in container) is not inverted, step.before[-2:])


@check("TO_BOOL")
def _to_bool(step: CheckedStep) -> Verdict:
    _require_small(step.before[-1])
    return _computes(step, bool, step.before[-1:])


@check("GET_LEN")
def _length(step: CheckedStep) -> Verdict:
    _require_small(step.before[-1])
    return _computes(step, len, step.before[-1:])


@check("LOAD_CONST")
def _load_const(step: CheckedStep) -> Verdict:
    constant = step.arg
    return _computes(step, lambda: constant, []) if is_plain(constant) else None


@check("BUILD_STRING")
def _build_string(step: CheckedStep) -> Verdict:
    parts = step.before[len(step.before) - step.arg :]
    return _computes(step, lambda *texts: "".join(texts), parts)


_CONVERSIONS: dict[str | None, Callable[[Any], Any]] = {"str": str, "repr": repr, "ascii": ascii}


@check("CONVERT_VALUE")
def _convert(step: CheckedStep) -> Verdict:
    return _computes(step, _CONVERSIONS[step.arg], step.before[-1:])


@check("FORMAT_VALUE")
def _format(step: CheckedStep) -> Verdict:
    conversion, has_spec = step.arg
    first = _CONVERSIONS.get(conversion, lambda value: value)
    return _computes(step, lambda value, spec="": format(first(value), spec), step.before[-1 - bool(has_spec) :])


_ABOUT_TENSORS = frozenset({"shape", "ndim", "dtype", "device", "T", "mT", "H", "mH", "real", "imag", "itemsize", "is_cuda"})


@check("LOAD_ATTR")
def _load_attribute(step: CheckedStep) -> Verdict:
    owner, name = step.before[-1], step.arg
    if not isinstance(owner, TensorVariable) or name not in _ABOUT_TENSORS:
        raise Unknown
    node = step.new_nodes[0] if len(step.new_nodes) == 1 else None
    if node is not None and node.target is getattr and node.args == (owner.node, name):
        if step.after[-1].unguarded_value() is node:
            return None
    return _computes(step, operator.attrgetter(name), [owner])


# -- calls -----------------------------------------------------------------------------------------------------

_PURE = (len, abs, min, max, sum, int, float, bool, str, round, divmod, pow)


@check("CALL", "CALL_KW", "CALL_FUNCTION_EX")
def _call(step: CheckedStep) -> Verdict:
    """Check a call of an operator of torch, a method of a tensor, or a pure builtin."""
    if step.inlined:
        return None
    function, args, named = call_on_stack(step)
    if type(function) is TensorMethodVariable:
        name = function.name
        if name.endswith("_") or name in _OTHERWISE_IN_A_REPLAY:
            raise Unknown
        return _computes(step, _method(name), [function.tensor, *args], named, method=name)
    if type(function) is not BuiltinVariable:
        raise Unknown
    target = function.function
    if not any(target is pure for pure in _PURE) and (rule_for(target) is not None or not is_graph_callable(target)):
        raise Unknown
    return _computes(step, target, args, named)


#: methods about gradients, modes and memory: their results differ in a replay
_OTHERWISE_IN_A_REPLAY = frozenset({
    "detach", "requires_grad_", "backward", "register_hook", "retain_grad", "is_inference", "is_shared", "is_pinned", "is_set_to",
    "stride", "storage_offset", "is_contiguous", "data_ptr", "untyped_storage",
})  # fmt: skip


def _method(name: str) -> Callable[..., Any]:
    return lambda receiver, *args, **named: getattr(receiver, name)(*args, **named)


# -- jumps -----------------------------------------------------------------------------------------------------


@check("JUMP")
def _jump(step: CheckedStep) -> Verdict:
    return _check_jump(step, True)


@check("POP_JUMP_IF_TRUE", "JUMP_IF_TRUE_OR_POP")
def _jump_if_true(step: CheckedStep) -> Verdict:
    return _check_decision(step, bool)


@check("POP_JUMP_IF_FALSE", "JUMP_IF_FALSE_OR_POP")
def _jump_if_false(step: CheckedStep) -> Verdict:
    return _check_decision(step, operator.not_)


@check("POP_JUMP_IF_NONE")
def _jump_if_none(step: CheckedStep) -> Verdict:
    return _check_decision(step, lambda value: value is None)


@check("POP_JUMP_IF_NOT_NONE")
def _jump_if_not_none(step: CheckedStep) -> Verdict:
    return _check_decision(step, lambda value: value is not None)


def _check_decision(step: CheckedStep, decide: Callable[[Any], bool]) -> Verdict:
    """Check a conditional jump: its target is known for a constant, and a symbolic number is evaluated in the replay."""
    condition = step.before[-1]
    if condition.container_type is not None and condition.bulk() > SMALL:
        return _check_jump(step, decide(True))  # it is not empty, and iterating over it takes long
    value = condition.unguarded_value()
    if isinstance(value, torch.fx.Node):
        if type(step.before[-1]) is not SymbolicNumberVariable:
            raise Unknown
        return DeferredCheck(decide, (value,), step.frame.pc == step.instruction.target, {})
    if not is_plain(value) and not isinstance(value, tuple | list):
        raise Unknown
    return _check_jump(step, decide(value))


def _check_jump(step: CheckedStep, jumps: bool) -> Verdict:
    target = step.instruction.target if jumps else step.instruction.index + 1
    if step.frame.pc == target:
        return None
    return Mismatch("next instruction", f"step {target}", f"step {step.frame.pc}")
