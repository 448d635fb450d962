"""The findings of a doctor: values, and the commands that repair what they name. Pure; raises nothing."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Any

from widetable.errors import WidetableError


def command_line(*words: str) -> str:
    """Return a command line of `widetable`, quoted for a shell."""
    return shlex.join(("widetable", *words))


@dataclass(frozen=True)
class DoctorFinding:
    """Describes one thing that is wrong with a table.

    check: one of those of `doctor`. subject: a file, option or table. concerned: what is affected, as text. command:
    the command that repairs it, quoted for a shell; empty if no command does.
    """

    __module__ = "widetable"

    check: str
    subject: str
    found: str
    expected: str
    concerned: str
    action: str
    command: str = ""

    def __str__(self) -> str:
        concerned = f" ({self.concerned})" if self.concerned else ""
        return f"{self.subject}: found {self.found}; expected {self.expected}{concerned}. {self.action}"


def of_error(
    check: str, error: WidetableError, concerned: str = "", command: str = ""
) -> DoctorFinding:
    """Turn an error that a check met into a finding."""
    return DoctorFinding(
        check, error.subject, error.found, error.expected, concerned, error.action, command
    )


@dataclass(frozen=True)
class DoctorReport:
    """Lists everything that is wrong with a table.

    snapshot_id: the newest one; None without any, or if it is not known. files: how many were checked. not_checked:
    parts in which something may be wrong without a finding. past: damaged files that only older snapshots need; these
    snapshots cannot be read, and the files go when they expire.
    """

    __module__ = "widetable"

    path: str
    snapshot_id: int | None
    files: int
    deep: bool
    findings: tuple[DoctorFinding, ...]
    not_checked: tuple[str, ...] = ()
    past: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong in what was checked."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values of JSON."""
        return {"ok": self.ok, **asdict(self)}
