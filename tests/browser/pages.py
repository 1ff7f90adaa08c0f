"""Recordings opened as files in the system's Chromium, for tests of the bare page."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Locator, Page

from dynexplore.recording.recording import Recording
from dynexplore.widgets import html


def resize(page: Page, width: int, height: int) -> None:
    """Give the page another size, and let the explorer take its places there, which it does a frame after it hears of it."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


SHOWN = "async () => { while (!('dynexplore' in globalThis)) await new Promise(requestAnimationFrame); }"
"""Waits until data and script are unpacked and the explorer is there; wait_for_function would use eval, which such pages forbid."""


class Heard:
    """What pages complain of (`errors`: whatever their consoles show) and ask for (`requests`)."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._listening = True

    def listen(self, page: Page) -> None:
        """To this page from now on."""
        page.on("pageerror", lambda error: self._keep(self.errors, str(error)))
        page.on("console", lambda said: self._keep(self.errors, said.text))
        page.on("request", lambda request: self._keep(self.requests, request.url))

    def end(self) -> None:
        """What is said and asked from here on is somebody else's: a tool's that looks at the page, and may say it late."""
        self._listening = False

    def _keep(self, said: list[str], text: str) -> None:
        if self._listening and not text.startswith("blob:"):  # blob: is what the page itself made
            said.append(text)


class Opened(Heard):
    """Opens recordings as files, and keeps every error of the page and every request but that for the file itself."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        super().__init__()
        self.browser, self.folder = browser, folder

    def __call__(
        self,
        recording: Recording,
        *,
        change: tuple[str, str] = ("", ""),
        graphviz: bool = False,
        place: str = "",
        view: str = "story",
        **context: object,
    ) -> Page:
        """The page, at a `place` that its address names (`#frame=1&step=2`); `change` replaces a text of the file. It shows
        `view`, steps by instruction, through discarded attempts too, and draws every node of a diagram; "" leaves it as it opens.
        """
        path = self.folder / "recording.html"
        text = html.page(recording, graphviz=graphviz)
        assert change[0] in text, f"the page holds no {change[0]}"
        path.write_text(text.replace(*change) if change[0] else text, encoding="utf-8")
        page = self.browser.new_page(viewport={"width": 1400, "height": 1000}, **context)  # type: ignore[arg-type]
        self.listen(page)
        page.goto(path.as_uri() + place)
        if context.get("java_script_enabled", True):
            page.evaluate(SHOWN)
            if view:
                page.evaluate(
                    "view => { if (globalThis.dynexplore?.frame) { dynexplore.tabs.openAgain(view);"
                    " dynexplore.stepper.stepBy('instruction'); dynexplore.stepper.showAttempts(true);"
                    " dynexplore.views.forEach((one) => one.showAll?.()); } }",
                    view,
                )
        self.requests.remove(path.as_uri())
        return page


TABS = {
    **dict.fromkeys(("source", "boxes", "growing"), "Story"),
    **dict.fromkeys(("original", "modified", "python", "state", "frames", "breaks", "real", "artefacts"), "Story"),
    **dict.fromkeys(("graph", "diagram", "memory"), "Graph"),
    **dict.fromkeys(("guards", "timeline", "miss", "what-if", "live"), "Recompiles"),
    "compare": "Compare",
}
"""Pane -> the title of the view in which it stands."""


def tab(page: Page | Locator, pane: str) -> None:
    """Open the view in which a pane stands, of a page or of one explorer; the focus stays where it is."""
    _press(page.locator(".dynx-tablist [role=tab]", has_text=TABS[pane]).first, "aria-selected")
    turn = page.locator(f".dynx-turn[data-pane='{pane}']").first
    if turn.count():
        _press(turn, "aria-pressed")


def _press(button: Locator, state: str) -> None:
    if button.get_attribute(state) != "true":
        button.evaluate(
            "button => { const before = document.activeElement; button.click(); before?.focus?.({ preventScroll: true });"
            " if (!before?.offsetParent) button.closest('.dynexplore').focus({ preventScroll: true }); }"
        )


def pane(page: Page | Locator, key: str, inside: str = "") -> Locator:
    """A pane whose tab is opened, or what stands in it."""
    tab(page, key)
    return page.locator(f".dynx-{key}{inside}")


def status(page: Page) -> str:
    """What the stepper says."""
    return page.locator(".dynx-status").inner_text()


def rows(page: Page, pane: str, mark: str) -> list[str]:
    """The texts of the marked rows of a pane, whose tab is opened."""
    if pane in TABS:
        tab(page, pane)
    return [" ".join(text.split()) for text in page.locator(f".dynx-{pane} .dynx-{mark}").all_inner_texts()]


def node(page: Page, name: str) -> None:
    """Click the row of a node."""
    pane(page, "graph", " tbody tr").filter(has=page.get_by_role("cell", name=name, exact=True)).first.click()


def table_rows(page: Page, selector: str) -> list[dict[str, str]]:
    """The rows of the tables there, each as what stands below which heading."""
    key = selector.removeprefix(".dynx-").partition(" ")[0]
    if key in TABS:
        tab(page, key)
    found: list[dict[str, str]] = page.eval_on_selector_all(
        selector,
        "tables => tables.flatMap(table => { const names = [...table.tHead.rows[0].cells].map(c => c.textContent);"
        " return [...table.tBodies[0].rows].map(row =>"
        " Object.fromEntries([...row.cells].map((c, at) => [names[at], c.textContent.trim()]))); })",
    )
    return found
