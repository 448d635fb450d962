"""Reports of damage, repairs and rollbacks as lines for people: (line, style), styles of `console`.

Each ends with a verdict in one line: nothing to do, what `--yes` would do, or what was done. If a finding suggests a
command, it is a separate line, which can be copied.
"""

from __future__ import annotations

from collections.abc import Iterator

from widetable.messages.counted import counted
from widetable.operations.handle.file_origins import Origin
from widetable.operations.health.doctor_report import DoctorReport, command_line
from widetable.operations.health.repair import RepairedFile, RepairResult
from widetable.operations.health.rollback import RollbackResult
from widetable.operations.health.whole_snapshot import SAME_ROWS

# The number of undone commits that are listed.
_UNDONE_SHOWN = 20


def doctor_lines(report: DoctorReport) -> Iterator[tuple[str, str]]:
    """Yield all findings, and a verdict."""
    at = "no snapshot" if report.snapshot_id is None else f"snapshot {report.snapshot_id}"
    how = "read" if report.deep else "checked by size"
    yield f"{report.path}, {at}, {counted(report.files, 'file')} {how}", "plain"
    for finding in report.findings:
        yield f"  {finding.check}: {finding}", "error"
        if finding.command:
            yield f"    {finding.command}", "plain"
    for damage in report.past:
        yield f"  only older snapshots need: {damage}", "warning"
    for part in report.not_checked:
        yield f"  not checked: {part}", "plain"
    if report.ok:
        where = " in the checked parts" if report.not_checked else ""
        yield f"ok: nothing is wrong{where}", "good"
    else:
        yield counted(len(report.findings), "finding"), "error"


def repair_lines(result: RepairResult, *, is_dry: bool) -> Iterator[tuple[str, str]]:
    """Yield for each file what is kept and what is lost. is_dry: nothing was done, so there is no snapshot."""
    for file in result.files:
        yield str(file.damage), "error"
        yield from ((f"  {line}", "plain") for line in _file_lines(file))
    lost = sum(file.lost_rows for file in result.files)
    if not result.files:
        yield (
            "nothing to repair: all live data files are undamaged (doctor checks changelog files, too)",
            "good",
        )
    elif is_dry:
        if result.whole_snapshot_id is not None:
            yield f"or go back to snapshot {result.whole_snapshot_id}: {SAME_ROWS}", "good"
            yield f"  {_rollback_command(result.path, result.whole_snapshot_id)}", "plain"
        yield (
            f"{counted(len(result.files), 'file')} to repair, {counted(lost, 'row')} to lose; run it with --yes",
            "warning",
        )
    else:
        repaired = f"{counted(len(result.files), 'file')} repaired in snapshot {result.snapshot_id}"
        text = f"{repaired}, {counted(lost, 'row')} lost"
        yield text, "warning"


def _rollback_command(path: str, snapshot_id: int) -> str:
    return command_line("rollback", path, "--snapshot", str(snapshot_id))


def _file_lines(file: RepairedFile) -> Iterator[str]:
    """Yield the ranges of keys and sequence numbers with lost rows, and the commits that wrote the file."""
    yield f"{counted(file.kept_rows, 'row')} can be read, {file.lost_rows} cannot"
    for lost in file.lost:
        numbers = f"{lost.min_sequence_number} to {lost.max_sequence_number}"
        keys = f"{dict(lost.first_key)} to {dict(lost.last_key)}"
        yield f"lost: {counted(lost.rows, 'row')}, keys {keys}, sequence numbers in {numbers}"
    yield f"written by {_commits(file.origin)}"


def _commits(origin: Origin) -> str:
    """Return the commits of an origin; it is incomplete if rows of the file are older than the existing snapshots."""
    commits = [f"{c.user} {c.identifier} (snapshot {c.snapshot_id})" for c in origin.commits]
    expired = [] if origin.is_complete else ["commits whose snapshots expired"]
    return ", ".join(commits + expired)


def rollback_lines(result: RollbackResult, *, is_dry: bool) -> Iterator[tuple[str, str]]:
    """Yield the effect of a rollback, and the first twenty commits that it undoes, in the result's order."""
    files = (
        f"{counted(result.restored_files, 'file')} restored, {result.removed_files} removed, "
        f"{result.kept_files} kept"
    )
    yield f"from snapshot {result.latest_id} to the rows of {result.target_id}: {files}", "plain"
    for commit in result.undone[:_UNDONE_SHOWN]:
        text = f"snapshot {commit.snapshot_id}, {commit.user} {commit.identifier}"
        yield f"  undone: {text}", "plain"
    if len(result.undone) > _UNDONE_SHOWN:
        yield f"  and {len(result.undone) - _UNDONE_SHOWN} more", "plain"
    if not (result.restored_files or result.removed_files or result.undone):
        yield "nothing to do", "good"
    elif is_dry:
        yield "nothing is changed yet; run it with --yes", "warning"
    else:
        yield f"done in snapshot {result.snapshot_id}; restart readers of changes", "good"
