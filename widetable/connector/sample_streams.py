"""A stream of samples: before each batch is planned, the samples are brought up to the newest snapshot of their table.

In: a table of samples. Out: a ChangeStream of it, whose batches follow from their offsets, like those of every table.
Raises what feeds of samples and streams raise.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from widetable.connector.change_streams import POLL_SECONDS, ChangeStream, change_stream
from widetable.derive.samples.sample_feed import feed_samples
from widetable.derive.samples.sample_rule import SampleArguments
from widetable.derive.samples.sample_tables import samples_of, tables_of
from widetable.operations.handle.open_table import OpenTable
from widetable.read.change_read import StreamRead
from widetable.read.stream_plan import Limits, Start


class SampleStream:
    """The stream, which feeds every 100 ms at most. It is not thread-safe."""

    def __init__(
        self, samples: OpenTable, columns: Sequence[str], start: Start, consumer_id: str | None
    ) -> None:
        self._tables = tables_of(samples)
        self._stream: ChangeStream = change_stream(samples, columns, start, consumer_id)
        self._fed_at = float("-inf")

    def initial(self) -> dict[str, Any]:
        """Return where a query without a checkpoint starts."""
        return self._stream.initial()

    def stop_at_newest(self) -> None:
        """End with what the table of the samples has once it is up to date."""
        feed_samples(self._tables)
        self._stream.stop_at_newest()
        self._fed_at = float("inf")

    def next_end(self, start: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        """Return where the batch ends."""
        self._feed()
        return self._stream.next_end(start, limits)

    def unguided_end(self) -> dict[str, Any]:
        """Return where the next batch ends, when Spark does not say where it begins."""
        self._feed()
        return self._stream.unguided_end()

    def newest(self) -> dict[str, Any] | None:
        """Return the offset after the newest snapshot."""
        return self._stream.newest()

    def tasks(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[tuple[StreamRead, ...]]:
        """Return what the tasks of a batch read."""
        return self._stream.tasks(start, end)

    def record(self, end: Mapping[str, Any]) -> None:
        """Record that all rows before `end` are done."""
        self._stream.record(end)

    def close(self) -> None:
        """Release what the stream keeps from expiry."""
        self._stream.close()

    def _feed(self) -> None:
        now = time.monotonic()
        if now - self._fed_at >= POLL_SECONDS:
            feed_samples(self._tables)
            self._fed_at = time.monotonic()


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
    return SampleStream(table, columns, start, consumer_id)


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
