"""One integer for "nothing was written to this dictionary": each way of writing changes it, and nothing else does."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import pytest

from dynexplore.engine.native import dict_version

pytestmark = pytest.mark.plain("asks the C extension about dictionaries, and captures nothing")


def stores(table: dict[str, Any]) -> None:
    table["a"] = 2


def adds(table: dict[str, Any]) -> None:
    table["new"] = 1


def deletes(table: dict[str, Any]) -> None:
    del table["a"]


def merges(table: dict[str, Any]) -> None:
    table |= {"a": 3}


WRITES = (
    stores, adds, deletes, merges, lambda table: table.update(a=5), lambda table: table.update({"a": 6}),
    lambda table: table.pop("a"), lambda table: table.popitem(), lambda table: table.clear(),
    lambda table: table.setdefault("x", 1),
    lambda table: dict.__init__(table, a=7), lambda table: exec("a = 8", table), lambda table: exec("del a", {}, table),
)  # fmt: skip
READS = (
    len, list, lambda table: table.get("a"), lambda table: table.items(), copy.copy, lambda table: {**table}, repr,
    lambda table: table.setdefault("a", 9), lambda table: "b" in table,
)  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("make", [dict, OrderedDict])
def test_each_way_of_writing_gives_another_number(write: Any, make: Any) -> None:
    """After a write the number is another one, each time, in a loop long enough for the interpreter to specialize it."""
    for _ in range(40):
        table = make(a=1, b=2)
        versions = {dict_version(table)}
        write(table)
        versions.add(dict_version(table))
        table["a"] = 0
        table["c"] = 1
        versions.add(dict_version(table))
        assert len(versions) == 3 and 0 not in versions


@pytest.mark.parametrize("read", READS)
def test_reading_leaves_the_number(read: Any) -> None:
    """Nothing but a write changes it."""
    table = {"a": 1, "b": 2}
    before = dict_version(table)
    for _ in range(40):
        read(table)
    assert dict_version(table) == before != 0


def test_no_two_dictionaries_share_a_number() -> None:
    """Equal dictionaries, and one in the memory of another, have numbers of their own."""
    numbers = [dict_version({"a": 1}) for _ in range(1000)]
    assert len({*numbers}) == 1000


class Holder:
    """An object whose attributes the interpreter may store beside its dictionary."""


def stores_attribute(holder: Holder) -> None:
    holder.a = 1


def adds_attribute(holder: Holder) -> None:
    holder.new = 1


def deletes_attribute(holder: Holder) -> None:
    del holder.a


ATTRIBUTE_WRITES = (
    stores_attribute, adds_attribute, deletes_attribute, lambda holder: setattr(holder, "a", 5),
    lambda holder: object.__setattr__(holder, "a", 6), lambda holder: delattr(holder, "a"), lambda holder: vars(holder).update(a=4),
)  # fmt: skip


@pytest.mark.parametrize("write", ATTRIBUTE_WRITES)
def test_stores_of_attributes_are_seen_or_there_is_no_number(write: Any) -> None:
    """The dictionary of an object: a store past it is seen, or the number is 0, which nobody relies on."""
    for _ in range(100):
        holder = Holder()
        holder.a, holder.b = 0, 1
        table = vars(holder)
        before = dict_version(table)
        write(holder)
        assert dict_version(table) != before or before == 0


def test_globals_have_numbers_too() -> None:
    """STORE_GLOBAL and DELETE_GLOBAL are writes."""
    namespace: dict[str, Any] = {}
    exec("def store():\n global a\n a = 1\ndef delete():\n global a\n del a", namespace)
    for _ in range(40):
        for write in (namespace["store"], namespace["delete"]):
            before = dict_version(namespace)
            write()
            assert dict_version(namespace) != before


def test_where_no_watcher_is_left_there_are_no_numbers() -> None:
    """Watchers used up by others: on a Python that needs one all numbers are 0, and guards still hold."""
    code = (
        "import ctypes, torch\n"
        "add = getattr(ctypes.pythonapi, 'PyDict_AddWatcher', None)\n"
        "call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: 0)\n"
        "try:\n"
        "    while add: add(call)\n"
        "except RuntimeError as error: print(error)\n"
        "import dynexplore\n"
        "from dynexplore.engine.native import dict_version\n"
        "from dynexplore.engine.bytecode import FACTS\n"
        "assert (dict_version({}) == 0) == (FACTS.version >= (3, 14))\n"
        "table = {'scale': 2}\n"
        "f = dynexplore.optimize('eager')(lambda x: x * table['scale'])\n"
        "results = [f(torch.ones(1)).item()]\n"
        "table['scale'] = 5\n"
        "print([*results, f(torch.ones(1)).item()])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[2.0, 5.0]"
