"""A process under the shim that forks a child for each case: `python -m tests.failing_system.process`.

Each line on its standard input is JSON: [folder, log, fault or null]. The child does the work in the folder with the
fault; the answer is a line of JSON: {status, met, seen}; met and seen are null when the child was killed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.failing_system.faults import Call, Fault, Mode, Shim
from tests.failing_system.workload import Work, create

# A child that takes longer hangs; it then says where, and is killed.
HANG_SECONDS = 600


def main() -> None:
    shim = Shim()
    with tempfile.TemporaryDirectory() as folder:  # loads and compiles what every child needs
        os.environ["WIDETABLE_CACHE_DIR"] = f"{folder}/caches"
        create(Path(folder))
        Work(Path(folder), Path(f"{folder}/log")).run()
    for line in sys.stdin:
        folder, log, fault = json.loads(line)
        sys.stdout.write(json.dumps(_forked(shim, folder, log, fault)) + "\n")
        sys.stdout.flush()


def _forked(shim: Shim, folder: str, log: str, fault: list[int] | None) -> dict[str, object]:
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        os.environ["WIDETABLE_CACHE_DIR"] = f"{folder}/caches"
        work = Work(Path(folder), Path(log))
        shim.arm(folder, None if fault is None else _fault(*fault))
        work.run()
        shim.disarm()
        Path(f"{log}.met").write_text(json.dumps([shim.met, shim.seen()]))
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    counted = Path(f"{log}.met")
    met, seen = json.loads(counted.read_text()) if counted.exists() else (None, None)
    return {"status": status, "met": met, "seen": seen}


def _fault(call: int, mode: int, number: int, error: int) -> Fault:
    return Fault(Call(call), Mode(mode), number, error)


if __name__ == "__main__":
    main()
