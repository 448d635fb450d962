"""The tables that one job can read and write: tables of a warehouse with the same barriers. Raises InvalidError."""

from __future__ import annotations

from collections.abc import Mapping

from widetable.commit.barriers.barrier_table import interval_of, one_interval
from widetable.errors import InvalidError
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.paths import table_name


def check_alike(job: str, tables: Mapping[str, OpenTable]) -> None:
    """Raise InvalidError for branches and for intervals that differ. tables: all tables of the job, by name.

    Other jobs do not see the writers of a branch. With different intervals, a barrier of one table would not exist in
    the others.
    """
    for name, table in tables.items():
        place = table_name(table.path)
        if place is None or place[1] != name:
            raise InvalidError(
                f"job {job!r}",
                found=f"{name}, a branch",
                expected="tables of the warehouse",
                action="Name the table, or a copy of it: the topology has no branches.",
            )
    one_interval(f"job {job!r}", {n: interval_of(t.schema, t.path) for n, t in tables.items()})
