"""engine/runtime/lazy_inductor_templates.py: a kernel template is compiled when it is first rendered, to the same text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from dynexplore.engine.runtime.lazy_inductor_templates import LazyTemplate, lazy_templates

SOURCE = "{% for one in parts %}{{one | indent_except_first(1)}}\n{% endfor %}"
PARTS = ["if x:\n    y", "z"]


def template_class() -> Any:
    return pytest.importorskip("torch._inductor.codegen.common").KernelTemplate


@pytest.mark.plain("nothing is captured")
def test_a_template_is_made_when_it_is_rendered() -> None:
    """Not before, and once; what it renders is what torch's own renders. Behind the block torch makes them as ever."""
    owner = template_class()
    before, made = vars(owner)["_template_from_string"], []
    with lazy_templates():
        late = owner._template_from_string(SOURCE)
    assert isinstance(late, LazyTemplate) and vars(owner)["_template_from_string"] is before
    make = late._make
    late._make = lambda source: made.append(source) or make(source)
    assert made == [] and bool(late)
    assert late.render(parts=PARTS) == owner._template_from_string(SOURCE).render(parts=PARTS) == late.render(parts=PARTS)
    assert made == [SOURCE]


@pytest.mark.plain("nothing is captured")
def test_a_template_with_a_mistake_raises_when_it_is_rendered() -> None:
    """The error is torch's, which shows the lines around it."""
    jinja2 = pytest.importorskip("jinja2")
    owner = template_class()
    with lazy_templates():
        late = owner._template_from_string("{% for one %}")
    with pytest.raises(jinja2.TemplateSyntaxError, match="Error in template at line 1"):
        late.render()


@pytest.mark.plain("nothing is captured")
def test_where_torch_has_no_such_function_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is private, and may go."""
    monkeypatch.setattr(template_class(), "_template_from_string", len)
    with lazy_templates():
        assert template_class()._template_from_string is len


PROGRAM = """
import json, torch, torch._dynamo, dynexplore
compiled = dynexplore.optimize("inductor")(lambda x: (x * 2).relu())
compiled(torch.ones(3))
from torch._inductor.select_algorithm import TritonTemplate
from dynexplore.engine.runtime.lazy_inductor_templates import LazyTemplate
templates = [one.template for one in TritonTemplate.all_templates.values()]
print(json.dumps([len(templates), sum(isinstance(one, LazyTemplate) and one._template is None for one in templates)]))
"""


def test_a_process_that_asks_for_inductor_makes_none() -> None:
    """All templates of a fresh process are only noted."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    known, late = json.loads(done.stdout.splitlines()[-1])
    assert known > 5 and late == known
