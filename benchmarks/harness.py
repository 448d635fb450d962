"""Timing, pairing, machine facts and output of the benchmarks.

The machines are shared and the same run differs two- or threefold, so every comparison is paired:
both sides run one after the other in each
round, the ratio is taken per round, and the median over the rounds is reported with the medians of both sides.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "bench"
REPORT = ROOT / "build" / "bench.json"
_CACHES = "WIDETABLE_CACHE_DIR"


class Size(Enum):
    """How much a workload does: FULL for numbers, SHORT for a look (a minute at most), TINY to see that it runs."""

    FULL = "full"
    SHORT = "short"
    TINY = "tiny"


@dataclass
class Row:
    """One line of the table. ratio: ours to theirs as the target states it; target: text; ok: None
    when there is no target.
    """

    name: str
    ours: str
    theirs: str = ""
    ratio: float | None = None
    target: str = ""
    ok: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class Timing:
    """Wall and CPU seconds of one call, children's CPU not included."""

    wall: float
    cpu: float


def timed(call: Callable[[], object]) -> Timing:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Timing(time.perf_counter() - wall, time.process_time() - cpu)


def paired(
    ours: Callable[[], float], theirs: Callable[[], float], rounds: int
) -> tuple[float, float, float, list[tuple[float, float]]]:
    """Runs both sides alternately; each returns its own seconds. Gives medians of ours, theirs, of
    theirs/ours, and all pairs.
    """
    pairs = []
    for number in range(rounds):
        # Alternate who goes first: the second of a pair finds warmer page caches.
        if number % 2 == 0:
            first = ours()
            pairs.append((first, theirs()))
        else:
            second = theirs()
            pairs.append((ours(), second))
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(b / a for a, b in pairs),
        pairs,
    )


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """An empty directory below build/bench, removed afterwards; lookup caches of tables lie there too meanwhile."""
    path = WORK / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    before = os.environ.get(_CACHES)
    os.environ[_CACHES] = str(path / "caches")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.environ.pop(_CACHES)
        if before is not None:
            os.environ[_CACHES] = before


def linked_copy(source: Path, target: Path) -> Path:
    """A copy of a table's directory whose files are hard links: cheap, and safe because files are
    never changed in place.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)
    return target


def child_json(module: str, *arguments: object) -> dict[str, Any]:
    """Runs `python -m module arguments` in a fresh process and parses the last line that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ},
    )
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


class PeakMemory:
    """Peak anonymous memory (RssAnon) of this process while the block runs, sampled every 2 ms.

    Not ru_maxrss: a child starts with its parent's, and mapped files count there.
    """

    def __enter__(self) -> PeakMemory:
        self.before_bytes = self.peak_bytes = _anonymous_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.002):
            self.peak_bytes = max(self.peak_bytes, _anonymous_bytes())


def _anonymous_bytes() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no RssAnon")


def machine() -> dict[str, Any]:
    model = "unknown"
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "load": os.getloadavg(),
    }


def write_json(rows: list[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(
            {"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=2, default=str
        )
        + "\n"
    )


def print_table(rows: list[Row]) -> None:
    header = ("what", "ours", "theirs", "ratio", "target", "")
    lines = [header]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        verdict = {None: "", True: "reached", False: "NOT reached"}[row.ok]
        lines.append((row.name, row.ours, row.theirs, ratio, row.target, verdict))
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def report(rows: list[Row]) -> None:
    """Print the rows of a run as a table, and write them to REPORT."""
    print()
    print_table(rows)
    write_json(rows, REPORT)
    print(f"written to {os.path.relpath(REPORT)}")
