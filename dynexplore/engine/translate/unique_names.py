"""Names for what the modified code calls: `__compiled_fn_0`, `__resume_at_30_1`. One counter per process, as in torch._dynamo."""

from __future__ import annotations

from dynexplore.engine.numbering import Numbering

NUMBERS = Numbering()
