"""What a fresh process takes: until its first rows are written, to import the package, to print its help.

CPU seconds of the whole process, the interpreter's own start included on both sides; wall seconds for the help. No
kernel is compiled before (their cache is empty); modules are (their .pyc files are there). Rivals are installed into a
virtual environment of their own in the user's cache; where that cannot be had, the row says why.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import ROOT, Row, paired, scratch
from benchmarks.rival import RivalAbsent
from benchmarks.rival_python import rival_python
from tests.documentation.test_readme import examples

ROUNDS = 9
_RIVALS = ("deltalake==1.6.6", "pylance==14.0.2", "pyarrow==26.0.1")

_ROWS = """
import sys, pyarrow as pa
rows = pa.table({"id": [1, 2], "clicks": pa.array([3, 5], pa.int32()), "city": ["Oslo", "Rome"]})
"""
_OURS = """
import widetable as wt
options = {"merge-engine": "partial-update", "bucket": "2"}
table = wt.Catalog(sys.argv[1]).create_table("d.t", rows.schema, primary_key=["id"], options=options)
table.write(rows)
"""
_THEIRS = {
    "delta-rs": "import deltalake\ndeltalake.write_deltalake(sys.argv[1] + '/t', rows)\n",
    "lance": "import lance\nlance.write_dataset(rows, sys.argv[1] + '/t.lance')\n",
}
_HELP = (
    "import sys\nsys.argv = ['widetable', '--help']\nfrom widetable.cli.app import main\nmain()\n"
)


def run() -> list[Row]:
    with scratch("start") as work:
        return [
            *(_first_write(rival, work) for rival in _THEIRS),
            _alone("example of the README", examples(work)[0], 3.0, work),
            _over_pyarrow("import widetable", "import widetable", work),
            _over_pyarrow(
                "import widetable, its engine", "import widetable\nwidetable.Table", work
            ),
            _alone("widetable --help, wall", _HELP, 0.4, work, _wall_seconds),
        ]


def _first_write(rival: str, work: Path) -> Row:
    def ours() -> float:
        return _cpu_seconds(sys.executable, _ROWS + _OURS, work)

    try:
        python = rival_python("start", _RIVALS)
    except RivalAbsent as absent:
        return Row("first write", f"{ours():.2f} s CPU", f"{rival} not measured: {absent}")
    taken, theirs, ratio, pairs = paired(
        ours, lambda: _cpu_seconds(python, _ROWS + _THEIRS[rival], work), ROUNDS
    )
    return Row(
        "first write",
        f"{taken:.2f} s CPU",
        f"{rival} {theirs:.2f} s CPU",
        ratio,
        "≤ 3 s",
        taken <= 3,
        {"pairs": pairs},
    )


def _over_pyarrow(name: str, program: str, work: Path) -> Row:
    taken, theirs, _, pairs = paired(
        lambda: _cpu_seconds(sys.executable, "import pyarrow\n" + program, work),
        lambda: _cpu_seconds(sys.executable, "import pyarrow\n", work),
        ROUNDS,
    )
    over = statistics.median(ours - pyarrow for ours, pyarrow in pairs)
    ours, theirs_text = f"{taken:.2f} s CPU", f"pyarrow {theirs:.2f} s CPU: {over:.2f} s over it"
    return Row(name, ours, theirs_text, None, "≤ 0.3 s over", over <= 0.3, {"pairs": pairs})


def _alone(
    name: str,
    program: str,
    most_seconds: float,
    work: Path,
    seconds_of: Callable[[str, str, Path], float] | None = None,
) -> Row:
    measure = seconds_of or _cpu_seconds
    runs = [measure(sys.executable, program, work) for _ in range(ROUNDS)]
    taken = statistics.median(runs)
    unit = "s CPU" if measure is _cpu_seconds else "s"
    details = {"runs": runs}
    return Row(
        name,
        f"{taken:.2f} {unit}",
        target=f"≤ {most_seconds:g} s",
        ok=taken <= most_seconds,
        details=details,
    )


def _cpu_seconds(python: str, program: str, work: Path) -> float:
    before = os.times()
    _run(python, program, work)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def _wall_seconds(python: str, program: str, work: Path) -> float:
    start = time.perf_counter()
    _run(python, program, work)
    return time.perf_counter() - start


def _run(python: str, program: str, work: Path) -> None:
    """In a new directory, with an empty cache of kernels."""
    folder = tempfile.mkdtemp(dir=work)
    command = [python, "-c", program.replace(str(work), folder), folder]
    kernels = {"NUMBA_CACHE_DIR": f"{folder}/kernels", "PYTHONPATH": _SOURCES}
    subprocess.run(
        command, env={**os.environ, **kernels}, cwd=folder, stdout=subprocess.DEVNULL, check=True
    )


_SOURCES = os.pathsep.join(map(str, (ROOT, ROOT / "lookup", ROOT / "spark")))
