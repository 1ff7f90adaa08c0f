"""The files that commands write: --html, --json, --pack, --save and --summary-json, and how each is reported.

The idea: a mistake in a path is reported before a long run, not after it. So a command first requests its outputs, which checks
folders and formats, and writes them last.

In: parsed arguments; then a recording, or the ranks of a job.
Out: the paths with their formats; files; for each a sentence that describes its content.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dynexplore
from dynexplore.cli.program import Mistake

if TYPE_CHECKING:
    from dynexplore.ranks.ranks import Ranks
    from dynexplore.recording.recording import Recording

Outputs = Sequence[tuple[Path, str]]
"""Paths, each with the file extension that determines its format."""


def add_to(command: argparse.ArgumentParser) -> None:
    """Add the options for output files to a command."""
    command.add_argument("--html", type=Path, metavar="OUT", help="write the explorer as one HTML file")
    command.add_argument(
        "--save",
        type=Path,
        metavar="OUT",
        help="write a file in the format of its extension: .html, .json, .json.gz, .txt, .dot or .svg",
    )
    command.add_argument(
        "--pack", type=Path, metavar="OUT", help="write a compressed recording (.json.gz) that `dynexplore open` reads"
    )
    command.add_argument(
        "--graphviz",
        action="store_true",
        help="embed graphviz in HTML files (adds 0.8 MB), so that groups in a diagram can be expanded and collapsed",
    )
    command.add_argument("--perfetto", type=Path, metavar="OUT", help="write compile times by function, for ui.perfetto.dev")
    add_summary(command)
    command.add_argument("--redact", action="store_true", help="omit tensor elements, string constants and paths from the files")


def add_summary(command: argparse.ArgumentParser) -> None:
    """Add the option for the machine-readable summary."""
    command.add_argument(
        "--summary-json",
        type=Path,
        metavar="OUT",
        help="write a machine-readable summary of at most 8 kB (- prints it as the last line of the output)",
    )


def check_summary(arguments: argparse.Namespace) -> None:
    """Report a path that cannot be written, before a long run."""
    for out in (arguments.summary_json, getattr(arguments, "perfetto", None)):
        if out is not None:
            _check_folder(out)


def _check_folder(out: Path) -> None:
    if not out.resolve().parent.is_dir():
        raise Mistake(f"{out} cannot be written: there is no folder {out.parent}")


def write_summary(data: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write the summary to the requested path."""
    from dynexplore.views.summary import as_json

    if str(arguments.summary_json) == "-":
        print(as_json(data), end="")
    else:
        arguments.summary_json.write_text(as_json(data), encoding="utf-8")


def requested_files(arguments: argparse.Namespace) -> list[tuple[Path, str]]:
    """The requested files, each with the extension that determines its format; files that cannot be written are reported now.

    The writers are imported only if there is a file to write: importing them takes longer than the report.
    """
    check_summary(arguments)
    options = [
        (arguments.html, ".html"),
        (getattr(arguments, "json", None), ".json"),
        (getattr(arguments, "pack", None), ".json.gz"),
        (arguments.save, ""),
    ]
    chosen = [(out, ending) for out, ending in options if out is not None]
    if arguments.graphviz and ".html" not in [ending or out.suffix.lower() for out, ending in chosen]:
        raise Mistake("--graphviz applies to HTML files: add --html OUT")
    if not chosen:
        return []
    from dynexplore.widgets.exports import check_form, ending_of

    outputs = [(out, ending or ending_of(out)) for out, ending in chosen]
    for out, ending in outputs:
        _check_folder(out)
        try:
            check_form(out, ending)
        except dynexplore.exc.ExportError as error:
            raise Mistake(str(error)) from None
    return outputs


def write(outputs: Outputs, recording: Recording, arguments: argparse.Namespace) -> None:
    """Write a recording in each requested format, and its summary."""
    from dynexplore.recording.recording import redacted

    is_redacted_here = arguments.redact and (arguments.summary_json is not None or arguments.perfetto is not None)
    shown = redacted(recording) if is_redacted_here else recording
    if arguments.summary_json is not None:
        from dynexplore.views.summary import summary

        write_summary(summary(shown), arguments)
    if arguments.perfetto is not None:
        from dynexplore.views.perfetto import as_json

        arguments.perfetto.write_text(as_json(shown), encoding="utf-8")
        print(f"wrote {arguments.perfetto}. To view it, open https://ui.perfetto.dev. It contains names of functions and files.")
    if not outputs:
        return
    from dynexplore.widgets import exports

    for out, ending in outputs:
        try:
            holds = exports.write(recording, out, ending, redact=arguments.redact, graphviz=arguments.graphviz)
        except dynexplore.exc.ExportError as error:
            raise Mistake(str(error)) from None
        print(f"wrote {out} ({out.stat().st_size / 1024:.0f} KB). {holds}")


def check_forms_of_ranks(outputs: Outputs) -> None:
    """Report a format that several ranks do not support, before a long run."""
    from dynexplore.widgets.exports import check_form_of_ranks

    try:
        for out, ending in outputs:
            check_form_of_ranks(out, ending)
    except dynexplore.exc.ExportError as error:
        raise Mistake(str(error)) from None


def write_ranks(outputs: Outputs, ranks: Ranks, arguments: argparse.Namespace) -> None:
    """Write the ranks of a job in each requested format."""
    from dynexplore.widgets import exports

    for out, ending in outputs:
        try:
            holds = exports.write_ranks(ranks, out, ending, redact=arguments.redact)
        except dynexplore.exc.ExportError as error:
            raise Mistake(str(error)) from None
        print(f"wrote {out} ({out.stat().st_size / 1024:.0f} KB). {holds}")
