"""A notebook cell as a function, so that straight-line tensor code of the cell is captured like any function's.

The idea: the engine captures functions, and a cell is not one. So the cell's statements become the body of a function in which
every name that the cell stores is `global`: run in the notebook's namespace, it does what the cell does. The last expression
becomes the return value. Its source is in `linecache` under IPython's file name for the cell, so that tracebacks, the recording and
`inspect` find it.

In: the text of a cell, its file name.
Out: a code object (`function_code`), the parts of a call (`call_parts`), or `CellError` with a one-sentence message.

PyTorch's counterpart: none; torch.compile captures functions only.
"""

from __future__ import annotations

import ast
import inspect
import symtable
import types
from collections.abc import Iterator
from typing import Any

NAME = "<cell>"
"""The function's name in the recording and in tracebacks, as for any code at the top of a module."""


class CellError(ValueError):
    """The cell cannot be run under the engine; the message is one sentence with the reason."""


def function_code(source: str, file: str) -> types.CodeType:
    """The code of a function without arguments that does what the cell does. Raises CellError.

    >>> namespace = {}
    >>> types.FunctionType(function_code("x = 20\\nx + 1", "cell.py"), namespace)()
    21
    >>> namespace["x"]
    20
    """
    tree = _checked(source, file)
    names = _stored_names(source, file)
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    body = [node for node in tree.body if node not in future]
    first = body[0].lineno if body else 1
    body = [_WithoutAnnotations().visit(node) for node in body] or [ast.Pass()]
    if isinstance(body[-1], ast.Expr):
        body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    if names:
        body.insert(0, ast.Global(names))
    template = "def cell(): pass"
    definition = ast.parse(template).body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body, definition.lineno, definition.end_lineno = body, first, first
    module = ast.fix_missing_locations(ast.Module([*future, definition], []))
    module_code = compile(module, file, "exec", dont_inherit=True)
    code = next(constant for constant in module_code.co_consts if isinstance(constant, types.CodeType))
    return _named(code)


def call_parts(source: str, namespace: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """The callable and the arguments of `fn(x, k=y)`, evaluated in a namespace; None for a cell that is not a single call.

    Raises CellError, and what evaluating the arguments raises.

    >>> call_parts("max(1, *[2], key=len)", {})
    (<built-in function max>, (1, 2), {'key': <built-in function len>})
    >>> call_parts("x = max(1, 2)", {})
    """
    body = _checked(source, "<call>").body
    if len(body) != 1 or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Call):
        return None
    call = body[0].value
    function = eval(compile(ast.Expression(call.func), "<call>", "eval"), namespace)
    names = {**namespace, NAME: lambda *args, **kwargs: (args, kwargs)}
    collect = ast.copy_location(ast.Call(ast.Name(NAME, ast.Load()), call.args, call.keywords), call)
    args, kwargs = eval(compile(ast.fix_missing_locations(ast.Expression(collect)), "<call>", "eval"), names)
    return function, args, kwargs


def _checked(source: str, file: str) -> ast.Module:
    try:
        tree = ast.parse(source, file)
        code = compile(tree, file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        line = f" in line {error.lineno}" if error.lineno else ""
        text = f": {error.text.strip()}" if error.text else ""
        raise CellError(f"the cell has a syntax error{line}, {error.msg}{text}") from None
    except ValueError as error:
        raise CellError(f"the cell cannot be compiled: {error}") from None
    if code.co_flags & inspect.CO_COROUTINE:
        raise CellError("await at the top of the cell cannot be captured: put it into a function, or leave out %%dynamo")
    for node in _own_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            raise CellError(f"`from {node.module} import *` cannot be captured: import it in a cell without %%dynamo")
    return tree


def _stored_names(source: str, file: str) -> list[str]:
    """The names that the cell binds or deletes at its top level."""
    table = symtable.symtable(source, file, "exec")
    return [
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    ]


def _own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of the cell itself, not those inside functions and classes."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own_nodes(node)


class _WithoutAnnotations(ast.NodeTransformer):
    """Rewrites `x: int = 1` to `x = 1`: a global name in a function may not be annotated."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        statement = ast.Expr(node.annotation) if node.value is None else ast.Assign([node.target], node.value)
        return ast.copy_location(statement, node)

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave


def _named(code: types.CodeType) -> types.CodeType:
    """Rename the cell's function to `<cell>`, and functions defined in it as if they were at the top of a module."""
    before = f"{code.co_name}.<locals>."
    constants = tuple(
        _moved_up(constant, before) if isinstance(constant, types.CodeType) else constant for constant in code.co_consts
    )
    return code.replace(co_consts=constants, co_name=NAME, co_qualname=NAME)


def _moved_up(code: types.CodeType, before: str) -> types.CodeType:
    inner = tuple(_moved_up(item, before) if isinstance(item, types.CodeType) else item for item in code.co_consts)
    return code.replace(co_consts=inner, co_qualname=code.co_qualname.removeprefix(before))
