"""Arrow tables of what a table keeps: snapshots, schemas, options, tags, branches, consumers.

Each has one declared schema, which stays the same for an empty table; times are of UTC,
milliseconds, `create_time` and `expire_time` of tags are the wall clock of whoever made the tag,
without a zone. Raises what reading these raises; tags, branches and consumers that cannot be read
are left out, with a warning in the log.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from widetable import options as opt
from widetable.commit.committer import Committer
from widetable.commit.passed_over import pass_over, readable
from widetable.format.snapshot import Snapshot, Tag
from widetable.operations.branches import branches as branch_names
from widetable.operations.history import snapshots as kept_snapshots
from widetable.operations.inspected_frame import LOCAL_TIME, TEXTS, TIME, frame_of_rows
from widetable.operations.open_table import OpenTable
from widetable.option_checks import is_known
from widetable.options_doc import default_text
from widetable.type_text import text_of

SNAPSHOTS: Final = pa.schema(
    [
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("schema_id", pa.int64(), nullable=False),
        pa.field("commit_kind", pa.string(), nullable=False),
        pa.field("commit_user", pa.string(), nullable=False),
        pa.field("commit_identifier", pa.int64(), nullable=False),
        pa.field("time", TIME, nullable=False),
        pa.field("total_records", pa.int64(), nullable=False),
        pa.field("delta_records", pa.int64(), nullable=False),
        ("changelog_records", pa.int64()),
        ("watermark_millis", pa.int64()),
        pa.field("base_manifest_list", pa.string(), nullable=False),
        pa.field("delta_manifest_list", pa.string(), nullable=False),
        ("changelog_manifest_list", pa.string()),
        ("index_manifest", pa.string()),
        pa.field("properties", TEXTS, nullable=False),
    ]
)
COLUMN: Final = pa.struct(
    [("id", pa.int32()), ("name", pa.string()), ("type", pa.string()), ("comment", pa.string())]
)
SCHEMAS: Final = pa.schema(
    [
        pa.field("schema_id", pa.int64(), nullable=False),
        pa.field("time", TIME, nullable=False),
        pa.field("columns", pa.list_(COLUMN), nullable=False),
        pa.field("primary_key", pa.list_(pa.string()), nullable=False),
        pa.field("partition_by", pa.list_(pa.string()), nullable=False),
        pa.field("options", TEXTS, nullable=False),
        ("comment", pa.string()),
    ]
)
OPTIONS: Final = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        ("value", pa.string()),
        ("default", pa.string()),
        pa.field("is_known", pa.bool_(), nullable=False),
    ]
)
TAGS: Final = pa.schema(
    [
        pa.field("tag", pa.string(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("schema_id", pa.int64(), nullable=False),
        pa.field("time", TIME, nullable=False),
        pa.field("total_records", pa.int64(), nullable=False),
        ("create_time", LOCAL_TIME),
        ("expire_time", LOCAL_TIME),
    ]
)
BRANCHES: Final = pa.schema(
    [
        pa.field("branch", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        ("schema_id", pa.int64()),
        ("snapshot_id", pa.int64()),
        ("time", TIME),
    ]
)
CONSUMERS: Final = pa.schema(
    [
        pa.field("consumer", pa.string(), nullable=False),
        pa.field("next_snapshot_id", pa.int64(), nullable=False),
        pa.field("snapshots_behind", pa.int64(), nullable=False),
        pa.field("time", TIME),
    ]
)


def snapshots(table: OpenTable) -> pa.Table:
    """The snapshots that are kept, newest last.
    total_records: rows of all live files, not merged; delta_records: what the commit added of
    them, negative where more went; changelog_records: null without a changelog. properties: as
    they are noted, ours and those of other clients.
    """
    return frame_of_rows(SNAPSHOTS, map(_snapshot_row, kept_snapshots(table)), table.path)


def _snapshot_row(one: Snapshot) -> tuple[Any, ...]:
    return (
        one.id,
        one.schema_id,
        one.commit_kind,
        one.commit_user,
        one.commit_identifier,
        one.time_millis,
        one.total_record_count,
        one.delta_record_count,
        one.changelog_record_count,
        one.watermark,
        one.base_manifest_list,
        one.delta_manifest_list,
        one.changelog_manifest_list,
        one.index_manifest,
        list(one.properties.items()),
    )


def schemas(table: OpenTable) -> pa.Table:
    """All schemas, newest last.
    columns: in their order, nested types as texts; id: stays with a column through renames, files
    are read by it. options: what the table's schema sets, no defaults.
    """
    store = table._committer.schemas
    rows = [
        (
            one.id,
            one.time_millis,
            [(f.id, f.name, text_of(f.type), f.description) for f in one.fields],
            one.primary_keys,
            one.partition_keys,
            list(one.options.items()),
            one.comment,
        )
        for one in map(store.load, store.ids())
    ]
    return frame_of_rows(SCHEMAS, rows, table.path)


def options(table: OpenTable) -> pa.Table:
    """What the newest schema sets, by key, then the other options that are known, without a value.
    default: as text, null where there is none. is_known: whether a table may be given it here, under this key or an
    older one of Paimon; also for options whose keys name columns, as `fields.*` do.
    """
    given = table.schema.options
    keys = [*sorted(given), *sorted(opt.BY_KEY.keys() - given.keys())]
    rows = [
        (
            key,
            given.get(key),
            default_text(opt.BY_KEY[key]) if key in opt.BY_KEY else None,
            is_known(key),
        )
        for key in keys
    ]
    return frame_of_rows(OPTIONS, rows, table.path)


def tags(table: OpenTable) -> pa.Table:
    """All tags that can be read, by name.
    time: of the snapshot's commit. create_time, expire_time: null where the tag does not say it;
    without an expire_time it stays until it is deleted.
    """
    store = table._tags
    found, damaged = readable(store.names(), store.load_tag)
    for damage in damaged:
        pass_over(damage)
    return frame_of_rows(TAGS, (_tag_row(*each) for each in found.items()), table.path)


def _tag_row(name: str, tag: Tag) -> tuple[Any, ...]:
    one = tag.snapshot
    held = one.id, one.schema_id, one.time_millis, one.total_record_count
    return name, *held, tag.created_at, tag.ends_at


def branches(table: OpenTable) -> pa.Table:
    """All branches but main that can be read, by name, each with its newest schema and snapshot."""

    def row(name: str) -> tuple[Any, ...]:
        paths = table._paths.of_branch(name)
        committer = Committer(table._file_io, paths)
        newest = committer.snapshots.latest()
        held = (None, None) if newest is None else (newest.id, newest.time_millis)
        return name, paths.root, committer.schemas.latest().id, *held

    found, damaged = readable(branch_names(table), row)
    for damage in damaged:
        pass_over(damage)
    return frame_of_rows(BRANCHES, found.values(), table.path)


def consumers(table: OpenTable) -> pa.Table:
    """All consumers that can be read, by name. time: of their last progress.
    snapshots_behind: how many snapshots are there from next_snapshot_id on; 0 for one that has
    read all. It counts ids, some of which may have expired.
    """
    latest_id = table._committer.snapshots.latest_id() or 0
    times = table._consumers.times()
    rows = [
        (name, next_id, max(latest_id + 1 - next_id, 0), times.get(name))
        for name, next_id in table._consumers.all().items()
    ]
    return frame_of_rows(CONSUMERS, rows, table.path)
