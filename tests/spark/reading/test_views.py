"""A table of a session in Spark has the session's rows, also behind a revision of its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.models.revised_chain import Chain
from widetable_spark.frames.source_options import parse_options
from widetable_spark.reading.batch_reader import scan_of
from widetable_spark.reading.views import SessionViews


class Options(dict[str, str]):
    """What is asked of a session of Spark and its reader: the options are kept, nothing is read."""

    @property
    def read(self) -> Options:
        return Options()

    def format(self, name: str) -> Options:
        assert name == "widetable"
        return self

    def option(self, name: str, value: str) -> Options:
        return Options({**self, name: value})

    def options(self, **given: str) -> Options:
        return Options({**self, **given})

    def load(self) -> Options:
        return self


def rows_of(options: Any) -> list[dict[str, object]]:
    found: list[dict[str, object]] = scan_of(parse_options(options)).to_arrow().to_pylist()
    return found


@pytest.mark.parametrize("consistency", ["RepeatableRead", "ReadCommitted", "ReadUncommitted"])
def test_a_table_has_the_sessions_rows_behind_a_revision(tmp_path: Path, consistency: str) -> None:
    chain = Chain(tmp_path)
    chain.fill(10, 20)
    spark: Any = Options()
    catalog: wt.Catalog = chain.catalog
    with catalog.session(consistency=consistency) as opened:
        views = SessionViews(spark, catalog, opened, None)
        tables = {name: views.table(name) for name in ("d.x", "d.y", "d.z")}
        before = {name: opened.table(name).scan().to_arrow().to_pylist() for name in tables}
        assert {name: rows_of(options) for name, options in tables.items()} == before
        catalog.revise("d.y", to=10)
        assert chain.resumed("q", 1).run() == [20]
        assert catalog.table("d.y").scan(barrier=20).to_arrow().to_pylist() != before["d.y"]
        assert {name: rows_of(options) for name, options in tables.items()} == before
