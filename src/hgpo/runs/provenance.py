"""What a result was made with: versions, commit, machine. Written beside every result."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from ..version import __version__

PACKAGES = ("numpy", "torch", "transformers", "tokenizers", "safetensors", "peft", "vllm")


def provenance() -> dict[str, Any]:
    """Package versions, the commit of the source tree (if it is one) and the kind of machine."""
    versions = {"hgpo": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "versions": versions,
        "commit": commit(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }


def commit() -> str:
    """The commit this package runs from, with `+changes` when files differ; empty outside a checkout."""
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        try:
            done = subprocess.run(
                ["git", "-C", str(here), *words], capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    # A package installed inside somebody else's checkout is not that checkout's commit.
    if not git("ls-files", "--error-unmatch", str(Path(__file__).resolve())):
        return ""
    head = git("rev-parse", "HEAD")
    return f"{head}+changes" if head and git("status", "--porcelain", "--untracked-files=no") else head
