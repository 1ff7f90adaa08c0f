"""The packages that the core does without: who needs one says what for, and a person who lacks it reads one sentence.

Which idea lives here: `pip install dynexplore` brings torch and nothing else, which is enough for the engine, for everything that
is printed and for the explorer in an HTML file. What draws, colours and lives in a notebook comes with an extra. So those packages
are imported where they are used and not at the head of a file, and the message of a missing one names the extra.

In:  the name of a package, and what it is for.
Out: the module, or `MissingPackage`.

PyTorch's counterpart: torch/_dynamo/utils.py imports numpy and others under `try`, each in its own way.
"""

from __future__ import annotations

import importlib
from typing import Any


class MissingPackage(ModuleNotFoundError):
    """A package that belongs to an extra is not installed; the message says which extra brings it."""


def needed(module: str, purpose: str, extra: str = "notebook") -> Any:
    """Import a module of a package that an extra brings. `purpose` begins the sentence for people who do not have it.

    >>> needed("json", "Reading").loads("[1]")
    [1]
    >>> needed("no_such_package", "Drawing a graph")
    Traceback (most recent call last):
        ...
    dynexplore.views.packages.MissingPackage: Drawing a graph needs the package no_such_package: pip install 'dynexplore[notebook]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise
        sentence = f"{purpose} needs the package {package}: pip install 'dynexplore[{extra}]'"
        raise MissingPackage(sentence, name=package) from None
