"""A check of files for trace viewers, after the public description of Chrome's trace event format.

The idea: Perfetto drops what it cannot read without a word. So what it requires is checked: the fields of complete ("X") and
metadata ("M") events with their types, and that the slices of a thread nest; its importer drops a slice that overlaps another.

In: a parsed file. Out: `problems_of(trace)`, sentences, none if all is well.
"""

from __future__ import annotations

from typing import Any

_METADATA = ("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index")
_NANOSECOND = 1e-3


def problems_of(trace: Any) -> list[str]:
    """What a viewer would drop or refuse."""
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["no object with traceEvents"]
    problems = [] if trace.get("displayTimeUnit", "ms") in ("ms", "ns") else ["displayTimeUnit"]
    for event in trace["traceEvents"]:
        problems += [f"{event}: {problem}" for problem in _of_event(event)]
    return problems or _overlaps(trace["traceEvents"])


def _of_event(event: Any) -> list[str]:
    if not isinstance(event, dict):
        return ["is no object"]
    problems = [name for name in ("name", "ph") if not isinstance(event.get(name), str) or not event[name]]
    problems += [name for name in ("pid", "tid") if type(event.get(name)) is not int]
    problems += [] if isinstance(event.get("args", {}), dict) else ["args"]
    if event.get("ph") == "X":
        numbers = (event.get("ts"), event.get("dur"))
        problems += [] if all(type(each) in (int, float) and each >= 0 for each in numbers) else ["ts or dur"]
        problems += [] if isinstance(event.get("cat", ""), str) else ["cat"]
    elif event.get("ph") == "M":
        problems += [] if event.get("name") in _METADATA and isinstance(event.get("args", {}).get("name"), str) else ["metadata"]
    else:
        problems.append("is neither X nor M")
    return problems


def _overlaps(events: list[dict[str, Any]]) -> list[str]:
    problems = []
    around: dict[tuple[int, int], list[tuple[float, str]]] = {}
    slices = [event for event in events if event.get("ph") == "X"]
    for event in sorted(slices, key=lambda event: (event["ts"], -event["dur"])):
        ends = around.setdefault((event["pid"], event["tid"]), [])
        while ends and ends[-1][0] <= event["ts"] + _NANOSECOND:
            ends.pop()
        end = event["ts"] + event["dur"]
        if ends and end > ends[-1][0] + 2 * _NANOSECOND:
            problems.append(f"{event['name']} ends after {ends[-1][1]}, in which it began")
        ends.append((end, event["name"]))
    return problems
