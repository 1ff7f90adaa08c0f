"""The hand-written files of the explorer, static/explorer/, bundled into one script and one style sheet.

The idea: there is no build step. The explorer consists of a few dozen ES modules that people read, check and edit separately; the
notebook (explorer.py) and the HTML file (html.py) each need one text. So the modules are bundled on first use: in import order,
each once, wrapped in a function that returns its exports, so that their names cannot collide. Only the entry point (main.js) is at
top level and keeps its exports. Unsupported forms of import or export are rejected, not bundled wrongly. Comments are removed.

In: the package's own files.
Out: `SCRIPT`, an ES module that exports `mount`, and `STYLE`; `joined(read, entry)` for any modules; `graphviz()` and
     `code_editor()`, the texts of the vendored modules that draw diagrams and edit source (static/vendor/).

PyTorch's counterpart: none.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from importlib import resources

ENTRY = "main.js"

_STATIC = resources.files(__package__) / "static" / "explorer"
_VENDOR = resources.files(__package__) / "static" / "vendor"

# `import { one, other } from "./file.js";`, possibly over several lines
_IMPORT = re.compile(r'^import \{\s*(\w+(?:,\s*\w+)*),?\s*\} from "(\.{1,2}/[\w./]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
# imports and exports that the patterns above do not match: two patterns, because a combined one would be tried at each character
_UNKNOWN = (re.compile(r"^(?:import|export)\b.*", re.MULTILINE), re.compile(r"import(?<!\wimport)\([\"'`].*"))
# a comment on separate lines: types and explanations, which would only make each page larger
_COMMENT = re.compile(r"^[ ]*/\*\*[^*]*\*+(?:[^/*][^*]*\*+)*/\n|^[ ]*// [^\n]*\n", re.MULTILINE)
# inline type comments, and comments in style sheets
_ASIDE = re.compile(r"/\*\* @(?:type|param) [^*\n]*\*/ ?")
_STYLE_COMMENT = re.compile(r"^[ ]*/\*[^*]*\*+(?:[^/*][^*]*\*+)*/\n|[ ]*/\*[^*]*\*+(?:[^/*][^*]*\*+)*/", re.MULTILINE)
_MARK = "// @ts-check\n"


class JoinError(ValueError):
    """The modules cannot be bundled; the message names the file and the reason."""


def joined(read: Callable[[str], str], entry: str = ENTRY) -> str:
    """Return one ES module bundled from `entry` and all its imports; `read` returns the text of a file by its path.

    Raises JoinError for an import cycle, a name that is imported but not exported, and for every form of import or export other
    than `import { a, b } from "./file.js"` and `export` before a function, a class or a const (in `entry`, `export default` as
    well).

    >>> files = {
    ...     "main.js": 'import { one } from "./one.js";\\nexport const two = one + one;\\n',
    ...     "one.js": "export const one = 1;\\n",
    ... }
    >>> print(joined(files.__getitem__))
    // @ts-check
    // -- one.js
    const $one = (() => {
    const one = 1;
    return { one };
    })();
    // -- main.js
    const { one } = $one;
    export const two = one + one;
    <BLANKLINE>
    """
    parts: dict[str, str] = {}
    exported: dict[str, set[str]] = {}

    def add(path: str, importers: tuple[str, ...]) -> None:
        if path in importers:
            raise JoinError(f"{path}: imports itself by way of {', '.join(importers[importers.index(path) :])}")
        if path in parts:
            return
        text = read(path)
        import_lines = ""
        for names, target in _imports(path, text):
            add(target, (*importers, path))
            if missing := sorted(set(names) - exported[target]):
                raise JoinError(f"{path}: {target} exports no {', '.join(missing)}")
            import_lines += f"const {{ {', '.join(names)} }} = {_variable(target)};\n"
        exported[path] = set(_EXPORT.findall(text))
        plain, rest = _stripped(path, text, is_entry=path == entry)
        if path == entry:
            parts[path] = f"// -- {path}\n{import_lines}{plain}"
        else:
            exports = ", ".join(sorted(exported[path]))
            parts[path] = (
                f"// -- {path}\nconst {_variable(path)} = (() => {{\n{import_lines}{rest}return {{ {exports} }};\n}})();\n"
            )

    add(entry, ())
    return _MARK + "".join(parts.values())


def _variable(path: str) -> str:
    """The variable that holds a module's exports: panes/index.js is $panes_index."""
    return "$" + re.sub(r"\W", "_", path.removesuffix(".js"))


def _imports(path: str, text: str) -> list[tuple[list[str], str]]:
    """The imports of a file: the names, and the path of the other file."""
    folder = posixpath.dirname(path)
    return [
        ([name.strip() for name in names.split(",")], posixpath.normpath(posixpath.join(folder, file)))
        for names, file in _IMPORT.findall(text)
    ]


def _stripped(path: str, text: str, *, is_entry: bool) -> tuple[str, str]:
    """The text of a file without its imports, and the same without the keyword `export`."""
    plain = _ASIDE.sub("", _COMMENT.sub("", _IMPORT.sub("", text.removeprefix(_MARK))))
    rest = _EXPORT.sub("", plain)
    body = re.sub(r"^export default (?=\{)", "", rest, flags=re.MULTILINE) if is_entry else rest
    code = re.sub(r"/\*\*.*?\*/", "", body, flags=re.DOTALL)  # inline type comments
    if unknown := next(filter(None, (pattern.search(code) for pattern in _UNKNOWN)), None):
        raise JoinError(f"{path}: the join does not understand {unknown.group().strip()!r}")
    return plain, rest


def _read(path: str) -> str:
    return (_STATIC / path).read_text(encoding="utf-8")


def unpacking() -> str:
    """The module that unpacks data, alone: a page with a compressed script begins with it."""
    return joined(_read, "unpack.js")


def _style() -> str:
    """page.css, followed by the style sheets of panes and controls."""
    folders = [_STATIC / "panes", _STATIC / "controls"]
    more = sorted(
        (file for folder in folders for file in folder.iterdir() if file.name.endswith(".css")), key=lambda file: file.name
    )
    return _STYLE_COMMENT.sub("", "".join(file.read_text(encoding="utf-8") for file in [_STATIC / "page.css", *more]))


def graphviz() -> str:
    """The module that draws diagrams in the browser: 815 KB, so it is not part of the script."""
    return re.sub(r"^//# sourceMappingURL=.*", "", (_VENDOR / "wasm-graphviz.js").read_text(encoding="utf-8"), flags=re.MULTILINE)


def code_editor() -> str:
    """The module that edits source in the browser: 350 KB, so it is not part of the script."""
    return (_VENDOR / "codemirror.js").read_text(encoding="utf-8")


def without_spaces(sheet: str) -> str:
    """Remove the whitespace of a style sheet that is not significant.

    >>> without_spaces(".a { color: red; }\\n.b > .c { margin: 0 1px; }\\n")
    '.a{color:red}.b > .c{margin:0 1px}'
    """
    packed = re.sub(r"\s+", " ", re.sub(r"\s*([{};,])\s*", r"\1", sheet.strip())).replace(";}", "}")
    return re.sub(r"(?<=[{;])(-{0,2}[a-z][\w-]*): ", r"\1:", packed)


# a tenth of the text is indentation; every page contains script and style sheet
SCRIPT = re.sub(r"\n{2,}", "\n", re.sub(r"^ +| // [^\"'`\n]*$", "", joined(_read), flags=re.MULTILINE)).replace(" => ", "=>")
STYLE = without_spaces(_style())
