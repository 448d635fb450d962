"""Commands for a damaged table: doctor, repair, rollback.

Commands that change rows only print their plan, unless they are called with --yes.

    without --yes    the operation runs with dry_run=True: the same plan, nothing written
    --dry-run        does the same explicitly; together with --yes it is refused
    --yes            the plan is made again and carried out, so it may differ from the printed one

doctor changes nothing and has exit code 1 for findings; repair and rollback have 0 if they succeed.
"""

from __future__ import annotations

from widetable.cli.actions.warehouse import table_paths
from widetable.cli.command import DONE, FOUND
from widetable.cli.output.console import write_lines
from widetable.cli.output.damage_text import doctor_lines, repair_lines, rollback_lines
from widetable.errors import InvalidError, WidetableError
from widetable.messages.counted import counted
from widetable.operations.health.doctor_report import DoctorFinding, DoctorReport
from widetable.table import Table


def doctor(path: str, deep: bool, format: str) -> int:
    """List what is wrong with a table, or with each of a warehouse or database; the exit code is 1 for findings."""
    paths = table_paths(path)
    if paths is not None:
        return _doctor_all(path, paths, deep, format)
    report = Table.open(path).doctor(deep)
    write_lines(format, report.to_dict(), doctor_lines(report))
    return DONE if report.ok else FOUND


def _doctor_all(path: str, paths: list[str], deep: bool, format: str) -> int:
    """Print all reports, then the number of tables with findings. Nothing is printed before the last check."""
    reports = [_report(each, deep) for each in paths]
    unhealthy = sum(not report.ok for report in reports)
    lines = [line for report in reports for line in doctor_lines(report)]
    summary = f"{counted(len(reports), 'table')}, {unhealthy} with findings"
    value = {"ok": not unhealthy, "path": path, "tables": [one.to_dict() for one in reports]}
    write_lines(format, value, [*lines, (summary, "error" if unhealthy else "good")])
    return FOUND if unhealthy else DONE


def _report(path: str, deep: bool) -> DoctorReport:
    """Return the report of a table. One that cannot be opened is a finding, so the other tables are still checked."""
    try:
        return Table.open(path).doctor(deep)
    except WidetableError as error:
        finding = DoctorFinding(
            "table", error.subject, error.found, error.expected, "the table", error.action
        )
        return DoctorReport(path, None, 0, deep, (finding,))


def repair(path: str, yes: bool, dry_run: bool, deep: bool, format: str) -> int:
    """Print what a repair removes and which of its rows can be read; carry it out with `yes`.

    deep: read every live file; without it only the sizes of files are checked.
    """
    _check_not_both(yes, dry_run)
    result = Table.open(path).repair(dry_run=not yes, deep=deep)
    write_lines(format, result.to_dict(), repair_lines(result, is_dry=not yes))
    return DONE


def rollback(
    path: str,
    snapshot: int | None,
    tag: str | None,
    timestamp: str | None,
    yes: bool,
    dry_run: bool,
    format: str,
) -> int:
    """Print what a rollback undoes; carry it out with `yes`.

    One of snapshot, tag and timestamp names the target; the operation refuses none and several.
    """
    _check_not_both(yes, dry_run)
    result = Table.open(path).rollback(snapshot, timestamp, tag, dry_run=not yes)
    write_lines(format, result.to_dict(), rollback_lines(result, is_dry=not yes))
    return DONE


def _check_not_both(yes: bool, dry_run: bool) -> None:
    """Raise InvalidError if both --yes and --dry-run are given."""
    if yes and dry_run:
        raise InvalidError(
            "--yes and --dry-run", found="both", expected="one of them", action="Omit the other."
        )
