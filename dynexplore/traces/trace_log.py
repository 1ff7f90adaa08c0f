"""Streaming reader of a TORCH_TRACE log: one entry after the other, with their payloads left in the file.

The idea: a job of some hours writes hundreds of megabytes, most of it texts that are never displayed. So a log is read once, line
by line; each entry yields its short facts, and the position of its text, the payload, in the file. A payload is read on demand.
Lines that cannot be parsed are counted and skipped, because a killed job leaves a truncated line, and other programs write to the
same folder.

A line of such a log is `V1122 23:31:41.509000 498 torch/file.py:12] {"kind": {...}, "frame_id": 0, ...}`, and the lines of its
payload follow, each indented by a tab.

In: the path of a log, and a progress callback for the number of bytes read so far.
Out: `TraceLog`: iterate for its `Entry`s, `text(entry.payload)`; `notices` describes what could not be read.

PyTorch's counterpart: `TorchLogsFormatter` and `trace_structured` in torch/_logging/_internal.py, which write it; the reader is
tlparse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dynexplore.engine.errors import RecordingError

LONGEST_LINE = 16_000_000
"""The maximum number of bytes of an entry's line; a longer line is not an entry, and is read in pieces to bound memory."""

_LINE = re.compile(rb"(?:\[rank\d+\]:)?[VDIWEC](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9}) (\d+) ?([^\]]*)\] (\{.*)", re.S)

_BEGIN = re.compile(rb"(?:\[rank\d+\]:)?[VDIWEC]\d{4} \d\d:")
"""The beginning of an entry's line, the rest of which may be missing."""

_COMMON = frozenset(
    ("frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "rank", "process", "has_payload", "pathname", "lineno",
     "timestamp", "thread", "stack", "severity", "subgraph_name")
)  # fmt: skip
"""Keys that any entry may have; the remaining key is its kind."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The position of a text: the first byte after the entry's line, the number of bytes, and torch's hash of it."""

    offset: int
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its kind, its facts, its time, and its compilation ("" for none).

    `compilation` is torch's compile id, "3/1", or "!0/3/1" within compiled autograd; `attempt` counts from 0. `microseconds` count
    from the start of the year.
    """

    kind: str
    facts: Any
    compilation: str
    attempt: int
    rank: int | None
    microseconds: int
    thread: int
    payload: Payload | None

    @property
    def name(self) -> str:
        """The name of an artifact or a dumped file."""
        return str(self.facts.get("name", "")) if isinstance(self.facts, dict) else ""


class TraceLog:
    """A streaming reader of one log; see the module docstring."""

    def __init__(self, path: Path, progress: Callable[[int], None] = lambda done: None) -> None:
        self.path = path
        self.notices: list[str] = []
        self.entries = 0
        self._progress = progress
        self._unread: list[int] = []
        self._line = 0
        self._last_is_cut = False

    def text(self, payload: Payload, most: int = 1 << 62) -> str:
        """Read a payload from the file, at most this many bytes of it."""
        with self._open() as file:
            file.seek(payload.offset)
            raw = file.read(min(payload.size, most))
        return re.sub(rb"(?m)^\t", b"", raw).decode("utf-8", "replace").removesuffix("\n")

    def _open(self) -> BinaryIO:
        try:
            return open(self.path, "rb")
        except OSError as error:
            raise RecordingError(f"{self.path} cannot be read: {error.strerror}") from None

    def __iter__(self) -> Iterator[Entry]:
        with self._open() as file:
            yield from self._entries(file)
        self._tell()

    def _entries(self, file: BinaryIO) -> Iterator[Entry]:
        """Yield each entry when the next one begins: only then is the end of its payload known."""
        make_entry: Callable[[Payload | None], Entry] | None = None
        begin = offset = 0
        in_line = False
        while line := file.readline(LONGEST_LINE):
            offset += len(line)
            goes_on, in_line = in_line, not line.endswith(b"\n")
            self._line += not goes_on
            if goes_on or line.startswith(b"\t"):
                continue
            if make_entry is not None:
                yield make_entry(_payload_of(make_entry, begin, offset - len(line)))
                self.entries += 1
            self._progress(offset)
            make_entry, begin = self._read(line), offset
            self._last_is_cut = make_entry is None and _BEGIN.match(line) is not None
        if make_entry is not None:
            yield make_entry(_payload_of(make_entry, begin, offset))
            self.entries += 1
        self._progress(offset)

    def _read(self, line: bytes) -> Callable[[Payload | None], Entry] | None:
        match = _LINE.match(line)
        if match is None:
            self._unread.append(self._line)
            return None
        try:
            record = json.loads(match[9])
            return _Half(record, _microseconds(match), int(match[7]))
        except (ValueError, RecursionError, TypeError):
            self._unread.append(self._line)
            return None

    def _tell(self) -> None:
        unread, name = self._unread, self.path.name
        if not self._line:
            self.notices.append(f"{name} is empty: the process compiled nothing, or ended before it wrote.")
        elif not self.entries and self._last_is_cut and unread == [self._line]:
            read = f"{self.path.stat().st_size:,} bytes"
            cut = f"{name} ends in the middle of its first entry, after {read}: the process was stopped there"
            self.notices.append(f"{cut}, and nothing that it compiled is in the log.")
        elif not self.entries:
            lines = "its only line is not an entry" if self._line == 1 else f"none of its {self._line:,} lines is an entry"
            self.notices.append(f"{name} is not a TORCH_TRACE log: {lines}.")
        elif unread == [self._line]:
            self.notices.append(f"{name} ends in the middle of an entry (line {self._line:,}): the process was stopped there.")
        elif unread:
            lines = "1 line" if len(unread) == 1 else f"{len(unread):,} lines"
            self.notices.append(f"{lines} of {name} could not be read, the first is line {unread[0]:,}; the rest is shown.")


class _Half:
    """An entry whose payload is not complete yet."""

    def __init__(self, record: Any, microseconds: int, thread: int) -> None:
        kinds = [key for key in record if key not in _COMMON] or [key for key in record if key == "stack"]
        if not isinstance(record, dict) or not kinds:
            raise TypeError("no entry")
        self.kind = str(kinds[0])
        self.facts = record[kinds[0]]
        self.digest = record.get("has_payload")
        self.compilation, self.attempt = _compilation(record), _number(record.get("attempt")) or 0
        self.rank = _number(record.get("rank"))
        self.microseconds, self.thread = microseconds, thread

    def __call__(self, payload: Payload | None) -> Entry:
        return Entry(
            self.kind, self.facts, self.compilation, self.attempt, self.rank, self.microseconds, self.thread, payload,
        )  # fmt: skip


def _payload_of(entry: Any, begin: int, end: int) -> Payload | None:
    return Payload(begin, end - begin, str(entry.digest)) if entry.digest and end > begin else None


def _compilation(record: dict[str, Any]) -> str:
    frame, number, autograd = (_number(record.get(key)) for key in ("frame_id", "frame_compile_id", "compiled_autograd_id"))
    inner = "" if frame is None else f"{frame}/{number or 0}"
    return inner if autograd is None else f"!{autograd}/{inner}".rstrip("/")


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None


_DAYS = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)


def _microseconds(match: re.Match[bytes]) -> int:
    month, day, hours, minutes, seconds = (int(match[number]) for number in range(1, 6))
    if not 1 <= month <= 12:
        raise ValueError("no month")
    days = _DAYS[month - 1] + day
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000 + int(match[6].ljust(6, b"0")[:6])
