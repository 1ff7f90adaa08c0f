"""views/packages.py: packages that extras bring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynexplore.views.packages import MissingPackage, needed


def test_what_is_there_is_imported() -> None:
    """A package that is installed is the module itself."""
    assert needed("json", "Reading") is json


def test_what_is_missing_says_what_for_and_which_extra() -> None:
    """The sentence names the purpose, the package and the extra; it is an ImportError that knows the name."""
    with pytest.raises(MissingPackage, match=r"^Drawing needs the package no_such: pip install 'dynexplore\[bench\]'$") as caught:
        needed("no_such.part", "Drawing", "bench")
    assert caught.value.name == "no_such"


def test_what_a_package_itself_lacks_is_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is there and cannot be imported is not called missing."""
    (tmp_path / "half_there.py").write_text("import its_own_need_that_is_missing")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        needed("half_there", "Drawing")
    assert not isinstance(caught.value, MissingPackage)
