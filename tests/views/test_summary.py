"""views/summary.py: the JSON that programs read, against its schema, and twenty broken programs mended by it alone."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import torch
from views.test_remedies import TRIED, ran

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.tools.tried_remedies import applied
from dynexplore.views.remedies import Remedy
from dynexplore.views.summary import MOST_BYTES, SCHEMA, as_json, of_diagnosis, summary

pytestmark = pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")


def checked(data: dict[str, Any]) -> dict[str, Any]:
    """What a program reads, after the schema was asked."""
    text = as_json(data)
    assert len(text.encode()) <= MOST_BYTES
    read: dict[str, Any] = json.loads(text)
    jsonschema.validate(read, SCHEMA)
    return read


def breaks_at(number: int) -> Any:
    source = f"def f{number}(x):\n    y = x * {number}\n    print(end='')\n    return y\n"
    names: dict[str, Any] = {}
    exec(source, names)
    return names[f"f{number}"]


def test_a_long_recording_fits() -> None:
    """The costliest costs stay, those that are left out are counted."""
    recording = Recording(title="many")
    for number in range(300):
        stack = (ev.UserFrame("/src/" + "long_name_" * 10 + ".py", number + 1, f"f{number}", "y = print(x)  # " + "comment " * 20),)
        recording.record(
            ev.GraphBroke(
                frame=number + 1, kind="DX305", title="print", reason="r", facts=(), user_stack=stack, fix="Move it.", why="w"
            )
        )
    read = checked(summary(recording))
    assert read["costs"] and read["left_out"] + len(read["costs"]) == 300
    assert read["counts"]["breaks"] == 300


@pytest.mark.plain("events made by hand are summarized")
def test_prices_of_guards_and_cuda_graphs_are_in_the_summary() -> None:
    """What was measured of guards and what became of CUDA graphs is there, within the schema and the limit."""
    recording = Recording(title="priced")
    values = tuple(ev.GuardPrice(f"layers[{number}]." + "w" * 400, 3, number * 1e-6) for number in range(24))
    for entry in range(1, 9):
        filters = (ev.FilterPrice("skip_all_guards_unsafe", 0, 42, 1e-7),)
        recording.record(ev.GuardsTimed(frame=0, entry=entry, seconds=entry * 1e-5, values=values, filters=filters))
        recording.record(ev.CudaGraphLogged(frame=0, outcome="skipped", reason=f"cpu device {entry}"))
    read = checked(summary(recording))
    assert [row["entry"] for row in read["guards"]] == [8, 7, 6] and len(read["guards"][0]["values"]) == 3
    assert read["guards"][0]["filters"][0]["saves_us"] == 79.9
    assert read["cuda_graphs"][0] == {"outcome": "skipped", "reason": "cpu device 1", "file": "", "line": 0, "times": 1}


def test_ids_are_the_same_in_every_run() -> None:
    """A program may remember what it has mended."""
    fn = breaks_at(3)
    first, second = (checked(summary(dynexplore.explain(fn, torch.ones(2)).recording)) for _ in range(2))
    assert first["level"] == "break" and first["counts"]["breaks"] == 1
    assert [cost["id"] for cost in first["costs"]] == [cost["id"] for cost in second["costs"]] != []


def test_a_diagnosis_has_one() -> None:
    """Which layer fails, and what to do."""

    def broken(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return lambda *args: tuple(value + 1 for value in graph(*args))

    read = checked(of_diagnosis(dynexplore.diagnose(lambda x: x * 2, torch.ones(2), backend=broken)))
    assert not read["agrees"] and read["failing"] == "backend" and read["failure"] and read["advice"]


# -- twenty broken programs --------------------------------------------------------------------------------------------

PROGRAM = """
import torch
{setup}
def f({parameters}):
    {body}
g = torch.compile(f, backend="eager")
for k in {values}:
    {argument} = {expression}
    g({call})
"""


def program(
    body: str, argument: str = "x", expression: str = "torch.ones(k + 3, 2)", setup: str = "", values: str = "range(4)"
) -> str:
    parameters = argument if argument == "x" else f"x, {argument}"
    call = argument if argument == "x" else f"torch.ones(3), {argument}"
    return PROGRAM.format(
        setup=setup, parameters=parameters, body=body, values=values, argument=argument, expression=expression, call=call
    )


OF_THE_TABLE = ("dynamic-source", "dynamic-number", "module-int", "parameter-sizes", "float", "scalar-outputs")
TWENTY: dict[str, str] = {
    **{name: TRIED[name] for name in OF_THE_TABLE},
    "nonzero": TRIED["dynamic-outputs"],
    "print": TRIED["print"],
    "columns": program("return x.sum(0)", expression="torch.ones(2, k + 3)"),
    "batch of a layer": program("return layer(x)", setup="layer = torch.nn.Linear(2, 2)"),
    "reshape": program("return x.reshape(-1) * x.shape[0]"),
    "int in a slice": program("return x[:n]", "n", "k % 3 + 2"),
    "float learning rate": program("return x * lr", "lr", "0.1 * (k + 1)"),
    "mask": program("return x[x > 0].sum()", values="range(1)"),
    "item in a product": program("return x * x.max().item()", values="range(1)"),
    "tolist": program("return x * x.sum(0).tolist()[0]", values="range(1)"),
    "print in a loop": program("for _ in range(2): x = x * 2; print('loop')\n    return x", values="range(1)"),
    "str": program("return x * len(word)", "word", "'a' * (k + 1)"),
    "flag that changes": program("return x * 2 if flag else x", "flag", "k % 2 == 0"),
    "list that grows": program("return x + sum(xs)", "xs", "[torch.ones(3)] * (k + 1)"),
}  # fmt: skip
"""A name -> a program that recompiles or breaks. The last three have no change that can be pasted: only a person can mend them."""


def mended_by(data: dict[str, Any], source: str) -> bool:
    """Whether a remedy of the JSON, pasted where it says, leaves fewer graph breaks and recompiles: nothing else is looked at."""
    before = data["counts"]["breaks"] + data["counts"]["recompiles"]
    for cost in data["costs"]:
        for remedy in cost["remedies"]:
            text, environment = pasted(remedy, cost, source)
            if text == source and not environment:
                continue
            after = summary(ran(text, environment))["counts"]
            if after["breaks"] + after["recompiles"] < before:
                return True
    return False


def pasted(remedy: dict[str, str], cost: dict[str, Any], source: str) -> tuple[str, dict[str, str]]:
    if remedy["how"] == "by hand":
        return source, {}
    if remedy["how"] != "call":
        return applied(Remedy(remedy["id"], remedy["text"], remedy["how"], ""), None, source, "<program>")  # type: ignore[arg-type]
    lines = source.splitlines(keepends=True)
    calls = [number for number, line in enumerate(lines) if line.strip().startswith("g(")]
    at = calls[0]
    lines.insert(at, lines[at][: len(lines[at]) - len(lines[at].lstrip())] + remedy["text"] + "\n")
    return "".join(lines), {}


@pytest.mark.lenses
def test_twenty_broken_programs_are_mended_with_the_json_alone() -> None:
    """At least sixteen of the twenty."""
    assert len(TWENTY) == 20
    mended = {name: mended_by(checked(summary(ran(source))), source) for name, source in TWENTY.items()}
    left = [name for name, is_mended in mended.items() if not is_mended]
    assert len(left) <= 4, left
