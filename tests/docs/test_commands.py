"""Every command that a page shows is one that works: parsed and checked, and run where that is cheap."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hgpo.cli import main
from hgpo.envs import template
from hgpo.errors import HgpoError

from .commands import FOREIGN, ONLY_CHECKED, RUN, Command, check, commands
from .pages import PAGES, ROOT, name

# The changelog may name what is gone.
WITH_COMMANDS = [page for page in PAGES if page.name != "CHANGELOG.md"]
COMMANDS = [command for page in WITH_COMMANDS for command in commands(page)]
IN_BLOCKS = [command for command in COMMANDS if command.whole and command.program not in FOREIGN]
CHEAP = list(
    {
        command.words: command for command in IN_BLOCKS if command.rules[:1] in [[rule] for rule in RUN]
    }.values()
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the reader has it: docs/ of the checkout, and the environments that pages speak of."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "docs").symlink_to(ROOT / "docs")
    (folder / "cave.py").write_text(inspect.getsource(template))
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").touch()
    (folder / "my_package" / "my_module.py").write_text(
        re.sub(r"\bCave\b", "MyEnv", inspect.getsource(template))
    )
    return folder


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_commands_are_what_the_parser_and_the_settings_allow(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    wrong = []
    for command in commands(page):
        try:
            check(command)
        except (AssertionError, HgpoError, SystemExit, OSError) as error:
            wrong.append(f"{command.place}: {command}: {error} {capsys.readouterr().err}")
    assert wrong == []


@pytest.mark.parametrize("command", CHEAP, ids=str)
def test_cheap_commands_run(
    command: Command, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    if "rollouts.jsonl" in command.words and not Path("rollouts.jsonl").exists():
        record = [sys.executable, "docs/examples/record_rollouts.py", "rollouts.jsonl"]
        subprocess.run(record, check=True, timeout=120)
    if command.words[:3] == ("hgpo", "env", "new"):
        Path(command.words[3]).unlink(missing_ok=True)
    if command.words[0] == "hgpo":
        played = command.words[1] == "play"  # status 1: an episode that was not solved
        assert main(list(command.words[1:])) in ((0, 1) if played else (0,)), capsys.readouterr().err
    else:
        subprocess.run([sys.executable, *command.words[1:]], check=True, timeout=120)


def test_each_command_is_either_run_or_only_checked_for_a_reason() -> None:
    undecided = [f"{command.place}: {command}" for command in IN_BLOCKS if len(command.rules) != 1]
    assert undecided == [], "say in tests/docs/commands.py whether the tests run it"
    used = {rule for command in IN_BLOCKS for rule in command.rules}
    assert [rule for rule in ONLY_CHECKED if rule not in used] == [], "no page has such a command any more"
    assert len(CHEAP) > 10


@pytest.mark.parametrize(
    "line",
    [
        "hgpo trian quickstart",
        "hgpo eval runs/quickstart/... seed=1",
        "hgpo train quickstrat",
        "hgpo train quickstart updat.lr=1",
        "hgpo train quickstart update.lr=much",
        "hgpo train quickstart estimator=gipo",
        "hgpo train quickstart --folders x",
        "hgpo train missing.py:Cave",
        "hgpo eval runs/x update.rl=1",
        "hgpo eval runs/x --sead 1",
        "hgpo play househould",
        "hgpo play household sizes=tiny",
        "hgpo advantages x.jsonl --estimator gipo",
        "hgpo advantages x.jsonl --depth deep",
        "hgpo lab --worlds mace",
        "hgpo lab --estimators hgpo:lamb=1",
        "hgpo models fetch smollm3",
        "hgpo verl launch alfworld-qwen --gpus 2",
        "hgpo verl lunch quickstart",
        "torchrun --nproc-per-node 4 -m hgpo train quickstrat",
        "make tests",
        "pip install hgpo",
        "pip install 'hgpo[verl]'",
        "pip install '.[vrel]'",
        "python experiments/nothing.py",
        "python benchmarks/estimators.py --no-such-option",
        "hpgo train",
    ],
)
def test_the_check_sees_what_is_wrong(
    line: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n```sh\n{line}\n```\n")
    monkeypatch.chdir(place)
    monkeypatch.setattr("tests.docs.pages.ROOT", tmp_path)
    (command,) = commands(page)
    monkeypatch.undo()
    monkeypatch.chdir(place)
    with pytest.raises((AssertionError, HgpoError, SystemExit, OSError)):
        check(command)


@pytest.mark.parametrize(
    "mention", ["hgpo trian", "hgpo train --sets", "hgpo verl lunch", "hgpo eval --sead"]
)
def test_a_wrong_mention_in_a_sentence_is_seen(mention: str) -> None:
    with pytest.raises(AssertionError):
        check(Command("page.md", 1, tuple(mention.split()), False))
