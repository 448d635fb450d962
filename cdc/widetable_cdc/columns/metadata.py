"""Columns that say where a row came from, with the names that they have in Paimon. Pure, raises nothing.

    table_name, schema_name, database_name      STRING, of the source
    op_ts                                       TIMESTAMP_LTZ(6), when the transaction of the last change was committed

A row of the full copy has the time of the snapshot that it was read in as `op_ts`, because the server does not say when
the row was changed.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from widetable_cdc.columns.expression import Constant
from widetable_cdc.columns.typed_expression import (
    ColumnKind,
    SourceRows,
    TypedExpression,
    constant_expression,
)
from widetable_cdc.source.source_table import SourceTable

OP_TS: Final = "op_ts"
METADATA: Final = ("table_name", "schema_name", "database_name", OP_TS)
_MOMENT: Final = ColumnKind("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC"))


def metadata_expression(name: str, table: SourceTable, database: str) -> TypedExpression:
    """Return the values of one of `METADATA`."""
    if name == OP_TS:
        return TypedExpression(_MOMENT, _op_ts, is_stable=False)
    values = {"table_name": table.name, "schema_name": table.schema, "database_name": database}
    return constant_expression(Constant(values[name]))


def _op_ts(rows: SourceRows) -> pa.Array:
    micros = rows.op_micros
    moments = pa.array(micros) if micros is not None else pa.nulls(rows.count, pa.int64())
    return moments.cast(_MOMENT.arrow)
