"""Which options of a table we honour, and which may change: refused by name, never ignored.

In: options as string to string. Raises UnsupportedError for what we would not honour, InvalidError for a
change that is not allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.field_options import FIELD_OPTION
from widetable.options import (
    BY_KEY,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    OLD_KEYS,
    OPTIONS,
    TableOptions,
)

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


def check_honoured(options: Mapping[str, str], *, made_here: bool) -> None:
    """Raises UnsupportedError naming the first option that we would not honour when writing the table.

    made_here: the options are being given to us (create, alter), so each must be declared in `OPTIONS` or be a
    `fields.*` one: a mistyped name must not be silently without effect. Otherwise they stand in a table that another
    client made, and options that change only other clients' habits are let through.
    """
    for key in options:
        known = key in BY_KEY or key in OLD_KEYS or FIELD_OPTION.match(key) is not None
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
