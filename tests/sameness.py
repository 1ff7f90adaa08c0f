"""Are two worlds the same? Walks two object graphs side by side and names every difference by its path.

Which idea lives here: "same" means more than equal values. Two results are the same when types, values, dtypes, strides
and gradients agree, *and* when the same places hold the same object, or tensors that share the same memory, in both
worlds: a list returned twice, an output that is an input, a view of an argument.

In:  `differences({"value": ..., "arguments": ...}, {"value": ..., "arguments": ...})`.
Out: a list of sentences, empty when the worlds are the same; and the tensors that were met, by path.

PyTorch's counterpart: `same` in torch/_dynamo/utils.py, which compares values only.
"""

from __future__ import annotations

import collections
import enum
import functools
import re
import sys
import types
import weakref
from collections.abc import Mapping
from typing import Any

import torch

# Interned or shared by CPython as it likes: which object holds the value is nobody's promise.
ATOMS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), type(NotImplemented), slice, range)
TORCH_ATOMS = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
BY_IDENTITY = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, torch.Generator, enum.Enum)

ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
ADDRESS_OR_ID = re.compile(r"0x[0-9a-fA-F]+|\b\d{10,}\b")
C_STACK = re.compile(r"\n(frame #\d+: .*|<omitting python frames>)")


def without_addresses(text: str) -> str:
    """`text` with every memory address blanked: `<T object at 0x7f...>` is the same from run to run; and without C++ frames."""
    return ADDRESS.sub("0x...", C_STACK.sub("", text))


def with_numbered_objects(text: str, objects: Mapping[int, int]) -> str:
    """`text` in which the address or the id of each of these objects is its number, and every other address is blank.

    >>> thing = object()
    >>> with_numbered_objects(f"{thing!r}, {id(thing)}, {object()!r}", {id(thing): 3})
    '<object object at object 3>, object 3, <object object at 0x...>'
    """

    def shown(match: re.Match[str]) -> str:
        number = objects.get(int(match[0], 16 if match[0].startswith("0x") else 10))
        return f"object {number}" if number is not None else match[0]

    return without_addresses(ADDRESS_OR_ID.sub(shown, text))


def object_numbers(value: Any) -> dict[int, int]:
    """The id of each object with an identity of its own that can be reached from `value`, with its number in the walk."""
    walk = _Walk(exact=True)
    walk.compare(value, value, "")
    objects = [found for found in walk.met if not isinstance(found, (tuple, frozenset, torch.UntypedStorage))]
    return {key: number for number, key in enumerate(dict.fromkeys(map(id, objects)))}


def differences(
    expected: Mapping[str, Any], actual: Mapping[str, Any], *, exact: bool = True, rounding: float | None = None
) -> list[str]:
    """What differs between two worlds, one sentence per place; `exact` allows no rounding in tensor values.

    `rounding`: how much of it where it is allowed, relative and absolute; None: as much as a tensor's dtype has.

    >>> x, y = [1], [1]
    >>> differences({"value": [x, x]}, {"value": [y, [1]]})
    ['value[1]: one object in both places was expected, two objects were found']
    """
    walk = _Walk(exact, rounding)
    for name in expected:
        walk.compare(expected[name], actual[name], name)
    return walk.found


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor that can be reached from `value`, each once, in the order of the walk."""
    walk = _Walk(exact=True)
    walk.compare(value, value, "")
    return walk.tensors


class _Pairs:
    """Which key of the one world stands for which key of the other, one to one."""

    def __init__(self) -> None:
        self._there: dict[int, int] = {}
        self._back: dict[int, int] = {}

    def meet(self, expected: int, actual: int) -> tuple[bool, bool]:
        """Pair two keys. Which of them were not met before: both -> a new pair; neither, and paired -> known."""
        fresh = expected not in self._there, actual not in self._back
        if all(fresh):
            self._there[expected], self._back[actual] = actual, expected
        return fresh

    def are_paired(self, expected: int, actual: int) -> bool:
        """Whether these two stand for each other."""
        return self._there.get(expected) == actual


class _Walk:
    """One walk over two worlds: what was met at the same place in both stands for each other from then on."""

    def __init__(self, exact: bool, rounding: float | None = None) -> None:
        self.exact = exact
        self.rounding = 0.0 if exact else rounding
        self.found: list[str] = []
        self.tensors: list[torch.Tensor] = []
        self._objects = _Pairs()
        self._storages = _Pairs()
        self._compared: set[tuple[int, int]] = set()
        self.met: list[Any] = []  # what is met stays alive, so that no two objects get the same id

    def compare(self, expected: Any, actual: Any, path: str) -> None:
        """Note every difference between two values and what they hold."""
        if not _same_type(type(expected), type(actual)):
            self._note(path, f"{_short(expected)} was expected, {_short(actual)} was found")
        elif isinstance(expected, BY_IDENTITY):
            if expected is not actual and not _same_type(expected, actual) and expected != actual:
                self._note(path, f"{_short(expected)} was expected, {_short(actual)} was found")
        elif isinstance(expected, ATOMS + TORCH_ATOMS):
            # repr tells 0.0 from -0.0 and finds nan equal to nan
            if repr(expected) != repr(actual):
                self._note(path, f"{_short(expected)} was expected, {_short(actual)} was found")
        elif self._is_new(expected, actual, path):
            self._compare_contents(expected, actual, path)

    def _is_new(self, expected: Any, actual: Any, path: str) -> bool:
        key = (id(expected), id(actual))
        if key in self._compared:
            return False
        self._compared.add(key)
        self.met += [expected, actual]
        if isinstance(expected, (tuple, frozenset)):
            return True  # one object or two, as the compiler likes: only what they hold counts
        fresh = self._objects.meet(*key)
        if not all(fresh):
            self._note(path, _identity_sentence(*fresh))
        return all(fresh)

    def _compare_contents(self, expected: Any, actual: Any, path: str) -> None:
        if isinstance(expected, torch.Tensor):
            self._compare_tensors(expected, actual, path)
        elif isinstance(expected, (list, tuple, collections.deque)):
            self._compare_sequences(expected, actual, path)
        elif isinstance(expected, Mapping):
            self._compare_mappings(expected, actual, path)
        elif isinstance(expected, (set, frozenset)):
            self._compare_sets(expected, actual, path)
        elif isinstance(expected, types.FunctionType):
            self._compare_functions(expected, actual, path)
        elif isinstance(expected, types.MethodType):
            self.compare(expected.__func__, actual.__func__, f"{path}.__func__")
            self.compare(expected.__self__, actual.__self__, f"{path}.__self__")
        elif isinstance(expected, functools.partial):
            for part in ("func", "args", "keywords"):
                self.compare(getattr(expected, part), getattr(actual, part), f"{path}.{part}")
        elif isinstance(expected, types.CellType):
            self.compare(_cell_contents(expected), _cell_contents(actual), f"{path}.cell_contents")
        elif _is_numpy_array(expected):
            self._compare_arrays(expected, actual, path)
        elif isinstance(expected, weakref.ref):
            self.compare(expected(), actual(), f"{path}()")
        elif isinstance(expected, BaseException):
            self.compare(expected.args, actual.args, f"{path}.args")
        else:
            self._compare_objects(expected, actual, path)

    def _compare_tensors(self, expected: torch.Tensor, actual: torch.Tensor, path: str) -> None:
        self.tensors.append(actual)
        for question in ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf"):
            wanted, got = getattr(expected, question), getattr(actual, question)
            if wanted != got:
                self._note(path, f"{question} {wanted} was expected, {got} was found")
                return
        if expected.layout is torch.strided:
            if expected.stride() != actual.stride():
                self._note(path, f"strides {expected.stride()} were expected, {actual.stride()} were found")
            self._compare_storages(expected, actual, path)
        if expected is not actual:  # `tensors_in` walks over one world twice
            self._compare_elements(expected, actual, path)
        if expected.is_leaf:
            self.compare(expected.grad, actual.grad, f"{path}.grad")
        if expected.__dict__ or actual.__dict__:
            self.compare(expected.__dict__, actual.__dict__, f"{path}.__dict__")

    def _compare_elements(self, expected: torch.Tensor, actual: torch.Tensor, path: str) -> None:
        tolerance = {} if self.rounding is None else {"rtol": self.rounding, "atol": self.rounding}
        try:
            with torch.no_grad():
                torch.testing.assert_close(
                    actual.detach(), expected.detach(), equal_nan=True, check_stride=False, **tolerance
                )
        except AssertionError as error:
            self._note(path, "values differ: " + " ".join(str(error).split()))

    def _compare_storages(self, expected: torch.Tensor, actual: torch.Tensor, path: str) -> None:
        pair = [tensor.untyped_storage() for tensor in (expected, actual)]
        self.met += pair
        keys = [storage._cdata for storage in pair]
        if not all(self._storages.meet(*keys)) and not self._storages.are_paired(*keys):
            self._note(path, "shares its memory with other tensors than expected")

    def _compare_sequences(self, expected: Any, actual: Any, path: str) -> None:
        if len(expected) != len(actual):
            self._note(path, f"{len(expected)} elements were expected, {len(actual)} were found: {_short(actual)}")
        for index, (wanted, got) in enumerate(zip(expected, actual, strict=False)):
            self.compare(wanted, got, f"{path}[{index}]")
        if hasattr(expected, "__dict__"):
            self.compare(expected.__dict__, actual.__dict__, f"{path}.__dict__")

    def _compare_mappings(self, expected: Any, actual: Any, path: str) -> None:
        if isinstance(expected, dict) and isinstance(actual, dict) and not isinstance(expected, collections.OrderedDict):
            expected, actual = dict(dict.items(expected)), dict(dict.items(actual))  # a subclass may iterate in its own way
        wanted, got = [_key_text(key) for key in expected], [_key_text(key) for key in actual]
        if wanted != got:
            self._note(path, f"keys {wanted} were expected, {got} were found")
            return
        for text, value, other in zip(wanted, expected.values(), actual.values(), strict=True):
            self.compare(value, other, f"{path}[{text}]")

    def _compare_sets(self, expected: Any, actual: Any, path: str) -> None:
        wanted, got = sorted(map(_key_text, expected)), sorted(map(_key_text, actual))
        if wanted != got:
            self._note(path, f"elements {wanted} were expected, {got} were found")

    def _compare_functions(self, expected: Any, actual: Any, path: str) -> None:
        if expected is actual:
            return
        for question in ("__name__", "__qualname__", "__module__", "__doc__", "__code__"):
            if getattr(expected, question) != getattr(actual, question):
                self._note(
                    path, f"{question} {getattr(expected, question)!r} expected, {getattr(actual, question)!r} found"
                )
        for question in ("__defaults__", "__kwdefaults__", "__closure__", "__dict__"):
            self.compare(getattr(expected, question), getattr(actual, question), f"{path}.{question}")

    def _compare_arrays(self, expected: Any, actual: Any, path: str) -> None:
        numpy = sys.modules["numpy"]
        if expected.dtype != actual.dtype or expected.shape != actual.shape:
            self._note(path, f"{expected.dtype}{expected.shape} expected, {actual.dtype}{actual.shape} found")
        elif expected.dtype != object and not self._equal_arrays(expected, actual):
            self._note(path, f"{_short(expected)} was expected, {_short(actual)} was found")

    def _equal_arrays(self, expected: Any, actual: Any) -> bool:
        numpy = sys.modules["numpy"]
        if self.exact or expected.dtype.kind not in "fc":
            return bool(numpy.array_equal(expected, actual, equal_nan=expected.dtype.kind in "fc"))
        tolerance = 1e-3 if expected.dtype.itemsize == 2 else 1e-5
        return bool(numpy.allclose(expected, actual, rtol=tolerance, atol=tolerance, equal_nan=True))

    def _compare_objects(self, expected: Any, actual: Any, path: str) -> None:
        names = [
            name
            for kind in type(expected).__mro__
            for name in _slot_names(kind)
            if hasattr(expected, name) or hasattr(actual, name)
        ]
        for name in names:
            missing = object()
            self.compare(getattr(expected, name, missing), getattr(actual, name, missing), f"{path}.{name}")
        if isinstance(getattr(expected, "__dict__", None), dict):
            self.compare(expected.__dict__, actual.__dict__, f"{path}.__dict__")
        elif not names and type(expected).__eq__ is not object.__eq__ and expected != actual:
            self._note(path, f"{_short(expected)} was expected, {_short(actual)} was found")

    def _note(self, path: str, sentence: str) -> None:
        self.found.append(f"{path}: {sentence}")


def _same_type(expected: Any, actual: Any) -> bool:
    # a class that the function itself defines is made anew by each call
    return expected is actual or (
        isinstance(expected, type)
        and isinstance(actual, type)
        and "<locals>" in expected.__qualname__
        and (expected.__module__, expected.__qualname__) == (actual.__module__, actual.__qualname__)
    )


def _identity_sentence(expected_is_new: bool, actual_is_new: bool) -> str:
    if actual_is_new and not expected_is_new:
        return "one object in both places was expected, two objects were found"
    if expected_is_new and not actual_is_new:
        return "an object of its own was expected, one that was met before was found"
    return "another object that was met before was expected here"


def _short(value: Any) -> str:
    text = without_addresses(repr(value))
    return f"{text if len(text) <= 200 else text[:200] + '...'} ({type(value).__name__})"


def _key_text(key: Any) -> str:
    return without_addresses(repr(key)) if isinstance(key, ATOMS + TORCH_ATOMS + (tuple, type)) else type(key).__name__


def _cell_contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return NotImplemented  # an empty cell


def _slot_names(kind: type) -> list[str]:
    slots = kind.__dict__.get("__slots__", ())
    return [slot for slot in ((slots,) if isinstance(slots, str) else slots) if slot not in ("__dict__", "__weakref__")]


def _is_numpy_array(value: Any) -> bool:
    return "numpy" in sys.modules and isinstance(value, (sys.modules["numpy"].ndarray, sys.modules["numpy"].generic))
