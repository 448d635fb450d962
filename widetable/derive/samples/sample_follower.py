"""`Table.follow_samples`: the samples of a table as they become ready, each once.

    table ── rounds of the feed ──► table of samples ── its changes, by a consumer ──► batches

It is a follower of the table of samples, which brings that up to date whenever it looks for new snapshots. So a process
that dies gets the batch again that it was working on, with the same rows and the same `widetable.snapshot-id`, which is
of the table of samples. Several consumers may follow the same samples.

Raises what sample_rule, sample_tables, the feed and followers of changes raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

from widetable.arguments import text
from widetable.derive.samples.label import SampleLabel
from widetable.derive.samples.sample_feed import sample_source
from widetable.derive.samples.sample_rule import SampleArguments
from widetable.derive.samples.sample_tables import SampleTables, samples_of
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.follow import ChangeFollower, follower_of
from widetable.read.stream_plan import FROM_SNAPSHOT, FROM_SNAPSHOT_FULL, start_of

_Labels: TypeAlias = Mapping[str, SampleLabel] | None
_Share: TypeAlias = float | Mapping[str, float] | None


def follow_samples(
    table: OpenTable, consumer_id: str, complete: Sequence[str], *, on: str | None = None,
    wait: str | timedelta | None = None, eager: Sequence[str] = (), labels: _Labels = None,
    defaults: Mapping[str, Any] | None = None, late: str = "drop", negatives: _Share = None,
    seed: int = 0, columns: Sequence[str] | None = None, writers: Sequence[str] | None = None,
    event_times: Any = None, into: str | None = None, timeout: float | None = None,
    poll_interval: float = 0.1,
) -> ChangeFollower:  # fmt: skip
    """Follow the rows of the table as they become samples of a training, each key once.

    A row is given when it is complete; with `wait` or `labels` when it is due, or before if `eager` is there.

    Parameters
    ----------
    consumer_id : str
        The name under which progress is stored.
    complete : list of str
        Columns without which a row is no sample. One with a default may be missing once the row is due.
    on : str, default None
        The column with the time of a sample, from which it waits.
    wait : str or timedelta, default None
        How long a sample waits, such as "30 min". Labels lengthen it to the longest of their times.
    eager : list of str, default ()
        Columns that end the wait once all of them are there, too.
    labels : dict of str to SampleLabel, default None
        Columns that are added, by `label`: whether an event came in time.
    defaults : dict, default None
        Values that stand for nulls, by column.
    late : str, default "drop"
        A change of a sample that was given is left out by "drop", and given with `_correction` by "correct".
    negatives : float or dict of str to float, default None
        The share to keep of samples whose `label`, or the column of the dict, is 0; `_weight` is 1 / share. None: all.
    seed : int, default 0
        Another seed keeps others.
    columns : list of str, default None
        The columns that samples have besides the key and labels. None: all of now.
    writers : list of str, default None
        The commit users whose watermarks a sample waits for. None: all that have committed one.
    event_times : dict of str to str, default None
        Units of columns of times that are numbers: `seconds`, `millis`, `micros` or `nanos`.
    into : str, default None
        `db.name` of the table that keeps the samples. None: the name of the table and `_samples`.
    timeout, poll_interval
        As in `follow`.

    Returns
    -------
    ChangeFollower
        An iterator of record batches, each of what one snapshot gave: +I, +U for corrections, -D for what is gone.

    Raises
    ------
    InvalidError
        An argument does not fit, or `into` has other samples.
    NotFoundError
        There is no such column.
    """
    moments = (complete, on, wait, eager, labels, defaults, late)
    rule = SampleArguments(*moments, negatives, seed, columns, writers, event_times)
    return _followed(samples_of(table, rule, into), consumer_id, timeout, poll_interval)


def _followed(
    tables: SampleTables, consumer_id: str, timeout: float | None, poll_interval: float
) -> ChangeFollower:
    """Begin with the first snapshot that is kept; with all its rows, if earlier ones have expired."""
    oldest = tables.samples._committer.snapshots.earliest()
    mode = FROM_SNAPSHOT if oldest is None or oldest.id == 1 else FROM_SNAPSHOT_FULL
    start = start_of(mode, 1 if oldest is None else oldest.id, None)
    named = text(consumer_id, "consumer_id")
    return follower_of(sample_source(tables), named, start, timeout, poll_interval)
