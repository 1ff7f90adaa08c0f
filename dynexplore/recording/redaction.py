"""Redaction: removes tensor elements, string constants, paths and settings; keeps names, shapes and numbers.

The idea: someone who shares a recording wants to show how a program was captured, not its data. So every field that may contain
text of the program is blanked according to its content: source by its tokens, messages by their quotes, compiler artifacts by
their language.

In: records of events.py, texts. Out: the same without private data. PyTorch's counterpart: none.
"""

from __future__ import annotations

import dataclasses
import io
import re
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.plain_records import names

_QUOTED = re.compile(r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*\"""")
_PATH = re.compile(r"""(?:[A-Za-z]:)?(?:[/\\][^\s/\\'":,;()<>]+){2,}""")
_STRINGS = {getattr(tokenize, name) for name in ("STRING", "FSTRING_MIDDLE") if hasattr(tokenize, name)}


_CALLS = (ev.CallBegan, ev.FrameEntered, ev.CacheLimitReached, ev.GraphBroke)
"""Events that contain the source line of a caller."""


def redacted_record(value: Any, done: dict[int, Any]) -> Any:
    """A record without private data; `done` maps the ids of records to their redacted forms, and is extended."""
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, tuple):
        return tuple([redacted_record(item, done) for item in value])
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    if id(value) not in done:
        fields = {name: redacted_record(getattr(value, name), done) for name in names(value)}
        if "file" in fields:
            fields["file"] = _file_name(fields["file"])
        if isinstance(value, ev.CodeView):
            fields |= {"source": _redact_source(value.source)}
        if isinstance(value, ev.UserFrame):  # a source line, possibly with a comment
            fields |= {"code": _redact_source(value.code)}
        if isinstance(value, _CALLS) and value.caller is not None:  # keep the location of the call, drop its source text
            fields |= {"caller": ev.UserFrame(fields["caller"].file, value.caller.line, value.caller.function, "")}
        if isinstance(value, ev.ArtifactEmitted):
            fields |= {"text": _redact_artifact(value)}
        if isinstance(value, ev.BackendFailed):  # the exception's message may contain program data
            fields |= {"error": fields["error"].partition(":")[0]}
        if isinstance(value, ev.CacheEntryAdded):  # torch annotates its guards with source lines
            fields |= {"check": re.sub(r"  +# .*", "", fields["check"])}
        if isinstance(value, ev.GraphBroke):
            fields |= {"facts": tuple((name, "...") if name == "context" else (name, text) for name, text in fields["facts"])}
        if isinstance(value, ev.ValueObserved):
            fields |= {"text": "", "first": (), "minimum": None, "mean": None, "maximum": None}
        if isinstance(value, ev.DivergenceDetected) and value.aspect not in ("dtype", "shape", "device", "length"):
            fields |= {"expected": "...", "actual": "..."}
        done[id(value)] = type(value)(**fields)
    return done[id(value)]


def redacted_text(text: str) -> str:
    """A text without quoted strings and directories.

    >>> redacted_text("open('secret') at /home/me/model.py")
    "open('...') at model.py"
    """
    return _PATH.sub(lambda match: _file_name(match.group()), _QUOTED.sub("'...'", text))


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _redact_source(source: str) -> str:
    """The source with strings and comments blanked; "" if it cannot be tokenized."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(textwrap.dedent(source)).readline))
    except (tokenize.TokenError, SyntaxError):
        return ""
    return tokenize.untokenize(_blank(tokens))


_PRINTED_TYPE = re.compile(r"""["'](?:[a-z]+\d+\w*(?:\[[\ds+*/(), -]*\]){1,2}(?:[a-z]{2,6}(?::\d+)?)?|Sym\([\ds+*/() -]*\))["']""")
_LEFT_OUT = "(omitted: it may contain settings, paths or text from the program)"
_NUMBERS = ("symbols", "times", "memory", "kernels", "ir", "fused ir", "diagram", "provenance")
"""Kinds of artifacts that are not Python and contain only numbers and names; of others only numbers are kept, or nothing."""

_METRIC = re.compile(r"^\w+ +(?:[-+\d.e]+|True|False)$", re.M)


def _redact_artifact(artifact: ev.ArtifactEmitted) -> str:
    """An artifact: Python without strings and comments, except type annotations of printed graphs; numbers and names; nothing
    else.
    """
    if artifact.part == "metrics":
        return "\n".join(_METRIC.findall(artifact.text))
    if artifact.part in _NUMBERS:
        return redacted_text(re.sub(r"(?m)(?<!^)(?://|# ).*$", "", artifact.text))
    if artifact.language == "python" and artifact.part not in ("settings", "runnable"):
        return _redact_source(artifact.text) or _LEFT_OUT
    return _LEFT_OUT


def _blank(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[int, str]]:
    for token in tokens:
        if token.type == tokenize.COMMENT:
            continue
        keep = token.type not in _STRINGS or _PRINTED_TYPE.fullmatch(token.string)
        yield token.type, token.string if keep else "'...'"
