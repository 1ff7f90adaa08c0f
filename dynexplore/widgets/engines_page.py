"""Two engines' captures of one call as one HTML file: the overview above, below it two explorers that are stepped together.

Which idea lives here: the sentence says where the two part; the explorers show both sides at that place, each the same as in a file
of its own. A step in one moves the other wherever both came (static/explorer/together.js). Without scripts the overview and the
text are there.

In:  TwoCaptures. Out: `page(captures)`, the text of the file.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynexplore.recording.recording import Recording
from dynexplore.two_engines import two_captures_html
from dynexplore.two_engines.alignment import Pair
from dynexplore.two_engines.beside import Beside
from dynexplore.two_engines.two_captures import TwoCaptures
from dynexplore.two_engines.visits import Visit, given_up
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
const texts = ["theirs", "ours"].map((name) => document.getElementById(name).textContent);
const both = await Promise.all(texts.map(read));
const beside = JSON.parse(document.getElementById("beside").textContent);
globalThis.dynexplore = together(document.getElementById("explorers"), both, beside);"""


def page(captures: TwoCaptures) -> str:
    """Return two captures as one HTML document."""
    beside = captures.beside
    recordings = map(recording_script, ("theirs", "ours"), captures.recordings.values())
    return document(
        f"{beside.title or 'a call'}: two engines",
        f'{two_captures_html.overview(beside)}\n<div id="explorers"></div>',
        data="\n".join([*recordings, f'<script type="application/json" id="beside">{in_script(beside_data(beside))}</script>']),
        start=_START,
        static=str(captures),
        holds=captures.holds,
        style=_STYLE,
    )


def beside_data(beside: Beside) -> dict[str, Any]:
    """What together.js reads: names of the sides, pairs of moments, and where the two part."""
    partings = [{"what": f"{one}.", "pair": one.at} for one in beside.partings]
    return {
        "names": [recording.engine for recording in (beside.theirs, beside.ours)],
        "pairs": [_pair(pair) for pair in beside.pairs],
        "places": [
            _places(beside.theirs, [pair.theirs for pair in beside.pairs]),
            _places(beside.ours, [pair.ours for pair in beside.pairs]),
        ],
        "partings": partings,
        "first": beside.first_pair,
    }


def _places(recording: Recording, side: Sequence[Visit | None]) -> list[list[int]]:
    """Frame, state, number of the pair: for each moment of one side, also of attempts that were given up."""
    numbers = {(one.frame, one.path, one.offset, one.time): at for at, one in enumerate(side) if one is not None}
    before = [(one, numbers.get((one.frame, one.path, one.offset, one.time))) for one in given_up(recording)]
    counted = [[one.frame, one.state, at] for at, one in enumerate(side) if one is not None]
    return sorted([*counted, *([one.frame, one.state, at] for one, at in before if at is not None)])


def _pair(pair: Pair) -> list[int]:
    return [*_moment(pair.theirs), *_moment(pair.ours)]


def _moment(visit: Visit | None) -> tuple[int, int]:
    return (visit.frame, visit.state) if visit is not None else (-1, -1)
