"""Charts as Vega-Lite specifications: curves, lanes of events, stacked bars, ways through stages, a map of cells.

In: plain values, and colours as CSS gives them (`var(--name)`), so that a chart follows the page into dark mode.
Out: a JSON object per chart, which holds its data. What draws them in a browser, at whatever width it has, is
`chart_library`: Vega itself as one script, which asks for nothing from the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import vl_convert

Spec: TypeAlias = dict[str, Any]

_MUTED, _LINE = "var(--muted)", "var(--line)"
_IS_NARROW = "windowSize()[0] < 640"
_LAST_SHARE = 0.03  # of the time axis: how long the last value of a step is shown
_LONG_NAME = 16
_LANE_HEIGHT, _CELL_HEIGHT = 44, 26
_WAYS_HEIGHT, _WAY_HEIGHTS = 460, (4, 12)
_CONFIG = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": _MUTED,
        "titleColor": _MUTED,
        "domainColor": _LINE,
        "gridColor": _LINE,
        "ticks": False,
        "labelPadding": 6,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 10,
        "labelLimit": 240,
    },
    "legend": {
        "orient": "top",
        "title": None,
        "labelColor": _MUTED,
        "titleColor": _MUTED,
        "labelFontSize": 13,
        "titleFontWeight": "normal",
        "labelLimit": 0,
        "symbolType": "square",
        "symbolOpacity": 1,
        "symbolStrokeWidth": 0,
        "rowPadding": 4,
    },
}


@dataclass(frozen=True)
class Series:
    """A named line: (x, y) points, x ascending. is_dashed: so that one below it is seen."""

    name: str
    color: str
    points: Sequence[tuple[float, float]]
    is_dashed: bool = False


@dataclass(frozen=True)
class Event:
    """Something on a lane between two moments (seconds; equal for an instant); size is 0 to 1."""

    lane: str
    start: float
    end: float
    size: float
    title: str


@dataclass(frozen=True)
class ChartWay:
    """Something that went through stages: when it began and when each stage ended, ascending."""

    name: str
    times: Sequence[float]
    title: str


@dataclass(frozen=True)
class Cell:
    """A field of a map, coloured by its value."""

    row: str
    column: str
    value: float | None
    title: str


def chart_library() -> str:
    """The script that gives a page `vegaEmbed`. Takes a few seconds."""
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script.replace("</script", "<\\/script")


def curve_chart(
    series: Sequence[Series],
    *,
    x_title: str,
    y_title: str,
    y_max: float | None = None,
    steps: bool = False,
    stacked: bool = False,
) -> Spec:
    """Lines, or areas on top of each other, the first at the bottom: then all series have the same x.

    steps: a value is kept until the next point, and the last one for a moment more: else it could not be seen.
    """
    last = max((x for each in series for x, _ in each.points), default=1.0)
    values = [
        {"name": each.name, "order": order, "x": x, "y": y}
        for order, each in enumerate(series)
        for x, y in ([*each.points, (_beyond(last), each.points[-1][1])] if steps else each.points)
    ]
    mark: Spec = {
        "type": "area" if stacked else "line",
        "interpolate": "step-after" if steps else "linear",
        "clip": True,
    }
    if not stacked:
        mark |= {"strokeWidth": 2.2, "point": {"opacity": 0, "size": 120}, "tooltip": True}
    return _chart(
        values,
        height=280,
        mark=mark,
        encoding={
            "x": _time(x_title, _beyond(last) if steps else last),
            "y": {
                "field": "y",
                "type": "quantitative",
                "title": y_title,
                "stack": "zero" if stacked else None,
                "axis": {"format": "~s", "tickCount": 5},
                "scale": {"nice": True} if y_max is None else {"domain": [0, y_max]},
            },
            "color": _colors("name", {each.name: each.color for each in series}),
            "order": {"field": "order" if stacked else "x"},
            **_dashes(series),
        },
    )


def _dashes(series: Sequence[Series]) -> Spec:
    """Nothing where no line is dashed."""
    if not any(each.is_dashed for each in series):
        return {}
    scale = {
        "domain": [each.name for each in series],
        "range": [[6, 6] if each.is_dashed else [1, 0] for each in series],
    }
    return {"strokeDash": {"field": "name", "type": "nominal", "scale": scale, "legend": None}}


def lane_chart(
    events: Sequence[Event], colors: Mapping[str, str], *, x_title: str, marks: Sequence[float] = ()
) -> Spec:
    """A lane per colour: instants as discs whose area is their size, spans as bars; a dashed line per mark."""
    encoding = {
        "x": _time(x_title, _beyond(max((event.end for event in events), default=1.0)), "start"),
        "y": {
            "field": "lane",
            "type": "nominal",
            "title": None,
            "sort": list(colors),
            "scale": {"domain": list(colors)},
            "axis": {"grid": True, "tickBand": "center", "labelFontSize": 13},
        },
        "color": _colors("lane", colors, legend=None),
        "tooltip": {"field": "title"},
    }
    size = {
        "field": "size",
        "type": "quantitative",
        "legend": None,
        "scale": {"domain": [0, 1], "range": [20, 500]},
    }
    return _chart(
        [vars(event) for event in events],
        height=_LANE_HEIGHT * len(colors),
        encoding=encoding,
        layer=[
            {
                "data": {"values": [{"start": mark} for mark in marks]},
                "mark": {"type": "rule", "strokeDash": [3, 4]},
                "encoding": {"y": None, "tooltip": None, "color": {"value": _MUTED}},
            },
            {
                "transform": [{"filter": "datum.end > datum.start"}],
                "mark": {"type": "bar", "height": 14, "cornerRadius": 3, "opacity": 0.75},
                "encoding": {"x2": {"field": "end"}},
            },
            {
                "transform": [{"filter": "datum.end == datum.start"}],
                "mark": {"type": "circle", "opacity": 0.6},
                "encoding": {"size": size},
            },
        ],
    )


def bar_chart(
    counts: Sequence[tuple[str, str, float]], colors: Mapping[str, str], *, y_max: float
) -> Spec:
    """Stacked bars of (bar, layer, count); colors: per layer, bottom first."""
    order = {name: number for number, name in enumerate(colors)}
    return _chart(
        [
            {"bar": bar, "layer": layer, "order": order[layer], "count": count}
            for bar, layer, count in counts
        ],
        height=150,
        mark={"type": "bar", "tooltip": True},
        encoding={
            "x": {
                "field": "bar",
                "type": "ordinal",
                "title": None,
                "axis": {
                    "labelAngle": 0,
                    "labelExpr": f"{_IS_NARROW} ? peek(split(datum.label, '-')) : datum.label",
                },
            },
            "y": {
                "field": "count",
                "type": "quantitative",
                "title": "files",
                "scale": {"domain": [0, y_max]},
                "axis": {"tickMinStep": 1, "tickCount": 4},
            },
            "color": _colors("layer", colors),
            "order": {"field": "order"},
        },
    )


def way_chart(
    ways: Sequence[ChartWay], stages: Mapping[str, str], names: Mapping[str, str], *, x_title: str
) -> Spec:
    """A thin row per way, first on top: a dot of its name's colour, then a bar per stage."""
    values: list[Spec] = [
        {
            "row": row,
            "name": way.name,
            "stage": stage,
            "start": start,
            "end": end,
            "title": way.title,
        }
        for row, way in enumerate(ways)
        for stage, start, end in zip(stages, way.times[:-1], way.times[1:], strict=True)
    ]
    least, most = _WAY_HEIGHTS
    height = max(least, min(most, _WAYS_HEIGHT // max(len(ways), 1))) * len(ways)
    first = next(iter(stages))
    return _chart(
        values,
        height=height,
        encoding={
            "x": _time(
                x_title, _beyond(max((each["end"] for each in values), default=1.0)), "start"
            ),
            "y": {"field": "row", "type": "ordinal", "axis": None},
            "tooltip": {"field": "title"},
        },
        layer=[
            {
                "mark": "bar",
                "encoding": {"x2": {"field": "end"}, "color": _colors("stage", stages)},
            },
            {
                "transform": [{"filter": {"field": "stage", "equal": first}}],
                "mark": {"type": "circle", "xOffset": -7, "size": 30, "opacity": 1, "clip": False},
                "encoding": {"color": _colors("name", names, legend="bottom")},
            },
        ],
        resolve={"scale": {"color": "independent"}},
    )


def cell_chart(
    cells: Sequence[Cell],
    columns: Sequence[str],
    *,
    x_title: str,
    value_title: str,
    least: float,
    most: float,
) -> Spec:
    """A map; rows in the order in which they come. least, most: values of the strongest colours.

    On a narrow screen a row is named by its last word, and values are told by their colour.
    """
    rows = list(dict.fromkeys(cell.row for cell in cells))
    return _chart(
        [vars(cell) for cell in cells],
        height=_CELL_HEIGHT * len(rows),
        encoding={
            "x": {
                "field": "column",
                "type": "ordinal",
                "scale": {"domain": list(columns)},
                "title": x_title,
                "axis": {"labelAngle": 0, "labelOverlap": True, "domain": False},
            },
            "y": {
                "field": "row",
                "type": "ordinal",
                "sort": rows,
                "title": None,
                "axis": {
                    "domain": False,
                    "labelFontSize": 13,
                    "labelExpr": f"{_IS_NARROW} ? peek(split(datum.label, ' ')) : datum.label",
                },
            },
            "tooltip": {"field": "title"},
        },
        layer=_cell_layers(value_title, least, most),
    )


def _cell_layers(value_title: str, least: float, most: float) -> list[Spec]:
    """The fields, and their values on them."""
    share = f"(datum.value > 0 ? datum.value / {most} : datum.value / {least})"
    color = {
        "field": "value",
        "type": "quantitative",
        "scale": {
            "domain": [least, 0, most],
            "range": ["#1b7f8c", {"expr": "dark ? '#3a424c' : '#f4f1ea'"}, "#b3361f"],
            "clamp": True,
            "interpolate": "rgb",
        },
        "legend": {"title": value_title, "gradientThickness": 10},
    }
    text = {
        "condition": {"test": "datum.value === null", "value": "·"},
        "field": "value",
        "format": ".0f",
    }
    ink = {
        "condition": {"test": f"dark || {share} > 0.55", "value": "#ffffff"},
        "value": "#1f2933",
    }
    is_wide = {"expr": f"{_IS_NARROW} ? 0 : 1"}
    return [
        {
            "mark": {"type": "rect", "cornerRadius": 4, "stroke": "var(--paper)"},
            "encoding": {"color": color},
        },
        {
            "mark": {"type": "text", "fontSize": 12, "opacity": is_wide},
            "encoding": {"text": text, "color": ink},
        },
    ]


def _chart(values: Sequence[Mapping[str, Any]], *, height: float, **rest: Any) -> Spec:
    """As wide as the page. `dark` is set by the page."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 2,
        "params": [{"name": "dark", "value": False}],
        "config": _CONFIG,
        "data": {"values": list(values)},
        **rest,
    }


def _time(title: str, end: float, field: str = "x") -> Spec:
    scale = {"domain": [0, end], "nice": False}
    axis = {"tickCount": {"expr": f"{_IS_NARROW} ? 5 : 10"}}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def _beyond(last: float) -> float:
    return last * (1 + _LAST_SHARE) if last > 0 else 1.0


def _colors(field: str, colors: Mapping[str, str], *, legend: str | None = "top") -> Spec:
    """legend: where it stands, with as many columns on a narrow screen as names of this length allow."""
    columns = 1 if max(map(len, colors), default=0) > _LONG_NAME else 2
    return {
        "field": field,
        "type": "nominal",
        "scale": {"domain": list(colors), "range": list(colors.values())},
        "legend": legend
        and {"orient": legend, "columns": {"expr": f"{_IS_NARROW} ? {columns} : 0"}},
    }
