"""What every test of this folder gets: a torch.compile that remembers nothing of earlier tests.

In: nothing. Out: the fixture `fresh_dynamo`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from watching.programs import forget


@pytest.fixture(autouse=True)
def fresh_dynamo(dynamo_stays_banned: None) -> Iterator[None]:
    """torch.compile has no entries and no counts, before the test and after it."""
    forget()
    yield
    forget()
