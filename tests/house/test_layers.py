"""The one fence of the house: imports run down the layers, never in a circle, never hidden inside a function."""

from __future__ import annotations

import sys

import pytest

from source_tree import ROOT, Import, SourceFile, imports_of, modules, parse_tree

# The rooms of the house and the layer of each; the most specific name wins. A file may import its own room and rooms of
# lower layers, and nothing else: two rooms of one layer do not know each other.
LAYERS = {
    # what everything may know
    **dict.fromkeys(
        (
            "dynexplore.engine",
            "dynexplore.engine.events",
            "dynexplore.engine.records",
            "dynexplore.engine.display_paths",
            "dynexplore.engine.gc_control",
            "dynexplore.engine.recorder",
            "dynexplore.engine.graph_breaks",
            "dynexplore.engine.errors",
            "dynexplore.engine.counters",
            "dynexplore.engine.config",
            "dynexplore.engine.display_hooks",
            "dynexplore.engine.tool_hooks",
            "dynexplore.engine.phases",
            "dynexplore.engine.numbering",
            "dynexplore.engine.nearest_name",
            "dynexplore.engine.torch_versions",
            "dynexplore.engine.old_names",
        ),
        0,
    ),
    "dynexplore.engine.bytecode": 10,
    "dynexplore.engine.native": 10,
    "dynexplore.engine.raw_attributes": 11,
    # what tensors and nodes alias: facts that the graph being built needs, too
    **dict.fromkeys((f"dynexplore.engine.aliasing.{name}" for name in ("storage", "stale_views")), 11),
    **dict.fromkeys((f"dynexplore.engine.aliasing.{name}" for name in ("mutation", "autograd_graph", "metadata")), 12),
    "dynexplore.engine.graph.custom_operators": 12,
    **dict.fromkeys((f"dynexplore.engine.aliasing.{name}" for name in ("collect", "input_history")), 13),
    "dynexplore.engine.policy": 20,
    "dynexplore.engine.provenance": 20,
    "dynexplore.engine.graph": 21,
    "dynexplore.engine.aliasing": 22,
    "dynexplore.engine.specialization": 22,
    "dynexplore.engine.variables.contract": 30,
    "dynexplore.engine.variables": 31,
    "dynexplore.engine.translate": 40,
    "dynexplore.engine.runtime": 50,
    "dynexplore.recording": 60,
    "dynexplore.views": 61,
    "dynexplore.second_opinion": 70,
    "dynexplore.traces": 62,
    "dynexplore.ranks": 63,
    "dynexplore.two_engines": 63,
    "dynexplore.session": 80,
    "dynexplore.tools": 90,
    "dynexplore.watching": 90,
    "dynexplore.lenses": 100,
    "dynexplore.widgets": 110,
}
FACTS = 0  # files of this layer are rooms of their own that may know each other

# Rooms that look at recordings only: of what lies below them they may name no more than this.
ONLY = {
    "dynexplore.recording": ("dynexplore.recording", *(room for room, layer in LAYERS.items() if layer == FACTS)),
    # `views` also shows the sentences of the table of canonical opcodes, and makes records of its own as quickly as the engine does
    "dynexplore.views": (
        "dynexplore.views",
        "dynexplore.recording",
        "dynexplore.engine.events",
        "dynexplore.engine.old_names",
        "dynexplore.engine.records",
        "dynexplore.engine.bytecode.opcodes",
    ),
    # `traces` also looks up the values that a watched program has, without running its code
    "dynexplore.traces": (
        "dynexplore.traces",
        "dynexplore.recording",
        "dynexplore.engine.events",
        "dynexplore.engine.errors",
        "dynexplore.engine.raw_attributes",
    ),
    "dynexplore.ranks": (
        "dynexplore.ranks",
        "dynexplore.recording",
        "dynexplore.views",
        "dynexplore.traces",
        "dynexplore.engine.events",
        "dynexplore.engine.old_names",
        "dynexplore.engine.errors",
        "dynexplore.engine.display_hooks",
    ),
    "dynexplore.two_engines": (
        "dynexplore.two_engines",
        "dynexplore.recording",
        "dynexplore.views",
        "dynexplore.engine.events",
        "dynexplore.engine.old_names",
        "dynexplore.engine.display_hooks",
    ),
    "dynexplore.widgets": (
        "dynexplore.widgets",
        "=dynexplore",
        "dynexplore.views",
        "dynexplore.recording",
        "dynexplore.ranks",
        "dynexplore.two_engines",
        "dynexplore.lenses",
        "dynexplore.engine.events",
        "dynexplore.engine.display_hooks",
        "dynexplore.engine.display_paths",
        "dynexplore.engine.gc_control",
    ),
}

# Where an idea itself is circular (a tracker asks the translator, which runs trackers), the circle goes through a contract:
# the files of such a folder may name each other and what they speak of, for type checkers only.
CONTRACTS = ("dynexplore.engine.variables.contract",)

# The doors: they name modules in a table (or import them in the command that needs them), so that
# `import dynexplore` stays cheap and reading a recording imports no torch.
COMMAND_LINE = (
    "dynexplore.__main__",
    "dynexplore.early_signals",
    "dynexplore.cli",
    *(
        f"dynexplore.cli.{part}"
        for part in ("captures", "files", "hunt", "lab", "output_files", "program", "progress", "remedies", "tools")
    ),
)
PLUGIN = "dynexplore.pytest_plugin"  # of pytest, which imports it
DOORS = ("dynexplore", PLUGIN, *COMMAND_LINE)

# Rooms that must work in a process without torch.
STANDARD_LIBRARY_ONLY = (
    *(room for room, layer in LAYERS.items() if layer <= LAYERS["dynexplore.engine.native"]),
    "dynexplore.recording",
    "dynexplore.views",
    "dynexplore.traces",
    "dynexplore.ranks",
    "dynexplore.two_engines",
    "dynexplore",
    *COMMAND_LINE,
)


def within(name: str, room: str) -> bool:
    """Whether module `name` is `room` or lies in it."""
    return name == room or name.startswith(room + ".")


def room_of(name: str) -> str | None:
    """The room that a module lies in; None for a door, and for a file without a room."""
    if name in DOORS:
        return None
    rooms = [room for room in LAYERS if name == room or (within(name, room) and room != "dynexplore.engine")]
    return max(rooms, key=len, default=None)


def own_imports(file: SourceFile) -> list[Import]:
    """The imports of `file` that name modules of this project."""
    return [found for found in imports_of(file, modules()) if within(found.target, "dynexplore")]


def is_allowed(found: Import) -> bool:
    """Whether the arrow of one import runs down."""
    name, target = found.importer.name, found.target
    room = room_of(name)
    if room is None:
        return True
    if room in ONLY:
        return any(target == entry[1:] if entry[0] == "=" else within(target, entry) for entry in ONLY[room])
    below = room_of(target)
    if below is None:  # the front door
        return LAYERS[room] >= LAYERS["dynexplore.lenses"]
    return below == room or LAYERS[below] < LAYERS[room] or LAYERS[below] == LAYERS[room] == FACTS


def is_late(found: Import) -> bool:
    """Whether an import runs only when a door is asked, or never, because the contract names what it speaks of."""
    if found.importer.name in DOORS:
        return found.inside_function or found.only_for_types
    return found.only_for_types and any(within(found.importer.name, folder) for folder in CONTRACTS)


def test_every_file_has_a_room() -> None:
    """Each file of the package lies in a room of the plan, so that the other tests here see it."""
    homeless = [name for name in modules() if name not in DOORS and room_of(name) is None]
    assert not homeless, f"give these a room in tests/house/test_layers.py: {homeless}"


def test_arrows_run_down() -> None:
    """A file imports its own layer or lower ones, and nothing of the rooms above it."""
    wrong = [str(found) for file in modules().values() for found in own_imports(file) if not is_allowed(found)]
    assert not wrong, "imports that run up:\n" + "\n".join(wrong)


def test_no_circle() -> None:
    """No chain of import statements leads back to where it started.

    Imports for type checkers count: who reads a file must know them as well. The files of a contract are the
    one place that may name what imports them.
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
    """Facts, bytecode, native and views run without torch, so that a recording can be read anywhere; DOT has its writer."""
    foreign = [
        str(found)
        for file in modules().values()
        if (room_of(file.name) or file.name) in STANDARD_LIBRARY_ONLY
        for found in imports_of(file, modules())
        if not within(found.target, "dynexplore") and found.target.split(".")[0] not in sys.stdlib_module_names
        if not found.only_for_types
    ]
    assert not foreign, "third-party imports where only the standard library may be:\n" + "\n".join(foreign)


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "docs", "binder"])
def test_outsiders_use_the_front_door(folder: str) -> None:
    """Benchmarks, examples and docs import only `dynexplore` and `dynexplore.widgets`, as any user would.

    One example is an engine: it borrows the frame hook.
    """
    files = parse_tree(ROOT / folder, folder)
    wrong = [
        str(found)
        for file in files.values()
        for found in imports_of(file, {**files, **modules()})
        if within(found.target, "dynexplore") and found.target != "dynexplore" and not within(found.target, "dynexplore.widgets")
        if not (file.path.name == "mini_dynamo.py" and within(found.target, "dynexplore.engine.native"))
    ]
    assert not wrong, "imports past the front door:\n" + "\n".join(wrong)
