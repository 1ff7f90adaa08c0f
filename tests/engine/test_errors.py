"""engine/errors.py: what failed is said by the class, and the message says the rest."""

from __future__ import annotations

import pytest

from dynexplore.engine import errors

pytestmark = pytest.mark.plain("exceptions and their words")


@pytest.mark.parametrize(
    ("name", "also"),
    [
        ("EngineError", Exception),
        ("BackendCompilerError", Exception),
        ("InvalidBackend", ValueError),
        ("MissingBackendPackage", ImportError),
        ("Unsupported", Exception),
        ("RecompileError", Exception),
        ("ConfigError", ValueError),
        ("RecordingError", ValueError),
        ("UnsupportedVersion", ImportError),
    ],
)
def test_every_error_is_one_of_ours(name: str, also: type) -> None:
    """One base class catches them all, and each is also the builtin error people expect."""
    cls = getattr(errors, name)
    assert issubclass(cls, errors.DynexploreError) and issubclass(cls, also)


def test_a_backend_error_carries_the_graph() -> None:
    """BackendCompilerError names backend, graph and cause, and holds the graph."""
    graph, cause = object(), ValueError("no such op")
    error = errors.BackendCompilerError("__compiled_fn_0", graph, cause, backend="mine")
    assert str(error) == "backend 'mine' failed to compile __compiled_fn_0: ValueError: no such op"
    assert (error.graph_name, error.graph, error.cause) == ("__compiled_fn_0", graph, cause)
    assert str(errors.BackendCompilerError("g", graph, cause)).startswith("the backend failed to compile g:")


def test_unsupported_carries_the_break() -> None:
    """Unsupported's text is the report it is given, and the break is kept beside it."""
    cause = RuntimeError()
    error = errors.Unsupported("Graph break DX104: ...", cause)
    assert str(error) == "Graph break DX104: ..." and error.graph_break is cause
