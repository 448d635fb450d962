"""Registrations: which jobs write into a table, what they read, and which columns are whose (0043).

On disk (other clients never look there), one file per job in the directory of each table that it writes into:

    service/widetable-writer-<name of the job, escaped> = JSON object
        {"job": its name, which is the name of its writer in the table's barriers,
         "kind": "root" where its sources are outside, "derived" where they are tables,
         "state": "pending" while it is planned, then "running",
         "sources": ["<db>.<table>", ..],
         "sinks": [["<db>.<table>", [its columns] or null: all], ..], the lead first,
         "run": which of its processes wrote this,
         "expires_millis": wall clock since the epoch, "process": identity, or null}

One that is not in force (`lease_term`) says nothing of whether its job goes on: its writer may be waited for all the
same, so it stays until the job is dropped. Safety of rows never depends on these files; who may commit is said by the
snapshots (`barrier_state`). Raises DamagedError for one that cannot be read, InvalidError for values that make none,
StorageError.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from widetable.commit.barriers.barrier_state import DERIVED as DERIVED
from widetable.commit.barriers.barrier_state import ROOT
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.json_note import (
    JsonNote,
    is_anything,
    is_pairs,
    is_text,
    is_texts,
    is_whole,
)
from widetable.commit.notes.lease_file import LeaseFile
from widetable.commit.notes.lease_term import LeaseState, LeaseTerm, from_now
from widetable.commit.notes.process_identity import this_process
from widetable.commit.notes.skipped_files import pass_over
from widetable.errors import DamagedError, NotFoundError
from widetable.storage.file_io import FileIO
from widetable.storage.job_names import is_registration, registration_name
from widetable.storage.paths import TablePaths

PENDING: Final = "pending"
RUNNING: Final = "running"
# For which a job that is planned has its place, and one that runs without renewing it.
PENDING_MILLIS: Final = 600_000
RUNNING_MILLIS: Final = 60_000


@dataclass(frozen=True)
class JobSink:
    """A table that a job writes into. columns: that it writes besides the key; None: all."""

    __module__ = "widetable"

    table: str
    columns: tuple[str, ...] | None


@dataclass(frozen=True)
class Job:
    """One stream of commits. name: of its writer, too. kind: `root` or `derived`. state: `pending` or `running`, as it
    said last. sources: tables, as `db.name`. sinks: the lead first. run: which of its processes speaks for it.
    silent_millis: for how long it has not been heard of, where a table waits for it and its registration has run out or
    its process has ended; None where it is heard of, or nothing is known.
    """

    __module__ = "widetable"

    name: str
    kind: str
    state: str
    sources: tuple[str, ...]
    sinks: tuple[JobSink, ...]
    run: str
    silent_millis: int | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """That it writes into, the lead first."""
        return tuple(sink.table for sink in self.sinks)

    def with_sink(self, sink: JobSink) -> Job:
        """The same with what it writes there."""
        others = {one.table: one for one in self.sinks}
        return replace(self, sinks=tuple({**others, sink.table: sink}.values()))


class RegisteredJob(NamedTuple):
    """What a file says. force: whether it holds now. is_own: whether this process wrote it, for as long as it lives.
    data: the bytes. silent_millis: how long ago it was written or renewed last, where it is not in force.
    """

    job: Job
    path: str
    expires_millis: int
    lease_state: LeaseState
    is_own: bool
    data: bytes
    silent_millis: int | None


_NOTE: Final = JsonNote(
    "registration of a job",
    {
        "job": is_text,
        "kind": lambda value: value in (ROOT, DERIVED),
        "state": lambda value: value in (PENDING, RUNNING),
        "sources": is_texts,
        "sinks": is_pairs(lambda columns: columns is None or is_texts(columns)),
        "run": is_text,
        "expires_millis": is_whole,
        "process": is_anything,
    },
    "Delete it and register the job again: nobody knows which columns it writes.",
)


@dataclass(frozen=True, eq=False)
class WriterRegistration:
    """Made by `write_registration`; only for the process that made it. `lease_renewal` renews it for as long as
    somebody has it. Nobody having it does not end the job: it runs out.
    """

    file_io: FileIO
    path: str
    job: Job
    process: str | None
    clock: Clock
    file: LeaseFile = field(repr=False)

    @property
    def duration_millis(self) -> int:
        """For which it is written, and renewed."""
        return _duration_millis(self.job)

    @property
    def is_ours(self) -> bool:
        """Whether this process wrote it, and has not removed it."""
        return self.file.is_ours

    def write(self) -> None:
        """Put it there, whatever was there."""
        self.file.write(self._from_now)

    def renew(self) -> bool:
        """Start the duration again; False when it is another run's by now, or was removed."""
        return self._is_there() and self.file.write(self._from_now)

    def release(self) -> None:
        """Remove it, unless it is another run's by now."""
        if self._is_there():
            self.file.remove()

    def _is_there(self) -> bool:
        found = _read(self.file_io, self.path, self.clock) if self.is_ours else None
        return found is not None and found.job.run == self.job.run

    def _from_now(self) -> bytes:
        job = self.job
        values = {
            "job": job.name,
            "kind": job.kind,
            "state": job.state,
            "sources": job.sources,
            "sinks": [[sink.table, sink.columns] for sink in job.sinks],
            "run": job.run,
            **from_now(self.duration_millis, self.clock),
            "process": self.process,
        }
        return _NOTE.to_json(self.path, values)


def write_registration(
    file_io: FileIO,
    paths: TablePaths,
    job: Job,
    clock: Clock | None = None,
    *,
    ends_with_process: bool,
) -> WriterRegistration:
    """Say so in a table. ends_with_process: it holds no longer than this process lives."""
    process = this_process() if ends_with_process else None
    path = paths.job_file(registration_name(job.name))
    clock, file = clock or SystemClock(), LeaseFile(file_io, path)
    registration = WriterRegistration(file_io, path, job, process, clock, file)
    registration.write()
    return registration


def registration_of(
    file_io: FileIO, paths: TablePaths, job: str, clock: Clock | None = None
) -> RegisteredJob | None:
    """What a job says in a table; None where it says nothing, or nothing that can be read."""
    return _read(file_io, paths.job_file(registration_name(job)), clock or SystemClock())


def registrations(
    file_io: FileIO, paths: TablePaths, clock: Clock | None = None
) -> list[RegisteredJob]:
    """Of a table, in force or not, by name; those that cannot be read are left out."""
    found = (_read(file_io, path, clock or SystemClock()) for path in _files(file_io, paths))
    return sorted((one for one in found if one is not None), key=lambda one: one.job.name)


def silent_jobs(notes: Iterable[RegisteredJob]) -> dict[str, int]:
    """Jobs whose registration is not in force, and for how long they have not been heard of, milliseconds."""
    return {note.job.name: note.silent_millis for note in notes if note.silent_millis is not None}


def damaged_registrations(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Those that cannot be read."""
    return _NOTE.damaged(file_io, _files(file_io, paths))


def _files(file_io: FileIO, paths: TablePaths) -> list[str]:
    service_dir = paths.service_dir
    names = (entry.name for entry in file_io.list(service_dir) if not entry.is_dir)
    return [f"{service_dir}/{name}" for name in names if is_registration(name)]


def _read(file_io: FileIO, path: str, clock: Clock) -> RegisteredJob | None:
    try:
        data = file_io.read(path)
        values = _NOTE.from_json(data, path)
    except NotFoundError:
        return None
    except DamagedError as damage:
        pass_over(damage)
        return None
    name, kind, state, sources, pairs, run, *_ = values.values()
    sinks = tuple(
        JobSink(table, None if columns is None else tuple(columns)) for table, columns in pairs
    )
    job, term = Job(name, kind, state, tuple(sources), sinks, run), LeaseTerm.of(values)
    lease_state = term.state(path, PENDING_MILLIS, clock)
    is_own = term.process is not None and term.process == this_process()
    silent_millis = None
    if lease_state is not LeaseState.ACTIVE:
        written_millis = term.expires_millis - _duration_millis(job)
        silent_millis = max(0, clock.now_nanos() // 1_000_000 - written_millis)
    return RegisteredJob(job, path, term.expires_millis, lease_state, is_own, data, silent_millis)


def _duration_millis(job: Job) -> int:
    return PENDING_MILLIS if job.state == PENDING else RUNNING_MILLIS
