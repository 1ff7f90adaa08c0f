"""Importability: what another process can import by name, and what must be sent to it.

The idea: a function of an installed module can be identified by its name; a function of a script, a notebook cell or another
function has no name that is valid elsewhere. In between are modules of the program that are on the path: they are imported too, but
their globals may have changed since.

In: a module, function, class or other object. Out: where it can be imported from, or nothing.

PyTorch's counterpart: the `intern` and `extern` rules of `PackageExporter` in torch/package/package_exporter.py.
"""

from __future__ import annotations

import functools
import importlib.machinery
import sys
import sysconfig
import types
from typing import Any

import torch

OWN = __name__.partition(".")[0]
_SEARCHED = ("builtins", "operator", "math", "torch", "torch.nn.functional", "torch._C", "torch._C._nn")
"""Modules to search for C functions without a `__module__`."""


def import_name(value: Any) -> tuple[str, str] | None:
    """Module and qualified name under which another process can import this object; the name is "" for a module.

    >>> import_name(torch), import_name(torch.add), import_name(torch.nn.Linear)
    (('torch', ''), ('torch', 'add'), ('torch.nn.modules.linear', 'Linear'))
    >>> import_name(lambda: 0)
    """
    if isinstance(value, types.ModuleType):
        return (value.__name__, "") if can_import(value.__name__) and sys.modules[value.__name__] is value else None
    if isinstance(value, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return "torch", f"ops.{value}"
    names = [name for name in (getattr(value, "__name__", None), getattr(value, "__qualname__", None)) if isinstance(name, str)]
    own = getattr(value, "__module__", None)
    for module in (own, *_SEARCHED) if isinstance(own, str) else _SEARCHED:
        for name in names:
            if "<" not in name and can_import(module) and _attribute(module, name) is value:
                return module, name
    if not names:
        return None
    return next((("types", name) for name, candidate in vars(types).items() if candidate is value), None)


def singleton_name(value: Any) -> tuple[str, str] | None:
    """The same for an object that is a global of its class's installed module, as sentinels are."""
    module = type(value).__module__
    if not is_installed(module):
        return None
    for name, candidate in vars(sys.modules[module]).items():
        if candidate is value:
            return module, name
    return None


def _attribute(module: str, name: str) -> Any:
    value: Any = sys.modules[module]
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def can_import(module: str) -> bool:
    """Whether another process with the same path finds this module by its name."""
    return is_installed(module) or (module in sys.modules and module != "__main__" and _lies_on_path(module))


def is_installed(module: str) -> bool:
    """Whether it belongs to Python, to an installed package or to dynexplore, so that a fresh import is equal to it."""
    loaded = sys.modules.get(module)
    if loaded is None or module == "__main__":
        return False
    if module.partition(".")[0] in (OWN, "torch", *sys.builtin_module_names):
        return True
    file = getattr(loaded, "__file__", None)
    if file is None:
        return getattr(getattr(loaded, "__spec__", None), "origin", None) in ("built-in", "frozen")
    return str(file).startswith(_installed_folders())


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({f"{sysconfig.get_path(name)}/" for name in names})


def _lies_on_path(module: str) -> bool:
    parent, _, last = module.rpartition(".")
    if parent and not (parent in sys.modules and can_import(parent)):
        return False
    path = list(sys.modules[parent].__path__) if parent else None
    spec = importlib.machinery.PathFinder.find_spec(module if parent else last, path)
    origin = getattr(sys.modules[module], "__file__", None)
    return spec is not None and spec.origin is not None and spec.origin == origin
