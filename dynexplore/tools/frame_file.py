"""The file format of one saved frame: a magic line, a line of JSON, and the tensors.

The idea: the receiver of such a file wants to inspect it before anything runs. So everything but the tensors is one line of plain
JSON, and the tensors are read by torch with `weights_only=True`. The first line has the format version and a checksum: a truncated
or modified file, or a newer format, is reported in one sentence, without an internal traceback.

In: a JSON-serializable dict and a dict of tensors. Out: a file; and back.

PyTorch's counterpart: `ExecutionRecord` in torch/_dynamo/replay_record.py, a dill pickle, which can run arbitrary code when loaded.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dynexplore.engine.errors import ReplayError

FORMAT = 1
"""Incremented whenever an older reader would misinterpret the file."""

_MAGIC = b"dynexplore-frame"


def write_frame(path: Path, data: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Write the file, and create its folder. Raises OSError if that is not possible."""
    packed = io.BytesIO()
    torch.save(dict(tensors), packed)
    body = json.dumps(data).encode() + b"\n" + packed.getvalue()
    head = b"%s %d %s\n" % (_MAGIC, FORMAT, hashlib.sha256(body).hexdigest().encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + body)


def read_frame(path: Path) -> tuple[dict[str, Any], bytes]:
    """The data of the file, and its tensors, still serialized. Raises ReplayError, in one sentence."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ReplayError(f"{path} cannot be read: {error.strerror}") from None
    head, _, body = content.partition(b"\n")
    words = head.split()
    if not words or words[0] != _MAGIC:
        raise ReplayError(f"{path} is not a frame saved by dynexplore (or its first bytes are damaged)")
    if len(words) < 2 or not words[1].isdigit():
        raise ReplayError(f"{path} is damaged: its first line has no format number")
    if int(words[1]) > FORMAT:
        newer = int(words[1])
        raise ReplayError(f"{path} was saved by a newer dynexplore: it has format {newer}, and this one reads up to {FORMAT}")
    if len(words) != 3 or hashlib.sha256(body).hexdigest().encode() != words[2]:
        raise ReplayError(f"{path} is damaged or cut off: its checksum does not match")
    text, _, packed = body.partition(b"\n")
    try:
        data = json.loads(text)
    except ValueError:
        raise ReplayError(f"{path} is damaged: its description is not JSON") from None
    if not isinstance(data, dict):
        raise ReplayError(f"{path} is damaged: it does not describe a frame")
    return data, packed


def unpacked_tensors(packed: bytes, path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file, on the CPU if there is no accelerator. Raises ReplayError."""
    place = None if torch.accelerator.is_available() else "cpu"
    try:
        tensors: dict[str, torch.Tensor] = torch.load(io.BytesIO(packed), map_location=place, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError) as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise ReplayError(f"the tensors in {path} cannot be loaded: {why}") from None
    return tensors
