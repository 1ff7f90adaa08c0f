"""The peak memory of a block of code.

The idea: Linux keeps a process's peak resident set size, and can reset it. On an accelerator torch's allocator has the same
counter.

In: a `with` block. Out: `peak`, bytes above the memory in use at its start, or None if the system does not provide it.

PyTorch's counterpart: `max_memory_allocated` in torch/cuda/memory.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType

import torch

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # Documentation/filesystems/proc.rst: "reset the peak resident set size"


class MemoryPeak:
    """Measures the block that it wraps.

    >>> with MemoryPeak() as memory:
    ...     kept = torch.zeros(1_000_000)
    >>> memory.peak is None or memory.peak >= 0
    True
    """

    peak: int | None = None

    def __enter__(self) -> MemoryPeak:
        try:
            _RESET.write_text(_RESET_PEAK)
            self._before = _kibibytes("VmRSS")
        except OSError:
            self._before = None
        if _accelerated():
            torch.cuda.reset_peak_memory_stats()
        self._before_there = _on_accelerator()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        after = _kibibytes("VmHWM") if self._before is not None else None
        if self._before is not None and after is not None:
            self.peak = max(after - self._before, 0) * 1024 + max(_on_accelerator() - self._before_there, 0)


def _kibibytes(field: str) -> int | None:
    try:
        match = re.search(rf"^{field}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) if match else None


def _accelerated() -> bool:
    return bool(torch.cuda.is_available() and torch.cuda.memory_allocated())


def _on_accelerator() -> int:
    return torch.cuda.max_memory_allocated() if _accelerated() else 0


def as_text(size: int | None) -> str:
    """A size in human-readable form.

    >>> as_text(3_500_000), as_text(0), as_text(None)
    ('3.3 MiB', '0.0 MiB', '?')
    """
    return "?" if size is None else f"{size / 2**20:.1f} MiB"
