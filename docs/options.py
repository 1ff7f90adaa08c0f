"""The table of `dynexplore.config`: each option with its type, its default and what it does, read from the source.

The directive `options` stands where the table is to be. An option's description is the text below it in engine/config.py.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.pycode import ModuleAnalyzer

import dynexplore


class Options(Directive):
    """One row per option."""

    def run(self) -> list[nodes.Node]:
        holder = type(dynexplore.config)
        analyzer = ModuleAnalyzer.for_module(holder.__module__)
        texts = analyzer.find_attr_docs()
        lines = [
            ".. list-table::",
            "   :header-rows: 1",
            "   :widths: 30 15 55",
            "",
            "   * - option",
            "     - default",
            "     - what it does",
        ]
        for name in dynexplore.config.as_dict():
            words = " ".join(texts[holder.__name__, name]).replace("`", "``")
            lines += [f"   * - ``{name}``", f"     - ``{getattr(holder, name)!r}``", f"     - {words}"]
        node = nodes.section()
        node.document = self.state.document
        self.state.nested_parse(StringList(lines, source="options"), 0, node)
        return node.children


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_directive("options", Options)
    return {"parallel_read_safe": True}
