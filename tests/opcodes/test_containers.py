"""The instructions that build, fill, unpack and subscript containers, one tiny function each."""

from __future__ import annotations

import opcode

from opcodes.opcode_table import OpcodeTable, X

TABLE = OpcodeTable()
shows = TABLE.shows


@shows("BUILD_TUPLE", graphs=1, ops=1)
def builds_a_tuple(x):
    return x + 1, x, ()


@shows("BUILD_LIST", graphs=1, ops=1)
def builds_a_list(x):
    return [x + 1, x, []]


@shows("BUILD_SET", graphs=1, ops=1)
def builds_a_set(x):
    return {x.shape[0], x.shape[1], 2}, x + 1


@shows("BUILD_MAP", graphs=1, ops=1)
def builds_a_map(x):
    return {x.shape[0]: x + 1, x.dtype: x}


@shows("BUILD_CONST_KEY_MAP", graphs=1, ops=1)
def builds_a_map_of_constant_keys(x):
    return {"a": x + 1, "b": x}


@shows("BUILD_STRING", graphs=1, ops=1)
def builds_a_string(x):
    return f"a{x.shape[0]}b{x.dim()!r}", x + 1


if "BUILD_TEMPLATE" in opcode.opmap:  # template strings are syntax of Python 3.14
    _TEMPLATE: dict = {}
    exec("def builds_a_template(x):\n    n = 2\n    return t'a{x + 1}{n!r:>{n}}'.values\n", _TEMPLATE)
    shows("BUILD_TEMPLATE", graphs=1, ops=1)(_TEMPLATE["builds_a_template"])
    shows("BUILD_INTERPOLATION", graphs=1, ops=1)(_TEMPLATE["builds_a_template"])


@shows("BUILD_SLICE", graphs=1, ops=2)
def builds_a_slice(x):
    n = 1
    return x[:, n::2], x[0:n:n]


@shows("LIST_APPEND", graphs=1, ops=4)
def appends(x):
    return [row * 2 for row in x]


@shows("SET_ADD", graphs=1, ops=1)
def adds(x):
    return {n % 2 for n in x.shape}, x + 1


@shows("MAP_ADD", graphs=1, ops=2)
def adds_to_a_map(x):
    return {n: x * n for n in range(2)}


@shows("LIST_EXTEND", graphs=1, ops=2)
def extends(x):
    return [*x, *(1, 2), *"ab"]


@shows("SET_UPDATE", graphs=1, ops=1)
def updates_a_set(x):
    return {*x.shape, *"ab"}, x + 1


@shows("DICT_UPDATE", graphs=1, ops=1)
def updates_a_dict(x):
    return {"a": x, **{"b": x + 1}, "c": 3}


@shows("DICT_MERGE", graphs=1, ops=1)
def merges(x):
    def callee(**kwargs):
        return kwargs

    return callee(**{"a": x + 1}, **{"b": 2})


@shows("LIST_TO_TUPLE", graphs=1, ops=2)
def makes_a_tuple_of_a_list(x):
    return (*x, 1)


@shows("UNPACK_SEQUENCE", graphs=1, ops=3)
def unpacks(x):
    a, b = x
    (c, d), e = (1, 2), "e"
    return a + b, c, d, e


@shows("UNPACK_EX", graphs=1, ops=2)
def unpacks_the_rest(x):
    a, *b, c = 1, *x, 3
    *d, e = "abc"
    return a, b, c, d, e


@shows("BINARY_SUBSCR", X, [[1], {"k": 2}], graphs=1, ops=1)
def reads_an_item(x, nest):
    return x[0], nest[0][0], nest[1]["k"], (1, 2)[-1], "abc"[1]


@shows("STORE_SUBSCR", X, [[1], {"k": 2}], graphs=1, ops=1)
def stores_an_item(x, nest):
    y = x.clone()
    y[0] = 7
    nest[0][0], nest[1]["new"] = y, 3
    return y


@shows("DELETE_SUBSCR", X, [1, 2, {"k": 2}], graphs=1, ops=1)
def deletes_an_item(x, items):
    del items[0], items[-1]["k"]
    return x + 1


@shows("BINARY_SLICE", X, [1, 2, 3], graphs=1, ops=1)
def reads_a_slice(x, items):
    n = 1
    return x[n:], items[:n], items[n:2], "abc"[n:]


@shows("STORE_SLICE", X, [1, 2, 3], graphs=1, ops=1)
def stores_a_slice(x, items):
    n = 1
    y = x.clone()
    y[n:] = 0
    items[:n] = [y, 5]
    return y


@shows("CONTAINS_OP", X, [1, None], graphs=1, ops=1)
def asks_for_membership(x, items):
    return 1 in items, None not in items, "a" in {"a": x}, 2 in x.shape, x + 1


@shows("GET_LEN", graphs=1, ops=1)
def matches_a_sequence(x):
    match (x, 1):
        case [first, 1]:
            return first + 1
    return None


@shows("MATCH_MAPPING", graphs=1, ops=1)
def matches_a_mapping(x):
    match {"op": "add", "by": 2}:
        case {"op": "mul"}:
            return x * 2
        case {"op": "add", "by": n, **rest}:
            return x + n, rest
    return None


@shows("MATCH_KEYS", graphs=1, ops=1)
def matches_keys(x):
    match {"a": x, "b": 1}:
        case {"a": value, "c": other}:
            return value, other
        case {"a": value, "b": 1}:
            return value + 1
    return None


@shows("COPY", X, [1, 2], graphs=1, ops=1)
def copies_and_swaps(x, items):
    items[0] += 5
    a = b = x + items[0]
    a, b, c = b, a, 3
    return a, b, c


@TABLE.parameters()
def test_instruction(run):
    """The function holds the instruction, where this Python has it, and does what CPython does, without a break."""
    run()
