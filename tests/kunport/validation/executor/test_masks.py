"""Attention masks against Transformers' own, the authority for what a kind means."""

from __future__ import annotations

import pytest
import torch
from kunport.errors import KunportError
from kunport.validation.executor.masks import additive_mask
from transformers import DynamicCache, LlamaConfig, masking_utils

KINDS = {
    "causal": masking_utils.create_causal_mask,
    "sliding": masking_utils.create_sliding_window_causal_mask,
    "chunked": masking_utils.create_chunked_causal_mask,
    "bidirectional": masking_utils.create_bidirectional_mask,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mask_is_that_of_transformers(kind: str, dtype: torch.dtype) -> None:
    config = LlamaConfig(sliding_window=4, attention_chunk_size=4, attn_implementation="eager")
    states = torch.zeros(2, 11, 8, dtype=dtype)
    arguments = {"config": config, "inputs_embeds": states, "attention_mask": None}
    if kind != "bidirectional":
        arguments |= {"past_key_values": None, "position_ids": None}
    expected = KINDS[kind](**arguments)
    if expected is None:  # nothing is hidden
        expected = torch.zeros(2, 1, 11, 11, dtype=dtype)
    mask = additive_mask(kind, 4, 2, 11, dtype, torch.device("cpu"))
    assert mask.dtype == expected.dtype
    assert torch.equal(mask, expected.expand_as(mask))


def test_window_is_needed_where_the_kind_has_one() -> None:
    with pytest.raises(KunportError, match="kind sliding with window None"):
        additive_mask("sliding", None, 1, 2, torch.float32, torch.device("cpu"))


@pytest.mark.parametrize("past", [2, 3, 4, 9])
@pytest.mark.parametrize("kind", ["causal", "sliding", "chunked"])
def test_mask_of_a_step_is_that_of_transformers(kind: str, past: int) -> None:
    """The cache holds all keys, or those of the window before the new token."""
    config = LlamaConfig(sliding_window=4, attention_chunk_size=4, attn_implementation="eager", num_hidden_layers=1)
    config.layer_types = [{"causal": "full_attention"}.get(kind, f"{kind}_attention")]
    cache = DynamicCache(config=config)
    held = torch.zeros(2, 1, past, 8)
    cache.update(held, held, 0)
    states = torch.zeros(2, 1, 8)
    expected = KINDS[kind](
        config=config, inputs_embeds=states, attention_mask=None, past_key_values=cache, position_ids=None
    )
    keys = cache.layers[0].keys.shape[-2] + 1
    mask = additive_mask(kind, 4, 2, 1, torch.float32, torch.device("cpu"), keys=keys, seen=past + 1)
    assert torch.equal(mask, expected.expand_as(mask))
