"""Text to search terms, as Lucene's English analyser does it.

The chain: words by Unicode's rules (UAX #29, at most 255 characters each), the possessive `'s` removed, lower
case, Lucene's English stop words removed, Porter stems.

>>> analyse("The women's T-shirts, 3.5 oz")
['women', 't', 'shirt', '3.5', 'oz']
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .stemming import stem
from .wordbreak import HEBREW, RANGES, ClassTable, spans

_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they
this to was will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
LONGEST = 255
"""Longer words are cut into pieces of this many characters (UTF-16 units)."""

# ASCII knows no marks, so its rules fit one expression: letters, digits and underscores hang together, a dot
# or quote joins two letters or two digits, a colon two letters, a comma or semicolon two digits.
_ASCII = re.compile(
    r"_*[A-Za-z0-9](?:[A-Za-z0-9_]|(?<=[A-Za-z])[.:'](?=[A-Za-z])|(?<=[0-9])[.,;'](?=[0-9]))*",
)


def _plain_pattern() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The rules of `_ASCII` for all letters and digits, and what shows that a text needs more than that."""

    def ranges(names: str) -> str:
        every = (span for name in names for span in spans(RANGES[name]))
        return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in every)

    letter, digit, connector, either = ranges("A"), ranges("N"), ranges("_"), ranges("BQ")
    plain = re.compile(
        f"[{connector}]*[{letter}{digit}](?:[{letter}{digit}{connector}]"
        f"|(?<=[{letter}])[{either}{ranges('L')}](?=[{letter}])"
        f"|(?<=[{digit}])[{either}{ranges('D')}](?=[{digit}]))*"
    )
    hebrew = "".join(f"{chr(first)}-{chr(last)}" for first, last in spans(HEBREW))
    return plain, re.compile(f"[{hebrew}{ranges('GKJISTEMPFRCV')}]")


def _pattern() -> re.Pattern[str]:
    """The rules over class letters (see `wordbreak.RANGES`); marks after a character belong to it."""
    mark = "[EZTCFUV]*"
    letter, hebrew, digit, kana = f"[AHPG]{mark}", f"H{mark}", f"N{mark}", f"K{mark}"
    joined_digits = f"{digit}(?:[DBQ]{mark}{digit})*"
    joined_letters = f"{letter}(?:[LBQ]{mark}{letter})*"
    quoted = f"{hebrew}(?:W{mark}{hebrew}|Q{mark})"
    segment = f"(?:(?:{kana})+|(?:{quoted}|{joined_letters}|{joined_digits})+)"
    connector = f"_{mark}"
    word = f"(?:{connector})*{segment}(?:(?:{connector})+{segment})*(?:{connector})*"
    # Pictographs: marks without presentation selectors, one emoji selector at the end, glued by joiners.
    plain = "[EZTCF]*"
    picture = f"[MP]{plain}U?"
    glued = f"(?:(?:(?<=Z)|Z+)[MPF]{plain}U?)"
    emoji = f"Z*{picture}{glued}*"
    # The longest match wins: a letter-pictograph starts a word unless a pure pictograph is glued to it.
    lettered = f"P{plain}U?{glued}*?(?:(?<=Z)|Z+)M{plain}U?{glued}*"
    tone = f"F{plain}{glued}*"
    keycap = f"#{plain}U?C{plain}"
    flag = f"R{mark}R{mark}"
    south_east = "[ST][STEZCFUV]*"
    single = f"[IJ]{mark}"
    return re.compile(f"{lettered}|{word}|{emoji}|{keycap}|{flag}|{south_east}|{single}|{tone}")


_CLASSES = ClassTable()
_WORDS = _pattern()
_PLAIN, _COMPLEX = _plain_pattern()
_POSSESSIVE = ("'s", "’s", "＇s", "'S", "’S", "＇S")


def _units(text: str) -> int:
    """Length in UTF-16 units, in which the limit is counted."""
    return len(text) + sum(letter > "\uffff" for letter in text)


def _pieces(pattern: re.Pattern[str], classes: str, text: str) -> Iterator[str]:
    """The words of a text; one that is too long ends where the longest match inside the limit ends."""
    position = 0
    while match := pattern.search(classes, position):
        start, end = match.span()
        if end - start > LONGEST // 2 and _units(text[start:end]) > LONGEST:
            limit = start + LONGEST
            while _units(text[start:limit]) > LONGEST:
                limit -= 1
            shorter = pattern.match(classes, start, limit)
            end = shorter.end() if shorter else limit
        yield text[start:end]
        position = end


def words(text: str) -> list[str]:
    """The words of a text, before any filter."""
    if not text.isascii() and _COMPLEX.search(text):
        return list(_pieces(_WORDS, text.translate(_CLASSES), text))
    pattern = _ASCII if text.isascii() else _PLAIN
    words: list[str] = pattern.findall(text)
    if len(text) > LONGEST // 2 and words and max(map(len, words)) > LONGEST // 2:
        return list(_pieces(pattern, text, text))
    return words


def _lower(word: str) -> str:
    # Character by character: Python alone turns a final sigma and a dotted capital I into something longer.
    if word.isascii():
        return word.lower()
    return "".join("i" if letter == "İ" else letter.lower() for letter in word)


def term_of(word: str) -> str:
    """The search term of one word; empty for a stop word."""
    if word.endswith(_POSSESSIVE):
        word = word[:-2]
    word = _lower(word)
    return "" if word in STOP_WORDS else stem(word)


def analyse(text: str) -> list[str]:
    """The search terms of a text, in order, repeats included."""
    return [term for word in words(text) if (term := term_of(word))]
