"""Count how many models of a public corpus break for each of torch.compile's reasons.

    git clone https://github.com/penguinwu/oss-model-graph-break-corpus CLONE
    python scripts/count_torch_breaks.py CLONE

The corpus builds some 870 models of transformers and diffusers, compiles them and keeps the reasons, which name torch's page about
the kind (`.../gb/gb0170.html`). `models` in docs/breaks/torch_breaks.py has the counts.

In:  the committed results of the clone (sweep_results/, corpora/). Out: a line for each kind, the most frequent first.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = ("sweep_results/", "corpora/", "corpus/")


def git(clone: Path, *words: str) -> str:
    """What git prints; a file that the clone lacks is empty."""
    return subprocess.run(["git", "-C", str(clone), *words], capture_output=True, text=True, check=False).stdout


def kinds(value: Any, model: str = "") -> Iterator[tuple[str, str]]:
    """Each kind that a result names, with the model whose result it is."""
    if isinstance(value, dict):
        model = value["name"] if isinstance(value.get("name"), str) else model
        for item in value.values():
            yield from kinds(item, model)
    elif isinstance(value, list):
        for item in value:
            yield from kinds(item, model)
    elif isinstance(value, str):
        yield from ((f"GB{number}", model) for number in re.findall(r"\bgb(\d{4})\b", value))


def main() -> None:
    """Print the counts."""
    clone = Path(sys.argv[1])
    models: dict[str, set[str]] = defaultdict(set)
    for path in git(clone, "ls-tree", "-r", "--name-only", "HEAD").split():
        if path.startswith(RESULTS) and path.endswith((".json", ".jsonl")):
            text = git(clone, "show", f"HEAD:{path}")
            for line in [text] if path.endswith(".json") else text.splitlines():
                for kind, model in kinds(json.loads(line)) if line.strip() else ():
                    models[kind].add(model)
    for kind, names in sorted(models.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        print(f"{kind} {len(names)}")


if __name__ == "__main__":
    main()
