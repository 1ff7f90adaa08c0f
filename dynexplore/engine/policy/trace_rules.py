"""Which files are traced: one table of folders and files, each with how its code is handled, and why.

The idea: whether a code object is traced depends first on its file. User code is (any file that no row names, including packages
in site-packages); the standard library and the internals of torch mostly are not. Each rule answers two questions:

- `frame`: a frame of that file starts inside an optimized region. "translate"; "plain" (it runs as plain Python, and its callees
  are considered in turn); "alone" (it and everything that it calls run as plain Python).
- `call`: a traced function calls a function of that file. "inline", "graph" (the call is one node of the graph), "skip" (the graph
  breaks there).

In: the file name of a code object. Out: its `Rule`, cached per file. PyTorch's counterpart: `check_file` and the lists around it
in torch/_dynamo/trace_rules.py.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Iterator
from typing import Literal

import torch

from dynexplore.engine.records import record

FrameAnswer = Literal["translate", "plain", "alone"]
CallAnswer = Literal["inline", "graph", "skip"]


@record()
class Rule:
    """How code of a file is handled, and why; `library` names its owner ("" for user code)."""

    frame: FrameAnswer
    call: CallAnswer
    why: str
    library: str = ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


USER = Rule("translate", "inline", "user code")

# -- torch: paths below its package; the longest matching path wins --------------------------------------------

_TORCH_DEFAULT = Rule("plain", "skip", "an internal part of torch without tensor operations of its own", "torch")
_TRANSLATED = Rule("translate", "inline", "torch code that consists of torch operators", "torch")
_INLINED = Rule("plain", "inline", "a thin wrapper in torch around user code", "torch")
_ONE_NODE = Rule("plain", "graph", "one operator of the graph", "torch")
_COMPILER = Rule("alone", "skip", "a compiler, tracer or dispatcher of torch itself", "torch")
_MACHINERY = Rule("alone", "skip", "torch internals that do no tensor work", "torch")

_TORCH: dict[str, Rule] = {
    # the building blocks of user programs
    "nn/": _TRANSLATED,
    "nn/attention/__init__.py": _INLINED,  # sdpa_kernel entered by hand: switches for each kernel, no tensor
    "nn/functional.py": _ONE_NODE,
    "nn/grad.py": _ONE_NODE,
    "nn/init.py": _INLINED,
    "nn/parameter.py": _INLINED,
    "nn/modules/module.py": _INLINED,  # Module._call_impl is never an entry frame
    "nn/modules/lazy.py": _MACHINERY,
    "nn/parallel/": _TORCH_DEFAULT,
    "nn/parallel/distributed.py": _INLINED,
    "distributions/": _TRANSLATED,
    "optim/": _TRANSLATED,
    "optim/lbfgs.py": Rule("plain", "skip", "its steps depend on the data; it calls the closure, which is captured", "torch"),
    "optim/lr_scheduler.py": _TORCH_DEFAULT,
    "optim/optimizer.py": _INLINED,  # hooks and profiling around optimizer steps
    "functional.py": _ONE_NODE,
    "_lowrank.py": _ONE_NODE,
    "_linalg_utils.py": _ONE_NODE,
    "signal/": _ONE_NODE,
    "masked/": _ONE_NODE,
    "sparse/": _ONE_NODE,
    "_refs/": _INLINED,
    "_decomp/": _INLINED,
    "_prims_common/": _INLINED,
    # thin layers around user code
    "_tensor.py": _INLINED,
    "_ops.py": _INLINED,
    "_utils.py": _INLINED,
    "_jit_internal.py": _INLINED,
    "_vmap_internals.py": _INLINED,
    "overrides.py": _INLINED,
    "random.py": _INLINED,
    "return_types.py": _INLINED,
    "amp/": _INLINED,
    "ao/nn/": _TRANSLATED,
    "autograd/function.py": _INLINED,
    "autograd/grad_mode.py": _INLINED,
    "autograd/forward_ad.py": _INLINED,
    "autograd/functional.py": _INLINED,
    "backends/": _INLINED,
    "compiler/__init__.py": _INLINED,
    "cuda/amp/": _INLINED,
    "func/": _INLINED,
    "_functorch/apis.py": _INLINED,
    "_functorch/functional_call.py": _INLINED,
    "_functorch/eager_transforms.py": Rule("alone", "inline", "the Python part of torch.func.grad and its like", "torch"),
    "_functorch/vmap.py": Rule("alone", "inline", "the Python part of torch.vmap", "torch"),
    "_library/custom_ops.py": _INLINED,
    "utils/_contextlib.py": _INLINED,
    "utils/_cxx_pytree.py": _INLINED,
    "utils/_device.py": _INLINED,
    "utils/_foreach_utils.py": _INLINED,
    "utils/_ordered_set.py": _INLINED,
    "utils/_python_dispatch.py": _INLINED,
    "utils/_pytree.py": _INLINED,
    "utils/checkpoint.py": _INLINED,
    "utils/hooks.py": _INLINED,
    "testing/": _INLINED,
    # wrappers between a region and user code, which must not hide the user code
    "_compile.py": _TORCH_DEFAULT,
    "_dynamo/external_utils.py": _INLINED,
    "_dynamo/_trace_wrapped_higher_order_op.py": _INLINED,  # the mode under which attention masks index tensors
    "utils/data/": _TORCH_DEFAULT,
    "autograd/": _TORCH_DEFAULT,
    # compilers, tracers and dispatchers: no user code in them
    "_dynamo/": _COMPILER,
    "_inductor/": _COMPILER,
    "_functorch/": _COMPILER,
    "_subclasses/": _COMPILER,
    "_higher_order_ops/associative_scan.py": _INLINED,  # its generic form is plain Python around a user's function
    "_higher_order_ops/invoke_subgraph.py": _INLINED,  # the wrapper that nested_compile_region puts around a user's function
    "_higher_order_ops/map.py": _INLINED,
    "_higher_order_ops/scan.py": _INLINED,
    "_higher_order_ops/while_loop.py": _INLINED,
    "_higher_order_ops/": _COMPILER,
    "_export/": _COMPILER,
    "_lazy/": _COMPILER,
    "_guards.py": _COMPILER,
    "_meta_registrations.py": _COMPILER,
    "_prims/": _COMPILER,
    "_dispatch/": _COMPILER,
    "_library/": _COMPILER,
    "export/": _COMPILER,
    "fx/": _COMPILER,
    "jit/": _COMPILER,
    "onnx/": _COMPILER,
    # machinery
    "_logging/": _MACHINERY,
    "_tensor_str.py": _MACHINERY,
    "hub.py": _MACHINERY,
    "multiprocessing/": _MACHINERY,
    "package/": _MACHINERY,
    "profiler/": _MACHINERY,
    "serialization.py": _MACHINERY,
    "storage.py": _MACHINERY,
    "utils/benchmark/": _MACHINERY,
    "utils/cpp_extension.py": _MACHINERY,
    "utils/tensorboard/": _MACHINERY,
}

# -- the standard library: module -> how a call is handled; a module that is not named is skipped -------------

_STANDARD_LIBRARY = Rule("plain", "skip", "the standard library does no tensor work", "standard library")
_STANDARD_INLINED = Rule("plain", "inline", "a thin wrapper in the standard library around user code", "standard library")

_INLINED_STANDARD_MODULES = _words(
    """
    _collections_abc _py_abc _weakrefset abc bisect collections contextlib copy copyreg dataclasses enum
    fractions functools genericpath heapq keyword numbers operator os posixpath reprlib stat statistics
    string types typing weakref
    """
)

# -- packages without tensor work ------------------------------------------------------------------------------

_OTHER_PACKAGE = Rule("plain", "skip", "a package that does no tensor work", "package")
# Transports output to a notebook's page: its callees (dates, JSON, sockets) are not part of the program either.
_TRANSPORT = Rule("alone", "skip", "sends output out of the program", "package")
_LAUNCHER = Rule("plain", "skip", "starts the program, but is not part of it", "launcher")
_OWN_PACKAGE = Rule("alone", "skip", "dynexplore itself", "dynexplore")
_OWN_DECORATOR = Rule("plain", "inline", "dynexplore's layer around a function of the program", "dynexplore")

_PLAIN_PACKAGES = _words(
    """
    IPython PIL _distutils_hack _pydevd_bundle _pydevd_frame_eval _pytest absl anyio attr coverage cv2
    dateutil debugpy executing hypothesis joblib matplotlib matplotlib_inline nbclient nbval networkx numba
    numpy onnx onnxruntime pandas pip pkg_resources pluggy psutil pyarrow pydantic pydantic_core pygments
    pytest requests rich scipy setuptools sklearn sympy tensorboard tensorflow tornado tqdm traitlets tree
    triton typing_extensions urllib3 wandb xarray yaml
    """
)


_TRANSPORTS = _words("comm ipykernel jupyter_client jupyter_core zmq")


def _folder(path: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(path)), "")


_TORCH_FOLDER = _folder(torch.__file__)
OWN_FOLDER = os.path.dirname(os.path.dirname(_folder(__file__).rstrip(os.sep))) + os.sep
"""The folder of dynexplore itself."""
_DECORATORS = tuple(_folder(__file__) + name for name in ("error_on_graph_break.py", "nested_breaks.py"))
_STANDARD_FOLDERS = tuple({os.path.join(os.path.abspath(sysconfig.get_path(name)), "") for name in ("stdlib", "platstdlib")})
_PACKAGE_FOLDERS = tuple({os.path.join(os.path.abspath(sysconfig.get_path(name)), "") for name in ("purelib", "platlib")})
_LAUNCHER_FOLDERS = frozenset({os.path.abspath(sysconfig.get_path("scripts")), os.path.dirname(os.path.abspath(sys.executable))})


@functools.cache
def rule_of(filename: str) -> Rule:
    """The rule for the file that a code object names.

    >>> rule_of("model.py").frame
    'translate'
    """
    if filename.startswith("<frozen "):
        return _standard_rule(filename.removeprefix("<frozen ").removesuffix(">").split(".")[0])
    if filename.startswith("<"):
        return USER  # a notebook cell, `python -c`, generated code
    path = os.path.abspath(filename)
    if path.startswith(_TORCH_FOLDER):
        return _torch_rule(path.removeprefix(_TORCH_FOLDER).replace(os.sep, "/"))
    if path.startswith(OWN_FOLDER):
        return _OWN_DECORATOR if path in _DECORATORS else _OWN_PACKAGE
    if os.path.dirname(path) in _LAUNCHER_FOLDERS and not path.endswith(".py"):  # a console script: dynexplore, pytest, torchrun
        return _LAUNCHER
    package = _package_of(path)
    if package in _TRANSPORTS:
        return _TRANSPORT
    if package is not None:
        finder = package.startswith("__editable__")  # the finder that setuptools installs for an editable package
        return _OTHER_PACKAGE if package in _PLAIN_PACKAGES or finder else USER
    for folder in _STANDARD_FOLDERS:
        if path.startswith(folder):
            return _standard_rule(path.removeprefix(folder).split(os.sep)[0].removesuffix(".py"))
    return USER


@functools.cache
def is_of_the_program(filename: str) -> bool:
    """Whether code of this file belongs to the program itself, and not to an installed package.

    >>> is_of_the_program("model.py"), is_of_the_program(torch.__file__)
    (True, False)
    """
    return rule_of(filename) is USER and (filename.startswith("<") or _package_of(os.path.abspath(filename)) is None)


def _torch_rule(path: str) -> Rule:
    for prefix in _prefixes(path):
        if prefix in _TORCH:
            return _TORCH[prefix]
    return _TORCH_DEFAULT


def _prefixes(path: str) -> Iterator[str]:
    """`nn/modules/linear.py`, `nn/modules/`, `nn/`: the longest first."""
    yield path
    parts = path.split("/")
    for count in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[:count]) + "/"


def _package_of(path: str) -> str | None:
    """The top-level package of a file in site-packages (of any environment), None for other files."""
    for folder in _PACKAGE_FOLDERS:
        if path.startswith(folder):
            return path.removeprefix(folder).split(os.sep)[0].removesuffix(".py")
    for marker in (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"):
        if marker in path:
            return path.rpartition(marker)[2].split(os.sep)[0].removesuffix(".py")
    return None


def _standard_rule(module: str) -> Rule:
    return _STANDARD_INLINED if module in _INLINED_STANDARD_MODULES else _STANDARD_LIBRARY


def torch_rows() -> dict[str, Rule]:
    """The rows for torch: path below its package -> rule. For tests and docs."""
    return dict(_TORCH)
