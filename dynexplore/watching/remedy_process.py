"""A program that `dynexplore try` or `fix` runs in a separate process: a bounded number of compiled calls, and a report of them.

The idea: two runs are compared by the results of their compiled calls, by the inputs after each call, by parameters and gradients
at the end, and by their output. So the random seed is fixed, each tensor is reduced to a few numbers, and the program ends after a
number of calls. A remedy affects only how torch compiles; the program sees the same environment.

In: the command line `SCRIPT REPORT CALLS [ARGS ...]`. Out: the file REPORT, JSON: the recording, results, state, error.

PyTorch's counterpart: none; torch/_dynamo/repro/after_dynamo.py runs programs that it generated itself.
"""

from __future__ import annotations

import functools
import json
import os
import random
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dynexplore.engine.runtime import numpy_state
from dynexplore.engine.runtime.function_environment import Surroundings
from dynexplore.session import torch_compiled
from dynexplore.watching.watch import watch


class _EnoughCalls(BaseException):
    """The program has made the maximum number of compiled calls."""


class Results:
    """The results of compiled calls, as rows of numbers and texts; how many calls began, and the first exception of one."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.rows: list[list[Any]] = []
        self.attempts, self.raised = 0, ""
        self._depth = 0
        self._modules: dict[int, torch.nn.Module] = {}
        self._functions: dict[int, Any] = {}
        self._latest: list[Any] = []

    def around(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a compiled function to record its results; a call nested in another compiled call is part of that call."""

        @functools.wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return compiled(*args, **kwargs)
            if self.attempts >= self.most:
                raise _EnoughCalls
            self._depth += 1
            self.attempts += 1
            try:
                result = compiled(*args, **kwargs)
            except Exception as error:  # the program may catch it
                self.raised = self.raised or type(error).__name__
                raise
            finally:
                self._depth -= 1
            self.rows.append(_numbers((result, args, kwargs)))
            self._functions[id(compiled)] = compiled
            self._modules |= {id(leaf): leaf for leaf in args if isinstance(leaf, torch.nn.Module)}
            self._latest = torch.utils._pytree.tree_leaves((args, kwargs))
            return result

        return call

    def state(self) -> list[Any]:
        """The parameters and buffers of the compiled modules at the end, and the gradients of these and of the latest inputs; and
        the tensors, arrays and integers that the compiled functions can reach otherwise.
        """
        tensors = [leaf for module in self._modules.values() for leaf in (*module.parameters(), *module.buffers())]
        leaves = [leaf for leaf in self._latest if isinstance(leaf, torch.Tensor) and leaf.is_leaf]
        surroundings = [Surroundings(torch_compiled.original_of(function)) for function in self._functions.values()]
        reached = [[*around.tensors(), *around.arrays(), *around.counts().items()] for around in surroundings]
        return _numbers([tensors, [leaf.grad for leaf in (*tensors, *leaves)], reached])


def _numbers(value: Any) -> list[Any]:
    """A result as a few numbers: for tensors shape, sum, sum of magnitudes, and a sum that depends on the order."""
    rows: list[Any] = []
    for part in torch.utils._pytree.tree_leaves(value):
        leaf = part
        if numpy_state.is_array(part):
            leaf = numpy_state.as_tensor(part)
            leaf = str(part) if leaf is None else leaf
        if isinstance(leaf, torch.Tensor) and not leaf.is_sparse and leaf.layout is torch.strided:
            plain = leaf.detach().to("cpu", torch.complex128 if leaf.is_complex() else torch.float64)
            order = torch.linspace(0.5, 1.5, plain.numel(), dtype=plain.dtype).reshape(plain.shape)
            rows.append([list(leaf.shape), float(plain.abs().sum()), float(plain.real.sum()), float((plain * order).real.sum())])
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
    branches = Branches()
    with watch(steps=False) as seen:
        try:
            runpy.run_path(script, run_name="__main__")
        except (_EnoughCalls, SystemExit):
            pass
        except BaseException as raised:  # any exception of the program goes into the report
            error = f"{type(raised).__name__}: {raised}"
    recording = seen.recording.to_plain(times=False)
    seen_calls = {"results": results.rows, "attempts": results.attempts, "raised": results.raised, "state": results.state()}
    words_of_it = {"recording": recording, **seen_calls, "error": error, "differing_branches": branches.differing}
    Path(report).write_text(json.dumps(words_of_it), encoding="utf-8")


class Branches:
    """In a run without torch.compile: counts calls of torch.where whose branches differ in shape or dtype, as those of `if` may."""

    def __init__(self) -> None:
        self.differing = 0
        if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
            self._where = torch.where
            torch.where = self._checked

    def _checked(self, *args: Any, **kwargs: Any) -> Any:
        result = self._where(*args, **kwargs)
        if len(args) == 3:
            _, *values = args
            shapes = [tuple(value.shape) if isinstance(value, torch.Tensor) else () for value in values]
            dtypes = [value.dtype if isinstance(value, torch.Tensor) else type(value) for value in values]
            same_dtype = dtypes[0] == dtypes[1]
            self.differing += shapes != [tuple(result.shape)] * 2 or not same_dtype
        return result


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
