"""Other ways to turn a Python function into a graph, all examined in the same way.

Which idea lives here: only the overview. What this engine does is one of several answers to one question: how does one
get a graph out of a program? `compare.py` asks all of them about one function and puts their answers side by side.

Reading order: `lens.py` (what a method is asked), one file per method (`symbolic_trace.py`, `jit_trace.py`,
`jit_script.py`, `lazy_tensors.py`, `torch_export.py`, `torch_compile.py`, `this_engine.py`), `examination.py` (how one is
tested), `compare.py` (all of them), `comparison.py` (what comes out).

PyTorch's counterpart: none; each method knows only itself.
"""
