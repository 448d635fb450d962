"""Builds every directory and file name of a table. No other module builds one.

Source: Paimon `FileStorePathFactory`, `SnapshotManager`, `PartitionPathUtils`; format.md section 1.
Names come from options, schemas and manifests, so each is checked: none may leave the table's directory (law 10).
Raises InvalidError for a name that is too long, DamagedError for one with a path separator or of dots only.

There are two kinds of names. `check_name` checks a name that a user passes: it raises InvalidError, and is stricter
than file systems are. `_plain` checks a name that is read from a file of the table: another client with looser rules
may have written it, so only a name that could lead out of the directory is refused, as damage.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from widetable.arguments import has_control_characters, refused, text
from widetable.errors import DamagedError, InvalidError
from widetable.runtime.derived_value import derived_value
from widetable.storage.escaped_text import escape

_NOT_IN_NAMES: Final = frozenset("/\\")
# Forbidden in names of databases and tables, because they have a meaning in Paimon's own names.
_NOT_IN_TABLE_NAMES: Final = frozenset("$@:.")
DATABASE_SUFFIX: Final = ".db"
# The database of the tables that describe the warehouse.
META_DATABASE: Final = "__meta"
# The form of numbers in names: `snapshot-01` is not the file of snapshot 1, and belongs to some other program.
_NUMBER: Final = "(0|[1-9][0-9]*)"
_SNAPSHOT: Final = re.compile(rf"snapshot-{_NUMBER}\Z")
_SCHEMA: Final = re.compile(rf"schema-{_NUMBER}\Z")
_CHANGELOG: Final = re.compile(rf"changelog-{_NUMBER}\Z")
_RETIRED: Final = re.compile(rf"widetable-retired-snapshot-{_NUMBER}(?:-[0-9a-f]+)?\Z")
_REVISION: Final = re.compile(rf"widetable-revision-{_NUMBER}(-active)?\Z")
_LOOKUP_PIN: Final = re.compile(rf"widetable-lookup-pin-(.+)-{_NUMBER}\Z")
# The name of the bucket POSTPONED in its directory, in place of a number.
_POSTPONED: Final = "postpone"
_BUCKET: Final = rf"bucket-({_NUMBER[1:-1]}|{_POSTPONED})"
_BUCKET_DIR: Final = re.compile(rf"^{_BUCKET}$")
_DATA_FILE: Final = re.compile(rf"^((?:/[^/]+=[^/]*)*)/{_BUCKET}/[^/]+$")
# The number of the bucket of rows that have no bucket yet: readers and compactions skip it.
POSTPONED: Final = -2
_CONTENT: Final = re.compile(
    r"-([0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})-0$"
)
TAG_PREFIX: Final = "tag-"
CONSUMER_PREFIX: Final = "consumer-"
MAIN_BRANCH: Final = "main"
BRANCHES: Final = "branch"
BRANCH_PREFIX: Final = "branch-"
_BRANCH_DIR: Final = re.compile(rf"^(.+)/{BRANCHES}/{BRANCH_PREFIX}([^/]+)$")
# Separates the name of a table from that of its branch.
_BRANCH_OF: Final = "$branch_"
LATEST: Final = "LATEST"
# The longest name of one file or directory on file systems.
LONGEST_NAME_BYTES: Final = 255
# What other clients add to a name while they write the file: `.<name>.<uuid>.tmp`, and `.<..>.crc` beside it.
TEMPORARY_BYTES: Final = 48
EARLIEST: Final = "EARLIEST"


def check_name(value: Any, what: str, around_bytes: int = 0) -> str:
    """Check a name that a user passes and that becomes a part of a file or directory name. around_bytes: the length of
    the other parts. Raises InvalidError.
    """
    name = text(value, what)
    longest = LONGEST_NAME_BYTES - around_bytes
    is_plain = not _NOT_IN_NAMES.intersection(name) and not has_control_characters(name)
    if is_plain and name.strip(" .") and name == name.strip() and len(name.encode()) <= longest:
        return name
    raise refused(
        value,
        what,
        f"a name of 1 to {longest} bytes without / \\ and control characters, blanks around it, or dots alone",
    )


def new_file_name(prefix: str, suffix: str = "") -> str:
    """Return a new unique name: prefix, random uuid, suffix."""
    return f"{prefix}-{uuid.uuid4()}-0{suffix}"


def postponed_prefix() -> str:
    """Create the prefix of the files of one writer of postponed rows: Java's compaction takes files of a writer, which
    it finds by this form of the name, in their order (Paimon `PostponeBucketFileStoreWrite`).
    """
    return f"data-u-{uuid.uuid4()}-s-{uuid.uuid4().int >> 97}-w"


def prefix_of(name: str) -> str:
    """Return the prefix of a data file's name that says something: that of postponed rows, or `data`."""
    writer, mark, _ = name.rpartition("-w-")
    return f"{writer}-w" if mark else "data"


def content_name(prefix: str, data: bytes) -> str:
    """Return a name as `new_file_name` does, whose uuid (version 8) is a digest of the bytes of the file.

    The bytes must contain something random, as Avro files do: equal bytes would have equal names.
    """
    return f"{prefix}-{_digest_uuid(data)}-0"


def is_named_after(path: str, data: bytes) -> bool:
    """Return False if `content_name` named the file after other bytes. Other names give True: they tell nothing."""
    match = _CONTENT.search(path)
    return match is None or match[1] == str(_digest_uuid(data))


def _digest_uuid(data: bytes) -> uuid.UUID:
    """Return 122 bits of SHA-256 in the form that RFC 9562 leaves to applications."""
    bits = int.from_bytes(hashlib.sha256(data).digest()[:16], "big")
    bits = bits & ~(0xF << 76) | (8 << 76)
    return uuid.UUID(int=bits & ~(3 << 62) | (2 << 62))


def snapshot_id(name: str) -> int | None:
    """Return the id in the name of a snapshot file, None for other names."""
    match = _SNAPSHOT.match(name)
    return int(match[1]) if match else None


def schema_id(name: str) -> int | None:
    """Return the id in the name of a schema file, None for other names."""
    match = _SCHEMA.match(name)
    return int(match[1]) if match else None


def changelog_id(name: str) -> int | None:
    """Return the id in the name of an expired snapshot in `changelog_dir`, None for other names."""
    match = _CHANGELOG.match(name)
    return int(match[1]) if match else None


def tag_name(name: str) -> str | None:
    """Return the tag in the name of a file in `tag_dir`, None for other names."""
    return _named(name, TAG_PREFIX)


def is_bucket(name: str) -> bool:
    """Return whether this is the name of a bucket's directory."""
    return _BUCKET_DIR.match(name) is not None


def retired_snapshot_id(name: str) -> int | None:
    """Return the id in the name of a `retired_snapshot`, None for other names."""
    match = _RETIRED.match(name)
    return int(match[1]) if match else None


def lookup_pin_of(name: str) -> tuple[str, int] | None:
    """Return (series, batch id) in the name of a `lookup_pin`, None for other names."""
    match = _LOOKUP_PIN.match(name)
    return (match[1], int(match[2])) if match else None


def branch_name(name: str) -> str | None:
    """Return the branch in the name of a directory in `branch_dir`, None for other names."""
    return _named(name, BRANCH_PREFIX)


def consumer_name(name: str) -> str | None:
    """Return the consumer in the name of a file in `consumer_dir`, None for other names."""
    return _named(name, CONSUMER_PREFIX)


def _named(name: str, prefix: str) -> str | None:
    """Return the part after the prefix; None for a part that `check_name` refuses, which no user can have created."""
    if not name.startswith(prefix):
        return None
    try:
        return check_name(name.removeprefix(prefix), prefix, len(prefix))
    except InvalidError:
        return None


def check_branch(value: Any) -> str:
    """Check the name of a branch other than main, by Paimon's rules for new branches. Raises InvalidError."""
    name = check_name(value, "branch", len(BRANCH_PREFIX))
    if name == MAIN_BRANCH or name.isdigit() or "$" in name:
        raise refused(
            value, "branch", f"a name that is not a number, not {MAIN_BRANCH!r}, without $"
        )
    return name


class _FixedPath:
    """An attribute of `TablePaths`: a path that has one name in every table. shared: all branches share the path."""

    def __init__(self, below: str, *, shared: bool = False) -> None:
        self._below, self._shared = below, shared

    def __get__(self, paths: TablePaths, owner: type) -> str:
        return f"{paths.shared_root if self._shared else paths.root}/{self._below}"


@dataclass(frozen=True)
class TablePaths:
    """The paths of the table at `root`, or of the branch whose directory is `root`:

        <table>/{schema,snapshot,tag,changelog,consumer,service}                        of main
        <table>/branch/branch-<name>/{schema,snapshot,tag,changelog,consumer,service}   of a branch
        <table>/{manifest,index,statistics,..,bucket-*}                                 shared by all

    Paths that a branch does not share begin with `root`, shared ones with `shared_root`: the table's directory.
    """

    root: str

    schema_dir = _FixedPath("schema")
    snapshot_dir = _FixedPath("snapshot")
    latest_hint = _FixedPath(f"snapshot/{LATEST}")
    earliest_hint = _FixedPath(f"snapshot/{EARLIEST}")
    tag_dir = _FixedPath("tag")
    # Copies of expired snapshots whose changelog is kept longer (written by other clients).
    changelog_dir = _FixedPath("changelog")
    consumer_dir = _FixedPath("consumer")
    manifest_dir = _FixedPath("manifest", shared=True)
    index_dir = _FixedPath("index", shared=True)
    statistics_dir = _FixedPath("statistics", shared=True)
    branch_dir = _FixedPath(BRANCHES, shared=True)
    # Leases and notes of running services; other clients ignore our names.
    service_dir = _FixedPath("service")
    # The mark that tells a branch from an earlier one of the same name (not in Paimon, as all that follow).
    branch_mark = _FixedPath("service/widetable-branch")
    # The compaction lease.
    lease = _FixedPath("service/widetable-compaction-lease")
    # The lease on compacting older levels after commits.
    old_levels_lease = _FixedPath("service/widetable-old-levels-lease")
    # The lease on a partition that is rescaled; compactions skip it.
    rescale_lease = _FixedPath("service/widetable-rescale-lease")
    # The lease on updating a table that holds a join.
    join_lease = _FixedPath("service/widetable-join-lease")
    # The mark of a table that has had a snapshot.
    had_snapshots_mark = _FixedPath("service/widetable-had-snapshots")
    # The last commits of each commit user, from the last snapshot that we expired.
    last_commits = _FixedPath("service/widetable-last-commits")
    # Empty lock files (`FileIO.turn`): of the commits of a machine, and of the writes that wait for their changelog.
    commit_queue = _FixedPath("service/widetable-commit-turn")
    compaction_queue = _FixedPath("service/widetable-compaction-turn")

    @derived_value
    def shared_root(self) -> str:
        match = _BRANCH_DIR.match(self.root)
        return match[1] if match else self.root

    @property
    def branch(self) -> str:
        """The name of the branch: `main` for the table itself."""
        match = _BRANCH_DIR.match(self.root)
        return match[2] if match else MAIN_BRANCH

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, manifest list or index manifest."""
        return f"{self.manifest_dir}/{self._plain(name)}"

    def index(self, name: str) -> str:
        return f"{self.index_dir}/{self._plain(name)}"

    def statistics(self, name: str) -> str:
        return f"{self.statistics_dir}/{self._plain(name)}"

    def tag(self, name: str) -> str:
        return f"{self.tag_dir}/{TAG_PREFIX}{self._plain(name)}"

    def of_branch(self, name: str) -> TablePaths:
        """Return the paths of another branch of the same table, or of main."""
        if name == MAIN_BRANCH:
            return TablePaths(self.shared_root)
        return TablePaths(f"{self.branch_dir}/{BRANCH_PREFIX}{self._plain(name)}")

    def consumer(self, consumer_id: str) -> str:
        return f"{self.consumer_dir}/{CONSUMER_PREFIX}{self._plain(consumer_id)}"

    def read_lease(self, name: str) -> str:
        """Return the path of a reader's lease (not in Paimon)."""
        return f"{self.service_dir}/widetable-read-lease-{self._plain(name)}"

    def lookup_pin(self, series: str, batch_id: int) -> str:
        """Return the path of the pin of a micro-batch of a lookup join (not in Paimon). series: the query and join."""
        return f"{self.service_dir}/widetable-lookup-pin-{self._plain(series)}-{batch_id}"

    def job_file(self, name: str) -> str:
        """Return the path of a file of a job that writes into the table, named by `job_names` (not in Paimon)."""
        return f"{self.service_dir}/{name}"

    def retired_snapshot(self, snapshot_id: int, by: str = "") -> str:
        """Return the path of the note of a snapshot that expires (not in Paimon). by: the expiry that wrote it."""
        name = f"widetable-retired-snapshot-{snapshot_id}" + (f"-{by}" if by else "")
        return f"{self.service_dir}/{self._plain(name)}"

    def compaction_request(self, name: str) -> str:
        """Return the path of a note that a reader or writer waits for a changelog (not in Paimon)."""
        return f"{self.service_dir}/widetable-compaction-wanted-{self._plain(name)}"

    def partition_prefix(self, column: str) -> str:
        """Return the beginning of the directory names of a partition column."""
        return f"{escape(column)}="

    def bucket_dir(self, partition: Sequence[tuple[str, str]], bucket: int) -> str:
        """Return the directory of a bucket. partition: (column, directory text) in partition key order, not yet
        escaped; empty for unpartitioned tables.
        """
        parts = [partition_directory(name, text) for name, text in partition]
        name = _POSTPONED if bucket == POSTPONED else str(bucket)
        return "/".join([self.shared_root, *parts, f"bucket-{name}"])

    def data_file(self, partition: Sequence[tuple[str, str]], bucket: int, name: str) -> str:
        return f"{self.bucket_dir(partition, bucket)}/{self._plain(name)}"

    def place_of(self, path: str) -> str | None:
        """Describe the bucket of a `data_file` path: `bucket 3`, `bucket 3 of dt=1`; None for other paths."""
        root = self.shared_root
        match = _DATA_FILE.match(path.removeprefix(root)) if path.startswith(root) else None
        if match is None:
            return None
        return f"bucket {match[2]}" + (f" of {match[1][1:]}" if match[1] else "")

    def _plain(self, name: str) -> str:
        if not name or "/" in name or "\\" in name or name in (".", "..") or "\0" in name:
            raise DamagedError(
                self.root,
                found=f"the file name {name!r}",
                expected="a plain file name inside the table's directory",
                action="Find out which program wrote that name before you use this table.",
            )
        return name


def partition_directory(column: str, text: str) -> str:
    """Return the name of the directory of a value. Raises InvalidError for a name that is too long."""
    name = f"{escape(column)}={escape(text)}"
    size = len(name.encode(errors="replace"))
    if size > LONGEST_NAME_BYTES:
        raise InvalidError(
            f"partition column {column[:60]!r}",
            found=f"a value whose directory would have a name of {size} bytes: {name[:60]}..",
            expected=f"at most {LONGEST_NAME_BYTES} bytes, the column's name and escapes included",
            action="Partition by a shorter text, or by a column with a shorter name.",
        )
    return name


def database_dir(warehouse: str, database: str) -> str:
    """Return the directory of a database."""
    return f"{warehouse}/{database}{DATABASE_SUFFIX}"


def revision_dir(warehouse: str) -> str:
    """Return the directory of a warehouse's notes of revisions and services (not in Paimon)."""
    return f"{database_dir(warehouse, META_DATABASE)}/service"


def revision_note(warehouse: str, number: int, *, is_active: bool = False) -> str:
    """Return the path of the note of a revision, or, with `is_active`, of the note that the revision has ended."""
    return f"{revision_dir(warehouse)}/widetable-revision-{number}{'-active' * is_active}"


def leading_lease(warehouse: str) -> str:
    """Return the path of the lease of the process that leads the services of a warehouse (not in Paimon)."""
    return f"{revision_dir(warehouse)}/widetable-meta-lease"


def revision_of(name: str) -> tuple[int, bool] | None:
    """Return (number, whether the note says that it has ended) of the name of a `revision_note`, None for others."""
    match = _REVISION.match(name)
    return (int(match[1]), match[2] is not None) if match else None


def table_name(root: str) -> tuple[str, str] | None:
    """Return warehouse and name of a table's directory.

    Parameters
    ----------
    root : str
        The directory.

    Returns
    -------
    tuple of str or None
        (warehouse, `db.name`); None for a directory that lies in no warehouse.
    """
    database_path, _, table = root.rpartition("/")
    warehouse, _, database = database_path.rpartition("/")
    if not (warehouse and database.endswith(DATABASE_SUFFIX) and table):
        return None
    return warehouse, f"{database.removesuffix(DATABASE_SUFFIX)}.{table}"


def branch_root(warehouse: str, name: Any, what: str) -> str:
    """Return the directory of the table `db.name`, or of its branch: `db.name$branch_<branch>`, as in Paimon."""
    table, of, branch = text(name, what).partition(_BRANCH_OF)
    root = table_root(warehouse, table, what)
    return TablePaths(root).of_branch(check_branch(branch)).root if of else root


def table_root(warehouse: str, name: Any, what: str) -> str:
    """Return the directory of the table `db.name`. what: the argument's name, for the InvalidError."""
    database, dot, table = text(name, what).partition(".")
    if not dot:
        raise refused(name, what, "db.table: two names joined by a dot")
    database = checked_part(database, what, len(DATABASE_SUFFIX))
    return f"{database_dir(warehouse, database)}/{checked_part(table, what)}"


def checked_part(value: Any, what: str, around_bytes: int = 0) -> str:
    """Check the name of a database, or of a table in a database."""
    name = check_name(value, what, around_bytes)
    if _NOT_IN_TABLE_NAMES.intersection(name):
        raise refused(value, what, "a name without $ @ : and dots")
    return name
