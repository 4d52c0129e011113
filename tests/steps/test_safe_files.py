"""Files of steps: maps of columns win, iterations stay apart, kept columns come back, damage is found."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgpo import HgpoError, StepBatch, estimate
from hgpo.errors import BadFile, BadSetting, BadSteps
from hgpo.estimators.explain import explain
from hgpo.estimators.table import ESTIMATORS
from hgpo.inspect import open_rollouts
from hgpo.steps import files, parquet
from hgpo.steps.batch import CHUNK

Rows = list[dict[str, Any]]
FORMATS = ["steps.jsonl", "steps.jsonl.gz", "steps.parquet"]


def step(trajectory: Any, reward: float = 0.0, **changes: Any) -> dict[str, Any]:
    return {
        "task": "t",
        "trajectory": trajectory,
        "step": 0,
        "observation": "hall",
        "reward": reward,
        **changes,
    }


def write(path: Path, rows: Rows) -> Path:
    """Rows as they are, without our own writer."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# Maps of columns


@pytest.mark.parametrize("first", [True, False], ids=["theirs first", "ours first"])
@pytest.mark.parametrize("name", ["steps.jsonl", "steps.parquet"])
def test_a_mapped_column_wins_wherever_it_stands(tmp_path: Path, name: str, first: bool) -> None:
    rows = [
        {**({"obs": "same"} if first else {}), **step(i, observation=f"own {i}"), "obs": "same"}
        for i in range(2)
    ]
    path = write(tmp_path / name, rows)
    for batch in (
        StepBatch.read(path, {"obs": "observation"}),
        next(iter(open_rollouts(path, {"obs": "observation"}))).batch,
    ):
        assert batch["observation"].tolist() == ["same", "same"]
        assert batch["original_observation"].tolist() == ["own 0", "own 1"]


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.parquet"])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"nosuch": "observation"}, "maps 'nosuch', which .* does not have; it has task, trajectory"),
        ({"obs": "observation", "reward": "observation"}, "maps 'obs', 'reward' to 'observation'"),
        ({"obs": "reward"}, "kept as 'original_reward', a name that is taken too"),
    ],
)
def test_maps_that_contradict_the_file_are_refused(
    tmp_path: Path, name: str, columns: dict[str, str], message: str
) -> None:
    path = write(tmp_path / name, [step(i, obs=1.0, original_reward=2.0) for i in range(2)])
    for read in (
        lambda: StepBatch.read(path, columns),
        lambda: list(open_rollouts(path, columns)),
    ):
        with pytest.raises(BadSetting, match=message):
            read()


def test_names_can_be_swapped_and_no_column_stands_in_for_a_mapped_one(tmp_path: Path) -> None:
    path = write(tmp_path / "steps.jsonl", [step(0, obs="a"), step(1, obs="b")])
    batch = StepBatch.read(path, {"obs": "observation", "observation": "obs"})
    assert batch["observation"].tolist() == ["a", "b"]
    assert batch["obs"].tolist() == ["hall", "hall"]
    write(path, [step(0, obs="a"), step(1)])
    with pytest.raises(BadSteps, match="Row 1 has no 'observation'"):
        StepBatch.read(path, {"obs": "observation"})


def test_a_column_that_a_map_hides_in_a_verl_dump_survives(tmp_path: Path) -> None:
    rows = [
        {
            "input": "x",
            "output": "y",
            "score": 1.0,
            "step": 4,
            "uid": f"u_{i}_0",
            "observation": "a",
            "obs": "b",
            "reward": 7.0,
        }
        for i in range(2)
    ]
    (iteration,) = open_rollouts(write(tmp_path / "4.jsonl", rows), {"obs": "observation"})
    batch = iteration.batch
    assert iteration.number == 4
    assert (batch["observation"][0], batch["original_observation"][0]) == ("b", "a")
    assert (batch["reward"][0], batch["original_reward"][0]) == (1.0, 7.0)
    with pytest.raises(BadSetting, match="maps 'nosuch'"):
        list(open_rollouts(tmp_path / "4.jsonl", {"nosuch": "observation"}))


def test_null_is_no_task_trajectory_or_observation() -> None:
    for name in ("task", "trajectory", "observation"):
        with pytest.raises(BadSteps, match=rf"Row 1 has no {name} \(null"):
            StepBatch.from_rows([step(0), step(1) | {name: None}])
    StepBatch.from_rows([step(0), step(1, padding=True) | {"observation": None}])


# Iterations


def two_iterations(names: str) -> Rows:
    """Two tries of one task in each of two iterations, in which rewards are on different levels."""
    return [
        step(
            f"{iteration if names == 'own' else ''}{rollout}", 10.0 * iteration + rollout, iteration=iteration
        )
        for iteration in (1, 2)
        for rollout in (0, 1, 2)
    ]


@pytest.mark.parametrize("names", ["own", "repeated"])
@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_iterations_are_never_compared(tmp_path: Path, names: str, estimator: str) -> None:
    rows = two_iterations(names)
    path = write(tmp_path / "steps.jsonl", rows)
    found = estimate(StepBatch.read(path), estimator)
    alone = [
        estimate(StepBatch.from_rows(part), estimator).advantages.tolist() for part in (rows[:3], rows[3:])
    ]
    assert found.advantages.tolist() == [value for part in alone for value in part]
    assert found.metrics["tasks"] == 2.0
    for labels in found.levels:
        assert not set(labels[:3]) & set(labels[3:]) - {-1}
    read = [explain(one.batch, estimator).advantages.tolist() for one in open_rollouts(path)]
    assert read == alone  # `hgpo inspect` sees the same


def test_large_batches_keep_iterations_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    from hgpo.estimators import estimate as module

    rows = [row | {"task": task} for task in range(4) for row in two_iterations("repeated")]
    expected = estimate(StepBatch.from_rows(rows), "hgpo")
    monkeypatch.setattr(module, "PIECE", 4)
    found = estimate(StepBatch.from_rows(rows), "hgpo")
    assert found.advantages.tolist() == expected.advantages.tolist()
    assert found.metrics == pytest.approx(expected.metrics)


def test_an_iteration_is_a_whole_number_in_all_rows_or_in_none(tmp_path: Path) -> None:
    def numbers(*values: Any) -> Any:
        return StepBatch.from_rows(
            [step(i, iteration=value) for i, value in enumerate(values)]
        ).by_iteration()

    assert [number for number, _ in numbers(None, None)] == [None]
    assert [number for number, _ in numbers(2.0, 1, 2)] == [1, 2]
    for wrong in ("3", 1.5, None, True, float("nan"), 2**70):
        with pytest.raises(
            BadSteps, match=r"Row 1 has the iteration .* whole number in every row, or in none"
        ):
            numbers(1, wrong)
    with pytest.raises(BadSteps, match=r"2 iterations \(1 to 2\), which are never compared"):
        explain(StepBatch.from_rows(two_iterations("own")))
    with pytest.raises(BadSteps, match="of task 't' of iteration 2 has step 0 more than once"):
        StepBatch.from_rows([*two_iterations("own"), two_iterations("own")[-1]])


# Kept columns

KEPT: Rows = [
    {"big": 2**60 + 1, "huge": 2**63, "nest": [[1], [2, 3]], "some": None, "flag": True, "word": "ä"},
    {"big": -(2**60) - 3, "huge": 5, "nest": [], "some": 2**60 + 1, "flag": False, "word": ""},
]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("column", sorted(KEPT[0]))
def test_kept_columns_come_back_unchanged(tmp_path: Path, name: str, column: str) -> None:
    values = [row[column] for row in KEPT]
    batch = StepBatch.from_rows([step(i, kept=value) for i, value in enumerate(values)])
    assert batch["kept"].tolist() == values
    if column == "huge" and name.endswith("parquet"):
        with pytest.raises(BadSteps, match="'kept' cannot be stored as Parquet"):
            batch.write(tmp_path / name)
        return
    batch.write(tmp_path / name)
    assert StepBatch.read(tmp_path / name)["kept"].tolist() == values


CHUNKS: dict[str, tuple[Any, Any]] = {
    "integers then floats": (2**60 + 1, 0.5),
    "integers then truth": (3, True),
    "integers then text": (3, "three"),
    "integers then null": (2**60 + 1, None),
    "null then integers": (None, 2**60 + 1),
    "lists then null": ([1], None),
    "integers then huge ones": (1, 2**63),
}


@pytest.mark.parametrize("kind", CHUNKS)
def test_columns_that_change_their_type_between_chunks_come_back(tmp_path: Path, kind: str) -> None:
    first, second = CHUNKS[kind]
    values = [first] * CHUNK + [second] * 2
    path = write(tmp_path / "steps.jsonl", [step(i, kept=value) for i, value in enumerate(values)])
    batch = StepBatch.read(path)
    for one in (
        batch,
        StepBatch.concatenate([batch.take(np.arange(CHUNK)), batch.take(np.array([CHUNK, CHUNK + 1]))]),
    ):
        back = one["kept"].tolist()
        assert back == values
        assert [type(value) for value in back[-3:]] == [type(value) for value in values[-3:]]
    batch.write(tmp_path / "again.jsonl")
    assert [row["kept"] for row in files.rows(tmp_path / "again.jsonl")] == values


def test_parquet_has_one_type_for_all_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROWS_PER_GROUP", 2)
    values = {"late": [None, None, "x"], "number": [1, 2, 0.5], "same": [{"a": 1}] * 3}
    rows = [step(i, **{name: column[i] for name, column in values.items()}) for i in range(3)]
    StepBatch.from_rows(rows).write(tmp_path / "steps.parquet")
    again = StepBatch.read(tmp_path / "steps.parquet")
    assert {name: again[name].tolist() for name in values} == values
    for wrong in ([{"a": 1}, {"b": 2}], [1, "x"], [2**60 + 1, 0.5], ["\ud800", "x"], [{}, {}], [2**70, 1]):
        batch = StepBatch.from_rows([step(i, kept=value) for i, value in enumerate(wrong)])
        with pytest.raises(BadSteps, match="cannot be stored as Parquet"):
            batch.write(tmp_path / "wrong.parquet")
        batch.write(tmp_path / "steps.jsonl")
        assert StepBatch.read(tmp_path / "steps.jsonl")["kept"].tolist() == wrong


# Damage


@pytest.mark.parametrize("name", ["steps.parquet", "steps.jsonl.gz"])
def test_a_flipped_bit_is_an_error_or_changes_nothing(tmp_path: Path, name: str) -> None:
    """Parquet of ours has a digest, gzip a checksum of what is inside."""
    path = tmp_path / name
    StepBatch.from_rows([step(i, i % 3, kept=2**60 + i) for i in range(50)]).write(path)
    whole, rows = path.read_bytes(), list(StepBatch.read(path).rows())
    draw = random.Random(17)
    harmless = 0
    for _ in range(600):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        for read in (lambda: list(StepBatch.read(path).rows()), lambda: list(files.rows(path))):
            with contextlib.suppress(BadFile):
                assert read() == rows
                harmless += 1
    assert harmless < 60  # the name of the digest, the time and system of a gzip file


def test_every_byte_of_our_parquet_counts(tmp_path: Path) -> None:
    path = tmp_path / "steps.parquet"
    StepBatch.from_rows([step(i, i % 3) for i in range(3)]).write(path)
    whole = path.read_bytes()
    key = whole.rindex(parquet.DIGEST_KEY.encode())
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 0x10
        path.write_bytes(data)
        if not key <= place < key + len(parquet.DIGEST_KEY):
            with pytest.raises(BadFile, match=r"steps\.parquet"):
                StepBatch.read(path)


def test_parquet_of_others_and_of_earlier_versions_is_read(tmp_path: Path) -> None:
    """Without a digest; their pages are verified where they have checksums."""
    path = write(tmp_path / "steps.parquet", [step(i, float(i)) for i in range(3)])
    assert parquet.DIGEST_KEY.encode() not in path.read_bytes()
    assert StepBatch.read(path)["reward"].tolist() == [0.0, 1.0, 2.0]


# The size of rewards


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_rewards_beyond_the_arithmetic_are_refused_not_zero(estimator: str) -> None:
    for size in (1e101, 1e160, 1e200, 1.7e308):
        with pytest.raises(HgpoError, match="too large for float64 arithmetic: the largest is"):
            estimate(StepBatch.from_rows([step(0, size), step(1, -size)]), estimator)
    largest = estimate(StepBatch.from_rows([step(0, 1e100), step(1, -1e100)]), estimator).advantages
    assert np.isfinite(largest).all()
    assert largest[0] > 0.1
    assert largest[1] < -0.1


@pytest.mark.parametrize("scale", [1e-150, 1e-170, 1e-250, 1e-300])
def test_the_deviation_of_small_rewards_is_right(scale: float) -> None:
    rows = [step(0, scale), step(1, -scale), step(2, 1.0, task="u"), step(3, -1.0, task="u")]
    for estimator in ("hgpo", "grpo", "gigpo"):
        settings = {"variant": "paper"} if estimator == "hgpo" else {"epsilon": 0.0}
        found = estimate(StepBatch.from_rows(rows), estimator, **settings).advantages
        np.testing.assert_allclose(found[:2], found[2:], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("step", [0], "has the step [0] of type list"),
        ("step", 2**70, "has the step 1180591620717411303424 of type int"),
        ("valid", [True], "has valid=[True] of type list"),
        ("success", [1], "has success=[1] of type list"),
        ("reward", 10**400, "of type int; expected a number that float64 can hold"),
        ("reward", [1.0], "has the reward [1.0] of type list"),
        ("task", float("nan"), "has no task (null or NaN)"),
        ("observation", float("nan"), "has no observation (null or NaN)"),
    ],
)
@pytest.mark.parametrize("rows", [2, 1], ids=["one row of many", "every row"])
def test_one_odd_value_is_named_with_its_row(name: str, value: Any, said: str, rows: int) -> None:
    good = [step(0)] if rows == 2 else []
    with pytest.raises(BadSteps) as caught:
        StepBatch.from_rows([*good, step(1) | {name: value}])
    assert str(caught.value).startswith(f"Row {len(good)} has ")
    assert said in str(caught.value)
