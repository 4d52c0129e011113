"""The reference is made from the code: everything that can be set or called is in it, without torch."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from hgpo.cli import build_parser
from hgpo.cli import verbs as cli_verbs
from hgpo.config import Config, preset_names
from hgpo.config.tree import section
from hgpo.envs.registry import BUILT_IN
from hgpo.estimators.table import ESTIMATORS
from hgpo.runs.glossary import GROUPS
from hgpo.settings import settings_of

from .pages import ROOT, made


def test_every_setting_is_there_with_its_sentence_and_default() -> None:
    page = made("settings")
    for name, one in settings_of(Config).items():
        inner = settings_of(section(name)).values() if section(name) else [one]
        for each in inner:
            key = f"{name}.{each.name}" if section(name) else name
            if key in ("env.settings", "estimator.settings"):
                continue
            (row,) = re.findall(
                rf"^\| <a id='{re.escape(key)}'></a>`{re.escape(key)}` \|.*$", page, re.MULTILINE
            )
            assert each.sentence.split("`")[0].split("<")[0][:40] in row
    for estimator, entry in ESTIMATORS.items():
        assert f"### `estimator={estimator}`" in page
        assert all(f"estimator={estimator}/{key}'" in page for key in settings_of(entry.settings))
    assert all(f"### `env={name}`" in page for name in BUILT_IN)


def test_every_preset_is_there_with_what_it_changes() -> None:
    page = made("presets")
    assert re.findall(r"^## `(.*)`$", page, re.MULTILINE) == preset_names()
    quickstart = page.partition("## `quickstart`")[2].partition("\n## ")[0]
    assert "| `estimator.name` | `hgpo_lambda` | `hgpo` |" in quickstart
    assert "| `update.lr` | `0.0003` | `1e-06` |" in quickstart
    assert "`update.clip_low`" not in quickstart


def test_every_verb_is_there_with_its_options() -> None:
    page = made("commands")
    for verb in cli_verbs():
        assert f"\n## `hgpo {verb}`\n" in page
    assert "\n### `hgpo verl launch`\n" in page
    assert "--max-minutes M" in page.partition("## `hgpo train`")[2].partition("\n## ")[0]
    assert build_parser().format_help().splitlines()[2] in page


def test_pages_ask_for_parts_that_there_are() -> None:
    asked = {
        part
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for part in re.findall(r"<!-- made from the code: (\w+) -->", page.read_text(encoding="utf-8"))
    }
    assert asked == {"settings", "presets", "commands"}


@pytest.mark.parametrize("group", GROUPS)
def test_the_metrics_page_has_the_tables_of_the_code(group: str) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert made(f"{group}_metrics") in page, f"python docs/theme/reference.py {group}_metrics prints it"


@pytest.mark.parametrize("part", ["settings", "presets", "commands"])
def test_it_is_made_with_numpy_alone(part: str) -> None:
    program = (
        "import runpy, sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        top = name.partition('.')[0]\n"
        "        if top not in sys.stdlib_module_names and top not in ('hgpo', 'numpy', 'tomli'):\n"
        "            raise ModuleNotFoundError(name, name=top)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"sys.argv = ['reference.py', {part!r}]\n"
        "runpy.run_path('docs/theme/reference.py', run_name='__main__')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout) > 5000


def test_the_pages_are_built_without_torch() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extra = re.findall(r"^docs = \[(.*?)^\]", pyproject, re.MULTILINE | re.DOTALL)[0]
    assert "mkdocs-material" in extra
    assert not re.search(r"torch|hgpo\[|transformers", extra)
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndocs: ")[2].partition("\n\n")[0]
    assert "$(DOCS)/bin/mkdocs build --strict" in recipe
    assert "--quiet" not in recipe, "a quiet build does not count its warnings"
    assert "$(READY)" not in recipe


def test_the_python_page_names_what_there_is() -> None:
    import importlib

    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: (\S+)$", page, re.MULTILINE)
    assert len(named) > 20
    for address in named:
        module, _, name = address.rpartition(".")
        assert (getattr(importlib.import_module(module), name).__doc__ or "").strip(), (
            f"{address} says nothing"
        )
