"""Which words of a product title are nouns: the one part of the score that needs a language model.

A tagger is a callable: text -> list of (token, is noun). The original uses spaCy's model `en_core_web_lg`
(verl-agent: `en_core_web_sm`); with one of them installed `default_tagger` takes it. Otherwise the small
tagger here is used: a list of common words that are not nouns, and endings. The tagger decides only how
alike two titles are, and that only matters for purchases that are neither the wanted product nor one of its
category, so exact purchases never depend on it. What was used is said in every observation's
`info["tagger"]`.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any

from ...errors import BadSetting

Tagger = Callable[[str], list[tuple[str, bool]]]
MODELS = ("en_core_web_lg", "en_core_web_md", "en_core_web_sm")

_TOKEN = re.compile(r"\w+|[^\w\s]")
_OTHERS = """
a an the and or nor but if of in on at by for from with without within into onto over under up down out off
to as than then so very too not no all any both each few more most other some such only own same s t re ve
ll i you he she it we they me him her us them my your his its our their this that these those who which what
is are was were be been being am do does did done has have had will would can could may might shall should
must when where while how why again also just about above below between during before after until because
per via new old big small large medium long short wide narrow high low tall deep thick thin slim great good
best better free full easy soft hard warm cold cool hot dry wet fresh clean clear dark light bright heavy
lightweight black white red blue green yellow pink purple orange brown gray grey beige ivory navy multi plus
extra super mini portable wireless adjustable removable replaceable reusable disposable waterproof durable
stretchy breathable washable comfortable casual formal classic modern vintage retro elegant cute funny sexy
loose tight round square flat natural organic vegan healthy perfect premium professional official original
double single dual triple quick fast slow strong safe non anti unisex compatible assorted various one two
three four five six seven eight nine ten first second third many much several made make makes fit fits give
get gets keep keeps use used using wear includes included inspired
"""
_NOT_NOUNS = frozenset(_OTHERS.split())
_ENDINGS = ("able", "ible", "ful", "less", "ous", "ish", "ive", "ical", "ally", "ly", "ated", "ized", "iest")


def builtin_tagger(text: str) -> list[tuple[str, bool]]:
    """Nouns by elimination: whatever is a word and neither listed nor ends like another part of speech."""
    return [(token, _is_noun(token.lower())) for token in _TOKEN.findall(text)]


def _is_noun(word: str) -> bool:
    if not any(letter.isalpha() for letter in word) or word in _NOT_NOUNS:
        return False
    if word[0].isdigit():
        return False
    return len(word) < 5 or not word.endswith(_ENDINGS)


@lru_cache(maxsize=4)
def spacy_tagger(model: str) -> Tagger:
    """spaCy's part-of-speech model, as the original uses it."""
    try:
        import spacy
    except ImportError as error:
        raise BadSetting(
            f"The tagger {model!r} needs spaCy, which is not installed. Install both with: pip install spacy && "
            f"python -m spacy download {model}, or use tagger='builtin'."
        ) from error
    try:
        pipeline = spacy.load(model)
    except OSError as error:
        raise BadSetting(
            f"spaCy has no model {model!r}. Install it with: python -m spacy download {model}, or use "
            "tagger='builtin'."
        ) from error

    def tag(text: str) -> list[tuple[str, bool]]:
        return [(token.text, token.pos_ in ("NOUN", "PROPN")) for token in pipeline(text)]

    tag.__name__ = f"spacy/{model}"
    return tag


def choose_tagger(wanted: Tagger | str | None) -> tuple[Tagger, str]:
    """A tagger and its name: the one given, the one named, or the best there is.

    Args:
        wanted: a callable; `"builtin"`; the name of a spaCy model; or None for a spaCy model if one is
            installed and the built-in tagger if not.
    """
    if callable(wanted):
        # What it says is remembered by tagger and title, so it must be hashable; a partial always is.
        return (wanted if isinstance(wanted, Hashable) else partial(wanted)), _name(wanted)
    if wanted is None:
        if importlib.util.find_spec("spacy"):
            for model in MODELS:
                if importlib.util.find_spec(model):
                    return spacy_tagger(model), f"spacy/{model}"
        return builtin_tagger, "builtin"
    if wanted == "builtin":
        return builtin_tagger, "builtin"
    model = wanted.removeprefix("spacy/")
    return spacy_tagger(model), f"spacy/{model}"


def _name(tagger: Any) -> str:
    name = getattr(tagger, "__name__", type(tagger).__name__)
    return f"{getattr(tagger, '__module__', None) or 'custom'}.{name}"
