"""What is imported when: Spark's workers need no change data capture, and Debezium's records no driver."""

from __future__ import annotations

import subprocess
import sys

import pytest

import widetable_cdc
from widetable_cdc.public_names import HOMES

DRIVERS = ("psycopg", "adbc_driver_postgresql", "adbc_driver_manager")


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import widetable_spark", ("widetable_cdc", *DRIVERS)),
        ("import widetable_spark\nwidetable_spark.cdc_apply", DRIVERS),
        ("import widetable_cdc\nwidetable_cdc.apply_debezium", DRIVERS),
        ("import widetable_cdc\nwidetable_cdc.read_config", DRIVERS),
    ],
)
def test_an_import_brings_no_more_than_it_needs(program: str, absent: tuple[str, ...]) -> None:
    test = f"{program}\nimport sys\nprint([name for name in {absent!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", test], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr


def test_each_public_name_has_a_module() -> None:
    assert sorted(HOMES) == sorted(widetable_cdc.__all__)
    assert all(getattr(widetable_cdc, name) is not None for name in widetable_cdc.__all__)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        _ = widetable_cdc.Nothing  # type: ignore[attr-defined]
