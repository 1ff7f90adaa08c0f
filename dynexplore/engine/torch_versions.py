"""The torch versions on which the engine is tested, and the self-check for any other version.

The idea: an untested version is tried, not refused. The first time that the engine starts under a torch outside the tested range,
a separate process runs the self-check (tools/self_check.py: hook, graph, break, guard, recompile), so that even a crash does no
harm here. If all of it passes, one line says so and the engine runs; if not, ImportError says which check failed. The result is
cached in a file in the user's cache folder, for this torch, Python, dynexplore and environment.

In: the version of the imported torch. Out: `admit(version)`, which returns or raises ImportError; `TESTED`, which the public
package and the documentation repeat. PyTorch's counterpart: none; torch._dynamo is part of torch.

>>> is_tested("2.13.0+cpu"), is_tested("2.10.1"), is_tested("3.0")
(True, False, False)
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

TESTED = ((2, 11), (2, 14))
"""The first and the last tested version of torch."""

CHECKS = ("import", "hook", "graph", "break", "guard", "recompile")
"""The steps of the self-check, in order."""

PASSED = "passed"

_CHILD = "DYNEXPLORE_SELF_CHECK"  # set in the process that runs the self-check, so that it starts no other
_PROGRAM = "dynexplore.tools.self_check"
_SECONDS = 300.0


def text(version: tuple[int, ...]) -> str:
    """The usual text of a version: "2.11"."""
    return ".".join(map(str, version))


def is_tested(version: str) -> bool:
    """Whether this version of torch is in the tested range."""
    parts = re.match(r"(\d+)\.(\d+)", version)
    return parts is not None and TESTED[0] <= (int(parts[1]), int(parts[2])) <= TESTED[1]


def admit(version: str) -> None:
    """Allow the engine to start under this torch: silently if it is tested, else with a line on stderr after a self-check.

    Raises ImportError, in one sentence, if the self-check fails.
    """
    if is_tested(version) or os.environ.get(_CHILD):
        return
    answer = cached_answer(key_of(version), answers_file(), run_self_check)
    tested = f"torch {text(TESTED[0])} to {text(TESTED[1])}"
    if answer != PASSED:
        raise ImportError(
            f"dynexplore is tested with {tested}; under torch {version} its self-check failed at {answer} "
            f"(cached in {answers_file()}; delete that file to check again)"
        )
    print(f"dynexplore is tested with {tested}; its self-check passed under torch {version}, so it runs.", file=sys.stderr)


def key_of(version: str) -> str:
    """The cache key of a result: the versions and the environment."""
    python = sysconfig.get_python_version()
    try:
        own = importlib.metadata.version("dynexplore")
    except importlib.metadata.PackageNotFoundError:
        own = "unknown"
    return f"torch {version}, Python {python}, dynexplore {own}, {sys.prefix}"


def answers_file() -> Path:
    """The file with cached results: in the cache folder of the XDG convention."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "dynexplore" / "self_check.json"


def cached_answer(key: str, file: Path, check: Callable[[], str]) -> str:
    """The result in `file` for `key`, or the result of `check`, which is stored there if the file is writable."""
    answers = _read(file)
    if key not in answers:
        answers[key] = check()
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_suffix(f".{os.getpid()}")  # another process may read at any moment
            fresh.write_text(json.dumps(answers, indent=1))
            fresh.replace(file)
    return answers[key]


def _read(file: Path) -> dict[str, str]:
    try:
        answers = json.loads(file.read_text())
    except (OSError, ValueError):  # no file yet, or not in this format
        return {}
    return {str(key): str(answer) for key, answer in answers.items()} if isinstance(answers, dict) else {}


def run_self_check() -> str:
    """Run the self-check in a separate process: PASSED, or the check that failed and why ("graph: TypeError: ...")."""
    environment = {**os.environ, _CHILD: "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if not sys.executable:
        return f"{CHECKS[0]}: no Python program is known to run it with"
    try:
        done = subprocess.run(
            [sys.executable, "-m", _PROGRAM], env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{CHECKS[0]}: {error}"
    passed = [line.removesuffix(" ok") for line in done.stdout.splitlines() if line.endswith(" ok")]
    missing = [name for name in CHECKS if name not in passed]
    if done.returncode == 0 and not missing:
        return PASSED
    last = done.stderr.strip().splitlines()[-1:] or [f"the process ended with {done.returncode}"]
    return f"{missing[0] if missing else CHECKS[-1]}: {last[0]}"
