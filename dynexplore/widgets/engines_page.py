"""Two engines' captures of one call as one HTML file: the overview above, and below it two explorers in lockstep.

The idea: a sentence names the point where the two captures diverge; the explorers show both sides at that point, each as in a
separate file. A step in one moves the other wherever both have a matching state (static/explorer/together.js). Without JavaScript
the overview and the text are shown.

In: TwoCaptures. Out: `page(captures)`, the text of the file.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynexplore.recording.recording import Recording
from dynexplore.two_engines import two_captures_html
from dynexplore.two_engines.alignment import Pair
from dynexplore.two_engines.comparison_model import ComparisonModel
from dynexplore.two_engines.two_captures import TwoCaptures
from dynexplore.two_engines.visits import Visit, discarded_visits
from dynexplore.widgets.document import document, in_script, recording_script

_STYLE = """\
body { max-width: none; }
h2 { font-size: 14px; margin: 4px 0; }
.dynexplore { --dynx-height: max(600px, calc(100vh - 120px)); }
.dynx-together { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 16px; }
.dynx-together > section { min-width: 0; }
.dynx-together-bar { display: flex; flex-wrap: wrap; align-items: baseline; gap: 8px; margin: 8px 0; }
.dynx-together-said { margin: 0; min-height: 2.8em; flex: 1 1 300px; }
"""

_START = """\
const texts = ["torch-side", "engine-side"].map((name) => document.getElementById(name).textContent);
const both = await Promise.all(texts.map(read));
const comparison = JSON.parse(document.getElementById("comparison").textContent);
globalThis.dynexplore = together(document.getElementById("explorers"), both, comparison);"""


def page(captures: TwoCaptures) -> str:
    """Return two captures as one HTML document."""
    comparison = captures.comparison
    recordings = map(recording_script, ("torch-side", "engine-side"), captures.recordings.values())
    return document(
        f"{comparison.title or 'a call'}: two engines",
        f'{two_captures_html.overview(comparison)}\n<div id="explorers"></div>',
        data="\n".join([*recordings, _json_script("comparison", comparison_data(comparison))]),
        start=_START,
        static=str(captures),
        holds=captures.holds,
        style=_STYLE,
    )


def _json_script(element: str, data: dict[str, Any]) -> str:
    return f'<script type="application/json" id="{element}">{in_script(data)}</script>'


def comparison_data(comparison: ComparisonModel) -> dict[str, Any]:
    """The data for together.js: names of the sides, pairs of states, and the point of divergence."""
    divergences = [{"what": f"{parting}.", "pair": parting.at} for parting in comparison.divergences]
    return {
        "names": [recording.engine for recording in (comparison.torch_side, comparison.engine_side)],
        "pairs": [_pair(pair) for pair in comparison.pairs],
        "places": [
            _places(comparison.torch_side, [pair.torch_side for pair in comparison.pairs]),
            _places(comparison.engine_side, [pair.engine_side for pair in comparison.pairs]),
        ],
        "partings": divergences,
        "first": comparison.first_pair,
    }


def _places(recording: Recording, side: Sequence[Visit | None]) -> list[list[int]]:
    """Frame, state, number of the pair: for each state of one side, including those of discarded attempts."""
    numbers = {(visit.frame, visit.path, visit.offset, visit.time): at for at, visit in enumerate(side) if visit is not None}
    before = [(visit, numbers.get((visit.frame, visit.path, visit.offset, visit.time))) for visit in discarded_visits(recording)]
    counted = [[visit.frame, visit.state, at] for at, visit in enumerate(side) if visit is not None]
    return sorted([*counted, *([visit.frame, visit.state, at] for visit, at in before if at is not None)])


def _pair(pair: Pair) -> list[int]:
    return [*_moment(pair.torch_side), *_moment(pair.engine_side)]


def _moment(visit: Visit | None) -> tuple[int, int]:
    return (visit.frame, visit.state) if visit is not None else (-1, -1)
