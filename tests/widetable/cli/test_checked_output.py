"""Outputs that the command line hands to libraries, which flush and close them when they like."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
from pathlib import Path

import pytest

import widetable as wt
from widetable.cli.input.checked_output import CheckedOutput


def test_what_is_collected_after_its_file_was_closed_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 prints what a finalizer raises, and that one closes, which flushes."""
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with open(tmp_path / "out", "wb") as file:
        output = CheckedOutput(file, "out")
        output.write(b"rows")
    output.flush()
    del output
    gc.collect()
    assert told == []
    assert (tmp_path / "out").read_bytes() == b"rows"


def test_what_nobody_reads_any_more_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    class Unread(io.BytesIO):
        def flush(self) -> None:
            raise BrokenPipeError

    file = Unread()
    output = CheckedOutput(file, "out")
    with pytest.raises(BrokenPipeError):
        output.flush()
    del output
    gc.collect()
    assert told == []


def test_a_refusal_names_the_file() -> None:
    class Full(io.BytesIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    output = CheckedOutput(Full(), "out.csv")
    with pytest.raises(wt.StorageError, match=r"out\.csv.*No space left"):
        output.flush()
    output._file.close()


@pytest.mark.parametrize(
    "arguments",
    ["write TABLE FILE", "compact TABLE --full", "tag create TABLE x", "rescale TABLE 3"],
)
def test_what_is_done_is_not_said_to_be_undone_when_the_output_is_full(
    arguments: str, tmp_path: Path
) -> None:
    catalog, file = wt.Catalog(tmp_path), tmp_path / "rows.json"
    table = catalog.create_table("db.t", {"k": "BIGINT"}, primary_key=["k"])
    file.write_text('{"k": 99}\n')
    table.write({"k": [1]})
    words = arguments.replace("TABLE", table.path).replace("FILE", str(file)).split()
    before = len(table.snapshots()), len(table.tags())
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "widetable", *words],
            cwd=Path(__file__).parents[3],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "look at its snapshots" in done.stderr
    assert "nothing was committed" not in done.stderr
    assert (len(table.snapshots()), len(table.tags())) != before
