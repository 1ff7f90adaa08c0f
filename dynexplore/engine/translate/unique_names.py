"""Unique names for what the modified code calls: `__compiled_fn_0`, `__resume_at_30_1`.

The idea: one counter per process, as in Dynamo.

In: nothing. Out: `NUMBERS`. PyTorch's counterpart: `unique_id` in torch/_dynamo/bytecode_transformation.py.
"""

from __future__ import annotations

from dynexplore.engine.numbering import Numbering

NUMBERS = Numbering()
