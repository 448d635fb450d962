"""What must hold after a process worked on a failing system, looked at on a system that works.

Acknowledged commits are in exactly once, others once at most and only if that was said to be possible; what comes
again ends in exactly once; rows, changelog and audit are right, also after everything is compacted and cleaned.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import widetable as wt
from tests.failing_system.workload import (
    BATCHES,
    FIRST,
    SEED,
    WRITERS,
    expected,
    path_of,
    user,
)
from tests.kill.workload import batch
from tests.support.models.kept_rows import leftovers
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE


def check(folder: Path, log: Path) -> list[str]:
    """The kinds of errors that the process met. Raises AssertionError."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    raw = [entry for entry in entries if "raw" in entry]
    assert not raw, f"{raw[0]['step']} raised {raw[0]['raw']}\n{raw[0]['text']}"
    MANIFEST_CACHE.clear()
    table = wt.Table.open(path_of(folder))
    _check_audit(table)
    _check_reported(table, entries)
    for number in range(FIRST, BATCHES):
        for writer in range(WRITERS):
            is_in = table.find_commit(user(writer), number) is not None
            result = table.write(batch(SEED, writer, number), user(writer), number, replay=is_in)
            assert result.committed is not is_in
    _check_whole(table)
    table.compact(full=True)
    _check_whole(table)
    for tag in table.tags():
        table.delete_tag(tag)
    table.expire_snapshots(num_retained_min=1, time_retained_millis=0, limit=1000)
    assert len(table.snapshots()) == 1
    table.remove_orphan_files(older_than_millis=0)
    assert leftovers(table) == set()
    assert _rows(table) == expected()
    return [entry["error"] for entry in entries if "error" in entry]


def _check_reported(table: wt.Table, entries: list[dict[str, Any]]) -> None:
    counts = _commits(table)
    for entry in entries:
        name, *which = entry["step"].split()
        if name != "write":
            continue
        writer, number = map(int, which)
        count = counts[user(writer), number]
        assert count <= 1, entry
        if "done" in entry:
            assert count == 1, f"acknowledged, and {count} times in: {entry}"
    for entry, later in pairwise(entries):
        if "error" in entry and entry["step"].startswith("write"):
            came_later = later.get("step") == entry["step"]
            writer, number = map(int, entry["step"].split()[1:])
            is_open = "same user and identifier" in entry["text"]
            assert came_later or is_open or counts[user(writer), number] == 0, entry


def _check_whole(table: wt.Table) -> None:
    """Every batch is in once, and everything says so."""
    assert _rows(table) == expected()
    counts = _commits(table)
    wanted = {(user(w), n) for w in range(WRITERS) for n in range(FIRST, BATCHES)}
    assert {each: counts[each] for each in wanted} == dict.fromkeys(wanted, 1)
    _check_audit(table)


def _check_audit(table: wt.Table) -> None:
    report = table.audit()
    assert report.ok, "\n".join(str(finding) for finding in report.findings)


def _commits(table: wt.Table) -> Counter[tuple[str, int]]:
    appends = [each for each in table.snapshots() if each.commit_kind == "APPEND"]
    return Counter((each.commit_user, each.commit_identifier) for each in appends)


def _rows(table: wt.Table) -> dict[int, dict[str, Any]]:
    return {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
