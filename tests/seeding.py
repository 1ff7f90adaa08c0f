"""The same random numbers for each test, and for both sides of a comparison: those of Python, torch and numpy.

In: nothing. Out: `seed_everything`.
"""

from __future__ import annotations

import random
import sys


def seed_everything() -> None:
    """Seed what is imported.

    Without a GPU, torch's generator is seeded alone: `torch.manual_seed` also keeps, for each kind of device that may come later, a
    traceback of the call, which costs 0.4 ms, twenty times what a small frame's call costs.
    """
    random.seed(0)
    if torch := sys.modules.get("torch"):
        seed = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
        seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
