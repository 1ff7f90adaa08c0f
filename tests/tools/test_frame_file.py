"""tools/frame_file.py: a file that is damaged or newer gives one sentence."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from dynexplore.engine.errors import ReplayError
from dynexplore.tools.frame_file import FORMAT, read_frame, unpacked_tensors, write_frame


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "one.frame"
    base = torch.arange(6.0)
    write_frame(path, {"name": "f\n"}, {"0": base, "1": base[2:]})
    return path


@pytest.mark.plain("reads and writes files; nothing is captured")
def test_there_and_back(file: Path) -> None:
    """What was written is read, and tensors share what they shared."""
    data, packed = read_frame(file)
    tensors = unpacked_tensors(packed, file)
    assert data == {"name": "f\n"} and tensors["1"].tolist() == [2, 3, 4, 5]
    assert tensors["1"].untyped_storage().data_ptr() == tensors["0"].untyped_storage().data_ptr()


@pytest.mark.plain("reads and writes files; nothing is captured")
def test_every_kind_of_damage(file: Path) -> None:
    """A changed or missing byte anywhere is one sentence, never a traceback from inside."""
    content = file.read_bytes()
    rng = random.Random(0)
    for place in [0, 20, len(content) - 1, *(rng.randrange(len(content)) for _ in range(200))]:
        changed = bytearray(content)
        changed[place] ^= 1 + rng.randrange(255)
        for damaged in (bytes(changed), content[:place]):
            file.write_bytes(damaged)
            with pytest.raises(ReplayError) as raised:
                read_frame(file)
            assert len(str(raised.value).splitlines()) == 1


@pytest.mark.plain("reads and writes files; nothing is captured")
def test_a_newer_format(file: Path) -> None:
    """It is said to be newer, not damaged."""
    file.write_bytes(file.read_bytes().replace(b"frame %d" % FORMAT, b"frame %d" % (FORMAT + 1), 1))
    with pytest.raises(ReplayError, match=r"was saved by a newer dynexplore: it has format 2, and this one reads up to 1$"):
        read_frame(file)


@pytest.mark.plain("reads and writes files; nothing is captured")
def test_what_is_no_file_of_ours(tmp_path: Path) -> None:
    """Not there, a folder, another file."""
    with pytest.raises(ReplayError, match="cannot be read: No such file"):
        read_frame(tmp_path / "nothing")
    with pytest.raises(ReplayError, match="cannot be read: Is a directory"):
        read_frame(tmp_path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ReplayError, match="is not a frame saved by dynexplore"):
        read_frame(tmp_path / "text")


@pytest.mark.plain("reads and writes files; nothing is captured")
def test_tensors_run_no_code(file: Path) -> None:
    """Anything but tensors where tensors should be is refused."""
    import pickle

    class Evil:
        def __reduce__(self) -> object:
            return print, ("evil",)

    with pytest.raises(ReplayError, match="the tensors in .* cannot be loaded"):
        unpacked_tensors(pickle.dumps(Evil(), protocol=2), file)
