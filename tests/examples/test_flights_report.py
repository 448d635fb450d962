"""The demo's report: charts are well-formed SVG, the page needs no network, failures are shown."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

import widetable as wt
from examples.flights.audit import Audit, Difference
from examples.flights.charts import (
    Bar,
    Cell,
    Event,
    Lane,
    Series,
    Way,
    area_chart,
    bar_chart,
    blend,
    cell_chart,
    lane_chart,
    line_chart,
    ticks,
    way_chart,
)
from examples.flights.features import SAMPLE_COLUMNS, GroupFill
from examples.flights.freshness import Freshness, Journey
from examples.flights.history import (
    MAINTAINER,
    SECOND_LAYER,
    Bucket,
    Commit,
    FillPoint,
    History,
    Told,
)
from examples.flights.input_profile import InputProfile
from examples.flights.maintainer import CompactionRound
from examples.flights.micro_batch import MicroBatch
from examples.flights.pipeline import PipelineRun, StreamRun
from examples.flights.punctuality import CarrierTable, Punctuality
from examples.flights.report import Findings, render_report
from examples.flights.second_layer import LayerRun, Restart
from examples.flights.verdict import Verdict
from examples.flights.wide_table import GROUPS

LINES = [
    Series("one & only", "#111111", [(0.0, 1.0), (2.0, 5.0), (4.0, 3.0)]),
    Series("<two>", "#222222", [(0.0, 2.0), (2.0, 2.0), (4.0, 9.0)]),
]
CHARTS = {
    "lines": line_chart(LINES, x_title="s"),
    "steps": line_chart(LINES, x_title="s", steps=True),
    "no lines": line_chart([], x_title="s"),
    "lanes": lane_chart(
        [Lane("a", "#111111", [Event(1, 1, 1.0, "a < b"), Event(2, 3, 1.0, "c")])],
        x_max=4,
        x_title="s",
        marks=[(2.5, "a > b")],
    ),
    "ways": way_chart(
        [Way("#111111", [0.0, 1.0, 2.5, 4.0], "a & b")] * 3,
        ["#1", "#2", "#3"],
        x_max=4,
        x_title="s",
    ),
    "no ways": way_chart([], [], x_max=4, x_title="s"),
    "cells": cell_chart(
        [("<a>", [Cell("1", "#fff", "#000", "a < b"), None]), ("b", [None, None])],
        ["5", "6"],
        x_title="h",
    ),
    "no cells": cell_chart([], [], x_title="h"),
    "areas": area_chart(LINES, x_title="s"),
    "no areas": area_chart([], x_title="s"),
    "bars": bar_chart([Bar("x", [1, 0, 3], "<x>")], ["#1", "#2", "#3"], y_max=4),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_well_formed_and_inside_its_frame(name: str) -> None:
    root = ElementTree.fromstring(CHARTS[name])
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    for element in root.iter():
        for attribute, limit in (("cx", width), ("x", width), ("cy", height), ("y", height)):
            if attribute in element.attrib:
                assert 0 <= float(element.attrib[attribute]) <= limit


def test_a_line_goes_through_its_points_in_scale() -> None:
    root = ElementTree.fromstring(line_chart([LINES[0]], x_title="s", y_max=10))
    (path,) = (element for element in root.iter() if element.tag.endswith("path"))
    points = re.findall(r"([\d.]+),([\d.]+)", path.attrib["d"])
    (x0, y1), (x2, y5), (x4, y3) = [(float(x), float(y)) for x, y in points]
    assert x2 - x0 == pytest.approx(x4 - x2, abs=0.2)
    assert (y1 - y5) == pytest.approx(2 * (y1 - y3), abs=0.3)


def test_stacked_areas_add_up() -> None:
    """The top of the upper area is where a line through the sums would be."""
    sums = Series("sum", "#000", [(0.0, 3.0), (2.0, 7.0), (4.0, 12.0)])
    areas = re.findall(r'<path d="([^"]+)"', area_chart(LINES, x_title="s", height=260))
    line = re.findall(r'<path d="([^"]+)"', line_chart([sums], x_title="s", steps=True, height=260))
    assert areas[1].startswith(line[0])


def test_the_stages_of_a_way_follow_each_other_in_scale() -> None:
    root = ElementTree.fromstring(CHARTS["ways"])
    bars = [each.attrib for each in root.iter() if each.tag.endswith("rect")][:3]
    left = [float(bar["x"]) for bar in bars]
    width = [float(bar["width"]) for bar in bars]
    assert [bar["fill"] for bar in bars] == ["#1", "#2", "#3"]
    assert left[1] == pytest.approx(left[0] + width[0], abs=0.2)
    assert width[1] == pytest.approx(1.5 * width[0], abs=0.2)
    assert width[2] == pytest.approx(width[1], abs=0.2)


def test_colours_blend() -> None:
    assert blend("#000000", "#ff8040", 0.5) == "#804020"
    assert blend("#102030", "#ffffff", -1) == "#102030"
    assert blend("#102030", "#ffffff", 2) == "#ffffff"


@pytest.mark.parametrize(
    ("maximum", "expected"),
    [
        (100, [0, 20, 40, 60, 80, 100]),
        (7, [0, 2, 4, 6]),
        (5, [0, 1, 2, 3, 4, 5]),
        (0, [0]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    ],
)
def test_ticks_are_round_numbers(maximum: float, expected: list[float]) -> None:
    assert ticks(maximum) == pytest.approx(expected)


RIGHT = Audit(100, 3_700, 0, ())
LAYER_RIGHT = Audit(10, 90, 0, ())


def test_the_page_is_self_contained_and_says_that_all_is_right() -> None:
    page = render_report(_findings(RIGHT, LAYER_RIGHT))
    references = re.findall(r"(?:src|href)\s*=|url\(|@import|<script|<link", page)
    assert references == []
    assert set(re.findall(r"https?://[^\s\"<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "$" not in page
    assert '<div class="tile good"><b>0</b><span>different cells</span>' in page
    assert "<b>3,790</b><span>cells compared" in page
    assert '<div class="tile good"><b>0</b><span>breaches of laws in 52 checks' in page
    assert "is not the full join" not in page
    assert "is not what the full join gives" not in page
    assert "are broken" not in page


def test_the_page_tells_how_fresh_the_second_layer_was_and_that_it_was_restarted() -> None:
    page = render_report(_findings(RIGHT, LAYER_RIGHT))
    assert "<b>2.0 s</b><span>source to changelog, median; 99&nbsp;% within 2.0 s" in page
    assert "<b>3.5 s</b><span>source to second layer, median; 99&nbsp;% within 3.5 s" in page
    assert "It took 1 micro-batches and wrote 10 rows in 1 commits" in page
    assert "ran batch 0 again, found its commit in the table, and wrote nothing" in page
    assert "UA at 8: 9 flights, 11.1 % cancelled, mean delay -2.5 minutes" in page


def test_the_page_names_the_first_differences() -> None:
    difference = Difference(("2013-01", "<10:00>", "UA", 1), "arr_delay", 4, None)
    page = render_report(_findings(Audit(100, 3_700, 1, (difference,)), LAYER_RIGHT))
    assert "The table is not the full join" in page
    assert "arr_delay of (2013-01, &lt;10:00&gt;, UA, 1): expected 4, found None" in page
    assert '<div class="tile bad"><b>1</b>' in page


def test_the_page_names_what_is_wrong_in_the_second_layer_and_which_laws_are_broken() -> None:
    difference = Difference(("2013-01", "UA", 8), "flights", 4, 5)
    findings = _findings(
        RIGHT, Audit(10, 90, 1, (difference,)), found={"chain": 2}, findings=("chain: <here>",)
    )
    page = render_report(findings)
    assert not findings.verdict.passed
    assert "The second layer is not what the full join gives" in page
    assert "flights of (2013-01, UA, 8): expected 4, found 5" in page
    assert "chain: &lt;here&gt;" in page
    assert '<div class="tile bad"><b>2</b><span>breaches of laws' in page


def _findings(audit: Audit, layer_audit: Audit, **laws: Any) -> Findings:
    names = [group.name for group in GROUPS]
    known = dict.fromkeys(names, 90)
    buckets = (Bucket("2013-01", {0: 3, 5: 1}, {0: 9, 5: 100}, 4_000),)
    batches = (MicroBatch(0, 1_000.0, 1_009.0, 110, ""),)
    layer_batch = MicroBatch(0, 1_003.0, 1_003.5, 190, '{"next_snapshot": 6}')
    return Findings(
        profiles=[InputProfile(name, 2, 110, 5, 4, 3, 2) for name in names],
        run=PipelineRun(
            startup_seconds=3.0,
            streams=tuple(StreamRun(name, f"id-{name}", batches) for name in names),
            compactions=(CompactionRound(1_004.0, 0.5, full=False, snapshot_id=5),),
            layer=LayerRun((layer_batch,), Restart(1_004.0, (0,))),
        ),
        history=History(
            commits=(
                *(Commit(id, 2.0 * id, name, 110, 3, 1) for id, name in enumerate(names, 1)),
                Commit(5, 2.0, MAINTAINER, 0, 1, 0),
            ),
            layer_commits=(Commit(1, 3.5, SECOND_LAYER, 10, 1, 0),),
            told=(Told(5, 2.0, {"+I": 100, "-U": 45, "+U": 45}),),
            fill=(
                FillPoint(1, 1.0, 50, dict.fromkeys(names, 0), {0: 3}),
                FillPoint(4, 7.0, 100, known, {0: 3, 5: 1}),
            ),
            buckets_before=buckets,
            buckets_after=buckets,
        ),
        freshness=Freshness(
            tuple(
                Journey(name, id, 110, 1_000.0, 1_000.5, 1_002.0, 1_003.5)
                for id, name in enumerate(names, 1)
            )
        ),
        verdict=Verdict(audit, layer_audit, _laws(**laws)),
        carriers=CarrierTable(
            {"UA": ("United Air Lines Inc.", Punctuality(9, 8, -20, 1))},
            {("UA", 8): Punctuality(9, 8, -20, 1), ("UA", 9): Punctuality(1, 0, 0, 1)},
        ),
        fill=[
            GroupFill(group.name, 100, 90, dict.fromkeys(group.value_names, 80)) for group in GROUPS
        ],
        sample=[dict.fromkeys(SAMPLE_COLUMNS)],
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
