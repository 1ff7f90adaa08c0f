"""A timeline of several ranks: a lane for each rank, time from left to right, a bar for each compilation.

The idea: only a common time axis shows at a glance that one rank compiles while the others wait. Compilations on all ranks are
blue; recompiles are orange; those that differ between ranks have a red edge; a thin gray bar is the time that a rank waited at a
collective for the last one. If clocks are not aligned, the picture says so.

In: SideBySide. Out: `picture(comparison)`, one SVG element; its bars link to the rows below, and `STYLE` sets its colors.

PyTorch's counterpart: `ChromiumEventLogger` in torch/_dynamo/utils.py, from whose events tlparse writes one trace per rank.
"""

from __future__ import annotations

from dynexplore.ranks.compilations import Compilation
from dynexplore.ranks.differences import rank_words
from dynexplore.ranks.side_by_side import SideBySide
from dynexplore.views.html_text import escape

WIDTH, LEFT_MARGIN, RIGHT_MARGIN, TOP_MARGIN, LANE, BOTTOM_MARGIN = 960, 64, 12, 18, 30, 24
"""The picture's size in SVG units, the margins around the lanes, and the height of a lane."""

BAR, WAIT = 14, 5
"""Heights of a compilation and of a wait."""

NARROWEST = 2.0
"""The minimum width of a compilation: wide enough to see and to click."""

MOST_LANES = 32
"""The maximum number of lanes; with more ranks, those that differ come first."""

MOST_WAITS = 400
"""The maximum number of waits drawn, the longest first."""

SHORTEST_WAIT = 0.002
"""The minimum duration of a wait, in seconds."""

STYLE = (
    "svg.lanes { max-width: 100%; height: auto; font: 11px system-ui, sans-serif } .lanes text { fill: currentColor }"
    " .lanes .lane { fill: #8882 } .lanes .made { fill: #0b63c5 } .lanes .again { fill: #e08a00 } .lanes .odd { stroke: #d1242f;"
    " stroke-width: 2 } .lanes .wait { fill: #888 } .lanes .axis { stroke: #888; fill: none }"
)


def picture(comparison: SideBySide) -> str:
    """The lanes as an SVG element; "" if there is nothing to draw. All texts in it are escaped."""
    bars = [compilation for row in comparison.rows for compilation in row.of.values() if compilation.begins is not None]
    if not bars:
        return ""
    return _Drawing(comparison, bars).svg()


class _Drawing:
    def __init__(self, comparison: SideBySide, bars: list[Compilation]) -> None:
        self.comparison = comparison
        self.bars = bars
        self.lanes = {rank: TOP_MARGIN + number * LANE for number, rank in enumerate(_chosen(comparison))}
        self.height = TOP_MARGIN + len(self.lanes) * LANE + BOTTOM_MARGIN
        self.waits = self._waits()
        ends = [comparison.begins(compilation) + compilation.seconds for compilation in bars] + [
            begins + length for _, begins, length, _ in self.waits
        ]
        self.seconds = max(max(ends), 1e-6)

    def x(self, seconds: float) -> float:
        return round(LEFT_MARGIN + seconds / self.seconds * (WIDTH - LEFT_MARGIN - RIGHT_MARGIN), 1)

    def svg(self) -> str:
        unlike = self.comparison.unlike_frames
        shapes = []
        for rank, top in self.lanes.items():
            shapes.append(
                f'<rect class="lane" x="{LEFT_MARGIN}" y="{top}" width="{WIDTH - LEFT_MARGIN - RIGHT_MARGIN}" height="{LANE - 6}"/>'
            )
            shapes.append(f'<text x="{LEFT_MARGIN - 6}" y="{top + BAR}" text-anchor="end">rank {rank}</text>')
        shapes += [
            self._bar(compilation, (compilation.rank, compilation.frame) in unlike)
            for compilation in self.bars
            if compilation.rank in self.lanes
        ]
        shapes += [self._wait(*wait) for wait in self.waits]
        shapes += [self._axis(), self._left_out()]
        size = f'viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}"'
        title = f"what {rank_words(self.lanes)} compiled, over {self.seconds:.2f} seconds"
        named = f'role="img" aria-label="{title}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" class="lanes" {size} {named}>{"".join(shapes)}</svg>'

    def _bar(self, compilation: Compilation, is_odd: bool) -> str:
        begins = self.comparison.begins(compilation)
        x = self.x(begins)
        width = max(self.x(begins + compilation.seconds) - x, NARROWEST)
        kind = ("again" if compilation.cause else "made") + (" odd" if is_odd else "")
        which = f", compilation {compilation.number}" if compilation.number > 1 else ""
        label = (
            f"rank {compilation.rank}: {compilation.name} ({compilation.place}){which}, {begins:.2f} s +{compilation.seconds:.2f} s"
        )
        title = f"<title>{escape(label + (f': {compilation.cause}' if compilation.cause else ''))}</title>"
        top = self.lanes[compilation.rank] + 1
        return f'<rect class="{kind}" x="{x:g}" y="{top}" width="{width:g}" height="{BAR}">{title}</rect>'

    def _waits(self) -> list[tuple[int, float, float, str]]:
        """Rank, start, duration and collective of each wait that is drawn."""
        zero = self.comparison.zero
        waits = [
            (rank, arrival.seconds[rank] - zero, waited, arrival.operation)
            for arrival in self.comparison.clock.arrivals()
            for rank, waited in arrival.waited.items()
            if rank in self.lanes and waited >= SHORTEST_WAIT and arrival.seconds[rank] >= zero
        ]
        return sorted(waits, key=lambda wait: -wait[2])[:MOST_WAITS]

    def _wait(self, rank: int, begins: float, seconds: float, operation: str) -> str:
        x, top = self.x(begins), self.lanes[rank] + BAR + 3
        width = max(self.x(begins + seconds) - x, 0.5)
        title = f"<title>{escape(f'rank {rank} was at {operation} {seconds:.2f} s before the last rank')}</title>"
        return f'<rect class="wait" x="{x:g}" y="{top}" width="{width:g}" height="{WAIT}">{title}</rect>'

    def _axis(self) -> str:
        y = self.height - BOTTOM_MARGIN + 2
        marks = [f'<path class="axis" d="M{LEFT_MARGIN} {y}H{WIDTH - RIGHT_MARGIN}"/>']
        for number in range(5):
            at = self.seconds * number / 4
            anchor = "end" if number == 4 else "middle" if number else "start"
            marks.append(f'<text x="{self.x(at):g}" y="{y + 14}" text-anchor="{anchor}">{at:.2f} s</text>')
        return "".join(marks)

    def _left_out(self) -> str:
        hidden = [rank for rank in self.comparison.recordings if rank not in self.lanes]
        return f'<text x="{LEFT_MARGIN}" y="{TOP_MARGIN - 6}">not drawn: {escape(rank_words(hidden))}</text>' if hidden else ""


def _chosen(comparison: SideBySide) -> list[int]:
    """The ranks that get a lane, in order."""
    unlike = comparison.unlike_ranks
    first = sorted(comparison.recordings, key=lambda rank: (rank not in unlike, rank))[:MOST_LANES]
    return sorted(first)
