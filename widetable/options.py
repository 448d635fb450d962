"""Every table option that is honoured, declared once: key, kind, default, unit, sentence.

docs/options.md is generated from `OPTIONS`. A table's options are string to string, as in Paimon's schema files;
`TableOptions` gives them typed. `check_honoured` refuses what has a meaning in Paimon that we do not honour:
an option is never accepted and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from widetable.errors import InvalidError, UnsupportedError

T = TypeVar("T")


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option. kind: how its text is read, one of `_PARSERS` or "enum"; unit: what a number counts, or "".

    immutable: it may only be given when the table is made. choices: the values of an enum.
    """

    key: str
    kind: str
    default: T
    unit: str
    sentence: str
    immutable: bool = False
    choices: tuple[str, ...] = ()


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


_SIZE: Final = re.compile(
    r"^(\d+)\s*(b|bytes?|k|kb|kibibytes?|m|mb|mebibytes?|g|gb|gibibytes?|t|tb)?$"
)
_SIZE_UNITS: Final = {"b": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_TIME: Final = re.compile(r"^(\d+)\s*(ms|s|sec|m|min|h|d)$")
_TIME_UNITS: Final = {
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def _memory_size(text: str) -> int:
    match = _SIZE.match(text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) << (10 * _SIZE_UNITS[(match[2] or "b")[0]])


def _duration(text: str) -> int:
    match = _TIME.match(text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _TIME_UNITS[match[2]]


def _names(text: str) -> tuple[str, ...]:
    """Comma list with blanks trimmed, as Paimon reads `sequence.field` and `bucket-key`."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _raw_names(text: str) -> tuple[str, ...]:
    """Comma list that is not trimmed, as Paimon reads remove-record-on-sequence-group."""
    return tuple(text.split(","))


_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "boolean": _boolean,
    "integer": int,
    "memory size": _memory_size,
    "duration": _duration,
    "names": _names,
    "untrimmed names": _raw_names,
    "text": str,
}

BUCKET: Final = Option[int](
    "bucket",
    "integer",
    1,
    "buckets per partition",
    "Number of buckets of every partition; a row's bucket is a hash of its bucket key. Only fixed numbers, 1 or more.",
    immutable=True,
)
BUCKET_KEY: Final = Option[tuple[str, ...]](
    "bucket-key",
    "names",
    (),
    "",
    "Columns that are hashed, in this order; by default the primary key without the partition columns.",
    immutable=True,
)
BUCKET_FUNCTION: Final = Option[str](
    "bucket-function.type",
    "enum",
    "default",
    "",
    "`default` hashes the bucket key (Murmur3 of its BinaryRow), `mod` takes the remainder of a single INT or BIGINT.",
    immutable=True,
    choices=("default", "mod"),
)
MERGE_ENGINE: Final = Option[str](
    "merge-engine",
    "enum",
    "deduplicate",
    "",
    "What rows of equal key become. `first-row` and `aggregation` are refused in this version.",
    immutable=True,
    choices=("deduplicate", "partial-update", "aggregation", "first-row"),
)
IGNORE_DELETE: Final = Option[bool](
    "ignore-delete", "boolean", False, "", "Drop -U and -D records before they are written."
)
IGNORE_UPDATE_BEFORE: Final = Option[bool](
    "ignore-update-before", "boolean", False, "", "Drop -U records before they are written."
)
SEQUENCE_FIELD: Final = Option[tuple[str, ...]](
    "sequence.field",
    "names",
    (),
    "",
    "Columns that order the records of a key, the last wins; ties go by arrival. Null sorts first.",
)
SEQUENCE_SORT_ORDER: Final = Option[str](
    "sequence.field.sort-order",
    "enum",
    "ascending",
    "",
    "`descending` lets the smallest value of `sequence.field` win; null still sorts first.",
    choices=("ascending", "descending"),
)
ROWKIND_FIELD: Final = Option[str | None](
    "rowkind.field",
    "text",
    None,
    "",
    "A STRING column that holds the row kind (+I, -U, +U, -D, any case); it stays a column.",
    immutable=True,
)
REMOVE_RECORD_ON_DELETE: Final = Option[bool](
    "partial-update.remove-record-on-delete",
    "boolean",
    False,
    "",
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
CHANGELOG_PRODUCER: Final = Option[str](
    "changelog-producer",
    "enum",
    "none",
    "",
    "Which changelog the table keeps; `none` is the one that is written so far.",
    choices=("none", "input", "lookup", "full-compaction"),
)
WRITE_ONLY: Final = Option[bool](
    "write-only",
    "boolean",
    False,
    "",
    "Writers only append; compaction is left to `table.compact()` or a maintainer.",
)
NUM_SORTED_RUN_COMPACTION_TRIGGER: Final = Option[int](
    "num-sorted-run.compaction-trigger",
    "integer",
    5,
    "sorted runs",
    "Sorted runs of a bucket from which on it is compacted.",
)
NUM_LEVELS: Final = Option[int | None](
    "num-levels",
    "integer",
    None,
    "levels",
    "Levels of a bucket, level 0 included; by default the compaction trigger plus 1.",
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
TARGET_FILE_SIZE: Final = Option[int](
    "target-file-size",
    "memory size",
    128 << 20,
    "bytes",
    "A data file is closed when it has reached this size.",
)
WRITE_BUFFER_SIZE: Final = Option[int](
    "write-buffer-size",
    "memory size",
    256 << 20,
    "bytes",
    "Memory that a writer, and a compaction, may fill with rows before it spills or goes key range by key range.",
)
FILE_COMPRESSION: Final = Option[str](
    "file.compression",
    "enum",
    "zstd",
    "",
    "Codec of Parquet data files.",
    choices=("zstd", "snappy", "lz4", "gzip", "none"),
)
FILE_COMPRESSION_ZSTD_LEVEL: Final = Option[int](
    "file.compression.zstd-level", "integer", 1, "level", "Level of the zstd codec."
)
FILE_FORMAT: Final = Option[str](
    "file.format",
    "enum",
    "parquet",
    "",
    "Format of data files; only Parquet is written and read.",
    choices=("parquet",),
)
MANIFEST_TARGET_FILE_SIZE: Final = Option[int](
    "manifest.target-file-size",
    "memory size",
    8 << 20,
    "bytes",
    "A manifest of this size is not merged any more.",
)
MANIFEST_MERGE_MIN_COUNT: Final = Option[int](
    "manifest.merge-min-count",
    "integer",
    30,
    "manifests",
    "So many small manifests of like size in a row are merged into one.",
)
PARTITION_DEFAULT_NAME: Final = Option[str](
    "partition.default-name",
    "text",
    "__DEFAULT_PARTITION__",
    "",
    "Directory value of a null or blank partition value.",
    immutable=True,
)
PARTITION_LEGACY_NAME: Final = Option[bool](
    "partition.legacy-name",
    "boolean",
    True,
    "",
    "Directory value of a DATE is its day number; false: its ISO text.",
    immutable=True,
)
DYNAMIC_PARTITION_OVERWRITE: Final = Option[bool](
    "dynamic-partition-overwrite",
    "boolean",
    True,
    "",
    "An overwrite replaces only the partitions that the data has; false: the table.",
)
COMMIT_MAX_RETRIES: Final = Option[int](
    "commit.max-retries",
    "integer",
    1000,
    "tries",
    "How often a compaction or overwrite that lost the race is tried again. An append has no limit but the timeout.",
)
COMMIT_TIMEOUT: Final = Option[int | None](
    "commit.timeout",
    "duration",
    None,
    "milliseconds",
    "How long a commit is tried again after lost races; by default without end.",
)
LEVEL0_COLUMNS: Final = Option[str](
    "widetable.level0-columns",
    "enum",
    "written",
    "",
    "`written`: level-0 files hold only the key and the written columns (readers from Paimon 1.2 on); "
    "`all`: every column and the `_KEY_` columns (older readers).",
    choices=("written", "all"),
)
FSYNC: Final = Option[bool](
    "widetable.fsync",
    "boolean",
    True,
    "",
    "Data, manifests and snapshots are forced to the disk before they are published; "
    "false: left to the operating system.",
)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    BUCKET,
    BUCKET_KEY,
    BUCKET_FUNCTION,
    MERGE_ENGINE,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    ROWKIND_FIELD,
    REMOVE_RECORD_ON_DELETE,
    REMOVE_RECORD_ON_SEQUENCE_GROUP,
    CHANGELOG_PRODUCER,
    WRITE_ONLY,
    NUM_SORTED_RUN_COMPACTION_TRIGGER,
    NUM_LEVELS,
    MAX_SIZE_AMPLIFICATION_PERCENT,
    SIZE_RATIO,
    TARGET_FILE_SIZE,
    WRITE_BUFFER_SIZE,
    FILE_COMPRESSION,
    FILE_COMPRESSION_ZSTD_LEVEL,
    FILE_FORMAT,
    MANIFEST_TARGET_FILE_SIZE,
    MANIFEST_MERGE_MIN_COUNT,
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
    DYNAMIC_PARTITION_OVERWRITE,
    COMMIT_MAX_RETRIES,
    COMMIT_TIMEOUT,
    LEVEL0_COLUMNS,
    FSYNC,
)
_BY_KEY: Final[dict[str, Option[Any]]] = {option.key: option for option in OPTIONS}

# Paimon's older names of the same option.
_OLD_KEYS: Final = {
    "partial-update.ignore-delete": IGNORE_DELETE.key,
    "deduplicate.ignore-delete": IGNORE_DELETE.key,
    "first-row.ignore-delete": IGNORE_DELETE.key,
}

# Options of Paimon that change what only *other* clients do or how fast, never which rows a table has:
# they may stand in a schema and need nothing from us.
_HARMLESS: Final = frozenset(
    {
        "path",
        "provider",
        "type",
        "owner",
        "comment",
        "auto-create",
        "metadata.stats-mode",
        "metadata.stats-dense-store",
        "manifest.compression",
        "manifest.full-compaction-threshold-size",
        "num-sorted-run.stop-trigger",
        "commit.min-retry-wait",
        "commit.max-retry-wait",
        "sort-spill-threshold",
        "write-buffer-spillable",
        "snapshot.num-retained.min",
        "snapshot.num-retained.max",
        "snapshot.time-retained",
        "snapshot.expire.limit",
        "changelog.num-retained.min",
        "changelog.num-retained.max",
        "changelog.time-retained",
        "scan.plan-sort-partition",
        "scan.manifest.parallelism",
        "read.batch-size",
        "write.batch-size",
        "file.block-size",
        "parquet.enable.dictionary",
        "source.split.target-size",
        "source.split.open-file-cost",
        "consumer.expiration-time",
    }
)
_HARMLESS_PREFIXES: Final = (
    "metadata.stats-mode.",
    "fields.stats-mode.",
    "sink.",
    "lookup.cache",
    "user.",
    "spark.",
    "flink.",
)
_FIELD_OPTION: Final = re.compile(r"^fields\.(?P<columns>.+)\.(?P<what>[^.]+)$")
_AGGREGATE_SUFFIXES: Final = frozenset(
    {
        "aggregate-function",
        "ignore-retract",
        "distinct",
        "list-agg-delimiter",
        "nested-key",
        "nested-sequence-field",
        "nested-key-null-strategy",
        "count-limit",
        "ts-field",
    }
)


class TableOptions:
    """A table's options, typed. In: the string map of a schema. A wrong value raises InvalidError naming the option."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._texts = {_OLD_KEYS.get(key, key): value for key, value in options.items()}

    def get(self, option: Option[T]) -> T:
        text = self._texts.get(option.key)
        if text is None:
            return option.default
        return parse_value(option, text)

    def is_set(self, option: Option[Any]) -> bool:
        return option.key in self._texts


def parse_value(option: Option[T], text: str) -> T:
    """The typed value of one option's text; raises InvalidError when the text is not of its kind."""
    try:
        if option.kind != "enum":
            value: T = _PARSERS[option.kind](text)
            return value
        if text.strip().lower() in option.choices:
            return text.strip().lower()  # type: ignore[return-value]
    except ValueError:
        pass
    expected = (
        f"one of {', '.join(option.choices)}"
        if option.choices
        else f"a value of kind {option.kind}"
    )
    raise InvalidError(
        f"option {option.key!r}",
        found=repr(text),
        expected=expected,
        action="Correct the option's value.",
    )


def sequence_group_options(
    options: Mapping[str, str],
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(sequence columns, protected columns) of every `fields.<s1>[,<s2>..].sequence-group`; names are not trimmed."""
    groups = []
    for key, value in options.items():
        match = _FIELD_OPTION.match(key)
        if match is not None and match["what"] == "sequence-group":
            groups.append((tuple(match["columns"].split(",")), tuple(value.split(","))))
    return groups


def aggregate_options(options: Mapping[str, str]) -> list[str]:
    """Keys of the options that belong to aggregate functions."""
    found = [
        key
        for key in options
        if key in ("fields.default-aggregate-function", "aggregation.remove-record-on-delete")
    ]
    for key in options:
        match = _FIELD_OPTION.match(key)
        if match is not None and match["what"] in _AGGREGATE_SUFFIXES:
            found.append(key)
    return found


def field_option_columns(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """(option key, column) of every `fields.<columns>.<what>`: the columns that must exist in the schema."""
    found = []
    for key in options:
        match = _FIELD_OPTION.match(key)
        if match is not None and key != "fields.default-aggregate-function":
            found.extend((key, column) for column in match["columns"].split(","))
    return found


def check_values(options: Mapping[str, str]) -> None:
    """Raises InvalidError for the first declared option whose text is not of its kind."""
    typed = TableOptions(options)
    for option in OPTIONS:
        typed.get(option)


def check_honoured(options: Mapping[str, str], *, made_here: bool) -> None:
    """Raises UnsupportedError naming the first option that we would not honour when writing the table.

    made_here: the options are being given to us (create, alter), so each must be declared in `OPTIONS` or be a
    `fields.*` one: a mistyped name must not be silently without effect. Otherwise they stand in a table that another
    client made, and options that change only other clients' habits are let through.
    """
    for key in options:
        known = key in _BY_KEY or key in _OLD_KEYS or _FIELD_OPTION.match(key) is not None
        if not made_here:
            known = known or key in _HARMLESS or key.startswith(_HARMLESS_PREFIXES)
        if not known:
            raise UnsupportedError(
                f"option {key!r}",
                found=f"the value {options[key]!r}",
                expected="an option that this version honours (docs/options.md)",
                action="Remove the option, or correct its name.",
            )


def check_alter(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raises InvalidError when an immutable option changes, or ignore-delete/-update-before goes from true to false."""
    for option in OPTIONS:
        before, after = old.get(option.key), new.get(option.key)
        if option.immutable and before != after:
            raise InvalidError(
                f"option {option.key!r}",
                found=f"a change from {before!r} to {after!r}",
                expected="the value that the table was made with",
                action="Make a new table with the other value and copy the rows.",
            )
    for option in (IGNORE_DELETE, IGNORE_UPDATE_BEFORE):
        if TableOptions(old).get(option) and new.get(option.key, "").strip().lower() == "false":
            raise InvalidError(
                f"option {option.key!r}",
                found="a change from true to false",
                expected="true, or the option removed",
                action="Leave the option as it is.",
            )
