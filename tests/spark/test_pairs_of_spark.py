"""Spark as one of the features that meet in a table: scenarios of tests/pairs in which it writes or reads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import SEED
from tests.object_stores.s3_server import ACCESS_KEY, SECRET_KEY
from tests.pairs.array import scenarios
from tests.pairs.dimensions import OF_SPARK, PLAIN
from tests.pairs.environments import OTHER_ZONE
from tests.pairs.life import Life
from tests.pairs.other_clients import Others
from tests.pairs.pypaimon_client import PypaimonClient
from tests.pairs.scenario import play
from tests.spark.spark_client import SparkClient
from tests.support.models.random_table import rows_of, texts
from tests.support.programs.tallies import Note

ZONE: Final = "spark.sql.session.timeZone"
SCENARIOS = scenarios(of_spark=True)
NUMBERS = [
    pytest.param(number, marks=[pytest.mark.interop] if "pypaimon" in row.values() else [])
    for number, row in enumerate(SCENARIOS)
]


@pytest.fixture(scope="module")
def pypaimon(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PypaimonClient]:
    folder = tmp_path_factory.mktemp("pypaimon")
    with PypaimonClient(lambda: str(request.getfixturevalue("interop_python")), folder) as client:
        yield client


@pytest.fixture
def storage(server: int) -> dict[str, str]:
    """Where the environment says nothing."""
    return {
        "s3.endpoint": f"http://127.0.0.1:{server}",
        "s3.access-key": ACCESS_KEY,
        "s3.secret-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }


@pytest.mark.parametrize("number", NUMBERS)
def test_what_meets_spark_says_what_the_model_says(
    tmp_path: Path,
    number: int,
    spark: SparkSession,
    pypaimon: PypaimonClient,
    request: pytest.FixtureRequest,
    tally: Note,
) -> None:
    environment = SCENARIOS[number]["environment"]
    stored = environment == "object store"
    client = SparkClient(spark, tmp_path, request.getfixturevalue("storage") if stored else {})
    others = Others(
        writers={
            "pypaimon": pypaimon.write,
            "spark batch": client.write_batch,
            "spark stream": client.write_stream,
        },
        readers={
            "pypaimon": pypaimon.read,
            "spark read": client.read,
            "spark condition": client.read_condition,
            "spark source": client.read_source,
            "spark lookup join": client.join,
        },
        followers={"spark changes": client.changes},
        server=lambda: int(request.getfixturevalue("server")),
    )
    with session_in(spark, environment):
        play(SCENARIOS[number], random.Random(f"{SEED} spark {number}"), tmp_path / "wh", others)
    tally(cases=1)


@pytest.mark.parametrize("client", OF_SPARK["client"])
def test_spark_does_not_write_dynamic_buckets(
    tmp_path: Path, spark: SparkSession, client: str
) -> None:
    """The pair of tests.pairs.rules; each task would give new keys buckets of its own."""
    writers = SparkClient(spark, tmp_path, {})
    others = Others({"spark batch": writers.write_batch, "spark stream": writers.write_stream})
    row = PLAIN | {"bucket": "dynamic", "client": client}
    life = Life(row, random.Random("refused"), str(tmp_path / "wh"), others)
    life.create()
    life.write()
    with pytest.raises(PySparkException, match="UnsupportedError: option 'bucket': found -1"):
        life.write_by_another_client()
    assert rows_of(life.table) == texts(life.model.rows())


@contextmanager
def session_in(spark: SparkSession, environment: str) -> Iterator[None]:
    """Another zone is the session's, too."""
    before = spark.conf.get(ZONE)
    assert before is not None
    if environment == "another zone":
        spark.conf.set(ZONE, OTHER_ZONE)
    try:
        yield
    finally:
        spark.conf.set(ZONE, before)
