"""Checks which options of a table are honoured, and which may change. Others are refused by name, never ignored.

In: options as string to string. Raises UnsupportedError for options that are not honoured, InvalidError for a
change that is not allowed.

`acceptance` says when. Readers have another list (`acceptance.supported`): an option that this version does not know
cannot break a reader unless it changes the rows of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from widetable.arguments import flag, mapping, text, whole_number
from widetable.errors import InvalidError, UnsupportedError
from widetable.messages.near_word import did_you_mean
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.field_options import (
    DEFAULT_FUNCTION_KEY,
    DERIVED_OPTION,
    FIELD_OPTION,
    FIELD_WORDS,
)
from widetable.schema.file_index_options import is_file_index_option
from widetable.schema.join_options import check_join
from widetable.schema.options import (
    BUCKET,
    BY_KEY,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    OLD_KEYS,
    OPTIONS,
    TableOptions,
)
from widetable.schema.retention_options import SNAPSHOT_NUM_RETAINED_MAX, SNAPSHOT_NUM_RETAINED_MIN
from widetable.schema.tag_rule import tag_rule

# Options of Paimon that affect only *other* clients, or only speed, and never the rows of a table:
# a schema may have them, and we can ignore them (docs/facts/paimon-options.md).
_HARMLESS: Final = frozenset(
    [
        "async-file-write",
        "auto-create",
        "branch",
        "bucket-append-ordered",
        "cache-page-size",
        "changelog.num-retained.max",
        "changelog.num-retained.min",
        "changelog.time-retained",
        "comment",
        "commit.force-compact",
        "commit.max-retry-wait",
        "commit.min-retry-wait",
        "commit.user-prefix",
        "consumer-id",
        "consumer.changelog-only",
        "consumer.ignore-progress",
        "consumer.mode",
        "continuous.discovery-interval",
        "deletion-vector.index-file.target-size",
        "deletion-vectors.merge-on-read",
        "file-operation.thread-num",
        "file-reader-async-threshold",
        "file.block-size",
        "local-merge-buffer-size",
        "local-sort.max-num-file-handles",
        "manifest.compression",
        "manifest.full-compaction-threshold-size",
        "manifest.merge-optimize.enabled",
        "num-sorted-run.stop-trigger",
        "owner",
        "page-size",
        "parquet.enable.dictionary",
        "partition.expiration-batch-size",
        "path",
        "provider",
        "read.batch-size",
        "scan.ignore-corrupt-files",
        "scan.ignore-lost-files",
        "scan.manifest.parallelism",
        "scan.max-splits-per-task",
        "scan.plan-sort-partition",
        "snapshot.clean-empty-directories",
        "snapshot.expire.execution-mode",
        "sort-engine",
        "sort-spill-buffer-size",
        "sort-spill-threshold",
        "source.split.open-file-cost",
        "source.split.target-size",
        "spill-compression",
        "spill-compression.zstd-level",
        "streaming.read.snapshot.delay",
        "type",
        "write-buffer-for-append",
        "write-buffer-spill.max-disk-size",
        "write-buffer-spillable",
        "write-max-writers-to-spill",
        "write.batch-memory",
        "write.batch-size",
    ]
)
# Families of such options. Options of a family that `OPTIONS` declares are honoured and checked all the same.
_HARMLESS_PREFIXES: Final = (
    "dynamic-bucket.",
    "fields.stats-mode.",
    "flink.",
    "lookup.cache",
    "lookup.remote-file.",
    "metadata.stats-",
    "sink.",
    "spark.",
    "user.",
)


def option_texts(options: Any, name: str) -> dict[str, str]:
    """Convert a dict of texts, whole numbers and flags to the options of a schema; {} for None. name: that of the
    argument, for the InvalidError for other values.
    """
    return {key: _option_text(value, key) for key, value in mapping(options, name).items()}


def _option_text(value: Any, key: str) -> str:
    """Return the text of a value. True becomes `true`, as in Java; 1.5 and None are refused."""
    if isinstance(value, str):
        return text(value, f"option {key!r}")
    if isinstance(value, bool | np.bool_):
        return str(flag(value, key)).lower()
    return str(whole_number(value, f"option {key!r}"))


def check_declared(options: Mapping[str, str]) -> None:
    """Raise UnsupportedError naming the first option of a user that is neither declared in `OPTIONS` nor a valid option
    of columns: a mistyped name must not silently have no effect.
    """
    _check_keys(options, is_known)


def check_honoured(options: Mapping[str, str]) -> None:
    """Raise UnsupportedError naming the first option that we would not honour when writing the table of any client.

    Options that affect only other clients are accepted. Only keys are checked; `check_values` checks the values.
    """
    _check_keys(options, _is_honoured)


def _check_keys(options: Mapping[str, str], is_accepted: Callable[[str], bool]) -> None:
    for key in options:
        if not is_accepted(key):
            raise UnsupportedError(
                f"option {key!r}",
                found=f"the value {options[key]!r}",
                expected="an option that this version honours (docs/options.md)",
                action=f"Remove the option, or correct its name.{did_you_mean(key, BY_KEY)}",
            )


def _is_honoured(key: str) -> bool:
    is_of_column = FIELD_OPTION.match(key) is not None  # Paimon's Java ignores wrong ones
    is_harmless = key in _HARMLESS or key.startswith(_HARMLESS_PREFIXES)
    return is_of_column or is_harmless or is_known(key)


def is_known(key: str) -> bool:
    """Return whether `OPTIONS` declares the key, or an option by an older key of Paimon, or the key has the form of an
    option of columns; `schema_rules.check_field_options` checks that the columns exist.
    """
    if key in BY_KEY or key in OLD_KEYS or key == DEFAULT_FUNCTION_KEY:
        return True
    of_column = FIELD_OPTION.match(key)
    if is_file_index_option(key) or DERIVED_OPTION.match(key) is not None:
        return True
    return of_column is not None and of_column["what"] in FIELD_WORDS


# Alternatives to changing an immutable option, other than a new table.
_OTHER_WAYS: Final = {
    BUCKET.key: "From one fixed number to another, rescale the table: Table.rescale, or widetable rescale PATH "
    "BUCKETS. Else create a new table with the other value and copy the rows.",
    BARRIER_INTERVAL.key: "Create a table with the other value, and write the rows of this one to it with "
    "Catalog.writer, as one barrier: docs/consistency.md, 'Another interval', has the program.",
}


def check_alter(
    old: Mapping[str, str], new: Mapping[str, str], repairs: Mapping[str, str] | None = None
) -> None:
    """Raise InvalidError if an immutable option changes, or ignore-delete/-update-before changes from true to false.

    repairs: immutable options that may get another value, and these values.

    An immutable option may be neither added nor removed, even with its default as the value, because the existing files
    depend on it. Only one that `may_come_later` may be added. The texts are compared.
    """
    for option in OPTIONS:
        before, after = old.get(option.key), new.get(option.key)
        is_repaired = after is not None and (repairs or {}).get(option.key) == after
        comes_later = option.may_come_later and before is None
        if option.immutable and before != after and not (is_repaired or comes_later):
            raise InvalidError(
                f"option {option.key!r}",
                found=f"a change from {before!r} to {after!r}",
                expected="the value that the table has",
                action=_OTHER_WAYS.get(
                    option.key, "Create a new table with the other value and copy the rows."
                ),
            )
    for option in (IGNORE_DELETE, IGNORE_UPDATE_BEFORE):
        # By any of its keys. It may be removed, so absence counts as true.
        stays = TableOptions(new).get(replace(option, default=True))
        if TableOptions(old).get(option) and not stays:
            raise InvalidError(
                f"option {option.key!r}",
                found="a change from true to false",
                expected="true, or the option removed",
                action="Leave the option as it is.",
            )


def check_values(options: Mapping[str, str]) -> None:
    """Check the values of options. Raises InvalidError for the first declared option whose text is not one of its
    values, or that contradicts another, UnsupportedError for tags of batch writes.
    """
    typed = TableOptions(options)
    # Called for its errors. Options that are not declared are texts that no code reads.
    for option in OPTIONS:
        typed.get(option)
    check_join(options)
    tag_rule(typed)
    check_retained(typed.get(SNAPSHOT_NUM_RETAINED_MIN), typed.get(SNAPSHOT_NUM_RETAINED_MAX))


def check_retained(num_min: int, num_max: int) -> None:
    """Raise InvalidError for numbers of retained snapshots that exclude each other: in options, and in the arguments of
    an expiry that replace them.
    """
    if num_min < 1 or num_max < num_min:
        raise InvalidError(
            f"options {SNAPSHOT_NUM_RETAINED_MIN.key!r} and {SNAPSHOT_NUM_RETAINED_MAX.key!r}",
            found=f"{num_min} and {num_max}",
            expected="a minimum of 1 or more, and a maximum that is not below it",
            action="Correct one of them.",
        )
