"""Micro-batches from the batch's columns, against padding written out row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hgpo.learn.batching import tensors

from .tokens import Row, batch_of


def some_rows(count: int) -> list[Row]:
    random = np.random.default_rng(4)
    rows = []
    for _ in range(count):
        prompt, reply = (random.integers(1, 50, random.integers(1, 9)).tolist() for _ in range(2))
        rows.append(Row(prompt, reply, (-random.random(len(reply))).tolist(), float(random.normal())))
    return rows


@pytest.mark.parametrize("chosen", [[3], [5, 0, 2], list(range(12)), [1, 1]])
def test_padding_row_by_row(chosen: list[int]) -> None:
    rows = some_rows(12)
    made = tensors(batch_of(rows), np.array(chosen), 0, "cpu")
    width = max(len(rows[i].prompt_ids) + len(rows[i].response_ids) for i in chosen)
    reply_width = max(len(rows[i].response_ids) for i in chosen)
    sources, cells = [], []
    for place, row in enumerate(rows[i] for i in chosen):
        start, size = len(row.prompt_ids), len(row.response_ids)
        rest, blank = [0] * (width - start - size), [0] * (reply_width - size)
        assert made.input_ids[place].tolist() == [*row.prompt_ids, *row.response_ids, *rest]
        assert made.prompt_mask[place].tolist() == [1.0] * start + [0.0] * (width - start)
        assert made.response_ids[place].tolist() == [*row.response_ids, *blank]
        assert made.response_mask[place].tolist() == [1.0] * size + [0.0] * len(blank)
        assert made.places[place].tolist() == [
            min(start - 1 + number, width - 2) for number in range(reply_width)
        ]
        sources += [place * width + start - 1 + number for number in range(size)]
        cells += [place * reply_width + number for number in range(size)]
        old = torch.tensor([*row.logprobs, *map(float, blank)], dtype=torch.float32)
        assert torch.equal(made.old_logprobs[place], old)
        assert made.advantages[place] == torch.tensor(row.advantage, dtype=torch.float32)
    assert made.sources.tolist() == sources
    assert made.cells.tolist() == cells


def test_no_rows_make_a_padding_row_of_weight_zero() -> None:
    made = tensors(batch_of(some_rows(2)), np.arange(0), 9, "cpu")
    assert made.input_ids.tolist() == [[9, 9]]
    assert made.response_ids.tolist() == [[9]]
    for zero in (made.prompt_mask, made.response_mask, made.old_logprobs, made.advantages):
        assert not zero.any()
    assert made.sources.tolist() == made.cells.tolist() == [0]
