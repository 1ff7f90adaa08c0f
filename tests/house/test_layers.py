"""The one fence of the house: imports run down the layers, never in a circle, never hidden inside a function."""

from __future__ import annotations

import sys

import pytest

from source_tree import ROOT, Import, SourceFile, imports_of, modules, parse_tree

# Rooms of the house, the most specific prefix wins: the layer number of the engine's rooms. A file may import its own
# layer and lower ones.
ENGINE_LAYERS = {
    "dynexplore.engine.events": 0,
    "dynexplore.engine.recording": 0,
    "dynexplore.engine.quick_records": 0,
    "dynexplore.engine.real_values": 0,
    "dynexplore.engine.graph_breaks": 0,
    "dynexplore.engine.errors": 0,
    "dynexplore.engine.counters": 0,
    "dynexplore.engine.config": 0,
    "dynexplore.engine.outlets": 0,
    "dynexplore.engine.phases": 0,
    "dynexplore.engine.numbering": 0,
    "dynexplore.engine.bytecode": 1,
    "dynexplore.engine.native": 1,
    "dynexplore.engine.policy": 2,
    "dynexplore.engine.provenance": 2,
    "dynexplore.engine.graph": 2,
    "dynexplore.engine.variables": 3,
    "dynexplore.engine.translate": 4,
    "dynexplore.engine.runtime": 5,
}

# Rooms around the engine and what of our own each may import. `views` reads records only (and the table of canonical
# opcodes, whose sentences it shows), so it stands just above
# layer 0: the engine's runtime may print with it, nothing lower may know that it exists.
AROUND = {
    "dynexplore.views": (
        "dynexplore.views",
        "dynexplore.engine.events",
        "dynexplore.engine.recording",
        "dynexplore.engine.real_values",
        "dynexplore.engine.bytecode.opcodes",
    ),
    "dynexplore.lenses": (
        "dynexplore.lenses",
        "=dynexplore",
        "=dynexplore.engine",
        "dynexplore.views",
        "dynexplore.engine.events",
        "dynexplore.engine.recording",
    ),
    "dynexplore.widgets": (
        "dynexplore.widgets",
        "=dynexplore",
        "=dynexplore.engine",
        "dynexplore.views",
        "dynexplore.lenses",
        "dynexplore.engine.events",
        "dynexplore.engine.recording",
        "dynexplore.engine.outlets",
    ),
}

# The doors: they name modules in a table (or import them in the command that needs them), so that
# `import dynexplore` stays cheap and reading a recording imports no torch.
COMMAND_LINE = ("dynexplore.__main__", "dynexplore.cli", "dynexplore.cli_program", "dynexplore.cli_tools")
DOORS = ("dynexplore", "dynexplore.engine", *COMMAND_LINE)

# Rooms that must work in a process without torch.
STANDARD_LIBRARY_ONLY = (
    *(room for room, layer in ENGINE_LAYERS.items() if layer <= 1),
    "dynexplore.views",
    *DOORS,
)


def within(name: str, room: str) -> bool:
    """Whether module `name` is `room` or lies in it."""
    return name == room or name.startswith(room + ".")


def layer_of(name: str) -> int | None:
    """The layer of an engine module; None for a module around the engine."""
    return next((layer for room, layer in ENGINE_LAYERS.items() if within(name, room)), None)


def own_imports(file: SourceFile) -> list[Import]:
    """The imports of `file` that name modules of this project."""
    return [found for found in imports_of(file, modules()) if within(found.target, "dynexplore")]


def is_allowed(found: Import) -> bool:
    """Whether the arrow of one import runs down."""
    name, target = found.importer.name, found.target
    if name in DOORS:
        return True
    layer = layer_of(name)
    if layer is not None:
        below = layer_of(target)
        return (below is not None and below <= layer) or (layer == 5 and within(target, "dynexplore.views"))
    room = next(room for room in AROUND if within(name, room))
    return any(target == entry[1:] if entry[0] == "=" else within(target, entry) for entry in AROUND[room])


def is_late(found: Import) -> bool:
    """Whether an import runs only when a door is asked, or never because it names types of an agreement."""
    if found.importer.name in DOORS:
        return found.inside_function or found.only_for_types
    return found.only_for_types and found.importer.holds_a_protocol


def test_every_file_has_a_room() -> None:
    """Each file of the package lies in a room of the plan, so that the other tests here see it."""
    homeless = [
        name
        for name in modules()
        if name not in DOORS and layer_of(name) is None and not any(within(name, room) for room in AROUND)
    ]
    assert not homeless, f"give these a room in tests/house/test_layers.py: {homeless}"


def test_arrows_run_down() -> None:
    """A file imports its own layer or lower ones, and nothing of the rooms above it."""
    wrong = [str(found) for file in modules().values() for found in own_imports(file) if not is_allowed(found)]
    assert not wrong, "imports that run up:\n" + "\n".join(wrong)


def test_no_circle() -> None:
    """No chain of import statements leads back to where it started.

    Where an idea itself is circular, the circle goes through a Protocol: the file that defines it may name,
    for type checkers only, the classes that its methods speak of.
    """
    arrows = {
        name: {found.target for found in own_imports(file) if found.target in modules() and not is_late(found)}
        for name, file in modules().items()
    }
    state: dict[str, str] = {}
    circles: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        state[name] = "open"
        for target in sorted(arrows[name] - {name}):
            if state.get(target) == "open":
                circles.append(" -> ".join((*path[path.index(target) :], target)))
            elif target not in state:
                visit(target, (*path, target))
        state[name] = "done"

    for name in arrows:
        if name not in state:
            visit(name, (name,))
    assert not circles, "import circles:\n" + "\n".join(circles)


def test_no_own_import_inside_a_function() -> None:
    """Only the lazy doors and the command line import our own modules inside a function."""
    hidden = [
        str(found) for file in modules().values() if file.name not in DOORS for found in own_imports(file) if found.inside_function
    ]
    assert not hidden, "imports of our own inside functions:\n" + "\n".join(hidden)


def test_low_rooms_need_only_the_standard_library() -> None:
    """Facts, bytecode, native and views run without torch, so that a recording can be read anywhere."""
    foreign = [
        str(found)
        for file in modules().values()
        if any(file.name == room if room in DOORS else within(file.name, room) for room in STANDARD_LIBRARY_ONLY)
        for found in imports_of(file, modules())
        if not within(found.target, "dynexplore") and found.target.split(".")[0] not in sys.stdlib_module_names
    ]
    assert not foreign, "third-party imports where only the standard library may be:\n" + "\n".join(foreign)


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "docs", "binder"])
def test_outsiders_use_the_front_door(folder: str) -> None:
    """Benchmarks, examples and docs import only `dynexplore` and `dynexplore.widgets`, as any user would."""
    files = parse_tree(ROOT / folder, folder)
    wrong = [
        str(found)
        for file in files.values()
        for found in imports_of(file, {**files, **modules()})
        if within(found.target, "dynexplore") and found.target != "dynexplore" and not within(found.target, "dynexplore.widgets")
    ]
    assert not wrong, "imports past the front door:\n" + "\n".join(wrong)
