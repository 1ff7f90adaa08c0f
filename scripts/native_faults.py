"""The C extension with a switch at each question that a guard asks: a check that can be told to hold always.

Which idea lives here: most of what guards ask is asked in C, where nothing can be put in the place of a function. So the C files
are copied, the answers listed in `SWITCHES` are wrapped in `passes(site, answer)`, and the copy is built once, in a second or
two. `passes` remembers the sites at which the answer was no, and says yes for the one that is broken. With none broken the
copy does what the original does.

In:  the files of dynexplore/engine/native; each text of `SWITCHES` must occur in its file exactly once, or building fails.
Out: the extension under its usual name (before anything imports it); `break_site`, `sites_that_said_no`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NATIVE = Path(__file__).resolve().parent.parent / "dynexplore" / "engine" / "native"
MODULE = "dynexplore.engine.native._frame_hook"

KINDS = ("is", "is_weak", "equal", "any")
"""The first kinds of `enum Kind` in dict_check.h, in its order: what `value_passes` compares."""

HEADER = """\
#include <stdbool.h>
extern int broken_site;
extern unsigned char said_no[];
static inline bool passes(int site, bool answer)
{
    if (!answer) {
        said_no[site] = 1;
    }
    return answer || site == broken_site;
}
"""


def _of_kinds(what: str, count: int) -> list[str]:
    return [f"{what}{' ' if ':' in what else ': '}{kind}" for kind in KINDS[:count]]


class Switch:
    """A question in a C file. `text` stands there once; what `[[ ]]` encloses in it, without them, is the answer.

    `by` is the kind of the compare, where one question has a site for each kind; `instead` is what to put there where wrapping
    the answer is not enough ({0}: the number of the site).
    """

    def __init__(self, file: str, text: str, *sites: str, by: str = "0", instead: str = "") -> None:
        self.file, self.sites, self.by = file, sites, by
        self.text = text.replace("[[", "").replace("]]", "")
        self.instead = instead or text.replace("[[", f"passes({{0}} + (int){by}, ").replace("]]", ")")

    def put_into(self, text: str, number: int) -> str:
        """The text of the file with the switch in it."""
        assert text.count(self.text) == 1, f"{self.file} has changed: {self.text!r} stands in it {text.count(self.text)} times"
        return text.replace(self.text, self.instead.replace("{0}", str(number)))


_COUNTS_DIFFER = "        return passes({0}, false);\n    }\n    if (false) {"

SWITCHES = (
    Switch("dict_guard.c", "check->kind == ABSENT ? find_value_or_hash(dictionary, check) != NULL", "DictGuard: absent",
           instead="check->kind == ABSENT ? !passes({0}, find_value_or_hash(dictionary, check) == NULL)"),
    Switch("dict_guard.c", "![[value_passes(check, find_value(dictionary, check))]]", *_of_kinds("DictGuard", 4), by="check->kind"),
    Switch("dict_guard.c", "[[self->version == dict_version(args[0])]]", "DictGuard: version of the dictionary"),
    Switch("dict_guard.c", "Py_RETURN_FALSE;", "DictGuard: it is a dictionary",
           instead="return PyBool_FromLong(passes({0}, false));"),
    Switch("sequence_guard.c", "self->length >= 0 && self->length != length", "SequenceGuard: length",
           instead="self->length >= 0 && !passes({0}, self->length == length)"),
    Switch("sequence_guard.c", "![[value_passes(check, check->hint < length ? items[check->hint] : NULL)]]",
           *_of_kinds("SequenceGuard", 4), by="check->kind"),
    Switch("guard_walk.c", "PyDict_GET_SIZE(value) != check->item_count", "items: how many",
           instead="!passes({0}, PyDict_GET_SIZE(value) == check->item_count)"),
    Switch("guard_walk.c", "[[version == check->version]]", "items: version of the dictionary"),
    Switch("guard_walk.c", "![[value_passes(item, find_value(value, item))]]", *_of_kinds("items", 4), by="item->kind"),
    Switch("guard_walk.c", "[[*value == Py_None || (*value != NULL && PyDict_Check(*value) && PyDict_GET_SIZE(*value) == 0)]];",
           "object: empty"),
    Switch("guard_walk.c", "return [[*value == NULL]];", "object: absent"),
    Switch("guard_walk.c", "return [[value_passes(check, *value)]];", *_of_kinds("object", 3), by="check->kind"),
    Switch("guard_walk.c", "[[Py_TYPE(object) == spec->type]] ?", "object: class"),
    Switch("guard_walk.c", "= same_object(spec);\n    if (unlikely(object == NULL)) {\n        return false;", "object: alive",
           instead="= same_object(spec);\n    if (object == NULL) {\n"
                   "        return weakly_referenced(spec->reference) == NULL && passes({0}, false);"),
    Switch("guard_walk.c", "[[dict_version(dictionary) == spec->version]]", "object: version of its dictionary"),
    Switch("guard_walk.c", "[[dict_version(inner->dictionary) == inner->version]]", "object: version of one that stands in it"),
    Switch("lookup_rows.c", "return [[same_mro(type, lookup->payload)]];", "class: mro"),
    Switch("lookup_rows.c", "return [[*value == lookup->payload]];", "class: is"),
    Switch("lookup_rows.c", "return [[*value != NULL && *value == weakly_referenced(lookup->payload)]];", "class: is_weak"),
    Switch("lookup_rows.c", "return [[owner != NULL && (PyObject *)owner == weakly_referenced(lookup->payload)]];",
           "class: found_in"),
    Switch("lookup_rows.c", "return [[*value == NULL]];", "class: absent"),
    Switch("lookup_rows.c", "row->tag != 0 && [[type_version(type) == row->tag]]", "class: version"),
    Switch("lookup_rows.c", "if (type == NULL) {\n        return [[false]];", "class: alive"),
    Switch("lookup_rows.c", "return function != NULL && [[function->func_code == row->code]]", "function: code"),
    Switch("lookup_rows.c", "(PyFunctionObject *)weakly_referenced(row->reference);\n    return", "function: alive",
           instead="(PyFunctionObject *)weakly_referenced(row->reference);\n"
                   "    if (function == NULL) {\n        return passes({0}, false);\n    }\n    return"),
    Switch("lookup_rows.c", "if (count != row->default_count) {", "function: how many defaults",
           instead="if (count != row->default_count) {\n" + _COUNTS_DIFFER),
    Switch("lookup_rows.c", "![[value_passes(&row->defaults[i], PyTuple_GET_ITEM(defaults, i))]]",
           *_of_kinds("function: a default", 2), by="row->defaults[i].kind"),
    Switch("lookup_rows.c", "if (count != row->keyword_count) {", "function: how many keyword defaults",
           instead="if (count != row->keyword_count) {\n" + _COUNTS_DIFFER),
    Switch("lookup_rows.c", "![[value_passes(check, find_value(defaults, check))]]",
           *_of_kinds("function: a keyword default", 2), by="check->kind"),
    Switch("frame_hook.c", "![[entry->valid]] ||", "entry: valid"),
    Switch("frame_hook.c", "![[guard_walk_passes(entry->walk)]]", "entry: walk"),
    Switch("frame_hook.c", "return [[answer == Py_True]] ? HIT : MISS;", "entry: check"),
    Switch("frame_hook.c", "return MISS;\n    }\n    put_exception_back(raised);", "entry: a check that raises",
           instead="return passes({0}, false) ? HIT : MISS;\n    }\n    put_exception_back(raised);"),
)  # fmt: skip

NUMBERS = {site: number for number, site in enumerate(site for switch in SWITCHES for site in switch.sites)}
"""Of each site: its number."""


def load(folder: Path) -> Any:
    """Build the extension with switches in this folder and import it under its usual name; what `ctypes` knows of it."""
    assert MODULE not in sys.modules, "the extension is loaded already"
    path = _build(folder)
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[MODULE] = module
    return ctypes.CDLL(str(path))


def break_site(library: Any, site: str) -> None:
    """From now on this question is answered yes in this process."""
    ctypes.c_int.in_dll(library, "broken_site").value = NUMBERS[site]


def sites_that_said_no(library: Any) -> Iterator[str]:
    """The sites whose answer was no since this was asked last."""
    flags = (ctypes.c_ubyte * len(NUMBERS)).in_dll(library, "said_no")
    for site, number in NUMBERS.items():
        if flags[number]:
            flags[number] = 0
            yield site


def _build(folder: Path) -> Path:
    texts = {path.name: path.read_text() for path in (*NATIVE.glob("*.c"), *NATIVE.glob("*.h"))}
    for switch in SWITCHES:
        texts[switch.file] = switch.put_into(texts[switch.file], NUMBERS[switch.sites[0]])
    texts["passes.h"] = HEADER
    texts["passes.c"] = f"int broken_site = -1;\nunsigned char said_no[{len(NUMBERS)}];\n"
    for name, text in texts.items():
        (folder / name).write_text(text)
    path = folder / f"_frame_hook{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    include = ["-I", sysconfig.get_paths()["include"], "-include", str(folder / "passes.h")]
    options = ["-std=c11", "-O1", "-w", "-shared", "-fPIC"]
    subprocess.run([*compiler, *options, *include, *map(str, sorted(folder.glob("*.c"))), "-o", str(path)], check=True)
    return path
