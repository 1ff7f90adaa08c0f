"""The number of the warnings' filters, which says what was shown already, can be read and put back."""

from __future__ import annotations

import warnings

import pytest

from dynexplore.engine.native import filters_version, set_filters_version

pytestmark = pytest.mark.plain("speaks to the C extension, below what `disable` switches off")


def test_each_change_of_the_filters_counts_one() -> None:
    """It is the number that a module remembers beside its warnings."""
    registry: dict[object, object] = {}
    with warnings.catch_warnings(record=True):
        before = filters_version()
        warnings.simplefilter("default")
        assert filters_version() == before + 1
        warnings.warn_explicit("shown", UserWarning, "file.py", 1, registry=registry)
        assert registry["version"] == before + 1


def test_what_was_shown_under_a_number_is_shown_no_more_under_it() -> None:
    """The number that was put back is the one under which the module remembers."""
    registry: dict[object, object] = {}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        number = filters_version()
        for now in (number, number, number + 5, number + 5):
            set_filters_version(now)
            warnings.warn_explicit("shown", UserWarning, "file.py", 1, registry=registry)
        set_filters_version(number)
    assert len(shown) == 2


def test_only_a_number_will_do() -> None:
    """Anything else is refused, and nothing is changed."""
    before = filters_version()
    with pytest.raises(TypeError):
        set_filters_version("1")  # type: ignore[arg-type]
    assert filters_version() == before
