"""Who follows a table through its life, by a consumer or a stream of Spark, and the rows that its changes make."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

import widetable as wt
from tests.pairs.compared import check_rows
from tests.pairs.life import Life
from tests.support.models.append_model import model_of
from tests.support.models.changelog_follower import ROW_KIND, Follower
from tests.support.models.model import Record
from tests.support.models.plain_rows import python_rows
from tests.support.models.random_table import texts


class Followed:
    """events: the changes make the rows; else they are records, which are folded. It begins before the first record:
    who begins later is given rows, which do not show the retractions that late records meet.
    """

    def __init__(self, life: Life) -> None:
        self._life = life
        self._take = life.others.followers.get(life.row["reader"], _by_a_consumer)
        assert not list(self._take(life.table))
        self._makes_events = life.row["producer"] in ("lookup", "full-compaction")
        schema = life.table.schema
        self._follower, self._model = Follower(schema), model_of(schema)
        self._renamed = dict(life.names.of)

    def look(self) -> None:
        """Take what has come since the last look."""
        self._alter()
        for batch in self._take(self._life.table):
            records = _records(batch)
            if self._makes_events:
                self._follower.apply(records)
            else:
                self._model.write(records)

    def check(self) -> None:
        """All is compacted, and was looked at."""
        rows = self._life.model.rows()
        if self._makes_events:
            self._follower.check(rows)
        else:
            check_rows("who folds", texts(self._model.rows()), texts(rows))

    def _alter(self) -> None:
        names, schema = dict(self._life.names.of), self._life.table.schema
        renamed = {
            old: names[column]
            for column, old in self._renamed.items()
            if column in names and names[column] != old
        }
        self._follower.alter(schema, renamed)
        self._model.alter(schema, renamed)
        self._renamed = names


def _records(batch: pa.RecordBatch) -> list[Record]:
    return [(row.pop(ROW_KIND), row) for row in python_rows(batch)]


def _by_a_consumer(table: wt.Table) -> Iterable[pa.RecordBatch]:
    with table.follow("reader", timeout=0) as changes:
        yield from changes
