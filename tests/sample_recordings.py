"""Recordings written by hand, for the tests of recording and views: no engine, no torch, the same on every Python.

`toy()` is what the engine sees of the reference program `toy` on a call whose sum is negative: two attempts of the
first frame (the first one breaks at the `if`), then the frame of the resume function, then a hit and a recompile.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.recording.recording import Recording
from dynexplore.views import cache_timeline, explorer_data, html_text, links, real_run, text

SOURCE = "def toy(a, b):\n    x = a / (torch.abs(a) + 1)\n    if b.sum() < 0:\n        b = b * -1\n    return x * b\n"
RESUME_SOURCE = SOURCE


def row(offset: int, op: str, arg: str, line: int, column: int, end: int, **more: object) -> ev.ListingRow:
    """A row of a listing whose one canonical step has the same name."""
    steps = (ev.StepView(offset // 2, op.replace("_CHECK", ""), arg),)
    return ev.ListingRow(offset, op, arg, line, line, column, end, steps=steps, **more)  # type: ignore[arg-type]


ORIGINAL = ev.CodeView(
    1,
    "toy",
    "example.py",
    9,
    SOURCE,
    (
        row(0, "RESUME", "0", 9, 0, 0),
        row(2, "LOAD_FAST", "a", 10, 8, 9),
        row(4, "LOAD_GLOBAL", "torch", 10, 13, 18),
        row(6, "LOAD_ATTR", "abs", 10, 13, 22),
        row(8, "LOAD_FAST", "a", 10, 23, 24),
        row(10, "CALL", "1", 10, 13, 25),
        row(12, "LOAD_CONST", "1", 10, 28, 29),
        row(14, "BINARY_OP", "+", 10, 13, 29),
        row(16, "BINARY_OP", "/", 10, 8, 30),
        row(18, "STORE_FAST", "x", 10, 4, 5),
        row(20, "LOAD_FAST", "b", 11, 7, 8),
        row(22, "LOAD_ATTR", "sum", 11, 7, 12),
        row(24, "CALL", "0", 11, 7, 14),
        row(26, "LOAD_CONST", "0", 11, 17, 18),
        row(28, "COMPARE_OP", "<", 11, 7, 18),
        row(30, "POP_JUMP_IF_FALSE", "to 40", 11, 7, 18, target=40),
        row(32, "LOAD_FAST", "b", 12, 12, 13),
        row(34, "LOAD_CONST", "-1", 12, 16, 18),
        row(36, "BINARY_OP", "*", 12, 12, 18),
        row(38, "STORE_FAST", "b", 12, 8, 9),
        row(40, "LOAD_FAST", "x", 13, 11, 12, is_target=True),
        row(42, "LOAD_FAST", "b", 13, 15, 16),
        row(44, "BINARY_OP", "*", 13, 11, 16),
        row(46, "RETURN_VALUE", "", 13, 4, 16),
    ),
)


def emitted(offset: int, op: str, arg: str, role: str, origin: int = -1, **more: object) -> ev.ListingRow:
    """A row of modified code."""
    return ev.ListingRow(offset, op, arg, role=role, origin=origin, **more)  # type: ignore[arg-type]


MODIFIED = ev.CodeView(
    2,
    "toy",
    "example.py",
    9,
    SOURCE,
    (
        emitted(0, "RESUME", "0", "prologue"),
        emitted(2, "LOAD_FAST", "__compiled_fn_0", "call graph"),
        emitted(4, "LOAD_FAST", "a", "load input"),
        emitted(6, "LOAD_FAST", "b", "load input"),
        emitted(8, "CALL", "2", "call graph"),
        emitted(10, "UNPACK_SEQUENCE", "2", "store outputs"),
        emitted(12, "STORE_FAST", "x", "store outputs"),
        emitted(14, "POP_JUMP_IF_FALSE", "to 28", "original", 30, target=28, line=11),
        emitted(16, "LOAD_FAST", "__resume_at_32_1", "resume"),
        emitted(18, "LOAD_FAST", "a", "resume"),
        emitted(20, "LOAD_FAST", "b", "resume"),
        emitted(22, "LOAD_FAST", "x", "resume"),
        emitted(24, "CALL", "3", "resume"),
        emitted(26, "RETURN_VALUE", "", "return"),
        emitted(28, "LOAD_FAST", "__resume_at_40_2", "resume", is_target=True),
        emitted(30, "LOAD_FAST", "a", "resume"),
        emitted(32, "LOAD_FAST", "b", "resume"),
        emitted(34, "LOAD_FAST", "x", "resume"),
        emitted(36, "CALL", "3", "resume"),
        emitted(38, "RETURN_VALUE", "", "return"),
    ),
)


def resume_code(id: int, target: int) -> ev.CodeView:
    """The code of a resume function: a jump, then the original body."""
    prefix = (
        emitted(0, "RESUME", "0", "resume"),
        emitted(2, "JUMP_FORWARD", f"to {4 + target}", "resume", target, target=4 + target),
    )
    body = tuple(
        replace(r, offset=4 + r.offset, target=r.target + 4 * (r.target >= 0), steps=(), role="original", origin=r.offset)
        for r in ORIGINAL.rows
    )
    return ev.CodeView(id, f"__resume_at_{target}_{id - 2}", "example.py", 9, RESUME_SOURCE, prefix + body, resumes=1)


def tensor(id: int, text: str, source: str = "", node: str = "") -> ev.ValueView:
    return ev.ValueView(id, "TensorVariable", text, source, node or source)


A = tensor(1, "float32[10] cpu", "a")
B = tensor(2, "float32[10] cpu", "b")
TORCH = ev.ValueView(3, "PythonModuleVariable", "torch", "torch")
ABS = ev.ValueView(4, "TorchVariable", "torch.abs", "torch.abs")
ABS_OUT = tensor(5, "float32[10] cpu", node="abs_1")
ONE = ev.ValueView(6, "ConstantVariable", "1")
ADD = tensor(7, "float32[10] cpu", node="add")
X = tensor(8, "float32[10] cpu", node="truediv")
SUM = tensor(9, "float32[] cpu", node="sum_1")
ZERO = ev.ValueView(10, "ConstantVariable", "0")
LT = tensor(11, "bool[] cpu", node="lt")
MINUS = ev.ValueView(12, "ConstantVariable", "-1")
MUL = tensor(13, "float32[10] cpu", node="mul")
MUL_1 = tensor(14, "float32[10] cpu", node="mul_1")


class Story:
    """Writes the events of one frame and attempt, so that a recording reads like the program."""

    def __init__(self, recording: Recording, frame: int, attempt: int, code: ev.CodeView, graph: str) -> None:
        self.recording, self.frame, self.attempt, self.code, self.graph = recording, frame, attempt, code, graph
        self.guard_count = 0

    def step(self, offset: int, *stack: ev.ValueView, **changed: ev.ValueView | None) -> None:
        row = next(row for row in self.code.rows if row.offset == offset)
        self.recording.record(
            ev.InstructionStepped(
                frame=self.frame,
                attempt=self.attempt,
                offset=offset,
                step=offset // 2,
                op=row.op,
                arg=row.arg,
                stack=stack,
                changed=tuple(changed.items()),
            )
        )

    def node(self, offset: int, op: str, name: str, target: str, args: str, *inputs: str, **more: str) -> None:
        row = next(row for row in self.code.rows if row.offset == offset)
        self.recording.record(
            ev.NodeAdded(
                frame=self.frame,
                attempt=self.attempt,
                offset=offset,
                graph=self.graph,
                op=op,
                name=name,
                target=target,
                args=args,
                kwargs="{}",
                inputs=inputs,
                device="cpu",
                file="example.py",
                line=row.line,
                **more,  # type: ignore[arg-type]
            )
        )

    def guard(self, offset: int, scope: str, source: str, kind: str, expected: str, expression: str) -> None:
        self.recording.record(
            ev.GuardInstalled(
                frame=self.frame,
                attempt=self.attempt,
                offset=offset,
                index=self.guard_count,
                scope=scope,
                source=source,
                kind=kind,
                expected=expected,
                expression=expression,
                reason="the value is used here",
            )
        )
        self.guard_count += 1

    def begin(self, stop_at: int = -1) -> None:
        self.recording.record(ev.AttemptStarted(frame=self.frame, attempt=self.attempt, stop_at=stop_at))


TENSOR = "torch.Tensor float32 cpu requires_grad=False size=[10] stride=[1]"


def first_attempt(story: Story) -> None:
    """toy from the top to the `if`."""
    f32 = {"dtype": "float32", "shape": "[10]"}
    story.step(0)
    story.node(2, "placeholder", "a", "a", "()", **f32)
    story.guard(2, "local", "a", "TENSOR_MATCH", TENSOR, "tensors.check(a, b)")
    story.step(2, A)
    story.guard(4, "global", "torch", "ID_MATCH", "<module 'torch'>", "G['torch'] is torch")
    story.step(4, A, TORCH)
    story.guard(6, "global", "torch.abs", "FUNCTION_MATCH", "torch.abs", "G['torch'].abs is torch_abs")
    story.step(6, A, ABS)
    story.step(8, A, ABS, A)
    story.node(10, "call_function", "abs_1", "torch.abs", "(a,)", "a", **f32)
    story.step(10, A, ABS_OUT)
    story.step(12, A, ABS_OUT, ONE)
    story.node(14, "call_function", "add", "operator.add", "(abs_1, 1)", "abs_1", **f32)
    story.step(14, A, ADD)
    story.node(16, "call_function", "truediv", "operator.truediv", "(a, add)", "a", "add", **f32)
    story.step(16, X)
    story.step(18, x=X)
    story.node(20, "placeholder", "b", "b", "()", **f32)
    story.guard(20, "local", "b", "TENSOR_MATCH", TENSOR, "tensors.check(a, b)")
    story.step(20, B)
    story.step(22, ev.ValueView(15, "MethodVariable", "Tensor.sum of b", "b.sum"))
    story.node(24, "call_method", "sum_1", "sum", "(b,)", "b", dtype="float32", shape="[]")
    story.step(24, SUM)
    story.step(26, SUM, ZERO)
    story.node(28, "call_function", "lt", "operator.lt", "(sum_1, 0)", "sum_1", dtype="bool", shape="[]")
    story.step(28, LT)


def user_frame() -> ev.UserFrame:
    return ev.UserFrame("example.py", 11, "toy", "    if b.sum() < 0:", 7, 18)


def toy() -> Recording:
    """The recording of `toy` on a call with a negative sum, then a hit, then a call with another dtype."""
    r = Recording(title="toy")
    frame = r.next_frame_id()
    arguments = (("a", A), ("b", B))
    r.record(ev.FrameEntered(frame=frame, parent=None, code=ORIGINAL, arguments=arguments))
    story = Story(r, frame, 1, ORIGINAL, "__compiled_fn_0")
    story.begin()
    first_attempt(story)
    found = GraphBreak("DX104")
    found.user_stack = (user_frame(),)
    locals_now = (("a", A), ("b", B), ("x", X))
    r.record(found.event(frame=frame, attempt=1, offset=30, stack=(LT,), live_locals=locals_now, operations=5))
    r.record(ev.AttemptRestarted(frame=frame, attempt=1, offset=30, reason="graph break DX104"))
    story = Story(r, frame, 2, ORIGINAL, "__compiled_fn_0")
    story.begin(stop_at=30)
    first_attempt(story)
    story.node(30, "output", "output", "output", "((truediv, lt),)", "truediv", "lt")
    r.record(
        ev.SubgraphCompiled(
            frame=frame,
            attempt=2,
            graph="__compiled_fn_0",
            backend="eager",
            node_count=8,
            op_count=5,
            inputs=("a", "b"),
            outputs=("truediv", "lt"),
            nodes=("a", "b", "abs_1", "add", "truediv", "sum_1", "lt", "output"),
            seconds=0.001,
        )
    )
    for id, target in ((3, 32), (4, 40)):
        r.record(
            ev.ResumeFunctionCreated(
                frame=frame,
                attempt=2,
                offset=target,
                name=f"__resume_at_{target}_{id - 2}",
                parameters=("a", "b", "x"),
                code=resume_code(id, target),
            )
        )
    r.record(
        ev.CodeEmitted(
            frame=frame,
            attempt=2,
            code=MODIFIED,
            graphs=("__compiled_fn_0",),
            resume_functions=("__resume_at_32_1", "__resume_at_40_2"),
        )
    )
    r.record(ev.CacheEntryAdded(frame=frame, attempt=2, entry=1, code=1, guard_count=4))
    r.record(ev.PhaseTimed(frame=frame, attempt=2, phase="translate", seconds=0.01))
    r.record(ev.FrameFinished(frame=frame, attempt=2, outcome="compiled", seconds=0.012))
    r.record(ev.GraphRan(frame=frame, graph="__compiled_fn_0", run=1, inputs=(A, B), outputs=(X, LT), seconds=1e-5))
    resumed(r, parent=frame)
    hit = r.next_frame_id()
    r.record(ev.CacheHit(frame=hit, entry=1, code=1, function="toy", compiled_by=frame))
    miss = r.next_frame_id()
    r.record(
        ev.GuardFailed(
            frame=miss,
            entry=1,
            index=0,
            scope="local",
            source="a",
            kind="TENSOR_MATCH",
            expected="dtype float32",
            actual="dtype float64",
        )
    )
    r.record(ev.Recompiled(frame=miss, reason="local 'a' TENSOR_MATCH: dtype float64, expected float32", entries=1))
    r.record(ev.FrameSkipped(frame=miss, function="toy", file="example.py", line=9, reason="recompile limit (1) reached"))
    return r


def resumed(r: Recording, parent: int) -> None:
    """The frame of the first resume function."""
    frame = r.next_frame_id()
    code = resume_code(3, 32)
    inputs = (tensor(1, "float32[10] cpu", "b"), tensor(2, "float32[10] cpu", "x"))
    r.record(ev.FrameEntered(frame=frame, parent=parent, code=code, arguments=(("b", inputs[0]), ("x", inputs[1]))))
    story = Story(r, frame, 1, ORIGINAL, "__compiled_fn_3")
    story.begin()
    f32 = {"dtype": "float32", "shape": "[10]"}
    story.node(32, "placeholder", "b", "b", "()", **f32)
    story.guard(32, "local", "b", "TENSOR_MATCH", TENSOR, "tensors.check(b, x)")
    story.step(32, inputs[0])
    story.step(34, inputs[0], MINUS)
    story.node(36, "call_function", "mul", "operator.mul", "(b, -1)", "b", **f32)
    story.step(36, MUL)
    story.step(38, b=MUL)
    story.node(40, "placeholder", "x", "x", "()", **f32)
    story.guard(40, "local", "x", "TENSOR_MATCH", TENSOR, "tensors.check(b, x)")
    story.step(40, inputs[1])
    story.step(42, inputs[1], MUL)
    story.node(44, "call_function", "mul_1", "operator.mul", "(x, mul)", "x", "mul", **f32)
    story.step(44, MUL_1)
    story.node(46, "output", "output", "output", "((mul_1,),)", "mul_1")
    story.step(46)
    r.record(
        ev.SubgraphCompiled(
            frame=frame,
            attempt=1,
            graph="__compiled_fn_3",
            backend="eager",
            node_count=5,
            op_count=2,
            inputs=("b", "x"),
            outputs=("mul_1",),
            seconds=0.001,
        )
    )
    modified = ev.CodeView(
        5,
        code.qualname,
        "example.py",
        9,
        SOURCE,
        (
            emitted(0, "RESUME", "0", "prologue"),
            emitted(2, "LOAD_FAST", "__compiled_fn_3", "call graph"),
            emitted(4, "LOAD_FAST", "b", "load input"),
            emitted(6, "LOAD_FAST", "x", "load input"),
            emitted(8, "CALL", "2", "call graph"),
            emitted(10, "UNPACK_SEQUENCE", "1", "return"),
            emitted(12, "RETURN_VALUE", "", "return", 46),
        ),
    )
    r.record(ev.CodeEmitted(frame=frame, attempt=1, code=modified, graphs=("__compiled_fn_3",)))
    r.record(ev.CacheEntryAdded(frame=frame, attempt=1, entry=2, code=3, guard_count=2))
    r.record(ev.FrameFinished(frame=frame, attempt=1, outcome="compiled", seconds=0.005))


INNER = ev.CodeView(
    7,
    "inner",
    "example.py",
    1,
    "def inner(y):\n    return y.relu()\n",
    (
        row(0, "RESUME", "0", 1, 0, 0),
        row(2, "LOAD_FAST", "y", 2, 11, 12),
        row(4, "LOAD_ATTR", "relu", 2, 11, 17),
        row(6, "CALL", "0", 2, 11, 19),
        row(8, "RETURN_VALUE", "", 2, 4, 19),
    ),
)

OUTER = ev.CodeView(
    6,
    "outer",
    "example.py",
    4,
    "def outer(x):\n    return inner(x)\n",
    (
        row(0, "RESUME", "0", 4, 0, 0),
        row(2, "LOAD_GLOBAL", "inner", 5, 11, 16),
        row(4, "LOAD_FAST", "x", 5, 17, 18),
        row(6, "CALL", "1", 5, 11, 19),
        row(8, "RETURN_VALUE", "", 5, 4, 19),
    ),
)


def inlined() -> Recording:
    """outer calls inner, which is traced through; nothing breaks; the graph is one relu in a module."""
    r = Recording(title="outer")
    frame = r.next_frame_id()
    x = tensor(1, "float32[4] cpu", "x")
    inner = ev.ValueView(2, "UserFunctionVariable", "inner", "inner")
    relu = tensor(3, "float32[4] cpu", node="relu")
    r.record(ev.FrameEntered(frame=frame, parent=None, code=OUTER, arguments=(("x", x),)))
    story = Story(r, frame, 1, OUTER, "__compiled_fn_0")
    story.begin()
    story.step(0)
    story.guard(2, "global", "inner", "FUNCTION_MATCH", "inner", "G['inner'].__code__ is code")
    story.step(2, inner)
    story.node(4, "placeholder", "x", "x", "()", dtype="float32", shape="[4]")
    story.guard(4, "local", "x", "TENSOR_MATCH", TENSOR, "tensors.check(x)")
    story.step(4, inner, x)
    at = {"frame": frame, "attempt": 1}
    r.record(ev.InlineEntered(**at, offset=6, callee=1, code=INNER, arguments=(("y", x),), depth=1))
    stack: tuple[ev.ValueView, ...] = (x,)
    r.record(ev.InstructionStepped(**at, offset=2, inline=1, step=1, op="LOAD_FAST", arg="y", stack=stack, depth=1))
    method = ev.ValueView(4, "MethodVariable", "Tensor.relu of x", "x.relu")
    r.record(ev.InstructionStepped(**at, offset=4, inline=1, step=2, op="LOAD_ATTR", arg="relu", stack=(method,), depth=1))
    r.record(
        ev.NodeAdded(
            **at,
            offset=6,
            inline=1,
            graph="__compiled_fn_0",
            op="call_method",
            name="relu",
            target="relu",
            args="(x,)",
            kwargs="{}",
            inputs=("x",),
            dtype="float32",
            shape="[4]",
            device="cpu",
            module="layers.0",
            file="example.py",
            line=2,
        )
    )
    r.record(ev.InstructionStepped(**at, offset=6, inline=1, step=3, op="CALL", arg="0", stack=(relu,), depth=1))
    r.record(ev.InstructionStepped(**at, offset=8, inline=1, step=4, op="RETURN_VALUE", stack=(), depth=1))
    r.record(ev.InlineLeft(**at, offset=6, callee=1, result=relu))
    story.step(6, relu)
    story.node(8, "output", "output", "output", "((relu,),)", "relu")
    story.step(8)
    r.record(
        ev.SubgraphCompiled(**at, graph="__compiled_fn_0", backend="eager", node_count=3, op_count=1, inputs=("x",))
    )
    rows = (
        emitted(0, "RESUME", "0", "prologue"),
        emitted(2, "LOAD_FAST", "__compiled_fn_0", "call graph"),
        emitted(4, "LOAD_FAST", "x", "load input"),
        emitted(6, "CALL", "1", "call graph"),
        emitted(8, "RETURN_VALUE", "", "return", 8),
    )
    modified = ev.CodeView(8, "outer", "example.py", 4, OUTER.source, rows)
    r.record(ev.CodeEmitted(**at, code=modified, graphs=("__compiled_fn_0",)))
    r.record(ev.CacheEntryAdded(**at, entry=1, code=6, guard_count=2))
    r.record(ev.FrameFinished(**at, outcome="compiled"))
    return r


def items_of(recording: Recording) -> list[str]:
    """Every item that a pane shows: nodes, guards, breaks, resume functions, modified instructions, steps, slots."""
    items = [links.node_key(graph.frame, node.name) for graph in recording.graphs for node in graph.nodes]
    items += [links.guard_key(guard.frame, guard.index) for guard in recording.guards]
    for position, event in enumerate(recording):
        if isinstance(event, ev.GraphBroke):
            items.append(links.break_key(position))
        elif isinstance(event, ev.InstructionStepped):
            items.append(links.step_key(position))
            items += [links.value_key(event.frame, event.attempt, view.id) for view in event.stack if view.kind != "NULL"]
        elif isinstance(event, ev.ResumeFunctionCreated):
            items.append(links.resume_key(event.frame, event.name))
    for entered in recording.frames:
        code = recording.modified_code(entered.frame)
        if code is not None:
            items += [links.modified_key(entered.frame, row.offset) for row in code.rows]
    return items


SAMPLES = {"toy": toy, "inlined": inlined}
"""Every hand-written recording by name."""


def watched(recording: Recording) -> Recording:
    """The recording as it would be if torch.compile had captured it: no steps, roles, rules and stacks; lines, but no offsets."""
    kept = Recording(title=recording.title, engine="torch.compile")
    left_out = (ev.InstructionStepped, ev.InlineEntered, ev.InlineLeft, ev.MutationRecorded, ev.ContentsSeen, ev.ValueObserved)
    codes: dict[ev.CodeView, ev.CodeView] = {}
    for event in recording:
        if isinstance(event, left_out):
            continue
        told: dict[str, Any] = {field.name: getattr(event, field.name) for field in fields(event)}
        if isinstance(told.get("code"), ev.CodeView):
            code = told["code"]
            rows = tuple(replace(row, steps=(), role="", origin=-1) for row in code.rows)
            told["code"] = codes.setdefault(code, replace(code, rows=rows))
        if isinstance(event, ev.NodeAdded) and (at := recording.code_of(event)) is not None:
            line = next((row.line for row in at.rows if row.offset == event.offset), event.line)
            told |= {"file": at.file, "line": line}
        if isinstance(event, ev.InstructionEvent) and not isinstance(event, ev.ResumeFunctionCreated):
            told |= {"offset": -1, "inline": 0}
        kept.record(type(event)(**{**told, **{name: () for name in ("stack", "live_locals") if name in told}}))
    return kept


def look_at(recording: Recording) -> None:
    """Every view of a recording."""
    for view in (text.report, text.summary, text.explanation, text.frames, text.calls, text.artifacts, cache_timeline.text):
        assert isinstance(view(recording), str)
    for frame in {entered.frame for entered in recording.of(ev.FrameEntered)}:
        text.steps(recording, frame), text.debug_printout(recording, frame), text.guard_anatomy(recording, frame)
    assert html_text.page(recording).lstrip().lower().startswith("<!doctype html")
    json.dumps(explorer_data.explorer_data(recording))
    real_run.report(recording)
    assert Recording.from_json(recording.to_json()) == recording
    recording.to_json(redact=True)
