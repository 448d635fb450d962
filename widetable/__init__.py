"""Wide primary-key tables in Apache Paimon's format, filled by many writers, each with its own columns.

A name is imported at its first use (`public_names.py`), so `widetable --help` does not wait for Arrow.

    from widetable import Catalog

    catalog = Catalog("/warehouse")
    users = catalog.create_table("shop.users", {"id": "BIGINT", "city": "STRING"}, primary_key=["id"])
    users.write([{"id": 1, "city": "Oslo"}])
    users.scan().to_arrow()

`Catalog` makes and opens tables, and `Table` has all operations of one; the other names are their results, arguments
and errors. Every error is a `WidetableError` of one of six kinds. Names outside of `__all__` are private and may
change.
"""

import typing

if typing.TYPE_CHECKING:
    from widetable.catalog import Catalog
    from widetable.commit.barriers.writer_registration import Job, JobSink
    from widetable.commit.transaction.commit_result import CommitResult
    from widetable.delta_join import DeltaJoin
    from widetable.derive.changes.change_scan import ChangeScan
    from widetable.derive.joins.delta_join import JoinRound
    from widetable.derive.loading.batch_loader import BatchLoader
    from widetable.derive.loading.torch_rows import TorchRows
    from widetable.derive.lookups.lookup_join import lookup_join
    from widetable.derive.samples.label import SampleLabel, label
    from widetable.derive.served.served_report import GoneSnapshot, ServedCell, ServedReport
    from widetable.derive.upkeep.inspector import Inspector
    from widetable.errors import (
        ConflictError,
        DamagedError,
        InvalidError,
        NotFoundError,
        StorageError,
        UnsupportedError,
        WidetableError,
    )
    from widetable.operations.barriers.barrier_writer import BarrierWriter
    from widetable.operations.barriers.session import Session, SessionTable
    from widetable.operations.handle.file_origins import WritingCommit
    from widetable.operations.health.audit_report import AuditReport
    from widetable.operations.health.doctor_report import DoctorFinding, DoctorReport
    from widetable.operations.health.file_damage import DamagedFile
    from widetable.operations.health.repair import RepairedFile, RepairResult
    from widetable.operations.health.rollback import RollbackResult
    from widetable.operations.health.salvage import LostRows
    from widetable.operations.history.expiry import ExpiryResult
    from widetable.operations.history.fast_forward import FastForwardResult
    from widetable.operations.history.orphans import OrphanResult
    from widetable.operations.history.table_space import HeldBytes
    from widetable.operations.inspection.inspection import Inspection
    from widetable.operations.maintenance.maintenance_result import MaintenanceResult
    from widetable.operations.maintenance.partition_expiry import PartitionExpiryResult
    from widetable.operations.maintenance.partition_restore import PartitionRestoreResult
    from widetable.operations.queries.explanation import (
        ColumnEvent,
        ExplainedColumn,
        Explanation,
        KeyRecord,
    )
    from widetable.operations.queries.follow import ChangeFollower
    from widetable.operations.queries.lookup_session import LookupSession
    from widetable.operations.windows.window import TimeWindow, window
    from widetable.read.arrow_rows import ArrowRows
    from widetable.read.scan import TableScan
    from widetable.table import Table
    from widetable.topology.delays import Delays, JobDelay, TableDelay
    from widetable.topology.noted_revision import NotedRevision
    from widetable.topology.revision import RevisedTable, RevisionResult
    from widetable.topology.table_barriers import TableBarrier
    from widetable.topology.table_progress import TableProgress, WaitedWriter
    from widetable.topology.topology import Topology
    from widetable.version import __version__ as __version__
    from widetable.write.commit_message import CommitMessage
else:
    from widetable.public_names import imported as __getattr__  # noqa: F401
    from widetable.public_names import listed as __dir__  # noqa: F401

__all__ = [
    "ArrowRows",
    "AuditReport",
    "BarrierWriter",
    "BatchLoader",
    "Catalog",
    "ChangeFollower",
    "ChangeScan",
    "ColumnEvent",
    "CommitMessage",
    "CommitResult",
    "ConflictError",
    "DamagedError",
    "DamagedFile",
    "Delays",
    "DeltaJoin",
    "DoctorFinding",
    "DoctorReport",
    "ExpiryResult",
    "ExplainedColumn",
    "Explanation",
    "FastForwardResult",
    "GoneSnapshot",
    "HeldBytes",
    "Inspection",
    "Inspector",
    "InvalidError",
    "Job",
    "JobDelay",
    "JobSink",
    "JoinRound",
    "KeyRecord",
    "LookupSession",
    "LostRows",
    "MaintenanceResult",
    "NotFoundError",
    "NotedRevision",
    "OrphanResult",
    "PartitionExpiryResult",
    "PartitionRestoreResult",
    "RepairResult",
    "RepairedFile",
    "RevisedTable",
    "RevisionResult",
    "RollbackResult",
    "SampleLabel",
    "ServedCell",
    "ServedReport",
    "Session",
    "SessionTable",
    "StorageError",
    "Table",
    "TableBarrier",
    "TableDelay",
    "TableProgress",
    "TableScan",
    "TimeWindow",
    "Topology",
    "TorchRows",
    "UnsupportedError",
    "WaitedWriter",
    "WidetableError",
    "WritingCommit",
    "label",
    "lookup_join",
    "window",
]
