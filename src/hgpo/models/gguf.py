"""From one GGUF file to a model folder in Hugging Face format: safetensors weights, config, tokenizer."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadFile, MissingExtra
from ..files import atomic_folder

PIECE = 1 << 18
"""Bytes of quantised weights that a thread unpacks at a time."""
COMPARED = 4096
"""Words whose two vectors are compared where a file has an embedding and an output matrix."""


def convert(source: Path, folder: Path, dtype: str = "bfloat16") -> None:
    """Dequantise `source` into `folder`, which appears whole or not at all."""
    if not source.is_file():
        raise BadFile(f"There is no file {source}. Give the path of a .gguf file.")
    if folder.exists():
        raise BadFile(f"{folder} exists already. Choose another folder or remove it.")
    model, tokenizer = load(source, dtype)
    with atomic_folder(folder) as partial:
        model.save_pretrained(partial, safe_serialization=True)
        tokenizer.save_pretrained(partial)


def load(source: Path, dtype: str = "bfloat16") -> tuple[Any, Any]:
    """Model and tokenizer of a GGUF file, dequantised."""
    for package in ("torch", "transformers", "gguf"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "train", "Reading a GGUF model")
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    place: dict[str, Any] = {"gguf_file": source.name}
    extra: dict[str, Any] = {}
    if hasattr(transformers, "GgufConfig"):  # from 5.11 on weights stay quantised unless asked otherwise
        extra["quantization_config"] = transformers.GgufConfig(dequantize=True)
    try:
        with _quick_reading():
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                str(source.parent), dtype=getattr(torch, dtype), trust_remote_code=False, **place, **extra
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                str(source.parent), trust_remote_code=False, **place
            )
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # what a damaged file makes a reader raise differs from version to version
        reason = " ".join(str(error).split())[:300]
        raise BadFile(
            f"{source} could not be read as a GGUF model: {reason}. Check the file's checksum, or give a model folder "
            f"in Hugging Face format instead."
        ) from error
    _tie(model)
    _forget_quantisation(model)
    _fix_tokenizer(model, tokenizer)
    return model, tokenizer


@contextlib.contextmanager
def _quick_reading() -> Iterator[None]:
    """Let a file's header be read once, from a plain array, and its weights be unpacked by all cores.

    transformers asks for the header four times (the config twice, weights, tokenizer), and a vocabulary of 150,000
    words, each a slice of a memory map, takes longer to read than the weights take to unpack.
    """
    gguf: Any = importlib.import_module("gguf")
    reader, dequantize = gguf.GGUFReader, gguf.dequantize
    with ThreadPoolExecutor() as pool:
        gguf.GGUFReader = functools.cache(_from_plain_array(reader))
        gguf.dequantize = functools.partial(_unpack, dequantize, pool)
        try:
            yield
        finally:
            gguf.GGUFReader, gguf.dequantize = reader, dequantize


def _from_plain_array(reader: type[Any]) -> type[Any]:
    """A reader whose slices are arrays: a slice of a memory map takes five times as long to make."""

    def keep(self: Any, mapped: np.ndarray) -> None:
        self.plain = mapped.view(np.ndarray)

    return type("PlainReader", (reader,), {"data": property(lambda self: self.plain, keep)})


def _unpack(dequantize: Callable[..., np.ndarray], pool: Executor, data: np.ndarray, kind: Any) -> np.ndarray:
    """`dequantize(data, kind)`, rows in pieces side by side. `data`: (rows, bytes of a row); others go as they are."""
    if data.ndim != 2 or data.nbytes < PIECE:
        return dequantize(data, kind)
    pieces = np.array_split(data, min(len(data), -(-data.nbytes // PIECE)))
    return np.concatenate(list(pool.map(lambda piece: dequantize(piece, kind), pieces)))


def _tie(model: Any) -> None:
    """Files that store a tied embedding twice: keep the output matrix for both, as their authors trained it."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head is None or model.config.tie_word_embeddings or head.weight.shape != embedding.weight.shape:
        return
    # Both copies are quantised separately, so they agree only roughly. A few thousand words tell as much as all.
    import torch

    some = slice(None, None, -(-len(head.weight) // COMPARED))
    a, b = (matrix.weight.detach()[some].float().flatten() for matrix in (head, embedding))
    if torch.nn.functional.cosine_similarity(a, b, dim=0) > 0.98:
        embedding.weight.data.copy_(head.weight.data)
        model.config.tie_word_embeddings = True
        model.tie_weights()


def _forget_quantisation(model: Any) -> None:
    """The weights are plain now; without this, saving would try to quantise them again."""
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False


def _fix_tokenizer(model: Any, tokenizer: Any) -> None:
    """The end token as the model's config has it (some files name the wrong one), and text decoded as it is."""
    tokenizer.clean_up_tokenization_spaces = False
    end = model.config.eos_token_id
    if isinstance(end, int):
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
