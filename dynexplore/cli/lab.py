"""`dynexplore lab`: JupyterLab on copies of the tutorials, whose saved drawings are visible before a cell is run.

Which idea lives here: JupyterLab saves a notebook as it runs, so people work on copies, and no file of the project changes. A copy
that nobody has changed follows its tutorial when that changes; a changed one is never overwritten. JupyterLab shows an untrusted
notebook as bare words, and trusts one whose signature is in its database. So the project's own tutorials are signed here, as
`jupyter trust` does it: copies that are, byte for byte, what the last commit of the checkout or the installed package contains.

In:  the options that are handed on to JupyterLab.
Out: `open_lab(options)`, which becomes JupyterLab.

PyTorch has no counterpart.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import dynexplore
from dynexplore.cli.program import Mistake

CHECKOUT = Path(__file__).resolve().parent.parent.parent
"""The folder with notebooks/, where dynexplore runs from a checkout."""


COPIES = "dynexplore-tutorials"
"""The folder of the copies: in the checkout, or in the current folder where the package is installed."""

ORIGINALS = ".originals.json"
"""The file beside the copies that contains the hash of each tutorial when it was copied."""


def open_lab(options: Sequence[str]) -> NoReturn:
    """Become JupyterLab on a copy of the first tutorial."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise Mistake("JupyterLab is not installed: pip install 'dynexplore[lab]'")
    source = CHECKOUT / "notebooks"
    is_checkout = source.is_dir()
    tutorials = sorted(source.glob("*.ipynb")) if is_checkout else _packaged()
    folder = _copied(tutorials, (CHECKOUT if is_checkout else Path.cwd()) / COPIES)
    try:
        _sign(_as_original(folder, _as_committed(source) if is_checkout else tutorials))
    except _NotSigned as error:
        print(f"dynexplore: the drawings of a tutorial are words until its cells are run, for {error}", file=sys.stderr)
    root, first = folder.parent, folder / tutorials[0].name
    # the address that is printed leads there, too, for whoever opens it by hand on another machine
    address = f"/lab/tree/{folder.name}/{first.name}"
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}", f"--LabApp.default_url={address}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # Jupyter refuses to run as root otherwise
    os.chdir(root)
    sys.stdout.flush()
    os.execv(sys.executable, [*command, *options])  # in its place: Ctrl-C and every other signal are JupyterLab's own


# -- which notebooks are the project's own -----------------------------------------------------------------------------


def _packaged() -> list[Path]:
    return sorted((Path(dynexplore.__file__).parent / "tutorials").glob("*.ipynb"))


def _copied(tutorials: Sequence[Path], folder: Path) -> Path:
    """Copy tutorials to a folder; a copy that somebody has changed stays as it is."""
    try:
        folder.mkdir(exist_ok=True)
        record = folder / ORIGINALS
        hashes: dict[str, str] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
        for tutorial in tutorials:
            copy = folder / tutorial.name
            if not copy.exists() or _git_hash(copy.read_bytes()) == hashes.get(copy.name):
                shutil.copyfile(tutorial, copy)
                hashes[copy.name] = _git_hash(copy.read_bytes())
        record.write_text(json.dumps(hashes), encoding="utf-8")
    except OSError as error:
        raise Mistake(f"the tutorials cannot be copied to {folder}: {error.strerror}") from None
    print(f"the tutorials are in {folder}")
    return folder


def _as_original(folder: Path, tutorials: Sequence[Path]) -> list[Path]:
    """The copies that nobody has changed."""
    return [folder / tutorial.name for tutorial in tutorials if (folder / tutorial.name).read_bytes() == tutorial.read_bytes()]


def _as_committed(folder: Path) -> list[Path]:
    """The notebooks that are what git has of them in the last commit."""
    try:
        listing = subprocess.run(["git", "ls-tree", "-z", "HEAD"], cwd=folder, capture_output=True, text=True)
    except OSError:
        raise _NotSigned("there is no git, which knows the project's own") from None
    if listing.returncode:
        raise _NotSigned("git knows nothing of this folder")
    lines = (line.partition("\t") for line in listing.stdout.split("\0"))
    committed = {name: about.split()[-1] for about, _, name in lines if name}
    return [path for path in sorted(folder.glob("*.ipynb")) if committed.get(path.name) == _git_hash(path.read_bytes())]


def _git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


# -- signatures --------------------------------------------------------------------------------------------------------


class _NotSigned(Exception):
    """Why the tutorials have no signature, as the end of a sentence."""


def _sign(notebooks: Sequence[Path]) -> None:
    """Put the signatures of notebooks into the database of this user's Jupyter, whose packages came with JupyterLab."""
    nbformat, sign, paths = map(importlib.import_module, ("nbformat", "nbformat.sign", "jupyter_core.paths"))
    data = Path(paths.jupyter_data_dir())
    try:
        data.mkdir(parents=True, exist_ok=True)
        notary = sign.NotebookNotary(data_dir=str(data))
        for notebook in notebooks:
            notary.sign(nbformat.read(notebook, as_version=4))
        is_stored = notary.store.db_file != ":memory:"  # where it goes when the file is of no use
        notary.store.close()
    except (OSError, sqlite3.Error) as error:
        raise _NotSigned(f"{data} cannot keep their signatures: {error}") from None
    if not is_stored:
        raise _NotSigned(f"{data} cannot keep their signatures")
