"""Small scripts that use torch.compile, each with one thing that breaks its graph or makes it compile again.

In: nothing. Out: `SCRIPTS`: name -> a `Script`: its text, the text of the line to blame, what the headline says.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Script:
    """`line` is the line that a headline names ("" for a recompile, which names the value), `says` are words of the headline."""

    text: str
    line: str
    says: tuple[str, ...]


def _breaking(name: str, before: str, body: str, line: str, *says: str) -> tuple[str, Script]:
    head = f"import torch\n{before}\n\n@torch.compile(backend='eager')\ndef f(x):\n    y = x * 2\n"
    text = f"{head}{body}\n\nfor _ in range(2):\n    f(torch.ones(3))\n"
    return f"breaks: {name}", Script(text, line, says)


def _recompiling(name: str, text: str, *says: str) -> tuple[str, Script]:
    return f"recompiles: {name}", Script(f"import torch\n\n{text}", "", says)


SCRIPTS: dict[str, Script] = dict(
    (
        _breaking("print", "", "    print('y is', y)\n    return y + 1", "print('y is', y)", "builtin", "print"),
        _breaking("item", "", "    n = y.sum().item()\n    return y + n", "n = y.sum().item()", "Tensor.item()"),
        _breaking("if", "", "    if y.sum() > 3:\n        y = y - 1\n    return y", "if y.sum() > 3:", "Data-dependent"),
        _breaking("unsupported call", "import time", "    t = time.time()\n    return y + t * 0", "t = time.time()", ""),
        _breaking(
            "generator",
            "\ndef parts(x):\n    for k in range(3):\n        print('part', k)\n        yield x + k\n",
            "    return sum(parts(y))",
            "print('part', k)",
            "",
        ),
        _breaking(
            "call of a library",
            "import json\n\nlog = []\n",
            "    log.append(json.dumps({'a': 1}))\n    return y + 1",
            "log.append(json.dumps({'a': 1}))",
            "in iterencode (encoder.py:",
        ),
        _breaking(
            "loop",
            "",
            "    for k in range(3):\n        if y.sum() > 9:\n            break\n        y = y * 2\n    return y",
            "if y.sum() > 9:",
        ),
        _recompiling(
            "size",
            "@torch.compile(backend='eager')\ndef f(x):\n    return x * 2\n\nfor n in (3, 4, 5):\n    f(torch.ones(n))\n",
            "`x` changed from 3 elements to 4 (used on line 5)",
        ),
        _recompiling(
            "int",
            "@torch.compile(backend='eager')\ndef f(x, n):\n    return x * n\n\nfor n in (2, 3, 4):\n    f(torch.ones(3), n)\n",
            "`n` changed from 2 to 3 (used on line 5)", "the new version accepts any value of `n`",
        ),
        _recompiling(
            "float",
            "@torch.compile(backend='eager')\ndef f(x, rate):\n    return x * rate\n\n"
            "for r in (0.5, 0.25):\n    f(torch.ones(3), r)\n",
            "`rate` changed from 0.5 to 0.25 (used on line 5)", "the new version accepts any value of `rate`",
        ),
        _recompiling(
            "attribute",
            "class Scaler:\n    by = 2\n\nscaler = Scaler()\n\n"
            "@torch.compile(backend='eager')\ndef f(x, s):\n    return x * s.by\n\n"
            "for n in (2, 3):\n    scaler.by = n\n    f(torch.ones(3), scaler)\n",
            "`s.by` changed from 2 to 3 (used on line 10)",
        ),
        _recompiling(
            "dict key",
            "@torch.compile(backend='eager')\ndef f(x, d):\n    return x + d['a'] if 'b' not in d else x + d['b']\n\n"
            "f(torch.ones(3), {'a': 1})\nf(torch.ones(3), {'a': 1, 'b': 2})\n",
            "`d` now has the key 'b' (used on line 5)",
            "the same keys in `",
        ),
        _recompiling(
            "global",
            "SCALE = 2.0\n\n@torch.compile(backend='eager')\ndef f(x):\n    return x * SCALE\n\n"
            "f(torch.ones(3))\nSCALE = 3.0\nf(torch.ones(3))\n",
            "`SCALE` changed from 2.0 to 3.0",
        ),
        _recompiling(
            "module flag",
            "net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5)).requires_grad_(False)\n"
            "fast = torch.compile(net, backend='eager')\nfast(torch.ones(1, 3))\nnet.eval()\nfast(torch.ones(1, 3))\n",
            "Sequential.forward recompiled: ",
            "training",
        ),
        _recompiling(
            "switch",
            "DOUBLE = True\n\n@torch.compile(backend='eager')\ndef f(x):\n    return x * 2 if DOUBLE else x + 1\n\n"
            "f(torch.ones(3))\nDOUBLE = False\nf(torch.ones(3))\n",
            "`DOUBLE` changed from True to False",
            "each gets its own compiled version",
        ),
        _recompiling(
            "gradients",
            "net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())\nfast = torch.compile(net, backend='eager')\n"
            "fast(torch.ones(1, 3))\nwith torch.no_grad():\n    fast(torch.ones(1, 3))\n",
            "Sequential.forward recompiled: the global state of torch changed (grad mode)",
            "as in training and evaluation",
        ),
    )
)
