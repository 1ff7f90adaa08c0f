"""Follows one finished graph from the code generator to its callable, and counts how often a reader has to change the file.

The idea: code is easy to follow if its steps stand where one looks for them. So a small program is captured, and each function of
the engine that is given the graph (the finished graph, its module, or the candidate for a backend) is noted when it is first
called: a reader reads it once. A row of a table is read with its table, so lambdas do not count. A change of file is a function in
another file than the one before. The same is done for a frame on its way through convert, by rooms (folders): functions that are
given the conversion, its request or its translation. A room is entered when another room calls into it; to return to the caller is
no visit. If one is entered twice, the reader is sent back to where she has been.

In:  nothing; `--backend` names the backend (aot_eager). Out: the functions in order, and the counts.

    python scripts/follow_graph.py
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import dynexplore
from dynexplore.engine.aliasing.eligibility import Candidate
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.runtime.convert import Conversion
from dynexplore.engine.translate.codegen import CodeGenerator
from dynexplore.engine.translate.contract.request import Translation, TranslationRequest

ENGINE = Path(dynexplore.__file__).parent / "engine"
Visit = tuple[str, str]
"""A file of the engine, and a function in it."""


def program(x: torch.Tensor, state: torch.Tensor, w: torch.Tensor) -> Any:
    """A gradient, a mutation of an input, and a view of it that is returned."""
    y = x.sin() * 2
    state.add_(1)
    return y @ w, state[:2]


class Follower:
    """Notes the functions that are given one of some kinds of objects, each once, while `noted` runs."""

    def __init__(self, kinds: tuple[type[Any], ...]) -> None:
        self.kinds = kinds
        self.visits: dict[Visit, None] = {}
        self.entered: list[str] = []  # the rooms, each time that a function of another room calls into them

    def noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose calls are followed."""

        def run(*args: Any, **kwargs: Any) -> Any:
            before = sys.getprofile()
            sys.setprofile(self._note)
            try:
                return function(*args, **kwargs)
            finally:
                sys.setprofile(before)

        return run

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or "<" in code.co_name or not code.co_filename.startswith(str(ENGINE)):
            return
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(issubclass(type(frame.f_locals.get(name)), self.kinds) for name in parameters):  # a dead proxy has no `__class__`
            visit = str(Path(code.co_filename).relative_to(ENGINE)), code.co_qualname
            if visit not in self.visits and _room(visit[0]) != self._room_of_caller(frame.f_back):
                self.entered.append(_room(visit[0]))
            self.visits.setdefault(visit)

    def _room_of_caller(self, frame: FrameType | None) -> str:
        """The room of the innermost function on the stack that was noted."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(str(ENGINE)):
                visit = str(Path(file).relative_to(ENGINE)), frame.f_code.co_qualname
                if visit in self.visits:
                    return _room(visit[0])
            frame = frame.f_back
        return ""


def _room(file: str) -> str:
    return file.partition("/")[0]


def changes(stays: list[str]) -> int:
    """How often a stay is not the one before it.

    >>> changes(["a", "a", "b", "a"])
    2
    """
    return sum(left != right for left, right in itertools.pairwise(stays))


def follow(backend: str) -> tuple[Follower, Follower]:
    """The visits of the graph, and those of the frame."""
    graph = Follower((FinishedGraph, torch.fx.GraphModule, Candidate))
    frame = Follower((Conversion, TranslationRequest, Translation))
    inputs = torch.ones(3, requires_grad=True), torch.ones(3), torch.ones(3, requires_grad=True)
    for follower, owner, name in ((graph, CodeGenerator, "_compiled"), (frame, Conversion, "act_on")):
        original = getattr(owner, name)
        setattr(owner, name, follower.noted(original))
        try:
            dynexplore.reset()
            dynexplore.optimize(backend)(program)(*inputs)
        finally:
            setattr(owner, name, original)
    return graph, frame


def lines(visits: list[Visit]) -> Iterator[str]:
    """The visits, each file once as long as one stays in it."""
    last = ""
    for file, function in visits:
        yield f"{'' if file == last else file:<40} {function}"
        last = file


def main() -> None:
    """Print what was followed, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="aot_eager")
    graph, frame = follow(parser.parse_args().backend)
    print(*lines(list(graph.visits)), sep="\n")
    files = [file for file, _ in graph.visits]
    print(f"\nthe graph: {len(files)} functions, {changes(files)} changes of file, {len(set(files))} files")
    rooms = frame.entered
    twice = len(rooms) - len(set(rooms))
    print(f"the frame: {len(frame.visits)} functions; rooms entered: {' '.join(rooms)}; {twice} entered twice")


if __name__ == "__main__":
    main()
