"""Every table option that is honoured, declared once: key, kind, default, unit, sentence.

docs/options.md is generated from `OPTIONS`. A table's options are string to string, as in Paimon's schema
files; `TableOptions` gives them typed. Options of how long things stay are in `retention_options`, those of tables that
are made of others in `join_options`, those of columns in `field_options`; what is refused, in `option_checks`.
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
    "Number of buckets of every partition; a row's bucket is a hash of its bucket key. A table that is made without it "
    "gets 1, written down. Where it is absent, or -1, buckets are dynamic: a key stays in the bucket that it was first "
    "put into, which an index remembers. -2 (postponed): such a table can be read, not written.",
    immutable=True,
    least=-2,
)
DYNAMIC_BUCKET_TARGET_ROWS: Final = Option[int](
    "dynamic-bucket.target-row-num",
    "integer",
    2_000_000,
    "keys",
    "So many keys a dynamic bucket gets before another one is begun.",
    least=1,
)
DYNAMIC_BUCKET_MAX_BUCKETS: Final = Option[int](
    "dynamic-bucket.max-buckets",
    "integer",
    -1,
    "buckets per partition",
    "Most dynamic buckets of a partition; when all are full, they get more than their number of keys. -1: no limit.",
    least=-1,
)
BUCKET_KEY: Final = Option[tuple[str, ...]].names(
    "bucket-key",
    (),
    "Columns that are hashed, in this order; by default the primary key without the partition columns.",
    immutable=True,
)
BUCKET_FUNCTION: Final = Option[str].enum(
    "bucket-function.type",
    "default",
    ("default", "mod"),
    "`default` hashes the bucket key (Murmur3 of its BinaryRow), `mod` takes the remainder of a single INT or BIGINT.",
    immutable=True,
)
NULL_TO_NOT_NULL_DISABLED: Final = Option[bool].flag(
    "alter-column-null-to-not-null.disabled", True, "No column becomes NOT NULL."
)
MERGE_ENGINE: Final = Option[str].enum(
    "merge-engine",
    "deduplicate",
    ("deduplicate", "partial-update", "aggregation", "first-row"),
    "What rows of equal key become: the last one, the last value of each column, what a function of each column makes "
    "of them, the first one.",
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
    "Columns that order the records of a key, the last wins; ties go by arrival. Null sorts first.",
)
SEQUENCE_SORT_ORDER: Final = Option[str].enum(
    "sequence.field.sort-order",
    "ascending",
    ("ascending", "descending"),
    "`descending` lets the smallest value of `sequence.field` win; null still sorts first.",
)
ROWKIND_FIELD: Final = Option[str | None].text(
    "rowkind.field",
    None,
    "A STRING column that holds the row kind (+I, -U, +U, -D, any case); it stays a column.",
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
    "Sequence columns; a -D that one of their groups accepts removes the whole row. Blanks count as part of a name.",
    immutable=True,
)
AGGREGATION_REMOVE_RECORD_ON_DELETE: Final = Option[bool].flag(
    "aggregation.remove-record-on-delete",
    False,
    "A -D removes the whole row (aggregation); what is written after it begins anew.",
    immutable=True,
)
ABSENT_GROUP_COLUMNS: Final = Option[str].enum(
    "widetable.absent-group-columns",
    "error",
    ("error", "null"),
    "What a batch means that has the sequence of a sequence group but not all columns of it, as that of a writer from "
    "before a column joined the group. `error`: it is refused. `null`: such a column is null in each of its records, "
    "and as a newer record overwrites all columns of its group, these nulls overwrite what others wrote there.",
)
CHANGELOG_PRODUCER: Final = Option[str].enum(
    "changelog-producer",
    "none",
    ("none", "input", "lookup", "full-compaction"),
    "Which changelog the table keeps: `none`; `input`, the records as they were written; `lookup`, full rows before "
    "and after each commit; `full-compaction`, full rows before and after each full compaction.",
)
ROW_DEDUPLICATE: Final = Option[bool].flag(
    "changelog-producer.row-deduplicate",
    False,
    "No -U and +U for a row that stays as it was (`lookup` and `full-compaction`).",
)
ROW_DEDUPLICATE_IGNORE_FIELDS: Final = Option[tuple[str, ...]].names(
    "changelog-producer.row-deduplicate-ignore-fields",
    (),
    "Columns that `changelog-producer.row-deduplicate` does not compare.",
)
LOOKUP_WAIT: Final = Option[bool].flag(
    "lookup-wait",
    True,
    "A write returns when its changelog, unless of a large barrier, is committed; false: a thread makes it afterwards.",
)
INLINE_COMPACTION_SIZE: Final = Option[int].memory_size(
    "widetable.inline-compaction-size",
    16 << 20,
    "How much of a bucket's older levels a commit with the producer `lookup` rewrites before it returns, or, in a "
    "table under barriers, of all that is due, 1 mb at most; more is left to a thread of the writer: commits go on.",
)
LOOKUP_COMPACT: Final = Option[str].enum(
    "lookup-compact",
    "radical",
    ("radical", "gentle"),
    "`radical`: every commit's rows move up, with their changelog, at once; "
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
LOOKUP_STRATEGY: Final = Option[str].enum(
    "widetable.lookup-strategy",
    "auto",
    ("auto", "scan", "lookup"),
    "How rows are found by key: `lookup` through local caches, `scan` through the data files, `auto` by cost per file.",
)
LOOKUP_CACHE_MAX_DISK_SIZE: Final = Option[int].memory_size(
    "lookup.cache-max-disk-size",
    10 << 30,
    "Local disk that lookup caches of a host may take; the longest unused go first. 0: no caches.",
)
LOOKUP_CACHE_MAX_MEMORY_SIZE: Final = Option[int].memory_size(
    "lookup.cache-max-memory-size",
    256 << 20,
    "Memory for index blocks of lookup caches, per process.",
)
LOOKUP_CACHE_FILE_RETENTION: Final = Option[int].duration(
    "lookup.cache-file-retention",
    3_600_000,
    "A lookup cache that nobody used for so long is removed.",
)
WRITE_ONLY: Final = Option[bool].flag(
    "write-only",
    False,
    "Writers only append; compaction is left to `table.compact()` or a maintainer.",
)
DELETION_VECTORS_ENABLED: Final = Option[bool].flag(
    "deletion-vectors.enabled",
    False,
    "Compactions mark the older rows of their keys as deleted, so that rows above level 0 need not be merged when they "
    "are read.",
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
    "Sorted runs of a bucket from which on it is compacted.",
    least=1,
)
NUM_LEVELS: Final = Option[int | None](
    "num-levels",
    "integer",
    None,
    "levels",
    "Levels of a bucket, level 0 included; by default the compaction trigger plus 1, "
    "with the producer lookup plus 5, 7 at least.",
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
    "How much larger the next run may be and still be taken into a compaction.",
)
TARGET_FILE_SIZE: Final = Option[int].memory_size(
    "target-file-size", 128 << 20, "A data file is closed when it has reached this size.", least=1
)
WRITE_BUFFER_SIZE: Final = Option[int].memory_size(
    "write-buffer-size",
    256 << 20,
    "Memory that a writer, and a compaction, may fill with rows before it spills or goes key range by key range.",
    least=1 << 10,
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
    "Format of data files that are written; ORC and Avro are read.",
)
ORC_LEGACY_INSTANTS: Final = Option[bool].flag(
    "orc.timestamp-ltz.legacy.type",
    True,
    "ORC files that Java wrote hold a TIMESTAMP WITH LOCAL TIME ZONE as the instant at which clocks in the writer's "
    "zone show it; false: as it is. Of a file it means what it was in the schema that the file was written with.",
)
MANIFEST_TARGET_FILE_SIZE: Final = Option[int].memory_size(
    "manifest.target-file-size",
    8 << 20,
    "A manifest of this size is not merged any more.",
    least=1 << 10,
)
MANIFEST_MERGE_MIN_COUNT: Final = Option[int](
    "manifest.merge-min-count",
    "integer",
    30,
    "manifests",
    "So many small manifests of like size in a row are merged into one.",
    least=1,
)
PARTITION_DEFAULT_NAME: Final = Option[str].text(
    "partition.default-name",
    "__DEFAULT_PARTITION__",
    "Directory value of a null or blank partition value.",
    immutable=True,
)
PARTITION_LEGACY_NAME: Final = Option[bool].flag(
    "partition.legacy-name",
    True,
    "Directory value of a DATE is its day number; false: its ISO text.",
    immutable=True,
)
DYNAMIC_PARTITION_OVERWRITE: Final = Option[bool].flag(
    "dynamic-partition-overwrite",
    True,
    "An overwrite replaces only the partitions that the data has; false: the table.",
)
COMMIT_MAX_RETRIES: Final = Option[int](
    "commit.max-retries",
    "integer",
    10,
    "tries",
    "How often an overwrite that lost the race is tried again. Appends and compactions have no limit but the timeout.",
)
COMMIT_TIMEOUT: Final = Option[int | None].duration(
    "commit.timeout",
    None,
    "How long a commit is tried again after lost races; by default without end.",
)
LEVEL0_COLUMNS: Final = Option[str].enum(
    "widetable.level0-columns",
    "written",
    ("written", "all"),
    "`written`: files of all levels hold only the key and columns that were written (readers from Paimon 1.2 on); "
    "`all`: every column and the `_KEY_` columns (older readers, and engines that read Parquet by themselves).",
)
WIDEN_PIECE_ROWS: Final = Option[int](
    "widetable.widen-piece-rows",
    "integer",
    262_144,
    "",
    "How many rows a widener (`widen.<column>`) writes in one commit.",
    least=1,
)
FSYNC: Final = Option[bool].flag(
    "widetable.fsync",
    True,
    "Data, manifests and snapshots are forced to the disk before they are published; "
    "false: left to the operating system.",
)
# All of the above, in that order, and those that have a module of their own.
OPTIONS: Final[tuple[Option[Any], ...]] = (
    *declared_in(globals()),
    *RETENTION_OPTIONS,
    *TAG_OPTIONS,
    *BARRIER_OPTIONS,
    *OPTIONS_OF_MADE,
)
BY_KEY: Final[dict[str, Option[Any]]] = {option.key: option for option in OPTIONS}

# Paimon's older names of the same option.
OLD_KEYS: Final = {
    "write.compaction-skip": WRITE_ONLY.key,
    "changelog-producer.lookup-wait": LOOKUP_WAIT.key,
    "partial-update.ignore-delete": IGNORE_DELETE.key,
    "deduplicate.ignore-delete": IGNORE_DELETE.key,
    "first-row.ignore-delete": IGNORE_DELETE.key,
}


class TableOptions:
    """A table's options, typed. In: the string map of a schema. A wrong value raises InvalidError naming the option."""

    def __init__(self, options: Mapping[str, str]) -> None:
        old = {OLD_KEYS[key]: value for key, value in options.items() if key in OLD_KEYS}
        self._texts = {**old, **options}

    def get(self, option: Option[T]) -> T:
        text = self._texts.get(option.key)
        if text is None:
            return option.default
        return parse_value(option, text)


# What a table gets that is made here without it: where these are absent, Paimon means something else than we would.
WRITTEN_OUT: Final[Mapping[str, str]] = {BUCKET.key: "1"}
