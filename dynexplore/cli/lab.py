"""`dynexplore lab`: JupyterLab on copies of the tutorials, whose saved outputs are visible before a cell is run.

The idea: JupyterLab saves notebooks, so users work on copies, and no file of the project changes. An unmodified copy is updated
when its tutorial changes; a modified one is never overwritten. JupyterLab shows an untrusted notebook without its HTML outputs, and
trusts one whose signature is in its database. So the project's own tutorials are signed here, as `jupyter trust` does: only copies
that are byte for byte what the last commit of the checkout or the installed package contains.

In: the options that are passed on to JupyterLab.
Out: `open_lab(options)`, which replaces this process by JupyterLab.

PyTorch's counterpart: none.
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
"""The folder with notebooks/, if dynexplore runs from a checkout."""


COPIES = "dynexplore-tutorials"
"""The folder of the copies: in the checkout, or in the current folder if the package is installed."""

ORIGINALS = ".originals.json"
"""The file next to the copies that contains the hash of each tutorial when it was copied."""


def open_lab(options: Sequence[str]) -> NoReturn:
    """Replace this process by JupyterLab, on a copy of the first tutorial."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise Mistake("JupyterLab is not installed: pip install 'dynexplore[lab]'")
    source = CHECKOUT / "notebooks"
    is_checkout = source.is_dir()
    tutorials = sorted(source.glob("*.ipynb")) if is_checkout else _packaged()
    folder = _copied(tutorials, (CHECKOUT if is_checkout else Path.cwd()) / COPIES)
    try:
        _sign(_as_original(folder, _as_committed(source) if is_checkout else tutorials))
    except _NotSigned as error:
        print(f"dynexplore: until you run its cells, a tutorial shows text instead of drawings: {error}", file=sys.stderr)
    root, first = folder.parent, folder / tutorials[0].name
    # the printed URL opens it, too, for users who open it by hand on another machine
    address = f"/lab/tree/{folder.name}/{first.name}"
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}", f"--LabApp.default_url={address}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # Jupyter refuses to run as root otherwise
    os.chdir(root)
    sys.stdout.flush()
    os.execv(sys.executable, [*command, *options])  # replaces this process: Ctrl-C and every other signal go to JupyterLab


# -- which notebooks are unmodified ------------------------------------------------------------------------------------


def _packaged() -> list[Path]:
    return sorted((Path(dynexplore.__file__).parent / "tutorials").glob("*.ipynb"))


def _copied(tutorials: Sequence[Path], folder: Path) -> Path:
    """Copy tutorials to a folder; a copy that the user has modified is not overwritten."""
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
    """The unmodified copies."""
    return [folder / tutorial.name for tutorial in tutorials if (folder / tutorial.name).read_bytes() == tutorial.read_bytes()]


def _as_committed(folder: Path) -> list[Path]:
    """The notebooks that are equal to git's last commit."""
    try:
        listing = subprocess.run(["git", "ls-tree", "-z", "HEAD"], cwd=folder, capture_output=True, text=True)
    except OSError:
        raise _NotSigned("git is not installed, so unmodified tutorials cannot be identified") from None
    if listing.returncode:
        raise _NotSigned("this folder is not in a git repository")
    lines = (line.partition("\t") for line in listing.stdout.split("\0"))
    committed = {name: about.split()[-1] for about, _, name in lines if name}
    return [path for path in sorted(folder.glob("*.ipynb")) if committed.get(path.name) == _git_hash(path.read_bytes())]


def _git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


# -- signatures --------------------------------------------------------------------------------------------------------


class _NotSigned(Exception):
    """The reason why the tutorials are not signed, as the end of a sentence."""


def _sign(notebooks: Sequence[Path]) -> None:
    """Add the signatures of notebooks to the database of this user's Jupyter, whose packages came with JupyterLab."""
    nbformat, sign, paths = map(importlib.import_module, ("nbformat", "nbformat.sign", "jupyter_core.paths"))
    data = Path(paths.jupyter_data_dir())
    try:
        data.mkdir(parents=True, exist_ok=True)
        notary = sign.NotebookNotary(data_dir=str(data))
        for notebook in notebooks:
            notary.sign(nbformat.read(notebook, as_version=4))
        is_stored = notary.store.db_file != ":memory:"  # the fallback if the database file is unusable
        notary.store.close()
    except (OSError, sqlite3.Error) as error:
        raise _NotSigned(f"{data} cannot store the signatures of notebooks: {error}") from None
    if not is_stored:
        raise _NotSigned(f"{data} cannot store the signatures of notebooks")
