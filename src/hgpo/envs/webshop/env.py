"""The environment: sessions in the shop, by the contract of `hgpo.envs`.

A session follows the original's text environment step by step, its behaviour on unknown actions included:
they change nothing. Nothing is shared between sessions but the catalogue, which is read-only.
"""

from __future__ import annotations

import copy
import hashlib
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from ...errors import BadFile, BadQuery, BadSetting, ResetNeeded, UnknownName, UnknownTask
from ..contract import Observation, Transition
from ..places import WEBSHOP_DATA, WEBSHOP_FOLDER, webshop_data
from ..prompt import Situation
from . import pages
from .catalogue import Catalogue
from .goals import Goal
from .prompt import pages_in_short
from .reward import score
from .shopper import Shopper
from .sources import HELP
from .taggers import Tagger, choose_tagger

TEST_GOALS = 500
"""The first goals are for testing, as in the published runs; the rest are for training."""
PERFECT = 10.0
"""The training reward of a perfect purchase."""
MAX_STEPS = 100
SAID = 5
"""So many of the products that were looked at are told, the last ones."""
REWARDS = ("success", "score")
_SAME = {"in-domain": "test", "test": "in-domain"}
_ACTION = re.compile(r"(.+)\[(.+)\]")


@dataclass
class Session:
    """Where one shopper is."""

    task: str
    goal: Goal
    page: pages.Page
    keywords: list[str] = field(default_factory=list)
    number: int = 1
    """The page of results."""
    position: int | None = None
    """The product that is looked at."""
    options: dict[str, str] = field(default_factory=dict)
    seen: tuple[str, ...] = ()
    """Products that were looked at, as clicks name them, the latest last."""
    steps: int = 0

    @property
    def instruction(self) -> str:
        """What to buy."""
        return str(self.goal["instruction_text"])

    def status(self) -> str:
        """What the shopper did that its page does not show: the options it chose, and what it looked at before."""
        before = self.seen if self.position is None else self.seen[:-1]
        seen = f", having looked at {', '.join(before[-SAID:])}" if before else ""
        return f"shopping with {self._chosen()} chosen{seen}"

    def _chosen(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in sorted(self.options.items())) or "no option"

    def state_key(self) -> str:
        """Which state the shopper is in: the page, by a digest of its text, and what it chose.

        What it looked at before changes nothing about a purchase.
        """
        digest = hashlib.sha256(self.page.text.encode()).hexdigest()[:12]
        return f"{self.page.kind} {digest}, {self._chosen()} chosen"

    def place(self) -> str:
        """The kind of page as the original tells it from the address, in which the query stands too."""
        address = f"{self.page.kind}/{'+'.join(self.keywords)}/{self.options}"
        kinds = ("search_results", "item_page", "item_sub_page", "done")
        return next((kind for kind in kinds if kind in address), "")


class GoalIds(Sequence[str]):
    """`goal/<index>` for each index; full catalogues have millions, so the names are not stored."""

    def __init__(self, indices: Sequence[int]) -> None:
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> GoalIds: ...

    def __getitem__(self, index: int | slice) -> str | GoalIds:
        if isinstance(index, slice):
            return GoalIds(self.indices[index])
        return f"goal/{self.indices[index]}"

    def __iter__(self) -> Iterator[str]:
        return (f"goal/{index}" for index in self.indices)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.indices))


def held_back(trained: Sequence[int], count: int) -> dict[str, Sequence[int]]:
    """The training goals without the first `count`, and these as the split `validation`.

    Raises:
        BadSetting: no goal would be left to train on.
    """
    if not 0 <= count < max(1, len(trained)):
        raise BadSetting(
            f"validation_goals={count} was given, and there are {len(trained)} training goals; expected 0 or more, and "
            "fewer than these, so that some are left to train on."
        )
    return {"train": trained[count:], "validation": trained[:count]}


class WebShop:
    """Shopping by `search[...]` and `click[...]` until `click[buy now]`.

    Args:
        catalogue: what is sold, and the goals.
        goals: `"synthetic"` (as the published runs) or `"human"`.
        tagger: what finds the nouns in titles; see `taggers.choose_tagger`.
        reward: `"success"` gives 10 for a perfect purchase and 0 otherwise; `"score"` gives the score.
        max_steps: cut the episode after this many actions. The published runs use 15; the original has no
            limit (None), the default only stops shoppers that never buy.
        show_attributes: item pages have a button to the attributes.
        validation_goals: so many of the training goals, the first, are held back as the split `validation`.
        splits: the goals of each split; by default `test` has the first 500 and `train` the rest.
        window: products on a page of results.
        results: products a search returns.
    """

    world_version: int = 1
    """Raised when the same actions in the same task get other answers; part of every panel's digest."""

    action_form = "lower"
    """The shop knows lower-case commands of one line."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        goals: str = "synthetic",
        tagger: Tagger | str | None = None,
        reward: str = "success",
        max_steps: int | None = MAX_STEPS,
        show_attributes: bool = False,
        validation_goals: int = 0,
        splits: Mapping[str, Sequence[int]] | None = None,
        window: int = pages.WINDOW,
        results: int = pages.RESULTS,
    ) -> None:
        if goals not in ("synthetic", "human"):
            raise BadSetting(f"goals={goals!r} is not a kind of goals. Choose 'synthetic' or 'human'.")
        if reward not in REWARDS:
            raise BadSetting(f"reward={reward!r} is not a reward. Choose 'success' or 'score'.")
        if max_steps is not None and max_steps < 1:
            raise BadSetting(f"max_steps={max_steps} leaves no step to take. Give a positive number or None.")
        if window < 1 or results < 1:
            raise BadSetting(f"window={window} and results={results} must be 1 or more.")
        self.catalogue = catalogue
        self.goals = catalogue.goals if goals == "synthetic" else catalogue.human_goals
        if not self.goals:
            raise BadFile(f"The data files hold no {goals} goals. {HELP}")
        self.tagger, self.tagger_name = choose_tagger(tagger)
        self.reward, self.max_steps, self.show_attributes = reward, max_steps, show_attributes
        self.window, self.results = window, results
        if splits is None:
            count, tested = len(self.goals), min(TEST_GOALS, len(self.goals))
            splits = {"train": range(tested, count), "test": range(tested)}
        splits = {**splits, **held_back(splits.get("train", ()), validation_goals)}
        self._splits = {name: indices for name, indices in splits.items() if len(indices)}
        self._session: Session | None = None

    @property
    def splits(self) -> Sequence[str]:
        """`train`, `test` and `validation`, or those it was made with; one without goals is left out."""
        return tuple(self._splits)

    def tasks(self, split: str) -> Sequence[str]:
        """The task ids of a split; `test` and `in-domain` are names of the same one."""
        for name in (split, _SAME.get(split, split)):
            if name in self._splits:
                return GoalIds(self._splits[name])
        raise UnknownName("split", split, self._splits)

    def _index(self, task: str) -> int:
        text = task.removeprefix("goal/")
        if task.startswith("goal/") and text.isascii() and text.isdigit() and int(text) < len(self.goals):
            return int(text)
        count = len(self.goals)
        place = f"a catalogue of {count} goals ('goal/0' to 'goal/{count - 1}')"
        raise UnknownTask(task, place, self.splits)

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start the session of a goal; the seed changes nothing, the goal decides everything."""
        goal = self.goals[self._index(task)]
        page = pages.search_page(str(goal["instruction_text"]))
        self._session = Session(task, goal, page)
        info = {**self._info(self._session), "goal": self._session.instruction.strip()}
        return Observation(page.text, page.admissible(), info)

    def _info(self, session: Session) -> dict[str, Any]:
        return {
            "available": session.page.available(),
            "tagger": self.tagger_name,
            "status": session.status(),
            "state_key": session.state_key(),
        }

    def step(self, action: str) -> Transition:
        """Do one action; one that is not possible here leaves everything as it is."""
        session = self._session
        if session is None:
            raise ResetNeeded(type(self).__name__)
        if session.page.kind == "done":
            return self._transition(session, note="The session is over.")
        session.steps += 1
        matched = _ACTION.match(action)
        verb, text = (matched[1], matched[2].lower()) if matched else (action, "")
        purchase: Mapping[str, Any] = {}
        note = ""
        if verb == "search" and text:
            try:
                self._results(session, text.split(" "), 1)
            except BadQuery as error:
                note = str(error)
        elif verb == "click" and text in session.page.links and text != "search":
            purchase = self._click(session, text)
        return self._transition(session, purchase, note)

    def _transition(
        self, session: Session, purchase: Mapping[str, Any] | None = None, note: str = ""
    ) -> Transition:
        page = session.page
        info = self._info(session)
        done = page.kind == "done"
        result = 0.0
        if purchase:
            info["purchase"] = dict(purchase)
            result = float(purchase["score"])
        if note:
            info["note"] = note
        perfect = result == 1.0
        return Transition(
            text=f"{note}{pages.SEPARATOR}{page.text}" if note and not done else page.text,
            reward=result if self.reward == "score" else PERFECT * perfect,
            terminated=done,
            truncated=not done and self.max_steps is not None and session.steps >= self.max_steps,
            admissible=page.admissible(),
            success=perfect,
            score=result,
            info=info,
        )

    def _results(self, session: Session, keywords: list[str], number: int) -> None:
        """Go to a page of results."""
        results = self._search(session, keywords)
        session.keywords, session.number = keywords, number
        session.position, session.options = None, {}
        shown = results[(number - 1) * self.window : number * self.window]
        products = [(position, self.catalogue.product(position)) for position in shown]
        session.page = pages.results_page(session.instruction, products, number, len(results))

    def _search(self, session: Session, keywords: list[str]) -> Sequence[int]:
        """The products for a query; the original's special queries list a sample, a category or a query."""
        if keywords[0] == "<r>":
            count = len(self.catalogue)
            generator = random.Random(f"{session.task}/{session.steps}")
            return generator.sample(range(count), min(self.results, count))
        if keywords[0] == "<c>":
            return self.catalogue.listed("category", keywords[1].strip()) if len(keywords) > 1 else []
        if keywords[0] == "<q>":
            return self.catalogue.listed("query", " ".join(keywords[1:]).strip())
        return self.catalogue.find(" ".join(keywords), self.results)

    def _click(self, session: Session, text: str) -> Mapping[str, Any]:
        """Follow a link of the page; returns the parts of the score when that was the purchase."""
        place = session.place()
        link = session.page.links[text]
        if text == pages.BUY.lower():
            return self._buy(session)
        if text == pages.BACK.lower():
            session.page = pages.search_page(session.instruction)
            session.keywords, session.position, session.options = [], None, {}
        elif text == pages.NEXT.lower() and place == "search_results":
            self._results(session, session.keywords, session.number + 1)
        elif text == pages.PREVIOUS.lower() and place == "search_results":
            self._results(session, session.keywords, session.number - 1)
        elif text == pages.PREVIOUS.lower() and place == "item_page":
            self._results(session, session.keywords, session.number)
        elif text in (name.lower() for name in pages.SUB_PAGES) and session.position is not None:
            product = self.catalogue.product(session.position)
            session.page = pages.sub_page(session.instruction, product, text.capitalize())
        else:
            if isinstance(link, int):
                session.position = link
                session.seen = (*(one for one in session.seen if one != text), text)
            elif link is not None:
                session.options[link] = text
            assert session.position is not None  # every page with such links has a product
            product = self.catalogue.product(session.position)
            session.page = pages.item_page(session.instruction, product, self.show_attributes)
        return {}

    def _buy(self, session: Session) -> Mapping[str, Any]:
        assert session.position is not None  # the button is on item pages only
        product = self.catalogue.product(session.position)
        price = float(self.catalogue.prices[session.position])
        purchase = score(product, price, session.options, session.goal, self.tagger)
        session.page = pages.done_page(product.asin, session.options, purchase.score)
        return {"asin": product.asin, "options": dict(session.options), "price": price, **purchase.parts()}

    def expert(self) -> Shopper:
        """A fresh shopper; it reads pages only."""
        return Shopper()

    def prompt(self, situation: Situation) -> str:
        """The style `env`; see `pages_in_short`."""
        return pages_in_short(situation)

    def clone(self) -> WebShop:
        """An independent copy in the middle of the same session; the catalogue is shared."""
        other = copy.copy(self)
        session = self._session
        # A page and a list of keywords are replaced, never changed; options are filled in place.
        other._session = None if session is None else replace(session, options=dict(session.options))
        return other

    def close(self) -> None:
        """Forget the session; the catalogue stays for others."""
        self._session = None


def webshop(
    data: str | os.PathLike[str] | None = None,
    *,
    size: str | None = None,
    store: str | os.PathLike[str] | None = None,
    goals: str = "synthetic",
    tagger: Tagger | str | None = None,
    reward: str = "success",
    max_steps: int | None = MAX_STEPS,
    show_attributes: bool = False,
    validation_goals: int = 0,
    window: int = pages.WINDOW,
    results: int = pages.RESULTS,
) -> WebShop:
    """WebShop on the official data files in the folder `data`.

    Args:
        data: the folder with items_shuffle*.json and the files that belong to it; `$HGPO_WEBSHOP_DATA`, or else
            `data/webshop`, when left out.
        size: `"small"` or `"full"` where the folder has both.
        store: a folder for the store that is built from the files; by default beside them.
        goals: `"synthetic"` (as the published runs) or `"human"`.
        tagger: what finds the nouns in titles; see `taggers.choose_tagger`.
        reward: `"success"` gives 10 for a perfect purchase and 0 otherwise; `"score"` gives the score.
        max_steps: cut the episode after this many actions; the published runs use 15, none is no limit.
        show_attributes: item pages have a button to the attributes.
        validation_goals: so many of the training goals are held back as the split `validation`.
        window: products on a page of results.
        results: products a search returns.
    """
    folder = data if data is not None else webshop_data()
    if not folder:
        raise BadSetting(
            f"WebShop needs data=FOLDER (env.data=FOLDER of a run), {WEBSHOP_DATA} set to it, or the files in "
            f"{WEBSHOP_FOLDER}, where there are none. `hgpo data` says where to get them. {HELP}"
        )
    return WebShop(
        Catalogue.open(folder, size=size, store=store),
        goals=goals,
        tagger=tagger,
        reward=reward,
        max_steps=max_steps,
        show_attributes=show_attributes,
        validation_goals=validation_goals,
        window=window,
        results=results,
    )
