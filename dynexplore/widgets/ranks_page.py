"""Several ranks as one HTML file: side by side above, and below them the explorer of the selected rank.

The idea: the overview shows which rank to look at; its explorer is the same as in a separate file. Each rank's data is compressed
in the page, and unpacked when the rank is selected. Without JavaScript the overview and the text are shown.

In: Ranks. Out: `page(ranks)`, the text of the file.

PyTorch's counterpart: the folder of pages that tlparse --all-ranks-html writes.
"""

from __future__ import annotations

from dynexplore.ranks import ranks_html
from dynexplore.ranks.ranks import Ranks
from dynexplore.views import html_text
from dynexplore.widgets.document import document, recording_script

MOST_EXPLORERS = 8
"""The maximum number of selectable ranks, those that differ first: each adds some hundred kilobytes."""

_BODY = """\
{overview}
<nav><label>Look into <select id="rank">{options}</select></label> {more}</nav>
<div id="explorer"></div>"""

_START = """\
const place = document.getElementById("explorer"), picked = document.getElementById("rank");
async function show() {
  const recording = await read(document.getElementById("recording" + picked.value).textContent);
  place.replaceChildren();
  globalThis.dynexplore = mount(place, recording, null, true);
}
picked.addEventListener("change", show);
if (picked.value) await show();"""


def page(ranks: Ranks) -> str:
    """Return the ranks as one HTML document."""
    alignment = ranks.comparison
    chosen = ranks_html.chosen_ranks(alignment, MOST_EXPLORERS)
    first = next((rank for rank in alignment.unlike_ranks if rank in chosen), next(iter(chosen), 0))
    options = "".join(f'<option value="{rank}"{" selected" if rank == first else ""}>rank {rank}</option>' for rank in chosen)
    remaining = len(ranks) - len(chosen)
    more = html_text.escape(f"{remaining} more ranks: dynexplore open DIR --rank N" if remaining else "")
    return document(
        f"{alignment.title or 'ranks'}: {len(ranks)} ranks",
        _BODY.format(overview=ranks_html.overview(alignment), options=options, more=more),
        data="\n".join(recording_script(f"recording{rank}", ranks[rank]) for rank in chosen),
        start=_START,
        static=str(ranks),
        holds=ranks.holds,
    )
