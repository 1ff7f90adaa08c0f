"""Containers as models use them: accumulating, recursing over nests, state in objects and globals, star arguments."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import torch
from programs.program_table import Programs

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3)


@program([torch.ones(2), torch.ones(2) * 2, 3])
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


@program(X, setup=lambda: (H.items.clear(), H.d.clear()), observe=lambda: (H.items, H.d))
def holder(x):
    H.put("a", x).put("b", x + 1)
    return H.items[0] * H.d["b"]


G = []


@program(X, setup=lambda: G.clear(), observe=lambda: G)
def globlist(x):
    G.append(x.shape[0])
    G.extend([x] * 2)
    return x + len(G)


@program(X, {"a": {"b": [1, 2]}})
def alias(x, d):
    inner = d["a"]
    inner["c"] = x
    l = inner["b"]
    l += [3]
    d2 = dict(d)
    d2["a"]["z"] = 1
    return d2, inner is d["a"]


@program(X, (1, [2], {"k": (3, torch.ones(1))}))
def deepread(x, t):
    return x * t[0] + t[1][0] + t[2]["k"][0] + t[2]["k"][1]


@program(X)
def swap(x):
    a, b = x, x + 1
    a, b = b, a
    l = [1, 2]
    l[0], l[1] = l[1], l[0]
    return a, b, l


@program(X)
def starred(x):
    def f(a, *b, c=1, **d):
        return a, b, c, d

    args = (x, 2)
    kw = {"c": 3, "e": 4}
    return f(*args, **kw), f(*args, 5, z=1, **{"y": 2}), f(1)


@program(X)
def accdict(x):
    out = {}
    for i in range(3):
        out.setdefault(i % 2, []).append(x * i)
    return out, {k: sum(v) for k, v in out.items()}


@program(X)
def deldict(x):
    d = {"a": 1, "b": 2, "c": x}
    del d["a"]
    k = list(d)
    v = d.popitem()
    return k, v, d


@program(X)
def listcomp_cond(x):
    return [a for a in [x, None, x + 1] if a is not None], [i if i else None for i in range(2)]


@program(X)
def mulret(x):
    def two():
        return x, [1]

    a, b = two()
    (c,), d = [[1], 2]
    return a, b, c, d


@program(X)
def strs(x):
    parts = []
    for n, v in {"a": 1}.items():
        parts.append(f"{n}={v}")
    return x, ", ".join(parts), "a-b".split("-"), "%s" % ", ".join(map(str, [1]))


@program(X)
def inplace(x):
    l = [x.clone()]
    l[0] += 1
    l[0][0] = 5
    d = {"x": l[0]}
    d["x"] *= 2
    return l, d


@program(X)
def slices2(x):
    s = slice(0, 1)
    return x[s], x[:, 1:], x[..., None], x[0, ::2], x[[0, 1]], x[(0, 1)], x[torch.tensor([0])], x[-1], x[None], x[x.shape[0] - 1]


@program(X)
def setmem(x):
    seen = set()
    for i in [1, 2, 1]:
        if i in seen:
            continue
        seen.add(i)
        x = x + i
    return x, seen


@program(X)
def defaultd(x):
    d = defaultdict(lambda: defaultdict(int))
    d["a"]["b"] += 1
    return d["a"], x


@program(X)
def zipdict(x):
    keys = ["a", "b"]
    return dict(zip(keys, [x, x * 2])), {**{"q": 1}, **{"q": 2}}, list(zip(*[[1, 2], [3, 4]])), tuple(zip("ab", x))


@program(X)
def maxkey(x):
    ts = [x, x[:1]]
    return max(ts, key=lambda t: t.shape[0]), sorted(ts, key=lambda t: t.numel())[0], min(len(t) for t in ts)


@program(X)
def tensorin(x):
    l = [x]
    return x in l, l.index(x), [1, x].count(1) if False else 0


@program(X)
def whileloop(x):
    q = deque([1, 2])
    while q:
        n = q.popleft()
        x = x * n
        if n == 2:
            q.append(5)
    return x


@program(X)
def recursion(x):
    def flat(l):
        return [y for e in l for y in (flat(e) if isinstance(e, (list, tuple)) else [e])]

    return flat([1, [x, (2, [3])]])


@program(X)
def treemap(x):
    def m(f, o):
        if isinstance(o, dict):
            return {k: m(f, v) for k, v in o.items()}
        if isinstance(o, (list, tuple)):
            return type(o)(m(f, v) for v in o)
        return f(o)

    return m(lambda t: t * 2, {"a": [x, (x,)], "b": x})


@program(X)
def pytree(x):
    import torch.utils._pytree as pt

    return pt.tree_map(lambda t: t + 1, {"a": [x, (x,)]})


@program(X)
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


@program(X)
def listeq(x):
    return [1, 2] == [1, 2] and x + 1, (x.shape[0],) == (2,), x.shape[1:] == (3,), x.shape in [(2, 3)], {"a": 1} == {"a": 1}


@program(X)
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
