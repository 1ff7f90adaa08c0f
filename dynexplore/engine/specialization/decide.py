"""Specializer: the decision, for each size, number and object that a frame reads, how it is specialized and why.

The idea: a `Specializer` belongs to one attempt at a frame. It gathers the facts about a value (marks, options, the profile of
earlier calls, what the frame implies about its arguments), and a table decides (tables.py). Decisions are not stored on sources.

In: a source and its live value. Out: a `Specialization`, with its reason; observers get each as an event. PyTorch's counterpart:
`VariableBuilder` in torch/_dynamo/variables/builder.py.
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
    """The settings of the call, the configuration and the backend that affect the decisions of one frame."""

    dynamic: bool | None = None
    takes_symbols: bool = True
    has_guard_filter: bool = False
    is_resume: bool = False
    is_oblivious: bool = False
    serves_zero_and_one: bool = False


OnDecision = Callable[[str, Specialization], None]
"""Called with the text of the source that was decided (`x.size()[0]`, `n`), if there are observers."""


class Specializer:
    """The decisions of one attempt at a frame."""

    def __init__(self, profile: Profile, options: Options, on_decision: OnDecision | None = None) -> None:
        self.profile = profile
        self._options = options
        self.on_decision = on_decision
        self._changes: dict[Source, str] = {}  # source -> why its number changes in each call
        self._computed: dict[ComputedSource, str] = {}  # the same for computed sources, as far as evaluated
        self._data_dependent: set[Source] = set()  # arguments whose first size is data-dependent
        self._unstable_variables: dict[str, str] = {}  # local or free variable -> why it refers to a different object in each call
        self._symbols: list[tuple[str, Any]] = []  # the symbols of inputs, if there are observers

    @property
    def takes_symbols(self) -> bool:
        """Whether numbers may be graph inputs."""
        return self._options.takes_symbols

    # -- facts about the frame

    def note_change(self, source: Source, why: str) -> None:
        """Record that the number at this source changes in each call."""
        self._changes[source] = why
        self._computed.clear()

    def note_dynamic_output_shape(self, source: Source) -> None:
        """Record that the first size of a tensor at or below this source is data-dependent."""
        self._data_dependent.add(source)

    def note_unstable_variables(self, names: Iterable[str | None], why: str) -> None:
        """Record that these variables refer to a different object in each call."""
        for name in names:
            if name is not None:
                self._unstable_variables.setdefault(name, why)

    def note_constant(self, source: Source, value: object) -> None:
        """Record that a number was specialized because it is an attribute of an object that is guarded by identity."""
        if type(value) in (int, float):
            self.profile.note_constant(source.text(), value)
            self.emit_specialized(source.text(), Specialization(OF_GUARDED_OBJECT))

    def note_value_needed(self, source: Source, value: object) -> None:
        """Record that an unspecialized number was specialized because Python needs its value."""
        if type(value) in (int, float):
            self.profile.note_constant(source.text(), value)
            self.emit_specialized(source.text(), Specialization(VALUE_NEEDED))

    @property
    def has_unstable_variables(self) -> bool:
        """Whether any variable is known to refer to a different object in each call."""
        return bool(self._unstable_variables)

    def change_of(self, source: Source) -> str:
        """Why a number is known to change in each call; "" if that is not known."""
        if isinstance(source, ComputedSource):
            if source not in self._computed:
                operands = (source.base, *source.others)
                self._computed[source] = next(filter(None, map(self.change_of, operands)), "")
            return self._changes.get(source) or self._computed[source]
        return self._changes.get(source, source.change)

    def has_dynamic_output_shape(self, source: Source) -> bool:
        """Whether the first size of a tensor at this source is data-dependent."""
        return bool(self._data_dependent) and source.root() in self._data_dependent

    # -- decisions

    def decide(self, source: Source, value: object) -> Specialization | TensorSpecialization:
        """How the value at `source` is specialized, and why."""
        if isinstance(value, torch.Tensor):
            return self.decide_tensor(source, value)
        return self.decide_number(source, value) if type(value) in (int, float, str) else self.decide_object(source)

    def decide_tensor(self, source: Source, tensor: torch.Tensor, fixed_layout: str = "") -> TensorSpecialization:
        """How the sizes and strides of a tensor are specialized; `fixed_layout`: see SizeFacts."""
        if isinstance(source, PinnedSource):
            self.emit_specialized(f"{source.text()}.size()", PARAMETER)
            return NO_SYMBOLS
        option = self._options.dynamic if self._options.dynamic is not None else config.dynamic_shapes
        where, sizes, strides = source.text(), tuple(tensor.shape), tensor.stride()
        depends_on_data = self.has_dynamic_output_shape(source)
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
        self._emit_layout(where, decided)
        return decided

    def decide_number(self, source: Source, value: object, *, in_graph: bool = False) -> Specialization:
        """How a number or string that the frame reads is specialized, or (`in_graph`) one that a graph needs as an input."""
        where, options, kind = source.text(), self._options, type(value)
        is_dynamic = self.profile.is_dynamic_number(where)
        seen = self.profile.compare_number(where, value) if kind in (int, float) else NO_OTHER
        if not in_graph and self.profile.has_failed_when_skipped(where, "EQUALS"):
            self.note_change(source, "guard failed")
        facts = NumberFacts(
            value, in_graph, seen, is_dynamic, self.change_of(source),
            is_resume_argument=options.is_resume and isinstance(source, LocalSource),
            is_of_unstable=kind is int and isinstance(source, AttributeSource) and self._is_of_unstable_instance(source),
            option=options.dynamic,
            specializes=config.specialize_int if kind is int else config.specialize_float,
            takes_symbols=options.takes_symbols,
        )  # fmt: skip
        decision = first(NUMBER_ROWS, facts)
        self._record_in_profile(source, where, facts, decision.reason)
        self.emit_specialized(where, decision)
        return decision

    def _record_in_profile(self, source: Source, where: str, facts: NumberFacts, reason: str) -> None:
        """Record a decision in the profile, and for sources computed from the number."""
        if reason in COMPARED:
            if not facts.changes:
                self.profile.observe_number(where, facts.value)
        if reason == "another float" or (reason == "attribute of several" and facts.seen.differs):
            self.note_change(source, "number")

    def _is_of_unstable_instance(self, source: Source) -> bool:
        """Whether a number is an attribute of one of several instances: the index of a layer differs in each."""
        return not self._options.has_guard_filter and not self.specializes(source)

    def decide_object(self, source: Source) -> Specialization:
        """Whether the object at `source` may be guarded by identity, or changes from call to call."""
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

    def specializes(self, source: Source) -> bool:
        """Whether the object at `source` may be guarded by identity: not if another one has been, or will be, seen there."""
        decision = self.decide_object(source)
        if decision is not STABLE and decision.kind is Kind.UNSTABLE:
            self.emit_specialized(source.text(), decision)
            return False
        return True

    def is_dynamic_index(self, source: Source) -> bool:
        """Whether a number is known to change in each call, including an attribute of one of several instances."""
        pending, visited = [source], set[Source]()
        while pending:
            operand = pending.pop()
            if operand in visited:
                continue
            visited.add(operand)
            if isinstance(operand, ComputedSource):
                pending += (operand.base, *operand.others)
            elif self.change_of(operand) or (isinstance(operand, AttributeSource) and not self.specializes(operand)):
                return True
        return False

    # -- events

    def emit_specialized(self, where: str, decision: Specialization) -> None:
        """Announce a decision to observers."""
        if self.on_decision is not None:
            self.on_decision(where, decision)

    def note_symbol(self, where: str, symbol: Any) -> None:
        """Record the symbol of an input: at the end of the frame it may have been specialized."""
        if self.on_decision is not None and isinstance(symbol, torch.SymInt):
            self._symbols.append((where, symbol))

    def emit_specialized_symbols(self) -> None:
        """Announce, at the end of the frame, which symbols were specialized."""
        for where, symbol in self._symbols:
            number = specialized_size(symbol)
            if number is not None:
                self.emit_specialized(where, Specialization(SPECIALIZED_SYMBOL, number))

    def _emit_layout(self, where: str, decided: TensorSpecialization) -> None:
        """Announce the decisions about a tensor: a single one if all sizes agree; strides only if they are symbols."""
        if self.on_decision is None:
            return
        if len({size.because for size in decided.sizes}) == 1:
            self.emit_specialized(f"{where}.size()", decided.sizes[0])
        else:
            for dim, size in enumerate(decided.sizes):
                self.emit_specialized(f"{where}.size()[{dim}]", size)
        for dim in decided.dynamic_strides:
            self.emit_specialized(f"{where}.stride()[{dim}]", decided.strides[dim])
