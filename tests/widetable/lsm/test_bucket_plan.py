"""What a bucket's compaction does: scripts that tell the policy, and commits beside the rewriting of old levels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs.scripts import check_script
from tests.widetable.lsm.test_universal_compaction import file_of
from widetable.format.data_file_meta import DataFileMeta, upgrade
from widetable.lsm.bucket_plan import (
    FULL_ROW_NUMBER,
    Expiry,
    Merge,
    MergeWithChangelog,
    Move,
    Plan,
    Scope,
    names_of,
    plan_bucket,
    rewrites_much,
)
from widetable.merge.engine import engine_of
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

SCRIPTS = Path(__file__).resolve().parents[2] / "testdata/bucket_plan"
PARTIAL = {"merge-engine": "partial-update"}
NOW = 1_795_000_000_000_000_000
_EXPIRY = {Expiry.NONE: "", Expiry.DROP: "old rows go", Expiry.ONLY: "if old rows go"}
_UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_FILE = re.compile(r"L(\d+) (\d+)([kMG]?)((?: \w+=\S+)*)")


def schema_with(options: Mapping[str, str]) -> TableSchema:
    arrow = pa.schema(
        [pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("t", pa.int64())]
    )
    options = {"changelog-producer": "lookup", **options}
    return new_schema(arrow, primary_key=["k"], options=options)


def file_at(level: int, number: int, *, size: int = 100) -> DataFileMeta:
    return file_of(number, level, size)


def planned(files: Iterable[DataFileMeta], options: Mapping[str, str], scope: Scope) -> Plan:
    schema = schema_with(options)
    return plan_bucket(schema, engine_of(schema), files, scope)


def files_of(lines: Iterable[str]) -> list[DataFileMeta]:
    """A line per file, newest first; the numbers are those that lookup compactions of partial-update give."""
    lines, files = [*lines], []
    deepest = max((line.split()[0] for line in lines), default="")
    for age, line in enumerate(reversed(lines)):
        found = _FILE.fullmatch(line)
        assert found, line
        level, size = int(found[1]), int(found[2]) * _UNITS[found[3]]
        number = NOW + age if level == 0 else 0 if found[0].split()[0] == deepest else full(age - 1)
        said = dict(word.split("=", 1) for word in found[4].split())
        numbers = [number_of(text) for text in said.get("number", str(number)).split("..")]
        files.append(
            file_of(age, level, size)._replace(
                min_sequence_number=numbers[0],
                max_sequence_number=numbers[-1],
                delete_row_count=None
                if said.get("deletes") == "?"
                else int(said.get("deletes", 0)),
                schema_id=int(said.get("schema", 0)),
            )
        )
    return files


def full(place: int) -> int:
    return FULL_ROW_NUMBER + place


def number_of(text: str) -> int:
    return full(int(text[5:])) if text.startswith("full+") else int(text)


def said(step: Move) -> str:
    """A line per step."""
    kind = "merge" if isinstance(step, Merge) else "move"
    words = [f"{kind} {levels(step.files)} to L{step.level}"]
    if isinstance(step, Merge):
        number = step.sequence_number
        named = f"full+{number - FULL_ROW_NUMBER}" if number else str(number)
        words += [
            f"movable {levels(step.movable)}" if step.movable else "",
            "keep deletes" if step.keep_deletes else "drop deletes",
            "" if number is None else f"number {named}",
            _EXPIRY[step.expiry],
        ]
    if isinstance(step, MergeWithChangelog):
        before = " | ".join(" ".join(f"L{run.level}" for run in runs) for runs in step.before)
        words += [f"changelog from L{step.known_level}", f"before in {before}" if before else ""]
        words += ["repairs"] if step.repairs else []
    return ", ".join(word for word in words if word)


def levels(files: Iterable[DataFileMeta]) -> str:
    return " ".join(f"L{level}" for level in sorted(file.level for file in files))


def answer(command: tuple[str, ...]) -> str:
    scope, *words = command[0].split()
    options = PARTIAL | dict(word.split("=", 1) for word in words)
    plan = planned(files_of(command[1:]), options, Scope[scope.upper()])
    return "\n".join(said(step) for step in plan) or "nothing"


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_script(script: Path) -> None:
    check_script(script, answer)


def test_a_plan_reads_what_it_merges_and_what_lies_below() -> None:
    base, older, fresh = files = files_of(["L0 1", "L4 1M", "L5 1G"])
    plan = planned(files, PARTIAL, Scope.DUE)
    assert set(names_of(plan)) == {file.file_name for file in (base, older, fresh)}
    alone = planned(files, PARTIAL | {"changelog-producer": "none"}, Scope.FULL)
    assert names_of(alone) == [file.file_name for file in (fresh, older, base)]


@given(st.data())
def test_commits_and_the_compaction_behind_them_stay_apart(data: st.DataObject) -> None:
    """Commits of any sizes, with the rewriting of old levels in hand for as long as it likes: levels hold one run each,
    newer runs have higher numbers, level 0 is empty after each commit, and what the rewriting took stays as it is.
    """
    trigger = data.draw(st.integers(1, 6), "trigger")
    options = PARTIAL | {"num-sorted-run.compaction-trigger": str(trigger)}
    if data.draw(st.booleans(), "few levels"):
        options["num-levels"] = str(data.draw(st.integers(2, 9), "levels"))
    sizes = st.integers(0, 3).map(lambda power: 100 * 1000**power // 10)
    files: frozenset[DataFileMeta] = frozenset()
    taken: Plan = ()
    for number in range(data.draw(st.integers(1, 40), "commits")):
        files |= {file_at(0, NOW + number, size=data.draw(sizes, "size"))}
        plan = planned(sorted_files(files), options, Scope.COMMIT)
        assert plan
        if len(taken) > 0 and (data.draw(st.booleans(), "is done") or waits(plan, options)):
            files, taken = carried_out(files, taken), ()
            plan = planned(sorted_files(files), options, Scope.COMMIT)
            assert plan
        assert not touched(taken) & touched(plan)
        files = carried_out(files, plan)
        check_levels(files)
        rest = planned(sorted_files(files), options, Scope.REST)
        assert not taken or rest == taken
        taken = rest


def sorted_files(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    return sorted(files, key=lambda file: (file.level, file.min_sequence_number))


def waits(plan: Plan, options: Mapping[str, str]) -> bool:
    """As operations.compaction does: a commit that rewrites much waits for who is at the old levels."""
    return rewrites_much(plan, schema_with(options).typed_options)


def touched(plan: Plan) -> set[DataFileMeta]:
    return {file for step in plan for file in step.files}


def carried_out(files: frozenset[DataFileMeta], plan: Plan) -> frozenset[DataFileMeta]:
    """What a compaction leaves, when every row is kept."""
    assert touched(plan) <= files
    made = set()
    for step in plan:
        if isinstance(step, Merge):
            assert step.sequence_number is not None
            size = sum(file.file_size for file in step.files)
            made.add(file_at(step.level, step.sequence_number, size=size))
        else:
            assert step.movable == set(step.files)
            made |= {upgrade(file, step.level) for file in step.files}
    return files - touched(plan) | made


def check_levels(files: frozenset[DataFileMeta]) -> None:
    runs = sorted(files, key=lambda file: file.level)
    assert all(newer.level < older.level for newer, older in pairwise(runs))
    assert all(
        newer.min_sequence_number > older.max_sequence_number for newer, older in pairwise(runs)
    )
    assert runs[0].level > 0
