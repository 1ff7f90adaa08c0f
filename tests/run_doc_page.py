"""Runs the blocks of one page, in a process of its own: a program, which doc_pages.py starts.

In:  a list of [kind, text] as JSON on standard input.
Out: on the last line of standard output a list of [what it printed, how it failed] as JSON; it ends at the first failure.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import traceback

from IPython.core.interactiveshell import InteractiveShell


def main() -> None:
    """Run everything."""
    blocks = json.loads(sys.stdin.read())
    shell = InteractiveShell.instance()
    shell.colors = "nocolor"
    results: list[tuple[str, str]] = []
    for number, (kind, text) in enumerate(blocks, 1):
        shell.compile.get_code_name = lambda raw, transformed, count, name=f"block{number}.py": name
        shell.ast_node_interactivity = "last_expr" if kind == "ipython" else "none"  # a program shows what it prints
        results.append(in_shell(text) if kind == "console" else in_python(shell, text))
        if results[-1][1]:
            break
    print()
    print(json.dumps(results))


def in_python(shell: InteractiveShell, text: str) -> tuple[str, str]:
    """One cell; the prompt before what it shows of its last value is left out."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = shell.run_cell(text)
    output = re.sub(r"^Out\[\d+\]: ?", "", printed.getvalue(), flags=re.M)
    error = result.error_before_exec or result.error_in_exec
    failure = "".join(traceback.format_exception(error)) if error else ""
    return output, failure


def in_shell(text: str) -> tuple[str, str]:
    """Each command after `$ `."""
    printed = ""
    for command in (line[2:] for line in text.splitlines() if line.startswith("$ ")):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        printed += done.stdout
        if done.returncode:
            return printed, f"{command}: exit status {done.returncode}\n{done.stderr}"
    return printed, ""


main()
