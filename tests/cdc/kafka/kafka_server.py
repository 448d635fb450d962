"""A real Kafka broker on loopback for tests, and Spark's connector to it, of jars that Maven fetches (60 MB).

`make cdc` sets WIDETABLE_CDC. The broker is its own controller (KRaft), listens on a free port, and ends with the
`with` block.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import uuid
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest

from tests.object_stores.s3_server import free_port
from tests.support.programs.loopback_server import loopback_server
from tests.support.programs.maven_jars import jars_of, pom_of
from widetable_spark.startup.java_home import ensure

NEEDS_KAFKA: Final = pytest.mark.skipif(
    not os.environ.get("WIDETABLE_CDC"), reason="no Kafka, which Maven fetches: make cdc"
)
BROKER: Final = ("org.apache.kafka", "kafka_2.13", "4.4.0")
# The newest that Maven has here. It runs in Spark 4.3.
CONNECTOR: Final = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0")
# Spark has these itself.
_OF_SPARK: Final = ("org.scala-lang", "org.scala-lang.modules", "org.apache.hadoop", "org.slf4j")


class KafkaServer:
    """A broker. address: host and port for clients."""

    def __init__(self, root: Path) -> None:
        self._port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._log = root / "log"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(root / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "num.partitions": "3",
        }
        properties = root / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        arguments = ["format", "-t", cluster, "-c", str(properties)]
        subprocess.run(
            [*_java(), "kafka.tools.StorageTool", *arguments], check=True, capture_output=True
        )
        with self._log.open("wb") as log:
            command = [*_java(), "kafka.Kafka", str(properties)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def is_up(self) -> bool:
        """Whether it listens. Raises RuntimeError if it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(self._log.read_text()[-3000:])
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self._port)) == 0


def kafka_server() -> AbstractContextManager[KafkaServer]:
    """Make a broker, start it, and stop and remove it at the end."""
    return loopback_server(KafkaServer, "kafka")


def connector_jars() -> str:
    """The jars of Spark's connector, as the option `spark.jars` takes them."""
    folder = jars_of(pom_of(*CONNECTOR, without=_OF_SPARK), "spark-kafka")
    return ",".join(str(file) for file in sorted(folder.glob("*.jar")))


def _java() -> list[str]:
    folder = jars_of(pom_of(*BROKER), "kafka-broker")
    return [str(Path(ensure()) / "bin/java"), "-Xmx256m", "-cp", f"{folder}/*"]
