"""The Translator is the interpreter loop: what trackers ask of it lives in its parts (values, calls, frames, effects)."""

from __future__ import annotations

import ast

from source_tree import modules

METHODS = 35
FIELDS = 20


def translator() -> ast.ClassDef:
    """The class."""
    tree = modules()["dynexplore.engine.translate.translator"].tree
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Translator")


def test_the_translator_stays_a_loop() -> None:
    """It has at most 35 methods and 20 fields: another method or field belongs to a part of it."""
    methods = [node.name for node in translator().body if isinstance(node, ast.FunctionDef)]
    fields = {
        node.attr
        for node in ast.walk(translator())
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    assert len(methods) <= METHODS, sorted(methods)
    assert len(fields) <= FIELDS, sorted(fields)


def test_no_method_only_forwards() -> None:
    """A method that is one call with its own arguments is left out: the caller calls the part."""
    forwards = [
        node.name
        for node in translator().body
        if isinstance(node, ast.FunctionDef) and len(node.body) == 2 and _is_forwarding(node, node.body[1])
    ]
    assert not forwards


def _is_forwarding(method: ast.FunctionDef, statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Return) or not isinstance(statement.value, ast.Call):
        return False
    names = [arg.arg for arg in method.args.args[1:]]
    arguments = [ast.unparse(arg) for arg in statement.value.args]
    return arguments[-len(names) :] == names if names else not arguments
