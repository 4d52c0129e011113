"""Run the core tests under the oldest and the newest Python that the package claims, where they can be had.

    python .ci/pythons.py [3.10 3.13 ...]

An interpreter is looked for on the PATH, among pyenv's, and last through uv, which may download it; a download
gets a minute. A Python that cannot be had is said so and left out. The exit status is 1 if tests failed under
one that could.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 60
"""Seconds for one attempt to reach the network."""
INSTALL = 600
TESTS = ("tests/steps", "tests/estimators", "tests/envs", "tests/play", "tests/test_rooms.py")
MARKS = "not slow and not alfworld and not envs and not verl and not trl and not browser and not gpu"


def claimed(pyproject: str) -> list[str]:
    """The oldest and the newest version among the package's classifiers."""
    found = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', pyproject)
    ordered = sorted(found, key=lambda version: int(version.split(".")[1]))
    return list(dict.fromkeys([ordered[0], ordered[-1]]))


def output(*command: str, seconds: float = PATIENCE) -> str:
    """What a command prints; empty if it fails, is missing or takes too long."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.strip()


def candidates(version: str) -> Iterator[str]:
    """Programs that may be this Python; the last ones may have to be downloaded."""
    yield sys.executable
    yield f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from (str(folder / "bin" / "python") for folder in sorted(pyenv.glob(f"{version}.*"), reverse=True))
    uv = shutil.which("uv") or own_uv()
    if uv:
        yield output(uv, "python", "find", "--no-python-downloads", version)
        print(f"Python {version}: trying a download through uv ...", flush=True)
        output(uv, "python", "install", version)
        yield output(uv, "python", "find", "--no-python-downloads", version)


def own_uv() -> str:
    """uv from the package index in an environment of its own; empty if there is none."""
    folder = ROOT / ".venv-uv"
    if not (folder / "bin" / "uv").exists():
        output(sys.executable, "-m", "venv", str(folder))
        output(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv")
    uv = folder / "bin" / "uv"
    return str(uv) if uv.exists() else ""


def interpreter(version: str) -> str:
    """A program that is this Python, or empty."""
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    return next(
        (program for program in candidates(version) if program and output(program, "-c", show) == version), ""
    )


def environment(version: str, program: str) -> str:
    """The Python of an environment with the package, its `data` extra and pytest; empty if that fails."""
    folder = ROOT / f".venv-{version}"
    python = str(folder / "bin" / "python")
    ready = folder / ".ready"
    if not ready.exists() or ready.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        wanted = ["-e", f"{ROOT}[data]", "pytest", "pytest-timeout", "hypothesis"]
        output(program, "-m", "venv", str(folder))
        output(python, "-m", "pip", "install", "--quiet", *wanted, seconds=INSTALL)
        if not output(python, "-c", "import hgpo, pyarrow, rapidfuzz, pytest, hypothesis; print(1)"):
            return ""
        ready.touch()
    return python


def main(versions: list[str]) -> int:
    """Test under every version; 0 when nothing failed."""
    failed = False
    for version in versions or claimed((ROOT / "pyproject.toml").read_text(encoding="utf-8")):
        program = interpreter(version)
        if not program:
            print(
                f"Python {version}: NOT TESTED, this machine has none (not on the PATH, not in pyenv, not through uv)."
            )
            continue
        python = environment(version, program)
        if not python:
            print(
                f"Python {version}: NOT TESTED, the packages could not be installed for {program} "
                "within the time allowed."
            )
            continue
        print(f"Python {version} ({program}): {', '.join(TESTS)}", flush=True)
        status = subprocess.run(
            [python, "-m", "pytest", "-m", MARKS, *TESTS], cwd=ROOT, check=False
        ).returncode
        print(f"Python {version}: {'passed' if status == 0 else 'FAILED'}", flush=True)
        failed = failed or status != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
