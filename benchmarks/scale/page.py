"""The tables of docs/scale.md, from the committed unit costs and points. Each stands between `<!-- name -->` marks."""

from __future__ import annotations

import functools
import json
import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.harness import ROOT
from benchmarks.scale.cases import CASES, MITIGATIONS
from benchmarks.scale.costs import Requests, UnitCosts, committed_costs
from benchmarks.scale.needs import Needs, needs_of
from benchmarks.scale.points import (
    MEASURES,
    POINTS,
    error_percent,
    predicted,
    predicted_requests,
)
from benchmarks.scale.trial import TrialShape

PAGE: Final = ROOT / "docs" / "scale.md"

_SCALES: Final = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " K"))
_NEEDED: Final[tuple[tuple[str, Callable[[Needs], str]], ...]] = (
    ("buckets", lambda n: f"{n.buckets:,}"),
    ("rows written above level 0 per changed key", lambda n: f"{n.amplification:.1f}"),
    (
        "rounds simulated; rewrites of the bottom in them",
        lambda n: f"{n.rounds:,}; {n.cycles}",
    ),
    ("level-0 files a day; rows in each", lambda n: f"{_short(n.files_a_day)}; {n.file_rows:,.0f}"),
    ("live files before a round", lambda n: _short(n.live_files)),
    ("manifests of the newest snapshot", lambda n: f"{_short(n.manifest_bytes)}B"),
    ("snapshots kept", lambda n: _short(n.snapshots)),
    ("commits a second", lambda n: f"{n.commits_per_s:.1f}"),
    ("live data", lambda n: f"{_short(n.live_bytes)}B"),
    ("data with what has not expired", lambda n: f"{_short(n.kept_bytes)}B"),
    ("lookup caches", lambda n: f"{_short(n.cache_bytes)}B"),
    ("bytes to and from the store, a second", lambda n: f"{_short(n.network_bytes_per_s)}B"),
    ("requests a day", lambda n: _short(n.requests.total)),
    ("cores", lambda n: f"{n.cores:,.0f}"),
    ("machines of 8 cores and 1.9 TB", lambda n: f"{n.machines:,}"),
    ("machines, a month", lambda n: f"${n.dollars_machines:,.0f}"),
    ("storage, a month", lambda n: f"${n.dollars_storage:,.0f}"),
    ("requests, a month", lambda n: f"${n.dollars_requests:,.0f}"),
)
_TITLES: Final = {
    "write_cpu_s": "CPU of writes and commits",
    "compact_cpu_s": "CPU of compactions with changelog",
    "rewritten_rows": "rows written above level 0",
    "live_files": "live files",
    "live_bytes": "live bytes",
    "written_bytes": "bytes written",
    "cache_bytes": "bytes of lookup caches",
    "metadata_bytes": "bytes of manifests and lists",
    "append_requests": "requests of commits",
    "compaction_requests": "requests of a compaction",
}


@functools.cache
def tables() -> dict[str, str]:
    """Name of the marks to what stands between them."""
    costs = committed_costs()
    found = json.loads(POINTS.read_text("utf-8"))
    return {
        "needs": _needs_table(costs),
        "uses": _uses_table(costs),
        "ways out": _ways_table(costs),
        "unit costs": _costs_table(costs),
        "points": _points_table(found["points"], costs),
        "errors": _errors_table(found["points"], costs),
    }


def written(page: str) -> str:
    """The page with its tables as they are now. Raises ValueError when a mark is missing."""
    for name, table in tables().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        page, count = pattern.subn(f"{begin}\n{table}\n\n{end}".replace("\\", r"\\"), page)
        if count != 1:
            raise ValueError(f"the page has {count} pairs of marks named {name!r}, not one")
    return page


def write_page() -> None:
    """Bring the page up to date."""
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")


def _needs_table(costs: UnitCosts) -> str:
    needs = [needs_of(load, costs) for load in CASES]
    rows = [
        ["keys", *(_billions(load.keys) for load in CASES)],
        ["rows a day", *(_billions(load.rows_a_day) for load in CASES)],
        ["jobs, each commits every minute", *(str(load.jobs) for load in CASES)],
        *([name, *(map(say, needs))] for name, say in _NEEDED),
        ["**dollars a month**", *(f"**${each.dollars:,.0f}**" for each in needs)],
    ]
    return _table(["", *(load.name for load in CASES)], rows)


def _uses_table(costs: UnitCosts) -> str:
    needs = [needs_of(load, costs) for load in CASES]
    rows = [
        [part, *(_use(each.uses[part], is_first=part == each.first) for each in needs)]
        for part in needs[0].uses
    ]
    rows.append(["**breaks first**", *(each.first for each in needs)])
    return _table(["part, as a share of its limit", *(load.name for load in CASES)], rows)


def _ways_table(costs: UnitCosts) -> str:
    rows = []
    for way in MITIGATIONS:
        need = needs_of(way.load, costs)
        rows.append(
            [
                way.case.name,
                way.text,
                f"{need.first}: {_use(need.uses[need.first], is_first=False)}",
                f"{need.buckets:,}",
                f"{need.machines:,}",
                f"${need.dollars:,.0f}",
            ]
        )
    return _table(
        ["case", "how", "what is next to break", "buckets of a table", "machines", "a month"], rows
    )


def _costs_table(costs: UnitCosts) -> str:
    rows = [*_costs_of_rows(costs), *_costs_of_the_rest(costs)]
    return _table(["what", "CPU", "bytes", "requests"], rows)


def _costs_of_rows(costs: UnitCosts) -> list[list[str]]:
    asked = costs.requests
    return [
        [
            "a commit",
            f"{(costs.write.per_commit_s + costs.commit.per_commit_s) * 1e3:.1f} ms",
            "",
            _asked(asked.append),
        ],
        [
            "… per level-0 file",
            f"{(costs.write.per_file_s + costs.commit.per_entry_s) * 1e3:.1f} ms",
            _bytes(costs.level0.per_file),
            _asked(asked.append_file),
        ],
        [
            "… per row of one group",
            _micros(costs.write.per_row_s),
            f"{costs.level0.per_row:.0f} B",
            "",
        ],
        [
            "a COMPACT commit",
            f"{costs.commit.per_commit_s * 1e3:.1f} ms",
            "",
            _asked(asked.compaction),
        ],
        [
            "… per bucket that is due",
            f"{costs.compact.per_bucket_s * 1e3:.1f} ms",
            _bytes(costs.full.per_file + costs.changelog.per_file),
            _asked(asked.compacted_bucket),
        ],
        [
            "… per level-0 file that it reads",
            f"{costs.compact.per_file_s * 1e3:.1f} ms",
            "",
            _asked(asked.compacted_file),
        ],
        [
            "… per key that changed",
            _micros(costs.compact.per_changed_row_s),
            f"{2 * costs.changelog.per_row:.0f} B of changelog",
            "",
        ],
        [
            "… per full row that is rewritten",
            _micros(costs.compact.per_rewritten_row_s),
            f"{costs.full.per_row:.0f} B",
            "",
        ],
    ]


def _costs_of_the_rest(costs: UnitCosts) -> list[list[str]]:
    asked = costs.requests
    return [
        ["a lookup cache, per full row", "in the row above", f"{costs.cache.per_row:.0f} B", ""],
        ["… per file", "", _bytes(costs.cache.per_file), ""],
        [
            "planning, per live file",
            f"{_micros(costs.plan_cold_file_s)}; again {_micros(costs.plan_warm_file_s)}",
            f"{costs.metadata.per_entry:.0f} B of a manifest",
            "",
        ],
        ["a snapshot's manifests and lists", "", _bytes(costs.metadata.per_snapshot), ""],
        ["a snapshot that expires", "", "", _asked(asked.expired_snapshot)],
        ["a data file that expires", "", "", _asked(asked.expired_file)],
        [
            "the second attempt of a commit that lost",
            "",
            "",
            f"{asked.serial_of_attempt:.0f} one after the other",
        ],
    ]


def _points_table(points: Sequence[dict[str, Any]], costs: UnitCosts) -> str:
    rows = []
    for point in points:
        shape = TrialShape(**point["shape"])
        said, found = _said(shape, point, costs), point["measured"]
        cells = [_held(name, said[name], found[name]) for name in _TITLES if name in found]
        rows.append([_shape_text(shape), *cells])
    wide = [row for row in rows if len(row) == len(MEASURES) + 1]
    narrow = [row for row in rows if len(row) == 3]
    first = _table(["workload", *(_TITLES[name] for name in MEASURES)], wide)
    second = _table(
        ["workload", _TITLES["append_requests"], _TITLES["compaction_requests"]], narrow
    )
    return f"{first}\n\n{second}"


def _errors_table(points: Sequence[dict[str, Any]], costs: UnitCosts) -> str:
    errors: dict[str, list[float]] = {}
    for point in points:
        said = _said(TrialShape(**point["shape"]), point, costs)
        for name, found in point["measured"].items():
            errors.setdefault(name, []).append(error_percent(said[name], found))
    rows = [
        [
            _TITLES[name],
            str(len(all_of)),
            f"{statistics.median(map(abs, all_of)):.0f} %",
            f"{min(all_of):+.0f} to {max(all_of):+.0f} %",
        ]
        for name, all_of in errors.items()
    ]
    return _table(["what", "points", "median error", "from, to"], rows)


def _said(shape: TrialShape, point: dict[str, Any], costs: UnitCosts) -> dict[str, float]:
    is_asked = "append_requests" in point["measured"]
    return predicted_requests(shape, costs) if is_asked else predicted(shape, costs)


def _held(name: str, said: float, found: float) -> str:
    return f"{_amount(name, said)} / {_amount(name, found)} ({error_percent(said, found):+.0f} %)"


def _shape_text(shape: TrialShape) -> str:
    each = "" if shape.round_commits == 1 else f", {shape.round_commits} a round"
    keys, rows = _short(shape.keys).strip(), _short(shape.rows).strip()
    return f"{keys} keys, {shape.buckets} buckets, {shape.commits} commits of {rows} rows{each}"


def _amount(name: str, value: float) -> str:
    if name.endswith("_s"):
        return f"{value:.2f} s"
    if name.endswith("_bytes"):
        return f"{_short(value)}B"
    return _short(value).strip() if name == "rewritten_rows" else f"{value:.0f}"


def _use(share: float, *, is_first: bool) -> str:
    text = f"{share:.1f} times" if share >= 1 else f"{share * 100:.0f} %"
    return f"**{text}**" if is_first else text


def _asked(found: Requests) -> str:
    parts = (
        ("put", found.puts),
        ("list", found.lists),
        ("get", found.gets),
        ("delete", found.deletes),
    )
    return ", ".join(f"{count:.3g} {name}" for name, count in parts if round(count, 2) > 0)


def _micros(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs"


def _bytes(count: float) -> str:
    return f"{count / 1e3:.1f} KB"


def _billions(count: float) -> str:
    return f"{count / 1e9:g} billion"


def _short(count: float) -> str:
    """Three digits and a prefix, which stands before the unit that may follow."""
    for scale, name in _SCALES:
        if count >= scale:
            return f"{count / scale:.3g}{name}"
    return f"{count:.3g} "


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.strip() for cell in line)} |" for line in lines)
