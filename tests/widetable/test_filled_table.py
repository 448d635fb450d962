"""Many writers of ten columns each fill a wide table completely, with a lookup changelog: every cell is right, and no
process takes more than its budget and 256 MiB.

Writer, maintainer and reader are processes of their own. Memory is what belongs to the process alone: pages of files
that it maps are the kernel's to take. `make campaign` runs it with 500 writers and 20,000 keys
(WIDETABLE_WIDE_WRITERS, WIDETABLE_WIDE_KEYS).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt

WRITERS = int(os.environ.get("WIDETABLE_WIDE_WRITERS", "40"))
KEYS = int(os.environ.get("WIDETABLE_WIDE_KEYS", "2000"))
COLUMNS_OF_A_WRITER = 10
# So many writers come between two runs of the maintainer.
WRITERS_OF_A_ROUND = max(WRITERS // 10, 10)
MOST_MIB = 256 + 256

PROGRAM = """
import sys, threading, time
import numpy as np
import pyarrow as pa
import widetable as wt

path, role, first, end, keys, columns_of_a_writer = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
peak_kib = 0


def own_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def watch():
    global peak_kib
    while True:
        peak_kib = max(peak_kib, own_kib())
        time.sleep(0.01)


def columns_of(writer):
    return range(writer * columns_of_a_writer, (writer + 1) * columns_of_a_writer)


def values(ids, column):
    return ids * 1_000_003 + column * 7_919


threading.Thread(target=watch, daemon=True).start()
table = wt.Catalog(path).table("d.t")
if role == "write":
    for writer in range(first, end):
        ids = np.random.default_rng(writer).permutation(keys)
        table.write(pa.table({"id": ids, **{f"c{c}": values(ids, c) for c in columns_of(writer)}}))
elif role == "maintain":
    table.compact()
elif role == "read":
    seen = np.zeros(keys, np.int64)
    for rows in table.scan():
        ids = rows.column("id").to_numpy()
        seen[ids] += 1
        for column in range(end * columns_of_a_writer):
            found = rows.column(f"c{column}")
            assert not found.null_count
            assert (found.to_numpy() == values(ids, column)).all(), column
    assert (seen == 1).all()
elif role == "follow":
    columns = ["id", "c0", f"c{end * columns_of_a_writer - 1}"]
    newest = [{}, {}]
    for rows in table.scan_changes(0, table.snapshots()[-1].id, columns=columns):
        kinds = np.array(rows.column("_row_kind").to_pylist())
        after = rows.filter(pa.array((kinds == "+I") | (kinds == "+U")))
        ids = after.column("id").to_pylist()
        for known, name in zip(newest, columns[1:]):
            known.update(zip(ids, after.column(name).to_pylist()))
    for known, name in zip(newest, columns[1:]):
        assert known == {i: i * 1_000_003 + int(name[1:]) * 7_919 for i in range(keys)}, name
print(max(peak_kib, own_kib()) >> 10)
"""


def peak_mib(folder: Path, role: str, first: int = 0, end: int = WRITERS) -> int:
    numbers = map(str, (first, end, KEYS, COLUMNS_OF_A_WRITER))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), role, *numbers],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    return int(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a process's own memory, as Linux says it")
def test_many_writers_fill_a_wide_table_within_their_memory(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    names = [f"c{i}" for i in range(WRITERS * COLUMNS_OF_A_WRITER)]
    wt.Catalog(str(tmp_path)).create_table(
        "d.t",
        pa.schema([("id", pa.int64()), *((name, pa.int64()) for name in names)]),
        primary_key=["id"],
        options={
            "merge-engine": "partial-update",
            "changelog-producer": "lookup",
            "write-only": "true",
            "bucket": "1",
        },
    )
    peaks: dict[str, int] = {}
    for first in range(0, WRITERS, WRITERS_OF_A_ROUND):
        for role in ("write", "maintain"):
            end = min(first + WRITERS_OF_A_ROUND, WRITERS)
            peaks[role] = max(peaks.get(role, 0), peak_mib(tmp_path, role, first, end))
    for role in ("read", "follow"):
        peaks[role] = peak_mib(tmp_path, role)
    record_property("peaks in MiB", peaks)
    assert max(peaks.values()) <= MOST_MIB, peaks
