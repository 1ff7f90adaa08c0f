"""Anchors of headings: what has an id is found by it, whatever its title becomes: `graph-breaks.md#dx104`."""

from __future__ import annotations

import re


def slug(title: str) -> str:
    """The anchor of a heading: as GitHub makes it, but for kinds of graph breaks and reasons to skip a backend."""
    entry = re.match(r"((?:DX|BE)\d+):", title)
    if entry:
        return entry[1].lower()
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
