"""Every directory and file name of a table, built here and nowhere else.

Source: Paimon `FileStorePathFactory`, `SnapshotManager`, `PartitionPathUtils`; format.md section 1.
Names come from options,
schemas and manifests, so each is checked: none may leave the table's directory (law 10).
Raises InvalidError for a name with a path separator or dots only.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from widetable.errors import DamagedError

_ESCAPED: Final = frozenset(map(chr, [*range(0x20), 0x7F])) | frozenset("\"#%'*/:=?\\{}[]^")
_SNAPSHOT: Final = re.compile(r"^snapshot-(\d+)$")
_SCHEMA: Final = re.compile(r"^schema-(\d+)$")
LATEST: Final = "LATEST"
EARLIEST: Final = "EARLIEST"


def escape(text: str) -> str:
    """`%XX` (upper hex) for the characters that Paimon escapes in partition directories; others stay, blanks too."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def new_file_name(prefix: str, suffix: str = "") -> str:
    """A name that nobody has used: prefix, random uuid, suffix."""
    return f"{prefix}-{uuid.uuid4()}-0{suffix}"


def snapshot_id(name: str) -> int | None:
    """The id in the name of a snapshot file, None for other names."""
    match = _SNAPSHOT.match(name)
    return int(match[1]) if match else None


def schema_id(name: str) -> int | None:
    """The id in the name of a schema file, None for other names."""
    match = _SCHEMA.match(name)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class TablePaths:
    """Paths of the table at `root`. All results start with `root`."""

    root: str

    @property
    def schema_dir(self) -> str:
        return f"{self.root}/schema"

    @property
    def snapshot_dir(self) -> str:
        return f"{self.root}/snapshot"

    @property
    def manifest_dir(self) -> str:
        return f"{self.root}/manifest"

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    @property
    def latest_hint(self) -> str:
        return f"{self.snapshot_dir}/{LATEST}"

    @property
    def earliest_hint(self) -> str:
        return f"{self.snapshot_dir}/{EARLIEST}"

    def manifest(self, name: str) -> str:
        """Manifests, manifest lists and index manifests."""
        return f"{self.manifest_dir}/{self._plain(name)}"

    @property
    def index_dir(self) -> str:
        return f"{self.root}/index"

    def index(self, name: str) -> str:
        return f"{self.index_dir}/{self._plain(name)}"

    @property
    def statistics_dir(self) -> str:
        return f"{self.root}/statistics"

    def statistics(self, name: str) -> str:
        return f"{self.statistics_dir}/{self._plain(name)}"

    @property
    def tag_dir(self) -> str:
        return f"{self.root}/tag"

    def tag(self, name: str) -> str:
        return f"{self.tag_dir}/tag-{self._plain(name)}"

    @property
    def changelog_dir(self) -> str:
        """Copies of expired snapshots whose changelog is kept longer (written by other clients)."""
        return f"{self.root}/changelog"

    @property
    def branch_dir(self) -> str:
        return f"{self.root}/branch"

    def branch(self, name: str) -> TablePaths:
        """Where a branch has its own snapshots, tags and schemas; its other files are with the table's."""
        return TablePaths(f"{self.branch_dir}/branch-{self._plain(name)}")

    @property
    def consumer_dir(self) -> str:
        return f"{self.root}/consumer"

    def consumer(self, consumer_id: str) -> str:
        return f"{self.consumer_dir}/consumer-{self._plain(consumer_id)}"

    @property
    def lease(self) -> str:
        """The compaction lease (ours; other clients never look there)."""
        return f"{self.service_dir}/widetable-compaction-lease"

    @property
    def old_levels_lease(self) -> str:
        """The lease on compacting older levels behind commits (ours)."""
        return f"{self.service_dir}/widetable-old-levels-lease"

    @property
    def service_dir(self) -> str:
        """Leases and notes of running services; other clients leave our names alone."""
        return f"{self.root}/service"

    def read_lease(self, name: str) -> str:
        """A lease of a reader (ours)."""
        return f"{self.service_dir}/widetable-read-lease-{self._plain(name)}"

    @property
    def last_commits(self) -> str:
        """What the last expired snapshot of ours remembered (ours)."""
        return f"{self.service_dir}/widetable-last-commits"

    def retired_snapshot(self, snapshot_id: int, by: str = "") -> str:
        """The note of a snapshot that expiry works from (ours). by: which expiry made it."""
        name = f"widetable-retired-snapshot-{snapshot_id}" + (f"-{by}" if by else "")
        return f"{self.service_dir}/{self._plain(name)}"

    def compaction_wanted(self, name: str) -> str:
        """A note that somebody waits for a changelog (ours)."""
        return f"{self.service_dir}/widetable-compaction-wanted-{self._plain(name)}"

    def partition_prefix(self, column: str) -> str:
        """How the directories of a partition column's values begin."""
        return f"{escape(column)}="

    def bucket_dir(self, partition: Sequence[tuple[str, str]], bucket: int) -> str:
        """partition: (column, directory text) in partition key order, not yet escaped; empty for
        unpartitioned tables.
        """
        parts = [f"{escape(name)}={escape(text)}" for name, text in partition]
        return "/".join([self.root, *parts, f"bucket-{bucket}"])

    def data_file(self, partition: Sequence[tuple[str, str]], bucket: int, name: str) -> str:
        return f"{self.bucket_dir(partition, bucket)}/{self._plain(name)}"

    def _plain(self, name: str) -> str:
        if not name or "/" in name or "\\" in name or name in (".", "..") or "\0" in name:
            raise DamagedError(
                self.root,
                found=f"the file name {name!r}",
                expected="a plain file name inside the table's directory",
                action="Do not use this table before you know who wrote that name.",
            )
        return name


def database_dir(warehouse: str, database: str) -> str:
    """The directory of a database's tables."""
    return f"{warehouse}/{database}.db"
