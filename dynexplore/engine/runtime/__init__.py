"""The engine at run time: cache entries, one frame in and an entry out, backends, wrappers, the public functions.

Every way into the engine imports this room first, so this is where a torch that is not tested is tried (torch_versions.py).
"""

from __future__ import annotations

import torch

from dynexplore.engine.torch_versions import admit

admit(str(torch.__version__))
