import re
from functools import cache

import pytest
from kunport.description import Description, describe, name_layers

import kunport

DEPTH = {"gemma3_text": 12}  # two turns of its pattern; four layers show any other


@cache
def description(model: str) -> Description:
    return describe(kunport.analyze(model, config={"num_hidden_layers": DEPTH.get(model, 4)}).graph)


def lines(model: str, group: str) -> list[str]:
    """Each line of a group with its layers, and ``*`` where it is not what a Llama does."""
    found = description(model)
    return [
        f"{'' if line.usual else '* '}{line.text} [{name_layers(line.layers, found.layers)}]"
        for line in found.groups.get(group, ())
    ]


def test_a_llama_does_what_a_llama_does():
    found = description("llama")
    assert found.understood
    assert (found.layers, found.parameters) == (4, 4 * 202_383_360 + 2 * 32_000 * 4096 + 4096)
    assert all(line.usual for group in found.groups.values() for line in group)
    assert set(found.groups) == {"attention", "positions", "norms", "MLP", "residual", "embeddings and head"}


SAID = [
    ("mistral", "attention", "that share 8 (config.num_key_value_heads) key-value heads"),
    ("mistral", "attention", "* sliding mask: the last 4096 (config.sliding_window) keys [layers 0-3]"),
    ("gemma2", "attention", "* scores capped by tanh at 50 (config.attn_logit_softcapping) [layers 0-3]"),
    ("granite", "attention", "* scores multiplied by 1 (config.attention_multiplier), not by 1 / sqrt(head size)"),
    ("gemma2", "attention", "keys [every 2nd layer from 0]"),
    ("qwen2", "attention", "* bias in self_attn.q_proj, self_attn.k_proj, self_attn.v_proj"),
    ("phi3", "attention", "* query, key and value from one projection (self_attn.qkv_proj)"),
    ("gpt_neox", "positions", "* 24 of the 96 elements of a head are rotated"),
    ("glm4", "positions", "* neighbouring elements form the rotated pairs"),
    ("gemma3_text", "positions", "base 1000000 (config.rope_parameters['full_attention']['rope_theta'])"),
    ("gemma3_text", "positions", "[every 6th layer from 5]"),
    ("smollm3", "positions", "* no rotation: attention without positions [layer 3]"),
    (
        "qwen3",
        "norms",
        "* self_attn.q_norm, self_attn.k_norm: RMS norm, epsilon 1e-06 (config.rms_norm_eps), over each head's",
    ),
    ("olmo2", "norms", "weight applied in float32"),
    ("gemma2", "norms", "weight + 1"),
    ("cohere", "norms", "* input_layernorm: layer norm, epsilon 1e-05 (config.layer_norm_eps) ["),
    ("starcoder2", "norms", "layer norm, epsilon 1e-05 (config.norm_epsilon), with a bias"),
    ("starcoder2", "MLP", "* gelu_tanh over"),
    ("starcoder2", "MLP", "no gate"),
    ("starcoder2", "MLP", "* bias in mlp.c_fc, mlp.c_proj"),
    ("glm4", "MLP", "* both halves of the gate from one projection (mlp.gate_up_proj)"),
    (
        "mixtral",
        "experts",
        "* 2 (config.num_experts_per_tok) of 8 (config.num_local_experts) experts by softmax of mlp.gate.weight",
    ),
    ("mixtral", "experts", "weights scaled to sum to 1"),
    ("mixtral", "experts", "* each expert: gated silu (mlp.experts.gate_up_proj, mlp.experts.down_proj)"),
    ("olmo2", "residual", "* self_attn: normalised after"),
    ("gemma2", "residual", "* mlp: normalised before and after"),
    ("cohere", "residual", "* attention and MLP read the same input, in parallel"),
    ("gpt_neox", "residual", "* attention and MLP read the same input, in parallel"),
    ("granite", "residual", "* mlp: normalised before, multiplied by 1 (config.residual_multiplier)"),
    ("gemma2", "embeddings and head", "* embeddings multiplied by 48 (config.hidden_size ** 0.5)"),
    ("gemma2", "embeddings and head", "* head (lm_head.weight), the same tensor as model.embed_tokens.weight"),
    ("gemma2", "embeddings and head", "* logits capped by tanh at 30 (config.final_logit_softcapping)"),
    ("granite", "embeddings and head", "* logits divided by 1 (config.logits_scaling)"),
    ("cohere", "embeddings and head", "* logits multiplied by 0.0625 (config.logit_scale)"),
    ("mamba", "operators without a name", "* conv1d"),
]


@pytest.mark.parametrize(("model", "group", "said"), SAID)
def test_what_a_model_does_differently_is_said(model, group, said):
    assert any(said in line for line in lines(model, group)), lines(model, group)


@pytest.mark.parametrize("model", sorted({model for model, _, _ in SAID}))
def test_every_line_has_its_place_in_the_source_and_every_layer_its_residual(model):
    found = description(model)
    for line in (line for group in found.groups.values() for line in group):
        assert re.fullmatch(r"transformers/\S+\.py", line.where.file), line
        assert line.where.line > 0
    assert not any("no addition" in line.text for line in found.groups["residual"])


def test_nothing_is_left_without_a_name_in_the_first_slice():
    assert not any(lines(model, "operators without a name") for model in ("mixtral", "gemma3_text", "glm4", "gpt_neox"))


def test_plain_data_says_the_verdict():
    data = description("olmo2").as_dict()
    assert data["verdict"] == "understood"
    assert data["groups"]["residual"][0]["where"]["line"] > 0
    assert all(len(digest) == 64 for digest in data["sources"].values())
