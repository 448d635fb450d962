"""Names of the files that a job has in the directory `service` of a table (ours).

    widetable-writer-<job>                    what it says of itself (`writer_registration`)
    widetable-barrier-plan-<job>-<barrier>    what it takes after a barrier (`barrier_plan`)

A job's name is escaped; a longer one gives way to its digest, and what is escaped has no such beginning. Pure.
"""

from __future__ import annotations

import hashlib
from typing import Final

from widetable.escaped_text import escape

_WRITER: Final = "widetable-writer-"
_PLAN: Final = "widetable-barrier-plan-"
# Leaves room for a barrier, and for what clients put around a name while they write the file.
_LONGEST_BYTES: Final = 160
_DIGEST: Final = "%sha256-"


def registration_name(job: str) -> str:
    """Of what a job says of itself."""
    return _WRITER + _name(job)


def is_registration(name: str) -> bool:
    """Whether a file is named like that."""
    return name.startswith(_WRITER)


def plan_name(job: str, barrier: int) -> str:
    """Of what a job takes after a barrier."""
    return f"{_PLAN}{_name(job)}-{barrier}"


def barrier_of_plan(name: str, job: str) -> int | None:
    """The barrier in the name of a plan of the job, None for other names."""
    prefix = f"{_PLAN}{_name(job)}-"
    number = name.removeprefix(prefix) if name.startswith(prefix) else ""
    return int(number) if number.isascii() and number.isdigit() else None


def _name(job: str) -> str:
    name = escape(job)
    if len(name.encode()) > _LONGEST_BYTES:
        name = _DIGEST + hashlib.sha256(job.encode()).hexdigest()
    return name
