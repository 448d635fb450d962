"""Streams of samples, for engines. Before each look for new snapshots the samples are brought up to date.

In: a table of samples. Out: a ChangeStream of it, whose batches follow from their offsets, like those of every table.
Raises what feeds of samples and streams raise.
"""

from __future__ import annotations

from collections.abc import Sequence

from widetable.connector.change_streams import ChangeStream, StreamPosition
from widetable.derive.samples.sample_feed import sample_source
from widetable.derive.samples.sample_rule import SampleArguments
from widetable.derive.samples.sample_tables import samples_of, tables_of
from widetable.operations.handle.open_table import OpenTable
from widetable.read.stream_plan import Start


def sample_stream(
    table: OpenTable, columns: Sequence[str], start: Start, consumer_id: str | None = None
) -> ChangeStream:
    """Open a stream of the changes of a table of samples, which brings them up to date.

    Parameters
    ----------
    table : OpenTable
        The table of the samples.
    columns, start, consumer_id
        As in `change_stream`.

    Returns
    -------
    ChangeStream
        The stream; close it.

    Raises
    ------
    InvalidError
        The table has no samples.
    NotFoundError
        There is no such column, or no table of which these are samples.
    """
    return StreamPosition(sample_source(tables_of(table), columns), start, consumer_id)


def open_samples(table: OpenTable, given: SampleArguments, into: str | None = None) -> str:
    """Make the table of the samples if it does not exist.

    Parameters
    ----------
    table : OpenTable
        The table whose rows become samples.
    given : SampleArguments
        When they do.
    into : str, default None
        `db.name` of the samples. None: the name of the table and `_samples`.

    Returns
    -------
    str
        The path of the table of the samples.

    Raises
    ------
    InvalidError
        An argument does not fit, or the table `into` has other samples.
    NotFoundError
        There is no such column.
    """
    return samples_of(table, given, into).samples.path
