"""A host without a temporary directory: what can do without goes on, what cannot says what is missing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.command_line import run
from widetable import warmup
from widetable.kernels.jit import Kernel
from widetable.storage.lock_queue import turn_of_name
from widetable.write.spill_space import SpillSpace

PACKAGES = Path(wt.__file__).parents[1]
# They go on without one by themselves.
GO_ON = {"widetable/kernels/compiler.py", "lookup/widetable_lookup/cache_paths.py"}


@pytest.fixture
def none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> NoReturn:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refused)


def test_a_spill_says_that_there_is_no_temporary_directory(none: None) -> None:
    with pytest.raises(wt.StorageError, match="TMPDIR"):
        SpillSpace().new_file()


def test_who_takes_turns_by_name_goes_on_without(none: None) -> None:
    with turn_of_name("s3://bucket/table") as is_ours:
        assert not is_ours


def test_an_input_that_can_be_read_once_says_what_its_copy_needs(
    tmp_path: Path, none: None
) -> None:
    columns = pa.schema([("k", pa.int64())])
    table = wt.Catalog(str(tmp_path)).create_table("db.t", columns, primary_key=["k"])
    reads, writes = os.pipe()
    with os.fdopen(writes, "wb") as rows:
        rows.write(b"k\n1\n")
    try:
        ran = run("write", table.path, f"/dev/fd/{reads}", "--format", "csv")
        assert ran.exit_code != 0
        assert "TMPDIR" in ran.stderr
    finally:
        os.close(reads)


def test_the_warm_up_says_what_it_needs(none: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "interprets", True)
    with pytest.raises(wt.StorageError, match="TMPDIR"):
        warmup.warm_up()


def test_a_table_is_written_compacted_and_looked_up_without_one(tmp_path: Path, none: None) -> None:
    columns = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    options = {"changelog-producer": "lookup"}
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.t", columns, primary_key=["k"], options=options)
    for value in (1, 2):
        table.write({"k": [1], "v": [value]})
    assert table.lookup([{"k": 1}]).to_pylist() == [{"k": 1, "v": 2}]


def test_nobody_else_asks_the_system_for_the_directory() -> None:
    asks = {
        str(path.relative_to(PACKAGES))
        for package in ("widetable", "lookup", "spark", "meta")
        for path in (PACKAGES / package).rglob("*.py")
        if "gettempdir()" in path.read_text("utf-8")
    }
    assert asks == GO_ON | {"widetable/storage/temporary_directory.py"}
