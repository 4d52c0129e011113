"""Check what is installed and whether a preset can run here: hgpo doctor [PRESET] [key=value ...].

Each line says what was looked at, what was found and, where something is missing, the command that repairs it. The
exit status is 1 when something that the preset needs is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from ..install import install_command

# Package, the extra that brings it, what it is for, whether training needs it.
PACKAGES = (
    ("numpy", "", "the estimators", True),
    ("torch", "train", "training", True),
    ("transformers", "train", "models", True),
    ("safetensors", "train", "checkpoints", True),
    ("pyarrow", "data", "rollouts as Parquet (JSONL without it)", False),
    ("matplotlib", "train", "pictures of curves", False),
    ("peft", "train", "LoRA", False),
    ("vllm", "vllm", "the vllm engine", False),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="PRESET|key=value", help="also check this preset")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    words = list(args.words)
    preset = words.pop(0) if words and "=" not in words[0] else None
    findings = [*_machine(), *_packages(), *_data()]
    if preset is not None:
        findings += _preset(preset, words)
    if args.json:
        print(json.dumps([dict(zip(("check", "state", "found", "fix"), one)) for one in findings]))
    else:
        for check, state, found, fix in findings:
            print(f"{state:<8} {check:<22} {found}" + (f"\n{'':<31} -> {fix}" if fix else ""))
    return 1 if any(state == "missing" for _, state, _, _ in findings) else 0


Finding = tuple[str, str, str, str]


def _machine() -> list[Finding]:
    python = platform.python_version()
    good = sys.version_info >= (3, 10)
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    findings: list[Finding] = [
        ("python", "ok" if good else "missing", python, "" if good else "Use Python 3.10 or later."),
        ("cores", "ok", str(os.cpu_count()), ""),
        (
            "free disk",
            "ok" if free > 5 else "warning",
            f"{free:.0f} GiB here",
            "" if free > 5 else "Free some space.",
        ),
    ]
    for name in ("HF_HOME", "CUDA_VISIBLE_DEVICES", "CHECKPOINTS_DIR", "ALFWORLD_DATA"):
        if os.environ.get(name):
            findings.append((f"${name}", "ok", os.environ[name], ""))
    return findings


def _packages() -> list[Finding]:
    findings: list[Finding] = []
    for name, extra, purpose, needed in PACKAGES:
        try:
            findings.append((name, "ok", metadata.version(name), ""))
        except metadata.PackageNotFoundError:
            fix = install_command(extra) if extra else f"pip install {name}"
            findings.append((name, "missing" if needed else "absent", f"for {purpose}", fix))
    try:
        import torch

        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        findings.append(("device", "ok", ", ".join(names) or f"cpu, {torch.get_num_threads()} threads", ""))
    except ImportError:
        pass
    return findings


def _data() -> list[Finding]:
    """The data of the official benchmarks, which nothing needs to begin with."""
    from ..envs.places import alfworld_data, webshop_data

    findings: list[Finding] = []
    for name, place in (("ALFWorld's games", alfworld_data()), ("WebShop's files", webshop_data())):
        there = place is not None and place.exists()
        shown = str(place) if there else f"{place} does not exist" if place else "for the official benchmark"
        findings.append((name, "ok" if there else "absent", shown, "" if there else "hgpo data"))
    return findings


def _preset(preset: str, words: list[str]) -> list[Finding]:
    from ..config import load
    from ..config.stage import open_stage
    from ..errors import HgpoError
    from ..models.source import check_source

    def attempt(check: str, action: Callable[[], str]) -> Finding:
        try:
            return (check, "ok", action(), "")
        except HgpoError as error:
            return (check, "missing", "", str(error))

    config = load(preset, words)

    def environment() -> str:
        stage = open_stage(config)
        tasks = stage.tasks(config.env.split)
        stage.task_source.reset(tasks[0])
        return f"{config.env.name}: {len(tasks)} tasks in {config.env.split!r}, the first one starts"

    def model() -> str:
        path = config.model.path
        if path == "tiny":
            return "made on the spot"
        if Path(path).is_dir():
            return f"folder {path}"
        check_source(path)
        home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
        cached = home / "hub" / f"models--{path.replace('/', '--')}"
        return f"{path}: " + ("in the local cache" if cached.is_dir() else "to be fetched from the hub")

    def memory() -> str:
        from ..models.memory import check_memory, estimate
        from ..models.shape import find_shape

        shape = find_shape(config.model.path)
        if shape is None:
            made = config.model.path == "tiny"
            return "little" if made else "not known before the model is here"
        found, device = estimate(shape, config), _device_bytes()
        if device:
            check_memory(found, device)
            return f"{found} of {device / 2**30:.0f} GiB"
        return f"{found} on a GPU"

    return [attempt("environment", environment), attempt("model", model), attempt("memory", memory)]


def _device_bytes() -> int:
    """Memory of the first GPU; 0 without one."""
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else 0
