"""The commands for damaged tables: what they print, with which code they end, and that they only do it with --yes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.command_line import run

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options={"bucket": "1", "widetable.fsync": "false"}
    )
    for value in "ab":
        made.write(pa.table({"k": [1, 2], "v": [value, value]}, SCHEMA), "job", ord(value))
    return made


def newest_file(table: wt.Table) -> Path:
    (split,) = table.scan().splits()
    newest = max(split.files, key=lambda file: file.max_sequence_number)
    return Path(table.path, "bucket-0", newest.file_name)


def snapshots(table: wt.Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


def test_doctor_ends_as_an_audit_does(table: wt.Table) -> None:
    sound = run("doctor", table.path, "--deep")
    assert sound.exit_code == 0
    assert sound.stdout.splitlines()[-1] == "ok: nothing is wrong"
    assert sound.stdout.splitlines()[1:] == ["ok: nothing is wrong"]
    assert run("doctor", table.path).stdout.splitlines()[1:] == [
        "  not checked: what the files hold (--deep reads them)",
        "ok: nothing is wrong in the checked parts",
    ]
    newest_file(table).write_bytes(b"")
    ill = run("doctor", table.path)
    assert ill.exit_code == 1
    assert newest_file(table).name in ill.stdout
    assert "2 keys of bucket 0, snapshot 2" in ill.stdout
    body = json.loads(run("doctor", table.path, "--json").stdout)
    assert (body["ok"], len(body["findings"])) == (False, 1)


@pytest.mark.parametrize("named_by", ["tag", "snapshot"])
def test_doctor_knows_of_a_file_that_only_a_failed_read_of_the_past_needs(
    tmp_path: Path, named_by: str
) -> None:
    made = wt.Catalog(tmp_path).create_table("db.old", {"k": "BIGINT"}, primary_key=["k"])
    made.write([{"k": 1}])
    if named_by == "tag":
        made.create_tag("first")
    (split,) = made.scan().splits()
    made.write([{"k": 2}])
    made.compact(full=True)
    if named_by == "tag":
        made.expire_snapshots(1, 1, 0)
    sound = wt.Table.open(made.path).doctor()
    assert (sound.ok, sound.not_checked) == (True, ("what the files hold (--deep reads them)",))
    path = Path(made.path, "bucket-0", split.files[0].file_name)
    content = path.read_bytes()
    for broken in (b"short", None):
        path.unlink()
        if broken is not None:
            path.write_bytes(broken)
        past = ("--tag", "first") if named_by == "tag" else ("--snapshot", "1")
        assert run("read", made.path, *past).exit_code == 2
        for deep in (False, True):
            report = wt.Table.open(made.path).doctor(deep)
            named = [finding.subject for finding in report.findings]
            assert named == ([str(path)] if named_by == "tag" else [])
            assert [str(path) in each for each in report.past] == [True] * (named_by == "snapshot")
        assert str(path) in run("doctor", made.path).stdout
    path.write_bytes(content)
    report = wt.Table.open(made.path).doctor()
    assert (report.ok, report.past) == (True, ())


def test_doctor_names_what_it_did_not_look_at(tmp_path: Path) -> None:
    made = wt.Catalog(tmp_path).create_table("db.old", {"k": "BIGINT"}, primary_key=["k"])
    for key in range(2):
        made.write([{"k": key}])
    made.compact(full=True)
    unread = "what 2 data files hold that only older snapshots and tags name"
    assert run("doctor", made.path, "--deep").stdout.splitlines()[1:] == [
        f"  not checked: {unread}",
        "ok: nothing is wrong in the checked parts",
    ]
    body = json.loads(run("doctor", made.path, "--json", "--deep").stdout)
    assert (body["ok"], body["not_checked"]) == (True, [unread])
    made.create_branch("b")
    made.write([{"k": 3}])
    made.expire_snapshots(1, 1, 0)
    report = wt.Table.open(made.path).doctor(deep=True)
    assert (report.ok, report.not_checked) == (True, ())


def test_doctor_names_what_damage_kept_it_from(table: wt.Table) -> None:
    newest_file(table).write_bytes(b"")
    assert "whether the rows of each bucket can be merged" in table.doctor(deep=True).not_checked
    Path(table.path, "manifest").rename(Path(table.path, "elsewhere"))
    assert table.doctor().not_checked[-2:] == (
        "the upkeep of the table",
        "files that nothing names",
    )


def test_inspect_names_a_damaged_file(table: wt.Table) -> None:
    newest_file(table).unlink()
    reported = run("inspect", table.path)
    assert reported.exit_code == 0
    assert f"{newest_file(table).name}: found no such file" in reported.stdout


def test_repair_says_what_is_gone_and_does_it_with_yes(table: wt.Table) -> None:
    path = newest_file(table)
    path.write_bytes(b"")
    reported = run("repair", table.path)
    assert reported.exit_code == 0
    assert "lost: 2 rows, keys {'k': 1} to {'k': 2}" in reported.stdout
    assert "written by job 98 (snapshot 2)" in reported.stdout
    assert snapshots(table) == [1, 2]
    done = run("repair", table.path, "--yes")
    assert "repaired in snapshot 3, 2 rows lost" in done.stdout
    assert table.scan().to_arrow()["v"].to_pylist() == ["a", "a"]
    assert run("repair", table.path, "--yes").stdout.startswith("nothing to repair")
    assert json.loads(run("repair", table.path, "--json").stdout)["files"] == []


def test_a_rollback_that_loses_nothing_is_named_first(table: wt.Table) -> None:
    table.compact(full=True)
    newest_file(table).write_bytes(b"")
    command = f"widetable rollback {table.path} --snapshot 2"
    assert command in run("doctor", table.path).stdout
    reported = run("repair", table.path).stdout
    assert reported.index(command) < reported.index("rows to lose")
    assert run(*command.split()[1:], "--yes").exit_code == 0
    assert table.scan().to_arrow()["v"].to_pylist() == ["b", "b"]
    assert run("doctor", table.path, "--deep").exit_code == 0


def test_rollback_says_what_it_undoes_and_does_it_with_yes(table: wt.Table) -> None:
    reported = run("rollback", table.path, "--snapshot", "1")
    assert reported.exit_code == 0
    assert "undone: snapshot 2, job 98" in reported.stdout
    assert snapshots(table) == [1, 2]
    assert "done in snapshot 3" in run("rollback", table.path, "--snapshot", "1", "--yes").stdout
    assert table.scan().to_arrow()["v"].to_pylist() == ["a", "a"]
    table.create_tag("good")
    assert json.loads(run("rollback", table.path, "--tag", "good", "--json").stdout)["undone"] == []
    assert run("rollback", table.path).exit_code == 2
    assert run("rollback", table.path, "--snapshot", "77").exit_code == 2


def test_alter_sets_and_removes_options(table: wt.Table) -> None:
    set_one = run("alter", table.path, "--set", "write-only=true", "--set", "target-file-size=1 mb")
    assert (set_one.exit_code, set_one.stdout) == (0, "schema 1\n")
    assert table.schema.options["write-only"] == "true"
    assert run("alter", table.path, "--unset", "write-only").exit_code == 0
    assert "write-only" not in table.schema.options
    for wrong in (["--set", "write-only"], [], ["--set", "bucket=7"]):
        result = run("alter", table.path, *wrong)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
