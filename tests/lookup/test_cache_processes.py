"""Processes of a host share caches: what one builds, others use; what they do at once, none of them notices."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.conftest import ROOT
from tests.lookup.cache_files import (
    build,
    caches_on_disk,
    found,
    rows_of,
    table_at,
    temporaries_on_disk,
)
from tests.support.faults.forked import in_a_child
from widetable.schema import options as opt
from widetable_lookup import cache_space, process_caches

_LOOK_UP = """
import sys, logging, pyarrow as pa, widetable as wt
logging.basicConfig(level=logging.WARNING)
table = wt.Table.open(sys.argv[1])
keys = pa.table({"k": pa.array([5, 7, 4001], pa.int64())})
print(table.lookup(keys)["s"].to_pylist())
"""


def _in_a_new_process(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / folder) for folder in (".", "lookup", "spark"))
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_second_process_needs_no_data_file(cache_directory: Path, tmp_path: Path) -> None:
    """The first finds rows in the data file and caches it; without the file the second finds them all the same."""
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([("k", pa.int64()), ("s", pa.string())]),
        primary_key=["k"],
        options={"bucket": "1", "widetable.lookup-strategy": "lookup"},
    )
    table.write(pa.table({"k": range(4000), "s": [f"value {k}" for k in range(4000)]}), "u", 0)
    table.compact(full=True)
    for cache in caches_on_disk(cache_directory):  # what the compaction cached
        cache_space.CacheSpace(str(cache_directory), is_chosen=True).remove(
            str(cache), cache.stat().st_ino
        )
    first = _in_a_new_process(_LOOK_UP, table.path)
    assert (first.stdout, first.stderr) == ("['value 5', 'value 7', None]\n", "")
    assert len(caches_on_disk(cache_directory)) == 1
    data_files = list(Path(table.path).glob("bucket-0/data-*"))
    assert data_files
    for data_file in data_files:
        data_file.unlink()
    second = _in_a_new_process(_LOOK_UP, table.path)
    assert (second.stdout, second.stderr) == ("['value 5', 'value 7', None]\n", "")


def _in_children(count: int, work: Callable[[random.Random], None], rng: random.Random) -> None:
    """Run it in forked processes, each with random numbers of its own; all must end well."""
    seeds = [rng.getrandbits(64) for _ in range(count)]
    children = [in_a_child(partial(work, random.Random(seed))) for seed in seeds]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * count


def _fail_on_damage(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    assert "damaged" not in message, message
    return True


def _keys_of(number: int) -> Sequence[int]:
    """What data file `number` holds."""
    return range(number, 3000, number + 2)


@pytest.mark.parametrize("budget_bytes", [400_000, 10 << 30])
def test_processes_that_build_look_up_and_evict_at_once(
    cache_directory: Path, tmp_path: Path, rng: random.Random, budget_bytes: int
) -> None:
    options = {opt.LOOKUP_CACHE_MAX_DISK_SIZE.key: f"{budget_bytes} b"}
    tables = [table_at(tmp_path / key, primary_key=[key], options=options) for key in ("k", "s")]
    # A forked child must do without what its parent has open.
    opened = process_caches(options=tables[0].options)
    file = build(opened, tables[1], rows_of(_keys_of(0), ["s"]), "data-0")
    assert found(opened, tables[1], file, rows_of([0], ["s"]).select(["s"])) is not None

    def work(own: random.Random) -> None:
        logging.getLogger("widetable").addFilter(_fail_on_damage)
        caches = process_caches(tables[0].options)
        assert caches is not opened
        answers = 0
        for _ in range(40):
            number, table = own.randrange(6), own.choice(tables)
            (key,) = table.schema.trimmed_primary_key
            held = _keys_of(number)
            file = build(caches, table, rows_of(held, [key]), f"data-{number}")
            asked = sorted(own.sample(range(3000), own.choice((1, 20, 1500))))
            answer = found(caches, table, file, rows_of(asked, [key]).select([key]))
            if answer is not None:
                answers += 1
                hits = [i for i, one in enumerate(asked) if one in held]
                assert answer[0] == hits
                assert answer[1] == rows_of([asked[i] for i in hits], [key])
        assert answers > 10, answers

    _in_children(4, work, rng)
    assert temporaries_on_disk(cache_directory) == []
    disk_bytes = sum(
        path.stat().st_size
        for cache in caches_on_disk(cache_directory)
        for path in cache.rglob("*")
    )
    assert disk_bytes <= budget_bytes
