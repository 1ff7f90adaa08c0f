"""What random programs stand on: the classes, functions, context managers and generators that they call.

The text is run in front of each program, in a module of its own (random_programs.py).
"""

from __future__ import annotations

PRELUDE = """
import contextlib
import dataclasses
import functools
import itertools
import math
import random
import torch
import dynexplore

G = 1
LOG = []
STATE = {"count": 0}


class Own(ValueError):
    pass


class Box:
    kind = 1

    def __init__(self, t, n):
        self.t, self.n, self.items = t, n, []

    @property
    def twice(self):
        return self.n * 2

    @twice.setter
    def twice(self, value):
        self.n = value

    @classmethod
    def made(cls, t):
        return cls(t, cls.kind)

    @staticmethod
    def plus(t, k=1):
        return t + k

    def scaled(self, t):
        return t * self.n + self.t

    def bump(self, k):
        self.n = (self.n + k) % 5
        self.items.append(k)
        return self

    def noisy(self, t):
        t = t + 1
        print("noisy", self.n)
        self.t = t * 2
        return self.t

    def __repr__(self):
        return f"{type(self).__name__} of {self.kind}"

    def __len__(self):
        return len(self.items)

    def __getitem__(self, k):
        return self.items[k]

    def __call__(self, t):
        return self.scaled(t)

    def __eq__(self, other):
        return isinstance(other, Box) and self.n == other.n

    def __hash__(self):
        return 1


class Loud(Box):
    kind = 2

    def bump(self, k):
        LOG.append(k)
        return super().bump(k + 1)

    def __getattr__(self, name):
        if name.startswith("any_"):
            return len(name)
        raise AttributeError(name)


class Own_with:
    def __init__(self, name, swallows=False, breaks=False):
        self.name, self.swallows, self.breaks = name, swallows, breaks

    def __enter__(self):
        LOG.append("enter " + self.name)
        if self.breaks:
            print("enter", self.name)
        return len(self.name)

    def __exit__(self, kind, value, trace):
        LOG.append("exit " + self.name + (" " + kind.__name__ if kind else ""))
        if self.breaks:
            print("exit", self.name)
        return self.swallows


@contextlib.contextmanager
def made_with(k):
    LOG.append(k)
    try:
        yield k + 1
    finally:
        LOG.append(-k)


@dataclasses.dataclass(order=True)
class Pair:
    left: object
    right: object = 1

    def total(self):
        return self.left * self.right

    def __add__(self, other):
        return Pair(self.left + other.left, self.right)

    def __matmul__(self, t):
        return self.left * t

    def __getitem__(self, k):
        return self.left if k % 2 else self.left * self.right

    def __iter__(self):
        yield self.left
        yield self.right


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: object


class Counted:
    __slots__ = ("_value", "count")

    def __init__(self, value):
        self._value, self.count = value, 0

    @classmethod
    def of(cls, value):
        return cls(value).step()

    @property
    def value(self):
        self.count += 1
        return self._value

    @value.setter
    def value(self, value):
        LOG.append("set")
        self._value = value

    def step(self):
        self.count += 1
        self._value = self._value + 1
        return self

    def __str__(self):
        return f"counted {self.count}"


def keyword_only(t, /, *, k=2, j=0):
    return t * k + j


def both(t, k):
    if k > 1:
        print("both")
    return t, t + k


def pairs(t, k):
    for i in range(k % 3 + 1):
        with Own_with("pairs"):
            yield t + i, i
    return "pairs done"


def closes(t):
    made = pairs(t, 2)
    first, _ = next(made)
    made.close()
    return first


def sends_in(t, k):
    made = sends(t)
    next(made)
    t = made.send(k)
    try:
        made.send(None)
    except StopIteration as stop:
        return stop.value
    return t


def say(v):
    print("say")
    return v


def say_late(t, k=1):
    t = t * 2
    print("late", k)
    return t + k


@dynexplore.disable
def outside(t):
    return t - 1


def helper(t, *rest, k=2, **more):
    for r in rest:
        t = t + r
    return t * k + len(more)


def changes(items, t):
    items.append(t)
    t.add_(1)
    return t


def may_raise(t, k):
    LOG.append("may_raise")
    if k > 1:
        raise Own("too much", k)
    return t + k


def checks_data(t):
    if t.sum() > 0:
        return t * 2
    return t - 1


def numbers(t, k):
    for i in range(k % 4):
        yield t + i
    LOG.append("exhausted")


def sends(t):
    got = yield t
    while got is not None:
        t = t + got
        got = yield t
    return t


def delegates(t, k):
    last = yield from numbers(t, k)
    LOG.append(last)


def recursive(t, k):
    return t if k <= 0 else recursive(t + k, k - 1)


def makes(k):
    def inner(t):
        nonlocal k
        k += 1
        return t * k
    return inner


def decorated(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        LOG.append("call")
        return fn(*args, **kwargs)
    return inner


@decorated
def wrapped(t):
    return t.sin()


@torch.no_grad()
def without_grad(t):
    return t * 2
"""
