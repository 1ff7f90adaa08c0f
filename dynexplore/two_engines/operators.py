"""The operators of two engines' graphs, paired: which stand in one alone, and which do something else on the same data.

Which idea lives here: the same operator twice is not yet the same program: it may be given another constant, read another value,
or run on other sizes. Names of nodes say nothing, for each engine makes its own. So the values are followed: an operator's result
on one side is that of the operator paired with it on the other, and an input is the one that stood in its place when it was first
read. A difference is told once, where it begins: what comes of a result that differs already is no news.

In:  the recordings of both. Out: `unlike_operators(theirs, ours)`: `UnlikeOperators`, in the order of the program.

PyTorch has no counterpart.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.engines import OURS
from dynexplore.recording.engines import TORCH as THEIRS
from dynexplore.recording.recording import Recording
from dynexplore.two_engines import calls
from dynexplore.two_engines.calls import name_of

Key = tuple[int, str, str]
"""A node: its frame, graph and name."""

_MOST_OF_A_RUN = 3

@dataclass(frozen=True, slots=True)
class UnlikeOperators:
    """One difference: `cause` is its kind, `what` the sentence; the nodes at which it shows, none of a side that has none."""

    cause: str
    what: str
    theirs: tuple[ev.NodeAdded, ...] = ()
    ours: tuple[ev.NodeAdded, ...] = ()


def unlike_operators(theirs: Recording, ours: Recording) -> Iterator[UnlikeOperators]:
    """Where the operators of the graphs differ, in order, whichever graph they stand in."""
    left, right = _called(theirs), _called(ours)
    pairing = _Pairing(theirs, ours)
    matcher = difflib.SequenceMatcher(None, [*map(name_of, left)], [*map(name_of, right)], autojunk=False)
    for tag, low, high, other_low, other_high in matcher.get_opcodes():
        gone, new = left[low:high], right[other_low:other_high]
        if tag == "equal":
            for one, other in zip(gone, new, strict=True):
                yield from pairing.unlike(one, other)
        else:
            yield UnlikeOperators(_cause(gone, new), _sentence(gone, new), tuple(gone), tuple(new))


def _called(recording: Recording) -> list[ev.NodeAdded]:
    return [node for graph in recording.graphs for node in graph.nodes if _is_call(node)]


def _is_call(node: ev.NodeAdded) -> bool:
    return node.op.startswith("call_")


# -- what only one side has --------------------------------------------------------------------------------------------


def _cause(gone: Sequence[ev.NodeAdded], new: Sequence[ev.NodeAdded]) -> str:
    if gone and new:
        return f"another operator: {_run(gone)} in {THEIRS}, {_run(new)} in {OURS}"
    return f"only {THEIRS if gone else OURS} has {_run(gone or new)} in a graph"


def _sentence(gone: Sequence[ev.NodeAdded], new: Sequence[ev.NodeAdded]) -> str:
    if gone and new:
        return f"{THEIRS} puts {_run(gone)} into the graph, {OURS} {_run(new)}"
    name, other = (THEIRS, OURS) if gone else (OURS, THEIRS)
    return f"{name} puts {_run(gone or new)} into a graph, {other} does not"


def _run(nodes: Sequence[ev.NodeAdded]) -> str:
    """`torch.relu`, `torch.relu, operator.add and 4 more`."""
    words = [name_of(node) for node in nodes[:_MOST_OF_A_RUN]]
    left = len(nodes) - len(words)
    return ", ".join(words) + (f" and {left} more" if left else "")


# -- the same operator on both sides -----------------------------------------------------------------------------------


class _Pairing:
    """Which value of one side is which of the other, as far as the operators have been gone through."""

    def __init__(self, theirs: Recording, ours: Recording) -> None:
        self._theirs, self._ours = _Nodes(theirs), _Nodes(ours)
        self._mates: dict[Key, Key] = {}
        self._theirs_of: dict[Key, Key] = {}

    def unlike(self, one: ev.NodeAdded, other: ev.NodeAdded) -> Iterator[UnlikeOperators]:
        """What is unlike at two nodes: arguments, what they read, what they make. From here on they are a pair."""
        told = [*self._arguments(one, other)]
        if told or not calls.are_unlike(one, other) or self._follows(one, other):
            yield from told
        else:
            name = name_of(one)
            what = f"{name} makes {calls.result(one)} in {THEIRS}, {calls.result(other)} in {OURS}"
            yield UnlikeOperators(f"another result: {name}", what, (one,), (other,))
        self._pair(_key(one), _key(other))

    def _arguments(self, one: ev.NodeAdded, other: ev.NodeAdded) -> Iterator[UnlikeOperators]:
        read = _read(one, other)
        if read is None:
            what = f"{THEIRS} calls {name_of(one)} with {calls.arguments(one)}, {OURS} with {calls.arguments(other)}"
            yield UnlikeOperators(f"other arguments: {name_of(one)}", what, (one,), (other,))
            return
        for left, right in read:
            if (told := self._value(self._theirs.root(left), self._ours.root(right), name_of(one))) is not None:
                yield UnlikeOperators(*told, (one,), (other,))

    def _follows(self, one: ev.NodeAdded, other: ev.NodeAdded) -> bool:
        """Whether a value that both read is unlike already, or unknown on one side: then so may be what is made of it."""
        values = [(self._theirs.root(left), self._ours.root(right)) for left, right in _read(one, other) or ()]
        return any(
            calls.are_unlike(self._theirs[left], self._ours[right]) or self._is_alone(left) or self._is_alone_of_ours(right)
            for left, right in values
        )

    def _is_alone(self, left: Key) -> bool:
        return _is_call(self._theirs[left]) and left not in self._mates

    def _is_alone_of_ours(self, right: Key) -> bool:
        return _is_call(self._ours[right]) and right not in self._theirs_of

    def _value(self, left: Key, right: Key, name: str) -> tuple[str, str] | None:
        """Cause and sentence where two values are not the same one. Of an operator that only one side has, all is said there."""
        if self._is_alone(left) or self._is_alone_of_ours(right):
            return None
        mate, known = self._mates.get(left), self._theirs_of.get(right)
        if mate is None and known is None and not self._bear_other_names(left, right):
            self._pair(left, right)
            return self._input(left, right)
        # graphs may end at other places: then a value is an input of the next graph on one side
        is_other = (mate or right) != right and _graph(mate or right) == _graph(right)
        is_known = (known or left) != left and _graph(known or left) == _graph(left)
        if is_other or is_known or (mate is None and known is None):
            said = f"{name} reads `{self._theirs.words(left)}` in {THEIRS}, `{self._ours.words(right)}` in {OURS}"
            return f"another value is read: {name}", said
        return None

    def _bear_other_names(self, left: Key, right: Key) -> bool:
        """Whether the input of one side bears the name of another input of the other."""
        one, other = (calls.source_word(nodes.words(key)) for nodes, key in ((self._theirs, left), (self._ours, right)))
        return one != other and (one in self._ours.inputs(_graph(right)) or other in self._theirs.inputs(_graph(left)))

    def _input(self, left: Key, right: Key) -> tuple[str, str] | None:
        one, other = self._theirs[left], self._ours[right]
        if not calls.are_unlike(one, other):
            return None
        taken, here = calls.result(one), calls.result(other)
        cause = f"an input is {taken} in {THEIRS}, {here} in {OURS}"
        return cause, f"{THEIRS} takes `{self._theirs.words(left)}` as {taken}, {OURS} as {here}"

    def _pair(self, left: Key, right: Key) -> None:
        self._mates[left], self._theirs_of[right] = right, left


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
            given = _key(node, node.inputs[0])
            if not calls.hands_back(node, self._nodes[given]):
                break
            key = given
        return key


def _key(node: ev.NodeAdded, name: str = "") -> Key:
    return node.frame, node.graph, name or node.name


def _graph(key: Key) -> tuple[int, str]:
    return key[:2]


def _read(one: ev.NodeAdded, other: ev.NodeAdded) -> list[tuple[Key, Key]] | None:
    """The values that both read, place by place; None: their arguments have another form."""
    if calls.is_cut(one) or calls.is_cut(other):
        left, right = one.inputs, other.inputs
        is_same = len(left) == len(right)
    else:
        (form, left), (our_form, right) = ((form.tokens, form.read) for form in map(calls.form_of, (one, other)))
        is_same = form == our_form
    return [(_key(one, name), _key(other, told)) for name, told in zip(left, right, strict=True)] if is_same else None
