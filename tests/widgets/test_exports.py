"""widgets/exports.py: a recording as a file, in every form, with and without what is private."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import dynexplore
from dynexplore.recording.recording import Recording
from dynexplore.views import text
from dynexplore.widgets import html
from dynexplore.widgets.exports import FORMS
from sample_recordings import toy
from source_tree import ROOT

SECRET = "the password is in the string"


def secretive(x: torch.Tensor, name: str) -> torch.Tensor:
    """Its recording knows a string constant, a path and tensor elements."""
    if name != "the password is in the string":
        return x
    return x * 31.25


@pytest.fixture(scope="module")
def explanation() -> dynexplore.Explanation:
    """A real call with something private in it."""
    found: dynexplore.Explanation = dynexplore.explain(secretive, torch.tensor([8.25, 1.5]), SECRET)
    return found


@pytest.mark.parametrize("ending", FORMS)
def test_every_form_says_what_it_holds(explanation: dynexplore.Explanation, tmp_path: Path, ending: str) -> None:
    """The sentence that `save` returns stands in the file, and the graph does."""
    for redact in (False, True):
        path = tmp_path / f"saved{ending}"
        holds = explanation.save(path, redact=redact)
        text = content(path)
        assert holds in text and ("left out" in holds) == redact
        assert "operator.mul" in text


@pytest.mark.parametrize("ending", FORMS)
def test_redacted_files_hold_nothing_private(explanation: dynexplore.Explanation, tmp_path: Path, ending: str) -> None:
    """With `redact` no string constant, no folder and no tensor element is left in the file."""
    path = tmp_path / f"saved{ending}"
    explanation.save(path, redact=True)
    text = content(path)
    assert "password" not in text and str(ROOT) not in text and "8.25" not in text
    explanation.save(path)
    assert ("password" in content(path)) == (ending in (".html", ".json", ".json.gz", ".txt"))


def content(path: Path) -> str:
    """The text of a file; of a packed one, unpacked."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def test_a_packed_file_comes_back(tmp_path: Path) -> None:
    """It is equal in each run, a fraction of the JSON, and the recording again; a damaged one is reported in one sentence."""
    path, recording = tmp_path / "r.JSON.gz", toy()
    recording.save(path)
    packed = path.read_bytes()
    recording.save(path)
    assert path.read_bytes() == packed
    assert Recording.from_json(packed) == recording
    recording.save(tmp_path / "r.json")
    assert len(packed) < (tmp_path / "r.json").stat().st_size / 2
    with pytest.raises(dynexplore.exc.RecordingError, match="^this packed recording is damaged "):
        Recording.from_json(packed[:-20])


def test_json_has_the_data_of_its_page(tmp_path: Path) -> None:
    """It is what the HTML file contains, redacted if the recording is."""
    toy().save(tmp_path / "r.json", redact=True)
    page = json.loads((tmp_path / "r.json").read_text())["page"]
    assert page in html.page(toy(), redact=True, graphviz=True)


def test_json_comes_back(tmp_path: Path) -> None:
    """What `save` wrote as JSON is the recording again, and says that it is redacted if it is."""
    toy().save(tmp_path / "r.json")
    assert Recording.from_json((tmp_path / "r.json").read_text()) == toy()
    toy().save(tmp_path / "r.json", redact=True)
    again = Recording.from_json((tmp_path / "r.json").read_text())
    assert again.redacted
    assert "left out" in again.save(tmp_path / "again.txt")


def test_json_is_plain_json(tmp_path: Path) -> None:
    """Endings are read without regard to case."""
    toy().save(tmp_path / "R.JSON")
    assert json.loads((tmp_path / "R.JSON").read_text())["format"] == "dynexplore recording"


def test_svg_is_a_document(tmp_path: Path) -> None:
    """The picture of both graphs is well-formed XML."""
    toy().save(tmp_path / "r.svg")
    tree = ElementTree.fromstring((tmp_path / "r.svg").read_text())
    assert "__compiled_fn_0" in ElementTree.tostring(tree, "unicode")


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    """An unknown ending and a file that cannot be written raise ExportError."""
    forms = ".html, .json, .json.gz, .txt, .dot or .svg"
    with pytest.raises(dynexplore.exc.ExportError, match=rf"^graph.pdf: a recording can be saved only as {forms}$"):
        toy().save("graph.pdf")
    with pytest.raises(dynexplore.exc.ExportError, match=r"^\S+/r.html cannot be written: No such file or directory$"):
        toy().save(tmp_path / "none" / "r.html")


def test_everything_but_capture_works_without_torch(tmp_path: Path) -> None:
    """A recording is read, saved in every form and shown where torch cannot be imported."""
    toy().save(tmp_path / "r.json")
    code = f"""
import sys
class Blocked:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is blocked")
sys.meta_path.insert(0, Blocked())
import dynexplore
r = dynexplore.Recording.from_json(open({str(tmp_path / "r.json")!r}).read())
for ending in {list(FORMS)}:
    r.save({str(tmp_path)!r} + "/again" + ending, redact=True)
print(sorted(r._repr_mimebundle_()), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "['text/html', 'text/plain'] False\n", done.stderr


def damaged(seed: int) -> str:
    """A recording in which one to three things, somewhere, were deleted or replaced."""
    chance = random.Random(seed)
    plain: Any = json.loads(json.dumps(toy().to_plain()))
    for _ in range(chance.choice((1, 1, 3))):
        inside: Any = plain
        while True:
            key = chance.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
            if not (isinstance(inside[key], (dict, list)) and inside[key]) or chance.random() < 0.1:
                break
            inside = inside[key]
        if chance.random() < 0.2 and plain[next(iter(plain))]:
            del inside[key]
        else:
            inside[key] = chance.choice((None, 0, -5, 10**6, 2**70, "zzz", [], {}, [1], True, 1.5))
        if not plain:
            break
    return json.dumps(plain)


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_whatever_is_damaged_gives_one_sentence_or_a_page(start: int) -> None:
    """A damaged recording is refused in one sentence, or what can be read of it is shown; never anything else."""
    refused = 0
    for seed in range(start, start + 50):
        try:
            recording = Recording.from_json(damaged(seed))
        except dynexplore.exc.RecordingError as error:
            assert "\n" not in str(error)
            refused += 1
        else:
            assert "</html>" in html.page(recording) and text.report(recording) is not None
    assert 10 < refused < 50
