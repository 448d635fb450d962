"""docs/facts/paimon-options.md against the code: our defaults are Paimon's, and each option does what the page says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from widetable.acceptance.acceptance import Use, accept
from widetable.errors import InvalidError, UnsupportedError
from widetable.schema.new_schema import new_schema
from widetable.schema.option import parse_value
from widetable.schema.options import BY_KEY, OPTIONS, WRITTEN_OUT
from widetable.schema.table_schema import TableSchema

PAGE = Path(__file__).resolve().parent.parent / "docs/facts/paimon-options.md"
ROW = re.compile(
    r"^\| `(?P<key>[^`]+)` \| (?P<kind>[^|]+) \| (?:`(?P<default>.*)`)? \| (?P<here>[^|]+) \|$"
)
OURS = ("honoured", "written down", "own default")
# Of the type of each option, another than any default.
OTHER = {"boolean": ("true", "false"), "int": ("17",), "long": ("17",), "double": ("0.17",)} | {
    "float": ("0.17",), "memory size": ("17 mb",), "duration": ("17 min",)
}  # fmt: skip
# Where the default is no constant but follows from another option.
DERIVED = {"target-file-size": 128 << 20}


class PaimonOption(NamedTuple):
    key: str
    kind: str
    default: str | None
    here: str

    @property
    def another_value(self) -> str:
        return next(v for v in OTHER.get(self.kind, ("something",)) if v != self.default)


PAIMON = [
    PaimonOption(m["key"], m["kind"].strip(), m["default"], m["here"].strip())
    for m in map(ROW.match, PAGE.read_text(encoding="utf-8").splitlines())
    if m is not None and m["here"].strip() in (*OURS, "passed", "not read", "not written")
]
every_option = pytest.mark.parametrize("option", PAIMON, ids=lambda option: option.key)


def schema_with(key: str, value: str) -> TableSchema:
    arrow = pa.schema([("k", pa.int32()), ("v", pa.int32())])
    schema = new_schema(arrow, primary_key=["k"])
    return replace(schema, options={**schema.options, key: value})


def refuses(use: Use, option: PaimonOption) -> bool:
    try:
        accept(schema_with(option.key, option.another_value), use)
    except UnsupportedError as refused:
        return repr(option.key) in refused.subject
    except InvalidError:  # a honoured option whose other value is none of its values
        assert option.here in OURS
    return False


def test_the_page_knows_every_option_of_ours_that_is_paimons() -> None:
    listed = {option.key for option in PAIMON if option.here in OURS}
    ours = ("widetable.", "join.", "history.", "tiles.")
    assert listed == {o.key for o in OPTIONS if not o.key.startswith(ours)}
    assert len(PAIMON) > 300


@pytest.mark.parametrize("option", [o for o in PAIMON if o.here == "honoured"], ids=lambda o: o.key)
def test_what_is_absent_means_here_what_it_means_in_paimon(option: PaimonOption) -> None:
    ours = BY_KEY[option.key]
    if option.default is None:
        assert ours.default in (None, (), DERIVED.get(option.key))
    else:
        assert ours.default == parse_value(ours, option.default)


@pytest.mark.parametrize(
    "option", [o for o in PAIMON if o.here == "written down"], ids=lambda o: o.key
)
def test_what_paimon_means_otherwise_is_written_into_new_tables(option: PaimonOption) -> None:
    assert option.default is not None
    assert BY_KEY[option.key].default == parse_value(BY_KEY[option.key], option.default)
    made = new_schema(pa.schema([("k", pa.int32()), ("v", pa.int32())]), primary_key=["k"])
    assert made.options[option.key] == WRITTEN_OUT[option.key] != option.default


@every_option
def test_an_option_that_is_set_is_refused_or_passed_as_the_page_says(option: PaimonOption) -> None:
    assert refuses(Use.READ, option) == (option.here == "not read")
    assert refuses(Use.MAINTAIN, option) == (option.here in ("not read", "not written"))
