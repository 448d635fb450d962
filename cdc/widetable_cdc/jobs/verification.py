"""Compares tables with the source, cell by cell, range of keys by range of keys, while the job may be running.

    a range of the source ─► the target in that range ─► no key differs: equal
    else    the source once more ─► the job confirms all that it showed ─► the target ─► the source again

A range has about as many rows as a chunk of a copy, where the key begins with a number, a uuid, a moment, a text, an
enum or bytes. A table with another key is one range, and both sides of it are in memory at once.

A key is a difference if the source had one and the same row before and after the target was read, and the target had
another one: whatever the source showed at first was in the target by then. What changes meanwhile is no difference. A
job that does not run confirms nothing: then rows that changed since differ, and the report says how far it is behind.

Raises what reading the source and the target raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from widetable.connector import counted
from widetable_cdc.applying.copied_rows import copied_rows
from widetable_cdc.columns.target_columns import TargetColumns
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.row_differences import RowDifferences, row_differences
from widetable_cdc.jobs.source_link import SourceLink
from widetable_cdc.jobs.target_table import copied_ranges
from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.chunk_rows import read_chunk
from widetable_cdc.source.sorted_ranges import sorted_ranges

_EXAMPLES: Final = 5


@dataclass(frozen=True)
class TableDifferences:
    """What the comparison of one table found.

    Attributes
    ----------
    relation : str
        The table of the source, as schema.table.
    target : str
        The table that follows it, as `db.table`.
    rows : int
        The number of rows of the source.
    bad : int
        How many of them the target cannot hold; they are left aside.
    missing, extra, different : int
        The number of keys that only the source has, that only the target has, and whose values differ.
    columns : tuple of str
        The columns in which values differ, by their names in the target.
    examples : tuple of str
        Some of the keys, as texts.
    """

    relation: str
    target: str
    rows: int
    bad: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    columns: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether no key differs."""
        return not (self.missing or self.extra or self.different)

    def line(self) -> str:
        """Write the result as one line.

        Returns
        -------
        str
            The line, without its end.
        """
        start = f"{self.relation} -> {self.target}: {counted(self.rows, 'row')}"
        bad = f", {counted(self.bad, 'bad row')} left aside" if self.bad else ""
        if self.is_equal:
            return f"{start}, equal{bad}"
        return (
            f"{start}, {self.missing} missing, {self.extra} extra, {self.different} different "
            f"({', '.join(self.columns) or 'no column'}){bad}; such as {'; '.join(self.examples)}"
        )


@dataclass(frozen=True)
class VerifyReport:
    """What a comparison of tables with their source found.

    Attributes
    ----------
    tables : tuple of TableDifferences
        The tables, in the order of their names.
    behind_bytes : int
        The bytes of log that the job had not confirmed at the end.
    """

    tables: tuple[TableDifferences, ...]
    behind_bytes: int

    @property
    def is_equal(self) -> bool:
        """Whether all tables are equal."""
        return all(table.is_equal for table in self.tables)

    def lines(self) -> list[str]:
        """Write the report for people.

        Returns
        -------
        list of str
            A line for each table, and one if the job is behind.
        """
        lines = [table.line() for table in self.tables]
        if not self.is_equal and self.behind_bytes:
            lines.append(
                f"The job is {counted(self.behind_bytes, 'byte')} of log behind: let it catch up, then compare again."
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values of JSON.

        Returns
        -------
        dict of str to any
            The attributes, with tables as dicts, and `is_equal`.
        """
        tables = [asdict(table) | {"is_equal": table.is_equal} for table in self.tables]
        return {"is_equal": self.is_equal, "behind_bytes": self.behind_bytes, "tables": tables}


@dataclass
class Verification:
    """Compares one table after the other. link: sessions that ask only."""

    config: SyncConfig
    link: SourceLink

    def compared(self, table: CapturedTable) -> TableDifferences:
        """Compare all rows of a table."""
        rows = bad = 0
        left: list[RowDifferences] = []
        for each in self._ranges(table):
            there, refused = self._source_rows(table, each)
            rows, bad = rows + there.num_rows, bad + refused.num_rows
            differences = self._differences(table, each, there, refused)
            if differences.keys.num_rows:
                left.append(self._lasting(table, each, differences))
        return _summed(table, rows, bad, left)

    def _ranges(self, table: CapturedTable) -> Sequence[ChunkRange]:
        """Return ranges that are compared one at a time: those of the copy, or sorted ones, which no copy has."""
        ranges = copied_ranges(self.config, table.source)
        key = None if ranges[0].kind is not None else table.columns.key_of(table.source.key[0])
        if key is None:
            return ranges
        dsn, rows = self.config.source.dsn, self.config.limits.chunk_rows
        kept = table.target.table.arrow_schema.field(key).type
        return sorted_ranges(dsn, self.config.name, table.source, rows, kept) or ranges

    def _lasting(
        self, table: CapturedTable, each: ChunkRange, first: RowDifferences
    ) -> RowDifferences:
        """Compare a range again, and return the differences that no change of the source explains."""
        before, refused = self._source_rows(table, each)
        if not self.link.passes(self.link.server_lsn()):
            return first
        differences = self._differences(table, each, before, refused)
        after, _ = self._source_rows(table, each)
        return differences.without(row_differences(before, after, list(table.key)).keys)

    def _source_rows(self, table: CapturedTable, each: ChunkRange) -> tuple[pa.Table, pa.Table]:
        """Return the rows of a range with the target's types, and the keys of those that it cannot hold."""
        schema = _compared_schema(table.columns)
        good: list[pa.Table] = []
        refused: list[pa.Table] = []
        dsn, job = self.config.source.dsn, self.config.name
        with read_chunk(dsn, job, table.source, table.selected(), each) as read:
            for batch in read.batches:
                copied = copied_rows(batch, table.columns.types)
                bad = copied.rows.filter(pa.array(copied.bad))
                for rows, into in ((copied.good, good), (bad, refused)):
                    written = pa.Table.from_batches([table.written(rows, read.micros)])
                    into.append(written.select(schema.names).cast(schema))
        empty = schema.empty_table()
        return (
            pa.concat_tables(good) if good else empty,
            pa.concat_tables(refused) if refused else empty,
        )

    def _differences(
        self, table: CapturedTable, each: ChunkRange, source: pa.Table, refused: pa.Table
    ) -> RowDifferences:
        condition = table.condition(each)
        target = table.target.table.scan(columns=source.column_names, filter=condition).to_arrow()
        target = target.select(source.column_names).cast(source.schema)
        keys = list(table.key)
        if refused.num_rows:
            target = target.join(refused.select(keys), keys=keys, join_type="left anti")
            target = target.select(source.column_names)
        return row_differences(source, target, keys)


def _compared_schema(columns: TargetColumns) -> pa.Schema:
    return pa.schema([(name, columns.kind(name).arrow) for name in columns.comparable])


def _summed(
    table: CapturedTable, rows: int, bad: int, parts: Sequence[RowDifferences]
) -> TableDifferences:
    columns = dict.fromkeys(name for part in parts for name in part.columns)
    examples = [
        ", ".join(f"{name}={value}" for name, value in row.items())
        for part in parts
        for row in part.keys.slice(0, _EXAMPLES).to_pylist()
    ]
    return TableDifferences(
        relation=table.state.relation,
        target=table.state.target,
        rows=rows,
        bad=bad,
        missing=sum(part.missing.num_rows for part in parts),
        extra=sum(part.extra.num_rows for part in parts),
        different=sum(part.different.num_rows for part in parts),
        columns=tuple(columns),
        examples=tuple(examples[:_EXAMPLES]),
    )
