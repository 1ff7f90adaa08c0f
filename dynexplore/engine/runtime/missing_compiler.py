"""A backend that finds no compiler: reported in one sentence; tools that can continue run the graph uncompiled.

The idea: Inductor generates C++ or Triton code, which an external compiler must compile. If that is not installed, nothing is
wrong with the program or the graph: so it is not treated as a failure of the backend, and tools that inspect a capture show it
anyway.

In: a backend's exception. Out: the sentence. PyTorch's counterpart: `InvalidCxxCompiler` and `TritonMissing` in
torch/_inductor/exc.py.
"""

from __future__ import annotations

_SENTENCES = {
    "InvalidCxxCompiler": "Inductor needs a C++ compiler, and none was found: install g++ or clang++, or set the environment"
    " variable CXX.",
    "TritonMissing": "Inductor needs Triton to generate code for the GPU: install the package triton.",
}


def missing_compiler(error: BaseException) -> str:
    """What to install, if only a compiler is missing; "" for any other exception.

    >>> missing_compiler(ValueError("no such operator"))
    ''
    """
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ in _SENTENCES:
            return _SENTENCES[type(cause).__name__]
        cause = cause.__cause__ or cause.__context__
    return ""
