"""A consumer, tag, hint or lease that cannot be read stops nobody who does not ask for it by name, and is named."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.torn_bytes import GARBAGE
from tests.support.models.kept_rows import batch, expire_all, leftovers, lived_in_table, rows, write
from widetable.commit.notes import skipped_files as passed_over
from widetable.storage.paths import TablePaths

NOTES: dict[str, Callable[[TablePaths], str]] = {
    "latest hint": lambda paths: paths.latest_hint,
    "earliest hint": lambda paths: paths.earliest_hint,
    "consumer": lambda paths: paths.consumer("torn"),
    "tag": lambda paths: paths.tag("torn"),
    "lease": lambda paths: paths.lease,
    "lease on old levels": lambda paths: paths.old_levels_lease,
    "read lease": lambda paths: paths.read_lease("torn"),
    "lookup pin": lambda paths: paths.lookup_pin("torn", 0),
}
CONTENTS = [content for content in GARBAGE if not content.isdigit()]
by_kind = pytest.mark.parametrize("kind", NOTES)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_over, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(passed_over, "_named", set())


def damage(table: wt.Table, kind: str, content: bytes) -> str:
    """The path of the file that is damaged now."""
    path = Path(NOTES[kind](TablePaths(table.path)))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return str(path)


@by_kind
def test_all_goes_on_and_the_file_is_named(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture, rng: random.Random
) -> None:
    for number, content in enumerate((b"", rng.choice(CONTENTS))):
        caplog.clear()
        table = lived_in_table(tmp_path / str(number))
        path = damage(table, kind, content)
        (warning,) = table.inspect().warnings
        assert warning.startswith(f"WT-W301 {path}: ")
        assert set(table.tags()) == {"early", "late"}
        assert table.consumers() == {}
        assert rows(table)
        with table.follow(scan_mode="from-snapshot-full", snapshot_id=3, timeout=0) as follower:
            assert sum(batch.num_rows for batch in follower)
        assert expire_all(table).ids
        assert table.maintain(once=True).rounds == 1
        assert write(table, 9).committed
        assert table.write(batch(9)).committed
        assert table.audit().ok
        assert table.snapshots()[-1].id == table.inspect().latest_snapshot_id
        named = [record for record in caplog.records if path in record.getMessage()]
        assert len(named) <= 1, "once at most: who takes a lease over need not read it twice"
        assert len(named) == 1 or kind == "lease on old levels", "nobody asked for it"


@pytest.mark.parametrize("content", [b"", b"{}"])
def test_who_asks_for_a_torn_tag_is_shown_what_to_do(tmp_path: Path, content: bytes) -> None:
    table = lived_in_table(tmp_path)
    path = damage(table, "tag", content)
    for ask in (lambda: table.scan(tag="torn"), lambda: table.create_tag("torn")):
        with pytest.raises(wt.DamagedError, match="delete the tag") as raised:
            ask()
        assert raised.value.subject == path
    table.delete_tag("torn")
    table.create_tag("torn")
    assert rows(table, tag="torn") == rows(table)


@pytest.mark.parametrize("content", [b"", b"{}"])
def test_who_asks_for_a_torn_consumer_is_shown_what_to_do(tmp_path: Path, content: bytes) -> None:
    table = lived_in_table(tmp_path)
    path = damage(table, "consumer", content)
    with pytest.raises(wt.DamagedError, match="delete the consumer") as raised:
        table.follow(consumer_id="torn")
    assert raised.value.subject == path
    assert table.delete_consumer("torn")
    table.follow(consumer_id="torn").close()


def test_orphans_are_not_looked_for_while_a_tag_cannot_be_read(tmp_path: Path) -> None:
    """They are what is not named, and nobody knows what this one names."""
    table = lived_in_table(tmp_path)
    path = damage(table, "tag", b"{}")
    with pytest.raises(wt.DamagedError) as raised:
        table.remove_orphan_files(older_than_millis=0)
    assert raised.value.subject == path
    table.delete_tag("torn")
    assert leftovers(table) == set()
