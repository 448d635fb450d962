"""Everything that is wrong with a table, in one list: each finding says what is affected and what to do.

    options      absent `bucket`, options that are refused
    snapshots    lost ones, gaps, torn ones; clocks that were wrong; commit users near the bound
    metadata     manifest lists and manifests of every kept snapshot: they exist and have the recorded size
    files        live data files, their deletion vectors, all changelog files: they exist and have their size; deep:
                 all that they hold, and whether the rows of each bucket can be merged; files that only tags name, and
                 (not as findings, because they expire) those of older snapshots: they exist and have their size
    branches     a doctor of main runs these checks for each branch, except options and upkeep
    notes        consumers, tags, hints and leases that cannot be read
    upkeep       what is unwise: nobody compacts, consumers far behind, sizes of buckets (`upkeep_check`); files that
                 nothing names

No check stops the others: an error that it raises becomes a finding. The order matters: `_newest` chooses the snapshot
for later checks, which read files under a lease on it. Checks that would draw wrong conclusions from damage are skipped
if earlier checks found some (`_upkeep`, `_orphans`). A file that expires during the check is no finding. `not_checked`
names what no check covered. Nothing is changed. Raises nothing of this package.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat
from typing import Final

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag
from widetable.commit.snapshots.committed import MANY_USERS, MAX_USERS, users_of
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.snapshot_times import ahead
from widetable.commit.transaction.committer import Committer
from widetable.errors import InvalidError, NotFoundError, WidetableError
from widetable.format.damaged_file import CHANGELOG_ACTION
from widetable.format.human_units import size_text
from widetable.format.manifest_entry import DELETE, ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.operations.handle.newest_snapshot import held_newest
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.damaged_metadata import damaged_notes
from widetable.operations.health.doctor_report import (
    DoctorFinding,
    DoctorReport,
    command_line,
    of_error,
)
from widetable.operations.health.file_damage import Damage, DamagedFile, damaged_files
from widetable.operations.health.hash_index_audit import hash_index_findings
from widetable.operations.health.upkeep_check import upkeep_findings
from widetable.operations.health.vector_check import vector_findings
from widetable.operations.health.whole_snapshot import NOT_WHOLE, SAME_ROWS, whole_snapshot
from widetable.operations.history.branches import branch_names
from widetable.operations.history.named_files import NamedFiles
from widetable.operations.history.orphans import DAY_MILLIS, remove_orphans
from widetable.read.expired import is_kept
from widetable.read.scan_plan import plan
from widetable.read.split import SplitRead
from widetable.runtime.derived_value import derived_value
from widetable.runtime.machine_clock import now_millis
from widetable.schema import options as opt
from widetable.storage.paths import MAIN_BRANCH
from widetable.write.table_state import TableState

# For a branch, these checks would have the findings of main.
_OF_MAIN: Final = ("options", "upkeep")
# The part that a doctor does not check unless it is deep.
_CONTENT: Final = "what the files hold (--deep reads them)"
_MANIFEST: Final = (
    "Restore the file; snapshots that do not name it can be read. If the newest one does, and there is no copy, move "
    "its snapshot file away: Table.accept_lost_snapshots() then continues from the one before."
)


def doctor(table: OpenTable, deep: bool = False) -> DoctorReport:
    """List everything that is wrong with the table, with what is affected and what to do. Nothing is changed.

    deep: read every live data file and every changelog file instead of comparing sizes, and merge the rows. A part that
    cannot be checked is a finding, not an error.
    """
    return _Doctor(table._state(), table._committer, is_deep=flag(deep, "deep")).run()


@dataclass
class _Doctor:
    """Holds the state of one run. files: how many were checked so far; latest: the newest snapshot, None without one or
    if it cannot be read.
    """

    table: TableState
    committer: Committer
    is_deep: bool
    findings: list[DoctorFinding] = field(default_factory=list)
    files: int = 0
    latest: Snapshot | None = None
    not_checked: list[str] = field(default_factory=list)
    past: list[str] = field(default_factory=list)

    def run(self) -> DoctorReport:
        checks: dict[str, tuple[Callable[[], Iterable[DoctorFinding]], ...]] = {
            "options": (self._bucket_option, self._refused_options),
            "snapshots": (self._newest, self._gaps_and_clocks, self._users),
            "metadata": (self._metadata,),
            "files": (self._live_files, self._merged_rows, self._changelogs),
            "branches": (self._branches,),
            "notes": (self._notes, self._older_files),
            "upkeep": (self._upkeep, self._orphans),
        }
        for check, looks in checks.items():
            for look in looks:
                self._guarded(check, look)
        return DoctorReport(
            self.table.paths.root,
            None if self.latest is None else self.latest.id,
            self.files,
            self.is_deep,
            tuple(dict.fromkeys(self.findings)),  # several checks may meet one thing
            tuple(self._unread() + self.not_checked),
            tuple(self.past),
        )

    def _unread(self) -> list[str]:
        return [] if self.is_deep or not self.files else [_CONTENT]

    @derived_value
    def _stored(self) -> LiveFiles:
        """Return the stored live files, not those that the process has cached."""
        return self.committer.live_files.uncached()

    @property
    def _named_files(self) -> NamedFiles:
        return NamedFiles(self.table.file_io, self.table.paths, self._stored)

    def _guarded(self, check: str, look: Callable[[], Iterable[DoctorFinding]]) -> None:
        try:
            self.findings.extend(look())
        except WidetableError as error:
            # Damage that an earlier check reported may stop this check as well; it is reported once.
            if not self._is_named(error.subject):
                self.findings.append(of_error(check, error))

    def _is_named(self, subject: str) -> bool:
        """Whether there is a finding about the subject."""
        return any(finding.subject == subject for finding in self.findings)

    def _bucket_option(self) -> Iterator[DoctorFinding]:
        if opt.BUCKET.key in self.table.schema.options:
            return
        yield DoctorFinding(
            "options",
            f"option {opt.BUCKET.key!r}",
            "no such option",
            "a number of buckets",
            "writes",
            "For others the table has dynamic buckets. If only widetable wrote it, set it to 1: "
            f"widetable alter PATH --set {opt.BUCKET.key}=1.",
            command_line("alter", self.table.paths.root, "--set", f"{opt.BUCKET.key}=1"),
        )

    def _refused_options(self) -> Iterator[DoctorFinding]:
        is_reported = opt.BUCKET.key not in self.table.schema.options  # by `_bucket_option`
        accept(self.table.schema, Use.READ if is_reported else Use.MAINTAIN)
        yield from ()

    def _newest(self) -> Iterator[DoctorFinding]:
        self.latest = self.committer.snapshots.latest()
        yield from ()

    def _snapshots(self) -> Iterator[Snapshot]:
        """Yield the snapshots that can be read; the others become findings."""
        for id in self.committer.snapshots.ids():
            try:
                yield self.committer.snapshots.load(id)
            except NotFoundError:  # expired since the directory was listed
                continue
            except WidetableError as error:
                self.findings.append(of_error("snapshots", error))

    def _gaps_and_clocks(self) -> Iterator[DoctorFinding]:
        for one, following in pairwise(self.committer.snapshots.ids()):
            if following != one + 1:
                yield DoctorFinding(
                    "snapshots",
                    self.table.paths.snapshot(one + 1),
                    "no such file",
                    f"all snapshots from {one} to {following}",
                    counted(following - one - 1, "snapshot"),
                    "Restore the files; nothing before them expires until then.",
                )
        times = [(snapshot.id, snapshot.time_millis) for snapshot in self._snapshots()]
        for id in ahead(times, now_millis()):
            yield DoctorFinding(
                "snapshots",
                f"snapshot {id}",
                "a time in the future",
                "the time at which it was committed",
                "reads by timestamp, and expiry by age",
                "Set the clock of the machine that committed it, or of this one; docs/decisions/0017-clocks.md.",
            )

    def _users(self) -> Iterator[DoctorFinding]:
        users = len(users_of(self.latest, self.committer.last_commits.load))
        if users >= MANY_USERS:
            yield DoctorFinding(
                "snapshots",
                self.table.paths.root,
                f"{counted(users, 'commit user')} that every snapshot remembers",
                f"less than {MANY_USERS}; past {MAX_USERS} silent ones are forgotten",
                "batches that are repeated",
                "Let each job keep its commit user, instead of taking a new one in every run.",
            )

    def _metadata(self) -> Iterator[DoctorFinding]:
        named: dict[
            tuple[str, int | None], list[int]
        ] = {}  # name and recorded size -> ids of snapshots
        errors: list[tuple[WidetableError, int]] = []
        for snapshot in self._snapshots():
            try:
                for file in self._named(snapshot):
                    named.setdefault(file, []).append(snapshot.id)
            except NotFoundError:  # expired since
                continue
            except WidetableError as error:
                errors.append((error, snapshot.id))
        # The listing comes last, because a commit writes its files before its snapshot.
        listing = self.table.file_io.list(self.table.paths.manifest_dir)
        sizes = {entry.name: entry.size_bytes for entry in listing}
        # Files are compared by name and recorded size, because snapshots may record different sizes of one file.
        # Snapshots that have expired by now do not count.
        wrong = {
            file: kept_ids
            for file, ids in named.items()
            if sizes.get(file[0]) is None or file[1] not in (None, sizes[file[0]])
            if (kept_ids := [id for id in ids if is_kept(self.table.file_io, self.table.paths, id)])
        }
        subjects = {self.table.paths.manifest(name) for name, _ in wrong}
        for refusal, id in errors:
            if refusal.subject not in subjects:
                yield of_error("metadata", refusal, f"snapshot {id}")
        for (name, size_bytes), ids in wrong.items():
            stored_bytes = sizes.get(name)
            yield DoctorFinding(
                "metadata",
                self.table.paths.manifest(name),
                "no such file" if stored_bytes is None else counted(stored_bytes, "byte"),
                "a file"
                if size_bytes is None
                else f"{counted(size_bytes, 'byte')}, as the file that names it says",
                f"snapshots {', '.join(map(str, ids))}",
                _MANIFEST,
            )

    def _named(self, snapshot: Snapshot) -> Iterator[tuple[str, int | None]]:
        """Yield name and recorded size of each manifest list of a snapshot, then of each manifest. Reads the lists."""
        changelog = snapshot.changelog_manifest_list
        gone = changelog if self._named_files.lacks_changelog(snapshot) else None
        lists = {name: size for name, size in snapshot.list_bytes.items() if name != gone}
        yield from lists.items()
        for name in lists:
            for meta in self._stored.manifest_list(name, snapshot):
                yield meta.file_name, meta.file_size

    def _live_files(self) -> Iterator[DoctorFinding]:
        if self.latest is None:
            return
        with held_newest(self.table, self.committer) as latest:
            if latest is None:  # the table was dropped since
                return
            entries = self._stored.live_entries(latest)
            self.files += len(entries)
            damage = list(damaged_files(self.table, entries, latest.id, deep=self.is_deep))
            way = self._rollback_advice(latest, damage) if damage else ("", "")
            yield from (_of_file(file, *way) for _, file in damage)
            live_files = self._stored
            yield from vector_findings(self.table, live_files, latest, entries, deep=self.is_deep)
            if self.is_deep:
                yield from hash_index_findings(self.table, live_files, latest)

    def _rollback_advice(self, latest: Snapshot, damage: Sequence[Damage]) -> tuple[str, str]:
        """Say what to do with these files, and the command: the way that loses nothing, if there is one."""
        root, names = self.table.paths.root, {entry.file.file_name for entry, _ in damage}
        whole_id = whole_snapshot(self.table, self.committer, latest, names, deep=self.is_deep)
        if whole_id is None:
            return NOT_WHOLE, command_line("repair", root)
        command = command_line("rollback", root, "--snapshot", str(whole_id))
        return f"Restore it from a copy, or go back to snapshot {whole_id}: {SAME_ROWS}.", command

    def _merged_rows(self) -> Iterator[DoctorFinding]:
        """Merge the rows of each bucket. Skipped after findings of damaged files, which would stop the merge."""
        if not self.is_deep:
            return
        if any(finding.check == "files" for finding in self.findings):
            self.not_checked.append("whether the rows of each bucket can be merged")
            return
        state, live_files = self.table, self._stored
        with held_newest(state, self.committer) as latest:
            for split in plan(live_files, latest, state.schema, None, rescaled=True):
                try:
                    if split.needs_merge:
                        deque(SplitRead(state, split, state.schema.names).to_batches(), maxlen=0)
                except InvalidError as error:
                    bucket = f"bucket {split.bucket.number}, which is neither read as a whole nor compacted"
                    yield of_error("files", error, bucket)
                except WidetableError:  # a file lies elsewhere, or was damaged just now
                    continue

    def _branches(self) -> Iterator[DoctorFinding]:
        paths, file_io = self.table.paths, self.table.file_io
        for name in branch_names(file_io, paths) if paths.branch == MAIN_BRANCH else ():
            try:
                report = doctor(OpenTable(paths.of_branch(name).root, file_io), self.is_deep)
            except WidetableError as error:  # the branch has no schema
                yield of_error("branches", error, f"branch {name!r}")
                continue
            yield from (each for each in report.findings if each.check not in _OF_MAIN)
            more = (part for part in report.not_checked if part != _CONTENT)
            self.not_checked.extend(f"branch {name!r}: {part}" for part in more)
            self.past.extend(report.past)

    def _changelogs(self) -> Iterator[DoctorFinding]:
        for snapshot in self._snapshots():
            if self._named_files.lacks_changelog(snapshot):
                continue
            try:
                entries = self._stored.changelog_entries(snapshot)
            except NotFoundError:  # expired since
                continue
            except WidetableError as error:
                if not self._is_named(error.subject):
                    yield of_error("files", error, f"changelog of snapshot {snapshot.id}")
                continue
            self.files += len(entries)
            damage = damaged_files(
                self.table, entries, snapshot.id, deep=self.is_deep, is_changelog=True
            )
            for _, file in damage:
                yield _of_file(file, CHANGELOG_ACTION)

    def _notes(self) -> Iterator[DoctorFinding]:
        for damage in damaged_notes(self.table.file_io, self.table.paths):
            yield of_error("notes", damage, command=self._forgetting(damage.subject))

    def _older_files(self) -> Iterator[DoctorFinding]:
        """Check that data files that only tags and older snapshots name exist and have their size. They are not read.
        Files of older snapshots are no findings, because these snapshots expire.
        """
        with held_newest(self.table, self.committer) as latest:
            seen = _names(self._stored.live_entries(latest))
        count = 0
        for (id, entries), is_tag in chain(
            zip(self._tagged_entries(), repeat(True)), zip(self._older_entries(), repeat(False))
        ):
            fresh = [entry for entry in entries if entry.file.file_name not in seen]
            seen |= _names(fresh)
            count += len(fresh)
            for _, file in damaged_files(self.table, fresh, id):
                if is_tag:
                    yield _of_file(file, "Restore it from a copy, or delete the tags that need it.")
                else:
                    self.past.append(str(file))
        if not self.is_deep:
            self.files += count
        elif count:
            self.not_checked.append(
                f"what {counted(count, 'data file holds', 'data files hold')} that only older snapshots and tags name"
            )

    def _tagged_entries(self) -> Iterator[tuple[int, Sequence[ManifestEntry]]]:
        """Yield (snapshot id, live entries) of each tag."""
        for name, tagged in self._named_files.tags():
            if self._named_files.of_tag(name, tagged):  # the tag exists, with all its manifests
                yield tagged.id, self._stored.live_entries(tagged)

    def _older_entries(self) -> Iterator[tuple[int, Sequence[ManifestEntry]]]:
        """Yield (snapshot id, entries that the next snapshot deleted) of each snapshot that has a next one."""
        for one, following in pairwise(self._snapshots()):
            with contextlib.suppress(NotFoundError):  # expired since
                if following.id == one.id + 1:
                    changed = self._stored.delta_entries(following)
                    yield one.id, [entry for entry in changed if entry.kind == DELETE]

    def _forgetting(self, path: str) -> str:
        """Return the command that deletes a consumer or tag; empty for other notes."""
        paths = self.table.paths
        for noun, directory in (("consumer", paths.consumer_dir), ("tag", paths.tag_dir)):
            if path.startswith(f"{directory}/{noun}-"):
                name = path.removeprefix(f"{directory}/{noun}-")
                return command_line(noun, "delete", paths.root, name)
        return ""

    def _upkeep(self) -> Iterator[DoctorFinding]:
        if self.latest is None:
            return
        if any(finding.check == "metadata" for finding in self.findings):
            self.not_checked.append("the upkeep of the table")
            return
        yield from upkeep_findings(self.table, self.committer)

    def _orphans(self) -> Iterator[DoctorFinding]:
        """Find files that nothing names. Skipped if the names are not all known, or if the table cannot be written, so
        that no command could remove them.
        """
        if any(finding.check in ("options", "metadata", "notes") for finding in self.findings):
            self.not_checked.append("files that nothing names")
            return
        orphans = remove_orphans(self.table, self.committer, DAY_MILLIS, dry_run=True)
        if orphans.paths:
            yield DoctorFinding(
                "upkeep",
                self.table.paths.root,
                f"{counted(len(orphans.paths), 'file')} that no snapshot, tag or branch names, older than a day",
                "no files that writers left behind so long ago",
                f"{size_text(orphans.bytes)} of the disk",
                "Remove them; with --dry-run the command only lists them.",
                command_line("orphans", self.table.paths.root),
            )


def _names(entries: Iterable[ManifestEntry]) -> set[str]:
    return {entry.file.file_name for entry in entries}


def _of_file(file: DamagedFile, action: str, command: str = "") -> DoctorFinding:
    return DoctorFinding(
        "files", file.path, file.found, file.expected, file.concerned, action, command
    )
