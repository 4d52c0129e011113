"""The wheel and the sdist: built, installed away from the checkout, and used as somebody would who has nothing else."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hgpo

ROOT = Path(__file__).resolve().parents[1]
SENT = {"src", "tests", "docs", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"}


def test_the_version_stands_in_one_place_and_in_the_changelog() -> None:
    text = (ROOT / "src" / "hgpo" / "version.py").read_text(encoding="utf-8")
    assert f'"{hgpo.__version__}"' in text
    assert not re.search(r"^version\s*=", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert headings[0].split()[0] == hgpo.__version__
    for heading in headings:
        assert re.fullmatch(r"\d+\.\d+\.\d+ \((unreleased|\d{4}-\d\d-\d\d)\)", heading)


def run(*words: str | Path, cwd: Path) -> str:
    """What a command prints; it sees nothing of this checkout."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ran = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=clean,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, f"{words}\n{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}"
    return ran.stdout


def environment(folder: Path) -> Path:
    """A fresh environment; returns its Python."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin" / "python"


PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist that `python -m build` makes."""
    place = tmp_path_factory.mktemp("package")
    python = environment(place / "builder")
    run(python, *PIP, "build", cwd=place)
    run(python, "-m", "build", "--outdir", place / "dist", ROOT, cwd=place)
    return place / "dist"


def wheel(folder: Path) -> Path:
    return next(folder.glob("hgpo-*.whl"))


@pytest.mark.slow
def test_nothing_is_missing_and_nothing_else_travels(built: Path) -> None:
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "hgpo").rglob("*")
        if path.is_file()
    }
    kept = {name for name in source if "__pycache__" not in name}
    with zipfile.ZipFile(wheel(built)) as archive:
        names = set(archive.namelist())
        about = next(name for name in names if name.endswith("/METADATA"))
        metadata = archive.read(about).decode()
    assert {name for name in names if ".dist-info/" not in name} == kept
    assert f"Version: {hgpo.__version__}\n" in metadata
    with tarfile.open(next(built.glob("hgpo-*.tar.gz"))) as archive:
        tops = {Path(name).parts[1] for name in archive.getnames()}
    assert {
        "src",
        "tests",
        "docs",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "pyproject.toml",
    } <= tops
    allowed = {
        "benchmarks",
        "experiments",
        "mkdocs.yml",
        "Makefile",
        ".ci",
        ".github",
        ".gitignore",
        "PKG-INFO",
    }
    assert {name for name in tops - SENT - allowed if not name.endswith((".md", ".txt"))} == set()


@pytest.mark.slow
def test_the_wheel_with_numpy_alone(built: Path, tmp_path: Path) -> None:
    """The estimators, the worlds and the tools need numpy only."""
    python = environment(tmp_path / "plain")
    run(python, *PIP, "--no-deps", wheel(built), "numpy", cwd=tmp_path)
    command = python.parent / "hgpo"
    assert run(command, "--version", cwd=tmp_path).strip() == f"hgpo {hgpo.__version__}"
    assert "advantages" in run(command, "--help", cwd=tmp_path)
    (tmp_path / "kitchen.jsonl").write_bytes((ROOT / "docs" / "examples" / "kitchen.jsonl").read_bytes())
    run(command, "advantages", "kitchen.jsonl", "--estimator", "hgpo", "-o", "out.jsonl", cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 22
    assert {"advantage"} <= set(rows[0])
    assert "Solved after" in run(
        command, "play", "household", "size=tiny", "--policy", "expert", cwd=tmp_path
    )
    assert "rollout.group_size" in run(command, "train", "quickstart", "--settings", cwd=tmp_path)
    run(command, "inspect", "kitchen.jsonl", "--html", "page.html", cwd=tmp_path)
    assert "<script" in (tmp_path / "page.html").read_text()
    assert "get it" in run(command, "data", cwd=tmp_path)
    # Where torch is missing, the command that brings it names the wheel.
    refused = subprocess.run(
        [str(command), "train", "quickstart"], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert f"{wheel(built)}[train]" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_training_away_from_the_checkout(built: Path, tmp_path: Path, kind: str) -> None:
    """With torch and transformers as they are in this environment, which is seen beside the installed package."""
    python = environment(tmp_path / "trainer")
    file = wheel(built) if kind == "wheel" else next(built.glob("hgpo-*.tar.gz"))
    run(python, *PIP, "--no-deps", file, cwd=tmp_path)
    site = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    )
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    # Only a path: the files by which this environment finds the checkout are not read from there.
    (site / "heavy.pth").write_text(f"{Path(torch.origin).parents[1]}\n")
    place = run(python, "-c", "import hgpo; print(hgpo.__file__)", cwd=tmp_path).strip()
    assert Path(place).is_relative_to(site)
    words = ["iterations=1", "warm.episodes=8", "rollout.tasks=2", "eval.tasks=4"]
    run(python.parent / "hgpo", "train", "quickstart", *words, "--run", "run", "--quiet", cwd=tmp_path)
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [0, 1]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["versions"]["hgpo"] == hgpo.__version__


def test_the_citation_and_the_templates_are_what_their_readers_expect() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    paper = citation["preferred-citation"]
    assert paper["title"] == "Hierarchy-of-Groups Policy Optimization for Long-Horizon Agentic Tasks"
    assert paper["url"].rpartition("/")[2] in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all({"family-names", "given-names"} <= set(author) for author in paper["authors"])
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    assert len(forms) == 3
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form)
        named = [part["id"] for part in form["body"]]
        assert len(set(named)) == len(named)
        assert {part["type"] for part in form["body"]} <= {"textarea", "input", "checkboxes"}
