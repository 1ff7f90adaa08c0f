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
from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.engines import DYNEXPLORE, TORCH
from dynexplore.recording.recording import Recording, redacted
from dynexplore.two_engines import two_captures_html, two_captures_text
from dynexplore.two_engines.comparison_model import ComparisonModel
from dynexplore.two_engines.divergences import KINDS, Divergence
from dynexplore.views.headline import Headline

SCHEMA = 1
"""Version of the JSON form."""


class TwoCaptures:
    """One call, captured by two engines: `captures["torch.compile"]` and `captures["dynexplore"]` are the recordings.

    >>> nothing = TwoCaptures(Recording(title="f", engine="torch.compile"), Recording(title="f"))
    >>> print(nothing.headline)
    f: neither engine captured a graph.
    """

    def __init__(self, torch_side: Recording, engine_side: Recording, notices: Sequence[str] = (), title: str = "") -> None:
        self.comparison = ComparisonModel(torch_side, engine_side, notices, title)

    @property
    def recordings(self) -> Mapping[str, Recording]:
        """The recording of each engine, by its name."""
        return {TORCH: self.comparison.torch_side, DYNEXPLORE: self.comparison.engine_side}

    def __getitem__(self, engine: str) -> Recording:
        return self.recordings[engine]

    @property
    def divergences(self) -> Sequence[Divergence]:
        """The differences: frames that only one engine skips, graph breaks, operators, guards and steps, each in program order."""
        return self.comparison.divergences

    @property
    def first(self) -> Divergence | None:
        """The first difference; None if the captures are the same."""
        return self.comparison.first

    @property
    def has_same_graphs(self) -> bool:
        """Whether the graphs of both engines are the same: the same operators in the same order, with the same arguments, dtypes
        and sizes, and with the same graph breaks."""
        return not any(divergence.kind in ("frame", "break", "operator") for divergence in self.divergences)

    @property
    def causes(self) -> dict[str, dict[str, int]]:
        """The number of differences by kind ("frame", "break", "operator", "guard" or "step") and cause."""
        table: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
        for cause in self.comparison.causes:
            table[cause.kind][cause.first.cause] = cause.count
        return table

    @property
    def headline(self) -> Headline:
        """Whether the graphs are the same, and where the captures first differ."""
        return two_captures_text.headline(self.comparison)

    def __str__(self) -> str:
        return two_captures_text.report(self.comparison)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return two_captures_html.fragment(self.comparison)

    def to_json(self) -> str:
        """The differences as JSON text, without the recordings."""
        rows: list[dict[str, Any]] = [
            {"kind": divergence.kind, "cause": divergence.cause, "what": divergence.message, "where": divergence.where}
            for divergence in self.divergences
        ]
        return json.dumps({"schema": SCHEMA, "title": self.comparison.title, "partings": rows}, indent=1)

    def save_html(self, path: str | os.PathLike[str], *, redact: bool = False) -> str:
        """Write a page that steps through both captures together. Return a sentence on what the file contains."""
        return display_hooks.connected().save(self, path, redact=redact)

    @property
    def holds(self) -> str:
        """What a file of these recordings contains, in one sentence."""
        return self.comparison.engine_side.holds

    def redacted(self) -> TwoCaptures:
        """A copy without tensor elements, string constants and paths."""
        torch_side, engine_side = (recording if recording.redacted else redacted(recording) for recording in self.comparison.sides)
        return TwoCaptures(torch_side, engine_side, self.comparison.notices, self.comparison.title)


keep_old_names(globals())
