"""Arrow tables of a table's snapshots, schemas, options, tags, branches and consumers.

Each has one declared schema, also for an empty table. Times are in UTC, milliseconds; `create_time` and `expire_time`
of tags are the wall clock of the client that made the tag, without a zone. Raises what reading these raises; tags,
branches and consumers that cannot be read are left out, with a warning in the log.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from widetable.commit.notes.skipped_files import log_skipped, readable
from widetable.commit.transaction.committer import Committer
from widetable.format.snapshot import Snapshot, Tag
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.history.branches import branches as branch_names
from widetable.operations.history.history import snapshots as kept_snapshots
from widetable.operations.inspection.inspected_frame import frame_of_rows, frame_schema
from widetable.schema import options as opt
from widetable.schema.option_checks import is_known
from widetable.schema.options_doc import default_text
from widetable.schema.type_text import text_of

SNAPSHOTS: Final = frame_schema(
    "snapshot_id int64, schema_id int64, commit_kind string, commit_user string, commit_identifier int64, "
    "time time, total_records int64, delta_records int64, changelog_records int64?, watermark_millis int64?, "
    "base_manifest_list string, delta_manifest_list string, changelog_manifest_list string?, "
    "index_manifest string?, properties map"
)
COLUMN: Final = pa.struct(
    list(frame_schema("id int32?, name string?, type string?, comment string?"))
)
SCHEMAS: Final = frame_schema(
    "schema_id int64, time time, columns columns, primary_key list, partition_by list, options map, "
    "comment string?",
    columns=pa.list_(COLUMN),
)
OPTIONS: Final = frame_schema("key string, value string?, default string?, is_known bool")
TAGS: Final = frame_schema(
    "tag string, snapshot_id int64, schema_id int64, time time, total_records int64, create_time local_time?, "
    "expire_time local_time?, expires_at time?"
)
BRANCHES: Final = frame_schema(
    "branch string, path string, schema_id int64?, snapshot_id int64?, time time?"
)
CONSUMERS: Final = frame_schema(
    "consumer string, next_snapshot_id int64, snapshots_behind int64, time time?"
)


def snapshots(table: OpenTable) -> pa.Table:
    """List the kept snapshots, newest last.

    total_records: rows of all live files, not merged; delta_records: how many of them the commit added, negative if it
    deleted more; changelog_records: null without a changelog. properties: as stored, ours and those of other clients.
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
    """List all schemas, newest last.

    columns: in their order, nested types as texts; id: stays with a column through renames, and files are read by it.
    options: those that the schema sets, without defaults.
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
    """List the options of the newest schema, by key, then the other known options, without a value.

    default: as text, null if there is none. is_known: whether this version accepts the option, under this key or an
    older one of Paimon; this includes options whose keys name columns, such as `fields.*`.
    """
    values = table.schema.options
    keys = [*sorted(values), *sorted(opt.BY_KEY.keys() - values.keys())]
    rows = [
        (
            key,
            values.get(key),
            default_text(opt.BY_KEY[key]) if key in opt.BY_KEY else None,
            is_known(key),
        )
        for key in keys
    ]
    return frame_of_rows(OPTIONS, rows, table.path)


def tags(table: OpenTable) -> pa.Table:
    """List all tags that can be read, by name.

    time: of the snapshot's commit. create_time, expire_time: null if the tag does not state it; without an expire_time
    it stays until it is deleted. expires_at: the instant of expire_time, null in a tag of another client, whose
    expire_time is compared with the local time of the expiring process.
    """
    store = table._tags
    by_name, damaged = readable(store.names(), store.load_tag)
    for damage in damaged:
        log_skipped(damage)
    return frame_of_rows(TAGS, (_tag_row(*each) for each in by_name.items()), table.path)


def _tag_row(name: str, tag: Tag) -> tuple[Any, ...]:
    one = tag.snapshot
    facts = one.id, one.schema_id, one.time_millis, one.total_record_count
    return name, *facts, tag.created_at, tag.ends_at, tag.ends_millis


def branches(table: OpenTable) -> pa.Table:
    """List all branches except main that can be read, by name, each with its newest schema and snapshot."""

    def row(name: str) -> tuple[Any, ...]:
        paths = table._paths.of_branch(name)
        committer = Committer(table._file_io, paths)
        newest = committer.snapshots.latest()
        facts = (None, None) if newest is None else (newest.id, newest.time_millis)
        return name, paths.root, committer.schemas.latest().id, *facts

    by_name, damaged = readable(branch_names(table), row)
    for damage in damaged:
        log_skipped(damage)
    return frame_of_rows(BRANCHES, by_name.values(), table.path)


def consumers(table: OpenTable) -> pa.Table:
    """List all consumers that can be read, by name. time: of their last progress.

    snapshots_behind: how many snapshots there are from next_snapshot_id on; 0 for one that has read all. It counts ids,
    some of which may have expired.
    """
    latest_id = table._committer.snapshots.latest_id() or 0
    times = table._consumers.times()
    rows = [
        (name, next_id, max(latest_id + 1 - next_id, 0), times.get(name))
        for name, next_id in table._consumers.all().items()
    ]
    return frame_of_rows(CONSUMERS, rows, table.path)
