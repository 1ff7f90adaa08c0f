"""Sliders and switches on a bare page: they move, and their keys stay theirs, whoever hears them first."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from dynexplore.widgets.controls import Controls

pytestmark = pytest.mark.plain("widgets without a capture")

RENDERS = """async ([script, controls, values]) => {
  const { default: widget } = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const [state, heard, listeners] = [{ controls, values, html: "<p>here</p>" }, [], new Map()];
  const model = {
    get: (name) => state[name], save_changes: () => {},
    on: (name, call) => listeners.set(name, call), off: (name) => listeners.delete(name),
    set: (name, value) => { state[name] = value; listeners.get(`change:${name}`)?.(); },
  };
  Object.assign(globalThis, { state, heard, listeners });
  const leftOut = "data-lm-suppress-shortcuts";
  document.addEventListener("keydown", ({ key, target }) => target.hasAttribute(leftOut) || heard.push(key), true);
  globalThis.end = widget.render({ model, el: document.querySelector("main") });
}"""
"""A page that hears keys at the document, as Notebook 7 does, and leaves out what its shortcuts leave out."""


def test_keys_of_a_control_do_not_reach_the_notebook(browser: Browser) -> None:
    """`d d` on a switch deleted the cell, and arrow keys went to the notebook before the slider; saving still reaches it."""
    page = browser.new_page()
    page.set_content("<main></main><button id=other>other</button>")
    controls = Controls({"size": 4, "on": False}, lambda: "", {"size": 12})
    page.evaluate(RENDERS, [controls._esm, controls.controls, controls.values])
    page.get_by_role("button", name="on").focus()
    for key in ("d", "d", "Enter"):
        page.keyboard.press(key)
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("[heard, state.values]") == [[], {"size": 5, "on": True}]
    assert page.get_by_role("button", name="on").get_attribute("aria-pressed") == "true"
    page.keyboard.press("Control+s")
    page.locator("#other").press("d")
    assert [key for key in page.evaluate("heard") if key != "Control"] == ["s", "d"]
    page.evaluate("end()")
    page.get_by_role("slider").press("d")
    assert page.evaluate("[heard.at(-1), listeners.size]") == ["d", 0]
    page.context.close()
