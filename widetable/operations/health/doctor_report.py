"""The findings of a doctor: values, and the commands that repair what they name. Pure; raises nothing."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Any

from widetable.errors import WidetableError


def command_line(*words: str) -> str:
    """Return a command line of `widetable`, quoted for a shell.

    Parameters
    ----------
    *words : str
        The words after `widetable`.

    Returns
    -------
    str
        The line.
    """
    return shlex.join(("widetable", *words))


@dataclass(frozen=True)
class DoctorFinding:
    """Something that is wrong in a table.

    Attributes
    ----------
    check : str
        The name of the check of `Table.doctor`.
    subject : str
        The file, option or table.
    found, expected : str
        The facts, as text.
    concerned : str
        How much is affected, as text.
    action : str
        What to do, a sentence.
    command : str
        The shell command that repairs it; "" where no command does.
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
    """What `Table.doctor` has checked, and what is wrong.

    Attributes
    ----------
    path : str
        The directory of the table.
    snapshot_id : int or None
        The newest snapshot. None: there is none, or it is unknown.
    files : int
        How many files were checked.
    deep : bool
        Whether the content of files was read.
    findings : tuple of DoctorFinding
        What is wrong.
    not_checked : tuple of str
        What was not checked, and may be wrong although no finding says so; a sentence each.
    past : tuple of str
        Damaged files that only older snapshots need. Those snapshots cannot be read; the files are deleted when they
        expire.
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
        """Return the fields as values that JSON has.

        Returns
        -------
        dict of str to any
            `ok` and the fields, by name; nested results are dicts.
        """
        return {"ok": self.ok, **asdict(self)}
