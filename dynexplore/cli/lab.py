"""`dynexplore lab`: JupyterLab on the tutorials, whose saved drawings are seen before a cell is run.

Which idea lives here: JupyterLab shows what it does not trust as bare words, and it trusts a notebook that was run on this machine,
or whose signature is in its database. The project's own tutorials are signed here, as `jupyter trust` does it: those that are, byte
for byte, what the last commit of the checkout or the installed package has. A notebook that somebody has changed or put beside them
is theirs, and stays as it is.

In:  the options that are handed on to JupyterLab.
Out: `open_lab(options)`, which becomes JupyterLab.

PyTorch has no counterpart.
"""

from __future__ import annotations

import hashlib
import importlib.util
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


def open_lab(options: Sequence[str]) -> NoReturn:
    """Become JupyterLab on the first tutorial: that of the checkout, or a copy of the one that came with the package."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise Mistake("JupyterLab is not installed: pip install 'dynexplore[lab]'")
    folder = CHECKOUT / "notebooks"
    try:
        if folder.is_dir():
            _sign(_as_committed(folder))
        else:
            folder = _copied_tutorials(Path.cwd() / "dynexplore-tutorials")
            _sign(_as_packaged(folder))
    except _NotSigned as error:
        print(f"dynexplore: the drawings of a tutorial are words until its cells are run, for {error}", file=sys.stderr)
    root, first = folder.parent, sorted(folder.glob("*.ipynb"))[0]
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


def _copied_tutorials(folder: Path) -> Path:
    """Put the tutorials of the installed package where they can be edited; those that are there already stay as they are."""
    try:
        folder.mkdir(exist_ok=True)
        for notebook in _packaged():
            if not (folder / notebook.name).exists():
                shutil.copy(notebook, folder)
    except OSError as error:
        raise Mistake(f"the tutorials cannot be copied to {folder}: {error.strerror}") from None
    print(f"the tutorials are in {folder}")
    return folder


def _as_packaged(folder: Path) -> list[Path]:
    """The copies that nobody has changed."""
    return [folder / notebook.name for notebook in _packaged() if (folder / notebook.name).read_bytes() == notebook.read_bytes()]


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
