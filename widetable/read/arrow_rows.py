"""Converts rows that are read batch by batch: into frames of other libraries, into Arrow's stream, or into a part of
them.

In: a schema, batches, and a limit. Raises InvalidError for a wrong limit or connection, UnsupportedError if the library
of a frame is missing, and what reading the batches raises.
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
    """Rows, or changes, that are read on demand.

    `Table.scan` and `Table.scan_changes` create them. Every consumer of Arrow's C stream accepts them:
    `pyarrow.table`, polars, DuckDB by the variable's name. It then raises its own error, which contains the
    text of ours. Iterating gives record batches.

    Nothing is read before you call a method that reads rows, and each call reads again: keep the result of
    `to_arrow` if you need rows twice. Reading raises NotFoundError when a snapshot has expired, DamagedError
    when a file is damaged, and InvalidError when records of a key cannot be merged.

    Examples
    --------
    >>> import widetable as wt
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> catalog = wt.Catalog("warehouse")
    >>> users = catalog.create_table("shop.users", columns, primary_key=["id"])
    >>> users.write([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]).snapshot_id
    1
    >>> scan = users.scan()
    """

    __module__ = "widetable"

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """Columns, types and nullability of the rows."""

    @abstractmethod
    def limit(self, rows: int) -> ArrowRows:
        """Limit the number of rows.

        Parameters
        ----------
        rows : int
            The highest number of rows, 0 or more.

        Returns
        -------
        ArrowRows
            The new rows, of the same kind.

        Raises
        ------
        InvalidError
            `rows` is negative.
        """

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows batch by batch, in bounded memory.

        Yields
        ------
        pyarrow.RecordBatch
            The rows. Each call reads them again.

        Raises
        ------
        NotFoundError
            What is read has expired.
        """

    @abstractmethod
    def count(self) -> int:
        """Count the rows.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        NotFoundError
            What is read has expired.
        """

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    def head(self, rows: int = 5) -> pa.Table:
        """Read the first rows, and nothing beyond them.

        Parameters
        ----------
        rows : int, default 5
            The highest number of rows.

        Returns
        -------
        pyarrow.Table
            The rows.

        Raises
        ------
        InvalidError
            `rows` is negative.
        NotFoundError
            What is read has expired.

        Examples
        --------
        >>> scan.head(1).to_pylist()
        [{'id': 1, 'city': 'Oslo'}]
        """
        return self.limit(rows).to_arrow()

    def to_arrow(self) -> pa.Table:
        """Read all rows into memory.

        Returns
        -------
        pyarrow.Table
            The rows, in the same order as `to_batches`.

        Raises
        ------
        NotFoundError
            What is read has expired.
        """
        return pa.Table.from_batches(self.to_batches(), self.arrow_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the rows as a stream of Arrow, in bounded memory.

        Returns
        -------
        pyarrow.RecordBatchReader
            The rows. It can be read once.

        Raises
        ------
        NotFoundError
            What is read has expired.
        """
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream of Arrow's PyCapsule interface. Each call reads the rows again."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self, **how: Any) -> Any:
        """Read all rows as a frame of pandas.

        Parameters
        ----------
        **how : any
            Arguments of `pyarrow.Table.to_pandas`.

        Returns
        -------
        pandas.DataFrame
            The rows.

        Raises
        ------
        UnsupportedError
            pandas is not installed.
        NotFoundError
            What is read has expired.
        """
        _library("pandas")
        return self.to_arrow().to_pandas(**how)

    def to_polars(self) -> Any:
        """Read all rows as a frame of polars.

        Returns
        -------
        polars.DataFrame
            The rows.

        Raises
        ------
        UnsupportedError
            polars is not installed.
        NotFoundError
            What is read has expired.
        """
        return _library("polars").from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """Create a relation of DuckDB that reads the rows whenever it is executed, in bounded memory.

        Filters and columns of DuckDB's query are not passed on: choose them in the scan.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection, default None
            The connection. None: DuckDB's own.

        Returns
        -------
        duckdb.DuckDBPyRelation
            The relation.

        Raises
        ------
        InvalidError
            `connection` is not a connection of DuckDB.
        UnsupportedError
            DuckDB is not installed, or the rows have no columns.
        """
        duckdb = _library("duckdb") if connection is None else connection
        if not hasattr(duckdb, "from_arrow"):
            raise refused(connection, "connection", "a connection of DuckDB")
        if not self.arrow_schema.names:
            raise UnsupportedError(
                "to_duckdb",
                found="a scan of no columns",
                expected="at least one column, because a relation of DuckDB needs one",
                action="Choose a column, or use `count()`.",
            )
        return duckdb.from_arrow(self)


def limited(batches: Iterable[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """Yield batches up to a number of rows; None: all. No batch is read beyond them."""
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
