"""The hand-written files of the explorer, static/explorer/, as one script and one style sheet.

Which idea lives here: there is no build step. The explorer is a dozen ES modules that people read, check and edit one by
one; the notebook (explorer.py) and the HTML file (html.py) each take one text. So the modules are joined when they are
first asked for: in the order of their imports, each once, without the import lines and the word `export`, which only the
way in (main.js) keeps. That is all a join of modules needs when no two of them use the same name at their top; this one
checks that, and refuses every form of import or export that it does not know rather than making something wrong of it.

In:  the package's own files.
Out: `SCRIPT`, an ES module that exports `mount`, and `STYLE`; `joined(read, entry)` for any modules; `graphviz()`, the
     text of the vendored module that draws diagrams (static/vendor/).

PyTorch has no counterpart.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from importlib import resources

ENTRY = "main.js"

_STATIC = resources.files(__package__) / "static" / "explorer"
_GRAPHVIZ = resources.files(__package__) / "static" / "vendor" / "wasm-graphviz.js"

# `import { one, other } from "./file.js";`, over several lines too
_IMPORT = re.compile(r'^import \{\s*(\w+(?:,\s*\w+)*),?\s*\} from "(\.{1,2}/[\w./]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const|let) )", re.MULTILINE)
_DECLARED = re.compile(r"^(export )?(?:async function|function|class|const|let) (\w+)", re.MULTILINE)
# what would be an import or an export that the patterns above do not take, and names that they would not see
_UNKNOWN = re.compile(r"^(?:import|export|var|async(?! function \w)|const \W|let \W|function\*).*|\bimport\([\"'`].*", re.MULTILINE)
_MARK = "// @ts-check\n"


class JoinError(ValueError):
    """The modules cannot be joined; the message says which file and why."""


def joined(read: Callable[[str], str], entry: str = ENTRY) -> str:
    """Return one ES module made of `entry` and all that it imports; `read` gives the text of a file by its path.

    Raises JoinError for a circle of imports, a name that two files declare, a name that is imported but not exported,
    and for every form of import or export other than `import { a, b } from "./file.js"` and `export` before a
    declaration (in `entry`, `export default` as well).

    >>> files = {
    ...     "main.js": 'import { one } from "./one.js";\\nexport const two = one + one;\\n',
    ...     "one.js": "export const one = 1;\\n",
    ... }
    >>> print(joined(files.__getitem__))
    // @ts-check
    // -- one.js
    const one = 1;
    // -- main.js
    export const two = one + one;
    <BLANKLINE>
    """
    parts: dict[str, str] = {}
    exported: dict[str, set[str]] = {}
    owners: dict[str, str] = {}

    def add(path: str, importers: tuple[str, ...]) -> None:
        if path in importers:
            raise JoinError(f"{path}: imports itself by way of {', '.join(importers[importers.index(path) :])}")
        if path in parts:
            return
        text = read(path)
        for names, target in _imports(path, text):
            add(target, (*importers, path))
            if missing := names - exported[target]:
                raise JoinError(f"{path}: {target} exports no {', '.join(sorted(missing))}")
        exported[path] = _declare(path, text, owners)
        parts[path] = f"// -- {path}\n{_stripped(path, text, is_entry=path == entry)}"

    add(entry, ())
    return _MARK + "".join(parts.values())


def _imports(path: str, text: str) -> list[tuple[set[str], str]]:
    """What a file imports: the names, and the path of the other file."""
    folder = posixpath.dirname(path)
    found = _IMPORT.findall(text)
    return [
        ({name.strip() for name in names.split(",")}, posixpath.normpath(posixpath.join(folder, file))) for names, file in found
    ]


def _declare(path: str, text: str, owners: dict[str, str]) -> set[str]:
    """Note the names that a file declares at its top, and return those that it exports."""
    exports = set()
    for export, name in _DECLARED.findall(text):
        if owners.setdefault(name, path) != path:
            raise JoinError(f"{path}: {name} is declared in {owners[name]} too; all modules share their names once they are joined")
        if export:
            exports.add(name)
    return exports


def _stripped(path: str, text: str, *, is_entry: bool) -> str:
    """The text of a file without its imports, and without `export` unless it is the way in."""
    plain = _IMPORT.sub("", text.removeprefix(_MARK))
    rest = _EXPORT.sub("", plain)
    if is_entry:
        rest = re.sub(r"^export default (?=\{)", "", rest, flags=re.MULTILINE)
    code = re.sub(r"/\*\*.*?\*/", "", rest, flags=re.DOTALL)  # comments name types by import(...)
    if unknown := _UNKNOWN.search(code):
        raise JoinError(f"{path}: the join does not understand {unknown.group().strip()!r}")
    return plain if is_entry else rest


def _read(path: str) -> str:
    return (_STATIC / path).read_text(encoding="utf-8")


def _style() -> str:
    """page.css, then what panes and controls bring in files of their own."""
    folders = [_STATIC / "panes", _STATIC / "controls"]
    more = sorted(
        (file for folder in folders for file in folder.iterdir() if file.name.endswith(".css")), key=lambda file: file.name
    )
    return "".join(file.read_text(encoding="utf-8") for file in [_STATIC / "page.css", *more])


def graphviz() -> str:
    """The module that draws diagrams in the browser: 815 KB, so it is not part of the script."""
    return re.sub(r"^//# sourceMappingURL=.*", "", _GRAPHVIZ.read_text(encoding="utf-8"), flags=re.MULTILINE)


SCRIPT = joined(_read)
STYLE = _style()
