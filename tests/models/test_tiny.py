"""Tokenizers made on the spot."""

from __future__ import annotations

import pytest

from hgpo.envs.actions import TAGS, parse
from hgpo.models.tiny import make_tokenizer


def test_word_tokens_round_trip() -> None:
    seen = "take mug 1 from desk 2. search[red shoes] click[x-large] click[6.5 wide] size 6.5"
    tokenizer = make_tokenizer([seen], "word", 100)
    for text in (
        "take mug 1 from desk 2",
        "search[red shoes]",
        "click[x-large]",
        "click[6.5 wide]",
        "size 6.5",
    ):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode("mug 1")) == 1
    bpe = make_tokenizer(["take mug 1"], "bpe", 300)
    assert bpe.decode(bpe.encode("Größe: 6.5-Wide [x]")) == "Größe: 6.5-Wide [x]"


LISTED = ['can :\n- Open the Oak Door\n- {"tool": "Open", "args": [1]}\nA Door > Open the Oak Door'] * 2


@pytest.mark.parametrize(
    "text",
    [
        "Open the Oak Door",
        '{"tool": "Open",  "args": [1, "x"]}',
        "SELECT *\n  FROM people\n\n\tWHERE name = 'Zoë';",
        "## a < b > c",
        "  indented",
        "a word that was never seen: xyzzy-17",
    ],
)
def test_an_exact_tokenizer_gives_every_text_back(text: str) -> None:
    tokenizer = make_tokenizer([*LISTED, "Zoë Zoë"], "exact", 400)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == text
    assert tokenizer.unk_token_id not in ids


def test_a_command_has_the_same_tokens_in_a_list_and_in_a_reply() -> None:
    tokenizer = make_tokenizer(LISTED, "exact", 400, ["<action>", "</action>"])
    listed, bare, tagged = (
        tokenizer(text, add_special_tokens=False)["input_ids"]
        for text in ("- Open the Oak Door\n", "Open the Oak Door", "<action>Open the Oak Door</action>")
    )
    assert listed[1:5] == bare == tagged[1:-1]
    assert len(bare) == 4


@pytest.mark.parametrize("kind", ["word", "exact", "bpe"])
def test_tags_survive_every_tokenizer(kind: str) -> None:
    reply = "<think>go on.</think><action>open the oak door</action>"
    with_tags = make_tokenizer([*LISTED, reply.lower()], kind, 400, TAGS)
    ids = with_tags(reply, add_special_tokens=False)["input_ids"]
    written = with_tags.decode(ids, skip_special_tokens=True)
    assert parse(written, reasoning=True).action == "open the oak door"
    assert parse(written, reasoning=True).outcome == "ok"
    without = make_tokenizer([*LISTED, reply.lower()], kind, 400)
    assert not set(TAGS) & set(without.get_vocab())
