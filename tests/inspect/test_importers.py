"""Other people's rollouts become ours, or one sentence says what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs.prompt import Remembered, Situation
from hgpo.errors import BadFile, BadSetting, BadSteps, HgpoError
from hgpo.inspect import open_rollouts
from hgpo.inspect.importers import from_verl
from hgpo.inspect.rollouts import Iteration
from hgpo.play.prompts import BARE, style, styles
from tests.inspect.rollouts import house


def dump(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def verl(training_step: int = 7) -> list[dict[str, Any]]:
    """What verl 0.9 dumps for two tasks, two sessions each, three and two outputs; every row has the final score."""
    rows = []
    for task in ("2f_a", "77"):
        for session in range(2):
            for output in range(3 - session):
                prompt = f"user\nNow you see: room {output}.\nCommands that work now:\n- look\nassistant\n"
                rows.append(
                    {
                        "input": prompt,
                        "output": f"<think>hm <action>no</action></think><action>Go {output}</action>",
                        "gts": None,
                        "score": 10.0 * session,
                        "step": training_step,
                        "uid": f"{task}_{session}_{output}",
                        "acc": 1,
                    }
                )
    return rows


def only(path: Path, columns: dict[str, str] | None = None) -> Iteration:
    (iteration,) = open_rollouts(path, columns)
    return iteration


def test_a_verl_dump_is_read_from_its_row_keys(tmp_path: Path) -> None:
    rollouts = open_rollouts(dump(tmp_path / "7.jsonl", verl()))
    (iteration,) = rollouts
    batch = iteration.batch
    assert iteration.number == 7
    assert set(batch["task"]) == {"2f_a", "77"}
    assert batch["trajectory"][:5].tolist() == [0, 0, 0, 1, 1]
    assert batch["step"][:5].tolist() == [0, 1, 2, 0, 1]
    assert batch["observation"][:3].tolist() == ["room 0.", "room 1.", "room 2."]
    assert batch["action"][1] == "Go 1"
    assert batch["prompt"][0].startswith("user\n")
    # The score of the episode is on every row; it must count once.
    assert batch["reward"][:5].tolist() == [0.0, 0.0, 0.0, 0.0, 10.0]
    assert batch["score"].tolist()[3] == 10.0
    assert batch["uid"][0] == "2f_a_0_0"
    assert "gts" in batch
    assert any("last step" in note for note in rollouts.notes)


def test_a_verl_dump_of_whole_answers_groups_by_prompt(tmp_path: Path) -> None:
    rows = [
        {"input": f"question {i // 4}", "output": str(i), "gts": "3", "score": float(i % 2), "step": 1}
        for i in range(8)
    ]
    batch = only(dump(tmp_path / "1.jsonl", rows)).batch
    assert batch["task"].tolist() == ["prompt 0"] * 4 + ["prompt 1"] * 4
    assert batch["trajectory"].tolist() == [0, 1, 2, 3] * 2
    assert batch["reward"].tolist() == [0.0, 1.0] * 4


def test_rows_that_fill_up_a_verl_batch_do_not_count(tmp_path: Path) -> None:
    rows = verl()
    empty = {"input": "", "output": "", "gts": None, "score": 0.0, "step": 7}
    rows[3:3] = [{**empty, "uid": f"pad{'0af3' * 8}_{number}_0"} for number in range(3)]
    rollouts = open_rollouts(dump(tmp_path / "7.jsonl", rows))
    (iteration,) = rollouts
    assert iteration.batch.flag("padding").tolist() == [False] * 3 + [True] * 3 + [False] * 7
    assert iteration.batch["reward"].tolist()[6:8] == [0.0, 10.0]
    assert any("3 rows" in note for note in rollouts.notes)


@pytest.mark.verl
def test_what_verl_itself_writes(tmp_path: Path) -> None:
    base = pytest.importorskip("verl.trainer.ppo.v1.trainer_base")
    rows = verl()
    base.PPOTrainer._write_generations(
        [row["input"] for row in rows],
        [row["output"] for row in rows],
        [row["gts"] for row in rows],
        [row["score"] for row in rows],
        {"uid": [row["uid"] for row in rows]},
        str(tmp_path),
        7,
    )
    (iteration,) = open_rollouts(tmp_path)
    ours = only(dump(tmp_path.parent / "ours.jsonl", rows))
    assert iteration.number == 7
    for name in ("task", "trajectory", "step", "observation", "action", "reward"):
        assert iteration.batch[name].tolist() == ours.batch[name].tolist()


def test_step_scores_in_a_verl_dump_are_kept(tmp_path: Path) -> None:
    rows = verl()
    for number, row in enumerate(rows):
        row["score"] = float(number)
    assert only(dump(tmp_path / "1.jsonl", rows)).batch["reward"].tolist() == [
        float(n) for n in range(len(rows))
    ]


def test_a_verl_dump_without_step_indices_is_refused(tmp_path: Path) -> None:
    rows = [{**row, "uid": "task", "traj_uid": "a"} for row in verl()]
    with pytest.raises(BadSteps, match="not which step"):
        only(dump(tmp_path / "1.jsonl", rows))
    for number, row in enumerate(rows):
        row["turn_number"] = number
    batch = only(dump(tmp_path / "2.jsonl", rows), {"turn_number": "step"}).batch
    assert batch["step"].tolist() == list(range(len(rows)))
    assert batch["iteration"].tolist() == [7] * len(rows)


def test_a_folder_of_dumps_is_in_numeric_order(tmp_path: Path) -> None:
    for step in (2, 10, 1):
        dump(tmp_path / f"{step}.jsonl", verl(step))
    assert [iteration.number for iteration in open_rollouts(tmp_path)] == [1, 2, 10]


def test_well_known_names_and_a_column_map(tmp_path: Path) -> None:
    rows = [
        {
            "uid": row["task"],
            "traj_uid": row["trajectory"],
            "turn": row["step"],
            "anchor_obs": row["observation"],
            "points": row["reward"],
            "reward": "a text",
            "is_action_valid": row["valid"],
            "zebra": [1, 2],
        }
        for row in house()
    ]
    rollouts = open_rollouts(dump(tmp_path / "theirs.jsonl", rows), {"points": "reward"})
    (iteration,) = rollouts
    batch = iteration.batch
    assert batch["reward"].tolist() == [row["points"] for row in rows]
    assert batch["original_reward"][0] == "a text"  # a column that the map would hide survives
    assert batch["zebra"][0] == [1, 2]
    assert batch["valid"].tolist() == [row["is_action_valid"] for row in rows]
    assert "anchor_obs as observation" in rollouts.notes[0]


def test_one_file_of_several_iterations_with_the_same_names(tmp_path: Path) -> None:
    rows = house(iterations=2)
    for row in rows:
        row["trajectory"] = row["trajectory"].partition("/")[2]
    parts = list(open_rollouts(dump(tmp_path / "both.jsonl", rows)))
    assert [part.number for part in parts] == [1, 2]
    assert sum(len(part.batch) for part in parts) == len(rows)


@pytest.mark.parametrize(
    ("make", "columns", "kind", "words"),
    [
        (lambda p: p / "none.jsonl", None, BadFile, "There is no file or folder"),
        (lambda p: p, None, BadFile, "holds no rollouts"),
        (lambda p: dump(p / "a.jsonl", house()), {"obs": "observation"}, BadSetting, "maps 'obs', which"),
        (lambda p: dump(p / "a.jsonl", [{"x": 1}]), None, BadSteps, "no 'task'|no column 'task'"),
        (lambda p: dump(p / "a.jsonl", []), None, HgpoError, "empty"),
    ],
)
def test_mistakes(tmp_path: Path, make: Any, columns: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        list(open_rollouts(make(tmp_path), columns))


def test_a_run_folder_brings_its_settings_and_log(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "rollouts").mkdir(parents=True)
    dump(
        run / "rollouts" / "000003.jsonl",
        [{k: v for k, v in row.items() if k != "iteration"} for row in house()],
    )
    (run / "config.json").write_text(json.dumps({"estimator": {"name": "gigpo", "gamma": 0.5}}))
    (run / "metrics.jsonl").write_text(
        '{"iteration": 2, "success": 0.1}\n{"iteration": 3, "success": 0.5}\n{"iteration": 3, "success": 0.6}\n{"iter'
    )
    rollouts = open_rollouts(run)
    assert [iteration.number for iteration in rollouts] == [3]
    assert (rollouts.estimator, rollouts.settings) == ("gigpo", {"gamma": 0.5})
    assert rollouts.logged == [{"iteration": 2, "success": 0.1}, {"iteration": 3, "success": 0.6}]
    assert "metrics.jsonl was left out" in rollouts.notes[0]
    (run / "config.json").write_text("{")
    with pytest.raises(BadFile, match="configuration of a run"):
        open_rollouts(run)


@pytest.mark.parametrize("name", [name for name in styles() if name not in BARE])
@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("reasoning", [True, False])
@pytest.mark.parametrize("listed", [True, False])
def test_the_observation_is_read_from_prompts_of_every_style(
    name: str, tags: bool, reasoning: bool, listed: bool
) -> None:
    written = style(name, tags=tags, reasoning=reasoning, show_admissible=listed)
    situation = Situation(
        "find a mug", "a shelf\nwith a mug", (Remembered(0, "a door", "open"),), 1, ("take mug",)
    )
    rows, _ = from_verl([{"input": written.render(situation), "output": "x", "score": 1.0, "step": 3}], {})
    assert rows[0]["observation"] == "a shelf\nwith a mug"
