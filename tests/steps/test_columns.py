"""Ragged columns, and batches put one after another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import StepBatch
from hgpo.errors import BadSteps
from hgpo.steps.columns import NEAR, Encoder, Ragged

LISTS = st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=8)


@settings(deadline=None)
@given(LISTS, st.data())
def test_ragged_columns_hold_lists(lists: list[list[int]], data: st.DataObject) -> None:
    column = Ragged.of(lists, np.int64)
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=10))
    chosen = np.array(rows, dtype=np.int64)
    assert column.decode().tolist() == lists
    assert column.lengths.tolist() == [len(one) for one in lists]
    assert [column[row].tolist() for row in range(len(column))] == lists
    assert column.take(chosen).decode().tolist() == [lists[row] for row in rows]
    assert column.values[column.positions(chosen)].tolist() == [item for row in rows for item in lists[row]]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(lists), max_size=len(lists))), dtype=bool)
    assert column.take(mask).decode().tolist() == [one for one, kept in zip(lists, mask) if kept]


def batch(name: str, tokens: list[list[int]], **more: object) -> StepBatch:
    return StepBatch.from_arrays(
        task=[name] * len(tokens),
        trajectory=[f"{name}/0"] * len(tokens),
        step=list(range(len(tokens))),
        observation=["door", "room", "door"][: len(tokens)],
        reward=[1.0] * len(tokens),
        prompt_ids=Ragged.of(tokens, np.int64),
        **more,
    )


def test_batches_one_after_another_equal_one_batch_of_all_rows() -> None:
    parts = [batch("b", [[1], [2, 3]]), batch("a", [[], [4], [5]], state_key=["x", "y", "z"])]
    joined = StepBatch.concatenate(parts)
    expected = StepBatch.from_rows([row for part in parts for row in part.rows()])
    assert list(joined.rows()) == list(expected.rows())
    assert joined["state_key"].tolist() == [None, None, "x", "y", "z"]
    for name in ("task", "trajectory", "observation"):
        assert joined.encoded(name).codes.tolist() == expected.encoded(name).codes.tolist()
        assert joined.encoded(name).values.tolist() == expected.encoded(name).values.tolist()
    assert isinstance(joined.column("prompt_ids"), Ragged)
    large = [batch("a", [[1]], seed=np.array([2**63], dtype=np.uint64)), batch("b", [[1]], seed=[1])]
    assert StepBatch.concatenate(large)["seed"].tolist() == [2**63, 1], "no rounding"


@pytest.mark.parametrize("name", ["steps.parquet", "steps.jsonl.gz"])
def test_token_columns_survive_a_file(name: str, tmp_path: Path) -> None:
    written = batch("a", [[1, 2], [], [3]], logprobs=Ragged.of([[-0.1], [], [-1 / 3]], np.float64))
    written.write(tmp_path / name)
    again = StepBatch.read(tmp_path / name)
    for column in ("prompt_ids", "logprobs"):
        assert again.lists(column).values.tolist() == written.lists(column).values.tolist()
        assert again.lists(column).offsets.tolist() == written.lists(column).offsets.tolist()


def test_what_is_no_list_of_numbers_is_named() -> None:
    steps = batch("a", [[1], [2]]).with_columns(response_ids=[[1], "two"], logprobs=[[0.5], 0.5])
    with pytest.raises(BadSteps, match=r"'response_ids' holds 'two' in row 1"):
        steps.lists("response_ids")
    with pytest.raises(BadSteps, match=r"'logprobs' holds 0.5 in row 1; expected a list of numbers"):
        steps.lists("logprobs")


def test_codes_do_not_depend_on_where_a_value_is_looked_up() -> None:
    """Values near one another have a table of their own; the codes are those of one table, in order of appearance."""
    random = np.random.default_rng(3)
    values = [f"room {number}" for number in random.integers(0, 3000, 3 * NEAR + 17)]
    table: dict[str, int] = {}
    expected = [table.setdefault(value, len(table)) for value in values]
    encoder = Encoder()
    first, rest = values[:100], values[100:]
    found = np.concatenate([encoder.encode(first, len(first)), encoder.encode(iter(rest), len(rest))])
    assert found.tolist() == expected
    assert list(encoder) == list(table)
