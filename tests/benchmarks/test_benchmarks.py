"""The benchmarks run from end to end on one small model each, in a process of their own; no figure is judged."""

from __future__ import annotations

import functools
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dynexplore.engine.config import config
from source_tree import ROOT


def run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`dynexplore bench NAME ...`."""
    command = [sys.executable, "-m", "dynexplore", "bench", name, *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def rows_of(name: str, tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    """The rows that a benchmark writes as JSON; it shows them as a table as well. Each figure is taken once."""
    out = tmp_path / "rows.json"
    done = run(name, "--repeats", "1", *words, "--quick", "--json", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "━" in done.stdout and "…" not in done.stdout
    rows: list[dict[str, Any]] = json.loads(out.read_text())["rows"]
    assert [row["model"] for row in rows] == [words[-1], "all"]
    return rows


def test_coverage(tmp_path: Path) -> None:
    """Shares of operators and time, graphs and calls beside torch.compile's."""
    row, total = rows_of("coverage", tmp_path, "--models", "unet")
    assert row["operators %"] == 100 == total["operators %"] and row["graphs"] == row["torch.compile graphs"] == 1
    assert row["calls"] == row["torch.compile calls"]


def test_overhead(tmp_path: Path) -> None:
    """Capture and warm calls of both."""
    row, _ = rows_of("overhead", tmp_path, "--models", "recommender")
    assert row["capture s"] > 0 and row["warm"] > 0 and row["torch.compile warm"] > 0


def test_accuracy(tmp_path: Path) -> None:
    """A model that breaks is right, too."""
    row, total = rows_of("accuracy", tmp_path, "--models", "chatty")
    assert row["dynexplore eager"] == row["dynexplore aot_eager"] == "ok" and total["dynexplore eager"] == "1/1"


def test_speedup(tmp_path: Path) -> None:
    """Inductor behind both."""
    row, _ = rows_of("speedup", tmp_path, "--models", "recommender")
    assert row["speed-up"] > 0 and row["torch.compile speed-up"] > 0


def test_training_step(tmp_path: Path) -> None:
    """aot_eager behind both."""
    row, _ = rows_of("training_step", tmp_path, "--models", "recommender")
    assert row["step"] > 0 and row["torch.compile step"] > 0


@pytest.mark.lenses
def test_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase of a family is right, and both compilers' graphs over three lengths are counted; a wrong result is told."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    families, table = importlib.import_module("families"), importlib.import_module("support.families")

    class Scaled(table.Family):  # type: ignore[name-defined, misc]
        def make(self, device: str = "cpu") -> torch.nn.Module:
            torch.manual_seed(0)
            return torch.nn.Linear(4, 4).to(device)

    family = Scaled("scaled", "", "", lambda length: {"input": torch.ones(length, 4)}, ("forward", "gradients"))
    for phase in family.phases:
        row = families.measure(family, phase)
        assert row["right"] == row["torch.compile right"] == "ok" and row["graphs"] == row["torch.compile graphs"] == 2
    assert families.summary([row])["right"] == "1/1"


def test_a_variant_of_a_model_is_chosen_by_its_name_or_the_models() -> None:
    """What stands before the comma chooses all variants; an unknown name lists those that there are."""
    assert "'t5, beam'" not in (said := run("families", "--models", "nothing").stderr) and "t5, beam" in said


def test_watching(tmp_path: Path) -> None:
    """Ratios beside an unwatched compile, in which torch does the same."""
    row, total = rows_of("watching", tmp_path, "--models", "unet")
    assert row["unchanged"] == "True" and total["unchanged"] == "1/1"
    assert row["compile s"] > 0 and row["unwatched again"] > 0 and total["with steps"] > 0 and total["without steps"] > 0


def test_engines(tmp_path: Path) -> None:
    """Differences of both engines' captures, by kind."""
    row, total = rows_of("engines", tmp_path, "--models", "unet")
    assert row["same graphs"] == "True" and total["same graphs"] == "1/1"
    assert row["frames"] == row["breaks"] == row["operators"] == 0 and row["steps"] == total["steps"]


def test_explorer(tmp_path: Path) -> None:
    """A recording is made, opened in Chromium and stepped; the file is within its budget, which no load changes."""
    row, total = rows_of("explorer", tmp_path, "--models", "2000")
    assert row["steps"] >= 2000 and row["explain"] > 1 and total["step CPU ms"] == row["step CPU ms"] > 0
    assert row["file KB"] <= 500


@pytest.mark.soak
def test_explorer_in_jupyterlab(tmp_path: Path) -> None:
    """The same in a notebook: what the kernel takes is a part of the first view, and keys that are pressed lead to paints."""
    row, total = rows_of("explorer", tmp_path, "--jupyterlab", "--models", "2000")
    assert 0 < row["of it kernel ms"] < row["first view ms"] and row["again ms"] > 0
    assert row["kernel CPU ms"] > 0 and row["page CPU ms"] > 0
    assert row["first view CPU ms"] == pytest.approx(row["kernel CPU ms"] + row["page CPU ms"], abs=1)
    assert total["step ms"] == row["step ms"] > 0 and row["step CPU ms"] > 0


def test_callbacks(tmp_path: Path) -> None:
    """Comparisons that `qsort` calls, under both engines."""
    out = tmp_path / "rows.json"
    done = run("callbacks", "--quick", "--count", "50", "--functions", "list", "cell", "--json", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert [row["counts in"] for row in rows] == ["list", "cell"]
    assert all(row["plain us"] > 0 and {"dynexplore above", "torch.compile above"} < set(row) for row in rows)


def test_pythons(tmp_path: Path) -> None:
    """Four figures of the running Python, under both engines."""
    out = tmp_path / "figures.json"
    done = run("pythons", "--quick", "--json", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(out.read_text())["us"]
    assert list(figures) == ["call", "layer", "item", "capture"] and figures["call"]["eager"] > 0
    assert all({"dynexplore", "torch.compile"} <= set(row) for row in figures.values())


def test_breaks(tmp_path: Path) -> None:
    """A warm call with a break costs at most three times one of torch.compile's that has as many graphs or more."""
    out = tmp_path / "rows.json"
    done = run("breaks", "--quick", "--programs", "item", "in a nested helper", "--json", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert [(row["graphs"], row["torch.compile graphs"]) for row in rows] == [(2, 2), (2, 5)]  # a helper's break nests
    assert all(0 < row["ratio"] < 3 for row in rows)


@pytest.mark.lenses
def test_nested_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain has two graphs at any depth, as torch.compile has with its option; frame by frame there are two for each frame."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    nested_breaks = importlib.import_module("nested_breaks")
    graphs = [
        [nested_breaks.warm_call(engine, nested_breaks.PROGRAMS[depth])[1] for engine in ("chain", "frames", "torch.compile")]
        for depth in (0, 2)
    ]
    assert graphs == [[1, 1, 1], [2, 6, 2]]


@pytest.mark.lenses
def test_graph_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Graphs and breaks of a script's function under each engine; imports of missing packages and the main part are left out."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    graph_counts = importlib.import_module("graph_counts")
    script = tmp_path / "a_script.py"
    script.write_text(
        "import torch\nimport a_package_that_is_missing\nfrom a_package_that_is_missing.part import name\n\n"
        "def leaf(x):\n    x = x + 1\n    torch._dynamo.graph_break()\n    return x * 2\n\n"
        "def f(x):\n    return leaf(x * 3) + 1\n\nif __name__ == '__main__':\n    raise SystemExit\n"
    )

    def make(sources: Path) -> Any:
        return graph_counts.names_of(sources / "a_script.py")["f"], lambda call: (torch.ones(3) * call,)

    monkeypatch.setitem(graph_counts.MODELS, "leaf", make)
    counted = {}
    for engine in ("plain", *graph_counts.ENGINES):
        with config.patch(nested_graph_breaks=True), torch._dynamo.config.patch(nested_graph_breaks=False):
            counted[engine] = graph_counts.counted("leaf", engine, tmp_path)
    assert all(row["results"] == counted["plain"]["results"] for row in counted.values())
    figures = {engine: (row["graphs"], row["breaks"]) for engine, row in counted.items()}
    assert figures == {"plain": (0, 0), "nested": (2, 1), "frames": (4, 2), "torch": (4, 2), "torch nested": (2, 1)}
    assert run("graph_counts").stdout.startswith("graph_counts: models of public repositories are counted from checkouts")


def test_a_cold_start_is_told_turn_by_turn_and_ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind the limit no turn begins; what a figure compares was measured in one process."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    cold_start = importlib.import_module("cold_start")
    monkeypatch.setattr(cold_start, "stages", lambda name, environment: [2.0, 1.0, 0.5])
    assert len(cold_start.measure(4, {}, 60.0)) == 4
    assert capsys.readouterr().err.splitlines()[1].startswith("turn 1 of 4: ")
    (turn,) = cold_start.measure(4, {}, -1.0)
    assert [*cold_start.figures_of(turn).values()] == [0.25, 0.25, 1.0]


@pytest.mark.soak  # four processes compile with Inductor
def test_warm_start(tmp_path: Path) -> None:
    """A second process finds the caches on disk full, whichever engine filled them."""
    out = tmp_path / "rows.json"
    done = run("warm_start", "--quick", "--repeats", "1", "--cases", "inference", "--json", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["inference"]
    assert [row["missed"] for engine in ("dynexplore", "torch.compile") for row in rows[engine]] == [0, 0]


def test_ddp(tmp_path: Path) -> None:
    """Two processes over gloo: the gradients are those of DDP alone."""
    out = tmp_path / "rows.json"
    done = run("ddp", "--quick", "--backends", "eager", "--processes", "2", "--json", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(out.read_text())["rows"]
    assert row["backend"] == "eager" and row["dynexplore difference"] == 0 and row["dynexplore"] > 0


@pytest.mark.parametrize(("words", "said"), [
    (["--backends", "nothing"], "there is no backend 'nothing'"), (["--size", "12"], "--size a multiple of 8"),
])
def test_ddp_with_a_bad_option(words: list[str], said: str) -> None:
    """One sentence, before any process starts."""
    done = run("ddp", *words)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a training step needs is known without a GPU: the parameters, their gradients, and more."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    memory, models = importlib.import_module("memory"), importlib.import_module("support.models")
    (unet,) = (model for model in models.MODELS if model.name == "unet")
    module, args, _ = unet.make()
    told = memory.told(functools.partial(memory.loss, module.train()), *args)
    assert told.peak.stage == "backward" and told.peak.bytes > 2 * sum(one.nbytes for one in module.parameters())


@pytest.mark.parametrize("columns", ["", "80"])
def test_a_table_in_a_file_is_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str) -> None:
    """Where nothing is a terminal, a table of 30 columns is as wide as its rows, whatever COLUMNS says."""
    report = reporting(monkeypatch, FORCE_COLOR="", COLUMNS=columns)
    report.console().print(report.table("Wide", [WIDE]))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "unet" in line)
    assert line.replace("│", " ").split() == ["unet", *(str(at) for at in range(1000, 1030))]


def test_a_table_in_a_narrow_terminal_is_folded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """There a cell takes several lines; none is cut."""
    report = reporting(monkeypatch, FORCE_COLOR="1", TERM="xterm", COLUMNS="40")
    report.console().print(report.table("Wide", [{"model": "unet", "failed": "x" * 90}]))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert shown.count("x") == 90 and max(map(len, shown.splitlines())) <= 40


WIDE = {"model": "unet", **{f"column {at} s": 1000.0 + at for at in range(30)}}


def reporting(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Any:
    """What prints the tables, in such an environment; "" takes a name out of it."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR", *environment):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        if value:
            monkeypatch.setenv(name, value)
    return importlib.import_module("support.report")


@pytest.mark.parametrize("name", ["accuracy", "speedup", "memory"])
def test_no_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for one where there is none, the benchmark says so in one sentence."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run(name, "--device", "cuda")
    assert done.returncode == 2 and done.stderr.startswith("--device cuda needs a GPU") and len(done.stderr.splitlines()) == 1


def test_help() -> None:
    """`bench --help` lists the names, `bench NAME --help` the options of that one."""
    assert re.search(r"^  speedup +Measure how much faster models run", run("--help").stdout, re.MULTILINE)
    assert "--device {cpu,cuda}" in run("speedup", "--help").stdout


@pytest.mark.parametrize("name", ["coverage", "overhead", "accuracy", "speedup"])
def test_an_unknown_model(name: str) -> None:
    """One sentence that lists the models."""
    done = run(name, "--models", "nothing")
    assert done.returncode == 2 and done.stderr.startswith("there is no model 'nothing'; there are: bert, ")
