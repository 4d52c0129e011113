"""Evaluation: repeatable, complete, with intervals; comparisons that refuse what cannot be compared."""

from __future__ import annotations

import errno
import json
import os
import shutil
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

from hgpo.cli import main
from hgpo.envs import Observation
from hgpo.errors import BadFile, BadSetting, PanelMismatch, UnknownName
from hgpo.play.stage import Stage
from hgpo.runs import between_arms, evaluate, evaluation, load, over_runs, over_tasks, train, wilson
from hgpo.runs.compare import compare, table_text
from hgpo.runs.curves import write_html
from hgpo.runs.evaluation import find_target
from hgpo.runs.panels import Panel, spread

from ..policies.server import serving
from ..worlds import FETCH, WORLD, Fetch


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of one setting, and one run on another panel."""
    folder = tmp_path_factory.mktemp("runs")
    made = []
    for name, extra in {"a": [], "b": ["seed=1"], "other": ["eval.tasks=10"]}.items():
        settings = ["iterations=1", *extra]
        train(load(FETCH, settings), folder / name, quiet=True)
        made.append(folder / name)
    return made


def test_every_task_once_per_seed_and_the_same_twice(runs: list[Path], tmp_path: Path) -> None:
    options = {"seeds": (1, 2), "logs": str(tmp_path / "logs"), "allow_env": WORLD}
    one = evaluate(str(runs[0]), **options)
    two = evaluate(str(runs[0]), **options)
    assert one["episodes"] == 80
    assert one["panel"]["tasks"] == 40
    assert one["success_by_seed"] == two["success_by_seed"]
    assert one["success"] == pytest.approx(np.mean(list(one["success_by_seed"].values())))
    low, high = one["success_interval_95"]
    assert low <= one["success"] <= high
    assert one["history_length"] == 2
    stored = json.loads((tmp_path / "logs" / "result_in-domain.json").read_text())
    assert stored["versions"]["hgpo"]
    log = (tmp_path / "logs" / "output_seed1.log").read_text()
    assert log.count("== fetch-") == 40


def test_several_panels_and_temperatures_in_one_go(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is read once, and every result is what it is when it is asked for alone."""
    words = ["eval", str(runs[0]), "--seeds", "1", "--tasks", "6", "--allow-env", WORLD, "--json"]
    alone = {}
    for split in ("in-domain", "train"):
        for temperature in ("0.4", "1"):
            logs = str(tmp_path / f"{split}-{temperature}")
            assert main([*words, "--split", split, "--temperature", temperature, "--logs", logs]) == 0
            alone[split, float(temperature)] = json.loads(capsys.readouterr().out)
    opened = []
    opening = evaluation.open_engine
    monkeypatch.setattr(evaluation, "open_engine", lambda *rest: opened.append(rest) or opening(*rest))
    logs = tmp_path / "together"
    words += ["--split", "in-domain,train", "--temperature", "0.4,1", "--logs", str(logs)]
    assert main(words) == 0
    together = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(opened) == 1
    assert len(together) == 4
    for one in together:
        same = alone[one["panel"]["split"], one["protocol"]["temperature"]]
        for key in ("success", "steps", "score", "panel", "evaluation", "protocol"):
            assert one[key] == same[key]
        folder = logs / one["panel"]["split"] / f"temperature-{one['protocol']['temperature']:g}"
        assert Path(one["logs"]) == folder
        stored = json.loads((folder / f"result_{one['panel']['split']}.json").read_text())
        assert stored["evaluation"] == one["evaluation"]
        assert (folder / "output_seed1.log").is_file()


def test_a_split_that_is_not_there_stops_before_anything_is_played(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stage, "play", lambda *_: pytest.fail("played"))
    words = ["eval", str(runs[0]), "--split", "in-domain,in-doman", "--allow-env", WORLD]
    assert main([*words, "--logs", str(tmp_path / "logs")]) == 2
    assert not (tmp_path / "logs").exists()


def test_evaluation_may_allow_longer_episodes_than_training(tmp_path: Path) -> None:
    def longest(*words: str) -> int:
        found = evaluate(
            "random", seeds=[1], tasks=20, preset="quickstart", overrides=words, logs=str(tmp_path)
        )
        lines = Path(found["files"][0]).read_text().splitlines()
        steps = max(int(line.rpartition("steps=")[2]) for line in lines if line.startswith("=="))
        assert steps == found["panel"]["max_steps"]
        return steps

    assert longest("agent.max_steps=3") == 3
    assert longest("agent.max_steps=3", "eval.max_steps=7") == 7


def test_a_seed_given_twice_is_played_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All seeds are in play at once: a policy knows episodes by their group, so no two may share one."""
    groups: list[str] = []
    play = Stage.play
    monkeypatch.setattr(
        Stage, "play", lambda self, *rest: groups.extend(job.group for job in rest[1]) or play(self, *rest)
    )
    found = evaluate("expert", preset=FETCH, seeds=(5, 5), tasks=4, logs=str(tmp_path))
    assert found["episodes"] == len(groups) == len(set(groups)) == 8


def test_a_model_folder_knows_its_settings(runs: list[Path], tmp_path: Path) -> None:
    run = evaluate(str(runs[0]), seeds=(5,), logs=str(tmp_path / "a"), allow_env=WORLD)
    model = evaluate(str(runs[0] / "model"), seeds=(5,), logs=str(tmp_path / "b"), allow_env=WORLD)
    assert run["success"] == model["success"]
    assert run["panel"]["digest"] == model["panel"]["digest"]


def test_a_run_without_its_checkpoints(runs: list[Path], tmp_path: Path) -> None:
    """What is left of a finished run when its checkpoints were deleted still says how it is to be played."""
    lean = tmp_path / "lean"
    shutil.copytree(runs[0], lean, ignore=shutil.ignore_patterns("checkpoints"))
    found = find_target(str(lean), None, [], allow_env=WORLD)
    assert Path(found.model) == lean / "model"
    assert found.config == find_target(str(runs[0]), None, [], allow_env=WORLD).config


def test_scripted_policies(tmp_path: Path) -> None:
    options = {"preset": FETCH, "seeds": (1,), "logs": str(tmp_path)}
    assert evaluate("expert", **options)["success"] == 1.0
    assert evaluate("random", **options)["success"] < 0.8


def test_what_is_not_a_target(tmp_path: Path, runs: list[Path]) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFile, match="neither a run"):
        evaluate(str(tmp_path / "empty"))
    with pytest.raises(BadSetting, match="preset"):
        evaluate("somebody/some-model")
    with pytest.raises(UnknownName, match="checkpoint"):
        evaluate(str(runs[0]), checkpoint="77")
    with pytest.raises(UnknownName, match="in-domain"):
        evaluate(str(runs[0]), split="in-doman", allow_env=WORLD)


def test_comparison_groups_seeds_and_refuses_other_panels(runs: list[Path], tmp_path: Path) -> None:
    found = compare([str(runs[0]), str(runs[1])])
    (group,) = found["groups"]
    assert len(group["runs"]) == 2
    assert group["iterations"] == [0, 1]
    assert group["last"]["low"] <= group["last"]["mean"] <= group["last"]["high"]
    assert "k2_hgpo" in table_text(found)
    write_html(found, tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()
    with pytest.raises(PanelMismatch, match="different task panels"):
        compare([str(runs[0]), str(runs[2])])
    with pytest.raises(BadFile, match="not a run"):
        compare([str(tmp_path)])


def test_commands(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allow = ["--allow-env", WORLD]
    assert main(["eval", str(runs[0]), "--seeds", "3", "--json", "--logs", str(tmp_path / "l"), *allow]) == 0
    assert json.loads(capsys.readouterr().out)["protocol"]["seeds"] == [3]
    assert (
        main(["eval", str(runs[0]), "--seeds", "3", "--tasks", "5", "--logs", str(tmp_path / "l"), *allow])
        == 0
    )
    assert "5 tasks" in capsys.readouterr().out
    assert main(["eval", str(runs[0]), "--seeds", "x"]) == 2
    assert "123,456,789" in capsys.readouterr().err
    assert main(["compare", str(runs[0]), str(runs[1]), "--out", str(tmp_path / "c")]) == 0
    assert (tmp_path / "c" / "comparison.png").stat().st_size > 1000
    assert main(["compare", str(runs[0]), str(runs[2]), "--out", str(tmp_path / "d")]) == 2
    assert main(["train", "--list"]) == 0
    assert "quickstart" in capsys.readouterr().out
    assert main(["train", "quickstart", "rollout.taks=3", "--run", str(tmp_path / "x")]) == 2
    assert "rollout.tasks" in capsys.readouterr().err
    assert main(["train", "group_size=3", "--show"]) == 0
    assert json.loads(capsys.readouterr().out)["rollout"]["group_size"] == 3
    assert main(["train", "--resume", str(runs[0]), "group_size=3", *allow]) == 2
    assert "'group_size=3' cannot be changed" in capsys.readouterr().err
    assert main(["sft", FETCH, "--out", str(tmp_path / "warm"), "--quiet"]) == 0
    assert (
        main(
            ["eval", str(tmp_path / "warm"), "--seeds", "1", "--json", "--logs", str(tmp_path / "m"), *allow]
        )
        == 0
    )


def test_panels_are_told_apart_by_what_matters() -> None:
    base = Panel("e", "s", ("a", "b"), 10, {"size": "tiny", "data": "/here"})
    assert base.digest == Panel("e", "s", ("a", "b"), 10, {"size": "tiny", "data": "/there"}).digest
    others = [
        Panel("e", "s", ("b", "a"), 10, {"size": "tiny"}),
        Panel("e", "s", ("a", "b"), 11, {"size": "tiny"}),
        Panel("e", "s", ("a", "b"), 10, {"size": "small"}),
        Panel("e", "t", ("a", "b"), 10, {"size": "tiny"}),
    ]
    assert len({base.digest, *(one.digest for one in others)}) == 5
    assert spread([str(n) for n in range(10)], 4) == ("0", "2", "5", "7")
    assert spread(["a"], 0) == ("a",)


def test_statistics() -> None:
    found = over_runs([0.5, 0.6, 0.7])
    assert found["mean"] == pytest.approx(0.6)
    assert found["high"] - found["mean"] == pytest.approx(4.3026527297 * 0.1 / 3**0.5)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(10, 10)[0] == pytest.approx(0.722, abs=1e-3)
    table = np.tile(np.array([1.0] * 70 + [0.0] * 30), (3, 1))
    low, high = over_tasks(table)
    assert low == pytest.approx(0.61, abs=0.02)
    assert high == pytest.approx(0.79, abs=0.02)
    assert over_tasks(table) == over_tasks(table), "seeded"
    assert over_tasks(np.ones((2, 20)))[0] < 1.0, "agreement is not certainty"


def test_noise_between_arms() -> None:
    """Two arms: the paired interval; what is common to a seed or an arm does not count as noise."""
    table = np.array([[0.1, 0.5, 0.3], [0.4, 0.6, 0.7]])
    gaps = over_runs((table[1] - table[0]).tolist())
    assert between_arms(table.tolist()) == pytest.approx(gaps["high"] - gaps["mean"])
    shifted = table + np.array([[1.0], [5.0]]) + np.array([[0.0, 3.0, -2.0]])
    assert between_arms(shifted.tolist()) == pytest.approx(between_arms(table.tolist()))
    assert np.isnan(between_arms([[1.0], [2.0]]))


def test_noise_between_arms_covers_the_truth() -> None:
    """Of 2,000 draws of four equal arms and three seeds about one in twenty shows a difference that is not there."""
    random = np.random.default_rng(5)
    tables = random.normal(size=(2000, 4, 3)) + random.normal(size=(2000, 1, 3))
    beyond = np.mean([abs(one[0].mean() - one[3].mean()) > between_arms(one.tolist()) for one in tables])
    assert 0.035 < beyond < 0.065


# Nothing is lost


def test_evaluations_of_something_else_are_kept(runs: list[Path], tmp_path: Path) -> None:
    """Another temperature, panel, seed, setting, checkpoint or model: its own files, whatever the folder."""
    logs = tmp_path / "logs"
    options = {"preset": FETCH, "seeds": (1,), "logs": str(logs), "allow_env": WORLD}
    first = evaluate("expert", **options)
    assert sorted(path.name for path in logs.iterdir()) == ["output_seed1.log", "result_in-domain.json"]
    kept = {path: path.read_bytes() for path in logs.iterdir()}
    made = [first]
    for target, changes in (
        ("expert", {"temperature": 0.7}),
        ("expert", {"tasks": 5}),
        ("expert", {"seeds": (1, 2)}),
        ("expert", {"split": "train"}),
        ("expert", {"overrides": ["eval.max_steps=4"]}),
        ("random", {}),
        (str(runs[0]), {"preset": None}),
        (str(runs[0]), {"preset": None, "checkpoint": "1"}),
        (str(runs[1]), {"preset": None}),
    ):
        made.append(evaluate(target, **{**options, **changes}))
        for path, content in kept.items():
            assert path.read_bytes() == content, changes
        kept |= {Path(file): Path(file).read_bytes() for file in made[-1]["files"]}
    assert len({one["evaluation"] for one in made}) == len(made)
    assert (logs / "result_train.json").is_file(), "a name that is free is taken"
    again = evaluate("expert", **options)
    assert again["files"] == first["files"], "the same evaluation replaces its own files"
    assert json.loads((logs / "result_in-domain.json").read_text())["evaluation"] == first["evaluation"]


def test_an_evaluation_of_other_weights_under_the_same_name_is_kept(runs: list[Path], tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(runs[0] / "model", model)
    options = {"seeds": (1,), "tasks": 4, "logs": str(tmp_path / "logs"), "allow_env": WORLD}
    first = evaluate(str(model), **options)
    shutil.rmtree(model)
    shutil.copytree(runs[1] / "model", model)
    second = evaluate(str(model), **options)
    assert not {*first["files"]} & {*second["files"]}


def test_files_of_others_in_the_logs_are_kept(tmp_path: Path) -> None:
    for name in ("output_seed1.log", "result_in-domain.json"):
        (tmp_path / name).write_text("mine")
    found = evaluate("expert", preset=FETCH, seeds=(1,), tasks=2, logs=str(tmp_path))
    assert [(tmp_path / name).read_text() for name in ("output_seed1.log", "result_in-domain.json")] == [
        "mine"
    ] * 2
    assert all(Path(file).is_file() for file in found["files"])


def test_a_full_disk_does_not_take_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    words = ["eval", "expert", "--preset", FETCH, "--seeds", "1", "--logs", str(tmp_path / "logs")]
    assert main([*words, "--json"]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)["success"] == 1.0
    assert "no space left" in printed.err
    assert main(words) == 2
    assert "100.0%" in capsys.readouterr().out


def test_one_task_that_gets_no_reply_does_not_lose_the_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda prompt: "<action>give</action>") as server:
        seen = server.seen

        def fault(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(400)
            handler.end_headers()
            handler.wfile.write(b"prompt too long")

        server.faults = [fault, fault]
        words = ["eval", "a/model", "--engine", "endpoint", "--url", server.url.replace("//", "//me:sesame@")]
        words += ["--preset", FETCH, "--seeds", "1,2", "--tasks", "6", "--logs", str(tmp_path)]
        assert main([*words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["episodes"] == 12
        assert found["failed_episodes"] == len(found["failed"]) == 2
        assert all("prompt too long" in one["reason"] and one["task"] for one in found["failed"])
        assert found["panel"]["tasks"] == 6
        written = "".join(Path(file).read_text() for file in found["files"])
        assert written.count("== fetch-") == 12
        assert written.count("could not be played to its end") == 2
        assert "sesame" not in written + json.dumps(found)
        server.faults = [fault]
        assert main(words) == 0
        assert "1 of 12 episodes could not be played to their end" in capsys.readouterr().out
        server.fail_first, server.status = len(seen) + 10**6, 404
        assert main(words) == 2
        assert "None of 12 episodes" in capsys.readouterr().err


def test_failed_episodes_count_as_not_solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reset = Fetch.reset

    def broken(self: Fetch, task: str, *, seed: int | None = None) -> Observation:
        if task == "fetch-10000":
            raise RuntimeError("this task never starts")
        return reset(self, task, seed=seed)

    monkeypatch.setattr(Fetch, "reset", broken)
    found = evaluate("expert", preset=FETCH, seeds=(1, 2), tasks=4, logs=str(tmp_path))
    assert found["success"] == found["score"] == pytest.approx(0.75)
    assert found["success_by_type"]["fetch"]["tasks"] == 4
    assert [(one["task"], one["seed"]) for one in found["failed"]] == [("fetch-10000", 1), ("fetch-10000", 2)]
    assert found["environment_failures"] == 6
