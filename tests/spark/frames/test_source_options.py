"""Options of format("widetable"): typed, refused by name when they are unknown, wrong or for another use."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from widetable import InvalidError
from widetable.read.stream_plan import Limits, Start
from widetable_spark.frames.declared_options import (
    READ,
    SOURCE_OPTIONS,
    STREAM,
    WRITE,
    SourceOption,
)
from widetable_spark.frames.source_options import StreamOptions, WatermarkOptions, parse_options

PAGE = Path(__file__).resolve().parent.parent.parent.parent / "docs/spark-options.md"


def test_options_of_a_stream() -> None:
    found = parse_options(
        {
            "path": "/t",
            "scan.mode": "from-snapshot",
            "scan.snapshot-id": "7",
            "consumer-id": "c",
            "read.changelog": "true",
            # As Spark hands them over, and as the user writes them.
            "read.stream.maxrowspertrigger": "100",
            "read.stream.maxBytesPerTrigger": "8 mb",
            "read.stream.maxFilesPerTrigger": "3",
            "read.stream.maxSnapshotsPerTrigger": "2",
        }
    )
    limits = Limits(snapshots=2, rows=100, bytes=8 << 20, files=3)
    assert found.stream == StreamOptions(Start("from-snapshot", 7), "c", limits)
    assert found.read_changelog
    found.check_use(STREAM)


def test_defaults() -> None:
    found = parse_options({"path": "/t"})
    assert found.stream == StreamOptions(Start("latest-full"), None, Limits())
    assert not found.read_changelog
    assert found.watermark is None
    for use in (READ, STREAM, WRITE):
        found.check_use(use)


def test_options_of_a_watermark() -> None:
    found = parse_options({"path": "/t", "watermark-column": "at", "watermark-delay": "10 min"})
    assert found.watermark == WatermarkOptions("at", 600_000)
    assert parse_options({"path": "/t", "watermark-column": "at"}).watermark == WatermarkOptions(
        "at", 0
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'path'"),
        ({"snapshot-idd": "1"}, "'snapshot-idd': found an option that"),
        ({"snapshot-id": "one"}, "'snapshot-id': found 'one'; expected a value of kind integer"),
        ({"read.changelog": "yes"}, "'read.changelog': found 'yes'"),
        ({"scan.mode": "newest"}, "scan mode"),
        ({"scan.mode": "from-snapshot"}, "snapshot id"),
        ({"read.stream.maxRowsPerTrigger": "0"}, "'read.stream.maxRowsPerTrigger': found 0"),
        ({"read.stream.maxBytesPerTrigger": "many"}, "maxBytesPerTrigger': found 'many'"),
        ({"watermark-delay": "1 min"}, "found no option 'watermark-column'"),
        ({"watermark-column": "a", "watermark-delay": "soon"}, "'watermark-delay'"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, str], message: str) -> None:
    path = {"path": "/t"} if options else {}
    with pytest.raises(InvalidError, match=re.escape(message)):
        parse_options({**path, **options})


@pytest.mark.parametrize(
    "key", ["timestamp-millis", "scan.timestamp-millis", "Scan.Timestamp-Millis"]
)
@pytest.mark.parametrize(
    "given",
    ["1795773600000", "2026-11-27T10:00Z", " 2026-11-27 11:00:00+01:00 ", "2026-11-27T19:00"],
)
def test_a_time_is_given_as_in_python(
    key: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = parse_options({"path": "/t", key: given})
    finally:
        monkeypatch.undo()
        time.tzset()
    start = found.stream.start
    is_stream = key.lower().startswith("scan")
    assert (start.timestamp_millis if is_stream else found.timestamp_millis) == 1_795_773_600_000
    assert start.mode == ("from-timestamp" if is_stream else "latest-full")


@pytest.mark.parametrize("key", ["timestamp-millis", "scan.timestamp-millis"])
@pytest.mark.parametrize("given", ["", "yesterday", "2026-13-01", "1.5", "9" * 30])
def test_what_is_no_time_is_refused_by_the_name_of_the_option(key: str, given: str) -> None:
    with pytest.raises(InvalidError, match=f"option '{re.escape(key)}'.*expected"):
        parse_options({"path": "/t", key: given})


@pytest.mark.parametrize("option", SOURCE_OPTIONS, ids=lambda option: option.key)
def test_an_option_is_on_the_page(option: SourceOption) -> None:
    uses = ", ".join(use.removeprefix("a ") for use in option.uses)
    row = f"| `{option.key}` | {option.kind} | {uses} | {option.sentence} |"
    assert PAGE.read_text(encoding="utf-8").splitlines().count(row) == 1


@pytest.mark.parametrize("option", SOURCE_OPTIONS, ids=lambda option: option.key)
def test_an_option_is_refused_where_it_would_do_nothing(option: SourceOption) -> None:
    text = {"boolean": "true", "duration": "1 s"}.get(option.kind, "1")
    if option.key == "incremental-between":
        text = "1,2"
    options = {"path": "/t", option.key: text}
    if option.key == "scan.mode":
        options["scan.mode"] = "latest"
    if option.key == "branch":
        options["branch"] = "b"
    if option.key == "read.change-columns":
        options["read.changelog"] = "true"
    if option.key == "watermark-delay":
        options["watermark-column"] = "a"
    found = parse_options(options)
    for use in (READ, STREAM, WRITE):
        if use in option.uses:
            is_range = use == READ and found.read_changelog
            range_of = {"incremental-between": "1,2"} if is_range else {}
            parse_options(options | range_of).check_use(use)
        else:
            with pytest.raises(InvalidError, match="found " + use):
                found.check_use(use)


def test_options_of_a_store_are_taken_and_shown_to_nobody() -> None:
    found = parse_options({"path": "s3://b/t", "s3.access-key": "key", "S3.Secret-Key": "hidden"})
    assert found.storage is not None
    assert found.storage.to_dict() == {"s3.access-key": "key", "s3.secret-key": "hidden"}
    assert "hidden" not in repr(found)
    assert "s3" not in found.given
    with pytest.raises(InvalidError, match=r"s3\.acess-key") as refused:
        parse_options({"path": "s3://b/t", "s3.acess-key": "hidden"})
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "w" * 201])
def test_a_writer_has_a_name_that_writers_may_have(name: str) -> None:
    assert parse_options({"path": "/t", "barrier.writer": "w"}).barrier_writer == "w"
    with pytest.raises(InvalidError, match=r"option 'barrier\.writer'.*1 to 200 bytes"):
        parse_options({"path": "/t", "barrier.writer": name})
