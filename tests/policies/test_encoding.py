"""Encoding prompts with and without the chat template's own rendering."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from hgpo.errors import BadFile
from hgpo.models.tiny import make_tokenizer
from hgpo.policies.encoding import PromptEncoder

PLAIN = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}go:{% endif %}"
)
TRIMS = PLAIN.replace("m['content'] }}", "m['content'] | trim }}")
TWICE = PLAIN.replace("<|end|>", "<|end|>{{ m['content'] }}")
# Treats one kind of message differently: nothing the marker could show, save that an empty message is left out.
SKIPS = PLAIN.replace("{{ m['content'] }}", "{% if m['content'] %}said {{ m['content'] }}{% endif %}")

PROMPTS = ["go to shelf 1", " leading and trailing \n", "", "two\nlines"]


def tokenizer(template: str | None) -> Any:
    found = make_tokenizer(["go to shelf 1 <|user|> <|end|> said two lines leading and trailing"], "bpe", 300)
    found.chat_template = template
    return found


def rendered(tok: Any, prompt: str) -> list[int]:
    if tok.chat_template is None:
        return list(tok.encode(prompt, add_special_tokens=False))
    found = tok.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return list(found)


@pytest.mark.parametrize("template", [None, PLAIN, TRIMS, TWICE, SKIPS])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_same_ids_as_rendering_every_time(template: str | None, prompt: str) -> None:
    tok = tokenizer(template)
    assert list(PromptEncoder(tok)(prompt)) == rendered(tok, prompt)


def test_only_templates_that_leave_the_message_alone_are_rendered_once() -> None:
    assert PromptEncoder(tokenizer(PLAIN)).ends == ("<|user|>\n", "<|end|>\ngo:")
    assert PromptEncoder(tokenizer(None)).ends == ("", "")
    for template in (TRIMS, TWICE, SKIPS):
        assert PromptEncoder(tokenizer(template)).ends is None


def test_equal_prompts_are_encoded_once() -> None:
    tok = tokenizer(PLAIN)
    encoder = PromptEncoder(tok)
    first = encoder("go to shelf 1")
    assert encoder("go to shelf 1") is first
    assert encoder.many(["two", "go to shelf 1", "two"])[1] is first


@pytest.mark.parametrize("template", [None, PLAIN, TRIMS])
def test_together_as_one_by_one(template: str | None) -> None:
    tok = tokenizer(template)
    asked = PROMPTS * 3 + [f"go to shelf {number}" for number in range(20)]
    assert PromptEncoder(tok).many(asked) == [tuple(rendered(tok, prompt)) for prompt in asked]


def test_old_prompts_are_forgotten() -> None:
    encoder = PromptEncoder(tokenizer(PLAIN), remember=3)
    found = encoder.many([f"shelf {number}" for number in range(8)])
    assert list(encoder.known) == ["shelf 5", "shelf 6", "shelf 7"]
    assert encoder("shelf 0") == found[0]


@pytest.mark.parametrize(
    "template",
    ["{{ ''.__class__.__mro__ }}", "{{ raise_exception('not like this') }}", "{% for %}", "{{ 1 / 0 }}"],
)
def test_a_template_that_fails_is_the_models_fault(template: str) -> None:
    with pytest.raises(BadFile, match=r"The chat template of .* cannot be used: "):
        PromptEncoder(tokenizer(template))
