"""The truth of the lab, checked against itself, against rollouts and against slopes of the objective."""

from __future__ import annotations

import numpy as np
import pytest

from hgpo.estimators.returns import discounted_returns
from hgpo.lab.accuracy import shared_observations
from hgpo.lab.sampling import as_batch, sample
from hgpo.lab.situations import first_logits, probabilities, situations
from hgpo.lab.truth import truth, visit_chances
from hgpo.lab.worlds import WORLDS, generator_for, make_world


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_every_world_is_sound(name: str) -> None:
    world = make_world(name, 0)
    np.testing.assert_allclose(world.chances.sum(axis=-1), 1.0)
    places = situations(world)
    policy = probabilities(first_logits(places))
    exact = truth(places, policy)
    acting = policy[places.context]
    np.testing.assert_allclose((acting * exact.advantages).sum(axis=-1), 0.0, atol=1e-9)
    assert 0.0 < exact.success <= 1.0
    # Every situation of a batch has the observation and the history that the estimators group by.
    rollouts = sample(places, policy, 4, generator_for("sound", name))
    batch = as_batch(places, rollouts)
    assert batch.trajectories.num_trajectories == 4
    contexts = places.contexts[places.context[rollouts.situation]]
    later = np.flatnonzero(rollouts.step >= 1)
    assert (contexts[:, -1] == batch.encoded("observation").codes).all()
    if world.knobs.memory:
        assert (contexts[rollouts.step == 0, 0] == -1).all()
        if world.knobs.remember == "last":
            assert (contexts[later, -2] == contexts[later - 1, -1]).all()
    # What was seen after a step is what the next one acts on.
    assert (batch["next_observation"][later - 1] == batch["observation"][later]).all()
    assert (batch["success"] == np.isin(rollouts.rollout, rollouts.rollout[rollouts.reward > 1.0])).all()


@pytest.mark.parametrize("name", ["maze", "slips", "aliased", "nothing", "costs", "chain"])
def test_values_are_the_mean_returns_of_rollouts(name: str) -> None:
    places = situations(make_world(name, 2))
    policy = probabilities(first_logits(places))
    exact = truth(places, policy)
    rollouts = sample(places, policy, 20_000, generator_for("values", name))
    batch = as_batch(places, rollouts)
    returns = discounted_returns(rollouts.reward, batch.trajectories, 0.95)[rollouts.step == 0]
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - exact.values[0, 0]) < 4 * error + 1e-9
    reached = np.bincount(rollouts.rollout, rollouts.reward > 1.0) > 0
    assert abs(reached.mean() - exact.success) < 4 * reached.std() / np.sqrt(len(reached)) + 1e-9
    seen = np.bincount(rollouts.situation[rollouts.step == 5], minlength=len(places.context)) / 20_000
    np.testing.assert_allclose(seen, exact.visits[5], atol=0.02)


def test_the_gradient_is_the_slope_of_the_objective() -> None:
    # Without discount the policy gradient with true advantages is the derivative of the expected return.
    places = situations(make_world("aliased", 1, gamma=1.0))
    logits = first_logits(places)
    exact = truth(places, probabilities(logits))
    rng = generator_for("slope")
    for _ in range(5):
        direction = rng.normal(size=logits.shape)
        ends = [
            visit_chances(places, probabilities(logits + step * direction)[places.context])[1]
            for step in (-1e-5, 1e-5)
        ]
        slope = 10.0 * (ends[1] - ends[0]) / 2e-5
        assert (exact.gradient * direction).sum() == pytest.approx(slope, rel=1e-5)


def test_where_the_horizon_only_cuts_values_do_not_depend_on_time() -> None:
    places = situations(make_world("cut", 0))
    policy = probabilities(first_logits(places))
    exact = truth(places, policy)
    assert (exact.values == exact.values[0]).all()
    rollouts = sample(places, policy, 200, generator_for("cut"))
    last = np.append(rollouts.rollout[1:] != rollouts.rollout[:-1], True)
    assert not rollouts.done[~last].any()
    assert (rollouts.done[last] == (rollouts.reward[last] > 0)).all()
    # The same values as with a horizon far beyond where the discount leaves anything.
    far = truth(situations(make_world("cut", 0, cut=False, horizon=600)), policy)
    np.testing.assert_allclose(far.values[0], exact.values[0], atol=1e-8)


def test_actions_can_be_part_of_what_is_remembered() -> None:
    plain = situations(make_world("loops", 0))
    richer = situations(make_world("loops", 0, remember="actions"))
    assert richer.num_contexts > plain.num_contexts


def test_the_first_steps_can_be_what_is_remembered() -> None:
    places = situations(make_world("first", 3))
    policy = probabilities(first_logits(places))
    rollouts = sample(places, policy, 20, generator_for("first"))
    seen = places.observation[rollouts.situation]
    contexts = places.contexts[places.context[rollouts.situation]]
    for number in range(20):
        rows = np.flatnonzero(rollouts.rollout == number)
        for place, row in enumerate(rows):
            first = [*seen[rows[: min(place, 2)]], -1, -1][:2]
            assert contexts[row].tolist() == [*first, seen[row]]


def test_a_state_with_many_looks_behaves_as_before_and_is_seldom_seen_again() -> None:
    plain, rare = make_world("maze", 4, memory=0, history=0.0), make_world("rare", 4, history=0.0)
    one, many = situations(plain), situations(make_world("maze", 4, memory=0, history=0.0, looks=3))
    found = [truth(places, probabilities(first_logits(places))) for places in (one, many)]
    assert found[0].success == pytest.approx(found[1].success)
    assert found[0].values[0, 0] == pytest.approx(found[1].values[0, 0])
    assert rare.num_observations == 40 * plain.num_observations
    shares = []
    for world in (plain, rare):
        places = situations(world)
        rollouts = sample(places, probabilities(first_logits(places)), 8, generator_for("shared"))
        shares.append(shared_observations(places, rollouts))
    assert shares[0] > 0.95
    assert shares[1] < 0.6


def test_seeds_decide_everything() -> None:
    one, two = make_world("slips", 5), make_world("slips", 5)
    assert (one.next_states == two.next_states).all()
    assert (one.preferences == two.preferences).all()
    assert (make_world("slips", 6).next_states != one.next_states).any()
