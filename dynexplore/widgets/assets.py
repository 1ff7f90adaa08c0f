"""The two hand-written files of the explorer, static/explorer.js and static/explorer.css, as text.

Which idea lives here: there is no build step. What a person reads in the repository is what the browser gets, in the
notebook (explorer.py) and in the HTML file (html.py).

In:  the package's own files.
Out: `SCRIPT`, an ES module that exports `mount`, and `STYLE`.

PyTorch has no counterpart.
"""

from __future__ import annotations

from importlib import resources

_STATIC = resources.files(__package__) / "static"

SCRIPT = (_STATIC / "explorer.js").read_text(encoding="utf-8")
STYLE = (_STATIC / "explorer.css").read_text(encoding="utf-8")
