"""The run folder: what it declares is what runs leave and what the documentation says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hgpo import StepBatch
from hgpo.errors import BadFile, BadSetting, DiskFull, UnknownName
from hgpo.files import atomic_folder
from hgpo.models.folder import model_settings, write_model
from hgpo.runs import load, train
from hgpo.runs.compare import compare, table_text
from hgpo.runs.folder import (
    LAYOUT,
    LOCAL,
    VERL,
    Description,
    EvaluationFolder,
    RunFolder,
    RunPolicies,
    TrainState,
    success_key,
)
from hgpo.runs.panels import Panel

from ..conftest import ROOT
from ..worlds import FETCH, WORLD

PANELS = {"in-domain": Panel("household", "in-domain", ("a", "b"), 5)}

TASKS = [f"task-{number}" for number in range(7)]


def evaluated(run: RunFolder, success: dict[int, float]) -> None:
    """A line for every iteration, with an evaluation of some."""
    for number in range(max(success) + 1):
        scores = {success_key("in-domain"): success[number]} if number in success else {}
        run.append_metrics({"iteration": number, **scores})


def begin(path: Path, trainer: str = LOCAL, *words: str) -> RunFolder:
    """A run that was begun and has done nothing yet."""
    run = RunFolder(path)
    run.describe(Description.of(load(FETCH, words), PANELS, TASKS, trainer))
    return run


def verl_checkpoint(run: RunFolder, step: int) -> None:
    """What verl leaves at a step, as far as it is read."""
    model = run.verl_model(step)
    model.mkdir(parents=True)
    (model / "model.safetensors").write_bytes(b"")
    (run.checkpoint_parent / "latest_checkpointed_iteration.txt").write_text(str(step))


def test_the_documentation_shows_the_declared_layout() -> None:
    page = (ROOT / "docs" / "training.md").read_text()
    section = page.partition("## What a run leaves")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| `([^`]+)` \| (.+?) \|(?: (.*?) \|)$", section, re.M)
    who = {"": "both", LOCAL: "`hgpo train`", VERL: "verl"}
    assert shown == [(entry.name, entry.content, who[entry.trainer]) for entry in LAYOUT]


def test_a_run_leaves_nothing_that_is_not_declared(tmp_path: Path) -> None:
    train(load(FETCH, ["iterations=1"]), tmp_path / "run", quiet=True)
    patterns = [
        re.compile(
            entry.name.replace(".", r"\.").replace("N", r"\d") + (".*" if entry.name.endswith("/") else "")
        )
        for entry in LAYOUT
        if entry.trainer != VERL
    ]
    left = [
        str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*") if path.is_file()
    ]
    assert len(left) > 10
    assert [name for name in left if not any(pattern.fullmatch(name) for pattern in patterns)] == []


def test_a_description_comes_back_as_it_was(tmp_path: Path) -> None:
    run = begin(tmp_path, VERL, "seed=3")
    stored = run.description()
    assert stored == Description.of(load(FETCH, ["seed=3"]), PANELS, TASKS, VERL)
    assert run.config(allow_env=WORLD) == load(FETCH, ["seed=3"])
    assert stored.panels["in-domain"] == PANELS["in-domain"].summary()
    run.append_metrics({"iteration": 0})
    with pytest.raises(BadSetting, match="already holds a run"):
        run.require_new()
    with pytest.raises(BadFile, match=r"config\.json is missing"):
        RunFolder(tmp_path / "absent").config()


def test_a_start_that_was_killed_at_once_is_in_nobodys_way(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", VERL)
    run.require_new()
    assert not run.exists()
    for foreign in ('{"model_type": "llama"}', "{}", "mine"):
        run.config_file.write_text(foreign)
        with pytest.raises(BadSetting, match="already holds a run"):
            run.require_new()
        assert run.config_file.read_text() == foreign


def fail(run: RunFolder, error: BaseException, made: list[str]) -> None:
    """A run that ends with an error after it was described and has made some folders."""
    with run.training():
        begin(run.path, VERL)
        for name in made:
            (run.path / name).mkdir()
        raise error


@pytest.mark.parametrize(
    ("error", "made"),
    [
        (BadSetting("no"), []),
        (KeyboardInterrupt(), []),
        (OSError(28, "No space left on device"), []),
        (BrokenPipeError(), []),
        (BadSetting("no"), ["start"]),
    ],
)
def test_a_start_that_fails_leaves_nothing(tmp_path: Path, error: BaseException, made: list[str]) -> None:
    run = RunFolder(tmp_path / "run")
    with pytest.raises(type(error)):
        fail(run, error, made)
    assert not run.path.exists()


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(28, "No space left on device"), DiskFull("x")]
)
def test_a_policy_that_was_made_to_start_from_is_kept(tmp_path: Path, error: BaseException) -> None:
    run = RunFolder(tmp_path / "run")
    with pytest.raises(type(error)):
        fail(run, error, ["start"])
    assert run.start.is_dir()
    assert run.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"panels": 3}', '{"panels": {"s": {}}}', '{"training_tasks": "x"}']
)
def test_a_damaged_description_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BadFile, match=r"config\.json .*configuration of a run"):
        RunFolder(tmp_path).description()


def test_metrics_are_appended_rewound_and_read(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.metrics() == []
    for number in range(4):
        run.append_metrics({"iteration": number, "success": number / 10})
    run.rewind_metrics(2)
    assert [row["iteration"] for row in run.metrics()] == [0, 1, 2]
    run.append_metrics({"iteration": 2, "success": 0.9})
    assert run.metrics()[-1] == {"iteration": 2, "success": 0.9}, "the later line about an iteration counts"
    with open(run.metrics_file, "a") as out:
        out.write('{"iteration": 3, "succ')
    assert len(run.metrics()) == 3, "a last line that was not finished is no error"
    notes: list[str] = []
    assert len(run.metrics(notes)) == 3
    assert "line 5" in notes[0]
    run.metrics_file.write_text('{"iteration": 0}\n{"success": 1}\n{"iteration": 2}\n')
    with pytest.raises(BadFile, match="line 2"):
        run.metrics()


def test_checkpoints_of_both_trainers_are_models_by_iteration(tmp_path: Path) -> None:
    local, other = begin(tmp_path / "local"), begin(tmp_path / "verl", VERL)
    for run in (local, other):
        evaluated(run, {0: 0.1, 2: 0.5, 4: 0.5, 6: 0.4})
    for number in (2, 4, 6):
        local.save_checkpoint(
            TrainState(number, 0, 0, best_iteration=2), {}, lambda folder: None, {"seed": number}, keep=1
        )
        verl_checkpoint(other, number)
    assert list(RunPolicies(local).saved()) == [2, 6], "the best and the last"
    assert list(RunPolicies(other).saved()) == [2, 4, 6]
    assert other.verl_step() == 6
    assert local.verl_step() == 0
    assert local.checkpoints()[-1].state().iteration == 6
    for run in (local, other):
        policies = RunPolicies(run)
        assert policies.best_iteration() == 2
        assert policies.find("best") == policies.saved()[2]
        assert policies.find("last") == policies.saved()[6]
        assert policies.find("6") == policies.saved()[6]
        with pytest.raises(UnknownName, match="best, last"):
            policies.find("5")
        run.export(lambda folder: None, {"seed": 9}, 5)
        assert policies.find("last") == policies.saved()[6], "the run went on after that end"
        run.export(lambda folder: None, {"seed": 9}, 6)
        assert policies.find("last") == run.model
        assert [policies.iteration(one) for one in (run.model, policies.saved()[2])] == [6, 2]
    assert model_settings(RunPolicies(local).find("2")) == {"seed": 2}


def test_the_best_checkpoint_is_never_another_one(tmp_path: Path) -> None:
    run = begin(tmp_path, VERL)
    policies = RunPolicies(run)
    with pytest.raises(BadFile, match="no checkpoint yet"):
        policies.find("last")
    verl_checkpoint(run, 2)
    with pytest.raises(BadFile, match="never evaluated"):
        policies.find("best")
    run.append_metrics({"iteration": 1, success_key("in-domain"): 0.5})
    with pytest.raises(BadFile, match="iteration 1, which was not saved"):
        policies.find("best")


def test_rollouts_know_their_iteration(tmp_path: Path) -> None:
    steps = StepBatch.read(ROOT / "docs" / "examples" / "kitchen.jsonl")
    run = RunFolder(tmp_path)
    paths = [
        run.write_rollouts(steps, 1),
        run.write_rollouts(steps, 2, part=1),
        run.write_rollouts(steps, 10),
    ]
    (run.rollouts / "notes.txt").write_text("")
    assert run.rollout_files() == dict(zip(paths, (1, 2, 10)))
    assert paths[1].name == "000002-1.parquet"


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write_model(target, lambda folder: (folder / "weights").write_text("old") and None, {})

    def fail(folder: Path) -> None:
        (folder / "weights").write_text("new")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_model(target, fail, {})
    assert (target / "weights").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    (tmp_path / ".hgpo-partial-model").mkdir()
    (tmp_path / ".hgpo-partial-old-model").mkdir()
    with atomic_folder(target) as partial:
        (partial / "weights").write_text("new")
    assert (target / "weights").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_evaluations_have_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKPOINTS_DIR", str(tmp_path))
    folder = EvaluationFolder.default("name", "12ab")
    folder.write_log(3, ["one", "two"])
    folder.write_result("in-domain", {"success": 0.5})
    assert (tmp_path / "logs" / "name" / "output_seed3.log").read_text() == "evaluation 12ab\none\ntwo\n"
    stored = json.loads((tmp_path / "logs" / "name" / "result_in-domain.json").read_text())
    assert stored == {"success": 0.5, "evaluation": "12ab"}


def test_runs_of_both_trainers_are_compared_and_told_apart(tmp_path: Path) -> None:
    # What a run keeps on disk is nothing to be called by.
    kept = {LOCAL: "rollout.keep_every=10", VERL: "rollout.keep_every=1"}
    runs = [begin(tmp_path / trainer, trainer, word) for trainer, word in kept.items()]
    for run, last in zip(runs, (0.5, 0.7)):
        evaluated(run, {0: 0.1, 2: last})
    found = compare([str(run.path) for run in runs])
    assert [group["last"]["mean"] for group in found["groups"]] == [0.5, 0.7]
    one, two = (group["name"] for group in found["groups"])
    assert two == f"{one}, verl"
    assert "keep_every" not in one
    assert f"{two} - {one}: +20.0" in table_text(found)


def test_a_run_that_was_never_evaluated_is_not_compared(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.describe(Description.of(load(FETCH, ["eval.every=0"]), {}, TASKS))
    with pytest.raises(BadFile, match=r"eval\.every=0"):
        compare([str(tmp_path)])
