"""`apply_debezium`: applies Debezium's JSON to a table in one commit.

    data ─► record_chunks ─► ChangeReader ─► fitting_table ─► StateRows ─► Table.write(user, identifier)
                                  └──────────── bad records ──────┴──► <db>.__cdc_errors, before the commit

The commit has all records of the call or none. A crash between the two tables repeats both, and adds nothing to either.
The records of a call are in memory, without their schemas and sources. Raises InvalidError for records that cannot be
understood as a whole, and what writes raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from widetable import Catalog, CommitResult, InvalidError, Table
from widetable.connector import arguments, counted, now_millis
from widetable_cdc.debezium.bad_records import joined
from widetable_cdc.debezium.change_reader import ChangeReader, Changes, ChangeSettings
from widetable_cdc.debezium.connect_schema import RecordForm
from widetable_cdc.debezium.error_table import store_bad_records
from widetable_cdc.debezium.json_kernels import Mask
from widetable_cdc.debezium.last_delete import kept_deletes, property_of
from widetable_cdc.debezium.record_source import record_chunks
from widetable_cdc.debezium.records import RecordCounts, Records
from widetable_cdc.debezium.state_rows import StateRows
from widetable_cdc.debezium.target_table import (
    check_sequence,
    fitting_table,
    sequence_of,
    target_table,
)
from widetable_cdc.debezium.unavailable import DEFAULT
from widetable_cdc.log.changes import ChangeBatch, Kind

PARK: Final = "park"
STOP: Final = "stop"
APPLY: Final = "apply"
IGNORE: Final = "ignore"
DECIMALS: Final = ("precise", "string", "double")


@dataclass(frozen=True)
class DebeziumSettings:
    """How records of Debezium's JSON are read and applied; picklable.

    Attributes
    ----------
    placeholder : str
        What stands for a big value that a change does not carry: Debezium's `unavailable.value.placeholder`. By
        default "__debezium_unavailable_value".
    decimals : str
        Debezium's `decimal.handling.mode`, "precise" (the default), "string" or "double", for texts in DECIMAL columns.
        A schema in the records says it better.
    on_error : str
        What to do with records that cannot be applied: "park" (the default) stores them in `<db>.__cdc_errors`, "stop"
        raises.
    truncate : str
        What to do with a truncate: "apply" (the default) deletes all rows, "ignore" keeps them, "stop" raises.
    table_options : dict of str to str or None
        The options of a table that is missing. None, the default: none.

    Raises
    ------
    InvalidError
        A value has a wrong type, or is none of the words.

    Examples
    --------
    >>> import widetable_cdc
    >>> widetable_cdc.DebeziumSettings(truncate="ignore").on_error
    'park'
    """

    placeholder: str = DEFAULT
    decimals: str = "precise"
    on_error: str = PARK
    truncate: str = APPLY
    table_options: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        arguments.text(self.placeholder, "placeholder")
        arguments.one_of(self.decimals, DECIMALS, "decimals")
        arguments.one_of(self.on_error, (PARK, STOP), "on_error")
        arguments.one_of(self.truncate, (APPLY, IGNORE, STOP), "truncate")
        arguments.mapping(self.table_options, "table_options")


@dataclass(frozen=True)
class DebeziumResult:
    """What a call of `apply_debezium` did.

    Attributes
    ----------
    committed : bool
        False: no record changed a row, or an earlier call has made this commit.
    snapshot_id : int or None
        The snapshot of the commit, also of an earlier call. None: there is none.
    rows : int
        How many rows the commit wrote: the last state of each key.
    records, tombstones, messages, bad, late : int
        How many records there were; how many of them have no value, are messages of the log (op m), are in the table
        of errors, and came behind a newer one. All are 0 for a commit that was made before.
    """

    committed: bool
    snapshot_id: int | None
    rows: int = 0
    records: int = 0
    tombstones: int = 0
    messages: int = 0
    bad: int = 0
    late: int = 0


def apply_debezium(
    catalog: Catalog,
    table: str,
    data: Any,
    *,
    commit_user: str,
    commit_identifier: int | None = None,
    key: Sequence[str] | None = None,
    settings: DebeziumSettings | None = None,
) -> DebeziumResult:
    """Apply records of Debezium's JSON to a table, in one commit.

    Of each key the last state is written. Records of one key must come in their order. If the table has a
    `sequence.field`, it takes the position in the source, and older records do not win. With schemas in the records the
    table is made if it is missing, gets a column for each new field, and wider types.

    Parameters
    ----------
    catalog : Catalog
        The warehouse.
    table : str
        The table, as `db.name`.
    data : Arrow data, path, or iterable
        Arrow data with the columns `value` and, if there are keys, `key`; the path of a file with a JSON value in each
        line; or an iterable of `Path` objects, of JSON values as texts or bytes, or of Arrow batches.
    commit_user : str
        The name under which identifiers grow; that of errors in `<db>.__cdc_errors`, too.
    commit_identifier : int, default None
        The number of this batch: the same call again commits nothing. None: it is never a repeat.
    key : list of str, default None
        The primary key of a table that is missing. None: the table is there.
    settings : DebeziumSettings, default None
        How records are read and applied. None: the defaults.

    Returns
    -------
    DebeziumResult
        What was committed and counted.

    Raises
    ------
    InvalidError
        An argument is wrong, a field has neither a column nor a schema, or there is a record to stop at.

    Examples
    --------
    >>> import widetable as wt
    >>> import widetable_cdc
    >>> catalog = wt.Catalog("warehouse")
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> mirror = catalog.create_table("shop.mirrored", columns, primary_key=["id"])
    >>> lines = ['{"before":null,"after":{"id":1,"city":"Oslo"},"op":"c"}']
    >>> widetable_cdc.apply_debezium(catalog, "shop.mirrored", lines, commit_user="crm").rows
    1
    """
    job = DebeziumJob.checked(catalog, table, commit_user, key, settings)
    return job.applied(data, commit_identifier)


@dataclass(frozen=True)
class DebeziumJob:
    """Applies batches to one table. key: of a table that is missing."""

    catalog: Catalog
    name: str
    user: str
    key: tuple[str, ...] | None
    settings: DebeziumSettings

    @staticmethod
    def checked(catalog: Any, table: Any, commit_user: Any, key: Any, settings: Any) -> DebeziumJob:
        """Check the arguments of `apply_debezium`."""
        return DebeziumJob(
            arguments.instance(catalog, Catalog, "catalog"),
            arguments.text(table, "table"),
            arguments.text(commit_user, "commit_user"),
            None if key is None else arguments.names(key, "key"),
            DebeziumSettings()
            if settings is None
            else arguments.instance(settings, DebeziumSettings, "settings"),
        )

    def applied(self, data: Any, identifier: int | None) -> DebeziumResult:
        """Apply a batch, unless it was applied before."""
        table = target_table(self.catalog, self.name)
        earlier = self.earlier(table, identifier)
        if earlier is not None:
            return DebeziumResult(committed=False, snapshot_id=earlier)
        changes = self.read(record_chunks(data), table)
        batch = now_millis() if identifier is None else identifier
        if not changes.batches:
            self.park(changes.bad, batch)
            return _result(changes.counts, changes.bad)
        rows = self.state_rows(self.fitting(changes.forms), changes)

        def written() -> Iterator[pa.RecordBatch]:
            yield from rows.batches()
            self.park((*changes.bad, *rows.bad), batch)

        note = () if changes.last_delete is None else (changes.last_delete,)
        before = rows.table.scan().snapshot_id if note else None
        properties = property_of(note, before)
        result = rows.table.write(written(), self.user, identifier, properties=properties)
        return _result(changes.counts, (*changes.bad, *rows.bad), result)

    def earlier(self, table: Table | None, identifier: int | None) -> int | None:
        """Return the snapshot of a batch that was applied before; None for a new batch."""
        if table is None or identifier is None:
            return None
        return table.write([], self.user, identifier).snapshot_id

    def read(self, chunks: Iterable[Records], table: Table | None) -> Changes:
        """Return the changes of records. table: as it is now; None if it is missing."""
        if table is None and self.key is None:
            raise InvalidError(
                f"table {self.name!r}",
                found="no such table, and no key",
                expected="the table, or the key of a new one",
                action="Make the table first, or pass key=[...].",
            )
        key = self.key or () if table is None else tuple(table.schema.primary_keys)
        sequence = sequence_of(table)
        columns = () if table is None else tuple(table.arrow_schema.names)
        reader = ChangeReader(
            ChangeSettings(
                key,
                columns,
                self.settings.placeholder,
                sequence is not None,
                partial(kept_deletes, table, self.user),
            )
        )
        for chunk in chunks:
            reader.read(chunk)
        changes = reader.finish()
        for batch in changes.batches:
            check_sequence(sequence, batch.new.schema.names)
        return _without_truncates(changes, self.name, self.settings.truncate)

    def fitting(self, forms: Sequence[RecordForm]) -> Table:
        """Return the table with a column for each field of these forms."""
        options = self.settings.table_options
        return fitting_table(self.catalog, self.name, forms, self.key or (), options)

    def state_rows(self, table: Table, changes: Changes) -> StateRows:
        """Return the rows of a commit. table: with a column for each field."""
        return StateRows(table, changes, self.settings.decimals, sequence_of(table))

    def park(self, bad: Sequence[pa.Table], batch: int) -> None:
        """Store bad records of a batch, or raise InvalidError for them."""
        records = joined(bad)
        if self.settings.on_error == STOP and records.num_rows:
            first = records.slice(0, 1).to_pylist()[0]
            raise InvalidError(
                f"table {self.name!r}",
                found=f"{counted(records.num_rows, 'record')} that cannot be applied; record "
                f"{first['ordinal']}: {first['reason']}",
                expected="records that fit the table, as on_error='stop' says",
                action="Correct the record or the column, or park bad records.",
            )
        store_bad_records(self.catalog, self.name, self.user, batch, records)


def _without_truncates(changes: Changes, name: str, truncate: str) -> Changes:
    """Raise at a truncate to stop at, and leave out those to ignore."""
    marks = [batch.kinds == Kind.TRUNCATE for batch in changes.batches]
    if truncate == APPLY or not any(mark.any() for mark in marks):
        return changes
    if truncate == STOP:
        raise InvalidError(
            f"table {name!r}",
            found="a truncate in the source",
            expected="none, as truncate='stop' says",
            action="Pass truncate='apply' to delete all rows, or 'ignore' to keep them.",
        )
    batches = map(_kept, changes.batches, marks)
    return replace(changes, batches=tuple(batch for batch in batches if len(batch.kinds)))


def _kept(batch: ChangeBatch, is_truncate: Mask) -> ChangeBatch:
    return batch.taken(np.flatnonzero(~is_truncate))


def _result(
    counts: RecordCounts, bad: Sequence[pa.Table], result: CommitResult | None = None
) -> DebeziumResult:
    return DebeziumResult(
        result is not None and result.committed,
        None if result is None else result.snapshot_id,
        0 if result is None else result.rows,
        counts.records,
        counts.tombstones,
        counts.messages,
        joined(bad).num_rows,
        counts.late,
    )
