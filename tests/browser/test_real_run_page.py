"""The real run in a real Chromium: its column, its badges, the flag at the first divergence, and that a clean run is clean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from playwright.sync_api import Page

import dynexplore
from browser.pages import Opened, pane, status, tab, table_rows
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.operators import binary
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.recording.recording import Recording


def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return torch.relu(x) * b


def recorded(**options: Any) -> Recording:
    """The recording of a call whose branch is not taken."""
    dynexplore.reset()
    return dynexplore.explain(program, **options)(torch.tensor([1.0, -2.0]), torch.ones(2)).recording  # type: ignore[no-any-return]


def real_cells(page: Page) -> list[str]:
    """The texts of the real values of stack and locals."""
    tab(page, "state")
    return [" ".join(text.split()) for text in pane(page, "state", " .dynx-real-value").all_inner_texts()]


def to_step(page: Page, text: str) -> None:
    """Press the right arrow until the step is the one that is wanted."""
    page.locator(".dynexplore").focus()
    for _ in range(200):
        if status(page).endswith(text):
            return
        page.keyboard.press("ArrowRight")
    raise AssertionError(f"no step {text}")


def test_a_clean_run_says_so(opened: Opened) -> None:
    """No flag; a sentence in the head, the runs with their wall time, real values beside the symbolic ones."""
    page = opened(recorded())
    assert page.locator(".dynx-flag").count() == 0
    assert page.locator(".dynx-diverges").count() == 0
    assert "Matches plain Python" in page.locator(".dynx-control-real").inner_text()
    shown = pane(page, "real").first.inner_text()
    assert "Matches eager: 2 runs of graphs" in shown
    assert shown.count(" ms") == 2
    to_step(page, "BINARY_OP +")
    cells = real_cells(page)
    assert "replayed min 2 mean 2.5 max 3, first 2, 3" in cells  # |a| + 1, inside the graph
    assert "min -2 mean -0.5 max 1, first 1, -2" in cells  # the argument a, of the call itself
    assert "rule: operators.py" in pane(page, "state").inner_text()
    to_step(page, "BINARY_OP /")
    assert any("first 0.5, -0.66667" in cell and "replayed" not in cell for cell in real_cells(page))  # an output


def test_the_tables_of_a_real_run(opened: Opened) -> None:
    """Runs of graphs, locals of the modified code, and beside each symbolic value the real one, each by its heading."""
    page = opened(recorded())
    run = table_rows(page, ".dynx-real table[aria-label^=Runs]")[0]
    assert run.pop("wall time").endswith(" ms") and run.pop("compared with the replay").endswith("equal")
    assert run.pop("graph").startswith("__compiled_fn") and run == {"frame": "1", "run": "1"}
    ran = table_rows(page, ".dynx-real table[aria-label^=Locals]")
    assert {"when": "entry", "name": "a", "real value": "min -2 mean -0.5 max 1, first 1, -2"} in ran
    to_step(page, "BINARY_OP +")
    (pushed,) = [row for row in table_rows(page, ".dynx-state table[aria-label^=Symbolic]") if row.pop("±") == "+"]
    assert pushed.pop("slot").isdigit() and pushed.pop("value").startswith("add: float32[")
    assert pushed == {"real value": "replayed min 2 mean 2.5 max 3, first 2, 3"}
    (local,) = [row for row in table_rows(page, ".dynx-state table[aria-label=Locals]") if row.pop("local") == "a"]
    assert local.pop("value").startswith("a: float32[")
    assert local == {"±": "", "real value": "min -2 mean -0.5 max 1, first 1, -2", "before": ""}


def test_a_wrong_handler_is_flagged_at_its_step(opened: Opened) -> None:
    """The flag jumps to the very instruction that was interpreted wrongly, and names the rule that ran."""

    def subtracts(frame: Any, step: Any, ctx: Any) -> None:
        right, left = frame.pop(), frame.pop()
        frame.push(binary(ctx, {"+": "-"}.get(step.arg, step.arg), left, right))

    with dispatch.override("BINARY_OP", subtracts):
        recording = recorded()
    page = opened(recording)
    page.locator(".dynx-flag").click()
    assert status(page).endswith(": BINARY_OP +")
    said = pane(page, "state", " .dynx-diverges").inner_text()
    assert "BINARY_OP +: element [0] expected 2, found 0" in said
    assert "subtracts" in pane(page, "state").inner_text()
    page.keyboard.press("ArrowRight")
    assert pane(page, "state", " .dynx-diverges").count() == 0


class Point:
    """Made in the frame."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def containers(a: torch.Tensor) -> Any:
    items = [a * n for n in range(1, 3)]
    found = {"one": items[0]}
    found["all"] = items
    point = Point(items[1])
    return items, found, point.x + 1


def in_containers() -> Recording:
    """The recording of a call that fills a list, a dict and an object."""
    dynexplore.reset()
    return dynexplore.explain(containers)(torch.ones(2)).recording  # type: ignore[no-any-return]


def stores_nothing(frame: Any, step: Any, ctx: Any) -> None:
    frame.popn(3)


def appends_twice(frame: Any, step: Any, ctx: Any) -> None:
    item = frame.pop()
    frame.stack[-step.arg].items.extend([item, item])


def stores_another(frame: Any, step: Any, ctx: Any) -> None:
    owner, _ = frame.pop(), frame.pop()
    owner.set_attribute(ctx, step.arg, ConstantVariable(1))


def unpacks_another(frame: Any, step: Any, ctx: Any) -> None:
    key, container = frame.pop(), frame.pop()
    frame.push(container.get_item(ctx, ConstantVariable(1 - key.as_constant())))


@pytest.mark.parametrize(
    ("op", "handler", "said"),
    [
        ("LIST_APPEND", appends_twice, "length of the list expected 1: float32[2] cpu (mul), found 2"),
        ("STORE_SUBSCR", stores_nothing, "length of the dict expected 2: 'one': float32[2] cpu (mul), 'all': list of 2"),
        ("STORE_ATTR", stores_another, "attribute x expected float32[2] cpu (mul_1), found 1"),
        ("BINARY_SUBSCR", unpacks_another, "value expected float32[2] cpu (mul), found float32[2] cpu (mul_1)"),
    ],
)
def test_a_wrong_handler_of_containers_is_flagged_at_its_step(opened: Opened, op: str, handler: Any, said: str) -> None:
    """One that only changes what a list, a dict or an object holds: flagged at that very instruction."""
    with dispatch.override(op, handler):
        recording = in_containers()
    page = opened(recording)
    page.locator(".dynx-flag").click()
    assert f": {op}" in status(page)
    assert said in pane(page, "state", " .dynx-diverges").first.inner_text()
    assert handler.__name__ in pane(page, "state").inner_text()


def test_containers_and_objects_have_real_values(opened: Opened) -> None:
    """Lists, dicts and objects that were made in the frame are put together from their items, at each step."""
    page = opened(in_containers())
    assert page.locator(".dynx-flag").count() == 0
    to_step(page, "LIST_APPEND 2")
    to_step(page, "STORE_SUBSCR")
    cells = real_cells(page)
    assert "replayed list of 2: float32[2] cpu (1, 1), float32[2] cpu (2, 2)" in cells
    assert any(cell.startswith("replayed dict of 2: 'one': float32[2] cpu (1, 1), 'all': list of 2") for cell in cells)
    to_step(page, "STORE_FAST point")
    assert "replayed a Point: x = float32[2] cpu (2, 2)" in real_cells(page)


def test_a_backend_that_is_off_is_flagged_at_the_output(opened: Opened) -> None:
    """Off by 1e-2: the step that made the first output is flagged; the list leads to the others, in another frame too."""

    def off(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return lambda *args: tuple(value + 1e-2 if value.is_floating_point() else value for value in graph(*args))

    page = opened(recorded(backend=off))
    page.locator(".dynx-flag").click()
    assert status(page).endswith("BINARY_OP /")
    assert "the backend's output differs from that of the graph" in pane(page, "state", " .dynx-diverges").inner_text()
    pane(page, "real", " .dynx-divergences button").last.click()
    assert ", from line" in pane(page, "frames", " [aria-current].dynx-frame").inner_text()
    assert status(page).endswith("BINARY_OP *")


def test_without_the_real_run_there_is_no_column(opened: Opened) -> None:
    """Neither pane nor flag nor column where nothing was recorded."""
    page = opened(recorded(real=False))
    assert page.locator(".dynx-real, .dynx-control-real, .dynx-real-value").count() == 0
