"""What a job asks of its server, and of the engine, to know when it has caught up.

    end_of_log     where the server's binlog ends now, by JDBC
    read_to        how far the engine has read, by JMX: all records up to there are on their way

Raises StorageError for a server that does not answer, InvalidError for one without a binlog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from widetable import InvalidError, StorageError
from widetable_cdc.embedded.binlog_position import binlog_position
from widetable_cdc.embedded.connectors import Connector
from widetable_cdc.embedded.java_machine import JavaMachine

# Newer servers know the second one only, older ones the first.
_STATEMENTS: Final = ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS")


def end_of_log(machine: JavaMachine, connector: Connector, properties: Mapping[str, str]) -> int:
    """Return the position where the server's binlog ends. properties: of the connector."""
    host = properties.get("database.hostname", "localhost")
    port = properties.get("database.port", "3306")
    error = machine.java("java.sql.SQLException")
    given = machine.java("java.util.Properties")()
    given.setProperty("user", properties.get("database.user", ""))
    given.setProperty("password", properties.get("database.password", ""))
    driver = machine.java(connector.driver)()
    try:
        connection = driver.connect(f"jdbc:{connector.name}://{host}:{port}/", given)
        try:
            return _end(connection, error)
        finally:
            connection.close()
    except error as cause:
        raise StorageError(
            f"server {host}:{port}",
            found=str(cause.getMessage()),
            expected=f"a {connector.name} server that tells where its binlog ends",
            action="Correct source.properties, and grant the user REPLICATION CLIENT (BINLOG MONITOR).",
        ) from cause


def read_to(machine: JavaMachine, connector: Connector, prefix: str) -> int | None:
    """Return how far the engine has read the binlog; None before it reads it."""
    beans = machine.java("java.lang.management.ManagementFactory").getPlatformMBeanServer()
    name = f"{connector.metrics}:type=connector-metrics,context=streaming,server={prefix}"
    try:
        bean = machine.java("javax.management.ObjectName")(name)
        file = beans.getAttribute(bean, "BinlogFilename")
        pos = beans.getAttribute(bean, "BinlogPosition")
    except machine.java("javax.management.JMException"):
        return None
    return None if file is None or not str(file) else binlog_position(str(file), int(pos))


def _end(connection: Any, error: Any) -> int:
    for at, text in enumerate(_STATEMENTS):
        try:
            rows = connection.createStatement().executeQuery(text)
        except error:
            if at + 1 == len(_STATEMENTS):
                raise
            continue
        if not rows.next():
            break
        return binlog_position(str(rows.getString(1)), int(rows.getLong(2)))
    raise InvalidError(
        "server",
        found="no binlog",
        expected="a server that writes one, with row images",
        action="Start the server with log_bin, binlog_format=ROW and binlog_row_image=FULL.",
    )
