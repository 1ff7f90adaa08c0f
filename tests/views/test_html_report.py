"""views/html_report.py: parts of a report, escaped, put one below the other."""

from __future__ import annotations

from dynexplore.views import html_report

NASTY = "<script>alert('x')</script>&"


def test_every_text_is_escaped() -> None:
    """Whatever part it stands in."""
    parts = (
        html_report.line(NASTY),
        html_report.rows((NASTY,), [(NASTY,)], NASTY),
        html_report.code(NASTY),
        html_report.side_by_side((NASTY, html_report.code(NASTY))),
        html_report.to_copy(NASTY, NASTY),
    )
    page = html_report.report(*parts)
    assert "<script>" not in page and page.count("&lt;script&gt;") == 9
    assert html_report.line("") == ""


def test_a_text_to_copy_is_there_without_scripts() -> None:
    """It opens by itself, and the button stands beside it."""
    part = html_report.to_copy("copy as an issue report", "### title")
    assert part.startswith("<details><summary>") and "<pre>### title</pre>" in part and "clipboard" in part
