"""The digest of a micro-batch: of what its checkpoint notes, where that can be read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from widetable_spark.queries import batch_digest as module
from widetable_spark.queries.batch_digest import batch_digest


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkpoint"
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets/3").write_bytes(b'v1\n{"batchTimestampMs":1}\n{"logOffset":0}')
    return folder


def test_it_is_of_the_query_and_of_what_the_batch_reads(checkpoint: Path) -> None:
    found = batch_digest(str(checkpoint), 3, ["q"])
    assert found is not None
    assert found == batch_digest(f"file:{checkpoint}", 3, ["q"])
    assert found == batch_digest(f"file://{checkpoint}".replace(" ", "%20"), 3, {"q"})
    assert found != batch_digest(str(checkpoint), 3, ["other"])
    (checkpoint / "offsets/4").write_bytes((checkpoint / "offsets/3").read_bytes() + b"\n")
    assert found != batch_digest(str(checkpoint), 4, ["q"])


@pytest.mark.parametrize(
    "where", [None, "nowhere", "s3://bucket/cp", "hdfs:/cp", "file://host/cp", ""]
)
def test_what_cannot_be_read_gives_none_and_is_reported_once(
    where: str | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_logged", set())
    with caplog.at_level(logging.DEBUG, "widetable.spark"):
        for batch in range(3):
            assert batch_digest(where, batch, ["q"]) is None
    (reported,) = caplog.records
    assert reported.levelno == logging.DEBUG
    assert repr(where) in reported.getMessage()


def test_a_batch_that_is_not_noted_has_none(checkpoint: Path) -> None:
    assert batch_digest(str(checkpoint), 4, ["q"]) is None
