"""views/growing_lists.py: only a list that the function itself makes longer is to be appended to elsewhere."""

from __future__ import annotations

import pytest
from views.test_remedies import called

from dynexplore.engine import events as ev
from dynexplore.views.miss_reasons import reasons_of
from dynexplore.views.ranked_costs import costs_of
from dynexplore.views.remedies import row_of

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]

OWN_LIST = """
class M(torch.nn.Module):
    def __init__(self, count): super().__init__(); self.log = [1] * count
    def forward(self, x): return x * len(self.log)
def f(m, x): return m(x)
"""
LENGTHS = {
    "global": ("growing", "log = [1]\ndef f(x): log.append(1); return x * len(log)\ncalls = [(torch.ones(2),)] * 4"),
    "global, empty": ("growing", "log = []\ndef f(x): log.append(1); return x * len(log)\ncalls = [(torch.ones(2),)] * 4"),
    "by two": ("growing", "log = []\ndef f(x): log.extend([1, 2]); return x * len(log)\ncalls = [(torch.ones(2),)] * 4"),
    "in a dict": ("growing", "d = {'k': []}\ndef f(x): d['k'].append(1); return x * len(d['k'])\ncalls = [(torch.ones(2),)] * 4"),
    "assigned": ("growing", "log = []\ndef f(x): global log; log = log + [1]; return x * len(log)\ncalls = [(torch.ones(2),)] * 4"),
    "of a module": ("growing", """
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.log = []
    def forward(self, x): self.log.append(1); return x * len(self.log)
m = M()
def f(x): return m(x)
calls = [(torch.ones(2),)] * 4
"""),
    "closure": ("growing", """
def made():
    log = []
    def f(x): log.append(1); return x * len(log)
    return f
f, calls = made(), [(torch.ones(2),)] * 4
"""),
    "once": ("length", "log = [1]\ndef f(x): log.append(1); return x * len(log)\ncalls = [(torch.ones(2),)] * 2"),
    "argument": ("length", "def f(x, s): return x * len(s)\ncalls = [(torch.ones(2), [1] * k) for k in (0, 1, 2)]"),
    "argument, appended to": (
        "length", "def f(x, s): s.append(0); return x * len(s)\ncalls = [(torch.ones(2), [1] * k) for k in (0, 1, 2)]"
    ),
    "tuple": ("length", "def f(x, s): return x * len(s)\ncalls = [(torch.ones(2), (1,) * k) for k in (1, 2, 3)]"),
    "global tuple": ("length", """
log = (1,)
def f(x): global log; log = log + (1,); return x * len(log)
calls = [(torch.ones(2),)] * 4
"""),
    "two modules": ("length", f"{OWN_LIST}calls = [(M(k), torch.ones(2)) for k in (1, 2)]"),
    "three modules": ("length", f"{OWN_LIST}calls = [(M(k), torch.ones(2)) for k in (1, 2, 3)]"),
    "appended to outside": ("length", """
log = []
def f(x): return x * len(log)
def change(k): log.append(k)
calls = [(torch.ones(2),)] * 4
"""),
}  # fmt: skip
"""What a length belongs to -> the row of its recompiles, and the program."""


ENGINES = ["dynexplore", pytest.param("torch.compile", marks=pytest.mark.plain("torch.compile runs, and this engine does not"))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", LENGTHS)
def test_only_a_list_that_grows_is_to_be_appended_to_elsewhere(name: str, engine: str) -> None:
    """The function itself has to append to it, in call after call: another length of an argument, a tuple or another module's list
    is no such list."""
    row, source = LENGTHS[name]
    recording = called(engine, source)
    reasons = [reason for event in recording.of(ev.Recompiled) for reason in reasons_of(recording, event.frame)]
    rows = {row_of(reason).id for reason in reasons}
    assert rows and rows <= {row, "any-instance"}, [reason.line for reason in reasons]  # that another object is passed comes first
    begin = {"growing": "Append to `", "length": "Keep the length of `"}[row]
    advices = [cost.advice for cost in costs_of(recording) if not cost.is_expected]
    assert all(text.startswith(begin) for text in advices), advices
