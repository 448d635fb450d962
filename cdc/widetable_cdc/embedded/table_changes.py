"""The changes of a round, table by table, and which of them a table has not yet.

    topics     shop.shop.orders  shop.shop.tags  shop.shop.orders  ─►  {"shop.shop.orders": rows 0 and 2, ..}

In: `EngineBatch`es. Out: `TableChanges`. Pure. Raises DamagedError for a record without a source, and for a log that
went back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable import DamagedError
from widetable_cdc.debezium.envelope import read_envelopes
from widetable_cdc.debezium.records import Records
from widetable_cdc.debezium.source_position import positions
from widetable_cdc.embedded.binlog_position import source_position
from widetable_cdc.embedded.engine_batch import EngineBatch

# Deletes each row of a table; of no form, so it fits all tables.
TRUNCATE: Final = '{"before":null,"after":null,"source":null,"op":"t"}'
_CHUNK: Final = 32_768


@dataclass(frozen=True)
class TableChanges:
    """n > 0 records of one table. database, name: of the table at the source. records: columns key and value."""

    database: str
    name: str
    records: pa.Table

    @property
    def relation(self) -> str:
        """The table, as database.table."""
        return f"{self.database}.{self.name}"

    @property
    def first(self) -> int:
        """The position of the first change."""
        return source_position(_source(self.records.column("value")[0].as_py()))

    def key(self) -> tuple[str, ...]:
        """Return the columns of the key, as the first record that has a key says; empty if none has."""
        keys = self.records.column("key")
        with_key = keys.filter(pc.not_equal(keys, "null"))
        return tuple(json.loads(with_key[0].as_py())) if len(with_key) else ()

    def value_with_form(self) -> str | None:
        """Return the value of the first record with a row; None without any."""
        rows = self.records.filter(pc.not_equal(self.records.column("key"), "null"))
        return str(rows.column("value")[0].as_py()) if rows.num_rows else None

    def after_truncate(self) -> TableChanges:
        """Return the changes behind a truncate."""
        truncate = pa.table({"key": ["null"], "value": [TRUNCATE]}, self.records.schema)
        return replace(self, records=pa.concat_tables([truncate, self.records]))

    def behind(self, position: int) -> TableChanges | None:
        """Return the changes behind a position; None without any."""
        if self.first > position:
            return self
        kept = []
        for batch in self.records.to_batches(max_chunksize=_CHUNK):
            ordinals = np.arange(batch.num_rows, dtype=np.int64)
            records = Records.of(None, batch.column("value"), ordinals)
            envelopes = read_envelopes(records)
            where = positions(envelopes.data, envelopes.source)
            kept.append(batch.filter(pa.array(where > position)))
        records = pa.Table.from_batches(kept)
        return replace(self, records=records) if records.num_rows else None


def last_position(batches: Sequence[EngineBatch]) -> int:
    """Return the position of the last change."""
    return source_position(_source(batches[-1].values[-1].as_py()))


def by_table(batches: Sequence[EngineBatch]) -> list[TableChanges]:
    """Return the changes of each table, in their order."""
    if not batches:
        return []
    topics = pa.chunked_array([each.topics for each in batches])
    records = pa.table(
        {
            "key": pa.chunked_array([each.keys for each in batches]),
            "value": pa.chunked_array([each.values for each in batches]),
        }
    )
    names = pc.unique(topics)
    numbers = pc.index_in(topics, value_set=names)
    changes = []
    for number in range(len(names)):
        of_table = records if len(names) == 1 else records.filter(pc.equal(numbers, number))
        source = _source(of_table.column("value")[0].as_py())
        changes.append(TableChanges(str(source.get("db")), str(source.get("table")), of_table))
    return changes


def _source(value: str) -> dict[str, Any]:
    body = json.loads(value)
    payload = body.get("payload") if isinstance(body, dict) else None
    source = payload.get("source") if isinstance(payload, dict) else None
    if not isinstance(source, dict):
        raise DamagedError(
            "record of Debezium",
            found=value[:100],
            expected="an envelope with its schema, whose source says the table and the position",
            action="Report this with the version of Debezium.",
        )
    return source
