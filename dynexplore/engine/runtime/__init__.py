"""The engine at run time: frame conversion, cache entries, backends, wrappers, the public functions.

Every entry point of the engine imports this package first, so an untested torch version is checked here (torch_versions.py).
"""

from __future__ import annotations

import torch

from dynexplore.engine.torch_versions import admit

admit(str(torch.__version__))
