"""Tokenizers made on the spot for small models: whole words, or byte-level pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

END, UNKNOWN = "<end>", "<unk>"
# A name with its number ("drawer 1") is one thing and one token; so is each other word ("x-large", "6.5") and mark.
WORDS = r"[a-z]+ [0-9]+\b(?![-.'][a-z0-9])|\w+(?:[-.']\w+)*|[^\w\s]"


def make_tokenizer(texts: Iterable[str], kind: str, vocabulary: int) -> Any:
    """A fast tokenizer of transformers trained on `texts`.

    `word`: lower case, one token per word, mark or numbered name; unknown words become one token, so give it texts that
    cover the environment. `bpe`: byte-level pairs, which can write anything.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    if kind == "word":
        core = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
        core.normalizer = normalizers.Lowercase()
        core.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True)
        # Words joined by spaces; brackets close up so that actions such as search[red shoes] survive.
        core.decoder = decoders.Sequence(
            [
                decoders.WordPiece(prefix="##", cleanup=False),
                decoders.Fuse(),
                decoders.Replace(" [ ", "["),
                decoders.Replace(" ]", "]"),
            ]
        )
        trainer: Any = trainers.WordLevelTrainer(
            vocab_size=vocabulary, special_tokens=[END, UNKNOWN], show_progress=False
        )
    else:
        core = Tokenizer(models.BPE())
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        core.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[END, UNKNOWN],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    core.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        unk_token=UNKNOWN,
        pad_token=END,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
