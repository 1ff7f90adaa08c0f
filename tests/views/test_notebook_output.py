"""views/notebook_output.py: what a saved notebook shows."""

from __future__ import annotations

from dynexplore.views.notebook_output import mimebundle, separate_output
from sample_recordings import toy


def test_headline_picture_and_source_come_first() -> None:
    """In this order, before the sections that are closed; there is no script."""
    html = mimebundle(toy())["text/html"]
    places = [html.index(part) for part in ("2 graphs, 1 graph break", "<svg", "graph break: `if`", "<details")]
    assert places == sorted(places)
    assert "<script" not in html


def test_an_output_before_the_widget() -> None:
    """The same, in an element that its style hides while the next output is an explorer."""
    bundle = mimebundle(toy())
    output = separate_output(bundle["text/html"], bundle["text/plain"])
    assert output["text/plain"] == bundle["text/plain"]
    assert output["text/html"].startswith('<div class="dynx-saved"><style>') and bundle["text/html"] in output["text/html"]
