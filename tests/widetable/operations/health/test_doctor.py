"""A doctor names everything that is wrong, with what is concerned; no check stops another."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.broken_files import BREAKS, break_file
from tests.support.tables.fixture_tables import TABLES, FixtureTable
from tests.widetable.operations.health.damaged_table import (
    create,
    damage_group,
    live,
    path_of,
    rows,
)
from widetable.operations.compaction import backlog
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.health import doctor


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> wt.Table:
    made = create(tmp_path, monkeypatch, **{"changelog-producer": "lookup"})
    made.write(rows("a"))
    made.compact()
    made.write(rows("b"))
    return made


def test_a_sound_table_has_no_findings(table: wt.Table) -> None:
    report = table.doctor(deep=True)
    assert report.ok, report.findings
    assert report.files == len(live(table)) + 2
    assert json.loads(json.dumps(report.to_dict()))["ok"] is True


@pytest.mark.parametrize("how", BREAKS)
def test_a_damaged_file_is_named_with_what_is_concerned(
    table: wt.Table, how: str, rng: random.Random
) -> None:
    entry = live(table)[-1]
    break_file(path_of(table, entry), how, rng)
    (finding,) = table.doctor(deep=True).findings
    assert finding.subject == str(path_of(table, entry))
    assert f"{entry.file.row_count} keys of bucket {entry.bucket}, snapshot 3" in finding.concerned
    assert "repair" in finding.action
    # What only its bytes show is seen by who reads them.
    of_same_size = how in ("zeros", "magic", "page", "text")
    assert table.doctor().ok is of_same_size
    inspection = table.inspect()
    assert (inspection.damaged_files == ()) is of_same_size
    if not of_same_size:
        assert inspection.damaged_files[0].path == finding.subject
        assert any(finding.subject in warning for warning in inspection.warnings)


def test_inspection_knows_what_a_compaction_met(table: wt.Table) -> None:
    entry = live(table)[-1]
    sound = path_of(table, entry).read_bytes()
    damage_group(path_of(table, entry), 0)
    assert table.inspect().damaged_files == ()
    with pytest.raises(wt.DamagedError):
        table.compact(full=True)
    (file,) = table.inspect().damaged_files
    assert (file.path, file.bucket) == (str(path_of(table, entry)), entry.bucket)
    path_of(table, entry).write_bytes(sound)
    assert table.inspect().damaged_files == ()


def test_a_damaged_changelog_file_says_what_its_readers_do(table: wt.Table) -> None:
    path = next(Path(table.path).rglob("bucket-*/changelog-*"))
    path.write_bytes(b"")
    (finding,) = table.doctor().findings
    assert finding.subject == str(path)
    assert "changelog events" in finding.concerned
    assert "latest-full" in finding.action
    assert table.repair().snapshot_id is None


def _lost_snapshot(table: wt.Table) -> str:
    Path(table.path, "snapshot", "snapshot-3").unlink()
    return "accept_lost_snapshots"


def _torn_snapshot(table: wt.Table) -> str:
    Path(table.path, "snapshot", "snapshot-2").write_bytes(b"{")
    return "snapshot-2"


def _gap(table: wt.Table) -> str:
    Path(table.path, "snapshot", "snapshot-2").unlink()
    return "1 snapshot"


def _short_manifest(table: wt.Table) -> str:
    return _shortened(table, table.snapshots()[0].delta_manifest_list)


def _short_changelog_manifest(table: wt.Table) -> str:
    lists = [snapshot.changelog_manifest_list for snapshot in table.snapshots()]
    return _shortened(table, next(filter(None, lists)))


def _shortened(table: wt.Table, manifest_list: str) -> str:
    """The only manifest of a list lacks a byte."""
    (meta,) = table._committer.live_files.manifest_list(manifest_list, table.snapshots()[0])
    path = Path(table.path, "manifest", meta.file_name)
    path.write_bytes(path.read_bytes()[:-1])
    return path.name


def _missing_list(table: wt.Table) -> str:
    path = Path(table.path, "manifest", table.snapshots()[0].delta_manifest_list)
    path.unlink()
    return path.name


def _torn_consumer(table: wt.Table) -> str:
    path = Path(table.path, "consumer", "consumer-x")
    path.parent.mkdir()
    path.write_bytes(b"{")
    return "consumer-x"


def _wrong_clock(table: wt.Table) -> str:
    path = Path(table.path, "snapshot", "snapshot-2")
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "timeMillis": found["timeMillis"] + 10**9}))
    return "snapshot 2"


def _refused_option(table: wt.Table) -> str:
    path = Path(table.path, "schema", "schema-0")
    found = json.loads(path.read_text())
    found["options"]["row-tracking.enabled"] = "true"
    path.write_text(json.dumps(found))
    return "row-tracking.enabled"


def _absent_bucket(table: wt.Table) -> str:
    path = Path(table.path, "schema", "schema-0")
    found = json.loads(path.read_text())
    del found["options"]["bucket"]
    path.write_text(json.dumps(found))
    return "'bucket'"


HARMS: list[Callable[[wt.Table], str]] = [
    _lost_snapshot,
    _torn_snapshot,
    _gap,
    _short_manifest,
    _short_changelog_manifest,
    _missing_list,
    _torn_consumer,
    _wrong_clock,
    _refused_option,
    _absent_bucket,
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_no_harm_stops_the_other_checks(table: wt.Table, harm: Callable[[wt.Table], str]) -> None:
    """A torn tag is named whatever else is wrong."""
    reported = harm(table)
    tag = Path(table.path, "tag", "tag-t")
    tag.parent.mkdir(exist_ok=True)
    tag.write_bytes(b"{")
    report = wt.Table.open(table.path).doctor()
    texts = [str(finding) for finding in report.findings]
    assert any(reported in text for text in texts), texts
    assert any("tag-t" in text for text in texts)
    subjects = [finding.subject for finding in report.findings]
    assert len(set(subjects)) == len(subjects), texts


def test_files_that_lie_elsewhere_are_not_called_missing(table: wt.Table) -> None:
    path = Path(table.path, "schema", "schema-0")
    found = json.loads(path.read_text())
    found["options"]["data-file.path-directory"] = "data"
    path.write_text(json.dumps(found))
    for file in Path(table.path).rglob("bucket-*/*"):
        file.unlink()
    opened = wt.Table.open(table.path)
    assert opened.inspect().damaged_files == ()
    (finding,) = opened.doctor(deep=True).findings
    assert "data-file.path-directory" in finding.subject


@pytest.mark.parametrize("fixture", TABLES, ids=lambda t: t.id)
def test_tables_of_other_clients_are_not_damaged(fixture: FixtureTable, tmp_path: Path) -> None:
    """Features that are refused are findings of the check of options; nothing else is wrong with them."""
    copy = shutil.copytree(fixture.path, tmp_path / "t")
    report = wt.Table.open(str(copy)).doctor(deep=True)
    assert {finding.check for finding in report.findings} <= {"options"}, report.findings
    assert wt.Table.open(str(copy)).inspect().damaged_files == ()


def test_many_commit_users_are_reported(table: wt.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MANY_USERS", 3)

    def found() -> list[str]:
        """But that nobody compacts the table."""
        return [one.found for one in table.doctor().findings if one.check != "upkeep"]

    for number in range(3):
        assert found() == []
        table.write(rows("c", range(1)), f"run-{number}", 1)
    (users,) = found()
    assert "3 commit users" in users


BRANCH_FILES = ["schema/schema-0", "snapshot/snapshot-1", "snapshot/snapshot-2"]


@pytest.mark.parametrize("name", BRANCH_FILES)
def test_what_is_wrong_with_a_branch_is_found_where_main_is_asked(
    table: wt.Table, name: str
) -> None:
    table.create_tag("there", snapshot_id=1)
    table.create_branch("side", tag="there")
    wt.Table.open(table.path, branch="side").write(rows("b"))
    assert table.doctor(deep=True).ok
    path = Path(table.path, "branch/branch-side", name)
    path.write_bytes(b"")
    findings = table.doctor().findings
    assert str(path) in {finding.subject for finding in findings}, findings
    assert all("branch-side" in finding.subject for finding in findings), findings


def test_files_that_wait_for_their_changelog_are_a_finding_as_they_are_a_warning(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.alter_options({"write-only": "false"})
    table.compact()
    with held_lease(table._state()):
        table.write(rows("b"))
    assert table.doctor().ok
    monkeypatch.setattr(backlog, "_STUCK_MILLIS", -1)
    (finding,) = table.doctor().findings
    assert (finding.check, "level-0 files" in finding.found) == ("upkeep", True)
    assert any("wait for their changelog" in warning for warning in table.inspect().warnings)
    monkeypatch.setattr(backlog, "_STUCK_MILLIS", 60_000)
    table.compact()
    assert table.doctor().ok
