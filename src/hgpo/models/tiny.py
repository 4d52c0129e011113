"""Small models made on the spot: a transformer with random weights, and a tokenizer of whole words or byte pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..config.schema import ModelConfig
from ..seeds import derive

END, UNKNOWN = "<end>", "<unk>"
# A name with its number ("drawer 1") is one thing and one token; so is each other word ("x-large", "6.5") and mark.
WORDS = r"[a-z]+ [0-9]+\b(?![-.'][a-z0-9])|\w+(?:[-.']\w+)*|[^\w\s]"


# Marks of `exact` texts: joined to what stands before it, a line end, a tab, a space that is not the one between words.
JOINED, LINE, TAB, SPACE = "\u2040", "\u23ce", "\u21e5", "\u2423"


def make_tokenizer(texts: Iterable[str], kind: str, vocabulary: int, tags: Sequence[str] = ()) -> Any:
    """A fast tokenizer of transformers trained on `texts`.

    `word`: lower case, one token per word, mark or numbered name; unknown words become one token, so give it texts that
    cover the environment. `exact`: one token per word or mark as it stands, unknown words in pieces; writes every text
    as it was, capitals, spaces and lines. `bpe`: byte-level pairs, which can write anything. Each of `tags` is a token
    of its own in all of them.
    """
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    make = {"word": _words, "exact": _exact, "bpe": _pairs}[kind]
    core = make(texts, vocabulary - len(tags))
    core.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in tags])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        unk_token=UNKNOWN,
        pad_token=END,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def _words(texts: Iterable[str], vocabulary: int) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

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
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocabulary, special_tokens=[END, UNKNOWN], show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    return core


def _exact(texts: Iterable[str], vocabulary: int) -> Any:
    """Words by their frequency, and all letters, each also in the form that is joined to what stands before it.

    A command has the same tokens in a list of commands and in a reply, so a small model learns to copy it.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    normal = normalizers.Sequence(
        [
            normalizers.Replace("\r", ""),
            normalizers.Replace(Regex(r"(?<=[ \n\t]) |^ "), SPACE),
            normalizers.Replace("\n", LINE),
            normalizers.Replace("\t", TAB),
            normalizers.Replace(Regex(r"(?<=\S)(?=[^\w\s])|(?<=[^\w\s])(?=\S)"), f" {JOINED}"),
        ]
    )
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normal.normalize_str(text).split())
    letters = dict.fromkeys(
        [*map(chr, range(33, 127)), LINE, TAB, SPACE, *sorted(set("".join(counts)) - {JOINED})]
    )
    known = [END, UNKNOWN, *letters, *(JOINED + letter for letter in letters)]
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    # A word that stands in one place only says little; in pieces it can still be read and written.
    words = [word for word in frequent if counts[word] > 1][: max(0, vocabulary - len(known))]
    table = {word: number for number, word in enumerate(dict.fromkeys([*known, *words]))}
    core = Tokenizer(
        models.WordPiece(
            table, unk_token=UNKNOWN, continuing_subword_prefix=JOINED, max_input_chars_per_word=1000
        )
    )
    core.normalizer = normal
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix=JOINED, cleanup=False),
            decoders.Fuse(),
            *(decoders.Replace(mark, text) for mark, text in ((LINE, "\n"), (TAB, "\t"), (SPACE, " "))),
        ]
    )
    return core


def _pairs(texts: Iterable[str], vocabulary: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

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
    return core


def make_tiny(config: ModelConfig, vocabulary: int, end_id: int, seed: int, positions: int) -> Any:
    """A small causal language model with random weights decided by `seed`.

    Qwen2's shape (rotary positions, gated feed-forward, RMS norms) under Llama's name: for folders that say Qwen2,
    transformers loads Qwen2's own tokenizer whatever the folder holds.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=end_id,
        # The usual 0.02 suits wide layers; narrow ones start far too quietly with it.
        initializer_range=config.hidden**-0.5 / 2,
        attn_implementation=config.attention,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive("weights", seed) % 2**63)
        return LlamaForCausalLM(shape)
