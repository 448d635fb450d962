"""Plans of a derived job: which barrier of its sources it takes after which. One file each, never changed.

On disk (other clients never look there), in the first table that the job writes into:

    service/widetable-barrier-plan-<job, escaped>-<barrier> = JSON object {"barrier": the next one}

All sources of the job end a batch at the barrier of the plan, and after a restart at the same one. Who makes it is
published exclusively: of several one is there. Source: rule R9 of docs/consistency.md. Raises DamagedError for a plan
that cannot be read, StorageError.
"""

from __future__ import annotations

from typing import Final

from widetable.commit.json_note import JsonNote, is_id
from widetable.errors import NotFoundError
from widetable.job_names import barrier_of_plan
from widetable.paths import TablePaths
from widetable.storage.file_io import FileIO

_NOTE: Final = JsonNote(
    "plan of a job", {"barrier": is_id}, "Delete it: the job then chooses a barrier anew."
)


class BarrierPlans:
    """Of one job, in its first table."""

    def __init__(self, file_io: FileIO, paths: TablePaths, job: str) -> None:
        self._file_io = file_io
        self._paths = paths
        self._job = job

    def after(self, barrier: int) -> int | None:
        """What comes after a barrier, 0 for the start; None where nobody has said it."""
        path = self._paths.barrier_plan(self._job, barrier)
        try:
            data = self._file_io.read(path)
        except NotFoundError:
            return None
        found: int = _NOTE.from_json(data, path)["barrier"]
        return found

    def before(self, barrier: int) -> int | None:
        """After which one a barrier was planned; None where no plan says it."""
        for planned in self._barriers():
            if self.after(planned) == barrier:
                return planned
        return None

    def decide(self, barrier: int, chosen: int) -> int:
        """Say what comes after a barrier, unless somebody has; which it is."""
        path = self._paths.barrier_plan(self._job, barrier)
        if self._file_io.publish(path, _NOTE.to_json(path, {"barrier": chosen})):
            return chosen
        found = self.after(barrier)
        return chosen if found is None else found

    def forget(self, before: int | None = None) -> None:
        """Delete those of barriers before one; None: all."""
        for planned in self._barriers():
            if before is None or planned < before:
                self._file_io.delete(self._paths.barrier_plan(self._job, planned))

    def _barriers(self) -> list[int]:
        entries = self._file_io.list(self._paths.service_dir)
        found = (barrier_of_plan(entry.name, self._job) for entry in entries)
        return [barrier for barrier in found if barrier is not None]
