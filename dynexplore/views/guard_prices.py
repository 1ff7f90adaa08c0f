"""Prices of guards, as text: what one check of an entry costs, which values cost most, and what each guard filter would save.

The idea: every call of compiled code checks guards, so their price matters where the function is short or is called often. The
entries are listed by the cost of one check, each with its most expensive values and single guards, and with the filters that save a
tenth or more.
A filter that saves less is counted only: it is unsafe and not worth it.

In: a Recording with `GuardsTimed`. Out: `price_lines(recording)`, text; `prices_of(recording)`, plain data.

PyTorch's counterpart: the "Guard latency" at the end of each tree in TORCH_LOGS=guards.
"""

from __future__ import annotations

from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural
from dynexplore.views.targets_table import Function, functions_of

_MOST_ENTRIES = 3
_MOST_VALUES = 3
_WIDEST = 80
_WORTH = 0.1
"""The part of a check that a filter or a value has to make up to be listed."""


def price_lines(recording: Recording, most: int = _MOST_ENTRIES) -> list[str]:
    """The prices as lines; none if none were measured. `most`: the number of entries (0: all)."""
    ranked = sorted(recording.of(ev.GuardsTimed), key=lambda timed: -timed.seconds)
    shown, functions = ranked[: most or None], _functions(recording) if ranked else {}
    lines = ["Measured guard cost: the most expensive checks that run on every call to the function:"] if ranked else []
    for timed in shown:
        lines.append(f"  {microseconds(timed.seconds):>8}  {_entry(timed, functions.get(timed.frame))}")
        lines += [f"            {line}" for line in entry_lines(timed)]
    if len(ranked) > len(shown):
        lines.append(f"... and {plural(len(ranked) - len(shown), 'more entry', 'more entries')} (--full)")
    return lines


def _functions(recording: Recording) -> dict[int, Function]:
    return {frame: function for function in functions_of(recording) for frame in function.frames}


def _entry(timed: ev.GuardsTimed, function: Function | None) -> str:
    if function is None:
        return f"entry {timed.entry}"
    return f"entry {timed.entry} of {function.name}" + (f" ({function.place})" if function.place else "")


def entry_lines(timed: ev.GuardsTimed) -> list[str]:
    """The values of an entry that cost most, and the filters that would save something, a line for each kind."""
    values = sorted(timed.values, key=lambda price: -price.seconds)
    costly = [price for price in values if price.seconds >= _WORTH * timed.seconds][:_MOST_VALUES]
    listed = ", ".join(f"`{price.source}` {microseconds(price.seconds)}" for price in costly)
    lines = [f"most of it: {listed}"] if costly else []
    lines += _check_lines(timed)
    for price in timed.filters:
        saved = timed.seconds - price.seconds
        if saved >= _WORTH * timed.seconds:
            lines.append(f"{price.name} saves {microseconds(saved)} (keeps {price.remaining} of {plural(price.guards, 'guard')})")
    if timed.filters and not any("saves" in line for line in lines):
        lines.append("no guard filter saves 10% of it")
    return lines


def _check_lines(timed: ev.GuardsTimed) -> list[str]:
    """The single guards that cost most, and the rest, of which no part can be measured by itself."""
    checks = sorted(timed.checks, key=lambda price: -price.seconds)
    costly = [price for price in checks if price.seconds >= _WORTH * timed.seconds][:_MOST_VALUES]
    if not checks:
        return []
    named = [f"{_check(price)} {microseconds(price.seconds)}" for price in costly]
    others = sum(price.seconds for price in checks[len(costly) :])
    if len(checks) > len(costly):
        named.append(f"{plural(len(checks) - len(costly), 'other guard')} {microseconds(others)} in total")
    if not costly:
        each = f"all {len(checks)} together take" if len(checks) > 1 else "the only one takes"
        named = [f"no single guard takes 10% of the check; {each} {microseconds(others)}"]
    rest = max(timed.seconds - sum(price.seconds for price in checks), 0.0)
    together = f" and {plural(timed.unchecked, 'guard')} that cannot be timed alone" if timed.unchecked else ""
    first = "single guards: " * bool(costly) + ", ".join(named)
    return [first, f"reading the values{together}: {microseconds(rest)}"]


def _check(price: ev.CheckPrice) -> str:
    """A guard by its kind and what it checks.

    >>> _check(ev.CheckPrice("TENSOR_MATCH", "x", "check_tensor(x, ...)", 0)), _check(ev.CheckPrice("GLOBAL_STATE", "", "f()", 0))
    ('TENSOR_MATCH of `x`', 'GLOBAL_STATE')
    >>> _check(ev.CheckPrice("LAMBDA_GUARD", "", "2 <= x.size()[0]", 0))
    'LAMBDA_GUARD `2 <= x.size()[0]`'
    >>> _check(ev.CheckPrice("LAMBDA_GUARD", "", "2 <= x.size()[0]", 0, 7))
    '7 relations between sizes and strides, such as `2 <= x.size()[0]`,'
    """
    if price.source:
        return f"{price.kind} of `{price.source}`"
    if price.relations > 1:
        return f"{price.relations} relations between sizes and strides, such as `{ev.clip(price.check, _WIDEST)}`,"
    return f"{price.kind} `{ev.clip(price.check, _WIDEST)}`" if price.kind == "LAMBDA_GUARD" else price.kind


def microseconds(seconds: float) -> str:
    """A duration in microseconds, at most three digits.

    >>> microseconds(5.876e-6), microseconds(4.2e-8), microseconds(3.331e-4), microseconds(2.5e-3)
    ('5.88 us', '0.042 us', '333 us', '2500 us')
    """
    value = seconds * 1e6
    digits = 3 if value < 0.1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} us"


def prices_of(recording: Recording) -> list[dict[str, Any]]:
    """The prices as plain data, the costliest entry first; durations are in microseconds."""
    functions = _functions(recording)
    return [
        {
            "entry": timed.entry,
            "function": functions[timed.frame].name if timed.frame in functions else "",
            "us": round(timed.seconds * 1e6, 3),
            "values": [
                {"source": price.source, "guards": price.guards, "us": round(price.seconds * 1e6, 3)} for price in timed.values
            ],
            "checks": [
                {
                    "kind": price.kind,
                    "source": price.source,
                    "check": price.check,
                    "us": round(price.seconds * 1e6, 3),
                    **({"relations": price.relations} if price.relations else {}),
                }
                for price in timed.checks
            ],
            "unchecked": timed.unchecked,
            "filters": [
                {
                    "name": price.name,
                    "remaining": price.remaining,
                    "guards": price.guards,
                    "saves_us": round((timed.seconds - price.seconds) * 1e6, 3),
                }
                for price in timed.filters
            ],
        }
        for timed in sorted(recording.of(ev.GuardsTimed), key=lambda timed: -timed.seconds)
    ]
