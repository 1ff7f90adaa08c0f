"""`TwoCaptures`: one function as torch.compile captured it and as our engine did, and where the two part.

In:  a recording of each, of the same call. Out: `TwoCaptures`: printed, shown in a notebook, saved, asked.

PyTorch has no counterpart.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from dynexplore.engine import display_hooks
from dynexplore.recording.engines import OURS
from dynexplore.recording.engines import TORCH as THEIRS
from dynexplore.recording.recording import Recording, redacted
from dynexplore.two_engines import two_captures_html, two_captures_text
from dynexplore.two_engines.beside import Beside
from dynexplore.two_engines.partings import KINDS, Parting
from dynexplore.views.headline import Headline

SCHEMA = 1
"""Version of the JSON form."""


class TwoCaptures:
    """One call as two engines captured it: `captures["torch.compile"]` and `captures["dynexplore"]` are the recordings.

    >>> nothing = TwoCaptures(Recording(title="f", engine="torch.compile"), Recording(title="f"))
    >>> print(nothing.headline)
    f: neither engine captured a graph.
    """

    def __init__(self, theirs: Recording, ours: Recording, notices: Sequence[str] = (), title: str = "") -> None:
        self.beside = Beside(theirs, ours, notices, title)

    @property
    def recordings(self) -> Mapping[str, Recording]:
        """The recording of each engine, by its name."""
        return {THEIRS: self.beside.theirs, OURS: self.beside.ours}

    def __getitem__(self, engine: str) -> Recording:
        return self.recordings[engine]

    @property
    def partings(self) -> Sequence[Parting]:
        """Where they part: frames that one gives up, breaks, operators, guards, instructions, each in the order of the program."""
        return self.beside.partings

    @property
    def first(self) -> Parting | None:
        """The first of them; None where the captures are the same."""
        return self.beside.first

    @property
    def has_same_graphs(self) -> bool:
        """Whether both put the same operators, with the same arguments, on the same dtypes and sizes, in the same order into
        graphs, and end these at the same places."""
        return not any(one.kind in ("frame", "break", "operator") for one in self.partings)

    @property
    def causes(self) -> dict[str, dict[str, int]]:
        """Kind -> cause -> how often: kinds are "frame", "break", "operator", "guard" and "step"."""
        table: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
        for one in self.beside.causes:
            table[one.kind][one.first.cause] = one.count
        return table

    @property
    def headline(self) -> Headline:
        """Whether the graphs are the same, and where the captures part first."""
        return two_captures_text.headline(self.beside)

    def __str__(self) -> str:
        return two_captures_text.report(self.beside)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return two_captures_html.fragment(self.beside)

    def to_json(self) -> str:
        """The differences as JSON text; the recordings have forms of their own."""
        told: list[dict[str, Any]] = [
            {"kind": one.kind, "cause": one.cause, "what": one.what, "where": one.where} for one in self.partings
        ]
        return json.dumps({"schema": SCHEMA, "title": self.beside.title, "partings": told}, indent=1)

    def save_html(self, path: str | os.PathLike[str], *, redact: bool = False) -> str:
        """Write one page: both captures in the story view, stepped together. Return what the file holds, in a sentence."""
        return display_hooks.connected().save(self, path, redact=redact)

    @property
    def holds(self) -> str:
        """What a file made of these recordings holds, in one sentence."""
        return self.beside.ours.holds

    def redacted(self) -> TwoCaptures:
        """The same without tensor elements, string constants and paths."""
        theirs, ours = (one if one.redacted else redacted(one) for one in (self.beside.theirs, self.beside.ours))
        return TwoCaptures(theirs, ours, self.beside.notices, self.beside.title)
