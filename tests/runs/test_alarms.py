"""What a run says when its policy stops exploring."""

from __future__ import annotations

from hgpo.runs.alarms import Alarms


def row(iteration: int, **values: float) -> dict[str, float]:
    return {"iteration": iteration, **values}


def test_a_collapse_is_said_once_and_names_the_metric() -> None:
    alarms = Alarms()
    said = [
        alarms.check(row(number, entropy=value))
        for number, value in enumerate((0.9, 0.3, 0.24, 0.3, 0.09, 0.04))
    ]
    assert [len(one) for one in said] == [0, 0, 0, 0, 1, 0]
    assert "entropy" in said[4][0]
    assert "0.090" in said[4][0]
    assert "update.kl_coef" in said[4][0]


def test_a_policy_that_began_wide_open_may_settle() -> None:
    alarms = Alarms()
    assert not any(alarms.check(row(number, entropy=0.6 / number)) for number in range(1, 6))


def test_rollouts_that_all_do_the_same_are_noticed_too() -> None:
    alarms = Alarms()
    assert not alarms.check(row(1, action_disagreement=0.3))
    (said,) = alarms.check(row(2, action_disagreement=0.0))
    assert "action_disagreement" in said


def test_an_update_that_goes_far_from_its_episodes_is_noticed() -> None:
    alarms = Alarms()
    assert not alarms.check(row(1, kl_old=0.03))
    (alarm,) = alarms.raised(row(2, kl_old=0.25))
    assert (alarm.iteration, alarm.metric) == (2, "kl_old")
    assert str(alarm).startswith(
        "iteration 2: The policy moved away from the one that played (kl_old) by 0.250"
    )
    assert "update.lr" in alarm.sentence
    assert not alarms.check(row(3, kl_old=0.5))


def test_a_resumed_run_does_not_repeat_itself() -> None:
    rows = [row(number, entropy=value) for number, value in enumerate((0.3, 0.3, 0.3, 0.3, 0.02))]
    assert not Alarms.after(rows).check(row(5, entropy=0.02))
    assert Alarms.after(rows[:4]).check(row(4, entropy=0.02))
