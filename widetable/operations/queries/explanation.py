"""The explanation of a key's values: its stored records, and what each record did to each column.

    7 in snapshot 3: #1 writes city, #2 at = 50 and score, #3 at = 30, late    at orders score

    score = 0.5 from #2
      #3 leaves: late: at = 30 is below at = 50 of #2
      #2 takes: at = 50 is the first
      #1 leaves: written without this column

These are pure values. Printed values are those of `format.printed_value`, which fit JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from widetable.operations.handle.file_origins import WritingCommit


@dataclass(frozen=True)
class KeyRecord:
    """A record of a key in a data file.

    Attributes
    ----------
    number : int
        The place in merge order, from 1; a later record wins where nothing else decides.
    kind : str
        The row kind: `+I`, `-U`, `+U` or `-D`.
    file_name : str
        The data file that holds the record.
    level : int
        The level of that file.
    sequence_number : int
        The sequence number of the record.
    commits : tuple of WritingCommit
        The commits that wrote rows of the file: one, unless a compaction made the file.
    commits_are_complete : bool
        False: other such commits have expired.
    values : dict of str to any
        Column to value, of the columns that the file has.
    is_there : bool
        Whether the key exists once this record is merged.
    apart_in : int or None
        For a record that a compaction may have made of several: the snapshot before it, which holds them apart. None:
        no compaction made it, or that snapshot has expired.
    """

    __module__ = "widetable"

    number: int
    kind: str
    file_name: str
    level: int
    sequence_number: int
    commits: tuple[WritingCommit, ...]
    commits_are_complete: bool
    values: Mapping[str, Any]
    is_there: bool
    apart_in: int | None = None


@dataclass(frozen=True)
class ColumnEvent:
    """What a record did to a column.

    Attributes
    ----------
    record : int
        The number of the record (`KeyRecord.number`).
    effect : str
        `takes`: the value is the record's from here on. `clears`: the value is null from here on. `leaves`: the value
        stays. `makes`: the column's function makes another value. `restores`: the row exists again, and the value is
        that of an older record.
    why : str
        The reason, a sentence.
    """

    __module__ = "widetable"

    record: int
    effect: str
    why: str


@dataclass(frozen=True)
class ExplainedColumn:
    """One column of an explained key.

    Attributes
    ----------
    name : str
        The name of the column.
    value : any
        The value as a scan gives it; None where the key does not exist.
    record : int or None
        The number of the record that the value comes from. None: it comes from no record.
    events : tuple of ColumnEvent
        What each record did to the column, in the order of records.
    note : str or None
        For a widened column that is null: what its dimension has.
    """

    __module__ = "widetable"

    name: str
    value: Any
    record: int | None
    events: tuple[ColumnEvent, ...]
    note: str | None = None


@dataclass(frozen=True)
class Explanation:
    """Where the value of each column of a key comes from: what `Table.explain` returns. As text it is for people.

    Attributes
    ----------
    path : str
        The directory of the table.
    key : dict of str to any
        Key column to value.
    snapshot_id, snapshot_time_millis : int or None
        The snapshot that was read, and its time in epoch milliseconds. None: the table has no snapshots.
    is_there : bool
        Whether readers see the key.
    records : tuple of KeyRecord
        The records of the key in merge order, the oldest first.
    columns : tuple of ExplainedColumn
        The requested columns, by default all but the key, in the order of the table.
    removed_by : WritingCommit or None
        For a key without records: the commit that removed them, because partitions were dropped or overwritten, or rows
        were too old. None: that commit has expired, or the key never existed.
    unmerged : str or None
        Why records cannot be merged, and from which record on, such as a sum that does not fit its column. Reads of the
        key raise this error; everything else here is as of the record before.
    """

    __module__ = "widetable"

    path: str
    key: Mapping[str, Any]
    snapshot_id: int | None
    snapshot_time_millis: int | None
    is_there: bool
    records: tuple[KeyRecord, ...]
    columns: tuple[ExplainedColumn, ...]
    removed_by: WritingCommit | None = None
    unmerged: str | None = None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Describe the key for people.

        Yields
        ------
        str
            A line of text.
        """
        key = ", ".join(f"{name} = {_shown(value)}" for name, value in self.key.items())
        as_of = "no snapshot" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        yield f"{key} in {as_of} of {self.path}: {'there' if self.is_there else 'not there'}"
        if self.removed_by is not None:
            yield f"  taken out by {self.removed_by}"
        if self.unmerged is not None:
            yield f"  {self.unmerged}"
        for record in self.records:
            place = f"level {record.level}, sequence {record.sequence_number}, {record.file_name}"
            yield f"  #{record.number} {record.kind} of {_commits(record)}; {place}"
            yield f"     {', '.join(f'{name} = {_shown(value)}' for name, value in record.values.items())}"
            if record.apart_in is not None:
                yield f"     made by a compaction: its records are apart in snapshot {record.apart_in}"
        for column in self.columns:
            source = "" if column.record is None else f" from #{column.record}"
            yield f"{column.name} = {_shown(column.value)}{source}"
            if column.note is not None:
                yield f"  {column.note}"
            for event in reversed(column.events):
                yield f"  #{event.record} {event.effect}: {event.why}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has.

        Returns
        -------
        dict of str to any
            The fields, by name; nested results are dicts.
        """
        return asdict(self)


def _commits(record: KeyRecord) -> str:
    texts = list(map(str, record.commits))
    if not record.commits_are_complete:
        texts.insert(0, "commits that have expired")
    return ", ".join(texts)


def _shown(value: Any) -> str:
    """Print a value as JSON, so that a text neither begins a line nor looks like a number."""
    return json.dumps(value, ensure_ascii=False)
