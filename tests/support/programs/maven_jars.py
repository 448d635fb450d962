"""Folders of jars with all that they need, fetched by Maven and kept between runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.rival import cache_directory

_DEPENDENCY: Final = """\
    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
      <exclusions>{}</exclusions>
    </dependency>
"""
_EXCLUSION: Final = "<exclusion><groupId>{}</groupId><artifactId>*</artifactId></exclusion>"


def pom_of(group: str, name: str, version: str, without: tuple[str, ...] = ()) -> str:
    """A project that depends on one artifact. without: groups of which nothing is fetched."""
    exclusions = "".join(map(_EXCLUSION.format, without))
    return (
        "<project>\n  <modelVersion>4.0.0</modelVersion>\n"
        "  <groupId>tests</groupId><artifactId>tests</artifactId><version>1</version>\n"
        f"  <dependencies>\n{_DEPENDENCY.format(group, name, version, exclusions)}"
        "  </dependencies>\n</project>\n"
    )


def jars_of(pom: str, name: str) -> Path:
    """The directory of a project's jars, fetched unless it is there for the same text. name: of the directory."""
    folder = cache_directory() / name
    there = folder / "pom.xml"
    if there.exists() and there.read_text("utf-8") == pom:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = folder / "pom.new"
    made.write_text(pom, encoding="utf-8")
    repository = cache_directory() / "maven"
    command = ["mvn", "-q", "-B", f"-Dmaven.repo.local={repository}", "-f", str(made)]
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    subprocess.run([*command, "dependency:copy-dependencies", *options], check=True)
    made.rename(there)
    return folder
