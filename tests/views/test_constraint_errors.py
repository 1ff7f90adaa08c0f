"""views/constraint_errors.py: which size was marked, which one the program needs, and what helps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dynexplore.cli import main
from dynexplore.views.constraint_errors import explained

pytestmark = [
    pytest.mark.lenses,
    pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning"),
]

SCRIPT = """import torch
@torch.compile(backend="eager")
def f(a, b):
    return a + b
a, b = torch.ones(4, 10), torch.ones(4, 10)
torch._dynamo.mark_dynamic(a, 0)
f(a, b)
"""
OLDER = """torch.fx.experimental.symbolic_shapes.ConstraintViolationError: Constraints violated (L['query'].size()[2])!
  - Not all are valid because L['query'].size()[2] was inferred to be a constant (22).
"""


def test_the_report_names_the_size_the_line_and_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`watch` of a script that ends so, in the program's terms; a script that follows the advice does not raise."""
    torch._dynamo.reset()
    script = tmp_path / "marked.py"
    script.write_text(SCRIPT, encoding="utf-8")
    assert main(["watch", str(script)]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "ConstraintViolationError (marked.py:7). Dimension 0 of `a` is marked as dynamic" in printed
    assert "requires size 4 at marked.py:4" in printed and "mark that one, too" in printed
    torch._dynamo.reset()
    for mended in (SCRIPT.replace("\nf(a", "\ntorch._dynamo.mark_dynamic(b, 0)\nf(a"), SCRIPT.replace("mark_d", "maybe_mark_d")):
        script.write_text(mended, encoding="utf-8")
        assert main(["watch", str(script)]) == 0
        torch._dynamo.reset()


@pytest.mark.plain("about the text of an exception")
def test_the_words_of_an_older_torch_are_read() -> None:
    """And those of other exceptions are left alone."""
    violation = explained(OLDER)
    assert violation is not None and (violation.tensor, violation.axis, violation.size, violation.line) == ("query", 2, 22, 0)
    assert explained("ValueError: You marked L['a'].size()[0] as dynamic") is None
