"""Parser of printed guard trees: what each guard checks, and which line of the user's program it comes from.

The idea: torch prints the guards of a compilation as an indented tree. A guard manager names a source, and the leaves below it
check that source. Each leaf becomes a guard; the part after its last `#` is the program's line when the guard was created.

In: the text of a tree. Out: `guards_of(text)`: a list of `PrintedGuard`.

PyTorch's counterpart: `GuardManagerWrapper.__str__` in torch/_dynamo/guards.py, which writes the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.traces.torch_words import plain_source, tensor_checks


@dataclass(frozen=True, slots=True)
class PrintedGuard:
    """The facts of a printed guard, as in `GuardInstalled`."""

    scope: str
    source: str
    kind: str
    expected: str
    expression: str
    line: int


MOST = 20_000
"""The maximum number of guards recorded for one compilation; the text contains all."""

_ROW = re.compile(r"^((?:\| )*)\+- (\w+)(?:: (.*))?$")
_SOURCE = re.compile(r"source=(.*?), accessed_by=")
_USER_LINE = re.compile(r":(\d+) in (?!init_ambient_guards\b)[^#]*$")
"""Guards on torch's own state, whose line is in torch and not in the user's program."""
_INNER = re.compile(r"[LG]\['(?:[^'\\]|\\.)*'\](?:\.\w+|\[[^\]]*\])*")
_SCOPES = {"L[": "local", "G[": "global"}


def guards_of(text: str) -> list[PrintedGuard]:
    """The leaves of the tree, in order.

    >>> tree = "+- RootGuardManager\\n| +- GuardManager: source=L['n'], accessed_by=A, type=<class 'int'>\\n"
    >>> guards_of(tree + "| | +- EQUALS_MATCH: L['n'] == 3  # return x * n  # f.py:4 in f")[0]
    PrintedGuard(scope='local', source='n', kind='EQUALS_MATCH', expected='', expression='n == 3', line=4)
    """
    tensors = tensor_checks(text)
    sources: list[str] = []
    guards: list[PrintedGuard] = []
    for row in text.splitlines():
        match = _ROW.match(row)
        if match is None:
            continue
        depth, kind, rest = len(match[1]) // 2, match[2], match[3] or ""
        del sources[depth:]
        sources += [sources[-1] if sources else ""] * (depth - len(sources))
        if kind.endswith("Manager") or "GuardManager" in kind:
            source = _SOURCE.search(rest)
            sources.append(source[1] if source else "")
        elif len(guards) < MOST:
            guards.append(_guard(kind, rest, sources[-1] if sources else "", tensors))
    return guards


def _guard(kind: str, rest: str, source: str, tensors: dict[str, tuple[str, str]]) -> PrintedGuard:
    check = re.split(r"\s+# ", rest, maxsplit=1)[0].strip()
    inner = _INNER.search(check)
    source = source or (inner[0] if inner else "")
    line = _USER_LINE.search(rest.partition(" (HINT")[0])
    shown = plain_source(source)
    expected, expression = tensors.get(shown, ("", "")) if kind == "TENSOR_MATCH" else ("", "")
    scope = _SCOPES.get(source[:2], "")
    return PrintedGuard(scope, shown, kind, expected, expression or ev.clip(plain_source(check)), int(line[1]) if line else 0)
