"""The wheel is whole: installed outside the checkout and shipped to Spark's workers, it writes and reads.

Two virtual environments are made beside the wheel, one for the driver with the wheel installed, one for
the workers without it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.documentation.test_readme import examples
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.faults.unprivileged import read_only, without_privileges
from tests.support.programs.wheel_environment import (
    ROOT,
    built_wheel,
    environment_without_checkout,
    succeed,
)

pytestmark = pytest.mark.wheel


def run(
    *command: str | Path,
    cwd: Path,
    prepare: Callable[[], None] | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Runs without the variables that would let the checkout in; standard error is shown on failure."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        preexec_fn=prepare,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("dist"))


def test_wheel_holds_every_module_and_marker(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    for folder in (
        "widetable",
        "cdc/widetable_cdc",
        "ml/widetable_feast",
        "lookup/widetable_lookup",
        "meta/widetable_meta",
        "spark/widetable_spark",
        "spark/pyspark_widetable",
    ):
        package = ROOT / folder
        wanted = {path.relative_to(package.parent).as_posix() for path in package.rglob("*.py")}
        assert wanted | {f"{package.name}/py.typed"} <= held
    assert "widetable_meta/page.html" in held
    assert not [name for name in held if "docs/site/" in name]  # it builds the site
    pages = (ROOT / "docs").rglob("*.md")
    assert {f"widetable/{page.relative_to(ROOT).as_posix()}" for page in pages} <= held
    assert {name.split("/")[0].partition("-")[0] for name in held} == {
        "widetable",
        "widetable_cdc",
        "widetable_feast",
        "widetable_lookup",
        "widetable_meta",
        "widetable_spark",
        "pyspark_widetable",
    }


# More rows than are interpreted: kernels are compiled, and kept where this process may write.
MANY_ROWS = """
table.write(pa.table({"id": range(5000), "city": ["Bern"] * 5000, "moved_at": [11] * 5000}))
print(table.scan().to_arrow().num_rows, "rows")
"""


@pytest.mark.slow
def test_a_read_only_installation_without_a_home_runs_the_example(
    wheel: Path, tmp_path: Path
) -> None:
    installed, work = tmp_path / "installed", tmp_path / "work"
    python = environment_without_checkout(installed, wheel)
    work.mkdir()
    nowhere = str(installed / "home")
    with read_only(installed):
        answer = run(
            python,
            "-c",
            examples(work)[0] + MANY_ROWS,
            cwd=work,
            prepare=without_privileges(),
            HOME=nowhere,
            XDG_CACHE_HOME=nowhere,
            TMPDIR=str(work),
            WIDETABLE_CACHE_DIR="",  # that of the tests
        )
    assert "5000 rows" in succeed(answer)
    assert not list(installed.rglob("*.nbi"))
    assert list(work.glob("widetable-kernels-*/*/*.nbi"))


@pytest.mark.slow
def test_wheel_shipped_to_the_workers_writes_and_reads(
    wheel: Path, tmp_path: Path, java_home: str
) -> None:
    driver = environment_without_checkout(tmp_path / "driver", wheel)
    worker = environment_without_checkout(tmp_path / "worker")
    # Spark ships archives named .zip; under another name they do not reach the workers' path.
    archive = shutil.copy(wheel, tmp_path / "widetable.zip")
    program = shutil.copy(
        ROOT / "tests/support/programs/wheel_driver.py", tmp_path / "application.py"
    )

    answer = run(
        driver,
        program,
        archive,
        worker.parent,
        tmp_path / "warehouse",
        cwd=tmp_path,
        JAVA_HOME=java_home,
        PATH=f"{driver.parent}:/usr/bin:/bin",
        PYSPARK_PYTHON="python3",
        SPARK_WORKER_DIR=str(tmp_path / "work"),
    )

    facts = json.loads(succeed(answer).splitlines()[-1])
    assert facts["driver"].startswith(f"{tmp_path}/driver {tmp_path}/driver/lib/")
    assert facts["worker"].startswith(f"{tmp_path}/worker ")
    assert "widetable.zip/widetable/" in facts["worker"]
    assert facts["snapshots"] == 2
    expected = [[id_, id_ * 10, f"s{id_}" if id_ < 3 else None] for id_ in range(5)]
    assert facts["spark"] == expected
    assert facts["arrow"] == expected
