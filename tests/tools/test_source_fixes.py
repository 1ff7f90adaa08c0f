"""Rewrites of a line that breaks the graph: by the form of the code alone, and only where it cannot change what happens."""

from __future__ import annotations

import pytest

from dynexplore.tools.source_fixes import fixes_at, with_lines_at_top, without_cache

pytestmark = pytest.mark.plain("text is rewritten, and nothing is captured")


def rewritten(body: str, line: int = 3) -> dict[str, str]:
    """The rewrites of a line of a function, by their id: the lines of its body."""
    source = "import torch\ndef f(x, y, n):\n" + "".join(f"    {each}\n" for each in body.splitlines())
    return {fix.id: "\n".join(each[4:] for each in fix.text.splitlines()[2:]) for fix in fixes_at(source, line)}


@pytest.mark.parametrize(
    ("body", "id", "changed"),
    [
        ("if x.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1", "where", "y = torch.where(x.sum() > 0, x + 1, x - 1)"),
        ("if x.sum() > 0:\n    y = x + 1", "where", "y = torch.where(x.sum() > 0, x + 1, y)"),
        ("if x.max():\n    return x + 1\nreturn x - 1", "where", "return torch.where(x.max() != 0, x + 1, x - 1)"),
        ("if not x.any():\n    return x + 1\nelse:\n    return x", "where",
         "return torch.where(torch.logical_not(x.any()), x + 1, x)"),
        ("y = x if x.sum().item() > 0 else -x", "where", "y = torch.where(x.sum() > 0, x, -x)"),
        ("y = x if x.sum() > 0 and y.sum() > 1 else -x", "where",
         "y = torch.where((x.sum() > 0) & (y.sum() > 1), x, -x)"),
        ("return n(x) if x.sum() > 0 else x * 2", "cond", "return torch.cond(x.sum() > 0, lambda: n(x), lambda: x * 2)"),
        ("y = x * x.sum().item()", "no-item", "y = x * x.sum()"),
        ("y = x * float(x.sum())", "no-item", "y = x * x.sum()"),
        ("print(x)", "not-compiled", "if not torch.compiler.is_compiling():\n    print(x)"),
        ("logger.info('%s', x)", "not-compiled", "if not torch.compiler.is_compiling():\n    logger.info('%s', x)"),
    ],
)  # fmt: skip
def test_what_a_line_becomes(body: str, id: str, changed: str) -> None:
    """`if` on a tensor, `.item()`, output."""
    assert rewritten(body)[id] == changed


@pytest.mark.parametrize(
    "body",
    [
        "if x.sum() > 0:\n    y += 1",
        "if x.sum() > 0:\n    y = x.add_(1)",
        "if x.sum() > 0:\n    y = torch.rand(2)",
        "if x.sum() > 0:\n    y = n(x)",
        "if x is None:\n    y = x",
        "if x is not None and x.sum() > 0:\n    y = x",
        "if 0 < x.sum() < 1:\n    y = x",
        "if x.sum() > 0:\n    y = x\n    n = 2",
        "if x.sum() > 0:\n    y = x\nelse:\n    n = x",
        "if x.sum() > 0:\n    return x\ny = 2",
    ],
)
def test_what_torch_where_cannot_express(body: str) -> None:
    """Side effects, random numbers, the user's functions, conditions on Python objects, two effects in a branch."""
    assert "where" not in rewritten(body)


def test_an_elif_is_left_alone() -> None:
    """It would become a statement of its own, after the whole choice."""
    assert rewritten("if n:\n    y = x\nelif x.sum() > 0:\n    y = -x\nelse:\n    y = x * 2", 5) == {}


def test_torch_is_imported() -> None:
    """After the docstring, where the rewrite needs it; a line outside of functions is not rewritten."""
    source = '"""Doc."""\nfrom m import g\ndef f(x):\n    print(x)\nprint(1)\n'
    (fix,) = fixes_at(source, 4)
    assert fix.text.splitlines()[:3] == ['"""Doc."""', "from m import g", "import torch"]
    assert fixes_at(source, 5) == [] and fixes_at("def f(:", 1) == []


@pytest.mark.parametrize(
    ("imports", "has"),
    [("import logging", True), ("import os, logging", True), ("import logging.handlers", True), ("import logging  # a log", True),
     ("import logging as logs", False), ("from logging import info", False), ("import logging_tools", False)],
)  # fmt: skip
def test_what_the_file_imports_is_not_imported_again(imports: str, has: bool) -> None:
    """A setting that needs `logging` brings its import only where the first imports of the file do not bind that name."""
    source = f"import torch._dynamo\n{imports}"  # without a line end
    changed = with_lines_at_top(source, ["import torch._dynamo", "import logging; torch.a.add(logging.info)"])
    more = "" if has else "import logging\n"
    assert changed == f"{source}\n{more}torch.a.add(logging.info)\n"
    assert with_lines_at_top(changed, ["import logging; torch.a.add(logging.info)"]) == changed


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("import os\nos.a = 1\nimport logging\n", "import os\nADDED\nos.a = 1\nimport logging\n"),
        ('"""Text:\nimport logging\n"""\nimport os\n', '"""Text:\nimport logging\n"""\nimport os\nADDED\n'),
        ("import os\ndef f():\n    pass\nimport logging\n", "import os\nADDED\ndef f():\n    pass\nimport logging\n"),
        ("import logging\nfrom absl import logging\n", "ADDED\nimport logging\nfrom absl import logging\n"),
        ('"""T."""\nimport os\nimport x as logging\n', '"""T."""\nADDED\nimport os\nimport x as logging\n'),
        ("from absl import logging\nimport logging\n", "from absl import logging\nimport logging\ntorch.a.add(logging.info)\n"),
        ("import os; x = (\n1)\nimport logging\n", "import os; x = (\n1)\nADDED\nimport logging\n"),
        ("import os\nx = 1\ntorch.a.add(logging.info)\n", "import os\nADDED\nx = 1\ntorch.a.add(logging.info)\n"),
    ],
)
def test_only_the_first_imports_of_a_file_count(source: str, changed: str) -> None:
    """An import further down comes too late for the setting, one in a text is none; a name that is given to another module stays
    that module's for the program, so the setting comes before.
    """
    setting = "import logging; torch.a.add(logging.info)"
    assert with_lines_at_top(source, [setting]) == changed.replace("ADDED", setting.replace("; ", "\n"))


def test_a_cache_that_torch_ignores() -> None:
    """The call goes to the function behind the cache; other callers keep it."""
    source = "import functools\n@functools.lru_cache(None)\ndef t(n): ...\ndef u(n): ...\ndef f(x):\n    return t(1) + u(x)\n"
    (fix,) = without_cache(source, 6)
    assert fix.text == source.replace("t(1)", "t.__wrapped__(1)")
    assert without_cache(source, 4) == []
