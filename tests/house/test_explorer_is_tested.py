"""Every pane, control, column and field of the explorer is named by a test that looks at what it shows.

The explorer lists its panes and controls in an index.js each, and the columns of its tables in columns.js. A test may pass
whatever they show unless it names them: here each of them has its test, and a new one without any is an error. Fields of the
data are many and are checked for less: that some test of views, widgets or the page names them.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from source_tree import ROOT

EXPLORER = Path("dynexplore/widgets/static/explorer")
BROWSER = Path("tests/browser")
LOOKING = (Path("tests/views"), Path("tests/widgets"), BROWSER)

PANES = {
    "summary": "test_story_view.py::test_the_overview_leads_there",
    "compare": "test_story_view.py::test_two_versions_are_compared",
    "frames": "test_explorer_reading.py::test_frames_can_be_filtered",
    "timeline": "test_session_panes.py::test_a_miss_in_the_timeline",
    "miss": "test_session_panes.py::test_a_miss_in_the_timeline",
    "source": "test_explorer_page.py::test_a_node_lights_up_all_that_belongs_to_it",
    "boxes": "test_story_view.py::test_stack_and_locals_are_boxes",
    "growing": "test_story_view.py::test_the_graph_grows_and_shrinks",
    "original": "test_explorer_page.py::test_a_node_lights_up_all_that_belongs_to_it",
    "modified": "test_explorer_reading.py::test_roles_are_words_and_colours",
    "state": "test_explorer_page.py::test_steps_go_both_ways",
    "graph": "test_explorer_page.py::test_a_node_lights_up_all_that_belongs_to_it",
    "diagram": "test_diagram.py::test_groups_open_and_close",
    "python": "test_story_view.py::test_modified_code_as_python",
    "memory": "test_memory_pane.py::test_the_pointer_and_the_arrows_name_the_operator",
    "artefacts": "test_compiler_panes.py::test_each_part_has_a_button_that_shows_and_hides_it",
    "real": "test_real_run_page.py::test_a_clean_run_says_so",
    "guards": "test_explorer_page.py::test_each_pane_links_to_the_others",
    "breaks": "test_explorer_page.py::test_each_pane_links_to_the_others",
    "what-if": "test_session_panes.py::test_what_if_an_input_were_another_one",
    "live": "test_session_panes.py::test_a_live_run_is_stepped",
}
"""Key of a pane -> the test that looks into it."""

CONTROLS = {
    "real": ("test_real_run_page.py::test_a_clean_run_says_so", "dynx-control-real"),
    "tour": ("test_accessibility.py::test_the_tour", "What am I looking at?"),
    "keys": ("test_accessibility.py::test_the_list_of_keys", "Keys"),
    "place": ("test_explorer_stepper.py::test_the_address_names_the_place", "location"),
}
"""Key of a control -> the test that uses it, and the word in it by which it does."""

_COLUMNS = "test_columns.py::test_a_row_has_what_its_headings_say"
_STATE = "test_columns.py::test_stack_and_locals_have_their_columns"
_LIVE = "test_session_panes.py::test_a_live_run_is_stepped"
_REAL = "test_real_run_page.py::test_the_tables_of_a_real_run"

COLUMNS = {
    "NODE_COLUMNS": _COLUMNS,
    "PIECE_COLUMNS": "test_compiler_panes.py::test_the_pieces_of_a_split_graph_have_numbers_and_colours",
    "GUARD_COLUMNS": _COLUMNS,
    "ANATOMY_COLUMNS": _COLUMNS,
    "ORIGINAL_COLUMNS": _COLUMNS,
    "EMITTED_COLUMNS": _COLUMNS,
    "BREAK_STACK_COLUMNS": _COLUMNS,
    "BREAK_LOCAL_COLUMNS": _COLUMNS,
    "RECEIVED_COLUMNS": _COLUMNS,
    "RESUME_COLUMNS": _COLUMNS,
    "PLACE_COLUMNS": "test_columns.py::test_what_is_copied_of_stack_and_locals_has_its_columns",
    "CALL_COLUMNS": _COLUMNS,
    "PAIR_COLUMNS": "test_story_view.py::test_two_versions_are_compared",
    "BESIDE_COLUMNS": "test_story_view.py::test_two_versions_are_compared",
    "STATE_STACK_COLUMNS": _REAL,
    "STATE_LOCAL_COLUMNS": _REAL,
    "RUN_COLUMNS": _REAL,
    "RAN_COLUMNS": _REAL,
    "LIVE_STACK_COLUMNS": _LIVE,
    "LIVE_LOCAL_COLUMNS": _LIVE,
    "OBSERVED_COLUMNS": _LIVE,
    "KEY_COLUMNS": "test_columns.py::test_the_list_of_keys_has_its_columns",
}
"""A table's columns -> the test that names each of its headings."""


def keys_of(root: Path, kind: str) -> list[str]:
    """The keys of all panes or controls, in the order of the page."""
    folder = root / EXPLORER / kind
    index = (folder / "index.js").read_text(encoding="utf-8")
    listed = re.findall(r"\w+", index.partition(f"export const {kind.upper()} = [")[2])
    sources = {
        name: (folder / file).read_text(encoding="utf-8")
        for names, file in re.findall(r'import \{ ([\w, ]+) \} from "\./([\w.]+)"', index)
        for name in names.split(", ")
    }
    return [re.findall(rf'const {name} = \{{\s*key: "([^"]+)"', sources[name])[0] for name in listed]


def columns_of(root: Path) -> dict[str, list[str]]:
    """The headings of every table, by the name under which columns.js declares them."""
    text = (root / EXPLORER / "columns.js").read_text(encoding="utf-8")
    blocks = re.findall(r"^export const (\w+) = (\{.*?^\}|\[.*?\]);", text, re.MULTILINE | re.DOTALL)
    return {name: re.findall(r'^  "([^"]*)":', body, re.MULTILINE) or re.findall(r'"([^"]*)"', body) for name, body in blocks}


def fields_of(root: Path) -> list[str]:
    """The fields of the page's data, as types.js declares them; the type check lets the page read no others."""
    data = (root / EXPLORER / "types.js").read_text(encoding="utf-8").partition("@typedef")[2].partition("} StackAndLocals")[0]
    return sorted(set(re.findall(r"\b(\w+)\??: ", data)))


def named_fields(root: Path) -> set[str]:
    """The texts and attributes in tests that look at the data or at the page."""
    found: set[str] = set()
    for path in (path for folder in LOOKING for path in sorted((root / folder).glob("test_*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} | {*re.findall(r"\.(\w+)", node.value)}
    return found


def text_of(root: Path, test: str) -> str:
    """A test with what it names at the top of its file; empty where there is no such test, or it asserts nothing."""
    file, _, name = test.partition("::")
    source = (root / BROWSER / file).read_text(encoding="utf-8")
    parts = {}
    for node in ast.parse(source).body:
        names = [node.name] if isinstance(node, ast.FunctionDef) else []
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        parts |= dict.fromkeys(names, ast.unparse(node))
    if not re.search(r"\bassert\b|\bexpect\(", parts.get(name, "")):
        return ""
    wanted, shown = {name}, [parts[name]]
    while more := {one for one in parts if re.search(rf"\b{one}\b", "\n".join(shown))} - wanted:
        wanted |= more
        shown += [parts[one] for one in sorted(more)]
    return "\n".join(shown)


def names_pane(text: str, key: str) -> bool:
    """Whether a test asks for the pane by its class, or gives its key to `rows` or `pane`."""
    return bool(re.search(rf"dynx-{key}\b", text) or re.search(rf"\b(rows|pane)\(\w+, '{key}'", text))


def unchecked(root: Path) -> list[str]:
    """What no test looks at, and what is declared here and is not there."""
    found = []
    panes, controls, columns = keys_of(root, "panes"), keys_of(root, "controls"), columns_of(root)
    found += [f"pane {key}" for key in panes if not names_pane(text_of(root, PANES[key]) if key in PANES else "", key)]
    for key in controls:
        test, word = CONTROLS.get(key, ("", ""))
        found += [f"control {key}"] if not word or word not in text_of(root, test) else []
    for name, headings in columns.items():
        text = text_of(root, COLUMNS[name]) if name in COLUMNS else ""
        found += [f"column {heading!r} of {name}" for heading in headings if repr(heading) not in text]
    named = named_fields(root)
    found += [f"field {name}" for name in fields_of(root) if name not in named]
    found += [f"{key} is gone" for key in sorted({*PANES} - {*panes} | {*CONTROLS} - {*controls} | {*COLUMNS} - {*columns})]
    return found


def test_everything_on_the_page_is_looked_at() -> None:
    """Panes, controls, columns and fields, each by a test that names it."""
    assert len(keys_of(ROOT, "panes")) > 10 and sum(map(len, columns_of(ROOT).values())) > 60
    assert unchecked(ROOT) == []


def test_columns_stand_in_one_file() -> None:
    """No table has headings that columns.js does not declare, but for the two captures side by side, named by who asks."""
    literal = re.compile(r"(?:makeTable|longTable|textTable)\([^\n]*\[\s*\"[^\n]*")
    found = [
        f"{path.name}: {match.group()}"
        for path in sorted((ROOT / EXPLORER).rglob("*.js"))
        if path.name != "difference.js"
        for match in literal.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def plant_pane(root: Path) -> None:
    panes = root / EXPLORER / "panes"
    (panes / "planted.js").write_text('export const plantedPane = {\n  key: "planted",\n};\n', encoding="utf-8")
    index = (panes / "index.js").read_text(encoding="utf-8")
    index = 'import { plantedPane } from "./planted.js";\n' + index.replace("  framesPane,\n", "  framesPane,\n  plantedPane,\n")
    (panes / "index.js").write_text(index, encoding="utf-8")


def plant_column(root: Path) -> None:
    file = root / EXPLORER / "columns.js"
    text = file.read_text(encoding="utf-8").replace('  "opcode": ({ op })', '  "planted": () => "",\n  "opcode": ({ op })', 1)
    file.write_text(text, encoding="utf-8")


def plant_field(root: Path) -> None:
    file = root / EXPLORER / "types.js"
    text = file.read_text(encoding="utf-8").replace("{{key: string, index", "{{key: string, planted: string, index", 1)
    file.write_text(text, encoding="utf-8")


def drop_test(root: Path) -> None:
    file = root / BROWSER / "test_diagram.py"
    text = file.read_text(encoding="utf-8").replace("test_groups_open_and_close", "test_of_something_else")
    file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (plant_pane, ["pane planted"]),
        (plant_column, ["column 'planted' of NODE_COLUMNS"]),
        (plant_field, ["field planted"]),
        (drop_test, ["pane diagram"]),
    ],
)
def test_what_nobody_looks_at_is_found(tmp_path: Path, plant: Callable[[Path], None], said: list[str]) -> None:
    """In a copy with a pane, a column or a field that no test knows, or without the test of a pane."""
    for folder in (EXPLORER, *LOOKING):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("axe", "__pycache__"))
    plant(tmp_path)
    assert unchecked(tmp_path) == said
