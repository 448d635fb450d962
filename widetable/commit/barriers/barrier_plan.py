"""Plans of a derived job: which barrier of its sources it takes after which. One file each, never changed.

On disk (other clients never look there), in the first table that the job writes into:

    service/widetable-barrier-plan-<job, escaped>-<barrier> = JSON object {"barrier": the next one}
    service/widetable-barrier-plan-<job, escaped>%revision-<number>-<barrier>    the same, behind a revision (0046)

All sources of the job end a batch at the barrier of the plan, and after a restart at the same one. Who makes it is
published exclusively: of several one is there:

    source A after 20    decide(20, 40)  ─► 40          its batch ends at 40
    source B after 20    decide(20, 30)  ─► 40          so does that of B, which would have stopped at 30
    B after a restart    after(20)       ─► 40

Who has committed a batch forgets the plans before that of the batch: it may come again, those
before may not. Source: rule R9 of docs/consistency.md. Raises DamagedError for a plan that cannot
be read, StorageError.
"""

from __future__ import annotations

from typing import Final

from widetable.commit.notes.json_note import JsonNote, is_id
from widetable.storage.file_io import FileIO
from widetable.storage.job_names import plan_name, plan_of
from widetable.storage.paths import TablePaths

_NOTE: Final = JsonNote(
    "plan of a job", {"barrier": is_id}, "Delete it: the job then chooses a barrier anew."
)


class BarrierPlans:
    """Of one job, in its first table. revision: the last one of that table; older plans are not looked at."""

    def __init__(self, file_io: FileIO, paths: TablePaths, job: str, revision: int = 0) -> None:
        self._file_io = file_io
        self._paths = paths
        self._job = job
        self._revision = revision

    def after(self, barrier: int) -> int | None:
        """What comes after a barrier, 0 for the start; None where nobody has said it."""
        found = _NOTE.read(self._file_io, self._path(barrier))
        return None if found is None else int(found["barrier"])

    def before(self, barrier: int) -> int | None:
        """After which one a barrier was planned; None where no plan says it.
        Reads the plans of this revision, one by one, until one fits; old ones are forgotten, so
        there are few.
        """
        for _, (revision, planned) in self._names():
            if revision == self._revision and self.after(planned) == barrier:
                return planned
        return None

    def decide(self, barrier: int, chosen: int) -> int:
        """Say what comes after a barrier, unless somebody has; which it is."""
        path = self._path(barrier)
        if self._file_io.publish(path, _NOTE.to_json(path, {"barrier": chosen})):
            return chosen
        found = self.after(barrier)  # None: forgotten since, so the job is past it
        return chosen if found is None else found

    def forget(self, before: int | None = None) -> None:
        """Delete those of barriers before one, and of revisions before; None: all."""
        for name, planned in self._names():
            if before is None or planned < (self._revision, before):
                self._file_io.delete(f"{self._paths.service_dir}/{name}")

    def _names(self) -> list[tuple[str, tuple[int, int]]]:
        """With (revision, barrier); of all revisions."""
        names = [entry.name for entry in self._file_io.list(self._paths.service_dir)]
        found = ((name, plan_of(name, self._job)) for name in names)
        return [(name, planned) for name, planned in found if planned is not None]

    def _path(self, barrier: int) -> str:
        return self._paths.job_file(plan_name(self._job, barrier, self._revision))
