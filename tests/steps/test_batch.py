"""Making, checking, reading and writing batches."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgpo import HgpoError, StepBatch, estimate
from hgpo.steps import files
from hgpo.steps.batch import CHUNK


def row(**changes: Any) -> dict[str, Any]:
    return {
        "task": "t",
        "trajectory": "a",
        "step": 0,
        "observation": "hall",
        "action": "go",
        "reward": 1.0,
        "valid": True,
        **changes,
    }


def rows_of(count: int) -> list[dict[str, Any]]:
    return [
        row(
            task=f"task {i // 40}",
            trajectory=f"rollout {i // 10}",
            step=i % 10,
            observation=f"cell {i % 7}",
            reward=float(i % 3),
            valid=i % 5 > 0,
            tokens=[i, i + 1],
            note=None if i % 2 else "odd «»",
        )
        for i in range(count)
    ]


def test_import_needs_numpy_only() -> None:
    heavy = "{'torch', 'pyarrow', 'rapidfuzz', 'transformers'}"
    code = f"import sys, hgpo; bad = {heavy} & set(sys.modules); assert not bad, bad"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], ["empty", "at least one row"]),
        ([row(reward=float("nan"))], ["Row 0", "reward nan", "finite"]),
        ([row(reward="high")], ["Row 0", "'high'", "number"]),
        ([row(reward=None)], ["Row 0", "None", "number"]),
        ([row(), row()], ["Trajectory 'a'", "step 0 more than once"]),
        ([row(), row(step=2)], ["Trajectory 'a'", "no step 1"]),
        ([row(step=1)], ["Trajectory 'a'", "no step 0"]),
        ([row(step=-1)], ["Trajectory 'a'", "negative step -1"]),
        ([row(step=0.5)], ["step 0.5", "whole number"]),
        ([row(step="one")], ["step 'one'", "whole number"]),
        ([row(step=True)], ["step True", "whole number"]),
        ([row(observation=["a", "list"])], ["Row 0", "observation of type list", "hash"]),
        ([row(observation={"a": 1})], ["Row 0", "observation of type dict", "hash"]),
        ([row(valid="no")], ["valid='no'", "true or false"]),
        ([row(valid=2)], ["valid=2", "true or false"]),
        ([row(valid=-1)], ["valid=-1", "true or false"]),
        ([row(valid=256)], ["valid=256", "true or false"]),
        ([row(valid=0.5)], ["valid=0.5", "true or false"]),
        ([{"task": "t"}], ["no column 'trajectory'", "they have task"]),
        ([row(), {"task": "t"}], ["Row 1", "'trajectory'"]),
        ([row(), "text"], ["Row 1 is a str", "dict"]),
        ([row(padding=True)], ["Every row of the batch is padding"]),
    ],
)
def test_bad_rows_are_named_and_explained(rows: list[Any], words: list[str]) -> None:
    with pytest.raises(HgpoError) as error:
        estimate(StepBatch.from_rows(rows), "hgpo")
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    "given",
    [[True, False], [1, 0], [1.0, 0.0], [True, 0.0], [None, False], [np.True_, False], [np.int8(1), 0]],
)
def test_truth_values_may_be_written_in_several_ways(given: list[Any]) -> None:
    batch = StepBatch.from_rows([row(step=i, valid=value) for i, value in enumerate(given)])
    assert batch["valid"].tolist() == [True, False]
    assert batch["valid"].dtype == np.bool_
    assert batch["valid"].flags.writeable


def test_rows_may_come_from_an_iterator_and_cross_chunks() -> None:
    count = CHUNK + 10
    batch = StepBatch.from_rows(row(step=i, observation=f"cell {i % 3}") for i in range(count))
    assert len(batch) == count
    assert batch["observation"][-1] == f"cell {(count - 1) % 3}"


def test_columns_that_start_late_are_filled() -> None:
    rows = [row(step=i) for i in range(CHUNK + 2)]
    rows[-1]["late"] = "here"
    del rows[0]["valid"]
    batch = StepBatch.from_rows(rows)
    assert batch["late"][0] is None
    assert batch["late"][-1] == "here"
    assert batch["valid"].all()


def test_names_of_trajectories_may_repeat_between_tasks() -> None:
    batch = StepBatch.from_rows([row(task="t"), row(task="u", reward=5.0)])
    assert batch.trajectories.num_trajectories == 2
    assert estimate(batch, "hgpo").returns.tolist() == [1.0, 5.0]


def test_arrays_and_rows_make_the_same_batch() -> None:
    rows = rows_of(80)
    columns = {name: [r[name] for r in rows] for name in rows[0]}
    columns["reward"] = np.array(columns["reward"], dtype=np.float32)
    columns["step"] = np.array(columns["step"], dtype=np.int32)
    plain = estimate(StepBatch.from_rows(rows), "hgpo")
    other = estimate(StepBatch.from_arrays(**columns), "hgpo")
    assert plain.advantages.tolist() == other.advantages.tolist()
    with pytest.raises(HgpoError, match="different lengths"):
        StepBatch.from_arrays(**{**columns, "reward": [1.0]})
    del columns["reward"]
    with pytest.raises(HgpoError, match="no column 'reward'"):
        StepBatch.from_arrays(**columns)


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.jsonl.gz", "steps.parquet"])
def test_files_keep_everything(tmp_path: Path, name: str) -> None:
    rows = rows_of(100)
    batch = StepBatch.from_rows(rows)
    batch.write(tmp_path / name)
    again = StepBatch.read(tmp_path / name)
    assert list(again.rows()) == rows
    assert estimate(again, "hgpo").advantages.tolist() == estimate(batch, "hgpo").advantages.tolist()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_columns_can_be_renamed_on_reading(tmp_path: Path) -> None:
    file = tmp_path / "theirs.jsonl"
    theirs = [{("uid" if k == "task" else k): v for k, v in r.items()} for r in rows_of(20)]
    file.write_text("".join(json.dumps(r) + "\n" for r in theirs))
    assert StepBatch.read(file, {"uid": "task"})["task"][0] == "task 0"
    with pytest.raises(HgpoError, match="'task'"):
        StepBatch.read(file)


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.jsonl.gz", "steps.parquet"])
def test_truncated_files_are_an_error(tmp_path: Path, name: str) -> None:
    StepBatch.from_rows(rows_of(100)).write(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(HgpoError, match=name):
        StepBatch.read(tmp_path / name)


def test_other_bad_files_are_explained(tmp_path: Path) -> None:
    def message(name: str, content: bytes | None) -> str:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(HgpoError) as error:
            StepBatch.read(tmp_path / name)
        return str(error.value)

    assert "no file" in message("absent.jsonl", None)
    assert "is empty" in message("empty.jsonl", b"")
    assert "unknown ending" in message("steps.csv", b"x")
    assert "line 2" in message("list.jsonl", json.dumps(row()).encode() + b"\n[1]\n")
    assert "not Parquet" in message("steps.parquet", b"PAR1 nonsense")
    assert "damaged" in message("steps.jsonl.gz", gzip.compress(b"{}\n" * 1000)[:-9])
    assert "line 1" in message("deep.jsonl", b"[" * 100_000)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    batch = StepBatch.from_rows([row(odd=object())])
    with pytest.raises(HgpoError, match="JSON cannot carry"):
        batch.write(tmp_path / "out.jsonl")
    with pytest.raises(HgpoError, match="Parquet"):
        batch.write(tmp_path / "out.parquet")
    assert not list(tmp_path.iterdir())
    with pytest.raises(HgpoError, match="Cannot write"):
        batch.write(tmp_path / "absent" / "out.jsonl")


FORMATS = ["steps.jsonl", "steps.jsonl.gz", "steps.parquet"]


def write_version(path: Path, version: Any) -> None:
    """A file of steps that says it is in another version of the schema."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        metadata = {"hgpo_schema_version": str(version)}
        pq.write_table(pa.Table.from_pylist(rows_of(20)).replace_schema_metadata(metadata), path)
        return
    rows = rows_of(20)
    rows[0] = {"hgpo_schema_version": version, **rows[0]}
    data = "".join(json.dumps(one) + "\n" for one in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("name", FORMATS)
def test_files_say_their_version_and_newer_ones_are_refused(tmp_path: Path, name: str) -> None:
    from hgpo.inspect import open_rollouts

    path = tmp_path / name
    write_version(path, 1)
    assert list(StepBatch.read(path).rows()) == rows_of(20)
    write_version(path, 2)
    for read in (StepBatch.read, lambda path: list(files.rows(path)), lambda path: list(open_rollouts(path))):
        with pytest.raises(HgpoError, match=rf"{name} holds steps in version 2 .* up to 1\. Update"):
            read(path)
    for wrong in ("new", 0, 1.5):
        write_version(path, wrong)
        with pytest.raises(HgpoError, match="expected a whole number from 1"):
            StepBatch.read(path)


def test_the_version_is_written_where_line_readers_do_not_stumble(tmp_path: Path) -> None:
    """Every line is a whole step, the first with one more key; files can be joined and cut."""
    path = tmp_path / "steps.jsonl"
    StepBatch.from_rows(rows_of(20)).write(path)
    lines = path.read_text().splitlines()
    assert len(lines) == 20
    assert json.loads(lines[0]) == {"hgpo_schema_version": 1, **rows_of(20)[0]}
    assert [json.loads(line) for line in lines[1:]] == rows_of(20)[1:]
    more = StepBatch.from_rows([{**one, "task": "other"} for one in rows_of(10)])
    more.write(tmp_path / "more.jsonl")
    both = tmp_path / "both.jsonl"
    both.write_text(path.read_text() + (tmp_path / "more.jsonl").read_text())
    assert StepBatch.read(both).column_names == list(rows_of(1)[0])
    assert len(StepBatch.read(both)) == 30
    path.write_text("".join(line + "\n" for line in lines[10:]))
    assert len(StepBatch.read(path)) == 10


def test_parquet_carries_the_version_in_its_metadata(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    StepBatch.from_rows(rows_of(20)).write(tmp_path / "steps.parquet")
    assert pq.read_schema(tmp_path / "steps.parquet").metadata[b"hgpo_schema_version"] == b"1"


def test_the_order_of_the_rows_is_found_from_stretches_or_row_by_row() -> None:
    """Trajectories in one piece each (sorted or not), in several pieces, and rows shuffled: one canonical order."""
    random = np.random.default_rng(4)
    rows = [
        {"task": f"task {t}", "trajectory": r, "step": s, "observation": f"{t} {r} {s}", "reward": 0.0}
        for t in range(12)
        for r in range(3)
        for s in range(int(random.integers(1, 5)))
    ]
    pieces = [[row for row in rows if (row["task"], row["trajectory"]) == key]
              for key in dict.fromkeys((row["task"], row["trajectory"]) for row in rows)]  # fmt: skip
    turned = [row for piece in reversed(pieces) for row in piece]
    in_turn = sorted(rows, key=lambda row: (row["task"], row["step"]))
    backward = rows[::-1]
    shuffled = [rows[i] for i in random.permutation(len(rows))]
    expected = sorted(rows, key=lambda row: (row["task"], row["trajectory"], row["step"]))
    for given_rows in (rows, turned, in_turn, backward, shuffled):
        batch = StepBatch.from_rows(given_rows)
        found = batch.trajectories
        assert [given_rows[i] for i in found.order] == expected
        assert found.step.tolist() == [row["step"] for row in expected]
        assert found.lengths.tolist() == [
            sum((row["task"], row["trajectory"]) == key for row in rows)
            for key in dict.fromkeys((row["task"], row["trajectory"]) for row in expected)
        ]
        assert found.ends.tolist() == (np.cumsum(found.lengths) - 1).tolist()
        tasks = [batch["task"][i] for i in found.order]
        assert [batch.encoded("task").values[code] for code in found.task_ids] == tasks
