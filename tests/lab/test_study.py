"""Measures, learning and the study around them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hgpo import HgpoError
from hgpo.cli import main
from hgpo.lab import study
from hgpo.lab.accuracy import ErrorSums, GradientSums, measure
from hgpo.lab.entries import ENTRIES, OURS, Entry, ablations, choose
from hgpo.lab.learning import learn
from hgpo.lab.summary import Interval, summarise
from hgpo.lab.worlds import generator_for, make_world
from hgpo.runs.statistics import t95

FEW = tuple(ENTRIES[label] for label in ("grpo", "gigpo", "hgpo", OURS))


def small_plan(**changes: object) -> study.StudyPlan:
    given = {
        "worlds": ("maze", "pairs"),
        "entries": FEW,
        "lambdas": (),
        "learners": FEW[2:],
        "ablated": (),
        "ablation_worlds": (),
        "seeds": 2,
        "batches": 3,
        "learning_worlds": ("maze",),
        "learning_seeds": 2,
        "updates": 3,
        "ablation_seeds": 0,
    }
    return study.StudyPlan(**{**given, **changes})  # type: ignore[arg-type]


def test_true_advantages_measure_as_perfect_and_noise_as_silence() -> None:
    rng = generator_for("tally")
    perfect, noise = ErrorSums(), ErrorSums()
    true = rng.normal(size=200)
    for _ in range(60):
        perfect.add(3.0 * true, true, 200)
        noise.add(rng.normal(size=200), true, 200)
    found = perfect.measures()
    assert found["mse"] == pytest.approx(0.0, abs=1e-12)
    assert found["correlation"] == pytest.approx(1.0)
    assert found["sign_agreement"] == 1.0
    found = noise.measures()
    assert found["mse"] > 0.99
    assert abs(found["correlation"]) < 0.05


def test_bias_and_variance_of_gradients_are_told_apart() -> None:
    rng = generator_for("gradients")
    true = rng.normal(size=300)
    across = rng.normal(size=300)
    across -= true * (across @ true) / (true @ true)
    across *= np.linalg.norm(true) / np.linalg.norm(across)
    noisy, biased = GradientSums(true), GradientSums(true)
    for _ in range(256):
        noisy.add(2.0 * true + 6.0 * rng.normal(size=300))
        biased.add(true + 0.5 * across + 0.1 * rng.normal(size=300))
    found = noisy.measures()
    # Unbiased however noisy; the noise of 256 gradients of variance 9 |g|^2 is all that is left.
    assert found["gradient_bias"] == pytest.approx(0.0, abs=0.02)
    assert found["gradient_variance"] == pytest.approx(9.0 * 300 / (true @ true), rel=0.05)
    cosines = [found[name] for name in ("gradient_cosine", *(f"gradient_cosine_{n}" for n in (4, 16, 64)))]
    for number, cosine in zip((1, 4, 16, 64), cosines):
        assert cosine == pytest.approx(1 / np.sqrt(1 + found["gradient_variance"] / number), abs=0.02)
    found = biased.measures()
    # |mu|^2 = 1.25 |g|^2: averaging does not help.
    assert found["gradient_bias"] == pytest.approx(0.2, abs=0.01)
    assert found["gradient_cosine_64"] == pytest.approx(np.sqrt(0.8), abs=0.01)


def test_rloo_is_not_charged_for_its_baseline_and_averaging_helps_it_more() -> None:
    entries = [ENTRIES[label] for label in ("rloo", "gigpo", OURS)]
    found = [measure(make_world("graph", seed), entries, 256) for seed in range(4)]

    def mean(label: str, name: str) -> float:
        return float(np.mean([f.entries[label][name] for f in found]))

    assert abs(mean("rloo", "gradient_bias")) < 0.15
    assert mean("rloo", "mse") > 0.9
    variances = [mean(label, "gradient_variance") for label in (OURS, "gigpo", "rloo")]
    assert variances == sorted(variances)
    rloo, ours = (
        mean(label, "gradient_cosine_64") - mean(label, "gradient_cosine") for label in ("rloo", OURS)
    )
    assert rloo > ours > 0.0


def test_the_ceiling_is_above_every_estimator_on_average() -> None:
    found = [measure(make_world("maze", seed), list(FEW), 10, ("hgpo",)) for seed in range(4)]
    ceiling = np.mean([f.ceilings["gradient_cosine"] for f in found])
    for entry in FEW:
        assert np.mean([f.entries[entry.label]["gradient_cosine"] for f in found]) < ceiling
    assert list(found[0].levels) == ["hgpo"]
    assert len(found[0].levels["hgpo"]) == 3
    # The proposition assumes that errors of levels are uncorrelated. They are not.
    assert found[0].error_correlations["hgpo"][0, 1] > 0.5


def test_ours_is_ahead_of_hgpo_gigpo_and_grpo_with_the_interval_excluding_zero() -> None:
    plan = small_plan(
        worlds=("graph", "maze", "history", "slips", "aliased", "nothing", "loops", "pairs"),
        learners=(),
        seeds=6,
        batches=6,
    )
    document = summarise(study.run(plan))
    for row in document["aggregate"]:
        if row["estimator"] != OURS:
            assert row["gradient_cosine_ours_ahead"]["interval"][0] > 0.05
            assert row["mse_ours_ahead"]["interval"][0] > 0.1


@pytest.mark.parametrize("kind", ["table", "network"])
def test_policies_learn(kind: str) -> None:
    curve = learn(make_world("maze", 0), ENTRIES[OURS], kind, 40).curve  # type: ignore[arg-type]
    assert curve[0] < 0.8
    assert curve[-1] > 0.95
    again = learn(make_world("maze", 0), ENTRIES[OURS], kind, 40).curve  # type: ignore[arg-type]
    assert curve.tolist() == again.tolist()


def test_the_numbers_do_not_depend_on_the_number_of_processes() -> None:
    plan = small_plan()
    one, two = summarise(study.run(plan, 1)), summarise(study.run(plan, 2))
    for document in (one, two):
        del document["processor_seconds"]
    assert json.dumps(one) == json.dumps(two)


def test_the_draws_of_the_design_are_left_out_of_the_unseen() -> None:
    assert summarise(study.run(small_plan(learners=(), seeds=4)))["unseen"] == []
    new = small_plan(learners=(), seeds=2, first_seed=10)
    both = small_plan(learners=(), seeds=4, first_seed=8)
    found = [summarise(study.run(plan))["unseen"] for plan in (new, both)]
    assert found[0] == found[1]
    assert {row["estimator"] for row in found[0]} == {"grpo", "gigpo", "hgpo"}


def test_other_seeds_are_other_draws() -> None:
    jobs = study.jobs(small_plan(first_seed=1000))
    assert {job.seed for job in jobs} == {1000, 1001}
    assert len(jobs) == len(study.jobs(small_plan()))


def test_every_variation_runs() -> None:
    found = measure(make_world("pairs", 0), ablations(), 2)
    assert len(found.entries) == len(ablations())
    assert all(np.isfinite(m["mse"]) for m in found.entries.values())


def test_quantiles_of_students_t() -> None:
    for freedom, expected in (
        (1, 12.7062),
        (2, 4.3027),
        (3, 3.1824),
        (5, 2.5706),
        (10, 2.2281),
        (30, 2.0423),
    ):
        assert t95(freedom) == pytest.approx(expected, abs=5e-4)
    interval = Interval.of([1.0, 2.0, 3.0])
    assert interval.mean == 2.0
    assert interval.high - interval.mean == pytest.approx(4.30265 / np.sqrt(3), rel=1e-4)


def test_estimators_are_chosen_by_label_name_or_settings() -> None:
    assert choose(["hgpo"]) == [ENTRIES["hgpo"]]
    assert choose(["hgpo_lambda:lam=0.9:depth=3"]) == [
        Entry("hgpo_lambda:lam=0.9:depth=3", "hgpo_lambda", {"lam": 0.9, "depth": 3})
    ]
    for wrong in ("hgpo_lamda", "hgpo:lam", "hgpo:lam=0.5", "hgpo:depth=-1"):
        with pytest.raises(HgpoError):
            choose([wrong])


def test_the_command_writes_page_plots_and_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "found.json"
    arguments = ["--quick", "--worlds", "maze,cut", "--estimators", "hgpo,hgpo_lambda", "--seeds", "2"]
    status = main(
        ["lab", *arguments, "--processes", "1", "--json", str(file), "--out", str(tmp_path / "docs")]
    )
    assert status == 0
    assert "hgpo_lambda" in capsys.readouterr().out
    document = json.loads(file.read_text())
    records = {(r["world"], r["estimator"]): r for r in document["records"]}
    assert set(records) == {(w, e) for w in ("maze", "cut") for e in ("hgpo", "hgpo_lambda")}
    for record in records.values():
        for measure_name in ("mse", "correlation", "gradient_cosine", "gradient_cosine_4", "gradient_bias"):
            low, high = record[measure_name]["interval"]
            assert low <= record[measure_name]["mean"] <= high
    page = (tmp_path / "docs" / "lab.md").read_text()
    assert "| maze |" in page
    for name in ("gradient_cosine", "mse", "groups", "learning_table", "learning_network"):
        assert f"lab/{name}.svg" in page
        assert (tmp_path / "docs" / "lab" / f"{name}.svg").stat().st_size > 1000
    assert (tmp_path / "docs" / "lab" / "lab.json").read_text() == file.read_text()
    # The page can be made again from the numbers alone.
    assert main(["lab", "--numbers", str(file), "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "lab.md").read_text() == page
    plot = (tmp_path / "again" / "lab" / "mse.svg").read_text()
    assert plot == (tmp_path / "docs" / "lab" / "mse.svg").read_text()


def test_numbers_that_are_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    for text in ("", "[]", '{"schema_version": 2}'):
        file.write_text(text)
        assert main(["lab", "--numbers", str(file)]) == 2
        assert "found.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--worlds", "mazes"],
        ["--estimators", "nope"],
        ["--seeds", "0"],
        ["--first-seed", "-1"],
        ["--processes", "0"],
    ],
)
def test_mistakes_are_explained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main(["lab", "--quick", *arguments])
    except SystemExit as left:  # what the parser itself refuses
        status = left.code
    assert status == 2
    assert "hgpo lab:" in capsys.readouterr().err
