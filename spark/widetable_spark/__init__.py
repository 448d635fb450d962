"""Spark streams into and out of widetable tables: `format("widetable")`, `widetable_spark.read`, `.lookup_join`."""

from __future__ import annotations

import typing

from widetable_spark.data_source import WidetableDataSource
from widetable_spark.jobs.etl import Etl, etl, signed_count, signed_sum
from widetable_spark.jobs.maintaining import maintain
from widetable_spark.jobs.sorting import sort_compact
from widetable_spark.joining.joining import lookup_join
from widetable_spark.joining.past_features import point_in_time
from widetable_spark.joining.past_windows import windows
from widetable_spark.queries.commit_progress import CommitProgress, CommitProgressListener
from widetable_spark.reading.change_function import register_changes
from widetable_spark.reading.inspecting import inspect
from widetable_spark.reading.reading import read
from widetable_spark.reading.samples import samples
from widetable_spark.reading.sql_names import register_catalog
from widetable_spark.reading.views import SessionViews, session
from widetable_spark.startup import (
    driver_environment as driver_environment,  # it acts when it is imported
)
from widetable_spark.startup.local_checkpoints import local_checkpoints
from widetable_spark.startup.worker_heap import (
    settle as settle,  # it acts when all others are imported
)
from widetable_spark.writing.query_batch import write_batch

if typing.TYPE_CHECKING:
    from widetable_spark.jobs.cdc import cdc
    from widetable_spark.jobs.cdc_apply import cdc_apply
else:
    from widetable_spark.startup.late_names import imported as __getattr__  # noqa: F401

__all__ = [
    "CommitProgress",
    "CommitProgressListener",
    "Etl",
    "SessionViews",
    "WidetableDataSource",
    "cdc",
    "cdc_apply",
    "etl",
    "inspect",
    "local_checkpoints",
    "lookup_join",
    "maintain",
    "point_in_time",
    "read",
    "register_catalog",
    "register_changes",
    "samples",
    "session",
    "signed_count",
    "signed_sum",
    "sort_compact",
    "windows",
    "write_batch",
]
