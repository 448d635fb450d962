"""The example of docs/enrich-a-stream.md runs as it stands, also with workers that start warm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.documentation.test_readme import SUBMIT, UNSET, run
from tests.support.programs.pages import code

# Of a worker: whether the warm daemon forked it, whether loops are loaded (the rows are too few for that), threads.
STATE = """
def state(batches):
    import os, threading, psutil
    from widetable.kernels.compiler import COMPILER
    parent = " ".join(psutil.Process(os.getppid()).cmdline())
    facts = ["warm_daemon" in parent, len(COMPILER.dispatchers) > 9, threading.active_count()]
    yield pa.RecordBatch.from_pydict({"facts": [str(facts)]})

print(spark.range(1, numPartitions=1).mapInArrow(state, "facts string").collect()[0][0])
"""


def environment() -> dict[str, str]:
    found = {key: value for key, value in os.environ.items() if key not in UNSET}
    return {**found, "PYSPARK_SUBMIT_ARGS": f"{SUBMIT} pyspark-shell"}


def example(folder: Path, *, is_warm: bool) -> str:
    """All blocks of the page; the last makes a session whose workers start warm, which is the session of all then."""
    joined, patient, warm = code("docs/enrich-a-stream.md")
    imports = "import widetable_spark\nfrom pyspark.sql import SparkSession\n"
    text = (imports + warm if is_warm else "") + joined + patient
    return text.replace("/tmp/", f"{folder}/")


@pytest.mark.slow
@pytest.mark.usefixtures("java_home")
def test_the_example_runs_in_workers_that_start_warm(tmp_path: Path) -> None:
    out = run(example(tmp_path, is_warm=True) + STATE, tmp_path, environment()).splitlines()
    assert out[2:] == ["[True, True, 1]"]
    assert out[:2] == ["100 1 9.5 Ann Oslo", "101 1 3.0 Ann Bergen"]


@pytest.mark.slow
@pytest.mark.usefixtures("java_home")
def test_the_example_runs_in_workers_of_spark(tmp_path: Path) -> None:
    out = run(example(tmp_path, is_warm=False) + STATE, tmp_path, environment()).splitlines()
    assert out[2:] == ["[False, False, 1]"]
    assert out[:2] == ["100 1 9.5 Ann Oslo", "101 1 3.0 Ann Bergen"]
