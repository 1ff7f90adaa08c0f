"""Draw the README's two pictures.

    python scripts/readme_pictures.py

In:  examples/toy.py, which is run and recorded; the table of `bench pythons` in docs/reference/benchmarks.md.
Out: docs/pictures/toy.svg, where the function was split; docs/pictures/beside_torch_compile.svg, what a call and a capture cost.
     A test compares both with what this script draws today.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch

import dynexplore
from dynexplore.widgets import pictures

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
ON_A_PAGE = "svg { background: #fff; color: #1f2328 }"  # an image does not inherit the colors of the page that shows it
PYTHON = "3.11"


def toy_picture() -> str:
    """The function of examples/toy.py in one call, for which its `if` is true."""
    sys.path.insert(0, str(ROOT / "examples"))
    from toy import toy

    a, b = torch.tensor([1.0, -3.0]), torch.tensor([2.0, 2.0])
    with dynexplore.config.patch(log_level="ERROR"):
        explanation = dynexplore.explain(toy, a, -b)
    return as_file(pictures.split(explanation)._repr_html_())


def chart() -> str:
    """Microseconds of a warm call and of capturing one operator, as the table of benchmarks.md has them for one Python."""
    page = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| {re.escape(PYTHON)} \|(.*)\|$", page, re.M)
    assert row, "no such row"
    plain, call, *_, capture = row[1].split("|")
    (eager,), (ours, theirs), (our_capture, their_capture) = (
        [float(number) for number in re.findall(r"[\d.]+", cell)] for cell in (plain, call, capture)
    )
    call_bars = pictures.bars({"plain Python": eager, "dynexplore": ours, "torch.compile": theirs}, "µs")._repr_html_()
    capture_bars = pictures.bars({"dynexplore": our_capture, "torch.compile": their_capture}, "µs")._repr_html_()
    return as_file(
        '<svg width="700" height="228" viewBox="0 0 700 228" role="img" aria-label="Cost of a call and of a capture">'
        "<style>.title { font: 600 14px system-ui, sans-serif }</style>"
        f'<text class="title" x="4" y="18">One warm call of a function with one operator (Python {PYTHON})</text>'
        f"{at(26, call_bars)}"
        f'<text class="title" x="4" y="150">Capturing one operator</text>{at(158, capture_bars)}</svg>'
    )


def at(y: int, svg: str) -> str:
    """A picture lower down in another."""
    return svg.replace("<svg ", f'<svg y="{y}" ', 1)


def as_file(svg: str) -> str:
    """A picture of a notebook as a file."""
    styled = svg.replace("<style>", f"<style>{ON_A_PAGE} ", 1)
    return styled.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "toy.svg").write_text(toy_picture(), encoding="utf-8")
    (PICTURES / "beside_torch_compile.svg").write_text(chart(), encoding="utf-8")
