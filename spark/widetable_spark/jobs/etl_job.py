"""What a driver tells the topology about a job of Spark: what it reads and writes, that it runs, that it has ended.

One thread at a time does so. A job that is started again while its previous run is dropped is therefore either dropped
and then registered, or not dropped. Raises what the topology raises.

Without the lock, for a job that is stopped and started again at once:

    thread of the listener              thread of the new query
    has_run(old run): yes
                                        register, running: new run
    drop: the new run loses its place, its tables wait for nobody

`drop` checks under the lock which run has the job, so it sees the new run and does nothing. Renewals take no lock: a
query that drops the job has ended its renewals before (`_EtlRun.drop_job`). This lock does not separate drivers of two
processes; the run in the registration does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from widetable import NotFoundError, Topology
from widetable.connector import SharedByThreads

_log = logging.getLogger("widetable.spark")


class _RegistrationLock(SharedByThreads):
    """A lock of this process, for all of its jobs.

    Of two jobs that conflict and are registered at once both may be refused (`topology/job_claim.py`); one after the
    other, one is accepted. A forked child gets a lock of its own, which is free.
    """

    def _reset(self) -> None:
        self.lock = threading.Lock()


_REGISTRATION: Final = _RegistrationLock()


@dataclass(frozen=True)
class EtlJob:
    """The registration of a job. sources, sinks: as of `Topology.register`. drop_when_stopped: as of `etl`.

    It keeps no state: a run is a text that the caller keeps. Threads may share it.
    """

    topology: Topology
    name: str
    sources: Sequence[str]
    sinks: Mapping[str, Sequence[str] | None]
    drop_when_stopped: bool

    @property
    def is_root(self) -> bool:
        """Whether the job reads no table."""
        return not self.sources

    def declare(self) -> None:
        """Register the job for ten minutes; an earlier registration is replaced."""
        with _REGISTRATION.lock:
            self._register()

    def running(self) -> str:
        """Mark the job as running, and register it again if it was dropped. Returns the run that now has the job."""
        with _REGISTRATION.lock:
            with suppress(NotFoundError):
                return self.topology.running(self.name).run
            self._register()
            return self.topology.running(self.name).run

    def renew(self) -> None:
        """Renew the registration, and protect the barriers that the job's tables have in common from expiry.

        Both read all tables of the warehouse. Raises ConflictError where another job now conflicts with it,
        NotFoundError where it was dropped.
        """
        self.topology.renew(self.name)
        self.topology.keep()

    def keep(self) -> None:
        """Protect the barriers that the job's tables have in common from expiry (`Topology.keep`)."""
        self.topology.keep()

    def has_run(self, run: str) -> bool:
        """Tell whether that run still has the job."""
        return any(job.name == self.name and job.run == run for job in self.topology.jobs())

    def drop(self, run: str) -> None:
        """Drop the job, which has ended for good, unless another run has it by now."""
        with _REGISTRATION.lock:
            left = self.topology.drop(self.name) if self.has_run(run) else []
        if left:
            _log.info("job %s has ended, and has left %s", self.name, ", ".join(left))
        else:
            _log.info("job %s is not dropped: it was registered again, or dropped", self.name)

    def _register(self) -> None:
        self.topology.register(self.name, sources=self.sources, sinks=self.sinks)
