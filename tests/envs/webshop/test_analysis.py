"""Words, stop words and stems as Lucene's English analyser makes them; the answers are Lucene's own."""

from __future__ import annotations

import doctest

import pytest

from hgpo.envs.webshop import analysis, index, shopper, stemming
from hgpo.envs.webshop.analysis import LONGEST, analyse, words

CASES = [
    ("Women's t-shirts & tanks", ["women", "t", "shirt", "tank"]),
    ("don't O'Neil's foo_bar wi-fi", ["don't", "o'neil", "foo_bar", "wi", "fi"]),
    ("3.5 oz, 1,000.5 x 2:30 a.b.c 7.", ["3.5", "oz", "1,000.5", "x", "2", "30", "a.b.c", "7"]),
    ("the and of THE", []),
    ("women’s shoes ＇s", ["women", "shoe", "s"]),
    ("_ __ _a_ a__b", ["_a_", "a__b"]),
    ("a:b 1:2 1;2 a;b a,b", ["a:b", "1", "2", "1;2", "b", "b"]),
    ("naïve café — £5 50µm", ["naïv", "café", "5", "50µm"]),
    ("中文 ひら カタカナ 한국어 ไทย", ["中", "文", "ひ", "ら", "カタカナ", "한국어", "ไทย"]),
    ("❤️ 👨‍👩‍👧 🇺🇸🇬🇧 👍🏽 1️⃣ #️⃣", ["❤️", "👨‍👩‍👧", "🇺🇸", "🇬🇧", "👍🏽", "1️⃣", "#️⃣"]),
    ("שמ\"ע ג'ורג'", ['שמ"ע', "ג'ורג'"]),
    ("soft\u00adhyphen zero\u200bwidth", ["soft\u00adhyphen", "zero", "width"]),
    ("", []),
    (" \n\t!?", []),
]


@pytest.mark.parametrize(("text", "terms"), CASES)
def test_terms(text: str, terms: list[str]) -> None:
    assert analyse(text) == terms


_STEMS = """
caresses caress ponies poni ties ti cats cat feed feed agreed agre plastered plaster bled bled motoring
motor sing sing conflated conflat troubled troubl sized size hopping hop tanned tan falling fall hissing
hiss fizzed fizz failing fail filing file happy happi sky sky relational relat conditional condit
rational ration valenci valenc digitizer digit conformabli conform radicalli radic differentli differ
vileli vile analogousli analog vietnamization vietnam predication predic operator oper feudalism feudal
decisiveness decis hopefulness hope callousness callous formaliti formal sensitiviti sensit sensibiliti
sensibl triplicate triplic formative form formalize formal electriciti electr electrical electr hopeful
hope goodness good revival reviv allowance allow inference infer airliner airlin gyroscopic gyroscop
adjustable adjust defensible defens irritant irrit replacement replac adjustment adjust dependent depend
adoption adopt homologou homolog communism commun activate activ angulariti angular homologous homolog
effective effect bowdlerize bowdler probate probat rate rate cease ceas controll control roll roll is is
by by archaeology archaeolog
"""
STEMS = _STEMS.split()


@pytest.mark.parametrize(("word", "stem"), list(zip(STEMS[::2], STEMS[1::2])))
def test_stems(word: str, stem: str) -> None:
    assert stemming.stem(word) == stem


@pytest.mark.parametrize("letter", ["a", "é", "𝘢"])
def test_long_words_are_cut(letter: str) -> None:
    size = len(letter.encode("utf-16-le")) // 2
    pieces = words(letter * 600)
    assert "".join(pieces) == letter * 600
    assert [len(piece) for piece in pieces[:-1]] == [LONGEST // size] * (len(pieces) - 1)


def test_a_long_word_is_cut_before_a_quote_at_the_limit() -> None:
    assert [len(word) for word in words("a" * 254 + "'" + "b" * 20)] == [254, 20]


def test_the_three_paths_agree() -> None:
    text = "It's 3.5 x_y a.b don't 7,5 end"
    assert words(text) == words(text + " é")[:-1] == words(text + " 中")[:-1]


@pytest.mark.parametrize("module", [analysis, index, shopper, stemming])
def test_examples(module: object) -> None:
    assert doctest.testmod(module)[0] == 0  # type: ignore[arg-type]
