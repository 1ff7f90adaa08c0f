"""Draw the README's pictures.

    python scripts/readme_pictures.py [--screenshot [PAGE]]

In:  examples/toy.py and the README's own programs, which are run and recorded; the table of `bench pythons` in
     docs/reference/benchmarks.md; with --screenshot, the script train.py of docs/guide/scripts.md.
Out: docs/pictures/NAME.svg for each row of PICTURES, which a test compares with what this script draws today; with --screenshot,
     docs/pictures/overview.png, the explorer's Overview of train.py in the system's Chromium. PAGE is the HTML page of an
     earlier `dynexplore explain train.py`, from an idle machine: the picture shows times.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import dynexplore
from dynexplore.widgets import pictures

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
README = ROOT / "README.md"
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


def program_of_the_readme(name: str) -> dict[str, Any]:
    """The names that the README's Python blocks define up to the one that assigns `name`."""
    names: dict[str, Any] = {}
    sys.path.insert(0, str(ROOT / "examples"))
    with dynexplore.config.patch(log_level="ERROR"):
        for block in re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S):
            exec(block, names)
            if name in names:
                return names
    raise LookupError(f"no Python block of the README assigns {name}")


def recompile_picture() -> str:
    """Which calls of the README's second program hit, and which recompiled."""
    return as_file(pictures.calls(program_of_the_readme("calls")["calls"])._repr_html_())


def layers_picture() -> str:
    """Which layer is the first to differ in the README's third program."""
    return as_file(pictures.layers(program_of_the_readme("diagnosis")["diagnosis"])._repr_html_())


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


def screenshot(explained: Path | None) -> None:
    """The Overview of a whole script, as a browser shows it; `explained` is its page if it was explained before."""
    from playwright.sync_api import sync_playwright

    page_text = (ROOT / "docs" / "guide" / "scripts.md").read_text(encoding="utf-8")
    script = re.search(r'Path\("train\.py"\)\.write_text\("""(.*?)"""\)', page_text, re.S)
    assert script, "no such block"
    with tempfile.TemporaryDirectory() as folder:
        train, html = Path(folder, "train.py"), explained or Path(folder, "train.html")
        train.write_text(script[1], encoding="utf-8")
        if explained is None:
            subprocess.run([sys.executable, "-m", "dynexplore", "explain", train, "--html", html], check=True, cwd=folder)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1100, "height": 620}, color_scheme="light")
            page.goto(html.as_uri())
            page.evaluate("async () => { while (!('dynexplore' in globalThis)) await new Promise(requestAnimationFrame); }")
            page.wait_for_timeout(1000)  # the picture of the timeline is drawn a frame later
            page.screenshot(path=FOLDER / "overview.png")
            browser.close()


PICTURES: dict[str, Callable[[], str]] = {
    "toy": toy_picture,
    "recompile": recompile_picture,
    "layers": layers_picture,
    "beside_torch_compile": chart,
}
"""What each picture is drawn by."""


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
    if "--screenshot" in sys.argv[1:]:
        screenshot(Path(sys.argv[2]).resolve() if sys.argv[2:] else None)
