"""A program that `dynexplore try` runs in a separate process: a bounded number of compiled calls, their results, a recording.

The idea: two runs are compared by the results of their compiled calls and by their output. So the random seed is fixed, each result
is reduced to a few numbers, and the program ends after a number of calls. A remedy affects only how torch compiles; the program
sees the same environment.

In: the command line `SCRIPT REPORT CALLS [ARGS ...]`. Out: the file REPORT, JSON: the recording, results, error.

PyTorch's counterpart: none; torch/_dynamo/repro/after_dynamo.py runs programs that it generated itself.
"""

from __future__ import annotations

import functools
import json
import random
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dynexplore.watching.watch import watch


class _EnoughCalls(BaseException):
    """The program has made the maximum number of compiled calls."""


class Results:
    """The results of compiled calls, as rows of numbers and texts."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.rows: list[list[Any]] = []
        self._depth = 0

    def around(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a compiled function to record its results; a call nested in another compiled call is part of that call."""

        @functools.wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return compiled(*args, **kwargs)
            if len(self.rows) >= self.most:
                raise _EnoughCalls
            self._depth += 1
            try:
                result = compiled(*args, **kwargs)
            finally:
                self._depth -= 1
            self.rows.append(_numbers(result))
            return result

        return call


def _numbers(value: Any) -> list[Any]:
    """A result as a few numbers: for tensors shape, sum and sum of magnitudes."""
    rows: list[Any] = []
    for leaf in torch.utils._pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and not leaf.is_sparse and leaf.layout is torch.strided:
            plain = leaf.detach().to("cpu", torch.complex128 if leaf.is_complex() else torch.float64)
            rows.append([list(leaf.shape), float(plain.abs().sum()), float(plain.real.sum())])
        elif isinstance(leaf, bool | int | float | str):
            rows.append(leaf)
        else:
            rows.append(type(leaf).__qualname__)
    return rows


def main(words: list[str]) -> None:
    """Run the program, and write the report however it ends."""
    script, report, calls, *args = words
    sys.argv = [script, *args]
    sys.path[0] = str(Path(script).resolve().parent)
    random.seed(0)
    torch.manual_seed(0)
    results, error = Results(int(calls)), ""
    _note_results(results)
    with watch(steps=False) as seen:
        try:
            runpy.run_path(script, run_name="__main__")
        except (_EnoughCalls, SystemExit):
            pass
        except BaseException as raised:  # any exception of the program goes into the report
            error = f"{type(raised).__name__}: {raised}"
    recording = seen.recording.to_plain(times=False)
    Path(report).write_text(json.dumps({"recording": recording, "results": results.rows, "error": error}), encoding="utf-8")


def _note_results(results: Results) -> None:
    """Patch torch.compile so that everything it compiles records its results."""
    original = torch.compile

    @functools.wraps(original)
    def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        if model is None:
            return lambda function: compile(function, *args, **kwargs)
        compiled = original(model, *args, **kwargs)
        return compiled if isinstance(compiled, torch.nn.Module) else results.around(compiled)

    torch.compile = compile
    wrapped = torch._dynamo.eval_frame.OptimizedModule
    wrapped.__call__ = results.around(wrapped.__call__)  # type: ignore[method-assign]


if __name__ == "__main__":
    main(sys.argv[1:])
