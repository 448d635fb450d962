"""`widetable pit`: features for the rows of a file, in all formats, as the call in Python gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from tests.widetable.cli.test_rows import failed, succeeded
from tests.widetable.derive.versions.test_known_rows import ASKED, CASE_4, cities, minutes
from tests.widetable.derive.versions.timed_table import TimedTable, moments

# Times of `ASKED` as texts, in the forms that a CSV may have: UTC, without a zone, in another zone.
TEXTS = (
    "1970-01-01T09:59:00Z",
    "1970-01-01 10:00:00",
    "1970-01-01 10:04:59.999",
    "1970-01-01 12:05:00+02:00",
    "1970-01-01 10:07",
    "1970-01-01T10:08:00Z",
    "1970-01-01 10:09:00",
)


def labels() -> pa.Table:
    return moments(
        [{"label": n / 2, "id": 1, "event_timestamp": minutes(at)} for n, at in enumerate(ASKED)],
        "event_timestamp",
    )


def put_parquet(path: Path) -> None:
    pq.write_table(labels(), path)


def put_file(path: Path) -> None:
    with pa.ipc.new_file(str(path), labels().schema) as writer:
        writer.write_table(labels())


def put_stream(path: Path) -> None:
    with pa.ipc.new_stream(str(path), labels().schema) as writer:
        writer.write_table(labels())


def put_csv(path: Path) -> None:
    lines = [f'{n / 2},1,"{text}"' for n, text in enumerate(TEXTS)]
    path.write_text("\n".join(["label,id,event_timestamp", *lines]) + "\n")


@pytest.mark.parametrize(
    ("name", "put"),
    [
        ("e.parquet", put_parquet),
        ("e.arrow", put_file),
        ("e.arrow", put_stream),
        ("e.csv", put_csv),
    ],
)
def test_case_4_of_a_file_in_any_format(tmp_path: Path, name: str, put: Any) -> None:
    timed = cities(tmp_path)
    put(tmp_path / name)
    output = tmp_path / "samples.parquet"
    call = ("pit", timed.path, "--entities", f"{tmp_path / name}")
    assert succeeded(*call, "--output", str(output)) == f"7 rows in {output}\n"
    given = pq.read_table(output)
    assert given.column_names == ["label", "id", "event_timestamp", "city"]
    assert given["city"].to_pylist() == CASE_4
    assert given["label"].to_pylist() == [n / 2 for n in range(7)]
    times = given["event_timestamp"].cast(pa.timestamp("us", "UTC"))
    assert times.cast(pa.timestamp("us")) == labels()["event_timestamp"]
    assert given.schema.metadata[b"widetable.basis"] == b"known"
    printed = [json.loads(line) for line in succeeded(*call).splitlines()]
    assert [row["city"] for row in printed] == CASE_4


def test_each_argument_does_what_it_does_in_python(tmp_path: Path) -> None:
    columns = {
        "day": "DATE",
        "name": "STRING",
        "clicked_at": "BIGINT",
        "clicks": "INT",
        "moved_at": "TIMESTAMP(3)",
        "city": "STRING",
    }
    options = {
        "merge-engine": "partial-update",
        "fields.clicked_at.sequence-group": "clicks",
        "fields.moved_at.sequence-group": "city",
        "changelog-producer": "input",
    }
    timed = TimedTable(tmp_path, columns, ["day", "name"], options)
    days = moments([{"at": n * 86_400_000} for n in range(3)])["at"].to_pylist()
    key = {"day": days[0].date(), "name": "007"}
    timed.write(86_400_000, {**key, "clicked_at": 40, "clicks": 1})
    timed.write(3 * 86_400_000, {**key, "clicked_at": 30, "clicks": 2})
    timed.write(3 * 86_400_000, {**key, "moved_at": days[1], "city": "Oslo"})
    rows = "user,day,then\n007,1970-01-01,1970-01-03\n7,1970-01-01,1970-01-03\n,1970-01-01,1970-01-03\n"
    (tmp_path / "e.csv").write_text(rows)
    entities = pa.table(
        {
            "user": ["007", "7", None],
            "day": pa.array([0] * 3, pa.date32()),
            "then": pa.array([2] * 3, pa.date32()),
        }
    )
    on = {"user": "name", "day": "day"}
    words = ["--on", "user=name,day", "--at", "then"]
    calls: list[tuple[list[str], dict[str, Any]]] = [
        (["--columns", "city,clicks"], {"columns": ["city", "clicks"]}),
        (["--prefix", "f_", "--ttl", "1 d"], {"prefix": "f_", "ttl": "1 d"}),
        (["--ttl", "1439 min"], {"ttl": "1439 min"}),
    ]
    event = ["--basis", "event", "--event-time", "clicked_at=seconds", "--event-time", "moved_at"]
    how: dict[str, Any] = {
        "basis": "event",
        "event_times": {"clicked_at": "seconds", "moved_at": None},
        "columns": ["clicks", "city"],
    }
    calls.append(([*event, "--columns", "clicks,city"], how))
    calls.append(([*event, "--columns", "clicks,city", "--as-known"], {**how, "as_known": True}))
    seen = set()
    for number, (more, arguments) in enumerate(calls):
        output = f"{tmp_path / str(number)}.parquet"
        call = ("pit", timed.path, "--entities", f"{tmp_path}/e.csv", *words, *more)
        succeeded(*call, "--output", output)
        expected = timed.table.point_in_time(entities, "then", on=on, **arguments)
        given = pq.read_table(output)
        assert given.column_names == expected.column_names
        assert given.to_pylist() == expected.to_pylist()
        seen.add(str(expected.slice(0, 1).drop_columns(["user", "day", "then"]).to_pylist()))
    assert len(seen) == len(calls), "an argument that changes nothing is not tested"


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "table"])
def test_the_format_is_that_of_the_option_or_of_the_name(tmp_path: Path, format: str) -> None:
    timed = cities(tmp_path)
    put_parquet(tmp_path / "e.parquet")
    call = ("pit", timed.path, "--entities", f"{tmp_path}/e.parquet")
    by_name, by_option = tmp_path / f"a.{format}", tmp_path / "b.txt"
    succeeded(*call, "--output", str(by_name))
    succeeded(*call, "--output", str(by_option), "--format", format)
    assert by_name.read_bytes() == by_option.read_bytes()
    heads = {"json": b'{"label": 0.0, "id": 1,', "csv": b'"label","id",', "parquet": b"PAR1"}
    assert by_name.read_bytes().startswith(heads.get(format, b"label  id  event_timestamp"))


REFUSED = [
    ("e.txt", "id,event_timestamp\n", ".parquet, .csv, .arrow"),
    ("e.csv", "id,event_timestamp\n1,\n", "null in row 0"),
    ("e.csv", "id,event_timestamp\n1,1970-01-01\n1,tomorrow\n", "row 2"),
    ("e.csv", "id,event_timestamp\n1,1970-01-01\nx,1970-01-01\n", "row 2"),
    ("e.csv", "id,at\n1,1970-01-01\n", "'event_timestamp'"),
    ("e.csv", "nr,event_timestamp\n1,1970-01-01\n", "'id'"),
    ("e.csv", "id,id,event_timestamp\n1,2,1970-01-01\n", "'id'"),
    ("e.csv", "id,city,event_timestamp\n1,2,1970-01-01\n", "prefix"),
    ("e.csv", "", "e.csv"),
    ("e.parquet", "id,event_timestamp\n1,1970-01-01\n", "e.parquet"),
    ("e.arrow", "id,event_timestamp\n1,1970-01-01\n", "e.arrow"),
]


@pytest.mark.parametrize(("name", "text", "named"), REFUSED)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, name: str, text: str, named: str
) -> None:
    path = cities(tmp_path).path
    (tmp_path / name).write_text(text)
    output = tmp_path / "out.json"
    call = ("pit", path, "--entities", f"{tmp_path / name}", "--output", str(output))
    assert named in failed(*call)
    assert not output.exists()


def test_a_missing_file_and_an_old_output_are_refused(tmp_path: Path) -> None:
    path = cities(tmp_path).path
    assert "no.csv" in failed("pit", path, "--entities", f"{tmp_path}/no.csv")
    put_parquet(tmp_path / "e.parquet")
    call = ("pit", path, "--entities", f"{tmp_path}/e.parquet", "--output")
    assert "exists already" in failed(*call, f"{tmp_path}/e.parquet")
    assert "--event-time" in failed(
        *("pit", path, "--entities", f"{tmp_path}/e.parquet", "--basis", "event"),
        *("--event-time", "city=millis", "--event-time", "city=micros"),
    )
