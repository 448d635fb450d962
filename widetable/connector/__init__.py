"""The interface for engines that run tables elsewhere, in tasks on other machines or in their own queries. Spark
(`widetable_spark`) and the service (`widetable_meta`) use only this package and the public names of `widetable`. It is
as stable as those names.

    rows in     plan_write ─► WritePlan.task in each task: TaskWrite ─► messages ─► BatchCommits.commit, by batch
    commits     batch_commits; under barriers root_commits and JobWriter
    rows out    Table.scan().split_reads() ─► SplitRead in each task ─► batches, cut to BATCH_BYTES by `pieces`;
                `hot_split` divides one of few newer records into a part without a merge and one with it
    changes     change_stream, barrier_stream: ChangeStream ─► StreamRead in each task, in one of CHANGE_FORMS;
                range_reads: those of a range of snapshots, in a batch read
    samples     open_samples; sample_stream: a ChangeStream that brings them up to date before each batch
    joins       plan_lookup_join: LookupTasks ─► pin(PinnedBatch), joined(rows, pin) in each task
    pasts       plan_point_in_time, plan_windows: PastTasks ─► numbered(rows), answered(rows) in each task
    upkeep      Table.maintainer(Upkeep(), compaction_by(run)), where `run` sends each CompactionTask to some process;
                `sort_by_tasks` sorts an append table, a SortTask for each partition
    past        row_versions(table, columns): each version that the history and the snapshots have
    services    ServiceLease decides which of them leads; measured(table) and named_bytes(table) are for its monitoring
    threads     SharedByThreads, and WorkerThread, which the process waits for before it ends
    warnings    warn, by a WarningCode
    kernels     `kernel`: a loop over arrays, interpreted while it is small, then compiled
    common      `arguments`, a module that checks them; declared options; storage by path

Raises nothing itself; each name documents its errors. Importing it imports the whole engine, with Arrow and numpy.
docs/decisions/0071 says why these are protocols; tests/widetable/connector/test_engine.py is a small engine.

What an engine that uses them must do:

    tasks         tables, plans, reads, tasks and messages travel pickled; objects with leases or threads refuse to be
                  pickled (`not_pickled`). A task that runs twice writes other files; commit one message of the two
    commits       one driver commits, with its own commit user and identifiers that grow: they identify a repeated
                  commit, which is not made twice
    files         files that a task wrote and nobody commits are orphans: `Table.discard` its message, or leave them to
                  `remove_orphan_files`
"""

from __future__ import annotations

from widetable import arguments
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.barriers.writer_registration import RENEWAL_MILLIS
from widetable.commit.holds.lookup_pin import PinnedBatch, check_join
from widetable.commit.holds.pin_file import LookupPin
from widetable.connector.barrier_streams import BARRIER_OFFSET_VERSION, Rounds, barrier_stream
from widetable.connector.change_form import CHANGE_FORMS, ChangeForm
from widetable.connector.change_range import range_reads
from widetable.connector.change_streams import ChangeStream, change_stream
from widetable.connector.commits import BatchCommits, batch_commits, root_commits
from widetable.connector.compaction_tasks import CompactionTask, compaction_by
from widetable.connector.lookup_tasks import LookupTasks, plan_lookup_join
from widetable.connector.past_rows import row_versions
from widetable.connector.past_tasks import PastTasks, plan_point_in_time, plan_windows
from widetable.connector.sample_streams import open_samples, sample_stream
from widetable.connector.sort_tasks import SortTask, sort_by_tasks
from widetable.connector.task_write import TaskWrite, WritePlan, plan_write
from widetable.derive.lookups.join_plan import JoinArguments
from widetable.derive.samples.sample_rule import SampleArguments
from widetable.derive.versions.event_groups import UNITS as EVENT_TIME_UNITS
from widetable.derive.versions.planned_past import PastArguments
from widetable.format.human_units import duration_text, last_seen_text, size_text, time_text
from widetable.format.row_budget import BATCH_BYTES, pieces
from widetable.kernels.jit import kernel
from widetable.merge.engine import engine_of
from widetable.messages.counted import counted
from widetable.messages.error_code import ErrorCode
from widetable.messages.near_word import did_you_mean
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.barriers.barrier_writer import last_identifier
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.operations.barriers.session import check_published, held_leases
from widetable.operations.health.barrier_advice import is_lost
from widetable.operations.health.doctor_report import command_line
from widetable.operations.history.branches import branch_root
from widetable.operations.inspection.table_measures import (
    LOOKS_BACK,
    MeasuredTable,
    measured,
    named_bytes,
)
from widetable.operations.maintenance.maintenance import Maintainer, Upkeep
from widetable.operations.queries.double_count import warn_of_new_query
from widetable.operations.queries.table_windows import WindowCall
from widetable.operations.queries.warm_lookups import warm_lookups
from widetable.read.change_read import StreamRead
from widetable.read.held_columns import held_columns, hold_partition_columns
from widetable.read.hot_split import HotSplit, hot_split
from widetable.read.split import SplitRead
from widetable.read.stream_plan import Limits, Start, start_of
from widetable.runtime.derived_value import derived_value
from widetable.runtime.extra_package import extra_package
from widetable.runtime.forked_child import SharedByThreads
from widetable.runtime.late_names import late_names
from widetable.runtime.machine_clock import now_millis
from widetable.runtime.moment import epoch_millis
from widetable.runtime.worker_thread import Task, WorkerThread
from widetable.schema.option import Option, parse_value
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.storage.job_names import job_name
from widetable.storage.locate import local_path, locate
from widetable.storage.remote.storage_options import (
    StorageOptions,
    checked_storage_options,
    split_storage_options,
)
from widetable.storage.temporary_directory import temporary_directory
from widetable.topology.barrier_standings import barrier_standings
from widetable.topology.service_lease import ServiceLease

__all__ = [
    "BARRIER_OFFSET_VERSION",
    "BATCH_BYTES",
    "CHANGE_FORMS",
    "EVENT_TIME_UNITS",
    "LOOKS_BACK",
    "RENEWAL_MILLIS",
    "ROW_KIND_COLUMN",
    "BatchCommits",
    "ChangeForm",
    "ChangeStream",
    "CompactionTask",
    "ErrorCode",
    "HotSplit",
    "JobBatch",
    "JobWriter",
    "JoinArguments",
    "Limits",
    "LookupPin",
    "LookupTasks",
    "Maintainer",
    "MeasuredTable",
    "Option",
    "PastArguments",
    "PastTasks",
    "PinnedBatch",
    "Rounds",
    "SampleArguments",
    "ServiceLease",
    "SharedByThreads",
    "SortTask",
    "SplitRead",
    "Start",
    "StorageOptions",
    "StreamRead",
    "TableSchema",
    "Task",
    "TaskWrite",
    "Upkeep",
    "WarningCode",
    "WindowCall",
    "WorkerThread",
    "WritePlan",
    "arguments",
    "barrier_standings",
    "barrier_stream",
    "batch_commits",
    "branch_root",
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
    "engine_of",
    "epoch_millis",
    "extra_package",
    "held_columns",
    "held_leases",
    "hold_partition_columns",
    "hot_split",
    "interval_of",
    "is_lost",
    "job_name",
    "kernel",
    "last_identifier",
    "last_seen_text",
    "late_names",
    "local_path",
    "locate",
    "measured",
    "named_bytes",
    "now_millis",
    "open_samples",
    "parse_value",
    "pieces",
    "plan_lookup_join",
    "plan_point_in_time",
    "plan_windows",
    "plan_write",
    "range_reads",
    "root_commits",
    "row_versions",
    "sample_stream",
    "size_text",
    "sort_by_tasks",
    "split_storage_options",
    "start_of",
    "temporary_directory",
    "time_text",
    "warm_lookups",
    "warn",
    "warn_of_new_query",
]
