"""Graph metadata: what a graph aliases, mutates and requires grad of, one frozen record per input and output.

The idea: the lowering of a graph asks many questions (does it mutate a leaf? is an output a view? was an input mutated through
`.data`?). The answers are collected once, when the graph is closed (collect.py), and never change. Passes may rewrite the captured
graph afterwards; these facts are about the program, so they stay true.

In: nothing. Out: `GraphMetadata`, stored on the finished graph as `meta`. PyTorch's counterpart: `ViewAndMutationMeta`,
`InputAliasInfo` and `OutputAliasInfo` in torch/_functorch/_aot_autograd/schemas.py.
"""

from __future__ import annotations

from dynexplore.engine.records import record


@record()
class InputAliasInfo:
    """One input. `requires_grad`, `is_leaf` and `is_inference` are as before the graph ran."""

    mutates_data: bool = False  # it or an alias of it is mutated
    mutates_metadata: bool = False  # in-place operators change its sizes or strides
    mutations_hidden_from_autograd: bool = False  # all of them go through `.data` and bump no version counter
    is_as_strided: bool = False  # an operator uses offsets from the start of its storage
    bumps_version: bool = False  # a mutation bumps its version counter, which not all aliases share
    requires_grad: bool = False
    is_leaf: bool = True
    is_inference: bool = False
    gains_grad_fn: bool = False  # a mutation writes a tensor that requires grad into it


@record()
class OutputAliasInfo:
    """One output, as the program creates it."""

    is_tensor: bool = False
    is_view: bool = False
    base: int | None = None  # the index of the output that it is a view of, if any
    requires_grad: bool = False
    has_grad_fn: bool = False
    is_inference: bool = False
    is_no_grad_view: bool = False  # by its creation meta, it was created in `no_grad`
    is_split_of_mutated_leaf: bool = False  # it is one of several views, as those of `split`, of a mutated input that requires grad
    loses_grad_fn: bool = False  # it aliases an input or output that requires grad, and has no grad_fn itself


@record()
class GraphMetadata:
    """The facts about one graph."""

    inputs: tuple[InputAliasInfo, ...] = ()
    outputs: tuple[OutputAliasInfo, ...] = ()
    op_count: int = 0  # its calls, including those of subgraphs
    has_mutation: bool = False  # of an input or an intermediate
    may_raise: bool = False  # whether an operator raises depends on the data of tensors
    draws_rng: bool = False
    runs_program_code: bool = False  # a custom operator or an autograd.Function
    warns: bool = False  # an operator issued a warning on fake tensors
    has_overlapping_write: bool = False  # an operator writes to one element's memory twice
    mutates_saved_data: bool = False  # a saved tensor's data is mutated or replaced without a version bump
    mutates_recompute_inputs: bool = False  # an input of a checkpoint's recomputation is mutated afterwards

    @property
    def mutated_inputs(self) -> tuple[int, ...]:
        """The indices of the inputs that are mutated, directly or through a view."""
        return tuple(index for index, info in enumerate(self.inputs) if info.mutates_data)

    @property
    def hidden_mutations(self) -> tuple[int, ...]:
        """The indices of the inputs that are mutated only through `.data`."""
        return tuple(index for index, info in enumerate(self.inputs) if info.mutations_hidden_from_autograd)

    @property
    def as_strided_inputs(self) -> tuple[int, ...]:
        """The indices of the inputs whose whole storage an operator uses."""
        return tuple(index for index, info in enumerate(self.inputs) if info.is_as_strided)
