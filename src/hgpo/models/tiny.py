"""Small models made on the spot: a transformer with random weights, and a tokenizer of whole words or byte pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..config.schema import ModelConfig
from ..seeds import derive

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
