"""The topology: jobs and the tables under barriers that they read and write, as one graph (0043).

    catalog.topology().register("amounts", sources=["shop.shopping"], sinks={"shop.amounts": None})
    catalog.topology().running("amounts")

A topology keeps nothing: every call reads the registrations (`writer_registration`) and snapshots of the tables. So no
other process is needed, and no answer is out of date. Raises ConflictError for a job whose columns another job writes,
InvalidError for tables that are not under barriers, NotFoundError for jobs and tables that do not exist, and what
reading tables raises.

    register     planned: the job keeps its columns for ten minutes; it is no part of the graph
    running      part of the graph; `renew` once a minute, or the job is not alive, but live while a table waits for it
    drop         no longer live

A call lists the warehouse and opens each of its tables, to find those under barriers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from widetable.arguments import names, text, whole_number
from widetable.commit.barriers.writer_registration import (
    Job,
)
from widetable.commit.notes.revision_notes import notes_of
from widetable.errors import NotFoundError
from widetable.operations.barriers.common_barrier import common_barrier
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.topology.barrier_times import KeptBarriers
from widetable.topology.delays import Delays, delays_of, newest_delays
from widetable.topology.job_lifecycle import drop, leave, register, renew, running
from widetable.topology.noted_revision import NotedRevision, noted_revisions
from widetable.topology.polling import retrying_reads
from widetable.topology.registered_jobs import JobsOfTable
from widetable.topology.system_tables import SystemTables
from widetable.topology.table_barriers import TableBarrier, table_barriers
from widetable.topology.table_progress import (
    FIRST_VERSION,
    TableProgress,
    progress_of,
)
from widetable.topology.topology_state import TopologyState, graph_of, live_jobs, running_jobs
from widetable.topology.warehouse import tables_under_barriers

# The tables in which a session's barrier is complete.
TABLES: Final = "tables"
TOPOLOGY: Final = "topology"
SCOPES: Final = (TABLES, TOPOLOGY)


class Topology(TopologyState):
    """The jobs of a warehouse, and the tables under barriers that they read and write.

    `Catalog.topology` makes it. It has no state: threads may share it, and each call reads the warehouse again, so it
    opens every table. Besides the errors that it names, a call raises DamagedError when a file is not what it must be,
    and StorageError when the storage refuses.

    Examples
    --------
    The examples of the methods go on from here.

    >>> import widetable as wt
    >>> catalog = wt.Catalog("warehouse")
    >>> options = {"widetable.barrier-interval": "1 s", "merge-engine": "partial-update"}
    >>> for name in ("visits", "amounts"):
    ...     columns = {"id": "BIGINT", "amount": "INT"}
    ...     table = catalog.create_table(f"shop.{name}", columns, primary_key=["id"], options=options)
    >>> topology = catalog.topology()
    >>> job = topology.register("amounts", sources=["shop.visits"], sinks={"shop.amounts": None})
    >>> job = topology.running("amounts")
    """

    __module__ = "widetable"

    register = register
    running = running
    renew = renew
    drop = drop
    leave = leave

    @retrying_reads
    def jobs(self) -> list[Job]:
        """List the jobs that are planned, that run, or that a table waits for.

        Returns
        -------
        list of Job
            The jobs, sorted by name.

        Raises
        ------
        StorageError
            The storage refuses.

        Examples
        --------
        >>> [job.name for job in topology.jobs()]
        ['amounts']
        """
        return live_jobs(self._read())

    @retrying_reads
    def rebuild(self) -> dict[str, int]:
        """Bring the tables in the database `__meta` up to date; missing ones are made.

        They are those of FLIP-276, `__META_ETL_SOURCE`, `__META_ETL_SINK` and `__META_TABLE_VERSION`, with
        `__META_JOB`, `__META_BARRIER`, `__META_JOB_BARRIER`, `__META_REVISION` and `__META_SETTING`. You may drop them
        at any time; then only the times of barriers whose snapshots have expired are lost.

        Returns
        -------
        dict of str to int
            Table to its number of rows.

        Raises
        ------
        StorageError
            The storage refuses.
        """
        tables = self._read()
        opened = {table.name: self._opened(table.name) for table in tables}
        kept = {name: KeptBarriers(table) for name, table in opened.items()}
        first = next(iter(opened.values()), None)
        notes = None if first is None else notes_of(first._file_io, first._paths)
        revisions = [] if notes is None else notes.all()
        options = {name: table.schema.typed_options for name, table in opened.items()}
        system = SystemTables(tables, self._progress(tables), kept, revisions, options)
        return system.bring_up_to_date(self._warehouse)

    @retrying_reads
    def tables(self) -> list[TableProgress]:
        """List how far each table under barriers is.

        Returns
        -------
        list of TableProgress
            One for each table, sorted by layer, then by name.

        Raises
        ------
        StorageError
            The storage refuses.

        Examples
        --------
        >>> [(table.table, table.layer) for table in topology.tables()]
        [('shop.visits', 0), ('shop.amounts', 1)]
        """
        return self._progress(self._read())

    def _progress(self, tables: Sequence[JobsOfTable]) -> list[TableProgress]:
        jobs, graph = running_jobs(tables), graph_of(tables)
        now_millis = self._clock.now_nanos() // 1_000_000
        views = {table.name: barrier_views(self._opened(table.name)) for table in tables}
        common = {}
        for component in graph.components():
            connected = [views[name] for name in component if name in views]
            common.update(dict.fromkeys(component, common_barrier(connected)))
        versions = self._versions(views)
        return progress_of(tables, jobs, graph.layers(), common, versions, now_millis)

    def _versions(self, tables: Iterable[str]) -> dict[str, int]:
        """Return 1 for each table, and one more for each of its revisions."""
        versions = dict.fromkeys(tables, FIRST_VERSION)
        for name in list(versions)[:1]:
            table = self._warehouse.table(name)
            notes = notes_of(table._file_io, table._paths)
            for revised in notes.tables() if notes is not None else ():
                versions.update({one: versions[one] + 1 for one in revised if one in versions})
        return versions

    @retrying_reads
    def barriers(self, table: str, limit: int | None = None) -> list[TableBarrier]:
        """List which snapshots the barriers of a table are.

        The list has the barriers that the table has reached, as far as snapshots are kept, and those that it waits for.

        Parameters
        ----------
        table : str
            `db.name` of the table.
        limit : int, default None
            The newest complete barriers only, so many. None: all.

        Returns
        -------
        list of TableBarrier
            The barriers, ascending.

        Raises
        ------
        NotFoundError
            The table does not exist.
        InvalidError
            The table is not under barriers, or the limit is negative.
        """
        most = None if limit is None else whole_number(limit, "limit", least=0)
        return table_barriers(self._opened(text(table, "table")), most)

    def delays(self, barrier: int | None = None, limit: int | None = None) -> Delays:
        """Measure how long tables and jobs took after barriers.

        A table is complete, and then its changes are published. A derived job takes a share of that delay.

        Parameters
        ----------
        barrier : int, default None
            The barrier, in epoch milliseconds. None: all barriers that tables have reached, as far as snapshots are
            kept.
        limit : int, default None
            The newest barriers only, so many. None: all.

        Returns
        -------
        Delays
            The delays, ascending by barrier.

        Raises
        ------
        NotFoundError
            No table has reached the barrier, or its snapshots have expired.
        InvalidError
            An argument is not a whole number that fits.
        """
        wanted = None if barrier is None else whole_number(barrier, "barrier", least=1)
        most = None if limit is None else whole_number(limit, "limit", least=0)
        delays, newest = self._delays(wanted)
        if wanted is not None and not delays.tables:
            raise NotFoundError(
                f"delays of barrier {wanted}",
                found="no table that has reached it by a snapshot that is kept",
                expected=f"{newest or 'none'} or an earlier one",
                action="Choose another one, or wait for it.",
            )
        return delays if most is None else newest_delays(delays, most)

    @retrying_reads
    def _delays(self, barrier: int | None) -> tuple[Delays, int]:
        """Return the delays, and the newest barrier of any table; 0 without one."""
        opened = dict(tables_under_barriers(self._warehouse))
        tables = self._jobs_of(opened.items())
        kept = {name: KeptBarriers(table, barrier) for name, table in opened.items()}
        came = {each for one in kept.values() for each in one.frontiers()}
        barriers = came if barrier is None else {barrier}
        times = {name: one.times(barriers) for name, one in kept.items()}
        delays = delays_of(times, running_jobs(tables), graph_of(tables).layers(), barriers)
        return delays, max((one.newest for one in kept.values()), default=0)

    @retrying_reads
    def common_barrier(self) -> int | None:
        """Return the newest barrier that is complete and exact in all tables under barriers.

        Returns
        -------
        int or None
            The barrier, in epoch milliseconds; None where there is none.

        Raises
        ------
        StorageError
            The storage refuses.

        Examples
        --------
        >>> topology.common_barrier() is None
        True
        """
        opened = tables_under_barriers(self._warehouse)
        return common_barrier([barrier_views(table) for _, table in opened]) or None

    @retrying_reads
    def revisions(self) -> list[NotedRevision]:
        """List the revisions of the warehouse.

        Returns
        -------
        list of NotedRevision
            The revisions, ascending by number; the last one may not have ended.

        Raises
        ------
        StorageError
            The storage refuses.
        """
        return noted_revisions(self._warehouse)

    def keep(self) -> dict[str, int]:
        """Keep the barriers that connected tables have in common from expiry.

        These are the newest one and those of `widetable.barriers-kept` intervals before it, in all tables that jobs
        connect. It holds until the next call; jobs of Spark and services call it again and again.

        Returns
        -------
        dict of str to int
            Table to the first snapshot that is kept.

        Raises
        ------
        StorageError
            The storage refuses.
        """
        return self._keep_common_barriers()

    @retrying_reads
    def upstream(self, table: str) -> list[str]:
        """List the tables that a table is derived from, directly or not.

        Parameters
        ----------
        table : str
            `db.name` of the table.

        Returns
        -------
        list of str
            The tables, each after those that it is derived from.

        Raises
        ------
        NotFoundError
            The table is not under barriers, or does not exist.

        Examples
        --------
        >>> topology.upstream("shop.amounts")
        ['shop.visits']
        """
        return self._graph_with(table).upstream(table)

    @retrying_reads
    def downstream(self, table: str) -> list[str]:
        """List the tables that are derived from a table, directly or not.

        Parameters
        ----------
        table : str
            `db.name` of the table.

        Returns
        -------
        list of str
            The tables, each after those that it is derived from.

        Raises
        ------
        NotFoundError
            The table is not under barriers, or does not exist.

        Examples
        --------
        >>> topology.downstream("shop.visits")
        ['shop.amounts']
        """
        return self._graph_with(table).downstream(table)

    @retrying_reads
    def connected(self, tables: Sequence[str]) -> list[str]:
        """List tables, and all that jobs connect with them, over any number of steps.

        Parameters
        ----------
        tables : list of str
            `db.name` of the tables.

        Returns
        -------
        list of str
            The given tables, then the others.

        Raises
        ------
        NotFoundError
            A table is not under barriers, or does not exist.
        InvalidError
            A name comes twice.
        """
        required = names(tables, "tables")
        components = self._graph_with(*required).components()
        near = (one for one in components if not set(required).isdisjoint(one))
        return list(dict.fromkeys((*required, *chain.from_iterable(near))))

    @retrying_reads
    def layers(self) -> list[list[str]]:
        """List the tables under barriers, layer by layer.

        Returns
        -------
        list of list of str
            Tables that no job derives from others, then those derived from them, and so on; sorted by name within a
            layer.

        Raises
        ------
        StorageError
            The storage refuses.

        Examples
        --------
        >>> topology.layers()
        [['shop.visits'], ['shop.amounts']]
        """
        return self._graph_with().layers()
