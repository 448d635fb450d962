"""The report of an audit: how much was checked of each law, and what breaks a law.

This module has the values, and `Findings`, which collects them. Raises nothing.

    law        "chain": 7 were checked, 3 break it, of which at most `per_law` are kept as findings
    checks     {"chain": 7}     laws for which nothing was checked are left out
    found      {"chain": 3}     laws that hold are left out, so an empty mapping means that all laws hold
    skipped    what the audit did not check, once for each reason; the report can be `ok` nevertheless

Laws are sorted as in LAWS, findings of one law as they were added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

# Law -> what it says. `checks` of a report counts what was checked under these names.
LAWS: Final[Mapping[str, str]] = {
    "snapshot-ids": "ids of snapshots are consecutive",
    "commit-once": "a commit user commits an identifier once per kind",
    "record-counts": "total, delta and changelog record counts of a snapshot add up",
    "manifest-counts": "a manifest has as many added and deleted files as its list says",
    "base": "the base of a snapshot is what was live at the one before",
    "delta": "a snapshot adds files that are not live, and deletes files that are",
    "levels": "files of one level >= 1 have disjoint key ranges",
    "file": "a file exists and decodes; its size and row count are as its meta says",
    "file-meta": "delete count, keys and sequence numbers of a file are as its meta says",
    "file-order": "the rows of a data file ascend strictly by key",
    "file-bounds": "the values of a file of an append table are within the bounds by which readers skip it",
    "file-index": "no value of a file is hidden from filters by an index of the file",
    "compacted-rows": "a compaction of an append table changes no number of rows",
    "row-bucket": "a row lies in the bucket that its bucket key hashes to",
    "hash-index": "the index of a dynamic bucket has the hash of each of its keys",
    "vectors": "with deletion vectors a key has one row above level 0 that is not deleted",
    "chain": "-U and -D equal the live row before them, +I has none, -U is followed at once by +U",
    "fold": "the rows of a snapshot, folded with the changelog after it, are those of a later one",
    "merged-rows": "a row that was moved up equals the whole row in the changelog",
    "barriers": "complete barriers do not change: the barriers of a snapshot follow from those of the one before",
    "index": "an index has exactly the rows with a value of the snapshot that it matches",
    "joined": "a table that holds a join has exactly the rows of the join at its last round",
    "history": "the newest versions in a history are the rows of the snapshot up to which it goes",
    "widened": "widened columns equal those of the dim's row at the widener's last full round",
}
# The default limit of the findings that a report keeps of each law.
FINDINGS_PER_LAW: Final = 20


@dataclass(frozen=True)
class Finding:
    """Describe one place where a law does not hold.

    snapshot_id: the snapshot at which it was seen. partition: directory text, "" without partitions. key: column to
    value, if the law is about one row. expected, found: facts as text; rows show only the columns that differ.
    """

    law: str
    snapshot_id: int | None
    expected: str
    found: str
    partition: str = ""
    bucket: int | None = None
    file: str | None = None
    key: Mapping[str, Any] | None = None  # printed values

    def __str__(self) -> str:
        where = [] if self.snapshot_id is None else [f"snapshot {self.snapshot_id}"]
        where += [self.partition] if self.partition else []
        where += [] if self.bucket is None else [f"bucket {self.bucket}"]
        where += [] if self.file is None else [self.file]
        where += [] if self.key is None else [f"key {dict(self.key)}"]
        return f"{self.law}: {', '.join(where)}: found {self.found}; expected {self.expected}"


@dataclass(frozen=True)
class AuditReport:
    """What `Table.audit` has checked of a table, and which laws do not hold.

    Attributes
    ----------
    path : str
        The directory of the table.
    producer : str
        The changelog producer of the table.
    first_snapshot_id : int or None
        The snapshot onto whose rows the changelog was folded; 0 for the empty table before the first snapshot. None:
        the table has no snapshots.
    last_snapshot_id : int or None
        The newest snapshot that was checked. None: the table has no snapshots.
    checks : dict of str to int
        Law to the number of things that were checked.
    found : dict of str to int
        Law to the number of things that break it.
    findings : tuple of Finding
        The first things that break a law, at most 20 of a law by default.
    skipped : tuple of str
        What could not be checked, and why; a sentence each.
    """

    __module__ = "widetable"

    path: str
    producer: str
    first_snapshot_id: int | None
    last_snapshot_id: int | None
    checks: Mapping[str, int]
    found: Mapping[str, int]
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every law holds wherever it was checked."""
        return not self.found

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has.

        Returns
        -------
        dict of str to any
            `ok` and the fields, by name; nested results are dicts.
        """
        return {"ok": self.ok, **asdict(self)}


class Findings:
    """Collects the findings of an audit: it keeps at most `per_law` of each law and counts the others."""

    def __init__(self, per_law: int) -> None:
        self._per_law = per_law
        self._checks: Counter[str] = Counter()
        self._found: Counter[str] = Counter()
        self._kept: list[Finding] = []
        self._skipped: dict[str, None] = {}

    def checked(self, law: str, count: int = 1) -> None:
        """Count things that were checked, whatever the result."""
        self._checks[law] += count

    def add(self, finding: Finding) -> None:
        if self.wants(finding.law):
            self._kept.append(finding)
        self._found[finding.law] += 1

    def wants(self, law: str) -> bool:
        """Whether another finding of this law would be kept."""
        return self._found[law] < self._per_law

    def wanted(self, law: str) -> int:
        """Return how many more findings of this law would be kept.

        Code with many findings calls this first, because texts of rows are expensive; it passes the others to `count`.
        """
        return max(self._per_law - self._found[law], 0)

    def count(self, law: str, more: int) -> None:
        """Count more findings without their texts."""
        if more:
            self._found[law] += more

    def skip(self, reason: str) -> None:
        """Note why something was not checked.

        Equal reasons are noted once, so a reason should not name one file of many.
        """
        self._skipped[reason] = None

    def report(
        self, path: str, producer: str, first_id: int | None, last_id: int | None
    ) -> AuditReport:
        order = list(LAWS)
        return AuditReport(
            path,
            producer,
            first_id,
            last_id,
            {law: self._checks[law] for law in order if self._checks[law]},
            {law: self._found[law] for law in order if self._found[law]},
            tuple(sorted(self._kept, key=lambda finding: order.index(finding.law))),
            tuple(self._skipped),
        )
