"""The term of a lease: it is active until its time is up, and no longer than its process lives.

A lease of a process of this machine that has ended is invalid (`process_identity`). So is a lease with more time left
than any lease of its kind can have: a wrong clock wrote it, and a writer whose clock is a year ahead would block others
for a year. Clocks that differ by less make a lease longer or shorter.

    leases of at most 60 s; time left by this clock     its process             state
    0 or less                                           any                     EXPIRED
    up to 120 s                                         lives, or not known     ACTIVE
    up to 120 s                                         has ended here          INVALID
    more                                                any                     INVALID
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from widetable.commit.notes.clock import Clock
from widetable.commit.notes.json_note import JsonNote
from widetable.commit.notes.process_identity import has_ended, this_process
from widetable.commit.notes.skipped_files import log_skipped
from widetable.errors import DamagedError
from widetable.storage.file_io import FileIO

# By which factor a lease may seem to exceed its longest duration because clocks differ.
_CLOCK_TOLERANCE: Final = 2


class LeaseState(Enum):
    """The state of a lease. ACTIVE: it protects something. EXPIRED: its time is up. INVALID: its process has ended, or
    its time is wrong. Inspections show the values.
    """

    ACTIVE = "in force"
    EXPIRED = "over"
    INVALID = "void"


class NotedLease(NamedTuple):
    """A lease as read from its file. owner, snapshot_id: its owner and the first snapshot that it keeps, if the file
    names them. expires_millis: since the epoch.
    """

    kind: str
    path: str
    owner: str | None
    snapshot_id: int | None
    expires_millis: int
    lease_state: LeaseState


@dataclass(frozen=True)
class LeaseTerm:
    """When a lease ends. expires_millis: wall clock since the epoch. process: its identity; None if it is not known."""

    expires_millis: int
    process: str | None

    @staticmethod
    def of(values: Mapping[str, Any]) -> LeaseTerm:
        """Return the term in a note. A process of another form, written by a later version, counts as not known."""
        process = values.get("process")
        return LeaseTerm(values["expires_millis"], process if isinstance(process, str) else None)

    def state(self, path: str, longest_millis: int, clock: Clock) -> LeaseState:
        """Return the state of the lease now. longest_millis: the longest duration of such a lease."""
        left_millis = self.expires_millis - clock.now_nanos() // 1_000_000
        if left_millis <= 0:
            return LeaseState.EXPIRED
        if left_millis > _CLOCK_TOLERANCE * longest_millis:
            log_skipped(
                DamagedError(
                    path,
                    found=f"a lease that runs for {left_millis} ms more",
                    expected=f"{_CLOCK_TOLERANCE * longest_millis} ms at most",
                    action="Set the clock of the machine that wrote it, or of this one; the lease is ignored.",
                )
            )
            return LeaseState.INVALID
        if self.process is not None and has_ended(self.process):
            return LeaseState.INVALID
        return LeaseState.ACTIVE


def from_now(duration_millis: int, clock: Clock) -> dict[str, Any]:
    """Return the term, as in a note, of a lease that this process takes or renews now."""
    expires_millis = clock.now_nanos() // 1_000_000 + duration_millis
    return {"expires_millis": expires_millis, "process": this_process()}


class Hold(NamedTuple):
    """A file that keeps snapshots. ended_millis: when it ceased to keep them, None while it does. noted: its lease,
    None if it cannot be read.
    """

    path: str
    ended_millis: int | None
    noted: NotedLease | None


def read_hold(
    kind: str,
    note: JsonNote,
    file_io: FileIO,
    path: str,
    modified_millis: int,
    longest_millis: int,
    clock: Clock,
) -> Hold | None:
    """Read a file that keeps snapshots, with its process as the owner; None if it was removed. modified_millis: of the
    file; it counts as the end of one that is unreadable or invalid. longest_millis: see `LeaseTerm.state`.
    """
    try:
        values = note.read(file_io, path)
    except DamagedError as damage:
        log_skipped(damage)
        return Hold(path, modified_millis, None)
    if values is None:
        return None
    term, id = LeaseTerm.of(values), values["snapshot_id"] or None
    lease_state = term.state(path, longest_millis, clock)
    ended = {
        LeaseState.ACTIVE: None,
        LeaseState.EXPIRED: term.expires_millis,
        LeaseState.INVALID: modified_millis,
    }
    noted = NotedLease(kind, path, term.process, id, term.expires_millis, lease_state)
    return Hold(path, ended[lease_state], noted)
