"""Names are the field's nouns: a local variable says what it holds, a predicate has no effect, one word means one thing.

A participle used as a noun (`found`, `made`, `told`) says nothing of what a variable holds, and does not become `result`, `value`,
`item`, `data` or `tmp` either.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from source_tree import PACKAGE, ROOT, SourceFile, modules

HOME_MADE = frozenset(
    "found made told held kept given known wanted asked said one both odd usual meant left beside what theirs ours "
    "mine heard unheard gone taken placed settled parted answered noted stays staying".split()
)
IN_A_COMPOUND = HOME_MADE - {"one", "both", "left", "what"}  # `one_line`, `left_operand` are plain compounds

# Function names that change the graph, the guards or the recording; a predicate calls none of them.
EFFECTS = re.compile(
    r"_?(guard|guard_\w+|rely_on\w*|operation|placeholder|create_node|node_added|guard_installed|record|lower_\w+|emit_\w+|install\w*)"
)
PREDICATE = re.compile(r"_?(is|has|can)_\w+")

# Riddles in the engine's prose -> the term.
PHRASES = {
    r"has a history": "requires grad, has a grad_fn",
    r"apart in memory": "do not alias, do not overlap",
    r"what is gone": "a dead intermediate",
    r"without noting": "not recorded by autograd",
    r"nobody is told": "does not bump the version counter",
    r"data told": "data-dependent, unbacked",
    r"fake form never asks": "the meta kernel has no such check",
    r"window onto": "a mapping proxy, a read-only view",
    r"\ban own ": "a user subclass",
    r"what goes on": "resumes, the resume function",
    r"hands out": "returns",
}


def bindings(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Every name that a file binds: variables, parameters, attributes, functions, classes, imported aliases, match captures."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Name(id=name, ctx=ast.Store()):
                yield name, node
            case ast.arg(arg=name):
                yield name, node
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                yield name, node
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node


def home_made(file: SourceFile) -> Iterator[str]:
    """`path:line name` of each binding that is a home-made word; `left` is none beside a `right`."""
    operands = {name.strip("_") for name, _ in bindings(file.tree)} >= {"left", "right"}
    for name, node in bindings(file.tree):
        word = name.strip("_").lower()
        if word in HOME_MADE and not (word == "left" and operands):
            yield f"{file.place(node)} {name}"


def home_made_compounds(file: SourceFile) -> Iterator[str]:
    """The same for functions, classes and the file itself whose name contains such a word."""
    named = [(node.name, node) for node in ast.walk(file.tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    for name, node in [(file.path.stem, file.tree), *named]:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")
        if len(words) > 1 and IN_A_COMPOUND.intersection(words):
            yield f"{file.place(node)} {name}"


def top_folder(file: SourceFile) -> str:
    """The folder of dynexplore/ that a file lies in; `.` for the package itself."""
    parts = file.path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "."


def of_folder(folder: str) -> list[SourceFile]:
    """The files of one top folder."""
    return [file for file in modules().values() if top_folder(file) == folder]


@pytest.mark.parametrize("folder", sorted({top_folder(file) for file in modules().values()}))
def test_names_are_the_fields_words(folder: str) -> None:
    """No binding is a home-made word, and no function, class or file has one in its name."""
    names = [place for file in of_folder(folder) for place in home_made(file)]
    assert not names, f"{len(names)} names say nothing of what they hold:\n" + "\n".join(names)
    compounds = [place for file in of_folder(folder) for place in home_made_compounds(file)]
    assert not compounds, f"{len(compounds)} names contain a home-made word:\n" + "\n".join(compounds)


def test_predicates_of_the_engine_have_no_effect() -> None:
    """What is named `is_`, `has_` or `can_` adds no node, guard or event: an action has a verb (`guard_on_`, `lower_`)."""
    effects = [
        f"{file.place(call)} {function.name} calls {name}"
        for file in of_folder("engine")
        for function in ast.walk(file.tree)
        if isinstance(function, ast.FunctionDef) and PREDICATE.fullmatch(function.name)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and EFFECTS.fullmatch(name := _called(call))
    ]
    assert not effects, "\n".join(effects)


def test_prose_of_the_engine_uses_the_fields_terms() -> None:
    """The engine's comments and docstrings say `version counter`, not `nobody is told`."""
    paths = [path for kind in ("*.py", "*.c", "*.h", "*.md", "*.pyi") for path in sorted((PACKAGE / "engine").rglob(kind))]
    riddles = Counter(
        f"{path.relative_to(ROOT)}: `{phrase}` is {term}"
        for path in paths
        for phrase, term in PHRASES.items()
        for _ in re.finditer(phrase, " ".join(path.read_text().split()))
    )
    assert not riddles, "\n".join(f"{count} x {riddle}" for riddle, count in riddles.items())


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
