"""Recordings of ranks, made up: two ranks that run `step`, the second of which compiles it again for another size."""

from __future__ import annotations

from dynexplore.engine import events as ev
from dynexplore.ranks.ranks import Ranks
from dynexplore.recording.clock import Clock
from dynexplore.recording.job import Collective, Job
from dynexplore.recording.recording import Recording

SECOND = 10**9
WALL = 1_700_000_000 * SECOND

CODE = ev.CodeView(1, "step", "/jobs/train.py", 12, "def step(x):\n    return torch.relu(x)\n", ())


class MadeUp:
    """A recording that is put together: each compilation takes as long as is said; `wall` is the host's clock."""

    def __init__(self, rank: int, *, world_size: int = 2, host: str = "one", name: str = "job", ahead: float = 0.0) -> None:
        self.recording = Recording(title="train.py", engine="torch.compile")
        self.recording.process, self.recording.rank = 100 + rank, rank
        self.ahead = round(ahead * SECOND)
        self.job = Job(world_size, host, name)
        self._times: list[int] = []
        self._frame = 0
        self._collectives: list[Collective] = []

    def compiled(
        self,
        at: float,
        seconds: float = 0.1,
        *,
        op: str = "torch.relu",
        rows: int = 4,
        cause: str = "",
        more: tuple[ev.Event, ...] = (),
        pieces: tuple[ev.GraphPiece, ...] = (),
        code: ev.CodeView = CODE,
    ) -> MadeUp:
        """One more compilation of `step`."""
        self._frame += 1
        place = {"frame": self._frame, "attempt": 1}
        graph = f"g{self._frame}"
        told: list[ev.Event] = [ev.FrameEntered(frame=self._frame, parent=None, code=code)]
        if cause:
            was, now = f"float32[{cause}, 2] cpu", f"float32[{rows}, 2] cpu"
            guard = {"scope": "local", "source": "x", "kind": "TENSOR_MATCH"}
            told.append(ev.GuardFailed(frame=self._frame, entry=1, index=0, expected=was, actual=now, **guard))
            told.append(ev.Recompiled(frame=self._frame, reason="x", entries=1))
        told += [
            ev.AttemptStarted(**place),
            ev.NodeAdded(**place, graph=graph, name="x", op="placeholder", target="x", dtype="float32", shape=f"[{rows}, 2]"),
            ev.NodeAdded(**place, graph=graph, name="made", op="call_function", target=op, args="(x,)", inputs=("x",)),
            ev.NodeAdded(**place, graph=graph, name="output", op="output", target="output", args="((made,),)", inputs=("made",)),
            ev.GuardInstalled(**place, index=0, scope="local", source="x", kind="TENSOR_MATCH", expected=f"float32[{rows}, 2] cpu"),
            ev.SubgraphCompiled(
                **place, graph=graph, backend="eager", node_count=3, op_count=1, nodes=("x", "made", "output"), pieces=pieces
            ),
            *more,
        ]
        self._tell(at, told)
        self._tell(at + seconds, [ev.FrameFinished(frame=self._frame, outcome="compiled", seconds=seconds)])
        return self

    def _tell(self, at: float, told: list[ev.Event]) -> None:
        for event in told:
            self.recording.record(event)
            self._times.append(round(at * SECOND))

    def began(self, at: float, operation: str = "all_reduce", sizes: str = "float[3]") -> MadeUp:
        """One more collective of the group of all ranks."""
        number = len(self._collectives) + 1
        wall = WALL + self.ahead + round(at * SECOND)
        self._collectives.append(Collective("default_pg", number, operation, sizes, wall))
        return self

    def made(self) -> Recording:
        """The recording."""
        steps = [after - before for before, after in zip([0, *self._times], self._times, strict=False)]
        plain = {"wall": WALL + self.ahead, "threads": ["MainThread"], "steps": steps, "turns": [[len(steps), 0]]}
        self.recording.tell_times(Clock.from_plain(plain, len(steps)))
        self.recording.job = Job(self.job.world_size, self.job.host, self.job.name, tuple(self._collectives))
        return self.recording


def made_up_ranks() -> Ranks:
    """Two ranks; rank 1 compiles again at second 1 for half a second, and comes that much later to the second collective."""
    first = MadeUp(0).compiled(0.0).began(0.5).began(1.01)
    second = MadeUp(1).compiled(0.0).began(0.5).compiled(1.0, 0.5, rows=6, cause="4").began(1.51)
    return Ranks({0: first.made(), 1: second.made()})
