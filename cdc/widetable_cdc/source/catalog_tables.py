"""The tables of a database as its catalog describes them now.

Patterns go in (`table_pattern.py`), a SourceTable for each table that they name comes out. All is read in one snapshot.

    table             an ordinary or partitioned table that is written to the log (no temporary or unlogged one)
    partition         part of its root: changes come under the root's name (publish_via_partition_root)
    relfilenode       a number that changes where values change without an event: a rewrite, for a partitioned table
                      also a partition that is attached or detached
    key               the primary key; with identity `i` the columns of that index; empty where the server could not
                      identify rows by it: a deferrable key with the default identity
    missing           the text of `attmissingval`, by the settings of `session.py`

Raises InvalidError for a view or another relation that a pattern names letter by letter, and what `server_errors`
raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from widetable import InvalidError
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import Connection
from widetable_cdc.source.source_table import SourceColumn, SourceTable
from widetable_cdc.source.table_pattern import is_named, is_taken
from widetable_cdc.values.source_types import TypeRow, resolve

_RELFILENODE: Final = """
       CASE c.relkind WHEN 'p' THEN (
         SELECT coalesce(hashtextextended(string_agg(
                  leaf.oid || ' ' || leaf.relfilenode, ',' ORDER BY leaf.oid), 0), 0)
         FROM pg_partition_tree(c.oid) AS tree JOIN pg_class AS leaf ON leaf.oid = tree.relid
         WHERE tree.isleaf)
       ELSE c.relfilenode::int8 END
"""
_RELATIONS: Final = f"""
SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relpersistence::text, c.relreplident::text,
       {_RELFILENODE}
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
ORDER BY n.nspname, c.relname
"""
_STORED_FILES: Final = f"""
SELECT {_RELFILENODE},
       CASE WHEN c.relkind = 'r' AND EXISTS (
           SELECT FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid
           WHERE r.prrelid = c.oid AND p.pubname = %s)
       THEN c.xmin::text::int8 END
FROM pg_class AS c WHERE c.oid = %s
"""
_COLUMNS: Final = """
SELECT attrelid::int8, attname, attnum, atttypid::int8, atttypmod, NOT attnotnull,
       (atthasdef OR attidentity <> '') AND attgenerated = '',
       CASE WHEN atthasmissing THEN (attmissingval::text::text[])[1] END, attgenerated <> ''
FROM pg_attribute WHERE attrelid = ANY (%s) AND attnum > 0 AND NOT attisdropped
ORDER BY attrelid, attnum
"""
_KEYS: Final = """
SELECT i.indrelid::int8, i.indisprimary, i.indisreplident, i.indimmediate,
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             WHERE k.place <= i.indnkeyatts ORDER BY k.place)
FROM pg_index AS i WHERE i.indrelid = ANY (%s) AND (i.indisprimary OR i.indisreplident)
"""
# A domain and its base type, an array and its elements.
_TYPES: Final = """
WITH RECURSIVE used (oid) AS (
  SELECT DISTINCT unnest(%s::oid[])
  UNION SELECT other FROM used JOIN pg_type AS t USING (oid),
        LATERAL (VALUES (t.typbasetype), (t.typelem)) AS v (other) WHERE other <> 0)
SELECT oid::int8, typname::text, typtype::text, typbasetype::int8, typtypmod, typelem::int8, typcategory::text
FROM used JOIN pg_type USING (oid)
"""
_KINDS: Final = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
_PERSISTENCES: Final = {"u": "an unlogged table", "t": "a temporary table"}


class StoredFiles(NamedTuple):
    """The files of a table. relfilenode: a number that changes when rows are rewritten, as `source_tables` gives it.

    xid: the transaction that last changed the table's row in `pg_class`, and so the last that changed `relfilenode`;
    a subtransaction has a number of its own. None for a partitioned table, whose partitions have the files, and for one
    that the publication does not list by itself: it may be unlogged for a part of a transaction.
    """

    relfilenode: int
    xid: int | None


class _Relation(NamedTuple):
    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    identity: str
    relfilenode: int

    @property
    def fault(self) -> str | None:
        """Why it has no changes in the log."""
        return _KINDS.get(self.kind) or _PERSISTENCES.get(self.persistence)


class _Key(NamedTuple):
    relation: int
    is_primary: bool
    is_identity: bool
    is_immediate: bool
    columns: list[str]


def source_tables(
    connection: Connection, include: Sequence[str], exclude: Sequence[str] = ()
) -> dict[tuple[str, str], SourceTable]:
    """Return the tables that `include` names and `exclude` does not, by schema and name."""
    with server_errors("the catalog of the source"), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        relations = [
            relation
            for relation in map(_Relation._make, _rows(connection, _RELATIONS))
            if _is_followed(relation, include, exclude)
        ]
        oids = [relation.oid for relation in relations]
        columns = _rows(connection, _COLUMNS, oids)
        types = _rows(connection, _TYPES, sorted({row[3] for row in columns}))
        keys = [_Key._make(row) for row in _rows(connection, _KEYS, oids)]
    of_type = {row[0]: TypeRow._make(row) for row in types}
    of_relation: dict[int, list[SourceColumn]] = {oid: [] for oid in oids}
    for row in columns:
        of_relation[row[0]].append(_column(row, of_type))
    return {
        (relation.schema, relation.name): SourceTable(
            oid=relation.oid,
            schema=relation.schema,
            name=relation.name,
            relfilenode=relation.relfilenode,
            identity=relation.identity,
            key=_key_of(relation, keys),
            columns=tuple(of_relation[relation.oid]),
        )
        for relation in relations
    }


def stored_files(connection: Connection, oid: int, publication: str) -> StoredFiles | None:
    """Return where the rows of a table lie; None if there is no such table."""
    with server_errors("the catalog of the source"):
        rows = _rows(connection, _STORED_FILES, publication, oid)
    return StoredFiles._make(rows[0]) if rows else None


def _rows(connection: Connection, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    return connection.execute(statement, parameters or None).fetchall()


def _is_followed(relation: _Relation, include: Sequence[str], exclude: Sequence[str]) -> bool:
    if not is_taken(relation.schema, relation.name, include, exclude):
        return False
    if relation.fault is not None and is_named(relation.schema, relation.name, include):
        raise InvalidError(
            f"{relation.schema}.{relation.name}",
            found=relation.fault,
            expected="a table whose changes are in the log",
            action="Take it out of the tables of the job; name the tables that it is made of instead.",
        )
    return relation.fault is None


def _column(row: Sequence[Any], types: Mapping[int, TypeRow]) -> SourceColumn:
    _, name, attnum, type_oid, typmod, is_nullable, has_default, missing, is_generated = row
    return SourceColumn(
        name=name,
        attnum=attnum,
        type=resolve(type_oid, typmod, types),
        is_nullable=is_nullable,
        has_default=has_default,
        missing=missing,
        is_generated=is_generated,
    )


def _key_of(relation: _Relation, keys: Iterable[_Key]) -> tuple[str, ...]:
    by_index = relation.identity == "i"
    for key in keys:
        fits = key.is_identity if by_index else key.is_primary
        if key.relation == relation.oid and fits:
            identifies = key.is_immediate or relation.identity == "f"
            return tuple(key.columns) if identifies else ()
    return ()
