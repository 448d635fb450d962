"""What an audit has found: how much was checked of each law, and what breaks one.

Values, and `Findings`, which collects them. Raises nothing.

    law        "chain": 7 looked at, 3 break it, of which at most `per_law` are kept as findings
    checks     {"chain": 7}     laws that nothing was looked at for are left out
    found      {"chain": 3}     laws that hold are left out, so an empty one means that all is well
    skipped    what an audit passed over, once for each reason; it makes the report no less `ok`

Laws are sorted as in LAWS, findings of one law as they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

# Law -> what it says. `checks` of a report counts what was looked at under these names.
LAWS: Final[Mapping[str, str]] = {
    "snapshot-ids": "ids of snapshots are consecutive",
    "commit-once": "a commit user commits an identifier once per kind",
    "record-counts": "total, delta and changelog record counts of a snapshot add up",
    "manifest-counts": "a manifest has as many added and deleted files as its list says",
    "base": "the base of a snapshot is what was live at the one before",
    "delta": "a snapshot adds files that are not live, and deletes files that are",
    "levels": "files of one level >= 1 have disjoint key ranges",
    "file": "a file is there and decodes; its size and row count are as its meta says",
    "file-meta": "delete count, keys and sequence numbers of a file are as its meta says",
    "file-order": "the rows of a data file ascend strictly by key",
    "row-bucket": "a row lies in the bucket that its bucket key hashes to",
    "hash-index": "the index of a dynamic bucket has the hash of each of its keys",
    "vectors": "with deletion vectors a key has one row above level 0 that is not deleted",
    "chain": "-U and -D equal the live row before them, +I has none, -U is followed at once by +U",
    "fold": "the rows of a snapshot, folded with the changelog after it, are those of a later one",
    "merged-rows": "a row that was moved up is the whole row as the changelog has it",
    "barriers": "complete barriers stay as they are: what a snapshot says of them follows from the one before",
    "index": "an index has each row of the snapshot that it fits with a value, and no other",
    "joined": "a table that holds a join has its rows at the last round, and no others",
    "widened": "widened columns are those of the dim's row, as the widener's last full round says",
}
# So many findings of each law a report holds, by default.
FINDINGS_PER_LAW: Final = 20


@dataclass(frozen=True)
class Finding:
    """One place where a law does not hold.

    snapshot_id: at which it was seen. partition: directory text, "" without partitions. key, where the law is about
    one row: column to value. expected, found: facts as text; of rows only the columns that differ.
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
    """first_snapshot_id: its rows are what the changelog was folded onto, 0 for the empty table before the first one.

    Both ids are None for a table without snapshots. producer: the table's changelog producer. checks: law -> how many
    things were looked at; found: law -> how many of them break it; findings: the first of these. skipped: what could
    not be checked, and why.
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
        """Whether every law held wherever it was checked."""
        return not self.found

    def to_dict(self) -> dict[str, Any]:
        """The report as values of JSON."""
        return {"ok": self.ok, **asdict(self)}


class Findings:
    """Collects what an audit sees; keeps at most `per_law` findings of each law and counts the others."""

    def __init__(self, per_law: int) -> None:
        self._per_law = per_law
        self._checks: Counter[str] = Counter()
        self._found: Counter[str] = Counter()
        self._kept: list[Finding] = []
        self._skipped: dict[str, None] = {}

    def checked(self, law: str, count: int = 1) -> None:
        """So many things were looked at, whatever came out."""
        self._checks[law] += count

    def add(self, finding: Finding) -> None:
        if self.wants(finding.law):
            self._kept.append(finding)
        self._found[finding.law] += 1

    def wants(self, law: str) -> bool:
        """Whether another finding of this law would be kept."""
        return self._found[law] < self._per_law

    def wanted(self, law: str) -> int:
        """How many more findings of this law would be kept.

        Who finds many asks first: texts of rows are dear, and `count` takes those that nobody
        would see.
        """
        return max(self._per_law - self._found[law], 0)

    def count(self, law: str, more: int) -> None:
        """So many findings more, without saying which."""
        if more:
            self._found[law] += more

    def skip(self, reason: str) -> None:
        """Something was not checked.

        A reason that was given before is not noted again, so it should not name one file of many.
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
