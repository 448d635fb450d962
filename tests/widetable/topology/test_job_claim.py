"""The registration of a writer that each batch renews, because it may be another process that commits the next one."""

from __future__ import annotations

from pathlib import Path

from tests.widetable.topology.test_topology import HandClock, catalog_of
from widetable.commit.barriers.writer_registration import (
    RENEWAL_MILLIS,
    RUNNING_MILLIS,
    registration_of,
)
from widetable.topology.job_claim import WriterClaim


def test_a_batch_renews_the_registration_when_a_renewal_is_due_and_not_before(
    tmp_path: Path,
) -> None:
    clock = HandClock()
    table = catalog_of(tmp_path, "db.a").table("db.a")
    claim = WriterClaim(table, "db.a", clock=clock)
    _registration = claim.register("crm", ("p",), "run")
    began_millis = clock.millis

    def expires_millis() -> int:
        registered = registration_of(table._file_io, table._paths, "crm", clock)
        assert registered is not None
        return registered.expires_millis

    clock.millis += RENEWAL_MILLIS - 1
    claim.renew("crm", ("p",), "run")
    assert expires_millis() == began_millis + RUNNING_MILLIS
    clock.millis += 1
    claim.renew("crm", ("p",), "run")
    assert expires_millis() == clock.millis + RUNNING_MILLIS
