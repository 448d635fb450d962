"""Which tables one job can read and write: those of a warehouse that come to the same barriers. Raises InvalidError."""

from __future__ import annotations

from collections.abc import Mapping

from widetable.barrier_options import BARRIER_INTERVAL
from widetable.commit.barrier_table import interval_of
from widetable.errors import InvalidError
from widetable.operations.open_table import OpenTable
from widetable.paths import table_name


def check_alike(job: str, tables: Mapping[str, OpenTable]) -> None:
    """tables: all of the job, opened by these names. Branches are refused: no other job sees who writes them."""
    for name, table in tables.items():
        place = table_name(table.path)
        if place is None or place[1] != name:
            raise InvalidError(
                f"job {job!r}",
                found=f"{name}, a branch",
                expected="tables of the warehouse",
                action="Name the table, or a copy of it: the topology is that of tables.",
            )
    intervals = {name: interval_of(table.schema, table.path) for name, table in tables.items()}
    if len(set(intervals.values())) > 1:
        raise InvalidError(
            f"job {job!r}",
            found=", ".join(f"{name} with the interval {i} ms" for name, i in intervals.items()),
            expected=f"tables with one and the same {BARRIER_INTERVAL.key}",
            action="Name others; a table gets the option when it is made.",
        )
