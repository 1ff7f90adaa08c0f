"""Random programs on containers: a few lists, dicts and sets, changed, shared, walked and printed at random places.

The idea: each drawn program is a straight line of statements over the names a, b (lists), d (dict), s (set), t (a tuple) and x (a
tensor), where any statement may be followed by a `print`, which breaks the graph. Whatever it does, errors included, the
engine does the same: values, identities, mutations of the arguments, exceptions, output.
"""

from __future__ import annotations

import linecache
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.random_programs import ANY

from engine_checks import assert_same_as_eager

LISTS = st.sampled_from(["a", "b"])
NAMES = st.sampled_from(["a", "b", "d", "s", "t", "x"])
NUMBERS = st.integers(-3, 4).map(str)
INDICES = st.sampled_from(["0", "-1", "1", "2", "len(a) - 1", "n"])
SLICES = st.sampled_from(["1:", ":-1", "::2", ":", "0:1", "::-1"])
KEYS = st.sampled_from(["'k'", "'m'", "1", "True", "(1, 'z')", "None", "'new'"])
SCALARS = st.one_of(NUMBERS, KEYS, st.sampled_from(["x", "x + 1", "[n]", "t", "2.0", "a", "n"]))


def _fill(template: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.fixed_dictionaries(parts).map(lambda drawn: template.format(**drawn))


STATEMENTS = st.one_of(
    _fill("{l}.append({v})", l=LISTS, v=SCALARS),
    _fill("{l}.extend([{v}, {w}])", l=LISTS, v=SCALARS, w=SCALARS),
    _fill("{l}.insert({i}, {v})", l=LISTS, i=INDICES, v=SCALARS),
    _fill("n = {l}.pop({i})", l=LISTS, i=INDICES),
    _fill("{l}.reverse()", l=LISTS),
    _fill("{l}[{i}] = {v}", l=LISTS, i=INDICES, v=SCALARS),
    _fill("{l}[{i}] = {m}[{k}]", l=LISTS, m=LISTS, i=SLICES, k=SLICES),
    _fill("del {l}[{i}]", l=LISTS, i=st.one_of(INDICES, SLICES)),
    _fill("{l} = {m}[{i}]", l=LISTS, m=LISTS, i=SLICES),
    _fill("{l} = {m}", l=LISTS, m=LISTS),
    _fill("{l} = {m} + [{v}]", l=LISTS, m=LISTS, v=SCALARS),
    _fill("{l} += ({v}, {w})", l=LISTS, v=SCALARS, w=NUMBERS),
    _fill("d[{k}] = {v}", k=KEYS, v=SCALARS),
    _fill("n = d.pop({k}, {v})", k=KEYS, v=NUMBERS),
    _fill("n = d[{k}]", k=KEYS),
    _fill("n = d.get({k}, {v})", k=KEYS, v=SCALARS),
    _fill("d.setdefault({k}, []).append({v})", k=KEYS, v=SCALARS),
    _fill("d.update({{{k}: {v}}})", k=KEYS, v=SCALARS),
    _fill("d = {{**d, {k}: {v}}}", k=KEYS, v=SCALARS),
    _fill("del d[{k}]", k=KEYS),
    _fill("d.popitem()"),
    _fill("s.add({k})", k=KEYS),
    _fill("s.discard({k})", k=KEYS),
    _fill("s |= {{{k}, {v}}}", k=KEYS, v=NUMBERS),
    _fill("s = s - {{{k}}}", k=KEYS),
    _fill("t = t + ({v},)", v=SCALARS),
    _fill("t = (*t[1:], {v})", v=SCALARS),
    _fill("n, *{l} = [{v}, *{m}]", l=LISTS, m=LISTS, v=NUMBERS),
    _fill("x = x * {v} + len({n})", v=NUMBERS, n=st.sampled_from(["a", "b", "d", "s", "t"])),
    _fill("n = {k} in {c}", k=KEYS, c=st.sampled_from(["d", "s", "t"])),
    _fill("n = [repr(k) for k in d]"),
    _fill("{l} = [v for v in {m} if v is not x]", l=LISTS, m=LISTS),
    _fill("{l} = list(zip(range(3), {m}))", l=LISTS, m=LISTS),
    _fill("n = {p} is {q}", p=NAMES, q=NAMES),
    _fill("it = {f}({l})", l=LISTS, f=st.sampled_from(["iter", "enumerate", "reversed", "sorted"])),
    _fill("it = zip({l}, d)", l=LISTS),
    _fill("it = iter(d.{p}())", p=st.sampled_from(["keys", "items", "values"])),
    _fill("n = next(it, {v})", v=SCALARS),
    _fill("for v in it: {l}.append(v); 1 / (len({l}) < 9)", l=LISTS),
    _fill("for v in {l}: x = x + 1; print(len(d)); d[len(d)] = v; 1 / (len(d) < 9)", l=LISTS),
    _fill("for i, v in enumerate({l}): {m}[{i}] = i", l=LISTS, m=LISTS, i=INDICES),
    _fill("for k in d: d[{k}] = {v}", k=KEYS, v=SCALARS),
    _fill("for k in list(d): {l}.append(k)", l=LISTS),
    _fill("{l}.sort(key=lambda v: (str(type(v)), len(repr(v))))", l=LISTS),
    _fill("def f(v={v}): nonlocal_list.append(v); return len(nonlocal_list)", v=SCALARS),
    _fill("n = f({v})", v=SCALARS),
    _fill("n = a == b, {v} in a, d == {{{k}: 1}}, t < (1, 2), s <= {{1, 'k'}}", v=NUMBERS, k=KEYS),
    _fill('n = f"{{len(a)}} {{t[:1]}} {{d.get({k})}}"', k=KEYS),
    _fill("n = sum(v for v in {l} if isinstance(v, int)), max([len(str(v)) for v in t])", l=LISTS),
    _fill("print('here')"),
    _fill("print(len({n}))", n=st.sampled_from(["a", "b", "d", "s", "t"])),
)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of a function `program(x, a, d, s)`."""
    lines = ["def program(x, a, d, s):", "    x = x + 1", "    b, t, n, nonlocal_list, it, f = [a, 1], (1, x), 0, [], iter(a), len"]
    for statement in draw(st.lists(STATEMENTS, min_size=2, max_size=12)):
        guarded = draw(st.integers(0, 3)) > 0
        if guarded:
            lines += ["    try:", f"        {statement}", "    except Exception as e:", "        n = type(e).__name__"]
        else:
            lines.append(f"    {statement}")
    lines += ["    try:", "        rest = [*it]", "    except RuntimeError as e:", "        rest = str(e)"]
    lines.append("    return x, a, b, d, s, t, n, nonlocal_list, rest")
    return "\n".join(lines) + "\n"


def function_of(text: str) -> Any:
    """Compile a program as if it stood in a file."""
    name = f"<drawn program {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"]


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_a_random_program_does_the_same(text: str) -> None:
    """A random program on containers equals eager in values, identities, mutations, exceptions and output."""
    arguments = (torch.arange(3.0), [1, "two", [3]], {"k": 1, "m": [2], 1: None}, {1, "k"})
    assert_same_as_eager(function_of(text), *arguments, calls=2, graphs=ANY)
