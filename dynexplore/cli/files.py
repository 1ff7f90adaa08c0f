"""`dynexplore open` and `dynexplore replay`: show a file that an earlier run wrote.

The idea: the kind of file is detected: a saved recording, a TORCH_TRACE folder or log, the ranks of a job that `watch` gathered, a
saved frame. All are shown in the same way, in the browser or as text.

In: parsed arguments. Out: a page in the browser, text if the output is not a terminal, or the requested files.

PyTorch's counterpart: none; tlparse, a separate program, does this for TORCH_TRACE.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dynexplore
from dynexplore.cli import output_files
from dynexplore.cli.output_files import Outputs
from dynexplore.cli.program import Mistake

if TYPE_CHECKING:
    from dynexplore.recording.recording import Recording


def add_to(commands: Any) -> None:
    """Add `open` and `replay` to the command line's parser."""
    command = commands.add_parser(
        "open",
        help="show a saved recording, a folder of ranks, or a TORCH_TRACE folder",
        description="Show a recording in the browser, or as text if the output is not a terminal. It can be a saved recording, a "
        "folder or log that a job with TORCH_TRACE=DIR wrote, or a folder that `watch --ranks` wrote; several ranks are shown side "
        "by side. Without an argument, open a viewer page: drop a saved file on it to open it, or two to compare them. Does not "
        "need torch.",
    )
    command.add_argument("recording", type=Path, nargs="?", metavar="REC.json|DIR")
    command.add_argument("--rank", type=int, metavar="N", help="show only this rank of a folder")
    command.add_argument("--run", type=int, metavar="N", help="show run N of a TORCH_TRACE folder that contains several")
    command.add_argument("--latest", action="store_const", const=None, dest="run", help="show the latest run (the default)")
    command.add_argument(
        "--against", type=Path, metavar="REC.json|DIR", help="compare with this earlier recording or folder, as text"
    )
    command.add_argument(
        "--dump", type=Path, metavar="DIR", help="write each graph to DIR as a text file grouped by module, and an index"
    )
    command.add_argument(
        "--stacks", action="store_true", help="print which callers led to which compilations (TORCH_TRACE folders)"
    )
    command.add_argument("--text", action="store_true", help="print text instead of opening the browser")
    output_files.add_to(command)
    command.set_defaults(command=open_recording, passes_on=False)

    command = commands.add_parser(
        "replay",
        help="show a saved frame, or run it again",
        description="Show a frame that config.replay_record_enabled or record_frame saved. Nothing in it runs without --trust.",
    )
    command.add_argument("frame", type=Path, metavar="ONE.frame")
    command.add_argument(
        "--trust",
        action="store_true",
        help="run the frame in a separate process; the file contains code, so use it only for files that you trust",
    )
    output_files.add_to(command)
    command.set_defaults(command=replay_frame, passes_on=False)


def open_recording(arguments: argparse.Namespace) -> int:
    """Show a saved recording in the browser or as text, or write the requested files."""
    outputs = output_files.requested_files(arguments)
    if arguments.recording is None:
        return _open_viewer(outputs)
    path: Path = arguments.recording
    if arguments.rank is None and _holds_ranks(path, arguments.run):
        return _open_ranks(path, outputs, arguments)
    if path.is_dir() and arguments.rank is not None:
        path = _file_of_rank(path, arguments.rank)
    recording = _read(path, arguments.rank, arguments.run)
    if arguments.against is not None:
        from dynexplore.views.recording_diff import RecordingDiff

        print(RecordingDiff(_read(arguments.against, arguments.rank, None), recording))
    elif arguments.dump is not None:
        _dump(recording, arguments)
    elif arguments.stacks:
        print(_stacks(recording, arguments))
    elif outputs or arguments.summary_json is not None or arguments.perfetto is not None:
        output_files.write(outputs, recording, arguments)
    elif arguments.text or not sys.stdout.isatty():
        from dynexplore.views import text

        print(text.report(recording))
    else:
        _open_in_browser(recording.save, path.stem, arguments.redact)
    return 0


def _open_viewer(outputs: Outputs) -> int:
    """Show the page on which recordings are dropped, or write it."""
    from dynexplore.widgets.html import viewer

    def save(path: Path, **_options: bool) -> str:
        path.write_text(viewer(), encoding="utf-8")
        return str(path)

    if not outputs:
        _open_in_browser(save, "viewer", redact=False)
    for path, ending in outputs:
        if ending != ".html":
            raise Mistake("without a recording, only a viewer page can be written: --html OUT")
        print(f"wrote {save(path)}: drop a saved file on this page to open it, or two to compare them.")
    return 0


def _dump(recording: Recording, arguments: argparse.Namespace) -> None:
    from dynexplore.recording.recording import redacted
    from dynexplore.views.graph_dump import dump

    try:
        files = dump(redacted(recording) if arguments.redact else recording, arguments.dump)
    except OSError as error:
        raise Mistake(f"{arguments.dump} cannot be written: {error.strerror}") from None
    print(f"wrote {len(files)} files; begin with {files[0]}")


def _stacks(recording: Recording, arguments: argparse.Namespace) -> str:
    from dynexplore.recording.recording import redacted
    from dynexplore.views.stack_trie import trie_lines

    lines = trie_lines(redacted(recording) if arguments.redact else recording)
    return "\n".join(lines) or "This recording has no stacks: only TORCH_TRACE folders contain them."


def _holds_ranks(path: Path, run: int | None) -> bool:
    from dynexplore.ranks.folder import holds_ranks

    try:
        return holds_ranks(path, run)
    except dynexplore.exc.RecordingError as error:
        raise Mistake(str(error)) from None


def _file_of_rank(path: Path, rank: int) -> Path:
    """The file of one rank in a folder that `watch` gathered; the folder itself if it contains logs."""
    from dynexplore.ranks.folder import files_in

    files = files_in(path)
    if files and rank not in files:
        raise Mistake(f"{path} has no file of rank {rank}; it has {', '.join(map(str, files))}")
    return files.get(rank, path)


def _open_ranks(path: Path, outputs: Outputs, arguments: argparse.Namespace) -> int:
    """Show the ranks of a job side by side."""
    from dynexplore.ranks.folder import open_ranks

    output_files.check_forms_of_ranks(outputs)
    if arguments.summary_json is not None:
        raise Mistake(f"{path} contains several ranks: select one for --summary-json with --rank N")
    if arguments.dump is not None or arguments.against is not None or arguments.stacks:
        raise Mistake(f"{path} contains several ranks: select one for --dump, --against or --stacks with --rank N")
    bar = _ProgressBar(path.name)
    try:
        ranks = open_ranks(path, progress=bar, run=arguments.run)
    except dynexplore.exc.RecordingError as error:
        raise Mistake(str(error)) from None
    finally:
        bar.end()
    if outputs:
        output_files.write_ranks(outputs, ranks, arguments)
    elif arguments.text or not sys.stdout.isatty():
        print(ranks)
    else:
        _open_in_browser(ranks.save_html, path.name, arguments.redact)
    return 0


def _read(path: Path, rank: int | None, run: int | None) -> Recording:
    is_log = path.is_dir() or path.suffix == ".log"
    return _read_traces(path, rank, run) if is_log else _read_recording(path)


def _read_recording(path: Path) -> Recording:
    try:
        return dynexplore.Recording.from_json(path.read_bytes())
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror}") from None
    except dynexplore.exc.RecordingError as error:
        raise Mistake(f"{path}: {error}") from None


def _read_traces(path: Path, rank: int | None, run: int | None) -> Recording:
    """The recording of a TORCH_TRACE folder or log; what could not be read is reported on standard error."""
    from dynexplore.traces.folder import open_traces

    if not path.exists():
        raise Mistake(f"there is no log {path}")
    bar = _ProgressBar(path.name)
    try:
        opened = open_traces(path, rank=rank, run=run, progress=bar)
    except dynexplore.exc.RecordingError as error:
        raise Mistake(str(error)) from None
    finally:
        bar.end()
    for notice in opened.notices:
        print(notice, file=sys.stderr)
    return opened.recording


class _ProgressBar:
    """The progress of a long operation, as one line of a terminal; nothing is shown elsewhere, or for short operations."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_shown = sys.stderr.isatty()
        self._next = 20_000_000
        self._drawn = False

    def __call__(self, done: int, of: int) -> None:
        if self._is_shown and done >= self._next:
            self._next = done + max(of // 100, 1_000_000)
            filled = 30 * done // max(of, 1)
            megabytes = f"{done / 1e6:,.0f} of {of / 1e6:,.0f} MB"
            print(f"\r{self._name} [{'#' * filled}{'.' * (30 - filled)}] {megabytes}", end="", file=sys.stderr, flush=True)
            self._drawn = True

    def end(self) -> None:
        """Erase the line."""
        if self._drawn:
            print(file=sys.stderr)


def _open_in_browser(save: Callable[..., str], name: str, redact: bool) -> None:
    """Write the page to a temporary folder that outlives this process, because the browser reads it later."""
    import webbrowser

    page = Path(tempfile.mkdtemp(prefix="dynexplore-")) / f"{name}.html"
    save(page, redact=redact)
    is_open = webbrowser.open(page.as_uri())
    print(f"{'opened' if is_open else 'found no browser; open'} {page}")


def replay_frame(arguments: argparse.Namespace) -> int:
    """Show a saved frame; with --trust run it, and write the requested files. Status 1: its capture fails."""
    outputs = output_files.requested_files(arguments)
    if outputs and not arguments.trust:
        raise Mistake("to write output files, the frame must run: pass --trust")
    try:
        frame = dynexplore.replay(arguments.frame, trust=arguments.trust)
    except dynexplore.exc.ReplayError as error:
        raise Mistake(str(error)) from None
    print(frame)
    if frame.recording is not None:
        output_files.write(outputs, frame.recording, arguments)
    return int(frame.outcome is not None and frame.outcome.kind in ("failed", "died"))
