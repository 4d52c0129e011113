"""The terms of every estimator add up to its advantages, under all kinds of settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import StepBatch, estimate, explain
from hgpo.estimators.explain import Explanation
from hgpo.estimators.table import ESTIMATORS
from hgpo.estimators.terms import Score, Sum
from tests.strategies import HGPO_SETTINGS, Rows, estimator_settings, step_rows, with_ends

common = settings(max_examples=100, deadline=None, derandomize=True)


def check_sum(one: Sum) -> None:
    """Contributions add up to the total, and every value is (score - baseline) / divisor."""
    for term in one.terms:
        scale = 1.0 + np.abs(term.score).max(initial=0.0) + np.abs(term.baseline).max(initial=0.0)
        direct = (term.score - term.baseline) / term.divisor
        error = np.abs(direct - term.values) * term.divisor
        assert (error <= 1e-9 * scale).all(), (one.name, term.name)
        assert (term.sizes >= 1).all()
        assert len(term.rows) == len(term.labels) == len(term.weights) == len(term.values)
    scale = 1.0 + max(float(np.abs(term.contributions).max(initial=0.0)) for term in one.terms)
    assert np.allclose(one.added(), one.total, rtol=0, atol=1e-9 * scale), one.name


def check_score(score: Score, found: Explanation) -> None:
    """Parts and discounted followers add up to the score that the first sum compares."""
    total = sum(part.weight * part.values for part in score.parts)
    if score.following is not None:
        trajectories, values = found.computed.record.trajectories, score.following.values
        for row in range(len(values)):
            later = values[row : row + int(trajectories.remaining[row]) + 1]
            total[row] += float(later @ score.following.factor ** np.arange(len(later)))
    assert np.allclose(total, score.total, rtol=0, atol=1e-9 * (1.0 + np.abs(score.total).max()))
    compared = [term for term in found.sums[0].terms if term.name.startswith(("level", "task", "batch"))]
    for term in compared:
        assert term.score.tolist() == score.total[term.rows].tolist()


def check(rows: Rows, name: str, **chosen: Any) -> Explanation:
    batch = StepBatch.from_rows(rows)
    found, expected = explain(batch, name, **chosen), estimate(batch, name, **chosen)
    assert found.advantages.tolist() == expected.advantages[found.rows].tolist()
    assert found.sums[-1].total is found.advantages
    for one in found.sums:
        check_sum(one)
    if found.score is not None:
        check_score(found.score, found)
    else:
        for term in found.terms:
            if term.name.startswith("level"):
                assert term.score.tolist() == found.returns[term.rows].tolist()
    return found


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@common
@given(data=st.data())
def test_terms_add_up_to_the_advantages(name: str, data: st.DataObject) -> None:
    rows = data.draw(with_ends(step_rows()))
    check(rows, name, **data.draw(estimator_settings(name)))


@common
@given(step_rows(), HGPO_SETTINGS)
def test_levels_say_what_their_terms_say(rows: Rows, chosen: dict[str, Any]) -> None:
    found = explain(StepBatch.from_rows(rows), "hgpo", **chosen)
    levels = found.computed.result.seen_levels
    assert [level.number for level in levels] == list(range(chosen["depth"] + 1))
    for term in found.terms:
        if term.level is not None:
            assert term.values.tolist() == term.level.values.tolist()
            assert ((term.weights > 0) == term.level.used).all()


def three_rooms(**more: Any) -> Rows:
    """Two rollouts go left (one is lucky afterwards), one goes right."""
    ways = {
        "a": [("hall", "left", 0), ("attic", "open", 10)],
        "b": [("hall", "left", 0), ("attic", "open", 0)],
        "c": [("hall", "right", 0), ("cellar", "open", 0)],
    }
    return [
        {
            "task": "t",
            "trajectory": name,
            "step": step,
            "observation": seen,
            "action": act,
            "reward": float(reward),
        }
        | {key: value(name, step) for key, value in more.items()}
        for name, way in ways.items()
        for step, (seen, act, reward) in enumerate(way)
    ]


def test_a_worked_step_of_hgpo_lambda() -> None:
    """V(hall) = 10/3 and V(attic) = 5 by hand; the first step of b is worth what left is worth."""
    found = check(three_rooms(), "hgpo_lambda", depth=0, lam=0.0, gamma=1.0, mode="mean_norm")
    own, pooled = found.sums
    assert (own.name, pooled.name) == ("own advantage", "advantage")
    (level,) = own.terms
    first = [0, 2, 4]  # the first steps of a, b and c
    assert level.baseline[first].tolist() == pytest.approx([10 / 3] * 3)
    assert level.sizes[first].tolist() == [3, 3, 3]
    assert level.score[first].tolist() == pytest.approx([5.0, 5.0, 0.0])
    assert level.weights.tolist() == [1.0] * 6
    assert found.score is not None
    assert found.score.following is not None
    columns = found.score.following.columns
    assert columns["V"][first].tolist() == pytest.approx([10 / 3] * 3)
    assert columns["V next"][first].tolist() == pytest.approx([5.0, 5.0, 0.0])
    assert found.score.following.values[first].tolist() == pytest.approx([5 / 3, 5 / 3, -10 / 3])
    (same_action,) = pooled.terms
    assert same_action.name == "same action, level 0"
    assert same_action.sizes[first].tolist() == [2, 2, 1]
    assert same_action.contributions[first].tolist() == pytest.approx([5 / 3, 5 / 3, -10 / 3])


def test_a_cut_rollout_bootstraps_from_its_last_context() -> None:
    rows = three_rooms(done=lambda name, step: step == 1 and name != "b")
    found = check(rows, "hgpo_lambda", depth=0, lam=0.5)
    assert found.score is not None
    assert found.score.following is not None
    columns = found.score.following.columns
    assert columns["V next"][3] == columns["V"][3] != 0.0
    assert columns["V next"][1] == 0.0


def test_shares_of_nested_levels_sum_to_one_and_chain() -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"task": "t", "trajectory": i, "step": s, "observation": str(rng.integers(3)), "action": "go",
         "reward": float(rng.integers(10))}
        for i in range(6) for s in range(6)
    ]  # fmt: skip
    for name, chosen in (("hgpo", {"weight_type": "shrinkage"}), ("hgpo_lambda", {})):
        for baseline in ("group", "leave_one_out"):
            terms = check(rows, name, depth=3, baseline=baseline, **chosen).sums[0].terms
            assert np.allclose(sum(term.weights for term in terms), 1.0)
            above = terms[0].shrinkage.values if terms[0].name == "task" else terms[0].baseline
            for term in terms if terms[0].name != "task" else terms[1:]:
                own = term.shrinkage.own
                assert np.allclose(term.shrinkage.values, own * term.baseline + (1 - own) * above)
                above = term.shrinkage.values
            assert np.allclose(above, sum(term.weights * term.baseline for term in terms))


def test_numbers_of_terms_are_made_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate does not pay for its explanation."""
    import hgpo.estimators.terms as terms

    def never(*_: object, **__: object) -> None:
        raise AssertionError("numbers of a term were made")

    for module in ("terms", "episode", "nested", "rloo", "reinforce_plus_plus"):
        monkeypatch.setattr(f"hgpo.estimators.{module}.Numbers", never)
    assert terms.Numbers is never
    for name in ESTIMATORS:
        estimate(StepBatch.from_rows(three_rooms()), name)
