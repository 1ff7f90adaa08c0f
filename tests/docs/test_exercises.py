"""Wrong answers to the exercises of the tutorials: each is told what is wrong with it.

A reader who is wrong learns from the sentence, so a plausible wrong answer is a program here, and what is said of it is compared.
Only the cells of which the exercises need something are run, in a process of their own.
"""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import pytest

from warm_python import python

ROOT = Path(__file__).resolve().parents[2]

# of each tutorial: the number of an exercise, an answer as a reader would type it, and what is said of it
WRONG: dict[str, list[tuple[int, str, str]]] = {
    "01": [
        (1, "toy", "it still breaks: if b.sum() < 0:"),
        (1, "lambda a, b: a / (torch.abs(a) + 1) * b", "whole(a, negative) is"),
        (1, "3", "trying your answer raised TypeError"),
        (2, "a.double()", "its dtype is torch.float64"),
        (2, "a + 1", "they do not check the values"),
    ],
    "02": [
        (1, "lambda frame, _: frame.stack.append(-frame.stack[-1])", "the stack held one value, and now it holds 2"),
        (1, "lambda frame, _: None", "distance(2, 7) is 5, and your machine returns -5"),
        (1, "3", "trying your answer raised TypeError: 'int' object is not callable"),
        (2, "lambda x: x + x + x + x + x", "its stack holds 2: a sum is popped as soon as it is used"),
        (2, "lambda x: sum([x, x, x, x, x])", "it also uses sum"),
    ],
    "03": [
        (1, "lambda x: x.sum() + 1", "the method sum has no keyword argument"),
        (1, "lambda x: torch.sum(x, dim=0) + 1", "its call nodes are call_function torch.sum, call_function operator.add"),
        (2, "lambda module: module", "its graph calls the methods ['relu', 'softmax']"),
    ],
    "04": [
        (1, "(a, 3, [0.5, 2.0])", "all guards pass"),
        (1, "(a, 4, [0.5])", "the guard on scale fails, too"),
        (1, "(a, 3)", "toy takes three arguments"),
        (2, "(summed, tuple)", "it was compiled 5 times"),
        (2, "(lambda stacked: stacked.sum(dim=0), torch.stack)", "and summed returns"),
    ],
    "05": [
        (1, "limited", "it still breaks: if largest > limit:"),
        (1, "lambda x, limit: x + 1", "and limited returns"),
        (2, "(noisy, lambda value: value)", "captured breaks at print("),
        (2, "(lambda x: (torch.tanh(x * 2),), lambda x: x)", "and noisy(a) return different values"),
    ],
    "06": [
        (1, "lambda x, n: x + 1", "its result does not depend on the number"),
        (2, "toy", "torch.fx.symbolic_trace cannot capture it: "),
    ],
    "07": [
        (1, "(hurried, hurried_handler)", "leave it unchanged, and fix the other"),
        (1, "(lambda graph, inputs: graph.forward, hurried_handler)", "capture is still at fault"),
        (2, "busy", "the smallest graph that it rejects contains the line"),
        (2, "lambda x: x.sum()", "and busy returns"),
    ],
    "08": [
        (1, "wave", "min-cut recomputes cheap operators"),
        (1, "lambda x: torch.tanh(x)", "use at least two operators; your function has 1"),
    ],
    "09": [
        (1, "lambda x: (torch.cos(x), torch.sin(x))", "its kernel writes 2"),
        (1, "lambda x: (torch.cos(x), torch.sin(x), torch.tanh(x))", "it uses torch.cos, torch.sin, torch.tanh"),
    ],
    "10": [
        (1, "lambda graph, inputs: graph.forward", "the graph still has"),
        (2, "lambda frame, step, ctx: original(frame, step, ctx)", "the division is still there"),
    ],
    "13": [
        (1, "scaled", "breaks at `largest = x.abs().max().item()`"),
        (2, "noisy", "breaks at `print("),
        (3, "lambda gradient: gradient / gradient.norm()", "call 2 returns "),
        (4, "lambda x: x - (x < 0).sum()", "call 1 returns "),
        (5, "lambda x, kind: torch.sin(x) * 2", "call 2 returns "),
        (6, "timed", "breaks at `begin = time.perf_counter()`"),
        (7, "lambda x: x.sum(0)", "call 1 returns "),
        (8, "lambda rows: rows[0]", "call 1 returns "),
        (9, "lambda x: x", "it raises TypeError"),
        (10, "lambda x: x / 2", "call 1 returns "),
    ],
    "12": [
        (1, "pop_top", "trying your answer raised"),
        (1, "lambda frame, step: None", "the value is"),
        (2, "negated", "it has 0 graphs"),
        (2, "scaled", "trying your answer raised TypeError"),
    ],
    "11": [
        (1, "(scheduled, lambda rate: {'rate': rate})", "it recompiles, because this no longer holds"),
        (1, "(lambda x, settings: x, lambda rate: {'rate': rate})", "for the rate 0.1 it returns"),
    ],
}

RUN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
given = json.load(sys.stdin)
shell = InteractiveShell.instance()
for cell in given["cells"]:
    shell.run_cell(cell).raise_error()
from dynexplore.widgets.exercises import WrongAnswer, check
said = []
for number, answer, what_is_wrong in given["trials"]:
    try:
        check(f"exercise {number}", shell.ev(answer), shell.user_ns[what_is_wrong])
        said.append("it was said to be right")
    except WrongAnswer as wrong:
        said.append(str(wrong))
print("\\n" + json.dumps(said))
"""


@pytest.mark.lenses  # some of them ask torch.compile and torch.jit, in a process of their own
@pytest.mark.parametrize("tutorial", WRONG)
def test_wrong_answers_say_what_is_wrong(tutorial: str, tmp_path: Path) -> None:
    """One sentence each, of the exercise that it was given to; every exercise has a wrong answer here."""
    (path,) = (ROOT / "notebooks").glob(f"{tutorial}_*.ipynb")
    cells = code_of(path)
    checks = [found for cell in cells for found in re.findall(r'^check\("exercise (\d+)", .*, (\w+)\)$', cell, re.M)]
    asked = {int(number): judge for number, judge in checks}
    assert asked.keys() == {number for number, _, _ in WRONG[tutorial]}
    trials = [(number, answer, asked[number]) for number, answer, _ in WRONG[tutorial]]
    given = json.dumps({"cells": needed_for(cells, trials), "trials": trials})
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path / ".ipython")}
    done = python("-c", RUN, stdin=given, cwd=tmp_path, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    for (number, answer, words), said in zip(WRONG[tutorial], json.loads(done.stdout.splitlines()[-1]), strict=True):
        assert said.startswith(f"exercise {number}: ") and words in said, f"of {answer} is said: {said}"


def code_of(path: Path) -> list[str]:
    """The code cells of a notebook, without solutions and magics. The parts of one file are one cell: they register handlers."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [(cell["metadata"].get("tags", ()), "".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
    parts = "\n".join(text for tags, text in code if "mini_dynamo" in tags)
    texts = [parts, *(text for tags, text in code if "solution" not in tags and "mini_dynamo" not in tags)]
    return [re.sub(r"^%\w.*$", "", text, flags=re.M) for text in texts if not text.startswith("%%")]


def needed_for(cells: list[str], trials: list[tuple[int, str, str]]) -> list[str]:
    """The cells that bind a name which a wrong answer, what is said of it, or a cell that is needed for it reads."""
    wanted = {name for _, answer, judge in trials for name in names(answer)[1] | {judge}}
    needed: set[int] = set()
    while found := {place for place, cell in enumerate(cells) if place not in needed and names(cell)[0] & wanted}:
        needed |= found
        wanted |= {name for place in found for name in names(cells[place])[1]}
    return [cells[place] for place in sorted(needed)]


def names(code: str) -> tuple[set[str], set[str]]:
    """The names that a cell binds at its top, and those that it reads anywhere."""
    tree = ast.parse(code)
    made = [each for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)]
    at_the_top = [inner for each in tree.body if each not in made for inner in ast.walk(each)]
    binds = {each.name for each in made}
    binds |= {(each.asname or each.name).partition(".")[0] for each in at_the_top if isinstance(each, ast.alias)}
    binds |= {each.id for each in at_the_top if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return binds, {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
