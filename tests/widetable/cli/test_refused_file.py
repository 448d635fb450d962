"""Outputs that the command line hands to libraries, which flush and close them when they like."""

from __future__ import annotations

import gc
import io
import sys
from pathlib import Path

import pytest

import widetable as wt
from widetable.cli.refused_file import RefusingFile


def test_what_is_collected_after_its_file_was_closed_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 prints what a finalizer raises, and that one closes, which flushes."""
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with open(tmp_path / "out", "wb") as file:
        output = RefusingFile(file, "out")
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
    output = RefusingFile(file, "out")
    with pytest.raises(BrokenPipeError):
        output.flush()
    del output
    gc.collect()
    assert told == []


def test_a_refusal_names_the_file() -> None:
    class Full(io.BytesIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    output = RefusingFile(Full(), "out.csv")
    with pytest.raises(wt.StorageError, match=r"out\.csv.*No space left"):
        output.flush()
    output._file.close()
