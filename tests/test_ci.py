"""What continuous integration runs: the core tests under the oldest and newest Python."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def pythons() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pythons", ROOT / ".ci" / "pythons.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_oldest_and_newest_are_those_of_the_package(pythons: ModuleType) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    oldest, newest = pythons.claimed(text)
    assert f'requires-python = ">={oldest}"' in text
    assert (oldest, newest) == ("3.10", "3.13")


def test_a_python_that_cannot_be_had_is_said_so(
    pythons: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pythons, "candidates", lambda version: iter([sys.executable, "", "no-such-program"]))
    assert pythons.main(["3.99"]) == 0
    assert "Python 3.99: NOT TESTED, this machine has none" in capsys.readouterr().out


@pytest.mark.parametrize("status", [0, 1])
def test_failing_tests_under_one_of_them_fail_the_run(
    pythons: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setattr(pythons, "environment", lambda *_: sys.executable)
    ran: list[Any] = []

    def run(command: list[str], **options: Any) -> Any:
        if "pytest" in command:
            ran.append(command)
            return SimpleNamespace(returncode=status)
        return real(command, **options)

    real = subprocess.run
    monkeypatch.setattr(pythons.subprocess, "run", run)
    assert pythons.main([version]) == status
    assert len(ran) == 1
    assert f"Python {version}: {'FAILED' if status else 'passed'}" in capsys.readouterr().out
