"""What a graph aliases, mutates and requires grad of: frozen facts, one record per input and output.

The idea: the lowering of a graph asks many questions (does it mutate a leaf? is an output a view? was an input mutated through
`.data`?). The answers are collected once, when the graph is closed (collect.py), and nobody changes them. The captured graph may
be rewritten afterwards by passes; these facts are about the program, so they stay true.

In:  nothing. Out: `GraphMetadata`, which is on the finished graph as `meta`.
torch/_functorch/_aot_autograd/schemas.py (ViewAndMutationMeta, InputAliasInfo, OutputAliasInfo) holds the same.
"""

from __future__ import annotations

from dynexplore.engine.records import record


@record()
class InputAliasInfo:
    """One input, as the graph treats it. `requires_grad`, `is_leaf` and `is_inference` are as they were before the graph ran."""

    mutates_data: bool = False  # it, or an alias of it
    mutates_metadata: bool = False  # in-place operators give it other sizes or strides
    mutations_hidden_from_autograd: bool = False  # all of them go through `.data`, and bump no version counter
    is_as_strided: bool = False  # an operator counts from the start of its storage
    requires_grad: bool = False
    is_leaf: bool = True
    is_inference: bool = False
    gains_grad_fn: bool = False  # a mutation writes what requires grad into it


@record()
class OutputAliasInfo:
    """One output, as the program makes it."""

    is_tensor: bool = False
    is_view: bool = False
    base: int | None = None  # the output that it is a view of, if it is one
    requires_grad: bool = False
    has_grad_fn: bool = False
    is_inference: bool = False
    is_no_grad_view: bool = False  # its creation meta says that it was made in `no_grad`
    loses_grad_fn: bool = False  # it aliases an input or output that requires grad, and has no grad_fn itself


@record()
class GraphMetadata:
    """The facts about one graph."""

    inputs: tuple[InputAliasInfo, ...] = ()
    outputs: tuple[OutputAliasInfo, ...] = ()
    op_count: int = 0  # its calls, those of subgraphs included
    has_mutation: bool = False  # of an input or not
    may_raise: bool = False  # the data of tensors decides whether an operator raises
    draws_rng: bool = False
    has_overlapping_write: bool = False  # an operator writes to one place twice
    mutates_saved_data: bool = False  # what autograd saved is mutated, or replaced, without a bump of the version counter
    mutates_recompute_inputs: bool = False  # what a checkpoint recomputes from is mutated behind it

    @property
    def mutated_inputs(self) -> tuple[int, ...]:
        """The places of the inputs that are mutated, themselves or through a view."""
        return tuple(place for place, info in enumerate(self.inputs) if info.mutates_data)

    @property
    def hidden_mutations(self) -> tuple[int, ...]:
        """The places of the inputs that are mutated through `.data` alone."""
        return tuple(place for place, info in enumerate(self.inputs) if info.mutations_hidden_from_autograd)

    @property
    def as_strided_inputs(self) -> tuple[int, ...]:
        """The places of the inputs that are seen as storages."""
        return tuple(place for place, info in enumerate(self.inputs) if info.is_as_strided)
