"""What a driver says of a job of Spark: what it reads and writes, that it runs, that it has ended.

Each is said by one thread at a time, so a job that is started again while it is dropped for its end before is either
dropped and then registered, or stays. Raises what the topology raises.

Without turns, of a job that is stopped and started again at once:

    thread of the listener              thread of the new query
    is_of(old run): yes
                                        register, running: new run
    drop: the new run loses its place, its tables wait for nobody

`drop` looks whose the job is within its turn, so the new run is seen and the drop does nothing.
Renewals take no turn: who drops has ended its own before (`_EtlRun.let_go`). Drivers of two
processes are not kept apart by this, but by the run in the registration.
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


class _Turn(SharedByThreads):
    """Of this process, for all of its jobs. Of two that are registered at once and are in each
    other's way both may be refused (`topology/job_claim.py`), in turn one is let in. A forked child
    gets a lock of its own that nobody has.
    """

    def _start_anew(self) -> None:
        self.lock = threading.Lock()


_TURN: Final = _Turn()


@dataclass(frozen=True)
class EtlJob:
    """sources, sinks: as of `Topology.register`. drop_when_stopped: as of `etl`. It keeps
    nothing of what it has said: a run is a text that the caller keeps. Threads may share it.
    """

    topology: Topology
    name: str
    sources: Sequence[str]
    sinks: Mapping[str, Sequence[str] | None]
    drop_when_stopped: bool

    @property
    def is_root(self) -> bool:
        """Whether its sources are outside."""
        return not self.sources

    def declare(self) -> None:
        """Register it. It has its place for ten minutes; what it said before is replaced."""
        with _TURN.lock:
            self._register()

    def running(self) -> str:
        """Say that it runs; registered again where somebody has dropped it since. Returns the run that speaks for it
        from now on.
        """
        with _TURN.lock:
            with suppress(NotFoundError):
                return self.topology.running(self.name).run
            self._register()
            return self.topology.running(self.name).run

    def renew(self) -> None:
        """Say that it goes on, and keep what its tables have in common from expiry. Both look at
        all tables of the warehouse. Raises ConflictError where another job is in its way by now,
        NotFoundError where it was dropped.
        """
        self.topology.renew(self.name)
        self.topology.keep()

    def keep(self) -> None:
        """As of `Topology.keep`."""
        self.topology.keep()

    def is_of(self, run: str) -> bool:
        """Whether that run speaks for it still."""
        return any(job.name == self.name and job.run == run for job in self.topology.jobs())

    def drop(self, run: str) -> None:
        """Say that it has ended for good, unless it is another run's by now."""
        with _TURN.lock:
            left = self.topology.drop(self.name) if self.is_of(run) else []
        if left:
            _log.info("job %s has ended, and has left %s", self.name, ", ".join(left))
        else:
            _log.info("job %s is not dropped: it was registered anew, or dropped", self.name)

    def _register(self) -> None:
        self.topology.register(self.name, sources=self.sources, sinks=self.sinks)
