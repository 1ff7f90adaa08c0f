"""Every private name of torch that a watch uses, with its purpose: the only file that depends on torch._dynamo's internals.

The idea: torch.compile exposes little through public APIs, and its internal names come and go. So one table lists each name, with
what is lost without it; their existence is checked once, when a watch begins, and missing ones are reported in one sentence while
the rest continues. A function is observed by replacing it with a wrapper that calls it, and is restored afterwards. torch's objects
are only read in ways without side effects: reading any attribute of a lazy tracker realizes it and installs guards, so it is read
only through `type()`, its `__dict__` and `peek_value`, and other trackers through their `__dict__`.

In: objects of torch._dynamo.
Out: `TABLE`, `missing()`, `Replacements`; readers of trackers, nodes, guards, resume functions and compilation results.

PyTorch's counterpart: none; it reads the internals of torch/_dynamo/convert_frame.py, symbolic_convert.py, output_graph.py,
guards.py, resume_execution.py, variables/lazy.py, and torch/_guards.py.
"""

from __future__ import annotations

import importlib
import itertools
import json
import linecache
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from dynexplore.engine import events as ev
from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.graph.qualified_names import target_text
from dynexplore.engine.translate.event_emitter import tensor_words
from dynexplore.recording.job import Collective
from dynexplore.traces.torch_words import PLAIN_TYPES, parameter_name, plain_function, plain_source
from dynexplore.watching.safe_reads import ABSENT


@dataclass(frozen=True, slots=True)
class PrivateName:
    """One name: where it is (module, path in it), and what a watch uses it for."""

    module: str
    path: str
    gives: str

    @property
    def full(self) -> str:
        """The fully qualified name."""
        return f"{self.module}.{self.path}"

    def holder(self) -> tuple[Any, str]:
        """The module or class that has it, and the last part of the name. Raises AttributeError or ImportError if it does not
        exist.
        """
        owner: Any = importlib.import_module(self.module)
        *path, last = self.path.split(".")
        for part in path:
            owner = getattr(owner, part)
        getattr(owner, last)
        return owner, last


COMPILE = PrivateName("torch._dynamo.convert_frame", "_compile", "frames, modified bytecode and cache entries")
TENSORS = PrivateName("torch._dynamo.convert_frame", "has_tensor_in_frame", "how many frames have no tensor")
ATTEMPT = PrivateName("torch._dynamo.convert_frame", "trace_frame", "attempts")
REASONS = PrivateName("torch._dynamo.convert_frame", "get_and_maybe_log_recompilation_reasons", "recompile reasons")
SUBGRAPH = PrivateName("torch._dynamo.output_graph", "OutputGraph.compile_subgraph", "graph breaks")
BREAK = PrivateName("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.log_graph_break", "the causes of graph breaks")
BACKEND = PrivateName("torch._dynamo.output_graph", "OutputGraph.call_user_compiler", "graphs")
GUARDS = PrivateName("torch._dynamo.guards", "CheckFunctionManager.__init__", "guards")
STEP = PrivateName("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.step", "symbolic steps")
NODE = PrivateName("torch._dynamo.output_graph", "SubgraphTracer.create_node", "which instruction made a node")
RESUME = PrivateName(
    "torch._dynamo.resume_execution", "ContinueExecutionCache.generated_code_metadata", "what a resume function continues"
)
INSTRUCTIONS = PrivateName(
    "torch._dynamo.bytecode_transformation", "cleaned_instructions", "offsets of resume functions in the original"
)

ENTRIES = PrivateName("torch._dynamo.eval_frame", "_debug_get_cache_entry_list", "the entries of a function, and their guards")

TABLE = (COMPILE, TENSORS, ATTEMPT, REASONS, SUBGRAPH, BREAK, BACKEND, GUARDS, STEP, NODE, RESUME, INSTRUCTIONS, ENTRIES)
"""All names. Each but the first is optional: without it, the feature that uses it is left out."""


def missing() -> list[PrivateName]:
    """The self-check: the names that this torch does not have."""
    absent = []
    for name in TABLE:
        try:
            name.holder()
        except (AttributeError, ImportError):
            absent.append(name)
    return absent


TRACE_LOG = "torch.__trace"
"""The logger of torch's structured trace."""

CUDA_GRAPH_LOGS = tuple(
    f"torch._inductor.{module}.__cudagraphs" for module in ("compile_fx", "cudagraph_trees", "cudagraph_utils")
)
"""The loggers that say what became of CUDA graphs."""


def compilation_of(output: Any) -> str:
    """The compile id of an output graph, as torch's logs have it; "" if there is none."""
    return str(getattr(output, "dynamo_compile_id", None) or "")


INTERNED = PrivateName("torch._logging.structured", "INTERN_TABLE", "the strings of torch's log")


def interned() -> dict[str, int]:
    """The strings that torch has interned in its log, each with its number; an empty table if there is none."""
    try:
        owner, last = INTERNED.holder()
    except (AttributeError, ImportError):
        return {}
    table: dict[str, int] = getattr(owner, last)
    return table


class Replacements:
    """Replaces functions of torch: `put` for each, `take_back` for all."""

    def __init__(self) -> None:
        self._put: list[tuple[Any, str, Any, Any]] = []

    def put(self, name: PrivateName, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace a function by `make(original)`."""
        owner, last = name.holder()
        original = getattr(owner, last)
        replacement = make(original)
        setattr(owner, last, replacement)
        self._put.append((owner, last, original, replacement))

    def take_back(self) -> None:
        """Restore the originals, the latest first. Functions that another party has replaced since are left alone."""
        for owner, last, original, replacement in reversed(self._put):
            if vars(owner).get(last) is replacement:
                setattr(owner, last, original)
        self._put.clear()


# -- trackers ----------------------------------------------------------------------------------------------------------

_OWN = object()
_CONTAINERS = (list, dict)
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def translators_at_work(translator: Any) -> list[Any]:
    """The translators that are active while this one interprets, outermost first: itself, and those that its current instruction
    called.
    """
    inside: list[Any] = translator.output._current_tx
    return inside if inside and inside[-1] is translator else [*inside, translator]


def translator_at_work(output: Any) -> Any:
    """The innermost of them; None before the first has begun."""
    return output._current_tx[-1] if output._current_tx else None


def is_null(tracker: Any) -> bool:
    """Whether this is the NULL of a call."""
    return type(tracker).__name__ == "NullVariable"


Fields = dict[str, Any]


def fields_of(tracker: Any) -> Fields:
    """The fields of a tracker, always the same dict; does not realize a lazy tracker."""
    fields: Fields = object.__getattribute__(tracker, "__dict__")
    return fields


def changing(fields: Fields) -> int | None:
    """A number that changes whenever `tracker_words` of this tracker may change: how many others it holds, -1 while it is lazy.
    None: it never changes.
    """
    items = fields.get("items")
    if isinstance(items, _CONTAINERS):
        return len(items)
    lazy = fields.get("_cache")
    if lazy is None:
        return None
    return -1 if lazy.vt is None else changing(fields_of(lazy.vt))


def tracker_words(tracker: Any, fields: Fields) -> tuple[str, str, str, torch.fx.Node | None]:
    """The facts of a tracker: its class name, its value in words, torch's name of its source, and the node that holds it."""
    lazy = fields.get("_cache")
    if lazy is not None:
        if lazy.vt is not None:
            return tracker_words(lazy.vt, fields_of(lazy.vt))
        return type(tracker).__name__, _lazy_text(tracker), _source_name(fields.get("source")), None
    kind, source = type(tracker).__name__, fields.get("source")
    name = "" if source is None else _source_name(source)
    proxy = fields.get("proxy")
    node = getattr(proxy, "node", None) if isinstance(proxy, torch.fx.Proxy) else None
    if node is not None:
        return kind, value_text(node.meta.get("example_value")) or kind, name, node
    return kind, _content_text(kind, fields), name, None


def _lazy_text(tracker: Any) -> str:
    value = tracker.peek_value()
    shown = ev.safe_repr(value, 80) if type(value) in PLAIN_TYPES else type(value).__name__
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        shown = value_text(value)
    return f"{shown} (not yet accessed)"


def _content_text(kind: str, fields: dict[str, Any]) -> str:
    items = fields.get("items")
    if isinstance(items, _CONTAINERS):
        return f"{len(items)} item{'' if len(items) == 1 else 's'}"
    value = fields.get("value", _OWN)
    if value is _OWN:
        value = fields.get("fn", _OWN)
        if value is _OWN:
            return kind
    if type(value) in PLAIN_TYPES:
        return ev.safe_repr(value)
    if issubclass(type(value), _NAMED):
        return ev.clip(str(value.__name__))
    return type(value).__name__  # `isinstance` and `repr` would run user code


def value_text(value: Any) -> str:
    """A symbolic value as text: a tensor's dtype, shape and device; a number's expression; "" if nothing is known."""
    dtype, shape, device = tensor_words(value)
    if dtype:
        return f"{dtype}{shape} {device}"
    if value is None:
        return ""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return str(value)
    return ev.safe_repr(value, 80) if type(value) in PLAIN_TYPES else type(value).__name__


def argument_view(value: Any, number: int, name: str) -> ev.ValueView:
    """An argument of a call: a tensor's dtype, shape and device; a plain value; otherwise its type, because `repr` runs user
    code.
    """
    kind = type(value)
    shown = f"{len(value)} item{'' if len(value) == 1 else 's'}" if kind in (list, tuple, dict, set) else value_text(value)
    return ev.ValueView(number, kind.__qualname__, shown or repr(value), name)


def _source_name(source: Any) -> str:
    """torch's name of a source: `L['x']` for the local `x`, `G['f']` for the global `f`; `plain_source` converts it to Python
    syntax.

    "" for sources without a name in torch: a closure cell, an object that torch created.
    """
    if source is None:
        return ""
    try:
        name = getattr(source, "name", "")
        return str(name()) if callable(name) else str(name)
    except NotImplementedError:
        return ""


# -- instructions ------------------------------------------------------------------------------------------------------


Written = tuple[str, str]
"""An instruction as torch has it: its name, and its operand as text."""


def written(instruction: Any) -> Written:
    """One of torch's instructions as text."""
    return instruction.opname, _operand(instruction)


def written_in(code: types.CodeType) -> dict[int, Written]:
    """All instructions that torch generates for a code object, by torch's offsets."""
    return {instruction.offset: written(instruction) for instruction in _instructions(code)}


def _operand(instruction: Any) -> str:
    """The operand as `dis` shows it."""
    if instruction.target is not None:
        offset = instruction.target.offset
        return f"to {offset}" if offset is not None else "to an instruction that torch put in"
    if isinstance(instruction.argval, str) and instruction.opname != "LOAD_CONST":
        return instruction.argval
    return "" if instruction.arg is None and instruction.argval is None else ev.safe_repr(instruction.argval, 80)


def original_of(code: types.CodeType) -> types.CodeType | None:
    """The function that a resume function continues; None for any other code."""
    owner, last = RESUME.holder()
    meta = getattr(owner, last).get(code)
    return None if meta is None else meta.code


def own_rows(code: types.CodeType, rows: Sequence[ev.ListingRow]) -> dict[int, ev.ListingRow]:
    """Offset of an instruction of torch -> the row of the code object that it corresponds to.

    torch rewrites some instructions before it interprets them, and renumbers the offsets. Empty if they cannot be aligned.
    """
    rows = [row for row in rows if row.op not in _WITHOUT_MEANING]
    shown: dict[int, ev.ListingRow] = {}
    at = remaining = 0
    for instruction in _instructions(code):
        row = rows[min(at, len(rows) - 1)]
        if remaining:
            remaining -= 1
        elif _family(instruction.opname) == _family(row.op):
            pass
        elif row.op in _TAKEN_APART or "_NONE" in row.op:
            remaining = _TAKEN_APART.get(row.op, 3) - 1
        else:  # inserted after the previous one
            shown[instruction.offset] = rows[max(at - 1, 0)]
            continue
        shown[instruction.offset] = row
        at += not remaining
    return shown if at == len(rows) else {}


def rows_of_original(
    rows: Sequence[ev.ListingRow], original: types.CodeType, original_rows: Sequence[ev.ListingRow]
) -> dict[int, ev.ListingRow]:
    """Offset in a resume function -> the row of the code that it continues, for the instructions that match, from the end
    backwards.

    A resume function is a prefix, then the instructions of the original as torch has them: these are aligned with its end.
    """
    own = own_rows(original, original_rows)
    meaningful = [row for row in rows if row.op not in _WITHOUT_MEANING]
    shown: dict[int, ev.ListingRow] = {}
    for row, instruction in zip(reversed(meaningful), reversed(_instructions(original)), strict=False):
        if _family(row.op) != _family(instruction.opname):
            break
        if instruction.offset in own:
            shown[row.offset] = own[instruction.offset]
    return shown


def _instructions(code: types.CodeType) -> list[Any]:
    owner, last = INSTRUCTIONS.holder()
    return [instruction for instruction in getattr(owner, last)(code) if instruction.opname not in _WITHOUT_MEANING]


_TAKEN_APART = {
    "BINARY_SLICE": 2, "STORE_SLICE": 2, "LOAD_FAST_LOAD_FAST": 2, "STORE_FAST_LOAD_FAST": 2, "STORE_FAST_STORE_FAST": 2,
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": 2,
}  # fmt: skip
"""Instruction -> the number of instructions that torch rewrites it to; a jump that compares with None becomes three."""

_WITHOUT_MEANING = ("CACHE", "EXTENDED_ARG")
_DIRECTION = re.compile(r"_(FORWARD|BACKWARD|ABSOLUTE)(?=_|$)|_NO_INTERRUPT")


def _family(opname: str) -> str:
    """A class of equivalent jumps: a jump may change its direction when code is reassembled."""
    return _DIRECTION.sub("", opname)


# -- cache entries -----------------------------------------------------------------------------------------------------


def entries_in(entries: Any) -> list[Any]:
    """Cache entries as a list: torch 2.11 returns the head of a linked list."""
    if isinstance(entries, list | tuple):
        return list(entries)
    chain = []
    while entries is not None:
        chain.append(entries)
        entries = entries.next
    return chain


def entries_of(code: types.CodeType, region: int = -1) -> list[Any]:
    """The cache entries of a code object, in the order in which torch tries them; with `region`, those of an isolated region."""
    owner, last = ENTRIES.holder()
    of_region = getattr(owner, "_get_cache_entries_for_region", None) if region >= 0 else None
    return entries_in(getattr(owner, last)(code) if of_region is None else of_region(code, region))


def region_of(compiled: Any) -> int:
    """The region number of a torch.compile result with `isolate_recompiles`; -1 for the shared region of all others."""
    context = getattr(compiled, "__dict__", {}).get("dynamo_ctx", compiled)
    region = getattr(context, "_isolate_recompiles_id", -1)
    return region if isinstance(region, int) else -1


def check_guards(entry: Any, locals_: Mapping[str, Any]) -> tuple[bool, list[str]]:
    """Whether the guards of an entry pass for these locals, and the failing checks, as printed by torch."""
    manager = getattr(entry, "guard_manager", None) or entry.check_fn.guard_manager
    answer = manager.check_verbose(dict(locals_))
    return bool(answer.result), [str(part) for part in answer.verbose_code_parts]


def guard_scope(manager: Any) -> dict[str, Any]:
    """The names that sources of guards are evaluated with, other than the locals; empty in a torch that does not keep them."""
    wrapper = manager.guard_manager
    helpers, scope = getattr(wrapper, "closure_vars", None), getattr(wrapper, "global_scope", None)
    return {**helpers, **scope} if isinstance(helpers, dict) and isinstance(scope, dict) else {}


def compares_several_values(guard: Any) -> bool:
    """Whether a guard is on several sources, such as one on aliasing: it keeps the values that it was called with."""
    return any(base.__name__ == "RelationalGuard" for base in type(guard).__mro__)


# -- graphs ------------------------------------------------------------------------------------------------------------


class NodeFacts(NamedTuple):
    """The facts of a node, as in `NodeAdded`: read while torch still has its values, formatted later."""

    op: str
    target: str
    args: Any  # as text, or the copied arguments, which are shorter to read than to format
    kwargs: Any
    inputs: tuple[str, ...]
    tensor: tuple[str, str, str]
    stack: str
    held_by: str

    @property
    def place(self) -> tuple[str, int]:
        """File and line of the user's program."""
        places = _FRAME.findall(self.stack)
        return (shown_file(places[-1][0]), int(places[-1][1])) if places else ("", 0)

    @property
    def module(self) -> str:
        """`layers.0.attn` from `L['self']._modules['layers']._modules['0'].attn`."""
        return plain_source(self.held_by).replace("[", ".").replace("]", "").partition(".")[2]


def node_facts(node: torch.fx.Node, arguments: tuple[Any, Any] | None) -> NodeFacts:
    """The facts of a node, without references to torch; `arguments` are its copied ones, if they could be copied."""
    op, meta = node.op, node.meta
    held_by = meta.get("nn_module_stack")
    args, kwargs = arguments or (ev.clip(str(node.args)), ev.clip(str(node.kwargs)) if node.kwargs else "{}")
    return NodeFacts(
        op,
        (_input_source(node) if op == "placeholder" else "") or target_text(node),
        args,
        kwargs,
        tuple([entry.name for entry in node.all_input_nodes]),
        tensor_words(meta.get("example_value")),
        meta.get("stack_trace") or node.stack_trace or "",
        str(next(reversed(held_by.values()))[0]) if held_by else "",
    )


def _input_source(node: torch.fx.Node) -> str:
    source = getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)
    return plain_source(_source_name(source))


_FRAME = re.compile(r'File "(.*?)", line (\d+), in ')


def pieces_of(compiler: Any, graph: Any, source_of: Callable[[str], str]) -> tuple[ev.GraphPiece, ...]:
    """The subgraphs that DDPOptimizer split this graph into, in forward order; () if it is not split, or another compiler is used.

    Its buckets are in forward order; gradients become ready in reverse order, so the last bucket is sent first. It identifies
    parameters by graph inputs: `source_of` maps these to users' names.
    """
    buckets = getattr(getattr(compiler, "__self__", None), "buckets", None) or ()
    if len(buckets) < 2:
        return ()
    inputs = {str(node.target): node.name for node in graph.graph.nodes if node.op == "placeholder"}
    return tuple(
        ev.GraphPiece(
            number=number,
            nodes=tuple(node.name for node in reversed(bucket.nodes)),
            buckets=(len(buckets) - number,),
            parameters=tuple(parameter_name(source_of(inputs[name])) for name in inputs if name in bucket.params),
            parameter_bytes=int(bucket.size),
        )
        for number, bucket in enumerate(buckets, 1)
    )


# -- guards ------------------------------------------------------------------------------------------------------------


def guards_context(output: Any) -> Any:
    """The object that holds the guards requested during tracing: torch may replace the set that it contains."""
    return output.tracing_context.guards_context


def guard_count(context: Any) -> int:
    """The number of guards requested so far."""
    return len(context.dynamo_guards.inner)


def guards_from(context: Any, position: int) -> list[Any]:
    """The guards from a position on, in the order in which torch requested them."""
    guards = context.dynamo_guards.inner
    return list(itertools.islice(reversed(guards), len(guards) - position))[::-1]


class GuardFacts(NamedTuple):
    """The facts of a guard, as in `GuardInstalled`, formatted later: `name` is torch's name of its source, `checks` are the Python
    expressions that it was compiled to, `user_line` is the program's line when it was requested.
    """

    name: str
    kind: str
    checks: tuple[str, ...]
    user_line: int

    @property
    def source(self) -> str:
        """The source in Python syntax."""
        return plain_source(self.name)

    @property
    def scope(self) -> str:
        """Whether the source starts at a local or a global."""
        return _SCOPES.get(self.name[:2], "")

    @property
    def expression(self) -> str:
        """The checks in Python syntax."""
        return " and ".join(map(plain_source, dict.fromkeys(self.checks)))


_SCOPES = {"L[": "local", "G[": "global"}


def guard_facts(guard: Any) -> GuardFacts:
    """The facts of a guard, without references to torch."""
    name, stack = guard.name, guard.user_stack
    return GuardFacts(
        str(name() if callable(name) else name), guard.inner_create_fn().__name__, tuple(map(str, guard.code_list or ())),
        (stack[-1].lineno or 0) if stack else 0,
    )  # fmt: skip


# -- collectives -------------------------------------------------------------------------------------------------------

FLIGHT_RECORDER = PrivateName("torch._C._distributed_c10d", "_dump_fr_trace_json", "the collectives that a process began")


def collectives() -> list[Collective]:
    """The collectives in torch's flight recorder, oldest first; empty if it is disabled or missing. Sends are not collectives."""
    try:
        owner, last = FLIGHT_RECORDER.holder()
        entries = json.loads(getattr(owner, last)())["entries"]
        return [_collective(entry) for entry in entries if not entry["is_p2p"]]
    except (*ABSENT, OSError):
        return []


def _collective(entry: Mapping[str, Any]) -> Collective:
    name, description = entry["process_group"]
    group = description if description == "default_pg" else str(name)
    operation = str(entry["profiling_name"]).rpartition(":")[2]
    sizes = ", ".join(
        f"{dtype.lower()}{size}" for dtype, size in zip(entry["input_dtypes"], entry["input_sizes"], strict=False)
    )
    return Collective(group, int(entry["collective_seq_id"]), operation, ev.clip(sizes), int(entry["time_created_ns"]))


# -- places in the user's program --------------------------------------------------------------------------------------

def user_frames(stack: Iterable[Any]) -> tuple[ev.UserFrame, ...]:
    """A stack of `traceback.FrameSummary` as records, outermost first."""
    return tuple(
        ev.UserFrame(
            shown_file(frame.filename), frame.lineno or 0, plain_function(frame.name),
            linecache.getline(frame.filename, frame.lineno or 0).rstrip("\n"),
        )
        for frame in stack
    )  # fmt: skip


# -- calls -------------------------------------------------------------------------------------------------------------


def compiled_module() -> Any:
    """The class of a module passed to torch.compile."""
    return importlib.import_module("torch._dynamo.eval_frame").OptimizedModule
