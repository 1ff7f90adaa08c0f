"""Regions: per thread, strictly nested, installed only while needed, beside another evaluator, across fork."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import threading
import weakref
from typing import Any

import pytest
from code_swaps import entry_region, identical, run_script, swapped, swapping_region

from dynexplore.engine.native import (
    CacheStore,
    FrameState,
    Region,
    RegionBlock,
    RegionCall,
    current,
    enter,
    installed,
    leave,
    region_depth,
)

pytestmark = pytest.mark.plain("speaks to the C extension, below what `disable` switches off")


def test_enter_and_leave_nest() -> None:
    """enter returns what leave needs; the hook is installed exactly while the thread has a region."""
    one, two = Region(CacheStore(), None), Region(CacheStore(), None)
    assert (current(), installed(), region_depth()) == (None, False, 0)
    outside = enter(one)
    assert (outside, current(), installed(), region_depth()) == (None, one, True, 1)
    outer = enter(two)
    assert (outer, current(), installed(), region_depth()) == (one, two, True, 2)
    inner = enter(None)
    assert (inner, current(), installed(), region_depth()) == (two, None, False, 3)
    leave(inner)
    assert (current(), installed(), region_depth()) == (two, True, 2)
    leave(outer)
    leave(outside)
    assert (current(), installed(), region_depth()) == (None, False, 0)
    leave(None)
    assert region_depth() == 0


def test_a_region_s_parts_can_be_replaced() -> None:
    """store, callback and on_hit can be set and read; the wrong kind is a TypeError."""
    store = CacheStore()
    region = Region(store, print, len)
    assert (region.store, region.callback, region.on_hit) == (store, print, len)
    region.store = region.callback = region.on_hit = None
    assert (region.store, region.callback, region.on_hit) == (None, None, None)
    assert weakref.ref(region)() is region
    for name in ("store", "callback", "on_hit"):
        with pytest.raises(TypeError, match=name):
            setattr(region, name, 1)
    with pytest.raises(TypeError, match="store"):
        Region(1, None)  # type: ignore[arg-type]
    for call in (enter, leave):
        with pytest.raises(TypeError, match="a Region or None is wanted"):
            call(1)  # type: ignore[arg-type]


def test_a_thread_holds_its_region() -> None:
    """The region a thread is in stays alive, and is freed when the thread leaves it."""
    region = Region(CacheStore(), None)
    gone = weakref.ref(region)
    before = enter(region)
    del region
    gc.collect()
    assert gone() is current() is not None
    leave(before)
    assert gone() is None


def test_region_call_passes_everything_on() -> None:
    """RegionCall passes positional and keyword arguments, results and exceptions, and restores the region."""
    region = Region(CacheStore(), None)
    seen = []

    def fn(a, *args, k=None, **kwargs):
        seen.append((current(), installed()))
        if a is None:
            raise ValueError("no a")
        return a, args, k, kwargs

    call = RegionCall(fn, region)
    assert call(1) == (1, (), None, {})
    assert call(1, 2, k=3, z=4) == (1, (2,), 3, {"z": 4})
    assert call(*(1, 2), **{"z": 4}) == (1, (2,), None, {"z": 4})
    with pytest.raises(ValueError, match="no a"):
        call(None)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        call()
    assert seen == [(region, True)] * 4
    assert (current(), installed(), region_depth()) == (None, False, 0)


def test_region_call_with_the_hook_off() -> None:
    """RegionCall(fn, None) runs fn and all it calls plain inside a region, and outside one changes nothing."""
    seen = []
    off = RegionCall(lambda: (current(), installed(), region_depth()), None)
    assert off() == (None, False, 1)

    def fn():
        return off(), current()

    region = swapping_region(seen=seen)
    assert swapped(region, fn)() == ((None, False, 2), region)
    assert [code.co_name for code in seen] == ["fn"]


def test_of_nested_region_calls_the_outer_wins() -> None:
    """Inside a region with a callback a RegionCall only calls; a run-only region, or none, gives way to it."""
    inner = swapping_region()
    call = RegionCall(current, inner)

    def fn():
        return call(), call(), region_depth()

    outer = swapping_region()
    assert swapped(outer, fn)() == (outer, outer, 1)
    outer.callback = None
    assert swapped(outer, fn)() == (inner, inner, 1)
    assert call() is inner
    assert swapped(outer, RegionCall(call, None))() is inner


def compiling() -> Region:
    """A region whose frames would be compiled."""
    return Region(CacheStore(), lambda state: None)


def test_blocks_nest_and_the_outer_wins() -> None:
    """A block switches to its region and back, whatever ends it; a region that only runs, and none, win inside."""
    outer, inner, only_runs = compiling(), compiling(), Region(CacheStore(), None)
    with pytest.raises(ZeroDivisionError), RegionBlock(outer):
        assert (current(), region_depth()) == (outer, 1)
        with RegionBlock(inner) as nothing:
            assert (current(), region_depth(), nothing) == (outer, 2, None)
        with RegionBlock(only_runs), RegionBlock(inner):
            assert current() is inner
        with RegionBlock(None):
            assert (current(), installed()) == (None, False)
        assert (current(), region_depth()) == (outer, 1)
        1 / 0
    assert (current(), region_depth(), installed()) == (None, 0, False)


def test_one_block_many_times() -> None:
    """The same block may be entered in itself and in several threads at once; leaving none is an error."""
    block = RegionBlock(compiling())
    seen: list[bool] = []

    def elsewhere() -> None:
        with block, block:
            seen.append(current() is block.region)
        seen.append(current() is None)

    with block, block:
        threads = [threading.Thread(target=elsewhere) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert current() is block.region and region_depth() == 2
    assert seen == [True] * 6
    with pytest.raises(RuntimeError, match="in no block"):
        block.__exit__(None, None, None)
    with pytest.raises(TypeError, match="takes a Region or None"):
        RegionBlock(1)  # type: ignore[arg-type]


def test_blocks_are_freed() -> None:
    """A block in a cycle goes; a thread that ends inside blocks lets their regions go."""
    block = RegionBlock(compiling())
    block.itself = block  # type: ignore[attr-defined]
    references = [weakref.ref(block), weakref.ref(block.region)]

    def ends_inside(block: RegionBlock) -> None:
        block.__enter__()
        block.__enter__()

    thread = threading.Thread(target=ends_inside, args=(block,))
    thread.start()
    thread.join()
    del block, thread
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    assert not installed()


def test_region_call_is_found_like_a_function() -> None:
    """A RegionCall in a class binds as a method; wraps, signature, attributes and weak references work."""

    class Model:
        def forward(self, x, scale=1):
            """Doc."""
            return self, x * scale

    region = Region(CacheStore(), None)
    original = Model.forward
    call = functools.wraps(original)(RegionCall(original, region))
    Model.forward = call  # type: ignore[assignment,method-assign]
    model = Model()
    assert model.forward(3, scale=2) == (model, 6)
    bound = model.forward
    assert bound(4) == (model, 4)
    assert (bound.__self__, bound.__func__) == (model, call)  # type: ignore[attr-defined]
    assert Model.forward is call
    assert (call.__name__, call.__doc__, call.__wrapped__) == ("forward", "Doc.", original)
    assert str(inspect.signature(call)) == "(self, x, scale=1)"
    assert (call.fn, call.region) == (original, region)
    call.anything = 1
    assert call.anything == 1
    assert weakref.ref(call)() is call
    assert repr(call).startswith("<RegionCall of <function")
    assert repr(RegionCall(len, None)).endswith(", hook off>")
    with pytest.raises(TypeError, match="fn must be callable"):
        RegionCall(1, None)  # type: ignore[arg-type,var-annotated]
    with pytest.raises(TypeError, match="region must be a Region or None"):
        RegionCall(len, 1)  # type: ignore[arg-type]


def test_region_call_in_a_cycle_is_collected() -> None:
    """A function that holds its own wrapper, region and store is garbage when nobody else holds it."""
    store = CacheStore()

    def fn():
        return call  # noqa: F821  (deleted below)

    call = RegionCall(fn, Region(store, None))
    call.itself = call
    fn.wrapper = call  # type: ignore[attr-defined]
    gone = [weakref.ref(call), weakref.ref(fn), weakref.ref(store)]
    del fn, call, store
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3


def test_a_million_region_calls_leak_nothing() -> None:
    """Entering and leaving by RegionCall, inside and outside regions, moves no reference count."""
    region = Region(CacheStore(), None)
    on, off = RegionCall(lambda x: x, region), RegionCall(lambda x: x, None)

    def loop(n):
        for _ in range(n):
            off(1)
            on(1)

    loop(1000)
    counts = [sys.getrefcount(thing) for thing in (region, on, off)]
    loop(250_000)
    RegionCall(loop, region)(250_000)
    assert [sys.getrefcount(thing) for thing in (region, on, off)] == counts


def test_a_region_belongs_to_its_thread() -> None:
    """Another thread is in no region; the hook stays installed until the last thread has left its own."""
    region = swapping_region()
    inside, may_leave = threading.Event(), threading.Event()
    seen = []

    def other():
        seen.append((current(), installed()))
        before = enter(Region(CacheStore(), None))
        inside.set()
        may_leave.wait(10)
        leave(before)

    before = enter(region)
    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    leave(before)
    assert (current(), installed()) == (None, True)
    may_leave.set()
    thread.join()
    assert not installed()
    assert seen == [(None, True)]


def test_a_thread_that_ends_inside_a_region() -> None:
    """A thread that never leaves its region takes it along when it ends: hook uninstalled, region freed."""
    region = Region(CacheStore(), None)
    gone = weakref.ref(region)

    def work(region):
        enter(region)
        enter(region)

    thread = threading.Thread(target=work, args=(region,))
    del region
    thread.start()
    thread.join()
    del thread
    assert not installed()
    assert gone() is None


def test_the_same_region_in_many_threads() -> None:
    """Threads may share a region, its store and its entries."""

    def fn(x):
        return x

    entry = identical(fn.__code__)
    call = swapped(entry_region(fn, entry), fn)

    def work():
        for i in range(10_000):
            assert call(i) == i

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entry.hits == 40_000
    assert not installed()


FORK = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
from code_swaps import swapping_region, swapped
from dynexplore.engine.native import *

def fn(x):
    return x

def child(check):
    pid = os.fork()
    if pid == 0:
        try:
            check()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

# from outside: a thread of the parent is in a region, the child's only thread is not
ready, done = threading.Event(), threading.Event()
def stay():
    before = enter(swapping_region())
    ready.set()
    done.wait(60)
    leave(before)
thread = threading.Thread(target=stay)
thread.start()
ready.wait(60)
def outside():
    assert current() is None and not installed() and region_depth() == 0
    assert swapped(swapping_region(), fn)(1) == 1
    assert not installed()
child(outside)
assert installed()
done.set()
thread.join()
assert not installed()

# from inside: the child is in the region too, works in it, and leaves it
region = swapping_region()
before = enter(region)
def inside():
    assert current() is region and installed() and region_depth() == 1
    assert fn(2) == 2 and region.store.cache_of(fn.__code__).entries
    other = threading.Thread(target=lambda: swapped(swapping_region(), fn)(3))
    other.start()
    other.join()
    leave(before)
    assert current() is None and not installed()
child(inside)
leave(before)
assert not installed()
print("fine")
"""


def test_fork_outside_and_inside_a_region() -> None:
    """A forked child keeps the forking thread's region only, and uninstalls the hook of threads it does not have."""
    assert run_script(FORK) == "fine\n"


DAEMON = """
import threading, time
from code_swaps import swapping_region
from dynexplore.engine.native import enter

def spin(n):
    while n:
        time.sleep(0)

def work():
    enter(swapping_region(check=lambda *_: True))
    ready.set()
    spin(1)

ready = threading.Event()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
ready.wait(60)
enter(swapping_region())
print("fine")
"""


def test_the_interpreter_may_end_inside_regions() -> None:
    """Exiting while daemon threads and the main thread are in regions is no crash."""
    assert run_script(DAEMON) == "fine\n"


# -- beside torch.compile ------------------------------------------------------------------------------------------------

TORCH = """
import sys, threading, warnings
warnings.simplefilter("ignore")
import torch
import torch._dynamo
from torch._C._dynamo import eval_frame
from code_swaps import swapped, swapping_region
from dynexplore.engine.native import *

def plus(x):
    return x + 1

def names(codes):
    return sorted({code.co_name for code in codes})

compiled = []
def backend(graph, inputs):
    compiled.append(current())
    return graph.forward

theirs = torch.compile(plus, backend=backend)
x = torch.ones(2)
"""

TORCH_INSIDE = """
# torch.compile called with our hook off, inside a region of ours: theirs is installed above ours and goes again
seen = []
def program(x):
    return helper(RegionCall(theirs, None)(x))
def helper(x):
    return x * 2
for _ in range(3):
    assert swapped(swapping_region(seen=seen), program)(x).tolist() == [4, 4]
    assert not installed()
assert names(seen) == ["helper", "program"]
assert compiled == [None], compiled
print("fine")
"""

TORCH_ABOVE = """
# torch.compile called inside a region of ours, with the hook on: theirs above ours
region = swapping_region()
def program(x):
    y = theirs(x)
    assert installed()
    return helper(y)
def helper(x):
    return x * 2
for _ in range(3):
    assert swapped(region, program)(x).tolist() == [4, 4]
    assert not installed()
assert region.store.cache_of(helper.__code__).entries[0].hits == 2
print("fine")
"""

TORCH_BELOW = """
# our region entered from code that torch.compile runs: ours above theirs
seen, asked = [], []
def inner(x):
    assert eval_frame.get_eval_frame_callback() not in (None, False)
    return RegionCall(deepest, None)(x) + deepest(x)
def deepest(x):
    return x * 3
def check(*_):
    asked.append(1)
    return True
region = swapping_region(check=check, seen=seen)
ours = swapped(region, inner)
def outer(x):
    return ours(x + 1)
theirs = torch.compile(outer, backend=backend)
for i in range(3):
    assert theirs(x).tolist() == [12, 12]
    assert not installed() and region_depth() == 0
assert names(seen) == ["deepest", "inner"], names(seen)
assert asked
frames = [code for code in (inner.__code__, deepest.__code__, check.__code__)
          if torch._C._dynamo.eval_frame._debug_get_cache_entry_list(code)]
assert not frames, frames   # torch.compile saw none of the frames inside our region
print("fine")
"""

TORCH_THREADS = """
# two threads, one with regions of ours, one with torch.compile, in no order at all
sys.setswitchinterval(1e-5)
errors = []
def run(call):
    try:
        for i in range(400):
            assert call(x).tolist() == [2, 2]
    except BaseException as error:
        errors.append(repr(error))
def in_region(x):
    return swapped(swapping_region(), plus)(x)
theirs(x)
threads = [threading.Thread(target=run, args=(call,)) for call in (in_region, theirs, in_region, theirs, plus)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not errors, errors
for _ in range(3):
    in_region(x), theirs(x), plus(x)
assert not installed()
print("fine")
"""


@pytest.mark.lenses
@pytest.mark.parametrize(
    "script", [TORCH_INSIDE, TORCH_ABOVE, TORCH_BELOW, TORCH_THREADS], ids=["switched off", "above ours", "below ours", "threads"]
)
def test_beside_torch_compile(script: str) -> None:
    """Ours and torch.compile's evaluator nest either way round and in threads: right results, each sees its own."""
    assert run_script(TORCH + script) == "fine\n"


# -- visits: a callback names another region for one frame ------------------------------------------------------------


def test_a_visit_runs_one_frame_in_another_region() -> None:
    """The frame that the callback answers a region for, and what it calls, is looked up there; the next frame is not."""
    inside: list[str] = []
    asked: list[str] = []
    ends: list[tuple[object, object]] = []

    def callee(n: int) -> int:
        return n + 1

    def chosen(n: int) -> int:
        return callee(n) * 2

    def program() -> tuple[int, int]:
        return chosen(1), callee(5)

    def note(state: FrameState) -> None:
        inside.append(state.code.co_name)

    inner = Region(CacheStore(), note)

    def choose(state: FrameState) -> Any:
        asked.append(state.code.co_name)
        if state.code is not chosen.__code__:
            return None
        return inner, lambda value, error: ends.append((value, error))

    assert RegionCall(program, Region(CacheStore(), choose))() == (4, 6)
    assert inside == ["chosen", "callee"]
    assert asked == ["program", "chosen", "callee"]
    assert ends == [(4, None)]
    assert current() is None


def test_a_visit_that_raises_reports_the_exception_and_passes_it_on() -> None:
    """`ended` gets the exception, the program the very same one, and the thread is back in the region around it."""
    error = KeyError("mine")
    ends: list[tuple[object, object]] = []
    around = Region(CacheStore(), lambda state: (Region(CacheStore(), None), end) if state.code is fails.__code__ else None)
    after: list[object] = []

    def end(value: object, raised: BaseException | None) -> None:
        ends.append((value, raised))

    def fails() -> None:
        raise error

    def program() -> None:
        try:
            fails()
        finally:
            after.append(current())

    with pytest.raises(KeyError) as caught:
        RegionCall(program, around)()
    assert caught.value is error
    assert ends == [(None, error)]
    assert after == [around]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_the_end_of_a_visit_counts() -> None:
    """What `ended` raises changes nothing of the program, unless it is no Exception."""

    def chosen() -> str:
        return "value"

    def visit(error: BaseException) -> str:
        def end(value: object, raised: BaseException | None) -> None:
            raise error

        region = Region(CacheStore(), lambda state: (Region(CacheStore(), None), end) if state.code is chosen.__code__ else None)
        return RegionCall(chosen, region)()

    assert visit(ValueError("of the watcher")) == "value"
    with pytest.raises(KeyboardInterrupt):
        visit(KeyboardInterrupt())
