"""The hook itself: swaps are invisible, guards decide, exceptions pass, nothing leaks."""

from __future__ import annotations

import _thread
import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

import psutil
import pytest
from code_swaps import (
    MORE_THAN_A_CHUNK,
    Outcome,
    entry_region,
    identical,
    outcome,
    swapped,
    swapping_region,
    with_locals,
)

from dynexplore.engine.native import (
    UNBOUND,
    CacheStore,
    Entry,
    FrameState,
    Region,
    RegionCall,
    current,
    installed,
    region_depth,
    skip_code,
    skip_code_recursively,
    unskip_code,
)

pytestmark = pytest.mark.plain("speaks to the C extension, below what `disable` switches off")

# -- programs ---------------------------------------------------------------------------------------------------------


def every_kind_of_argument(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    return a, b, c, args, d, e, kwargs


def arguments_in_cells(a, *args, k=1, **kwargs):
    def inner():
        nonlocal a
        a += 1
        return a, args, k, kwargs

    return inner(), inner(), a


def make_closure(n):
    total = n

    def add(k):
        nonlocal total
        total += k
        return total

    return add(1), add(2), total


class Base:
    def method(self, x):
        return ("base", x)


class Derived(Base):
    def method(self, x):
        return ("derived", super().method(x), __class__.__name__)

    @classmethod
    def made(cls, x):
        return cls().method(x)

    @staticmethod
    def plain(x):
        return x

    @property
    def doubled(self):
        return 2

    def __getitem__(self, key):
        return key * 2

    def __del__(self):
        self.gone = True


def objects(x):
    d = Derived()
    return d.method(x), Derived.made(x), Derived.plain(x), d.doubled, d[x]


def raises_deep(x):
    def one():
        return two()

    def two():
        return 1 / x

    return one()


def handles(x):
    try:
        try:
            return raises_deep(x)
        finally:
            x = x + 1
    except ZeroDivisionError as error:
        return str(error), x


def unbound_local(x):
    if x:
        y = 1
    return y


def recursion(n):
    return 1 if n == 0 else n * recursion(n - 1)


def many_locals(a):
    b = c = d = e = f = g = h = i = j = k = q = m = n = o = p = a
    return [b, c, d, e, f, g, h, i, j, k, q, m, n, o, p]


def generators(n):
    def count():
        received = yield 0
        for i in range(n):
            received = yield (i, received)
        return "done"

    def outer():
        result = yield from count()
        yield result

    g = outer()
    values = [next(g)]
    for i in range(n):
        values.append(g.send(i))
    values.extend(g)
    return values, sum(x for x in range(n)), [y for y in range(n) if y % 2]


def thrown(n):
    def g():
        try:
            yield n
        except ValueError as error:
            yield ("caught", str(error))

    it = g()
    return next(it), it.throw(ValueError("x")), list(it)


def coroutines(n):
    async def leaf(i):
        await asyncio.sleep(0)
        return i

    async def numbers():
        for i in range(n):
            yield await leaf(i)

    async def main():
        return [i async for i in numbers()], await asyncio.gather(*(leaf(i) for i in range(n)))

    return asyncio.run(main())


def with_blocks(n):
    import contextlib

    log = []

    @contextlib.contextmanager
    def manager(name):
        log.append(name)
        try:
            yield name
        finally:
            log.append("exit " + name)

    with manager("a") as a, contextlib.suppress(ZeroDivisionError):
        log.append(a)
        n / 0
    return log


def class_bodies(n):
    class Local:
        attribute = n
        squares = [k * k for k in range(n)]

        def get(self):
            return self.attribute

    return Local().get(), Local.squares


def sorts(n):
    return sorted(range(n), key=lambda k: -k), max(range(n), key=lambda k: (k % 3, k))


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (every_kind_of_argument, (1,), {"d": 4}),
    (every_kind_of_argument, (1, 2, 3, 4, 5), {"d": 4, "e": 6, "f": 7}),
    (every_kind_of_argument, (1,), {}),
    (every_kind_of_argument, (), {"a": 1, "d": 4}),
    (arguments_in_cells, (1, 2, 3), {"k": 4, "z": 5}),
    (make_closure, (10,), {}),
    (objects, (3,), {}),
    (raises_deep, (0,), {}),
    (raises_deep, (2,), {}),
    (handles, (0,), {}),
    (unbound_local, (0,), {}),
    (recursion, (200,), {}),
    (many_locals, (7,), {}),
    (generators, (5,), {}),
    (thrown, (5,), {}),
    (coroutines, (3,), {}),
    (with_blocks, (1,), {}),
    (class_bodies, (4,), {}),
    (sorts, (9,), {}),
]


@pytest.mark.parametrize("room", [0, 60, MORE_THAN_A_CHUNK], ids=["in place", "larger", "in a new frame"])
@pytest.mark.parametrize(("fn", "args", "kwargs"), PROGRAMS, ids=lambda value: getattr(value, "__name__", ""))
def test_swapped_code_does_what_the_original_does(fn, args, kwargs, room) -> None:
    """A program whose every frame runs a copy of its code ends as it ends without: value, exception, lines."""
    expected = outcome(fn, *args, **kwargs)
    region = swapping_region(room=room)
    first = outcome(swapped(region, fn), *args, **kwargs)
    region.callback = None
    cached = outcome(swapped(region, fn), *args, **kwargs)
    assert first == expected
    assert cached == expected
    assert not installed()


def test_the_callback_sees_the_frame() -> None:
    """A FrameState shows code, function, globals, builtins, closure, raw argument values and cache of the call."""
    free = 1

    def fn(a, *args, k, **kw):
        def inner():
            return a, free

        return inner

    seen = {}

    def callback(frame: FrameState) -> None:
        if frame.code is fn.__code__:
            for name in ("code", "function", "globals", "builtins", "closure", "values", "cache"):
                seen[name] = getattr(frame, name)

    store = CacheStore()
    swapped(Region(store, callback), fn)(1, 2, k=3, z=4)
    assert seen["code"] is fn.__code__
    assert seen["function"] is fn
    assert seen["globals"] is globals()
    assert seen["builtins"]["len"] is len
    assert seen["closure"] is fn.__closure__
    assert seen["values"] == (1, 3, (2,), {"z": 4})
    assert seen["cache"] is store.cache_of(fn.__code__)


def test_a_frame_state_ends_with_its_callback() -> None:
    """A FrameState kept after the callback raises, and keeps no argument alive."""
    kept = []
    region = Region(CacheStore(), kept.append)

    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    swapped(region, lambda x: None)(thing)
    del thing
    assert gone() is None
    with pytest.raises(RuntimeError, match="only during the callback"):
        kept[0].values
    assert repr(UNBOUND) == "UNBOUND"


def test_only_plain_functions_are_asked_about() -> None:
    """Generators, coroutines, module and class bodies run untouched; the functions they call are hooked."""
    seen: list[CodeType] = []
    region = swapping_region(seen=seen)

    def program():
        exec("x = 1\nclass C:\n    y = 2\ndef f(): return x\nf()", {})
        return generators(2), coroutines(2)

    swapped(region, program)()
    flags = {code.co_name: code.co_flags for code in seen}
    assert {"program", "f", "generators", "coroutines"} <= flags.keys()
    assert not {"<module>", "C", "count", "main", "leaf", "numbers"} & flags.keys()


def test_guards_get_slots_closure_and_globals() -> None:
    """A check is called with the argument slots in order, raw also where they become cells, then closure and globals."""
    calls = []
    free = "free"

    def fn(a, b=2, *args, c, **kwargs):
        def inner():
            return a, kwargs, free

        return inner()

    def check(*values):
        calls.append(values)
        return True

    region = entry_region(fn, identical(fn.__code__, check=check))
    assert swapped(region, fn)(1, c=3, z=4) == (1, {"z": 4}, "free")
    assert swapped(region, fn)(1, 2, 5, c=3) == (1, {}, "free")
    assert calls == [
        (1, 2, 3, (), {"z": 4}, fn.__closure__, globals()),
        (1, 2, 3, (5,), {}, fn.__closure__, globals()),
    ]
    simple = lambda: None
    calls.clear()
    swapped(entry_region(simple, identical(simple.__code__, check=check)), simple)()
    assert calls == [(None, globals())]


def test_the_first_entry_that_hits_runs() -> None:
    """Entries are tried in order; `valid`, the check and its exact answer True decide; hits are counted."""

    def fn(x):
        return "original"

    def one(x):
        return "one"

    def two(x):
        return "two"

    def raising(*_):
        raise ValueError

    entries = (
        Entry(raising, one.__code__, (), 1),
        Entry(lambda x, *_: 1, one.__code__, (), 1),
        Entry(lambda x, *_: x == 1, one.__code__, (), 1),
        Entry(lambda x, *_: x < 3, two.__code__, (), 1),
    )
    call = swapped(entry_region(fn, *entries), fn)
    assert [call(1), call(2), call(3)] == ["one", "two", "original"]
    entries[2].valid = False
    assert call(1) == "two"
    assert [entry.hits for entry in entries] == [0, 0, 1, 2]


def test_injected_objects_are_locals_of_the_frame() -> None:
    """An entry's objects stand in locals after the arguments, and live as long as the frame needs them."""

    class Graph:
        def __call__(self, a, b):
            gc.collect()
            return a * b

    graph = Graph()
    gone = weakref.ref(graph)

    def fn(a, b):
        return a + b

    def template(a, b, __compiled_fn_0, __other, unused):
        __store.clear()  # noqa: F821
        return __compiled_fn_0(a, b), __other

    template.__globals__["__store"] = store = CacheStore()
    code = with_locals(template, 2)
    store.cache_of(fn.__code__).entries = (Entry(None, code, (graph, "x"), 2),)
    del graph
    call = swapped(Region(store, None), fn)
    assert call(3, 4) == (12, "x")
    assert gone() is None
    assert call(3, 4) == 7
    del globals()["__store"]


@pytest.mark.parametrize("room", [0, MORE_THAN_A_CHUNK], ids=["in place", "in a new frame"])
def test_injection_into_every_shape_of_code(room: int) -> None:
    """Injected locals work beside cells, free variables, *args and **kwargs, in place and in a new frame."""
    free = [1]

    def fn(a, *args, k=2, **kwargs):
        return free

    def template(a, *args, k=2, **kwargs):
        injected = None  # the first local after the argument slots

        def inner():
            return a, args, k, kwargs, free

        return injected, inner()

    template_code = template.__code__
    first = template_code.co_varnames.index("injected")
    instructions = bytearray(template_code.co_code)
    import dis

    for instruction in dis.get_instructions(template_code):  # drop `injected = None`
        if instruction.opname == "STORE_FAST" and instruction.argval == "injected":
            instructions[instruction.offset] = dis.opmap["POP_TOP"]
            instructions[instruction.offset + 1] = 0
    code = template_code.replace(co_code=bytes(instructions), co_stacksize=template_code.co_stacksize + room)
    call = swapped(entry_region(fn, Entry(None, code, ("graph",), first)), fn)
    assert call(1, 2, k=3, z=4) == ("graph", (1, (2,), 3, {"z": 4}, [1]))


def test_functions_with_very_many_arguments() -> None:
    """Hundreds of argument slots reach the check and the new code."""
    names = [f"a{i}" for i in range(300)]
    scope: dict[str, Any] = {}
    exec(f"def fn({', '.join(names)}):\n    return a0, a299", scope)
    fn = scope["fn"]
    lengths = []

    def check(*values):
        lengths.append(len(values))
        return True

    call = swapped(entry_region(fn, identical(fn.__code__, check=check)), fn)
    assert call(*range(300)) == (0, 299)
    assert lengths == [302]


# -- callbacks --------------------------------------------------------------------------------------------------------


def test_a_miss_asks_the_callback_each_time() -> None:
    """Without an entry that hits, every call asks; None runs the frame plain; an Entry runs at once, unguarded."""
    asked = []

    def fn(x):
        return "original"

    def other(x):
        return "other"

    answers = [None, Entry(lambda *_: False, other.__code__, (), 1), None]

    def callback(frame: FrameState) -> Entry | None:
        asked.append(frame.values)
        return answers[len(asked) - 1]

    call = swapped(Region(CacheStore(), callback), fn)
    assert [call(0), call(1), call(2)] == ["original", "other", "original"]
    assert asked == [(0,), (1,), (2,)]


def test_the_thread_is_in_no_region_while_others_decide() -> None:
    """Check, callback and on_hit run with the hook off: what they call is not looked up."""
    seen = []

    def look(what):
        seen.append((what, current(), region_depth()))

    def fn():
        look("fn")

    def check(*_):
        look("check")
        return True

    def callback(frame: FrameState) -> Entry | None:
        if frame.code is not fn.__code__:
            frame.cache.skip = True
            return None
        look("callback")
        assert not installed()
        frame.cache.entries = (identical(frame.code, check=check),)
        return frame.cache.entries[0]

    region = Region(CacheStore(), callback, lambda code, entry: look("on_hit"))
    call = swapped(region, fn)
    call()
    call()
    assert seen == [
        ("callback", None, 1),
        ("fn", region, 1),
        ("check", None, 1),
        ("on_hit", None, 1),
        ("fn", region, 1),
    ]


def test_on_hit_is_told_of_hits_only() -> None:
    """on_hit gets the original code and the entry, once per hit, not for an entry that the callback just made."""
    told = []
    region = swapping_region()
    region.on_hit = lambda code, entry: told.append((code, entry))

    def fn():
        return 1

    call = swapped(region, fn)
    assert call() == call() == call() == 1
    entry = region.store.cache_of(fn.__code__).entries[0]
    assert told == [(fn.__code__, entry)] * 2
    assert entry.hits == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_watcher_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Exception out of on_hit is reported and the call goes on; KeyboardInterrupt goes to the program."""
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(args.exc_type))
    region = swapping_region()
    call = swapped(region, lambda: 1)
    call()

    def fail(code, entry):
        raise error

    region.on_hit = fail
    error: type[BaseException] = ValueError
    assert call() == 1
    assert reported == [ValueError]
    error = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        call()
    assert not installed()


@pytest.mark.parametrize("answer", [1, "entry", object()])
def test_a_callback_must_answer_with_an_entry(answer: object) -> None:
    """Anything but an Entry or None out of the callback is a TypeError."""
    with pytest.raises(TypeError, match="must return an Entry, a visit or None"):
        swapped(Region(CacheStore(), lambda frame: answer), lambda: 1)()  # type: ignore[arg-type,return-value]
    assert not installed()


def test_an_entry_that_does_not_fit_is_refused() -> None:
    """An entry with other argument slots or free variables is a ValueError, never a broken frame."""
    free = 1

    def fn(a):
        return a

    def two(a, b):
        return a

    def closing(a):
        return free

    for other in (two, closing):
        entry = identical(other.__code__)
        with pytest.raises(ValueError, match="cannot stand in for"):
            swapped(Region(CacheStore(), lambda frame: entry), fn)(1)
        with pytest.raises(ValueError, match="cannot stand in for"):
            CacheStore().cache_of(fn.__code__).entries = (entry,)


# -- exceptions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("where", ["check", "callback", "on_hit"])
def test_interrupts_go_to_the_program(error: type[BaseException], where: str) -> None:
    """KeyboardInterrupt and the like out of guards and callbacks reach the caller; frame and region are left clean."""

    class Argument:
        pass

    def interrupt(*_):
        raise error

    def fn(x, y=1, *args):
        return 1

    store = CacheStore()
    region = Region(store, interrupt if where == "callback" else None, interrupt if where == "on_hit" else None)
    if where != "callback":
        store.cache_of(fn.__code__).entries = (identical(fn.__code__, check=interrupt if where == "check" else None),)
    for _ in range(100):
        argument = Argument()
        gone = weakref.ref(argument)
        with pytest.raises(error) as raised:
            swapped(region, fn)(argument, 2, argument)
        names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
        assert names == ["test_interrupts_go_to_the_program", "interrupt"]
        del argument, raised
        assert gone() is None
    assert not installed()
    assert region_depth() == 0
    assert current() is None


def test_control_c_during_a_guard() -> None:
    """A real SIGINT while a guard runs raises KeyboardInterrupt in the program, and the next call works."""

    def fn():
        return 1

    def check(*_):
        if interrupting:
            signal.raise_signal(signal.SIGINT)
            for _ in range(10):
                pass
        return True

    call = swapped(entry_region(fn, identical(fn.__code__, check=check)), fn)
    interrupting = True
    with pytest.raises(KeyboardInterrupt):
        call()
    interrupting = False
    assert call() == 1
    assert not installed()


def test_signals_at_any_moment_leave_everything_clean() -> None:
    """Interrupts at random moments of hooked calls, nested regions and callbacks leave no region and no hook behind."""

    class Stop(BaseException):
        pass

    def stop(*_):
        raise Stop

    def inner(n):
        return n if n < 2 else inner(n - 1) + inner(n - 2)

    def check(*_):
        return True

    def fn(n):
        return RegionCall(inner, None)(3) + swapped(swapping_region(check=check), inner)(n)

    def attempt(delay):
        region = swapping_region(check=check)
        signal.setitimer(signal.ITIMER_REAL, delay)
        swapped(region, fn)(17)
        signal.setitimer(signal.ITIMER_REAL, 0)

    start = time.perf_counter()
    attempt(100)
    duration = time.perf_counter() - start
    before = signal.signal(signal.SIGALRM, stop)
    stopped = 0
    try:
        for number in range(300):
            try:
                attempt(duration * (number + 1) / 300)
            except Stop:
                stopped += 1
            assert current() is None
            assert region_depth() == 0
            assert not installed()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert stopped > 30


def test_a_guard_out_of_stack_runs_the_frame_plain() -> None:
    """RecursionError and MemoryError out of a check are no reason to compile: the callback is not asked."""
    asked = []
    for error in (RecursionError, MemoryError):

        def fn():
            return 1

        def check(*_):
            raise error

        region = entry_region(fn, identical(fn.__code__, check=check))
        region.callback = asked.append
        assert swapped(region, fn)() == 1
    assert asked == []


def test_an_exception_keeps_its_place() -> None:
    """A traceback through swapped frames names the original file, functions and lines."""
    expected = outcome(raises_deep, 0)
    assert expected.exception is ZeroDivisionError
    assert [name for name, _ in expected.lines] == ["raises_deep", "one", "two"]
    for room in (0, MORE_THAN_A_CHUNK):
        assert outcome(swapped(swapping_region(room=room), raises_deep), 0) == expected


def test_an_exception_being_handled_stays() -> None:
    """Guards and callbacks run inside an `except` block do not disturb the exception that is being handled."""

    def fn():
        return sys.exc_info()[1]

    def check(*_):
        try:
            raise KeyError
        except KeyError:
            pass
        return True

    region = swapping_region(check=check)
    call = swapped(region, fn)
    for _ in range(3):
        try:
            raise ValueError
        except ValueError as error:
            assert call() is error
    assert call() is None


# -- tracing ----------------------------------------------------------------------------------------------------------


def test_a_debugger_sees_the_program_only() -> None:
    """settrace reports the same events for swapped frames, and nothing of guards or on_hit."""

    def trace_of(call):
        events = []

        def tracer(frame, event, argument):
            events.append((frame.f_code.co_name, frame.f_lineno, event))
            return tracer

        sys.settrace(tracer)
        try:
            call(3)
        finally:
            sys.settrace(None)
        return events

    def check(*_):
        return True

    def helper(n):
        return n * 2

    def fn(n):
        total = 0
        for i in range(n):
            total += helper(i)
        try:
            return total / 0
        except ZeroDivisionError:
            return total

    region = swapping_region(check=check)
    region.on_hit = lambda code, entry: None
    call = swapped(region, fn)
    call(3)
    assert trace_of(call) == trace_of(fn)


def fn_asked_about(n: int) -> int:
    return n + 1


def test_what_a_debugger_runs_is_not_the_program() -> None:
    """The region is asked about no frame of a trace function, but about the frames of a region that one enters."""
    asked: list[str] = []

    def within(n: int) -> int:
        return n

    def helps() -> None:
        if not inner:
            inner.append(None)
            RegionCall(within, Region(CacheStore(), lambda frame: asked.append(f"inner {frame.code.co_name}")))(1)

    def tracer(frame: Any, event: str, argument: object) -> None:
        helps()

    inner: list[None] = []

    def program(n: int) -> int:
        sys.settrace(tracer)
        try:
            return fn_asked_about(n)
        finally:
            sys.settrace(None)

    region = Region(CacheStore(), lambda frame: asked.append(frame.code.co_name))
    assert RegionCall(program, region)(1) == 2
    assert asked == ["program", "inner within", "fn_asked_about"]


AUDITED = """
import sys
from dynexplore.engine.native import CacheStore, Region, RegionCall

def hears(event, arguments):
    heard.append(event)

def fn(n):
    sys.audit("dynexplore.tests", n)
    return n

heard, asked = [], []
sys.addaudithook(hears)
RegionCall(fn, Region(CacheStore(), lambda frame: asked.append(frame.code.co_name)))(1)
print(heard.count("dynexplore.tests"), asked)
"""


def test_audit_hooks_are_not_the_program() -> None:
    """The region is asked about no frame of an audit hook, which CPython calls; a process keeps one for ever."""
    ended = subprocess.run([sys.executable, "-c", AUDITED], capture_output=True, text=True, check=True)
    assert ended.stdout == "1 ['fn']\n"


def test_a_profiler_sees_the_program_only() -> None:
    """setprofile reports the same calls and returns for swapped frames, and nothing of guards."""

    def profile_of(call):
        events = []
        sys.setprofile(lambda frame, event, argument: events.append((frame.f_code.co_name, event)))
        try:
            call(3)
        finally:
            sys.setprofile(None)
        return [event for event in events if event[1] in ("call", "return") and event[0] != "profile_of"]

    region = swapping_region(check=lambda *_: True)
    call = swapped(region, recursion)
    call(3)
    assert profile_of(call) == profile_of(recursion)


# -- skipping ---------------------------------------------------------------------------------------------------------


def test_skip_marks() -> None:
    """A skipped frame runs plain and its callees do not; skipped recursively, they do too; both can be taken off."""
    seen: list[CodeType] = []

    def callee():
        return 1

    def fn():
        return callee()

    def names(mark):
        seen.clear()
        mark(fn.__code__)
        swapped(swapping_region(seen=seen), fn)()
        assert not installed()
        return [code.co_name for code in seen]

    assert names(skip_code) == ["callee"]
    assert names(skip_code_recursively) == []
    assert names(unskip_code) == ["fn", "callee"]


def test_a_mark_made_by_the_callback_counts_at_once() -> None:
    """Code that the callback marks to run alone runs alone from this very frame on: none of its callees is asked about."""

    def callee():
        return 1

    def fn():
        return callee()

    seen = []

    def callback(state: FrameState) -> None:
        seen.append(state.code.co_name)
        skip_code_recursively(state.code)

    assert swapped(Region(CacheStore(), callback), fn)() == 1
    assert seen == ["fn"]


def test_a_cache_can_be_skipped() -> None:
    """A CodeCache with skip set runs its frames plain, entries or not, in its own store only."""

    def fn():
        return 1

    asked = []
    region = Region(CacheStore(), asked.append)
    cache = region.store.cache_of(fn.__code__)  # type: ignore[union-attr]
    entry = identical(fn.__code__)
    cache.entries = (entry,)
    cache.skip = True
    swapped(region, fn)()
    assert (entry.hits, asked) == (0, [])
    region.store = CacheStore()
    swapped(region, fn)()
    assert len(asked) == 1


def test_a_region_without_a_store_only_asks() -> None:
    """With no store there is no cache; the callback is asked about every frame."""
    caches = []
    call = swapped(Region(None, lambda frame: caches.append(frame.cache)), lambda: 1)
    assert call() == call() == 1
    assert caches == [None, None]


# -- what guards and callbacks may do to us ------------------------------------------------------------------------------


@pytest.fixture
def nothing_old_to_collect() -> None:
    """The garbage collector looks at what the test makes, and not at all that the tests before it imported."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("nothing_old_to_collect")
@pytest.mark.parametrize("hit", [True, False])
def test_a_guard_may_drop_everything_it_belongs_to(hit: bool) -> None:
    """A check that clears the store, the region and the entries while it runs breaks nothing."""

    def fn(x):
        return x

    def check(x, *_):
        cache = holder["store"].cache_of(fn.__code__)
        cache.entries = ()
        holder["region"].store = None
        holder["region"].on_hit = None
        holder["store"].clear()
        holder.clear()
        gc.collect()
        return hit

    for _ in range(50):
        holder: dict[str, Any] = {"store": CacheStore()}
        holder["region"] = Region(holder["store"], lambda frame: None, lambda code, entry: None)
        entries = (identical(fn.__code__, check=check), identical(fn.__code__, check=lambda *_: False))
        holder["store"].cache_of(fn.__code__).entries = entries
        del entries
        call = swapped(holder["region"], fn)
        assert call(5) == 5


def test_a_guard_may_replace_the_function_s_code() -> None:
    """A check that gives the running function new code does not disturb the frame it decides about."""

    def new(x):
        return "new"

    def check(x, *_):
        fn.__code__ = new.__code__
        gc.collect()
        return answer

    for answer in (True, False):

        def fn(x):
            return "old"

        call = swapped(entry_region(fn, identical(fn.__code__, check=check)), fn)
        assert call(1) == "old"
        assert call(1) == "new"


# -- memory -----------------------------------------------------------------------------------------------------------


def test_a_million_cached_calls_leak_nothing() -> None:
    """A million hits, with guards and injected objects, move neither reference counts nor memory."""
    argument, graph = object(), object()

    def fn(a, b):
        return a

    def template(a, b, __compiled_fn_0):
        return a

    def check(a, b, closure, scope):
        return a is b

    entry = Entry(check, with_locals(template, 2), (graph,), 2)
    watched = (argument, graph, fn, fn.__code__, entry, entry.code, check, fn.__globals__)

    def loop(n):
        for _ in range(n):
            fn(argument, argument)

    call = swapped(entry_region(fn, entry), loop)
    call(10_000)
    gc.collect()
    process = psutil.Process()
    counts, memory = [sys.getrefcount(thing) for thing in watched], process.memory_info().rss
    call(1_000_000)
    gc.collect()
    assert [sys.getrefcount(thing) for thing in watched] == counts
    assert process.memory_info().rss - memory < 1 << 20
    assert entry.hits == 1_010_000


@pytest.mark.parametrize("what", ["new frame", "callback", "miss", "interrupt", "disposed"])
def test_the_rare_ways_leak_nothing(what: str) -> None:
    """Runs in a new frame, callbacks, misses and disposed frames give back all they took."""
    argument = object()

    class Stop(BaseException):
        pass

    def fn(a, *args, k, **kwargs):
        return a

    def check(*_):
        if what == "interrupt":
            raise Stop
        return what != "miss"

    store = CacheStore()
    entry = identical(fn.__code__, check=check, room=MORE_THAN_A_CHUNK if what == "new frame" else 0)
    if what not in ("callback", "disposed"):
        store.cache_of(fn.__code__).entries = (entry,)

    def callback(frame: FrameState) -> Entry | None:
        if what == "disposed":
            raise Stop
        return entry if frame.code is fn.__code__ and what == "callback" else None

    region = Region(store, callback)
    call = swapped(region, fn)

    def loop(n):
        for _ in range(n):
            try:
                call(argument, argument, k=argument, z=argument)
            except Stop:
                pass

    watched = (argument, fn, fn.__code__, entry, entry.code, check, region, store)
    loop(1000)
    gc.collect()
    counts, memory = [sys.getrefcount(thing) for thing in watched], psutil.Process().memory_info().rss
    loop(50_000)
    gc.collect()
    assert [sys.getrefcount(thing) for thing in watched] == counts
    assert psutil.Process().memory_info().rss - memory < 2 << 20


def test_arguments_die_when_they_would() -> None:
    """A swapped frame gives its arguments back when it returns, in place and in a new frame alike."""

    class Thing:
        pass

    for room in (0, MORE_THAN_A_CHUNK):
        call = swapped(swapping_region(room=room), lambda thing: None)
        for _ in range(3):
            thing = Thing()
            gone = weakref.ref(thing)
            call(thing)
            del thing
            assert gone() is None


# -- threads ----------------------------------------------------------------------------------------------------------


def test_threads_with_and_without_regions() -> None:
    """Threads in regions of their own and threads in none run side by side, each sees only its own."""
    results: dict[int, set[Outcome]] = {}
    seen: dict[int, list[CodeType]] = {}

    def work(n):
        return sum(recursion(k) for k in range(n)) + len(sorts(n)[0])

    def run(number):
        collected = results.setdefault(number, set())
        if number % 2:
            seen[number] = []
            call = swapped(swapping_region(check=lambda *_: True, seen=seen[number]), work)
        else:
            call = work
        for _ in range(200):
            collected.add(outcome(call, 12))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert set().union(*results.values()) == {outcome(work, 12)}
    for codes in seen.values():
        assert {code.co_name for code in codes} >= {"work", "recursion", "sorts"}
    assert not installed()


def test_interrupt_main_from_another_thread() -> None:
    """KeyboardInterrupt sent by another thread ends a hooked loop and leaves no hook behind."""

    def fn(n):
        return n

    def loop():
        while True:
            fn(1)

    timer = threading.Timer(0.05, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        swapped(swapping_region(check=lambda *_: True), loop)()
    timer.join()
    assert not installed()


@pytest.mark.parametrize("room", [None, 0, MORE_THAN_A_CHUNK], ids=["its own code", "in place", "in a new frame"])
@pytest.mark.parametrize("fails", [False, True])
def test_an_entry_may_run_with_the_hook_off(room: int | None, fails: bool) -> None:
    """The hook sees nothing that code which runs alone calls; behind that code, also where it raises, the region is back."""
    seen: list[object] = []
    asked: list[CodeType] = []

    def callee(x: int) -> int:
        seen.append((current(), region_depth()))
        if fails:
            raise KeyError(x)
        return x + 1

    def fn(x: int) -> int:
        return callee(x)

    def behind(x: int) -> int:
        return x

    def program(x: int) -> object:
        try:
            result = fn(x)
        except KeyError:
            result = -1
        return result, current(), behind(x)

    def ask(frame: FrameState) -> None:
        asked.append(frame.code)

    region = Region(CacheStore(), ask)
    own = fn.__code__
    code = own if room is None else own.replace(co_stacksize=own.co_stacksize + room)
    entry = Entry(None, code, (), code.co_nlocals, runs_alone=True)
    region.store.cache_of(fn.__code__).entries = (entry,)  # type: ignore[union-attr]
    for calls in (1, 2):
        assert RegionCall(program, region)(1) == (-1 if fails else 2, region, 1)
        assert entry.hits == calls and entry.runs_alone
    assert seen == [(None, 1)] * 2
    assert asked == [program.__code__, behind.__code__] * 2
    assert current() is None and not installed() and region_depth() == 0
