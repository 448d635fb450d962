"""Registrations: which jobs write into a table, what they read, and which columns each one writes (0043).

On disk (other clients ignore these files), one file per job in the directory of each table that it writes into:

    service/widetable-writer-<name of the job, escaped> = JSON object
        {"job": its name, which is the name of its writer in the table's barriers,
         "kind": "root" if its sources are outside, "derived" if they are tables,
         "state": "pending" while it is planned, then "running",
         "sources": ["<db>.<table>", ..],
         "sinks": [["<db>.<table>", [its columns] or null: all], ..], the lead first,
         "run": which of its processes wrote this,
         "expires_millis": wall clock since the epoch, "process": identity, or null}

A registration that is not active (`lease_term`) does not tell whether its job continues: the table may still wait for
its writer, so the file stays until the job is dropped. The safety of rows never depends on these files; snapshots
record which run may commit (`barrier_state`). Raises DamagedError for a file that cannot be read, InvalidError for
values that cannot be written, StorageError.
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
from widetable.commit.notes.skipped_files import log_skipped
from widetable.errors import DamagedError, NotFoundError
from widetable.storage.file_io import FileIO
from widetable.storage.job_names import is_registration, registration_name
from widetable.storage.paths import TablePaths

PENDING: Final = "pending"
RUNNING: Final = "running"
# How long the registration of a planned job lasts, and that of a running job without a renewal.
PENDING_MILLIS: Final = 600_000
RUNNING_MILLIS: Final = 60_000
# How often a running job renews its registration by itself: a renewal may fail twice.
RENEWAL_MILLIS: Final = RUNNING_MILLIS // 3


@dataclass(frozen=True)
class JobSink:
    """A table that a job writes into.

    Attributes
    ----------
    table : str
        `db.name` of the table.
    columns : tuple of str or None
        The columns that the job writes besides the key. None: all.
    """

    __module__ = "widetable"

    table: str
    columns: tuple[str, ...] | None


@dataclass(frozen=True)
class Job:
    """One stream of commits.

    Attributes
    ----------
    name : str
        The name of the job, and of its writer.
    kind : str
        `root`, if its sources lie outside, or `derived`.
    state : str
        `pending` or `running`, as the job reported it last.
    sources : tuple of str
        The tables that it reads, as `db.name`.
    sinks : tuple of JobSink
        The tables that it writes, the lead first.
    run : str
        The id of the run that speaks for the job: one of its processes.
    silent_millis : int or None
        For how many milliseconds the job has been silent, if a table waits for it and its registration has expired or
        its process has ended. None: it is not silent, or nothing is known.
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
        """The tables that the job writes, the lead first."""
        return tuple(sink.table for sink in self.sinks)

    def with_sink(self, sink: JobSink) -> Job:
        """Return the job with another sink, which replaces one of the same table.

        Parameters
        ----------
        sink : JobSink
            The sink.

        Returns
        -------
        Job
            The new job.
        """
        others = {one.table: one for one in self.sinks}
        return replace(self, sinks=tuple({**others, sink.table: sink}.values()))


class RegisteredJob(NamedTuple):
    """A registration as read from its file. is_own: whether this process wrote it, for as long as it lives.
    data: the bytes. silent_millis: time since it was last written or renewed; None while it is active.
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
    "Delete the file and register the job again: until then it is not known which columns the job writes.",
)


@dataclass(frozen=True, eq=False)
class WriterRegistration:
    """A registration of this process, made by `write_registration`. `lease_renewal` renews it while an object refers to
    it; after that it expires, which does not end the job.
    """

    file_io: FileIO
    path: str
    job: Job
    process: str | None
    clock: Clock
    file: LeaseFile = field(repr=False)

    @property
    def duration_millis(self) -> int:
        """The time after which it expires if it is not renewed."""
        return _duration_millis(self.job)

    @property
    def is_ours(self) -> bool:
        """Whether this process wrote it and has not removed it."""
        return self.file.is_ours

    def write(self) -> None:
        """Write the file, in place of any other."""
        self.file.write(self._from_now)

    def renew(self) -> bool:
        """Start the duration again; return False if another run has replaced it, or it was removed."""
        return self._is_still_ours() and self.file.write(self._from_now)

    def release(self) -> None:
        """Remove the file, unless another run has replaced it."""
        if self._is_still_ours():
            self.file.remove()

    def _is_still_ours(self) -> bool:
        stored = _read(self.file_io, self.path, self.clock) if self.is_ours else None
        return stored is not None and stored.job.run == self.job.run

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
    """Register a job in a table. ends_with_process: the registration ends with this process."""
    process = this_process() if ends_with_process else None
    path = paths.job_file(registration_name(job.name))
    clock, file = clock or SystemClock(), LeaseFile(file_io, path)
    registration = WriterRegistration(file_io, path, job, process, clock, file)
    registration.write()
    return registration


def registration_of(
    file_io: FileIO, paths: TablePaths, job: str, clock: Clock | None = None
) -> RegisteredJob | None:
    """Return the registration of a job in a table; None if there is none, or it cannot be read."""
    return _read(file_io, paths.job_file(registration_name(job)), clock or SystemClock())


def registrations(
    file_io: FileIO, paths: TablePaths, clock: Clock | None = None
) -> list[RegisteredJob]:
    """Return the registrations of a table, active or not, sorted by job; those that cannot be read are left out."""
    stored = (_read(file_io, path, clock or SystemClock()) for path in _files(file_io, paths))
    return sorted((one for one in stored if one is not None), key=lambda one: one.job.name)


def silent_jobs(notes: Iterable[RegisteredJob]) -> dict[str, int]:
    """Return the jobs whose registration is not active, with the milliseconds since their last sign of life."""
    return {note.job.name: note.silent_millis for note in notes if note.silent_millis is not None}


def damaged_registrations(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Return an error for each registration that cannot be read."""
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
        log_skipped(damage)
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
