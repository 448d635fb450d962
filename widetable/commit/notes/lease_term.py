"""For how long a lease holds: until its time is up, and no longer than its process lives.

A process of this machine that has ended holds nothing (`process_identity`). A time that lies further ahead than any
such lease can have been taken for was written by a clock that is wrong: it is not believed either, or one writer whose
clock is a year ahead would hold things up for a year. Clocks that disagree by less make a lease longer or shorter.

    leases of at most 60 s; time left by this clock     its process             force
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
from widetable.commit.notes.skipped_files import pass_over
from widetable.errors import DamagedError
from widetable.storage.file_io import FileIO

# How much longer than its longest duration a lease may seem to run because clocks disagree.
_DISBELIEF: Final = 2


class LeaseState(Enum):
    """ACTIVE: it holds. EXPIRED: its time is up. INVALID: it never could, or can no more, whatever its time says."""

    ACTIVE = "in force"
    EXPIRED = "over"
    INVALID = "void"


class NotedLease(NamedTuple):
    """A file that holds something: kind of lease, its path, whose it is and the first snapshot that it holds, where it
    says so; until when, epoch milliseconds, and whether it does.
    """

    kind: str
    path: str
    owner: str | None
    snapshot_id: int | None
    expires_millis: int
    lease_state: LeaseState


@dataclass(frozen=True)
class LeaseTerm:
    """expires_millis: wall clock since the epoch. process: its identity; None where nothing is known of it."""

    expires_millis: int
    process: str | None

    @staticmethod
    def of(values: Mapping[str, Any]) -> LeaseTerm:
        """Of a note. A process of another form, of a later version, is not known."""
        process = values.get("process")
        return LeaseTerm(values["expires_millis"], process if isinstance(process, str) else None)

    def state(self, path: str, longest_millis: int, clock: Clock) -> LeaseState:
        """Whether it holds now. longest_millis: for which such a lease is taken at most."""
        left_millis = self.expires_millis - clock.now_nanos() // 1_000_000
        if left_millis <= 0:
            return LeaseState.EXPIRED
        if left_millis > _DISBELIEF * longest_millis:
            pass_over(
                DamagedError(
                    path,
                    found=f"a lease that runs for {left_millis} ms more",
                    expected=f"{_DISBELIEF * longest_millis} ms at most",
                    action="Set the clock of the machine that wrote it, or of this one; it is not in force.",
                )
            )
            return LeaseState.INVALID
        if self.process is not None and has_ended(self.process):
            return LeaseState.INVALID
        return LeaseState.ACTIVE


def from_now(duration_millis: int, clock: Clock) -> dict[str, Any]:
    """What a note says of a lease that this process takes or renews now."""
    expires_millis = clock.now_nanos() // 1_000_000 + duration_millis
    return {"expires_millis": expires_millis, "process": this_process()}


class Held(NamedTuple):
    """A file that holds snapshots. ended_millis: when it stopped to, None while it does; noted: None for one that
    cannot be read.
    """

    path: str
    ended_millis: int | None
    noted: NotedLease | None


def held(
    kind: str,
    note: JsonNote,
    file_io: FileIO,
    path: str,
    modified_millis: int,
    longest_millis: int,
    clock: Clock,
) -> Held | None:
    """What a file says, with its process as the owner; None for one that went away. modified_millis: its own time,
    which counts for one that says nothing, or nothing that is true. longest_millis: see `LeaseTerm.state`.
    """
    try:
        values = note.read(file_io, path)
    except DamagedError as damage:
        pass_over(damage)
        return Held(path, modified_millis, None)
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
    return Held(path, ended[lease_state], noted)
