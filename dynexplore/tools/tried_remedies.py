"""`dynexplore try SCRIPT`: apply each remedy to a copy of the program, run its calls again, and compare.

The idea: whether a remedy helps is only known after trying it; the obvious one may even raise. So the program runs once unmodified,
and once for each remedy of the most expensive problems, all in a scratch folder, on copies of its files: none of the user's files
is written. A remedy helps if there are fewer recompiles and graph breaks and the results are the same.

In: a script, the limits on compiled calls and seconds of a run. Out: `Trial`: the first run, and an `ev.RemedyTried` for each.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import ast
import builtins
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.tools.scratch_runs import CannotTry, Run, ScratchRuns, same_values
from dynexplore.views.counts import plural
from dynexplore.views.ranked_costs import Cost, costs_of, remedies_of
from dynexplore.views.remedies import NO_CALL, NO_PLACE, Remedy, limit_remedy, verdict

MOST_REMEDIES = 8
"""The maximum number of remedies tried: each is a run of the program."""


@dataclass
class Trial:
    """The unmodified program, and the effect of each remedy, with the costs that it addresses."""

    script: str
    before: Run
    costs: list[Cost]
    tried: list[tuple[Cost | None, Remedy, ev.RemedyTried]] = field(default_factory=list)

    def __str__(self) -> str:
        graphs, breaks, recompiles = self.before.counts
        counts = f"{plural(graphs, 'graph')}, {plural(breaks, 'graph break')}, {plural(recompiles, 'recompile')}"
        if not (self.before.is_compiled or self.before.error):
            return never_compiled(self.script, "try")
        lines = [f"{self.script}: {counts} in {self.before.calls}."]
        lines += [f"It raised {self.before.error}"] if self.before.error else []
        if not self.tried and not self.before.error:
            elsewhere = f"There is no known remedy for them. `dynexplore fix {self.script}` searches for a code change."
            nothing = elsewhere if self.costs else "Nothing to try: no recompiles, no graph breaks."
            lines.append(nothing)
        for number, (cost, remedy, event) in enumerate(self.tried, 1):
            lines += ["", *_lines_of(number, cost, remedy, event)]
        return "\n".join(lines)


def never_compiled(script: str, verb: str) -> str:
    """What the tools say of a script without compiled calls."""
    return f"{script} called nothing that torch.compile compiles, so there is nothing to {verb}."


def _lines_of(number: int, cost: Cost | None, remedy: Remedy, tried: ev.RemedyTried) -> list[str]:
    about = _problem(cost, remedy) if cost is not None else "the recompile limit was reached"
    answer = "Not tried: only you can apply it." if remedy.how == "by hand" else verdict(tried)
    where = f"{remedy.where[0].upper()}{remedy.where[1:]}; costs: {remedy.costs}."
    wrapped = [ev.wrapped(text, 3) for text in (f"{number}. {about}", f"   {where}", f"   {answer}")]
    return [wrapped[0], f"     {remedy.text}", *wrapped[1:]]


def _problem(cost: Cost, remedy: Remedy) -> str:
    """The kind and place of a cost, and its cause: of several values that changed, the one that the remedy is about."""
    of = "at" if cost.kind == "graph break" else "of"
    changes = [str(reason.change) for reason in cost.all_reasons if reason.source == remedy.source]
    return f"{cost.kind} {of} {cost.place}: {changes[0] if changes else cost.cause}"


def try_remedies(
    script: Path, args: Sequence[str] = (), *, calls: int = 20, seconds: float = 120.0, most: int = MOST_REMEDIES
) -> Trial:
    """Run a script unmodified, then once for each remedy. Raises CannotTry if it cannot be run."""
    if not script.is_file():
        raise CannotTry(f"there is no script {script}")
    source = script.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="dynexplore_try_") as scratch:
        runs = ScratchRuns(script, Path(scratch), tuple(args), calls, seconds)
        before = runs.run({})
        costs = costs_of(before.recording)
        trial = Trial(script.name, before, costs)
        for cost, remedy in _to_try(before.recording, costs, source)[:most]:
            trial.tried.append((cost, remedy, _tried(runs, before, cost, remedy, source)))
        for _, _, event in trial.tried:
            before.recording.record(event)
    return trial


def _to_try(recording: Recording, costs: Sequence[Cost], source: str) -> list[tuple[Cost | None, Remedy]]:
    """The remedies of all costs, the most expensive first, without duplicates."""
    pairs: list[tuple[Cost | None, Remedy]] = [(cost, remedy) for cost in costs for remedy in remedies_of(cost, source)]
    for reached in recording.of(ev.CacheLimitReached)[:1]:
        remedy = limit_remedy(reached.limit, 0, source)
        pairs += [(None, remedy)] if remedy is not None else []
    texts: dict[str, tuple[Cost | None, Remedy]] = {}
    for cost, remedy in pairs:
        texts.setdefault(remedy.text, (cost, remedy))
    return sorted(texts.values(), key=lambda pair: pair[1].how == "by hand")


def _tried(runs: ScratchRuns, before: Run, cost: Cost | None, remedy: Remedy, source: str) -> ev.RemedyTried:
    place = cost.place if cost is not None else ""
    words = {"frame": 0, "row": remedy.row, "text": remedy.text, "place": place, "before": before.counts}
    if remedy.how == "by hand":
        return ev.RemedyTried(**words)  # type: ignore[arg-type]
    changed, environment = applied(remedy, cost, source, runs.script.name)
    if changed == source and not environment:
        error = NO_CALL if remedy.how == "option" else NO_PLACE
        return ev.RemedyTried(**words, error=error)  # type: ignore[arg-type]
    after = runs.run({runs.script.name: changed}, environment)
    same = same_values(before, after)
    fewer = sum(after.counts[1:]) < sum(before.counts[1:])
    helped = fewer and not after.error and same is not False
    return ev.RemedyTried(**words, after=after.counts, same_values=same, error=after.error, helped=helped)  # type: ignore[arg-type]


# -- apply a remedy to source text ---------------------------------------------------------------------------------------


def applied(remedy: Remedy, cost: Cost | None, source: str, script: str) -> tuple[str, dict[str, str]]:
    """The text of the script with a remedy applied, and environment variables; the unchanged text if it is not applicable.

    >>> applied(Remedy("r", "dynamic=True", "option", ""), None, "f = torch.compile(g)", "s.py")
    ('f = torch.compile(g, dynamic=True)', {})
    >>> applied(Remedy("r", "dynamic=True", "option", ""), None, "f = torch.compile(g, dynamic=False)", "s.py")
    ('f = torch.compile(g, dynamic=True)', {})
    """
    if remedy.how == "environment":
        name, _, value = remedy.text.partition("=")
        return source, {name: value.strip('"')}
    tree = ast.parse(source)
    if remedy.how == "top":
        return _with_line(source, _first_line(tree), f"import torch._dynamo; {remedy.text}"), {}
    if remedy.how == "option":
        return _with_option(source, tree, remedy.text), {}
    places = [caller.rpartition(":") for caller in (cost.callers if cost is not None else {})]
    lines = sorted({int(line) for file, _, line in places if file == script}, reverse=True)
    for line in lines:
        source = _before_call(source, line, remedy, cost)
    return source, {}


def _first_line(tree: ast.Module) -> int:
    """The line after the docstring and the imports from __future__."""
    line = 1
    for statement in tree.body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_text and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            return line
        line = (statement.end_lineno or statement.lineno) + 1
    return line


def _calls_of_program(tree: ast.Module, statement: ast.stmt, name: str) -> list[ast.Call]:
    """The calls in a statement that may be of the compiled function: by its name; if none, by other names of the program."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    foreign = {*dir(builtins), *((alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names)}
    calls = [(call, ast.unparse(call.func)) for call in ast.walk(statement) if isinstance(call, ast.Call)]
    by_name = [call for call, path in calls if path.rpartition(".")[2] == name]
    return by_name or [call for call, path in calls if path.partition(".")[0] not in foreign]


def _with_line(source: str, line: int, text: str, column: int = 0) -> str:
    lines = source.splitlines(keepends=True)
    return "".join([*lines[: line - 1], f"{' ' * column}{text}\n", *lines[line - 1 :]])


def _with_option(source: str, tree: ast.Module, text: str) -> str:
    """Add the option to every call of `torch.compile(...)`, or change a constant there; `@torch.compile` becomes a call."""
    name, lines = text.partition("=")[0], source.splitlines(keepends=True)
    edits: list[tuple[int, int, int, str]] = []  # a line, where it is cut and where it goes on, and what comes between
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_torch_compile(node.func):
            existing = next((word.value for word in node.keywords if word.arg == name), None)
            inside = (ast.get_source_segment(source, node) or "")[:-1].rstrip()
            more = "" if inside.endswith((",", "(")) else ", "
            end = (node.end_col_offset or 0) - 1
            if existing is None:
                edits.append((node.end_lineno or 0, end, end, f"{more}{text}"))
            elif isinstance(existing, ast.Constant):
                edits.append((existing.lineno, existing.col_offset, existing.end_col_offset or 0, text.partition("=")[2]))
        for decorator in getattr(node, "decorator_list", ()):
            if _is_torch_compile(decorator):
                end = decorator.end_col_offset or 0
                edits.append((decorator.end_lineno or 0, end, end, f"({text})"))
    for line, column, end, more in sorted(edits, reverse=True):
        encoded = lines[line - 1].encode()
        lines[line - 1] = (encoded[:column] + more.encode() + encoded[end:]).decode()
    return "".join(lines)


def _is_torch_compile(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "compile" and ast.unparse(node.value) == "torch"


def _before_call(source: str, line: int, remedy: Remedy, cost: Cost | None) -> str:
    """Insert the remedy's line before the calling statement, with the parameter's name replaced by the argument passed for it."""
    tree = ast.parse(source)
    statements = [
        node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if not statements:
        return source
    statement = max(statements, key=lambda node: (node.lineno, node.col_offset))
    passed = _passed(tree, statement, remedy.source, cost)
    if passed is None:
        return source
    text = remedy.text.replace(remedy.source, passed)
    if (
        ast.get_source_segment(source, statement) is None
        or source.splitlines()[statement.lineno - 1][: statement.col_offset].strip()
    ):
        return source  # it shares its line with another statement
    return _with_line(source, statement.lineno, text, statement.col_offset)


def _passed(tree: ast.Module, statement: ast.stmt, parameter: str, cost: Cost | None) -> str | None:
    """The variable that the call passes for a parameter of the compiled function; None if the argument is not a variable."""
    name = cost.place.partition(" ")[0].rpartition(".")[2] if cost is not None else ""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(functions) != 1:
        return None
    parameters = [argument.arg for argument in functions[0].args.args if argument.arg != "self"]
    for call in _calls_of_program(tree, statement, name) if parameter in parameters else ():
        named: list[ast.expr] = [word.value for word in call.keywords if word.arg == parameter]
        value = named[0] if named else call.args[place] if (place := parameters.index(parameter)) < len(call.args) else None
        if isinstance(value, ast.Name):
            return value.id
    return None
