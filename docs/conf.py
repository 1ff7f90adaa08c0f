"""How the documentation site is built: `make docs`, or `sphinx-build -W -n docs docs/_build/html`.

The sources are Markdown (MyST), the tutorials are the notebooks with the outputs that are saved in them (`make test` compares
those outputs with what the notebooks give today), the reference is made from docstrings. Nothing is fetched, neither when
the site is built nor when it is read: no fonts, no scripts, no styles of other hosts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import dynexplore

sys.path.insert(0, str(Path(__file__).parent))

project = "dynexplore"
author = "the dynexplore authors"
copyright = author
release = version = dynexplore.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "accessible", "anchors", "docstrings", "explorers", "options", "tutorial_links"]
exclude_patterns = ["_build", "_live", "tutorials/sanitize.cfg", "**/.ipynb_checkpoints"]
nitpicky = True
# A literal text in a docstring is code; a name in it is found by the reader, not by the machine.
default_role = "code"
suppress_warnings = ["mystnb.unknown_mime_type"]

# The notebooks: their saved outputs, which a test holds against what they give.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_mime_priority_overrides = [("html", "text/html", 0), ("html", "text/plain", 20)]

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
myst_heading_slug_func = "headings.slug"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "__init__, __new__"}
# Signatures name types in words; nothing is there to link to.
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = "dynexplore"
html_static_path = ["_static"]
html_css_files = ["dynexplore.css"]
# The live explorers, which scripts/gallery.py has made; they land in explorers/.
html_extra_path = ["_live"]
# A summary of a page that a search finds would have to be fetched, which a browser refuses on a disk.
html_show_search_summary = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
