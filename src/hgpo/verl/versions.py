"""Which verl fits, and what cannot live beside it. Needs nothing but the standard library."""

from __future__ import annotations

import re
from importlib import metadata

from ..install import install_command

LOWEST, BELOW = (0, 9, 1), (0, 10)
RANGE = "verl>=0.9.1,<0.10"
# Packages that verl's V1 trainer imports but its base install does not bring.
NEEDED = ("TransferQueue", "cachetools", "fastapi", "uvicorn", "pyzmq", "msgspec")
# verl imports parts of trl that later releases moved, and then fails itself (seen with 1.16.0; verl pins 0.27.0).
TRL_BELOW = (1,)


def installed(package: str) -> str | None:
    """The version of an installed distribution, None when it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> numbers("0.9.1.post2+cpu"), numbers("1.0rc1")
    ((0, 9, 1), (1, 0))
    """
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def misfit() -> str:
    """Why the installed verl does not fit, with what to do about it; empty when it fits."""
    version = installed("verl")
    if version is None:
        return f"verl is not installed. Install it with: {install_command('verl')}"
    if not LOWEST <= numbers(version) < BELOW:
        return (
            f"verl {version} is installed; this release of hgpo plugs into {RANGE}. "
            f"Install it with: pip install '{RANGE}'"
        )
    missing = [package for package in NEEDED if installed(package) is None]
    if missing:
        return (
            f"verl's trainer needs {', '.join(missing)}, which its base install does not bring. "
            f"Install with: {install_command('verl')}"
        )
    return conflict()


def conflict() -> str:
    """A package beside which verl cannot be imported; empty when there is none."""
    trl = installed("trl")
    if trl is not None and numbers(trl) >= TRL_BELOW:
        return (
            f"trl {trl} is installed; verl 0.9 cannot be imported beside trl 1 (it pins 0.27.0). "
            "Uninstall it (pip uninstall trl) or use an environment of its own."
        )
    return ""
