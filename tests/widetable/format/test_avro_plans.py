"""Plans that are kept from one file to the next: each file is decoded by its own schema."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from tests.support.models.plain_rows import plain
from widetable.errors import DamagedError
from widetable.format import avro_plans
from widetable.format.avro_file import read_avro
from widetable.format.avro_schema import field

OURS = {"type": "record", "name": "r", "fields": [field("n", "long"), field("s", "string")]}
TURNED = {**OURS, "fields": OURS["fields"][::-1]}
RECORDS = [{"n": number // 3, "s": f"text {number // 2}"} for number in range(40)]


def file_of(schema: dict[str, Any], records: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records)
    return out.getvalue()


@pytest.mark.parametrize("count", [0, 1, 16, 17, 40])
def test_files_whose_fields_come_in_other_orders_are_read_in_turn(count: int) -> None:
    records = RECORDS[:count]
    expected = {name: [record[name] for record in records] for name in ("n", "s")}
    for _ in range(2):
        for schema in (OURS, TURNED):
            assert plain(read_avro(file_of(schema, records), OURS, "m")) == expected


def test_a_schema_that_does_not_fit_is_refused_each_time() -> None:
    wrong = {**OURS, "fields": [field("n", "string"), field("s", "string")]}
    data = file_of(wrong, [{"n": "1", "s": "2"}])
    for subject in ("first", "second"):
        with pytest.raises(DamagedError, match=subject):
            read_avro(data, OURS, subject)


def test_plans_of_ever_new_schemas_do_not_pile_up() -> None:
    for number in range(200):
        more = {**OURS, "fields": [*OURS["fields"], field(f"more_{number}", "long")]}
        record = {"n": number, "s": "x", f"more_{number}": 1}
        assert read_avro(file_of(more, [record]), OURS, "m")["n"] == [number]
    assert len(avro_plans._PLANS) <= 64
