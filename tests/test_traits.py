"""What an engine or a function is, its traits say: no code compares a name with that of an engine or a function."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.programs.parsed_source import parsed
from tests.test_style import PACKAGES, ROOT, sources
from widetable.merge.aggregate_function import Aggregate
from widetable.merge.aggregate_functions import AGGREGATES, REFUSED
from widetable.merge.engine import ENGINES
from widetable.merge.every_record import EveryRecord
from widetable.merge.merge_engine import MergeEngine, RowOrigin
from widetable.schema import options as opt

NAMES = {*ENGINES, *AGGREGATES, *REFUSED}
# These lie below `merge`, so they know no engine and no function; `min` and `max` are statistics there.
BELOW = ("widetable/format/", "widetable/kernels/", "widetable/storage/", "widetable/messages/")
# What holds the name of an engine or a function. Both are read as attributes or options.
HOLDERS = {"function", "MERGE_ENGINE"}
# The only lines that may compare or list names, as the text that they contain.
EXEMPT = {
    "widetable/schema/options.py": (
        '("deduplicate", "partial-update", "aggregation", "first-row")',
    ),
    # The table of functions.
    "widetable/merge/aggregate_functions.py": (
        "DEFAULT_FUNCTION: Final",
        "AGGREGATES: Final",
        "REFUSED: Final",
    ),
    # A function that this version refuses is no `Aggregate`, so it has no traits.
    "widetable/merge/aggregate_rules.py": ("column.function in REFUSED",),
    # Columns outside groups may have the default function, whichever it is.
    "widetable/merge/option_rules.py": ("column.function != DEFAULT_FUNCTION",),
}


def _is_name(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES


def _named_in(node: ast.AST) -> bool:
    """Whether a node compares a name, or keeps names in order to compare them later."""
    match node:
        case ast.Compare():
            within = [each for side in (node.left, *node.comparators) for each in ast.walk(side)]
            return any(map(_is_name, within)) or any(
                isinstance(each, ast.Attribute) and each.attr in HOLDERS for each in within
            )
        case ast.Assign(targets=[ast.Name(id="name")]):
            return False  # an engine's own
        case ast.MatchValue() | ast.Assign() | ast.AnnAssign():
            return _is_name(node.value)
        case ast.Dict():
            return any(map(_is_name, node.keys))
        case ast.Set() | ast.Tuple() | ast.List():
            return any(map(_is_name, node.elts))
        case ast.Subscript():
            base = ast.unparse(node.value)
            return base.endswith(("ENGINES", "AGGREGATES")) and _is_name(node.slice)
    return False


def names_compared(source: str) -> Iterator[int]:
    """Yield the lines that compare names of engines or functions."""
    yield from (getattr(node, "lineno", 0) for node in ast.walk(parsed(source)) if _named_in(node))


def test_no_code_compares_the_name_of_an_engine_or_a_function() -> None:
    faults: list[str] = []
    used: set[tuple[str, str]] = set()
    for path in sources(PACKAGES):
        text = (ROOT / path).read_text(encoding="utf-8")
        for number in sorted(set(names_compared(text))):
            line = text.splitlines()[number - 1]
            exempt = [each for each in EXEMPT.get(str(path), ()) if each in line]
            used.update((str(path), each) for each in exempt)
            if not exempt and not str(path).startswith(BELOW):
                faults.append(f"{path}:{number} compares a name: ask for a trait")
    assert faults == []
    unused = {(path, each) for path, texts in EXEMPT.items() for each in texts} - used
    assert unused == set(), "no longer exempt"


@pytest.mark.parametrize(
    "source",
    [
        'x = column.function == "sum"',
        'x = engine != "first-row"',
        'x = engine in ("deduplicate", other)',
        'x = {"collect", "listagg"}',
        '_BY_ORDER: Final = ("first_value", "listagg")',
        'x = {"partial-update": 1}',
        'match engine:\n    case "aggregation":\n        pass',
        '_REPLACES = "last_value"',
        'ENGINES["deduplicate"]',
        "x = column.function != DEFAULT",
        "x = options.get(opt.MERGE_ENGINE) == name",
    ],
)
def test_a_compared_name_is_seen(source: str) -> None:
    assert list(names_compared(source))


@pytest.mark.parametrize(
    "source",
    [
        "x = engine.origin is RowOrigin.FIRST",
        "x = ENGINES[options.get(opt.MERGE_ENGINE)]",
        'x = {"merge-engine": "partial-update"}',
        'f"fields.{column.name} of {column.function}"',
    ],
)
def test_a_trait_and_a_table_pass(source: str) -> None:
    assert list(names_compared(source)) == []


def test_the_option_offers_the_engines_of_the_table() -> None:
    assert opt.MERGE_ENGINE.choices == tuple(ENGINES)


def test_an_engine_sets_every_trait() -> None:
    traits = {name: getattr(EveryRecord, name) for name in MergeEngine.__annotations__}
    for left_out in traits:
        rest = {name: value for name, value in traits.items() if name != left_out}
        with pytest.raises(TypeError, match=f"does not set {left_out}"):
            type("Newcomer", (MergeEngine,), rest)
    type("Newcomer", (MergeEngine,), traits)
    assert set(traits) == {
        "name",
        "rules",
        "origin",
        "merges_retractions",
        "stores_keys_once",
        "has_groups",
    }


def test_a_function_sets_every_trait_that_merges_depend_on() -> None:
    whole = AGGREGATES["sum"]
    fields = dataclasses.fields(Aggregate)
    required = [each.name for each in fields if each.default is dataclasses.MISSING]
    assert {each.name for each in fields} - set(required) == {"required", "time_field"}
    for left_out in required:
        rest: dict[str, Any] = {name: getattr(whole, name) for name in required if name != left_out}
        with pytest.raises(TypeError, match=left_out):
            Aggregate(**rest)


def test_engines_in_which_a_row_wins_as_a_whole_mix_no_records() -> None:
    whole = {RowOrigin.FIRST, RowOrigin.LAST}
    assert {each.name for each in ENGINES.values() if each.origin in whole} == {
        "deduplicate",
        "first-row",
    }
    for engine in ENGINES.values():
        assert engine.mixes_records is (engine.origin not in whole)
