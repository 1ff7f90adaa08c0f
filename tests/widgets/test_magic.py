"""`%%dynamo` and `%dynamo`: they run what the cell says, show what was captured, and say clearly what is wrong."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from notebook_shell import Notebook

from dynexplore.engine.events import ArtifactEmitted
from dynexplore.recording.recording import Recording
from source_tree import PACKAGE


def test_straight_tensor_code_is_captured(notebook: Notebook) -> None:
    """Tensor operators at the top of the cell are nodes of a graph, and the names that it stores are stored."""
    notebook.run("%%dynamo -o rec\nx: torch.Tensor = a + b\ny = x.sin() * 2\ny")
    assert isinstance(notebook["rec"], Recording)
    (graph,) = notebook["rec"].graphs
    assert [node.name for node in graph.nodes if node.op.startswith("call_")] == ["add", "sin", "mul"]
    assert torch.equal(notebook["y"], (notebook["a"] + notebook["b"]).sin() * 2)
    assert notebook["x"] is not None


def test_prints_and_result_stay(notebook: Notebook) -> None:
    """What the cell prints is printed once, and its last expression is its result."""
    result = notebook.run("%%dynamo\nprint('once')\nz = a + 1\nz * 2")
    assert notebook.stdout.count("once") == 1
    assert torch.equal(result, torch.full((2,), 4.0))
    assert notebook.run("%%dynamo\nz = a + 1") is None


def test_functions_of_a_cell_have_their_source(notebook: Notebook) -> None:
    """A function of another cell is captured with its source, under the name that it has at the top of a module."""
    notebook.run("def g(t):\n    return t.cos()")
    notebook.run("%%dynamo -o rec -f g\ng(a)")
    entered = notebook["rec"].frames[0]
    assert (entered.code.qualname, entered.code.source) == ("g", "def g(t):\n    return t.cos()\n")
    notebook.run("%%dynamo\ndef h():\n    return lambda: 0\nk = [lambda: 1]")
    assert (notebook["h"].__qualname__, notebook["k"][0].__qualname__) == ("h", "<lambda>")


@pytest.mark.parametrize("form", ["%%dynamo -o rec\nx = a + b\nprint('in between')", "%dynamo -o rec [print('in between'), a + b]"])
def test_a_cell_has_the_number_that_stands_beside_it(notebook: Notebook, form: str) -> None:
    """What is said of the cell names it as its prompt does, whichever way IPython counts the cells that have run."""
    notebook.run("1 + 1")
    notebook.run(form)
    prompt = len(notebook["In"]) - 1
    assert {entered.code.file for entered in notebook["rec"].frames} == {f"In [{prompt}]"}
    assert notebook["rec"].breaks[0].user_stack[0].file == f"In [{prompt}]"


def test_a_function_that_is_defined_again_is_captured_again(notebook: Notebook) -> None:
    """After a later cell defines a function anew, the new one is captured."""
    for operator in ("sin", "cos"):
        notebook.run(f"def g(t):\n    return t.{operator}()")
        notebook.run("%dynamo -o rec g(a)")
        assert notebook["rec"].graphs[0].nodes[1].name == operator


def test_the_line_form_runs_an_expression(notebook: Notebook) -> None:
    """`%dynamo g(a, b)` has the value of the expression; spaces and quotes in it stay as they are."""
    notebook.run("def g(x, y, sep=''):\n    return sep, x + y")
    assert notebook.run("%dynamo -o rec g(a, b, sep='-b  x')")[0] == "-b  x"
    assert len(notebook["rec"].graphs) == 1


def test_the_explorer_is_shown(notebook: Notebook) -> None:
    """A cell shows its recording as HTML and as one stable line; a recording as a result is shown the same way."""
    notebook.run("%%dynamo -o rec\nx = a + b")
    (shown,) = notebook.shown
    assert shown["text/plain"].startswith("Explorer(<cell>: ")
    assert shown["text/plain"].endswith(" 1 graph, 3 guards)")
    assert "operator.add" in shown["text/html"]
    notebook.run("rec")
    assert "Explorer(<cell>: " in notebook.stdout


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("summary", "2 graphs, 1 graph break"),
        ("frames", "frame 1: "),
        ("calls", "entry added"),
        ("timeline", "compiled"),
        ("graphs", "operator.add"),
        ("bytecode", "MODIFIED BYTECODE"),
        ("guards", "TENSOR_MATCH"),
        ("breaks", "DX206"),
        ("steps", "BINARY_OP"),
        ("all", "ORIGINAL BYTECODE"),
    ],
)
def test_views(notebook: Notebook, view: str, said: str) -> None:
    """--view chooses what is shown, as text."""
    notebook.run(f"%%dynamo --view {view}\nx = a + b\nprint('hello')\ny = x * 2")
    (shown,) = notebook.shown
    assert said in shown["text/plain"]
    assert "<pre>" in shown["text/html"]


def test_no_view(notebook: Notebook) -> None:
    """--view none shows nothing."""
    notebook.run("%%dynamo --view none\nx = a + b")
    assert notebook.shown == []


def test_no_run(notebook: Notebook) -> None:
    """--no-run shows the bytecode of the cell, and runs nothing."""
    notebook.run("%%dynamo --no-run\nnever = a + b")
    assert "BINARY_OP" in notebook.shown[0]["text/plain"]
    assert "never" not in notebook


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%dynamo\nx = = 1", "the cell has a syntax error in line 1, invalid syntax: x = = 1"),
        ("%%dynamo\nreturn 1", "the cell has a syntax error in line 1, 'return' outside function"),
        ("%%dynamo\nawait f()", "await at the top of the cell cannot be captured"),
        ("%%dynamo\nfrom math import *", "`from math import *` cannot be captured"),
        ("%%dynamo --backend nope\na", "there is no backend 'nope'"),
        ("%%dynamo --nope\na", "unrecognized arguments: --nope; the options of %dynamo are --backend --fullgraph"),
        ("%%dynamo --view nope\na", "there is no view 'nope'; there are: explorer, summary"),
        ("%%dynamo -o 3x\na", "-o needs a variable name"),
        ("%%dynamo --artifacts nope\na", "--artifacts takes all, or some of joint,graph,ir,fused-ir,"),
        ("%%dynamo --artifacts all -b eager\na", "--artifacts needs the backend inductor or aot_eager, not 'eager'"),
        ("%%dynamo a + b\na", "%%dynamo takes options only, not 'a + b'"),
        ("%dynamo", "%dynamo needs an expression"),
    ],
)
def test_mistakes_are_said_in_one_sentence(notebook: Notebook, cell: str, said: str) -> None:
    """What is wrong with a cell or an option is said in one line, nothing is run, and the notebook goes on."""
    notebook.run(cell)
    assert said in notebook.stderr
    assert notebook.stderr.count("\n") == 1
    assert torch.equal(notebook.run("%dynamo a + b"), torch.zeros(2))


def test_a_cell_that_raises_keeps_its_traceback(notebook: Notebook) -> None:
    """The exception of a cell is its own, and its traceback shows the cell's lines and none of ours."""
    notebook.run("%%dynamo\ndef h(t):\n    return t + 1 / 0\n\nh(a)")
    assert isinstance(notebook.error, ZeroDivisionError)
    assert notebook.error.__context__ is None
    assert "return t + 1 / 0" in notebook.stdout
    assert str(PACKAGE) not in notebook.stdout


def test_fullgraph_refuses_breaks(notebook: Notebook) -> None:
    """--fullgraph makes a graph break an error that names it."""
    notebook.run("%%dynamo --fullgraph\nprint(a)")
    assert type(notebook.error).__name__ == "Unsupported"


def test_dynamic(notebook: Notebook) -> None:
    """--dynamic makes sizes symbols from the first call on."""
    notebook.run("%%dynamo --dynamic -o rec\nx = a * a.shape[0]")
    assert "s" in "".join(node.shape for node in notebook["rec"].graphs[0].nodes)


def test_artifacts(notebook: Notebook) -> None:
    """--artifacts keeps what the compiler makes, the parts that are named; --view artifacts shows it."""
    notebook.run("%%dynamo -o rec --artifacts graph,times -b aot_eager --view artifacts\nx = a.sin()")
    assert "torch.ops.aten.sin" in notebook.shown[0]["text/plain"]
    assert {made.part for made in notebook["rec"].of(ArtifactEmitted)} <= {"graph", "times"}
    notebook.run("%%dynamo --view artifacts\nx = a.sin()")
    assert notebook.shown[0]["text/plain"] == "no artifacts"


def test_a_name_that_is_never_called(notebook: Notebook) -> None:
    """-f with a name that no captured function has says so."""
    notebook.run("%%dynamo -f nobody\nx = a + b")
    assert "no function named 'nobody' was captured" in notebook.shown[0]["text/plain"]


def test_running_again_frees_the_recording_before(notebook: Notebook) -> None:
    """A cell that runs again leaves nothing of the recording that it made before."""
    notebook.run("%%dynamo -o rec\nx = a + b")
    before = weakref.ref(notebook["rec"])
    notebook.run("%%dynamo -o rec\nx = a + b")
    gc.collect()
    assert before() is None


def test_the_recording_before_is_there_until_there_is_a_new_one(notebook: Notebook) -> None:
    """A cell may look at what the name of -o held; an option that is refused leaves it alone."""
    notebook.run("%%dynamo -o rec\nx = a + b")
    notebook.run("%%dynamo -o rec --backend nope\nx = a + b")
    assert "there is no backend" in notebook.stderr and isinstance(notebook["rec"], Recording)
    notebook.run("%%dynamo -o rec\ncount = len(rec.graphs)")
    assert (notebook.error, notebook["count"]) == (None, 1)


def test_other_magics_around_it(notebook: Notebook) -> None:
    """%%time and %%capture around the cell work."""
    notebook.run("%%capture out\n%%dynamo\nprint('kept')\nx = a + b")
    assert notebook.error is None
    assert "kept" in notebook["out"].stdout
    notebook.run("%%time\n%dynamo a + b")
    assert notebook.error is None


@pytest.mark.parametrize("around", ["%%time", "%%capture out", "%%timeit -n1 -r1"])
def test_cell_magics_around_a_cell_magic(notebook: Notebook, around: str) -> None:
    """%%time, %%capture and %%timeit take a whole %%dynamo cell."""
    notebook.run(f"{around}\n%%dynamo -o rec\nprint('kept')\nx = a + b\nx * 2")
    assert notebook.error is None
    assert notebook["rec"].graphs and torch.equal(notebook["x"], torch.zeros(2))
    captured = "out" in around
    assert ("kept" in notebook.stdout) != captured
    shown = [output.data for output in notebook["out"].outputs] if captured else notebook.shown
    assert any("Explorer(<cell>: " in data.get("text/plain", "") for data in shown)


def test_a_cell_that_raises_shows_what_was_captured(notebook: Notebook) -> None:
    """One sentence says what the explorer shows; -o has it; --view none says and shows nothing."""
    notebook.run("%%dynamo -o rec\nx = a + b\nraise ValueError('mine')")
    assert notebook.stderr == "The cell raised ValueError; what was captured until then is shown.\n"
    assert isinstance(notebook.error, ValueError) and len(notebook.shown) == 1
    assert notebook["rec"].graphs[0].nodes[2].name == "add"
    notebook.run("%%dynamo --view none\nraise ValueError('mine')")
    assert (notebook.stderr, notebook.shown) == ("", [])
    assert torch.equal(notebook.run("%dynamo a + b"), torch.zeros(2))


def test_an_error_keeps_no_recording(notebook: Notebook) -> None:
    """IPython keeps the last traceback; what was captured is not kept with it when the cell runs again."""
    notebook.run("%%dynamo -o rec\nx = a + b\n1 / 0", cell_id="c")
    before = weakref.ref(notebook["rec"])
    notebook.run("%%dynamo -o rec\nx = a + b\n1 / 0", cell_id="c")
    notebook.error = None
    gc.collect()
    assert before() is None


def test_a_function_without_source(notebook: Notebook) -> None:
    """A function made of text is captured; the explorer has its bytecode, and says that there is no source."""
    notebook.run("made = {}\nexec('def g(t):\\n    return t.sin()', made)\ng = made['g']")
    notebook.run("%dynamo -o rec -f g g(a)")
    assert notebook.error is None
    assert notebook["rec"].graphs[0].nodes[1].name == "sin" and notebook["rec"].frames[0].code.source == ""
    assert "no source" in notebook.shown[0]["text/html"]


def test_a_huge_repr_is_cut(notebook: Notebook) -> None:
    """A repr of 100 MB, and one that raises, are neither fatal nor part of what is sent to the page."""
    notebook.run(
        "class Huge:\n    size = 2\n    def __repr__(self):\n        return '<' * 100_000_000\n"
        "class Broken:\n    size = 3\n    def __repr__(self):\n        raise RuntimeError('no repr')\n"
        "huge, broken, text = Huge(), Broken(), 'x' * 100_000_000"
    )
    notebook.run("%%dynamo -o rec\nprint(len(text))\nx = a * huge.size * broken.size\ny = x + len(text)")
    assert notebook.error is None
    assert sum(map(len, notebook.shown[0].values())) < 1_000_000 and len(notebook["rec"].to_json()) < 1_000_000


def test_names_with_html_in_them_stay_text(notebook: Notebook) -> None:
    """Names, strings and reprs that look like markup are escaped in what a page shows."""
    nasty = "<img src=x onerror=alert(1)>"
    notebook.run(f"class Named:\n    def __repr__(self):\n        return '{nasty}'\nnamed = Named(); named.size = 2")
    notebook.run(f"def g(t, what='{nasty}'):\n    return t * named.size if what == '{nasty}' else t\ng.__qualname__ = '{nasty}'")
    notebook.run("%dynamo -o rec g(a)")
    assert notebook.error is None
    assert nasty not in notebook.shown[0]["text/html"] and "&lt;img src=x" in notebook.shown[0]["text/html"]


def test_help(notebook: Notebook) -> None:
    """The magic's docstring lists its options."""
    notebook.run("%dynamo --help")
    assert notebook.error is None and "--fullgraph" in notebook.shown[0]["text/plain"]
    notebook.run("%%dynamo -h\nnever = 1")
    assert "assign the recording" in notebook.shown[0]["text/plain"] and "never" not in notebook
    text = notebook.shell.find_line_magic("dynamo").__doc__
    assert "--fullgraph" in text
    assert "assign the recording" in text


def test_unload(notebook: Notebook) -> None:
    """After %unload_ext the magics are gone, and the extension can be loaded again."""
    notebook.run("%unload_ext dynexplore")
    notebook.run("%%dynamo\na")
    assert "not found" in notebook.stderr
    notebook.run("%load_ext dynexplore")
    assert torch.equal(notebook.run("%dynamo a + b"), torch.zeros(2))


def test_diagnose(notebook: Notebook) -> None:
    """`%dynamo --diagnose fn(x)` gives the diagnosis of that call, which changes no argument; a cell is diagnosed as a whole."""
    notebook.run("def f(t, *, k=1):\n    t.add_(k)\n    return t.sin()")
    found = notebook.run("%dynamo --diagnose -b aot_eager -o found f(a, k=2)")
    assert found.failing is None and found is notebook["found"] and found.function == "f"
    assert [stage.layer for stage in found.stages] == ["plain Python", "capture", "AOTAutograd"]
    assert notebook["a"].eq(1).all()
    notebook.run("def crashes(graph, inputs):\n    raise NotImplementedError('no')\nimport dynexplore")
    notebook.run("dynexplore.register_backend(crashes, name='crashes_in_a_notebook')")
    found = notebook.run("%%dynamo --diagnose -b crashes_in_a_notebook\ny = a * 2\ny.sin()")
    assert found.failing.layer == "backend" and "NotImplementedError: no" in str(found)


def test_diagnose_with_an_unknown_backend(notebook: Notebook) -> None:
    """One sentence that lists the names."""
    notebook.run("%dynamo --diagnose -b nothing a.sin()")
    assert "there is no backend 'nothing'; there are:" in notebook.stderr


def test_a_cell_that_trains_captures_the_module_and_prints_what_it_prints(notebook: Notebook) -> None:
    """A training loop in a cell is plain Python: its module and loss are captured, and what it prints and stores stays."""
    cell = (
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.layer = torch.nn.Linear(4, 1)\n"
        "    def forward(self, x):\n        return self.layer(x).relu()\n"
        "net = Net()\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for _ in range(2):\n    loss = net(torch.ones(2, 4)).sum()\n    loss.backward()\n    optimizer.step()\n"
        "print('trained')\nloss.shape"
    )
    assert notebook.run(f"%%dynamo -o rec --view summary\n{cell}") == torch.Size([])
    assert notebook.stdout.startswith("trained")
    said = notebook.shown[0]["text/plain"]
    assert said.startswith("This cell: Net.forward (") and "is one graph of 2 operators" in said
    assert [one.code.qualname for one in notebook["rec"].frames] == ["Net.forward"]
    notebook.run(f"%%dynamo\n{cell}")  # the explorer
    assert notebook.error is None
