"""The session of a notebook's cell: its names are inputs, its frames can be asked about, the namespace stays as it is."""

from __future__ import annotations

import gc
import linecache
import types
import weakref
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.session.changed_inputs import Input
from dynexplore.session.edited_function import EditError
from dynexplore.session.notebook_session import NotebookSession


def code_of(text: str, file: str) -> types.CodeType:
    """A cell's text as a function that stores global names: what widgets/source.py does, for straight statements."""
    names = {line.partition(" = ")[0] for line in text.splitlines() if " = " in line and line[0].isalpha()}
    body = "\n".join(f"    {line}" for line in text.splitlines())
    made: dict[str, Any] = {}
    try:
        exec(compile(f"def cell():\n    global {', '.join(sorted(names))}\n{body}\n", file, "exec"), made)
    except SyntaxError as error:
        raise ValueError(f"the cell has a syntax error, {error.msg}") from None
    code: types.CodeType = made["cell"].__code__
    return code


def ran(text: str, namespace: dict[str, Any], **options: Any) -> NotebookSession:
    """The session of a cell that ran in this namespace."""
    cell = types.FunctionType(code_of(text, "<a cell>"), namespace)
    with dynexplore.config.patch(log_level="ERROR"), dynexplore.explain(cell, **options) as watched:
        watched.explanation.follow_cell(text, code_of)
        watched()
        session = watched.explanation.session
    assert isinstance(session, NotebookSession)
    return session


BROKEN = "def broken(x, n=3):\n    y = x.sin() * n\n    dynexplore.graph_break()\n    return y + x\n"


def world() -> dict[str, Any]:
    """A notebook: data, and functions that read it."""
    made: dict[str, Any] = {"__name__": "__main__", "torch": torch, "dynexplore": dynexplore, "a": torch.ones(3), "k": 2}
    exec("w = [torch.ones(3)]\ndef g(x):\n    return x * k + w[0]\n", made)
    linecache.cache["<broken>"] = (len(BROKEN), None, BROKEN.splitlines(keepends=True), "<broken>")
    exec(compile(BROKEN, "<broken>", "exec"), made)
    exec("class Scale:\n    size = 3\n    def __call__(self, x):\n        return x * size\nscale = Scale()\nsize = 4", made)
    return made


def paths(found: list[Input]) -> list[str]:
    """What can be changed, by name."""
    return [one.path for one in found]


def test_the_names_that_a_cell_reads_are_its_inputs() -> None:
    """Data that the cell and functions of the notebook read, as it was before; not what the cell makes itself, nor functions."""
    namespace = world()
    session = ran("z = g(a)\na = a.repeat(2)\nk = 5\ny = scale(a)\nb = z", namespace)
    assert paths(session.inputs) == ["a", "w[0]", "size"]
    assert len(session.recording.graphs) == 1
    assert session.inputs[0].shape == (3,) and namespace["a"].shape == (6,)
    namespace = world() | {"c": torch.ones(2)}
    assert paths(ran("c = torch.ones(3)\nz = c + a", namespace).inputs) == ["a"]


def test_what_if_is_what_would_be() -> None:
    """The prediction is that of the same cell with another value, from before it ran: really run, it does that."""
    for name, value, outcome in (
        ("a", torch.ones(3, dtype=torch.float64), "recompile"),
        ("a", torch.zeros(3), "hit"),
        ("k", 3, "recompile"),
    ):
        namespace = world()
        session = ran("z = g(a)\na = a.repeat(2)\nk = k + 5", namespace)
        now = dict(namespace)
        predicted = session.what_if({name: value})
        assert predicted.outcome == outcome, (name, str(predicted))
        assert session.first_answer({name: value}).outcome == outcome
        assert all(namespace[each] is now[each] for each in now) and namespace.keys() == now.keys()
        namespace.update({"a": torch.ones(3), "k": 2} | {name: value})
        frames = len(session.recording.frames)
        session.call()
        assert (len(session.recording.frames) > frames) == (outcome == "recompile")


def test_it_asks_for_a_changed_shape_by_words() -> None:
    """The words of the browser: a shape, a dtype; what is no input is refused in a sentence."""
    session = ran("z = g(a)", world())
    assert session.what_if({"a": {"dtype": "float64"}}).outcome == "recompile"
    assert session.check()[0].hits and session.predict().outcome == "hit"
    with pytest.raises(TypeError, match="there is no input 'q'; the inputs are: a, k, w"):
        session.what_if({"q": 3})


@pytest.mark.parametrize("nests", [False, True])
def test_each_frame_has_a_session(nests: bool) -> None:
    """A function that is called by the cell can be asked about, with its own inputs; resume functions belong to it. A cell runs
    once, so nothing nests in it."""
    with dynexplore.config.patch(nested_graph_breaks=nests):
        session = ran("r = broken(a)\nt = broken(torch.ones(4), n=2)", world())
    by_frame = {one.frame: one for one in session.recording.frames}
    asked = {frame: session.of_frame(frame) for frame in by_frame}
    own = [frame for frame, one in asked.items() if one is session]
    assert 1 in own and all(by_frame[frame].code.resumes >= 0 for frame in own[1:]) and session.of_frame(None) is session
    first, second = (frame for frame, one in by_frame.items() if one.code.qualname == "broken")
    assert asked[first].about == f"broken, as it was called for frame {first}"
    x, n = asked[second].inputs
    assert (x.shape, n.text) == ((4,), "2")
    resumed = next(frame for frame, one in by_frame.items() if one.parent == second)
    assert asked[resumed].about == asked[second].about
    assert asked[first].what_if(x={"dtype": "float64"}).outcome == "recompile" and asked[first].what_if().outcome == "hit"
    done = asked[first].rerun(asked[first].source.replace("dynexplore.graph_break()", "pass"))
    assert done.after is not None and (done.before.breaks, done.after.breaks) == (1, 0)
    with asked[second].live() as run:
        assert torch.equal(run.finish(), torch.ones(4).sin() * 2 + 1)


@pytest.mark.parametrize("nests", [False, True])
def test_a_frame_that_is_not_held(nests: bool) -> None:
    """Of a cell with many frames the first ones can be asked about; the others say so."""
    with dynexplore.config.patch(nested_graph_breaks=nests):
        session = ran("t = [broken(torch.ones(size, 2), n=size) for size in range(2, 30)]", world())
    assert any(one.code.qualname == "broken" for one in session.recording.frames)  # a comprehension is a frame before 3.12
    with pytest.raises(LookupError, match="only the first 20 frames of a cell keep their inputs"):
        session.of_frame(10_000)


def test_another_text() -> None:
    """The cell with another text runs from where it ran; the namespace is afterwards as it is now, also where it raises."""
    namespace = world()
    session = ran("r = broken(a)\na = a + 1\nw.append(r)\nfresh = 1", namespace)
    namespace["later"] = 1
    now, held = dict(namespace), list(namespace["w"])
    done = session.rerun(session.source.replace("broken(a)", "broken(a).cos()\nanother = g(a)"))
    assert done.after is not None and done.error == "" and done.after.operators > done.before.operators
    assert "raises ZeroDivisionError in line 3" in session.rerun("a = a + 1 / 0").error
    failed = session.rerun("a = = 1")
    assert failed.after is None and failed.error == "the cell has a syntax error, invalid syntax"
    assert namespace.keys() == now.keys() and all(namespace[name] is now[name] for name in now)
    assert [id(one) for one in namespace["w"]] == [id(one) for one in held]
    with pytest.raises(EditError):
        session._edited(None, "(")


def test_step_by_step() -> None:
    """A live run stores into a copy of the namespace, and works on copies of the inputs."""
    namespace = world()
    session = ran("a.add_(1)\nz = g(a)\nfresh = z + 1", namespace)
    before, version = dict(namespace), namespace["a"]._version
    with session.live() as run:
        run.until("graph")
        namespace["meanwhile"] = 1
        run.finish()
    assert len(run.recording.graphs) == 1
    assert run.status == "finished" and namespace.pop("meanwhile") == 1
    assert namespace.keys() == before.keys() and all(namespace[name] is before[name] for name in before)
    assert namespace["a"]._version == version


def test_it_ends_with_its_holder() -> None:
    """The session holds what it needs, and when nobody holds it any more all of that is free."""
    namespace = world()
    session = ran("r = broken(torch.ones(7))", namespace)
    objects = (session, session._cell, session._store, session._calls.by_frame[2].args[0], session.recording)
    held = [weakref.ref(each) for each in objects]
    del objects
    del namespace["broken"]
    gc.collect()
    assert session.of_frame(2).inputs[0].shape == (7,)  # though the notebook has forgotten the function
    assert None not in [ref() for ref in held]
    del session
    gc.collect()
    assert [ref() for ref in held] == [None] * len(held)
