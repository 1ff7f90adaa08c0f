"""tools/printout.py: what is printed of each frame, and when nothing is."""

from __future__ import annotations

import logging
import random
import warnings
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.runtime.optimized import wrap
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.recording import Recording
from dynexplore.session.session import watched_store
from engine_checks import graphs_compiled

X = torch.ones(4)


def straight(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


def branches(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


@pytest.fixture(autouse=True)
def nothing_else_is_printed() -> Any:
    """`pytest -s` switches the printout on for all tests; these choose for themselves."""
    with dynexplore.config.patch(debug=False, logs=(), output_code=False, log_level="WARNING"):
        yield


def printed(capsys: pytest.CaptureFixture[str], fn: Any, *args: Any, **options: Any) -> str:
    """What is written to standard output when `fn` is compiled with these options."""
    with dynexplore.config.patch(**options):
        dynexplore.optimize()(fn)(*args)
    return capsys.readouterr().out


def test_nothing_is_printed_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Without options a compilation is silent on standard output, and no recording is made."""
    assert printed(capsys, branches, X) == ""
    assert not dynexplore.config.prints_frames()
    assert graphs_compiled() == 2


def test_debug_prints_all_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """Another capture for comparison, the graph as a table, both bytecodes, the guards; once, when it is compiled."""
    with dynexplore.config.patch(debug=True):
        optimized = dynexplore.optimize()(straight)
        optimized(X), optimized(X)
    text = capsys.readouterr().out
    line = straight.__code__.co_firstlineno
    parts = [
        "torch.fx.symbolic_trace\n",
        "__compiled_fn_0 (2 operators, backend eager)\n",
        f"ORIGINAL BYTECODE straight {__file__} line {line}\n",
        f"MODIFIED BYTECODE straight {__file__} line {line}\n",
        "GUARDS:\n",
        " - local 'x' TENSOR_MATCH\n",
    ]
    places = [text.find(part) for part in parts]
    assert -1 not in places and places == sorted(places), text
    assert text.count("ORIGINAL BYTECODE") == 1


@pytest.mark.parametrize(
    ("options", "there", "missing"),
    [
        ({"logs": ("guards",)}, ["GUARDS:"], ["BYTECODE", "operators"]),
        ({"logs": ("graph",)}, ["2 operators, backend eager"], ["BYTECODE", "GUARDS:", "symbolic_trace"]),
        ({"output_code": True}, ["MODIFIED BYTECODE"], ["GUARDS:", "operators"]),
        ({"output_code": True, "logs": ("guards",)}, ["MODIFIED BYTECODE", "GUARDS:"], ["operators"]),
        ({"logs": ("steps",)}, ["LOAD_FAST"], ["GUARDS:", "BYTECODE"]),
    ],
)
def test_parts(options: dict[str, Any], there: list[str], missing: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """config.logs and config.output_code choose parts of the printout."""
    text = printed(capsys, straight, X, **options)
    assert all(part in text for part in there) and not any(part in text for part in missing), text


def test_why_torch_fx_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """Where torch.fx cannot capture the function, the printout says why."""
    text = printed(capsys, branches, X, debug=True)
    assert "torch.fx.symbolic_trace\nfailed: TraceError: symbolically traced variables cannot be used as inputs" in text
    assert "Graph break DX104" in text


def test_torch_fx_does_not_run_programs_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """A function that prints or changes something is not run again for the comparison."""
    seen: list[int] = []

    def changes(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return x + 1

    def prints(x: torch.Tensor) -> torch.Tensor:
        print("woo")
        return x + 1

    text = printed(capsys, changes, X, debug=True)
    assert "ORIGINAL BYTECODE" in text and "symbolic_trace" not in text
    text = printed(capsys, prints, X, debug=True)
    assert text.count("woo\n") == 1 and "ORIGINAL BYTECODE" in text and "symbolic_trace" not in text
    assert seen == [1]


def test_torch_fx_does_not_warn_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """torch.fx warns of arguments that it makes constants, and the second run would repeat the function's own warnings."""

    def warns(x: torch.Tensor, options: set[int]) -> torch.Tensor:
        return x + len(options)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        text = printed(capsys, warns, X, {1}, debug=True)
    assert "symbolic_trace" in text and [str(one.message) for one in warned] == []


def test_torch_fx_of_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    """The forward of a module is captured through the module, other arguments are constants."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    text = printed(capsys, module.forward, X, debug=True)
    assert "call_module" in text.partition("ORIGINAL BYTECODE")[0], text

    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    assert "mul" in printed(capsys, scaled, X, 3.0, debug=True).partition("ORIGINAL")[0]


def test_a_recording_gets_the_same_events_printed_or_not() -> None:
    """The printout only reads: a watched frame tells the same, but for the comparison with torch.fx."""

    def events(**options: Any) -> list[str]:
        recording = Recording()
        fn = wrap(straight, watched_store("eager", Options(), recording).region)
        with dynexplore.config.patch(**options):
            fn(X)
        return [type(event).__name__ for event in recording if not isinstance(event, ev.CapturedOtherwise)]

    assert "SubgraphCompiled" in events()
    assert events() == events(logs=("guards",)) == events(debug=True)


def test_another_recorder_still_gets_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """A recorder that is no Recording is served beside the printout."""

    class Recorder:
        def __init__(self) -> None:
            self.names: list[str] = []

        def record(self, event: ev.Event) -> None:
            self.names.append(type(event).__name__)

        def next_frame_id(self) -> int:
            return 7

    recorder = Recorder()
    store = watched_store("eager", Options(), Recording())
    store.observers.recorder = recorder
    with dynexplore.config.patch(logs=("guards",)):
        wrap(straight, store.region)(X)
    assert "FrameEntered" in recorder.names and "GUARDS:" in capsys.readouterr().out


# -- log levels -----------------------------------------------------------------------------------------------


def logged(caplog: pytest.LogCaptureFixture, level: str) -> list[tuple[str, str]]:
    caplog.set_level(logging.DEBUG, logger="dynexplore")
    caplog.clear()
    dynexplore.reset()
    with dynexplore.config.patch(log_level=level):
        optimized = dynexplore.optimize()(branches)
        optimized(X), optimized(X)
    return [(record.levelname, record.message) for record in caplog.records if record.name == "dynexplore"]


def test_log_levels(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """ERROR: nothing; WARNING: graph breaks; INFO: code and graph as well; DEBUG: every instruction as well."""
    assert logged(caplog, "ERROR") == []
    warned = logged(caplog, "WARNING")
    assert [level for level, _ in warned] == ["WARNING"] and warned[0][1].startswith("graph break DX104 at ")
    told = logged(caplog, "INFO")
    assert [level for level, _ in told] == ["WARNING", "INFO", "INFO"]
    assert told[1][1].startswith(f"compiled branches ({__file__}:") and "MODIFIED BYTECODE" in told[1][1]
    assert "LOAD_METHOD" not in told[1][1].partition("ORIGINAL BYTECODE")[0]
    details = logged(caplog, "DEBUG")
    assert [level for level, _ in details] == ["WARNING", "INFO", "INFO"]
    assert len(details[1][1]) > len(told[1][1]) and "GUARDS:" in details[1][1]
    assert capsys.readouterr().out == ""


def test_a_break_is_logged_once_at_each_place(caplog: pytest.LogCaptureFixture) -> None:
    """The same place breaks again with other inputs: counted, and not logged again."""
    optimized = dynexplore.optimize()(branches)
    optimized(X), optimized(X.double())
    assert len([record for record in caplog.records if record.name == "dynexplore"]) == 1
    assert sum(dynexplore.graph_breaks().values()) == 2
    assert dynexplore.counters["stats"]["unique_graph_breaks"] == 1


def test_logs_go_to_standard_error_until_logging_is_set_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Without handlers a warning is seen on standard error; with them it is theirs."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        dynexplore.optimize()(branches)(X)
        assert capsys.readouterr().err.startswith("graph break DX104 at ")
        dynexplore.reset()
        root.addHandler(logging.NullHandler())
        dynexplore.optimize()(branches)(X)
        assert capsys.readouterr().err == ""
    finally:
        root.handlers = handlers


CLOSED_OVER = torch.zeros(4)
STATISTICS = torch.zeros(4), torch.ones(4)


def writes_in_place(x: torch.Tensor) -> torch.Tensor:
    CLOSED_OVER.add_(1)
    return x + CLOSED_OVER


def writes_what_it_is_given(x: torch.Tensor) -> torch.Tensor:
    torch.add(CLOSED_OVER, 1, out=CLOSED_OVER)
    return x + CLOSED_OVER


def keeps_statistics(x: torch.Tensor) -> torch.Tensor:
    return x + torch.nn.functional.batch_norm(CLOSED_OVER.expand(2, 4) + 1, *STATISTICS, training=True)


def draws(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(4)


def draws_numbers_of_python(x: torch.Tensor) -> torch.Tensor:
    return x + random.random()


def fills_its_own(x: torch.Tensor) -> torch.Tensor:
    own = torch.zeros(4)
    own[0] = 3
    return x + own.add_(1)


@pytest.mark.parametrize(
    ("fn", "traced"),
    [
        (writes_in_place, "add_.Tensor mutates a tensor"),
        (writes_what_it_is_given, "add.out mutates a tensor"),
        (keeps_statistics, ""),
        (draws, "rand.default draws random numbers"),
        (draws_numbers_of_python, ""),
        (fills_its_own, ""),
    ],
)
def test_the_other_capture_changes_nothing(fn: Any, traced: str, capsys: pytest.CaptureFixture[str]) -> None:
    """torch.fx calls the function, in which only proxies are not computed: what would be seen afterwards is refused."""

    seen, text = [], ""
    for called in (fn, dynexplore.optimize()(fn)):
        CLOSED_OVER.zero_(), STATISTICS[0].zero_(), STATISTICS[1].fill_(1)
        torch.manual_seed(0), random.seed(0)
        with dynexplore.config.patch(debug=True):
            values = [called(X), called(X)]
        text = capsys.readouterr().out
        seen.append([one.tolist() for one in (*values, CLOSED_OVER, *STATISTICS)])
    assert seen[0] == seen[1]
    assert f"torch.fx.symbolic_trace\nfailed: RuntimeError: aten.{traced}" in text if traced else "failed" not in text
    assert "__compiled_fn_" in text
