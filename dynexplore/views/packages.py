"""Optional dependencies: imports of packages from extras, with an error message that names the extra.

The idea: `pip install dynexplore` installs only torch as a dependency, which is enough for the engine, for all printed output
and for the explorer in an HTML file. Packages for drawing, syntax highlighting and notebooks come with an extra. So they are
imported where they are used and not at the top of a file, and the error message for a missing one names the extra.

In: the name of a package, and its purpose. Out: the module, or `MissingPackage`. PyTorch's counterpart: torch/_dynamo/utils.py
imports numpy and others under `try`, each with its own fallback.
"""

from __future__ import annotations

import importlib
from typing import Any


class MissingPackage(ModuleNotFoundError):
    """A package of an extra is not installed; the message names the extra."""


def needed(module: str, purpose: str, extra: str = "notebook") -> Any:
    """Import a module of an optional package. `purpose` begins the error message if it is not installed.

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
