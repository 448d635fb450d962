"""Plans a scan: the files of a snapshot that it has to read, as splits.

In: a snapshot, its live files and the filter; out: splits in the order of partition values and bucket, one for each
bucket, or several where the rows of an append table have no order. The filter prunes by partition values, by bucket (if
it fixes every bucket key column) and by key range of the files. All three are valid before the merge: they only prune
rows whose key or partition the filter rejects whatever the merge makes of other columns. Raises UnsupportedError for
files that this version cannot place (external paths, dynamic buckets).

    1  manifests    by their partition statistics and ranges of buckets: these are not even read
    2  entries      by partition and bucket, if the filter names them by equality
    3  buckets      by the partition's values, and by its own number of buckets
    4  files        by their key range; no pruned file has a record of a key that remains

Whether a bucket must be merged is decided before step 4, from all of its files: the rest of two
runs may look like one, but a pruned file may show that the kinds of the rest matter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.errors import UnsupportedError
from widetable.format.binary_row import decode_row, encode_row
from widetable.format.bucket_hash import bucket_ids
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta
from widetable.format.plain_value import FLOATS, plain_column, row_order
from widetable.format.snapshot import Snapshot
from widetable.format.value_bounds import value_bounds
from widetable.lsm.append_plan import in_order
from widetable.read.barrier_view import BarrierView
from widetable.read.literal import Comparable, comparable_of, holds
from widetable.read.predicate import Bound, Predicate
from widetable.read.split import Split, needs_merge
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, DataType
from widetable.storage.paths import POSTPONED

# A filter that names more keys than this is not translated into buckets: the lists of several columns
# multiply, each combination is hashed, and so many keys are in most buckets anyway.
_MAX_KEYS: Final = 4096
# The files of a split of an append table whose rows have no order.
_SPLIT_BYTES: Final = 32 << 20
Bounds = Mapping[str, Bound]


def plan(
    live_files: LiveFiles,
    snapshot: Snapshot | None,
    schema: TableSchema,
    predicate: Predicate | None,
    *,
    rescaled: bool = False,
    view: BarrierView | None = None,
    schema_of: Callable[[int], TableSchema] | None = None,
) -> list[Split]:
    """Plan the splits of a snapshot. rescaled: the number of buckets may differ between partitions, so
    that buckets are chosen per partition, from the entries. view: that of a barrier, whose base is the snapshot.

    snapshot: None for a table without snapshots, which has no splits, and for a view without a base:
    then all of its files are extras, and the first snapshot exists. schema_of: returns the schemas of files of an
    append table, whose values prune; None: they do not. Reads manifests, but no data file.
    """
    pruner = _Pruner(schema, predicate, schema_of)
    buckets = None if rescaled else pruner.buckets(schema.num_buckets)
    entries = live_files.live_entries(
        snapshot,
        pruner.partitions(),
        None if buckets is None else frozenset(buckets),
        pruner.may_hold if schema.partition_keys and predicate is not None else None,
    )
    if view is not None:
        entries = view.files(entries)
    splits: list[Split] = []
    for bucket, members in placed(entries).items():
        if not pruner.wants(bucket, members[0].total_buckets):
            continue
        files = in_read_order(schema, [entry.file for entry in members])
        remaining = pruner.files(bucket.partition, files)
        # Rows of an append table have no key, so nothing is merged there.
        merges = schema.has_key and needs_merge(files)
        for share in _shares(schema, remaining):
            splits.append(Split(snapshot.id if snapshot else 1, bucket, share, merges))
    order = bucket_order(schema)
    return sorted(splits, key=lambda split: order(split.bucket))


def _shares(
    schema: TableSchema, files: tuple[DataFileMeta, ...]
) -> Iterator[tuple[DataFileMeta, ...]]:
    """Yield the files of the splits of a bucket: all of them, or of an append table without an order shares that may be
    read side by side. Files with deleted rows are apart, as other engines cannot read them directly.
    """
    if not schema.has_free_rows:
        yield from (files,) if files else ()
        return
    for is_whole in (True, False):
        share, size = list[DataFileMeta](), 0
        for file in files:
            if (file.deleted is None) is not is_whole:
                continue
            share.append(file)
            size += file.file_size
            if size >= _SPLIT_BYTES:
                yield tuple(share)
                share, size = [], 0
        if share:
            yield tuple(share)


def in_read_order(schema: TableSchema, files: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...]:
    """Return the files of a bucket in the order in which an append table with buckets has its rows. The rows of other
    tables are ordered by key, or not at all, and their files stay as they are.
    """
    return tuple(files if schema.has_key or schema.has_free_rows else in_order(files))


def placed(entries: Sequence[ManifestEntry]) -> dict[BucketId, list[ManifestEntry]]:
    """Return the entries by bucket, without rows whose bucket is postponed.

    Such rows (bucket -2) wait until the client that wrote them assigns a bucket; no client
    reads them before. Raises UnsupportedError for a file that this version cannot place.
    """
    for entry in entries:
        if entry.file.external_path is not None:
            raise UnsupportedError(
                f"data file {entry.file.file_name!r}",
                found=f"the external path {entry.file.external_path!r}",
                expected="a file inside the table's directory",
                action="Read the table with another client.",
            )
    return by_bucket(entry for entry in entries if entry.bucket != POSTPONED)


def bucket_order(schema: TableSchema) -> Callable[[BucketId], Any]:
    """Return a sort key of buckets: the values of their partitions, null first, then their numbers.

    It does not use the bytes of the BinaryRow, in which numbers are little-endian. Each partition
    is decoded once in the life of the returned function.
    """
    types = _partition_types(schema)
    order = row_order(types)

    @cache
    def values(partition: bytes) -> Any:
        return order(decode_row(partition, types) if types else ())

    return lambda bucket: (values(bucket.partition), bucket.number)


def _partition_types(schema: TableSchema) -> list[DataType]:
    return [schema.field(name).type for name in schema.partition_keys]


class _Pruner:
    """Prunes partitions, buckets and key ranges by one filter. Without a filter it prunes nothing. Results for a
    partition, and for a number of buckets, are cached for the plan, because a partition occurs once per bucket.
    """

    def __init__(
        self,
        schema: TableSchema,
        predicate: Predicate | None,
        schema_of: Callable[[int], TableSchema] | None = None,
    ) -> None:
        self._schema = schema
        self._schema_of = None if schema.has_key else schema_of
        self._columns = [schema.field(name) for name in predicate.columns] if predicate else []
        self._predicate = predicate
        self._partition_types = _partition_types(schema)
        self._key_fields = [schema.field(name) for name in schema.trimmed_primary_key]
        self._key_types = [column.type for column in self._key_fields]
        self._key_in_filter = predicate is not None and not predicate.columns.isdisjoint(
            schema.trimmed_primary_key
        )
        self.buckets = cache(self._buckets)
        self._bounds_of = cache(self._bounds)
        self._wants_partition = cache(self._may_match)

    def partitions(self) -> frozenset[bytes] | None:
        """Return the partitions that the filter names by equality; None if it does not fix all partition columns."""
        fields = [self._schema.field(name) for name in self._schema.partition_keys]
        choices = self._choices(fields)
        if not fields or choices is None:
            return None
        types = [column.type for column in fields]
        return frozenset(encode_row(row, types) for row in choices)

    def _buckets(self, num_buckets: int) -> frozenset[int] | None:
        """Return the buckets of the keys that the filter names by equality; None if it does not fix all bucket keys."""
        fields = [self._schema.field(name) for name in self._schema.bucket_keys]
        choices = self._choices(fields)
        if choices is None:
            return None
        if not choices:
            return frozenset()
        if num_buckets < 1:
            return None  # dynamic: any bucket may have a key
        columns = [
            plain_column([row[i] for row in choices], column.type)
            for i, column in enumerate(fields)
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=[column.name for column in fields])
        return frozenset(bucket_ids(batch, self._schema, num_buckets).tolist())

    def _choices(self, fields: Sequence[DataField]) -> list[tuple[Comparable, ...]] | None:
        """Return the value rows that these columns may have in a kept row; None if not all are fixed, or if there are
        too many.

            k = 3 AND j IN (1, 2)        (3, 1) and (3, 2), of which with 4 buckets 0 and 2 are read
            k = 3 AND j = 4.5            none: an integer is never 4.5, so no bucket is read
            k = 3 OR j = 4               None: not all kept rows have a k of 3
        """
        if self._predicate is None:
            return None
        per_column = []
        for column in fields:
            values = self._predicate.equal_values(column.name)
            # -0.0 = 0.0, but their bytes differ.
            if values is None or column.type.root in FLOATS:
                return None
            per_column.append([value for value in values if holds(column.type, value)])
        if math.prod(len(values) for values in per_column) > _MAX_KEYS:
            return None
        return list(itertools.product(*per_column))

    def may_hold(self, meta: ManifestFileMeta) -> bool:
        """Return whether a manifest may have an entry of a partition that the filter keeps, by its partition stats.

        These bound each partition column separately. If the writer did not count nulls, there may
        be some.
        """
        if self._predicate is None:
            return True
        stats, types = meta.partition_stats, self._partition_types
        lower, upper = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
        counts = stats.null_counts
        bounds = {
            name: _bound(t, low, high, nulls=i >= len(counts) or counts[i] != 0)
            for i, (name, t, low, high) in enumerate(
                zip(self._schema.partition_keys, types, lower, upper, strict=True)
            )
        }
        return self._predicate.may_match(bounds)

    def wants(self, bucket: BucketId, total_buckets: int) -> bool:
        """Return whether a bucket may have rows that the filter keeps."""
        if self._predicate is None:
            return True
        if not self._wants_partition(bucket.partition):
            return False
        buckets = self.buckets(total_buckets)
        return buckets is None or bucket.number in buckets

    def files(self, partition: bytes, files: tuple[DataFileMeta, ...]) -> tuple[DataFileMeta, ...]:
        """Return the files whose key range may have keys that the filter keeps; of an append table those whose values
        may.

        A filter over both partition and key columns (`dt = 1 OR k = 2`) is evaluated with the bounds
        of both.
        """
        if self._predicate is None:
            return files
        if self._schema_of is not None:
            return self._by_values(partition, files, self._predicate, self._schema_of)
        if not self._key_in_filter:
            return files
        outer = self._bounds_of(partition)
        return tuple(
            file for file in files if self._predicate.may_match({**outer, **self._key_bounds(file)})
        )

    def _by_values(
        self,
        partition: bytes,
        files: tuple[DataFileMeta, ...],
        predicate: Predicate,
        schema_of: Callable[[int], TableSchema],
    ) -> tuple[DataFileMeta, ...]:
        outer = self._bounds_of(partition)

        def bounds(file: DataFileMeta) -> Bounds:
            ranges = value_bounds(file, schema_of(file.schema_id), self._columns)
            types = self._schema.by_name
            inner = {
                name: _bound(types[name].type, each.low, each.high, nulls=each.nulls)._replace(
                    exact=False, values=each.values
                )
                for name, each in ranges.items()
            }
            return {**inner, **outer}

        return tuple(file for file in files if predicate.may_match(bounds(file)))

    def _may_match(self, partition: bytes) -> bool:
        return self._predicate is None or self._predicate.may_match(self._bounds_of(partition))

    def _bounds(self, partition: bytes) -> Bounds:
        types = self._partition_types
        values = decode_row(partition, types) if types else ()
        bounds = {}
        for name, t, value in zip(self._schema.partition_keys, types, values, strict=True):
            comparable = comparable_of(t, value) if value is not None else None
            is_null = value is None
            bounds[name] = Bound(
                comparable, comparable, not is_null, nulls=is_null, values=not is_null
            )
        return bounds

    def _key_bounds(self, file: DataFileMeta) -> Bounds:
        keys = file.min_key, file.max_key
        lower, upper = (decode_row(key, self._key_types) for key in keys)
        return key_bounds(self._key_fields, lower, upper)


def key_bounds(
    fields: Sequence[DataField], lower: Sequence[Any], upper: Sequence[Any]
) -> dict[str, Bound]:
    """Return bounds of key columns from the first and last key of sorted rows. A column is bounded if all columns
    before it are constant. Equal floats may differ in the sort order: -0.0 is sorted before 0.0.

        (k, j) from (1, 5) to (1, 9)      k = 1, 5 <= j <= 9
        (k, j) from (1, 5) to (2, 3)      1 <= k <= 2, j not known: (1, 100) lies between
    """
    bounds = {}
    for column, low, high in zip(fields, lower, upper, strict=True):
        bounds[column.name] = _bound(column.type, low, high, nulls=False)
        if low is None or low != high or column.type.root in FLOATS:
            break
    return bounds


def _bound(t: DataType, low: Any, high: Any, *, nulls: bool) -> Bound:
    return Bound(
        None if low is None else comparable_of(t, low),
        None if high is None else comparable_of(t, high),
        exact=low is not None and low == high,
        nulls=nulls,
    )
