"""What rows that are read by batches can be turned into: frames of other libraries, Arrow's stream, some of them.

In: a schema, batches, and the same with a limit. Raises InvalidError for a wrong limit or connection, UnsupportedError
where the library of another frame is missing, and what reading the batches raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa

from widetable.arguments import refused
from widetable.errors import UnsupportedError


class ArrowRows(ABC):
    """Rows, or changes, that are read when they are asked for. Whatever takes Arrow's C stream takes them:
    `pyarrow.table`, polars, DuckDB by the variable's name; an error on the way is theirs then, with ours in its text.
    Iterating gives record batches.

    Nothing is read before a method asks for rows, and each asks anew: keep what `to_arrow`
    gives where rows are wanted twice.
    """

    __module__ = "widetable"

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """Columns, types and nullability of the rows."""

    @abstractmethod
    def limit(self, rows: int) -> ArrowRows:
        """The same up to so many rows."""

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch, in bounded memory. Each call reads anew."""

    @abstractmethod
    def count(self) -> int:
        """How many rows there are."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    def head(self, rows: int = 5) -> pa.Table:
        """The first rows; no more is read than they need."""
        return self.limit(rows).to_arrow()

    def to_arrow(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.to_batches(), self.arrow_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow, in bounded memory. It can be read once."""
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's PyCapsule interface. Each call reads anew."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self, **how: Any) -> Any:
        """All rows as a pandas frame. how: of `pyarrow.Table.to_pandas`.

        Raises UnsupportedError where pandas is not installed.
        """
        _library("pandas")
        return self.to_arrow().to_pandas(**how)

    def to_polars(self) -> Any:
        """All rows as a polars frame."""
        return _library("polars").from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """A DuckDB relation that reads the rows whenever it is executed, in bounded memory. connection: by default
        DuckDB's own.

        Filters and columns that DuckDB chooses are not passed on: give them to the scan. Raises
        InvalidError for what is no connection, UnsupportedError without DuckDB and for rows
        without columns.
        """
        duckdb = _library("duckdb") if connection is None else connection
        if not hasattr(duckdb, "from_arrow"):
            raise refused(connection, "connection", "a connection of DuckDB")
        if not self.arrow_schema.names:
            raise UnsupportedError(
                "to_duckdb",
                found="a scan of no columns",
                expected="at least one column, as DuckDB has no relation without",
                action="Choose a column, or use `count()`.",
            )
        return duckdb.from_arrow(self)


def limited(batches: Iterable[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows; None: all. No batch is asked for beyond them."""
    return iter(batches) if rows is None else _first(batches, rows)


def _first(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    if rows == 0:
        return
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as missing:
        raise UnsupportedError(
            f"to_{name}",
            found=str(missing),
            expected=f"{name} in this environment",
            action=f"Install it: pip install {name}.",
        ) from missing
