"""A table as the source of a feature view.

    source                                            time of a feature                     basis of the read
    timestamp_field = "clicked_at"                    the column, of a sequence group       event
    timestamp_field = "seen_at", unit "millis"        the column, a number                  event
    timestamp_field = "_from"                         the commit of its row                 known

`_from` may also be the created timestamp of a source with another timestamp field: Feast's
`filter_by_created_timestamp` then asks for what had been committed. In the registry the options are JSON:

    {"table": "db.name", "timestamp_unit": null | "seconds" | "millis" | "micros" | "nanos"}

Raises InvalidError for another created timestamp and for a registry entry that is not of this package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from feast.data_source import DataSource
from feast.protos.feast.core.DataSource_pb2 import DataSource as DataSourceProto
from feast.repo_config import RepoConfig
from feast.type_map import pa_to_feast_value_type
from feast.value_type import ValueType

from widetable import Catalog, InvalidError, Table
from widetable.connector import EVENT_TIME_UNITS, arguments

# The time of the commit of a version; what a history table calls it.
COMMIT_TIME: Final = "_from"
_CLASS: Final = "widetable_feast.WidetableSource"


class WidetableSource(DataSource):
    """A table, and the column that says when its features happened."""

    def __init__(
        self,
        *,
        table: str,
        timestamp_field: str = COMMIT_TIME,
        timestamp_unit: str | None = None,
        created_timestamp_column: str | None = None,
        name: str | None = None,
        field_mapping: dict[str, str] | None = None,
        description: str | None = "",
        tags: dict[str, str] | None = None,
        owner: str | None = "",
    ) -> None:
        """Name a table of the store's warehouse.

        Parameters
        ----------
        table : str
            `db.name` in the warehouse of the offline store.
        timestamp_field : str, default "_from"
            The column of event times, or `_from`: a feature is then what a lookup gave at the time.
        timestamp_unit : str, default None
            `seconds`, `millis`, `micros` or `nanos` for a column of numbers.
        created_timestamp_column : str, default None
            `_from`, or None.
        name, field_mapping, description, tags, owner
            As in Feast; the name is that of the table by default.

        Raises
        ------
        InvalidError
            The created timestamp is a column, or the unit is none of the four.
        """
        if created_timestamp_column not in (None, "", COMMIT_TIME):
            raise InvalidError(
                f"created_timestamp_column of the source of {table}",
                found=repr(created_timestamp_column),
                expected=f"{COMMIT_TIME!r} or None: the table knows when each version was committed",
                action=f"Pass {COMMIT_TIME!r}.",
            )
        if timestamp_unit is not None:
            arguments.one_of(timestamp_unit, EVENT_TIME_UNITS, "timestamp_unit")
        super().__init__(
            name=name or table,
            timestamp_field=timestamp_field,
            created_timestamp_column=created_timestamp_column,
            field_mapping=field_mapping,
            description=description,
            tags=tags,
            owner=owner,
        )
        self.table = table
        self.timestamp_unit = timestamp_unit

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, WidetableSource)
            and bool(super().__eq__(other))
            and (self.table, self.timestamp_unit) == (other.table, other.timestamp_unit)
        )

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.table))

    def source_type(self) -> Any:
        """Return that Feast finds the class by its name."""
        return DataSourceProto.CUSTOM_SOURCE

    @staticmethod
    def from_proto(data_source: DataSourceProto) -> WidetableSource:
        """Return the source of an entry of the registry."""
        try:
            options = json.loads(data_source.custom_options.configuration)
            table, unit = options["table"], options["timestamp_unit"]
        except (ValueError, KeyError, TypeError) as cause:
            raise InvalidError(
                f"source {data_source.name!r} of the registry",
                found=repr(data_source.custom_options.configuration[:80]),
                expected="the options of a WidetableSource",
                action="Run feast apply again.",
            ) from cause
        return WidetableSource(
            table=table,
            timestamp_unit=unit,
            name=data_source.name,
            timestamp_field=data_source.timestamp_field,
            created_timestamp_column=data_source.created_timestamp_column,
            field_mapping=dict(data_source.field_mapping),
            description=data_source.description,
            tags=dict(data_source.tags),
            owner=data_source.owner,
        )

    def _to_proto_impl(self) -> DataSourceProto:
        options = {"table": self.table, "timestamp_unit": self.timestamp_unit}
        proto = DataSourceProto(
            name=self.name,
            type=DataSourceProto.CUSTOM_SOURCE,
            data_source_class_type=_CLASS,
            field_mapping=self.field_mapping,
            custom_options=DataSourceProto.CustomSourceOptions(
                configuration=json.dumps(options).encode()
            ),
            description=self.description,
            tags=self.tags,
            owner=self.owner,
        )
        proto.timestamp_field = self.timestamp_field
        proto.created_timestamp_column = self.created_timestamp_column
        return proto

    def opened(self, config: RepoConfig) -> Table:
        """Return the table."""
        return Catalog(config.offline_store.warehouse).table(self.table)

    def validate(self, config: RepoConfig) -> None:
        """Raise NotFoundError for a table or a column that is not there."""
        schema = self.opened(config).schema
        if self.timestamp_field != COMMIT_TIME:
            schema.field(self.timestamp_field)

    @staticmethod
    def source_datatype_to_feast_value_type() -> Callable[[str], ValueType]:
        """Return how Feast reads the texts of Arrow types."""
        value_type: Callable[[str], ValueType] = pa_to_feast_value_type
        return value_type

    def get_table_column_names_and_types(self, config: RepoConfig) -> Iterable[tuple[str, str]]:
        """Return each column with the text of its Arrow type."""
        schema = self.opened(config).schema.arrow_schema()
        return [(column.name, str(column.type)) for column in schema]

    def get_table_query_string(self) -> str:
        """Return the name of the table."""
        return self.table
