"""The Python that Spark starts: in tasks, and on the driver to look for data sources and to plan and commit.

Both are PYSPARK_PYTHON of the environment in which the session starts (on the driver PYSPARK_DRIVER_PYTHON has
precedence), else `python3` of PATH. If a virtual environment is not activated, that `python3` lacks the packages that
are installed in it, and `format("widetable")` is not found. So this package sets the variable to the driver's own
interpreter when it is imported, unless it is set; the import has to come before the session starts. On a cluster whose
hosts have another interpreter, set PYSPARK_PYTHON to theirs: a value that is set is kept.

Raises InvalidError for a session whose Python cannot run this package.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import MutableMapping
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from widetable import InvalidError

_TASKS: Final = "PYSPARK_PYTHON"
_DRIVER: Final = "PYSPARK_DRIVER_PYTHON"
_OURS: Final = "widetable_spark"
_NEEDED: Final = ("pyarrow", "numba", _OURS)
_PROBE: Final = """
import importlib.util, sys
version = "Python %d.%d" % sys.version_info[:2]
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
print(version + (" without " + " and ".join(missing) if missing else ""))
"""
_PROBE_SECONDS: Final = 60


def name_worker_python(environment: MutableMapping[str, str]) -> None:
    """Name this interpreter, unless the environment names one."""
    if sys.executable and not environment.get(_TASKS) and not environment.get(_DRIVER):
        environment[_TASKS] = sys.executable


def check_worker_python(session: SparkSession) -> None:
    """Refuse a session whose workers run on this machine with a Python that cannot run this package.

    Packages that are shipped with --py-files need not be installed.
    """
    try:
        context = session.sparkContext
        is_local = str(context.master).startswith("local")
        python, shipped = context.pythonExec, context._python_includes
        on_driver = _python_on_driver(context._jvm)
    except (PySparkException, Py4JError, AttributeError):  # Spark Connect
        return
    if not is_local:
        return
    own = "Python {}.{}".format(*sys.version_info)
    for each in sorted({python, on_driver}):
        version = (
            own if each == sys.executable else _version_of(each, _NEEDED[: -1 if shipped else None])
        )
        if version != own:
            raise InvalidError(
                "Python of Spark's workers",
                found=f"{each!r}, which is {version}",
                expected=f"{own} with {' and '.join(_NEEDED)}",
                action=f"Import {_OURS} before the session is made, or set {_TASKS}={sys.executable}; then start "
                "the program again.",
            )


def _python_on_driver(jvm: Any) -> str:
    """Return the Python that Spark's JVM has chosen for the driver since it started."""
    names = getattr(jvm.org.apache.spark.api.python, "PythonUtils$")
    return str(getattr(names, "MODULE$").defaultPythonExec())


@functools.cache
def _version_of(python: str, needed: tuple[str, ...]) -> str:
    """Its version, such as "Python 3.11", and what it lacks of `needed`: "Python 3.11 without
    numba"; or why it is none. Remembered for the life of this process.
    """
    program = shutil.which(python)
    if program is None:
        return "no program in PATH"
    try:
        answer = subprocess.run(
            [program, "-c", _PROBE, *needed],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no Python ({error})"
    lines = answer.stdout.splitlines()
    return lines[-1] if answer.returncode == 0 and lines else "no Python"
