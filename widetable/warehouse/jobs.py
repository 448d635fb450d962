"""The jobs of a warehouse: their writers, their graph, and taking their tables back to a barrier.

Raises what `BarrierWriter`, `Topology` and `topology.revision` raise.
"""

from __future__ import annotations

from collections.abc import Sequence

from widetable.arguments import text
from widetable.operations.barriers.barrier_writer import BarrierWriter
from widetable.topology import revision
from widetable.topology.job_claim import WriterClaim
from widetable.topology.revision import RevisionResult
from widetable.topology.topology import Topology
from widetable.warehouse.catalog_state import CatalogState


def writer(
    catalog: CatalogState, table: str, writer: str, columns: Sequence[str] | None = None
) -> BarrierWriter:
    """Make a writer of a table under barriers.

    The option `widetable.barrier-interval` puts a table under barriers. From now on the table waits for the writer,
    and the writer is registered as a running job (`topology`). If that job has sources, barriers that it skips are not
    shown.

    Parameters
    ----------
    table : str
        `db.name`.
    writer : str
        The name of the writer, the same each time its program runs. Another process that has the name is refused
        from now on.
    columns : list of str, default None
        The columns that it writes besides the key. None: all.

    Returns
    -------
    BarrierWriter
        The writer.

    Raises
    ------
    NotFoundError
        The table or a column does not exist.
    InvalidError
        The table is not under barriers, or no writer can have that name.
    ConflictError
        Another job writes one of the columns and nothing orders their values, or a revision of the table has not ended.

    Examples
    --------
    >>> options = {"widetable.barrier-interval": "1 s"}
    >>> visits = catalog.create_table("shop.visits", columns, primary_key=["id"], options=options)
    >>> crm = catalog.writer("shop.visits", "crm")
    >>> crm.write([{"id": 1, "city": "Oslo"}], complete=True).rows
    1
    """
    opened = catalog.table(table)
    claim = WriterClaim(opened, text(table, "table"), Topology(catalog)._check_flow)
    return BarrierWriter(opened, writer, columns, claim.register)


def topology(catalog: CatalogState) -> Topology:
    """Return the jobs of the warehouse, and the tables under barriers that they read and write.

    Returns
    -------
    Topology
        Each of its calls reads the storage again.

    Examples
    --------
    >>> catalog.topology().jobs()
    []
    """
    return Topology(catalog)


def revise(
    catalog: CatalogState, table: str, *, to: int | None, dry_run: bool = False
) -> RevisionResult:
    """Take a table that jobs derive from others back to a barrier, with all that is derived from it.

    Readers see all of these tables before the revision or after it. Running jobs are refused. They start with a new
    checkpoint, and continue at that barrier or from the beginning. Repeat a call that was killed: it continues.

    Parameters
    ----------
    table : str
        `db.name`.
    to : int or None
        The barrier, in epoch milliseconds. None: the beginning, without rows.
    dry_run : bool, default False
        Change nothing; only say what would be removed.

    Returns
    -------
    RevisionResult
        The tables and what they lose, each table after those that it is derived from, and the jobs.

    Raises
    ------
    InvalidError
        The table is not under barriers, no job derives it from others, or rows from outside would be lost.
    NotFoundError
        One of the tables, or what its jobs would read, no longer has the barrier.
    ConflictError
        Another revision has not ended.
    """
    return revision.revise(catalog, table, to, dry_run=dry_run)
