"""Options of `format("widetable")`, declared once; any other is refused by name.

Spark hands over lower-cased keys, its own among them (`checkpointlocation`, `queryname`, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from widetable import InvalidError

PATH: Final = "path"
SNAPSHOT_ID: Final = "snapshot-id"
TIMESTAMP: Final = "timestamp-millis"
TAG: Final = "tag"
COMMIT_USER: Final = "commit-user"
ROW_KIND: Final = "row-kind"

SOURCE_OPTIONS: Final[dict[str, str]] = {
    PATH: "Path or file: URL of the table's directory.",
    SNAPSHOT_ID: "Batch read of that snapshot.",
    TIMESTAMP: "Batch read of the newest snapshot not younger than these epoch milliseconds.",
    TAG: "Batch read of that tag.",
    COMMIT_USER: "Name under which batches are committed exactly once, one query's alone; "
    "by default the streaming query's id.",
    ROW_KIND: "Name of the DataFrame's column with row kinds (+I, -U, +U, -D); by default _row_kind, if there.",
}
_OF_SPARK: Final = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "name",
        "numpartitions",
        "dbtable",
        "user-specified-schema",
        "maxrecordsperfile",
    }
)


@dataclass(frozen=True)
class SourceOptions:
    """Typed options of one read or write."""

    path: str
    snapshot_id: int | None
    timestamp_millis: int | None
    tag: str | None
    commit_user: str | None
    row_kind: str


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Raises InvalidError for a missing path, an unknown option, or a number that is none."""
    for key in options:
        if (
            key.lower() not in SOURCE_OPTIONS
            and key.lower() not in _OF_SPARK
            and not key.lower().startswith("spark.")
        ):
            raise InvalidError(
                f"option {key!r}",
                found="an option that format('widetable') does not have",
                expected=f"one of {', '.join(sorted(SOURCE_OPTIONS))}",
                action="Remove the option, or correct its name.",
            )
    path = options.get(PATH)
    if not path:
        raise InvalidError(
            "option 'path'",
            found="nothing",
            expected="the table's directory",
            action="Set .option('path', ...).",
        )
    return SourceOptions(
        path=path,
        snapshot_id=_number(options, SNAPSHOT_ID),
        timestamp_millis=_number(options, TIMESTAMP),
        tag=options.get(TAG),
        commit_user=options.get(COMMIT_USER),
        row_kind=options.get(ROW_KIND) or "_row_kind",
    )


def _number(options: Mapping[str, str], key: str) -> int | None:
    text = options.get(key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidError(
            f"option {key!r}",
            found=repr(text),
            expected="a whole number",
            action="Correct the value.",
        ) from None
