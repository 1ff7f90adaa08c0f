"""What an operator of a graph is given and what it makes, read so that the nodes of two engines can be held together.

Which idea lives here: the texts of two nodes differ where nothing else does, by the names of the nodes that they read, by the
order of keywords, by the names of sizes that vary. So a call is read as a form, in which each value that is read is one mark,
and the names that stood there; a result as dtype, device and sizes, in which each symbol is one mark.

In:  `NodeAdded` events. Out: `form_of(node)`, `are_unlike(one, other)`; `name_of`, `arguments` and `result` are their words.

PyTorch's counterpart: none; torch/fx/passes/utils/matcher_utils.py compares nodes of live graphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynexplore.engine import events as ev

LONGEST = 80
"""Arguments with more letters are cut in the middle where they are shown."""

CUT = "..."
"""What `events.clip` puts where it took letters out."""

_IN_PLACE = frozenset((
    "operator.iadd", "operator.iand", "operator.iconcat", "operator.ifloordiv", "operator.ilshift", "operator.imatmul",
    "operator.imod", "operator.imul", "operator.ior", "operator.ipow", "operator.irshift", "operator.isub", "operator.itruediv",
    "operator.ixor",
))  # fmt: skip
_AS_IT_IS = frozenset((
    "bfloat16", "bool", "byte", "char", "conj", "contiguous", "cpu", "cuda", "double", "float", "half", "int", "long", "positive",
    "real", "resolve_conj", "resolve_neg", "short", "to", "type", "type_as",
))  # fmt: skip
"""Operators that give the very tensor that they were given where it is already as they would make it."""

_TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|0x[0-9a-f]+|[A-Za-z_]\w*|\d[\w.]*|\S""")
_SYMBOL = re.compile(r"([a-z]+)\d+")
_MARK = "<value>"
_DEEPER, _HIGHER = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Form:
    """The tokens of a call's arguments with a mark for each value that is read, and the names of these, in order."""

    tokens: tuple[str, ...]
    read: tuple[str, ...]


def name_of(node: ev.NodeAdded) -> str:
    """The operator, as people say it: `torch.cat`, `.view`."""
    return f".{node.target}" if node.op == "call_method" else node.target


def arguments(node: ev.NodeAdded) -> str:
    """The arguments as they would be written: `([a, b], dim=1)`.

    >>> arguments(ev.NodeAdded(frame=1, graph="g", name="z", op="call_function", target="f", args="(a,)", kwargs="{'dim': 1}"))
    '(a, dim=1)'
    """
    items = [*_items(node.args), *(re.sub(r"^'(\w+)': ", r"\1=", item) for item in _items(node.kwargs))]
    return ev.clip(f"({', '.join(items)})", LONGEST)


def result(node: ev.NodeAdded) -> str:
    """`float32[2, 4] cpu`; "" of what is no tensor."""
    return f"{node.dtype}{node.shape} {node.device}".strip()


def hands_back(node: ev.NodeAdded, argument: ev.NodeAdded) -> bool:
    """Whether the result of a call is the tensor that it was given, changed or not: then either name stands for the same value."""
    last = node.target.rpartition(".")[2]
    if last in _AS_IT_IS or "dropout" in last:
        return result(node) == result(argument) != "" and ("dropout" not in last or _is_off(node))
    is_named = last.endswith("_") and not last.endswith("__")
    return is_named or node.target in _IN_PLACE or "'inplace': True" in node.kwargs


def _is_off(dropout: ev.NodeAdded) -> bool:
    return "'training': False" in dropout.kwargs or _items(dropout.args)[2:3] == ["False"]


def is_cut(node: ev.NodeAdded) -> bool:
    """Whether the record of a node lacks some of its arguments: then its form says less than the values that it reads."""
    return CUT in node.args or CUT in node.kwargs


def form_of(node: ev.NodeAdded) -> Form:
    """See `Form`. The order of keywords says nothing."""
    items = [*map(_tokens, _items(node.args)), ["**"], *sorted(map(_tokens, _items(node.kwargs)))]
    tokens, read = [], []
    for item in items:
        for before, token in zip(["", *item], item, strict=False):
            if token in node.inputs and before != ".":
                read.append(token)
                token = _MARK
            tokens.append(token)
        tokens.append(",")
    return Form(tuple(tokens), tuple(read))


def are_unlike(node: ev.NodeAdded, other: ev.NodeAdded) -> bool:
    """Whether two results are tensors of another dtype, device or size. Of sizes that vary on both sides only the form is known."""
    if not (node.dtype and other.dtype):
        return False
    return (node.dtype, node.device, _sizes(node.shape)) != (other.dtype, other.device, _sizes(other.shape))


def _sizes(shape: str) -> list[list[str]]:
    """Each size as its tokens, whose order depends on the names of the symbols."""
    return [sorted(_SYMBOL.sub(r"\1", token) for token in _tokens(item)) for item in _items(shape)]


def _tokens(text: str) -> list[str]:
    return ["0x" if token.startswith("0x") else token for token in _TOKEN.findall(text)]  # where an object lies says nothing


def _items(text: str) -> list[str]:
    """The items of a tuple, list or dictionary that is written as Python writes it.

    >>> _items("(a, [b, c], 'd, e')"), _items("(a,)"), _items("{}")
    (['a', '[b, c]', "'d, e'"], ['a'], [])
    """
    return [item for begin, end in _spans(text) if (item := text[begin:end].strip())]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    depth, begin = 0, 1
    for token in _TOKEN.finditer(text):
        depth += (token[0] in _DEEPER) - (token[0] in _HIGHER)
        if (depth == 1 and token[0] == ",") or depth == 0:
            yield begin, token.start()
            begin = token.end()


def source_words(sources: Sequence[str]) -> frozenset[str]:
    """Sources of inputs as both engines would spell them: `x`, `self_weight`."""
    return frozenset(map(source_word, sources))


def source_word(source: str) -> str:
    """The words of a source: an input bears them as its name where the engine notes no source."""
    return "_".join(re.findall(r"\w+", source))
