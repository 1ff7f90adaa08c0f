"""`dynexplore fix SCRIPT`: find a patch that removes graph breaks and recompiles, by running the program with each change.

The idea: a search that keeps what helps. The program runs once unmodified; then each change for its most expensive cost is made to
a copy and run, and the first one with fewer graph breaks and recompiles, and with the same values, is kept. The search continues
from there until nothing helps or the number of runs is used up. Some breaks need two changes (`.item()`, then the `if` on it): a
change that removes its own break for another one is kept if a second change helps. `torch.where` computes both branches of an
`if`; so the program also runs in eager mode, to see that the branches have the same shape and dtype, whichever is taken.

In: a script, the limits of a run. Out: `Patch`: its `diff`, the changes kept, those that did not help; `write()` applies it.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import difflib
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynexplore.engine import events as ev
from dynexplore.tools.scratch_runs import CannotTry, Run, ScratchRuns, same_values
from dynexplore.tools.source_fixes import Fix, fixes_at, with_lines_at_top, without_cache
from dynexplore.tools.tried_remedies import applied, never_compiled
from dynexplore.views.counts import plural
from dynexplore.views.ranked_costs import Cost, costs_of, remedies_of

MOST_RUNS = 16
"""The maximum number of runs of the program."""

_IN_ONE_STEP = 2
"""The maximum number of changes that only help together."""

_CACHE_WARNING = re.compile(r"`functools\.lru_cache`-wrapped function at '([^']+):(\d+)'")


@dataclass(frozen=True, slots=True)
class Step:
    """A change at a place: kept (`failed` is empty), or the reason why it was not."""

    place: str
    fix: Fix
    failed: str = ""


@dataclass
class Patch:
    """What was found: the first and the last run, the texts of changed files, the changes kept, and those that did not help."""

    script: Path
    before: Run
    after: Run
    originals: dict[str, str] = field(default_factory=dict)
    changes: dict[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    failed: list[Step] = field(default_factory=list)

    @property
    def diff(self) -> str:
        """The patch as a unified diff, for `git apply` or `patch -p1`, relative to the working directory if the script is in it."""
        parts: list[str] = []
        for name in sorted(self.changes):
            shown = _shown_path(self.script.parent / name)
            before, after = (text.splitlines(keepends=True) for text in (self.originals[name], self.changes[name]))
            for line in difflib.unified_diff(before, after, f"a/{shown}", f"b/{shown}"):
                parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
        return "".join(parts)

    def __str__(self) -> str:
        lines = [f"{self.script.name}: {_counts(self.before)} in {self.before.calls}."]
        if self.before.error:
            return "\n".join([*lines, f"It raised {self.before.error}"])
        if not self.before.is_compiled:
            return never_compiled(self.script.name, "fix")
        for number, step in enumerate(self.steps, 1):
            lines += ev.wrapped(f"{number}. {step.place}: {step.fix.does}; costs: {step.fix.costs}.", 3).split("\n")
        if self.steps:
            lines.append(self._verdict())
        elif self.failed:
            lines.append(f"No patch: {plural(len(self.failed), 'change was', 'changes were')} tried, and none helped.")
        else:
            lines.append("No patch: no automatic fix is known for this." if any(_score(self.before)) else "Nothing to fix.")
        for step in self.failed:
            lines += ev.wrapped(f"   {step.place}: {step.fix.does}: {step.failed}", 5).split("\n")
        return "\n".join(lines)

    def _verdict(self) -> str:
        names = ("graph", "graph break", "recompile")
        pairs = zip(self.before.counts, self.after.counts, names, strict=True)
        changed = [f"{plural(was, noun)} became {now}" for was, now, noun in pairs if was != now]
        warnings = len(_cache_warnings(self.before)) - len(_cache_warnings(self.after))
        changed += [f"{plural(warnings, 'fewer warning', 'fewer warnings')} about lru_cache"] if warnings > 0 else []
        values = "no values to compare" if same_values(self.before, self.after) is None else "same values"
        printed = "" if self.before.printed == self.after.printed else "; the output of the program differs"
        return f"{', '.join(changed)}, {values}{printed}."

    def write(self) -> list[Path]:
        """Apply the patch to the user's files; return them. Raises CannotTry if one has changed since."""
        files = [self.script.parent / name for name in self.changes]
        for name, file in zip(self.changes, files, strict=True):
            if file.read_text(encoding="utf-8") != self.originals[name]:
                raise CannotTry(f"{file} has changed since it was read; nothing was written")
        for name, file in zip(self.changes, files, strict=True):
            file.write_text(self.changes[name], encoding="utf-8")
        return files


def _shown_path(file: Path) -> str:
    full = file.resolve()
    return full.relative_to(Path.cwd()).as_posix() if full.is_relative_to(Path.cwd()) else file.name


def _counts(run: Run) -> str:
    graphs, breaks, recompiles = run.counts
    return f"{plural(graphs, 'graph')}, {plural(breaks, 'graph break')}, {plural(recompiles, 'recompile')}"


def _score(run: Run) -> tuple[int, int]:
    return sum(run.counts[1:]), len(_cache_warnings(run))


def _cache_warnings(run: Run) -> list[tuple[str, int]]:
    return [(file, int(line)) for file, line in dict.fromkeys(_CACHE_WARNING.findall(run.errors))]


def propose_patch(
    script: Path, args: Sequence[str] = (), *, calls: int = 20, seconds: float = 120.0, most: int = MOST_RUNS
) -> Patch:
    """Search a patch for a script. Writes nothing. Raises CannotTry if there is no such script."""
    if not script.is_file():
        raise CannotTry(f"there is no script {script}")
    with tempfile.TemporaryDirectory(prefix="dynexplore_fix_") as scratch:
        search = _Search(ScratchRuns(script, Path(scratch), tuple(args), calls, seconds), most)
        return search.patch()


def original_lines(original: str, changed: str) -> dict[int, int]:
    """For each line of a changed text, its line in the original; of a new line, the nearest one.

    >>> original_lines("a\\nb\\nc", "import x\\na\\nB\\nc")
    {1: 1, 2: 1, 3: 2, 4: 3}
    >>> original_lines("a", "a\\nb")
    {1: 1, 2: 1}
    """
    lines_before = original.splitlines()
    matcher = difflib.SequenceMatcher(None, lines_before, changed.splitlines(), autojunk=False)
    lines: dict[int, int] = {}
    for _, first, last, begin, end in matcher.get_opcodes():
        nearest = min(max(last, first + 1), len(lines_before))
        lines |= {line + 1: min(first + line - begin + 1, nearest) for line in range(begin, end)}
    return lines


# -- the search --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _State:
    """A changed program, its run, and the steps that led to it."""

    changes: dict[str, str]
    run: Run
    steps: tuple[Step, ...] = ()


class _Search:
    def __init__(self, runs: ScratchRuns, most: int) -> None:
        self._runs, self._remaining = runs, most
        self._folder = runs.script.resolve().parent
        self._seen: set[tuple[tuple[str, str], ...]] = set()
        self._failed: list[Step] = []

        self._before = self._run({})

    def patch(self) -> Patch:
        before = self._before
        best = _State({}, before)
        while not before.error and (better := self._better(best, _score(best.run), _IN_ONE_STEP)) is not None:
            best = better
        originals = {name: self._original(name) for name in best.changes}
        fixed_places = {step.place for step in best.steps}  # a place that is fixed needs no other change
        failed = [step for step in self._failed if step.place not in fixed_places]
        return Patch(self._runs.script, before, best.run, originals, best.changes, best.steps, failed)

    def _run(self, changes: dict[str, str]) -> Run:
        self._remaining -= 1
        return self._runs.run(changes)

    def _better(self, state: _State, score: tuple[int, int], depth: int) -> _State | None:
        """The first change, or pair of changes, that improves on the score."""
        others: list[_State] = []
        for place, name, fix in self._fixes(state):
            changes = {**state.changes, name: fix.text}
            key = tuple(sorted(changes.items()))
            if key in self._seen or self._remaining <= 0:
                continue
            self._seen.add(key)
            run = self._run(changes)
            step = Step(place, fix, self._refused(run, changes, fix))
            tried = _State(changes, run, (*state.steps, step))
            if not step.failed and _score(run) < score:
                return tried
            if not step.failed and _score(run) == score and depth > 1:
                others.append(tried)
            words = step.failed or "as many graph breaks and recompiles as before"
            self._failed.append(Step(place, fix, words))
        for other in others:
            better = self._better(other, score, depth - 1)
            if better is not None:
                return better
        return None

    def _refused(self, run: Run, changes: dict[str, str], fix: Fix) -> str:
        """Why a change is wrong, whether or not it removes something."""
        if run.error:
            return f"the program then raises {ev.clip(run.error.splitlines()[0], 160)}"
        if same_values(self._before, run) is False:
            return "other values"
        if fix.id == "where" and self._remaining > 0:
            self._remaining -= 1
            if self._runs.run(changes, eager=True).differing_branches:
                return "the branches differ in shape or dtype"
        return ""

    # -- the changes that fit ------------------------------------------------------------------------------------------

    def _fixes(self, state: _State) -> Iterator[tuple[str, str, Fix]]:
        """Place, file and change, for the costs of a run, the most expensive first."""
        script = self._runs.script.name
        for cost in costs_of(state.run.recording):
            place = self._place_in_user_file(cost.place, state)
            for name, fix in self._of_cost(cost, state, script):
                yield place, name, fix
        for file, line in _cache_warnings(state.run):
            name = Path(file).name
            if (self._folder / name).is_file():
                for fix in without_cache(self._text(state, name), line):
                    yield f"{name}:{line}", name, fix

    def _of_cost(self, cost: Cost, state: _State, script: str) -> Iterator[tuple[str, Fix]]:
        main = self._text(state, script)
        late: list[tuple[str, Fix]] = []
        if cost.kind == "graph break" and Path(cost.file).is_relative_to(state.run.folder):
            name = Path(cost.file).relative_to(state.run.folder).as_posix()
            for fix in fixes_at(self._text(state, name), cost.line):
                if fix.id == "not-compiled":
                    late.append((name, fix))
                else:
                    yield name, fix
        for remedy in remedies_of(cost, main):
            if remedy.how == "top":
                text = with_lines_at_top(main, ["import torch._dynamo", remedy.text])
            elif remedy.how in ("call", "option"):
                text, _ = applied(remedy, cost, main, script)
            else:
                continue
            if text != main:
                yield script, Fix(remedy.row, text, f"`{remedy.text}`", remedy.costs)
        yield from late

    def _place_in_user_file(self, place: str, state: _State) -> str:
        """A place of a changed program, with the lines that it has in the user's files: earlier changes may have moved them."""
        name = next((name for name in state.changes if re.search(rf"(?<![\w./]){re.escape(name)}:\d", place)), None)
        if name is None:
            return place
        lines = original_lines(self._original(name), state.changes[name])
        numbers = rf"(?<=from line )\d+|(?<={re.escape(name)}:)\d+"
        return re.sub(numbers, lambda number: str(lines.get(int(number[0]), int(number[0]))), place)

    def _text(self, state: _State, name: str) -> str:
        return state.changes.get(name) or self._original(name)

    def _original(self, name: str) -> str:
        return (self._folder / name).read_text(encoding="utf-8")
