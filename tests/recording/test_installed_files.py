"""A path says whether a file was installed."""

import contextlib

import pytest
import torch

from dynexplore.recording.installed_files import is_installed


@pytest.mark.plain("looks at a path alone")
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (torch.__file__, True),
        (contextlib.__file__, True),
        (r"C:\Python312\Scripts\dynexplore.exe", True),
        ("/home/me/.venv/bin/torchrun", True),
        ("/home/me/bin/train", False),
        ("In [2]", False),
        (__file__, False),
    ],
)
def test_installed_files_are_told_by_their_path(file: str, expected: bool) -> None:
    """Libraries, the standard library and launchers are installed; scripts and cells are a person's own."""
    assert is_installed(file) is expected
