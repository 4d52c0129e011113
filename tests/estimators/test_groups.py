"""Group labels and statistics: counted or sorted, the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo.estimators.groups import Groups, within_task
from hgpo.steps.labels import by_appearance, dense, last_equal, sorted_order


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.sampled_from([1, 7, 10**6, 10**12]))
@settings(max_examples=200, deadline=None)
def test_dense_labels_equal_keys_alike(keys: list[int], stretch: int) -> None:
    """`stretch` makes the range small enough to count or large enough to sort."""
    labels = dense(np.array(keys) * stretch)
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    assert labels.tolist() == [ranks[key] for key in keys]
    assert labels.dtype == np.int64


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**9)), min_size=1, max_size=50))
@settings(max_examples=200, deadline=None)
def test_codes_within_tasks_keep_their_differences(pairs: list[tuple[int, int]]) -> None:
    """Also when the rows of a task do not stand together."""
    tasks, codes = (np.array(column) for column in zip(*pairs))
    local = within_task(codes, tasks)
    for task in set(tasks.tolist()):
        mine = tasks == task
        assert local[mine].min() == 0
        assert (local[mine] == codes[mine] - codes[mine].min()).all()


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e12])
def test_constant_groups_have_no_deviation(scale: float) -> None:
    labels = np.array([0, 1, 0, 1, 2, 1])
    groups = Groups.of(labels, np.array([0.1, 1.0, 0.1, 3.0, 5.0, 2.0]) * scale)
    assert groups.sizes.tolist() == [2, 3, 1]
    assert groups.constant.tolist() == [True, False, True]
    np.testing.assert_allclose(groups.means, np.array([0.1, 2.0, 5.0]) * scale)
    np.testing.assert_allclose(groups.deviations, np.array([0.0, -1.0, 0.0, 1.0, 0.0, 0.0]) * scale)
    assert (groups.deviations[[0, 2, 4]] == 0.0).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=60), st.sampled_from([1, 7, 2**15, 2**33]))
def test_the_order_of_labels_is_that_of_a_stable_sort(keys: list[int], unit: int) -> None:
    """Sixteen bits at a time: keys of one, two and three such digits, with equal ones among them."""
    array = np.array(keys, dtype=np.int64) // unit
    assert sorted_order(array).tolist() == np.argsort(array, kind="stable").tolist()
    distinct = sorted(set(array.tolist()))
    assert dense(array).tolist() == [distinct.index(key) for key in array.tolist()]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_numbers_by_appearance_count_up_as_they_first_occur(codes: list[int]) -> None:
    seen: dict[int, int] = {}
    expected = [seen.setdefault(code, len(seen)) for code in codes]
    assert by_appearance(np.array(codes)).tolist() == expected


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.sampled_from([1, 7, 10**6, 10**12]))
def test_the_last_equal_number_is_found_by_counting_and_by_sorting(keys: list[int], stretch: int) -> None:
    last = {key: place for place, key in enumerate(keys)}
    assert last_equal(np.array(keys) * stretch).tolist() == [last[key] for key in keys]
