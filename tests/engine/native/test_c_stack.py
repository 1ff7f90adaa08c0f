"""Deep recursion under the hook goes as deep as without it, in the main thread, in others, and beside others."""

from __future__ import annotations

import pytest
from code_swaps import run_script

pytestmark = pytest.mark.plain("speaks to the C extension, below what `disable` switches off")

DEEP = """
import gc, sys, threading
from code_swaps import swapped, swapping_region
import pytest

from dynexplore.engine.native import *

def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)

def deepest(call):
    # the deepest recursion that works under the default limit
    low, high = 1, 1000
    while low < high:
        middle = (low + high + 1) // 2
        try:
            call(middle)
            low = middle
        except RecursionError:
            high = middle - 1
    return low
"""

DEFAULT_LIMIT = """
plain = deepest(deep)
hooked = deepest(swapped(swapping_region(check=lambda *_: True), deep))
moved = deepest(swapped(swapping_region(room=5000), deep))
assert plain > 950
# a guard is one frame more, entering the region none
assert plain - hooked <= 2, (plain, hooked)
assert plain - moved <= 2, (plain, moved)
print("fine")
"""

FAR = """
depth = 50_000
sys.setrecursionlimit(depth + 200)
for region in (swapping_region(check=lambda *_: True), swapping_region(), Region(CacheStore(), None)):
    for _ in range(2):
        assert swapped(region, deep)(depth) == depth
assert not installed() and region_depth() == 0

# in a thread with a small stack of its own
threading.stack_size(512 * 1024)
results = []
thread = threading.Thread(target=lambda: results.append(swapped(swapping_region(), deep)(depth)))
thread.start()
thread.join()
assert results == [depth]
print("fine")
"""

BESIDE = """
# another thread keeps the hook installed, so CPython cannot inline calls: RecursionError, no crash
depth = 200_000
sys.setrecursionlimit(depth + 200)
ready, done = threading.Event(), threading.Event()
def stay():
    before = enter(swapping_region())
    ready.set()
    done.wait(100)
    leave(before)
other = threading.Thread(target=stay, daemon=True)
other.start()
ready.wait(60)

def generators(n):
    if n:
        yield from generators(n - 1)
    yield n

class Alive:
    pass

def holding(n, thing=None):
    return holding(n - 1, Alive()) if n else 0

for call in (deep, swapped(swapping_region(), deep), swapped(swapping_region(check=lambda *_: True), deep), holding):
    for _ in range(2):
        try:
            call(depth)
            raise AssertionError("that deep?")
        except RecursionError as error:
            pass
assert not [thing for thing in gc.get_objects() if isinstance(thing, Alive)]
assert deep(300) == 300
try:
    next(generators(30_000))
    raise AssertionError("that deep?")
except RecursionError:
    pass
done.set()
other.join()
assert not installed()
assert deep(50_000) == 50_000
print("fine")
"""


def test_the_default_recursion_limit_is_reached() -> None:
    """Under the default limit a recursion under the hook goes as deep as in plain Python, but for a guard's frame."""
    assert run_script(DEEP + DEFAULT_LIMIT) == "fine\n"


def test_raised_limits_are_reached_too() -> None:
    """With a raised limit a recursion goes tens of thousands deep, because the hook steps aside before the C stack ends."""
    assert run_script(DEEP + FAR) == "fine\n"


def test_another_thread_s_region_costs_depth_but_no_crash() -> None:
    """While another thread keeps the hook installed, too deep a recursion is a RecursionError, and all frames are freed."""
    assert run_script(DEEP + BESIDE) == "fine\n"
