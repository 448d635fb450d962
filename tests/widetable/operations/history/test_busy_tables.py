"""Who looks at a table, or mends it, while others commit and expire what was the newest snapshot a moment ago.

At whatever operation of the storage they come in between, a sound table is sound, and a missing file is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.faults import FaultyFileIO
from tests.support.models.kept_rows import batch, copy_of, expire_all, small_table
from tests.support.tables.later_state import LaterState
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)
Look = Callable[[wt.Table], list[str]]


def damage_of_doctor(table: wt.Table) -> list[str]:
    return [finding.subject for finding in table.doctor().findings]


def damage_of_repair(table: wt.Table) -> list[str]:
    return [file.damage.path for file in table.repair(dry_run=True, deep=False).files]


def damage_of_inspection(table: wt.Table) -> list[str]:
    return [file.path for file in table.inspect().damaged_files]


def damage_of_rollback(table: wt.Table) -> list[str]:
    table.rollback(tag="early", dry_run=True)
    return []


def go_on(folder: Path, *, compacts: bool) -> None:
    """Two commits, and perhaps a compaction."""
    table = wt.Table.open(str(folder))
    for number in (10, 11):
        table.write(batch(number, 1))
    if compacts:
        table.compact(full=True)


def overtaken(made: wt.Table, look: Look, folder: Path, *, compacts: bool) -> list[list[str]]:
    """What the look says when others go on before its first, second, .. operation, and expire what readers let go."""
    MANIFEST_CACHE.clear()
    counting = FaultyFileIO(IO)
    look(wt.Table.open(made.path, file_io=counting))
    kinds = [kind for kind, _ in counting.log]
    others = partial(go_on, compacts=compacts)
    later = LaterState.made(Path(made.path), others, folder / "later" / "t")
    said = []
    for at, kind in enumerate(kinds):
        table = copy_of(made, folder)
        MANIFEST_CACHE.clear()
        faulty = FaultyFileIO(IO)
        opened = wt.Table.open(table.path, file_io=faulty)
        others_go_on = partial(_overtake, later, table.path)
        faulty.run_before(kind, others_go_on, skip=kinds[:at].count(kind))
        said.append(look(opened))
    return said


def _overtake(later: LaterState, path: str) -> None:
    later.play(Path(path))
    expire_all(wt.Table.open(path))


@pytest.mark.parametrize(
    "look", [damage_of_doctor, damage_of_repair, damage_of_inspection, damage_of_rollback]
)
def test_a_sound_table_is_sound_while_others_go_on(tmp_path: Path, look: Look) -> None:
    made = small_table(tmp_path / "made")
    said = overtaken(made, look, tmp_path, compacts=True)
    assert [each for each in said if each] == []


@pytest.mark.parametrize("look", [damage_of_doctor, damage_of_repair])
def test_a_missing_file_is_named_while_others_go_on(tmp_path: Path, look: Look) -> None:
    made = small_table(tmp_path / "made")
    newest = made._committer.snapshots.latest()
    entry = made._committer.live_files.live_entries(newest)[0]
    name = entry.file.file_name
    next(Path(made.path).rglob(name)).unlink()
    said = overtaken(made, look, tmp_path, compacts=False)
    assert [len(each) for each in said] == [1] * len(said)
    assert all(each[0].endswith(name) for each in said)
