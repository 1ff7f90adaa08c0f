"""widgets/assets.py: the explorer's modules become one script, and what cannot be joined is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynexplore.widgets import assets
from dynexplore.widgets.assets import JoinError, joined
from source_tree import ROOT

FOLDER = ROOT / "dynexplore/widgets/static/explorer"


def join(**files: str) -> str:
    """Join files given by their names without `.js`."""
    return joined(lambda path: files[path.removesuffix(".js")])


def test_modules_stand_after_what_they_import() -> None:
    """Each module stands once, behind all that it imports, as a function that returns what it exports."""
    text = join(
        main='import { b } from "./b.js";\nimport { a } from "./a.js";\nexport const m = a + b;\nexport default {};\n',
        b='// @ts-check\nimport {\n  a,\n} from "./a.js";\nexport const b = a;\n',
        a="const hidden = 1;\nexport const a = hidden;\nexport class A {}\n",
    )
    assert text.split("\n")[1:] == [
        *("// -- a.js", "const $a = (() => {", "const hidden = 1;", "const a = hidden;", "class A {}", "return { A, a };", "})();"),
        *("// -- b.js", "const $b = (() => {", "const { a } = $a;", "const b = a;", "return { b };", "})();"),
        *("// -- main.js", "const { b } = $b;", "const { a } = $a;", "export const m = a + b;", "export default {};", ""),
    ]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"main": 'import { a } from "./a.js";\n', "a": "const a = 1;\n"}, "main.js: a.js exports no a"),
        (
            {"main": 'import { a } from "./a.js";\n', "a": 'import { m } from "./main.js";\nexport const a = 1;\n'},
            "main.js: imports itself by way of main.js, a.js",
        ),
        (
            {"main": 'import { a as b } from "./a.js";\n'},
            "main.js: the join does not understand 'import { a as b } from \"./a.js\";'",
        ),
        ({"main": 'import * as a from "./a.js";\n'}, "does not understand 'import * as a from"),
        ({"main": 'import { a } from "https://a/a.js";\n'}, "does not understand 'import { a } from"),
        ({"main": 'import "./a.js";\n'}, "does not understand"),
        ({"main": 'const a = await import("./a.js");\n'}, "does not understand"),
        ({"main": "const a = 1;\nexport { a };\n"}, "does not understand 'export { a };'"),
        ({"main": 'export * from "./a.js";\n'}, "does not understand"),
        ({"main": "export let a = 1;\n"}, "does not understand 'export let a = 1;'"),
        ({"main": "export default function f() {}\n"}, "does not understand"),
        ({"main": 'import { a } from "./a.js";\n', "a": "export const a = 1;\nexport default {};\n"}, "a.js: the join"),
    ],
)
def test_what_cannot_be_joined_is_refused(files: dict[str, str], sentence: str) -> None:
    """Circles, names that are not there, and forms of import and export that are not known get one sentence."""
    with pytest.raises(JoinError) as refused:
        join(**files)
    assert sentence in str(refused.value)


def test_comments_stay_behind() -> None:
    """Comments of their own lines, types and those of style sheets are left out; what looks like one inside a line is not."""
    code = '/**\n * @param {string} a\n */\nexport const a = "// b /** c */"; // d\n  // e\n  /** f */\n'
    code += "const g = /** @type {T} */ (`/**`);\n"
    lines = join(main='import { a } from "./a.js";\n', a=code).split("\n")
    assert lines[3:5] == ['const a = "// b /** c */"; // d', "const g = (`/**`);"]
    assert "/*" not in assets.STYLE


def test_every_module_is_in_the_script_and_has_its_types_checked() -> None:
    """All files of the explorer are joined (types.js holds comments only), and each asks for type checks."""
    paths = {str(path.relative_to(FOLDER)): path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.js")}
    assert set(re.findall(r"^// -- (.*)$", assets.SCRIPT, re.MULTILINE)) == set(paths) - {"types.js"}
    assert [path for path, text in paths.items() if not text.startswith("// @ts-check\n/**\n * ")] == []


def test_every_style_sheet_is_in_the_style() -> None:
    """What panes and tools bring along comes behind the page's own style."""
    for path in FOLDER.rglob("*.css"):
        rules = re.sub(r"^ */\*.*?\*/\n| */\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert assets.without_spaces(rules) in assets.STYLE
    assert assets.STYLE.startswith(".dynexplore{position:relative;")


def test_the_script_exports_what_its_users_ask_for() -> None:
    """`mount` for a page, `together` for two captures, `viewer` and `read` for files, the default export for anywidget; no more."""
    exported = re.findall(r"^export (?:async )?(\w+ \w+|default)", assets.SCRIPT, re.MULTILINE)
    assert exported == ["function mount", "function together", "function viewer", "function read", "default"]


def test_the_assets_name_no_host_and_make_no_markup() -> None:
    """Script and style fetch nothing, and no text becomes HTML."""
    for word in ("http:", "https:", "fetch(", "XMLHttp", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
        assert word not in assets.SCRIPT and word not in assets.STYLE, word
    assert "url(" not in assets.STYLE and "@import" not in assets.STYLE
    assert "</script" not in assets.SCRIPT and "</style" not in assets.STYLE


# -- one set of values -----------------------------------------------------------------------------------------------------

SHEETS = [FOLDER / "page.css", *sorted((FOLDER / "panes").glob("*.css"))]
TOKEN = re.compile(r"--dynx-[\w-]+: [^;]*;")
SPACES = {0, 1, 2, 4, 6, 8, 12, 16, 24, 72}  # 72: what stands under a line of the source begins where its code begins
PIECES = re.compile(r"\.dynx-piece-\d \{ border-color: #\w{6}; \}")  # views/dot.py draws the borders of a diagram's boxes in these


@pytest.mark.plain("style sheets are text")
@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_a_style_sheet_takes_its_values_from_the_one_set(sheet: Path) -> None:
    """Colours and sizes of letters are names, and spaces are of the scale that page.css tells."""
    rules = PIECES.sub("", TOKEN.sub("", re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.S)))
    assert re.findall(r"#[0-9a-f]{3,8}\b|\b(?:rgba?|hsla?)\([^)]*\)", rules) == []
    letters = re.findall(r"(?<![\w-])font(?:-size)?: ([^;}]*)", rules)
    assert [size for size in letters if re.search(r"(?<!/)\b\d+(\.\d+)?px", size)] == []
    spaces = re.findall(r"(?<![\w-])(?:gap|padding(?:-\w+)?|margin(?:-\w+)?): ([^;}]*)", rules)
    assert {int(pixels) for space in spaces for pixels in re.findall(r"(?<![\w.])(\d+)px", space)} <= SPACES


@pytest.mark.plain("style sheets are text")
def test_each_theme_has_each_colour() -> None:
    """The colours that differ on light and dark are given four times: for either system, and for either theme of a notebook."""
    blocks = re.findall(r"((?:\s*--dynx-\w+: #\w{6};)+)", SHEETS[0].read_text(encoding="utf-8"))
    light, dark, notebook_light, notebook_dark = (dict(re.findall(r"(--dynx-\w+): (#\w{6})", block)) for block in blocks)
    assert light == notebook_light and dark == notebook_dark
    assert light.keys() == dark.keys() and not [name for name in light if light[name] == dark[name]]
