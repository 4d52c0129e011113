"""Programs on the pages and examples in docstrings run and print what they say; scripts import what is there.

A block of Python on a page is pasted as it stands, after those above it. Where a block of `text` follows directly, it
is what the program prints.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
from pathlib import Path
from typing import Any

import pytest

from .pages import PAGES, ROOT, Block, blocks, name

# Programs that are not run here, by their first line, and why; that they compile and import what is there is checked.
ONLY_COMPILED = {
    "# train_trl.py": "tests/trl runs it, with TRL",
    "# recipe: torch": "tests/trl runs it",
    "# recipe: GRPOTrainer": "tests/trl runs it, with TRL",
    "from hgpo.runs import evaluate": "needs a trained run; tests/runs evaluates",
    "from hgpo.runs import load, train": "trains; tests/runs does",
    "from hgpo.runs.folder import RunFolder": "needs a run; tests/runs reads some",
    "extra = {": "lines for another package's code",
}

PROGRAMS = {page: [block for block in blocks(page) if block.language == "python"] for page in PAGES}
SOURCE = ROOT / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((SOURCE / "hgpo").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


def only_compiled(block: Block) -> str:
    """The line of `ONLY_COMPILED` that is among a block's first; empty for none."""
    first = block.text.splitlines()[:4]
    return next((line for line in ONLY_COMPILED if any(one.startswith(line) for one in first)), "")


@pytest.mark.parametrize("page", [page for page, programs in PROGRAMS.items() if programs], ids=name)
def test_programs_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    # A page is one program: what a block defines is there in those below it.
    space: dict[str, Any] = {"__name__": "__main__"}
    every = blocks(page)
    for place, block in enumerate(every):
        if block.language != "python":
            continue
        code = compile(block.text, f"{block.page}:{block.line}", "exec")
        if only_compiled(block):
            check_imports(ast.parse(block.text))
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, space)
        after = every[place + 1] if place + 1 < len(every) else None
        if after is not None and after.adjacent and after.language == "text":
            assert printed.getvalue() == after.text, f"{after.page}:{after.line}"


def test_programs_can_be_pasted() -> None:
    """Without the prompts of an interactive session."""
    assert [block.page for programs in PROGRAMS.values() for block in programs if ">>> " in block.text] == []


def test_what_is_only_compiled_is_still_there() -> None:
    used = {only_compiled(block) for programs in PROGRAMS.values() for block in programs}
    assert set(ONLY_COMPILED) <= used


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_a_module(module: str) -> None:
    failed, attempted = doctest.testmod(importlib.import_module(module))
    assert failed == 0
    assert attempted > 0


SCRIPTS = sorted(
    path for folder in ("benchmarks", "docs", "experiments", ".ci") for path in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_script_imports_is_there(script: Path) -> None:
    """Benchmarks and experiments are run by hand, now and then; their imports are checked always."""
    check_imports(ast.parse(script.read_text(encoding="utf-8")))


def check_imports(program: ast.Module) -> None:
    """Fail if a program imports what this package does not have."""
    for node in ast.walk(program):
        if (
            isinstance(node, ast.ImportFrom)
            and node.level == 0
            and (node.module or "").split(".")[0] == "hgpo"
        ):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "hgpo":
                    importlib.import_module(alias.name)
