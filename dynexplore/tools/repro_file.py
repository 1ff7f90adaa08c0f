"""A self-contained program that runs one graph under one backend, and fails as it did.

The idea: a reproducer must run on its own: the graph as the source of a module, its inputs as shapes and a seed or, if the failure
depends on their content, as packed bytes; the backend by name, by import, or as its source.

In: a graph, inputs, a backend. Out: the text of `repro.py`; it exits with status 1 and prints how it fails.

PyTorch's counterpart: `NNModuleToString` and `InputWriter` in torch/_dynamo/debug_utils.py.
"""

from __future__ import annotations

import base64
import io
import re
import sys
import textwrap
import types
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.fx

from dynexplore.engine.runtime.backends import function_and_options, inductor_settings, own_backends, resolve
from dynexplore.tools.standalone_source import NoSource, is_plain, source_of

_HEAD = '''"""{title}

Run it: python repro.py. It exits with status 1 as long as the bug exists.
"""

import base64
import io
import sys
import zlib

import torch
from torch import device, inf, nan
{imports}{options}

def unpacked(text):
    """The tensor packed into the text."""
    return torch.load(io.BytesIO(zlib.decompress(base64.b85decode(text))), weights_only=True)


def put(module, path, value):
    """Set an attribute that may lie in a module in a module."""
    *outer, name = path.split(".")
    for part in outer:
        if not hasattr(module, part):
            setattr(module, part, torch.nn.Module())
        module = getattr(module, part)
    setattr(module, name, value)


class Repro(torch.nn.Module):
    def __init__(self):
        super().__init__()
{attributes}

{forward}

def repro_inputs():
    torch.manual_seed(0)
    return [
{inputs}
    ]


{backend}

def repro_run(function):
    """Outputs, inputs afterwards, and gradients."""
    given = repro_inputs()
    torch.manual_seed(0)
    outputs = function(*given)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    sources = [one for one in outputs if isinstance(one, torch.Tensor) and one.requires_grad and one.grad_fn is not None]
    if sources:
        torch.autograd.backward(sources, [torch.full_like(one, 0.5 + index) for index, one in enumerate(sources)])
    return outputs + given + [one.grad for one in given if isinstance(one, torch.Tensor) and one.is_leaf]


if __name__ == "__main__":
    expected = repro_run(Repro())
    actual = repro_run(backend(torch.fx.symbolic_trace(Repro()), repro_inputs()))
    for number, (wanted, got) in enumerate(zip(expected, actual)):
        if isinstance(wanted, torch.Tensor) and wanted.numel():
            try:
                torch.testing.assert_close(got, wanted, rtol={tolerance}, atol={tolerance}, equal_nan=True)
            except AssertionError as error:
                sys.exit(f"result {{number}} differs: {{error}}")
    print("It no longer fails.")
'''


class ReproFile:
    """The contents of the file."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        inputs: Sequence[Any],
        *,
        backend: Any,
        after: str,
        failure: str,
        tolerance: float | None = None,
    ) -> None:
        self.graph, self.inputs = graph, list(inputs)
        self.backend, self.after, self.failure = backend, after, failure
        self.tolerance = 1e-4 if tolerance is None else tolerance

    def random_inputs(self) -> list[Any]:
        """The inputs that the file creates from shapes and a seed."""
        torch.manual_seed(0)
        return [_random_like(graph_input) if isinstance(graph_input, torch.Tensor) else graph_input for graph_input in self.inputs]

    def text(self, *, exact_inputs: bool) -> str:
        """The program. `exact_inputs`: with the content of the inputs, not only their shapes."""
        describe = _exact if exact_inputs else _random
        return _HEAD.format(
            title=f"A graph that {self.failure}.".replace('"""', "'''"),
            imports="".join(f"{line}\n" for line in self._imports()),
            attributes=textwrap.indent("\n".join(self._attributes()) or "pass", " " * 8),
            forward=textwrap.indent(self.graph.code.strip("\n"), "    "),
            inputs="\n".join(f"        {describe(graph_input)}," for graph_input in self.inputs),
            backend=_backend_text(self.backend, self.after),
            options=_options(),
            tolerance=self.tolerance,
        )

    def _imports(self) -> Iterator[str]:
        """The imports that the generated code of the graph needs."""
        named = self.graph.graph.python_code("self").globals
        for name, value in named.items():
            if name in ("torch", "device", "inf", "nan") or not re.search(rf"\b{name}\b", self.graph.code):
                continue
            if isinstance(value, types.ModuleType):
                yield f"import {value.__name__} as {name}"
            elif getattr(value, "__module__", None) and "." not in getattr(value, "__qualname__", "."):
                yield f"from {value.__module__} import {value.__qualname__} as {name}"

    def _attributes(self) -> Iterator[str]:
        targets = {str(node.target) for node in self.graph.graph.nodes if node.op in ("get_attr", "call_module")}
        for target in sorted(targets):
            value: Any = self.graph
            for part in target.split("."):
                value = getattr(value, part)
            if isinstance(value, torch.Tensor):
                yield f"put(self, {target!r}, {_exact(value)})"
            else:
                yield f"put(self, {target!r}, torch.nn.{value!r})"


def _random_like(value: torch.Tensor) -> torch.Tensor:
    """The value that the line from `_random` creates."""
    tensor: torch.Tensor = eval(_random(value), {"torch": torch})
    return tensor


def _random(value: Any) -> str:
    """An expression for an input of that shape, dtype and device."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    shape, kind = tuple(value.shape), f"dtype={value.dtype}, device={str(value.device)!r}"
    if value.is_floating_point() or value.is_complex():
        expression = f"torch.randn({shape}, {kind})"
    elif value.dtype is torch.bool:
        expression = f"torch.rand({shape}).gt(0.5)"
    else:
        low, high = (int(value.min()), int(value.max())) if value.numel() else (0, 0)
        expression = f"torch.randint({low}, {high + 1}, {shape}, {kind})"
    if not value.is_contiguous():
        expression = f"torch.empty_strided({shape}, {tuple(value.stride())}, {kind}).copy_({expression})"
    return f"{expression}.requires_grad_()" if value.requires_grad else expression


def _exact(value: Any) -> str:
    """An expression for exactly this input."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    packed = io.BytesIO()
    torch.save(value.detach().contiguous() if not value.is_contiguous() else value.detach().clone(), packed)
    text = base64.b85encode(zlib.compress(packed.getvalue(), 9)).decode()
    expression = f"unpacked({text!r})"
    return f"{expression}.requires_grad_()" if value.requires_grad else expression


# -- the backend ----------------------------------------------------------------------------------------------------


def can_stand_alone(backend: Any) -> bool:
    """Whether another process can get this backend: by name, by import, or by its source."""
    try:
        _backend_source(backend, "dynamo")
    except NoSource:
        return False
    return True


def _backend_text(backend: Any, after: str) -> str:
    try:
        return _backend_source(backend, after)
    except NoSource as error:
        return f'raise SystemExit("put the backend here; its source cannot be copied: " {str(error)!r})\n'


def _backend_source(backend: Any, after: str) -> str:
    backend = own_backends().get(backend, backend) if isinstance(backend, str) and backend != "eager" else backend
    settings = inductor_settings(backend)
    if settings is not None and not is_plain(settings):
        raise NoSource("a setting of Inductor is an object")
    if settings is not None and after == "aot":
        return (
            "def backend(graph, inputs):\n"
            "    import torch._inductor.config\n"
            "    from torch._inductor.compile_fx import compile_fx_inner\n"
            "    from torch.fx.experimental.proxy_tensor import make_fx\n\n"
            f"    with torch._inductor.config.patch({settings!r}):\n"
            "        compiled = compile_fx_inner(make_fx(graph, tracing_mode='fake')(*inputs), inputs)\n"
            "    return lambda *given: compiled(list(given))\n"
        )
    if settings:
        return (
            "def backend(graph, inputs):\n"
            "    from torch._inductor.compile_fx import compile_fx\n\n"
            f"    return compile_fx(graph, inputs, config_patches={settings!r})\n"
        )
    if isinstance(backend, str):
        return (
            "def backend(graph, inputs):\n"
            "    from torch._dynamo.backends.registry import lookup_backend\n\n"
            f"    return lookup_backend({backend!r})(graph, inputs)\n"
        )
    function, options = function_and_options(backend)
    if options:
        return _backend_with(function, options)
    text = source_of(backend, "backend")
    return text if resolve(backend).takes_inputs else f"{text}\n\ncompiled_by = backend\n\n\n{_ONE_ARGUMENT}"


def _backend_with(function: Any, options: dict[str, Any]) -> str:
    """The source of a backend that is called with options."""
    if not is_plain(options):
        raise NoSource("an option of the backend is an object")
    text = source_of(function, "compiled_by")
    return f"{text}\n\ndef backend(graph, inputs):\n    return compiled_by(graph, inputs, **{options!r})\n"


_ONE_ARGUMENT = "def backend(graph, inputs):\n    return compiled_by(graph)\n"


def _options() -> str:
    """Non-default options of torch's compilers, and the one that makes Inductor draw random numbers as eager does."""
    lines = []
    for name in ("torch._inductor.config", "torch._functorch.config"):
        options: Any = sys.modules.get(name)
        changed = {key: value for key, value in _changed(options).items() if _is_literal(value)} if options is not None else {}
        if name == "torch._inductor.config" and "torch._inductor.compile_fx" in sys.modules:
            changed["fallback_random"] = True
        lines += [f"import {name}"] * bool(changed)
        lines += [f"{name}.{key} = {value!r}" for key, value in sorted(changed.items())]
    return "".join(f"{line}\n" for line in lines)


def _changed(options: Any) -> dict[str, Any]:
    """The options with a non-default value."""
    now = options.get_config_copy()
    return {key: value for key, value in now.items() if not options._is_default(key)}


def _is_literal(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)
