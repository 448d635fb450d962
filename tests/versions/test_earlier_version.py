"""Tables that an earlier version wrote are read and continued by this one, and tables of this one by the earlier one.

`tests/fixtures/earlier/<commit>.tar.xz` has a warehouse as the version of that commit wrote it (`version_program`),
what that version read from it (facts.json), and what it read after it went on (went_on.json). The earlier version
itself runs where WIDETABLE_EARLIER names a clone of that commit; otherwise those tests are skipped.

    git worktree add /tmp/earlier d82d622e; WIDETABLE_EARLIER=/tmp/earlier make test ARGS=tests/versions
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import duckdb
import pytest

import widetable as wt
from tests.support.programs import version_program as program
from tests.support.programs.version_program import FOLLOWED, texts
from tests.support.tables.version_samples import KIND, SAMPLES, Batch, Sample

ROOT = Path(__file__).resolve().parent.parent.parent
COMMIT = "d82d622e"
EARLIER = os.environ.get("WIDETABLE_EARLIER")
BY_NAME = {sample.name: sample for sample in SAMPLES}

needs_the_earlier_version = pytest.mark.skipif(
    not EARLIER, reason=f"WIDETABLE_EARLIER names no clone of {COMMIT}"
)


def unpacked(directory: Path) -> Path:
    with tarfile.open(ROOT / f"tests/fixtures/earlier/{COMMIT}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def continued(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    directory = unpacked(tmp_path_factory.mktemp("continued"))
    return directory, as_json(program.go_on(directory))


def as_json(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts as they are after a way through JSON."""
    through: dict[str, Any] = json.loads(json.dumps(facts, default=str))
    return through


def noted(directory: Path, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((directory / f"{name}.json").read_text("utf-8"))
    return facts


def rows_by_sql(sample: Sample, batches: list[Batch]) -> list[str]:
    """The rows after some batches, as DuckDB computes them."""
    with duckdb.connect() as database:
        database.register("inputs", sample.inputs(batches))
        return texts(database.sql(sample.sql).to_arrow_table())


def tables_of(directory: Path) -> dict[str, wt.Table]:
    catalog = wt.Catalog(directory / "wh")
    databases = catalog.list_databases()
    names = [name for each in databases for name in program.tables_of(catalog, each)]
    return {name: catalog.table(name) for name in names}


def rows_of(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: table["rows"] for name, table in facts["tables"].items()}


def changed_by(rows: list[str], changes: list[dict[str, Any]], key: list[str]) -> list[str]:
    """Rows after changes were applied to them."""
    by_key = {tuple(row[name] for name in key): row for row in map(json.loads, rows)}
    for change in changes:
        kind, place = change.pop(KIND), tuple(change[name] for name in key)
        if kind in ("-U", "-D"):
            assert by_key.pop(place) == change
        else:
            assert place not in by_key
            by_key[place] = change
    return sorted(json.dumps(row, sort_keys=True) for row in by_key.values())


@pytest.mark.parametrize("name", BY_NAME)
def test_rows_and_history_are_those_that_follow_from_the_batches(name: str, earlier: Path) -> None:
    sample, table = BY_NAME[name], wt.Catalog(earlier / "wh").table(f"old.{name}")
    assert texts(table.scan().to_arrow()) == rows_by_sql(sample, list(sample.batches))
    if sample.has_history:
        for count, id in enumerate(noted(earlier, "written")[name], 1):
            rows = texts(table.scan(snapshot_id=id).to_arrow())
            assert rows == rows_by_sql(sample, list(sample.batches[:count])), (count, id)


def test_everything_is_read_as_the_earlier_version_read_it(earlier: Path) -> None:
    facts, expected = as_json(program.read(earlier)), noted(earlier, "facts")
    assert facts["tables"].keys() == expected["tables"].keys()
    for name, table in expected["tables"].items():
        assert facts["tables"][name] == table, name
    assert facts == expected


def test_the_earlier_tables_pass_the_audit(earlier: Path) -> None:
    assert {name: table.audit().findings for name, table in tables_of(earlier).items()} == {
        name: () for name in noted(earlier, "facts")["tables"]
    }


@pytest.mark.parametrize("name", BY_NAME)
def test_a_table_goes_on(name: str, continued: tuple[Path, dict[str, Any]]) -> None:
    sample, (_, facts) = BY_NAME[name], continued
    rows = rows_by_sql(sample, [*sample.batches, *sample.later])
    assert facts["tables"][f"old.{name}"]["rows"] == rows


@pytest.mark.parametrize("name", FOLLOWED)
def test_an_old_consumer_reads_on(name: str, continued: tuple[Path, dict[str, Any]]) -> None:
    directory, facts = continued
    before = noted(directory, "facts")["tables"][f"old.{name}"]
    position = before["consumers"][program.CONSUMER]
    rows = before["snapshots"][str(position - 1)]
    changes = facts["read_on"][name]
    assert changes
    key = list(BY_NAME[name].key)
    assert changed_by(rows, changes, key) == facts["tables"][f"old.{name}"]["rows"]


def test_barriers_joins_indexes_and_what_killed_processes_left_go_on(
    continued: tuple[Path, dict[str, Any]],
) -> None:
    directory, facts = continued
    expected = noted(directory, "went_on")
    assert rows_of(facts) == rows_of(expected)
    for part in ("repeatable", "committed", "by_index"):
        assert facts[part] == expected[part]
    assert (facts["repeatable"]["barrier"], facts["committed"]["barrier"]) == (30_000, 30_000)


def test_tables_pass_the_audit_after_they_went_on(continued: tuple[Path, dict[str, Any]]) -> None:
    directory, _ = continued
    assert [name for name, table in tables_of(directory).items() if not table.audit().ok] == []


def by_the_earlier_version(action: str, directory: Path, packages: Path) -> dict[str, Any]:
    """Run the program with the package of the clone; everything else of it comes from here."""
    packages.mkdir(exist_ok=True)
    if not (packages / "widetable").exists():
        (packages / "widetable").symlink_to(Path(EARLIER or "") / "widetable")
    path = [packages, *(Path(EARLIER or "") / part for part in ("lookup", "meta")), ROOT]
    done = subprocess.run(
        [sys.executable, "-P", "-m", program.__name__, action, str(directory)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        cwd=packages,
        stdout=subprocess.PIPE,
        check=True,
    )
    facts: dict[str, Any] = json.loads(done.stdout or b"{}")
    return facts


@needs_the_earlier_version
def test_the_earlier_version_reads_and_continues_tables_of_this_one(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    program.write(ours)
    shutil.copytree(ours, theirs)
    facts = as_json(program.read(ours))
    assert by_the_earlier_version("read", theirs, tmp_path / "packages") == facts
    continued_by_it = by_the_earlier_version("go_on", theirs, tmp_path / "packages")
    assert rows_of(continued_by_it) == rows_of(as_json(program.go_on(ours)))
    assert [name for name, table in tables_of(theirs).items() if not table.audit().ok] == []


@needs_the_earlier_version
def test_both_versions_write_one_table_by_turns(tmp_path: Path) -> None:
    directory = tmp_path / "tables"
    directory.mkdir()
    by_the_earlier_version("write", directory, tmp_path / "packages")
    facts = as_json(program.go_on(directory))
    read_by_it = by_the_earlier_version("read", directory, tmp_path / "packages")
    assert read_by_it["tables"] == facts["tables"]
