"""The result of `compare`: capture methods side by side.

The idea: one object serves both people and tests. It prints as text in a terminal, displays as a page in a notebook, and every
fact in it can be asserted: `comparison["fx"].graph.nodes`, `.failed`, `.differences`.

In: the outcomes of all methods (outcome.py). Out: `Comparison`. PyTorch's counterpart: none.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from dynexplore.lenses import comparison_html, comparison_text
from dynexplore.lenses.outcome import Compared, OperatorDifference, Outcome, Probe

SCHEMA = 2
"""Version of the JSON form."""


class Comparison:
    """Capture methods side by side; see `dynexplore.compare`.

    Attributes: `title` (the function), `probes` (the calls that were tried), `outcomes` (one per method), `note` (remarks on how
    the comparison was made). `comparison["fx"]` or `comparison["torch.fx.symbolic_trace"]` returns one outcome.
    """

    def __init__(self, title: str, probes: Sequence[Probe], outcomes: Sequence[Outcome], note: str = "") -> None:
        reference = next((outcome for outcome in outcomes if outcome.key == "dynexplore"), None)
        self._all = Compared(title, tuple(probes), tuple(_against(outcome, reference) for outcome in outcomes), note)
        self.title, self.note = title, note
        self.probes, self.outcomes = self._all.probes, self._all.outcomes

    def __getitem__(self, name: str) -> Outcome:
        for outcome in self.outcomes:
            if name in (outcome.key, outcome.name):
                return outcome
        raise KeyError(f"no method {name!r} here; there are {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter([outcome.key for outcome in self.outcomes])

    def __len__(self) -> int:
        return len(self.outcomes)

    def __contains__(self, name: object) -> bool:
        return any(name in (outcome.key, outcome.name) for outcome in self.outcomes)

    @property
    def differences(self) -> dict[str, tuple[OperatorDifference, ...]]:
        """Method -> where its operators differ from this engine's; only methods that captured the function and differ."""
        return {outcome.key: outcome.differences for outcome in self.outcomes if outcome.differences}

    def __str__(self) -> str:
        return self.text(comparison_text.LONG)

    def text(self, most_lines: int = 0) -> str:
        """The table, the remarks and the graphs; if that is long (`most_lines`; 0: no limit), one screen of it."""
        return comparison_text.comparison(self._all, most_lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return comparison_html.fragment(self._all)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.summary(), "text/html": self._repr_html_()}

    def summary(self) -> str:
        """A one-line summary without times or addresses, equal in every run."""
        return comparison_text.summary(self._all)

    def to_json(self) -> str:
        """Everything as JSON text."""
        outcomes = [dataclasses.asdict(outcome) for outcome in self.outcomes]
        for outcome, plain in zip(self.outcomes, outcomes, strict=True):
            plain["operators"] = list(outcome.operators)
        probes = [dataclasses.asdict(probe) for probe in self.probes]
        return json.dumps(
            {"schema": SCHEMA, "title": self.title, "note": self.note, "probes": probes, "methods": outcomes}, indent=1
        )


def _against(outcome: Outcome, reference: Outcome | None) -> Outcome:
    """The same outcome, with its operators compared with those of this engine."""
    if reference is None or reference is outcome or reference.failed or outcome.failed:
        return outcome
    reference_ops, method_ops = reference.operators, outcome.operators
    is_in_order = all(graph.in_order for graph in outcome.graphs)
    differences = _in_place(reference_ops, method_ops) if is_in_order else _altogether(reference_ops, method_ops)
    return dataclasses.replace(outcome, differences=tuple(differences))


def _in_place(reference_ops: Sequence[str], method_ops: Sequence[str]) -> Iterator[OperatorDifference]:
    for tag, start, end, their_start, their_end in SequenceMatcher(None, reference_ops, method_ops, autojunk=False).get_opcodes():
        if tag != "equal":
            yield OperatorDifference(start, tuple(reference_ops[start:end]), tuple(method_ops[their_start:their_end]))


def _altogether(reference_ops: Sequence[str], method_ops: Sequence[str]) -> Iterator[OperatorDifference]:
    """The operators that occur more often on one side than on the other, regardless of order."""
    only_engine, only_method = Counter(reference_ops) - Counter(method_ops), Counter(method_ops) - Counter(reference_ops)
    if only_engine or only_method:
        yield OperatorDifference(-1, tuple(only_engine.elements()), tuple(only_method.elements()))
