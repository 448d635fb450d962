"""The modules of the public names: what `widetable.Table` imports, and when (PEP 562).

In: a name that `widetable` does not have yet. Out: the object of its module, which the package keeps from then on.
Raises AttributeError for other names. `widetable/__init__.py` lists the same names for readers and type checkers;
`tests/test_exports.py` compares the two.

    import widetable             no engine: the first name that needs numpy and Arrow imports them
    widetable.Table              `imported("Table")` imports widetable.table and keeps the name
    widetable.Table again        nothing is called

`widetable.errors` imports nothing else, so code that only catches errors starts fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

PACKAGE: Final = "widetable"
_ERRORS: Final = (
    "ConflictError",
    "DamagedError",
    "InvalidError",
    "NotFoundError",
    "StorageError",
    "UnsupportedError",
    "WidetableError",
)
# Name -> module, within the package. Type checkers and readers see the imports in `__init__` instead.
HOMES: Final = {
    **dict.fromkeys(_ERRORS, "errors"),
    "ArrowRows": "read.arrow_rows",
    "AuditReport": "operations.health.audit_report",
    "BatchLoader": "derive.loading.batch_loader",
    "BarrierWriter": "operations.barriers.barrier_writer",
    "Catalog": "catalog",
    "ChangeFollower": "operations.queries.follow",
    "ChangeScan": "derive.changes.change_scan",
    "ColumnEvent": "operations.queries.explanation",
    "CommitMessage": "write.commit_message",
    "CommitResult": "commit.transaction.commit_result",
    "DamagedFile": "operations.health.file_damage",
    "DeltaJoin": "delta_join",
    "Delays": "topology.delays",
    "DoctorFinding": "operations.health.doctor_report",
    "DoctorReport": "operations.health.doctor_report",
    "ExpiryResult": "operations.history.expiry",
    "ExplainedColumn": "operations.queries.explanation",
    "Explanation": "operations.queries.explanation",
    "FastForwardResult": "operations.history.fast_forward",
    "GoneSnapshot": "derive.served.served_report",
    "HeldBytes": "operations.history.table_space",
    "Inspection": "operations.inspection.inspection",
    "Inspector": "derive.upkeep.inspector",
    "Job": "commit.barriers.writer_registration",
    "JobDelay": "topology.delays",
    "JobSink": "commit.barriers.writer_registration",
    "JoinRound": "derive.joins.delta_join",
    "KeyRecord": "operations.queries.explanation",
    "LookupSession": "operations.queries.lookup_session",
    "LostRows": "operations.health.salvage",
    "MaintenanceResult": "operations.maintenance.maintenance_result",
    "NotedRevision": "topology.noted_revision",
    "OrphanResult": "operations.history.orphans",
    "PartitionExpiryResult": "operations.maintenance.partition_expiry",
    "PartitionRestoreResult": "operations.maintenance.partition_restore",
    "RepairResult": "operations.health.repair",
    "RepairedFile": "operations.health.repair",
    "RevisedTable": "topology.revision",
    "RevisionResult": "topology.revision",
    "RollbackResult": "operations.health.rollback",
    "SampleLabel": "derive.samples.label",
    "ServedCell": "derive.served.served_report",
    "ServedReport": "derive.served.served_report",
    "Session": "operations.barriers.session",
    "SessionTable": "operations.barriers.session",
    "Table": "table",
    "TableBarrier": "topology.table_barriers",
    "TableDelay": "topology.delays",
    "TableProgress": "topology.table_progress",
    "TableScan": "read.scan",
    "Topology": "topology.topology",
    "TorchRows": "derive.loading.torch_rows",
    "WaitedWriter": "topology.table_progress",
    "TimeWindow": "operations.windows.window",
    "WritingCommit": "operations.handle.file_origins",
    "label": "derive.samples.label",
    "lookup_join": "derive.lookups.lookup_join",
    "window": "operations.windows.window",
}


# Names that a star does not import.
UNLISTED: Final = {"__version__": "version"}


def imported(name: str) -> Any:
    """The package's `__getattr__`. Two threads at once import once, because of Python's lock per module."""
    package = sys.modules[PACKAGE]
    home = HOMES.get(name) or UNLISTED.get(name)
    if home is None:
        raise AttributeError(
            f"module {PACKAGE!r} has no attribute {name!r}", name=name, obj=package
        )
    value = getattr(import_module(f"{PACKAGE}.{home}"), name)
    setattr(package, name, value)
    return value


def listed() -> list[str]:
    """The package's `__dir__`: existing names, and those that would be imported. It imports nothing itself."""
    return sorted({*vars(sys.modules[PACKAGE]), *HOMES, *UNLISTED})
