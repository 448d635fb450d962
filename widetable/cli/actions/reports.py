"""Commands that report on a table: inspect, explain, audit, changes.

They change nothing. With --json they print one object, which is complete before it is printed. Only changes prints a
stream: its rows are printed while they are read, so an error may end it in the middle.
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
from widetable.cli.output.audit_text import audit_lines, served_lines
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
    """Print the state of a table, or one part of its metadata. The exit code is 0 with warnings, too."""
    table = Table.open(path)
    if what is not None:
        return _inspect_frame(
            what, table.inspect.frame(what, snapshot_id=snapshot, tag=tag), format
        )
    if snapshot is not None or tag is not None:
        raise InvalidError(
            "--snapshot and --tag",
            found="one of them without --what",
            expected=f"--what with one of {', '.join(OF_A_SNAPSHOT)}",
            action="Omit the option, or pass --what.",
        )
    state = table.inspect()
    try:
        space, unknown = table_space(table), None
    except WidetableError as error:  # for example of an old snapshot, which only this call reads
        space, unknown = (), error.facts
    sizes = None if unknown is not None else [asdict(line) for line in space]
    lines = chain(inspection_lines(state), space_lines(space, unknown), warning_lines(state))
    write_lines(format, {**state.to_dict(), "space": sizes}, lines)
    return DONE


# JSON has the values of `printed_rows`; the output for people has human units (`frame_text`).
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
    """Print the explanation of a key's values."""
    if snapshot is not None and tag is not None:
        raise InvalidError(
            "--snapshot and --tag", found="both", expected="one of them", action="Omit the other."
        )
    table = Table.open(path)
    names = None if columns is None else names_of(columns)
    as_of = snapshot if tag is None else tag
    explanation = table.explain(key_of_words(key, table.schema), as_of, names)
    # `to_dict` copies all columns and events, perhaps thousands, so it is called only for JSON.
    value = explanation.to_dict() if format == "json" else None
    write_result(format, value, explanation.lines())
    return DONE


def audit(path: str, start: str | None, findings: int, served: str | None, format: str) -> int:
    """Print the number of checks and the findings of each law; the exit code is 1 for findings."""
    table = Table.open(path)
    if served is not None:
        return _audit_served(table, served, start, findings, format)
    first = None if start is None else snapshot_or_tag(start, "--from", table)
    report = table.audit(first, findings)
    write_lines(format, report.to_dict(), audit_lines(report))
    return DONE if report.ok else FOUND


def _audit_served(table: Table, served: str, start: str | None, findings: int, format: str) -> int:
    """Print what was compared and what differs. The exit code is 1 for different values and snapshots that are gone."""
    if start is not None:
        raise InvalidError(
            "--from",
            found="both it and --served",
            expected="one of them: a log says which snapshots it is of",
            action="Omit --from.",
        )
    report = table.audit_served(Table.open(served) if "/" in served else served, findings)
    write_lines(format, report.to_dict(), served_lines(report))
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
    """Write changes to a new file, or to standard output.

    The schema is known before the first change, so a range without changes has a head as well. For a file the number of
    rows is printed on standard output; if the rows go there, nothing else does.
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
        _warn_of_waiting_commits(table, *ends)
    return DONE


def _warn_of_waiting_commits(table: Table, start: int | str, end: int | str) -> None:
    """Warn of commits of the range whose changelog does not exist yet. A range between tags has no warning."""
    if isinstance(start, str) or isinstance(end, str):
        return
    waiting = commits_without_changelog(table, start, end)
    if waiting:
        wait = counted(waiting, "commit waits for its", "commits wait for their")
        text = f"{wait} changelog: {command_line('maintain', '--once', table.path)}"
        write_line(coded(WarningCode.CHANGELOG_WAITS, text), "warning", sys.stderr)
