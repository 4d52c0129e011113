"""The truth from copies of an engine's states: against worlds whose truth is known, and through the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hgpo.cli import main
from hgpo.envs import register
from hgpo.envs.contract import Observation, Transition
from hgpo.estimators.estimate import estimate
from hgpo.lab.branches import Branched, MonteCarlo, branch
from hgpo.lab.corrected import GameSums, compare, draws
from hgpo.lab.entries import Entry
from hgpo.lab.situations import first_logits, probabilities, situations
from hgpo.lab.truth import truth
from hgpo.lab.worlds import generator_for, make_world
from hgpo.play.episode import Episode, Limits
from hgpo.play.memory import WindowMemory
from hgpo.play.policy import Reply, Request
from hgpo.play.prompts import style
from hgpo.play.record import record
from hgpo.play.stage import Environments, Stage
from hgpo.seeds import generator

GAMMA = 0.95


class WorldEnv:
    """A small world, whose moves are certain, as an environment. Task ids are seeds of the world."""

    splits = ("train",)

    def __init__(self, copies: bool = True) -> None:
        self.here, self.steps = 0, 0
        if copies:
            self.clone = self._clone

    def tasks(self, split: str) -> Sequence[str]:
        return [f"maze/{seed}" for seed in range(50)]

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        self.places = situations(make_world("maze", int(task.split("/")[1])))
        self.here = self.steps = 0
        return Observation(self._text(), self._commands())

    def _text(self) -> str:
        return f"see {self.places.observation[self.here]}"

    def _commands(self) -> list[str]:
        return [f"do {number}" for number in range(self.places.chances.shape[1])]

    def step(self, action: str) -> Transition:
        number = int(action.split()[1])
        self.steps += 1
        reward = float(self.places.rewards[self.here, number, 0])
        over = bool(self.places.ends[self.here, number, 0])
        self.here = int(self.places.following[self.here, number, 0])
        return Transition(
            self._text(), reward, over, self.steps >= 30 and not over, self._commands(), over, float(over)
        )

    def _clone(self) -> WorldEnv:
        other = WorldEnv()
        other.places, other.here, other.steps = self.places, self.here, self.steps
        return other

    def close(self) -> None:
        pass


class WorldPolicy:
    """The world's own policy. It keeps by itself what it remembers of every episode, as an expert does."""

    def __init__(self, seed: int) -> None:
        self.places = situations(make_world("maze", seed))
        self.chances = probabilities(first_logits(self.places))
        self.numbers = {tuple(row): number for number, row in enumerate(self.places.contexts.tolist())}
        self.kept: dict[str, tuple[int, ...]] = {}

    async def encode(self, prompt: str) -> Sequence[int]:
        return ()

    async def generate(self, request: Request) -> Reply:
        before = self.kept.get(request.episode, (-1,) * self.places.contexts.shape[1])
        context = (*before[1:], int(request.observation.split()[1]))
        self.kept[request.episode] = context
        chances = self.chances[self.numbers[context]]
        return Reply(f"do {generator('act', request.seed).choice(len(chances), p=chances)}")

    def fork(self, episode: str, other: str) -> None:
        if episode in self.kept:
            self.kept[other] = self.kept[episode]

    def finish(self, episode: str) -> None:
        self.kept.pop(episode, None)


def stage(**settings: bool) -> Stage:
    register("lab-maze", WorldEnv)
    return Stage(
        Environments("lab-maze", settings),
        style=style("compact"),
        limits=Limits(50),
        memory=lambda: WindowMemory(2),
    )


def exact(seed: int, episode: Episode) -> np.ndarray:
    """The true advantages of an episode's steps, by dynamic programming."""
    places = situations(make_world("maze", seed))
    known = truth(places, probabilities(first_logits(places)))
    here, found = 0, []
    for step in episode.steps:
        action = int(step.action.split()[1])
        found.append(known.advantages[step.index, here, action])
        here = int(places.following[here, action, 0])
    return np.array(found)


@pytest.fixture(scope="module")
def games() -> list[list[tuple[Branched, np.ndarray]]]:
    """Groups of rollouts in twelve worlds, two continuations from each state, and the exact truth."""
    place, found = stage(), []
    for seed in range(12):
        policy = WorldPolicy(seed)
        group = [
            branch(place, policy, f"maze/{seed}", index, seed=7, continuations=2, gamma=GAMMA)
            for index in range(8)
        ]
        assert policy.kept == {}
        found.append([(one, exact(seed, one.episode)) for one in group])
    return found


def test_advantages_from_copies_are_the_true_ones_with_noise_of_the_stated_size(
    games: list[list[tuple[Branched, np.ndarray]]],
) -> None:
    errors, noise = [], []
    for group in games:
        for branched, true in group:
            found = MonteCarlo.of(branched, GAMMA)
            errors.append(found.advantages - true)
            noise.append(found.noise)
    error, variance = np.concatenate(errors), np.concatenate(noise)
    assert len(error) > 1000
    assert np.square(error).sum() == pytest.approx(variance.sum(), rel=0.15)
    # The mean error of a rollout: sums telescope, so errors of neighbours are far from independent.
    means = np.array([one.sum() for one in errors])
    assert abs(means.mean()) < 3 * means.std() / np.sqrt(len(means))


def test_cosines_are_corrected_for_the_noise(games: list[list[tuple[Branched, np.ndarray]]]) -> None:
    episodes = [one.episode for group in games for one, _ in group]
    number = np.concatenate(
        [np.full(len(one.episode.steps), place) for place, group in enumerate(games) for one, _ in group]
    )
    found = [MonteCarlo.of(one, GAMMA) for group in games for one, _ in group]
    measured = np.concatenate([one.advantages for one in found])
    noise = np.concatenate([one.noise for one in found])
    true = np.concatenate([one for group in games for _, one in group])
    for name in ("grpo", "hgpo", "hgpo_lambda"):
        said = np.asarray(estimate(record(episodes), name).advantages)
        corrected = GameSums.of(said, measured, noise, number, len(games)).cosine()[0]
        known = GameSums.of(said, true, np.zeros_like(true), number, len(games)).cosine()[0]
        blind = GameSums.of(said, measured, np.zeros_like(true), number, len(games)).cosine()[0]
        assert abs(corrected - known) < 0.12 * known + 0.02
        assert blind < 0.8 * known


def test_the_correction_is_the_product_of_independent_halves() -> None:
    """With two continuations, A^2 - S is the mean of A_1 A_2 over both ways to make the halves, step by step."""
    rng = generator_for("halves")
    returns = rng.normal(size=(2, 2))
    rewards = np.array([0.3, 1.0])

    def halves(order: int) -> tuple[float, float]:
        later = returns[1] if order == 0 else returns[1, ::-1]
        return tuple(rewards[0] + GAMMA * later - returns[0])  # type: ignore[return-value]

    steps = [type("Step", (), {"reward": reward})() for reward in rewards]
    episode = Episode("t", "t", 0, 0, tuple(steps), False, 0.0)
    found = MonteCarlo.of(Branched(episode, returns), GAMMA)
    products = [one * other for one, other in (halves(0), halves(1))]
    assert found.advantages[0] ** 2 - found.noise[0] == pytest.approx(np.mean(products))


def test_measures_by_game() -> None:
    rng = generator_for("measures")
    number = np.repeat(np.arange(20), 50)
    true = rng.normal(size=1000)
    nothing = np.zeros(1000)
    sums = [
        GameSums.of(said, true, nothing, number, 20)
        for said in (3.0 * true, true + rng.normal(size=1000), -true, nothing)
    ]
    perfect, half, wrong, silent = compare(sums, ours=0)
    assert perfect["cosine"]["mean"] == pytest.approx(1.0)
    assert perfect["error"]["mean"] == pytest.approx(0.0, abs=1e-9)
    assert half["cosine"]["mean"] == pytest.approx(np.sqrt(0.5), abs=0.05)
    low, high = half["cosine"]["interval"]
    assert low < half["cosine"]["mean"] < high < low + 0.1
    assert half["ours_ahead"]["mean"] == pytest.approx(1.0 - half["cosine"]["mean"])
    assert wrong["cosine"]["mean"] == pytest.approx(-1.0)
    assert wrong["error"]["mean"] == 1.0
    assert silent["cosine"]["mean"] == 0.0
    assert (draws(20) == draws(20)).all()


def test_an_environment_that_cannot_be_copied_is_named() -> None:
    from hgpo.errors import BadSetting

    with pytest.raises(BadSetting, match=r"WorldEnv cannot be copied .* `clone\(\)`"):
        branch(stage(copies=False), WorldPolicy(0), "maze/0", 0, seed=0, continuations=2, gamma=GAMMA)


SMALL = ["--games", "3", "--rollouts", "3", "--continuations", "3", "env.size=tiny"]


def lab(*words: str) -> int:
    try:
        return main(["lab", *words])
    except SystemExit as left:
        return int(str(left.code))


@pytest.mark.parametrize("engine", ["household", "shop"])
def test_the_numbers_do_not_depend_on_the_number_of_processes(engine: str, tmp_path: Path) -> None:
    if engine == "shop":
        pytest.importorskip("rapidfuzz")
    words = SMALL if engine == "household" else SMALL[:-1]
    documents = []
    for processes in (1, 2):
        file = tmp_path / f"{processes}.json"
        status = lab("--engine", engine, *words, "--processes", str(processes), "--json", str(file))
        assert status == 0
        documents.append(json.loads(file.read_text()))
        del documents[-1]["processor_seconds"]
    assert documents[0] == documents[1]
    assert len(documents[0]["games"]) == 3
    other = tmp_path / "other.json"
    assert lab("--engine", engine, *words, "--processes", "1", "--seed", "1", "--json", str(other)) == 0
    assert json.loads(other.read_text())["games"] != documents[0]["games"]


def test_the_command_writes_record_picture_page_and_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    from hgpo import StepBatch

    steps, out = tmp_path / "steps.jsonl", tmp_path / "docs"
    chosen = "hgpo,hgpo_lambda,hgpo_lambda:lam=0.9:time_limit=cut"
    words = ["--engine", "household", *SMALL, "--estimators", chosen, "--processes", "1"]
    assert lab(*words, "--out", str(out), "--steps", str(steps)) == 0
    printed = capsys.readouterr().out
    document = json.loads((out / "lab" / "household.json").read_text())
    assert [row["estimator"] for row in document["estimators"]] == chosen.split(",")
    assert document["estimators"][2]["settings"] == {"lam": 0.9, "time_limit": "cut"}
    page = (out / "lab.md").read_text()
    for row in document["estimators"]:
        assert f"| `{row['estimator']}` | {row['cosine']['mean']:.2f} [" in printed
        assert f"| `{row['estimator']}` | {row['cosine']['mean']:.2f} [" in page
    assert (out / "lab" / "household.svg").stat().st_size > 1000
    batch = StepBatch.read(steps)
    assert len(batch) == sum(game["steps"] for game in document["games"])
    squares = np.square(batch["true_advantage"]).sum() - batch["true_advantage_variance"].sum()
    assert squares == pytest.approx(sum(game["true_squares"] for game in document["games"]), rel=1e-3)
    assert f"{document['noise_share']:.0%} is noise of the 3 continuations" in printed
    assert ("raise --continuations" in printed) == (document["noise_share"] > 0.6)
    # The same command, from the record: the words of the document.
    assert document["command"].startswith("hgpo lab --engine household")
    again = tmp_path / "again"
    assert lab("--numbers", str(out / "lab" / "household.json"), "--out", str(again)) == 0
    assert (again / "lab.md").read_text() == page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "household", "--worlds", "maze"], "--worlds is about small worlds"),
        (["--games", "3"], "--games is about a real engine"),
        (["env.size=tiny"], "name it: --engine household"),
        (["--engine", "household", "--policy", "random"], "--policy expert --noise 1"),
        (["--engine", "household", "--continuations", "1"], "--continuations"),
        (["--engine", "household", "--games", "4000"], "has 3000"),
        (["--engine", "household", "--temperature", "1"], "--temperature is about a model"),
        (["--engine", "shop", "--preset", "quickstart"], "plays in 'household'"),
        (["--engine", "household", "--noise", "2"], "--noise"),
        (["--engine", "housold"], "household"),
        (["--engine", "household", "env.execution=process"], "env.execution=inline"),
    ],
)
def test_mistakes_are_explained(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab(*words) == 2
    assert said in capsys.readouterr().err


def test_what_follows_the_memory_does_so_in_the_lab() -> None:
    from hgpo.config.load import load
    from hgpo.lab.games import settings_for

    config = load(None, ["agent.history_length=4"])
    assert settings_for(Entry("x", "hgpo_lambda", {"lam": 0.0}), config) == {"depth": 4, "lam": 0.0}
    assert settings_for(Entry("x", "hgpo_lambda", {"depth": 1}), config) == {"depth": 1}
