"""Anchors of headings: a kind of graph break is found by its id, `graph-breaks.md#dx104`, whatever its title becomes."""

from __future__ import annotations

import re


def slug(title: str) -> str:
    """The anchor of a heading: as GitHub makes it, but for kinds of graph breaks."""
    kind = re.match(r"(DX\d+):", title)
    if kind:
        return kind[1].lower()
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
