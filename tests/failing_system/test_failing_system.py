"""The operating system fails under a process at any of its calls, or ends it there: nothing is lost, nothing doubled.

By a shim in LD_PRELOAD (`shim.c`), so below Python, Arrow and RocksDB alike.
WIDETABLE_SYSTEM_FAULTS: how many faults, drawn among all calls of one run (default 14); `all`: each call with each.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.failing_system.faults import Call, Fault, Mode, build_shim, faults_of
from tests.failing_system.outcome import check
from tests.failing_system.workload import create
from tests.support.programs.tallies import Note

FAULTS = os.environ.get("WIDETABLE_SYSTEM_FAULTS", "14")
ROOT = Path(__file__).resolve().parent.parent.parent


class FailingSystem:
    """Runs cases one after the other, each on its own copy of one table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        create(folder / "template")
        environment = {
            **os.environ,
            "LD_PRELOAD": str(build_shim(folder)),
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "lookup", ROOT / "spark"))),
        }
        self._said = (folder / "said.txt").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.failing_system.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=environment,
            text=True,
        )

    def run(self, fault: Fault | None) -> tuple[Path, Path, dict[str, Any]]:
        """Folder, log and answer of a case."""
        self._number += 1
        case, log = self._folder / f"case-{self._number}", self._folder / f"log-{self._number}"
        shutil.copytree(self._folder / "template", case)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = [str(case), str(log), None if fault is None else astuple(fault)]
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, (self._folder / "said.txt").read_text()[-4000:]
        return case, log, json.loads(answer)

    def close(self) -> None:
        with self._process:  # which closes its pipes
            pass
        self._said.close()


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingSystem]:
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    try:
        found = FailingSystem(tmp_path)
    except LookupError as reason:
        pytest.skip(str(reason))
    try:
        yield found
    finally:
        found.close()


def drawn(rng: random.Random, seen: dict[str, int]) -> list[Fault]:
    """Faults among the calls of a run; as many of each call, however seldom it is."""
    if FAULTS == "all":
        return [
            fault
            for call in Call
            for number in range(1, seen[call.name] + 1)
            for fault in faults_of(call, number)
        ]
    calls = [call for call in Call if seen[call.name]]
    return [
        rng.choice(faults_of(call, rng.randint(1, seen[call.name])))
        for call in (calls[each % len(calls)] for each in range(int(FAULTS)))
    ]


@pytest.mark.slow
def test_every_commit_is_in_once_whatever_call_fails(
    rng: random.Random, system: FailingSystem, tally: Note
) -> None:
    case, log, answer = system.run(None)
    assert answer["status"] == 0
    assert check(case, log) == [], "without a fault nothing fails"
    done: Counter[str] = Counter()
    wrong: list[str] = []
    for fault in drawn(rng, answer["seen"]):
        case, log, answer = system.run(fault)
        try:
            reported = check_case(fault, case, log, answer)
        except (AssertionError, wt.WidetableError) as finding:
            wrong.append(f"{fault}: {finding}\n{log.read_text()[-2000:]}")
            continue
        done.update(cases=1, faults=answer["met"] or 1, refused=len(reported))
        done.update(kills=int(answer["status"] == -9))
        shutil.rmtree(case)
    tally(**done)
    assert not wrong, f"{len(wrong)} of {len(wrong) + done['cases']}:\n" + "\n\n".join(wrong)
    assert done["faults"]


def check_case(fault: Fault, case: Path, log: Path, answer: dict[str, Any]) -> list[str]:
    """A run may come to fewer calls than the one that was counted: threads wait for one another in any order."""
    assert answer["status"] == 0 or (answer["status"] == -9 and fault.mode.kills), answer
    reported = check(case, log)
    if fault.mode is Mode.HALF:
        assert reported == [], "a short write is no error"
    return reported
