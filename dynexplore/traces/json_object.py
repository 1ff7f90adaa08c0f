"""JSON objects in logs, which anybody may have cut off or edited.

In: a text of a log. Out: `json_object(text)`: the object, or an empty one.
"""

from __future__ import annotations

import json
from typing import Any


def json_object(text: str) -> dict[str, Any]:
    """The object that a text contains; {} if it is something else, damaged, or nested too deep.

    >>> json_object('{"ph": "B"}'), json_object("[1]"), json_object('{"ph": ')
    ({'ph': 'B'}, {}, {})
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
