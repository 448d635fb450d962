"""The demo's report: charts are well-formed SVG, the page needs no network, failures are shown."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from examples.flights.audit import Audit, Difference
from examples.flights.charts import (
    Bar,
    Event,
    Lane,
    Series,
    area_chart,
    bar_chart,
    lane_chart,
    line_chart,
    ticks,
)
from examples.flights.features import SAMPLE_COLUMNS, GroupFill
from examples.flights.history import Bucket, Commit, FillPoint, History
from examples.flights.input_profile import InputProfile
from examples.flights.maintainer import CompactionRound
from examples.flights.pipeline import PipelineRun, StreamRun
from examples.flights.report import Findings, render_report
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
    ),
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


def test_the_page_is_self_contained_and_says_that_all_cells_are_equal() -> None:
    page = render_report(_findings(Audit(100, 3_700, 0, ())))
    references = re.findall(r"(?:src|href)\s*=|url\(|@import|<script|<link", page)
    assert references == []
    assert set(re.findall(r"https?://[^\s\"<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "$" not in page
    assert '<div class="tile good"><b>0</b><span>different cells</span>' in page
    assert "The table is not the full join" not in page


def test_the_page_names_the_first_differences() -> None:
    difference = Difference(("2013-01", "<10:00>", "UA", 1), "arr_delay", 4, None)
    page = render_report(_findings(Audit(100, 3_700, 1, (difference,))))
    assert "The table is not the full join" in page
    assert "arr_delay of (2013-01, &lt;10:00&gt;, UA, 1): expected 4, found None" in page
    assert '<div class="tile bad"><b>1</b>' in page


def _findings(audit: Audit) -> Findings:
    names = [group.name for group in GROUPS]
    known = dict.fromkeys(names, 90)
    buckets = (Bucket("2013-01", {0: 3, 5: 1}, {0: 9, 5: 100}, 4_000),)
    return Findings(
        profiles=[InputProfile(name, 2, 110, 5, 4, 3, 2) for name in names],
        run=PipelineRun(
            startup_seconds=3.0,
            streams=tuple(
                StreamRun(name, f"id-{name}", 110, 2, 1_000.0, 1_009.0) for name in names
            ),
            compactions=(CompactionRound(1_004.0, 0.5, full=False, file_count=3),),
        ),
        history=History(
            commits=tuple(
                Commit(number + 1, 2.0 * number + 1, name, 110, 3, 1)
                for number, name in enumerate(names)
            ),
            fill=(
                FillPoint(1, 1.0, 50, dict.fromkeys(names, 0), {0: 3}),
                FillPoint(4, 7.0, 100, known, {0: 3, 5: 1}),
            ),
            buckets_before=buckets,
            buckets_after=buckets,
        ),
        audit=audit,
        fill=[
            GroupFill(group.name, 100, 90, dict.fromkeys(group.value_names, 80)) for group in GROUPS
        ],
        sample=[dict.fromkeys(SAMPLE_COLUMNS)],
        total_seconds=60.0,
    )
