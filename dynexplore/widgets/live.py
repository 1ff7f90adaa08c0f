"""Answers to questions from the browser that need the live program: what-if, guards on another input, edited source, live steps.

The idea: a recording is plain data; its `Session` is live, and may hold large inputs. So an explorer does not hold it: a small LRU
cache (`Shelf`) does. Questions and answers are plain JSON; a request that is not possible gets one sentence. An edited source
starts another run, whose recording is sent to the browser like the first one's; from then on questions name their run. Requests
that need exclusive access to the program take the turn (turns.py).

In: the `Session` of an explanation.
Out: `Seat(session).answerers`: name of a question -> function that answers it, for `Explorer`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import ast
import collections
import functools
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.views import text
from dynexplore.views.capture_difference import difference_data
from dynexplore.views.explorer_data import explorer_data
from dynexplore.widgets.colours import spelled
from dynexplore.widgets.turns import TURN

Body = dict[str, Any]
Answerer = Callable[[Body], "tuple[Body, list[bytes]]"]
"""Takes the body of a question; returns the body of the answer, and its buffers."""

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")
"""The dtypes that the browser offers; the kernel accepts every dtype of torch."""

PATIENCE = 0.1
"""Seconds that a live step may take before the browser gets the status "running": no message waits longer."""

CELL_PATIENCE = 5.0
"""Seconds that a question waits for a running cell; an edited source does not wait: the browser asks again."""

QUICK = 1.0
"""The maximum duration in seconds of a run that is repeated while the user types."""

MOST_RUNS = 20
"""The number of runs of edited sources that are kept for questions, the latest."""

MOST_VALUES = 60
"""The number of real values in an answer about a live run, the latest."""


class CannotAnswer(Exception):
    """Raised by an answerer: its one-sentence message is shown instead of an answer."""


class Shelf:
    """The live sides that are still available: the latest few. A dropped one also stops its live run."""

    def __init__(self, size: int = 4) -> None:
        self.size = size
        self._lives: collections.OrderedDict[Seat, Live] = collections.OrderedDict()

    def put(self, seat: Seat, live: Live) -> None:
        """Add the live side of an explorer; drop the oldest if there are too many."""
        self._lives[seat] = live
        while len(self._lives) > self.size:
            self.drop(next(iter(self._lives)))

    def drop(self, seat: Seat) -> None:
        """Drop a session."""
        live = self._lives.pop(seat, None)
        if live is not None:
            live.close()

    def get(self, seat: Seat) -> Live:
        """The live side of an explorer. Raises CannotAnswer if it was dropped."""
        live = self._lives.get(seat)
        if live is None:
            raise CannotAnswer(
                f"The inputs of this call were released: only the {self.size} latest explorers keep theirs. Run the cell again."
            )
        self._lives.move_to_end(seat)
        return live


SHELF = Shelf()


class Seat:
    """An explorer's handle on the shelf: its answerers work as long as its session is there. It holds no session itself."""

    def __init__(self, session: Any, shelf: Shelf = SHELF) -> None:
        self._shelf = shelf
        shelf.put(self, Live(session))

    @property
    def answerers(self) -> Mapping[str, Answerer]:
        """Name of a question -> function that answers it."""
        return {name: functools.partial(self._answer, name) for name in ABOUT}

    def _answer(self, name: str, question: Body) -> tuple[Body, list[bytes]]:
        return _timed_answer(functools.partial(self._shelf.get(self).answer, name), question), []

    def leave(self) -> None:
        """Called when the explorer has been closed: drop its session."""
        self._shelf.drop(self)


ABOUT = ("inputs", "what_if", "source", "rerun", "live")
"""The questions: methods of `Live`."""


def _timed_answer(act: Callable[[Body], Body], question: Body) -> Body:
    """The answer with its duration; a refusal of the engine becomes CannotAnswer with the same sentence."""
    began = time.perf_counter()
    try:
        answer = act(question)
    except (TypeError, ValueError, LookupError, RuntimeError) as error:
        raise CannotAnswer(_sentence(error)) from None
    return {**answer, "seconds": time.perf_counter() - began}


def _sentence(error: Exception) -> str:
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    first = message.strip().splitlines()[0] if message.strip() else type(error).__name__
    return ev.clip(first, 400)


class Live:
    """The answers for one session."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.runs: dict[int, Any] = {}  # number -> explanation of an edited source
        self.run_count = 0
        self.target_session = session  # of the displayed frame
        self.run: Any = None
        self.run_about = ""

    def answer(self, name: str, question: Body) -> Body:
        """The answer of the method with this name, about the displayed frame."""
        if not _needs_turn(name, question):
            return self._answer(name, question)
        with TURN.question(0.0 if name == "rerun" else CELL_PATIENCE) as has_turn:
            if has_turn:
                return self._answer(name, question)
        if name == "rerun":
            return {"busy": True}
        raise CannotAnswer("A cell is running: try again when it has finished.")

    def _answer(self, name: str, question: Body) -> Body:
        frame = question.get("frame")
        if name != "live" or question.get("act") == "start":  # a live run continues, whichever frame is displayed
            session = self._session_of(question.get("run"))
            find = session.to_edit if name in ("source", "rerun") else session.of_frame
            self.target_session = find(frame if isinstance(frame, int) else None)
        reply: Body = getattr(self, name)(question)
        return reply

    def _session_of(self, run: Any) -> Any:
        """The session of a run of edited source; that of the first run if none is named."""
        if not run:
            return self.session
        if run not in self.runs:
            raise CannotAnswer(f"The inputs of this run were released: only the {MOST_RUNS} latest keep theirs. Run it again.")
        return self.runs[run].session

    # -- what if

    def inputs(self, question: Body) -> Body:
        """The inputs that can be changed, and the options that a control offers."""
        inputs = [
            {
                "path": editable.path,
                "kind": editable.kind,
                "text": editable.text,
                "shape": list(editable.shape),
                "dtype": editable.dtype,
                "device": editable.device,
                "grad": editable.requires_grad,
            }
            for editable in self.target_session.inputs
        ]
        dtypes = [*DTYPES, *sorted({editable["dtype"] for editable in inputs} - {*DTYPES, ""})]
        devices = ["cpu", "cuda", "meta"]
        devices += sorted({editable["device"] for editable in inputs} - {*devices, ""})
        return {"inputs": inputs, "dtypes": dtypes, "devices": devices, "about": self.target_session.about}

    def what_if(self, question: Body) -> Body:
        """What the latest call would have done with these changes: {path: {shape, dtype, ...} or {value: literal}}.

        `quick`: only evaluate the guards; translating a whole model takes seconds.
        """
        changes = {path: _change(path, change) for path, change in question.get("changes", {}).items()}
        prediction = self.target_session.first_answer(changes) if question.get("quick") else self.target_session.what_if(changes)
        return {
            "outcome": prediction.outcome,
            "entry": prediction.entry,
            "said": prediction.sentence,
            "entries": [_entry(entry) for entry in prediction.entries],
            "difference": difference_data(prediction.difference) if prediction.difference is not None else None,
            "breaks": [broke.title for broke in prediction.breaks],
        }

    # -- edited source

    def source(self, question: Body) -> Body:
        """The source of the function, for editing; `first` is the line of the file at which it begins."""
        return {"source": self.target_session.source, "about": self.target_session.about, "first": self.target_session.first_line}

    def rerun(self, question: Body) -> Body:
        """Run the function with edited source, on copies of the inputs: its recording, and whether it may re-run while typing.

        `automatic` is the reason why it may not, or "". `line` is the line of the text that an error refers to.
        """
        done = self.target_session.rerun(str(question.get("source", "")))
        if done.after is None:
            return {"said": _capital(done.error), "line": _line_named(done.error)}
        self.run_count += 1
        self.runs[self.run_count] = done.explanation
        for old in [number for number in self.runs if number <= self.run_count - MOST_RUNS]:
            del self.runs[old]
        return {
            "run": self.run_count,
            "data": spelled(explorer_data(done.recording)),
            "before": _counts(done.before),
            "said": _capital(done.error),
            "line": _line_named(done.error),
            "printed": ev.clip(done.effects.printed.strip(), 300),
            "automatic": _why_not(done.effects),
        }

    # -- step by step

    def live(self, question: Body) -> Body:
        """Control the live run: {act: start, step, until, finish, stop or look, count, what}."""
        act = question.get("act")
        if act == "start":
            self.close()
            self.run, self.run_about = self.target_session.live(), self.target_session.about
        elif self.run is None:
            raise CannotAnswer("No live run was started.")
        elif act == "step":
            self.run.step(int(question.get("count", 1)), timeout=PATIENCE)
        elif act == "until":
            self.run.until(str(question.get("what", "")), timeout=PATIENCE)
        elif act == "stop":
            self.run.stop()
        elif act != "look":
            raise CannotAnswer(f"A live run cannot {act!r}.")
        return {**_stand(self.run), "about": self.run_about}

    def close(self) -> None:
        """Stop the live run."""
        if self.run is not None:
            self.run.stop()


def _needs_turn(name: str, question: Body) -> bool:
    """Whether a question changes the namespace or runs the program: a started live run has its own copies."""
    return name in ("inputs", "what_if", "rerun") or (name == "live" and question.get("act") == "start")


def _counts(counts: Any) -> Body:
    return {name: getattr(counts, name) for name in ("graphs", "operators", "breaks")}


def _why_not(effects: Any) -> str:
    """Why the source does not re-run automatically while typing; "" if it does."""
    if effects.outside:
        return f"the last run {effects.outside[0]}"
    return f"the last run took {effects.seconds:.1f} s" if effects.seconds > QUICK else ""


def _line_named(sentence: str) -> int:
    named = re.search(r"in line (\d+)", sentence)
    return int(named[1]) if named else 0


def _change(path: str, change: Any) -> Any:
    if not isinstance(change, dict) or "value" not in change:
        return change
    try:
        return ast.literal_eval(str(change["value"]).strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        example = "3, 2.5, 'text', None or [1, 2]"
        raise CannotAnswer(f"{path} takes a Python value such as {example}, not {str(change['value'])!r}.") from None


def _entry(entry: Any) -> Body:
    guards = [
        {
            "index": guard.index,
            "verdict": guard.verdict,
            "alone": guard.alone,
            "expected": guard.expected,
            "actual": guard.actual,
            "guard": guard.required,
        }
        for guard in entry.guards
    ]
    return {"entry": entry.entry, "frame": entry.frame, "function": entry.function, "hits": entry.hits, "guards": guards}


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def _stand(run: Any) -> Body:
    """The position of a live run: status, state, code position, stack, locals, and the nodes and guards created there."""
    state = run.state
    error = run.error
    body: Body = {"status": run.status, "moment": -1, "value": "", "raised": ""}
    if run.status == "finished":
        body["value"] = ev.safe_repr(run.value)
    if error is not None:
        body["raised"] = _capital(f"{type(error).__name__}: {_sentence(error)}" if isinstance(error, Exception) else repr(error))
    if state is None:
        return body
    span = state.source_span
    return {
        **body,
        "moment": state.number,
        "text": text.step_row(state)[2].strip(),
        "frame": state.frame,
        "function": state.code.qualname if state.code is not None else "",
        "offset": state.offset,
        "line": span[0] if span is not None else 0,
        "source": _line(state, span),
        "stack": [_value(view) for view in reversed(state.stack)],
        "locals": [{"name": name, "value": _value(view)} for name, view in state.locals],
        "made": text.changes(state),
        "values": [_observed(value) for value in reversed(run.observed[-MOST_VALUES:])],
    }


def _observed(value: ev.ValueObserved) -> Body:
    """A real value: what it belongs to, its name, dtype, shape and device, its range and first elements."""
    tensor = f"{value.dtype}{value.shape} {value.device}" if value.dtype else value.text
    ends = (("min", value.minimum), ("mean", value.mean), ("max", value.maximum))
    numbers = ", ".join(f"{name} {_short(number)}" for name, number in ends if number is not None)
    first = ", ".join(map(_short, value.first[:6]))
    origin = f"{value.role}, replayed" if value.replayed else value.role
    return {
        "frame": value.frame,
        "of": origin,
        "name": value.name,
        "value": ev.clip(tensor or value.why, 120),
        "range": numbers,
        "first": first,
    }


def _short(number: object) -> str:
    return f"{number:.5g}" if isinstance(number, float) else str(number)


def _line(state: Any, span: Any) -> str:
    if span is None or state.code is None:
        return ""
    lines = state.code.source.splitlines()
    number = span[0] - state.code.first_line
    return lines[number] if 0 <= number < len(lines) else ""


def _value(view: ev.ValueView) -> str:
    origin = view.node or view.source
    return f"{origin}: {view.text}" if origin and origin != view.text else view.text
