"""What all tests share: one printed seed, Hypothesis profiles, and the Python and Java that Spark starts.

The seed is taken from WIDETABLE_SEED, else drawn; it is printed in the head of every run and again
below failures. `rng` and Hypothesis both come from it, so the printed command repeats a run.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from tests.object_stores.s3_server import s3_server
from tests.support.programs import spark_home, tiers
from tests.support.programs.built_site import built_site
from tests.support.programs.tallies import Note, lines, note_of

ROOT = Path(__file__).resolve().parent.parent
SEED = int(os.environ.get("WIDETABLE_SEED") or random.SystemRandom().randrange(2**32))

# A commit of two buckets syncs 17 files, for which tests would wait half of their time: files lie in memory if 4 GiB
# of it are free.
_MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= 4 << 30:
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

_MOST_SAID = 20_000  # characters
_SLOW_MACHINE = (HealthCheck.too_slow, HealthCheck.data_too_large)
for _name, _examples in (("quick", 5), ("default", 15), ("thorough", 2000)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,  # the first call of a kernel compiles it
        print_blob=True,
        suppress_health_check=_SLOW_MACHINE,
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before Hypothesis reads its options, and before anything starts Spark."""
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(SEED)
    os.environ["WIDETABLE_SEED"] = str(SEED)  # of the processes that run tests side by side too
    # Spark would start `python3` of PATH in its workers.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # A program that a signal ends says where it was.
    os.environ.setdefault("PYTHONFAULTHANDLER", "1")
    # Lookup caches of all processes that tests start; not among those of the user.
    if "WIDETABLE_CACHE_DIR" not in os.environ:
        caches = tempfile.mkdtemp(prefix="widetable-test-caches-")
        os.environ["WIDETABLE_CACHE_DIR"] = caches
        config.add_cleanup(lambda: shutil.rmtree(caches, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that share a Spark session come first: one process runs them first, and few start it.

    Then those that are slow, so that no process runs one while the others have nothing left.
    """
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.path.is_relative_to(ROOT / "tests/spark"):
        return 0
    return 1 if item.get_closest_marker("slow") else 2


def pytest_report_header() -> str:
    profile = os.environ.get("HYPOTHESIS_PROFILE", "default")
    return f"seed: {SEED} (repeat with WIDETABLE_SEED={SEED}), Hypothesis profile: {profile}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """How many examples a test of Hypothesis takes."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        note_of(lambda *noted: item.user_properties.append(noted))(cases=settings().max_examples)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """With the versions of `make floor`, what a newer one is asked for by name is no failure."""
    try:
        yield
    except Exception as error:
        refusal = re.search(r"expected (pyarrow \d+|Spark \d\.\d) or newer", str(error))
        if refusal is None or not os.environ.get("WIDETABLE_FLOOR"):
            raise
        pytest.skip(refusal[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a program had said that a test ran and that failed."""
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, subprocess.CalledProcessError | subprocess.TimeoutExpired):
        for name, said in (("output", error.stdout), ("errors", error.stderr)):
            if said:
                text = said.decode(errors="replace") if isinstance(said, bytes) else said
                report.sections.append((f"{name} of the program", text[-_MOST_SAID:]))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.environ.get("WIDETABLE_CAMPAIGN"):
        stats = terminalreporter.stats
        for line in lines([*stats.get("passed", []), *stats.get("failed", [])], SEED):
            terminalreporter.write_line(line)
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"repeat with: WIDETABLE_SEED={SEED}")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test alone: the same for the same seed, whatever else runs."""
    return random.Random(f"{SEED} {request.node.nodeid}")


@pytest.fixture
def tally(record_property: Note) -> Note:
    """Call it with what the test has done: tally(cases=10, kills=2)."""
    return note_of(record_property)


@pytest.fixture(scope="session")
def java_home() -> Iterator[str]:
    """JAVA_HOME for Spark, set for as long as the session lasts. Everything that starts Spark asks for it."""
    home: str = _load_alone(ROOT / "spark/widetable_spark/startup/java_home.py").find_java_home()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_home.variables(home).items():
            patch.setenv(name, value)
        yield home


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site as `make docs` builds it: once for all processes that run tests side by side."""
    folder = tmp_path_factory.getbasetemp()
    return built_site(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)


@pytest.fixture(scope="session")
def server() -> Iterator[int]:
    """The port of an S3 server: one for the tests of a process."""
    with s3_server() as port:
        yield port


@pytest.fixture(scope="session")
def interop_python() -> str:
    """The interpreter of .venv/interop, where pypaimon is installed with the versions it asks for."""
    python = ROOT / ".venv/interop/bin/python"
    if not python.exists():
        pytest.fail(f"{python} is missing; run: make setup")
    return str(python)


def _load_alone(path: Path) -> ModuleType:
    """One module by its file, without its package: a broken package must not stop other tests."""
    spec = importlib.util.spec_from_file_location(f"_alone_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=tiers.TIERS)
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of their two tiers kernels run in: what uses it runs twice."""
    tiers.only(request.param, monkeypatch)
    return str(request.param)
