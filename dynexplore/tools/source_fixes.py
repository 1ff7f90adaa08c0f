"""Rewrites of one line of a program that breaks the graph: what `dynexplore fix` tries, one after the other.

The idea: a few shapes of code cause most graph breaks, and each has a rewrite that needs no judgment: `if` on a tensor is
`torch.where` or `torch.cond`, `.item()` is often not needed, a `print` waits until after the graph. A rewrite is proposed by the
form of the code alone, so it may be wrong: whoever proposes it runs the program with it and compares the values. Here is what no
run would show: an expression with side effects is not moved into `torch.where`, which computes both branches.

In: the text of a file, and the line of a graph break. Out: `fixes_at(source, line)`, a list of `Fix`es, the simplest first.

PyTorch's counterpart: none; its messages name settings and functions in words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fix:
    """A rewrite: the id of its kind, the text of the whole file with it, what it does, and its cost."""

    id: str
    text: str
    does: str
    costs: str


_WHERE_COSTS = "both branches are computed in each call; a branch that is not taken still takes part in the gradient"
_SILENT = "nothing is printed while compiled"
_LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_RANDOM_OR_SIDE_EFFECT = re.compile(r"(^rand|rand$|_$|^dropout|^bernoulli|^multinomial|^normal$|^item$|^tolist$|^append$|^pop$)")


def fixes_at(source: str, line: int) -> list[Fix]:
    """The rewrites of the statement at a line of a file.

    >>> (fix,) = fixes_at("def f(x):\\n    return x + 1 if x.sum() > 0 else x\\n", 2)
    >>> fix.text.splitlines()[-1]
    '    return torch.where(x.sum() > 0, x + 1, x)'
    """
    place = _Place.at(source, line)
    if place is None:
        return []
    fixes = [*_of_branches(place), *_of_output(place), *_of_numbers(place)]
    valid = [fix for fix in fixes if fix.text != source and _is_valid(fix.text)]
    return list({fix.text: fix for fix in valid}.values())


def without_cache(source: str, line: int) -> list[Fix]:
    """The rewrite of calls of a `functools.lru_cache` function at a line: torch.compile ignores the cache, and warns."""
    place = _Place.at(source, line)
    calls = [] if place is None else [node for node in ast.walk(place.statement) if isinstance(node, ast.Call)]
    cached = _cached_functions(ast.parse(source)) if place is not None else set()
    edits: list[tuple[ast.AST, str]] = []
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in cached:
            edits.append((call.func, f"{call.func.id}.__wrapped__"))
    if place is None or not edits:
        return []
    text = place.with_nodes(edits)
    return [Fix("lru-cache", text, "calls the function without its cache, as torch.compile does", "nothing: the cache was ignored")]


def _cached_functions(tree: ast.Module) -> set[str]:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {node.name for node in functions for word in node.decorator_list if re.search(r"\b(lru_)?cache\b", ast.unparse(word))}


def _is_valid(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


# -- the statement -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """A file, the statement at a line, the statements that contain its block, and the function around it."""

    source: str
    tree: ast.Module
    statement: ast.stmt
    block: list[ast.stmt]
    function: ast.FunctionDef | ast.AsyncFunctionDef

    @staticmethod
    def at(source: str, line: int) -> _Place | None:
        """The innermost statement at the line, if it is in a function."""
        try:
            tree = ast.parse(source)
        except SyntaxError:
            return None
        best: tuple[ast.stmt, list[ast.stmt], ast.FunctionDef | ast.AsyncFunctionDef] | None = None
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for statement, block in _statements(function.body):
                    later = best is None or statement.lineno >= best[0].lineno
                    if later and statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                        best = (statement, block, function)
        return _Place(source, tree, *best) if best is not None else None

    def segment(self, node: ast.AST) -> str:
        """The text of a node."""
        return ast.get_source_segment(self.source, node) or ast.unparse(node)

    def with_nodes(self, edits: list[tuple[ast.AST, str]]) -> str:
        """The file with the text of some nodes replaced."""
        lines = self.source.encode().splitlines(keepends=True)
        starts = [0]
        for each in lines:
            starts.append(starts[-1] + len(each))
        text = b"".join(lines)
        spans = [
            (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset, more.encode())  # type: ignore[attr-defined]
            for node, more in edits
        ]
        for start, end, more in sorted(spans, reverse=True):
            text = text[:start] + more + text[end:]
        return text.decode()

    def with_torch(self, text: str) -> str:
        """The file with `import torch`, if it lacks that."""
        names = {name.asname or name.name for node in self.tree.body if isinstance(node, ast.Import) for name in node.names}
        return text if "torch" in names else with_lines_at_top(text, ["import torch"])


def with_lines_at_top(source: str, added: list[str]) -> str:
    """A file with lines added after its docstring and its first imports; not again what stands there already: an import of what
    these imports bind, or a setting of torch right below them. If one of these imports gives a name that the lines need to
    something else, the lines come before the imports.

    >>> with_lines_at_top("import os, torch\\nx = 1\\n", ["import torch; torch.a = 1"])
    'import os, torch\\ntorch.a = 1\\nx = 1\\n'
    """
    head = _Head.of(source)
    statements = {_segment(text, each): each for text in added for each in ast.parse(text).body}
    line, imported = head.end, head.imported
    if any(isinstance(each, ast.Import) and head.binds_otherwise(each) for each in statements.values()):
        line, imported = head.begin, set()
    more = [f"{text}\n" for text, each in statements.items() if not (head.has_setting(each) or _is_imported(each, imported))]
    lines = source.splitlines(keepends=True)
    if more and line > 1 and not lines[line - 2].endswith("\n"):
        lines[line - 2] += "\n"
    return "".join([*lines[: line - 1], *more, *lines[line - 1 :]])


@dataclass(slots=True)
class _Head:
    """The first imports of a file: the lines where they begin and where the next statement may stand, the modules that they import
    under their own names, the names that they give to anything else, and the settings of torch among and right below them.
    """

    begin: int = 1
    end: int = 1
    imported: set[str] = field(default_factory=set)
    other_names: set[str] = field(default_factory=set)
    settings: set[str] = field(default_factory=set)

    @staticmethod
    def of(source: str) -> _Head:
        """The head of a file."""
        head, is_open = _Head(), True
        for statement in ast.parse(source).body:
            after = (statement.end_lineno or statement.lineno) + 1
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            is_open = is_open and (is_text or isinstance(statement, ast.Import | ast.ImportFrom))
            if is_open:
                head._add(statement)
                is_before = is_text or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")
                head.begin = after if is_before and not (head.imported or head.other_names) else head.begin
                head.end = after
            elif statement.lineno < head.end:  # on the last import's line
                head.end = after
            elif ast.unparse(statement).startswith("torch."):
                head.settings.add(ast.unparse(statement))
            else:
                break
        return head

    def _add(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            return
        for name in getattr(statement, "names", ()):
            bound = name.asname or name.name.partition(".")[0]
            if isinstance(statement, ast.Import) and name.asname in (None, name.name):
                self.imported.add(name.name)
                self.other_names.discard(bound)
            else:
                self.imported = {module for module in self.imported if module.partition(".")[0] != bound}
                self.other_names.add(bound)

    def has_setting(self, statement: ast.stmt) -> bool:
        """Whether the head contains this setting."""
        return ast.unparse(statement) in self.settings

    def binds_otherwise(self, statement: ast.Import) -> bool:
        """Whether the head gives a name that this import binds to something else."""
        return any((name.asname or name.name.partition(".")[0]) in self.other_names for name in statement.names)


def _segment(text: str, statement: ast.stmt) -> str:
    return ast.get_source_segment(text, statement) or ast.unparse(statement)


def _is_imported(statement: ast.stmt, imported: set[str]) -> bool:
    """Whether a statement imports only modules that are imported under the same names."""
    if not isinstance(statement, ast.Import) or any(name.asname for name in statement.names):
        return False
    return all(any(f"{module}.".startswith(f"{name.name}.") for module in imported) for name in statement.names)


def _statements(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, list[ast.stmt]]]:
    for statement in body:
        yield statement, body
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, name, []))


# -- `if` on a tensor --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Branches:
    """A choice between two expressions: `before` is the text before it (`y = `), `nodes` what is replaced."""

    condition: ast.expr
    then: ast.expr
    other: ast.expr
    before: str
    first: ast.AST
    last: ast.AST


def _of_branches(place: _Place) -> Iterator[Fix]:
    for branches in _branches(place):
        condition = _as_condition(place, branches.condition)
        if not condition:
            continue
        then, other = place.segment(branches.then), place.segment(branches.other)
        if _is_pure(branches.then) and _is_pure(branches.other):
            text = f"torch.where({condition}, {then}, {other})"
            yield _replaced(place, branches, "where", text, "torch.where instead of `if`", _WHERE_COSTS)
        if isinstance(branches.then, ast.Call) or isinstance(branches.other, ast.Call) or not _is_pure(branches.then):
            text = f"torch.cond({condition}, lambda: {then}, lambda: {other})"
            yield _replaced(place, branches, "cond", text, "torch.cond instead of `if`", "both branches are compiled")


def _replaced(place: _Place, branches: _Branches, id: str, text: str, does: str, costs: str) -> Fix:
    if branches.first is branches.last:
        changed = place.with_nodes([(branches.first, branches.before + text)])
    else:
        replaced = ast.Pass(
            lineno=branches.first.lineno, col_offset=branches.first.col_offset,  # type: ignore[attr-defined]
            end_lineno=branches.last.end_lineno, end_col_offset=branches.last.end_col_offset,  # type: ignore[attr-defined]
        )  # fmt: skip
        changed = place.with_nodes([(replaced, branches.before + text)])
    return Fix(id, place.with_torch(changed), does, costs)


def _branches(place: _Place) -> Iterator[_Branches]:
    statement = place.statement
    if not isinstance(statement, ast.If):
        for node in ast.walk(statement):
            if isinstance(node, ast.IfExp) and not isinstance(statement, ast.For | ast.While | ast.With | ast.Try):
                yield _Branches(node.test, node.body, node.orelse, "", node, node)
        return
    if place.segment(statement).startswith("elif"):
        return  # a part of a longer choice
    then, other = _only(statement.body), _only(statement.orelse)
    if isinstance(then, ast.Return) and then.value is not None:
        place_of_it = place.block.index(statement)
        following = other if statement.orelse else (place.block[place_of_it + 1] if place_of_it + 1 < len(place.block) else None)
        if isinstance(following, ast.Return) and following.value is not None:
            last = statement if statement.orelse else following
            yield _Branches(statement.test, then.value, following.value, "return ", statement, last)
        return
    target, value = _assigned(then)
    if not target or value is None:
        return
    if not statement.orelse:
        yield _Branches(statement.test, value, ast.Name(target), f"{target} = ", statement, statement)
        return
    target_of_other, value_of_other = _assigned(other)
    if target_of_other == target and value_of_other is not None:
        yield _Branches(statement.test, value, value_of_other, f"{target} = ", statement, statement)


def _only(body: list[ast.stmt]) -> ast.stmt | None:
    return body[0] if len(body) == 1 else None


def _assigned(statement: ast.stmt | None) -> tuple[str, ast.expr | None]:
    """The name and the value that a statement assigns. `y += 1` is no such statement: it may change a tensor with other names."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    return "", None


def _as_condition(place: _Place, test: ast.expr) -> str:
    """A condition as a boolean tensor: `.item()` is dropped, `not x` and the truth of a tensor are written as operators. "" for
    conditions that no operator expresses: `x is None and ...`, `0 < x < 1`.
    """
    if isinstance(test, ast.BoolOp):
        values = [_as_condition(place, value) for value in test.values]
        is_safe = all(map(_is_pure, test.values)) and not any(isinstance(node, ast.Subscript) for node in ast.walk(test))
        sign = " & " if isinstance(test.op, ast.And) else " | "
        return sign.join(f"({value})" for value in values) if all(values) and is_safe else ""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _as_condition(place, test.operand)
        return f"torch.logical_not({inner})" if inner else ""
    text = _without_item(place, test)
    if isinstance(test, ast.Compare):
        is_operator = len(test.ops) == 1 and not isinstance(test.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn)
        return text if is_operator else ""
    name = test.func.attr if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) else ""
    if name in ("any", "all") or name.startswith(("is", "logical")):
        return text
    return f"{text} != 0" if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({text}) != 0"


def _is_pure(node: ast.expr) -> bool:
    """Whether an expression may be computed without need: no side effects, no random numbers, no call of the user's functions."""
    for each in ast.walk(node):
        if isinstance(each, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda | ast.ListComp | ast.GeneratorExp):
            return False
        if isinstance(each, ast.Call):
            path = ast.unparse(each.func).split(".")
            if len(path) < 2 or path[0] == "self" or _RANDOM_OR_SIDE_EFFECT.search(path[-1]):
                return False
    return True


# -- print and logging -------------------------------------------------------------------------------------------------


def _of_output(place: _Place) -> Iterator[Fix]:
    statement = place.statement
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return
    path = ast.unparse(statement.value.func)
    is_log = re.search(r"log", path.lower()) is not None and path.rpartition(".")[2] in _LOGS
    if path in ("print", "warnings.warn", "breakpoint", "pdb.set_trace", "time.sleep") or is_log:
        indent = " " * (statement.col_offset + 4)
        guarded = f"if not torch.compiler.is_compiling():\n{indent}{place.segment(statement)}"
        text = place.with_torch(place.with_nodes([(statement, guarded)]))
        yield Fix("not-compiled", text, f"skips `{path}` while compiled", _SILENT)


# -- numbers of tensors ------------------------------------------------------------------------------------------------


def _of_numbers(place: _Place) -> Iterator[Fix]:
    inside = _without_item(place, place.statement)
    if inside != place.segment(place.statement):
        text = place.with_nodes([(place.statement, inside)])
        yield Fix("no-item", text, "keeps the tensor instead of a Python number", "the number becomes a 0-d tensor")


def _without_item(place: _Place, node: ast.stmt | ast.expr) -> str:
    """The text of a node without `.item()`, `float(...)` and `int(...)` of expressions of tensors."""
    edits: list[tuple[ast.AST, str]] = []
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "item" and not each.args:
            edits.append((each, place.segment(each.func.value)))
        elif isinstance(each, ast.Call) and ast.unparse(each.func) == "float" and len(each.args) == 1:
            if isinstance(each.args[0], ast.Call):
                edits.append((each, place.segment(each.args[0])))
    text = place.segment(node)
    for each, more in edits:
        text = text.replace(place.segment(each), more)
    return text
