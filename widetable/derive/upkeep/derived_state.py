"""The progress of derived data: `Table.inspect`, with the indexes, widened columns, history, tiles, samples and join.

The distance is counted in snapshots of the sources: 0 is up to date, None is unknown or never derived. Data that cannot
be derived, for example because its option no longer fits, has an error; it gives a warning, and a finding of the
doctor. Raises what inspections raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from widetable.commit.snapshots.committed import last_of, users_of
from widetable.commit.transaction.touched_keys import touches_rows
from widetable.derive.indexes.index_progress import index_progress
from widetable.derive.indexes.index_table import find_index
from widetable.derive.joins.delta_join import joining_of
from widetable.derive.joins.joined_plan import JoinDefinition, definition_of
from widetable.derive.samples.sample_feed import check_has, sampled_until
from widetable.derive.samples.sample_tables import find_queue
from widetable.derive.tiles.tile_feed import made_until, tiles_source
from widetable.derive.versions.history_feed import end_of
from widetable.derive.versions.history_table import find_history, history_name
from widetable.derive.widening.widen_commits import MILLIS, ROWS
from widetable.derive.widening.widen_progress import PIECES, last_round, user_of, widening_of
from widetable.derive.widening.widen_schema import check_one_interval, wanted_columns
from widetable.errors import InvalidError, NotFoundError, UnsupportedError, WidetableError
from widetable.format.snapshot import COMMIT_KIND_COMPACT
from widetable.messages.warning_code import WarningCode, coded
from widetable.operations.handle.neighbour import name_of, neighbour
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.doctor import doctor as doctor_of_table
from widetable.operations.health.doctor_report import DoctorReport, of_error
from widetable.operations.inspection.inspection import DerivedState, Inspection, inspect_table
from widetable.schema import join_options
from widetable.schema.derived_options import IndexOption, WidenOption, index_options, widen_options
from widetable.schema.join_options import HISTORY_TABLE, SAMPLES_OF, SAMPLES_RULE, TILES_FROM

_NOT_DERIVABLE: Final = (InvalidError, UnsupportedError, NotFoundError)


def inspect(table: OpenTable) -> Inspection:
    """Return the state of the table: snapshots, files per level, pending work, readers and compactors, files that a
    listing shows as damaged, the progress of derived data, and warnings.
    """
    inspection, derived = inspect_table(table), tuple(_derived(table))
    errors = (each.error for each in derived if each.error is not None)
    warnings = [coded(WarningCode.DERIVED_IMPOSSIBLE, error) for error in errors]
    return replace(inspection, derived=derived, warnings=(*inspection.warnings, *warnings))


def doctor(table: OpenTable, deep: bool = False) -> DoctorReport:
    """Find everything that is wrong with the table, and say what to do.

    It changes nothing. A check that cannot run is a finding, not an error.

    Parameters
    ----------
    deep : bool, default False
        Read every live data file and every changelog file, and merge the rows. False: check only the sizes of
        the files.

    Returns
    -------
    DoctorReport
        The findings, each with its subject and the action to take; none for a healthy table.

    Raises
    ------
    NotFoundError
        The table was dropped.
    """
    report = doctor_of_table(table, deep)
    findings = list(report.findings)
    try:
        for option, _, state in _derivations(table):
            try:
                state()
            except _NOT_DERIVABLE as error:
                subject = f"the data that option {option!r} of {table.path} derives"
                findings.append(of_error("upkeep", error, subject))
    except WidetableError as error:  # in the table's own options; the report may have it already
        findings.append(of_error("options", error))
    return replace(report, findings=tuple(dict.fromkeys(findings)))


def _derivations(
    table: OpenTable,
) -> Iterator[tuple[str, tuple[str, ...], Callable[[], DerivedState]]]:
    """Yield (option, its sources, a function that returns its progress) for each derivation."""
    schema = table.schema
    for index in index_options(schema.options):
        yield index.key, (name_of(table),), partial(_indexed, table, index)
    for widen in widen_options(schema.options):
        yield widen.key, (name_of(table), widen.table), partial(_widened, table, widen)
    if history_name(table) is not None:
        yield HISTORY_TABLE.key, (name_of(table),), partial(_history, table)
    fine, sampled = (schema.typed_options.get(each) for each in (TILES_FROM, SAMPLES_OF))
    if fine is not None:
        yield TILES_FROM.key, (fine,), partial(_tiles, table, fine)
    if sampled is not None and schema.typed_options.get(SAMPLES_RULE) is not None:
        yield SAMPLES_OF.key, (sampled,), partial(_samples, table, sampled)
    definition = definition_of(schema)
    if definition is not None:
        sources = (definition.left, definition.right)
        yield join_options.ON.key, sources, partial(_joined, table, definition)


def _derived(table: OpenTable) -> Iterator[DerivedState]:
    """Yield the progress of each derivation, or its error if the data cannot be derived."""
    for option, sources, state in _derivations(table):
        try:
            yield state()
        except _NOT_DERIVABLE as error:
            yield DerivedState(option, dict.fromkeys(sources), error=str(error))


def _indexed(base: OpenTable, option: IndexOption) -> DerivedState:
    index = find_index(base, option)
    latest = None if index is None else index._committer.snapshots.latest()
    source_id = None if index is None else index_progress(index, base, option, latest).source_id
    return DerivedState(option.key, {name_of(base): _behind(base, source_id)})


def _history(base: OpenTable) -> DerivedState:
    history, oldest = find_history(base), base._committer.snapshots.earliest()
    done_id = 0 if history is None or oldest is None else end_of(base, history, oldest)
    behind = _count_of_touching(base, done_id) if done_id else None
    return DerivedState(HISTORY_TABLE.key, {name_of(base): behind})


def _tiles(coarse: OpenTable, fine_name: str) -> DerivedState:
    fine, _ = tiles_source(coarse, fine_name)
    done_id = made_until(fine, coarse, coarse._committer.snapshots.latest())
    return DerivedState(TILES_FROM.key, {fine_name: _behind(fine, done_id or None)})


def _samples(samples: OpenTable, base_name: str) -> DerivedState:
    base = neighbour(samples, base_name, f"option {SAMPLES_OF.key!r}")
    queue = find_queue(base, name_of(samples))
    done_id = 0 if queue is None else sampled_until(base, queue)
    if done_id:
        check_has(base, samples, done_id)
    return DerivedState(SAMPLES_OF.key, {base_name: _behind(base, done_id or None)})


def _joined(out: OpenTable, definition: JoinDefinition) -> DerivedState:
    joining = joining_of(out, definition)
    left, right, _ = joining.tables
    done = joining.done
    behind = {
        name_of(left): None if done is None else _behind(left, done.left_id),
        name_of(right): None if done is None else _behind(right, done.right_id),
    }
    return DerivedState(join_options.ON.key, behind, joining.number or None)


def _widened(fact: OpenTable, option: WidenOption) -> DerivedState:
    dim = neighbour(fact, option.table, f"option {option.key!r}")
    check_one_interval(option, name_of(fact), fact.schema.typed_options, dim.schema)
    wanted_columns(option, fact.schema.arrow_schema(), dim.schema)
    latest = fact._committer.snapshots.latest()
    done = last_round(widening_of(fact, dim, option), latest).done
    behind = {
        name_of(fact): None
        if done is None
        else _count_of_others(fact, done.fact_id, user_of(option)),
        name_of(dim): _behind(dim, None if done is None else done.dim_id),
    }
    last = last_of(users_of(latest, fact._committer.last_commits.load), user_of(option))
    if last is None:
        return DerivedState(option.key, behind)
    state = DerivedState(option.key, behind, last.identifier // PIECES)
    try:
        snapshot = fact._committer.snapshots.load(last.snapshot_id)
    except NotFoundError:
        return state
    if not {ROWS, MILLIS} <= snapshot.properties.keys():
        return state
    return replace(
        state,
        ended_millis=snapshot.time_millis,
        rows=int(snapshot.properties[ROWS]),
        duration_millis=int(snapshot.properties[MILLIS]),
    )


def _count_of_others(fact: OpenTable, done_id: int, user: str) -> int:
    """Return the number of snapshots that the widener has yet to read: all but its own and compactions."""
    store = fact._committer.snapshots
    newer = (store.load(id) for id in range(done_id + 1, (store.latest_id() or 0) + 1))
    return sum(s.commit_kind != COMMIT_KIND_COMPACT and s.commit_user != user for s in newer)


def _count_of_touching(base: OpenTable, done_id: int) -> int:
    """Return the number of later snapshots that add versions to a history: compactions change no rows."""
    store, state = base._committer.snapshots, base._state()
    newer = (store.load(id) for id in range(done_id + 1, (store.latest_id() or 0) + 1))
    return sum(touches_rows(snapshot, state) for snapshot in newer)


def _behind(source: OpenTable, done_id: int | None) -> int | None:
    """Return the number of snapshots that are yet to be read; None if the data was never derived."""
    return None if done_id is None else (source._committer.snapshots.latest_id() or 0) - done_id
