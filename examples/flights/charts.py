"""Charts as SVG text: lines, lanes of events, stacked areas and bars, ways through stages, a map of cells.

In: plain values. Out: one `<svg>` element that stands by itself in a page: no script, no style sheet,
no network. Colours come from the caller, text is escaped here, details are in `<title>` elements,
which browsers show under the pointer. Nothing is raised for empty series; they draw nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

INK = "#1f2933"
MUTED = "#6b7785"
GRID = "#e6e9ed"
WIDTH = 960

_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 132, 14, 42
_MIN_LABEL_GAP = 16.0


@dataclass(frozen=True)
class Series:
    """A named line: (x, y) points, x ascending."""

    name: str
    color: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Event:
    """Something on a lane between two moments (seconds; equal for an instant); size is 0 to 1."""

    start: float
    end: float
    size: float
    title: str


@dataclass(frozen=True)
class Lane:
    """One writer's events."""

    name: str
    color: str
    events: Sequence[Event]


@dataclass(frozen=True)
class Bar:
    """A stack: its label below, and a value per layer, bottom first."""

    label: str
    values: Sequence[float]
    title: str


@dataclass(frozen=True)
class Way:
    """Something that went through stages: when it began and when each stage ended, ascending."""

    color: str
    times: Sequence[float]
    title: str


@dataclass(frozen=True)
class Cell:
    """A coloured field with a short text."""

    text: str
    color: str
    ink: str
    title: str


@dataclass(frozen=True)
class _Frame:
    """The plot area and its scales; pixels grow to the right and down."""

    height: int
    x_max: float
    y_max: float

    def x(self, value: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (value / self.x_max if self.x_max else 0.0)

    def y(self, value: float) -> float:
        inner = self.height - _TOP - _BOTTOM
        return _TOP + inner * (1 - (value / self.y_max if self.y_max else 0.0))


def line_chart(
    series: Sequence[Series],
    *,
    x_title: str,
    y_suffix: str = "",
    y_max: float | None = None,
    steps: bool = False,
    height: int = 320,
) -> str:
    """Lines with their names at their ends; `steps` keeps a value until the next point."""
    points = [point for line in series for point in line.points]
    top = y_max or _nice_ceiling(max((y for _, y in points), default=1.0))
    frame = _Frame(height, max((x for x, _ in points), default=1.0), top)
    drawn = [*_y_axis(frame, y_suffix), *_x_axis(frame, x_title)]
    for line in series:
        if line.points:
            path = _path(frame, line.points, steps=steps)
            drawn.append(
                f'<path d="{path}" fill="none" stroke="{line.color}" stroke-width="2.2" '
                f'stroke-linejoin="round"/>'
            )
    ends = [(line, frame.y(line.points[-1][1])) for line in series if line.points]
    for (line, _), label_y in zip(ends, _spread([y for _, y in ends], frame), strict=True):
        drawn.append(_text(WIDTH - _RIGHT + 10, label_y + 4, line.name, line.color, weight=600))
    return _svg(height, drawn, ", ".join(line.name for line in series))


def lane_chart(
    lanes: Sequence[Lane], *, x_max: float, x_title: str, marks: Sequence[tuple[float, str]] = ()
) -> str:
    """One lane per writer: instants as discs whose area is their size, spans as bars; `marks` across all lanes."""
    lane_height = 46
    height = _TOP + lane_height * len(lanes) + _BOTTOM
    frame = _Frame(height, x_max, 1.0)
    drawn = [*_x_axis(frame, x_title), *(_mark(frame, x, text) for x, text in marks)]
    for number, lane in enumerate(lanes):
        middle = _TOP + lane_height * (number + 0.5)
        drawn.append(_rule(_LEFT, middle, WIDTH - _RIGHT, middle))
        drawn.append(_text(WIDTH - _RIGHT + 10, middle + 4, lane.name, lane.color, weight=600))
        drawn.extend(_event(frame, lane.color, middle, event) for event in lane.events)
    return _svg(height, drawn, ", ".join(lane.name for lane in lanes))


def area_chart(
    series: Sequence[Series], *, x_title: str, height: int = 260, y_suffix: str = ""
) -> str:
    """Stacked step areas, first series at the bottom; all series share their x values."""
    if not series or not series[0].points:
        return _svg(height, [], "empty")
    xs = [x for x, _ in series[0].points]
    base = [0.0] * len(xs)
    stacks: list[tuple[Series, list[float], list[float]]] = []
    for line in series:
        upper = [low + y for low, (_, y) in zip(base, line.points, strict=True)]
        stacks.append((line, base, upper))
        base = upper
    frame = _Frame(height, max(xs) or 1.0, _nice_ceiling(max(base)))
    drawn = [*_y_axis(frame, y_suffix), *_x_axis(frame, x_title)]
    for line, lower, upper in stacks:
        there = _path(frame, list(zip(xs, upper, strict=True)), steps=True)
        back = _path(frame, list(zip(xs, lower, strict=True)), steps=True, reverse=True)
        drawn.append(f'<path d="{there} L{back[1:]} Z" fill="{line.color}" fill-opacity="0.85"/>')
    return _svg(height, drawn, ", ".join(line.name for line in series))


def bar_chart(
    bars: Sequence[Bar], colors: Sequence[str], *, y_max: float, height: int = 200
) -> str:
    """Stacked bars over a common y scale; `colors` per layer, bottom first."""
    frame = _Frame(height, max(len(bars), 1), y_max)
    drawn = _y_axis(frame, "")
    for number, bar in enumerate(bars):
        left, right = frame.x(number + 0.14), frame.x(number + 0.86)
        base = 0.0
        for value, color in zip(bar.values, colors, strict=True):
            if value:
                top = frame.y(base + value)
                drawn.append(
                    f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                    f'height="{frame.y(base) - top:.1f}" fill="{color}" stroke="#fff">'
                    f"<title>{escape(bar.title)}</title></rect>"
                )
            base += value
        drawn.append(_text((left + right) / 2, height - _BOTTOM + 18, bar.label, anchor="middle"))
    return _svg(height, drawn, "stacked bars")


def way_chart(ways: Sequence[Way], colors: Sequence[str], *, x_max: float, x_title: str) -> str:
    """A thin row per way, first on top: a dot of its own colour, then a bar per stage; `colors` per stage."""
    row_height = max(4.0, min(12.0, 460.0 / max(len(ways), 1)))
    height = math.ceil(_TOP + row_height * len(ways) + _BOTTOM)
    frame = _Frame(height, x_max, 1.0)
    drawn = [
        *(_rule(frame.x(tick), _TOP, frame.x(tick), height - _BOTTOM) for tick in ticks(x_max, 8)),
        *_x_axis(frame, x_title),
    ]
    for number, way in enumerate(ways):
        top = _TOP + row_height * number
        drawn.append(f"<g><title>{escape(way.title)}</title>")
        drawn.append(
            f'<circle cx="{_LEFT - 12}" cy="{top + row_height / 2:.1f}" '
            f'r="{min(row_height * 0.38, 3.5):.1f}" fill="{way.color}"/>'
        )
        for start, end, color in zip(way.times, way.times[1:], colors, strict=False):
            drawn.append(
                f'<rect x="{frame.x(start):.1f}" y="{top + row_height * 0.12:.1f}" '
                f'width="{max(frame.x(end) - frame.x(start), 0.0):.1f}" '
                f'height="{row_height * 0.76:.1f}" fill="{color}"/>'
            )
        drawn.append("</g>")
    return _svg(height, drawn, x_title)


def cell_chart(
    rows: Sequence[tuple[str, Sequence[Cell | None]]], columns: Sequence[str], *, x_title: str
) -> str:
    """A map: a row of cells per name, a column per text below; None leaves a field empty."""
    left, cell_height = 196, 26
    width = (WIDTH - left - 8) / max(len(columns), 1)
    height = _TOP + cell_height * len(rows) + _BOTTOM
    drawn: list[str] = []
    for number, (name, cells) in enumerate(rows):
        top = _TOP + cell_height * number
        drawn.append(_text(left - 12, top + cell_height / 2 + 4.5, name, INK, anchor="end"))
        for position, cell in enumerate(cells):
            if cell is not None:
                x = left + width * position
                drawn.append(
                    f'<g><title>{escape(cell.title)}</title><rect x="{x + 1:.1f}" y="{top + 1}" '
                    f'width="{width - 2:.1f}" height="{cell_height - 2}" rx="4" fill="{cell.color}"/>'
                )
                middle = _text(
                    x + width / 2, top + cell_height / 2 + 4.5, cell.text, cell.ink, "middle"
                )
                drawn.append(f"{middle}</g>")
    bottom = height - _BOTTOM
    for position, column in enumerate(columns):
        drawn.append(_text(left + width * (position + 0.5), bottom + 18, column, anchor="middle"))
    drawn.append(_text((left + WIDTH - 8) / 2, height - 4, x_title, anchor="middle"))
    return _svg(height, drawn, x_title)


def blend(low: str, high: str, share: float) -> str:
    """The colour between two (#rrggbb): 0 gives the first, 1 the second."""
    inside = min(max(share, 0.0), 1.0)
    channels = [(int(low[at : at + 2], 16), int(high[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * inside):02x}" for a, b in channels)


def ticks(maximum: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to `maximum`, about `count` of them; whole ones where it is above 4."""
    if maximum <= 0:
        return [0.0]
    rough = max(maximum / count, 1.0) if maximum > 4 else maximum / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [step * index for index in range(int(maximum / step + 1e-9) + 1)]


def _nice_ceiling(maximum: float) -> float:
    steps = ticks(maximum)
    if len(steps) < 2 or steps[-1] >= maximum:
        return steps[-1] or 1.0
    return steps[-1] + steps[1]


def _spread(label_ys: Sequence[float], frame: _Frame) -> list[float]:
    """The label positions moved apart so far that none covers another, in the given order."""
    order = sorted(range(len(label_ys)), key=lambda index: label_ys[index])
    placed = [0.0] * len(label_ys)
    lowest = float("-inf")
    for index in order:
        placed[index] = max(label_ys[index], lowest + _MIN_LABEL_GAP)
        lowest = placed[index]
    overflow = max(0.0, lowest - (frame.height - _BOTTOM))
    return [y - overflow for y in placed]


def _path(
    frame: _Frame,
    points: Sequence[tuple[float, float]],
    *,
    steps: bool,
    reverse: bool = False,
) -> str:
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if steps and corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    if reverse:
        corners.reverse()
    return "M" + " L".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in corners)


def _event(frame: _Frame, color: str, middle: float, event: Event) -> str:
    title = f"<title>{escape(event.title)}</title>"
    if event.end > event.start:
        left, width = frame.x(event.start), max(frame.x(event.end) - frame.x(event.start), 2.0)
        return (
            f'<rect x="{left:.1f}" y="{middle - 7:.1f}" width="{width:.1f}" height="14" rx="3" '
            f'fill="{color}" fill-opacity="0.75">{title}</rect>'
        )
    radius = 3.0 + 10.0 * math.sqrt(event.size)
    return (
        f'<circle cx="{frame.x(event.start):.1f}" cy="{middle:.1f}" r="{radius:.1f}" '
        f'fill="{color}" fill-opacity="0.55" stroke="{color}">{title}</circle>'
    )


def _mark(frame: _Frame, x: float, text: str) -> str:
    left, bottom = frame.x(x), frame.height - _BOTTOM
    line = (
        f'<line x1="{left:.1f}" y1="{_TOP}" x2="{left:.1f}" y2="{bottom}" stroke="{MUTED}" '
        f'stroke-dasharray="3 4"/>'
    )
    return line + _text(left + 6, _TOP + 4, text)


def _y_axis(frame: _Frame, suffix: str) -> list[str]:
    drawn: list[str] = []
    for tick in ticks(frame.y_max):
        drawn.append(_rule(_LEFT, frame.y(tick), WIDTH - _RIGHT, frame.y(tick)))
        label = f"{tick:,.10g}{suffix}"
        drawn.append(_text(_LEFT - 10, frame.y(tick) + 4, label, anchor="end"))
    return drawn


def _x_axis(frame: _Frame, title: str) -> list[str]:
    bottom = frame.height - _BOTTOM
    drawn = [_rule(_LEFT, bottom, WIDTH - _RIGHT, bottom, color="#c3c9d1")]
    for tick in ticks(frame.x_max, 8):
        drawn.append(_text(frame.x(tick), bottom + 18, f"{tick:,.10g}", anchor="middle"))
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    drawn.append(_text(middle, frame.height - 4, title, anchor="middle"))
    return drawn


def _rule(x1: float, y1: float, x2: float, y2: float, color: str = GRID) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>'


def _text(
    x: float, y: float, text: str, color: str = MUTED, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def _svg(height: int, drawn: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}" '
        f'font-size="13" xmlns="http://www.w3.org/2000/svg">{"".join(drawn)}</svg>'
    )
