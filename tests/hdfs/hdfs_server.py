"""HDFS on loopback: a NameNode and a DataNode of Hadoop, each in its process, with the version that Spark's client has.

Their classes come from a jar that Maven fetches (`make hdfs`); Spark's jars have all the rest. In: a folder for its
files, a Java. Out: the root URL, while both run.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark
import pytest

from benchmarks.rival import jar
from tests.object_stores.s3_server import free_port
from tests.support.faults.patience import wait_for
from widetable.errors import StorageError
from widetable.storage.remote.hdfs import HdfsFileIO

NEEDS_HDFS: Final = pytest.mark.skipif(
    not os.environ.get("WIDETABLE_HDFS"), reason="no Hadoop, whose jar Maven fetches: make hdfs"
)
_SERVER: Final = "org.apache.hadoop.hdfs.server"
_ADDRESSES: Final = (
    "namenode.http-address",
    "datanode.address",
    "datanode.http.address",
    "datanode.ipc.address",
)


@contextlib.contextmanager
def hdfs_server(folder: Path) -> Iterator[str]:
    port = free_port()
    root = f"hdfs://127.0.0.1:{port}"
    _write_settings(folder, root)
    java = [f"{os.environ['JAVA_HOME']}/bin/java", "-Xmx512m", "-cp", _class_path(folder)]
    name_node, data_node = f"{_SERVER}.namenode.NameNode", f"{_SERVER}.datanode.DataNode"
    subprocess.run(
        [*java, name_node, "-format", "-force"], check=True, capture_output=True, timeout=300
    )
    with contextlib.ExitStack() as running:
        servers = []
        for program in (name_node, data_node):
            with open(folder / f"{program.rpartition('.')[2]}.log", "wb") as log:
                server = subprocess.Popen([*java, program], stdout=log, stderr=log)
            running.callback(server.wait)
            running.callback(server.kill)
            servers.append(server)
        wait_for(lambda: _listens(port) or any(each.poll() is not None for each in servers))
        wait_for(lambda: _writes(root) or any(each.poll() is not None for each in servers))
        assert [each.poll() for each in servers] == [None, None], f"see the logs in {folder}"
        yield root


def _write_settings(folder: Path, root: str) -> None:
    settings = {
        "fs.defaultFS": root,
        "dfs.namenode.name.dir": str(folder / "names"),
        "dfs.datanode.data.dir": str(folder / "data"),
        "dfs.replication": "1",
        **{f"dfs.{name}": "127.0.0.1:0" for name in _ADDRESSES},
    }
    properties = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    text = f"<configuration>{''.join(properties)}</configuration>"
    for name in ("core-site.xml", "hdfs-site.xml"):
        (folder / name).write_text(text)


def _class_path(folder: Path) -> str:
    jars = Path(pyspark.__file__).parent / "jars"
    (client,) = jars.glob("hadoop-client-api-*.jar")
    version = re.sub(r"hadoop-client-api-(.*)\.jar", r"\1", client.name)
    servers = jar("org.apache.hadoop", "hadoop-client-minicluster", version)
    return ":".join(map(str, (folder, servers, jars / "*")))


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        time.sleep(0.1)
        return False
    return True


def _writes(root: str) -> bool:
    """Not before the DataNode has come to the NameNode."""
    try:
        HdfsFileIO(root).replace(f"{root}/ready", b"yes")
    except StorageError:
        time.sleep(0.1)
        return False
    return True
