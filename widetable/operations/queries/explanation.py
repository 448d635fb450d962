"""Why a key has the values that it has: what is stored of it, and what each record did to each column.

    7 in snapshot 3: #1 writes city, #2 at = 50 and score, #3 at = 30, late    at orders score

    score = 0.5 from #2
      #3 leaves: late: at = 30 is below at = 50 of #2
      #2 takes: at = 50 is the first
      #1 leaves: written without this column

Values only. Printed values are those of `format.printed_value`, which JSON has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from widetable.operations.handle.file_origins import WritingCommit


@dataclass(frozen=True)
class KeyRecord:
    """A record of the key in a data file. number: its place in merge order, from 1; a later one wins where nothing else
    decides.

    commits: that wrote rows of the file, one for a file that no compaction made; commits_are_complete: False where
    others have expired. values: of the columns that the file has. is_there: the key, once this record is merged.
    apart_in: of a record that a compaction may have made of several, the snapshot before it, in which they are apart;
    None for others, and where that snapshot has expired.
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
    """What a record did to a column. effect: `takes` (the value is the record's from here on), `clears` (it is null
    from here on), `leaves` (it stays what it was), `makes` (the column's function makes another value), `restores`
    (the row is there again, and the value is an older record's).
    """

    __module__ = "widetable"

    record: int
    effect: str
    why: str


@dataclass(frozen=True)
class ExplainedColumn:
    """value: as a scan gives it, null where the key is not there. record: that it is from, None where none is; events:
    one for each record, in their order. note: of a widened column that is null, what its dimension has.
    """

    __module__ = "widetable"

    name: str
    value: Any
    record: int | None
    events: tuple[ColumnEvent, ...]
    note: str | None = None


@dataclass(frozen=True)
class Explanation:
    """What `Table.explain` finds. snapshot_id: None for a table without snapshots; is_there: whether readers see the
    key; records: in merge order, the oldest first; columns: all but the key, or those that were asked for, in the
    table's order. removed_by: of a key without records, the commit that took them out: partitions that were dropped or
    overwritten, rows that were too old; None where it has expired, or the key was never there. unmerged: why records
    cannot be merged, and from which on, such as a sum that does not fit its column: reads of the key raise it, and all
    else here is as of the record before.
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
        """For people."""
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
        """As JSON has it."""
        return asdict(self)


def _commits(record: KeyRecord) -> str:
    texts = list(map(str, record.commits))
    if not record.commits_are_complete:
        texts.insert(0, "commits that have expired")
    return ", ".join(texts)


def _shown(value: Any) -> str:
    """As JSON, so that a text neither begins a line nor is taken for a number."""
    return json.dumps(value, ensure_ascii=False)
