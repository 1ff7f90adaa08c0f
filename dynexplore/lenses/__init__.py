"""Capture methods: the ways to turn a Python function into a graph, all examined in the same way.

The idea: this package head is only an overview. Bytecode capture, which this engine does, is one of several ways to get a graph
out of a program. `compare.py` runs all of them on one function and shows the results side by side.

Reading order: `lens.py` (the interface of a capture method), one file per method (`symbolic_trace.py`, `jit_trace.py`,
`jit_script.py`, `lazy_tensors.py`, `torch_export.py`, `torch_compile.py`, `this_engine.py`), `examination.py` (the test of one
method), `compare.py` (the entry point), `comparison.py` (the result).

PyTorch's counterpart: none; each method is a separate package.
"""
