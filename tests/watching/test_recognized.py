"""Tools that are given what torch.compile has wrapped speak of torch.compile, as the table in docs/guide/watching.md says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from watching.programs import Net, prints

import dynexplore
from dynexplore import cli
from dynexplore.session import torch_compiled

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "watching.md"
ROW = re.compile(r"^\| `(\w+)\((?:.*?)\)`(?:, `dynexplore (\w+) SCRIPT.py`)? \| (.*) \|$", re.M)
DECLINING = re.compile(r"^(`export`.*`) work only with dynexplore's engine", re.M)
OF_DYNEXPLORE = {"export", "inductor_artifacts", "record_frame", "until_quiet"}
DYNEXPLORE = {"engine": "dynexplore"}


class Prints(torch.nn.Module):
    """A module that breaks where it prints, and adds outside of its forward's graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Prints a number that depends on data."""
        y = self.fc(x)
        print("sum", y.sum().item())
        return y.relu()


def _after_compile() -> Any:
    module = Prints()
    module.compile(backend="eager")
    return module


def _method() -> Any:
    class Owner:
        """Has a method that torch.compile has wrapped."""

        @torch.compile(backend="eager")
        def step(self, x: torch.Tensor) -> torch.Tensor:
            """Prints."""
            print("sum", (x + 1).sum().item())
            return x * 2

    return Owner().step


WRAPPED: dict[str, Callable[[], Any]] = {
    "function": lambda: torch.compile(prints, backend="eager"),
    "module": lambda: torch.compile(Prints(), backend="eager"),
    "module after .compile()": _after_compile,
    "method": _method,
}

X = (torch.ones(2, 4),)


def _explain(target: Any) -> None:
    explained = dynexplore.explain(target, *X)
    assert explained.recording.engine == "torch.compile"
    assert explained.graph_count == 2
    assert explained.breaks[0].kind.startswith("GB")
    assert "It is compiled by torch.compile, so this report is about torch.compile" in " ".join(str(explained).split())
    ours = dynexplore.explain(target, *X, **DYNEXPLORE)
    assert ours.recording.engine == "dynexplore"
    assert ours.breaks[0].kind.startswith("DX")


def _all_breaks(target: Any) -> None:
    report = dynexplore.all_breaks(target, *X)
    assert str(report).startswith("torch.compile of ")
    assert report[0].graph_break.kind.startswith("GB")
    assert report[0].page == f"docs/breaks/{report[0].graph_break.kind.lower()}.md"
    assert report._repr_html_()
    ours = dynexplore.all_breaks(target, *X, **DYNEXPLORE)
    assert ours[0].graph_break.kind.startswith("DX")
    assert ours.inside > 0


def _coverage(target: Any) -> None:
    covered = dynexplore.coverage(target, *X)
    assert str(covered).partition("\n")[0].endswith("of torch.compile")
    assert covered.graphs == 2
    assert 0 < covered.of_operators <= 1
    assert dynexplore.coverage(target, *X, **DYNEXPLORE).engine == "dynexplore"


def _diagnose(target: Any) -> None:
    diagnosis = dynexplore.diagnose(target, *X, backend="eager")
    assert str(diagnosis).partition("\n")[0].endswith("captured by torch.compile")
    assert [stage.verdict for stage in diagnosis.stages] == ["ok", "ok"]
    failing = dynexplore.diagnose(target, *X, backend=no_relu_or_mul)
    assert failing.failing is not None
    assert failing.failing.layer == "backend"
    assert dynexplore.diagnose(target, *X, backend="eager", **DYNEXPLORE).engine == "dynexplore"


def no_relu_or_mul(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that refuses what ends the programs of this file."""
    if "relu" in graph.code or "* 2" in graph.code:
        raise RuntimeError("cannot")
    return graph.forward


def _minify(target: Any) -> None:
    small = dynexplore.minify(target, *X, backend=no_relu_or_mul)
    assert "relu" in small.graph.code or "* 2" in small.graph.code
    with pytest.raises(dynexplore.tools.minifier.NothingFails, match="as torch.compile captures it, none of the 2 graphs"):
        dynexplore.minify(target, *X, backend="eager")


def _with_backend(backend: Any, how: str, **options: Any) -> Any:
    if how == "module after .compile()":
        module = Net()
        module.compile(backend=backend, **options)
        return module
    return torch.compile(Net() if how == "module" else prints, backend=backend, **options)


HOW_WRAPPED = pytest.mark.parametrize("how", ["function", "module", "module after .compile()"])


@HOW_WRAPPED
def test_the_backend_that_is_tried_is_the_wrappers(how: str) -> None:
    """minify and diagnose ask the backend that torch.compile was given, by name or as a callable, and none other."""
    small = dynexplore.minify(_with_backend(no_relu_or_mul, how), *X)
    assert "relu" in small.graph.code or "* 2" in small.graph.code
    failing = dynexplore.diagnose(_with_backend(no_relu_or_mul, how), *X).failing
    assert failing is not None and (failing.layer, failing.backend) == ("backend", "no_relu_or_mul")
    with pytest.raises(dynexplore.tools.minifier.NothingFails, match="under 'aot_eager'"):
        dynexplore.minify(_with_backend("aot_eager", how), *X)
    assert [stage.backend for stage in dynexplore.diagnose(_with_backend("eager", how), *X).stages] == ["-", "eager"]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # importing Inductor
@HOW_WRAPPED
def test_the_mode_of_a_wrapper_is_tried_with_its_backend(how: str) -> None:
    """Inductor with options is called with them; without any it goes by its name, so that a small program can name it."""
    assert torch_compiled.backend_of(_with_backend("inductor", how)) == "inductor"
    tuned: Any = torch_compiled.backend_of(_with_backend("inductor", how, options={"max_autotune": True}))
    assert tuned.config["max_autotune"] is True
    assert torch_compiled.backend_of(prints) is None


def _of_parts(how: str) -> Any:
    """A module of which torch.compile compiles a part, with `no_relu_or_mul`."""
    by_torch = torch.compile(backend=no_relu_or_mul, dynamic=False)

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = by_torch(Net()) if how == "submodule" else Net()

        def forward(self, x: Any) -> Any:
            return self.inner(x) + 1

    if how == "forward of the class":
        Outer.forward = by_torch(Outer.forward)  # type: ignore[method-assign]
    outer = Outer()
    if how == "forward of the module":
        outer.forward = by_torch(outer.forward)  # type: ignore[method-assign]
    return outer


@pytest.mark.parametrize("how", ["submodule", "forward of the class", "forward of the module"])
def test_a_module_with_a_compiled_part_runs_plain_at_first(how: str) -> None:
    """A failing backend of the part is the backend that fails, and no failure of the plain program; the part is compiled again
    after it.
    """
    outer = _of_parts(how)
    found = dynexplore.diagnose(outer, *X)
    assert [stage.verdict for stage in found.stages] == ["ok", "ok", "ok", "fails"], found
    assert (found.engine, found.stages[-1].backend, found.dynamic) == ("torch.compile", "no_relu_or_mul", False)
    assert "relu" in (code := dynexplore.minify(outer, *X).graph.code) or "* 2" in code
    assert torch_compiled.has_compiled_part(outer)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        outer(*X)


def _compare(target: Any) -> None:
    comparison = dynexplore.compare(target, *X, methods=["dynamo", "dynexplore"])
    assert [outcome.key for outcome in comparison.outcomes if not outcome.failed] == ["dynamo", "dynexplore"]
    assert all(len(outcome.graphs) == 2 for outcome in comparison.outcomes)


def _declines(name: str) -> Callable[[Any], None]:
    def check(target: Any) -> None:
        given = ([X],) if name == "until_quiet" else X
        sentence = f"^{name} only supports dynexplore's captures. You passed a function that torch.compile has compiled: pass "
        with pytest.raises(TypeError, match=sentence):
            getattr(dynexplore, name)(target, *given)

    return check


CHECKS = {
    "explain": _explain,
    "all_breaks": _all_breaks,
    "coverage": _coverage,
    "diagnose": _diagnose,
    "minify": _minify,
    "compare": _compare,
    **{name: _declines(name) for name in sorted(OF_DYNEXPLORE)},
}


def _rows() -> dict[str, tuple[str, str]]:
    return {name: (command, words) for name, command, words in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def test_the_table_has_a_row_for_each_tool() -> None:
    """The page says of each tool that takes a function what it does; those that raise an error stand in a sentence below."""
    declining = DECLINING.search(PAGE.read_text(encoding="utf-8"))
    assert declining is not None and set(re.findall(r"\w+", declining[1].replace(" and ", " "))) == OF_DYNEXPLORE
    assert _rows().keys() == CHECKS.keys() - OF_DYNEXPLORE


@pytest.mark.parametrize("form", WRAPPED)
@pytest.mark.parametrize("tool", CHECKS)
def test_a_tool_speaks_of_torch_compile(tool: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row of the table holds for a function, a module, a module after `.compile()` and a method."""
    CHECKS[tool](WRAPPED[form]())


SCRIPT = """
import torch

def prints(x):
    y = x + 1
    print("inside")
    return y * 2

HOW
print(step(torch.ones(4)).tolist())
"""

HOW = {
    "function": 'step = torch.compile(prints, backend="eager")',
    "module after .compile()": "class Net(torch.nn.Module):\n    def forward(self, x):\n        return prints(x)\n"
    'step = Net()\nstep.compile(backend="eager")',
}


@pytest.mark.parametrize("form", HOW)
@pytest.mark.parametrize("command", [command for command, _ in _rows().values() if command])
def test_a_command_recognizes_a_script(command: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command of the table says of a script that uses torch.compile what that does; `--engine dynexplore` asks this engine."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("HOW", HOW[form]), encoding="utf-8")
    options = {"diagnose": ["--backend", "eager"], "minify": ["--backend", "eager"], "compare": ["--methods", "dynamo,dynexplore"]}
    given = [command, *options.get(command, []), str(script)]
    assert cli.main(given) == 0
    printed = capsys.readouterr().out
    if command == "compare":
        assert "captured in 2 ways" in printed
        return
    assert "torch.compile" in printed
    assert "--engine dynexplore" in printed
    torch._dynamo.reset()
    assert cli.main([given[0], "--engine", "dynexplore", *given[1:]]) == 0
    assert "captured by torch.compile" not in capsys.readouterr().out


def test_asking_moves_nothing_that_torch_remembers() -> None:
    """Questions do not use up the entries that torch.compile allows a module: the program's own call still hits."""
    from torch._dynamo.utils import counters

    module = Net()
    compiled = torch.compile(module, backend="eager")
    compiled(*X)
    for _ in range(3):
        assert dynexplore.explain(compiled, *X).graph_count == 1
        assert dynexplore.coverage(compiled, *X).graphs == 1
    before = counters["frames"]["total"]
    compiled(*X)
    assert counters["frames"]["total"] == before


def test_parts_of_a_module_are_watched_as_they_are() -> None:
    """A module that is not compiled, with a part that is: the call is watched as the program makes it."""
    whole = torch.nn.Sequential(Prints(), Prints())
    whole[0].compile(backend="eager")
    explained = dynexplore.explain(whole, *X)
    assert explained.recording.engine == "torch.compile"
    assert explained.graph_count == 2
    assert "Parts of it are compiled by torch.compile" in " ".join(str(explained).split())
    ours = dynexplore.explain(whole, *X, **DYNEXPLORE)
    assert (ours.recording.engine, ours.graph_count) == ("dynexplore", 2)  # both parts run the graphs of the first


def test_what_torch_compile_keeps_out_is_not_compiled() -> None:
    """`torch.compiler.disable` wraps in the same way, and nobody asked torch.compile to compile it."""
    assert dynexplore.explain(torch.compiler.disable(prints), *X).recording.engine == "dynexplore"


def test_the_sizes_that_a_wrapper_names_are_asked_about() -> None:
    """`dynamic=True` of the wrapper holds for the question: a size that changes is no recompile."""
    steady = torch.compile(lambda x: x * 2, backend="eager", dynamic=True)
    explained = dynexplore.explain(steady).calls(torch.ones(3), torch.ones(5))
    assert explained.outcomes == ["compile", "hit"]


def costly(x: torch.Tensor) -> torch.Tensor:
    """Breaks twice: in a print that needs three operators, and in a loop that runs as plain Python."""
    y = x + 1
    print("mean", y.mean().item(), y.abs().sum().item())
    for _ in range(3):
        y = y.sin()
        torch._dynamo.graph_break()
    return y * 2


def test_operators_outside_of_graphs_belong_to_their_break(capsys: pytest.CaptureFixture[str]) -> None:
    """A break costs what runs outside of graphs because of it, and the one that costs most comes first."""
    report = dynexplore.all_breaks(costly, torch.ones(4), engine="torch.compile")
    by_line = {cost.graph_break.user_stack[-1].code.strip(): cost for cost in report}
    loop = by_line["torch._dynamo.graph_break()"]
    assert report[0] is loop
    assert [name for name in loop.operators if "sin" in name or "mul" in name] == ["aten::sin"] * 3 + ["aten::mul"]
    others = [name for cost in report if cost is not loop for name in cost.operators]
    assert "aten::sin" not in others
    assert sum(len(cost.operators) for cost in report) == report.operators - report.inside
