"""What a run does outside of its copies is told: files, programs, names of others; what it prints is kept."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynexplore.session.effects import watched

pytestmark = pytest.mark.plain("watches Python itself")


@pytest.mark.parametrize(
    ("act", "does"),
    [
        (lambda path: path.write_text("x"), "writes {}"),
        (lambda path: path.open("ab").close(), "writes {}"),
        (lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)), "writes {}"),
        (lambda path: path.mkdir(), "makes the folder {}"),
        (lambda path: os.environ.__setitem__("DYNX_EFFECT", "1"), "sets the environment variable DYNX_EFFECT"),
    ],
)
def test_what_is_changed_outside_is_told(act: Callable[[Path], Any], does: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A file that is written, a folder that is made, an environment variable: one sentence each, once."""
    monkeypatch.setenv("DYNX_EFFECT", "0")
    monkeypatch.chdir(tmp_path)
    with watched({}) as effects:
        act(pathlib.Path("f"))
    assert effects.outside == [does.format("PosixPath('f')")] or effects.outside == [does.format("f")]


def test_a_program_that_is_started_is_told() -> None:
    """The program is named."""
    with watched({}) as effects:
        subprocess.run([sys.executable, "-c", ""], check=True)
    assert any(one.startswith("starts ") for one in effects.outside)


def test_reading_and_printing_are_no_effects(tmp_path: Path) -> None:
    """A file that is read is none; what is printed is kept, and does not appear."""
    (tmp_path / "f").write_text("x")
    with watched({}) as effects:
        print((tmp_path / "f").read_text())
    assert effects.outside == [] and effects.printed == "x\n" and effects.seconds > 0


def test_names_that_are_bound_anew_are_told() -> None:
    """A name of the namespace that is bound, bound anew or deleted; an object that is changed is another matter."""
    namespace: dict[str, Any] = {"same": [1], "other": 1, "gone": 1}
    with watched(namespace) as effects:
        namespace["same"].append(2)
        namespace.update(other=2, new=3)
        del namespace["gone"]
    assert sorted(effects.outside) == [f"binds `{name}` outside its own namespace" for name in ("gone", "new", "other")]


def test_other_threads_are_their_own(tmp_path: Path) -> None:
    """What another thread does meanwhile is not told, and outside of the block nothing is."""
    with watched({}) as effects:
        thread = threading.Thread(target=lambda: (tmp_path / "f").write_text("x"))
        thread.start()
        thread.join()
    (tmp_path / "g").write_text("x")
    assert effects.outside == []
