"""The sizes of a model, as its config.json tells them, and what follows from them; needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder-only transformer."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_heads: int
    head_size: int
    vocabulary: int
    tied: bool

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Shape | None:
        """The shape that a `config.json` describes; None when it is not that of such a model."""
        try:
            heads, hidden = int(content["num_attention_heads"]), int(content["hidden_size"])
            return cls(
                layers=int(content["num_hidden_layers"]),
                hidden=hidden,
                intermediate=int(content["intermediate_size"]),
                heads=heads,
                key_heads=int(content.get("num_key_value_heads") or heads),
                head_size=int(content.get("head_dim") or hidden // heads),
                vocabulary=int(content["vocab_size"]),
                tied=bool(content.get("tie_word_embeddings", False)),
            )
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            return None

    @property
    def layer_weights(self) -> int:
        """Weights of all linear layers of all blocks."""
        queries, keys = self.heads * self.head_size, self.key_heads * self.head_size
        attention = self.hidden * (2 * queries + 2 * keys)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def weights(self) -> int:
        """Weights in all (norms and biases, which are few, not counted)."""
        return self.layer_weights + self.vocabulary * self.hidden * (1 if self.tied else 2)

    def adapter_weights(self, rank: int) -> int:
        """Weights of adapters on all linear layers."""
        queries, keys = self.heads * self.head_size, self.key_heads * self.head_size
        ends = 2 * (self.hidden + queries) + 2 * (self.hidden + keys) + 3 * (self.hidden + self.intermediate)
        return self.layers * rank * ends

    def kept(self) -> int:
        """Numbers that one layer keeps of each token for the backward pass."""
        queries, keys = self.heads * self.head_size, self.key_heads * self.head_size
        return 4 * self.hidden + 2 * queries + 2 * keys + 2 * self.intermediate

    def cached(self) -> int:
        """Numbers that the key-value cache holds of each token."""
        return 2 * self.layers * self.key_heads * self.head_size


KNOWN = {
    "Qwen/Qwen2.5-1.5B-Instruct": Shape(28, 1536, 8960, 12, 2, 128, 151936, True),
    "Qwen/Qwen2.5-7B-Instruct": Shape(28, 3584, 18944, 28, 4, 128, 152064, False),
    "HuggingFaceTB/SmolLM2-135M-Instruct": Shape(30, 576, 1536, 9, 3, 64, 49152, True),
}
"""Models of the presets, whose config.json need not be here."""


def find_shape(path: str) -> Shape | None:
    """The shape of a model in a folder, of the presets or in the hub's local cache; None where it is not known."""
    file = Path(path) / "config.json"
    if not file.is_file():
        if path in KNOWN:
            return KNOWN[path]
        try:
            from huggingface_hub import try_to_load_from_cache

            cached = try_to_load_from_cache(path, "config.json")
        except (ImportError, ValueError):
            return None
        if not isinstance(cached, str):
            return None
        file = Path(cached)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Shape.of(content) if isinstance(content, dict) else None
