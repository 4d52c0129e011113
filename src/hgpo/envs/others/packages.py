"""What the environments of other packages need, asked for before anything of theirs is started."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from typing import Any

from ...errors import BadSetting, MissingExtra


def package(name: str, world: str) -> Any:
    """The package `name`, which the environment called `world` is made of."""
    if importlib.util.find_spec(name) is None:
        raise MissingExtra(name, "envs", f"The environment {world!r}")
    return importlib.import_module(name)


def need_java(world: str) -> None:
    """Refuse to start a world of Java where there is none."""
    if shutil.which("java") is None:
        raise BadSetting(
            f"The environment {world!r} runs on Java, and no program `java` was found. Install a Java runtime (on "
            "Debian and Ubuntu: apt-get install default-jre-headless) and try again."
        )
