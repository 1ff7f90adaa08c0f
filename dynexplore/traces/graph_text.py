"""Parser of printed FX graphs: `add: "f32[3]" = abs_1 + 1` becomes a node.

The idea: logs contain graphs as Python source, with each value's type as an annotation and the user's line in a comment above.
`ast` parses it: each assignment of the first `forward` is a node, and the names in its expression are the node's inputs. The text
is never executed. Text that is not valid Python (a truncated log) yields no nodes.

In: the text of a graph; the sources of inputs by their names in torch.
Out: `nodes_of(text)`: a list of `PrintedNode`.

PyTorch's counterpart: `print_readable` in torch/fx/graph_module.py, which writes the text.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from dynexplore.engine import events as ev


@dataclass(frozen=True, slots=True)
class PrintedNode:
    """The facts of a printed node, as in `NodeAdded`."""

    name: str
    op: str
    target: str
    args: str = ""
    kwargs: str = "{}"
    inputs: tuple[str, ...] = ()
    dtype: str = ""
    shape: str = ""
    device: str = ""
    file: str = ""
    line: int = 0


MOST = 4_000_000
"""The maximum number of characters of a graph that is parsed; a larger one is shown as text."""

_HEADER = re.compile(r"^( *class )[^\s(]+(?=\()", re.M)
_PLACE = re.compile(r"^\s*# File: (.*?):(\d+) in ")


def nodes_of(text: str, sources: Mapping[str, str] | None = None) -> list[PrintedNode]:
    """The nodes of a printed graph, in order; [] for text that is not a graph.

    >>> [(node.op, node.name, node.target) for node in nodes_of("def forward(self, x):\\n    y = torch.relu(x)\\n    return (y,)")]
    [('placeholder', 'x', 'x'), ('call_function', 'y', 'torch.relu'), ('output', 'output', 'output')]
    """
    body = _forward(text) if len(text) <= MOST else None
    if body is None:
        return []
    return _Reader(textwrap.dedent(text).splitlines(), sources or {}).read(body)


def _forward(text: str) -> ast.FunctionDef | None:
    try:
        with warnings.catch_warnings():  # warnings about the parsed text, not about this program
            warnings.simplefilter("ignore")
            tree = ast.parse(_HEADER.sub(r"\1Graph", textwrap.dedent(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    return next((node for body in bodies for node in body if isinstance(node, ast.FunctionDef)), None)


class _Reader:
    """Parses the statements of one `forward`."""

    def __init__(self, lines: list[str], sources: Mapping[str, str]) -> None:
        self._lines = lines
        self._sources = sources
        self._places: list[tuple[int, str, int]] = [
            (number, match[1], int(match[2])) for number, line in enumerate(lines, 1) if (match := _PLACE.match(line))
        ]
        self._passed = -1
        self._nodes: dict[str, PrintedNode] = {}
        self._inputs: dict[str, PrintedNode] = {}

    def read(self, function: ast.FunctionDef) -> list[PrintedNode]:
        for argument in function.args.args[1:]:
            self._inputs[argument.arg] = self._input(argument.arg, argument.annotation)
        for statement in function.body:
            self._statement(statement)
        used = [node for node in self._inputs.values() if node.name not in self._nodes]
        return [*used, *self._nodes.values()]

    def _input(self, name: str, annotation: ast.expr | None) -> PrintedNode:
        dtype, shape, device = _type_of(annotation)
        return PrintedNode(name, "placeholder", self._sources.get(name, name), dtype=dtype, shape=shape, device=device)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Return) and statement.value is not None:
            args = _clip(f"({ast.unparse(statement.value)},)")
            self._nodes["output"] = PrintedNode("output", "output", "output", args, inputs=self._used(statement.value))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if statement.value is None:  # a bare annotation: the inputs of a joint graph have a line each
                self._inputs[statement.target.id] = self._input(statement.target.id, statement.annotation)
            else:
                self._assigned(statement.target.id, statement.value, statement.annotation)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            self._assigned(statement.targets[0].id, statement.value, None)

    def _assigned(self, name: str, value: ast.expr, annotation: ast.expr | None) -> None:
        if isinstance(value, ast.Constant) and value.value is None:  # `x = None`: torch releases a value
            return
        if isinstance(value, ast.Name) and value.id in self._inputs:  # an alias: the input under the name of its node
            declared = self._inputs.pop(value.id)
            self._inputs[name] = PrintedNode(
                name, declared.op, declared.target, dtype=declared.dtype, shape=declared.shape, device=declared.device
            )
            return
        op, target, args, kwargs = self._call(value)
        dtype, shape, device = _type_of(annotation)
        file, line = self._place(value.lineno)
        self._nodes[name] = PrintedNode(
            name, op, target, _clip(args), _clip(kwargs), self._used(value), dtype, shape, device, file, line
        )

    def _place(self, line: int) -> tuple[str, int]:
        """The user's line, from the last comment above."""
        while self._passed + 1 < len(self._places) and self._places[self._passed + 1][0] < line:
            self._passed += 1
        return self._places[self._passed][1:] if self._passed >= 0 else ("", 0)

    def _used(self, value: ast.expr) -> tuple[str, ...]:
        names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]
        return tuple(dict.fromkeys(name for name in names if name in self._nodes or name in self._inputs))

    def _call(self, value: ast.expr) -> tuple[str, str, str, str]:
        """Opcode, target, args and kwargs of the right-hand side."""
        if isinstance(value, ast.Call):
            args = _tuple([ast.unparse(argument) for argument in value.args])
            kwargs = "{" + ", ".join(f"{argument.arg!r}: {ast.unparse(argument.value)}" for argument in value.keywords) + "}"
            if not isinstance(value.func, ast.Attribute):
                return "call_function", ast.unparse(value.func), args, kwargs
            owner, method = value.func.value, value.func.attr
            if self._is_value(owner):
                return (
                    "call_method",
                    method,
                    _tuple([ast.unparse(owner), *(ast.unparse(argument) for argument in value.args)]),
                    kwargs,
                )
            path = ast.unparse(value.func)
            if path.startswith("self."):
                return "call_module", path[5:], args, kwargs
            return "call_function", path, args, kwargs
        if isinstance(value, ast.Attribute):
            path = ast.unparse(value)
            if path.startswith("self."):
                return "get_attr", path[5:], "()", "{}"
            return "call_function", "getattr", _tuple([ast.unparse(value.value), repr(value.attr)]), "{}"
        name, operands = _operator(value)
        return "call_function", name, _tuple([ast.unparse(argument) for argument in operands]), "{}"

    def _is_value(self, owner: ast.expr) -> bool:
        return not isinstance(owner, ast.Name | ast.Attribute) or (
            isinstance(owner, ast.Name) and (owner.id in self._nodes or owner.id in self._inputs)
        )


_NAMES: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow",
    ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not_", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
    ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne", ast.Is: "is_", ast.IsNot: "is_not", ast.In: "contains", ast.NotIn: "contains",
}  # fmt: skip


def _operator(value: ast.expr) -> tuple[str, list[ast.expr]]:
    if isinstance(value, ast.BinOp):
        return f"operator.{_NAMES[type(value.op)]}", [value.left, value.right]
    if isinstance(value, ast.UnaryOp):
        return f"operator.{_NAMES[type(value.op)]}", [value.operand]
    if isinstance(value, ast.Compare):
        return f"operator.{_NAMES[type(value.ops[0])]}", [value.left, *value.comparators]
    if isinstance(value, ast.Subscript):
        return "operator.getitem", [value.value, value.slice]
    return type(value).__name__.lower(), [value]


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _clip(text: str) -> str:
    return ev.clip(text)


_DTYPES = {"f": "float", "i": "int", "u": "uint", "c": "complex", "bf": "bfloat"}
_TYPE = re.compile(r"([a-z]+)(\d+)([a-z]\w*)?\[([^\]]*)\](?:\[[^\]]*\])?(\w[\w:]*)?")


def _type_of(annotation: ast.expr | None) -> tuple[str, str, str]:
    """dtype, shape and device of `"f32[3, 4][4, 1]cuda:0"`; empty for values that are not tensors; for a number, its expression as
    the shape.
    """
    annotated = annotation.value if isinstance(annotation, ast.Constant) else None
    if not isinstance(annotated, str):
        return "", "", ""
    match = _TYPE.match(annotated)
    if match is None:
        return "", annotated.removeprefix("Sym(").rstrip(")") if annotated.startswith("Sym(") else "", ""
    kind, bits, more, shape, device = match.groups()
    dtype = "bool" if (kind, bits) == ("b", "8") else f"{_DTYPES.get(kind, kind)}{bits}{more or ''}"
    return dtype, f"[{shape}]", device or ""
