"""Types and meaning of the C extension behind `dynexplore.engine.native`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
"""Stands for "there is no value": in `FrameState.values`, and for an absent key in `GuardWalk.first_failure()`."""

ENTRY_FILE: Final[str]
"""The file of entries (functions that only call something): a `RegionCall` takes their frames off tracebacks."""

class Entry:
    """One compiled variant of a code object: when it may run, what runs, and which objects that needs.

    An entry hits when it is `valid`, its `walk` passes (or is None), its `types` hold of the argument slots (or are None), and
    `check` returns True (or is None). `check` is called with the frame's argument slots (positional, keyword-only, *args,
    **kwargs), the function's closure (tuple or None) and the frame's globals. An Exception out of it is a miss; a RecursionError or
    MemoryError lets the frame run plain, without asking the region's callback; any other (KeyboardInterrupt) goes to the program.

    A hit runs `code` in the frame instead of the original, with `injected[i]` in the local variable number
    `inject_index + i`. The code must have the same number of argument slots and free variables as the original, and
    the injected locals must follow the argument slots in `co_varnames`. An entry whose `code` is the original says that the frame
    runs plain. With `runs_alone` the hook is off while `code` runs, which then may call nothing that is to be looked up. Subclasses
    and attributes of any name are fine.

    Raises TypeError or ValueError when the parts do not fit together.
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
    """False: this entry never hits again. A running frame is not touched."""
    hits: int
    """How often this entry was found and run."""
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
        """Tried in order. Setting it swaps the tuple whole; a ValueError says which entry does not fit the code."""
    @entries.setter
    def entries(self, value: tuple[Entry, ...]) -> None: ...
    skip: bool
    """True: frames of this code run plain in regions of this store; nothing is checked, nobody is asked."""
    payload: Any
    """Whatever Python keeps beside the entries. None at first."""

@final
class CacheStore:
    """Owns the entries of any number of code objects.

    Code objects only borrow: when one dies, its cache leaves the store; when the store dies, its caches leave the code
    objects. The garbage collector sees all that a store owns.
    """

    def __new__(cls) -> Self: ...
    def cache_of(self, code: CodeType) -> CodeCache:
        """The cache of this very code object (by identity, never by equality), made if needed."""
    def forget(self, code: CodeType) -> None:
        """Drop the cache of a code object, if there is one."""
    def clear(self) -> None:
        """Drop every cache."""
    def caches(self) -> list[CodeCache]:
        """Every cache, oldest first."""

@final
class FrameState:
    """A frame that is about to run, as a region's callback sees it. Valid only during the callback.

    Reading it later raises RuntimeError, so that nobody keeps the call's arguments alive by accident.
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
    def goes_on_from(self) -> CodeType | None:
        """The modified code whose `TailCall` started the frame; None for any other frame."""
    @property
    def raised(self) -> BaseException | None:
        """What a signal handler has raised while the entries of a resume function were asked; or None."""

@final
class TailCall:
    """What modified code returns when another function is to go on in the place of its frame.

    The hook calls the function when the frame has ended; nobody but the hook ever sees it.
    """

    def __new__(cls, function: FunctionType, *args: object) -> Self: ...

@final
class Region:
    """Where the frames of a thread are looked up, and who is asked when nothing fits.

    `callback(frame_state)` returns an `Entry` to run at once (its guards are not checked) or None to run the frame
    plain; an exception out of it goes to the program. `callback=None`: run what is cached, make nothing new.
    It may also return a visit, `(region, ended)`: the frame and all that it calls belong to that region, whose store and callback
    are asked about this very frame. When it has ended, `ended(value, error)` is called with the hook off (one of them is None), and
    the thread is back in this region. A callback that sets both `store` and `callback` to None ends the region: the thread is in
    none from then on, and pays nothing.
    `on_hit(code, entry)` is told of each hit before it runs; an Exception out of it is reported and ignored.
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

    However the call ends, the thread is back in the region it was in before. Of nested calls with a region the outer wins:
    inside a region that has a callback, `fn` is just called. Found in a class it binds like a function;
    attributes of any name can be set on it.

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
    """`with RegionBlock(region):` switches this thread to the region for the block, and back, whatever ends the block.

    Blocks nest and may be entered in any number of threads; of nested regions the outer wins, as with `RegionCall`.
    Subclasses may take more arguments.
    """

    def __new__(cls, region: Region | None, *args: Any, **kwargs: Any) -> Self: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...
    @property
    def region(self) -> Region | None: ...

def enter(region: Region | None, /) -> Region | None:
    """Switch this thread to `region` (None: hook off) for frames that start from now on; returns what it was in."""

def leave(previous: Region | None, /) -> None:
    """Switch this thread back to what the matching `enter` returned."""

def current() -> Region | None:
    """The region this thread is in."""

def installed() -> bool:
    """Is the frame hook the interpreter's evaluator right now? It is while some thread is in a region."""

def region_depth() -> int:
    """How many enters (`RegionCall`s that run included) of this thread were not left yet."""

def skip_code(code: CodeType, /) -> None:
    """Frames of this code object run plain, in every region. Their callees are hooked as usual."""

def skip_code_recursively(code: CodeType, /) -> None:
    """Frames of this code object run plain, and so does everything that they call."""

def unskip_code(code: CodeType, /) -> None:
    """Take either mark off."""

def is_skipped(code: CodeType, /) -> bool:
    """Has it either mark?"""

@final
class GuardWalk:
    """Compares what stands in objects' own dictionaries with what stood there, a few nanoseconds a key, in C.

    A spec is `(object, class, checks)`: the object is held weakly (dead: fails) and must still be of exactly that
    class. A check is `(key, kind, payload)` over the object's instance `__dict__`; no attribute is read, so no user code
    runs. Kinds: "is" (`__dict__[key] is payload`), "is_weak" (the same, payload held weakly), "items"
    (`__dict__[key]` is a dict with exactly these items in this order: payload is a tuple of `(key, "is" | "is_weak" |
    "any", object)`), "empty" (an empty dict, None, or no such key), "absent" (no such key). An object without a
    `__dict__` counts as one with an empty `__dict__`.

    A class row is `(class, version, by name, lookups)`: each lookup `(name, after, kind, payload)`, made through the class or
    behind the class `after` in its MRO, still ends in `payload` ("is", "is_weak"), in some value of the class `payload`
    ("found_in"), or nowhere ("absent"); "mro" compares the MRO with a tuple of weak references. While the class has that
    version nothing is asked; afterwards the names are, and the version is renewed, unless the row is to be asked by name always.

    A function row is `(function, code, defaults, keyword defaults)`: it still has that code and, where they are not None, exactly
    these defaults, as tuples of `(key, "is" | "is_weak", object)`.

    Classes and functions are held weakly. Raises TypeError for what cannot be weakly referenced and for malformed specs,
    ValueError for an unknown kind.
    """

    def __new__(
        cls, specs: Iterable[_Spec], classes: Iterable[_ClassRow] = (), functions: Iterable[_FunctionRow] = ()
    ) -> Self: ...
    def check(self) -> bool: ...
    def first_failure(self) -> tuple[int, str, str, object] | None:
        """(spec index, key, kind, what is there now) of the first failure, for people; None when all pass.

        A dead object is `(index, "", "alive", None)`, another class `(index, "__class__", "type", class)`; a key that is
        not there shows UNBOUND.
        """
    def failures(self) -> list[tuple[int, str, str, object]]:
        """Every failure, in order; of a dead object, or of one of another class, that alone."""

@final
class DictGuard:
    """The compares of a `GuardWalk` over a dictionary that is handed in: `(key, kind, object)`, of the kinds of items.

    "equal" compares int, float, str and bytes by value, everything else by identity. With `keys` the dictionary has exactly these,
    in this order, compared in the same way. What is no dict fails. While the dictionary has the version of the one that passed
    last, nothing is asked.
    """

    def __new__(cls, checks: tuple[_Item, ...], keys: tuple[object, ...] = ...) -> Self: ...
    def __call__(self, dictionary: object, /) -> bool: ...

@final
class SequenceGuard:
    """The compares of a `DictGuard` over a list or tuple that is handed in: `(index, kind, object)`, of its kinds but for "absent".

    With `length` the sequence has exactly so many items. What is no list or tuple, and of no other class, fails.
    """

    def __new__(cls, checks: tuple[tuple[int, str, object], ...], length: int = ...) -> Self: ...
    def __call__(self, sequence: object, /) -> bool: ...

@final
class TypeGuard:
    """Of which classes the values are that a frame finds under its names, or that stand one step below them; asked in C.

    A row is `(root, step, classes)`: the value is of exactly one of the classes. Its root is what an argument slot, a global name
    ("global") or a cell of the closure ("cell") holds. It stands there (step None), or, read where it lies, under a name of that
    object's own attributes ("attribute"), in what `__slots__` of exactly this class names ("member"), at an index of a tuple or
    list ("item"), under a string or an int of a dict ("key"). A row with the step "length" says how long a tuple or list is.

    Classes are held weakly, no code of the program runs. Raises TypeError for a malformed row.
    """

    def __new__(cls, rows: tuple[_TypeRow, ...]) -> Self: ...
    def holds(
        self, values: tuple[object, ...], closure: tuple[object, ...] | None = None, globals: dict[str, object] = ..., /
    ) -> bool:
        """What C asks, of the values in the argument slots, the cells and the globals of a frame."""

def hides_nothing(value: object, /) -> bool:
    """No attribute in the object's own `__dict__` comes before one of its class (properties and the like come before it).

    An object that has no `__dict__` yet gets none by being asked. No user code runs.
    """

def nth_key(mapping: Any, index: int, /) -> Any:
    """A key of a dict, or a member of a set, by its position; of a dict that lost no key without a walk. Raises IndexError."""

def nth_value(mapping: Any, index: int, /) -> Any:
    """A value of a dict by its position. Raises IndexError."""

def made_dictionary(value: object, /) -> dict[str, Any] | None:
    """The dictionary that holds an object's attributes; None: it has none, or none yet (to be asked makes none)."""

def has_generic_lookup(type: type[Any], /) -> bool:
    """Whether attributes of a type's instances are looked up as `object` does, and no code of a class runs."""

def dict_version(dictionary: dict[Any, Any], /) -> int:
    """A number that the dictionary keeps as long as nothing is written to it, and no other ever has; 0: that cannot be told."""

def evaluated_annotations(function: FunctionType, /) -> Any:
    """The annotations of a function as it holds them, or None: they are not evaluated yet, or there are none. Runs no code."""

def special_method(object: Any, name: str, /) -> Any:
    """What the class has under the name, bound to the object as `with` binds it; None when it has nothing."""

def type_version(cls: type, /) -> int:
    """What stands for all lookups through the class, as long as it has it; 0 when it can have none."""

def filters_version() -> int:
    """How often the filters of warnings changed: what every `__warningregistry__` is held against."""

def set_filters_version(number: int, /) -> None:
    """Say how often the filters of warnings changed."""
