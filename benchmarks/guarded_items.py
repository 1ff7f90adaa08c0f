"""Time a warm call with guards on 400 values of one kind, next to torch.compile.

    python -m dynexplore bench guarded_items [--quick] [--hosts globals cells] [--values float] [--count 400]

A host is the place of the values: items of a dict or list, attributes of an instance, a class or submodules, globals, or cells.
A function reads each value once. Its graph is replaced by its first result, so a warm call consists of the frame hook, the
guards and the modified code. Times are CPU time, the minimum over the repeats, with the engines taking turns.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from support.measuring import best, compilers, forget, geomean
from support.report import Row, show_measured, with_repeats

Named = dict[str, Any]


def first_result_only(graph: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
    """A backend that runs its graph in the first call, and then gives that result again."""
    kept: list[Any] = []

    def run(*args: Any) -> Any:
        if not kept:
            kept.append(graph.forward(*args))
        return kept[0]

    return run


# -- what the values are, and the line that uses one


def one_more(number: float) -> float:
    """What each of the functions does."""
    return number + 1.0


def floats(count: int) -> list[Any]:
    """Numbers that differ."""
    return [float(number) for number in range(count)]


def functions(count: int) -> list[Any]:
    """Functions that share their code, and not their identity."""
    return [type(one_more)(one_more.__code__, globals()) for _ in range(count)]


def tensors(count: int) -> list[Any]:
    """Small tensors."""
    return [torch.ones(4) for _ in range(count)]


VALUES: dict[str, tuple[Callable[[int], list[Any]], str]] = {
    "float": (floats, "s = s + {}"),
    "function": (functions, "s = {}(s)"),
    "tensor": (tensors, "x = x + {}"),
}


# -- where they stand: for each host how a value is read, and the host made of the values by their names


class Instance:
    """Values as attributes of an object."""

    def __init__(self, named: Named) -> None:
        vars(self).update(named)


class Kid(torch.nn.Module):
    """A submodule with values of its own."""

    def __init__(self, named: Named) -> None:
        super().__init__()
        for name, value in named.items():
            setattr(self, name, value)


class Parent(torch.nn.Module):
    """A module over submodules with four values each; what stands at `v7` is read as `m1.v7`."""

    def __init__(self, named: Named) -> None:
        super().__init__()
        names = list(named)
        for place in range(0, len(names), 4):
            self.add_module(f"m{place // 4}", Kid({name: named[name] for name in names[place : place + 4]}))


def with_slots(named: Named) -> Any:
    """An object whose class names its attributes in `__slots__`."""
    slotted = type("Slotted", (), {"__slots__": tuple(named)})()
    for name, value in named.items():
        setattr(slotted, name, value)
    return slotted


def as_class(named: Named) -> Any:
    """A class with the values as attributes."""
    return type("Holder", (), dict(named))


def nothing(named: Named) -> None:
    """No host: the values are names of their own."""


HOSTS: dict[str, tuple[str, Callable[[Named], Any]]] = {
    "dict, argument": ('host["v{0}"]', dict),
    "dict, 10,000 more": ('host["v{0}"]', lambda named: {**named, **dict.fromkeys(map(str, range(10_000)))}),
    "dict, global": ('HOST["v{0}"]', dict),
    "dict of numbers": ("host[{0}]", lambda named: dict(enumerate(named.values()))),
    "list, argument": ("host[{0}]", lambda named: list(named.values())),
    "tuple, argument": ("host[{0}]", lambda named: tuple(named.values())),
    "list, global": ("HOST[{0}]", lambda named: list(named.values())),
    "instance, argument": ("host.v{0}", Instance),
    "instance, global": ("HOST.v{0}", Instance),
    "slots, argument": ("host.v{0}", with_slots),
    "class": ("HOST.v{0}", as_class),
    "globals": ("v{0}", nothing),
    "cells": ("v{0}", nothing),
    "submodules": ("HOST.m{1}.v{0}", Parent),
}


def program(host: str, value: str, count: int) -> tuple[Callable[..., Any], Any]:
    """A function that reads each of so many values, and the host at which they stand; it takes a tensor and the host."""
    make_values, use = VALUES[value]
    read, make_host = HOSTS[host]
    named = {f"v{place}": item for place, item in enumerate(make_values(count))}
    made = make_host(named)
    lines = [use.format(read.format(place, place // 4)) for place in range(count)]
    body = "".join(f"        {line}\n" for line in lines)
    cells = named if host == "cells" else {}
    names: Named = {"HOST": made, **(named if host == "globals" else {})}
    read_all = f"    def read(x, host):\n        s = 0.0\n{body}        return x + s\n"
    exec(f"def around({', '.join(cells)}):\n{read_all}    return read\n", names)
    return names["around"](**cells), made


# -- measuring


def measure(host: str, value: str, options: argparse.Namespace) -> Row:
    """Warm calls with one value and with many."""
    row: Row = {"host": host, "values": value}
    warm = {count: _warm(host, value, count, options.repeats) for count in (1, options.count)}
    for name in ("dynexplore", "torch.compile"):
        one, many = (warm[count][name] for count in (1, options.count))
        row |= {f"{name} us": many * 1e6, f"{name} ns an item": (many - one) / (options.count - 1) * 1e9}
    row["ratio"] = row["dynexplore us"] / row["torch.compile us"]
    return row


def _warm(host: str, value: str, count: int, repeats: int) -> dict[str, float]:
    forget()
    function, made = program(host, value, count)
    engines = {name: wrap for name, wrap in compilers(first_result_only).items() if name != "eager"}
    calls = {name: functools.partial(wrap(function), torch.ones(4), made) for name, wrap in engines.items()}
    with torch.no_grad():
        for call in calls.values():
            call(), call()
        return best(calls, repeats, 0.01)


def main() -> int:
    """Measure each host with each kind of value."""
    options = _options()
    return show_measured("Guarded items", lambda: _measured(options), options.json)


def _measured(options: argparse.Namespace) -> list[Row]:
    torch._dynamo.config.cache_size_limit = 64
    rows = [measure(host, value, options) for value in options.values for host in options.hosts]
    return [*rows, {"host": "all", "ratio": geomean(row["ratio"] for row in rows)}]


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", nargs="*", choices=HOSTS, default=list(HOSTS), help="only these")
    parser.add_argument("--values", nargs="*", choices=VALUES, default=list(VALUES), help="only these")
    parser.add_argument("--count", type=int, default=400, help="how many values")
    return with_repeats(parser, arguments, 3, 7)


if __name__ == "__main__":
    sys.exit(main())
