"""What a process knows of its job, in a recording: to JSON and back, and what is not believed of a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dynexplore.engine.errors import RecordingError
from dynexplore.recording.job import Collective, Job
from dynexplore.recording.recording import Recording, redacted

pytestmark = pytest.mark.plain("nothing is captured")

REDUCED, MET = Collective("default_pg", 1, "all_reduce", "float[3]", 5), Collective("default_pg", 2, "barrier", "", 9)
JOB = Job(2, "host-1", "job-1", (REDUCED, MET))


def recording() -> Recording:
    made = Recording(title="t")
    made.rank, made.job = 1, JOB
    return made


def test_a_job_goes_to_json_and_back() -> None:
    """Rank, size, host, name and collectives are there again; without times, and redacted, the host has no name."""
    assert Recording.from_json(recording().to_json()).job == JOB
    assert Recording.from_json(recording().to_json(times=False)).job is None
    hidden = redacted(recording()).job
    assert hidden is not None and (hidden.name, hidden.collectives) == (JOB.name, JOB.collectives)
    assert len(hidden.host) == 8 and "host" not in hidden.host


@pytest.mark.parametrize(
    "change",
    [{"world_size": 0}, {"world_size": "2"}, {"host": 3}, {"words": [1]}, {"collectives": [[0, 1, 0, 0]]},
     {"collectives": [[99, 1, 0, 0, 5]]}, {"collectives": [[0, -1, 0, 0, 5]]}, {"collectives": 7}],
)  # fmt: skip
def test_a_damaged_job_is_one_sentence(change: dict[str, Any]) -> None:
    """A file that somebody edited is declined."""
    data = json.loads(recording().to_json())
    data["job"].update(change)
    with pytest.raises(RecordingError, match="this recording is damaged"):
        Recording.from_plain(data)
