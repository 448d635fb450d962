"""Damaged files of an append table: what is wrong is said, what can be read stays, and no wrong row is read."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import widetable as wt
from tests.append.model import frozen, made, rows_of
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE


def filled(folder: Path, kind: str) -> wt.Table:
    table = made(folder, kind, parts=True, **{"write-only": "true"})
    for number in range(4):
        table.write([{"n": number * 10 + at, "s": f"t{at}", "p": at % 2} for at in range(10)])
    table.delete("n = 3")
    return table


def counts(table: wt.Table) -> Counter[object]:
    return Counter(map(frozen, rows_of(table.scan().to_arrow())))


@pytest.mark.parametrize("kind", ["free", "vectors", "buckets"])
def test_any_wrong_byte_is_said_or_harmless(tmp_path: Path, rng: random.Random, kind: str) -> None:
    """A bit of a file, a manifest or an index is turned: a scan has the same rows, or raises one of our errors.

    Snapshots and schemas are JSON without a checksum: a wrong letter in the name of an optional entry is as if the
    entry were not there.
    """
    table = filled(tmp_path, kind)
    before = counts(table)
    files = sorted(path for path in Path(table.path).rglob("*") if path.is_file())
    no_json = {"schema", "snapshot"}
    files = [path for path in files if no_json.isdisjoint(path.parts) and path.stat().st_size]
    noticed = 0
    for _ in range(60):
        path = rng.choice(files)
        whole = path.read_bytes()
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        MANIFEST_CACHE.clear()
        try:
            assert counts(wt.Table.open(table.path)) == before, f"{path} was changed"
        except wt.WidetableError:
            noticed += 1
        path.write_bytes(whole)
    MANIFEST_CACHE.clear()
    assert counts(wt.Table.open(table.path)) == before
    assert noticed > 10


@pytest.mark.parametrize("kind", ["free", "vectors", "buckets"])
def test_a_damaged_file_is_taken_out_and_the_rest_stays(tmp_path: Path, kind: str) -> None:
    table = filled(tmp_path, kind)
    before = counts(table)
    paths = table.inspect.files().column("path").to_pylist()
    damaged = Path(paths[1])
    damaged.write_bytes(damaged.read_bytes()[:-20] + b"x" * 20)
    (finding,) = [each for each in table.doctor(deep=True).findings if each.check == "files"]
    assert damaged.name in finding.subject
    assert [each.law for each in table.audit().findings] == ["file"]
    with pytest.raises(wt.DamagedError, match=damaged.name):
        table.scan().to_arrow()
    # A compaction leaves the damaged file's partition or bucket alone, and does the others.
    with pytest.raises(wt.DamagedError):
        table.compact(full=True)
    result = table.repair()
    (repaired,) = result.files
    after = counts(wt.Table.open(table.path))
    assert after <= before
    assert sum(before.values()) - sum(after.values()) == repaired.lost_rows > 0


def test_rows_of_another_file_are_not_taken_for_those_of_a_damaged_one(tmp_path: Path) -> None:
    """Two files of equal size are exchanged: their bounds tell."""
    table = made(tmp_path, "free", parts=False, **{"write-only": "true"})
    table.write([{"n": n, "s": "a"} for n in range(10)])
    table.write([{"n": n, "s": "b"} for n in range(10, 20)])
    one, other = map(Path, table.inspect.files().column("path").to_pylist())
    assert one.stat().st_size == other.stat().st_size
    one_bytes, other_bytes = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_bytes)
    other.write_bytes(one_bytes)
    laws = {each.law for each in table.audit().findings}
    assert laws == {"file-bounds"}
