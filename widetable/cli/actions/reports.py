"""Commands that look at a table: inspect, explain, audit, changes.

None of them changes anything. With --json there is one object, made whole before it is printed; changes alone is a
stream, whose rows are printed while they are read, and which may break off in the middle.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from itertools import chain

import pyarrow as pa

from widetable.cli.command import DONE, FOUND
from widetable.cli.input.key_words import key_of_words
from widetable.cli.input.option_words import names_of
from widetable.cli.input.snapshot_word import barrier_or_text, snapshot_or_tag
from widetable.cli.output.audit_text import audit_lines
from widetable.cli.output.changes_output import write_rows
from widetable.cli.output.console import write_json, write_line, write_lines, write_result
from widetable.cli.output.frame_text import frame_lines
from widetable.cli.output.inspection_text import inspection_lines, warning_lines
from widetable.cli.output.space_text import space_lines
from widetable.errors import InvalidError, WidetableError
from widetable.format.printed_value import printed_rows
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, coded
from widetable.operations.compaction.backlog import commits_without_changelog
from widetable.operations.health.doctor_report import command_line
from widetable.operations.history.expiry import table_space
from widetable.operations.inspection.inspected_names import OF_A_SNAPSHOT
from widetable.operations.queries.changes import change_schema
from widetable.table import Table


def inspect(path: str, what: str | None, snapshot: int | None, tag: str | None, format: str) -> int:
    """Prints the state of a table, or what it has of one kind.

    Warnings of the state are no findings: the exit code is 0 with them, too.
    """
    table = Table.open(path)
    if what is not None:
        return _inspect_frame(
            what, table.inspect.frame(what, snapshot_id=snapshot, tag=tag), format
        )
    if snapshot is not None or tag is not None:
        raise InvalidError(
            "--snapshot and --tag",
            found="one of them without --what",
            expected=f"them with --what {', '.join(OF_A_SNAPSHOT)}",
            action="Leave it out, or say what to show.",
        )
    found = table.inspect()
    try:
        space, unknown = table_space(table), None
    except WidetableError as error:  # of an old snapshot, say, which nothing else here reads
        space, unknown = (), error.facts
    held = None if unknown is not None else [asdict(line) for line in space]
    lines = chain(inspection_lines(found), space_lines(space, unknown), warning_lines(found))
    write_lines(format, {**found.to_dict(), "space": held}, lines)
    return DONE


# For programs values as rows are printed (`printed_rows`), for people in units (`frame_text`).
def _inspect_frame(what: str, frame: pa.Table, format: str) -> int:
    if format == "json":
        write_json({what: list(printed_rows(frame))})
        return DONE
    for line in frame_lines(frame):
        write_line(line)
    return DONE


def explain(
    path: str,
    key: list[str],
    snapshot: int | None,
    tag: str | None,
    columns: str | None,
    format: str,
) -> int:
    """Prints why a key has its values."""
    if snapshot is not None and tag is not None:
        raise InvalidError(
            "--snapshot and --tag", found="both", expected="one", action="Leave the other out."
        )
    table = Table.open(path)
    names = None if columns is None else names_of(columns)
    as_of = snapshot if tag is None else tag
    found = table.explain(key_of_words(key, table.schema), as_of, names)
    # A copy of all columns and events, of which there may be thousands: for JSON alone.
    write_result(format, found.to_dict() if format == "json" else None, found.lines())
    return DONE


def audit(path: str, start: str | None, findings: int, format: str) -> int:
    """Prints how much was checked of each law, and what breaks one; the exit code says whether anything does."""
    table = Table.open(path)
    first = None if start is None else snapshot_or_tag(start, "--from", table)
    report = table.audit(first, findings)
    write_lines(format, report.to_dict(), audit_lines(report))
    return DONE if report.ok else FOUND


def changes(
    path: str,
    start: str,
    end: str,
    mode: str,
    commits: bool,
    columns: str | None,
    format: str,
    output: str | None,
) -> int:
    """Writes changes to a new file, or to standard output.

    The schema is there before any change is, so a range without changes has its head as well. How
    many rows a file got is said on standard output; where rows go there, nothing else does.
    """
    names = None if columns is None else names_of(columns)
    table = Table.open(path)
    schema = change_schema(table, names, commit_columns=commits)
    if mode == "barrier":
        ends = barrier_or_text(start), barrier_or_text(end)
    else:
        ends = snapshot_or_tag(start, "START", table), snapshot_or_tag(end, "END", table)
    batches = table.change_batches(*ends, names, mode=mode, commit_columns=commits)
    write_rows(format, output, batches, schema)
    if mode in ("auto", "changelog"):
        _say_what_waits(table, *ends)
    return DONE


def _say_what_waits(table: Table, start: int | str, end: int | str) -> None:
    """Commits of the range whose changes are not there yet. Nothing of a range between tags."""
    if isinstance(start, str) or isinstance(end, str):
        return
    waiting = commits_without_changelog(table, start, end)
    if waiting:
        wait = counted(waiting, "commit waits for its", "commits wait for their")
        text = f"{wait} changelog: {command_line('maintain', '--once', table.path)}"
        write_line(coded(WarningCode.CHANGELOG_WAITS, text), "warning", sys.stderr)
