"""One decision for each size, number and object that a frame reads: how it is specialized, and why.

A `Specializer` belongs to one attempt at a frame. It gathers the facts about a value (marks, options, the profile of earlier calls,
what the frame knows of its arguments) and lets a table decide (tables.py). Nothing about a decision is stored on sources.

In:  a source and the live value there. Out: a `Specialization`, which says why; where somebody watches, each is announced.
     torch/_dynamo/variables/builder.py (`VariableBuilder`) does the same job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from dynexplore.engine.config import config
from dynexplore.engine.provenance.sources import (
    AttributeSource,
    ClosureSource,
    ComputedSource,
    LocalSource,
    PinnedSource,
    Source,
)
from dynexplore.engine.records import record
from dynexplore.engine.specialization import marks
from dynexplore.engine.specialization.profile import NO_OTHER, Profile
from dynexplore.engine.specialization.shape_env import specialized_size
from dynexplore.engine.specialization.tables import (
    COMPARED,
    NO_SYMBOLS,
    NUMBER_ROWS,
    OBJECT_ROWS,
    OF_GUARDED_OBJECT,
    PARAMETER,
    SIZE_ROWS,
    SPECIALIZED_SYMBOL,
    STABLE,
    STRIDE_ROWS,
    VALUE_NEEDED,
    Kind,
    NumberFacts,
    ObjectFacts,
    SizeFacts,
    Specialization,
    TensorSpecialization,
    first,
)


@record()
class Options:
    """What the call, the configuration and the backend say of the decisions of one frame."""

    dynamic: bool | None = None
    takes_symbols: bool = True
    has_guard_filter: bool = False
    is_resume: bool = False
    is_oblivious: bool = False
    serves_zero_and_one: bool = False


OnDecision = Callable[[str, Specialization], None]
"""Called with the text of what was decided about (`x.size()[0]`, `n`), where somebody watches."""


class Specializer:
    """The decisions of one attempt at a frame."""

    def __init__(self, profile: Profile, options: Options, on_decision: OnDecision | None = None) -> None:
        self.profile = profile
        self._options = options
        self.on_decision = on_decision
        self._changes: dict[Source, str] = {}  # a source -> why a number there is another one in each call
        self._computed: dict[ComputedSource, str] = {}  # the same of what is computed, as far as it was looked up
        self._data_dependent: set[Source] = set()  # arguments whose first size depends on data
        self._unstable_variables: dict[str, str] = {}  # a local or free variable -> why it holds another object in each call
        self._symbols: list[tuple[str, Any]] = []  # the symbols of inputs, where somebody watches

    @property
    def takes_symbols(self) -> bool:
        """Whether numbers may be inputs of the graph."""
        return self._options.takes_symbols

    # -- what the frame knows

    def note_change(self, source: Source, why: str) -> None:
        """A number at this source is known to be another one in each call."""
        self._changes[source] = why
        self._computed.clear()

    def note_data_dependent_size(self, source: Source) -> None:
        """The first size of a tensor at this source, or below it, depends on data."""
        self._data_dependent.add(source)

    def note_unstable_variables(self, names: Iterable[str | None], why: str) -> None:
        """These variables hold another object in each call."""
        for name in names:
            if name is not None:
                self._unstable_variables.setdefault(name, why)

    def note_constant(self, source: Source, value: object) -> None:
        """A number was taken as a constant because the object that it is an attribute of is guarded by identity."""
        if type(value) in (int, float):
            self.profile.note_constant(source.text(), value)
            self.tell(source.text(), Specialization(OF_GUARDED_OBJECT))

    def note_value_needed(self, source: Source, value: object) -> None:
        """An unspecialized number is taken as a constant, because Python needs its value."""
        if type(value) in (int, float):
            self.profile.note_constant(source.text(), value)
            self.tell(source.text(), Specialization(VALUE_NEEDED))

    @property
    def has_unstable_variables(self) -> bool:
        """Whether any variable is known to hold another object in each call."""
        return bool(self._unstable_variables)

    def change_of(self, source: Source) -> str:
        """Why a number is known to be another one in each call; "" where that is not known."""
        if isinstance(source, ComputedSource):
            if source not in self._computed:
                operands = (source.base, *source.others)
                self._computed[source] = next(filter(None, map(self.change_of, operands)), "")
            return self._changes.get(source) or self._computed[source]
        return self._changes.get(source, source.change)

    def has_data_dependent_size(self, source: Source) -> bool:
        """Whether the first size of a tensor here depends on data."""
        return bool(self._data_dependent) and source.root() in self._data_dependent

    # -- decisions

    def decide(self, source: Source, value: object) -> Specialization | TensorSpecialization:
        """How the value at `source` is specialized, and why."""
        if isinstance(value, torch.Tensor):
            return self.decide_tensor(source, value)
        return self.decide_number(source, value) if type(value) in (int, float, str) else self.decide_object(source)

    def decide_tensor(self, source: Source, tensor: torch.Tensor, fixed_layout: str = "") -> TensorSpecialization:
        """How the sizes and strides of a tensor are specialized; `fixed_layout` as in SizeFacts."""
        if isinstance(source, PinnedSource):
            self.tell(f"{source.text()}.size()", PARAMETER)
            return NO_SYMBOLS
        option = self._options.dynamic if self._options.dynamic is not None else config.dynamic_shapes
        where, sizes, strides = source.text(), tuple(tensor.shape), tensor.stride()
        depends_on_data = self.has_data_dependent_size(source)
        if option is None:
            seen = self.profile.observe_sizes(where, sizes, frozenset({0} if depends_on_data else ()))
            seen_strides = self.profile.observe_strides(where, strides)
        else:
            seen = seen_strides = [NO_OTHER] * len(sizes)
        marked = marks.marks_of(tensor)
        decided = TensorSpecialization(
            [
                first(SIZE_ROWS, SizeFacts(
                    size, dim, seen[dim], option, marked.get(dim, ""), fixed_layout, depends_on_data and dim == 0,
                    self._options.is_oblivious, self._options.serves_zero_and_one,
                ))
                for dim, size in enumerate(sizes)
            ],
            [
                first(STRIDE_ROWS, SizeFacts(stride, dim, seen_strides[dim], option, "", fixed_layout))
                for dim, stride in enumerate(strides)
            ],
        )  # fmt: skip
        self._tell_layout(where, decided)
        return decided

    def decide_number(self, source: Source, value: object, *, in_graph: bool = False) -> Specialization:
        """How a number or string is specialized that the frame reads, or (`in_graph`) that a graph needs as an input."""
        where, options, kind = source.text(), self._options, type(value)
        is_dynamic = self.profile.is_dynamic_number(where)
        seen = self.profile.compare_number(where, value) if kind in (int, float) else NO_OTHER
        if not in_graph and self.profile.has_failed_when_skipped(where, "EQUALS"):
            self.note_change(source, "guard failed")
        facts = NumberFacts(
            value, in_graph, seen, is_dynamic, self.change_of(source),
            is_resume_argument=options.is_resume and isinstance(source, LocalSource),
            is_of_unstable=kind is int and isinstance(source, AttributeSource) and self._is_of_several(source),
            option=options.dynamic,
            specializes=config.specialize_int if kind is int else config.specialize_float,
            takes_symbols=options.takes_symbols,
        )  # fmt: skip
        decision = first(NUMBER_ROWS, facts)
        self._learn(source, where, facts, decision.reason)
        self.tell(where, decision)
        return decision

    def _learn(self, source: Source, where: str, facts: NumberFacts, reason: str) -> None:
        """Have the profile, and what is computed of the number, know what was decided."""
        if reason in COMPARED:
            if not facts.changes:
                self.profile.observe_number(where, facts.value)
        if reason == "another float" or (reason == "attribute of several" and facts.seen.differs):
            self.note_change(source, "number")

    def _is_of_several(self, source: Source) -> bool:
        """Whether a number is an attribute of an object that is one of several: a layer's own index differs in each."""
        return not self._options.has_guard_filter and not self.is_stable(source)

    def decide_object(self, source: Source) -> Specialization:
        """Whether the object at `source` may be guarded by identity, or not: another one comes in its place."""
        unstable, variables = self.profile.unstable, self._unstable_variables
        if not (unstable or variables or source.has_dynamic_index or self._options.has_guard_filter):
            return STABLE
        other_seen_at = changes_at = ""
        step: Source | None = source
        while step is not None and not (other_seen_at or changes_at):
            text = step.text()
            if text in unstable:
                other_seen_at = text
            elif isinstance(step, LocalSource | ClosureSource) and text in variables:
                changes_at = text
            step = step.base
        facts = ObjectFacts(
            self._options.has_guard_filter, source.has_dynamic_index, other_seen_at, changes_at, variables.get(changes_at, "")
        )
        return first(OBJECT_ROWS, facts)

    def is_stable(self, source: Source) -> bool:
        """Whether the object at `source` may be guarded by its identity; not where another one has been, or will be, seen there."""
        decision = self.decide_object(source)
        if decision is not STABLE and decision.kind is Kind.UNSTABLE:
            self.tell(source.text(), decision)
            return False
        return True

    def is_dynamic_index(self, source: Source) -> bool:
        """Whether a number is known to be another one in each call, also as an attribute of an object that is one of several."""
        pending, visited = [source], set[Source]()
        while pending:
            operand = pending.pop()
            if operand in visited:
                continue
            visited.add(operand)
            if isinstance(operand, ComputedSource):
                pending += (operand.base, *operand.others)
            elif self.change_of(operand) or (isinstance(operand, AttributeSource) and not self.is_stable(operand)):
                return True
        return False

    # -- what is told to those who watch

    def tell(self, where: str, decision: Specialization) -> None:
        """Announce a decision, where somebody watches."""
        if self.on_decision is not None:
            self.on_decision(where, decision)

    def note_symbol(self, where: str, symbol: Any) -> None:
        """An input is this symbol: at the end of the frame it may be one number."""
        if self.on_decision is not None and isinstance(symbol, torch.SymInt):
            self._symbols.append((where, symbol))

    def tell_specialized_symbols(self) -> None:
        """The frame is translated: announce which symbols something required to be one number."""
        for where, symbol in self._symbols:
            number = specialized_size(symbol)
            if number is not None:
                self.tell(where, Specialization(SPECIALIZED_SYMBOL, number))

    def _tell_layout(self, where: str, decided: TensorSpecialization) -> None:
        """Announce the decisions about a tensor: one for all sizes if they are alike; strides only where they are symbols."""
        if self.on_decision is None:
            return
        if len({size.because for size in decided.sizes}) == 1:
            self.tell(f"{where}.size()", decided.sizes[0])
        else:
            for dim, size in enumerate(decided.sizes):
                self.tell(f"{where}.size()[{dim}]", size)
        for dim in decided.dynamic_strides:
            self.tell(f"{where}.stride()[{dim}]", decided.strides[dim])
