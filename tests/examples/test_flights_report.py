"""The demo's report: charts say what the text says and can be drawn, the page needs no network, failures are shown."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
import vl_convert

import widetable as wt
from examples.flights.audit import Audit, Difference
from examples.flights.barrier_looks import BarrierCheck, BarrierChecks, Totals
from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.maintainer import CompactionRound
from examples.flights.micro_batch import MicroBatch
from examples.flights.pipeline import PipelineRun, StreamRun
from examples.flights.prediction.prediction import Prediction, Ranked
from examples.flights.prediction.training_set import TRAINING_NAME
from examples.flights.report.charts import Series, curve_chart
from examples.flights.report.features import SAMPLE_COLUMNS, GroupFill
from examples.flights.report.freshness import Freshness, Journey
from examples.flights.report.history import (
    MAINTAINER,
    SECOND_LAYER,
    Bucket,
    DemoCommit,
    Emitted,
    FillPoint,
    History,
)
from examples.flights.report.input_profile import InputProfile
from examples.flights.report.punctuality import CarrierTable, Punctuality
from examples.flights.report.report import DemoFindings, render_report
from examples.flights.report.widened import Widened
from examples.flights.second_layer import LayerRun, Restart
from examples.flights.verdict import DemoVerdict
from examples.flights.weather.departure_weather import DEPARTURES_NAME
from examples.flights.weather.weather_first import LOOKUP
from examples.flights.wide_table import COLUMN_GROUPS, GROUPS, STREAMS, TABLE_NAME

KINDS = ("+I", "-U", "+U", "-D")
VEGA_LITE = "https://vega.github.io/schema/vega-lite/v6.json"
JOURNEYS = [
    Journey(group.name, 2 * id + late, 55, *(1_000.0 + 9 * late + age for age in ages))
    for id, group in enumerate(GROUPS, 1)
    for late, ages in enumerate([(0, 1, 5, 7, 8), (0, 0.25, 0.5, 2, 3.5)])
]
RIGHT = Audit(100, 3_700, 0, ())
LAYER_RIGHT = Audit(10, 90, 0, ())
LOOKED_UP = Audit(80, 1_280, 0, ())
PREDICTION = Prediction(
    trained=60,
    asked=20,
    late_share=0.25,
    leaked=Ranked(0.875, [(0.0, 0.0), (0.5, 0.9), (1.0, 1.0)]),
    leaked_served=Ranked(0.625, [(0.0, 0.0), (0.5, 0.6), (1.0, 1.0)]),
    known=Ranked(0.75, [(0.0, 0.0), (0.5, 0.8), (1.0, 1.0)]),
    by_torch=False,
    audit=Audit(80, 1_920, 0, ()),
    seconds=2.5,
)


def _look(
    at: float, barrier: int | None, flights: int, counted: int, delays: int = 0
) -> BarrierCheck:
    return BarrierCheck(at, barrier, Totals(flights, 0, 0, 0), Totals(counted, 0, delays, 0))


LOOKS = BarrierChecks(
    (_look(1_002.0, 2_000, 500, 500), _look(1_004.0, 3_000, 1_100, 1_100)),
    (_look(1_001.0, None, 500, 0), _look(1_003.0, None, 1_100, 500), _look(1_005.0, None, 9, 9)),
)


def test_the_page_is_self_contained_and_says_that_all_is_right() -> None:
    page = render_report(_findings(RIGHT, LAYER_RIGHT), "")
    references = re.findall(r"(?:src|href)\s*=|url\(|@import|<script src|<link", page)
    assert references == []
    assert set(re.findall(r"https?://[^\s\"<]+", page)) == {VEGA_LITE}
    assert not re.search(r"\$\w", page.replace("$schema", ""))
    assert '<div class="tile good"><b>0</b><span>different cells</span>' in page
    assert "<b>5,070</b><span>cells compared" in page
    assert '<div class="tile good"><b>0</b><span>breaches of laws in 52 checks' in page
    assert "is not what the input gives" not in page
    assert "are broken" not in page


def test_every_place_for_a_chart_has_one_that_can_be_drawn() -> None:
    page = render_report(_findings(RIGHT, LAYER_RIGHT), "")
    charts = _charts(page)
    assert set(re.findall(r'class="chart" id="(\w+)"', page)) == charts.keys()
    for chart in charts.values():
        assert vl_convert.vegalite_to_vega(chart)["marks"]  # raises ValueError for what is no chart


def test_text_from_data_ends_no_script_of_the_page() -> None:
    findings = _findings(RIGHT, LAYER_RIGHT)
    findings.carriers.carriers["UA"] = ("</script><b>", findings.carriers.carriers["UA"][1])
    page = render_report(findings, "")
    assert "</script><b>" not in page
    assert _charts(page)["carrier_chart"]["data"]["values"][0]["row"] == "</script><b> UA"


def test_every_colour_of_the_page_is_there_in_light_and_in_dark_mode() -> None:
    page = render_report(_findings(RIGHT, LAYER_RIGHT), "")
    light, dark = page.partition("</style>")[0].split("@media (prefers-color-scheme: dark)")
    names = set(re.findall(r"(--[\w-]+):", light))
    assert set(re.findall(r"(--[\w-]+):", dark)) == names
    assert set(re.findall(r"var\((--[\w-]+)\)", page)) <= names


def test_the_chart_of_changes_says_what_the_text_says(rng: random.Random) -> None:
    """Most changes often come with the last snapshot: they are seen, too."""
    told = [
        Emitted(id, 2.0 * id, {kind: rng.randrange(10**6) for kind in KINDS}) for id in range(1, 9)
    ]
    page = render_report(_findings(RIGHT, LAYER_RIGHT, told=tuple(told)), "")
    chart = _charts(page)["change_chart"]
    last_x = chart["encoding"]["x"]["scale"]["domain"][1]
    at_end = [each for each in chart["data"]["values"] if each["x"] == last_x]
    assert last_x > told[-1].seconds
    names = [f"{kind}  {sum(each.counts[kind] for each in told):,} " for kind in KINDS]
    assert [each["name"][: len(name)] for each, name in zip(at_end, names, strict=True)] == names
    assert [each["y"] for each in at_end] == [
        sum(each.counts[kind] for each in told) for kind in KINDS
    ]
    total = sum(each["y"] for each in at_end)
    assert (
        f"330 records of flights, and the aircraft that they were widened with, became {total:,} "
        in page
    )
    assert f"<b>{total:,}</b><span>changes told" in page


def test_the_chart_of_freshness_crosses_a_share_where_the_text_says(rng: random.Random) -> None:
    journeys = []
    for id in range(1, 60):
        times = [1_000.0 + id, *sorted(1_000.0 + id + rng.uniform(0, 50) for _ in "1234")]
        journeys.append(Journey("arrival", id, rng.randrange(1, 999), *times))
    page = render_report(_findings(RIGHT, LAYER_RIGHT, journeys=journeys), "")
    values = _charts(page)["freshness_chart"]["data"]["values"]
    for text in ("in the table", "in the changelog", "in the second layer"):
        said = re.search(rf"{text} after ([\d.]+) s \(99 %: ([\d.]+) s\)", page)
        assert said
        points = [(each["x"], each["y"]) for each in values if each["name"] == text]
        for share, seconds in zip((50, 99), said.groups(), strict=True):
            assert f"{next(x for x, y in points if y >= share):.1f}" == seconds


def test_the_last_value_of_a_step_is_seen() -> None:
    chart = curve_chart(
        [Series("a", "red", [(0.0, 1.0), (4.0, 7.0)])], x_title="s", y_title="n", steps=True
    )
    points = [(each["x"], each["y"]) for each in chart["data"]["values"]]
    assert points[:-1] == [(0.0, 1.0), (4.0, 7.0)]
    assert points[-1][0] > 4.0
    assert points[-1][1] == 7.0
    assert chart["encoding"]["x"]["scale"]["domain"] == [0, points[-1][0]]


def _charts(page: str) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="charts">(.*?)</script>', page, re.DOTALL
    )
    assert found
    charts: dict[str, Any] = json.loads(found[1])
    return charts


def test_the_page_tells_how_fresh_the_second_layer_was_and_that_it_was_restarted() -> None:
    page = render_report(_findings(RIGHT, LAYER_RIGHT), "")
    assert "<b>2.0 s</b><span>file to changelog, median; 99&nbsp;% within 2.0 s" in page
    assert "<b>3.5 s</b><span>file to second layer, median; 99&nbsp;% within 3.5 s" in page
    assert "It took 1 micro-batches and wrote 10 rows in 1 commits" in page
    assert "ran batch 0 again, found its commit in the table, and wrote nothing" in page
    assert "UA at 8: 9 flights, 11.1 % cancelled, mean delay -2.5 minutes" in page


def test_the_page_tells_what_was_widened_and_looked_up_and_how_soon() -> None:
    page = render_report(_findings(RIGHT, LAYER_RIGHT), "")
    assert "250 rows were widened in 3 rounds" in page
    assert "were followed after 1.5 s, all within 7.0 s. 500 widened cells were compared" in page
    assert "110 records were looked up in 1 micro-batches, at 12 records a second" in page
    assert "1,280 cells were compared" in page
    assert "<b>1.5 s</b><span>flight or aircraft to widened columns, median; 500 cells" in page


def test_the_page_draws_both_tables_at_barriers_and_how_far_newest_rows_are_apart() -> None:
    page = render_report(_findings(RIGHT, LAYER_RIGHT), "")
    said = "2 barriers were read while the streams ran, and both tables agreed at 2 of them"
    assert said in page
    assert "were read 3 times and disagreed 2 times, by up to 600 flights" in page
    assert '<div class="tile good"><b>0</b><span>of 2 barriers' in page
    charts = _charts(page)
    for name in (TABLE_NAME, HOURLY_NAME):
        points = [
            (each["x"], each["y"])
            for each in charts["barrier_chart"]["data"]["values"]
            if each["name"] == name
        ]
        assert points[:3] == [(0.0, 0), (2.0, 500), (4.0, 1_100)]
    dashes = charts["barrier_chart"]["encoding"]["strokeDash"]["scale"]["range"]
    assert dashes[0] != dashes[1]
    apart = charts["uncommitted_chart"]["data"]["values"]
    assert [(each["x"], each["y"]) for each in apart][:4] == [(0, 0), (1, 500), (3, 600), (5, 0)]


def test_the_page_says_what_leaked_features_promise_and_what_they_give() -> None:
    page = render_report(_findings(RIGHT, LAYER_RIGHT), "")
    assert (
        "AUC with features as they were known: 0.750. With leaked ones: 0.875 by their own" in page
    )
    assert "validation, and 0.625 in use" in page
    assert "60 flights trained two models (numpy), 20 later ones" in page
    assert "<td>leaked features</td><td>what was known</td><td>0.625</td>" in page
    assert "<b>0.750</b><span>AUC of late flights, by features as they were known;" in page
    values = _charts(page)["prediction_chart"]["data"]["values"]
    middle = {each["name"]: each["y"] for each in values if each["x"] == 50}
    assert middle == {
        "trained with leaked features, asked with leaked features": 90,
        "trained with leaked features, asked with what was known": 60,
        "trained with what was known, asked with what was known": 80,
    }


def test_a_rank_that_does_not_exist_is_none_and_the_page_can_be_read() -> None:
    findings = _findings(RIGHT, LAYER_RIGHT)
    none = dataclasses.replace(PREDICTION, known=Ranked(float("nan"), [(0.0, 0.0), (1.0, 0.0)]))
    page = render_report(dataclasses.replace(findings, prediction=none), "")
    assert "as they were known: none." in page
    assert "NaN" not in page


def test_the_page_names_a_feature_that_is_not_what_the_input_gives() -> None:
    findings = _findings(RIGHT, LAYER_RIGHT)
    difference = Difference(("2013-01", "10:00", "UA", 1), "mean_delay_3h", 4.0, 5.0)
    verdict = findings.verdict.with_audit(TRAINING_NAME, Audit(80, 1_920, 1, (difference,)))
    assert not verdict.passed
    page = render_report(dataclasses.replace(findings, verdict=verdict), "")
    assert f"{TRAINING_NAME} is not what the input gives" in page
    assert "mean_delay_3h of (2013-01, 10:00, UA, 1): expected 4.0, found 5.0" in page


@pytest.mark.parametrize(
    ("at_barriers", "newest", "shown"),
    [
        ((_look(1_002.0, 2_000, 500, 499),), LOOKS.newest, "barrier 2000: flights 500, "),
        ((_look(1_002.0, 2_000, 500, 500, 1),), LOOKS.newest, "barrier 2000: flights 500, "),
        (LOOKS.at_barriers, LOOKS.newest[2:], "or newest rows always did"),
        ((), LOOKS.newest, "or newest rows always did"),
    ],
    ids=["flights differ", "delays differ", "newest rows always agreed", "no barrier was read"],
)
def test_the_page_says_when_the_third_layer_does_not_show_what_it_must(
    at_barriers: tuple[BarrierCheck, ...], newest: tuple[BarrierCheck, ...], shown: str
) -> None:
    findings = _findings(RIGHT, LAYER_RIGHT)
    run = dataclasses.replace(findings.run, looks=BarrierChecks(at_barriers, newest))
    findings = dataclasses.replace(findings, run=run)
    assert not findings.passed
    page = render_report(findings, "")
    assert shown in page
    assert '<div class="tile bad"><b>' in page
    assert _findings(RIGHT, LAYER_RIGHT).passed


def test_the_page_names_the_first_differences() -> None:
    difference = Difference(("2013-01", "<10:00>", "UA", 1), "arr_delay", 4, None)
    page = render_report(_findings(Audit(100, 3_700, 1, (difference,)), LAYER_RIGHT), "")
    assert f"{TABLE_NAME} is not what the input gives" in page
    assert "arr_delay of (2013-01, &lt;10:00&gt;, UA, 1): expected 4, found None" in page
    assert '<div class="tile bad"><b>1</b>' in page


def test_the_page_names_what_is_wrong_in_the_second_layer_and_which_laws_are_broken() -> None:
    difference = Difference(("2013-01", "UA", 8), "flights", 4, 5)
    findings = _findings(
        RIGHT, Audit(10, 90, 1, (difference,)), found={"chain": 2}, findings=("chain: <here>",)
    )
    page = render_report(findings, "")
    assert not findings.verdict.passed
    assert f"{HOURLY_NAME} is not what the input gives" in page
    assert "flights of (2013-01, UA, 8): expected 4, found 5" in page
    assert "chain: &lt;here&gt;" in page
    assert '<div class="tile bad"><b>2</b><span>breaches of laws' in page


def _findings(
    audit: Audit,
    layer_audit: Audit,
    *,
    told: Sequence[Emitted] = (Emitted(5, 2.0, {"+I": 100, "-U": 45, "+U": 45}),),
    journeys: Sequence[Journey] = JOURNEYS,
    **laws: Any,
) -> DemoFindings:
    names = [group.name for group in GROUPS]
    known = dict.fromkeys((group.name for group in COLUMN_GROUPS), 90)
    buckets = (Bucket("2013-01", {0: 3, 5: 1}, {0: 9, 5: 100}, 4_000),)
    batches = (MicroBatch(0, 1_000.0, 1_009.0, 110, ""),)
    layer_batch = MicroBatch(0, 1_003.0, 1_003.5, 190, '{"barrier": 6000}')
    return DemoFindings(
        profiles=[InputProfile(group.name, 2, 110, 5, 4, 3, 2) for group in STREAMS],
        run=PipelineRun(
            startup_seconds=3.0,
            streams=tuple(
                StreamRun(group.name, f"id-{group.name}", batches, (1_000.0,)) for group in STREAMS
            ),
            lookup=StreamRun(LOOKUP, "id-lookup", batches, (1_000.0,)),
            compactions=(CompactionRound(1_004.0, 0.5, full=False, snapshot_id=5),),
            layer=LayerRun("id-layer", (layer_batch,), Restart(1_004.0, (0,))),
            looks=LOOKS,
        ),
        history=History(
            commits=(
                *(DemoCommit(id, 2.0 * id, name, 110, 3, 1) for id, name in enumerate(names, 1)),
                DemoCommit(5, 2.0, MAINTAINER, 0, 1, 0),
            ),
            other_commits=(
                DemoCommit(1, 3.5, SECOND_LAYER, 10, 1, 0),
                DemoCommit(1, 2.5, LOOKUP, 80, 1, 0),
            ),
            told=tuple(told),
            fill=(
                FillPoint(1, 1.0, 50, dict.fromkeys(known, 0), {0: 3}),
                FillPoint(4, 7.0, 100, known, {0: 3, 5: 1}),
            ),
            buckets_before=buckets,
            buckets_after=buckets,
        ),
        freshness=Freshness(tuple(journeys)),
        widened=Widened(3, 250, (0.5, 1.5, 7.0)),
        verdict=DemoVerdict(
            {TABLE_NAME: audit, DEPARTURES_NAME: LOOKED_UP, HOURLY_NAME: layer_audit},
            _laws(**laws),
        ),
        carriers=CarrierTable(
            {"UA": ("United Air Lines Inc.", Punctuality(9, 8, -20, 1))},
            {("UA", 8): Punctuality(9, 8, -20, 1), ("UA", 9): Punctuality(1, 0, 0, 1)},
        ),
        fill=[
            GroupFill(group.name, 100, 90, dict.fromkeys(group.value_names, 80))
            for group in COLUMN_GROUPS
        ],
        sample=[dict.fromkeys(SAMPLE_COLUMNS)],
        prediction=PREDICTION,
        total_seconds=60.0,
    )


def _laws(found: dict[str, int] | None = None, findings: tuple[Any, ...] = ()) -> wt.AuditReport:
    return wt.AuditReport(
        path="/t",
        producer="lookup",
        first_snapshot_id=0,
        last_snapshot_id=5,
        checks={"chain": 50, "fold": 2},
        found=found or {},
        findings=findings,
        skipped=(),
    )
