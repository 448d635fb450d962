"""Plans of a derived job: which barrier of its sources follows which. Each plan is a file that never changes.

On disk (other clients ignore these files), in the first table that the job writes into:

    service/widetable-barrier-plan-<job, escaped>-<barrier> = JSON object {"barrier": the next one}
    service/widetable-barrier-plan-<job, escaped>%revision-<number>-<barrier>    the same, after a revision (0046)

All sources of the job end a batch at the barrier of the plan, also after a restart. A plan is published exclusively:
if several sources decide at once, one plan wins and all follow it:

    source A after 20    decide(20, 40)  ─► 40          its batch ends at 40
    source B after 20    decide(20, 30)  ─► 40          so does that of B, which would have stopped at 30
    B after a restart    after(20)       ─► 40

A job that has committed a batch deletes the plans before the plan of that batch: only this batch may be repeated.
Source: rule R9 of docs/consistency.md. Raises DamagedError for a plan that cannot be read, StorageError.
"""

from __future__ import annotations

from typing import Final

from widetable.commit.notes.json_note import JsonNote, is_id
from widetable.storage.file_io import FileIO
from widetable.storage.job_names import plan_name, plan_of
from widetable.storage.paths import TablePaths

_NOTE: Final = JsonNote(
    "plan of a job", {"barrier": is_id}, "Delete the file: the job then chooses a barrier again."
)


class BarrierPlans:
    """The plans of one job, in its first table. revision: the last one of that table; older plans are ignored."""

    def __init__(self, file_io: FileIO, paths: TablePaths, job: str, revision: int = 0) -> None:
        self._file_io = file_io
        self._paths = paths
        self._job = job
        self._revision = revision

    def after(self, barrier: int) -> int | None:
        """Return the barrier that is planned after a barrier (0 for the start), or None without a plan."""
        note = _NOTE.read(self._file_io, self._path(barrier))
        return None if note is None else int(note["barrier"])

    def before(self, barrier: int) -> int | None:
        """Return the barrier after which `barrier` was planned, or None without such a plan.

        Reads the plans of this revision one by one until one fits. There are few, as old ones are deleted.
        """
        for _, (revision, planned) in self._names():
            if revision == self._revision and self.after(planned) == barrier:
                return planned
        return None

    def decide(self, barrier: int, chosen: int) -> int:
        """Plan `chosen` after a barrier unless a plan exists; return the planned barrier."""
        path = self._path(barrier)
        if self._file_io.publish(path, _NOTE.to_json(path, {"barrier": chosen})):
            return chosen
        planned = self.after(barrier)  # None: deleted since, so the job is past it
        return chosen if planned is None else planned

    def forget(self, before: int | None = None) -> None:
        """Delete the plans of barriers before `before` and of earlier revisions; None: all plans."""
        for name, planned in self._names():
            if before is None or planned < (self._revision, before):
                self._file_io.delete(f"{self._paths.service_dir}/{name}")

    def _names(self) -> list[tuple[str, tuple[int, int]]]:
        """Return the file names of the plans of all revisions, each with its (revision, barrier)."""
        names = [entry.name for entry in self._file_io.list(self._paths.service_dir)]
        plans = ((name, plan_of(name, self._job)) for name in names)
        return [(name, planned) for name, planned in plans if planned is not None]

    def _path(self, barrier: int) -> str:
        return self._paths.job_file(plan_name(self._job, barrier, self._revision))
