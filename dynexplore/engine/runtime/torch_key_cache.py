"""Cache of Inductor's `torch_key`: the hash of torch's sources that its FX graph cache needs in each process.

The idea: Inductor's caches are keyed by the torch version, so each process that uses them first reads and hashes all of torch's
two thousand Python files: a tenth of the first call of a process with warm caches. The hash is stored in a file in the same
folder, together with the state of those files: name, size and modification times. That is more than Python itself checks before it
runs a module from its `__pycache__`. If one of them differs, torch hashes again. Torch has an interface for a known hash
(`torch_key.set`), which its own compile workers use.

In: torch's files, and the file that an earlier process wrote. Out: `keep_hash_of_sources()`, called before Inductor compiles its
first graph. PyTorch's counterpart: `torch_key` in torch/_inductor/codecache.py, and torch/_inductor/compile_worker/__main__.py.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from dynexplore.engine.torch_versions import is_tested

_CODECACHE = "torch._inductor.codecache"

_HASHED_WHOLE = "_inductor"  # torch hashes its packages' modules, and in this folder also files of other kinds
_NOT_HASHED = frozenset({"__pycache__"})

_STABLE_SECONDS = 2.0
"""Seconds after which a second modification with the same timestamp and size can be ruled out."""


@functools.cache
def keep_hash_of_sources() -> None:
    """Set torch's source hash from the cache file of an earlier process, else compute it now and store it; once."""
    codecache = importlib.import_module(_CODECACHE)
    settings = importlib.import_module("torch._inductor.config")
    if _asks_for_hash(settings) and is_tested(torch.__version__) and _is_torchs_own(codecache.torch_key):
        folder = importlib.import_module("torch._inductor.runtime.cache_dir_utils").cache_dir()
        load_or_compute_hash(codecache.torch_key, Path(torch.__file__).parent, Path(folder) / "dynexplore" / "torch_sources.json")


def _asks_for_hash(settings: Any) -> bool:
    return settings.fx_graph_cache and not settings.force_disable_caches and not settings.is_fbcode()


def _is_torchs_own(torch_key: Any) -> bool:
    """Whether this is torch's function, and not a device package's replacement, which hashes other files."""
    cell_values = [cell.cell_contents for cell in torch_key.__closure__ or ()]
    return hasattr(torch_key, "set") and any(getattr(value, "__module__", None) == _CODECACHE for value in cell_values)


def load_or_compute_hash(torch_key: Any, sources: Path, file: Path) -> None:
    """Set the hash of `torch_key` from `file` if the sources are unchanged, else compute it and write the file."""
    state, changed = state_of(sources)
    cached = _read(file)
    if cached.get("state") == state:
        with contextlib.suppress(RuntimeError, AssertionError):  # this process has the hash already
            torch_key.set(bytes.fromhex(cached["hash"]))
        return
    answer: bytes = torch_key()
    if time.time() - changed > _STABLE_SECONDS:
        _write(file, {"state": state, "hash": answer.hex()})


# -- the state of the files ----------------------------------------------------------------------------------------------


def state_of(sources: Path) -> tuple[str, float]:
    """A hash of the names, sizes and times of the files, and the time of the last change."""
    state, last_change = hashlib.sha256(torch.__version__.encode()), 0
    for entry in _files(str(sources), whole=False):
        facts = entry.stat()
        state.update(f"{entry.path}\0{facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}\n".encode())
        last_change = max(last_change, facts.st_mtime_ns, facts.st_ctime_ns)
    return state.hexdigest(), last_change / 1e9


def _files(folder: str, whole: bool) -> Iterator[os.DirEntry[str]]:
    """The files of a package and of the packages in it; all files if `whole`."""
    with os.scandir(folder) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    if not whole and not any(entry.name.startswith("__init__.") for entry in entries):
        return
    for entry in entries:
        if not entry.is_dir():
            yield entry
        elif entry.name not in _NOT_HASHED:
            yield from _files(entry.path, whole or entry.name == _HASHED_WHOLE)


# -- the file --------------------------------------------------------------------------------------------------------------


def _read(file: Path) -> dict[str, str]:
    try:
        cached = json.loads(file.read_text())
    except (OSError, ValueError):  # no file yet, or not in this format
        return {}
    is_ours = isinstance(cached, dict) and _is_hash(cached.get("state")) and _is_hash(cached.get("hash"))
    return cached if is_ours else {}


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")


def _write(file: Path, answer: dict[str, str]) -> None:
    with contextlib.suppress(OSError):  # a read-only folder: each process computes it
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(f".{os.getpid()}")  # another process may read at any moment
        fresh.write_text(json.dumps(answer))
        fresh.replace(file)
