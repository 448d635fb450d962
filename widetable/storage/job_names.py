"""Names of jobs, which are those of their writers, and of the files that one has in `service` of a table (ours).

    widetable-writer-<job>                    what it says of itself (`writer_registration`)
    widetable-barrier-plan-<job>-<barrier>    what it takes after a barrier (`barrier_plan`)
    widetable-barrier-plan-<job>%revision-<number>-<barrier>    the same behind a revision of its tables
    widetable-staged-<job>                    what it is about to commit (`staged_commit`)

A job's name is escaped; a longer one gives way to its digest, and what is escaped has no such beginning. Pure.
`job_name` raises InvalidError.

    plan_name("a", 5, 2)                               widetable-barrier-plan-a%revision-2-5
    plan_of("widetable-barrier-plan-a-5-7", "a-5")     (0, 7)
    plan_of("widetable-barrier-plan-a-5-7", "a")       None: the plan of another job

A name may end with a number, so a plan is read with its job at hand, never split at its dashes.
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
# No escaped name has a % that is not followed by two hex digits.
_REVISION: Final = "%revision-"
# Leaves room for a barrier, and for what clients put around a name while they write the file.
_LONGEST_BYTES: Final = 160
_DIGEST: Final = "%sha256-"


def job_name(value: Any, what: str) -> str:
    """A name that a job, or a writer, may have. what: it is of, for messages."""
    return label(value, what, _LONGEST_NAME_BYTES)


def registration_name(job: str) -> str:
    """Of what a job says of itself."""
    return _WRITER + _name(job)


def is_registration(name: str) -> bool:
    """Whether a file is named like that."""
    return name.startswith(_WRITER)


def staged_name(job: str) -> str:
    """Of what a job is about to commit."""
    return _STAGED + _name(job)


def is_staged(name: str) -> bool:
    """Whether a file is named like that."""
    return name.startswith(_STAGED)


def plan_name(job: str, barrier: int, revision: int = 0) -> str:
    """Of what a job takes after a barrier."""
    return f"{_PLAN}{_name(job)}{f'{_REVISION}{revision}' if revision else ''}-{barrier}"


def plan_of(name: str, job: str) -> tuple[int, int] | None:
    """(revision, barrier) in the name of a plan of the job, None for other names. Revision 0: before any."""
    prefix = re.escape(_PLAN + _name(job))
    match = re.fullmatch(rf"{prefix}(?:{_REVISION}([0-9]+))?-([0-9]+)", name)
    return (int(match[1] or 0), int(match[2])) if match else None


def _name(job: str) -> str:
    """As it stands in files: escaped, so that no name leads out of the directory; of 160 bytes at most.

    Two jobs have one file name only if their digests are equal; a digest does not give the name back,
    which stands in the file.
    """
    name = escape(job)
    if len(name.encode()) > _LONGEST_BYTES:
        name = _DIGEST + hashlib.sha256(job.encode()).hexdigest()
    return name
