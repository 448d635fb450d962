"""Declares every table option that is honoured, once: key, kind, default, unit, sentence.

docs/options.md is generated from `OPTIONS`. A table's options are string to string, as in Paimon's schema
files; `TableOptions` returns typed values. Retention options are in `retention_options`, those of derived tables in
`join_options`, those of columns in `field_options`; `option_checks` refuses options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from widetable.schema.barrier_options import BARRIER_OPTIONS
from widetable.schema.join_options import OPTIONS_OF_MADE
from widetable.schema.option import Option, declared_in, parse_value
from widetable.schema.retention_options import RETENTION_OPTIONS
from widetable.schema.tag_options import TAG_OPTIONS

T = TypeVar("T")

BUCKET: Final = Option[int](
    "bucket",
    "integer",
    -1,
    "buckets per partition",
    "Number of buckets of every partition; a row's bucket is a hash of its bucket key. A table that is created without "
    "the option gets 1, which its schema records. If it is absent from a schema, or -1, buckets are dynamic: a key "
    "stays in its first bucket, which an index records. -2 (postponed): rows are written without a bucket, and nobody "
    "reads them until a compaction gives each partition a fitting number of buckets (docs/postpone-buckets.md). In "
    "an append table -1, the default, means no buckets: any file of a partition may hold any row. A number needs "
    "`bucket-key`; the rows of a bucket keep their order then.",
    immutable=True,
    least=-2,
)
DYNAMIC_BUCKET_TARGET_ROWS: Final = Option[int](
    "dynamic-bucket.target-row-num",
    "integer",
    2_000_000,
    "keys",
    "Number of keys that a dynamic bucket gets before the next bucket is begun.",
    least=1,
)
DYNAMIC_BUCKET_MAX_BUCKETS: Final = Option[int](
    "dynamic-bucket.max-buckets",
    "integer",
    -1,
    "buckets per partition",
    "Maximum number of dynamic buckets of a partition; when all are full, they get more than the target number of "
    "keys. -1: no limit.",
    least=-1,
)
POSTPONE_DEFAULT_BUCKET_NUM: Final = Option[int | None](
    "postpone.default-bucket-num",
    "integer",
    None,
    "buckets per partition",
    "Number of buckets that a partition gets when its first postponed rows are brought into buckets; by default as "
    "many as `postpone.target-row-num-per-bucket` or `postpone.target-size-per-bucket` asks for.",
    least=1,
)
POSTPONE_TARGET_ROWS: Final = Option[int | None](
    "postpone.target-row-num-per-bucket",
    "integer",
    None,
    "rows",
    "Number of postponed rows for each bucket that a partition gets.",
    least=1,
    most=2**63 - 1,
)
POSTPONE_TARGET_SIZE: Final = Option[int].memory_size(
    "postpone.target-size-per-bucket",
    1 << 30,
    "Size of the postponed files for each bucket that a partition gets, if no number of rows is set.",
    least=1,
)
BUCKET_KEY: Final = Option[tuple[str, ...]].names(
    "bucket-key",
    (),
    "Columns whose values are hashed, in this order; by default the primary key without the partition columns. An "
    "append table with buckets needs it.",
    immutable=True,
)
BUCKET_FUNCTION: Final = Option[str].enum(
    "bucket-function.type",
    "default",
    ("default", "mod"),
    "`default` hashes the bucket key (Murmur3 of its BinaryRow); `mod` takes the remainder of a single INT or BIGINT.",
    immutable=True,
)
NULL_TO_NOT_NULL_DISABLED: Final = Option[bool].flag(
    "alter-column-null-to-not-null.disabled", True, "Do not allow a column to become NOT NULL."
)
MERGE_ENGINE: Final = Option[str].enum(
    "merge-engine",
    "deduplicate",
    ("deduplicate", "partial-update", "aggregation", "first-row"),
    "How the records of a key are merged: `deduplicate` keeps the last record, `partial-update` the last value of each "
    "column, `aggregation` applies a function to each column, `first-row` keeps the first record.",
    immutable=True,
)
IGNORE_DELETE: Final = Option[bool].flag(
    "ignore-delete", False, "Drop -U and -D records before they are written."
)
IGNORE_UPDATE_BEFORE: Final = Option[bool].flag(
    "ignore-update-before", False, "Drop -U records before they are written."
)
SEQUENCE_FIELD: Final = Option[tuple[str, ...]].names(
    "sequence.field",
    (),
    "Columns that order the records of a key; the last record wins. Ties are broken by arrival. Null sorts first.",
)
SEQUENCE_SORT_ORDER: Final = Option[str].enum(
    "sequence.field.sort-order",
    "ascending",
    ("ascending", "descending"),
    "With `descending` the smallest value of `sequence.field` wins; null still sorts first.",
)
ROWKIND_FIELD: Final = Option[str | None].text(
    "rowkind.field",
    None,
    "A STRING column with the row kind (+I, -U, +U, -D, in any case); it is stored as a column as well.",
    immutable=True,
)
REMOVE_RECORD_ON_DELETE: Final = Option[bool].flag(
    "partial-update.remove-record-on-delete",
    False,
    "A -D removes the whole row (partial-update without sequence groups).",
    immutable=True,
)
REMOVE_RECORD_ON_SEQUENCE_GROUP: Final = Option[tuple[str, ...]](
    "partial-update.remove-record-on-sequence-group",
    "untrimmed names",
    (),
    "",
    "Sequence columns; a -D that one of their groups accepts removes the whole row. Blanks are a part of a name.",
    immutable=True,
)
AGGREGATION_REMOVE_RECORD_ON_DELETE: Final = Option[bool].flag(
    "aggregation.remove-record-on-delete",
    False,
    "A -D removes the whole row (aggregation); later records start a new row.",
    immutable=True,
)
ABSENT_GROUP_COLUMNS: Final = Option[str].enum(
    "widetable.absent-group-columns",
    "error",
    ("error", "null"),
    "How to treat a batch that has the sequence of a sequence group but not all of its columns, such as a batch of a "
    "writer that was started before a column was added to the group. `error`: it is refused. `null`: a missing column "
    "is null in each of its records. As a newer record overwrites all columns of its group, these nulls overwrite the "
    "values of other writers.",
)
CHANGELOG_PRODUCER: Final = Option[str].enum(
    "changelog-producer",
    "none",
    ("none", "input", "lookup", "full-compaction"),
    "The changelog of the table: `none`; `input`, the records as they were written; `lookup`, full rows before "
    "and after each commit; `full-compaction`, full rows before and after each full compaction.",
)
ROW_DEDUPLICATE: Final = Option[bool].flag(
    "changelog-producer.row-deduplicate",
    False,
    "Emit no -U and +U for a row that has not changed (`lookup` and `full-compaction`).",
)
ROW_DEDUPLICATE_IGNORE_FIELDS: Final = Option[tuple[str, ...]].names(
    "changelog-producer.row-deduplicate-ignore-fields",
    (),
    "Columns that `changelog-producer.row-deduplicate` does not compare.",
)
LOOKUP_WAIT: Final = Option[bool].flag(
    "lookup-wait",
    True,
    "A write returns when its changelog is committed, unless the barrier is large; false: a thread makes the changelog "
    "afterwards.",
)
INLINE_COMPACTION_SIZE: Final = Option[int].memory_size(
    "widetable.inline-compaction-size",
    16 << 20,
    "How much of a bucket's older levels a commit with the producer `lookup` rewrites before it returns; in a table "
    "under barriers, how much of all due levels, 1 mb at most. A thread of the writer rewrites more, while commits "
    "continue.",
)
LOOKUP_COMPACT: Final = Option[str].enum(
    "lookup-compact",
    "radical",
    ("radical", "gentle"),
    "`radical`: the rows of each commit move up, with their changelog, at once; "
    "`gentle`: when `lookup-compact.max-interval` level-0 files of a bucket wait.",
)
LOOKUP_COMPACT_MAX_INTERVAL: Final = Option[int | None](
    "lookup-compact.max-interval",
    "integer",
    None,
    "level-0 files",
    "How many level-0 files of a bucket may wait with `gentle`; by default twice the compaction trigger, "
    "never less than it.",
    least=1,
)
TILE_SIZE: Final = Option[int | None].duration(
    "widetable.tile-size",
    None,
    "The size of a tile, for `Table.windows`: the last column of the primary key is the start of a span of time of "
    "this length, counted from 1970-01-01 00:00 UTC.",
    least=1,
)
LOOKUP_STRATEGY: Final = Option[str].enum(
    "widetable.lookup-strategy",
    "auto",
    ("auto", "scan", "lookup"),
    "How rows are found by key: `lookup` uses local caches, `scan` the data files, `auto` the cheaper one per file.",
)
LOOKUP_CACHE_MAX_DISK_SIZE: Final = Option[int].memory_size(
    "lookup.cache-max-disk-size",
    10 << 30,
    "Local disk space for the lookup caches of a host; the least recently used are removed first. 0: no caches.",
)
LOOKUP_CACHE_MAX_MEMORY_SIZE: Final = Option[int].memory_size(
    "lookup.cache-max-memory-size",
    256 << 20,
    "Memory for index blocks of lookup caches, per process.",
)
LOOKUP_CACHE_FILE_RETENTION: Final = Option[int].duration(
    "lookup.cache-file-retention",
    3_600_000,
    "A lookup cache that was not used for this time is removed.",
)
WRITE_ONLY: Final = Option[bool].flag(
    "write-only",
    False,
    "Writers only append; `table.compact()` or a maintainer compacts.",
)
DELETION_VECTORS_ENABLED: Final = Option[bool].flag(
    "deletion-vectors.enabled",
    False,
    "Compactions mark the older rows of their keys as deleted, so that readers need not merge rows above level 0.",
    immutable=True,
)
DELETION_VECTORS_BITMAP64: Final = Option[bool].flag(
    "deletion-vectors.bitmap64", False, "Deletion vectors hold 64-bit row numbers."
)
NUM_SORTED_RUN_COMPACTION_TRIGGER: Final = Option[int](
    "num-sorted-run.compaction-trigger",
    "integer",
    5,
    "sorted runs",
    "Number of sorted runs at which a bucket is compacted.",
    least=1,
)
NUM_LEVELS: Final = Option[int | None](
    "num-levels",
    "integer",
    None,
    "levels",
    "Number of levels of a bucket, level 0 included; by default the compaction trigger plus 1, or, with the producer "
    "`lookup`, the trigger plus 5 and at least 7.",
    least=2,
)
MAX_SIZE_AMPLIFICATION_PERCENT: Final = Option[int](
    "compaction.max-size-amplification-percent",
    "integer",
    200,
    "%",
    "Newer runs larger than this share of the oldest run cause a full compaction.",
)
SIZE_RATIO: Final = Option[int](
    "compaction.size-ratio",
    "integer",
    1,
    "%",
    "How much larger the next run may be to be included in a compaction.",
)
TARGET_FILE_SIZE: Final = Option[int].memory_size(
    "target-file-size", 128 << 20, "A data file is closed when it reaches this size.", least=1
)
WRITE_BUFFER_SIZE: Final = Option[int].memory_size(
    "write-buffer-size",
    256 << 20,
    "Memory that a writer or a compaction may fill with rows before it spills, or works key range by key range.",
    least=1 << 10,
)
COMPACTION_MIN_FILE_NUM: Final = Option[int](
    "compaction.min.file-num",
    "integer",
    5,
    "files",
    "Number of small files of similar size, in a partition or bucket of an append table, that are rewritten as one. "
    "Small is less than seven tenths of `target-file-size`.",
    least=2,
)
FILE_COMPRESSION: Final = Option[str].enum(
    "file.compression",
    "zstd",
    ("zstd", "snappy", "lz4", "gzip", "none"),
    "Codec of Parquet data files.",
)
FILE_COMPRESSION_ZSTD_LEVEL: Final = Option[int](
    "file.compression.zstd-level",
    "integer",
    1,
    "level",
    "Level of the zstd codec.",
    least=1,
    most=22,
)
CHANGELOG_FILE_COMPRESSION: Final = Option[str | None].enum(
    "changelog-file.compression",
    None,
    ("zstd", "snappy", "lz4", "gzip", "none"),
    "Codec of changelog files; by default that of data files.",
)
FILE_FORMAT: Final = Option[str].enum(
    "file.format",
    "parquet",
    ("parquet",),
    "Format of new data files; ORC and Avro files can be read.",
)
FILE_INDEX_READ: Final = Option[bool].flag(
    "file-index.read.enabled", True, "Scans skip data files and row groups by their file indexes."
)
FILE_INDEX_IN_MANIFEST: Final = Option[int].memory_size(
    "file-index.in-manifest-threshold",
    500,
    "A file index up to this size is a part of the manifest; a larger one is a file beside its data file.",
)
ORC_LEGACY_INSTANTS: Final = Option[bool].flag(
    "orc.timestamp-ltz.legacy.type",
    True,
    "ORC files of Java writers store a TIMESTAMP WITH LOCAL TIME ZONE as the instant at which clocks in the writer's "
    "zone show it; false: they store the instant itself. The schema with which a file was written decides.",
)
MANIFEST_TARGET_FILE_SIZE: Final = Option[int].memory_size(
    "manifest.target-file-size",
    8 << 20,
    "A manifest of this size is not merged.",
    least=1 << 10,
)
MANIFEST_MERGE_MIN_COUNT: Final = Option[int](
    "manifest.merge-min-count",
    "integer",
    30,
    "manifests",
    "Number of consecutive small manifests of similar size that are merged into one.",
    least=1,
)
PARTITION_DEFAULT_NAME: Final = Option[str].text(
    "partition.default-name",
    "__DEFAULT_PARTITION__",
    "Value in the directory name of a null or blank partition value.",
    immutable=True,
)
PARTITION_LEGACY_NAME: Final = Option[bool].flag(
    "partition.legacy-name",
    True,
    "The value of a DATE in a directory name is its day number; false: its ISO text.",
    immutable=True,
)
DYNAMIC_PARTITION_OVERWRITE: Final = Option[bool].flag(
    "dynamic-partition-overwrite",
    True,
    "An overwrite replaces only the partitions in the data; false: the whole table.",
)
COMMIT_MAX_RETRIES: Final = Option[int](
    "commit.max-retries",
    "integer",
    10,
    "tries",
    "Number of retries of an overwrite that was overtaken by another commit. Appends and compactions are limited only "
    "by the timeout.",
)
COMMIT_TIMEOUT: Final = Option[int | None].duration(
    "commit.timeout",
    None,
    "How long a commit is retried when other commits overtake it; by default without limit.",
)
LEVEL0_COLUMNS: Final = Option[str].enum(
    "widetable.level0-columns",
    "written",
    ("written", "all"),
    "`written`: files of all levels have only the key and the columns that were written (for readers from Paimon 1.2 "
    "on); `all`: every column and the `_KEY_` columns (for older readers, and engines that read Parquet themselves).",
)
WIDEN_PIECE_ROWS: Final = Option[int](
    "widetable.widen-piece-rows",
    "integer",
    262_144,
    "",
    "Number of rows that a widener (`widen.<column>`) writes in one commit.",
    least=1,
)
FSYNC: Final = Option[bool].flag(
    "widetable.fsync",
    True,
    "Data, manifests and snapshots are forced to the disk before they are published; "
    "false: the operating system decides.",
)
# All options of this module, in that order, and those of the other modules.
OPTIONS: Final[tuple[Option[Any], ...]] = (
    *declared_in(globals()),
    *RETENTION_OPTIONS,
    *TAG_OPTIONS,
    *BARRIER_OPTIONS,
    *OPTIONS_OF_MADE,
)
BY_KEY: Final[dict[str, Option[Any]]] = {option.key: option for option in OPTIONS}

# Paimon's older names of an option, and its present key.
OLD_KEYS: Final = {
    "write.compaction-skip": WRITE_ONLY.key,
    "changelog-producer.lookup-wait": LOOKUP_WAIT.key,
    "partial-update.ignore-delete": IGNORE_DELETE.key,
    "deduplicate.ignore-delete": IGNORE_DELETE.key,
    "first-row.ignore-delete": IGNORE_DELETE.key,
}


class TableOptions:
    """The typed options of a table. In: the string map of a schema. A wrong value raises InvalidError naming it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        old = {OLD_KEYS[key]: value for key, value in options.items() if key in OLD_KEYS}
        self._texts = {**old, **options}

    def get(self, option: Option[T]) -> T:
        text = self._texts.get(option.key)
        if text is None:
            return option.default
        return parse_value(option, text)


# Options that a new table gets by default, because Paimon interprets their absence differently.
WRITTEN_OUT: Final[Mapping[str, str]] = {BUCKET.key: "1"}
# The same for an append table: any file may hold any row.
WRITTEN_OUT_OF_APPEND: Final[Mapping[str, str]] = {BUCKET.key: "-1"}
