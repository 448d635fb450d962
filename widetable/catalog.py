"""A catalog: the tables of a warehouse directory.

    <warehouse>/<db>.db/<table>      (format.md section 1)

A table is there when its schema-0 is; it is published create-if-absent, so of two creators one
wins. Raises InvalidError for names and schemas that break a rule, UnsupportedError for options that
are not honoured, NotFoundError for a table that is not there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from widetable.arguments import flag, mapping, names, one_of, text, whole_number
from widetable.commit.barriers.barrier_table import check_barriers
from widetable.commit.notes.copy_place import begun_copy
from widetable.commit.snapshots.lost_snapshots import rest_of_table
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.derive.upkeep.derived_alteration import alter_table
from widetable.derive.widening.widen_schema import widened_columns
from widetable.errors import InvalidError, NotFoundError
from widetable.format.partition_value import check_partition_types
from widetable.merge.engine import engine_of
from widetable.merge.record_expiry import check_record_expiry
from widetable.merge.record_order import check_ordered
from widetable.merge.widened_rules import check_widened
from widetable.operations.barriers.barrier_listing import ShownBarriers
from widetable.operations.barriers.barrier_writer import BarrierWriter
from widetable.operations.barriers.session import (
    CONSISTENCIES,
    READ_UNCOMMITTED,
    REPEATABLE_READ,
    Session,
)
from widetable.operations.ddl.schema_change import SchemaChange
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.supported import check_changelog_producer
from widetable.operations.history.branches import branch_names
from widetable.operations.maintenance.table_copy import copy_table
from widetable.runtime.moment import Moment
from widetable.schema import options as opt
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.derived_options import check_derived
from widetable.schema.new_schema import arrow_schema, changed_types, new_schema
from widetable.schema.option_checks import check_honoured, check_used, option_texts
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import TableSchema
from widetable.storage.given_storage import given_storage
from widetable.storage.paths import (
    DATABASE_SUFFIX,
    TablePaths,
    branch_root,
    checked_part,
    database_dir,
    is_bucket,
    table_root,
)
from widetable.table import Table
from widetable.topology.job_claim import WriterClaim
from widetable.topology.meta_service import linked
from widetable.topology.revision import RevisionResult, revise
from widetable.topology.session_request import AskedSessions
from widetable.topology.topology import SCOPES, TABLES, TOPOLOGY, Topology


class Catalog:
    """Tables below one directory. warehouse: path or URL; it need not exist yet. Holds no file open; picklable.

    storage_options: of an object store, by Paimon's names, such as `s3.endpoint` (docs/object-stores.md); what they do
    not say is said by the environment. Tables of the catalog have them, and so has a pickle; no repr, error or file.
    file_io: in their place a file system of s3fs, gcsfs or adlfs, or one of pyarrow.fs, which only reads; the path is
    one on it, with or without its scheme.
    consistency: of sessions, by default. uri: the URL, or URLs, of instances of `widetable meta serve` for this
    warehouse (extra `meta`): they choose the barriers of sessions; None: this process does. All else is as without.

        catalog = Catalog("/warehouse")
        users = catalog.create_table("shop.users", {"id": "BIGINT", "city": "STRING"}, primary_key=["id"])
        users.write([{"id": 1, "city": "Oslo"}])
        catalog.table("shop.users").scan().to_arrow()

    To make one reads nothing: a warehouse that is not there has no tables.
    """

    __module__ = "widetable"

    def __init__(
        self,
        warehouse: str | os.PathLike[str],
        *,
        file_io: Any = None,
        storage_options: Mapping[str, str] | None = None,
        consistency: str = REPEATABLE_READ,
        uri: str | Sequence[str] | None = None,
    ) -> None:
        self._given = given_storage(file_io, storage_options)
        self._consistency = one_of(consistency, CONSISTENCIES, "consistency")
        self._file_io, self._root = self._given.at(warehouse)
        self._service = None if uri is None else linked(uri, "uri")
        self._shown = ShownBarriers()

    def __repr__(self) -> str:
        return f"Catalog({self._root!r})"

    @property
    def warehouse(self) -> str:
        """The absolute path of the warehouse."""
        return self._root

    def create_table(
        self,
        name: str,
        schema: pa.Schema
        | Mapping[str, pa.DataType | str]
        | Sequence[pa.Field | tuple[str, pa.DataType | str]],
        *,
        primary_key: Sequence[str],
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Make the table `db.name`. schema: its columns in order; key columns become NOT NULL. A type that Paimon does
        not have gets the next wider one: uint8, uint16 and uint32 the next signed integer, half floats FLOAT, lists of
        a fixed size (embeddings) ARRAY, whose size is not kept. uint64 is refused: int64 or decimal128(20, 0) is meant.
        A type may be a text of Paimon's SQL as well: `VARCHAR(100)`, `TIMESTAMP(3) NOT NULL`; a word that is a name of
        Arrow's, such as `binary`, is Arrow's type.

        options: docs/options.md. if_not_exists: a table that is there is returned as it is,
        whatever its schema.
        """
        # All that is wrong is found before anything is written: the table is there with its schema-0,
        # and nothing else is made for it.
        root = self._table_root(name)
        if_not_exists = flag(if_not_exists, "if_not_exists")
        fields, texts = arrow_schema(schema, "schema"), option_texts(options, "options")
        added, groups = widened_columns(name, fields, texts, self._schema_of, TableOptions(texts))
        new = new_schema(
            pa.schema([*fields, *added]),
            primary_key=primary_key,
            partition_by=partition_by,
            options=texts | groups,
            comment=comment,
        )
        engine_of(new)  # first: what breaks a rule is wrong whether it is honoured or not
        check_honoured(new.options, made_here=True)
        check_used(new.options, new.options)
        check_changelog_producer(new)
        check_ordered(new)
        check_record_expiry(new)
        check_barriers(new)
        check_derived(new)
        check_widened(new)
        check_partition_types(new)
        store = self._schemas(root, new)
        # Two creators: both may find no schema; publish is exclusive, and False for who comes second.
        made = not store.ids() and self._has_no_rest(root) and store.publish(new)
        if not made and not if_not_exists:
            raise InvalidError(
                f"table {name!r}",
                found=f"a table at {root}",
                expected="no table of that name",
                action="Use another name, drop the table, or give if_not_exists=True (--if-not-exists).",
            )
        return self._open(root)

    def table(self, name: str) -> Table:
        """The table `db.name`, or its branch: `db.name$branch_<branch>`."""
        root = branch_root(self._root, name, "table name")
        # Of a branch, whose opening says itself whether it is there.
        if TablePaths(root).shared_root != root:
            return self._open(root)
        if not SchemaStore(self._file_io, TablePaths(root)).ids():
            database = name.partition(".")[0]
            there = ", ".join(self.list_tables(database)) or "none"
            raise NotFoundError(
                f"table {name!r}",
                found=f"no table at {root}",
                expected=f"one of the tables of database {database!r}: {there}",
                action="Check the name, or make the table first.",
            )
        return self._open(root)

    def writer(
        self, table: str, writer: str, columns: Sequence[str] | None = None
    ) -> BarrierWriter:
        """A writer of the table `db.name`, which is under barriers (option `widetable.barrier-interval`); the table
        waits for it from now on. writer: its name, the same in each life of its program; a process that has it
        already is refused from now on. columns: that it writes besides the key, None for all. It is registered as a
        running job (`topology`); if that has sources, barriers that it passes over are not shown. Raises ConflictError
        where another job writes one of the columns and nothing orders their values, and while a revision of the table
        is not done.
        """
        opened = self.table(table)
        claim = WriterClaim(opened, text(table, "table"), self.topology()._check_flow)
        return BarrierWriter(opened, writer, columns, claim.register)

    def topology(self) -> Topology:
        """The jobs of the warehouse and the tables under barriers that they read and write."""
        return Topology(self)

    def session(
        self,
        tables: Sequence[str] | None = None,
        *,
        consistency: str | None = None,
        as_of: int | None = None,
        scope: str = TABLES,
    ) -> Session:
        """Read several tables at one barrier: `with catalog.session([..]) as s: s.table(name).scan()`. tables:
        `db.name` of tables under barriers of one interval, None for all that the warehouse has.

        consistency: by default the catalog's. `RepeatableRead`, the newest barrier that is complete in all of them,
        which stays until the session is closed; `ReadCommitted`, the same, and what writers of tables with
        `widetable.barrier-stage` have written and are about to publish: it may go again, which
        `Session.fell_back_from` tells; `ReadUncommitted`, the newest snapshot of each table. as_of: a barrier that is
        wanted instead of the newest one. scope: `tables`; or `topology`, with all tables that jobs connect with these:
        the barrier is complete in all of them.

        With `uri` the service says which barrier it is, but for `ReadUncommitted`, which has none. Raises StorageError
        where no instance answers, InvalidError for the service of another warehouse. A session that is open does not
        need the service any more.
        """
        given = self._consistency if consistency is None else consistency
        chosen = one_of(given, CONSISTENCIES, "consistency")
        barrier = None if as_of is None else whole_number(as_of, "as_of")
        # None is all tables under barriers, which the topology cannot add to.
        if one_of(scope, SCOPES, "scope") == TOPOLOGY and tables is not None:
            tables = self.topology().connected(tables)
        if self._service is None or chosen == READ_UNCOMMITTED:
            opened = self._opened(tables)
            last = self._shown.last(chosen, opened)
            found = Session(opened, chosen, barrier, None if last is None else last.barrier)
        else:
            # The service says the barrier only; rows are read by this process from the storage.
            client = self._service.client()
            asked = AskedSessions(client, self._file_io, self._root, self.table, self._shown)
            found = asked.open(tables, chosen, barrier)
        # Sessions of one catalog over the same tables know what the last one has shown; one as of a
        # given barrier says nothing of what is newest.
        if barrier is None:
            self._shown.note(chosen, found)
        return found

    def revise(self, table: str, *, to: int | None, dry_run: bool = False) -> RevisionResult:
        """Take the table `db.name`, which jobs make of others, back to a barrier, with all that is made of it: `to`, or
        None for the beginning, with no rows. Readers see all of them before or after. Jobs that run are refused, and
        start with a new checkpoint: they go on at that barrier, or from the beginning. dry_run: only say what would go.
        One that was killed goes on when it is called again.

        Raises InvalidError for tables with rows from outside, NotFoundError for a barrier that one of the tables, or
        what its jobs would read, does not have any more, ConflictError while another revision has not ended.
        """
        return revise(self, table, to, dry_run=dry_run)

    def list_databases(self) -> list[str]:
        """Names, sorted: of the directories that can be databases, also of those without tables.

        `shop` for `<warehouse>/shop.db`. A directory whose name no database may have is passed over.
        """
        found = []
        for entry in self._file_io.list(self._root):
            name = entry.name.removesuffix(DATABASE_SUFFIX)
            if entry.is_dir and name != entry.name:
                with contextlib.suppress(InvalidError):
                    found.append(checked_part(name, "database", len(DATABASE_SUFFIX)))
        return sorted(found)

    def list_tables(self, database: str | None = None) -> list[str]:
        """`db.name` of all tables, or of those of one database, sorted.

        One look per directory, as a table is what has a schema. Branches are not listed
        (`Table.branches`). A database that is not there has none; a name that none may have raises
        InvalidError.
        """
        if database is None:
            databases = self.list_databases()
        else:
            databases = [checked_part(database, "database", len(DATABASE_SUFFIX))]
        found = []
        for each in databases:
            directory = database_dir(self._root, each)
            for entry in self._file_io.list(directory):
                paths = TablePaths(f"{directory}/{entry.name}")
                if entry.is_dir and SchemaStore(self._file_io, paths).ids():
                    found.append(f"{each}.{entry.name}")
        return sorted(found)

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Delete the table and all its files, those of branches too. Not atomic: readers and writers of it get errors,
        and one that breaks off leaves a table without rows, or with some of its files, to be dropped again. Waits for
        what this process compacts behind its commits.
        """
        root = self._table_root(name)
        if_exists = flag(if_exists, "if_exists")
        paths = TablePaths(root)
        if not SchemaStore(self._file_io, paths).ids() and not rest_of_table(self._file_io, paths):
            if if_exists:
                return
            self.table(name)  # raises NotFoundError, with the tables that are there
        # A compaction of this process that is still at work would put files into the directory while it
        # is deleted.
        for branch in branch_names(self._file_io, paths):
            wait_for_compactions(paths.of_branch(branch).root)
        wait_for_compactions(root)
        # Buckets first: what else a drop that breaks off leaves shows that there was a table. No other directory by
        # itself, as one that is linked there would lose what is behind the link.
        for entry in self._file_io.list(root):
            if entry.is_dir and (is_bucket(entry.name) or "=" in entry.name):
                self._file_io.delete_dir(f"{root}/{entry.name}")
        self._file_io.delete_dir(root)
        self._file_io.delete(begun_copy(root))  # of a copy that was killed behind its snapshot

    def copy_table(
        self,
        source: str,
        target: str,
        *,
        target_warehouse: str | os.PathLike[str] | None = None,
        snapshot_id: int | None = None,
        timestamp: Moment | None = None,
        tag: str | None = None,
    ) -> Table:
        """Make the table `target` of one snapshot of `source` (`db.name`, or its branch): the newest, with the newest
        columns, or one of snapshot_id, timestamp and tag (as in `scan`), with those of its time. Data files are copied
        byte for byte, and committed in one snapshot, an overwrite, which readers of changes pass over.

        target_warehouse: path or URL; None: this one. The copy is there whole or not at all (in an object store also
        empty, for a few requests before its rows are there: docs/object-stores.md), and stands alone: it has no other
        snapshots, no tags, branches and consumers, and knows no commit of the source, which others may read and write
        meanwhile. Raises InvalidError where something has the name, ConflictError while another copy to it goes on, or
        where somebody wrote to it, UnsupportedError for tables with `index.*`, `widen.*` and `join.*` options or
        barriers, DamagedError for damaged files of the source, StorageError.
        """
        # The copy gets the storage that was given, as any table here; without one the target's own path
        # says which it is, so a copy may go from a disk to an object store.
        table = self.table(source)
        at = self._given.at
        warehouse = self._root if target_warehouse is None else at(target_warehouse)[1]
        root = table_root(warehouse, target, "target")
        copy_table(
            table,
            root,
            snapshot_id=snapshot_id,
            timestamp=timestamp,
            tag=tag,
            file_io=at(root)[0] if self._given.is_given else None,
        )
        return self._open(root)

    def alter_table(
        self,
        name: str,
        *,
        set_options: Mapping[str, str] | None = None,
        remove_options: Sequence[str] = (),
        add_columns: pa.Schema | Sequence[pa.Field] = (),
        drop_columns: Sequence[str] = (),
        rename_columns: Mapping[str, str] | None = None,
        change_types: Mapping[str, pa.DataType | str] | None = None,
        change_nullability: Mapping[str, bool] | None = None,
        change_comments: Mapping[str, str | None] | None = None,
        move_columns: Mapping[str, str] | None = None,
    ) -> Table:
        """Give the table its next schema; data files are not touched. All changes are one step, in
        terms of the names before it.

        A column is its name, or a path to a field within it, at any depth: `v.f` in a ROW, `v.element.f` in an ARRAY,
        `v.value.f` in a MAP. What is the whole name of a column is that column; else a name that has a dot itself
        stands in backticks, also in add_columns.

        add_columns: nullable columns and fields, put last. rename_columns: old name or path to the one new name;
        options `fields.*` that name it follow, `index.*` and `widen.*` are to be removed with it.
        change_types: to a wider type, as in `create_table`; in a struct, list or map, fields of the same name stay what
        they were, others are new or gone. change_nullability: whether it is nullable; NOT NULL only with the option
        `alter-column-null-to-not-null.disabled` = false. change_comments: to a text or None. move_columns: to `first`,
        `last`, `after <name>` or `before <name>`, within its ROW; added ones, too. Key columns only move and have
        comments. Two callers at once: both changes are made.

            catalog.alter_table("shop.users", add_columns=[pa.field("country", pa.string())],
                                move_columns={"country": "after city"})
        """
        change = SchemaChange(
            set_options=option_texts(set_options, "set_options"),
            remove_options=names(remove_options, "remove_options"),
            add_columns=tuple(arrow_schema(add_columns, "add_columns")),
            drop_columns=names(drop_columns, "drop_columns"),
            rename_columns=_texts(rename_columns, "rename_columns"),
            change_types=changed_types(mapping(change_types, "change_types"), "change_types"),
            change_nullability={
                column: flag(nullable, "change_nullability")
                for column, nullable in mapping(change_nullability, "change_nullability").items()
            },
            change_comments={
                column: None if comment is None else text(comment, "change_comments")
                for column, comment in mapping(change_comments, "change_comments").items()
            },
            move_columns=_texts(move_columns, "move_columns"),
        )
        table = self.table(name)
        alter_table(table, change)
        return self._open(table.path)

    def _opened(self, tables: Sequence[str] | None) -> dict[str, Table]:
        """None: all that are under barriers."""
        named = self.list_tables() if tables is None else names(tables, "tables")
        opened = {name: self.table(name) for name in named}
        if tables is not None:
            return opened
        return {
            name: table
            for name, table in opened.items()
            if table.schema.typed_options.get(BARRIER_INTERVAL) is not None
        }

    def _schema_of(self, name: str) -> TableSchema:
        return self.table(name).schema

    def _table_root(self, name: str) -> str:
        return table_root(self._root, name, "table name")

    def _schemas(self, root: str, schema: TableSchema) -> SchemaStore:
        """To publish this schema: by its own option it is forced to the disk or not, before any table can be opened."""
        fsync = schema.typed_options.get(opt.FSYNC)
        return SchemaStore(self._given.at(self._root, fsync=fsync)[0], TablePaths(root))

    def _has_no_rest(self, root: str) -> bool:
        """True; a new table would have the rows of the former one, as far as its files are there."""
        rest = rest_of_table(self._file_io, TablePaths(root))
        if rest is not None:
            raise InvalidError(
                root,
                found=f"no schema, but {rest}: somebody wrote while a table was dropped, or the drop broke off",
                expected="nothing of a table where there is none",
                action="Drop it once more (drop_table), or remove the directory; then make the table.",
            )
        return True

    def _open(self, root: str) -> Table:
        return Table._open(self._given, root)


def _texts(given: Any, argument: str) -> dict[str, str]:
    return {name: text(value, argument) for name, value in mapping(given, argument).items()}
