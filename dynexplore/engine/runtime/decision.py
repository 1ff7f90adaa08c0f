"""The decision about a frame: may it be compiled, and how?

The idea: all facts that decide about a frame are first collected in one frozen record. The answer is a pure function of that
record, and is defined only here: a real call, a dry run (session/dry_run.py) and the prediction for a resume function
(session/predicted_resumes.py) all call `decide`. The caller executes the answer: it counts, warns, raises, reports. So what-if and
real calls cannot diverge.

The order of the rules is that of a real call. The first four are implemented by the frame hook itself (native/frame_hook.c): it
never calls Python for marked code, for generators, for code with nothing to compile, and for a frame that an entry fits. The other
rules apply in convert.py. Checking the entries takes time and a lock, so a real call decides twice: first without them, and, if no
other rule applies (`ask the entries`), again with their verdict.

In: `FrameFacts`, collected by frame_facts.py. Out: a `Decision`: its kind, the rule that decided, and the reason as text.
PyTorch's counterpart: `CatchErrorsWrapper`, `ConvertFrameAssert` and `_compile` in torch/_dynamo/convert_frame.py.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Literal

from dynexplore.engine.records import record
from dynexplore.engine.runtime.stance import Name as Stance

Kind = Literal["hit", "not known", "ask the entries", "compile", "recompile", "limit reached", "plain Python", "raises"]

Rule = Literal[
    "mark", "generator", "nothing to compile", "entry", "run only", "disabled", "policy", "filter", "tracer",
    "not asked", "stance", "error on recompile", "limit", "miss",
]  # fmt: skip

NO_ENTRY_YET = "there is no cache entry yet"


@record()
class EntriesVerdict:
    """The result of checking the cache entries of a code object for a frame.

    count: how many there are, without those that make the frame run as plain Python. fitting: the index of the first whose guards
    hold, -1 for none, None if that depends on values that do not exist yet (of a resume function). missed: the guard that failed,
    of the entry tried first, as text; "" if no guard was checked.
    """

    count: int = 0
    fitting: int | None = -1
    missed: str = ""

    @property
    def why(self) -> str:
        """Why no entry fits, as text."""
        return self.missed or NO_ENTRY_YET


@record()
class FrameFacts:
    """Everything that decides about a frame; the defaults are those of a frame that no rule prevents from being compiled.

    name: the function's, or that of the function which a resume function resumes. marked: the frame hook was told to ignore the
    code. generator: the code is that of a generator or coroutine. nothing_to_compile: an earlier call showed it. entries: None
    until they are checked. run_only: inside `run()`. disabled: `config.disable`. policy: why its file or a mark excludes it.
    only_function: `config.debug_function`. tracer: another tracer or mode that is active. stance, and error_on_recompile
    (`config`). ran_once: a stance has run it uncompiled before. limit: the maximum number of entries. whole: `nopython`, which
    promises one graph.
    """

    name: str = ""
    marked: bool = False
    generator: bool = False
    nothing_to_compile: bool = False
    entries: EntriesVerdict | None = None
    run_only: bool = False
    disabled: bool = False
    policy: str | None = None
    only_function: str = ""
    tracer: str | None = None
    stance: Stance = "default"
    error_on_recompile: bool = False
    ran_once: bool = False
    limit: int = 8
    whole: bool = False


@record()
class Decision:
    """The action for a frame, the rule that decided, and the reason as text.

    "ask the entries": no rule applies so far; the action depends on the entries, which were not checked yet. "not known": they
    were checked, and one of them may fit.
    """

    kind: Kind
    rule: Rule
    reason: str = ""

    @property
    def is_compiled(self) -> bool:
        """Whether to attempt a translation."""
        return self.kind in ("compile", "recompile")


WAITS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of code whose frames can be suspended and resumed."""

OF_A_GENERATOR = "generators and coroutines are captured only when a captured function runs them"

_ASK = Decision("ask the entries", "not asked")
_RUN_ONLY = Decision("plain Python", "run only", "compiling is turned off here")
_DISABLED = Decision("plain Python", "disabled", "compiling is turned off here")


def decide(facts: FrameFacts) -> Decision:
    """The action for a frame; see the head of this file.

    >>> decide(FrameFacts())
    Decision(kind='ask the entries', rule='not asked', reason='')
    >>> decide(FrameFacts(entries=EntriesVerdict(), tracer="torch.fx is tracing"))
    Decision(kind='plain Python', rule='tracer', reason='torch.fx is tracing')
    """
    return _decide_in_hook(facts) or _decide_to_skip(facts) or _missed(facts)


def _decide_in_hook(facts: FrameFacts) -> Decision | None:
    """The rules of the frame hook."""
    if facts.marked:
        return Decision("plain Python", "mark", facts.policy or "it is marked with skip")
    if facts.generator:
        return Decision("plain Python", "generator", OF_A_GENERATOR)
    if facts.nothing_to_compile:
        return Decision("plain Python", "nothing to compile", "an earlier call showed that there is nothing to compile in it")
    if facts.entries is None or facts.entries.fitting == -1:
        return None
    return Decision("hit" if facts.entries.fitting is not None else "not known", "entry")


def _decide_to_skip(facts: FrameFacts) -> Decision | None:
    """The rules that skip a frame whatever its arguments are."""
    why = facts.entries.why if facts.entries is not None else ""
    if facts.run_only or facts.disabled:
        nothing_new = _RUN_ONLY if facts.run_only else _DISABLED
        return replace(nothing_new, reason=f"{nothing_new.reason}: {why}") if why else nothing_new
    if facts.policy is not None:
        return Decision("plain Python", "policy", facts.policy)
    if facts.only_function and facts.only_function != facts.name:
        return Decision("plain Python", "filter", f"config.debug_function is {facts.only_function!r}")
    if facts.tracer is not None:
        return Decision("plain Python", "tracer", facts.tracer)
    return None


def _is_first(facts: FrameFacts, entries: EntriesVerdict) -> bool:
    """Whether the stance runs this frame uncompiled once before it is compiled."""
    return not facts.ran_once and not entries.count


def _runs_plain(facts: FrameFacts, entries: EntriesVerdict) -> bool:
    """Whether the stance runs the frame as plain Python."""
    if facts.stance == "eager_then_compile":
        return _is_first(facts, entries)
    return facts.stance in ("eager_on_recompile", "force_eager")


def _missed(facts: FrameFacts) -> Decision:
    """The action if no entry fits: may a new one be compiled?"""
    if facts.entries is None:
        return _ASK
    entries = facts.entries
    if facts.stance == "fail_on_recompile":
        return Decision("raises", "stance", f"RecompileError: {entries.why}")
    if _runs_plain(facts, entries):
        return Decision("plain Python", "stance", f"the stance is {facts.stance!r}: {entries.why}")
    if facts.stance == "aot_eager_then_compile" and _is_first(facts, entries):
        return Decision("compile", "stance", f"the stance is {facts.stance!r}: under aot_eager, for this call")
    if entries.missed and facts.error_on_recompile:
        return Decision("raises", "error on recompile", f"RecompileError: {entries.why}")
    if entries.count >= facts.limit and facts.whole:
        return Decision("raises", "limit", f"RecompileLimitError: {entries.why}")
    if entries.count >= facts.limit:
        return Decision("limit reached", "limit", entries.why)
    return Decision("recompile" if entries.count else "compile", "miss", entries.missed)
