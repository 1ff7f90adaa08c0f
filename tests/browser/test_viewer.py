"""The viewer: the page without a recording, which opens files that are dropped on it, and files of its own server."""

from __future__ import annotations

import base64
import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page, expect

import dynexplore
from browser.pages import Heard
from dynexplore.widgets.html import viewer

X = torch.ones(2, 4)


def doubles(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def triples(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A viewer, two recordings in each form, and files that the viewer cannot show."""
    saved = tmp_path_factory.mktemp("viewer")
    for name, function in (("before", doubles), ("after", triples)):
        for ending in ("html", "json", "json.gz"):
            dynexplore.explain(function, X).save(saved / f"{name}.{ending}")
    (saved / "bare.json").write_text(dynexplore.explain(doubles, X).recording.to_json(), encoding="utf-8")
    (saved / "damaged.json.gz").write_bytes((saved / "before.json.gz").read_bytes()[:200])
    (saved / "none.html").write_text("<p>nothing</p>", encoding="utf-8")
    (saved / "viewer.html").write_text(viewer(), encoding="utf-8")
    return saved


@pytest.fixture
def page(browser: Browser, folder: Path) -> Iterator[Page]:
    """The viewer, opened from the disk; it asks for nothing but itself, and nothing goes wrong."""
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    heard = Heard()
    heard.listen(opened)
    opened.goto((folder / "viewer.html").as_uri())
    opened.locator(".dynx-drop").wait_for()  # before, it takes no files
    yield opened
    opened.close()
    assert heard.errors == [] and len(heard.requests) == 1


DROP = """async ([files]) => {
  const transfer = new DataTransfer();
  const bytes = (letters) => Uint8Array.from(atob(letters), (one) => one.charCodeAt(0));
  for (const { name, letters } of files) transfer.items.add(new File([bytes(letters)], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


def drop(page: Page, *files: Path) -> None:
    """Drop files on the page."""
    page.evaluate(DROP, [[{"name": file.name, "letters": base64.b64encode(file.read_bytes()).decode()} for file in files]])


@pytest.mark.parametrize("endings", [("html", "json"), ("json", "json.gz"), ("json.gz", "html")])
def test_two_files_are_dropped(page: Page, folder: Path, endings: tuple[str, str]) -> None:
    """A saved page, a recording or a packed one is opened, and compared with a second one of any form."""
    drop(page, folder / f"before.{endings[0]}", folder / f"after.{endings[1]}")
    compared = page.locator(".dynx-compare")
    expect(compared.locator(".dynx-called")).to_have_count(2)  # each has a function that the other has not
    assert compared.locator(".dynx-called").first.inner_text().startswith("doubles")
    expect(compared).to_contain_text("0 graph breaks in both; 1 graph in both")
    expect(compared.locator(".dynx-sides")).to_contain_text("First difference")
    page.keyboard.press("s")
    expect(compared.locator(".dynx-called").first).to_contain_text("triples")


def test_a_second_file_is_dropped_later(page: Page, folder: Path) -> None:
    """The first is opened by the button; what is dropped on its explorer is compared with it."""
    page.locator(".dynx-file input").set_input_files(folder / "before.json.gz")
    expect(page.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")
    drop(page, folder / "after.json")
    expect(page.locator(".dynx-compare")).to_contain_text("1 graph in both")


def test_a_file_without_a_page_says_what_to_do(page: Page, folder: Path) -> None:
    """What `to_json` returns has no page; a damaged file and another page have no recording."""
    for name, words in (
        ("bare.json", "dynexplore open bare.json --pack packed.json.gz"),
        ("damaged.json.gz", "damaged.json.gz has no recording"),
        ("none.html", "none.html has no recording"),
    ):
        drop(page, folder / name)
        expect(page.get_by_role("status")).to_contain_text(words)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """Serves the folder on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_told: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.mark.parametrize("name", ["before.html", "before.json", "before.json.gz"])
def test_the_address_names_a_file_of_the_same_server(browser: Browser, server: str, name: str) -> None:
    """`?rec=` opens it; nothing else is asked for."""
    page = browser.new_page()
    heard = Heard()
    heard.listen(page)
    address = f"{server}/viewer.html?rec={name}"
    page.goto(address)
    expect(page.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")
    assert heard.errors == []
    assert [url for url in heard.requests if not url.endswith("favicon.ico")] == [address, f"{server}/{name}"]
    page.close()


def test_a_file_of_another_server_is_not_asked_for(browser: Browser, server: str, folder: Path) -> None:
    """Neither of another server nor, opened from the disk, of the disk: the page says that it must be dropped."""
    for address in (f"{server}/viewer.html?rec=http://127.0.0.1:9/a.html", f"{(folder / 'viewer.html').as_uri()}?rec=before.html"):
        page = browser.new_page()
        heard = Heard()
        heard.listen(page)
        page.goto(address)
        expect(page.get_by_role("status")).to_contain_text("A page opens recordings of its own server only: drop")
        assert [url for url in heard.requests if not url.endswith("favicon.ico")] == [address]
        page.close()
