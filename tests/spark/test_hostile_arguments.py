"""What a caller gives to the Spark side is checked before Spark is asked: an error of the package, or success."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
import widetable_spark
from tests.support.models.hostile_values import TEXTS, hostile_values
from widetable.arguments import shown
from widetable_spark.frames.declared_options import SOURCE_OPTIONS
from widetable_spark.frames.source_options import parse_options
from widetable_spark.reading.reading import _snapshot


class Session:
    """Stands for Spark, which no wrong call may come to."""

    def createDataFrame(self) -> None:
        raise AssertionError("Spark was asked")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    schema = pa.schema([("k", pa.int64())])
    return wt.Catalog(tmp_path).create_table("db.t", schema, primary_key=["k"]).path


def calls(path: str) -> dict[str, tuple[Callable[..., object], dict[str, Any]]]:
    return {
        "read": (
            widetable_spark.read,
            {
                "spark": Session(),
                "path": path,
                "columns": ["no"],
                "where": None,
                "as_of": 99,
                "storage_options": {},
            },
        ),
        "inspect": (
            widetable_spark.inspect,
            {
                "spark": Session(),
                "path": path,
                "name": "no",
                "snapshot_id": 99,
                "tag": "no",
                "storage_options": {},
            },
        ),
        "maintain": (
            widetable_spark.maintain,
            {
                "spark": Session(),
                "path": f"{path}-not-there",
                "checkpoint": None,
                "trigger_millis": 1,
                "name": None,
                "storage_options": {},
            },
        ),
        "cdc": (
            widetable_spark.cdc,
            {"spark": Session(), "config": f"{path}-not-there.toml", "until": None},
        ),
        "register_changes": (
            widetable_spark.register_changes,
            {"spark": None, "name": "f", "storage_options": {}},
        ),
        "CommitProgressListener": (
            widetable_spark.CommitProgressListener,
            {"path": path, "commit_user": None, "on_commit": None, "storage_options": {}},
        ),
    }


@pytest.mark.parametrize(
    "call", ["read", "inspect", "maintain", "register_changes", "CommitProgressListener"]
)
def test_a_hostile_argument_gives_an_error_of_the_package(path: str, call: str) -> None:
    called, usual = calls(path)[call]
    raised = []
    for name in usual:
        for value in hostile_values():
            try:
                called(**{**usual, name: value})
            except wt.WidetableError:
                pass
            except Exception as error:  # noqa: BLE001
                raised.append(f"{name}={shown(value)}: {type(error).__name__}")
    assert raised == []


def test_a_hostile_option_gives_an_error_of_the_package() -> None:
    raised = []
    for option in SOURCE_OPTIONS:
        for value in (*TEXTS, "9" * 400, "9" * 400 + " d", "\N{SUPERSCRIPT TWO}"):
            try:
                parse_options({"path": "/t", option.key: value})
            except wt.WidetableError:
                pass
            except Exception as error:  # noqa: BLE001
                raised.append(f"{option.key}={shown(value)}: {type(error).__name__}")
    assert raised == []


def test_epoch_milliseconds_of_today_are_an_option() -> None:
    found = parse_options({"path": "/t", "timestamp-millis": "1760000000000"})
    assert found.timestamp_millis == 1_760_000_000_000
    started = parse_options({"path": "/t", "scan.timestamp-millis": "1760000000000"})
    assert started.stream.start.timestamp_millis == 1_760_000_000_000


def test_a_snapshot_id_of_numpy_is_one() -> None:
    assert _snapshot(np.int64(3)) == {"snapshot_id": 3}
    assert _snapshot("tag") == {"tag": "tag"}
    with pytest.raises(wt.InvalidError, match="as_of"):
        _snapshot(1.0)
