"""Models in Hugging Face format: loaded from a folder, the hub or a GGUF file, and saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from ..config.schema import ModelConfig
from ..errors import BadFile
from .blueprint import Blueprint
from .device import DTYPES, check_dtype
from .folder import check_model
from .lora import ADAPTERS, base_of, merge_into, merged
from .packed import played_weights
from .sharded import is_sharded, whole
from .source import check_source
from .tensors import write_tensors


def load_model(path: str, config: ModelConfig, device: torch.device) -> tuple[Any, Any]:
    """Model and tokenizer from a folder or the hub; weights in safetensors only, no remote code.

    Adapters are merged into the model that they belong to.
    """
    hide_progress_bars()
    check_dtype(config.dtype, device)
    check_source(path)
    check_model(Path(path))
    if (Path(path) / ADAPTERS).is_file():
        base, _ = load_model(base_of(Path(path)), config, device)
        return merge_into(base, Path(path)), load_tokenizer(path)
    if path.endswith(".gguf"):
        from .gguf import load as load_gguf

        model, tokenizer = load_gguf(Path(path), config.dtype)
        return model.to(device), tokenizer
    try:
        tokenizer = load_tokenizer(path)
        model = load_weights(path, DTYPES[config.dtype], config.attention)
    except (OSError, ValueError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise BadFile(
            f"Cannot load a model from {path!r}: {reason}. Get it again if a file is damaged, or give another "
            "folder in Hugging Face format, a hub id (with access to the hub; HF_HOME is honoured), or model=tiny."
        ) from error
    return model.to(device), tokenizer


def load_weights(path: str, dtype: torch.dtype, attention: str = "sdpa") -> Any:
    """The model alone, on the CPU; errors are those of transformers.

    Raises:
        ValueError: the weights are not those of the model that the folder's config.json describes. transformers would
            fill what is missing with random numbers.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    loud = logging.get_verbosity()
    logging.set_verbosity_error()  # its report of the weights that do not fit is an error here
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=dtype,
            attn_implementation=attention,
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    finally:
        logging.set_verbosity(loud)
    for kind, problem in (
        ("mismatched_keys", "of another shape"),
        ("missing_keys", "missing"),
        ("unexpected_keys", "not part of the model"),
    ):
        names = sorted(str(one if isinstance(one, str) else one[0]) for one in found.get(kind) or ())
        if names:
            raise ValueError(
                f"its weights are not those of the model that its config.json describes: {len(names)} "
                f"{problem}, such as {names[0]}"
            )
    return model


def load_tokenizer(path: str) -> Any:
    """The tokenizer of a folder or hub id; a folder's own tokenizer.json is not second-guessed."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    settings = Path(path) / "tokenizer_config.json"
    if settings.is_file():
        kind = json.loads(settings.read_text(encoding="utf-8")).get("tokenizer_class")
        if kind in ("TokenizersBackend", "PreTrainedTokenizerFast"):
            return PreTrainedTokenizerFast.from_pretrained(path, trust_remote_code=False)
    return AutoTokenizer.from_pretrained(path, trust_remote_code=False)


def save_model(model: Any, tokenizer: Any, folder: Path | None, *, merge: bool = True) -> None:
    """Write Hugging Face format: safetensors weights, config, tokenizer.

    Adapters are merged into a copy; without `merge` they are written alone (PEFT's format), which is a small
    fraction of the model and names the base it belongs to.

    A model that is spread over processes is written tensor by tensor, and all of them must call this together; those
    that do not write give no `folder`.
    """
    hide_progress_bars()
    if is_sharded(model):
        (_save_sharded if merge or not hasattr(model, "merge_and_unload") else _save_adapters)(model, folder)
    elif folder is not None:
        (merged(model) if merge else model).save_pretrained(folder, safe_serialization=True)
    if folder is not None:
        tokenizer.save_pretrained(folder)


def _save_sharded(model: Any, folder: Path | None) -> None:
    """The policy of a sharded model, adapters folded in."""
    if folder is None:
        for _ in played_weights(model):  # each is put together by all processes
            pass
        return
    empty = Blueprint.of(model).build()
    empty.config.architectures = [type(empty).__name__]
    empty.config.save_pretrained(folder)
    if empty.can_generate():
        empty.generation_config.save_pretrained(folder)
    names = [name for name, _ in empty.named_parameters()]
    write_tensors(folder / "model.safetensors", played_weights(model), names)


def _save_adapters(model: Any, folder: Path | None) -> None:
    """The adapters of a sharded model alone; they are small."""
    adapters = {
        name: whole(weight.detach()).cpu() for name, weight in model.named_parameters() if ".lora_" in name
    }
    if folder is not None:
        model.save_pretrained(folder, state_dict=adapters, safe_serialization=True)


def hide_progress_bars() -> None:
    """No progress bars of transformers: a run has its own line."""
    from transformers.utils import logging

    logging.disable_progress_bar()
