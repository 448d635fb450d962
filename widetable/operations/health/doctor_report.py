"""What a doctor finds: values, and the commands that mend it. Pure; raises nothing."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Any

from widetable.errors import WidetableError


def command_line(*words: str) -> str:
    """Of `widetable`, as a shell takes it."""
    return shlex.join(("widetable", *words))


@dataclass(frozen=True)
class DoctorFinding:
    """check: one of those of `doctor`. subject: a file, option or table. concerned: how much, as text. command: that
    mends it, as a shell takes it; empty where no command does.
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
    """What a check met."""
    return DoctorFinding(
        check, error.subject, error.found, error.expected, concerned, error.action, command
    )


@dataclass(frozen=True)
class DoctorReport:
    """snapshot_id: the newest one; None without any, or where that is not known. files: how many were looked at.
    not_checked: what else there is, in which something may be wrong that no finding says. past: damaged files that only
    older snapshots need, which cannot be read; they go when these expire.
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
        """Whether nothing is wrong in what was looked at."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """As values of JSON."""
        return {"ok": self.ok, **asdict(self)}
