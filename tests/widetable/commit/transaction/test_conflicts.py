"""The conflict rules, as scripts, and keys of every type that may be one."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.models.row_values import row_of
from tests.support.programs.scripts import check_script
from tests.widetable.commit.transaction.fake_table import KEY_TYPES, added, data_file, region
from widetable.commit.transaction.conflicts import check
from widetable.errors import DamagedError
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry
from widetable.schema.types import parse_type

SCRIPT = Path(__file__).parents[3] / "testdata/conflicts/check.txt"
KINDS = {"live": ADD, "add": ADD, "delete": DELETE}


def entry(line: str) -> ManifestEntry:
    """One line of the script."""
    kind, name, level, keys, *more = line.split()
    bounds = re.fullmatch(r"(-?\d+)-(-?\d+)", keys)
    assert bounds is not None, line
    facts = dict(fact.split("=") for fact in more)
    assert facts.keys() <= {"bucket", "partition", "total"}, line
    file = data_file(name, level=int(level), low=int(bounds[1]), high=int(bounds[2]), sequence=1)
    partition, bucket = region(facts.get("partition", "eu")), int(facts.get("bucket", 0))
    return ManifestEntry(KINDS[kind], partition, bucket, int(facts.get("total", 4)), file)


def answer(command: tuple[str, ...]) -> str:
    assert command[0] == "check"
    live = [entry(line) for line in command[1:] if line.startswith("live")]
    delta = [entry(line) for line in command[1:] if not line.startswith("live")]
    conflict = check(delta, live, KEY_TYPES)
    return "fits" if conflict is None else f"{conflict.kind}: {' '.join(conflict.files)}"


def test_script() -> None:
    check_script(SCRIPT, answer)


# Neighbours in the order of each type, where another order would be near at hand.
ORDERED: list[tuple[str, list[Any]]] = [
    ("INT", [-(2**31), -1, 0, 1, 256, 2**31 - 1]),
    ("STRING", ["", "A", "a", "aa", "b", "é", "\uffee", "\U0001f600"]),
    ("BYTES", [b"", b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"]),
    ("DOUBLE", [float("-inf"), -1.5, -0.0, 0.0, 5e-324, 1.5, float("inf"), float("nan")]),
    (
        "DECIMAL(20, 2)",
        [Decimal("-10.00"), Decimal("-9.99"), Decimal("0.00"), Decimal("9.00"), Decimal("10.00")],
    ),
    ("DATE", [datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)]),
    ("TIMESTAMP(6)", [-1, 0, 1, 10**15]),
    ("BOOLEAN", [False, True]),
]


@pytest.mark.parametrize(("type_text", "values"), ORDERED, ids=[name for name, _ in ORDERED])
def test_keys_are_ordered_as_files_are_sorted(type_text: str, values: list[Any]) -> None:
    types = [parse_type(type_text), parse_type("INT")]

    def file(name: str, low: Any, high: Any) -> ManifestEntry:

        bounds = row_of([low, 5], types), row_of([high, 5], types)
        return added(data_file(name, level=5)._replace(min_key=bounds[0], max_key=bounds[1]))

    beside = [file(str(index), value, value) for index, value in enumerate(values)]
    assert check(beside[::-1], [], types) is None
    for index in range(len(values) - 1):
        around = file("around", values[0], values[index + 1])
        conflict = check([around], beside[index + 1 : index + 2], types)
        assert conflict is not None
        assert conflict.kind == "overlap"
        assert check([file("before", values[0], values[index])], beside[index + 1 :], types) is None


def test_a_key_that_is_no_row_names_its_file() -> None:
    with pytest.raises(DamagedError, match="broken"):
        check([added(data_file("broken", level=5))], [], [parse_type("INT"), parse_type("INT")])
