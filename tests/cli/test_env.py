"""`hgpo env`: from an empty folder to an environment that is checked, played and inspected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hgpo.cli.env import class_name
from hgpo.envs import check_env, names, template
from hgpo.envs.registry import described


def hgpo(folder: Path, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    # As the installed command does it: the current folder is not on the path by itself.
    start = (
        "import sys; sys.path = [p for p in sys.path if p]; from hgpo.__main__ import main; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-P", "-c", start, *words]
        if sys.version_info >= (3, 11)
        else [sys.executable, "-c", start, *words],
        cwd=folder,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_new_environment_is_checked_played_and_evaluated(tmp_path: Path) -> None:
    assert hgpo(tmp_path, "env", "new", "deep_cave.py").returncode == 0
    text = (tmp_path / "deep_cave.py").read_text()
    assert "class DeepCave:" in text
    assert len(text.splitlines()) < 80
    for address in ("deep_cave.py:DeepCave", "deep_cave:DeepCave"):
        checked = hgpo(tmp_path, "env", "check", address)
        assert checked.returncode == 0, checked.stderr
        for part in ("keeps the contract", "tasks: train 200, in-domain 100", "- Go North", "ms a step"):
            assert part in checked.stdout
    played = hgpo(
        tmp_path, "play", "deep_cave.py:DeepCave", typed="Take the Lamp\nLight the Lamp\nGo North\nquit\n"
    )
    assert "You are in the North Tunnel." in played.stdout
    played = hgpo(tmp_path, "eval", "random", "deep_cave.py:DeepCave", "--tasks", "5", "--seeds", "1,2")
    assert played.returncode == 0, played.stderr
    assert "deep_cave.py:DeepCave in-domain, 5 tasks x 2 seeds" in played.stdout
    inspected = hgpo(tmp_path, "inspect", "deep_cave.py:DeepCave")
    assert inspected.returncode == 0, inspected.stderr
    assert "64 trajectories, 8 task groups" in inspected.stdout
    again = hgpo(tmp_path, "env", "new", "deep_cave.py")
    assert again.returncode == 2
    assert "already exists" in again.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("cave.txt", "expected a Python file"),
        ("1st.py", "can name a module"),
        ("my-cave.py", "can name a module"),
    ],
)
def test_a_file_that_could_not_be_imported_is_not_written(tmp_path: Path, word: str, said: str) -> None:
    done = hgpo(tmp_path, "env", "new", word)
    assert done.returncode == 2
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_with_an_environment_is_said_with_the_cause(tmp_path: Path) -> None:
    hgpo(tmp_path, "env", "new", "cave.py")
    text = (tmp_path / "cave.py").read_text()
    (tmp_path / "cave.py").write_text(text.replace("    splits =", '    action_form = "lower"\n    splits ='))
    done = hgpo(tmp_path, "env", "check", "cave.py:Cave")
    assert done.returncode == 2
    assert "in 1 way" in done.stderr
    assert "'Take the Lamp' reaches step() as 'take the lamp'" in done.stderr
    done = hgpo(tmp_path, "env", "check", "cave.py:Cabe")
    assert done.returncode == 2
    assert "it has Cave" in done.stderr


def test_every_way_in_which_the_contract_is_broken_has_a_line_of_its_own(tmp_path: Path) -> None:
    hgpo(tmp_path, "env", "new", "cave.py")
    text = (tmp_path / "cave.py").read_text()
    text = text.replace('raise UnknownName("split", split, self.splits)', "return []")
    text = text.replace("    splits =", '    action_form = "lower"\n    splits =')
    (tmp_path / "cave.py").write_text(text)
    done = hgpo(tmp_path, "env", "check", "cave.py:Cave")
    assert done.returncode == 2
    heading, *ways = done.stderr.splitlines()
    assert "breaks the environment contract in 2 ways:" in heading
    assert [way[:9] for way in ways] == ["1. Given:", "2. Given:"]


def test_the_list_has_a_sentence_for_each() -> None:
    assert [name for name, _ in described()] == names()
    assert all(sentence.endswith(".") for _, sentence in described())


def test_the_template_keeps_the_contract() -> None:
    check_env(template.Cave())
    assert class_name(Path("a/my_own_cave2.py")) == "MyOwnCave2"
