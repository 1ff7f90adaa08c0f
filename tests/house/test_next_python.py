"""What a Python that is not supported yet would need is named by a script that such a Python runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dynexplore.engine.bytecode.versions import FACTS, SUPPORTED

SCRIPT = Path(__file__).parents[2] / "scripts" / "next_python.py"


def test_the_differences_to_the_newest_version_file_are_named() -> None:
    """The newest supported Python differs in nothing; another one differs, and each line names what."""
    ended = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    title, *lines = ended.stdout.splitlines()
    newest = "{}{}".format(*SUPPORTED[-1])
    assert title.startswith("Python {}.{} beside py{}.py and compat.h: {} difference".format(*FACTS.version, newest, len(lines)))
    assert ended.stderr == ""
    if FACTS.version == SUPPORTED[-1]:
        assert ended.returncode == 0 and lines == []
    else:
        assert ended.returncode == 1 and any(line.startswith("opcode ") for line in lines)
