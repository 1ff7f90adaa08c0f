"""The engine is its own: no line of it names torch.compile or the capturing parts of torch._dynamo.

This is the half of the proof that reads the source. The other half runs: tests/dynamo_ban.py makes those functions
raise during the whole suite. dynexplore/lenses and dynexplore/watching are excepted, because they show what the others capture.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

import pytest

import dynamo_ban
from source_tree import SourceFile, dotted_name, imports_of, modules

# What of torch._dynamo may be named, and why. Everything else of it may not.
ALLOWED = {
    "torch._dynamo": "importing it is not using it",
    "torch._dynamo.backends": "the backend registry: every torch.compile backend works here by name",
    "torch._dynamo.list_backends": "the registry's own list of names",
    "torch._dynamo.lookup_backend": "the registry's own look-up",
    "torch._dynamo.graph_break": "a marker in user code that is honoured here too",
    "torch._dynamo.decorators": "markers in user code that are honoured here too",
    "torch._dynamo.config": "read where a backend reads it",
    "torch._dynamo._trace_wrapped_higher_order_op": "the mode under which attention masks index tensors; eager enters it, too",
}

# Files that may spell a name as a text, and why. To import or reach for it stays forbidden there.
SPELLED = {
    ("dynexplore.recording.engines", "torch.compile"): "a recording says whose captures it holds",
    ("dynexplore.engine.runtime.foreign_modes", "torch._dynamo.eval_frame"): "what torch.compile wrapped is known by its class",
    ("dynexplore.engine.runtime.foreign_modes", "torch._dynamo.utils"): "its counters say whether torch.compile has run at all",
    ("dynexplore.engine.translate.comptime", "torch._dynamo.comptime"): "its functions are known where user code calls them",
}

DOTTED = re.compile(r"torch(\.\w+)+")


def names_in(file: SourceFile) -> Iterator[tuple[ast.AST, str]]:
    """Every dotted name that a file imports, spells as an attribute chain, or spells as a string."""
    for found in imports_of(file, modules()):
        yield found.node, found.target
        if isinstance(found.node, ast.ImportFrom):
            for alias in found.node.names:
                yield found.node, f"{found.target}.{alias.name}"
    for node in ast.walk(file.tree):
        name = dotted_name(node)
        if name:
            yield node, name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield node, node.value


def is_forbidden(name: str) -> bool:
    """Whether a dotted name reaches torch.compile or a part of torch._dynamo that is not in `ALLOWED`."""
    if name == "torch.compile" or name.startswith("torch.compile."):
        return True
    if not name.startswith("torch._dynamo."):
        return False
    return not any(name == entry or name.startswith(entry + ".") for entry in ALLOWED if entry != "torch._dynamo")


def test_the_source_names_no_part_of_dynamo_that_captures() -> None:
    """Nothing under dynexplore/, lenses and watches excepted, refers to torch.compile or to Dynamo's tracer and evaluator."""
    forbidden = sorted(
        {
            f"{file.place(node)}: {name}"
            for file in modules().values()
            if not file.name.startswith(("dynexplore.lenses", "dynexplore.watching"))
            for node, name in names_in(file)
            if is_forbidden(name) and not (isinstance(node, ast.Constant) and (file.name, name) in SPELLED)
        }
    )
    assert not forbidden, "these lines name PyTorch's own capture:\n" + "\n".join(forbidden)


def test_the_check_itself_sees_what_it_should() -> None:
    """The check finds an import, an attribute chain and a string, and lets the backend registry pass."""
    assert is_forbidden("torch.compile")
    assert is_forbidden("torch._dynamo.convert_frame.convert_frame")
    assert is_forbidden("torch._dynamo.symbolic_convert")
    assert not is_forbidden("torch._dynamo.backends.registry.lookup_backend")
    assert not is_forbidden("torch.compiler.is_compiling")
    assert not is_forbidden("torch._C._dynamo.guards.TensorGuards")


def test_torch_compile_raises_here() -> None:
    """During the suite torch.compile raises, so that no test can pass by using it."""
    torch = pytest.importorskip("torch")
    with pytest.raises(dynamo_ban.DynamoUsed):
        torch.compile(lambda x: x + 1)


def test_dynamo_raises_even_when_imported_late() -> None:
    """Dynamo's converter, translator and evaluator raise however late torch._dynamo is imported."""
    pytest.importorskip("torch._dynamo")
    for module, names in dynamo_ban.BANNED.items():
        for name in names:
            owner = sys.modules[module]
            for part in name.split("."):
                owner = getattr(owner, part)
            assert owner.is_banned, f"{module}.{name}"


@pytest.mark.lenses
def test_the_lenses_marker_lifts_the_ban() -> None:
    """A test with the marker `lenses` may call torch.compile."""
    torch = pytest.importorskip("torch")
    assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2.0, 2.0]
