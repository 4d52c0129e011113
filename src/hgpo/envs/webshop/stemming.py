"""The Porter stemmer as Lucene applies it (M. F. Porter, Program 14(3), 1980, and its author's two changes).

The two changes against the paper: the suffix `bli` (for `abli`) becomes `ble`, and `logi` becomes `log`.
Words of one or two letters are left alone.

>>> stem("connections"), stem("hopping"), stem("relational")
('connect', 'hop', 'relat')
"""

from __future__ import annotations

from functools import lru_cache

_VOWELS = frozenset("aeiou")

# Steps 2 to 4: (suffix, what replaces it). A step looks only at the longest suffix in its list.
_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = dict.fromkeys(
    (
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
        *("sion", "tion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
    ),
    "",
)


_Rules = dict[str, tuple[tuple[str, str], ...]]


def _by_letter(rules: dict[str, str]) -> _Rules:
    """The rules by the last but one letter of their suffix, the longest suffix first."""
    longest = sorted(rules.items(), key=lambda rule: -len(rule[0]))
    return {
        letter: tuple(rule for rule in longest if rule[0][-2] == letter)
        for letter in {suffix[-2] for suffix in rules}
    }


_RULES_2, _RULES_3, _RULES_4 = _by_letter(_STEP_2), _by_letter(_STEP_3), _by_letter(_STEP_4)


def _shape(word: str) -> str:
    """One letter a character: `v` for vowels, `c` for consonants; a `y` after a consonant is a vowel."""
    shape: list[str] = []
    previous = "v"
    for letter in word:
        if letter in _VOWELS or (letter == "y" and shape and previous == "c"):
            previous = "v"
        else:
            previous = "c"
        shape.append(previous)
    return "".join(shape)


def _measure(word: str) -> int:
    """How many vowel-consonant sequences the word has (Porter's m)."""
    return _shape(word).count("vc")


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _ends_short(word: str) -> bool:
    """Consonant, vowel, consonant at the end, the last not w, x or y."""
    return len(word) > 2 and _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _step_1(word: str) -> str:
    if word.endswith("s"):
        if word.endswith(("sses", "ies")):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for suffix in ("ed", "ing"):
            if word.endswith(suffix):
                rest = word[: -len(suffix)]
                if "v" in _shape(rest):
                    word = _mend(rest)
                break
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    return word


def _mend(word: str) -> str:
    """What step 1b does after it removed `ed` or `ing`."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word):
        return word if word[-1] in "lsz" else word[:-1]
    if _measure(word) == 1 and _ends_short(word):
        return word + "e"
    return word


def _replace(word: str, rules: _Rules, least: int) -> str:
    for suffix, replacement in rules.get(word[-2:-1], ()):
        if word.endswith(suffix):
            # `ion` is the suffix of step 4; the letter before it belongs to the condition.
            rest = word[: len(word) - (3 if suffix in ("sion", "tion") else len(suffix))]
            return rest + replacement if _measure(rest) >= least else word
    return word


def _step_4(word: str) -> str:
    return _replace(word, _RULES_4, 2)


def _step_5(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _ends_short(rest)):
            word = rest
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """The stem of a lower-case word."""
    if len(word) < 3:
        return word
    word = _step_1(word)
    word = _replace(word, _RULES_2, 1)
    word = _replace(word, _RULES_3, 1)
    return _step_5(_step_4(word))
