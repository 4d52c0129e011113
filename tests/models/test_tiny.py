"""Tokenizers made on the spot."""

from __future__ import annotations

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
