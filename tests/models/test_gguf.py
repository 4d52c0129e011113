"""A real GGUF file, written here, becomes a model folder."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from hgpo.models import gguf as ours
from hgpo.models.gguf import convert

WIDTH, INNER, HEADS, KV_HEADS = 64, 96, 4, 2
WORDS = [*map(chr, range(ord("!"), ord("~") + 1)), "Ġ", "go", "Ġto", "to", "<|endoftext|>", "<|im_end|>"]
MERGES = ["g o", "t o", "Ġ to"]
NORMS = {"output_norm": "model.norm", "blk.0.attn_norm": "model.layers.0.input_layernorm"}
LINEAR = {
    "blk.0.attn_q": ("self_attn.q_proj", WIDTH, WIDTH),
    "blk.0.attn_k": ("self_attn.k_proj", WIDTH // HEADS * KV_HEADS, WIDTH),
    "blk.0.attn_v": ("self_attn.v_proj", WIDTH // HEADS * KV_HEADS, WIDTH),
    "blk.0.attn_output": ("self_attn.o_proj", WIDTH, WIDTH),
    "blk.0.ffn_gate": ("mlp.gate_proj", INNER, WIDTH),
    "blk.0.ffn_up": ("mlp.up_proj", INNER, WIDTH),
    "blk.0.ffn_down": ("mlp.down_proj", WIDTH, INNER),
}


def write(path: Path, noise: float = 0.01) -> dict[str, np.ndarray]:
    """A Qwen2 of one layer, embedding and output stored as two copies that differ a little, gate quantised."""
    draws = np.random.default_rng(0)
    tensors = {name: draws.normal(size=shape) * 0.1 for name, (_, *shape) in LINEAR.items()}
    tensors = {f"{name}.weight": value for name, value in tensors.items()}
    for name in ("attn_q", "attn_k", "attn_v"):
        tensors[f"blk.0.{name}.bias"] = draws.normal(size=len(tensors[f"blk.0.{name}.weight"]))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        tensors[f"{name}.weight"] = draws.uniform(0.5, 1.5, size=WIDTH)
    tensors["output.weight"] = draws.normal(size=(len(WORDS), WIDTH))
    tensors["token_embd.weight"] = tensors["output.weight"] + draws.normal(size=(len(WORDS), WIDTH)) * noise
    tensors = {name: value.astype(np.float32) for name, value in tensors.items()}
    out = gguf.GGUFWriter(path, "qwen2")
    out.add_block_count(1)
    out.add_context_length(128)
    out.add_embedding_length(WIDTH)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_freq_base(10000.0)
    out.add_tokenizer_model("gpt2")
    out.add_token_list(WORDS)
    out.add_token_types([gguf.TokenType.NORMAL] * (len(WORDS) - 2) + [gguf.TokenType.CONTROL] * 2)
    out.add_token_merges(MERGES)
    out.add_eos_token_id(len(WORDS) - 1)
    out.add_pad_token_id(len(WORDS) - 2)
    eight = gguf.GGMLQuantizationType.Q8_0
    for name, value in tensors.items():
        if "ffn_gate" in name:
            out.add_tensor(name, gguf.quants.quantize(value, eight), raw_dtype=eight)
        else:
            out.add_tensor(name, value)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return tensors


def test_a_gguf_file_becomes_a_model_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write(tmp_path / "small.gguf")
    opened: list[str] = []

    class Counted(gguf.GGUFReader):
        def __init__(self, path: str) -> None:
            opened.append(path)
            super().__init__(path)

    monkeypatch.setattr(gguf, "GGUFReader", Counted)
    convert(tmp_path / "small.gguf", tmp_path / "model", "float32")
    assert len(opened) <= 1, (
        "the header is read once (later releases of transformers have a reader of their own)"
    )
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert len(modes) == 1, "whoever may read one of the files may read all"
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    weights = dict(model.named_parameters())
    for name, (theirs, *_) in LINEAR.items():
        exact = "gate" not in name
        value = weights[f"model.layers.0.{theirs}.weight"].detach().numpy()
        np.testing.assert_allclose(value, written[f"{name}.weight"], atol=0 if exact else 2e-3)
    for name, theirs in NORMS.items():
        np.testing.assert_array_equal(weights[f"{theirs}.weight"].detach().numpy(), written[f"{name}.weight"])
    assert model.config.tie_word_embeddings
    np.testing.assert_array_equal(
        model.get_input_embeddings().weight.detach().numpy(), written["output.weight"]
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    ids = tokenizer("go to", add_special_tokens=False)["input_ids"]
    assert [WORDS[one] for one in ids] == ["go", "Ġto"]
    assert tokenizer.decode(ids) == "go to"
    assert tokenizer.eos_token == "<|im_end|>"
    with torch.no_grad():
        assert torch.isfinite(model(torch.tensor([ids])).logits).all()


@pytest.mark.filterwarnings("ignore:invalid value")  # random bytes hold infinite scales
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_K", "Q6_K", "F16", "F32"])
def test_weights_unpacked_in_pieces_are_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = gguf.GGMLQuantizationType[kind]
    width = gguf.quants.quant_shape_to_byte_shape((1, 512), kind)[-1]
    packed = np.random.default_rng(0).integers(0, 256, (67, width), dtype=np.uint8)
    whole = gguf.dequantize(packed, kind)
    pieces: list[int] = []
    monkeypatch.setattr(
        gguf,
        "dequantize",
        lambda data, kind, real=gguf.dequantize: pieces.append(len(data)) or real(data, kind),
    )
    monkeypatch.setattr(ours, "PIECE", 5 * width)
    with ours._quick_reading():
        found = gguf.dequantize(packed, kind)
    assert [len(pieces), sum(pieces)] == [14, 67]
    assert found.shape == whole.shape
    np.testing.assert_array_equal(found.view(np.uint8), whole.view(np.uint8))


@pytest.mark.parametrize(("noise", "tied"), [(0.01, True), (1.0, False)])
def test_two_copies_of_an_embedding_become_one_if_they_are_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: float, tied: bool
) -> None:
    monkeypatch.setattr(ours, "COMPARED", 10)
    write(tmp_path / "small.gguf", noise)
    model, _ = ours.load(tmp_path / "small.gguf", "float32")
    assert model.config.tie_word_embeddings == tied
    same = model.get_input_embeddings().weight.equal(model.get_output_embeddings().weight)
    assert same == tied
