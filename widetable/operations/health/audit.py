"""Audit a table, whichever client wrote it: check the laws of the format, and those of the changelog if the producer
has any.

    snapshots, manifests    snapshot_audit       every snapshot from the start on
    barriers                barrier_audit        every snapshot from the start on, in tables under barriers
    data, changelog files   file_audit           every file that these snapshots name, once
    changelog               changelog_audit      bucket by bucket, from the start on

The producer `lookup` emits changes for rows at level >= 1, `full-compaction` for rows at the bottom level. The audit
folds these rows. They are the rows of the table if no file waits in level 0; otherwise they are what readers of changes
have seen so far.

    start                              audited              the changelog is folded onto
    None, snapshot 1 exists            every snapshot       the empty table
    None, 5 is the oldest              5, then 6 and on     the rows of 5
    7, or a tag of it                  7, then 8 and on     the rows of 7
    0                                  as None if snapshot 1 exists; else NotFoundError

One read lease, on the start or the oldest kept snapshot, keeps all of these snapshots for the whole audit. A file that
is missing then is a finding, because no expiry can have removed it. A tag may precede the oldest snapshot by at most
one, so that its changes continue with that snapshot.

`file_audit` reads every data and changelog file once; `changelog_audit` reads them again, as its module text says.
The audit writes only the lease.

Source: semantics.md section 9; format.md sections 3, 4, 9 and 10; laws 3 and 5 of the design.
Raises NotFoundError for a start that does not exist or that expired meanwhile, InvalidError for a value that is no
start, UnsupportedError for a table of which no law is known, DamagedError for snapshots and manifests that cannot be
read, StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import whole_number
from widetable.commit.barriers.level0_labels import Level0Labels
from widetable.commit.holds.retired_snapshots import RetiredSnapshots
from widetable.commit.holds.tag_store import TagStore
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError, UnsupportedError
from widetable.format.manifest_entry import ADD
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import load_snapshot
from widetable.operations.health.audit_report import AuditReport, Findings
from widetable.operations.health.barrier_audit import BarrierAudit
from widetable.operations.health.bucket_history import bucket_histories, emits_of_files
from widetable.operations.health.changelog_audit import ChangelogAudit
from widetable.operations.health.file_audit import FileAudit
from widetable.operations.health.hash_index_audit import audit_hash_indexes
from widetable.operations.health.snapshot_audit import SnapshotAudit
from widetable.operations.health.vector_audit import audit_vectors
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.write.table_state import TableState

# Rows that may be read to fold whole buckets (`changelog_audit`), by default.
FOLDED_ROWS: Final = 50_000_000
_NO_LAW: Final[Mapping[str, str]] = {
    "none": "changelog laws: the table keeps no changelog (changelog-producer=none)",
    "input": "changelog laws: changelog-producer=input keeps the records as they were written; "
    "what they fold to is up to the merge engine",
}


# Audits the tables that derive from this one.
Further: TypeAlias = Callable[[Findings], None]


def audit_table(
    table: OpenTable,
    start: int | str | None,
    findings_per_law: int,
    folded_rows: int,
    further: Further,
) -> AuditReport:
    """Audit the table, as `Table.audit` describes. `further` audits the tables that derive from it."""
    if start is not None and not isinstance(start, str):
        start = whole_number(start, "start")
    findings = Findings(whole_number(findings_per_law, "findings_per_law", least=0))
    folded_rows = whole_number(folded_rows, "folded_rows", least=0)
    return _Audit(table._state(), table._committer, findings, folded_rows, further).run(start)


class _Audit:
    """Run one audit of one table. It reads live files without counts: it counts rows itself and reports differences."""

    def __init__(
        self,
        table: TableState,
        committer: Committer,
        findings: Findings,
        folded_rows: int,
        further: Further,
    ) -> None:
        self._table = table
        self._committer = committer
        self._live_files = committer.live_files.uncounted()
        self._findings = findings
        self._folded_rows = folded_rows
        self._further = further
        self._producer = table.options.get(opt.CHANGELOG_PRODUCER)

    def run(self, start: int | str | None) -> AuditReport:
        accept(self._table.schema, Use.AUDIT)
        store, path = self._committer.snapshots, self._table.paths.root
        ids, _ = store.ids(), store.latest_id()  # latest_id raises if snapshots are lost
        if not ids and start in (None, 0):
            return self._findings.report(path, self._producer, None, None)
        if start is None:
            ids = self._left(ids)
        first = self._first(start, ids)
        start_id = 0 if first is None else first.id
        # The lease keeps all these snapshots from here on. They are small, so all are loaded at once.
        with held(self._table, max(start_id, ids[0])):
            load = self._committer.snapshots.load
            later = [load(id) for id in ids if id > start_id]
            self._audit_snapshots(first, later)
            self._audit_files(first, later)
            newest = later[-1] if later else first
            if newest is not None:
                audit_vectors(self._table, self._findings, self._live_files, newest)
                audit_hash_indexes(self._table, self._findings, self._live_files, newest)
            self._audit_changelog(first, later)
            self._further(self._findings)
        return self._findings.report(path, self._producer, start_id, ids[-1])

    def _left(self, ids: list[int]) -> list[int]:
        """Leave out the snapshots that an expiry has chosen: they may go at any moment, and no lease keeps them."""
        retired = RetiredSnapshots(self._table.file_io, self._table.paths).noted()
        return [id for id in ids if id not in retired] or ids

    def _first(self, start: int | str | None, ids: Sequence[int]) -> Snapshot | None:
        """Return the snapshot to start from, or None for the empty table before the first one."""
        store = self._committer.snapshots
        if start in (None, 0) and ids[0] == 1:
            return None
        if start is None:
            return store.load(ids[0])
        if isinstance(start, int) or not ids:
            return load_snapshot(store, 1 if isinstance(start, str) else start)
        first = TagStore(self._table.file_io, self._table.paths).load(start)
        if first.id < ids[0] - 1:
            raise NotFoundError(
                f"tag {start!r}",
                found=f"snapshot {first.id}, and the changelog of the next snapshot has expired",
                expected=f"a tag of snapshot {ids[0] - 1} or a later one",
                action="Start from a newer tag, or from the oldest snapshot.",
            )
        return first

    def _audit_snapshots(self, first: Snapshot | None, later: Sequence[Snapshot]) -> None:
        one = SnapshotAudit(self._live_files, self._table.schema, self._findings)
        level0 = Level0Labels(self._live_files, self._committer.last_commits.load)
        barriers = BarrierAudit(self._table.schema, level0, self._findings)
        for snapshot in [first, *later]:
            if snapshot is not None:
                one.check(snapshot)
                barriers.check(snapshot)

    def _audit_files(self, first: Snapshot | None, later: Sequence[Snapshot]) -> None:
        one = FileAudit(self._table, self._findings)
        live_files = self._live_files
        for entry in live_files.live_entries(first):
            assert first is not None
            one.check(entry, first.id, is_changelog=False)
        for snapshot in later:
            # These include the files that only changed their level: `FileAudit` knows them by name and reads none
            # twice.
            added = [e for e in live_files.delta_entries(snapshot) if e.kind == ADD]
            for entry in added:
                one.check(entry, snapshot.id, is_changelog=False)
            for entry in live_files.changelog_entries(snapshot):
                one.check(entry, snapshot.id, is_changelog=True)

    def _audit_changelog(self, first: Snapshot | None, later: Sequence[Snapshot]) -> None:
        schema = self._table.schema
        try:
            accept(schema, Use.READ)
        except UnsupportedError as error:
            self._findings.skip(f"changelog laws: {error.subject} is {error.found}")
            return
        if not emits_of_files(schema):
            self._findings.skip(_NO_LAW[self._producer])
            return
        first, later = self._since_producer(first, later)
        start_id = 0 if first is None else first.id
        one = ChangelogAudit(self._table, self._findings, start_id, self._folded_rows)
        for history in bucket_histories(self._live_files, schema, first, later):
            one.check(history)

    def _since_producer(
        self, first: Snapshot | None, later: Sequence[Snapshot]
    ) -> tuple[Snapshot | None, Sequence[Snapshot]]:
        """Start at the last snapshot that was made with another changelog producer.

            first none, later 1 (input) 2 (input) 3 (lookup) 4 (lookup)    first 2, later 3 4

        What another producer emitted folds by other rules, but its last snapshot is a valid base for the next one.
        """

        def producer(schema: TableSchema) -> str:
            return schema.typed_options.get(opt.CHANGELOG_PRODUCER)

        newest = producer(self._table.schema)
        others = [
            at
            for at, snapshot in enumerate(later)
            if producer(self._table.schema_of(snapshot.schema_id)) != newest
        ]
        if not others:
            return first, later
        at = others[-1]
        self._findings.skip(
            f"changelog laws up to snapshot {later[at].id}, which has another changelog producer"
        )
        return later[at], later[at + 1 :]
