"""The part of the page that is about changes: how fresh they are, how many, and what the second layer made of them.

In: everything the run found out. Out: texts and charts by the names that `report_page.html` has for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

import widetable as wt
from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.pipeline import PipelineRun
from examples.flights.report.charts import (
    Cell,
    ChartWay,
    Series,
    Spec,
    cell_chart,
    curve_chart,
    way_chart,
)
from examples.flights.report.features import percent_text
from examples.flights.report.freshness import STAGES, Freshness, Journey
from examples.flights.report.history import History
from examples.flights.report.punctuality import CarrierTable, Punctuality
from examples.flights.second_layer import LayerRun
from examples.flights.wide_table import GROUPS

# What became of a record at each stage.
STAGE_TEXTS = {
    "stored": "in the table",
    "told": "in the changelog",
    "counted": "in the second layer",
}
KIND_TEXTS = {
    "+I": "new rows",
    "-U": "rows before a change",
    "+U": "rows after it",
    "-D": "rows gone",
}
_KIND_COLORS = {"+I": "var(--new)", "-U": "var(--old)", "+U": "var(--changed)", "-D": "var(--gone)"}
_EARLIEST_MINUTES, _LATEST_MINUTES = -15.0, 30.0  # of the strongest colours


def layer_values(
    run: PipelineRun, history: History, freshness: Freshness, laws: wt.AuditReport
) -> dict[str, str]:
    """What the page says of changes, by name."""
    return {
        "freshness_sentence": freshness_sentence(freshness),
        "change_sentence": _change_sentence(run, history),
        "hourly_name": escape(HOURLY_NAME),
        "layer_sentence": _layer_sentence(run.layer, history),
        "law_sentence": _law_sentence(laws),
        "law_list": _law_list(laws),
    }


def layer_charts(
    run: PipelineRun,
    history: History,
    freshness: Freshness,
    carriers: CarrierTable,
    stream_colors: Mapping[str, str],
) -> dict[str, Spec]:
    """What the page shows of changes, by name."""
    return {
        "freshness_chart": _freshness_chart(freshness),
        "way_chart": _way_chart(freshness, run, stream_colors),
        "change_chart": _change_chart(history),
        "carrier_chart": _carrier_chart(carriers),
    }


def seconds_text(seconds: float) -> str:
    """With one decimal, below a tenth with two; a dash for what was not measured."""
    if math.isnan(seconds):
        return "-"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds:.2f} s"


def freshness_sentence(freshness: Freshness) -> str:
    """Median and 99th percentile of each stage, without the first batches and with them."""
    later = freshness.without_first_batches()
    parts = [
        f"{STAGE_TEXTS[stage]} after {seconds_text(later.quantile(stage, 0.5))} "
        f"(99 %: {seconds_text(later.quantile(stage, 0.99))})"
        for stage in STAGES
    ]
    told, counted = (seconds_text(freshness.quantile(stage, 0.99)) for stage in ("told", "counted"))
    return (
        f"After the first batch of each stream, half of all records were {', '.join(parts[:-1])} and {parts[-1]}. "
        f"In the first batches Spark starts its Python processes; with them, 99 % were in the changelog within {told} "
        f"and in the second layer within {counted}."
    )


def _freshness_chart(freshness: Freshness) -> Spec:
    """The share of records that were there after so many seconds, by stage, without the first batches."""
    later = freshness.without_first_batches()
    series = []
    for stage in STAGES:
        ages, shares = later.ages(stage)
        points = zip(ages.tolist(), (100 * shares).tolist(), strict=True)
        series.append(Series(STAGE_TEXTS[stage], f"var(--{stage})", [(0.0, 0.0), *points]))
    x_title = "seconds since the file came"
    return curve_chart(series, x_title=x_title, y_title="% of records", y_max=100, steps=True)


def _way_chart(freshness: Freshness, run: PipelineRun, colors: Mapping[str, str]) -> Spec:
    """The way of every commit's records, in the order in which they came. colors: of the streams."""
    journeys = sorted(freshness.journeys, key=lambda each: (each.arrived, each.group, each.told))
    stages = {
        "until Spark took it": "var(--taken)",
        **{f"until {STAGE_TEXTS[stage]}": f"var(--{stage})" for stage in STAGES},
    }
    ways = [
        ChartWay(
            journey.group,
            [
                max(getattr(journey, stage) - run.started, 0.0)  # the first files waited for Spark
                for stage in ("arrived", "taken", *STAGES)
            ],
            _way_told(journey),
        )
        for journey in journeys
    ]
    streams = {group.name: colors[group.name] for group in GROUPS}
    return way_chart(ways, stages, streams, x_title="seconds since the first batch began")


def _way_told(journey: Journey) -> str:
    ages = ", ".join(
        f"{STAGE_TEXTS[stage]} after {seconds_text(journey.age(stage))}" for stage in STAGES
    )
    return f"{journey.row_count:,} rows of {journey.group}, snapshot {journey.snapshot_id}: {ages}"


def _change_totals(history: History) -> dict[str, int]:
    """Changes of all snapshots, by kind."""
    return {kind: sum(told.counts.get(kind, 0) for told in history.told) for kind in KIND_TEXTS}


def _change_sentence(run: PipelineRun, history: History) -> str:
    """How records became changes."""
    totals = _change_totals(history)
    snapshot_count = len(history.told)
    return (
        f"{_record_count(run):,} records of flights, and the aircraft that they were widened with, became "
        f"{sum(totals.values()):,} changes in {snapshot_count} snapshots. A "
        f"record that comes twice, or too late to win, changes nothing and is not told; of several "
        f"records of one flight that are compacted together, the last state is told."
    )


def _record_count(run: PipelineRun) -> int:
    """Of the streams that write to the wide table."""
    names = [group.name for group in GROUPS]
    return sum(stream.row_count for stream in run.streams if stream.group in names)


def _change_chart(history: History) -> Spec:
    """Changes told so far, by kind, over time."""
    series = []
    for kind, total in _change_totals(history).items():
        points = [(0.0, 0)]
        for told in history.told:
            points.append((told.seconds, points[-1][1] + told.counts.get(kind, 0)))
        if total:
            name = f"{kind}  {total:,} {KIND_TEXTS[kind]}"
            series.append(Series(name, _KIND_COLORS[kind], points))
    x_title = "seconds since the first batch began"
    return curve_chart(series, x_title=x_title, y_title="changes", steps=True, stacked=True)


def _carrier_chart(found: CarrierTable) -> Spec:
    """Mean delay by carrier and hour, the busiest carrier on top."""
    hours = sorted({hour for _, hour in found.hours})
    cells = [
        _cell(f"{_shortened(name)} {code}", code, hour, found.hours[code, hour])
        for code, (name, _) in found.carriers.items()
        for hour in hours
        if (code, hour) in found.hours
    ]
    return cell_chart(
        cells,
        [str(hour) for hour in hours],
        x_title="hour in which flights are scheduled to leave",
        value_title="mean delay in minutes",
        least=_EARLIEST_MINUTES,
        most=_LATEST_MINUTES,
    )


def _shortened(name: str) -> str:
    """Without what is no part of how people call it."""
    for ending in (" Inc.", " Co.", " Corporation"):
        name = name.removesuffix(ending)
    return name


def _cell(row: str, carrier: str, hour: int, found: Punctuality) -> Cell:
    title = f"{carrier} at {hour}: {found.flights:,} flights, {percent_text(found.cancelled_share)} cancelled"
    mean = found.mean_delay
    if mean is not None:
        title += f", mean delay {mean:.1f} minutes"
    return Cell(row, str(hour), mean, title)


def _layer_sentence(layer: LayerRun, history: History) -> str:
    """What the second layer did, and what happened to it in the middle of the run."""
    done = (
        f"It took {len(layer.batches)} micro-batches and wrote "
        f"{sum(commit.row_count for commit in history.layer_commits):,} rows in "
        f"{len(history.layer_commits)} commits."
    )
    if layer.restart is None or not layer.restart.again:
        return done
    batches = "batch " + ", ".join(map(str, layer.restart.again))
    return (
        f"{done} In the middle of the run it failed on purpose, right after a commit, before Spark could note "
        f"that {batches} was done. A new query on the same checkpoint ran {batches} again, found its commit "
        f"in the table, and wrote nothing."
    )


def _law_sentence(laws: wt.AuditReport) -> str:
    verdict = "and all held" if laws.ok else "and some were broken"
    return (
        f"<code>widetable audit</code> looked at {sum(laws.checks.values()):,} things under {len(laws.checks)} laws "
        f"of the format and the changelog, folded the changes after snapshot {laws.first_snapshot_id} up to "
        f"{laws.last_snapshot_id} into rows, {verdict}."
    )


def _law_list(laws: wt.AuditReport) -> str:
    """Per law how many things were looked at."""
    return "".join(
        f'<div class="law"><b>{count:,}</b><span>{escape(law)}</span></div>'
        for law, count in laws.checks.items()
    )
