"""The operators of two engines' graphs, paired: which stand in one alone, and which do something else on the same data.

Which idea lives here: the same operator twice is not yet the same program: it may be given another constant, read another value,
or run on other sizes. Names of nodes say nothing, for each engine makes its own. So the values are followed: an operator's result
on one side is that of the operator paired with it on the other, and an input is the one that stood in its place when it was first
read. A difference is told once, where it begins: what comes of a result that differs already is no news.

In:  the recordings of both. Out: `unlike_operators(torch_side, engine_side)`: `UnlikeOperators`, in the order of the program.

PyTorch has no counterpart.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.engines import DYNEXPLORE, TORCH
from dynexplore.recording.recording import Recording
from dynexplore.two_engines import calls
from dynexplore.two_engines.calls import name_of

Key = tuple[int, str, str]
"""A node: its frame, graph and name."""

_MOST_OF_A_RUN = 3


@dataclass(frozen=True, slots=True)
class UnlikeOperators:
    """One difference: `cause` is its kind, `message` the sentence; the nodes at which it shows, none of a side that has none."""

    cause: str
    message: str
    torch_side: tuple[ev.NodeAdded, ...] = ()
    engine_side: tuple[ev.NodeAdded, ...] = ()


def unlike_operators(torch_side: Recording, engine_side: Recording) -> Iterator[UnlikeOperators]:
    """Where the operators of the graphs differ, in order, whichever graph they stand in."""
    torch_nodes, engine_nodes = _called(torch_side), _called(engine_side)
    pairing = _Pairing(torch_side, engine_side)
    matcher = difflib.SequenceMatcher(None, [*map(name_of, torch_nodes)], [*map(name_of, engine_nodes)], autojunk=False)
    for tag, low, high, other_low, other_high in matcher.get_opcodes():
        removed, added = torch_nodes[low:high], engine_nodes[other_low:other_high]
        if tag == "equal":
            for torch_node, engine_node in zip(removed, added, strict=True):
                yield from pairing.unlike(torch_node, engine_node)
        else:
            yield UnlikeOperators(_cause(removed, added), _sentence(removed, added), tuple(removed), tuple(added))


def _called(recording: Recording) -> list[ev.NodeAdded]:
    return [node for graph in recording.graphs for node in graph.nodes if _is_call(node)]


def _is_call(node: ev.NodeAdded) -> bool:
    return node.op.startswith("call_")


# -- what only one side has --------------------------------------------------------------------------------------------


def _cause(removed: Sequence[ev.NodeAdded], added: Sequence[ev.NodeAdded]) -> str:
    if removed and added:
        return f"another operator: {_run(removed)} in {TORCH}, {_run(added)} in {DYNEXPLORE}"
    return f"only {TORCH if removed else DYNEXPLORE} has {_run(removed or added)} in a graph"


def _sentence(removed: Sequence[ev.NodeAdded], added: Sequence[ev.NodeAdded]) -> str:
    if removed and added:
        return f"{TORCH} puts {_run(removed)} into the graph, {DYNEXPLORE} {_run(added)}"
    name, other = (TORCH, DYNEXPLORE) if removed else (DYNEXPLORE, TORCH)
    return f"{name} puts {_run(removed or added)} into a graph, {other} does not"


def _run(nodes: Sequence[ev.NodeAdded]) -> str:
    """`torch.relu`, `torch.relu, operator.add and 4 more`."""
    words = [name_of(node) for node in nodes[:_MOST_OF_A_RUN]]
    remaining = len(nodes) - len(words)
    return ", ".join(words) + (f" and {remaining} more" if remaining else "")


# -- the same operator on both sides -----------------------------------------------------------------------------------


class _Pairing:
    """Which value of one side is which of the other, as far as the operators have been gone through."""

    def __init__(self, torch_side: Recording, engine_side: Recording) -> None:
        self._torch_side, self._engine_side = _Nodes(torch_side), _Nodes(engine_side)
        self._mates: dict[Key, Key] = {}
        self._torch_side_of: dict[Key, Key] = {}

    def unlike(self, torch_node: ev.NodeAdded, engine_node: ev.NodeAdded) -> Iterator[UnlikeOperators]:
        """What is unlike at two nodes: arguments, what they read, what they make. From here on they are a pair."""
        differences = [*self._arguments(torch_node, engine_node)]
        if differences or not calls.are_unlike(torch_node, engine_node) or self._follows(torch_node, engine_node):
            yield from differences
        else:
            name = name_of(torch_node)
            message = f"{name} makes {calls.result(torch_node)} in {TORCH}, {calls.result(engine_node)} in {DYNEXPLORE}"
            yield UnlikeOperators(f"another result: {name}", message, (torch_node,), (engine_node,))
        self._pair(_key(torch_node), _key(engine_node))

    def _arguments(self, torch_node: ev.NodeAdded, engine_node: ev.NodeAdded) -> Iterator[UnlikeOperators]:
        read = _read(torch_node, engine_node)
        if read is None:
            torch_args, engine_args = calls.arguments(torch_node), calls.arguments(engine_node)
            message = f"{TORCH} calls {name_of(torch_node)} with {torch_args}, {DYNEXPLORE} with {engine_args}"
            yield UnlikeOperators(f"other arguments: {name_of(torch_node)}", message, (torch_node,), (engine_node,))
            return
        for torch_key, engine_key in read:
            if (
                difference := self._value(self._torch_side.root(torch_key), self._engine_side.root(engine_key), name_of(torch_node))
            ) is not None:
                yield UnlikeOperators(*difference, (torch_node,), (engine_node,))

    def _follows(self, torch_node: ev.NodeAdded, engine_node: ev.NodeAdded) -> bool:
        """Whether a value that both read is unlike already, or unknown on one side: then so may be what is made of it."""
        values = [
            (self._torch_side.root(torch_key), self._engine_side.root(engine_key))
            for torch_key, engine_key in _read(torch_node, engine_node) or ()
        ]
        return any(
            calls.are_unlike(self._torch_side[torch_key], self._engine_side[engine_key])
            or self._is_alone(torch_key)
            or self._is_alone_in_engine(engine_key)
            for torch_key, engine_key in values
        )

    def _is_alone(self, torch_key: Key) -> bool:
        return _is_call(self._torch_side[torch_key]) and torch_key not in self._mates

    def _is_alone_in_engine(self, engine_key: Key) -> bool:
        return _is_call(self._engine_side[engine_key]) and engine_key not in self._torch_side_of

    def _value(self, torch_key: Key, engine_key: Key, name: str) -> tuple[str, str] | None:
        """Cause and sentence where two values are not the same one. Of an operator that only one side has, all is said there."""
        if self._is_alone(torch_key) or self._is_alone_in_engine(engine_key):
            return None
        mate, counterpart = self._mates.get(torch_key), self._torch_side_of.get(engine_key)
        if mate is None and counterpart is None and not self._bear_other_names(torch_key, engine_key):
            self._pair(torch_key, engine_key)
            return self._input(torch_key, engine_key)
        # graphs may end at other places: then a value is an input of the next graph on one side
        is_other = (mate or engine_key) != engine_key and _graph(mate or engine_key) == _graph(engine_key)
        has_counterpart = (counterpart or torch_key) != torch_key and _graph(counterpart or torch_key) == _graph(torch_key)
        if is_other or has_counterpart or (mate is None and counterpart is None):
            torch_word, engine_word = self._torch_side.words(torch_key), self._engine_side.words(engine_key)
            message = f"{name} reads `{torch_word}` in {TORCH}, `{engine_word}` in {DYNEXPLORE}"
            return f"different value read: {name}", message
        return None

    def _bear_other_names(self, torch_key: Key, engine_key: Key) -> bool:
        """Whether the input of one side bears the name of another input of the other."""
        torch_word, engine_word = (
            calls.source_word(nodes.words(key)) for nodes, key in ((self._torch_side, torch_key), (self._engine_side, engine_key))
        )
        return torch_word != engine_word and (
            torch_word in self._engine_side.inputs(_graph(engine_key)) or engine_word in self._torch_side.inputs(_graph(torch_key))
        )

    def _input(self, torch_key: Key, engine_key: Key) -> tuple[str, str] | None:
        torch_node, engine_node = self._torch_side[torch_key], self._engine_side[engine_key]
        if not calls.are_unlike(torch_node, engine_node):
            return None
        torch_result, engine_result = calls.result(torch_node), calls.result(engine_node)
        cause = f"an input is {torch_result} in {TORCH}, {engine_result} in {DYNEXPLORE}"
        return cause, f"{TORCH} takes `{self._torch_side.words(torch_key)}` as {torch_result}, {DYNEXPLORE} as {engine_result}"

    def _pair(self, torch_key: Key, engine_key: Key) -> None:
        self._mates[torch_key], self._torch_side_of[engine_key] = engine_key, torch_key


class _Nodes:
    """The nodes of one side's graphs."""

    def __init__(self, recording: Recording) -> None:
        self._nodes = {_key(node): node for graph in recording.graphs for node in graph.nodes}
        self._inputs: dict[tuple[int, str], frozenset[str]] = {}

    def __getitem__(self, key: Key) -> ev.NodeAdded:
        return self._nodes[key]

    def inputs(self, graph: tuple[int, str]) -> frozenset[str]:
        """The words of a graph's inputs."""
        if graph not in self._inputs:
            nodes = (node for key, node in self._nodes.items() if _graph(key) == graph and not _is_call(node))
            self._inputs[graph] = calls.source_words([node.target for node in nodes])
        return self._inputs[graph]

    def words(self, key: Key) -> str:
        """A value, as people find it: an input by its source, a result by its node."""
        node = self._nodes[key]
        return node.name if _is_call(node) else node.target

    def root(self, key: Key) -> Key:
        """The value that a node stands for: an operator may hand back the tensor that it was given, and one engine may know it."""
        while (node := self._nodes[key]).inputs and _is_call(node):
            argument = _key(node, node.inputs[0])
            if not calls.hands_back(node, self._nodes[argument]):
                break
            key = argument
        return key


def _key(node: ev.NodeAdded, name: str = "") -> Key:
    return node.frame, node.graph, name or node.name


def _graph(key: Key) -> tuple[int, str]:
    return key[:2]


def _read(torch_node: ev.NodeAdded, engine_node: ev.NodeAdded) -> list[tuple[Key, Key]] | None:
    """The values that both read, place by place; None: their arguments have another form."""
    if calls.is_cut(torch_node) or calls.is_cut(engine_node):
        torch_inputs, engine_inputs = torch_node.inputs, engine_node.inputs
        is_same = len(torch_inputs) == len(engine_inputs)
    else:
        (form, torch_inputs), (engine_form, engine_inputs) = (
            (form.tokens, form.read) for form in map(calls.form_of, (torch_node, engine_node))
        )
        is_same = form == engine_form
    return (
        [
            (_key(torch_node, torch_name), _key(engine_node, engine_name))
            for torch_name, engine_name in zip(torch_inputs, engine_inputs, strict=True)
        ]
        if is_same
        else None
    )


keep_old_names(globals())
