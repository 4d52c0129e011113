"""A run folder is one consistent thing: what is lost, damaged, edited or swapped is named, never used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hgpo.cli import main
from hgpo.errors import BadFile, BadSetting
from hgpo.runs import evaluate, load, train
from hgpo.runs.compare import compare
from hgpo.runs.folder import RunFolder

from ..worlds import FETCH, WORLD, Fetch

Damage = Callable[[Path, Path], None]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of two iterations that differ in their learning rate alone."""
    folder = tmp_path_factory.mktemp("pair")
    for name, rate in (("one", "1e-3"), ("two", "2e-3")):
        train(load(FETCH, ["iterations=2", f"update.lr={rate}"]), folder / name, quiet=True)
    return folder / "one", folder / "two"


@pytest.fixture
def run(pair: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(pair[0], tmp_path / "run"))


def flip(path: Path, _: Path) -> None:
    """One bit, late enough to lie in the values."""
    content = bytearray(path.read_bytes())
    place = len(content) * 2 // 3
    content[place] ^= 1
    path.write_bytes(content)


def cut(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def lose(path: Path, _: Path) -> None:
    path.unlink()


def swap(path: Path, other: Path) -> None:
    shutil.copyfile(other, path)


LAST = "checkpoints/000002"
FILES = [
    "config.json",
    "metrics.jsonl",
    "start/model.safetensors",
    "start/hgpo.json",
    "start/tokenizer.json",
    f"{LAST}/state.json",
    f"{LAST}/trainer.safetensors",
    f"{LAST}/model/model.safetensors",
    f"{LAST}/model/hgpo.json",
]


def everything(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


ALIKE = ("start/model.safetensors", "start/tokenizer.json", "model/tokenizer.json")
"""Files that both runs of the pair have alike: to swap them is no damage."""


def cases(names: list[str]) -> list[tuple[str, Damage]]:
    """Every damage to every file."""
    return [
        (name, damage)
        for name in names
        for damage in (flip, cut, lose, swap)
        if damage is not swap or name not in ALIKE
    ]


def evaluation(run: Path, logs: Path) -> list[str]:
    """The words of a small evaluation."""
    words = ["eval", str(run), "--seeds", "1", "--tasks", "2", "--logs", str(logs)]
    return [*words, "--allow-env", WORLD]


@pytest.mark.parametrize(("name", "damage"), cases(FILES))
def test_resuming_names_what_is_damaged(
    name: str, damage: Damage, run: Path, pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(run / name, pair[1] / name)
    before = everything(run)
    assert main(["train", "--resume", str(run), "iterations=3", "--quiet", "--allow-env", WORLD]) == 2
    said = capsys.readouterr().err
    assert Path(name).name in said or str(run / LAST) in said
    assert "Traceback" not in said
    assert before == everything(run), "nothing was touched"


@pytest.mark.parametrize(
    ("name", "damage"),
    cases(["model/model.safetensors", "model/hgpo.json", "model/tokenizer.json", "config.json"]),
)
def test_evaluating_names_what_is_damaged(
    name: str,
    damage: Damage,
    run: Path,
    pair: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == "model/hgpo.json" and damage is lose:
        shutil.rmtree(
            run / "checkpoints"
        )  # otherwise the last checkpoint is played, which is the same policy
    damage(run / name, pair[1] / name)
    assert main(evaluation(run, tmp_path / "logs")) == 2
    said = capsys.readouterr().err
    assert str(run) in said
    assert "Traceback" not in said


def test_a_whole_model_of_another_run_is_not_played(
    run: Path, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    options = {"seeds": (1,), "tasks": 2, "logs": str(tmp_path / "logs")}
    for part, checkpoint in (("model", "last"), (LAST, "2"), (f"{LAST}/model", "2")):
        broken = Path(shutil.copytree(run, tmp_path / part.replace("/", "_")))
        shutil.rmtree(broken / part)
        shutil.copytree(pair[1] / part, broken / part)
        with pytest.raises(BadFile, match=r"other settings|is not the file"):
            evaluate(str(broken), checkpoint=checkpoint, allow_env=WORLD, **options)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[1:],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: lines[:-1],
        lambda lines: [*lines, lines[1]],
        lambda lines: [lines[1], lines[0], lines[2]],
        lambda lines: [lines[0].replace('"success": 0', '"success": 1'), *lines[1:]],
    ],
    ids=["first lost", "middle lost", "last lost", "repeated", "moved", "changed"],
)
def test_a_lost_or_changed_line_never_shifts_a_curve(
    change: Callable[[list[str]], list[str]], run: Path
) -> None:
    file = run / "metrics.jsonl"
    file.write_text("\n".join(change(file.read_text().splitlines())) + "\n")
    with pytest.raises(BadFile, match=r"metrics\.jsonl"):
        train(None, run, resume=True, quiet=True, allow_env=WORLD)
    with pytest.raises(BadFile, match=r"metrics\.jsonl"):
        compare([str(run)])


def test_without_its_checkpoints_a_lost_first_line_is_noticed(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    assert compare([str(run)])["groups"]
    file = run / "metrics.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(BadFile, match="no line for iteration 0"):
        compare([str(run)])
    with pytest.raises(BadFile, match="no checkpoint"):
        train(None, run, resume=True, quiet=True, allow_env=WORLD)


def test_changed_tasks_are_noticed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Fetch.tasks
    for split in Fetch.splits:
        with monkeypatch.context() as patch:
            patch.setattr(
                Fetch,
                "tasks",
                lambda self, name, split=split: tasks(self, name)[:: -1 if name == split else 1],
            )
            with pytest.raises(BadFile, match=r"tasks.* are not those that the run was begun with"):
                train(replace(load(FETCH), iterations=3), run, resume=True, quiet=True)
    assert train(replace(load(FETCH), iterations=3), run, resume=True, quiet=True)["ended"] == "finished"


def test_other_settings_do_not_go_on(run: Path) -> None:
    with pytest.raises(BadSetting, match="update cannot be changed on resuming"):
        train(load(FETCH, ["update.lr=5e-3"]), run, resume=True, quiet=True)
    described = RunFolder(run)
    with pytest.raises(BadSetting, match="`hgpo train`, and cannot be continued by `hgpo verl`"):
        described.go_on(replace(described.description(), trainer="verl"))


def test_the_newest_policy_is_played(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run / "model", tmp_path / "model")
    train(replace(load(FETCH), iterations=3), run, resume=True, quiet=True)
    shutil.rmtree(run / "model")
    shutil.copytree(tmp_path / "model", run / "model")  # as after a kill: of the earlier end
    command = evaluation(run, tmp_path / "logs")
    assert main(command) == 0
    assert f"{run} after iteration 3: " in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["iteration"] == 3
    assert found["model"].endswith("checkpoints/000003/model")


def test_folders_of_before_there_were_digests_are_read(run: Path, tmp_path: Path) -> None:
    for path in [run / "config.json", *run.rglob("hgpo.json"), *run.rglob("state.json")]:
        content = json.loads(path.read_text())
        for key in (
            "digest",
            "files",
            "seal",
            "training_digest",
            "iteration" if path.name == "hgpo.json" else "",
        ):
            content.pop(key, None)
        path.write_text(json.dumps(content))
    assert (
        evaluate(str(run), seeds=(1,), tasks=2, logs=str(tmp_path / "logs"), allow_env=WORLD)["iteration"]
        == 2
    )
    assert train(replace(load(FETCH), iterations=3), run, resume=True, quiet=True)["ended"] == "finished"
    assert RunFolder(run).checkpoints()[-1].seal()["files"]


def test_a_run_of_an_earlier_version_goes_on_and_is_evaluated(run: Path) -> None:
    """Settings that the package got since keep out of the run, in all of its files."""
    path = run / "config.json"
    stored = json.loads(path.read_text())
    del stored["config"]["update"]["aggregate"]
    del stored["digest"]
    path.write_text(json.dumps(stored))
    for state in run.glob("checkpoints/*/state.json"):
        content = json.loads(state.read_text())
        del content["seal"], content["digest"]
        state.write_text(json.dumps(content))
    train(
        None, run, resume=True, quiet=True, allow_env=WORLD
    )  # nothing is left to do, but the end is written again
    config = replace(load(FETCH, ["iterations=2", "update.lr=1e-3"]), iterations=3)
    train(config, run, resume=True, quiet=True)
    for checkpoint in ("last", "best", "3"):
        assert evaluate(
            str(run), checkpoint=checkpoint, tasks=2, seeds=(1,), allow_env=WORLD, logs=str(run / "l")
        )
    assert "aggregate" not in RunFolder(run).description().config["update"]
