"""The life of a job: registered, running, renewed, dropped. Each function is a call of `Topology`.

Raises ConflictError for a job that still runs, or whose columns another job writes, InvalidError for tables that are
not under barriers, NotFoundError for jobs and tables that do not exist, and what reading and writing tables raises.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from widetable.arguments import flag, mapping, names, refused, text
from widetable.commit.barriers.barrier_state import ROOT
from widetable.commit.barriers.writer_registration import (
    DERIVED,
    PENDING,
    RUNNING,
    Job,
    JobSink,
    write_registration,
)
from widetable.commit.notes.lease_term import LeaseState
from widetable.errors import NotFoundError
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.derived_options import WIDENER_OF
from widetable.storage.job_names import job_name
from widetable.topology.barrier_floor import check_consumer, renew_consumer
from widetable.topology.column_claims import check_columns
from widetable.topology.departure import (
    check_agreed,
    check_ended,
    check_waited_for,
    forgotten,
    take_leave,
)
from widetable.topology.job_claim import check_unrevised, claim
from widetable.topology.job_graph import check_flow
from widetable.topology.job_tables import check_alike
from widetable.topology.registered_jobs import JobsOfTable, jobs_of
from widetable.topology.topology_state import (
    TopologyState,
    live_jobs,
    no_job,
    registered_job,
)


def register(
    topology: TopologyState,
    job: str,
    *,
    sources: Sequence[str] = (),
    sinks: Mapping[str, Sequence[str] | None],
) -> Job:
    """Register a job that is planned: what it will read and write.

    The job keeps its columns for ten minutes; `running` reports that it runs. A new registration replaces an earlier
    one.

    Parameters
    ----------
    job : str
        The name of the job.
    sources : list of str, default ()
        The tables that it reads, as `db.name`. (): its sources lie outside.
    sinks : dict of str to list of str
        Each table that it writes, the lead first, to the columns besides the key; None in place of a list: all columns.

    Returns
    -------
    Job
        The job, in state `pending`.

    Raises
    ------
    InvalidError
        A name is not valid, or a table is not under barriers, or their intervals differ.
    NotFoundError
        A table or column does not exist.
    ConflictError
        Another job writes one of the columns and nothing orders their values, the jobs would form a circle, or a
        revision has not ended.

    Examples
    --------
    >>> topology.register("amounts", sources=["shop.visits"], sinks={"shop.amounts": ["amount"]}).state
    'pending'
    """
    new = _planned_job(job, sources, sinks)
    check_alike(new.name, {table: topology._opened(table) for table in (*new.sources, *new.tables)})
    _claim(topology, new)
    _forget_elsewhere(topology, new)
    return new


def _planned_job(
    job: str, sources: Sequence[str], sinks: Mapping[str, Sequence[str] | None]
) -> Job:
    """Check the arguments of `register`, and return the job that they describe."""
    name = job_name(job, "job")
    if name.startswith(WIDENER_OF):
        raise refused(job, "job", f"a name that does not begin with {WIDENER_OF}, as wideners'")
    columns_of = {
        table: None if columns is None else names(columns, "sinks")
        for table, columns in mapping(sinks, "sinks").items()
    }
    if not columns_of:
        raise refused(sinks, "sinks", "a table, at least")
    read = names(sources, "sources")
    if read:
        check_consumer(name)
    return Job(
        name,
        DERIVED if read else ROOT,
        PENDING,
        read,
        tuple(JobSink(table, columns) for table, columns in columns_of.items()),
        str(uuid.uuid4()),
    )


def running(topology: TopologyState, job: str) -> Job:
    """Report that a registered job runs.

    Its process calls `renew` at least once a minute from now on. If the process ends without `drop`, the columns of the
    job are free as soon as no table waits for its writer.

    Parameters
    ----------
    job : str
        The name of the job.

    Returns
    -------
    Job
        The job, in state `running`.

    Raises
    ------
    NotFoundError
        No job of that name is registered.
    ConflictError
        As in `register`.

    Examples
    --------
    >>> topology.running("amounts").state
    'running'
    """
    registered = registered_job(job, topology._read())
    started = replace(registered, state=RUNNING, run=str(uuid.uuid4()))
    _claim(topology, started)
    return started


def renew(topology: TopologyState, job: str) -> Job:
    """Report that a job still runs; its sources keep what it has not read.

    A job whose registration has expired is checked again, like a new one.

    Parameters
    ----------
    job : str
        The name of the job.

    Returns
    -------
    Job
        The job, as it is registered.

    Raises
    ------
    NotFoundError
        No job of that name is registered.
    ConflictError
        The registration had expired, and `register` would be refused.
    """
    tables = topology._read()  # one look: the notes hold what is registered
    registered = registered_job(job, tables)
    notes = [note for table in tables for note in table.notes if note.job.name == job]
    if all(note.lease_state is LeaseState.ACTIVE for note in notes):
        for table in topology._opened_sinks(registered).values():
            _write(topology, registered, table)
    else:
        _claim(topology, registered)
    for source in registered.sources:
        with contextlib.suppress(
            NotFoundError
        ):  # the query itself reports that the source was dropped
            renew_consumer(topology._opened(source), registered.name)
    return registered


def drop(
    topology: TopologyState, job: str, *, force: bool = False, dry_run: bool = False
) -> list[str]:
    """Report that a job has ended for good: no table waits for it any more, and its columns are free.

    What its tables show stays. Expired registrations of jobs that no table waits for are removed too.

    Parameters
    ----------
    job : str
        The name of the job.
    force : bool, default False
        Drop the job even where that raises ConflictError otherwise; a job that still runs returns with its next commit.
    dry_run : bool, default False
        Change nothing; only return the tables.

    Returns
    -------
    list of str
        The tables that the job leaves.

    Raises
    ------
    NotFoundError
        No table has a registration of the job, or waits for it.
    ConflictError
        The job runs in another process, or a root has not come equally far in all of its tables, so that some lack
        rows.
    """
    name, force, dry_run = text(job, "job"), flag(force, "force"), flag(dry_run, "dry_run")
    all_tables = topology._read()
    tables = [
        table
        for table in all_tables
        if name in table.state.members
        or any(job.name == name for job in (*(n.job for n in table.notes), *table.wideners))
    ]
    if not tables:
        raise no_job(name, live_jobs(all_tables))
    if not force:
        check_ended(name, tables)
        check_agreed(name, tables)
    if not dry_run:
        for table, one in (*((table, name) for table in tables), *forgotten(all_tables)):
            take_leave(one, topology._opened(table.name), table)
        _forget_progress(topology, name, all_tables)
        topology._keep_common_barriers()
    return [table.name for table in tables]


def leave(
    topology: TopologyState, table: str, writer: str, *, force: bool = False, dry_run: bool = False
) -> None:
    """Report that a writer of one table will not come back: the table shows its rows without waiting for the writer.

    Its other tables wait for the writer as before.

    Parameters
    ----------
    table : str
        `db.name` of the table.
    writer : str
        The name of the writer.
    force, dry_run
        As in `drop`.

    Raises
    ------
    NotFoundError
        The table does not exist, or does not wait for the writer.
    ConflictError
        As in `drop`.
    """
    name = text(writer, "writer")
    force, dry_run = flag(force, "force"), flag(dry_run, "dry_run")
    opened, tables = topology._opened(text(table, "table")), topology._read()
    of_table = jobs_of(table, opened, topology._clock)
    check_waited_for(name, of_table)
    if not force:
        check_ended(name, [of_table])
        check_agreed(name, tables)
    if not dry_run:
        take_leave(name, opened, of_table)


def _claim(topology: TopologyState, job: Job) -> None:
    """Write the registration into all sinks, then check it against all jobs of the warehouse (`job_claim`)."""
    sinks = topology._opened_sinks(job)
    schemas = {table: opened.schema for table, opened in sinks.items()}
    for sink in job.sinks:
        schemas[sink.table].chosen(sink.columns)

    def check() -> None:
        others = live_jobs(topology._read())
        check_flow(job, others)
        check_unrevised(job, next(iter(sinks.values())))
        for table, schema in schemas.items():
            check_columns(job, others, table, schema)

    claim(job, sinks, check, topology._clock, ends_with_process=_ends_with_process(topology, job))


def _write(topology: TopologyState, job: Job, table: OpenTable) -> None:
    lasts = _ends_with_process(topology, job)
    write_registration(table._file_io, table._paths, job, topology._clock, ends_with_process=lasts)


def _ends_with_process(topology: TopologyState, job: Job) -> bool:
    """Return whether the job ends with this process. The process that plans a job need not run it."""
    return job.state == RUNNING and not topology._for_others


def _forget_elsewhere(topology: TopologyState, job: Job) -> None:
    """Remove the registration from tables that the job wrote before and no longer writes.

    A table that still waits for its writer gets the new registration: the former sources and lead no longer count.
    """
    for table in topology._read():
        is_registered = any(note.job.name == job.name for note in table.notes)
        if not is_registered or table.name in job.tables:
            continue
        opened = topology._opened(table.name)
        if job.name in table.state.members:
            _write(topology, job, opened)
        else:
            take_leave(job.name, opened, table)


def _forget_progress(topology: TopologyState, job: str, tables: Sequence[JobsOfTable]) -> None:
    """Delete the consumers of a derived job, so that nobody continues from there."""
    notes = (note.job for table in tables for note in table.notes if note.job.name == job)
    sources = {source for each in notes for source in each.sources}
    for table in tables:
        if table.name in sources:
            topology._opened(table.name)._consumers.delete(job)
