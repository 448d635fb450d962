"""Options of `format("widetable")`, declared once. Unknown options and options of another use are refused by name.

Spark passes lower-cased keys, its own among them (`checkpointlocation`, `queryname`, ...). Raises InvalidError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from widetable import InvalidError, Table
from widetable.connector import (
    CHANGE_FORMS,
    ChangeForm,
    Limits,
    Option,
    Start,
    StorageOptions,
    arguments,
    branch_root,
    checked_storage_options,
    counted,
    did_you_mean,
    epoch_millis,
    job_name,
    locate,
    parse_value,
    split_storage_options,
    start_of,
)
from widetable_spark.frames.declared_options import (
    BARRIER,
    BARRIER_JOB,
    BARRIER_WRITER,
    BRANCH,
    CHANGE_COLUMNS,
    COLUMNS,
    COMMIT_IDENTIFIER,
    COMMIT_USER,
    CONSUMER_ID,
    FEED_SAMPLES,
    INCREMENTAL,
    MAX_BYTES,
    MAX_FILES,
    MAX_ROWS,
    MAX_SNAPSHOTS,
    PATH,
    READ,
    READ_CHANGELOG,
    ROW_COLUMNS,
    ROW_KIND,
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TIMESTAMP,
    SNAPSHOT_ID,
    SOURCE_OPTIONS,
    TAG,
    TIMESTAMP,
    WATERMARK_COLUMN,
    WATERMARK_DELAY,
)

T = TypeVar("T")

_BY_KEY: Final = {option.key.lower(): option for option in SOURCE_OPTIONS}
_CHECKPOINT: Final = "checkpointlocation"
# Prefixes of options that say where a stream without a job begins, and how much a batch takes.
_POSITION_PREFIXES: Final = ("consumer-id", "scan.", "read.stream.")
HOW_TO_NAME: Final = (
    "Make it with widetable.Catalog(warehouse).create_table; then CREATE TABLE name USING widetable LOCATION 'path', "
    "or widetable_spark.register_catalog(spark, warehouse), gives it a name in SQL."
)
_OF_SPARK: Final = frozenset(
    {
        _CHECKPOINT,
        "queryname",
        "name",
        "numpartitions",
        "dbtable",
        "user-specified-schema",
        "maxrecordsperfile",
    }
)


@dataclass(frozen=True)
class StreamOptions:
    """Options of a streaming read. start: of a query without a checkpoint and without progress of its consumer."""

    start: Start
    consumer_id: str | None
    limits: Limits


@dataclass(frozen=True)
class WatermarkOptions:
    """The watermark of a write: the largest value of `column`, less the delay."""

    column: str
    delay_millis: int


@dataclass(frozen=True)
class SourceOptions:
    """Typed options of one read or write. path: of the table, or of its branch's directory. storage: of its object
    store; no repr shows its values. given: the keys that were set. checkpoint: Spark's option of that name.
    """

    path: str
    storage: StorageOptions | None
    snapshot_id: int | None
    timestamp_millis: int | None
    tag: str | None
    incremental: tuple[int | str, int | str] | None
    barrier: int | None
    barrier_job: str | None
    barrier_writer: str | None
    commit_user: str | None
    commit_identifier: int | None
    checkpoint: str | None
    row_kind: str
    row_columns: str | None
    columns: tuple[str, ...] | None
    read_changelog: bool
    change_columns: str
    feeds_samples: bool
    watermark: WatermarkOptions | None
    stream: StreamOptions
    given: tuple[str, ...]

    def table(self) -> Table:
        """Open the table."""
        return Table.open(self.path, storage_options=self.storage_dict)

    @property
    def storage_dict(self) -> dict[str, str] | None:
        """Return the storage options in the form that `widetable.Catalog` takes."""
        return None if self.storage is None else self.storage.to_dict()

    @property
    def change_form(self) -> ChangeForm:
        """Return which columns changes carry. Raises InvalidError for an unknown form."""
        name = self.change_columns.strip().lower()
        return CHANGE_FORMS[
            arguments.one_of(name, tuple(CHANGE_FORMS), f"option {CHANGE_COLUMNS!r}")
        ]

    def check_appends(self, *, batch: bool, overwrite: bool) -> None:
        """Refuse a writer's name where the rows would not be those of a stream's micro-batch."""
        if self.barrier_writer is None or not (batch or overwrite):
            return
        raise InvalidError(
            f"option {BARRIER_WRITER!r}",
            found="a write of a DataFrame that is no stream"
            if batch
            else "output mode complete, which replaces rows of complete barriers",
            expected="a stream in output mode append",
            action="Write with widetable.Catalog(..).writer, or in foreachBatch with widetable_spark.etl(..).sink.",
        )

    def check_identified(self, *, batch: bool) -> None:
        """Refuse a commit identifier in a stream, and in a batch write without a commit user."""
        if self.commit_identifier is None or (batch and self.commit_user is not None):
            return
        raise InvalidError(
            f"option {COMMIT_IDENTIFIER!r}",
            found=f"no {COMMIT_USER}"
            if batch
            else "a stream, whose batches have numbers of their own",
            expected=f"a write of a DataFrame that is no stream, in which it requires {COMMIT_USER}",
            action=f"Set {COMMIT_USER}." if batch else "Remove the option.",
        )

    def changed_columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the table among those of a read, without those that changes carry beside them."""
        added = self.change_form.columns if self.read_changelog else ()
        return [name for name in names if name not in added]

    def _check_one_moment(self) -> None:
        """Refuse options of a batch read that contradict each other: changes are those of a range, rows of a moment."""
        moments = [each for each in (SNAPSHOT_ID, TIMESTAMP, TAG, BARRIER) if each in self.given]
        if self.incremental is not None and moments:
            raise InvalidError(
                f"option {moments[0]!r}",
                found=f"option {INCREMENTAL!r} as well",
                expected="rows of one moment, or those between two",
                action="Remove one of the two options.",
            )
        if self.read_changelog and self.incremental is None:
            raise InvalidError(
                f"option {READ_CHANGELOG!r}",
                found=f"a batch read without option {INCREMENTAL!r}",
                expected="the range of snapshots whose changes are read",
                action=f"Set {INCREMENTAL}, or read a stream.",
            )

    def check_use(self, use: str) -> None:
        """Refuse options that are not for this use."""
        for key in self.given:
            if use not in _BY_KEY[key].uses:
                raise InvalidError(
                    f"option {_BY_KEY[key].key!r}",
                    found=use,
                    expected=" or ".join(_BY_KEY[key].uses),
                    action="Remove the option.",
                )
        positions = [key for key in self.given if key.startswith(_POSITION_PREFIXES)]
        if self.barrier_job is not None and positions:
            raise InvalidError(
                f"option {_BY_KEY[positions[0]].key!r}",
                found=f"option {BARRIER_JOB!r} as well, which determines where a batch begins and ends",
                expected="one of the two options",
                action="Remove one of them.",
            )
        if use == READ:
            self._check_one_moment()
        if CHANGE_COLUMNS in self.given and not self.read_changelog:
            raise InvalidError(
                f"option {CHANGE_COLUMNS!r}",
                found=f"no {READ_CHANGELOG}=true",
                expected=f"a stream of changes, which requires {READ_CHANGELOG}=true",
                action=f"Set {READ_CHANGELOG}=true, or remove the option.",
            )


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Return typed options. Raises InvalidError for a missing path, an unknown option, or a value of another kind."""
    storage, texts = split_storage_options({key.lower(): options[key] for key in options})
    for key in texts:
        if key not in _BY_KEY and key not in _OF_SPARK and not key.startswith("spark."):
            raise InvalidError(
                f"option {key!r}",
                found="an option that format('widetable') does not have",
                expected=f"one of {', '.join(sorted(option.key for option in SOURCE_OPTIONS))}",
                action="Remove the option, or correct its name."
                + did_you_mean(key, (option.key for option in SOURCE_OPTIONS)),
            )
    path = texts.get(PATH)
    if not path:
        raise InvalidError(
            "option 'path'",
            found="nothing",
            expected="the table's directory",
            action="Set .option('path', ...), in SQL INSERT INTO name WITH (path = '...'). A name that CREATE TABLE "
            f"declared with columns, or whose columns ALTER TABLE replaced, is of no table. {HOW_TO_NAME}",
        )
    columns, branch = _value(texts, COLUMNS, str), _value(texts, BRANCH, str)
    return SourceOptions(
        path=path if branch is None else branch_root(locate(path)[1], branch),
        storage=checked_storage_options(storage) if storage else None,
        snapshot_id=_value(texts, SNAPSHOT_ID, int),
        timestamp_millis=_value(texts, TIMESTAMP, int),
        tag=_value(texts, TAG, str),
        incremental=_incremental(texts),
        barrier=_value(texts, BARRIER, int),
        barrier_job=_value(texts, BARRIER_JOB, str),
        barrier_writer=_writer(texts),
        commit_user=_value(texts, COMMIT_USER, str),
        commit_identifier=_value(texts, COMMIT_IDENTIFIER, int),
        checkpoint=texts.get(_CHECKPOINT),
        row_kind=_value(texts, ROW_KIND, str) or "_row_kind",
        row_columns=_value(texts, ROW_COLUMNS, str),
        columns=None if columns is None else tuple(name.strip() for name in columns.split(",")),
        read_changelog=_value(texts, READ_CHANGELOG, bool) or False,
        change_columns=_value(texts, CHANGE_COLUMNS, str) or "kind",
        feeds_samples=_value(texts, FEED_SAMPLES, bool) or False,
        watermark=_watermark(texts),
        stream=_stream(texts),
        given=tuple(key for key in texts if key in _BY_KEY),
    )


def check_read_columns(options: SourceOptions, names: Sequence[str]) -> None:
    """Refuse option `columns` where `.schema(..)` or a name in SQL gives the columns. names: that Spark wants."""
    if options.columns is not None and list(options.columns) != list(names):
        raise InvalidError(
            f"option {COLUMNS!r}",
            found=f"{counted(len(names), 'column')} that .schema(...) or a name in SQL declares",
            expected="the same columns in the same order, or no such option",
            action="Read the table by its path with .load(), or with widetable_spark.read.",
        )


def _incremental(texts: Mapping[str, str]) -> tuple[int | str, int | str] | None:
    """Return both ends of a range of snapshots: numbers are ids, other texts are tags."""
    text = _value(texts, INCREMENTAL, str)
    if text is None:
        return None
    ends = [end.strip() for end in text.split(",")]
    if len(ends) != 2 or not all(ends):
        raise InvalidError(
            f"option {INCREMENTAL!r}",
            found=repr(text),
            expected="two snapshots or tags with a comma between, such as '3,7'",
            action="Correct the value.",
        )
    start, end = (int(end) if end.isdecimal() else end for end in ends)
    return start, end


def _writer(texts: Mapping[str, str]) -> str | None:
    name = _value(texts, BARRIER_WRITER, str)
    return None if name is None else job_name(name, f"option {BARRIER_WRITER!r}")


def _stream(texts: Mapping[str, str]) -> StreamOptions:
    start = start_of(
        (_value(texts, SCAN_MODE, str) or "default").strip().lower(),
        _value(texts, SCAN_SNAPSHOT_ID, int),
        _value(texts, SCAN_TIMESTAMP, int),
    )
    limits = Limits(
        snapshots=_limit(texts, MAX_SNAPSHOTS),
        rows=_limit(texts, MAX_ROWS),
        bytes=_limit(texts, MAX_BYTES),
        files=_limit(texts, MAX_FILES),
    )
    return StreamOptions(start, _value(texts, CONSUMER_ID, str), limits)


def _watermark(texts: Mapping[str, str]) -> WatermarkOptions | None:
    column = _value(texts, WATERMARK_COLUMN, str)
    delay_millis = _value(texts, WATERMARK_DELAY, int)
    if column is not None:
        return WatermarkOptions(column, delay_millis or 0)
    if delay_millis is not None:
        raise InvalidError(
            f"option {WATERMARK_DELAY!r}",
            found=f"no option {WATERMARK_COLUMN!r}",
            expected=f"that option, which {WATERMARK_DELAY!r} requires",
            action="Set it to the column of event times.",
        )
    return None


def _limit(texts: Mapping[str, str], key: str) -> int | None:
    value = _value(texts, key, int)
    if value is not None and value < 1:
        raise InvalidError(
            f"option {key!r}",
            found=str(value),
            expected="1 or more",
            action="Correct the value, or remove the option.",
        )
    return value


def _value(texts: Mapping[str, str], key: str, kind: type[T]) -> T | None:
    """Return the typed value of an option, None where it is not set. kind: of the value."""
    text = texts.get(key.lower())
    if text is None:
        return None
    declared = _BY_KEY[key.lower()]
    value: object
    if declared.kind == "time":  # Spark does not tell a source the session's zone
        value = epoch_millis(text, f"option {key!r}")
    else:
        # Whole numbers are ids and counts: 64 bits, unlike those of table options.
        most = arguments.LARGEST if declared.kind == "integer" else None
        option = Option(key, declared.kind, None, "", declared.sentence, most=most)
        value = parse_value(option, text)
    assert isinstance(value, kind)
    return value
