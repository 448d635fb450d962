"""Commands for a table that is damaged: doctor, repair, rollback.

What changes rows only says what it would do, unless it is called with --yes.

    without --yes    the operation with dry_run=True: the same plan, nothing written
    --dry-run        says that in words; with --yes it is refused, as nobody can mean both
    --yes            the plan is made anew and carried out, so it may differ from what was shown before

doctor changes nothing and has exit code 1 for findings; repair and rollback have 0 for all that they did.
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
    """Lists what is wrong with a table, or each of a warehouse or database; the exit code says whether anything is."""
    paths = table_paths(path)
    if paths is not None:
        return _doctor_all(path, paths, deep, format)
    report = Table.open(path).doctor(deep)
    write_lines(format, report.to_dict(), doctor_lines(report))
    return DONE if report.ok else FOUND


def _doctor_all(path: str, paths: list[str], deep: bool, format: str) -> int:
    """All reports, healthy ones too, then how many tables are ill. Nothing is printed before the last was looked at."""
    reports = [_report(each, deep) for each in paths]
    ill = sum(not report.ok for report in reports)
    lines = [line for report in reports for line in doctor_lines(report)]
    last = f"{counted(len(reports), 'table')}, {ill} with findings", "error" if ill else "good"
    found = {"ok": not ill, "path": path, "tables": [one.to_dict() for one in reports]}
    write_lines(format, found, [*lines, last])
    return FOUND if ill else DONE


def _report(path: str, deep: bool) -> DoctorReport:
    """What cannot be opened is a finding. One bad table of a warehouse must not hide what the others have."""
    try:
        return Table.open(path).doctor(deep)
    except WidetableError as error:
        finding = DoctorFinding(
            "table", error.subject, error.found, error.expected, "the table", error.action
        )
        return DoctorReport(path, None, 0, deep, (finding,))


def repair(path: str, yes: bool, dry_run: bool, deep: bool, format: str) -> int:
    """Says what a repair takes out and what of it can be read; does it with `yes`.

    deep: reads every live file; without it files are judged by their size.
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
    """Says what going back undoes; goes back with `yes`. Where to is said by one of snapshot, tag and timestamp;
    the operation refuses none and several.
    """
    _check_not_both(yes, dry_run)
    result = Table.open(path).rollback(snapshot, timestamp, tag, dry_run=not yes)
    write_lines(format, result.to_dict(), rollback_lines(result, is_dry=not yes))
    return DONE


def _check_not_both(yes: bool, dry_run: bool) -> None:
    """--dry-run is what happens without --yes."""
    if yes and dry_run:
        raise InvalidError(
            "--yes and --dry-run", found="both", expected="one", action="Leave the other out."
        )
