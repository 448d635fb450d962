"""The interface for engines that run tables elsewhere, in tasks on other machines or in their own queries. Spark
(`widetable_spark`) and the service (`widetable_meta`) use only this module and the public names of the package. It is
as stable as those names.

    rows in     Table.new_writer in each task ─► CommitMessage ─► Table.commit_append
    rows out    Table.scan().splits() ─► SplitRead in each task ─► batches, cut to BATCH_BYTES by `pieces`
    changes     Table.change_source() ─► start_stream, advance: Offset ─► pieces_between ─► StreamRead in each task;
                StreamProgress keeps unread snapshots from expiry
    joins       new_lookup_join ─► LookupJoin in each task: .pin(PinnedBatch) ─► PinnedJoin(join, pin).joined(batches)
    barriers    AlignedSource for each source of a job; JobWriter commits what new_writer(.., named=True) has written
    upkeep      Table.maintainer(upkeep, compact), where `compact` calls compact_all with its own `run`, which sends
                each BucketWork to a task that calls `perform` and returns its Outcome
    services    ServiceLease decides which of them leads; measured(table) and named_bytes(table) are for its monitoring
    threads     SharedByThreads, and WorkerThread, which the process waits for before it ends
    warnings    warn, by a WarningCode
    common      checks of arguments, declared options, storage by path

Raises nothing itself; each name documents its errors.

What an engine that uses them must do:

    tasks         tables, splits, works and messages travel pickled; objects with leases or threads refuse to be pickled
                  (`not_pickled`). A task that runs twice writes other files; commit one message of the two
    commits       one driver commits, with its own commit user and identifiers that grow: they identify a repeated
                  commit, which is not made twice
    files         files that a task wrote and nobody commits are orphans: `Table.discard` its message, or leave them to
                  `remove_orphan_files`

Importing it imports the whole engine, with Arrow and numpy.
"""

from __future__ import annotations

from widetable.arguments import (
    LARGEST,
    LONGEST_MILLIS,
    called,
    flag,
    instance,
    label,
    mapping,
    names,
    one_of,
    path,
    refused,
    text,
    whole_number,
)
from widetable.commit.barriers.barrier_table import (
    interval_of,
)
from widetable.commit.barriers.writer_registration import (
    RENEWAL_MILLIS,
)
from widetable.commit.holds.lookup_pin import (
    PinnedBatch,
    check_join,
)
from widetable.commit.holds.pin_file import (
    LookupPin,
)
from widetable.connector.barrier_streams import (
    BARRIER_OFFSET_VERSION,
    Rounds,
    barrier_stream,
)
from widetable.connector.change_form import (
    CHANGE_FORMS,
    ChangeForm,
)
from widetable.connector.change_streams import (
    ChangeStream,
    change_stream,
)
from widetable.connector.commits import (
    BatchCommits,
    batch_commits,
    root_commits,
)
from widetable.connector.compaction_tasks import (
    CompactionTask,
    compaction_by,
)
from widetable.connector.lookup_tasks import (
    LookupTasks,
    plan_lookup_join,
)
from widetable.connector.task_write import (
    TaskWrite,
    WritePlan,
    plan_write,
)
from widetable.derive.lookups.join_plan import (
    JoinArguments,
)
from widetable.format.human_units import (
    duration_text,
    last_seen_text,
    time_text,
)
from widetable.format.row_budget import (
    BATCH_BYTES,
    pieces,
)
from widetable.messages.counted import (
    counted,
)
from widetable.messages.error_code import (
    ErrorCode,
)
from widetable.messages.near_word import (
    did_you_mean,
)
from widetable.messages.warning_code import (
    WarningCode,
    warn,
)
from widetable.operations.barriers.job_writer import (
    JobBatch,
    JobWriter,
)
from widetable.operations.barriers.session import (
    check_published,
    held_leases,
)
from widetable.operations.health.barrier_advice import (
    is_lost,
)
from widetable.operations.health.doctor_report import (
    command_line,
)
from widetable.operations.history.branches import (
    branch_root,
)
from widetable.operations.inspection.table_measures import (
    LOOKS_BACK,
    MeasuredTable,
    measured,
    named_bytes,
)
from widetable.operations.maintenance.maintenance import (
    Maintainer,
    Upkeep,
)
from widetable.operations.queries.double_count import (
    warn_of_new_query,
)
from widetable.operations.queries.warm_lookups import (
    warm_lookups,
)
from widetable.read.change_read import (
    StreamRead,
)
from widetable.read.held_columns import (
    held_columns,
    hold_partition_columns,
)
from widetable.read.split import (
    SplitRead,
)
from widetable.read.stream_plan import (
    Limits,
    Start,
    start_of,
)
from widetable.runtime.derived_value import (
    derived_value,
)
from widetable.runtime.forked_child import (
    SharedByThreads,
)
from widetable.runtime.machine_clock import (
    now_millis,
)
from widetable.runtime.moment import (
    epoch_millis,
)
from widetable.runtime.worker_thread import (
    Task,
    WorkerThread,
)
from widetable.schema.option import (
    Option,
    parse_value,
)
from widetable.schema.options import (
    MERGE_ENGINE,
)
from widetable.schema.table_schema import (
    ROW_KIND_COLUMN,
    TableSchema,
)
from widetable.storage.job_names import (
    job_name,
)
from widetable.storage.locate import (
    local_path,
    locate,
)
from widetable.storage.remote.storage_options import (
    StorageOptions,
    checked_storage_options,
    split_storage_options,
)
from widetable.storage.temporary_directory import (
    temporary_directory,
)
from widetable.topology.barrier_standings import (
    barrier_standings,
)
from widetable.topology.service_lease import (
    ServiceLease,
)

__all__ = [
    "BARRIER_OFFSET_VERSION",
    "BATCH_BYTES",
    "CHANGE_FORMS",
    "LARGEST",
    "LONGEST_MILLIS",
    "LOOKS_BACK",
    "MERGE_ENGINE",
    "RENEWAL_MILLIS",
    "ROW_KIND_COLUMN",
    "BatchCommits",
    "ChangeForm",
    "ChangeStream",
    "CompactionTask",
    "ErrorCode",
    "JobBatch",
    "JobWriter",
    "JoinArguments",
    "Limits",
    "LookupPin",
    "LookupTasks",
    "Maintainer",
    "MeasuredTable",
    "Option",
    "PinnedBatch",
    "Rounds",
    "ServiceLease",
    "SharedByThreads",
    "SplitRead",
    "Start",
    "StorageOptions",
    "StreamRead",
    "TableSchema",
    "Task",
    "TaskWrite",
    "Upkeep",
    "WarningCode",
    "WorkerThread",
    "WritePlan",
    "barrier_standings",
    "barrier_stream",
    "batch_commits",
    "branch_root",
    "called",
    "change_stream",
    "check_join",
    "check_published",
    "checked_storage_options",
    "command_line",
    "compaction_by",
    "counted",
    "derived_value",
    "did_you_mean",
    "duration_text",
    "epoch_millis",
    "flag",
    "held_columns",
    "held_leases",
    "hold_partition_columns",
    "instance",
    "interval_of",
    "is_lost",
    "job_name",
    "label",
    "last_seen_text",
    "local_path",
    "locate",
    "mapping",
    "measured",
    "named_bytes",
    "names",
    "now_millis",
    "one_of",
    "parse_value",
    "path",
    "pieces",
    "plan_lookup_join",
    "plan_write",
    "refused",
    "root_commits",
    "split_storage_options",
    "start_of",
    "temporary_directory",
    "text",
    "time_text",
    "warm_lookups",
    "warn",
    "warn_of_new_query",
    "whole_number",
]
