"""Paimon's own Java, fetched when a benchmark or `make interop-java` asks for it: jars into a cache of this user, never
into the tree.

In: a version, a JDK (JAVA_HOME, else the javac of PATH) and Maven with its registry. Out: a process that writes
prepared rows (rival/LookupChangelog.java), or the command line that starts other sources. `RivalAbsent` says why there
is none; a benchmark then prints "not measured" and that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, WORK

NEWEST, OLDEST = "1.4.2", "0.9.0"
_SOURCE = ROOT / "benchmarks" / "rival" / "LookupChangelog.java"
_HADOOP = "3.3.6"
_FETCH_SECONDS, _HEAP = 300, "6g"


class RivalAbsent(Exception):
    """The rival cannot be had here; the text says why."""


class Rival:
    """One Java process with one table. Close it with `with`."""

    def __init__(self, version: str, mode: str, log: Path) -> None:
        """mode: `batch`, a writer per commit, or `stream`, one writer for all. log: for the errors of Java."""
        command = java_command(version, [_SOURCE], WORK)
        self.jar = jars(version)[0]
        self._mode, self._log = mode, log
        with open(log, "w") as errors:
            self._process = subprocess.Popen(
                [*command, f"-Xmx{_HEAP}", _SOURCE.stem],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Rival:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def open(self, warehouse: Path, example: Path) -> Path:
        """A new table below `warehouse` with the columns of the rows in file `example`; gives its directory."""
        self._ask("open", self._mode, str(warehouse), str(example))
        return warehouse / "bench.db" / "changelog"

    def commit(self, rows: Path) -> float:
        """Seconds of writing the rows of a file in one commit, compaction and changelog included."""
        return float(self._ask("commit", str(rows))["seconds"])

    def cpu_seconds(self) -> float:
        """CPU time of the process so far, all threads."""
        with open(f"/proc/{self._process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close_table(self) -> None:
        self._ask("close")

    def _ask(self, *command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the rival died:\n{self._log.read_text()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def jars(version: str) -> tuple[Path, list[Path]]:
    """Paimon's jar and those that it needs, fetched by Maven if they are not there. Raises RivalAbsent."""
    paimon = jar("org.apache.paimon", "paimon-bundle", version)
    others = [
        jar("org.apache.hadoop", "hadoop-client-api", _HADOOP),
        jar("org.apache.hadoop", "hadoop-client-runtime", _HADOOP),
        jar("commons-logging", "commons-logging", "1.2"),  # Hadoop's, when it opens ORC files
        jar("org.slf4j", "slf4j-api", "1.7.36"),
    ]
    return paimon, others


def cache_directory() -> Path:
    """Where jars stay between runs: WIDETABLE_BENCH_CACHE, else below the user's cache directory."""
    given = os.environ.get("WIDETABLE_BENCH_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(given) if given else Path(home) / "widetable-bench"


def jar(group: str, name: str, version: str) -> Path:
    """A jar by its Maven coordinates, fetched if it is not there. Raises RivalAbsent."""
    repository = cache_directory() / "maven"
    file = repository.joinpath(*group.split("."), name, version, f"{name}-{version}.jar")
    if file.exists():
        return file
    maven = shutil.which("mvn")
    if maven is None:
        raise RivalAbsent(f"no mvn on PATH to fetch {name} {version} with")
    command = [maven, "-q", "-B", f"-Dmaven.repo.local={repository}", "-Dtransitive=false"]
    command += ["dependency:get", f"-Dartifact={group}:{name}:{version}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise RivalAbsent(f"Maven did not bring {name} {version} in time") from late
    if done.returncode != 0 or not file.exists():
        first = next((line for line in done.stdout.splitlines() if "ERROR" in line), "no word why")
        raise RivalAbsent(f"Maven did not bring {name} {version}: {first}")
    return file


def _program(name: str) -> str:
    """The path of java or javac, of JAVA_HOME or PATH. Raises RivalAbsent."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin")) if home else shutil.which(name)
    found = found or shutil.which(name)
    if found is None:
        raise RivalAbsent(f"no {name} in JAVA_HOME or on PATH: a JDK of 11 or newer is needed")
    return found


def java_command(
    version: str, sources: Sequence[Path], folder: Path, beside: Sequence[Path] = ()
) -> list[str]:
    """What starts a class of the sources, but its name: they are compiled into a new directory below `folder`.
    beside: more jars to run with. Raises RivalAbsent.
    """
    paimon, others = jars(version)
    folder.mkdir(parents=True, exist_ok=True)
    classes = Path(tempfile.mkdtemp(prefix=f"rival-{version}-", dir=folder))
    done = subprocess.run(
        [_program("javac"), "-nowarn", "-d", str(classes), "-cp", str(paimon), *map(str, sources)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RivalAbsent(f"javac refused the driver for Paimon {version}: {done.stderr[-500:]}")
    return [_program("java"), "-cp", os.pathsep.join(map(str, [classes, paimon, *others, *beside]))]
