"""Containers as models use them: accumulating, recursing over nests, state in objects and globals, star arguments."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import torch
from programs.program_table import Programs

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3)


@program([torch.ones(2), torch.ones(2) * 2, 3], graphs=1, ops=1)
def listargs(l):
    l[0].add_(1)
    l[2] += 1
    return l[0] + l[1]


class Holder:
    def __init__(self):
        self.items = []
        self.d = {}

    def put(self, k, v):
        self.d[k] = v
        self.items.append(v)
        return self


H = Holder()


@program(X, graphs=1, ops=2, setup=lambda: (H.items.clear(), H.d.clear()), observe=lambda: (H.items, H.d))
def holder(x):
    H.put("a", x).put("b", x + 1)
    return H.items[0] * H.d["b"]


G = []


@program(X, graphs=1, ops=1, setup=lambda: G.clear(), observe=lambda: G)
def globlist(x):
    G.append(x.shape[0])
    G.extend([x] * 2)
    return x + len(G)


@program(X, {"a": {"b": [1, 2]}}, graphs=1, ops=1)
def alias(x, d):
    x = x + 1
    inner = d["a"]
    inner["c"] = x
    l = inner["b"]
    l += [3]
    d2 = dict(d)
    d2["a"]["z"] = 1
    return d2, inner is d["a"]


@program(X, (1, [2], {"k": (3, torch.ones(1))}), graphs=1, ops=4)
def deepread(x, t):
    return x * t[0] + t[1][0] + t[2]["k"][0] + t[2]["k"][1]


@program(X, graphs=1, ops=1)
def swap(x):
    a, b = x, x + 1
    a, b = b, a
    l = [1, 2]
    l[0], l[1] = l[1], l[0]
    return a, b, l


@program(X, graphs=1, ops=1)
def starred(x):
    x = x + 1
    def f(a, *b, c=1, **d):
        return a, b, c, d

    args = (x, 2)
    kw = {"c": 3, "e": 4}
    return f(*args, **kw), f(*args, 5, z=1, **{"y": 2}), f(1)


@program(X, graphs=1, ops=6)
def accdict(x):
    out = {}
    for i in range(3):
        out.setdefault(i % 2, []).append(x * i)
    return out, {k: sum(v) for k, v in out.items()}


@program(X, graphs=1, ops=1)
def deldict(x):
    x = x + 1
    d = {"a": 1, "b": 2, "c": x}
    del d["a"]
    k = list(d)
    v = d.popitem()
    return k, v, d


@program(X, graphs=1, ops=1)
def listcomp_cond(x):
    return [a for a in [x, None, x + 1] if a is not None], [i if i else None for i in range(2)]


@program(X, graphs=1, ops=1)
def mulret(x):
    x = x + 1
    def two():
        return x, [1]

    a, b = two()
    (c,), d = [[1], 2]
    return a, b, c, d


@program(X, graphs=1, ops=1)
def strs(x):
    x = x + 1
    parts = []
    for n, v in {"a": 1}.items():
        parts.append(f"{n}={v}")
    return x, ", ".join(parts), "a-b".split("-"), "%s" % ", ".join(map(str, [1]))


@program(X, graphs=1, ops=3)
def inplace(x):
    l = [x.clone()]
    l[0] += 1
    l[0][0] = 5
    d = {"x": l[0]}
    d["x"] *= 2
    return l, d


@program(X, graphs=1, ops=11)
def slices2(x):
    s = slice(0, 1)
    return x[s], x[:, 1:], x[..., None], x[0, ::2], x[[0, 1]], x[(0, 1)], x[torch.tensor([0])], x[-1], x[None], x[x.shape[0] - 1]


@program(X, graphs=1, ops=2)
def setmem(x):
    seen = set()
    for i in [1, 2, 1]:
        if i in seen:
            continue
        seen.add(i)
        x = x + i
    return x, seen


@program(X, graphs=1, ops=1)
def defaultd(x):
    x = x + 1
    d = defaultdict(lambda: defaultdict(int))
    d["a"]["b"] += 1
    return d["a"], x


@program(X, graphs=1, ops=3)
def zipdict(x):
    keys = ["a", "b"]
    return dict(zip(keys, [x, x * 2])), {**{"q": 1}, **{"q": 2}}, list(zip(*[[1, 2], [3, 4]])), tuple(zip("ab", x))


@program(X, graphs=1, ops=1)
def maxkey(x):
    ts = [x, x[:1]]
    return max(ts, key=lambda t: t.shape[0]), sorted(ts, key=lambda t: t.numel())[0], min(len(t) for t in ts)


@program(X, graphs=1, ops=1)
def tensorin(x):
    x = x + 1
    l = [x]
    return x in l, l.index(x), [1, x].count(1) if False else 0


@program(X, graphs=1, ops=3)
def whileloop(x):
    q = deque([1, 2])
    while q:
        n = q.popleft()
        x = x * n
        if n == 2:
            q.append(5)
    return x


@program(X, graphs=1, ops=1)
def recursion(x):
    x = x + 1
    def flat(l):
        return [y for e in l for y in (flat(e) if isinstance(e, (list, tuple)) else [e])]

    return flat([1, [x, (2, [3])]])


@program(X, graphs=1, ops=3)
def treemap(x):
    def m(f, o):
        if isinstance(o, dict):
            return {k: m(f, v) for k, v in o.items()}
        if isinstance(o, (list, tuple)):
            return type(o)(m(f, v) for v in o)
        return f(o)

    return m(lambda t: t * 2, {"a": [x, (x,)], "b": x})


@program(X, graphs=1, ops=2)
def pytree(x):
    import torch.utils._pytree as pt

    return pt.tree_map(lambda t: t + 1, {"a": [x, (x,)]})


@program(X, graphs=1, ops=1)
def trydict(x):
    d = {}
    try:
        d["a"]
    except KeyError as e:
        r = str(e), e.args
    try:
        [][1]
    except (IndexError, KeyError):
        pass
    else:
        x = x + 5
    finally:
        x = x + 1
    return x, r


@program(X, graphs=1, ops=1)
def listeq(x):
    return [1, 2] == [1, 2] and x + 1, (x.shape[0],) == (2,), x.shape[1:] == (3,), x.shape in [(2, 3)], {"a": 1} == {"a": 1}


@program(X, graphs=1, ops=3)
def nestedclosure(x):
    acc = []

    def add(v):
        acc.append(v)
        return len(acc)

    n = [add(x * i) for i in range(3)]
    return acc, n


@PROGRAMS.parameters()
def test_container_styles(run: Any) -> None:
    """Each program of this file does what eager does."""
    run()
