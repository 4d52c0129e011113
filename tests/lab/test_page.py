"""The page in the documentation is what its records say, and so are the figures elsewhere that come from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hgpo.lab.page import page
from hgpo.lab.plots import draw, draw_games
from hgpo.lab.records import read, records

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "docs" / "lab"
LIMIT = "hgpo_lambda time_limit=cut"
FITTED = "hgpo_lambda value_lam=0.9 prior=0.5"
TOLD = "hgpo_lambda key=state_key prior=1 lam=0.25"


def words(path: str) -> str:
    """A page with its line breaks as spaces."""
    return " ".join((ROOT / path).read_text(encoding="utf-8").split())


def test_the_page_is_made_from_the_records_beside_it() -> None:
    assert page(PLACE) == (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")


def test_the_plots_are_those_of_the_records(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    worlds, games = records(PLACE)
    assert worlds is not None
    written = draw(worlds, tmp_path) + [draw_games(one, tmp_path, name) for name, one in games.items()]
    assert {path.name for path in PLACE.glob("*.svg")} == set(written)
    for name in written:
        # Another version of the drawing package sets other points; what is written in the plot is the same.
        assert labels(tmp_path / name) == labels(PLACE / name)


def labels(path: Path) -> list[str]:
    """The words of a plot."""
    import re

    return re.findall(r"<text[^>]*>(.*?)</text>", path.read_text(encoding="utf-8"))


def test_every_record_says_which_command_made_it() -> None:
    worlds, games = records(PLACE)
    assert worlds is not None
    for document in (worlds, *games.values()):
        assert document["command"].startswith("hgpo lab")
    assert {document["engine"] for document in games.values()} >= {"household", "alfworld", "shop"}


def test_records_of_other_versions_are_refused(tmp_path: Path) -> None:
    from hgpo.errors import BadFile

    file = tmp_path / "old.json"
    file.write_text(json.dumps({"schema_version": 1, "kind": "worlds"}))
    with pytest.raises(BadFile, match="schema version 1; this version reads 2"):
        read(file)


def figure(value: dict[str, Any] | None, digits: int = 2) -> str:
    """A mean as pages write it."""
    assert value is not None
    return f"{value['mean']:.{digits}f}"


def signed(value: dict[str, Any]) -> str:
    """A difference with its interval."""
    low, high = value["interval"]
    return f"{value['mean']:+.3f}, {low:+.3f} to {high:+.3f}"


class Figures:
    """What the records say, by name."""

    def __init__(self) -> None:
        worlds, self.games = records(PLACE)
        assert worlds is not None
        self.worlds = worlds
        self.aggregate = {row["estimator"]: row for row in worlds["aggregate"]}
        self.groups = {row["estimator"]: row["cosine"] for row in worlds["groups"]}
        self.ablations = {row["variation"]: row for row in worlds["ablations"]}

    def one(self, label: str) -> str:
        """Gradient cosine of one group."""
        return figure(self.groups[label]["1"])

    def many(self, label: str, number: int = 64) -> str:
        """Gradient cosine of several groups."""
        return figure(self.groups[label][str(number)], 3)

    def varied(self, label: str) -> str:
        """Gradient cosine in the table of variations."""
        return figure(self.ablations[label]["gradient_cosine"])

    def engine(self, name: str, label: str) -> str:
        """Cosine in a real engine."""
        return figure(self.row(name, label)["cosine"])

    def solved(self, name: str) -> str:
        """Success of the policy that played in an engine."""
        return f"{self.games[name]['success']:.0%}"

    def row(self, name: str, label: str) -> dict[str, Any]:
        """An estimator's row of an engine's record."""
        found: dict[str, Any] = next(
            row for row in self.games[name]["estimators"] if row["estimator"] == label
        )
        return found

    def world(self, name: str, label: str = "hgpo_lambda") -> str:
        """Gradient cosine in one small world; of the true advantages for `ceiling`."""
        if label == "ceiling":
            return figure(self.worlds["worlds"][name]["ceiling"])
        rows = [r for r in self.worlds["records"] if (r["world"], r["estimator"]) == (name, label)]
        return figure(rows[0]["gradient_cosine"])

    def deeper(self, name: str | None = None) -> str:
        """What depth 2 adds to ours over depth 0, in one world or over all."""
        row = self.ablations["hgpo_lambda depth=0"]
        change = (row if name is None else row["worlds"][name])["gradient_cosine_change"]
        low, high = change["interval"]
        return f"{-change['mean']:+.3f} ± {(high - low) / 2:.3f}"

    def told(self, name: str, seen: str = "") -> str:
        """The cosines of one engine where the estimators are told which state it is."""
        ours, *others = (
            self.engine(name, f"{one} key=state_key")
            for one in ("hgpo_lambda", "g2po", "graphgpo", "hgpo", "gigpo")
        )
        before = f"({seen}{self.engine(name, 'hgpo_lambda')})"
        return "{} {}, G2PO {}, GraphGPO {}, HGPO {}, GiGPO {}".format(ours, before, *others)

    def limits(self, name: str, called: str = "") -> str:
        """Cosines with a step limit as an end and as a cut."""
        end, cut = (figure(self.row(name, label)["cosine"], 3) for label in ("hgpo_lambda", LIMIT))
        return f"{end}{called} and {cut}"

    def fitted(self, name: str) -> str:
        """How far the settings in question for the values are ahead of the default."""
        ahead = self.row(name, FITTED)["ours_ahead"]
        low, high = ahead["interval"]
        return f"{-ahead['mean']:+.3f}, {-high:+.3f} to {-low:+.3f}"

    def said_of(self, name: str) -> str:
        """The cosines of one engine in a sentence."""
        cosines = [
            f"{self.engine(name, label)} {called}"
            for label, called in (
                ("hgpo_lambda", "for `hgpo_lambda`"),
                ("g2po", "for G2PO as released"),
                ("graphgpo", "for GraphGPO"),
                ("hgpo", "for HGPO"),
                ("gigpo", "for GiGPO"),
                ("grpo", "for GRPO"),
            )
        ]
        return ", ".join(cosines)


@pytest.fixture(scope="module")
def figures() -> Figures:
    return Figures()


def test_the_derivation_cites_the_lab_as_it_is(figures: Figures) -> None:
    text = words("docs/hgpo-lambda.md")
    f = figures
    plan = f.worlds["plan"]
    for sentence in (
        f"Over {len(f.worlds['worlds'])} worlds with {plan['seeds']} draws each",
        f"the gradient of one group has cosine {f.one('hgpo_lambda')} with the true one, against {f.one('g2po')} for "
        f"G2PO as released, {f.one('graphgpo')} for GraphGPO, {f.one('hgpo')} for HGPO, {f.one('gigpo')} for GiGPO and "
        f"{f.one('grpo')} for GRPO, with {f.one('ceiling')} as the ceiling",
        f"In {f.games['household']['plan']['games']} generated houses with a noisy expert the cosine of the advantages "
        f"is {f.said_of('household')}",
        f"in {f.games['alfworld']['plan']['games']} official ALFWorld games {f.said_of('alfworld')}",
        f"in {f.games['shop']['plan']['games']} tasks of the generated shop {f.said_of('shop')}",
        f"(`hgpo_lambda` ahead by: houses {signed(f.row('household', 'g2po')['ours_ahead'])}; official games "
        f"{signed(f.row('alfworld', 'g2po')['ours_ahead'])}; shop {signed(f.row('shop', 'g2po')['ours_ahead'])}; "
        f"trained model {signed(f.row('household-quickstart', 'g2po')['ours_ahead'])})",
        f"averaged over 64 groups it is {f.many('hgpo_lambda')} for `hgpo_lambda`, "
        f"{f.many('hgpo_lambda lam=0.75')} with lambda 0.75, {f.many('hgpo_lambda lam=0.9')} with 0.9, "
        f"{f.many('hgpo_shrinkage')} for HGPO with one shrunk baseline, {f.many('hgpo_mean')} for HGPO without "
        f"deviations, {f.many('g2po')} for G2PO and {f.many('ceiling')} for the true advantages",
        f"depth 2 instead of 0 changes the cosine by {f.deeper()}",
        f"`aliased` ({f.deeper('aliased')})",
        f"for the trained model of the quick start depth 2 is ahead of depth 0 by "
        f"{signed(f.row('household-quickstart', 'hgpo_lambda depth=0')['ours_ahead'])}",
        f"for the quick start's trained model {f.said_of('household-quickstart')}",
        f"are the worst choice of all ({f.varied('hgpo_lambda shrinkage=none')})",
        f"(cosine {f.world('chain')} in `chain`, against a ceiling of {f.world('chain', 'ceiling')})",
        f"with two rollouts per task little is shared ({f.world('pairs')} of {f.world('pairs', 'ceiling')})",
        f"(`rare`: {f.world('rare')} of {f.world('rare', 'ceiling')}, HGPO with one shrunk baseline "
        f"{f.world('rare', 'hgpo_shrinkage')})",
        f"cosine {f.limits('household', ' as an end')} as a cut in generated houses (the end ahead by "
        f"{signed(f.row('household', LIMIT)['ours_ahead'])})",
        f"{f.limits('alfworld')} in official ALFWorld games ({signed(f.row('alfworld', LIMIT)['ours_ahead'])})",
        f"{f.limits('shop')} in the shop ({signed(f.row('shop', LIMIT)['ours_ahead'])})",
        f"Not by its episode part (cosine {f.engine('alfworld', 'g2po')} with it, "
        f"{f.engine('alfworld', 'g2po episode_w=0')} without, {f.engine('alfworld', 'g2po step_advantage_w=0')} alone)",
        f"not by its deviations ({f.engine('alfworld', 'g2po episode_w=0 mode=mean_norm')} without both)",
        f"cosine {f.engine('household', FITTED)} in the houses (ahead of the default by {f.fitted('household')}), "
        f"{f.engine('alfworld', FITTED)} in the official games ({f.fitted('alfworld')}), "
        f"{f.engine('shop', FITTED)} in the shop ({f.fitted('shop')}), "
        f"{f.engine('household-quickstart', FITTED)} for the trained model ({f.fitted('household-quickstart')})",
        f"Cosine in the official games {f.told('alfworld', 'as observed ')}; in the generated houses "
        f"{f.told('household')}; in the shop, whose pages say nearly all there is, {f.told('shop')}. With `prior=1 "
        "lam=0.25` beside it ours has {}, {} and {}".format(
            *(f.engine(name, TOLD) for name in ("alfworld", "household", "shop"))
        ),
        f"`--noise 0.75` it is behind ({f.engine('alfworld-weaker', 'g2po')} against "
        f"{f.engine('alfworld-weaker', 'hgpo_lambda')})",
        f"that solves {f.solved('alfworld-weaker')} of them, are one: there it is "
        f"{f.told('alfworld-weaker', 'as observed ')}, and {f.engine('alfworld-weaker', TOLD)} with `prior=1 lam=0.25` "
        "beside the key",
        f"With `lam=0.25` beside them the official games have {f.engine('alfworld', FITTED + ' lam=0.25')} and the "
        f"shop {f.engine('shop', FITTED + ' lam=0.25')}",
    ):
        assert sentence in text, sentence
    # "In all three G2PO with the same key is behind", and in the other games, too.
    for name in ("alfworld", "household", "shop", "alfworld-weaker"):
        one, other = (f.row(name, f"{label} key=state_key")["cosine"] for label in ("hgpo_lambda", "g2po"))
        assert one["interval"][0] > other["mean"]
        assert one["mean"] > other["interval"][1]
    plain = [f.varied(f"hgpo {one}") for one in ("depth=0", "depth=1", "depth=4", "alpha=0", "alpha=2")]
    plain = sorted({*plain, f.varied("hgpo")})
    for name, value in (
        ("released HGPO; depth 0 to 4 and alpha 0 to 2 all give", " to ".join(plain[:1] + plain[1:][-1:])),
        ("no division by the deviation of each group", f.varied("hgpo mode=mean_norm")),
        ("one shrunk baseline, still the whole return", f.varied("hgpo shrinkage")),
        ("G2PO as released", f.varied("g2po")),
        (
            "bootstrapped once over mean returns of states",
            f.varied("hgpo_lambda lam=0 depth=0 plain, no sweeps"),
        ),
        (
            "state values fitted repeatedly, lambda 0, nothing nested, nothing pooled",
            f.varied("hgpo_lambda lam=0 depth=0 plain"),
        ),
        ("nested, shrunk, lambda 0.5", f.varied("hgpo_lambda pool_actions=false")),
        ("and actions pooled: `hgpo_lambda`", f.varied("hgpo_lambda")),
    ):
        assert f"| {name} | {value} |" in text, name


def test_the_readme_says_who_is_closest_to_the_truth(figures: Figures) -> None:
    f = figures
    assert (
        "our own HGPO-lambda is closest to it; in official ALFWorld games G2PO is when a good policy plays, "
        "HGPO-lambda when a weak one does, and HGPO-lambda by far once the games"
    ) in words("README.md")
    others = ("grpo", "gigpo", "hgpo", "g2po")
    assert all(float(f.one("hgpo_lambda")) > float(f.one(name)) for name in others)
    others = ("grpo", "gigpo", "hgpo", "hgpo_lambda")
    assert all(float(f.engine("alfworld", "g2po")) > float(f.engine("alfworld", name)) for name in others)
    others = ("grpo", "gigpo", "hgpo", "g2po")
    weaker = {name: float(f.engine("alfworld-weaker", name)) for name in (*others, "hgpo_lambda")}
    assert all(weaker["hgpo_lambda"] > weaker[name] for name in others)
    for name in ("alfworld", "alfworld-weaker"):
        best = max(
            float(f.engine(name, f"{one} key=state_key")) for one in ("gigpo", "hgpo", "graphgpo", "g2po")
        )
        assert float(f.engine(name, "hgpo_lambda key=state_key")) > best + 0.15
