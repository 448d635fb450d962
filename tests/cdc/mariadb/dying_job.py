"""A process that runs a job, and kills itself (SIGKILL, no clean-up) before or after a named step.

    python -m tests.cdc.mariadb.dying_job CONFIG.json [STEP before|after CALL]

It ends with 0 when the job has caught up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final

from widetable_cdc import Sync
from widetable_cdc.debezium.debezium_apply import DebeziumJob
from widetable_cdc.embedded.engine_state import EngineStates
from widetable_cdc.embedded.engine_tables import EngineTables

STEPS: Final[dict[str, tuple[Any, str]]] = {
    "table committed": (DebeziumJob, "applied"),
    "rows filled": (EngineTables, "_fill"),
    "state saved": (EngineStates, "save"),
}


@dataclass(frozen=True)
class DeathPoint:
    """Where a job dies: before or after the call of a step, of which `call` come first."""

    step: str
    when: str
    call: int = 0

    def __str__(self) -> str:
        return f"{self.when} {self.step} {self.call}"


def job_ends(config: Mapping[str, Any], folder: Path, point: DeathPoint | None) -> int:
    """Run a job in a process of its own; return its exit code, -9 for a kill."""
    file = folder / "job.json"
    file.write_text(json.dumps(config))
    words = [] if point is None else [point.step, point.when, str(point.call)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "tests.cdc.mariadb.dying_job", str(file), *words]
    return subprocess.run(command, env=environment, check=False).returncode


def _arm(point: DeathPoint) -> None:
    owner, name = STEPS[point.step]
    original, left = getattr(owner, name), point.call

    @wraps(original)
    def dying(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        dies = left == -1
        if dies and point.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **named)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, dying)


def main() -> None:
    """Run the job of the command line."""
    if len(sys.argv) > 2:
        _arm(DeathPoint(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    Sync(json.loads(Path(sys.argv[1]).read_text())).run("caught-up")


if __name__ == "__main__":
    main()
