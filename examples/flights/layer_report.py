"""The part of the page that is about changes: how fresh they are, how many, and what the second layer made of them.

In: everything the run found out. Out: texts by the names that `report_page.html` has for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

import widetable as wt
from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.charts import (
    Cell,
    Series,
    Way,
    area_chart,
    blend,
    cell_chart,
    line_chart,
    way_chart,
)
from examples.flights.features import percent_text
from examples.flights.freshness import STAGES, Freshness, Journey
from examples.flights.history import History
from examples.flights.pipeline import PipelineRun
from examples.flights.punctuality import CarrierTable, Punctuality
from examples.flights.second_layer import LayerRun

# What became of a record at each stage, and the colour of the time that it took.
STAGE_TEXTS = {
    "stored": "in the table",
    "told": "in the changelog",
    "counted": "in the second layer",
}
STAGE_COLORS = {"stored": "#5b93d6", "told": "#f0a94e", "counted": "#c2416b"}
KIND_COLORS = {"+I": "#0d8f6f", "-U": "#c9ced6", "+U": "#2563c9", "-D": "#b42318"}
KIND_TEXTS = {
    "+I": "rows that are new",
    "-U": "rows as they were before a change",
    "+U": "the same rows after it",
    "-D": "rows that are gone",
}
_EARLY, _ON_TIME, _LATE = "#1b7f8c", "#f4f1ea", "#b3361f"
_DARK_INK, _LIGHT_INK = "#1f2933", "#ffffff"
_LATEST_MINUTES = 30.0  # the darkest colour
_EARLIEST_MINUTES = 15.0


def layer_values(
    run: PipelineRun,
    history: History,
    freshness: Freshness,
    carriers: CarrierTable,
    laws: wt.AuditReport,
    *,
    stream_colors: Mapping[str, str],
) -> dict[str, str]:
    """What the page shows of changes, by name."""
    return {
        "freshness_sentence": freshness_sentence(freshness),
        "freshness_chart": _freshness_chart(freshness),
        "stage_legend": _stage_legend(),
        "way_chart": _way_chart(freshness, run, stream_colors),
        "change_sentence": _change_sentence(run, history),
        "change_legend": _change_legend(history),
        "change_chart": _change_chart(history),
        "hourly_name": escape(HOURLY_NAME),
        "layer_sentence": _layer_sentence(run.layer, history),
        "carrier_chart": _carrier_chart(carriers),
        "law_sentence": _law_sentence(laws),
        "law_list": _law_list(laws),
    }


def seconds_text(seconds: float) -> str:
    """With one decimal, below a tenth with two; a dash for what was not measured."""
    if math.isnan(seconds):
        return "-"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds:.2f} s"


def freshness_sentence(freshness: Freshness) -> str:
    """Median and 99th percentile of each stage."""
    parts = [
        f"{STAGE_TEXTS[stage]} after {seconds_text(freshness.quantile(stage, 0.5))} "
        f"(99 %: {seconds_text(freshness.quantile(stage, 0.99))})"
        for stage in STAGES
    ]
    later = freshness.without_first_batches()
    told, counted = (seconds_text(later.quantile(stage, 0.99)) for stage in ("told", "counted"))
    return (
        f"Half of all records were {', '.join(parts[:-1])} and {parts[-1]}. The first batch of each stream "
        f"waits for Spark to start its Python processes; without it, 99 % were in the changelog within {told} "
        f"and in the second layer within {counted}."
    )


def _freshness_chart(freshness: Freshness) -> str:
    """The share of records that had arrived after so many seconds, by stage."""
    found = {stage: freshness.ages(stage) for stage in STAGES}
    oldest = max((float(ages[-1]) for ages, _ in found.values() if len(ages)), default=0.0)
    series = [
        Series(
            STAGE_TEXTS[stage],
            STAGE_COLORS[stage],
            [
                (0.0, 0.0),
                *(
                    (float(age), 100 * float(share))
                    for age, share in zip(ages, shares, strict=True)
                ),
                (oldest, 100.0),
            ],
        )
        for stage, (ages, shares) in found.items()
    ]
    x_title = "seconds since Spark took the record from the source"
    return line_chart(series, x_title=x_title, y_suffix=" %", y_max=100, steps=True)


def _way_chart(freshness: Freshness, run: PipelineRun, colors: Mapping[str, str]) -> str:
    """The way of every commit's records, in the order in which they were taken. colors: of the streams."""
    journeys = sorted(freshness.journeys, key=lambda each: (each.taken, each.group, each.told))
    ways = [
        Way(
            colors[journey.group],
            [
                time - run.started
                for time in (journey.taken, journey.stored, journey.told, journey.counted)
            ],
            _way_told(journey),
        )
        for journey in journeys
    ]
    last = max((way.times[-1] for way in ways), default=1.0)
    stage_colors = [STAGE_COLORS[stage] for stage in STAGES]
    return way_chart(
        ways, stage_colors, x_max=last * 1.02, x_title="seconds since the first batch began"
    )


def _way_told(journey: Journey) -> str:
    ages = ", ".join(
        f"{STAGE_TEXTS[stage]} after {seconds_text(journey.age(stage))}" for stage in STAGES
    )
    return f"{journey.row_count:,} rows of {journey.group}, snapshot {journey.snapshot_id}: {ages}"


def _stage_legend() -> str:
    """What the colours of the ways mean."""
    texts = {
        "stored": "until it was in the table",
        "told": "until its change was in the changelog",
        "counted": "until the second layer had counted it",
    }
    return "".join(
        f'<span><i style="background:{STAGE_COLORS[stage]}"></i>{text}</span>'
        for stage, text in texts.items()
    )


def _change_totals(history: History) -> dict[str, int]:
    """Changes of all snapshots, by kind."""
    return {kind: sum(told.counts.get(kind, 0) for told in history.told) for kind in KIND_COLORS}


def _change_sentence(run: PipelineRun, history: History) -> str:
    """How records became changes."""
    totals = _change_totals(history)
    snapshot_count = len(history.told)
    return (
        f"{run.row_count:,} records became {sum(totals.values()):,} changes in {snapshot_count} snapshots. A "
        f"record that comes twice, or too late to win, changes nothing and is not told; of several "
        f"records of one flight that are compacted together, the last state is told."
    )


def _change_chart(history: History) -> str:
    """Changes told so far, in thousands, by kind, over time."""
    series = []
    for kind, color in KIND_COLORS.items():
        points = [(0.0, 0.0)]
        for told in history.told:
            points.append((told.seconds, points[-1][1] + told.counts.get(kind, 0) / 1000))
        points.append((max(points[-1][0], history.commits[-1].seconds), points[-1][1]))
        if points[-1][1]:
            series.append(Series(kind, color, points))
    return area_chart(series, x_title="seconds since the first batch began", y_suffix=" k")


def _change_legend(history: History) -> str:
    """The kinds with their totals."""
    return "".join(
        f'<span><i style="background:{KIND_COLORS[kind]}"></i>{kind} &nbsp;{count:,} {KIND_TEXTS[kind]}</span>'
        for kind, count in _change_totals(history).items()
    )


def _carrier_chart(found: CarrierTable) -> str:
    """Mean delay by carrier and hour, the busiest carrier on top."""
    hours = sorted({hour for _, hour in found.hours})
    rows = [
        (
            f"{_shortened(name)}  {code}".strip(),
            [_cell(code, hour, found.hours.get((code, hour))) for hour in hours],
        )
        for code, (name, _) in found.carriers.items()
    ]
    return cell_chart(
        rows,
        [str(hour) for hour in hours],
        x_title="hour of the day in which flights are scheduled to leave",
    )


def _shortened(name: str) -> str:
    """Without what is no part of how people call it."""
    for ending in (" Inc.", " Co.", " Corporation"):
        name = name.removesuffix(ending)
    return name


def _cell(carrier: str, hour: int, found: Punctuality | None) -> Cell | None:
    if found is None:
        return None
    mean = found.mean_delay
    title = f"{carrier} at {hour}: {found.flights:,} flights, {percent_text(found.cancelled_share)} cancelled"
    if mean is None:
        return Cell("·", "#ffffff", _DARK_INK, title)
    share = mean / _LATEST_MINUTES if mean > 0 else -mean / _EARLIEST_MINUTES
    color = blend(_ON_TIME, _LATE if mean > 0 else _EARLY, share)
    ink = _LIGHT_INK if share > 0.55 else _DARK_INK
    return Cell(f"{round(mean)}", color, ink, f"{title}, mean delay {mean:.1f} minutes")


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
