"""Types and documentation of the C extension behind `dynexplore.engine.native`.

The idea: the frame hook looks a frame's code object up in the region's store, runs the first entry whose guards pass, and otherwise
calls the region's callback; guard checks that would be slow in Python are here, too.

In: code objects, entries, guards. Out: calls of modified code.
PyTorch's counterpart: torch/_C/_dynamo/eval_frame.pyi and torch/_C/_dynamo/guards.pyi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any, Final, Generic, Literal, ParamSpec, Self, TypeVar, final

_P = ParamSpec("_P")
_R = TypeVar("_R")

_ItemKind = Literal["is", "is_weak", "equal", "any", "absent"]
_CheckKind = Literal["is", "is_weak", "equal", "items", "empty", "absent"]
_LookupKind = Literal["is", "is_weak", "found_in", "absent", "mro"]
_Item = tuple[object, _ItemKind, object]
_Check = tuple[object, _CheckKind, object]
_Spec = tuple[object, type, tuple[_Check, ...]]
_Lookup = tuple[str, type | None, _LookupKind, object]
_ClassRow = tuple[type, int, bool, tuple[_Lookup, ...]]
_Root = int | tuple[Literal["global"], str] | tuple[Literal["cell"], int]
_Step = (
    tuple[Literal["attribute"], str]
    | tuple[Literal["member"], str, type]
    | tuple[Literal["item", "length"], int]
    | tuple[Literal["key"], str | int]
)
_TypeRow = tuple[_Root, _Step | None, tuple[type, ...]]
Visit = tuple["Region", Callable[[Any, BaseException | None], object]]
_FunctionRow = tuple[FunctionType, CodeType, tuple[_Item, ...] | None, tuple[_Item, ...] | None]

@final
class _Unbound: ...

UNBOUND: Final[_Unbound]
"""Marks a missing value: in `FrameState.values`, and for an absent key in `GuardWalk.first_failure()`."""

ENTRY_FILE: Final[str]
"""The file name of entry functions, which only forward a call: a `RegionCall` removes their frames from tracebacks."""

class Entry:
    """One compiled variant of a code object (a cache entry): its guards, its modified code, and the objects that the code needs.

    An entry hits if it is `valid`, its `walk` passes (or is None), its `types` match the argument slots (or are None), and `check`
    returns True (or is None). `check` is called with the frame's argument slots (positional, keyword-only, *args,
    **kwargs), the function's closure (tuple or None) and the frame's globals. If it raises an Exception, the entry misses; on a
    RecursionError or MemoryError the frame runs plain, without a call of the region's callback; any other exception
    (KeyboardInterrupt) propagates to the program.

    A hit runs `code` in the frame instead of the original, with `injected[i]` in the local variable number
    `inject_index + i`. The code must have the same number of argument slots and free variables as the original, and
    the injected locals must follow the argument slots in `co_varnames`. If `code` is the original, the frame runs plain. With
    `runs_alone` the hook is off while `code` runs, which then must not call anything that should be looked up. Subclasses and
    arbitrary attributes are allowed.

    Raises TypeError or ValueError if the parts are inconsistent.
    """

    def __new__(
        cls,
        check: Callable[..., object] | None,
        code: CodeType,
        injected: tuple[object, ...],
        inject_index: int,
        walk: GuardWalk | None = None,
        types: TypeGuard | None = None,
        runs_alone: bool = False,
    ) -> Self: ...
    @property
    def check(self) -> Callable[..., object] | None: ...
    @property
    def walk(self) -> GuardWalk | None: ...
    @property
    def types(self) -> TypeGuard | None: ...
    @property
    def code(self) -> CodeType: ...
    @property
    def injected(self) -> tuple[object, ...]: ...
    @property
    def inject_index(self) -> int: ...
    @property
    def runs_alone(self) -> bool: ...
    valid: bool
    """False: this entry never hits again. A running frame is not affected."""
    hits: int
    """The number of hits."""
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...

@final
class CodeCache:
    """The entries of one code object in one `CacheStore`; `CacheStore.cache_of` makes it."""

    @property
    def code(self) -> CodeType | None:
        """The code object, held weakly: None once it is gone."""
    @property
    def entries(self) -> tuple[Entry, ...]:
        """Tried in order. Assignment replaces the whole tuple; raises ValueError for an entry that does not fit the code."""
    @entries.setter
    def entries(self, value: tuple[Entry, ...]) -> None: ...
    skip: bool
    """True: frames of this code run plain in regions of this store, without guard checks or callback."""
    payload: Any
    """Arbitrary data kept with the entries. None initially."""

@final
class CacheStore:
    """Owns the entries of any number of code objects.

    Code objects hold only borrowed references: when one dies, its cache is removed from the store; when the store dies, its caches
    are removed from the code objects. The garbage collector traverses everything that a store owns.
    """

    def __new__(cls) -> Self: ...
    def cache_of(self, code: CodeType) -> CodeCache:
        """The cache of this code object (by identity, never by equality), created if needed."""
    def forget(self, code: CodeType) -> None:
        """Drop the cache of a code object, if there is one."""
    def clear(self) -> None:
        """Drop every cache."""
    def caches(self) -> list[CodeCache]:
        """Every cache, oldest first."""

@final
class FrameState:
    """A frame that is about to run, as passed to a region's callback. Valid only during the callback.

    Reading it later raises RuntimeError, so that it cannot keep the call's arguments alive by accident.
    """

    @property
    def code(self) -> CodeType: ...
    @property
    def function(self) -> FunctionType: ...
    @property
    def globals(self) -> dict[str, Any]: ...
    @property
    def builtins(self) -> dict[str, Any]: ...
    @property
    def closure(self) -> tuple[CellType, ...] | None: ...
    @property
    def values(self) -> tuple[Any, ...]:
        """The objects in the argument slots, raw: an argument that becomes a cell variable is not in its cell yet."""
    @property
    def cache(self) -> CodeCache:
        """The code object's cache in the region's store (None when the region has no store)."""
    @property
    def resumed_from(self) -> CodeType | None:
        """The modified code whose `TailCall` started the frame; None for any other frame."""
    @property
    def raised(self) -> BaseException | None:
        """The exception that a signal handler raised while the guards of a resume function were checked; or None."""

@final
class TailCall:
    """A tail call: modified code returns it so that another function runs in place of its frame.

    The hook calls the function after the frame has ended; only the hook ever sees this object.
    """

    def __new__(cls, function: FunctionType, *args: object) -> Self: ...

def finish_call(call: TailCall, /) -> Any:
    """Call the function of a tail call in a frame of its own; no frame but that one holds the arguments."""

@final
class Region:
    """The store in which a thread's frames are looked up, and the callback for a miss.

    `callback(frame_state)` returns an `Entry` to run immediately (its guards are not checked) or None to run the frame plain; its
    exceptions propagate to the program. `callback=None`: use existing entries, compile nothing new.
    It may also return a visit, `(region, ended)`: the frame and everything that it calls belong to that region, whose store and
    callback then decide about this frame. After the frame, `ended(value, error)` is called with the hook off (one of them is None),
    and the thread is back in this region. A callback that sets both `store` and `callback` to None ends the region: from then on
    the thread is in no region, without overhead.
    `on_hit(code, entry)` is called before each hit runs; an Exception that it raises is reported and ignored.
    While a guard, the callback or `on_hit` runs, the thread is in no region.
    """

    def __new__(
        cls,
        store: CacheStore | None,
        callback: Callable[[FrameState], Entry | Visit | None] | None,
        on_hit: Callable[[CodeType, Entry], object] | None = None,
    ) -> Self: ...
    store: CacheStore | None
    callback: Callable[[FrameState], Entry | Visit | None] | None
    on_hit: Callable[[CodeType, Entry], object] | None

class RegionCall(Generic[_P, _R]):
    """Calls `fn` inside a region, or with the hook off when `region` is None (compiled graphs, disabled functions).

    However the call ends, the thread returns to its previous region. Of nested calls with a region the outer wins: inside a
    region that has a callback, `fn` is simply called. As a class attribute it binds like a function; arbitrary attributes can be
    set on it.

    >>> RegionCall(len, None)("abc")
    3
    """

    def __new__(cls, fn: Callable[_P, _R], region: Region | None) -> Self: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def __get__(self, instance: object, owner: type | None = None, /) -> Any: ...
    @property
    def fn(self) -> Callable[_P, _R]: ...
    @property
    def region(self) -> Region | None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...

class RegionBlock:
    """`with RegionBlock(region):` switches this thread to the region for the block, and back however the block ends.

    Blocks nest and may be entered in any number of threads; of nested regions the outer wins, as with `RegionCall`.
    Subclasses may take more arguments.
    """

    def __new__(cls, region: Region | None, *args: Any, **kwargs: Any) -> Self: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...
    @property
    def region(self) -> Region | None: ...

def enter(region: Region | None, /) -> Region | None:
    """Switch this thread to `region` (None: hook off) for frames that start from now on; return the previous region."""

def leave(previous: Region | None, /) -> None:
    """Switch this thread back to the region that the matching `enter` returned."""

def current() -> Region | None:
    """The current region of this thread."""

def installed() -> bool:
    """Whether the frame hook is currently the interpreter's frame evaluator: it is while any thread is in a region."""

def region_depth() -> int:
    """The number of enters (including active `RegionCall`s) of this thread without a matching leave."""

def skip_code(code: CodeType, /) -> None:
    """Run frames of this code object plain, in every region. Their callees are hooked as usual."""

def skip_code_recursively(code: CodeType, /) -> None:
    """Run frames of this code object plain, and everything that they call."""

def unskip_code(code: CodeType, /) -> None:
    """Undo `skip_code` or `skip_code_recursively`."""

def is_skipped(code: CodeType, /) -> bool:
    """Whether `skip_code` or `skip_code_recursively` applies to it."""

@final
class GuardWalk:
    """Compares the contents of objects' `__dict__`s with recorded contents, in C, at a few nanoseconds per key.

    A spec is `(object, class, checks)`: the object is held weakly (fails if it is dead) and must still be of exactly that class.
    A check is `(key, kind, payload)` on the object's `__dict__`; no attribute is read, so no user code runs. Kinds: "is"
    (`__dict__[key] is payload`), "is_weak" (the same, payload held weakly), "items" (`__dict__[key]` is a dict with exactly these
    items in this order: payload is a tuple of `(key, "is" | "is_weak" | "any", object)`), "empty" (an empty dict, None, or no such
    key), "absent" (no such key). An object without a `__dict__` counts as one with an empty `__dict__`.

    A class row is `(class, version, by name, lookups)`: each lookup `(name, after, kind, payload)`, made through the class or
    behind the class `after` in its MRO, still ends in `payload` ("is", "is_weak"), in some value of the class `payload`
    ("found_in"), or nowhere ("absent"); "mro" compares the MRO with a tuple of weak references. While the class has that version
    nothing is checked; afterwards the lookups are, and the version is updated, unless `by name` requests the lookups every time.

    A function row is `(function, code, defaults, keyword defaults)`: it still has that code and, where they are not None, exactly
    these defaults, as tuples of `(key, "is" | "is_weak", object)`.

    Classes and functions are held weakly. Raises TypeError for objects that cannot be weakly referenced and for malformed specs,
    ValueError for an unknown kind.
    """

    def __new__(
        cls, specs: Iterable[_Spec], classes: Iterable[_ClassRow] = (), functions: Iterable[_FunctionRow] = ()
    ) -> Self: ...
    def check(self) -> bool: ...
    def first_failure(self) -> tuple[int, str, str, object] | None:
        """(spec index, key, kind, current value) of the first failure, for reports; None if all pass.

        A dead object is `(index, "", "alive", None)`, another class `(index, "__class__", "type", class)`; the value of an absent
        key is UNBOUND.
        """
    def failures(self) -> list[tuple[int, str, str, object]]:
        """Every failure, in order; for a dead object, or one of another class, only that."""

@final
class DictGuard:
    """The checks of a `GuardWalk` on a dict that is passed in: `(key, kind, object)`, with the kinds of items.

    "equal" compares int, float, str and bytes by value, everything else by identity. With `keys` the dict must have exactly these,
    in this order, compared in the same way. A value that is not a dict fails. While the dict has the version that passed last,
    nothing is checked.
    """

    def __new__(cls, checks: tuple[_Item, ...], keys: tuple[object, ...] = ...) -> Self: ...
    def __call__(self, dictionary: object, /) -> bool: ...

@final
class SequenceGuard:
    """The checks of a `DictGuard` on a list or tuple that is passed in: `(index, kind, object)`, with its kinds except "absent".

    With `length` the sequence must have exactly that many items. A value whose class is not exactly list or tuple fails.
    """

    def __new__(cls, checks: tuple[tuple[int, str, object], ...], length: int = ...) -> Self: ...
    def __call__(self, sequence: object, /) -> bool: ...

@final
class TypeGuard:
    """Checks in C the classes of the values of a frame's names, or of values one step below them.

    A row is `(root, step, classes)`: the value's class must be one of the classes. The root is an argument slot, a global name
    ("global") or a cell of the closure ("cell"). The value is the root itself (step None) or, read without a lookup, an instance
    attribute of it ("attribute"), a `__slots__` member of exactly this class ("member"), an item of a tuple or list ("item"), or
    the value of a str or int key of a dict ("key"). A row with the step "length" checks the length of a tuple or list.

    Classes are held weakly, no user code runs. Raises TypeError for a malformed row.
    """

    def __new__(cls, rows: tuple[_TypeRow, ...]) -> Self: ...
    def holds(
        self, values: tuple[object, ...], closure: tuple[object, ...] | None = None, globals: dict[str, object] = ..., /
    ) -> bool:
        """Run the check on the argument slots, cells and globals of a frame."""

def no_instance_override(value: object, /) -> bool:
    """Whether no attribute in the object's `__dict__` hides one of its class (data descriptors cannot be hidden).

    Does not materialize a `__dict__`. No user code runs.
    """

def nth_key(mapping: Any, index: int, list_all: Callable[[Any], Any] = ..., /) -> Any:
    """A key of a dict, or a member of a set, by its position; O(1) for a dict without deletions. Raises IndexError.
    `list_all` lists the keys of what is neither a dict nor an OrderedDict with plain keys.
    """

def nth_value(mapping: Any, index: int, list_all: Callable[[Any], Any] = ..., /) -> Any:
    """A value of a dict by its position; otherwise like `nth_key`."""

def made_dictionary(value: object, /) -> dict[str, Any] | None:
    """The `__dict__` of an object, or None if it has none or it is not materialized yet (the call does not materialize it)."""

def names_of_class(cls: type[Any], /) -> Mapping[str, Any]:
    """A class's own `__dict__`; a dict without the keys that are not text if there are any (a lookup would call their `__eq__`)."""

def compares_name(cls: type[Any], name: str, /) -> bool:
    """Whether looking a name up in a class's own `__dict__` may call the `__eq__` of a key that is not text."""

def has_generic_lookup(type: type[Any], /) -> bool:
    """Whether attribute lookup on a type's instances is `object`'s generic lookup, so that no code of a class runs."""

def dict_version(dictionary: dict[Any, Any], /) -> int:
    """A version number, unique to this state of the dict: it changes with every write; 0 if it is not available."""

def evaluated_annotations(function: FunctionType, /) -> Any:
    """The annotations that a function already holds; None if there are none or they are not evaluated yet. Runs no code."""

def special_method(object: Any, name: str, /) -> Any:
    """The class attribute of this name, bound to the object as `with` binds it; None if there is none."""

def type_version(cls: type, /) -> int:
    """The version tag of a class: as long as it is unchanged, so is every lookup through the class; 0 if it cannot have one."""

def filters_version() -> int:
    """The version of the warnings filters, with which every `__warningregistry__` is compared."""

def set_with_table_of(other: set[Any] | frozenset[Any], /) -> set[Any]:
    """A set of the same members in the same table, so that both have one order now and after the same changes."""

def set_table_of(set: set[Any] | frozenset[Any], /) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """The size of a set's table, where the next `pop` begins, the places of its members in order, and of discarded ones."""

def stored_hashes(container: Any, /) -> list[tuple[Any, int]]:
    """The members of a set or keys of a dict, each with the hash that it had when it was stored; none if all keys are text."""

def set_in_table(set: Any, members: tuple[Any, ...], table: tuple[Any, ...], /) -> Any:
    """The set, which holds these members in such a table and nothing else; None: a new frozenset."""

def set_filters_version(number: int, /) -> None:
    """Set the version of the warnings filters."""
