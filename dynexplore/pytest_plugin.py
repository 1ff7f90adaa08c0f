"""The pytest plugin: limits on the graphs, graph breaks and recompiles of a test.

The idea: a test states its expected counts, in a `with` block, by a marker or by a snapshot, and a failure names the unexpected
graph break or recompile and its page. pytest loads this file in every run (entry point `pytest11`), so it imports only pytest until
a test uses it: a run without such tests does not import torch.

In: `with compiles(graphs=1, breaks=0, recompiles=0): step(x)`, `with compiles(snapshot=True): ...`, or
`@pytest.mark.compiles(graphs=1, breaks=0)`; the options `--compiles-update` and `--compiles-pages DIR`.
Out: a failing test with the ranked list, and a page in the test's folder.

PyTorch's counterpart: none; its own tests count with `CompileCounter` in torch/_dynamo/testing.py.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dynexplore.watching.counted_block import CountedBlock

FOLDER = "__compiles__"
"""The folder next to a test file that contains the snapshots of its tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    group = parser.getgroup("dynexplore")
    group.addoption("--compiles-update", action="store_true", help="write the snapshots of graph breaks that tests compare with")
    group.addoption("--compiles-pages", type=Path, metavar="DIR", help="where the pages of failing tests go (the test's tmp_path)")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "compiles(graphs, breaks, recompiles, engine): the test captures so many graphs, breaks so often (dynexplore)"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Count the captures of a test with the marker."""
    mark = item.get_closest_marker("compiles")
    if mark is None:
        return (yield)
    with Compiles(item)(*mark.args, **mark.kwargs):
        return (yield)


@pytest.fixture
def compiles(request: pytest.FixtureRequest) -> Compiles:
    """Count graphs, graph breaks and recompiles in a `with` block: `with compiles(graphs=1, breaks=0, recompiles=0): step(x)`."""
    return Compiles(request.node)


@contextlib.contextmanager
def _without_trace_capture() -> Iterator[None]:
    """Detach pytest's log capture (9.2 and later) from torch's trace logger, which a block enables: it would format every event of
    a compilation.
    """
    trace = logging.getLogger("torch.__trace")
    hearing = [handler for handler in trace.handlers if type(handler).__module__ == "_pytest.logging"]
    for handler in hearing:
        trace.removeHandler(handler)
    try:
        yield
    finally:
        for handler in hearing:
            trace.addHandler(handler)


class Compiles:
    """The expected counts of a test's blocks."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._blocks = 0

    @contextlib.contextmanager
    def __call__(
        self,
        *,
        graphs: int | None = None,
        breaks: int | None = None,
        recompiles: int | None = None,
        snapshot: bool = False,
        engine: str | None = None,
    ) -> Iterator[CountedBlock]:
        """Fail unless the block has the expected numbers of graphs, graph breaks and recompiles; None: do not check. `snapshot`:
        compare the graph breaks with the snapshot next to the test file. `engine`: count only "torch.compile", or only
        "dynexplore"; None: both.
        """
        from dynexplore.watching import counted_block

        self._blocks += 1
        block = counted_block.CountedBlock(self._item.name, engine)
        with _without_trace_capture(), block:
            yield block
        expected = {"graphs": graphs, "breaks": breaks, "recompiles": recompiles}
        wrong = counted_block.mismatches(block.counts, expected)
        if wrong and (hint := counted_block.hint(block, expected)):
            wrong.append(hint)
        wrong += self._changed(counted_block.breaks_of(block)) if snapshot else []
        if wrong:
            pages = counted_block.save_pages(block, self._folder())
            seen = [f"Explorer: {path}" for path in pages]
            pytest.fail("\n".join([*wrong, "", counted_block.report(block), "", *seen]).rstrip(), pytrace=False)

    def _folder(self) -> Path:
        pages: Path | None = self._item.config.getoption("--compiles-pages")
        if pages is None:
            folder: Path = self._item._request.getfixturevalue("tmp_path")  # type: ignore[attr-defined]
            return folder
        folder = pages / re.sub(r"[^\w.-]+", "_", self._item.nodeid)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _changed(self, now: dict[str, int]) -> list[str]:
        """The changes since the snapshot; with `--compiles-update`, write it instead."""
        from dynexplore.watching.counted_block import changed_breaks

        path = self._item.path.parent / FOLDER / f"{self._item.path.stem}.json"
        snapshots: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        key = f"{self._item.nodeid.partition('::')[2]} {self._blocks}"
        if self._item.config.getoption("--compiles-update"):
            path.parent.mkdir(exist_ok=True)
            snapshots[key] = now
            path.write_text(json.dumps(snapshots, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
            return []
        if key not in snapshots:
            return [f"there is no snapshot of this block: pytest --compiles-update writes {FOLDER}/{path.name}"]
        return changed_breaks(snapshots[key], now)
