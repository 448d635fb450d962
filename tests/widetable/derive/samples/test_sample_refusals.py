"""Samples that are refused by name: rules that do not fit, tables that are something else, snapshots that went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.widetable.derive.samples.sample_model import (
    Commit,
    made,
)
from tests.widetable.derive.samples.test_samples import CASE_10, given, table_of


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"complete": []}, "complete"),
        ({"complete": ["nope"]}, "nope"),
        ({"on": None}, "on"),
        ({"on": "price"}, "event_times"),
        ({"wait": "soon"}, "wait"),
        ({"wait": None}, "eager"),
        ({"late": "never"}, "late"),
        ({"defaults": {"label": "x"}}, r"defaults\['label'\]"),
        ({"defaults": {"label": 1.5}}, r"defaults\['label'\]"),
        ({"defaults": {"label": [1]}}, r"defaults\['label'\]"),
        ({"defaults": {"nope": 1}}, r"defaults\['nope'\]"),
        ({"labels": {"label": wt.label("clicked_at", "1 h")}}, r"labels\['label'\]"),
        ({"labels": {"l": "1 h"}}, r"labels\['l'\]"),
        ({"negatives": 0}, "negatives"),
        ({"negatives": 1.5}, "negatives"),
        ({"negatives": {"exposed_at": 0.5}}, "negatives of 'exposed_at'"),
        ({"seed": -1}, "seed"),
        ({"writers": []}, "writers"),
        ({"columns": ["nope"]}, "nope"),
        ({"into": "db.t"}, "into"),
        ({"into": "nonsense"}, "into"),
        ({"consumer_id": "a/b"}, "consumer"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], match: str
) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {"consumer_id": "c", **CASE_10, **change}
    with pytest.raises((wt.InvalidError, wt.NotFoundError), match=match):
        table.follow_samples(timeout=0, **rule)


def test_another_rule_needs_another_table(tmp_path: Path) -> None:
    table = made(tmp_path)
    given(table, **CASE_10)
    with pytest.raises(wt.InvalidError, match="samples by another rule"):
        given(table, **{**CASE_10, "wait": "31 min"})
    assert given(table, into="db.more", **{**CASE_10, "wait": "31 min"}) == []


def test_nobody_else_writes_samples(tmp_path: Path) -> None:
    table = made(tmp_path)
    given(table, **CASE_10)
    for name in ("t_samples", "t_samples_waiting"):
        with pytest.raises(wt.InvalidError, match=r"samples of db\.t"):
            table_of(table, name).write([{"id": 1}])


def test_samples_of_a_table_that_was_dropped_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    given(table, **CASE_10)
    catalog = wt.Catalog(str(tmp_path))
    catalog.drop_table("db.t")
    with pytest.raises(wt.InvalidError, match="dropped table"):
        given(made(tmp_path), **CASE_10)


def test_snapshots_that_samples_need_do_not_expire(tmp_path: Path) -> None:
    table = made(tmp_path)
    given(table, **CASE_10)
    for number in range(1, 6):
        rows = [{"id": number, "exposed_at": number, "clicked_at": number}]
        Commit("e", number, rows, reached=number).make(table)
    few: dict[str, Any] = {"num_retained_min": 1, "num_retained_max": 1, "time_retained_millis": 1}
    table.expire_snapshots(**few)
    assert len(given(table, **CASE_10)) == 5
    table.expire_snapshots(**few)
    assert [each.id for each in table.snapshots()] == [5]
    table.delete_consumer("samples-db.t_samples")
    for number in range(6, 9):
        Commit("e", number, [{"id": number, "exposed_at": number}], reached=number).make(table)
    table.expire_snapshots(**few)
    with pytest.raises(wt.NotFoundError, match="samples-db"):
        given(table, **CASE_10)
