"""The audit finds nothing in tables that are right, whoever wrote them, and each law is seen to fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.fixture_tables import JAVA_TABLES, ROOT, FixtureTable
from tests.widetable.operations.health.table_surgery import (
    Surgery,
    in_order,
    with_values,
    without_row,
)
from widetable.format.manifest_entry import ADD
from widetable.operations.health.audit_report import AuditReport
from widetable.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

LOOKUP = ROOT / "wh_java/fx.db/cl_lookup"
FULL_COMPACTION = ROOT / "wh_java/fx.db/cl_full_compaction"
CHANGELOG_LAWS = {"chain", "fold", "merged-rows"}


def audited(path: Path, **arguments: Any) -> AuditReport:
    return wt.Table.open(str(path)).audit(**arguments)


@pytest.fixture
def surgery(tmp_path: Path) -> Surgery:
    """Keys 1, 2 in snapshot 2; 1 changes, 3 comes in 4; 2 goes, 4 comes in 6. One bucket, columns k and a."""
    return Surgery(Path(shutil.copytree(LOOKUP, tmp_path / "table")))


# Tables that are right


@pytest.mark.parametrize("fixture", JAVA_TABLES, ids=lambda table: table.id)
def test_tables_of_java_keep_every_law(fixture: FixtureTable, tmp_path: Path) -> None:
    report = audited(Path(shutil.copytree(fixture.path, tmp_path / "table")))
    assert report.findings == ()
    assert report.ok
    assert report.checks["file-meta"] == 5 * report.checks["file"]
    assert bool(CHANGELOG_LAWS & report.checks.keys()) is not bool(report.skipped)


def test_every_step_of_a_changelog_is_folded(surgery: Surgery) -> None:
    report = audited(surgery.root)
    assert (report.first_snapshot_id, report.last_snapshot_id) == (0, 6)
    assert {law: report.checks[law] for law in sorted(CHANGELOG_LAWS)} == {
        "chain": 7,
        "fold": 3,
        "merged-rows": 7,
    }


def test_counts_of_deletes_that_pypaimon_gets_wrong_are_found(tmp_path: Path) -> None:
    report = audited(Path(shutil.copytree(ROOT / "wh/fx.db/tagged", tmp_path / "table")))
    assert report.found == {"file-meta": 2}
    assert {finding.expected for finding in report.findings} == {"deletes: 0, as its meta says"}


def test_a_table_without_snapshots_is_right(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", pa.schema([("k", pa.int64())]), primary_key=["k"]
    )
    report = table.audit()
    assert report.ok
    assert report.last_snapshot_id is None


# Changelogs that are wrong: rows of the changelog of a snapshot, and the laws that it breaks then

UPDATE, UPDATED = 0, 1  # rows of the changelog of snapshot 4; row 2 is +I(3, 3)
GONE, NEW = 0, 1  # of snapshot 6: -D(2, 2), +I(4, 44)


def _doubled(table: pa.Table) -> pa.Table:
    return in_order(table, 0, 1, 2, 2)


WRONG: Mapping[str, tuple[int, Callable[[pa.Table], pa.Table], set[str]]] = {
    "a wrong before image": (4, lambda t: with_values(t, UPDATE, a=77), {"chain"}),
    "a before image that is null": (4, lambda t: with_values(t, UPDATE, a=None), {"chain"}),
    "a wrong image of a deleted row": (6, lambda t: with_values(t, GONE, a=77), {"chain"}),
    "a wrong after image": (4, lambda t: with_values(t, UPDATED, a=77), {"fold", "merged-rows"}),
    "an after image that is null": (
        4,
        lambda t: with_values(t, UPDATED, a=None),
        {"fold", "merged-rows"},
    ),
    "a row twice": (4, _doubled, {"chain"}),
    "a new row that is missing": (4, lambda t: without_row(t, 2), {"fold", "merged-rows"}),
    "an update that is missing": (4, lambda t: in_order(t, 2), {"fold", "merged-rows"}),
    "a delete that is missing": (6, lambda t: without_row(t, GONE), {"fold", "merged-rows"}),
    "a row that was never written": (
        6,
        lambda t: with_values(t, NEW, k=9),
        {"fold", "merged-rows"},
    ),
    "an insert of a row that is there": (
        4,
        lambda t: with_values(in_order(t, 1, 2), 0, _VALUE_KIND=INSERT),
        {"chain"},
    ),
    "a delete of a row that is not there": (
        6,
        lambda t: with_values(t, NEW, _VALUE_KIND=DELETE),
        {"chain", "fold", "merged-rows"},
    ),
    "-U without +U": (4, lambda t: without_row(t, UPDATED), {"chain", "fold", "merged-rows"}),
    "+U without -U": (4, lambda t: without_row(t, UPDATE), {"chain"}),
    "+U before -U": (4, lambda t: in_order(t, 1, 0, 2), {"chain", "fold", "merged-rows"}),
    "a row between -U and +U": (4, lambda t: in_order(t, 0, 2, 1), {"chain"}),
    "+U of a new row": (4, lambda t: with_values(t, 2, _VALUE_KIND=UPDATE_AFTER), {"chain"}),
    "-U of a row that goes": (
        6,
        lambda t: with_values(t, GONE, _VALUE_KIND=UPDATE_BEFORE),
        {"chain"},
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_changelog_is_found(case: str, surgery: Surgery) -> None:
    snapshot_id, alter, laws = WRONG[case]
    surgery.alter_rows(snapshot_id, "changelog", alter)
    report = audited(surgery.root)
    assert report.found.keys() == laws
    assert not report.ok
    assert min(finding.snapshot_id or 0 for finding in report.findings) == snapshot_id


def test_a_finding_says_where_and_what(surgery: Surgery) -> None:
    surgery.alter_rows(4, "changelog", WRONG["a wrong before image"][1])
    (finding,) = audited(surgery.root).findings
    assert (finding.snapshot_id, finding.bucket, finding.key) == (4, 0, {"k": 1})
    assert (finding.expected, finding.found) == ("{'a': 1}", "-U {'a': 77}")


def test_rows_that_a_compaction_spoiled_are_found(surgery: Surgery) -> None:
    surgery.alter_rows(4, "delta", lambda table: with_values(table, 1, a=55))
    report = audited(surgery.root)
    found = {(f.law, f.snapshot_id, f.expected, f.found) for f in report.findings}
    expected, wrong = "{'a': 2}", "{'a': 55}"
    # Snapshot 6 deletes the row.
    assert found == {("fold", 4, expected, wrong), ("merged-rows", 4, expected, wrong)}


def test_the_changelog_of_full_compactions_is_audited(tmp_path: Path) -> None:
    surgery = Surgery(Path(shutil.copytree(FULL_COMPACTION, tmp_path / "table")))
    surgery.alter_rows(4, "changelog", lambda table: with_values(table, UPDATED, a=77))
    report = audited(surgery.root)
    assert report.found.keys() == {"fold", "merged-rows"}


def test_findings_beyond_those_kept_are_counted(surgery: Surgery) -> None:
    surgery.alter_rows(2, "changelog", lambda table: with_values(table, 0, _VALUE_KIND=DELETE))
    surgery.alter_rows(6, "changelog", lambda table: with_values(table, 0, a=77))
    report = wt.Table.open(str(surgery.root)).audit(findings_per_law=1)
    assert report.found["chain"] == 3
    assert len([f for f in report.findings if f.law == "chain"]) == 1


def test_tables_without_known_laws_are_refused_by_name(surgery: Surgery) -> None:
    schema = surgery.root / "schema/schema-0"
    body = json.loads(schema.read_text())
    body["options"]["data-file.path-directory"] = "data"
    schema.write_text(json.dumps(body))
    with pytest.raises(wt.UnsupportedError, match="path-directory"):
        audited(surgery.root)


def test_files_of_other_formats_are_reported_and_passed_by(surgery: Surgery) -> None:
    surgery.alter_file(5, "delta", lambda file: file._replace(file_name="data-1.blob"))
    report = audited(surgery.root)
    assert any("blob" in reason for reason in report.skipped)
    assert "file" not in report.found


# Where an audit starts


def test_an_audit_may_start_in_the_middle(surgery: Surgery) -> None:
    surgery.alter_rows(4, "changelog", WRONG["a wrong before image"][1])
    assert not audited(surgery.root, start=2).ok
    assert not audited(surgery.root, start=3).ok
    later = audited(surgery.root, start=4)
    assert later.ok
    assert later.checks["chain"] == 2


def test_an_audit_starts_at_the_oldest_snapshot_that_is_left(surgery: Surgery) -> None:
    for id in (1, 2, 3):
        (surgery.root / f"snapshot/snapshot-{id}").unlink()
    (surgery.root / "snapshot/EARLIEST").write_text("4")
    report = audited(surgery.root)
    assert report.ok
    assert report.first_snapshot_id == 4
    with pytest.raises(wt.NotFoundError):
        audited(surgery.root, start=3)
    with pytest.raises(wt.NotFoundError):
        audited(surgery.root, start=0)


def test_an_audit_may_start_at_a_tag_whose_snapshot_has_expired(surgery: Surgery) -> None:
    (surgery.root / "tag").mkdir()
    for id in (1, 3):
        body = (surgery.root / f"snapshot/snapshot-{id}").read_text()
        (surgery.root / f"tag/tag-at{id}").write_text(body)
    for id in (1, 2, 3):
        (surgery.root / f"snapshot/snapshot-{id}").unlink()
    report = audited(surgery.root, start="at3")
    assert report.ok
    assert report.checks["chain"] == 5
    with pytest.raises(wt.NotFoundError, match="at1"):
        audited(surgery.root, start="at1")


def test_an_audit_holds_the_snapshots_that_it_reads(surgery: Surgery) -> None:
    assert audited(surgery.root).ok
    assert not list((surgery.root / "service").glob("*read-lease*"))


# The format


def _wrong_count(surgery: Surgery) -> None:
    surgery.alter_snapshot(3, totalRecordCount=5)


def _wrong_changelog_count(surgery: Surgery) -> None:
    surgery.alter_snapshot(4, changelogRecordCount=5)


def _two_commits_of_an_identifier(surgery: Surgery) -> None:
    first = surgery.snapshot(1)
    surgery.alter_snapshot(
        3, commitUser=first["commitUser"], commitIdentifier=first["commitIdentifier"]
    )


def _missing_snapshot(surgery: Surgery) -> None:
    (surgery.root / "snapshot/snapshot-3").unlink()


def _wrong_manifest_count(surgery: Surgery) -> None:
    surgery.alter_list(3, "delta", lambda meta: replace(meta, num_added_files=2))


def _lost_manifest_in_a_base(surgery: Surgery) -> None:
    surgery.alter_snapshot(5, baseManifestList=surgery.snapshot(3)["baseManifestList"])


def _deleted_twice(surgery: Surgery) -> None:
    gone = next(e for e in surgery.entries(4, "delta") if e.kind != ADD)
    surgery.alter_entries(6, "delta", lambda entries: [*entries, gone])


def _overlapping_levels(surgery: Surgery) -> None:
    # Snapshot 6 leaves the file of snapshot 4 at level 5 and adds one at level 4.
    surgery.alter_file(6, "delta", lambda file: file._replace(level=5))


def _missing_file(surgery: Surgery) -> None:
    surgery.data_file(surgery.entries(5, "delta")[0]).unlink()


def _damaged_file(surgery: Surgery) -> None:
    path = surgery.data_file(surgery.entries(5, "delta")[0])
    path.write_bytes(path.read_bytes()[:-1])


def _wrong_row_count(surgery: Surgery) -> None:
    surgery.alter_file(5, "delta", lambda file: file._replace(row_count=3))
    surgery.alter_snapshot(5, deltaRecordCount=3, totalRecordCount=6)


def _wrong_delete_count(surgery: Surgery) -> None:
    surgery.alter_file(5, "delta", lambda file: file._replace(delete_row_count=0))


def _wrong_first_key(surgery: Surgery) -> None:
    surgery.alter_file(5, "delta", lambda file: file._replace(min_key=file.max_key))


def _wrong_sequence_numbers(surgery: Surgery) -> None:
    surgery.alter_file(5, "delta", lambda file: file._replace(max_sequence_number=99))


def _unsorted_file(surgery: Surgery) -> None:
    surgery.alter_rows(5, "delta", lambda table: in_order(table, 1, 0))


def _key_twice_in_a_file(surgery: Surgery) -> None:
    surgery.alter_rows(5, "delta", lambda table: with_values(table, 1, k=table["k"][0].as_py()))


def _wrong_bucket(surgery: Surgery) -> None:
    # Keys 2 and 4 of snapshot 5 are not both in bucket 0 of 3.
    surgery.alter_entries(
        5, "delta", lambda entries: [e._replace(total_buckets=3) for e in entries]
    )


BROKEN: Mapping[Callable[[Surgery], None], str] = {
    _wrong_count: "record-counts",
    _wrong_changelog_count: "record-counts",
    _two_commits_of_an_identifier: "commit-once",
    _missing_snapshot: "snapshot-ids",
    _wrong_manifest_count: "manifest-counts",
    _lost_manifest_in_a_base: "base",
    _deleted_twice: "delta",
    _overlapping_levels: "levels",
    _missing_file: "file",
    _damaged_file: "file",
    _wrong_row_count: "file",
    _wrong_delete_count: "file-meta",
    _wrong_first_key: "file-meta",
    _wrong_sequence_numbers: "file-meta",
    _unsorted_file: "file-order",
    _key_twice_in_a_file: "file-order",
    _wrong_bucket: "row-bucket",
}


@pytest.mark.parametrize("damage", BROKEN, ids=lambda damage: damage.__name__.strip("_"))
def test_a_broken_format_is_found(damage: Callable[[Surgery], None], surgery: Surgery) -> None:
    damage(surgery)
    report = audited(surgery.root)
    assert BROKEN[damage] in report.found, report.findings
    assert any(finding.law == BROKEN[damage] for finding in report.findings)


def test_a_missing_changelog_file_stops_only_the_laws_of_its_bucket(surgery: Surgery) -> None:
    surgery.data_file(surgery.entries(4, "changelog")[0]).unlink()
    report = audited(surgery.root)
    assert report.found == {"file": 1}
    assert len(report.skipped) == 1


def test_a_report_is_values_of_json(surgery: Surgery) -> None:
    surgery.alter_rows(4, "changelog", WRONG["a wrong before image"][1])
    body = audited(surgery.root).to_dict()
    assert body["ok"] is False
    assert body["findings"][0]["key"] == {"k": 1}
    assert body["checks"]["chain"] == 7
