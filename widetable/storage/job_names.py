"""Names of jobs, which are those of their writers, and of a job's files in `service` of a table (not in Paimon).

    widetable-writer-<job>                    its registration (`writer_registration`)
    widetable-barrier-plan-<job>-<barrier>    its plan: what it reads after a barrier (`barrier_plan`)
    widetable-barrier-plan-<job>%revision-<number>-<barrier>    a plan after a revision of its tables
    widetable-staged-<job>                    the commit that it is about to publish (`staged_commit`)

A job's name is escaped. The digest replaces a long name; no escaped name begins as a digest does. Pure.
`job_name` raises InvalidError.

    plan_name("a", 5, 2)                               widetable-barrier-plan-a%revision-2-5
    plan_of("widetable-barrier-plan-a-5-7", "a-5")     (0, 7)
    plan_of("widetable-barrier-plan-a-5-7", "a")       None: the plan of another job

A name may end with a number, so a plan's name is parsed with the name of its job, and never split at its dashes.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from widetable.arguments import label
from widetable.storage.escaped_text import escape

_LONGEST_NAME_BYTES: Final = 200
_WRITER: Final = "widetable-writer-"
_PLAN: Final = "widetable-barrier-plan-"
_STAGED: Final = "widetable-staged-"
# An escaped name contains no % that is not followed by two hex digits.
_REVISION: Final = "%revision-"
# Leaves room for a barrier, and for what clients add to a name while they write the file.
_LONGEST_BYTES: Final = 160
_DIGEST: Final = "%sha256-"


def job_name(value: Any, what: str) -> str:
    """Check the name of a job or writer.

    Parameters
    ----------
    value : any
        What the caller gave.
    what : str
        What has the name, for messages.

    Returns
    -------
    str
        The name.

    Raises
    ------
    InvalidError
        No job can have that name.
    """
    return label(value, what, _LONGEST_NAME_BYTES)


def registration_name(job: str) -> str:
    """Return the name of a job's registration."""
    return _WRITER + _name(job)


def is_registration(name: str) -> bool:
    """Return whether a file name is that of a registration."""
    return name.startswith(_WRITER)


def staged_name(job: str) -> str:
    """Return the name of the file of a job's staged commit."""
    return _STAGED + _name(job)


def is_staged(name: str) -> bool:
    """Return whether a file name is that of a staged commit."""
    return name.startswith(_STAGED)


def plan_name(job: str, barrier: int, revision: int = 0) -> str:
    """Return the name of a job's plan after a barrier."""
    return f"{_PLAN}{_name(job)}{f'{_REVISION}{revision}' if revision else ''}-{barrier}"


def plan_of(name: str, job: str) -> tuple[int, int] | None:
    """Return (revision, barrier) in the name of a plan of the job, None for other names. Revision 0: before any."""
    prefix = re.escape(_PLAN + _name(job))
    match = re.fullmatch(rf"{prefix}(?:{_REVISION}([0-9]+))?-([0-9]+)", name)
    return (int(match[1] or 0), int(match[2])) if match else None


def _name(job: str) -> str:
    """Return a job's name for file names: escaped, so that it cannot leave the directory, of at most 160 bytes.

    Two jobs share a file name only if their digests are equal. A digest does not tell the name; the file contains it.
    """
    name = escape(job)
    if len(name.encode()) > _LONGEST_BYTES:
        name = _DIGEST + hashlib.sha256(job.encode()).hexdigest()
    return name
