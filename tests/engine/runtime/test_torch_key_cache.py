"""engine/runtime/torch_key_cache.py: the hash of torch's sources is kept, holds for files as they are, and is torch's own."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch._inductor.codecache
import torch._inductor.config
from torch._inductor.codecache import torch_key

from dynexplore.engine.runtime import backends, torch_key_cache
from dynexplore.engine.runtime.torch_key_cache import keep_hash_of_sources, load_or_compute_hash, state_of

pytestmark = pytest.mark.plain("nothing is captured")

A_HASH = bytes(range(32))


class Hasher:
    """Stands for torch_key: counts how often it had to hash."""

    def __init__(self) -> None:
        self.asked, self.told = 0, b""

    def __call__(self) -> bytes:
        self.asked += 1
        return A_HASH

    def set(self, value: bytes) -> None:
        """As torch's own: only once."""
        assert not self.told
        self.told = value


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A package with a package and a folder of other files, all changed long ago."""
    root = tmp_path / "torch"
    for name in ("__init__.py", "a.py", "nn/__init__.py", "nn/b.py", "_inductor/__init__.py", "_inductor/cpp/c.cpp", "include/d.h"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these tests write just now counts as settled."""
    monkeypatch.setattr(torch_key_cache, "_STABLE_SECONDS", -1.0)


def test_the_second_process_hashes_nothing(sources: Path, tmp_path: Path) -> None:
    """The first one hashes and leaves the answer, the second one is told."""
    first, second, file = Hasher(), Hasher(), tmp_path / "kept" / "torch_sources.json"
    load_or_compute_hash(first, sources, file)
    load_or_compute_hash(second, sources, file)
    assert (first.asked, second.asked, second.told) == (1, 0, A_HASH)
    assert [one.name for one in file.parent.iterdir()] == ["torch_sources.json"]


def _grow(root: Path) -> None:
    (root / "nn" / "b.py").write_text("longer than before")


def _same_size(root: Path) -> None:
    """Of the same size, with the old time of change put back."""
    file = root / "a.py"
    before = file.stat()
    time.sleep(0.02)  # a tick of the file system's clock
    file.write_text("x" * before.st_size)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def _added(root: Path) -> None:
    (root / "nn" / "new.py").write_text("")


def _removed(root: Path) -> None:
    (root / "a.py").unlink()


def _renamed(root: Path) -> None:
    (root / "a.py").rename(root / "e.py")


def _another_kind(root: Path) -> None:
    (root / "_inductor" / "cpp" / "c.cpp").write_text("")


@pytest.mark.parametrize("change", [_grow, _same_size, _added, _removed, _renamed, _another_kind])
def test_a_change_of_the_sources_is_noticed(sources: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    """Whatever torch hashes may have changed: it hashes again, and the new answer is kept."""
    file = tmp_path / "kept.json"
    load_or_compute_hash(Hasher(), sources, file)
    change(sources)
    again, third = Hasher(), Hasher()
    load_or_compute_hash(again, sources, file)
    load_or_compute_hash(third, sources, file)
    assert (again.asked, again.told, third.asked) == (1, b"", 0)


def test_what_torch_does_not_hash_does_not_matter(sources: Path) -> None:
    """Headers in a folder that is no package, and what Python keeps of modules."""
    before = state_of(sources)[0]
    (sources / "include" / "d.h").write_text("")
    (sources / "__pycache__").mkdir()
    (sources / "__pycache__" / "a.pyc").write_text("")
    assert state_of(sources)[0] == before


def test_files_that_changed_just_now_are_not_relied_on(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another change in the same moment could not be told from the first: nothing is kept."""
    monkeypatch.setattr(torch_key_cache, "_STABLE_SECONDS", 60.0)
    load_or_compute_hash(Hasher(), sources, tmp_path / "kept.json")
    assert not (tmp_path / "kept.json").exists()


@pytest.mark.parametrize("damage", ["", "[1]", '{"state": "STATE", "hash": "12"}', '{"state": "STATE"}'])
def test_a_damaged_file_is_as_good_as_none(sources: Path, tmp_path: Path, damage: str) -> None:
    """What is no hash is not taken for one; the file is written anew."""
    file = tmp_path / "kept.json"
    file.write_text(damage.replace("STATE", state_of(sources)[0]))
    hasher = Hasher()
    load_or_compute_hash(hasher, sources, file)
    assert hasher.asked == 1
    assert json.loads(file.read_text())["hash"] == A_HASH.hex()


def test_a_folder_that_cannot_be_written_is_no_error(sources: Path, tmp_path: Path) -> None:
    """Then each process hashes."""
    (tmp_path / "file").write_text("")
    hasher = Hasher()
    load_or_compute_hash(hasher, sources, tmp_path / "file" / "kept.json")
    assert hasher.asked == 1


def test_all_that_torch_hashes_is_asked_for_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file that torch's own function opens is among those whose state is kept."""
    opened: list[str] = []

    def noted(path: Any, *args: Any, **kwargs: Any) -> Any:
        opened.append(os.fspath(path))
        return open(path, *args, **kwargs)

    monkeypatch.setattr(torch._inductor.codecache, "open", noted, raising=False)
    held = [cell.cell_contents for cell in torch_key.__closure__]
    next(value for value in held if getattr(value, "__name__", "") == "torch_key")()
    seen = {entry.path for entry in torch_key_cache._files(os.path.dirname(torch.__file__), whole=False)}
    assert len(opened) > 1000
    assert set(opened) <= seen


def test_a_function_that_a_package_put_in_its_place_is_left_alone() -> None:
    """It hashes other files than torch's."""
    assert torch_key_cache._is_torchs_own(torch_key)
    assert not torch_key_cache._is_torchs_own(torch._inductor.codecache.torch_key_cache(lambda: A_HASH))
    assert not torch_key_cache._is_torchs_own(Hasher.__call__)


def test_the_key_is_torchs_own(tmp_path: Path) -> None:
    """What a process of ours leaves is what torch computes itself."""
    file = tmp_path / "kept.json"
    load_or_compute_hash(torch_key, Path(torch.__file__).parent, file)
    assert json.loads(file.read_text())["hash"] == torch_key().hex()


@pytest.fixture
def fresh_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An empty cache folder, and nothing known of torch's sources; how often they are hashed."""
    hashed, own = [], torch._inductor.codecache.build_code_hash
    monkeypatch.setattr(torch._inductor.codecache, "build_code_hash", lambda *args: hashed.append(1) or own(*args))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    _forget()
    yield hashed
    _forget()


def _forget() -> None:
    keep_hash_of_sources.cache_clear()
    torch_key.clear()


@pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")  # torch's own, on import
def test_inductor_is_told_before_it_is_asked_for_a_graph(fresh_process: list[int]) -> None:
    """The first process hashes, the second one does not, and both have the same key."""
    keys, hashed = [], []
    for _ in range(2):
        _forget()
        fresh_process.clear()
        backends._import_at_rest(backends.resolve("inductor"))
        keys.append(torch_key())
        hashed.append(bool(fresh_process))
    assert hashed == [True, False]
    assert keys[0] == keys[1]


@pytest.mark.parametrize(("name", "value"), [("force_disable_caches", True), ("fx_graph_cache", False)])
def test_without_caches_nobody_asks(fresh_process: list[int], name: str, value: bool) -> None:
    """Then it would be computed for nothing."""
    with torch._inductor.config.patch({name: value}):
        keep_hash_of_sources()
    assert not fresh_process
